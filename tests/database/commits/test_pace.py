"""When an event loop commits by itself, and when it leaves that to a thread."""

from itertools import product

import pytest

from oms_journal.database.asynchronous import FAST_COUNT, FAST_SECONDS, SLOW_SECONDS, Pace
from tests.support.sweeps import for_each

FAST, BETWEEN, SLOW = FAST_SECONDS / 2, (FAST_SECONDS + SLOW_SECONDS) / 2, SLOW_SECONDS * 2


def told(pace: Pace, *groups: float) -> bool:
    for seconds in groups:
        pace.note(seconds)
    return pace.is_fast


def test_an_opening_begins_with_the_thread_until_the_device_has_proved_fast() -> None:
    pace = Pace()
    assert not told(pace, *[FAST] * (FAST_COUNT - 1))
    assert told(pace, FAST)
    assert told(pace, *[FAST] * 100)


@pytest.mark.parametrize("before", [FAST_COUNT, FAST_COUNT + 1, 1000])
def test_one_slow_group_is_enough_for_the_thread_to_take_over(before: int) -> None:
    pace = Pace()
    assert told(pace, *[FAST] * before)
    assert told(pace, BETWEEN)
    assert not told(pace, SLOW)


def test_a_fast_device_on_a_busy_machine_proves_so_among_slow_groups() -> None:
    assert told(Pace(), *[FAST, SLOW, FAST] * FAST_COUNT)


SLOW_ONES = [each for each in product((FAST, BETWEEN, SLOW), repeat=4) if each.count(FAST) <= each.count(SLOW)]


@for_each("pattern", SLOW_ONES)
def test_a_device_that_is_slow_as_often_as_it_is_fast_is_left_to_the_thread(
    pattern: tuple[float, ...],
) -> None:
    pace = Pace()
    on_loop = []
    for seconds in pattern * 50:
        on_loop.append(pace.is_fast and seconds == SLOW)
        pace.note(seconds)
    assert not any(on_loop)
