"""A quantile's rank is off by at most one in 10,000, however the values spread and however they came together."""

import pickle
import random
from collections.abc import Callable, Sequence

import numpy as np

from oms_journal.analysis.fold.quantiles import HALVED_VALUES, RANKS, Numbers, Sketch
from tests.support.sweeps import for_each

SHARES = (0.0, 0.0001, 0.1, 0.5, 0.9, 0.99, 0.9999, 1.0)
SPREADS: dict[str, Callable[[np.random.Generator, int], Numbers]] = {
    "evenly": lambda random, count: random.integers(0, 1 << 40, count),
    "rising": lambda _, count: np.arange(count),
    "falling": lambda _, count: np.arange(count)[::-1].copy(),
    "all the same": lambda _, count: np.full(count, 7),
    "a few values": lambda random, count: random.integers(0, 5, count),
    "over decades": lambda random, count: np.exp(random.normal(8, 4, count)).astype(np.int64),
    "in two heaps": lambda random, count: (
        np.where(random.random(count) < 0.5, 3, 10**12) + random.integers(0, 9, count)
    ),
}


def assert_within(sketch: Sketch, values: Numbers) -> None:
    """Hold the quantiles against the values themselves."""
    ordered = np.sort(values)
    bound = len(values) // RANKS
    assert sketch.count == len(values)
    assert sketch.highest == ordered[-1]
    assert sketch.error <= bound
    for share, found in zip(SHARES, sketch.quantiles(SHARES), strict=True):
        assert found is not None
        rank = max(int(np.ceil(share * len(values))), 1)
        first, last = np.searchsorted(ordered, found, "left") + 1, np.searchsorted(ordered, found, "right")
        assert first <= last, "a value that occurred"
        assert first - bound <= rank <= last + bound


def sketched(values: Numbers) -> Sketch:
    found = Sketch()
    found.add(values.copy())
    return found


def together(sketches: Sequence[Sketch], chance: random.Random) -> Sketch:
    """Merge sketches in a tree of any shape."""
    if len(sketches) == 1:
        found: Sketch = pickle.loads(pickle.dumps(sketches[0]))
        return found
    middle = chance.randrange(1, len(sketches))
    found = together(sketches[:middle], chance)
    found.merge(together(sketches[middle:], chance))
    return found


@for_each(("spread", "count"), [(one, n) for one in SPREADS for n in (1, 2, 9, 9999, 100_000)])
def test_quantiles_of_what_came_at_once(spread: str, count: int) -> None:
    values = SPREADS[spread](np.random.default_rng(count), count)

    assert_within(sketched(values), values)


@for_each(("spread", "pieces"), [(one, n) for one in SPREADS for n in (2, 7, 60, 900)], sample=8)
def test_quantiles_of_what_came_together_in_pieces(spread: str, pieces: int) -> None:
    values = SPREADS[spread](np.random.default_rng(pieces), 300_000)
    chance = random.Random(pieces)
    cuts = np.sort([chance.randrange(len(values)) for _ in range(pieces - 1)])

    found = together([sketched(piece) for piece in np.split(values, cuts)], chance)

    assert_within(found, values)


def test_up_to_ten_thousand_values_quantiles_are_exact() -> None:
    values = np.random.default_rng(1).permutation(RANKS - 1)
    found = Sketch()
    for piece in np.split(values, 9):
        found.add(piece.copy())

    assert found.error == 0
    assert found.quantiles([0.5]) == [RANKS // 2 - 1]


def test_memory_hardly_grows_with_the_values() -> None:
    random, kept = np.random.default_rng(1), []
    sketch = Sketch()
    for _ in range(100):
        sketch.add(random.integers(0, 1 << 40, HALVED_VALUES))
        kept.append(sketch.kept)

    assert max(kept) <= 8 * HALVED_VALUES
    assert sketch.error <= sketch.count // RANKS


def test_no_values_have_no_quantiles() -> None:
    sketch = Sketch()
    sketch.add(np.empty(0, np.int64))
    sketch.merge(Sketch())

    assert sketch.quantiles(SHARES) == [None] * len(SHARES)
    assert sketch.highest is None
