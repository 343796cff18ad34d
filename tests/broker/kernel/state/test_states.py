"""The life of a unit of work: every status, every variation and every event, and what a restart leaves of each."""

from itertools import product

from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.restart.table import RESTART_1, RESTART_2, RestartOutcome, after_restart
from oms_journal.broker.kernel.state.unit_states import (
    COMPLETE,
    GONE,
    OF_THEMSELVES,
    TRANSITIONS,
    VARIATIONS,
    Event,
    Outcome,
    Variation,
    after,
)
from oms_journal.broker.records import Status
from tests.support.sweeps import for_each

R, A, D, P = Status.RECEIVED, Status.ACCEPTED, Status.DELIVERED, Status.POSTPONED
BOTH, UOW_ONLY, STATUS_ONLY, _NEITHER = VARIATIONS
PAIRS = list(product(Status, VARIATIONS))
SQUARE = list(product(Status, VARIATIONS, Event))

# The transition table of the manual: status, event, and what comes of it in the four variations.
# "-" is no trace, "=" no change: what a caller asks for is then refused as of the wrong status.
MANUAL = """
RECEIVED  SEND              RECEIVED  RECEIVED  RECEIVED  RECEIVED
RECEIVED  COMMIT            ACCEPTED  ACCEPTED  ACCEPTED  ACCEPTED
RECEIVED  RESTART           BACKEDOUT -         DISCARDED -
RECEIVED  BACKOUT           BACKEDOUT -         BACKEDOUT -
RECEIVED  CONVERSATION_OVER BACKEDOUT -         BACKEDOUT -
RECEIVED  DELETE            =         =         =         =
RECEIVED  CANCEL            =         =         =         =
RECEIVED  RECEIVE           =         =         =         =
RECEIVED  LIFETIME_OVER     =         =         =         =
ACCEPTED  RECEIVE           DELIVERED DELIVERED DELIVERED DELIVERED
ACCEPTED  LIFETIME_OVER     TIMEOUT   -         TIMEOUT   -
ACCEPTED  RESTART           ACCEPTED  ACCEPTED  DISCARDED -
ACCEPTED  CANCEL            CANCELLED -         CANCELLED -
ACCEPTED  DELETE            =         =         =         =
ACCEPTED  BACKOUT           =         =         =         =
ACCEPTED  SEND              =         =         =         =
ACCEPTED  COMMIT            =         =         =         =
ACCEPTED  CONVERSATION_OVER =         =         =         =
DELIVERED RECEIVE           DELIVERED DELIVERED DELIVERED DELIVERED
DELIVERED RECEIVER_COMMIT   PROCESSED -         PROCESSED -
DELIVERED RECEIVER_CANCEL   CANCELLED -         CANCELLED -
DELIVERED RECEIVER_BACKOUT  ACCEPTED  ACCEPTED  ACCEPTED  ACCEPTED
DELIVERED LIFETIME_OVER     =         =         =         =
DELIVERED CANCEL            =         =         =         =
DELIVERED DELETE            =         =         =         =
DELIVERED RESTART           ACCEPTED  ACCEPTED  DISCARDED -
PROCESSED RESTART           PROCESSED -         PROCESSED -
CANCELLED RESTART           CANCELLED -         CANCELLED -
TIMEOUT   RESTART           TIMEOUT   -         TIMEOUT   -
DISCARDED RESTART           DISCARDED -         DISCARDED -
BACKEDOUT RESTART           BACKEDOUT -         BACKEDOUT -
POSTPONED RESTART           POSTPONED POSTPONED DISCARDED -
POSTPONED DELAY_OVER        ACCEPTED  ACCEPTED  ACCEPTED  ACCEPTED
POSTPONED LIFETIME_OVER     =         =         =         =
POSTPONED SETUSTATUS        =         =         =         =
"""
ROWS = [line.split() for line in MANUAL.strip().splitlines()]


def _meant(cell: str, status: Status, event: str) -> Outcome:
    if cell == "-":
        return GONE
    if cell == "=":
        return status if Event[event] in OF_THEMSELVES else Code.WRONG_STATUS
    return Status[cell]


def _found(status: Status, event: str, variation: Variation) -> Outcome:
    if event == "RESTART":  # which the restart tables are asked
        return after_restart(status, variation).status or GONE
    return after(status, Event[event], variation)


@for_each("row", ROWS)
@for_each("variation", VARIATIONS)
def test_every_row_of_the_transition_table_of_the_manual(row: list[str], variation: Variation) -> None:
    """EntireX, Using Persistence and Units of Work: the statuses and how SYNCPOINT changes them."""
    status, event = Status[row[0]], row[1]

    assert _found(status, event, variation) == _meant(row[2 + VARIATIONS.index(variation)], status, event)


@for_each(("status", "variation", "event"), SQUARE)
def test_every_pair_moves_or_stays_or_is_refused(status: Status, variation: Variation, event: Event) -> None:
    outcome = after(status, event, variation)

    assert outcome is GONE or outcome in (*Status, Code.WRONG_STATUS, Code.UOW_NOT_FOUND)
    if isinstance(outcome, Code):
        assert event not in OF_THEMSELVES, "nobody is there to be refused"


@for_each(("status", "variation", "event"), SQUARE)
def test_without_a_persistent_status_nothing_is_left_of_a_complete_one(
    status: Status, variation: Variation, event: Event
) -> None:
    """EntireX, Using Persistence and Units of Work: BACKEDOUT, CANCELLED, PROCESSED only with persistent status."""
    outcome = after(status, event, variation)

    if not variation.status:
        assert outcome not in COMPLETE
        if status in COMPLETE:
            assert outcome in (GONE, Code.UOW_NOT_FOUND)


@for_each(("status", "variation", "event"), SQUARE)
def test_nothing_but_a_deletion_and_its_lifetime_ends_a_persistent_status(
    status: Status, variation: Variation, event: Event
) -> None:
    """EntireX 8.0, Concepts of Persistent Messaging: it remains until its status lifetime has expired."""
    if variation.status and after(status, event, variation) is GONE:
        assert event in (Event.DELETE, Event.STATUS_LIFETIME_OVER, Event.PURGE)
        assert status in COMPLETE or event is Event.PURGE


@for_each(("status", "variation"), PAIRS)
def test_only_an_accepted_one_times_out(status: Status, variation: Variation) -> None:
    """EntireX 8.0, Concepts of Persistent Messaging: no lifetime timeout in RECEIVED or DELIVERED."""
    outcome = after(status, Event.LIFETIME_OVER, variation)

    if status is A:
        assert outcome == (Status.TIMEOUT if variation.status else GONE)
    elif status not in COMPLETE:
        assert outcome is status


@for_each("variation", VARIATIONS)
@for_each("status", Status)
def test_the_user_status_is_set_only_before_the_end(status: Status, variation: Variation) -> None:
    """EntireX, Using Persistence and Units of Work: SETUSTATUS in RECEIVED, ACCEPTED or DELIVERED."""
    outcome = after(status, Event.SETUSTATUS, variation)

    assert (outcome is status) == (status in (R, A, D))


@for_each("status", Status)
def test_only_the_status_of_a_complete_one_is_deleted(status: Status) -> None:
    """EntireX, Using Persistence and Units of Work: DELETE."""
    assert after(status, Event.DELETE, BOTH) == (GONE if status in COMPLETE else Code.WRONG_STATUS)


@for_each("variation", VARIATIONS)
def test_neither_persistence_nor_persistent_status_changes_the_way_to_the_end(variation: Variation) -> None:
    """EntireX, Using Persistence and Units of Work: the normal statuses are not affected by either."""
    path = [R]
    for event in (Event.COMMIT, Event.RECEIVE, Event.RECEIVER_BACKOUT, Event.RECEIVE):
        outcome = after(path[-1], event, variation)
        assert isinstance(outcome, Status)
        path.append(outcome)

    assert path == [R, A, D, A, D]


def test_an_administrator_moves_only_what_waits() -> None:
    assert after(P, Event.ACCEPT, BOTH) is A
    assert after(P, Event.STOP, BOTH) is Status.CANCELLED
    assert after(A, Event.STOP, UOW_ONLY) is GONE
    assert after(D, Event.STOP, BOTH) is Code.WRONG_STATUS
    assert all(after(status, Event.PURGE, BOTH) is GONE for status in Status)


# Both restart tables, cell by cell: was persistent, had a persistent status, the unit of work and the status after.
TABLE_1 = """
RECEIVED  YES YES lost     BACKEDOUT
RECEIVED  YES NO  lost     -
RECEIVED  NO  YES lost     DISCARDED
RECEIVED  NO  NO  lost     -
ACCEPTED  YES YES restored ACCEPTED
ACCEPTED  YES NO  restored ACCEPTED
ACCEPTED  NO  YES lost     DISCARDED
ACCEPTED  NO  NO  lost     -
DELIVERED YES YES restored ACCEPTED
DELIVERED YES NO  restored ACCEPTED
DELIVERED NO  YES lost     DISCARDED
DELIVERED NO  NO  lost     -
PROCESSED YES YES lost     PROCESSED
PROCESSED YES NO  lost     -
PROCESSED NO  YES lost     PROCESSED
PROCESSED NO  NO  lost     -
"""


@for_each("row", [line.split() for line in TABLE_1.strip().splitlines()])
def test_every_row_of_the_first_restart_table(row: list[str]) -> None:
    """EntireX, Using Persistence and Units of Work: Restart Table 1."""
    status, variation = Status[row[0]], Variation(row[1] == "YES", row[2] == "YES")
    left = RestartOutcome(row[3] == "restored", None if row[4] == "-" else Status[row[4]])

    assert RESTART_1[status, variation] == left
    assert after_restart(status, variation) == left


@for_each("status", [Status.CANCELLED, Status.DISCARDED, Status.BACKEDOUT, Status.TIMEOUT])
@for_each("variation", [BOTH, STATUS_ONLY])
def test_every_row_of_the_second_restart_table(status: Status, variation: Variation) -> None:
    """EntireX, Using Persistence and Units of Work: Restart Table 2."""
    assert RESTART_2[status] is status
    assert after_restart(status, variation) == RestartOutcome(False, status)


def test_a_second_restart_changes_nothing_that_the_first_has_left() -> None:
    for status, variation in PAIRS:
        left = after_restart(status, variation)
        if left.status is not None:
            is_uow = left.is_uow and left.status not in COMPLETE
            assert after_restart(left.status, variation) == left._replace(is_uow=is_uow)


def test_the_tables_speak_of_statuses_and_events_that_meet() -> None:
    assert {status for status, _ in RESTART_1} | set(RESTART_2) | {P} == set(Status)
    assert all(len(row) == len(VARIATIONS) for row in TRANSITIONS.values())
    assert {event for _, event in TRANSITIONS} == set(Event)
