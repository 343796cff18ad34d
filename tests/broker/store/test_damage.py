"""A broker's store that damage has hit: it is begun all the same, says what is lost, and gives no identifier twice."""

import re
from collections.abc import Iterator

import pytest

from oms_journal.broker.kernel.restart.restore import restore
from oms_journal.broker.records import (
    CLOCK,
    CLOCK_KEY,
    MASTER_KEY,
    PUBLICATION,
    PUBLICATIONS,
    SUBSCRIPTION,
    SUBSCRIPTIONS,
    UOW,
    UOWS,
    ClockRecord,
    Flag,
    PublicationRecord,
    Status,
    SubscriptionRecord,
    identifier,
)
from oms_journal.broker.store.changes import Changes, NewMessage, Put
from oms_journal.broker.store.start import StartedStore, StartRefused, start_store
from tests.broker.store.test_restore import NOW, QUEUE, record
from tests.support.broker.stores import JournalDriver, begun, start
from tests.support.crashes.crash_model import SPOOL
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import Share, a_sample, in_three_sizes

STARTS = 3
CLOCK_NOW = 7_000_000_000
STEP = 43  # bytes between one damaged place and the next: any of them in a field, sooner or later


def written(*, is_closed: bool) -> JournalDriver:
    """Return the driver of a store that was begun several times; the last time it has got records of every kind."""
    driver = JournalDriver(SPOOL)
    for _ in range(STARTS):
        store = driver.open()
        begun(store)
        store.commit(Changes(puts=[Put(CLOCK_KEY, CLOCK.encode(ClockRecord(CLOCK_NOW, NOW)))]))
        if _ < STARTS - 1:
            store.close()
    unit = record(1, first=1, ends=CLOCK_NOW + 1)
    news = PublicationRecord(identifier(7), Status.ACCEPTED, Flag.PERSISTENT, 1, 4, created=NOW, first=2, topic="NEWS")
    reader = SubscriptionRecord(identifier(8), NOW, NOW, topic="NEWS", user="READER")
    store.commit(Changes(adds=[NewMessage(QUEUE, b"message")], puts=[Put(UOWS + unit.uowid, UOW.encode(unit))]))
    store.commit(
        Changes(
            adds=[NewMessage("topic/NEWS", b"news")],
            puts=[
                Put(PUBLICATIONS + news.publication_id, PUBLICATION.encode(news)),
                Put(SUBSCRIPTIONS + reader.subscription_id, SUBSCRIPTION.encode(reader)),
            ],
        )
    )
    if not is_closed:
        return driver.killed()
    store.close()
    return driver


def places(disk: SimulatedDisk, step: int = STEP) -> Iterator[tuple[str, int]]:
    for name, data in disk.contents(SPOOL).items():
        if name.endswith(".data"):
            end = len(data.rstrip(b"\0"))
            yield from ((name, at) for at in range(0, end, step))


def damaged(driver: JournalDriver, name: str, at: int) -> JournalDriver:
    again = JournalDriver(SPOOL, driver.disk.restart())
    value = again.disk.content(SPOOL / name)[at]
    again.disk.rot(SPOOL / name, bytes([value ^ 0x10]), at)
    return again


@a_sample(1)
@in_three_sizes
@pytest.mark.parametrize("is_closed", [False, True], ids=["killed", "closed"])
def test_wherever_one_bit_is_wrong_the_broker_starts_and_gives_no_identifier_twice(
    is_closed: bool, share: Share
) -> None:
    driver = written(is_closed=is_closed)
    for name, at in share.every(24, places(driver.disk)):
        store = damaged(driver, name, at).open()
        found = begun(store)
        assert found.master.starts > STARTS, f"{name} at {at}"
        assert found.master.broker_id == "ETB001"
        restore(store, now=NOW)
        store.close()


def test_a_master_record_that_is_lost_is_made_again_and_its_loss_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    driver = written(is_closed=True)
    store = driver.open()
    store.commit(Changes(drops=[MASTER_KEY]))
    found: StartedStore = begun(store)
    assert found.master.starts > STARTS
    assert "the master record of the persistent store is lost" in caplog.text


def test_a_lost_master_record_is_not_made_again_for_another_broker_than_the_checkpoints_tell() -> None:
    store = written(is_closed=True).open()
    store.commit(Changes(drops=[MASTER_KEY]))
    with pytest.raises(StartRefused, match="belongs to broker ETB001"):
        start_store(store, start("ETB002"))


@pytest.mark.parametrize(
    "key", [CLOCK_KEY, "broker/checkpoint/ETBH", SUBSCRIPTIONS + identifier(8), PUBLICATIONS + identifier(7)]
)
def test_one_value_that_cannot_be_read_is_told_of_and_keeps_nobody_from_the_others(key: str) -> None:
    driver = written(is_closed=False)
    store = driver.open()
    value = store.record(key)
    assert value is not None
    store.close()
    driver = driver.killed()
    for name, data in driver.disk.contents(SPOOL).items():
        # Everywhere: a sealed file's footer has a short value a second time, and where that is whole nothing is lost.
        for place in re.finditer(re.escape(value), data):
            driver = damaged(driver, name, place.end() - 1)
    store = driver.open()
    begun(store)
    found = restore(store, now=NOW)
    assert key in found.lost or key.startswith("broker/checkpoint")
    assert found.clock >= CLOCK_NOW - 300_000_000
    assert len(found.units.counts()) == 1
