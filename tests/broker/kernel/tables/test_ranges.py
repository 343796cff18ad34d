"""Ranges of publications that are done with, against sets of them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sortedcontainers import SortedDict

from oms_journal.broker.kernel.tables.ranges import NONE, NUMBERS_MAX, UP_TO, Ranges
from oms_journal.broker.records import SUBSCRIPTION, SubscriptionRecord
from oms_journal.journal.operations import VALUE_BYTES_MAX
from tests.support.sweeps import split


def publications(orders: "set[int] | range") -> "SortedDict[int, None]":
    return SortedDict.fromkeys(orders)


orders = st.sets(st.integers(1, 60))


@given(orders, orders, st.integers(0, 20), st.randoms(use_true_random=False))
def test_they_are_what_a_set_is_in_whatever_order_they_are_added(
    there: set[int], wanted: set[int], position: int, chance: random.Random
) -> None:
    known, found, done = publications(there), NONE, wanted & {each for each in there if each > position}
    for order in chance.sample(sorted(done), len(done)):
        before = found.size
        found = found.adding([order], known)
        assert found.size <= before + 1
    assert found.numbers() == NONE.adding(sorted(done), known).numbers() == found.joined(known).numbers()
    assert {each for each in there if each in found} == done
    assert found.count(known) == len(done)
    assert found.last == max(done, default=0)
    assert {each for each in there if found.end_of(each)} == done
    left = [each for each in there if each > position and each not in done]
    reached = found.reached(position, known)
    assert reached == max((each for each in done if each < min(left, default=1000)), default=position)
    behind = found.behind(reached)
    assert {each for each in there if each in behind} == {each for each in done if each > reached}
    assert found.adding(done, known).numbers() == found.numbers(), "nothing is added twice"


@given(orders, orders)
def test_what_is_read_is_what_was_written_and_also_what_was_written_one_by_one(there: set[int], done: set[int]) -> None:
    known = publications(there)
    found = NONE.adding(done & there, known)
    assert Ranges.read(found.numbers()).numbers() == found.numbers()
    assert Ranges.read(sorted(done & there)).joined(known).numbers() == found.numbers()


@given(st.lists(st.integers(0, (1 << 64) - 1) | st.integers(0, 60), max_size=6), orders)
def test_whatever_numbers_a_record_has_something_is_read(numbers: list[int], there: set[int]) -> None:
    found = Ranges.read(numbers).joined(publications(there))
    assert Ranges.read(found.numbers()).numbers() == found.numbers()


@given(orders, orders, orders, st.integers(0, 60))
def test_what_is_left_of_them_behind_a_position_or_without_others(
    there: set[int], some: set[int], others: set[int], position: int
) -> None:
    known = publications(there)
    found, more = NONE.adding(some & there, known), NONE.adding(others & there, known)
    assert {each for each in there if each in found.behind(position)} == {
        each for each in some & there if each > position
    }
    left = found.without(more)
    assert left.size <= found.size
    assert {each for each in there if each in left} | others & there == (some | others) & there
    assert found.without(found).size == 0


@given(orders, orders, orders)
def test_what_was_between_two_of_them_and_is_gone_parts_them_no_longer(
    there: set[int], done: set[int], gone: set[int]
) -> None:
    found = NONE.adding(done & there, publications(there))
    left = publications(there - gone)
    assert found.joined(left).size <= found.size
    assert {each for each in left if each in found.joined(left)} == done & set(left)


@pytest.mark.parametrize("count", split([100_000], [1_000_000]))
def test_all_but_one_of_very_many_publications_take_two_numbers(count: int) -> None:
    known = publications(range(1, count + 1))
    found = NONE.adding(range(2, count + 1), known)
    assert found.numbers() == (2, UP_TO + count)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_as_many_numbers_as_are_written_fit_into_a_value(step: int) -> None:
    known = publications(range(1, 3 * NUMBERS_MAX))
    found = NONE.adding(range(1, NUMBERS_MAX * step + 1, step), known)
    assert found.size == (NUMBERS_MAX if step > 1 else 2)
    record = SubscriptionRecord(
        "1000000000000001", user="U" * 255, token="T" * 255, topic="N" * 255, acknowledged=found.numbers()
    )
    assert len(SUBSCRIPTION.encode(record)) <= VALUE_BYTES_MAX
