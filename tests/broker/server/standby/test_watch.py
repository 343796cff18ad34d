"""When a standby takes over, for every mixture of what it hears and sees."""

from itertools import product

import pytest

from oms_journal.broker.server.standby.standby import is_same_store
from oms_journal.broker.server.standby.watch import PartnerWatch, Verdict
from oms_journal.journal.lock import Holder
from tests.support.sweeps import for_each

INTERVAL, RENEWAL = 60.0, 3.0


def holder(number: int = 7, count: int = 5, *, is_open: bool = True, renew_seconds: float = RENEWAL) -> Holder:
    return Holder(number=number, count=count, is_open=is_open, renew_seconds=renew_seconds)


@for_each(
    ("is_open", "count", "missed", "still"),
    list(product([False, True], [0, 5], [0.0, INTERVAL / 2, INTERVAL], [0.0, INTERVAL / 2, INTERVAL])),
)
def test_the_table_holds_for_every_ping_that_is_not_answered(
    is_open: bool, count: int, missed: float, still: float
) -> None:
    now = 10 * INTERVAL
    watch = PartnerWatch(INTERVAL, 0.0)
    watch.look(holder(count=count, is_open=is_open), now - still)
    watch.look(holder(count=count, is_open=is_open), now)
    watch.hear(now - missed)

    if not is_open:
        expected = Verdict.TAKE
    elif not count:
        expected = Verdict.OPENING
    elif missed < INTERVAL:
        expected = Verdict.NOT_YET
    else:
        expected = Verdict.PASS if still >= INTERVAL else Verdict.CUT
    assert watch.verdict(now) is expected


def test_a_partner_whose_port_is_closed_while_its_owner_is_alive_is_being_stopped() -> None:
    watch = PartnerWatch(INTERVAL, 0.0)
    watch.hear(0.0)
    watch.look(holder(count=5), INTERVAL)
    watch.is_closed = True
    assert watch.verdict(INTERVAL) is Verdict.ENDING
    assert watch.verdict(2 * INTERVAL) is Verdict.PASS, "its owner gives no sign of life any more"
    watch.look(holder(is_open=False), 2 * INTERVAL)
    assert watch.verdict(2 * INTERVAL) is Verdict.TAKE


def test_a_store_that_cannot_be_seen_is_not_taken_over() -> None:
    watch = PartnerWatch(INTERVAL, 0.0)
    assert watch.verdict(10 * INTERVAL) is Verdict.UNSEEN
    watch.look(holder(is_open=False), 10 * INTERVAL)
    assert watch.verdict(10 * INTERVAL) is Verdict.TAKE
    watch.look(None, 11 * INTERVAL)
    assert watch.verdict(11 * INTERVAL) is Verdict.UNSEEN


@pytest.mark.parametrize(("drawn", "expected"), [(None, Verdict.UNSEEN), (True, Verdict.BEGIN), (False, Verdict.LEFT)])
def test_a_store_that_nobody_ever_had_is_begun_by_who_has_drawn_it(drawn: bool | None, expected: Verdict) -> None:
    watch = PartnerWatch(INTERVAL, 0.0, drawn=drawn)
    assert watch.verdict(0.0) is expected
    watch.look(holder(is_open=False), 0.0)
    assert watch.verdict(0.0) is Verdict.TAKE, "somebody has begun it"


def test_as_long_as_the_count_moves_a_lost_network_is_no_takeover_however_long_it_lasts() -> None:
    watch = PartnerWatch(INTERVAL, 0.0)
    for tick in range(1, 1000):
        watch.look(holder(count=tick), tick * RENEWAL)
        assert watch.verdict(tick * RENEWAL) in (Verdict.CUT, Verdict.NOT_YET)
    assert watch.verdict(1000 * RENEWAL) is Verdict.CUT


def test_another_owner_is_not_the_one_that_was_silent() -> None:
    watch = PartnerWatch(INTERVAL, 0.0)
    watch.look(holder(7, 5), 0.0)
    watch.look(holder(8, 5), INTERVAL)
    assert watch.verdict(INTERVAL) is Verdict.CUT


def test_an_owner_that_renews_less_often_than_the_interval_is_given_the_time_it_needs() -> None:
    watch = PartnerWatch(1.0, 0.0)
    watch.look(holder(renew_seconds=3.0), 0.0)
    assert watch.verdict(8.9) is Verdict.CUT
    assert watch.verdict(9.0) is Verdict.PASS


def test_a_standby_that_was_itself_stopped_sees_the_count_before_it_judges() -> None:
    watch = PartnerWatch(INTERVAL, 0.0)
    watch.look(holder(7, 5), 0.0)
    watch.hear(0.0)
    watch.look(holder(7, 500), 10 * INTERVAL)
    assert watch.verdict(10 * INTERVAL) is Verdict.CUT


def test_only_who_sees_the_same_lock_file_has_the_same_store() -> None:
    before, after = holder(7, 5), holder(7, 6)
    assert is_same_store(before, {"owner": 7, "count": 5}, after)
    assert is_same_store(before, {"owner": 7, "count": 6}, after)
    assert is_same_store(before, {"owner": 8, "count": 1}, holder(8, 2))
    for said in ({"owner": 7, "count": 7}, {"owner": 7, "count": 4}, {"owner": 6, "count": 5}, {"owner": 7}, {}):
        assert not is_same_store(before, said, after)
    assert not is_same_store(None, {"owner": 7, "count": 5}, after)
    assert not is_same_store(before, {"owner": 7, "count": 5}, None)
