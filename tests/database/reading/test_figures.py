"""The figures of a database are what its directory really holds."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from oms_journal import DatabaseView, MessageDatabase
from oms_journal.database.stats import Stats
from tests.support.disks.small_files import open_small
from tests.support.disks.watched_disk import HandClock
from tests.support.sweeps import a_sample


def _work(db: MessageDatabase, seed: int) -> None:
    chance = random.Random(seed)
    for turn in range(60):
        db.add(f"queue {chance.randrange(4)}", chance.randbytes(chance.randrange(300)), properties={"turn": str(turn)})
        db.put(f"key {chance.randrange(6)}", chance.randbytes(50))
        if turn % 3 == 0:
            db.delete_many(chance.sample(list(db.numbers()), db.undelivered_count() // 3))
        if turn % 20 == 19:
            db.drop(f"key {chance.randrange(6)}")


def _check(stats: Stats, db: MessageDatabase | DatabaseView) -> None:
    messages = list(db.undelivered())
    sizes = {m.number: len(m.payload) + sum(4 + len(k) + len(v) for k, v in m.properties.items()) for m in messages}
    assert stats.undelivered == len(messages)
    assert stats.live_bytes == sum(sizes.values())
    assert {name: queue.undelivered for name, queue in stats.queues.items()} == db.queues()
    for name, queue in stats.queues.items():
        mine = [message for message in messages if message.queue == name]
        assert queue.bytes == sum(sizes[message.number] for message in mine)
        assert queue.oldest == mine[0].number
    assert stats.keys == len(list(db.keys()))


@a_sample(2)
@pytest.mark.parametrize("seed", range(4))
def test_the_figures_of_a_closed_database_are_those_of_its_directory(seed: int, tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        _work(db, seed)
        _check(db.stats(), db)
        db.cleanup(compact=bool(seed % 2))
        _check(db.stats(), db)
    data = {path.name: path.stat().st_size for path in sorted(tmp_path.glob("*.data"))}
    (tmp_path / "omsmsg-0000000001-v0001.archive").write_bytes(bytes(100))
    (tmp_path / "omsmsg-0000000002-v0007.archive").write_bytes(bytes(23))
    with DatabaseView.open(tmp_path) as view:
        stats, explained = view.stats(), view.explain()
        _check(stats, view)
        in_file = Counter(message.sequence for message in view.undelivered())
    assert (stats.files, stats.bytes) == (len(data), sum(data.values()))
    assert (stats.archives, stats.archive_bytes) == (2, 123)
    assert stats.directory == str(tmp_path)
    assert stats.free_bytes > 0
    assert {fact.name: fact.bytes for fact in explained} == data
    assert {fact.sequence: fact.live_messages for fact in explained if fact.live_messages} == in_file
    assert sum(fact.live_keys for fact in explained) == stats.keys
    assert sum(fact.live_bytes for fact in explained) == stats.live_bytes
    assert all(fact.needed == bool(fact.live_messages or fact.live_keys) for fact in explained)
    with open_small(tmp_path) as db:
        again = db.stats()
        assert (again.files, again.bytes, again.live_bytes) == (stats.files, stats.bytes, stats.live_bytes)
        assert again.archives == 2


def test_the_active_file_is_counted_up_to_where_it_is_written(tmp_path: Path) -> None:
    with open_small(tmp_path, max_data_file_size="25M") as db:
        assert db.stats().files == db.stats().bytes == 0
        db.add("q", bytes(1000))
        (active,) = db.explain()
        assert active.active and active.needed
        assert 5000 < active.bytes < 6000, "what is only prepared is not counted"
        assert db.stats().bytes == active.bytes
        assert active.freed_by_compact == 0


def test_ages_are_those_of_the_first_add_and_never_below_zero(tmp_path: Path) -> None:
    clock = HandClock()
    with open_small(tmp_path, clock=clock) as db:
        first = db.add("q", b"first")
        clock.advance(50)
        db.add("q", b"second")
        clock.advance(50)
        db.deliver_many([db.add("r", bytes(700)) for _ in range(20)])
        assert db.cleanup(compact=True).moved_messages == 2
        stats = db.stats()
        assert stats.queues["q"].oldest == first
        assert stats.queues["q"].oldest_age == pytest.approx(100, abs=0.01)
        assert stats.pinned_by is not None and stats.pinned_by.age == pytest.approx(100, abs=0.01)
        clock.advance(-1000)
        assert db.stats().queues["q"].oldest_age == 0


def test_what_pins_is_the_oldest_message_or_key_of_the_oldest_needed_file(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        assert db.stats().pinned_by is None
        db.put("key", b"v")
        gone = [db.add("q", bytes(700)) for _ in range(8)]
        second, third = db.add("r", b"pins"), db.add("q", b"too")
        rest = [db.add("q", bytes(700)) for _ in range(12)]
        db.deliver_many([*gone, *rest])
        pin = db.stats().pinned_by
        assert pin is not None
        assert (pin.sequence, pin.kind, pin.key, pin.number) == (1, "key", "key", None)
        facts = {fact.sequence: fact for fact in db.explain()}
        place = db.read(second).sequence
        message_pin = facts[place].pinned_by
        assert message_pin is not None
        assert (message_pin.kind, message_pin.number, message_pin.queue) == ("message", second, "r")
        dead_behind = sum(not fact.needed and not fact.active for fact in facts.values() if fact.sequence > place)
        assert facts[place].pins_files == dead_behind > 0
        assert facts[1].pins_files >= dead_behind
        assert all(fact.pins_files == 0 and fact.pinned_by is None for fact in facts.values() if not fact.needed)
        db.drop("key")
        db.deliver_many([second, third])
        assert db.stats().pinned_by is None


def test_what_compaction_is_said_to_free_it_frees(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        kept = db.add("q", b"pins")
        db.deliver_many([db.add("q", bytes(700)) for _ in range(20)])
        db._journal.seal_all()
        promised = {fact.name: fact.freed_by_compact for fact in db.explain() if fact.freed_by_compact}
        planned = db.cleanup(compact=True, dry_run=True)
        report = db.cleanup(compact=True)
        assert set(report.deleted) == set(planned.deleted) == set(promised)
        assert report.freed_bytes == planned.freed_bytes == sum(promised.values())
        assert report.moved_messages == planned.moved_messages == 1
        assert list(db.numbers()) == [kept]


def test_every_report_is_json(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        db.add("q", b"x")
        db.put("k", b"v")
        stats = json.loads(json.dumps(db.stats().as_dict()))
        (fact,) = json.loads(json.dumps([each.as_dict() for each in db.explain()]))
        report = json.loads(json.dumps(db.cleanup(compact=True).as_dict()))

    assert {"files", "bytes", "live_bytes", "undelivered", "queues", "pinned_by", "archives"} <= set(stats)
    assert stats["queues"]["q"]["undelivered"] == 1
    assert fact["pinned_by"]["kind"] == "message"
    assert report["deleted"] == []
