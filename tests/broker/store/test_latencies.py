"""How long commits took: percentiles of a histogram, held against those of the times themselves."""

import math
import random

import pytest

from oms_journal.broker.store.latencies import BOUNDS, SHORTEST, Latencies

SHARES = (0.5, 0.9, 0.99, 0.999)


@pytest.mark.parametrize("seed", range(5))
def test_a_percentile_is_told_to_within_its_bucket(seed: int) -> None:
    rng = random.Random(seed)
    times = [rng.lognormvariate(math.log(0.002), 1.5) + SHORTEST for _ in range(rng.choice((10, 999, 5000)))]
    found = Latencies()
    for time in times:
        found.record(time, commits=2)

    times.sort()
    for share in SHARES:
        told, exact = found.percentile(share), times[math.ceil(share * len(times)) - 1]
        assert told is not None
        assert exact <= told <= min(exact * math.sqrt(2), times[-1])
    assert (found.groups, found.commits, found.longest) == (len(times), 2 * len(times), times[-1])


def test_without_a_group_there_is_no_percentile() -> None:
    assert Latencies().percentile(0.99) is None


def test_what_took_longer_than_the_last_bound_is_the_longest() -> None:
    found = Latencies()
    found.record(2 * BOUNDS[-1], commits=1)

    assert found.percentile(0.99) == 2 * BOUNDS[-1]
