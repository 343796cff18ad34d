"""The files whose bytes are pinned: made the same each time, with everything the format has in them."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from itertools import count
from pathlib import Path

import numpy as np

from oms_journal.index.held import KEY_PREFIX as HELD_KEY_PREFIX
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.format.headers import ALIGNMENT_MIN, Ending, xxh3
from oms_journal.journal.format.records import MOVED, WHOLE_COMMIT, Added, TermColumns, encode_properties
from oms_journal.journal.names import DataFileName
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.dump import Dumped, DumpedDamage
from oms_journal.journal.writing.draft import CommitBuilder, Draft
from oms_journal.journal.writing.log import Journal, JournalSettings, Opening
from oms_journal.recovery.dump import dump
from oms_journal.recovery.startup import recover

GOLDEN = Path(__file__).parent.parent.parent / "golden"
DATABASE = bytes(range(0x10, 0x20))
START = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z, microseconds
DATA_FILE_BYTES = 16 << 10
RESTORED_SEQUENCE = 3 + (1 << 20)

Compose = Callable[[CommitBuilder], None]


def journal(
    directory: Path, *, alignment: int = ALIGNMENT_MIN, next_message: int = 1, opening: Opening | None = None
) -> Journal:
    """Return a journal that writes the same bytes each time."""
    clock, identities = count(START, 1_000_003), count(0x1122_3344_5566_7788, 0x0101_0101_0101_0101)
    opening = opening or Opening(database=DATABASE, owner=7, next_message=next_message, next_commit=40)
    settings = JournalSettings(
        random_identity=lambda: next(identities),
        clock=lambda: next(clock),
        data_file_bytes_max=DATA_FILE_BYTES,
        alignment=alignment,
    )
    return Journal(RealDisk(), directory, opening, settings)


def write(journal: Journal, *commits: Compose) -> None:
    """Write the commits as one group; an empty one vouches."""
    group = journal.form([_draft(commit) for commit in commits])
    assert not group.rest and not group.refused
    journal.write(group)


def _draft(commit: Compose) -> Draft:
    composer = CommitBuilder()
    commit(composer)
    return composer.draft()


def vouch(_: CommitBuilder) -> None:
    """Nothing: the commit of a frame that only vouches."""


def add(queue: bytes, *payloads: bytes) -> Compose:
    return lambda composer: composer.add(Added(queue=queue, payloads=payloads))


def _smallest(directory: Path) -> None:
    writing = journal(directory)
    write(writing, add(b"orders", b"hello"))
    write(writing, vouch)
    writing.close(seal=True)


def _everything(directory: Path) -> None:
    """Write every kind of operation and of column: file 1 sealed, file 2 begun behind it."""
    writing = journal(directory, next_message=1000)
    write(writing, add(b"orders", b"plain"), add(b"orders", b"a", b"", b"three"))
    write(writing, _with_properties, _with_producer, _whole_commit)
    write(writing, _on_terms)
    write(writing, _removals, _keys)
    write(writing, _moved)
    write(writing, vouch)
    writing.roll_at_next_commit()
    write(writing, add("größe".encode(), b"in the next file"))
    write(writing, lambda composer: composer.remove(Operation.DELIVER, "größe".encode(), _numbers(1015)))
    writing.seal_all()
    writing.close(seal=False)


def _with_properties(composer: CommitBuilder) -> None:
    properties = [encode_properties({"colour": "blue", "größe": "10"}), b""]
    composer.add(Added(queue=b"orders", payloads=[b"with properties", b"without"], properties=properties))


def _with_producer(composer: CommitBuilder) -> None:
    composer.add(Added(queue=b"bills", payloads=[b"bill"], producer=b"bill-4711"))
    composer.add(
        Added(queue=b"bills", payloads=[b"bill"], properties=[encode_properties({"copy": "2"})], producer=b"bill-4712")
    )


def _whole_commit(composer: CommitBuilder) -> None:
    composer.add(Added(queue=b"orders", payloads=[b"first"], producer=b"batch-9", flags=WHOLE_COMMIT))
    composer.add(Added(queue=b"bills", payloads=[b"second", b"third"], producer=b"batch-9", flags=WHOLE_COMMIT))
    composer.put(b"batch", b"9")


def _on_terms(composer: CommitBuilder) -> None:
    later = START + 3_600_000_000
    composer.add(Added(queue=b"orders", payloads=[b"later"], terms=TermColumns(due=[later])))
    composer.add(
        Added(
            queue=b"orders",
            payloads=[b"one of two", b"alone", b"the other"],
            terms=TermColumns(
                due=[later, later + 1, -1],
                expiry=[-(1 << 63), (1 << 63) - 1, later],
                attempts=[0, 3, (1 << 32) - 1],
                groups=["größe 7".encode(), b"", "größe 7".encode()],
            ),
        )
    )


def _removals(composer: CommitBuilder) -> None:
    composer.remove(Operation.DELIVER, b"orders", _numbers(1001))
    composer.remove(Operation.DELIVER, b"bills", _numbers(1006, 1007))
    composer.remove(Operation.DELETE, b"orders", _numbers(5, 6, 7, 9, 300))
    composer.remove(Operation.DELETE, b"bills", _numbers(8))


def _keys(composer: CommitBuilder) -> None:
    composer.put(b"status", b"0123456789" * 20)
    composer.put("schlüssel".encode(), b"")
    composer.drop(b"batch")


def _moved(composer: CommitBuilder) -> None:
    moved = Added(
        queue=b"orders",
        payloads=[b"old", b"older"],
        properties=[b"", encode_properties({"": "empty key"})],
        flags=MOVED,
        numbers=[12, 10],
        first_times=[START - 3_600_000_000, -1],
        terms=TermColumns(attempts=[1, 2], groups=[b"g", b"h"]),
    )
    composer.add(moved)
    composer.put(b"old key", b"old value", moved=True)


def _numbers(*numbers: int) -> "np.typing.NDArray[np.uint64]":
    return np.array(numbers, np.uint64)


def _aligned(directory: Path) -> None:
    writing = journal(directory, alignment=64)
    for size in (3, 20, 0):
        write(writing, add(b"q", bytes(size)), add(b"q", b"y" * size))
    writing.close(seal=True)


def _repaired(directory: Path) -> None:
    writing = journal(directory)
    for payload in (b"before", b"lost", b"lost too", b"behind"):
        write(writing, add(b"orders", payload))
    write(writing, vouch)
    writing.close(seal=True)
    path = directory / str(DataFileName(1))
    data = bytearray(path.read_bytes())
    for payload in (b"lost", b"lost too"):
        data[data.index(payload) - 20] ^= 1  # in the record of that message
    path.write_bytes(data)
    recover(directory)


def _first_after_a_restore(directory: Path) -> None:
    parted = Opening(
        database=bytes(range(0x20, 0x30)),
        parent=DATABASE,
        parent_sequence=3,
        owner=7 + (1 << 20),
        next_sequence=RESTORED_SEQUENCE,
        next_message=9 + (1 << 40),
        next_commit=40 + (1 << 40),
        previous=Ending(sequence=3, identity=0x0102_0304_0506_0708, end=824, commit=39, chain=xxh3(bytes(8))),
    )
    writing = journal(directory, opening=parted)
    held = np.array([(5, 8)], "<u8").tobytes()
    write(writing, lambda composer: composer.put(HELD_KEY_PREFIX + b"000000", held))
    write(writing, vouch)
    writing.close(seal=True)


# What is pinned: a name, how its directory is made, which file of it is meant.
_RECIPES: tuple[tuple[str, Callable[[Path], None], int], ...] = (
    ("smallest", _smallest, 1),
    ("sealed", _everything, 1),
    ("unsealed", _everything, 2),
    ("aligned", _aligned, 1),
    ("repaired", _repaired, 1),
    ("restored", _first_after_a_restore, RESTORED_SEQUENCE),
)
NAMES = tuple(name for name, _, _ in _RECIPES)


def make(directory: Path, name: str) -> Path:
    """Make one of the files by our encoder and return its path."""
    recipe, sequence = next((recipe, sequence) for known, recipe, sequence in _RECIPES if known == name)
    recipe(directory)
    return directory / str(DataFileName(sequence))


def told(path: Path) -> list[dict[str, object]]:
    """Return what our reader says of one file, as JSON can hold it."""
    return list(as_told(dump(RealDisk(), [path])))


def as_told(dumped: Iterable[Dumped]) -> Iterator[dict[str, object]]:
    """Yield operations and gaps as plain values, without what has its default."""
    for one in dumped:
        if isinstance(one, DumpedDamage):
            yield {"damage": [one.start, one.end], "is_gap": one.is_gap}
            continue
        values = {field.name: (getattr(one, field.name), field.default) for field in fields(one)}
        values["payload"] = (None if one.payload is None else one.payload.decode("latin-1"), None)
        values["first_time"] = (one.first_time, one.time)
        values |= {name: (value, None) for name, value in one.terms._asdict().items()}
        values["group"] = (None if one.terms.group is None else one.terms.group.decode(), None)
        del values["file"], values["terms"]
        yield {name: value for name, (value, default) in values.items() if value != default and value != {}}


def broker_records() -> dict[str, bytes]:
    """Return the pinned values of the broker's keys, by the name of the record's kind."""
    found: dict[str, bytearray] = {}
    for line in (GOLDEN / "broker" / "records-v1.hex").read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"# <(\w+)>", line):
            name = heading[1]
            found[name] = bytearray()
        elif line:
            found[name] += bytes.fromhex(line.partition("#")[0])
    return {name: bytes(data) for name, data in found.items()}
