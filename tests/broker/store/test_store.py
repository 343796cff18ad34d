"""What every driver of the broker's store promises: commits whole and durable, refusals that write nothing."""

from pathlib import Path

import pytest

from oms_journal.broker.drivers.sqlite import SqliteStore
from oms_journal.broker.kernel.tables.remembered import Remembered
from oms_journal.broker.store.changes import Changes, NewMessage, Put, merge
from oms_journal.broker.store.start import (
    CommitRefused,
    MessageUnreadable,
    PersistentStore,
    ProducerReused,
    StoreUnavailable,
)
from oms_journal.broker.store.stored import StoredMessage, StoredRecord
from tests.support.broker.stores import DRIVERS, MESSAGE_BYTES_MAX, Driver, added, contents, payloads, put
from tests.support.sweeps import a_sample

FULL = 2  # of SQLite's `synchronous`: the log is synced with every commit


@pytest.fixture(params=DRIVERS, ids=["journal", "sqlite"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Driver:
    made: Driver = request.param(tmp_path)
    return made


def test_a_commit_is_there_as_a_whole_and_after_a_restart(driver: Driver) -> None:
    store = driver.open()
    first = store.commit(added(b"one", b"two", b"three"))
    store.commit(put("old", b"x"))
    second = store.commit(
        Changes(
            adds=[NewMessage("a", b"four", {"k": "v"}), NewMessage("b", b"five")],
            puts=[Put("record", bytes(20), {0: 0, 12: 1}), Put("broker/x", b"")],
            drops=["old", "never there"],
            delivered=[range(first, first + 1)],
            deleted=[range(first + 2, first + 3), range(0)],
        )
    )

    found = contents(store)
    assert [(one.number, one.queue, one.payload, dict(one.properties)) for one in found[0]] == [
        (first + 1, "C/S/V", b"two", {}),
        (second, "a", b"four", {"k": "v"}),
        (second + 1, "b", b"five", {}),
    ]
    numbers = second.to_bytes(8, "little") + bytes(4) + (second + 1).to_bytes(8, "little")
    assert found[1] == {"broker/x": b"", "record": numbers}
    store.close()
    again = driver.open(creates=False)
    assert contents(again) == found
    again.close()


def test_what_was_acknowledged_outlives_the_process(driver: Driver) -> None:
    store = driver.open()
    for turn in range(50):
        store.commit(added(b"%d" % turn, puts=[Put(f"key{turn % 7}", b"%d" % turn)]))
    found = contents(store)

    killed = driver.killed().open(creates=False)
    assert contents(killed) == found
    killed.close()
    store.close()


def test_sqlite_syncs_every_commit_and_is_one_process_s_alone(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "file")
    assert store.commit(added(b"x")) == 1
    settings = {
        name: store._connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("synchronous", "journal_mode", "locking_mode", "auto_vacuum")
    }
    assert settings == {"synchronous": FULL, "journal_mode": "wal", "locking_mode": "exclusive", "auto_vacuum": 2}
    store.close()


def test_several_commits_go_out_together_and_each_stands_alone(driver: Driver) -> None:
    store = driver.open()
    first = store.commit(added(b"old"))
    answers = store.commit_many(
        [
            added(b"one"),
            Changes(puts=[Put("k", b"never")], delivered=[range(first + 5, first + 6)]),
            Changes(),
            put("k", b"v"),
            Changes(delivered=[range(first, first + 1)]),
            Changes(delivered=[range(first, first + 1)], drops=["k"]),
            added(b"two", b"three"),
        ]
    )

    assert answers[0] == first + 1
    assert isinstance(answers[1], CommitRefused)
    assert answers[2:5] == [0, 0, 0]
    assert isinstance(answers[5], CommitRefused)
    assert answers[6] == first + 2
    assert payloads(store) == {first + 1: b"one", first + 2: b"two", first + 3: b"three"}
    assert dict(store.records("")) == {"k": b"v"}
    assert store.commit_many([]) == []
    store.close()


@pytest.mark.parametrize(
    "changes",
    [
        added(bytes(MESSAGE_BYTES_MAX + 1)),
        added(b"x", queue=""),
        added(b"x", queue="q" * 256),
        put("", b""),
        put("k" * 256, b""),
        put("k", bytes(65_537)),
        Changes(drops=[""]),
        added(b"x", producer="p" * 256),
        added(b"x", puts=[Put("k", bytes(8), {1: 0})]),
        added(b"x", puts=[Put("k", bytes(8), {0: 1})]),
        Changes(delivered=[range(1, 3)]),
        Changes(deleted=[range(2, 3)]),
        Changes(delivered=[range(1, 2)], deleted=[range(1, 2)]),
        Changes(adds=[NewMessage("q", b"x", {"k": "v" * 70_000})]),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_of_it_is_written(driver: Driver, changes: Changes) -> None:
    store = driver.open()
    store.commit(added(b"the only message"))
    before = contents(store)

    for _ in range(2):
        with pytest.raises(CommitRefused):
            store.commit(changes)

    assert store.is_connected
    assert contents(store) == before
    store.commit(added(b"goes on"))
    store.close()


def test_a_producers_repeat_adds_nothing_and_gets_the_first_answer(driver: Driver) -> None:
    store = driver.open()
    sent = added(b"one", b"two", producer="order-1", puts=[Put("k", b"v")])
    first = store.commit(sent)
    store.commit(Changes(drops=["k"]))
    assert store.commit(sent) == first
    assert store.record("k") is None
    assert store.commit(added(b"one", b"two", queue="other", producer="order-1")) == first + 2
    for changed in (added(b"one", producer="order-1"), added(b"one", b"2", producer="order-1")):
        with pytest.raises(CommitRefused, match="order-1"):
            store.commit(changed)
    store.commit(Changes(delivered=[range(first, first + 2)]))
    assert store.commit(sent) == first
    assert store.read(first + 2).producer == "order-1"
    store.close()

    again = driver.open()
    assert again.commit(sent) == first
    assert again.message_count() == 2
    again.close()


def test_messages_of_several_queues_under_one_identifier_are_a_repeat_together(driver: Driver) -> None:
    sent = merge(added(b"one", b"two", queue=queue, producer="order-1") for queue in "ab")
    for _ in range(2):
        store = driver.open()
        assert store.commit(sent) == store.commit(sent) == 1
        with pytest.raises(ProducerReused, match="order-1"):
            store.commit(merge(added(b"one", b"2", queue=queue, producer="order-1") for queue in "ab"))
        with pytest.raises(ProducerReused, match="some of the commit was sent before"):
            store.commit(merge(added(b"one", b"two", queue=queue, producer="order-1") for queue in "ac"))
        assert store.message_count() == 4
        found = list(store.identifiers())
        assert [(each.queue, each.first, each.messages) for each in found] == [("a", 1, 2), ("b", 3, 2)]
        assert len({(each.producer, each.added, each.digest) for each in found}) == 1
        known = Remembered(found)
        whole = [known.find(queue, "order-1") for queue in "ab"]
        for one in whole:
            assert one is not None and known.together_with(one) == whole
        store.close()


def test_a_producers_identifier_is_forgotten_after_an_hour(driver: Driver) -> None:
    store = driver.open()
    sent = added(b"one", producer="order-1")
    first = store.commit(sent)
    driver.clock.advance(3601)  # type: ignore[attr-defined]
    assert store.commit(sent) == first + 1
    assert store.commit(sent) == first + 1
    store.close()


def test_a_repeat_that_does_more_than_the_first_is_refused(driver: Driver) -> None:
    store = driver.open()
    first = store.commit(added(b"received", queue="in"))
    store.commit(added(b"one", producer="order-1"))
    with pytest.raises(CommitRefused):
        store.commit(added(b"one", producer="order-1", delivered=[range(first, first + 1)]))
    assert payloads(store)[first] == b"received"
    store.close()


def test_numbers_never_run_back(driver: Driver) -> None:
    store = driver.open()
    assert store.highest() >= 0
    numbers = [store.commit(added(b"x", b"y")) for _ in range(3)]
    assert store.highest() == numbers[-1] + 1
    store.commit(Changes(delivered=[range(numbers[0], numbers[-1] + 2)]))
    store.close()
    again = driver.open()
    assert again.highest() >= numbers[-1] + 1
    assert again.commit(added(b"z")) > numbers[-1] + 1
    again.close()


def test_a_message_that_is_gone_cannot_be_read(driver: Driver) -> None:
    store = driver.open()
    first = store.commit(added(b"x"))
    store.commit(Changes(delivered=[range(first, first + 1)]))
    for number in (first, first + 1, 0):
        with pytest.raises(MessageUnreadable):
            store.read(number)
    assert store.record("nothing") is None
    store.close()


def test_records_are_found_by_their_prefix_in_order(driver: Driver) -> None:
    store = driver.open()
    keys = ["a", "a/", "a/1", "a/10", "a/2", "a/\u00e9", "a0", "b/1"]
    for key in reversed(keys):
        store.commit(put(key, key.encode()))
    assert [key for key, _ in store.records("")] == keys
    assert [key for key, _ in store.records("a/")] == keys[1:6]
    assert list(store.records("zz")) == []
    assert contents(store)[1] == {key: key.encode() for key in keys}
    store.close()


# Loading.


def loadable() -> list[StoredMessage]:
    return [
        StoredMessage(7, "q", b"seven", {"k": "v"}, 11, "me"),
        StoredMessage(9, "p", b"", {}, 12),
        StoredMessage(10, "q", bytes(3000), {}, 5, "you"),
    ]


def test_what_is_loaded_keeps_number_time_properties_and_producer(driver: Driver) -> None:
    store = driver.open()
    store.commit(put("broker/master", b"of the loader"))
    for message in loadable():
        store.load(message)
    store.load(StoredRecord("broker/master", b"of the source"))
    store.load(StoredRecord("broker/uow/1", b"record"))
    store.close()

    again = driver.open()
    assert contents(again) == (loadable(), {"broker/master": b"of the source", "broker/uow/1": b"record"})
    assert again.commit(added(b"later")) > 10
    again.commit(Changes(delivered=[range(9, 11)]))
    assert list(payloads(again)) == [7, again.highest()]
    again.close()


@a_sample(1)
def test_many_messages_are_loaded(driver: Driver) -> None:
    store = driver.open()
    expected = [StoredMessage(2 * turn + 1, f"q{turn % 3}", b"%d" % turn, {}, turn) for turn in range(2500)]
    for message in expected:
        store.load(message)
        store.load(StoredRecord(f"k{message.number}", b"v"))
    store.close()
    again = driver.open()
    assert list(again.messages()) == expected
    assert len(dict(again.records("k"))) == 2500
    again.close()


def test_a_commit_ends_the_loading(driver: Driver) -> None:
    store = driver.open()
    for message in loadable():
        store.load(message)
    later = store.commit(added(b"later", puts=put("broker/checkpoint/ETBT", b"x").puts))
    assert later > loadable()[-1].number
    assert list(store.messages())[:-1] == loadable()
    with pytest.raises(CommitRefused, match="holds messages"):
        store.load(StoredRecord("k", b"v"))
    found = contents(store)
    store.close()
    again = driver.open()
    assert contents(again) == found
    again.close()


def test_what_was_loaded_can_be_erased(driver: Driver) -> None:
    store = driver.open()
    for message in loadable():
        store.load(message)
    store.erase({"broker/master": b"new"})
    assert contents(store) == ([], {"broker/master": b"new"})
    store.close()
    again = driver.open()
    assert contents(again) == ([], {"broker/master": b"new"})
    again.close()


def test_what_is_not_in_order_or_comes_into_a_store_with_messages_is_not_loaded(driver: Driver) -> None:
    store = driver.open()
    store.commit(added(b"here already"))
    with pytest.raises(CommitRefused, match="holds messages"):
        store.load(loadable()[0])
    assert payloads(store) == {1: b"here already"}
    store.close()


def test_messages_out_of_order_are_not_loaded(driver: Driver) -> None:
    store = driver.open()
    store.load(loadable()[1])
    with pytest.raises(CommitRefused):
        store.load(loadable()[0])
        store.close()
    store.close()


# Away, and back.


def everything_is_refused(store: PersistentStore) -> None:
    (answer,) = store.commit_many([put("k", b"v")])
    assert isinstance(answer, StoreUnavailable)
    asked = (
        lambda: store.commit(put("k", b"v")),
        lambda: store.read(1),
        lambda: store.record("k"),
        lambda: list(store.records("")),
        lambda: list(store.values("")),
        lambda: list(store.messages()),
        store.highest,
        store.is_empty,
        store.message_count,
        lambda: store.load(StoredRecord("k", b"v")),
        lambda: store.erase({}),
    )
    for ask in asked:
        with pytest.raises(StoreUnavailable):
            ask()


def test_a_store_that_is_disconnected_refuses_everything_and_comes_back(driver: Driver) -> None:
    store = driver.open()
    store.commit(added(b"before", puts=[Put("k", b"before")]))
    found = contents(store)
    for _ in range(2):
        store.disconnect()
        assert not store.is_connected
        everything_is_refused(store)
        with pytest.raises(StoreUnavailable) as refused:
            store.commit(put("k", b"v"))
        assert not refused.value.was_attempted
        store.connect()
        assert store.is_connected
        assert contents(store) == found
    store.connect()
    store.commit(added(b"after"))
    store.close()


def test_a_store_that_is_lost_comes_back_with_what_was_told_durable_and_nothing_else(driver: Driver) -> None:
    store = driver.open()
    kept = []
    for turn in range(3):
        kept.append(store.commit(added(b"kept %d" % turn, puts=[Put("k", b"%d" % turn)])))
        found = contents(store)
        with driver.fails():
            with pytest.raises(StoreUnavailable):
                store.commit(added(b"told as failed", bytes(50_000), puts=[Put("k", b"told as failed")]))
            assert not store.is_connected
            everything_is_refused(store)
            with pytest.raises(StoreUnavailable):
                store.connect()
            assert not store.is_connected
        store.connect()
        assert store.is_connected
        assert contents(store) == found
    store.commit(Changes(delivered=[range(kept[0], kept[0] + 1)]))
    found = contents(store)
    assert list(payloads(store)) == kept[1:]
    store.close()
    again = driver.open()
    assert contents(again) == found
    again.close()


def test_all_commits_that_go_out_with_one_that_fails_are_told_so(driver: Driver) -> None:
    store = driver.open()
    store.commit(added(b"kept"))
    found = contents(store)
    with driver.fails():
        answers = store.commit_many([added(bytes(30_000)) for _ in range(5)])
        assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    store.connect()
    assert contents(store) == found
    store.close()


def test_a_store_that_is_gone_stays_lost(driver: Driver) -> None:
    store = driver.open()
    store.commit(added(b"kept"))
    store.close()
    everything_is_refused(store)
