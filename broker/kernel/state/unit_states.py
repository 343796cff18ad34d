"""The life of a unit of work: what every event does to it.

Rule 1: every change of status is a cell of TRANSITIONS or of a restart table (`restart/table.py`).
Rule 2: nothing here reads a clock, a file or a socket.

    RECEIVED ──commit──▶ ACCEPTED ──receive──▶ DELIVERED ──receiver's commit──▶ PROCESSED
        │                  │  ▲ ▲                 │ │ │
        │                  │  │ └──── backout ────┘ │ └── receiver's cancel, dead letter ──▶ CANCELLED
        ├─ backout         │  └─ delay over ─ POSTPONED
        ▼                  ├─ cancel ──▶ CANCELLED
    BACKEDOUT              └─ lifetime over ──▶ TIMEOUT

A unit of work is in one of four variations: it is persistent or not, and its status is persistent or
not. Where the status is not, nothing is left of a complete one. A status that is not in a row of an
event answers 00780307, and a unit of work that has left no trace 00780305.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from oms_journal.broker.codes import Code
from oms_journal.broker.records import Status


class Event(Enum):
    """What can happen to a unit of work."""

    SEND = auto()  # by the sender: another message
    COMMIT = auto()
    BACKOUT = auto()
    CANCEL = auto()
    DELETE = auto()  # of the persistent status
    RECEIVE = auto()  # by the receiver
    RECEIVER_COMMIT = auto()
    RECEIVER_BACKOUT = auto()  # also when it goes away
    RECEIVER_CANCEL = auto()
    POSTPONE = auto()  # a backout of what has been tried often enough
    DEAD_LETTER = auto()  # a backout of what has been tried often enough, and put off: its messages go elsewhere
    SETUSTATUS = auto()  # by either
    LIFETIME_OVER = auto()  # time
    STATUS_LIFETIME_OVER = auto()
    DELAY_OVER = auto()
    CONVERSATION_OVER = auto()  # it timed out, or the sender went away
    ACCEPT = auto()  # an administrator: SET-UOW-STATUS ACCEPTED
    STOP = auto()  # SET-UOW-STATUS CANCELLED
    RELEASE = auto()  # of what is held since the store was restored
    DISCARD = auto()  # of that: nobody processes it
    CONFIRM = auto()  # of that: it was processed
    PURGE = auto()


class Trace(Enum):
    """That there is nothing left of a unit of work."""

    GONE = "gone"


GONE: Final = Trace.GONE
Outcome = Status | Trace | Code


class Variation(NamedTuple):
    """What of a unit of work is persistent."""

    uow: bool
    status: bool


VARIATIONS = (Variation(True, True), Variation(True, False), Variation(False, True), Variation(False, False))

RECEIVED, ACCEPTED, DELIVERED, POSTPONED = Status.RECEIVED, Status.ACCEPTED, Status.DELIVERED, Status.POSTPONED
BACKEDOUT, PROCESSED, CANCELLED = Status.BACKEDOUT, Status.PROCESSED, Status.CANCELLED
TIMEOUT, DISCARDED = Status.TIMEOUT, Status.DISCARDED

COMPLETE = frozenset({BACKEDOUT, PROCESSED, CANCELLED, TIMEOUT, DISCARDED})

# What a row says of the four variations, in the order of VARIATIONS.
OutcomeRow = tuple[Outcome, Outcome, Outcome, Outcome]


def _stays(status: Status) -> OutcomeRow:
    return (status, status, status, status)


def _ends(status: Status) -> OutcomeRow:
    """The status is all that is left, where it is persistent."""
    return (status, GONE, status, GONE)


TRANSITIONS: Mapping[tuple[Status, Event], OutcomeRow] = {
    (RECEIVED, Event.SEND): _stays(RECEIVED),
    (RECEIVED, Event.COMMIT): _stays(ACCEPTED),
    (RECEIVED, Event.BACKOUT): _ends(BACKEDOUT),
    (RECEIVED, Event.CONVERSATION_OVER): _ends(BACKEDOUT),
    (RECEIVED, Event.SETUSTATUS): _stays(RECEIVED),
    (ACCEPTED, Event.RECEIVE): _stays(DELIVERED),
    (ACCEPTED, Event.CANCEL): _ends(CANCELLED),
    (ACCEPTED, Event.LIFETIME_OVER): _ends(TIMEOUT),
    (ACCEPTED, Event.SETUSTATUS): _stays(ACCEPTED),
    (ACCEPTED, Event.ACCEPT): _stays(ACCEPTED),
    (ACCEPTED, Event.STOP): _ends(CANCELLED),
    (ACCEPTED, Event.RELEASE): _stays(ACCEPTED),
    (ACCEPTED, Event.DISCARD): _ends(DISCARDED),
    (ACCEPTED, Event.CONFIRM): _ends(PROCESSED),
    (DELIVERED, Event.RECEIVE): _stays(DELIVERED),
    (DELIVERED, Event.RECEIVER_COMMIT): _ends(PROCESSED),
    (DELIVERED, Event.RECEIVER_BACKOUT): _stays(ACCEPTED),
    (DELIVERED, Event.RECEIVER_CANCEL): _ends(CANCELLED),
    (DELIVERED, Event.POSTPONE): _stays(POSTPONED),
    (DELIVERED, Event.DEAD_LETTER): _ends(CANCELLED),
    (DELIVERED, Event.SETUSTATUS): _stays(DELIVERED),
    (POSTPONED, Event.DELAY_OVER): _stays(ACCEPTED),
    (POSTPONED, Event.CANCEL): _ends(CANCELLED),
    (POSTPONED, Event.ACCEPT): _stays(ACCEPTED),
    (POSTPONED, Event.STOP): _ends(CANCELLED),
    (POSTPONED, Event.RELEASE): _stays(POSTPONED),
    (POSTPONED, Event.DISCARD): _ends(DISCARDED),
    (POSTPONED, Event.CONFIRM): _ends(PROCESSED),
    **{(status, Event.DELETE): (GONE, GONE, GONE, GONE) for status in COMPLETE},
    **{(status, Event.STATUS_LIFETIME_OVER): (GONE, GONE, GONE, GONE) for status in COMPLETE},
    **{(status, Event.PURGE): (GONE, GONE, GONE, GONE) for status in Status},
}

# Nobody asks for these: where no row says otherwise they change nothing.
OF_THEMSELVES = frozenset({Event.LIFETIME_OVER, Event.STATUS_LIFETIME_OVER, Event.DELAY_OVER, Event.CONVERSATION_OVER})


def after(status: Status, event: Event, variation: Variation) -> Outcome:
    """Return the new status, GONE when no trace is left, or the code that refuses the event."""
    if status in COMPLETE and not variation.status:
        return GONE if event in OF_THEMSELVES else Code.UOW_NOT_FOUND
    row = TRANSITIONS.get((status, event))
    if row is not None:
        return row[VARIATIONS.index(variation)]
    return status if event in OF_THEMSELVES else Code.WRONG_STATUS
