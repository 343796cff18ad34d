"""Real processes on a real file system: killed at any moment, stopped and overtaken, forked, two at once.

A killed process leaves the page cache as it is: these tests are about what the engine has in memory, about
locks and about threads. What a power cut leaves is in `test_crash_power_cut.py`.
"""

import contextlib
import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MethodType
from typing import IO, Any

import pytest

from oms_journal import MessageDatabase
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import DatabaseClosed, DatabaseLocked
from oms_journal.journal.lock import read_holder
from tests.support.crashes.crash_model import Account, State, state_of
from tests.support.crashes.crash_writer import FILE_BYTES, THREADS, enter
from tests.support.forking import forked
from tests.support.project import PYTHONPATH, REPOSITORY
from tests.support.sweeps import sampled
from tests.support.warm_starts import Process

LOCKS = (type(threading.Lock()), type(threading.RLock()))
ENGINE = tuple(f"oms_journal.{folder}." for folder in ("database", "index", "journal", "recovery"))
OPTIONS = {"max_data_file_size": FILE_BYTES, "cleanup_interval": 0}


@contextlib.contextmanager
def writer(directory: Path, seed: str, *flags: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that writes into the directory."""
    command = [sys.executable, "-m", "tests.support.crashes.crash_writer", str(directory), seed, *flags]
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    process: Process[bytes] = Process(command, stdout=subprocess.PIPE, cwd=REPOSITORY, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def lines_of(process: "subprocess.Popen[bytes]") -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


def enter_all(accounts: dict[int, Account], lines: IO[bytes], *, count: int | None = None) -> list[dict[str, object]]:
    """Enter so many lines, or all up to the end, into the accounts; return them. A cut line says nothing."""
    read: list[dict[str, object]] = []
    while count is None or len(read) < count:
        line = lines.readline()
        if not line.endswith(b"\n"):
            break
        read.append(json.loads(line))
        enter(accounts, read[-1])
    return read


def part_of(state: State, thread: int) -> State:
    """Return what of a state one thread of the writer has to do with."""
    messages = {number: one for number, one in state.messages.items() if one.queue == f"thread-{thread}"}
    return State(messages, {key: value for key, value in state.keys.items() if key.startswith(f"key-{thread}/")})


def check(accounts: dict[int, Account], database: MessageDatabase, where: str) -> None:
    """Check what a start has found, and go on from there."""
    assert database.recovery.lost == (), where
    state = state_of(database)
    for thread, account in accounts.items():
        found = part_of(state, thread)
        assert account.allows(found), (where, thread)
        account.state, account.in_flight = found, None
    known = [part_of(state, thread).messages for thread in range(THREADS)]
    assert sum(map(len, known)) == len(state.messages), where


def kill_again_and_again(directory: Path, seed: int, rounds: int) -> int:
    """Kill the writer at random moments, so many times; return how many commits it had acknowledged."""
    chance = random.Random(seed)
    accounts: dict[int, Account] = {}
    acknowledged = 0
    for turn in range(rounds):
        with writer(directory, f"{seed}/{turn}") as process:
            if turn % 5 == 4:
                time.sleep(chance.uniform(0.05, 0.5))  # in the middle of its start, perhaps
            else:
                enter_all(accounts, lines_of(process), count=chance.randint(1, 600))
                time.sleep(chance.uniform(0, 0.01))
            process.kill()
            process.wait()
            enter_all(accounts, lines_of(process))
        with MessageDatabase.open(directory, **OPTIONS) as database:  # type: ignore[arg-type]
            check(accounts, database, f"seed {seed}, round {turn}")
        acknowledged = sum(account.highest > 0 for account in accounts.values())
    return acknowledged


@pytest.mark.parametrize(("seed", "rounds"), [(1, 3), pytest.param(2, 8, marks=pytest.mark.whole)])
def test_a_process_that_is_killed_at_any_moment_loses_nothing(tmp_path: Path, seed: int, rounds: int) -> None:
    assert kill_again_and_again(tmp_path / "spool", seed=seed, rounds=rounds) == THREADS


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 13))
def test_nor_when_it_is_killed_hundreds_of_times(tmp_path: Path, seed: int) -> None:
    assert kill_again_and_again(tmp_path / "spool", seed=seed, rounds=50) == THREADS


def test_a_second_process_is_told_who_has_the_directory(tmp_path: Path) -> None:
    with writer(tmp_path / "spool", "1") as process:
        enter_all({}, lines_of(process), count=3)
        with pytest.raises(DatabaseLocked) as locked:
            MessageDatabase.open(tmp_path / "spool")
        assert (locked.value.pid, locked.value.host) == (process.pid, socket.gethostname()[:64])
        process.kill()
        process.wait()
    MessageDatabase.open(tmp_path / "spool").close()


@pytest.mark.whole
@pytest.mark.parametrize(("is_leased", "is_stopped"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("seed", sampled(range(3), 1))
def test_an_owner_that_was_overtaken_acknowledges_nothing_more(
    tmp_path: Path, seed: int, is_leased: bool, is_stopped: bool
) -> None:
    """Its lock looks free, as after the lease of a network file system, or is held and passed since it is silent.

    It may be stopped meanwhile, or not. It renews so seldom that only its commits can find out.
    """
    chance, directory = random.Random(seed), tmp_path / "spool"
    accounts: dict[int, Account] = {}
    with writer(directory, f"{seed}", *["leased"] * is_leased) as process:
        enter_all(accounts, lines_of(process), count=chance.randint(10, 300))
        while (silent := read_holder(RealDisk(), directory)) is None or not silent.count:
            time.sleep(0.01)
        assert silent.is_open is not is_leased
        if is_stopped:
            process.send_signal(signal.SIGSTOP)
        options = OPTIONS | {"passing": silent, "is_shared": True}
        with MessageDatabase.open(directory, **options) as database:  # type: ignore[arg-type]
            found = state_of(database)
            mine = [database.add("taken over", b"by another") for _ in range(40)]
            process.send_signal(signal.SIGCONT)
            lines = enter_all(accounts, lines_of(process))
            assert process.wait() == 0
            mine += [database.add("taken over", b"by another") for _ in range(40)]
        failures = [line["kind"] for line in lines if line["what"] == "failed"]
        assert len(failures) == THREADS
        assert set(failures) <= {"OutcomeUnknown", "NotAttempted"}
    for thread, account in accounts.items():
        assert account.allows(part_of(found, thread)), f"seed {seed}"
    for _ in range(2):
        with MessageDatabase.open(directory, **OPTIONS) as database:  # type: ignore[arg-type]
            assert database.recovery.lost == ()
            assert list(database.numbers("taken over")) == mine
            for thread in accounts:
                assert part_of(state_of(database), thread) == part_of(found, thread)


@pytest.mark.whole
def test_after_a_fork_the_childs_copy_is_closed_and_the_directory_stays_the_parents(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path / "spool") as database:
        number = database.add("q", b"before the fork")
        assert forked(lambda: _what_the_child_can_do(database, number)) == 0
        with writer(tmp_path / "spool", "1") as process:
            assert lines_of(process).readline() == b""  # it could not open
        assert database.add("q", b"after the fork") == number + 1
        assert database.deliver(number)
    with MessageDatabase.open(tmp_path / "spool") as database:
        assert database.recovery.intact
        assert [message.payload for message in database.undelivered()] == [b"after the fork"]


def test_a_child_never_waits_for_what_another_thread_was_at_when_it_was_forked(tmp_path: Path) -> None:
    """Such a thread is not in the child: a lock that it has is never given back there."""
    with MessageDatabase.open(tmp_path / "spool") as database:
        number = database.add("q", b"before the fork")
        locks = locks_of(database)
        assert len(locks) > 5, "the engine has its locks elsewhere: this test holds none of them"
        with ThreadPoolExecutor(1) as other:
            held = other.submit(lambda: [lock for lock in locks if lock.acquire(timeout=1)]).result()
            try:
                code = forked(lambda: _what_the_child_can_do(database, number))
            finally:
                other.submit(lambda: [lock.release() for lock in held]).result()
        assert {id(database._closing), id(database._ledger.lock)} <= set(map(id, held))
        assert code == 0
        assert database.deliver(number)


def locks_of(whole: object) -> list[Any]:
    """Every lock that an object of the engine has, or one that it is made of."""
    found: list[Any] = []
    known, open_ends = {id(whole)}, [whole]
    while open_ends:
        one = open_ends.pop()
        if isinstance(one, LOCKS):
            found.append(one)
        elif type(one).__module__.startswith(ENGINE) or isinstance(one, dict | list | tuple | MethodType):
            fresh = [each for each in gc.get_referents(one) if id(each) not in known and not isinstance(each, type)]
            known.update(map(id, fresh))
            open_ends += fresh
    return found


def _what_the_child_can_do(database: MessageDatabase, number: int) -> int:
    """Return 0 when every commit is refused and closing does no harm."""
    for operation in (lambda: database.add("q", b"child"), lambda: database.deliver(number), database.cleanup):
        try:
            operation()
        except DatabaseClosed:
            continue
        except BaseException:
            return 2
        return 1
    database.close()
    return 0
