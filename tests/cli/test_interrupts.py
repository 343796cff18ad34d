"""Interrupts from the keyboard, and forks, while commits are under way: real signals in a process of its own."""

import contextlib
import linecache
import signal
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from oms_journal import CommitFailed, MessageDatabase, Options
from oms_journal.broker.embedded.interrupts import apart
from oms_journal.journal.writing import group_commit
from tests.support.cli_runner import run_program
from tests.support.disks.small_files import MODEST
from tests.support.disks.watched_disk import TIMEOUT_SECONDS, WatchedDisk
from tests.support.sweeps import sampled


def test_the_child_of_a_fork_has_a_closed_database(tmp_path: Path) -> None:
    program = """
        import os, sys
        from oms_journal import DatabaseClosed, MessageDatabase
        with MessageDatabase.open(sys.argv[1]) as db:
            db.add("q", b"before")
            child = os.fork()
            if not child:
                try:
                    db.add("q", b"from the child")
                except DatabaseClosed:
                    os._exit(0)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            db.add("q", b"after")
            try:
                MessageDatabase.open(sys.argv[1])
            except Exception as failure:
                print(type(failure).__name__, [m.payload for m in db.undelivered()])
    """
    done = run_program(program, tmp_path)

    assert done.stdout.strip() == "DatabaseLocked [b'before', b'after']", done.stderr


INTERRUPTED = """
    import sys, threading
    from oms_journal import CommitFailed, MessageDatabase
    from oms_journal.database import maintenance
    from tests.support.ctrl_c import CtrlC
    from tests.support.disks.watched_disk import WatchedDisk

    ctrl_c = CtrlC()
    maintenance.VOUCH_SECONDS = 3600  # nobody commits but who is named below
    disk = WatchedDisk()
    db = MessageDatabase.open(sys.argv[1], disk=disk, cleanup_interval=0)
    db.add("q", b"durable")
    with disk.held():
        leader = None
        if sys.argv[2] == "waiting":
            leader = threading.Thread(target=db.add, args=("q", b"leading"))
            leader.start()
            disk.wait_for_write()
        def interrupt():
            disk.wait_for_write()
            while sys.argv[2] == "waiting" and not db._group._queue:
                pass
            if sys.argv[2] == "leading":
                ctrl_c.press(disk.release)  # it is seen when the system call is over
            else:
                ctrl_c.press()
        sender = threading.Thread(target=interrupt)
        sender.start()
        try:
            db.add("q", b"interrupted")
            print("no interrupt")
        except KeyboardInterrupt:
            pass
        sender.join()
    if leader:
        leader.join()
    others = []
    def add():
        try:
            others.append(db.add("q", b"later"))
        except CommitFailed as failure:
            others.append(type(failure).__name__)
    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    db.close()
    with MessageDatabase.open(sys.argv[1]) as again:
        found = [message.payload for message in again.undelivered()]
        print(found.count(b"durable"), found.count(b"leading"), found.count(b"interrupted") <= 1)
        print(sorted(map(str, others)), found.count(b"later"))
"""


def test_an_interrupt_while_waiting_for_another_thread_harms_no_other_commit(tmp_path: Path) -> None:
    done = run_program(INTERRUPTED, tmp_path, "waiting")

    lines = done.stdout.splitlines()
    assert lines[0] == "1 1 True", done.stderr
    assert lines[1].endswith(" 4"), "the others go on"


def test_an_interrupt_in_the_writing_thread_is_final_and_wakes_everyone(tmp_path: Path) -> None:
    done = run_program(INTERRUPTED, tmp_path, "leading")

    lines = done.stdout.splitlines()
    assert lines[0] == "1 0 True", done.stderr
    assert lines[1] == "['NotAttempted', 'NotAttempted', 'NotAttempted', 'NotAttempted'] 0"


STORM = """
    import faulthandler, os, random, signal, sys, threading, time
    from oms_journal import CommitFailed, MessageDatabase

    faulthandler.dump_traceback_later(50, exit=True)
    chance = random.Random(int(sys.argv[2]))

    def add(db, answered, done):
        try:
            while not done.is_set():
                answered.append(db.add("q", b"other"))
        except CommitFailed:
            pass

    def interrupt(done):
        time.sleep(chance.random() / 100)
        os.kill(os.getpid(), signal.SIGINT)
        done.set()

    def main_thread(db, answered, done):
        try:
            while not done.is_set():
                answered.append(db.add("q", b"main"))
        except CommitFailed:
            pass

    total = 0
    for _ in range(int(sys.argv[3])):
        answered, done = [], threading.Event()
        db = MessageDatabase.open(sys.argv[1], cleanup_interval=0)
        threads = [threading.Thread(target=add, args=(db, answered, done)) for _ in range(3)]
        for thread in threads:
            thread.start()
        threads.append(threading.Thread(target=interrupt, args=(done,)))
        try:
            threads[-1].start()
            main_thread(db, answered, done)
            done.wait()
            time.sleep(1)  # the interrupt comes here at the latest
        except KeyboardInterrupt:
            pass
        for thread in threads:
            thread.join()
        db.close()
        with MessageDatabase.open(sys.argv[1]) as again:
            assert set(answered) <= set(again.numbers("q"))
            again.delete_many(again.numbers("q"))
            again.cleanup()
        total += 1
    print(total)
"""


@pytest.mark.parametrize("seed", sampled(range(2), 1))
def test_interrupts_at_any_moment_hang_nobody_and_lose_nothing_answered(seed: int, tmp_path: Path) -> None:
    done = run_program(STORM, tmp_path, seed, 15)

    assert done.stdout == "15\n", (seed, done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_interrupts_at_any_moment_hang_nobody_and_lose_nothing_answered(seed: int, tmp_path: Path) -> None:
    done = run_program(STORM, tmp_path, seed, 100)

    assert done.stdout == "100\n", (seed, done.stderr)


class _Interrupt:
    """Raises KeyboardInterrupt in this thread at the n-th line that it executes of group commit."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.count = 0

    def __enter__(self) -> None:
        sys.settrace(self._called)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        return self._reached if frame.f_code.co_filename == group_commit.__file__ else None

    def _reached(self, frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        # The interpreter looks for no signal between a lock and the block that it guards.
        is_lock = linecache.getline(group_commit.__file__, frame.f_lineno).strip().startswith("with self._lock")
        if event == "line" and not is_lock:
            self.count += 1
            if self.count == self.line:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._reached


@pytest.mark.parametrize("leads", [True, False])
def test_an_interrupt_at_any_line_of_group_commit_hangs_nobody(leads: bool, tmp_path: Path) -> None:
    for line in count(1):
        disk = WatchedDisk()
        options = Options.of(max_data_file_size=MODEST, cleanup_interval=0)
        db = MessageDatabase.open(tmp_path / str(line), options=options, disk=disk)
        db.add("q", b"durable")
        answers: list[object] = []

        def add(db: MessageDatabase = db, answers: list[object] = answers) -> None:
            try:
                answers.append(db.add("q", b"other"))
            except CommitFailed as failure:
                answers.append(failure)

        others = [threading.Thread(target=add, daemon=True) for _ in range(2)]
        interrupt = _Interrupt(line)
        with disk.held():
            if not leads:
                others[0].start()
                disk.wait_for_write()
                threading.Timer(0.01, disk.release).start()
            else:
                disk.release()
            with contextlib.suppress(KeyboardInterrupt), interrupt:
                db.add("q", b"interrupted")
        for thread in others:
            if thread.ident is None:
                thread.start()
        for thread in others:
            thread.join(TIMEOUT_SECONDS)
        assert len(answers) == 2, f"interrupted at the {line}th line: {answers}"
        db.close()
        if interrupt.count < line:
            return


CLOSING = """
    import signal, sys
    from oms_journal import MessageDatabase

    class Alarm(Exception):
        pass

    def alarm(*_):
        raise Alarm

    signal.signal(signal.SIGALRM, alarm)
    interrupts = 0
    for n in range(150):
        db = MessageDatabase.open(sys.argv[1], cleanup_interval=0)
        assert db.undelivered_count() == n
        db.add("q", b"x")
        for _ in range(50):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + n * 7 % 400))
                db.close()
                signal.setitimer(signal.ITIMER_REAL, 0)
                break
            except Alarm:
                interrupts += 1
        db.close()
    assert interrupts > 10, interrupts
    print("closed")
"""


@pytest.mark.whole
def test_a_close_that_was_interrupted_is_finished_by_the_next(tmp_path: Path) -> None:
    done = run_program(CLOSING, tmp_path)

    assert done.stdout.strip() == "closed", done.stderr


COMMITTING = """
    import signal, sys
    from oms_journal import CommitFailed, MessageDatabase

    class Alarm(Exception):
        pass

    def alarm(*_):
        raise Alarm

    signal.signal(signal.SIGALRM, alarm)
    interrupts, sure = 0, []
    for n in range(250):
        db = MessageDatabase.open(sys.argv[1], cleanup_interval=0)
        there = {message.payload for message in db.undelivered()}
        assert there >= {payload for payload in sure}, "what was acknowledged is there"
        for step in range(6):
            payload = b"%d/%d" % (n, step)
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (5 + (n * 31 + step * 17) % 300))
                db.add(f"{n}-{step}", payload)
                signal.setitimer(signal.ITIMER_REAL, 0)
                sure.append(payload)
            except Alarm:
                interrupts += 1
            except CommitFailed:
                break
        signal.setitimer(signal.ITIMER_REAL, 0)
        db.close()
    assert interrupts > 10, interrupts
    print("committed")
"""


@pytest.mark.whole
def test_an_interrupted_commit_hangs_and_breaks_nothing_that_comes_later(tmp_path: Path) -> None:
    done = run_program(COMMITTING, tmp_path)

    assert done.stdout.strip() == "committed", done.stderr


def test_work_apart_goes_on_when_who_waits_for_it_is_interrupted() -> None:
    began, ends, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        ends.wait(TIMEOUT_SECONDS)
        done.set()

    main = threading.get_ident()

    def interrupt() -> None:
        assert began.wait(TIMEOUT_SECONDS)
        signal.pthread_kill(main, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        apart(work)
    interrupting.join()
    ends.set()
    assert done.wait(TIMEOUT_SECONDS)


def test_work_apart_returns_and_raises_as_any_in_whatever_thread() -> None:
    def check() -> None:
        assert apart(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            apart(lambda: 1 // 0)

    check()
    failed: list[BaseException] = []

    def checked() -> None:
        try:
            check()
        except BaseException as failure:
            failed.append(failure)

    thread = threading.Thread(target=checked)
    thread.start()
    thread.join()
    assert not failed
