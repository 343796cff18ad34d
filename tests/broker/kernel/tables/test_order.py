"""Numbers in the order of a key, against a sorted list."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from oms_journal.broker.kernel.tables.order import BLOCK_ENTRIES_MAX, KeyedOrder

ENTRY = st.tuples(st.integers(0, 30), st.integers(0, 30))


@given(st.lists(st.tuples(st.booleans(), ENTRY), max_size=200), st.integers(0, 200))
def test_entries_come_and_go_and_stay_in_order(steps: list[tuple[bool, tuple[int, int]]], given_count: int) -> None:
    expected = [(0, number + 100) for number in range(given_count)]
    order = KeyedOrder(array("Q", [key for key, _ in expected]), array("Q", [number for _, number in expected]))

    for is_added, entry in steps:
        if is_added and entry not in expected:
            order.add(*entry)
            expected.append(entry)
        elif not is_added:
            assert order.remove(*entry) == (entry in expected)
            expected = [each for each in expected if each != entry]

    expected.sort()
    assert list(order) == expected
    assert len(order) == len(expected)
    assert order.first() == (expected[0] if expected else None)
    assert order.of(7) == [number for key, number in expected if key == 7]
    assert list(order.up_to(10)) == [each for each in expected if each[0] <= 10]


def test_many_entries_are_split_over_blocks_and_come_together_again() -> None:
    order = KeyedOrder()
    keys = [key * 7919 % 10007 for key in range(5000)]
    for key in keys:
        order.add(key, key + 1)
    assert list(order) == [(key, key + 1) for key in sorted(keys)]

    for key in keys[: 5000 - BLOCK_ENTRIES_MAX]:
        assert order.remove(key, key + 1)
    left = sorted(keys[5000 - BLOCK_ENTRIES_MAX :])
    assert list(order) == [(key, key + 1) for key in left]


def test_thousands_of_entries_under_one_key_are_found_each() -> None:
    order = KeyedOrder()
    for number in range(5000):
        order.add(1, number)
    for number in range(0, 5000, 2):
        assert order.remove(1, number)
        assert not order.remove(1, number)
    assert order.of(1) == [number for _, number in order] == list(range(1, 5000, 2))
    assert order.of(0) == order.of(2) == []
