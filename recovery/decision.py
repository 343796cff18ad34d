"""The decision on one data file, as a table: what is seen → verdict and action. The first row that fits decides.

    row              header        body                   footer       followed   verdict  action
    missing          -             missing                -            -          damaged  entomb
    emptied          -             zero                   -            yes        damaged  entomb
    prepared         -             zero                   -            no         clean    remove
    late             -             late                   -            -          torn     drop
    torn at birth    -             unknown                absent       no         torn     drop
    lost header      -             unknown, lost          -            -          damaged  entomb
    lost header      none          -                      -            -          damaged  entomb
    damaged          -             bad                    -            -          damaged  rebuild
    damaged          -             torn, empty, disowned  -            yes        damaged  rebuild
    damaged footer   -             -                      bad          -          damaged  rebuild
    damaged header   rotted        -                      -            -          damaged  rebuild
    damaged          -             torn, empty, disowned  good         -          damaged  rebuild
    never begun      -             empty                  -            -          torn     drop
    told as failed   -             disowned               -            -          torn     cut
    torn             -             torn                   -            -          torn     cut
    torn header      half          -                      absent       no         torn     cut
    damaged header   half          -                      -            -          damaged  rebuild
    damaged padding  -             padding                -            -          damaged  rebuild
    other ending     -             -                      -            otherwise  damaged  rebuild
    sealed           -             -                      good         -          clean    keep
    unsealed         -             -                      -            -          clean    seal

Followed is a file that a later one names as its predecessor, or of which the lock file says how it ended when the
database was closed: yes, and it ends as that one says, or otherwise than that one says. An empty file is followed too
when the one before it or the lock file names it, and when no file has a header any more and it is the first one without
having been the first ever: clean-up has removed others since.

Torn is a write that was interrupted: nobody was told that it is safe. Damaged is the loss, or the
near loss, of something that somebody was told is safe. The row's name stands in every report.

    keep     leave it as it is
    remove   the file holds nothing and is nobody's
    drop     keep an archive, remove the file: nothing in it was promised
    cut      keep an archive, write the good frames again, with a footer
    seal     write the good frames again, with a footer
    rebuild  keep an archive, write the good frames again at their places, gap frames in between
    entomb   keep an archive where there is something, put a file of gap frames in its place
"""

from dataclasses import dataclass
from enum import Enum

from oms_journal.recovery.report import Verdict


class Head(Enum):
    """Where the file's header was found."""

    GOOD = "good"
    HALF = "half"  # one copy only, and nothing says that more than its first write was ever finished
    ROTTED = "rotted"  # one copy, the footer or a neighbour still tells it
    NONE = "none"


class Body(Enum):
    """What the frames say. Vouched for is what a later frame, a footer or a neighbour says was durable."""

    MISSING = "missing"  # no such file, but another one names it
    ZERO = "zero"  # nothing but zeros, or no byte at all
    EMPTY = "empty"  # not one good frame, and nothing vouched for
    DISOWNED = "disowned"  # good up to frames of which this process told their callers that they had failed
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
class Observed:
    """All that the decision on one file depends on."""

    head: Head
    body: Body
    foot: Foot
    is_followed: bool  # a later file names it as its predecessor
    ends_as_named: bool = True  # and ends where, and as, that file says


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows."""

    row: str
    verdict: Verdict
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table: what must be seen for it to apply."""

    decision: Decision
    bodies: frozenset[Body] = frozenset(Body)
    heads: frozenset[Head] = frozenset(Head)
    feet: frozenset[Foot] = frozenset(Foot)
    followed: frozenset[bool] = frozenset((False, True))
    ends_as_named: frozenset[bool] = frozenset((False, True))

    def applies(self, seen: Observed) -> bool:
        return (
            seen.body in self.bodies
            and seen.head in self.heads
            and seen.foot in self.feet
            and seen.is_followed in self.followed
            and seen.ends_as_named in self.ends_as_named
        )


def _row(name: str, verdict: Verdict, action: Action, *bodies: Body, **seen: object) -> Row:
    """Return a row; what is not given may be anything."""
    sets = {key: frozenset((value,)) for key, value in seen.items()}
    return Row(decision=Decision(name, verdict, action), bodies=frozenset(bodies or Body), **sets)  # type: ignore[arg-type]


_CLEAN, _TORN, _DAMAGED = Verdict.CLEAN, Verdict.TORN, Verdict.DAMAGED
TORN_HEADER = "torn header"
PREPARED = "prepared"

TABLE = (
    _row("missing", _DAMAGED, Action.ENTOMB, Body.MISSING),
    _row("emptied", _DAMAGED, Action.ENTOMB, Body.ZERO, followed=True),
    _row(PREPARED, _CLEAN, Action.REMOVE, Body.ZERO, followed=False),
    _row("late", _TORN, Action.DROP, Body.LATE),
    _row("torn at birth", _TORN, Action.DROP, Body.UNKNOWN, feet=Foot.ABSENT, followed=False),
    _row("lost header", _DAMAGED, Action.ENTOMB, Body.UNKNOWN, Body.LOST),
    _row("lost header", _DAMAGED, Action.ENTOMB, heads=Head.NONE),
    _row("damaged", _DAMAGED, Action.REBUILD, Body.BAD),
    _row("damaged", _DAMAGED, Action.REBUILD, Body.TORN, Body.EMPTY, Body.DISOWNED, followed=True),
    _row("damaged footer", _DAMAGED, Action.REBUILD, feet=Foot.BAD),
    _row("damaged header", _DAMAGED, Action.REBUILD, heads=Head.ROTTED),
    _row("damaged", _DAMAGED, Action.REBUILD, Body.TORN, Body.EMPTY, Body.DISOWNED, feet=Foot.GOOD),
    _row("never begun", _TORN, Action.DROP, Body.EMPTY),
    _row("told as failed", _TORN, Action.CUT, Body.DISOWNED),
    _row("torn", _TORN, Action.CUT, Body.TORN),
    _row(TORN_HEADER, _TORN, Action.CUT, heads=Head.HALF, feet=Foot.ABSENT, followed=False),
    _row("damaged header", _DAMAGED, Action.REBUILD, heads=Head.HALF),
    _row("damaged padding", _DAMAGED, Action.REBUILD, Body.PADDING),
    _row("other ending", _DAMAGED, Action.REBUILD, followed=True, ends_as_named=False),
    _row("sealed", _CLEAN, Action.KEEP, feet=Foot.GOOD),
    _row("unsealed", _CLEAN, Action.SEAL),
)


def decide(seen: Observed) -> Decision:
    """Return what the first row that applies says."""
    return next(row.decision for row in TABLE if row.applies(seen))
