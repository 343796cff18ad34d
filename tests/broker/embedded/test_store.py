"""The store of an embedded broker fails, fills up, goes away and comes back while the broker runs; both drivers."""

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.block import Option, Reception
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.drivers.sqlite import SqliteOptions, SqliteStore
from oms_journal.broker.drivers.sqlite_commit import Limits
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.records import CLOCK, CLOCK_KEY, Status
from oms_journal.broker.sessions.requests import checked
from oms_journal.broker.sessions.sessions import Session
from oms_journal.broker.store.start import PersistentStore
from oms_journal.database.options import Options
from tests.support.broker.embedded import HERE, SERVICE, Kind, bodies, kind_of, refused
from tests.support.broker.stores import Driver, JournalDriver, SqliteDriver
from tests.support.sweeps import a_sample, takes_turns

pytestmark = takes_turns(2, "kind")

DRIVER: dict[str, type[JournalDriver] | type[SqliteDriver]] = {"JOURNAL": JournalDriver, "SQLITE": SqliteDriver}


@pytest.fixture(params=HERE)
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    with kind_of(request.param) as found:
        yield found


@pytest.fixture
def driver(kind: Kind, tmp_path: Path) -> Driver:
    return DRIVER[kind.driver](tmp_path)


def opened(kind: Kind, driver: Driver, **given: Any) -> Broker:
    def open_store(_: Attributes, *, creates: bool) -> PersistentStore:
        return driver.open(creates=creates)

    return kind.open(open_store=open_store, **given)


@pytest.fixture
def broker(kind: Kind, driver: Driver) -> Iterator[Broker]:
    with opened(kind, driver) as found:
        yield found


@pytest.fixture
def alice(broker: Broker) -> Iterator[Session]:
    with broker.session("ALICE", token="A") as session:
        yield session


@pytest.fixture
def bob(broker: Broker) -> Iterator[Session]:
    with broker.session("BOB", token="B") as session:
        session.register(SERVICE)
        yield session


def restarted(kind: Kind, driver: Driver) -> list[bytes]:
    """Return what a server gets after the broker was killed and started again."""
    with opened(kind, driver.killed()) as broker, broker.session("BOB", token="B") as bob:
        bob.register(SERVICE)
        return bodies(bob)


def test_a_store_that_fails_is_told_by_code_and_the_rest_goes_on(
    kind: Kind, driver: Driver, broker: Broker, alice: Session, bob: Session, caplog: pytest.LogCaptureFixture
) -> None:
    alice.send(SERVICE, b"1 durable")
    with driver.fails():
        with refused(Code.UOW_NOT_PERSISTED):
            alice.send(SERVICE, b"2 failed")
        assert not broker.is_store_connected
        for _ in range(2):
            with refused(Code.UOW_NOT_PERSISTED):
                alice.send(SERVICE, b"3 refused")
        with refused(Code.STATUS_NOT_PERSISTED):
            alice.send(SERVICE, b"4 refused", persistent=False, lifetime=60, status_lifetimes=1)
        alice.send(SERVICE, b"5 not persistent", persistent=False)
        assert bodies(bob, most=1) == [b"5 not persistent"]
        with refused(Code.DURABLE_WITHOUT_STORE):
            bob.subscribe("NEWS", durable=True)
        bob.subscribe("NEWS")
        logged = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert len(logged) == 1 and "the persistent store is not available" in logged[0].getMessage()
    broker.connect_pstore()
    assert broker.is_store_connected
    alice.send(SERVICE, b"6 durable again")
    assert restarted(kind, driver) == [b"1 durable", b"6 durable again"]


def test_what_was_under_way_when_the_store_failed_is_as_it_was_before(
    kind: Kind, driver: Driver, broker: Broker, alice: Session, bob: Session
) -> None:
    first = alice.send(SERVICE, b"received", lifetime=60, status_lifetimes=2)
    unit = bob.receive_unit()
    assert unit is not None
    uow = alice.unit_of_work(SERVICE)
    uow.send(b"begun")
    with driver.fails():
        with refused(Code.UOW_NOT_PERSISTED):
            unit.commit()
        with refused(Code.UOW_NOT_PERSISTED):
            uow.commit()
        assert alice.query(first.uowid).status is Status.DELIVERED
        assert uow.is_open and unit.is_open
    broker.connect_pstore()
    assert uow.commit().status is Status.ACCEPTED
    assert unit.commit().status is Status.PROCESSED
    assert restarted(kind, driver) == [b"begun"]


def test_a_connection_that_fails_leaves_everything_as_it_was(
    driver: Driver, broker: Broker, alice: Session, bob: Session
) -> None:
    with driver.fails():
        with refused(Code.UOW_NOT_PERSISTED):
            alice.send(SERVICE, b"x")
        for _ in range(2):
            with refused(Code.UOW_NOT_PERSISTED):
                broker.connect_pstore()
        assert not broker.is_store_connected
    broker.connect_pstore()
    alice.send(SERVICE, b"y")
    assert bodies(bob) == [b"y"]


def test_a_message_of_the_store_waits_while_the_store_is_away(broker: Broker, alice: Session) -> None:
    for body in (b"1", b"2"):
        with alice.unit_of_work(SERVICE) as uow:
            uow.send(body)
            uow.send(body)
    with broker.session("BOB", token="B") as bob:
        bob.register(SERVICE)
        unit = bob.receive_unit()
        assert unit is not None
        broker.disconnect_pstore()
        with refused(Code.UOW_NOT_PERSISTED):
            list(unit)
        with refused(Code.UOW_NOT_PERSISTED):
            bob.receive_unit(which="NEW")
        broker.connect_pstore()
        unit.backout()
        assert bodies(bob) == [b"1", b"1", b"2", b"2"]


def test_a_message_that_cannot_be_read_is_given_back(
    broker: Broker, alice: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store goes away between the decision and the reading."""
    alice.send(SERVICE, b"x")
    store = broker._running.store
    assert store is not None
    read, failures = store.read, [None]

    def fails_once(number: int) -> Any:
        if failures:
            failures.pop()
            store.disconnect()
            try:
                return read(number)
            finally:
                store.connect()
        return read(number)

    monkeypatch.setattr(store, "read", fails_once)
    with broker.session("BOB", token="B") as bob:
        bob.register(SERVICE)
        with refused(Code.UOW_NOT_PERSISTED):
            bob.receive_unit()
        unit = bob.receive_unit(wait=5)
        assert unit is not None and (unit.first.body, unit.delivery_count) == (b"x", 1)
        assert unit.first.reception is Reception.RECV_ONLY


def test_what_is_disconnected_is_locked_and_what_was_on_its_way_has_arrived(
    kind: Kind, driver: Driver, broker: Broker, alice: Session
) -> None:
    alice.send(SERVICE, b"before")
    broker.disconnect_pstore()
    broker.disconnect_pstore()
    assert not broker.is_store_connected
    assert restarted(kind, driver) == [b"before"]


@pytest.mark.parametrize("kind", ["threads JOURNAL", "asyncio SQLITE"], indirect=True)
def test_no_persistent_lifetime_ends_while_the_store_is_away(kind: Kind, driver: Driver) -> None:
    with opened(kind, driver, tick_seconds=0.05) as broker, broker.session("ALICE", token="A") as alice:
        sent = alice.send(SERVICE, b"x", lifetime=1, status_lifetimes=200)
        passing = alice.send(SERVICE, b"x", lifetime=1, persistent=False)
        broker.disconnect_pstore()
        kind.wait_for(lambda: is_gone(alice, passing.uowid))
        assert alice.query(sent.uowid).status is Status.ACCEPTED
        broker.connect_pstore()
        kind.wait_for(lambda: alice.query(sent.uowid).status is Status.TIMEOUT)


def is_gone(session: Session, uowid: str) -> bool:
    return session.ask(session._speaker.about(Option.QUERY, uowid)).reply.code is Code.UOW_NOT_FOUND


def test_a_receive_that_waits_gets_what_can_be_had_again(kind: Kind, driver: Driver) -> None:
    with opened(kind, driver) as broker, broker.session("ALICE", token="A") as alice:
        alice.send(SERVICE, b"x")
        with broker.session("BOB", token="B") as bob:
            bob.register(SERVICE)
            broker.disconnect_pstore()
            with refused(Code.WAIT_TIMED_OUT):
                checked(bob.ask(bob._speaker.receive(None, None, 0.05, option=Option.SYNC)))
            broker.connect_pstore()
            assert bodies(bob, wait=5, which="NEW", most=1) == [b"x"]


def test_a_commit_that_the_store_refuses_is_told_and_nothing_else_changes(
    kind: Kind, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The store takes shorter messages than the service: nobody's store is lost, and none is full."""

    def open_store(_: Attributes, *, creates: bool) -> PersistentStore:
        if kind.driver == "JOURNAL":
            return JournalStore.open(tmp_path / "store", Options(max_message_size=1000), creates=creates)
        return SqliteStore.open(tmp_path / "x", SqliteOptions(limits=Limits(message_bytes_max=1000)), creates=creates)

    with kind.open(open_store=open_store) as broker, broker.session("ALICE", token="A") as alice:
        with refused(Code.UOW_NOT_PERSISTED):
            alice.send(SERVICE, bytes(2000))
        assert broker.is_store_connected
        assert "the persistent store refused a commit" in caplog.text
        alice.send(SERVICE, bytes(500))
        with broker.session("BOB") as bob:
            bob.register(SERVICE)
            assert bodies(bob) == [bytes(500)]


@a_sample(1)
@pytest.mark.parametrize("name", ["JOURNAL", "SQLITE"])
def test_while_the_store_comes_and_goes_what_is_acknowledged_is_there_and_what_is_refused_is_not(
    name: str, tmp_path: Path
) -> None:
    """Callers on many threads, some of whose commits are under way at each failure."""
    driver, acknowledged, refusals = DRIVER[name](tmp_path), list[bytes](), list[Code]()

    def open_store(_: Attributes, *, creates: bool) -> PersistentStore:
        return driver.open(creates=creates)

    def send(broker: Broker, token: str) -> None:
        with broker.session("ALICE", token=token) as alice:
            for number in range(150):
                body = b"%s %d" % (token.encode(), number)
                try:
                    alice.send(SERVICE, body)
                    acknowledged.append(body)
                except BrokerError as failure:
                    refusals.append(failure.code)
                    time.sleep(0.001)

    with Broker.open(open_store=open_store) as broker, ThreadPoolExecutor(6) as pool:
        sending = [pool.submit(send, broker, f"T{n}") for n in range(6)]
        while not all(future.done() for future in sending):
            with driver.fails():
                time.sleep(0.01)
            broker.connect_pstore()
            time.sleep(0.02)
        for future in sending:
            future.result()
        broker.connect_pstore()
        assert set(refusals) <= {Code.UOW_NOT_PERSISTED}
        with broker.session("BOB") as bob:
            bob.register(SERVICE)
            found = bodies(bob)
    assert sorted(found) == sorted(acknowledged)


# A full store.


def test_a_full_store_takes_no_new_units_of_work_and_lets_the_old_ones_go(
    kind: Kind, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.fill()
    with opened(kind, driver) as broker, broker.session("ALICE", token="A") as alice:
        sent, refusal = [], None
        for number in range(2000):
            try:
                alice.send(SERVICE, b"%d" % number + bytes(20_000))
            except BrokerError as failure:
                refusal = failure
                break
            sent.append(number)
        assert refusal is not None and refusal.code is Code.NO_NEW_UOWS and sent
        assert broker.is_store_connected
        assert "no new units of work from now on" in caplog.text
        with refused(Code.NO_NEW_UOWS):
            alice.send(SERVICE, b"small")
        alice.send(SERVICE, b"x", persistent=False)
        with broker.session("BOB", token="B") as bob:
            bob.register(SERVICE)
            found = bodies(bob)
        assert sorted(int(body.rstrip(bytes(1))) for body in found if body != b"x") == sent
        assert broker._running.store is not None
        driver.make_room(broker._running.store)
        with refused(Code.NO_NEW_UOWS):
            alice.send(SERVICE, b"still forbidden")
        broker.allow_new_uow_messages()
        alice.send(SERVICE, b"allowed")
    assert restarted(kind, driver) == [b"allowed"]


def test_no_new_units_of_work_lets_what_was_begun_be_received(broker: Broker, alice: Session, bob: Session) -> None:
    """The drain procedure: forbid, connect, let them be received, allow."""
    alice.send(SERVICE, b"old")
    broker.forbid_new_uow_messages()
    broker.disconnect_pstore()
    broker.connect_pstore()
    with refused(Code.NO_NEW_UOWS):
        alice.send(SERVICE, b"new")
    with refused(Code.NO_NEW_UOWS):
        alice.publish("NEWS", b"new")
    assert bodies(bob) == [b"old"]
    broker.allow_new_uow_messages()
    alice.send(SERVICE, b"new again")
    assert bodies(bob) == [b"new again"]


def test_a_mark_of_free_space_forbids_new_units_of_work_beforehand(
    kind: Kind, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"min_free_space": "1048576G", "pstore_type": kind.driver, "tick_seconds": 0.02}
    with opened(kind, driver, **given) as broker, broker.session("ALICE", token="A") as alice:
        kind.wait_for(lambda: "MIN-FREE-SPACE is" in caplog.text)
        with refused(Code.NO_NEW_UOWS):
            alice.send(SERVICE, b"x")
        broker.allow_new_uow_messages()
        kind.pause(0.1)
        alice.send(SERVICE, b"the operator has said so")
        assert caplog.text.count("MIN-FREE-SPACE is") == 1


# The end.


def test_a_broker_whose_store_is_lost_closes_and_what_was_acknowledged_is_there(kind: Kind, driver: Driver) -> None:
    with opened(kind, driver) as broker, broker.session("ALICE", token="A") as alice:
        alice.send(SERVICE, b"durable")
        with driver.fails():
            with refused(Code.UOW_NOT_PERSISTED):
                alice.send(SERVICE, b"failed")
            broker.close()
    assert b"durable" in restarted(kind, driver)


def test_the_clock_is_written_at_the_end_and_a_crash_costs_at_most_a_tick(kind: Kind, driver: Driver) -> None:
    with opened(kind, driver) as broker, broker.session("ALICE", token="A") as alice:
        alice.send(SERVICE, b"x", lifetime="1D")
        kind.pause(0.6)
    again = driver.killed()
    store = again.open()
    value = store.record(CLOCK_KEY)
    store.close()
    assert value is not None and CLOCK.decode(value).clock >= 600_000
