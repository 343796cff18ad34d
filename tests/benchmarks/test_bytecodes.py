"""How many bytecodes and calls an operation takes at most: a figure that is the same on every machine."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.engine.bytecodes import OPERATIONS, TRACED, Count, counted
from bench.engine.cost import IN_MEMORY

# Bytecodes and calls of one operation. Lower them when a path gets shorter.
HELD = {
    "add": Count(bytecodes=1085, calls=19),
    "take": Count(bytecodes=475, calls=7),
    "deliver": Count(bytecodes=1430, calls=34),
    "add-identifier": Count(bytecodes=1600, calls=34),
    "add-properties": Count(bytecodes=1570, calls=28),
}


@pytest.fixture(scope="module")
def counts() -> dict[str, Sequence[Count]]:
    """What each operation takes in every run that is traced."""
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as directory,
    ):
        patch.delenv("OMS_CHECK", raising=False)  # tests have each group read back before it is written, users do not
        return {name: counted(Path(directory), operation) for name, operation in OPERATIONS.items()}


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="every minor version of Python has other bytecodes")
@pytest.mark.parametrize("name", HELD)
def test_an_operation_takes_no_more_bytecodes_and_calls_than_it_did(
    name: str, counts: dict[str, Sequence[Count]]
) -> None:
    assert max(count.bytecodes for count in counts[name]) <= HELD[name].bytecodes
    assert max(count.calls for count in counts[name]) <= HELD[name].calls


def test_each_run_of_an_operation_takes_as_many_bytecodes_as_the_one_before(
    counts: dict[str, Sequence[Count]],
) -> None:
    assert {name: len(runs) for name, runs in counts.items()} == dict.fromkeys(OPERATIONS, TRACED)
    assert {name: len(set(runs)) for name, runs in counts.items()} == dict.fromkeys(OPERATIONS, 1)


def test_every_operation_that_is_traced_is_held() -> None:
    assert set(HELD) == set(OPERATIONS)
