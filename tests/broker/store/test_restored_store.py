"""A broker's store that was restored from a backup, by both drivers: the hold, killed starts, moves, cold starts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.admin.questions import Query
from oms_journal.broker.admin.uows import uows
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.kernel.restart.restore import restore
from oms_journal.broker.kernel.state.effects import ReleaseHeld, ReleasePublications
from oms_journal.broker.records import HELDS, HOLD, HOLD_KEY, MASTER, MASTER_KEY, UOW, UOWS, Flag
from oms_journal.broker.store.changes import Changes
from oms_journal.broker.store.master import RESTORED_STARTS
from oms_journal.broker.store.start import (
    RESTORED_KEY,
    PersistentStore,
    Pstore,
    StartRefused,
    StoreError,
    StoreUnavailable,
)
from oms_journal.database.database import MessageDatabase
from tests.broker.store.test_restore import NOW, SERVICE, record, store_of
from tests.support.broker.held_stores import SOURCE, hold_back, mark_restored
from tests.support.broker.stores import DRIVERS, Driver, JournalDriver, begun, put
from tests.support.servers.moved_stores import attributes, move, source, target

MARK = put(RESTORED_KEY, b'{"backup": "/backup/orders"}')


@pytest.fixture(params=DRIVERS, ids=["journal", "sqlite"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Driver:
    made: Driver = request.param(tmp_path)
    return made


def test_a_restored_store_begins_with_all_that_waits_held(driver: Driver) -> None:
    store = store_of(driver, *(record(number) for number in range(1, 4)))
    store.commit(MARK)
    highest = store.highest()

    found = restore(store, now=NOW)

    assert (found.withheld.units, found.withheld.last) == ({SERVICE: 3}, highest)
    assert [(line.is_withheld, len(line.conversations)) for line in found.lines] == [(True, 3)]
    value = store.record(HOLD_KEY)
    assert value is not None
    assert HOLD.decode(value) == (highest, found.clock, NOW, "/backup/orders")
    assert store.record(RESTORED_KEY) is None
    assert not found.units.has_dues, "what is held comes to no end"
    assert restore(store, now=NOW + 9).withheld.record == found.withheld.record
    store.close()


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"{}", b'{"backup": null}', b'"x"', "é".encode() * 200, b'{"source": 7}']
)
def test_a_mark_that_says_anything_holds_all_the_same(value: bytes) -> None:
    store = store_of(JournalDriver(Path()), record(1))
    store.commit(put(RESTORED_KEY, value))
    assert restore(store, now=NOW).withheld.unit_count == 1
    store.close()


class Dying:
    """A store whose process dies with one of its commits, before or after that is durable."""

    def __init__(self, store: PersistentStore, commits: int, *, is_durable: bool) -> None:
        self._store = store
        self._left = commits
        self._is_durable = is_durable

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, changes: Changes) -> int:
        self._left -= 1
        if self._left >= 0:
            return self._store.commit(changes)
        if self._is_durable:
            self._store.commit(changes)
        raise StoreUnavailable("the process is dead")


@pytest.mark.parametrize("is_durable", [False, True])
@pytest.mark.parametrize("commits", range(4))
def test_a_start_that_is_killed_holds_everything_or_begins_again(
    driver: Driver, commits: int, is_durable: bool
) -> None:
    """Two had been released after an earlier restore, so that the start has more than one commit to make."""
    released = [record(number, flags=record(number).flags | Flag.RELEASED) for number in (1, 3)]
    store = store_of(driver, *released, record(2))
    store.commit(MARK)
    try:
        dying = Dying(store, commits, is_durable=is_durable)
        begun(dying)
        restore(dying, now=NOW)
    except StoreError:
        assert commits < 3
    again = driver.killed().open()
    store.close()
    begun(again)

    found = restore(again, now=NOW)

    assert found.withheld.unit_count == 3
    assert again.record(RESTORED_KEY) is None
    records = [UOW.decode(value) for _, value in again.records(UOWS)]
    assert not any(one.flags & Flag.RELEASED for one in records)
    again.close()


def test_no_identifier_of_the_lost_broker_comes_again(driver: Driver) -> None:
    store = store_of(driver, record(1))
    lost = begun(store).master.starts
    store.commit(MARK)
    found = begun(store)
    assert found.master.starts > lost + RESTORED_STARTS
    assert int(found.identifiers.next(), 16) >> 32 & 0xFFFFFFF == found.master.starts
    restore(store, now=NOW)
    assert begun(store).master.starts == found.master.starts + 1
    store.close()


def test_a_cold_start_erases_the_hold(driver: Driver) -> None:
    for is_begun in (False, True):
        store = store_of(driver, record(1)) if not is_begun else driver.open()
        if is_begun:
            begun(store)
            store.commit(MARK)
            restore(store, now=NOW)
        else:
            store.commit(MARK)
        begun(store, pstore=Pstore.COLD, erase="ETB001")
        assert restore(store, now=NOW).withheld.last == 0
        assert store.record(RESTORED_KEY) is None and store.record(HOLD_KEY) is None
        store.close()


# The embedded broker, on real directories.


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Yield the restored store of a broker in which three units of work and a publication wait."""
    directory = tmp_path / "store"
    with Broker.open(directory) as broker, broker.session("ALICE", token="T") as alice:
        alice.subscribe("NEWS", durable=True)
        for body in (b"1", b"2", b"3"):
            with alice.unit_of_work("A/B/C") as unit:
                unit.send(body)
        alice.publish("NEWS", b"rain")
    mark_restored(directory)
    yield directory


def received(broker: Broker) -> list[bytes]:
    found = []
    with broker.session("BOB", token="T") as bob:
        bob.register("A/B/C")
        while (unit := bob.receive_unit("A/B/C")) is not None:
            with unit:
                found += [message.body for message in unit]
    return found


def read(broker: Broker) -> list[bytes]:
    found = []
    with broker.session("ALICE", token="T") as alice:
        subscription = alice.subscribe("NEWS", durable=True)
        while (publication := subscription.receive()) is not None:
            with publication:
                found += [message.body for message in publication]
    return found


def release(broker: Broker) -> None:
    page = broker._look(lambda world: uows(world, Query(selectors={"held": ["yes"]})))
    broker._administer(lambda handle: ReleaseHeld(handle, tuple(row["uowid"] for row in page.rows)))
    (subscription,) = broker._running.world.topics.subscriptions
    broker._administer(lambda handle: ReleasePublications(handle, subscription, None))


def test_what_is_held_is_received_after_its_release_and_not_before(place: Path) -> None:
    for _ in range(2):
        with Broker.open(place, pstore="HOT") as broker:
            assert (received(broker), read(broker)) == ([], [])
    with Broker.open(place) as broker:
        release(broker)
    with Broker.open(place) as broker:
        assert (received(broker), read(broker)) == ([b"1", b"2", b"3"], [b"rain"])


@pytest.mark.parametrize("driver", ["JOURNAL", "SQLITE"])
def test_a_hold_moves_with_the_store_to_either_driver(place: Path, tmp_path: Path, driver: str) -> None:
    with Broker.open(place):
        pass
    moved = tmp_path / "moved"
    assert move(source(place), target(moved, driver)) == []
    said = attributes(moved, driver)
    with Broker.open(attributes=said) as broker:
        assert (received(broker), read(broker)) == ([], [])
        assert broker._running.world.withheld.record.source == SOURCE
        release(broker)
        assert (received(broker), read(broker)) == ([b"1", b"2", b"3"], [b"rain"])
        store = broker._running.store
        assert store is not None
        assert not list(store.records(HELDS))


def test_a_store_that_was_restored_and_not_started_is_not_moved(place: Path, tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match="was restored from a backup and not started since"):
        move(source(place), target(tmp_path / "moved", "SQLITE"))


def test_what_the_engine_holds_back_is_held_by_the_broker(place: Path, tmp_path: Path) -> None:
    with Broker.open(place) as broker:
        release(broker)
    hold_back(place)
    with pytest.raises(StartRefused, match="was restored from a backup and not started since"):
        move(source(place), target(tmp_path / "moved", "SQLITE"))
    for _ in range(2):
        with Broker.open(place) as broker:
            assert (received(broker), read(broker)) == ([], [])
    with Broker.open(place) as broker:
        assert broker._running.world.withheld.unit_count == 3
        release(broker)
        assert (received(broker), read(broker)) == ([b"1", b"2", b"3"], [b"rain"])
    with MessageDatabase.open(place) as database:
        assert list(database.held()) == []


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "unreadable"])
def test_it_is_held_too_where_damage_has_taken_the_master_record(is_lost: bool, place: Path) -> None:
    with Broker.open(place) as broker:
        release(broker)
        store = broker._running.store
        assert store is not None
        value = store.record(MASTER_KEY)
        assert value is not None
    if is_lost:
        store = JournalStore.open(place)
        store.commit(Changes(drops=[MASTER_KEY]))
        store.close()
    hold_back(place)
    if not is_lost:
        for path in place.glob("*.data"):
            path.write_bytes(path.read_bytes().replace(value, value[:-1] + bytes([value[-1] ^ 1])))
    with Broker.open(place, broker_id="ETB001") as broker:
        assert (received(broker), read(broker)) == ([], [])
        release(broker)
        assert (received(broker), read(broker)) == ([b"1", b"2", b"3"], [b"rain"])


def test_it_is_held_too_where_what_says_that_the_store_was_restored_is_damaged(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = JournalStore.open(place)
    value = store.record(RESTORED_KEY)
    store.close()
    assert value is not None
    for path in place.glob("*.data"):
        path.write_bytes(path.read_bytes().replace(value, value[:-1] + bytes([value[-1] ^ 1])))
    with Broker.open(place) as broker:
        assert (received(broker), read(broker)) == ([], [])
        assert f"LOST: what {RESTORED_KEY} says is damaged" in caplog.text
        release(broker)
    with Broker.open(place) as broker:
        assert (received(broker), read(broker)) == ([b"1", b"2", b"3"], [b"rain"])


def test_what_the_engine_holds_back_is_held_whenever_the_start_is_killed(place: Path) -> None:
    hold_back(place)
    store = JournalStore.open(place)  # killed before it was begun
    store.close()
    hold_back(place)  # and before the engine let it go
    with Broker.open(place) as broker:
        assert (received(broker), read(broker)) == ([], [])


def test_a_store_that_is_disconnected_and_connected_holds_what_it_held(place: Path) -> None:
    with Broker.open(place) as broker:
        broker.disconnect_pstore()
        broker.connect_pstore()
        assert (received(broker), read(broker)) == ([], [])
        release(broker)
        broker.disconnect_pstore()
        broker.connect_pstore()
        assert (received(broker), read(broker)) == ([b"1", b"2", b"3"], [b"rain"])


def test_the_master_record_of_a_restored_store_stays_its_brokers(place: Path) -> None:
    with Broker.open(place) as broker:
        store = broker._running.store
        assert store is not None
        value = store.record(MASTER_KEY)
        assert value is not None
        assert MASTER.decode(value).starts > RESTORED_STARTS
