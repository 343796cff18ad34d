"""A commit as a broker makes most of them is drafted as it is: byte for byte what a commit block makes of it."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from oms_journal.database.commits.drafting import RANGES_MAX, Unit
from oms_journal.database.commits.ledger import IndexChanges
from oms_journal.journal.errors import LimitExceeded, NotUndelivered
from oms_journal.journal.format.records import NUMBER
from oms_journal.journal.operations import VALUE_BYTES_MAX
from oms_journal.journal.writing.draft import Draft, fill_values

FIELDS = ("frame_size", "weight", "failure", "answer")
SHAPE = ("operations", "messages", "rows", "footer_bytes", "features", "has_add", "is_rare", "numbers_end")
QUEUES = ("GAME/CHESS/BLACK", "A/B/C/reply", "Q")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path / "spool", cleanup_interval=0) as database:
        yield database


def long_way(db: MessageDatabase, unit: Unit) -> Draft:
    block = db._drafting.gathering(None)
    for payload in unit.payloads:
        block.add(unit.queue, payload)
    for numbers in unit.delivered:
        block.deliver_many(numbers)
    for numbers in unit.deleted:
        block.delete_many(numbers)
    for key_, value, numbers_at in unit.values:
        block.put(key_.decode(), value, numbers_at=dict(numbers_at))
    for key in unit.drops:
        block.drop(key.decode())
    return block._operations.compose()


def told(draft: Draft) -> tuple[bytes, ...]:
    """Return the bytes of a draft once its numbers are known."""
    draft.first = 1_000_001
    for at, distance in draft.shape.fixups:
        NUMBER.pack_into(draft.records, at, draft.first + distance)
    if draft.shape.value_fixups:
        fill_values(draft)
    return (bytes(draft.records), b"".join(map(bytes, draft.payload)), *draft.shape.value_heads)


def random_unit(chance: random.Random, live: dict[str, list[range]]) -> Unit:
    payloads = [chance.randbytes(chance.choice((0, 1, 7, 8, 100))) for _ in range(chance.choice((0, 1, 2, 3, 130)))]
    keys = chance.sample(range(1000), 6)
    values = []
    for key in keys[: chance.randrange(4)]:
        value = chance.randbytes(chance.choice((0, 8, 120, 200)))
        numbers_at: Sequence[tuple[int, int]] = ()
        if payloads and len(value) >= 100 and chance.random() < 0.7:
            numbers_at = ((chance.choice((0, 64, len(value) - 8)), chance.randrange(len(payloads))),)
        values.append((f"uow/{key:016X}".encode(), value, numbers_at))
    drops = [f"uow/{key:016X}".encode() for key in keys[4 : 4 + chance.randrange(3)]]
    queue = chance.choice(QUEUES)
    delivered, deleted = [], []
    if chance.random() < 0.5:
        delivered.append(chance.choice(live[queue]))
    elif chance.random() < 0.5:
        deleted.append(chance.choice(live[queue]))
    return Unit(queue, payloads, delivered, deleted, values, drops)


def test_both_ways_make_the_same_draft(db: MessageDatabase) -> None:
    live = {queue: [db.add_many(queue, [b"x"] * count).numbers for count in (1, 3, 300)] for queue in QUEUES}
    for seed in range(500):
        unit = random_unit(random.Random(seed), live)
        short, long = db._drafting.unit(unit), long_way(db, unit)

        assert short is not None, seed
        assert plain_fields(short) == plain_fields(long), seed
        assert sorted(short.shape.names) == sorted(long.shape.names), seed
        assert told(short) == told(long), seed
        assert changed(short) == changed(long), seed


def plain_fields(draft: Draft) -> dict[str, object]:
    return {name: getattr(draft, name) for name in FIELDS} | {name: getattr(draft.shape, name) for name in SHAPE}


def changed(draft: Draft) -> tuple[object, ...]:
    """Return what a draft changes in the index."""
    effect = draft.effect or IndexChanges()
    assert isinstance(effect, IndexChanges)
    removed = None if draft.removed is None else [int(number) for number in draft.removed]
    runs = [(queue, list(sizes)) for queue, sizes in draft.runs]
    return (runs, removed, draft.shape.is_strict, list(effect.puts), list(effect.drops), list(effect.identifiers))


def test_what_is_not_of_the_common_form_goes_the_long_way(db: MessageDatabase) -> None:
    numbers = db.add_many("A", [b"x"] * 20)
    other = db.add("B", b"x")

    def goes_short(payloads: Sequence[bytes] = (), **fields: object) -> bool:
        given = {"delivered": (), "deleted": (), "values": (), "drops": ()} | fields
        return db._drafting.unit(Unit("A", payloads, **given)) is not None  # type: ignore[arg-type]

    assert goes_short([b"x"])
    assert not goes_short([bytearray(b"x")])  # type: ignore[list-item]
    assert not goes_short([bytes(db.options.max_message_size + 1)])
    assert not goes_short(values=[(b"k", bytes(VALUE_BYTES_MAX + 1), ())])
    assert not goes_short(values=[(b"k", bytes(8), ((1, 0),))])
    assert not goes_short([b"x"], values=[(b"k", bytes(8), ((0, 1),))])
    assert not goes_short(values=[(b"", b"", ())])
    assert not goes_short(values=[(b"\0engine", b"", ())])
    assert not goes_short(drops=[bytes(256)])
    assert not goes_short(delivered=[range(numbers.start, other + 1)])
    assert goes_short(delivered=[range(at, at + 1) for at in numbers[:RANGES_MAX]])
    assert not goes_short(delivered=[range(at, at + 1) for at in numbers[: RANGES_MAX + 1]])


def test_a_removal_of_what_is_gone_or_of_one_message_twice_is_refused(db: MessageDatabase) -> None:
    number = db.add("A", b"x")
    twice = [range(number, number + 1)]
    with pytest.raises(NotUndelivered):
        db._drafting.unit(Unit("A", (), twice, twice, (), ()))
    db.deliver(number)
    with pytest.raises(NotUndelivered):
        db._drafting.unit(Unit("A", (), twice, (), (), ()))


def test_a_commit_of_more_than_a_million_operations_is_refused(db: MessageDatabase) -> None:
    with pytest.raises(LimitExceeded):
        db._drafting.unit(Unit("A", [b""] * 1_000_001, (), (), (), ()))
