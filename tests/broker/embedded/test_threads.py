"""The embedded broker among threads: they share syncs, wait, race, and are interrupted from the keyboard."""

import logging
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import pytest

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.drivers.open import journal_options
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.kernel.state.effects import Effect, Input
from oms_journal.broker.sessions.session_parts import ReceivedUnit
from oms_journal.broker.sessions.sessions import Session
from oms_journal.broker.store.start import PersistentStore
from tests.support.broker.embedded import SERVICE, bodies, refused
from tests.support.cli_runner import run_program
from tests.support.disks.small_files import MODEST
from tests.support.disks.watched_disk import TIMEOUT_SECONDS, WatchedDisk


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


@pytest.fixture
def broker(tmp_path: Path, disk: WatchedDisk) -> Iterator[Broker]:
    def open_store(attributes: Attributes, *, creates: bool) -> PersistentStore:
        return JournalStore.open(tmp_path / "store", journal_options(attributes), disk=disk, creates=creates)

    with Broker.open(open_store=open_store, msg_cleanup_interval="0", max_data_file_size=MODEST) as found:
        yield found


def server(broker: Broker, user: str = "BOB", token: str = "S1") -> Session:
    session = broker.session(user, token=token)
    session.log_on()
    session.register(SERVICE)
    return session


def parked(broker: Broker, count: int = 1) -> None:
    """Return when so many calls wait for something to receive."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while len(broker._running._kernel.world.parking) < count:
        assert time.monotonic() < deadline, "no call waits"
        time.sleep(0.001)


def test_a_single_caller_commits_in_its_own_thread_with_one_sync(broker: Broker, disk: WatchedDisk) -> None:
    with broker.session("ALICE") as alice:
        alice.send(SERVICE, b"the first commit begins the file")
        writers = []
        disk.before_change = lambda: writers.append(threading.current_thread().name)
        before = disk.write_count
        for _ in range(10):
            alice.send(SERVICE, b"x")
        assert disk.write_count - before == 10


def test_callers_that_come_while_a_commit_is_under_way_share_the_next_sync(broker: Broker, disk: WatchedDisk) -> None:
    sessions = [broker.session("USER", token=f"T{n}") for n in range(12)]
    for session in sessions:
        session.log_on()
    with ThreadPoolExecutor(12) as pool:
        with disk.held():
            first = pool.submit(sessions[0].send, SERVICE, b"0")
            disk.wait_for_write()
            before = disk.write_count
            others = [pool.submit(session.send, SERVICE, b"x") for session in sessions[1:]]
            while len(broker._threads._queue) < 11:
                time.sleep(0.001)
        sent = [future.result(TIMEOUT_SECONDS) for future in (first, *others)]
    assert disk.write_count - before == 1
    assert disk.in_flight_max == 1
    assert len({status.uowid for status in sent}) == 12


def test_calls_that_write_nothing_go_on_while_a_commit_is_under_way(broker: Broker, disk: WatchedDisk) -> None:
    bob = server(broker)
    with broker.session("ALICE") as alice, ThreadPoolExecutor(1) as pool:
        with disk.held():
            slow = pool.submit(server(broker, "CAROL", "T").send, SERVICE, b"persistent")
            disk.wait_for_write()
            alice.send(SERVICE, b"quick", persistent=False)
            unit = bob.receive_unit()
            assert unit is not None and unit.first.body == b"quick"
            unit.commit()
            assert bob.receive_unit() is None, "what is not durable nobody sees"
        slow.result(TIMEOUT_SECONDS)
    assert bodies(bob) == [b"persistent"]


def test_non_persistent_work_needs_no_disk(broker: Broker, disk: WatchedDisk) -> None:
    bob = server(broker)
    before = disk.write_count
    with broker.session("ALICE") as alice:
        for _ in range(100):
            alice.send(SERVICE, b"x", persistent=False)
        assert len(bodies(bob)) == 100
    assert disk.write_count == before


@pytest.mark.parametrize("is_registered", [True, False])
def test_a_full_cycle_takes_two_durable_commits(broker: Broker, disk: WatchedDisk, is_registered: bool) -> None:
    bob = server(broker)
    if not is_registered:
        bob.deregister()
    with broker.session("ALICE") as alice:
        alice.send(SERVICE, b"the first commit begins the file")
        before = disk.write_count
        for _ in range(20):
            alice.send(SERVICE, b"x")
        if not is_registered:
            bob.register(SERVICE)
        assert len(bodies(bob)) == 21
    assert disk.write_count - before == 20 + 21


def test_both_units_of_work_are_committed_with_one_durable_commit(broker: Broker, disk: WatchedDisk) -> None:
    bob = server(broker)
    with broker.session("ALICE", token="A") as alice:
        sent = alice.send(SERVICE, b"e4")
        unit = bob.receive_unit()
        assert unit is not None
        unit.answer(b"e5")
        before = disk.write_count
        unit.commit()
        assert disk.write_count - before == 1
        assert bodies(alice, conv_id=sent.conv_id) == [b"e5"]


def test_two_receivers_race_and_every_unit_of_work_goes_to_one(broker: Broker) -> None:
    count = 200
    found: dict[str, list[bytes]] = {"S1": [], "S2": [], "S3": []}
    done = threading.Event()

    def receive(token: str) -> None:
        with broker.session("BOB", token=token) as bob:
            bob.register(SERVICE)
            while not done.is_set():
                for unit in bob.receive_units(wait=0.05):
                    if random.random() < 0.1:
                        unit.backout()
                        continue
                    unit.commit()
                    found[token].append(unit.first.body)

    threads = [threading.Thread(target=receive, args=(token,)) for token in found]
    for thread in threads:
        thread.start()
    with broker.session("ALICE") as alice:
        for number in range(count):
            alice.send(SERVICE, b"%d" % number, persistent=number % 3 == 0)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while sum(map(len, found.values())) < count and time.monotonic() < deadline:
        time.sleep(0.01)
    done.set()
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)
    every = [body for mine in found.values() for body in mine]
    assert sorted(every, key=int) == [b"%d" % number for number in range(count)]


# Waiting.


def test_a_receive_waits_for_what_is_committed_later(broker: Broker) -> None:
    bob = server(broker)
    with broker.session("ALICE") as alice, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bob.receive_unit, wait=True)
        parked(broker)
        with alice.unit_of_work(SERVICE) as uow:
            uow.send(b"at last")
            assert not waiting.done()
        unit = waiting.result(TIMEOUT_SECONDS)
    assert unit is not None and unit.first.body == b"at last"


@pytest.mark.parametrize("seconds", [0.001, 0.05, 0.3])
def test_a_wait_ends_when_it_said_and_not_before(broker: Broker, seconds: float) -> None:
    bob = server(broker)
    began = time.monotonic()
    assert bob.receive_unit(wait=seconds) is None
    assert time.monotonic() - began >= seconds
    with refused(Code.WAIT_TIMED_OUT), broker.session("ALICE") as alice:
        alice.request(SERVICE, b"?", wait=seconds)


def test_waits_of_many_threads_end_in_their_order(broker: Broker) -> None:
    ended = []

    def wait(seconds: float) -> None:
        with broker.session("BOB") as bob:
            bob.register(SERVICE)
            assert bob.receive_unit(wait=seconds) is None
            ended.append(seconds)

    times = [0.4, 0.1, 0.3, 0.2]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(wait, times))
    assert ended == sorted(times)


def test_a_close_lets_go_of_who_waits(broker: Broker) -> None:
    bob = server(broker)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bob.receive_unit, wait=True)
        parked(broker)
        broker.close()
        with refused(Code.NOT_ACTIVE):
            waiting.result(TIMEOUT_SECONDS)


def test_a_close_lets_what_is_on_its_way_arrive(broker: Broker, disk: WatchedDisk, tmp_path: Path) -> None:
    sessions = [broker.session("USER", token=f"T{n}") for n in range(4)]
    for session in sessions:
        session.log_on()
    with ThreadPoolExecutor(5) as pool:
        with disk.held():
            sent = [pool.submit(session.send, SERVICE, b"x") for session in sessions]
            disk.wait_for_write()
            while len(broker._threads._slots) < 4:
                time.sleep(0.001)
            closing = pool.submit(broker.close)
            while not broker._is_closed:
                time.sleep(0.001)
        closing.result(TIMEOUT_SECONDS)
        uowids = {future.result(TIMEOUT_SECONDS).uowid for future in sent}
    with Broker.open(tmp_path / "store") as again:
        assert {unit.uowid for unit in server(again).receive_units()} == uowids


def test_a_store_that_cannot_keep_up_slows_callers_and_loses_nobody(broker: Broker, disk: WatchedDisk) -> None:
    disk.seconds = 0.002

    def send(token: str) -> list[str]:
        with broker.session("ALICE", token=token) as alice:
            return [alice.send(SERVICE, b"x").uowid for _ in range(25)]

    with ThreadPoolExecutor(8) as pool:
        sent = {uowid for uowids in pool.map(send, map(str, range(8))) for uowid in uowids}
    assert len(sent) == 200
    assert {unit.uowid for unit in server(broker).receive_units()} == sent


def test_a_log_that_calls_the_broker_gets_its_answer(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[object] = []

    class Caller(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with broker.session("WATCHER") as watcher:
                heard.append(watcher.last())

    logger, caller = logging.getLogger("oms.broker"), Caller()
    logger.addHandler(caller)
    try:
        broker.disconnect_pstore()
    finally:
        logger.removeHandler(caller)
    assert heard == [None]


# Interrupts.


@pytest.mark.whole
def test_an_interrupt_ends_a_wait_and_nothing_is_lost(tmp_path: Path) -> None:
    program = """
        import sys, threading, time
        from oms_journal.broker.embedded.broker import Broker
        from tests.support.ctrl_c import CtrlC
        ctrl_c = CtrlC()
        with Broker.open(sys.argv[1]) as broker, broker.session("BOB", token="S1") as bob:
            bob.register("A/B/C")
            def interrupt():
                while not len(broker._running._kernel.world.parking):
                    time.sleep(0.001)
                ctrl_c.press()
            threading.Thread(target=interrupt).start()
            try:
                bob.receive_unit(wait=True)
            except KeyboardInterrupt:
                print("interrupted", len(broker._running._kernel.world.parking), len(broker._threads._slots))
            with broker.session("ALICE") as alice:
                alice.send("A/B/C", b"later")
            print(bob.receive_unit().first.body)
    """
    done = run_program(program, tmp_path)
    assert done.stdout.split("\n")[:2] == ["interrupted 0 0", "b'later'"], done.stderr


HAMMERED = """
    import os, random, signal, sys, threading, time
    from oms_journal.broker.embedded.broker import Broker
    from oms_journal.broker.codes import BrokerError

    chance = random.Random(int(sys.argv[2]))
    stop = threading.Event()

    def hammer():
        while not stop.is_set():
            time.sleep(chance.random() * 0.004)
            os.kill(os.getpid(), signal.SIGINT)

    sent, received, interrupts = [], [], 0
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    broker = Broker.open(sys.argv[1], max_delivery_count=0)
    alice, bob = broker.session("ALICE", token="A"), broker.session("BOB", token="B")
    alice.log_on()
    bob.log_on()
    bob.register("A/B/C")
    threading.Thread(target=hammer, daemon=True).start()
    for number in range(150):
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            status = alice.send("A/B/C", b"%d" % number, persistent=bool(number % 2))
            sent.append(number)
            unit = bob.receive_unit(wait=0.002)
            if unit is not None:
                unit.backout()
        except KeyboardInterrupt:
            interrupts += 1
        finally:
            while True:
                try:
                    signal.signal(signal.SIGINT, signal.SIG_IGN)
                    break
                except KeyboardInterrupt:
                    interrupts += 1
    stop.set()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("slots", len(broker._threads._slots), "ended", broker._threads._is_ended)
    bob.log_off()
    bob.log_on()
    bob.register("A/B/C")
    for unit in bob.receive_units():
        received.append(int(unit.first.body))
        unit.commit()
    broker.close()
    print("missing", sorted(set(sent) - set(received)))
    print("twice", len(received) - len(set(received)))
    print("interrupts", interrupts)
"""


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(3))
def test_interrupts_at_any_moment_leave_a_broker_that_goes_on(tmp_path: Path, seed: int) -> None:
    """What was acknowledged is there once, whatever was handed out and not seen meanwhile."""
    done = run_program(HAMMERED, tmp_path, seed)
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert told.get("slots") == "0 ended False", done.stdout + done.stderr
    assert (told["missing"], told["twice"]) == ("[]", "0")
    assert int(told["interrupts"]) > 0


def test_the_handler_of_interrupts_is_the_programs_own_between_calls(broker: Broker) -> None:
    before = signal.getsignal(signal.SIGINT)
    with broker.session("ALICE") as alice:
        alice.send(SERVICE, b"x")
        assert signal.getsignal(signal.SIGINT) is before


class TimeOver(Exception):
    """What a program's own handler raises."""


def test_what_a_programs_own_handler_raises_waits_for_the_end_of_a_decision(tmp_path: Path) -> None:
    """It reaches the program, and the broker goes on: it was no mistake of the broker's."""

    def over(number: int, frame: FrameType | None) -> None:
        raise TimeOver

    before = signal.signal(signal.SIGALRM, over)
    try:
        with Broker.open(tmp_path, max_data_file_size=MODEST) as broker, broker.session("ALICE", "A") as alice:
            take = broker._running.take

            def interrupted(given: Input) -> list[Effect]:
                signal.raise_signal(signal.SIGALRM)
                return take(given)

            broker._running.take = interrupted  # type: ignore[method-assign]
            with pytest.raises(TimeOver):
                alice.send(SERVICE, b"whole", status_lifetime="1H")
            del broker._running.take
            assert alice.last() is not None
            with server(broker) as bob:
                assert bodies(bob) == [b"whole"]
            assert signal.getsignal(signal.SIGALRM) is over
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.whole
def test_the_child_of_a_fork_has_a_closed_broker(tmp_path: Path) -> None:
    program = """
        import os, sys
        from oms_journal.broker.embedded.broker import Broker
        from oms_journal.broker.codes import BrokerError
        with Broker.open(sys.argv[1]) as broker, broker.session("ALICE") as alice:
            alice.send("A/B/C", b"before")
            child = os.fork()
            if not child:
                try:
                    alice.send("A/B/C", b"from the child")
                except BrokerError as failure:
                    os._exit(0 if failure.code.value == "02150148" else 2)
                os._exit(1)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            alice.send("A/B/C", b"after")
    """
    done = run_program(program, tmp_path)
    assert done.stdout.strip() == "0", done.stderr
    with Broker.open(tmp_path) as broker, broker.session("BOB") as bob:
        bob.register("A/B/C")
        assert bodies(bob) == [b"before", b"after"]


def test_a_unit_of_work_that_came_too_late_for_its_caller_is_given_back(broker: Broker, disk: WatchedDisk) -> None:
    """The answer to a RECEIVE waits for the store, as DELIVERED is written; its thread is interrupted meanwhile."""
    bob, carol = server(broker), server(broker, "CAROL", "S2")
    with broker.session("ALICE", token="A") as alice:
        alice.send(SERVICE, b"x", lifetime="1H", status_lifetimes=1)
    threads = broker._threads
    wait, abandoned = threads._wait, []

    def interrupted(slot: object) -> None:
        abandoned.append(slot)
        raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool, disk.held():
        slow = pool.submit(carol.send, SERVICE, b"leads")
        disk.wait_for_write()
        threads._wait = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            bob.receive_unit()
        threads._wait = wait  # type: ignore[method-assign]
        disk.release()
        slow.result(TIMEOUT_SECONDS)
    found: ReceivedUnit | None = carol.receive_unit(wait=5)
    assert found is not None and (found.first.body, found.delivery_count) == (b"x", 0)
    assert not threads._slots


def test_a_broker_whose_decision_was_interrupted_refuses_everything_and_can_be_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception in the middle of a decision, as a signal's own handler may raise it."""
    broker = Broker.open(tmp_path)
    with broker.session("ALICE") as alice:
        alice.send(SERVICE, b"durable")
        monkeypatch.setattr(broker._running._kernel, "take", _interrupt)
        with pytest.raises(SystemExit):
            alice.send(SERVICE, b"never")
        with pytest.raises(BrokerError, match="interrupted by SystemExit") as caught:
            alice.send(SERVICE, b"never either")
        assert caught.value.code is Code.NOT_ACTIVE
    broker.close()
    with Broker.open(tmp_path) as again:
        assert bodies(server(again)) == [b"durable"]


def _interrupt(*_: object) -> None:
    raise SystemExit
