"""Removal sets that are checked all at once are good exactly where decoding one after the other finds them good."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from oms_journal.journal.format.contents import Contents, empty_columns
from oms_journal.journal.format.records import BadRecord, encode_set
from oms_journal.journal.operations import Operation
from tests.support.sweeps import for_each

REMOVALS = (Operation.DELIVER, Operation.DELETE)


def contents(rows: Sequence[tuple[int, int, int, int]], sets: bytes) -> Contents:
    """Return contents with rows of kind, number, count and size, and the bytes of their sets."""
    columns = {name: np.zeros(len(rows), column.dtype) for name, column in empty_columns().items()}
    for name, values in zip(("kind", "number", "count", "size"), zip(*rows, strict=True), strict=True):
        columns[name] = np.array(values, columns[name].dtype)
    return Contents(columns=columns, sets=sets)


def is_good(found: Contents) -> bool:
    try:
        found.check_sets()
    except BadRecord:
        return False
    return True


def can_be_decoded(found: Contents) -> bool:
    try:
        found.removal_sets()
    except BadRecord:
        return False
    return True


@for_each("seed", range(3000), sample=300)
def test_a_check_of_all_sets_says_what_decoding_each_says(seed: int) -> None:
    chance = random.Random(seed)
    rows, sets = [], b""
    for _ in range(chance.randrange(1, 6)):
        kind = chance.choice((*REMOVALS, Operation.ADD))
        first, spread = chance.choice((1, 1000, (1 << 63) - 600)), chance.choice((1, 2, 300, 1 << 40))
        numbers = sorted({first + chance.randrange(200) * (spread if first == 1 else 1) for _ in range(1, 150)})
        coded = encode_set(np.array(numbers, np.uint64)) if kind in REMOVALS else b""
        rows.append((kind, numbers[0], len(numbers), len(coded)))
        sets += coded
    if chance.random() < 0.7 and sets:
        match chance.randrange(4):
            case 0:
                spoilt = bytearray(sets)
                spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
                sets = bytes(spoilt)
            case 1:
                sets = sets[: chance.randrange(len(sets))]
            case 2:
                at = chance.randrange(len(rows))
                kind, number, count, size = rows[at]
                rows[at] = (kind, number, max(count + chance.choice((-1, 1)), 0), size)
            case _:
                at = chance.randrange(len(rows))
                kind, number, count, size = rows[at]
                rows[at] = (kind, number, count, max(size + chance.choice((-1, 1, 1 << 31)), 0))
    found = contents(rows, sets)

    assert is_good(found) == can_be_decoded(found)


def test_good_sets_of_small_numbers_are_not_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    coded = [encode_set(np.array(numbers, np.uint64)) for numbers in (range(1, 400), (3, 5, 9))]
    rows = [(Operation.DELIVER, 1, 399, len(coded[0])), (Operation.DELETE, 3, 3, len(coded[1]))]

    monkeypatch.setattr(Contents, "removal_sets", None)

    contents(rows, b"".join(coded)).check_sets()
