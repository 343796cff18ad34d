"""What a restart makes of the records: every row of both restart tables on real stores, bindings, lines, the clock."""

from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.codes import Code
from oms_journal.broker.durations import MICROSECONDS
from oms_journal.broker.kernel.restart.restore import restore, without_store
from oms_journal.broker.kernel.restart.table import RESTART_1, RESTART_2, RESTART_POSTPONED
from oms_journal.broker.kernel.state.unit_states import Variation
from oms_journal.broker.kernel.state.world import Line, Restored
from oms_journal.broker.kernel.tables.dormant_units import Count
from oms_journal.broker.records import (
    CLOCK,
    CLOCK_KEY,
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
    UowRecord,
    identifier,
)
from oms_journal.broker.store.changes import Changes, NewMessage, Put
from oms_journal.broker.store.report import Action
from oms_journal.broker.store.start import PersistentStore, StartRefused
from tests.support.broker.stores import DRIVERS, Driver, JournalDriver, begun, contents, put
from tests.support.sweeps import a_sample

SERVICE = ("CLASS", "SERVER", "SERVICE")
QUEUE = "CLASS/SERVER/SERVICE"
CLOCK_NOW = 5_000_000_000
NOW = 1_700_000_000_000_000


@pytest.fixture(params=DRIVERS, ids=["journal", "sqlite"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Driver:
    made: Driver = request.param(tmp_path)
    return made


def record(number: int, status: Status = Status.ACCEPTED, **fields: Any) -> UowRecord:
    """Return a unit of work of a client, the first of its conversation."""
    made = UowRecord(
        uowid=identifier((1 << 60) + 2 * number),
        conv_id=identifier((1 << 60) + 2 * number - 1),
        status=status,
        flags=Flag.PERSISTENT | Flag.STATUS_PERSISTENT | Flag.FIRST,
        uwstatp=4,
        lifetime=300,
        messages=1,
        size=7,
        created=NOW,
        sender_user="CLIENT",
        sender_token="TOKEN",
        receiver_class=SERVICE[0],
        receiver_server=SERVICE[1],
        receiver_service=SERVICE[2],
        ustatus="half done",
    )
    return made._replace(**fields)


REPLY: dict[str, Any] = {
    "sender_user": "SRV",
    "sender_token": "ONE",
    "sender_class": SERVICE[0],
    "sender_server": SERVICE[1],
    "sender_service": SERVICE[2],
    "receiver_user": "CLIENT",
    "receiver_token": "TOKEN",
    "receiver_class": "",
    "receiver_server": "",
    "receiver_service": "",
}


def store_of(driver: Driver, *records: UowRecord) -> PersistentStore:
    """Return an open store of a broker that has written these."""
    store = driver.open()
    begun(store)
    store.commit(put(CLOCK_KEY, CLOCK.encode(ClockRecord(CLOCK_NOW, NOW))))
    for one in records:
        write(store, one)
    return store


def write(store: PersistentStore, one: UowRecord) -> int:
    """Commit a unit of work as its sender does: with its messages, where they are persistent and wait."""
    has_messages = Flag.PERSISTENT in one.flags and one.status in (Status.ACCEPTED, Status.DELIVERED, Status.POSTPONED)
    at = UOW.offset("first")
    adds = [NewMessage(QUEUE, b"message")] * (one.messages if has_messages else 0)
    return store.commit(Changes(adds=adds, puts=[Put(UOWS + one.uowid, UOW.encode(one), {at: 0} if adds else {})]))


def restarted(driver: Driver, store: PersistentStore) -> tuple[PersistentStore, Restored]:
    """Let the process die and start again."""
    again = driver.killed().open()
    store.close()
    begun(again)
    return again, restore(again, now=NOW + 5)


def with_variation(number: int, status: Status, variation: Variation) -> UowRecord:
    flags = Flag.FIRST | (Flag.PERSISTENT if variation.uow else Flag(0))
    return record(number, status, flags=flags | (Flag.STATUS_PERSISTENT if variation.status else Flag(0)))


ROWS = [(status, variation, left) for (status, variation), left in RESTART_1.items()]
ROWS += [(Status.POSTPONED, variation, left) for variation, left in RESTART_POSTPONED.items()]


@a_sample(10)
@pytest.mark.parametrize(("status", "variation", "left"), ROWS, ids=str)
def test_a_row_of_the_first_restart_table(driver: Driver, status: Status, variation: Variation, left: object) -> None:
    expected = RESTART_POSTPONED[variation] if status is Status.POSTPONED else RESTART_1[status, variation]
    assert left == expected
    one = with_variation(7, status, variation)
    others = [record(1), record(99, Status.PROCESSED)]
    again, found = restarted(driver, store_of(driver, others[0], one, others[1]))

    restored_one = found.units.find(one.uowid)
    on_disk = again.record(UOWS + one.uowid)
    gone = [(line.identifier, line.action) for line in found.reported]
    assert gone == ([(one.uowid, Action.DELETED)] if expected.status is None else []), (
        "what leaves no trace is reported"
    )
    if expected.status is None:
        assert restored_one is None
        assert on_disk is None
    else:
        assert restored_one is not None
        assert restored_one.status is expected.status
        assert restored_one.ustatus == "half done"
        assert (one.uowid in waiting(found)) == expected.is_uow
        if expected.status is not status and not expected.is_uow:
            assert on_disk is not None
            assert UOW.decode(on_disk) == restored_one, "a status that changes is written"
            assert restored_one.changed == NOW + 5
            assert restored_one.ends == CLOCK_NOW + 4 * 300 * MICROSECONDS
        else:
            assert on_disk is not None
            assert UOW.decode(on_disk)._replace(status=restored_one.status) == restored_one
    assert len(found.units) == 2 + (expected.status is not None)
    assert found.units.find(others[1].uowid) == others[1]
    again.close()


@pytest.mark.parametrize("uow", [True, False])
@pytest.mark.parametrize("status", list(RESTART_2))
def test_a_row_of_the_second_restart_table(driver: Driver, status: Status, uow: bool) -> None:
    one = with_variation(7, status, Variation(uow, True))
    again, found = restarted(driver, store_of(driver, one))
    assert found.units.find(one.uowid) == one
    assert one.status is status is RESTART_2[status]
    assert waiting(found) == []
    assert found.lines == []
    again.close()


def waiting(found: Restored) -> list[str]:
    """Return the UOWIDs that the lines lead to."""
    uowids = [
        uowid
        for line in found.lines
        for number in line.conversations
        for uowid in found.units.of_conversation(identifier(number))
    ]
    records = [found.units.find(uowid) for uowid in uowids]
    return [one.uowid for one in records if one is not None and one.status in (Status.ACCEPTED, Status.POSTPONED)]


def test_a_restart_twice_finds_the_same_and_writes_nothing_more(driver: Driver) -> None:
    records = [
        with_variation(number, status, variation)
        for number, (status, variation) in enumerate(
            [(s, Variation(u, p)) for s in Status for u in (True, False) for p in (True, False)], start=1
        )
    ]
    again, _ = restarted(driver, store_of(driver, *records))
    second = restore(again, now=NOW + 99)
    before = contents(again)
    third = restore(again, now=NOW + 999)
    assert contents(again) == before
    assert [second.units.find(one.uowid) for one in records] == [third.units.find(one.uowid) for one in records]
    assert second.lines == third.lines
    assert second.senders == third.senders
    again.close()


def test_the_messages_of_what_is_restored_are_where_the_record_says(driver: Driver) -> None:
    store = store_of(driver)
    firsts = {number: write(store, record(number, messages=3)) for number in (1, 2)}
    again, found = restarted(driver, store)
    for number, first in firsts.items():
        one = found.units.find(record(number).uowid)
        assert one is not None and one.first == first
        assert [again.read(first + place).payload for place in range(3)] == [b"message"] * 3
    assert found.highest >= firsts[2] + 2
    assert found.clock == CLOCK_NOW
    assert found.has_store
    again.close()


# Bindings: a conversation belongs to a server instance by its first commit only.


def bound_to(user: str = "SRV", token: str = "ONE") -> dict[str, Any]:
    return {"receiver_user": user, "receiver_token": token}


def only(found: Restored) -> Line:
    (line,) = found.lines
    return line


def test_a_first_unit_of_work_is_free_for_every_server_again(driver: Driver) -> None:
    one = record(1, Status.DELIVERED, **bound_to())
    again, found = restarted(driver, store_of(driver, one))
    assert only(found).receiver is None
    assert found.units.find(one.uowid) == one._replace(
        status=Status.ACCEPTED, receiver_user="", receiver_token="", first=1
    )
    again.close()


def test_later_units_of_work_of_a_conversation_stay_with_their_server(driver: Driver) -> None:
    flags = Flag.PERSISTENT | Flag.BOUND
    first = record(1, Status.PROCESSED, flags=record(1).flags | Flag.BOUND, **bound_to())
    second = record(2, Status.DELIVERED, conv_id=first.conv_id, flags=flags, **bound_to())
    third = record(3, Status.ACCEPTED, conv_id=first.conv_id, flags=flags, **bound_to())
    again, found = restarted(driver, store_of(driver, first, second, third))
    assert only(found).receiver == ("SRV", "ONE")
    assert only(found).service == SERVICE
    assert len(only(found).conversations) == 1
    found_second = found.units.find(second.uowid)
    assert found_second is not None
    assert (found_second.status, found_second.receiver_user, found_second.flags) == (Status.ACCEPTED, "SRV", flags)
    assert found.units.of_conversation(first.conv_id) == [first.uowid, second.uowid, third.uowid]
    again.close()


def test_a_conversation_whose_first_unit_of_work_waits_is_bound_to_nobody(driver: Driver) -> None:
    flags = Flag.PERSISTENT | Flag.BOUND
    first = record(1, Status.DELIVERED, flags=Flag.PERSISTENT | Flag.FIRST | Flag.BOUND, **bound_to())
    second = record(2, Status.ACCEPTED, conv_id=first.conv_id, flags=flags, **bound_to())
    again, found = restarted(driver, store_of(driver, first, second))
    assert only(found).receiver is None
    for one in (first, second):
        left = found.units.find(one.uowid)
        assert left is not None
        assert (left.receiver_user, left.receiver_token, Flag.BOUND in left.flags) == ("", "", False)
    again.close()


def test_a_binding_to_an_instance_without_a_token_is_dropped(driver: Driver) -> None:
    flags = Flag.PERSISTENT | Flag.BOUND
    one = record(1, flags=flags, **bound_to(token=""))
    reply = record(2, flags=flags | Flag.FROM_SERVER, **(REPLY | {"sender_token": ""}))
    kept = record(3, flags=flags | Flag.FROM_SERVER, **REPLY)
    again, found = restarted(driver, store_of(driver, one, reply, kept))
    is_bound = {uowid: Flag.BOUND in left.flags for uowid in waiting(found) if (left := found.units.find(uowid))}
    assert is_bound == {one.uowid: False, reply.uowid: False, kept.uowid: True}
    assert {line.receiver for line in found.lines if not line.to_client} == {None}
    again.close()


def test_a_reply_waits_for_its_client_whoever_sent_it(driver: Driver) -> None:
    reply = record(1, flags=Flag.PERSISTENT | Flag.FROM_SERVER, **REPLY)
    again, found = restarted(driver, store_of(driver, reply))
    line = only(found)
    assert (line.service, line.to_client, line.receiver) == (SERVICE, True, ("CLIENT", "TOKEN"))
    assert found.senders == {("SRV", "ONE"): 1}
    assert dict(found.units.counts()) == {SERVICE: Count(1, 1, 7)}
    again.close()


# Lines.


def test_conversations_wait_in_the_order_of_their_first_commits(driver: Driver) -> None:
    store = store_of(driver)
    at, shared = UOW.offset("first"), record(1).conv_id
    for number in (1, 2, 3):  # T1, T2 of one conversation; T3 of another, committed between them
        one = record(number) if number != 3 else record(3, conv_id=shared, flags=Flag.PERSISTENT)
        store.commit(Changes(adds=[NewMessage(QUEUE, b"x")], puts=[Put(UOWS + one.uowid, UOW.encode(one), {at: 0})]))
    again, found = restarted(driver, store)
    line = only(found)
    assert list(map(identifier, line.conversations)) == [shared, record(2).conv_id]
    assert list(line.orders) == [1, 2]
    again.close()


def test_the_age_of_a_conversation_is_that_of_its_first_unit_of_work_though_that_is_done(driver: Driver) -> None:
    store = store_of(driver)
    flags = Flag.PERSISTENT | Flag.BOUND
    write(store, record(5, flags=flags, conversation=77, **bound_to()))
    write(store, record(6, flags=flags, conversation=33, **bound_to()))
    again, found = restarted(driver, store)
    line = only(found)
    assert list(line.orders) == [33, 77]
    assert list(map(identifier, line.conversations)) == [record(6).conv_id, record(5).conv_id]
    again.close()


def test_lines_are_apart_by_service_direction_and_receiver(driver: Driver) -> None:
    bound = Flag.PERSISTENT | Flag.BOUND
    records = [
        record(1),
        record(2, sender_user="OTHER"),
        record(3, receiver_service="OTHER"),
        record(4, flags=bound, **bound_to()),
        record(5, flags=bound, **bound_to(token="TWO")),
        record(6, flags=bound | Flag.FROM_SERVER, **REPLY),
        record(7, flags=bound | Flag.FROM_SERVER, **(REPLY | {"receiver_token": "T2"})),
        record(8, Status.CANCELLED),
        record(9, Status.POSTPONED),
    ]
    again, found = restarted(driver, store_of(driver, *records))
    lines = {
        (line.service[2], line.to_client, line.receiver): [identifier(number) for number in line.conversations]
        for line in found.lines
    }
    conversations = {number: record(number).conv_id for number in range(1, 10)}
    assert lines == {
        ("SERVICE", False, None): [conversations[1], conversations[2], conversations[9]],
        ("OTHER", False, None): [conversations[3]],
        ("SERVICE", False, ("SRV", "ONE")): [conversations[4]],
        ("SERVICE", False, ("SRV", "TWO")): [conversations[5]],
        ("SERVICE", True, ("CLIENT", "TOKEN")): [conversations[6]],
        ("SERVICE", True, ("CLIENT", "T2")): [conversations[7]],
    }
    assert found.senders == {("CLIENT", "TOKEN"): 5, ("OTHER", "TOKEN"): 1, ("SRV", "ONE"): 2}
    again.close()


# Everything else.


def test_subscriptions_and_publications_are_restored(driver: Driver) -> None:
    store = store_of(driver)
    subscription = SubscriptionRecord(identifier(3), position=5, user="ME", topic="NYSE", acknowledged=(7, 9))
    publications = [
        PublicationRecord(identifier(number), Status.ACCEPTED, Flag.PERSISTENT, first=20 - number, topic="NYSE")
        for number in (4, 5)
    ]
    store.commit(put(SUBSCRIPTIONS + subscription.subscription_id, SUBSCRIPTION.encode(subscription)))
    for publication in publications:
        store.commit(put(PUBLICATIONS + publication.publication_id, PUBLICATION.encode(publication)))
    again, found = restarted(driver, store)
    assert found.subscriptions == [subscription]
    assert found.publications == publications[::-1]
    again.close()


def test_an_empty_store_restores_nothing(driver: Driver) -> None:
    store = driver.open()
    begun(store)
    found = restore(store, now=NOW)
    assert (len(found.units), found.lines, found.senders, found.clock) == (0, [], {}, 0)
    assert found.has_store
    assert not without_store().has_store
    store.close()


WHOLE = UOW.encode(record(1))
TEXTS = len(b"\x09half done\0")  # of its own, at its end
BROKEN = {
    "no record": b"no record",
    "a newer version": b"\2" + WHOLE[1:],
    "an unknown status": WHOLE[: UOW.offset("status")] + b"\x63" + WHOLE[UOW.offset("status") + 1 :],
    "an extent that ends in a party": WHOLE[: UOW.offset("extent")] + b"\3" + WHOLE[UOW.offset("extent") + 1 :],
    "an extent of no parties": WHOLE[: UOW.offset("extent")] + b"\0\0" + WHOLE[UOW.offset("extent") + 2 :],
    "a party that is no text": WHOLE.replace(b"CLIENT", b"CLI\xff\xff\xff"),
    "a user status that is no text": WHOLE.replace(b"half", b"\xff\xff\xff\xff"),
    "a user status that is cut off": WHOLE[:-5],
    "no user status": WHOLE[:-TEXTS],
    "bytes behind the end": WHOLE + b"\0",
}


@pytest.mark.parametrize(
    ("value", "code"),
    [
        *(pytest.param(value, Code.RESTART_FAILED, id=what) for what, value in BROKEN.items()),
        (UOW.encode(record(2)), Code.DUPLICATE_UOWID),
    ],
)
def test_a_record_that_cannot_be_read_stops_the_start_and_changes_nothing(
    driver: Driver, value: bytes, code: Code
) -> None:
    store = store_of(driver, record(2), with_variation(3, Status.RECEIVED, Variation(True, True)))
    store.commit(put(UOWS + record(1).uowid, value))
    before = contents(store)
    for _ in range(2):
        with pytest.raises(StartRefused) as refused:
            restore(store, now=NOW)
        assert refused.value.code is code
        assert contents(store) == before
    store.close()


def test_a_damaged_record_is_named_and_all_others_are_restored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    driver = JournalDriver(tmp_path)
    store = store_of(driver, *(record(number) for number in range(1, 6)))
    store.close()
    name = next(name for name in driver.disk.contents(Path("/spool")) if name.endswith(".data"))
    data = driver.disk.contents(Path("/spool"))[name]
    at = [place for place in range(len(data)) if data.startswith(b"CLIENT", place)][2]
    driver.disk.put(Path("/spool") / name, data[:at] + b"K" + data[at + 1 :])

    again = driver.open()
    found = restore(again, now=NOW)
    assert list(found.lost) == [UOWS + record(3).uowid]
    assert [number for number in range(1, 6) if found.units.find(record(number).uowid) is None] == [3]
    assert any("LOST" in line.message for line in caplog.records)
    assert again.message_count() == 5
    again.close()


def test_many_units_of_work_are_restored_as_they_were_written(driver: Driver) -> None:
    store = store_of(driver)
    records = [
        record(
            number,
            (Status.ACCEPTED, Status.PROCESSED, Status.ACCEPTED)[number % 3],
            sender_token=f"T{number % 5}",
            ustatus="" if number % 7 else f"at {number}",
            producer="" if number % 11 else f"order-{number}",
        )
        for number in range(1, 3000)
    ]
    puts = [Put(UOWS + one.uowid, UOW.encode(one._replace(first=1))) for one in records]
    for start in range(0, len(puts), 500):
        store.commit(Changes(puts=puts[start : start + 500]))
    again, found = restarted(driver, store)
    assert len(found.units) == len(records)
    for one in records[::17]:
        assert found.units.find(one.uowid) == one._replace(first=1)
    assert sum(found.senders.values()) == sum(one.status is Status.ACCEPTED for one in records)
    again.close()
