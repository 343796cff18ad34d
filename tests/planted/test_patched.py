"""The table of names that deliberate faults put something else under: all of them, and no other."""

import inspect
import sys
from collections.abc import Iterator

import pytest

from oms_journal.database.commits.block import CommitBlock
from tests.planted.faults import ALL, patched_by
from tests.planted.patched import Patched
from tests.simulation.faults.fault import exchanged, nothing
from tests.support.project import NAME
from tests.support.sweeps import for_each


def test_every_name_in_the_table_is_there_and_some_fault_puts_something_else_under_it() -> None:
    used = {place for fault in ALL.values() for place in patched_by(fault)}

    assert [place.name for place in Patched if place not in used] == []


def test_a_function_where_a_property_stands_is_refused_since_nobody_would_call_it() -> None:
    before = vars(CommitBlock)["_open"]

    with pytest.raises(AssertionError, match="_open: nobody would call"), exchanged(CommitBlock, "_open", nothing):
        pass

    assert vars(CommitBlock)["_open"] is before


# What changes by itself, where a thread that another test has begun is still at work.
STATE = {f"{NAME}.journal.background.{name}" for name in ("_before", "_count")}


@for_each("name", ALL, sample=12, is_long=True)
def test_a_fault_changes_what_the_table_names_and_nothing_when_its_block_ends(name: str) -> None:
    named = {_home(place) for place in Patched}
    before = dict(_product())
    with ALL[name].made():
        touched = [place for place, each in _product() if before.get(place) is not each and place not in STATE]
        assert touched
        assert set(touched) <= named
    after = dict(_product())
    assert [place for place in touched if after[place] is not before[place]] == []


def _home(place: Patched) -> str:
    """Return the name of a place as `_product` tells it."""
    return f"{place.module}.{place.value.partition(':')[2]}"


def _product() -> Iterator[tuple[str, object]]:
    """Yield all that stands in the modules of the product, and in their classes."""
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{NAME}."):
            for place, value in vars(module).items():
                yield f"{name}.{place}", value
                if inspect.isclass(value) and value.__module__ == name:
                    yield from ((f"{name}.{place}.{part}", each) for part, each in vars(value).items())
