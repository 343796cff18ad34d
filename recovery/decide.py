"""The decision on one data file, as a table: what is seen → verdict and action.

    row                  header     body       footer   followed  verdict   action
    prepared             none       zero       -        no        clean     remove
    emptied              none       zero       -        yes       damaged   entomb
    never begun          good       no frame   absent   no        torn      drop
    torn at birth        none       unknown    absent   no        torn      drop
    lost header          none       unknown    -        -         damaged   entomb, or drop when not followed
    sealed               good       whole      good     -         clean     keep
    unsealed             good       whole      absent   -         clean     seal
    torn                 good       torn       absent   no        torn      cut
    damaged              -          bad        -        -         damaged   rebuild
    damaged footer       good       whole      bad      -         damaged   rebuild
    damaged header       rotted     whole      -        -         damaged   rebuild
    damaged padding      good       padding    -        -         damaged   rebuild
    other ending         good       whole      good     yes       damaged   rebuild
    missing              -          missing    -        yes       damaged   entomb
    late                 good       late       -        -         torn      drop

Torn is a write that was interrupted: nobody was told that it is safe. Damaged is the loss, or the
near loss, of something that somebody was told is safe. The row's name stands in every report.

    remove   the file holds nothing and is nobody's
    drop     keep an archive, remove the file: nothing in it was promised
    cut      keep an archive, write the good frames again, with a footer
    seal     write the good frames again, with a footer
    rebuild  keep an archive, write the good frames again at their places, gap frames in between
    entomb   keep an archive where there is something, put a file of gap frames in its place
"""

from dataclasses import dataclass
from enum import Enum

from recovery.report import Verdict


class Head(Enum):
    """Where the file's header was found."""

    GOOD = "good"
    ROTTED = "rotted"  # one copy, the footer or the successor still tells it
    NONE = "none"


class Body(Enum):
    """What the frames say. `vouched` means: a later frame, a footer or a successor says it was durable."""

    MISSING = "missing"  # no such file, but its successor names it
    ZERO = "zero"  # nothing but zeros, or no byte at all
    EMPTY = "no frame"  # not one good frame, and nothing vouched for
    WHOLE = "whole"
    TORN = "torn"  # bad only where nothing is vouched for
    PADDING = "padding"  # every frame good, yet the file's checksum is not: only padding can differ
    BAD = "bad"  # a vouched range or payload is bad
    UNKNOWN = "unknown"  # without the header no frame can be verified; one group at the most was written
    LOST = "lost"  # likewise, and more than one group was written
    LATE = "late"  # by an owner that had lost the directory: never acknowledged


class Foot(Enum):
    """What the end of the file says."""

    GOOD = "good"
    BAD = "bad"
    ABSENT = "absent"


class Action(Enum):
    """What recovery does with the file; the docstring of the module says what each means."""

    KEEP = "kept"
    REMOVE = "removed"
    DROP = "archived and removed"
    CUT = "archived and cut"
    SEAL = "sealed"
    REBUILD = "archived and rebuilt"
    ENTOMB = "archived and replaced by a gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that the decision on one file depends on."""

    head: Head
    body: Body
    foot: Foot
    is_followed: bool  # a later file names it as its predecessor
    ends_as_named: bool = True  # and ends where, and as, that file says


@dataclass(frozen=True, slots=True)
class Decision:
    """One row of the table."""

    row: str
    verdict: Verdict
    action: Action


_CLEAN, _TORN, _DAMAGED = Verdict.CLEAN, Verdict.TORN, Verdict.DAMAGED


def decide(seen: Seen) -> Decision:
    """Return the row that applies. Every combination has exactly one."""
    match seen:
        case Seen(body=Body.MISSING):
            return Decision("missing", _DAMAGED, Action.ENTOMB)
        case Seen(body=Body.LATE):
            return Decision("late", _TORN, Action.DROP)
        case Seen(body=Body.ZERO, is_followed=True):
            return Decision("emptied", _DAMAGED, Action.ENTOMB)
        case Seen(body=Body.ZERO):
            return Decision("prepared", _CLEAN, Action.REMOVE)
        case Seen(body=Body.UNKNOWN, is_followed=False, foot=Foot.ABSENT):
            return Decision("torn at birth", _TORN, Action.DROP)
        case Seen(body=Body.UNKNOWN | Body.LOST) | Seen(head=Head.NONE):
            return Decision("lost header", _DAMAGED, Action.ENTOMB if seen.is_followed else Action.DROP)
        case Seen(body=Body.BAD) | Seen(body=Body.TORN, is_followed=True) | Seen(body=Body.EMPTY, is_followed=True):
            return Decision("damaged", _DAMAGED, Action.REBUILD)
        case Seen(foot=Foot.BAD):
            return Decision("damaged footer", _DAMAGED, Action.REBUILD)
        case Seen(head=Head.ROTTED):
            return Decision("damaged header", _DAMAGED, Action.REBUILD)
        case Seen(body=Body.PADDING):
            return Decision("damaged padding", _DAMAGED, Action.REBUILD)
        case Seen(body=Body.EMPTY, foot=Foot.ABSENT):
            return Decision("never begun", _TORN, Action.DROP)
        case Seen(body=Body.TORN, foot=Foot.ABSENT):
            return Decision("torn", _TORN, Action.CUT)
        case Seen(body=Body.TORN | Body.EMPTY):
            return Decision("damaged", _DAMAGED, Action.REBUILD)
        case Seen(is_followed=True, ends_as_named=False):
            return Decision("other ending", _DAMAGED, Action.REBUILD)
        case Seen(foot=Foot.GOOD):
            return Decision("sealed", _CLEAN, Action.KEEP)
        case _:
            return Decision("unsealed", _CLEAN, Action.SEAL)
