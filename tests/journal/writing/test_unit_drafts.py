"""A commit as a broker makes most of them is drafted a short way: byte for byte what the long way makes of it."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from oms_journal.broker.store.changes import Put
from oms_journal.database.drafting import first_of
from oms_journal.database.ledger import IndexChanges
from oms_journal.database.unit import RUNS_MAX, Unit
from oms_journal.journal.errors import LimitExceeded, NotUndelivered
from oms_journal.journal.format.records import NUMBER
from oms_journal.journal.operations import VALUE_BYTES_MAX
from oms_journal.journal.writing.draft import Draft, fill_values
from oms_journal.journal.writing.groups import form
from oms_journal.journal.writing.single import WritePosition
from oms_journal.journal.writing.unit import NewValue

FIELDS = (
    *("operations", "messages", "rows", "footer_bytes", "frame_size", "weight", "features", "has_add", "payload_size"),
    *("numbers_end", "failure", "answer"),
)
QUEUES = ("GAME/CHESS/BLACK", "A/B/C/reply", "Q")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path / "spool", cleanup_interval=0) as database:
        yield database


def long_way(db: MessageDatabase, unit: Unit) -> Draft:
    block = db.drafting.gathering(None)
    for payload in unit.payloads:
        block.add(unit.queue, payload)
    for numbers in unit.delivered:
        block.deliver_many(numbers)
    for numbers in unit.deleted:
        block.delete_many(numbers)
    for given in unit.values:
        block.put(given.key.decode(), given.value, numbers_at=dict(given.numbers_at))
    for key in unit.drops:
        block.drop(key.decode())
    return block.operations.compose()


def told(draft: Draft) -> tuple[bytes, ...]:
    """Return the bytes of a draft once its numbers are known."""
    draft.first = 1_000_001
    for at, distance in draft.fixups:
        NUMBER.pack_into(draft.records, at, draft.first + distance)
    if draft.value_fixups:
        fill_values(draft)
    return (bytes(draft.records), b"".join(map(bytes, draft.payload)), *draft.value_heads)


def random_unit(chance: random.Random, live: dict[str, list[range]]) -> Unit:
    payloads = [chance.randbytes(chance.choice((0, 1, 7, 8, 100))) for _ in range(chance.choice((0, 1, 2, 3, 130)))]
    keys = chance.sample(range(1000), 6)
    values = []
    for key in keys[: chance.randrange(4)]:
        value = chance.randbytes(chance.choice((0, 8, 120, 200)))
        numbers_at: Sequence[tuple[int, int]] = ()
        if payloads and len(value) >= 100 and chance.random() < 0.7:
            numbers_at = ((chance.choice((0, 64, len(value) - 8)), chance.randrange(len(payloads))),)
        values.append(NewValue(f"uow/{key:016X}".encode(), value, numbers_at))
    drops = [f"uow/{key:016X}".encode() for key in keys[4 : 4 + chance.randrange(3)]]
    queue = chance.choice(QUEUES)
    delivered, deleted = [], []
    if chance.random() < 0.5:
        delivered.append(chance.choice(live[queue]))
    elif chance.random() < 0.5:
        deleted.append(chance.choice(live[queue]))
    return Unit(queue, payloads, delivered, deleted, values, drops)


def test_both_ways_make_the_same_draft(db: MessageDatabase) -> None:
    live = {queue: [db.add_many(queue, [b"x"] * count) for count in (1, 3, 300)] for queue in QUEUES}
    for seed in range(500):
        unit = random_unit(random.Random(seed), live)
        short, long = db.drafting.unit(unit), long_way(db, unit)

        assert short is not None, seed
        assert plain_fields(short) == plain_fields(long), seed
        assert sorted(short.names) == sorted(long.names), seed
        assert told(short) == told(long), seed
        assert changed(short) == changed(long), seed


def test_one_message_with_its_record_is_drafted_the_shortest_way(db: MessageDatabase) -> None:
    for seed in range(100):
        chance = random.Random(seed)
        numbers_at = {0: 0, 56: 0} if seed % 2 else {0: 0}
        value = NewValue(b"uow/1", chance.randbytes(chance.choice((64, 100, 300))), tuple(numbers_at.items()))
        payload = chance.randbytes(chance.choice((0, 1, 8, 1000)))
        shortest = db.drafting.sent("A/B/C", payload, value.key, Put("uow/1", value.value, numbers_at))
        long = long_way(db, Unit("A/B/C", [payload], (), (), [value], ()))

        assert shortest is not None, seed
        assert {name: getattr(shortest, name) for name in FIELDS} == {name: getattr(long, name) for name in FIELDS}, (
            seed
        )
        assert told(shortest) == told(long), seed
        assert changed(shortest) == changed(long), seed
        assert all(hasattr(shortest, name) for name in Draft.__slots__)


@pytest.mark.parametrize("count", [1, 2, 50])
def test_a_group_of_the_commonest_is_formed_as_any_other(db: MessageDatabase, count: int) -> None:
    chance = random.Random(count)
    place = WritePosition(
        identity=7, sequence=3, owner=5, alignment=8, offset=4096, synced=4096, next_message=100, next_commit=9
    )
    shortest: list[Draft] = []
    others: list[Draft] = []
    for number in range(count):
        key, payload = b"uow/%d" % number, chance.randbytes(chance.randrange(20))
        put = Put(key.decode(), chance.randbytes(chance.choice((64, 65, 200))), {0: 0, 8: 0})
        draft = db.drafting.sent("A/B/C", payload, key, put)
        assert draft is not None
        shortest.append(draft)
        others.append(long_way(db, Unit("A/B/C", [payload], (), (), [NewValue(key, put.value, ((0, 0), (8, 0)))], ())))
    one, other = form(replace(place), shortest, time=11), form(replace(place), others, time=11)

    assert one.sent and not other.sent
    assert b"".join(map(bytes, one.buffers)) == b"".join(map(bytes, other.buffers))
    assert (list(one.heads), list(one.offsets), one.end) == (list(other.heads), list(other.offsets), other.end)
    assert (one.next_message, one.next_commit) == (other.next_message, other.next_commit)
    for a, b in zip(shortest, others, strict=True):
        assert (a.first, a.commit, a.sequence, a.offset, a.time) == (b.first, b.commit, b.sequence, b.offset, b.time)
        assert list(a.value_heads) == list(b.value_heads)


def test_what_is_committed_the_shortest_way_is_there_at_once_and_after_a_restart(tmp_path: Path) -> None:
    def looked(db: MessageDatabase) -> tuple[object, ...]:
        keys = list(db.keys())
        messages = [(message.number, message.queue, message.payload) for message in db.undelivered()]
        return messages, [(key, db.get(key)) for key in keys], db.queues()

    with MessageDatabase.open(tmp_path / "spool", cleanup_interval=0) as db:
        for turn in range(20):
            drafts: list[Draft] = []
            for number in range(turn):
                key = f"uow/{number if turn % 3 else turn * 100 + number}"  # some are written again and again
                draft = db.drafting.sent(QUEUES[number % 2], b"%d" % number, key.encode(), Put(key, bytes(16), {8: 0}))
                assert draft is not None
                drafts.append(draft)
            if turn % 5 == 4:
                drafts.append(long_way(db, Unit("Q", [b"among others"], (), (), (), ())))
            if drafts:
                db.check_open()
                db.group.commit_many(drafts)
            for place, draft in enumerate(drafts):
                assert draft.failure is None and first_of(draft) == drafts[0].first + place
                if draft.names[1:]:
                    value = db.get(draft.names[1].decode())
                    assert value is not None and value[:8] == bytes(8)
        found = looked(db)
    with MessageDatabase.open(tmp_path / "spool", cleanup_interval=0) as db:
        assert looked(db) == found


def test_what_is_not_so_common_goes_a_longer_way(db: MessageDatabase) -> None:
    def goes(payload: bytes = b"x", key: bytes = b"k", value: bytes = bytes(8), at: int = 0, place: int = 0) -> bool:
        return db.drafting.sent("A/B/C", payload, key, Put("", value, {at: place})) is not None

    assert goes()
    assert not goes(at=1) and not goes(at=-1) and not goes(place=1)
    assert not goes(payload=bytearray(b"x"))  # type: ignore[arg-type]
    assert not goes(payload=bytes(db.options.max_message_size + 1))
    assert not goes(value=bytearray(8))  # type: ignore[arg-type]
    assert not goes(value=bytes(VALUE_BYTES_MAX + 1))
    assert not goes(key=b"") and not goes(key=bytes(256)) and not goes(key=b"\0engine")
    assert db.drafting.sent("A/B/C", b"x", b"k", Put("k", bytes(16), {0: 0, 8: 1})) is None
    assert db.drafting.sent("A/B/C", b"x", b"k", Put("k", bytes(16))) is None


def plain_fields(draft: Draft) -> dict[str, object]:
    return {name: getattr(draft, name) for name in FIELDS}


def changed(draft: Draft) -> tuple[object, ...]:
    """Return what a draft changes in the index."""
    effect = draft.effect
    assert isinstance(effect, IndexChanges)
    removed = None if effect.removed is None else effect.removed.tolist()
    runs = [(run.queue, list(run.sizes)) for run in effect.runs]
    return (runs, removed, effect.is_strict, list(effect.puts), list(effect.drops), list(effect.identifiers))


def test_what_is_not_of_the_common_form_goes_the_long_way(db: MessageDatabase) -> None:
    numbers = db.add_many("A", [b"x"] * 20)
    other = db.add("B", b"x")

    def goes_short(payloads: Sequence[bytes] = (), **fields: object) -> bool:
        given = {"delivered": (), "deleted": (), "values": (), "drops": ()} | fields
        return db.drafting.unit(Unit("A", payloads, **given)) is not None  # type: ignore[arg-type]

    assert goes_short([b"x"])
    assert not goes_short([bytearray(b"x")])  # type: ignore[list-item]
    assert not goes_short([bytes(db.options.max_message_size + 1)])
    assert not goes_short(values=[NewValue(b"k", bytes(VALUE_BYTES_MAX + 1), ())])
    assert not goes_short(values=[NewValue(b"k", bytes(8), ((1, 0),))])
    assert not goes_short([b"x"], values=[NewValue(b"k", bytes(8), ((0, 1),))])
    assert not goes_short(values=[NewValue(b"", b"", ())])
    assert not goes_short(values=[NewValue(b"\0engine", b"", ())])
    assert not goes_short(drops=[bytes(256)])
    assert not goes_short(delivered=[range(numbers.start, other + 1)])
    assert goes_short(delivered=[range(at, at + 1) for at in numbers[:RUNS_MAX]])
    assert not goes_short(delivered=[range(at, at + 1) for at in numbers[: RUNS_MAX + 1]])


def test_a_removal_of_what_is_gone_or_of_one_message_twice_is_refused(db: MessageDatabase) -> None:
    number = db.add("A", b"x")
    twice = [range(number, number + 1)]
    with pytest.raises(NotUndelivered):
        db.drafting.unit(Unit("A", (), twice, twice, (), ()))
    db.deliver(number)
    with pytest.raises(NotUndelivered):
        db.drafting.unit(Unit("A", (), twice, (), (), ()))


def test_a_commit_of_more_than_a_million_operations_is_refused(db: MessageDatabase) -> None:
    with pytest.raises(LimitExceeded):
        db.drafting.unit(Unit("A", [b""] * 1_000_001, (), (), (), ()))
