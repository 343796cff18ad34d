"""What is held of a topic for a subscription, as one value: released and done with one by one, and kept small."""

import random

import pytest
from sortedcontainers import SortedDict

from oms_journal.broker.kernel.tables.hold import HeldWindow
from oms_journal.broker.records import HELD, HeldRecord
from oms_journal.journal.operations import VALUE_BYTES_MAX
from tests.support.sweeps import a_sample

FIRST, STEP, COUNT = 100, 3, 400
LAST = FIRST + STEP * COUNT


def publications(count: int = COUNT) -> "SortedDict[int, int]":
    return SortedDict({FIRST + STEP * place: place for place in range(count)})


def window(last: int = LAST) -> HeldWindow:
    return HeldWindow(HeldRecord("1000000000000001", FIRST - 1, last))


def numbers(found: HeldWindow) -> int:
    return len(found.record("1000000000000001").numbers)


@a_sample(3)
@pytest.mark.parametrize("seed", range(10))
def test_what_is_released_and_done_with_in_any_order_is_what_was_said(seed: int) -> None:
    chance, there = random.Random(seed), publications()
    wanted, held = set(there), set(there)
    found: HeldWindow | None = window()
    while found is not None:
        some = chance.sample(sorted(there), chance.randint(1, 40))
        if chance.random() < 0.5:
            found, held = found.releasing(some, there), held - set(some)
        else:
            found, wanted, held = found.without(some, there), wanted - set(some), held - set(some)
        if found is None:
            assert not wanted
            return
        assert found.orders(there) == sorted(wanted)
        assert found.withheld(there) == sorted(held & wanted)
        assert found.holds_any(there) == bool(held & wanted)
        again = HeldWindow(HELD.decode(HELD.encode(found.record("1000000000000001"))))
        assert again.withheld(there) == found.withheld(there)


@pytest.mark.parametrize("page", [1, 7, 250, COUNT])
def test_what_is_released_from_the_oldest_on_is_told_by_one_number(page: int) -> None:
    there, found = publications(), window()
    orders = list(there)
    for start in range(0, COUNT, page):
        found = found.releasing(orders[start : start + page], there)
        assert numbers(found) == 0
    assert found.withheld(there) == []
    assert found.released == LAST


def test_what_was_released_with_held_ones_between_takes_no_more_room_once_it_is_received() -> None:
    there = publications()
    found: HeldWindow | None = window().releasing(list(there)[::2], there)
    assert found is not None
    most = numbers(found)
    for order in list(there)[::2]:
        found = found.without([order], there)
        assert found is not None
        assert numbers(found) <= most


def test_any_number_of_publications_is_released_in_pages() -> None:
    count = VALUE_BYTES_MAX // 4
    there = publications(count)
    found = window(FIRST + STEP * count)
    orders = list(there)
    for start in range(0, count, 250):
        found = found.releasing(orders[start : start + 250], there)
        assert len(HELD.encode(found.record("1000000000000001"))) < VALUE_BYTES_MAX
    assert not found.holds_any(there)
