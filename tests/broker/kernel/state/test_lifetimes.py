"""Durations as they are written, and the clocks that lifetimes run on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oms_journal.broker.durations import (
    DURATION_MAX,
    MICROSECONDS,
    NEVER,
    NO,
    YES,
    duration_text,
    ends,
    parse_duration,
    parse_wait,
    status_lifetime,
)
from oms_journal.broker.kernel.state.clock import Clocks
from oms_journal.broker.records import UOW, Flag, Status, UowRecord

MINUTE = 60 * MICROSECONDS


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30S", 30), ("5M", 300), ("12H", 43200), ("1D", 86400), ("90", 90), ("1d", 86400), (" 2m ", 120), ("0S", 0)],
)
def test_a_duration_is_a_number_and_a_letter(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds * MICROSECONDS


@pytest.mark.parametrize("text", ["", "S", "1W", "-1S", "1.5H", "1 H x", "999999999D", "٣S", "1D2H"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration(text)


@given(st.integers(0, DURATION_MAX // MICROSECONDS))
def test_a_duration_reads_as_it_is_written(seconds: int) -> None:
    text = duration_text(seconds * MICROSECONDS)

    assert parse_duration(text) == seconds * MICROSECONDS


def test_a_duration_is_written_in_its_largest_whole_unit() -> None:
    written = [duration_text(parse_duration(text)) for text in ("86400", "3600", "120", "61", "0")]

    assert written == ["1D", "1H", "2M", "61S", "0S"]


def test_the_longest_status_fits_a_record() -> None:
    """EntireX 8.0, Concepts of Persistent Messaging: a status lives for a multiple of the lifetime, up to 254."""
    longest = status_lifetime(254, DURATION_MAX, DURATION_MAX)
    record = UowRecord(
        "1", "2", Status.PROCESSED, Flag.STATUS_PERSISTENT, lifetime=DURATION_MAX // MICROSECONDS, ends=longest
    )._replace(uowid="0000000000000001", conv_id="0000000000000002")

    assert UOW.decode(UOW.encode(record)) == record


@pytest.mark.parametrize(("text", "said"), [("", NO), ("NO", NO), ("no", NO), ("YES", YES), ("Yes", YES)])
def test_wait_says_no_or_yes(text: str, said: object) -> None:
    assert parse_wait(text) is said


@pytest.mark.parametrize(
    ("text", "microseconds"), [("30S", 30_000_000), ("1M", MINUTE), ("0.25", 250_000), ("2.5s", 2_500_000)]
)
def test_wait_says_a_time(text: str, microseconds: int) -> None:
    assert parse_wait(text) == microseconds


@pytest.mark.parametrize("text", ["0S", "0", "0.0000001", "MAYBE", "-1", "1W", "9999999D", "NOW"])
def test_wait_for_no_time_and_for_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_wait(text)


def test_the_pseudo_clock_stands_still_while_the_store_is_away() -> None:
    """EntireX 8.0, Concepts of Persistent Messaging: the clock runs only when the broker is active."""
    clocks = Clocks(persistent=100).ticked(10).connected(False).ticked(1000).connected(True).ticked(5)

    assert clocks.persistent == 115
    assert clocks.volatile == 1015


def test_a_restart_goes_on_where_the_clock_was_written_last() -> None:
    running = Clocks().ticked(10 * MICROSECONDS)
    written = running.persistent
    running = running.ticked(MICROSECONDS - 1)

    after_the_crash = Clocks(persistent=written)

    assert after_the_crash.persistent <= running.persistent, "what runs on it lives longer, never shorter"


def test_a_status_lives_for_a_multiple_of_the_lifetime_and_what_is_given_explicitly() -> None:
    """EntireX 8.0, Concepts of Persistent Messaging: a lifetime of 5M and a value of 4 make 20M."""
    assert status_lifetime(4, 5 * MINUTE, 0) == 20 * MINUTE
    assert status_lifetime(0, 5 * MINUTE, MINUTE) == MINUTE
    assert status_lifetime(4, 5 * MINUTE, MINUTE) == 21 * MINUTE
    assert status_lifetime(1, NEVER, MINUTE) == NEVER
    assert status_lifetime(0, NEVER, MINUTE) == MINUTE


def test_a_lifetime_without_an_end_is_never_over() -> None:
    assert ends(1000, NEVER) == NEVER
    assert ends(1000, 5) == 1005
