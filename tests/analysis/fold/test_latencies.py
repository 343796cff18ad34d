"""The quantiles of many groups at once: within the ranks that are told, however the values spread and came together."""

import pickle
import random
from collections.abc import Sequence

import numpy as np
import pytest

from oms_journal.analysis.fold import latencies
from oms_journal.analysis.fold.latencies import RANKS, RANKS_MIN, Latencies, Numbers
from tests.analysis.fold.test_quantiles import SPREADS
from tests.support.sweeps import for_each

SHARES = (0.0, 0.001, 0.5, 0.9, 0.99, 0.999, 1.0)
QUEUES: Numbers = np.arange(7)


def values_of(spread: str, count: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return queues, buckets and values: one group has most of them, and others have a few."""
    chance = np.random.default_rng(count)
    queues = np.where(chance.random(count) < 0.7, 0, chance.integers(0, 7, count))
    buckets = np.where(chance.random(count) < 0.7, 5, chance.integers(-3, 4, count))
    return queues, buckets, SPREADS[spread](chance, count)


def latencies_of(columns: Sequence[Numbers], **bounds: int) -> Latencies:
    found = Latencies(**bounds)
    found.add(*columns)
    return found


def together(parts: Sequence[Latencies], chance: random.Random) -> Latencies:
    """Merge in a tree of any shape."""
    if len(parts) == 1:
        found: Latencies = pickle.loads(pickle.dumps(parts[0]))
        return found
    middle = chance.randrange(1, len(parts))
    found = together(parts[:middle], chance)
    found.merge(together(parts[middle:], chance), QUEUES)
    return found


def assert_within(found: Latencies, columns: Sequence[Numbers], ranks: int = RANKS) -> None:
    """Hold the answer against the values themselves."""
    queues, buckets, values = columns
    spread = found.spread(SHARES)
    pairs = list(zip(spread.queue.tolist(), spread.bucket.tolist(), strict=True))
    assert pairs == sorted({*zip(queues.tolist(), buckets.tolist(), strict=True)})
    for place, (queue, bucket) in enumerate(pairs):
        ordered = np.sort(values[(queues == queue) & (buckets == bucket)])
        count, error = int(spread.count[place]), int(spread.error[place])
        assert count == len(ordered)
        assert spread.highest[place] == ordered[-1]
        assert error <= count // ranks
        for share, value in zip(SHARES, spread.quantiles[:, place].tolist(), strict=True):
            rank = max(int(np.ceil(share * count)), 1)
            first, last = np.searchsorted(ordered, value, "left") + 1, np.searchsorted(ordered, value, "right")
            assert first <= last, "a value that occurred"
            assert first - error <= rank <= last + error


@for_each(("spread", "count"), [(one, n) for one in SPREADS for n in (1, 2, 999, 50_000)], sample=10)
def test_quantiles_of_what_came_at_once(spread: str, count: int) -> None:
    columns = values_of(spread, count)

    assert_within(latencies_of(columns), columns)


@for_each(("spread", "pieces"), [(one, n) for one in SPREADS for n in (2, 9, 300)], sample=5)
def test_quantiles_of_what_came_together_in_pieces(spread: str, pieces: int) -> None:
    columns = values_of(spread, 100_000)
    chance = random.Random(pieces)
    cuts = np.sort([chance.randrange(100_000) for _ in range(pieces - 1)])

    parts = [latencies_of(piece) for piece in zip(*(np.split(column, cuts) for column in columns), strict=True)]

    assert_within(together(parts, chance), columns)


def test_up_to_a_thousand_values_of_a_group_quantiles_are_exact_in_whatever_pieces_they_came() -> None:
    columns = [np.repeat(QUEUES, RANKS - 1), np.repeat(QUEUES * 3, RANKS - 1), np.arange(7 * (RANKS - 1))]
    order = np.random.default_rng(1).permutation(len(columns[0]))
    pieces = zip(*(np.array_split(column[order], 9) for column in columns), strict=True)

    found = together([latencies_of(piece) for piece in pieces], random.Random(1)).spread((0.5,))

    assert not found.error.any()
    assert found.quantiles[0].tolist() == [(RANKS - 1) * queue + RANKS // 2 - 1 for queue in QUEUES.tolist()]


@for_each("count_of_groups", (4, 400), sample=1)
def test_beyond_a_bound_the_promise_becomes_smaller_and_is_told(
    monkeypatch: pytest.MonkeyPatch, count_of_groups: int
) -> None:
    monkeypatch.setattr(latencies, "CHUNK_MIN", 1 << 10)
    chance, count, most = np.random.default_rng(2), 200_000, 4_000
    columns = chance.integers(0, 2, count), chance.integers(0, count_of_groups // 2, count), chance.permutation(count)
    pieces = list(zip(*(np.array_split(column, 40) for column in columns), strict=True))
    found, kept = Latencies(values_max=most), []
    for piece in pieces:
        found.merge(latencies_of(piece, values_max=most), QUEUES)
        kept.append(found.kept)

    assert max(kept) <= 2 * max(most, 6 * RANKS_MIN * count_of_groups) + count // 40 + (1 << 10)
    assert_within(found, columns, RANKS_MIN)


def test_no_values_have_no_groups() -> None:
    found = Latencies()
    found.add(*(np.empty(0, np.int64),) * 3)
    found.merge(Latencies(), QUEUES)

    assert found.spread(SHARES).queue.tolist() == []
