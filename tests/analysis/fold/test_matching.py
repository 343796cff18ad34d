"""Numbers among numbers, sets of numbers, and sums by group and bucket, against plain Python."""

import random
from collections import Counter

import numpy as np
import pytest

from oms_journal.analysis.fold.duplicates import BITS_RANGE, Marks, cell_bits
from oms_journal.analysis.fold.matching import NumberSet, are_among, are_ascending, places_among, repeated
from oms_journal.analysis.fold.tallies import EXACT, Tally
from tests.support.sweeps import for_each


@for_each("seed", range(60))
def test_numbers_are_found_where_they_stand(seed: int) -> None:
    chance = random.Random(seed)
    spread = chance.choice((1, 2, 3, 1000))  # on a line, in a table, or searched
    count = chance.randrange(40)
    numbers = sorted(chance.sample(range(5, 5 + spread * (count + 1)), count))
    wanted = [chance.randrange(spread * (count + 1) + 20) for _ in range(chance.choice((1, 50)))]

    found = places_among(np.array(numbers, np.int64), np.array(wanted, np.int64))

    assert found.tolist() == [numbers.index(number) if number in numbers else -1 for number in wanted]


@for_each("seed", range(60))
def test_a_set_of_numbers_has_what_was_put_in(seed: int) -> None:
    chance = random.Random(seed)
    starts = [chance.randrange(100) for _ in range(chance.randrange(6))]
    pairs = [(start, start + chance.randrange(20)) for start in starts]
    single = [chance.randrange(130) for _ in range(chance.randrange(6))]
    there = {number for start, end in pairs for number in range(start, end + 1)} | set(single)
    every = np.arange(-5, 140)

    half = NumberSet.of(pairs[::2]) | NumberSet.of(pairs[1::2], np.array(single, np.int64))

    for found in (NumberSet.of(pairs, np.array(single, np.int64)), half):
        assert {
            number for number, is_in in zip(every.tolist(), found.has(every).tolist(), strict=True) if is_in
        } == there
        assert bool(found) == bool(there)
        assert all(before[1] + 1 < behind[0] for before, behind in zip(found.pairs(), found.pairs()[1:], strict=False))


def test_what_is_repeated_is_told_once() -> None:
    assert repeated(np.array([5, 3, 5, 5, 4, 3], np.int64)).tolist() == [3, 5]
    assert repeated(np.array([1, 2, 9], np.int64)).tolist() == []
    assert are_ascending(np.array([1, 2, 9], np.int64))
    assert not are_ascending(np.array([1, 1], np.int64))


@for_each("seed", range(40))
def test_a_tally_adds_up_by_group_and_bucket(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.choice((1, EXACT // 4))  # beyond what floating-point numbers add up exactly
    span = chance.choice((3, 10**9))
    counts: Counter[tuple[int, int]] = Counter()
    sums: Counter[tuple[int, int]] = Counter()
    tallies = [Tally(2), Tally(2)]
    for turn in range(chance.randrange(12)):
        rows = [
            (chance.randrange(4), chance.randrange(-span, span), chance.randrange(-size, size + 1))
            for _ in range(chance.randrange(30))
        ]
        groups, buckets, values = (
            np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else [()] * 3)
        )
        tallies[turn % 2].add(groups, buckets, (1, values))
        for group, bucket, value in rows:
            at = (group + 10 * (turn % 2), bucket)
            counts[at] += 1
            sums[at] += value

    found = tallies[0]
    found.merge(tallies[1], np.arange(10, 20))

    rows_found = list(zip(*(column.tolist() for column in found.rows()), strict=True))
    assert rows_found == [(*at, counts[at], sums[at]) for at in sorted(counts)]


@for_each("seed", range(20))
def test_a_cell_that_is_marked_twice_is_a_candidate(seed: int) -> None:
    chance = random.Random(seed)
    marks, counts = Marks(16), Counter[int]()
    for _ in range(chance.randrange(6)):
        later = Marks(16)
        for _ in range(chance.randrange(3)):
            cells = [chance.randrange(200) for _ in range(chance.randrange(60))]
            later.add(np.array(cells, np.uint32))
            counts.update(cells)
        marks.merge(later)
        if chance.random() < 0.5:
            marks.settle()

    assert marks.with_two().tolist() == sorted(cell for cell, count in counts.items() if count > 1)


def test_cells_are_as_many_as_the_files_are_large_within_bounds() -> None:
    assert (cell_bits(0), cell_bits(1 << 50)) == BITS_RANGE
    assert cell_bits(400 << 20) == 27


@pytest.mark.parametrize("bits", [4, 16, 22, 23, 29])
def test_cells_are_found_among_wanted_ones_whatever_their_neighbours_are(bits: int) -> None:
    chance = np.random.default_rng(bits)
    wanted = np.unique(chance.integers(0, 1 << bits, 500).astype(np.uint32))
    near = np.concatenate([wanted, wanted + 1, wanted - 1, chance.integers(0, 1 << bits, 500)])
    cells = (near.astype(np.uint32) & np.uint32((1 << bits) - 1)).astype(np.uint32)

    assert are_among(cells, wanted, bits).tolist() == np.isin(cells, wanted).tolist()
    assert not are_among(cells, wanted[:0], bits).any()
