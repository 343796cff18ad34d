"""Random scripts of calls on a real kernel and a real store get the model's answers, with restarts and kills between.

A script has calls of several clients and servers, alone and at once, time that passes, connections and stores that
are lost, restarts, and kills before and after what a call writes is written. A failure prints the script's calls
and what the model says instead.
"""

import struct
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.broker.oracle_script import NUMBERS, played, random_script, shrunk
from tests.support.broker.stores import DRIVERS, Driver, JournalDriver, SqliteDriver
from tests.support.sweeps import split

STEPS_MAX = 40
steps = st.binary(min_size=2 * NUMBERS, max_size=2 * NUMBERS).map(lambda data: struct.unpack(f"<{NUMBERS}H", data))
scripts = st.integers(1, STEPS_MAX).flatmap(lambda count: st.lists(steps, min_size=count, max_size=count))


def play(driver: type[JournalDriver | SqliteDriver], script: Sequence[Sequence[int]]) -> int:
    """Play a script on a new store; return how many calls were compared."""
    with tempfile.TemporaryDirectory(prefix="oms-oracle-") as home:
        made: Driver = driver(Path(home))
        return played(made, script).calls


def play_examples(driver: type[JournalDriver | SqliteDriver], count: int) -> None:
    @settings(max_examples=count, deadline=None, derandomize=True)
    @given(script=scripts)
    def play_example(script: list[tuple[int, ...]]) -> None:
        play(driver, script)

    play_example()


@pytest.mark.parametrize("count", split([25], [60]))
def test_random_scripts_on_the_journal_get_the_models_answers(count: int) -> None:
    play_examples(JournalDriver, count)


@pytest.mark.whole
@pytest.mark.parametrize("count", split([20], [40]))
def test_random_scripts_on_sqlite_get_the_models_answers(count: int) -> None:
    play_examples(SqliteDriver, count)


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS, ids=["journal", "sqlite"])
@pytest.mark.parametrize("first", range(0, 4000, 500))
def test_thousands_of_scripts_get_the_models_answers(driver: type[JournalDriver | SqliteDriver], first: int) -> None:
    calls = 0
    for seed in range(first, first + 500):
        script = random_script(seed, 60)
        try:
            calls += play(driver, script)
        except AssertionError:
            sys.stdout.write(f"seed {seed}, shrunk:\n")
            play(driver, shrunk(script, lambda part: _fails(driver, part)))
            raise
    sys.stdout.write(f"{calls:,} calls of 500 scripts\n")


def _fails(driver: type[JournalDriver | SqliteDriver], script: Sequence[Sequence[int]]) -> bool:
    try:
        play(driver, script)
    except AssertionError:
        return True
    return False
