"""A seed is one run: in this process or in another one, first or after others, whatever order sets have.

The sample is one seed of each world; the whole has two others, one after another.
"""

import os
import re
import subprocess
import sys

import pytest

from tests.simulation.playing import fingerprint, play_seed
from tests.simulation.worlds import REAL
from tests.support.project import REPOSITORY
from tests.support.sweeps import a_sample, split

SEEDS = split([(1,)], [(2, 3)])


def _fingerprint_elsewhere(world: str, seed: int, hash_seed: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--world", world, "--replay", str(seed)],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return re.findall(r"fingerprint (\w+)", ended.stdout)[0]  # type: ignore[no-any-return]


@a_sample(1, more=3)
@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("world", REAL)
def test_a_seed_is_one_run_everywhere(world: str, seeds: tuple[int, ...]) -> None:
    here = {seed: play_seed(REAL[world], seed).seen for seed in seeds}

    assert all(len(seen.crashes) > 0 for seen in here.values())
    assert play_seed(REAL[world], seeds[0]).seen == here[seeds[0]], "after itself, and another one"
    there = [_fingerprint_elsewhere(world, seed, hash_seed) for seed, hash_seed in zip(seeds, ("1", "2"), strict=False)]
    assert there == [fingerprint(here[seed]) for seed in seeds]
