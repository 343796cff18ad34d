"""When a standby may take over: a table of what it hears of its partner and sees in the lock file. No clock is in it.

the partner's ping           the owner's byte   its count                     then
is answered                  -                  -                             it lives
is not                       free               -                             TAKE: the store is nobody's
is not, for an interval      held               stands still for as long      PASS: a process or a machine is stopped
is not, for an interval,     held               moves                         ENDING: it is being stopped
    its port is closed
is not, for an interval      held               moves                         CUT: only the network between the two is
is not                       held               was never raised              OPENING: it is opening the store
is not                       cannot be seen     -                             UNSEEN: the store is not to be reached
is a standby's               nobody ever had the store, as both see it        BEGIN, or LEFT: they draw which one does

A count stands still when it has not moved for CONTROL-INTERVAL, and for three times as long as its owner says it takes.
"""

from dataclasses import dataclass, field
from enum import Enum

from oms_journal.journal.lock import Holder


class Verdict(Enum):
    """What to do about a partner that has not answered."""

    TAKE = "nobody has the store"
    PASS = "its owner gives no sign of life"
    NOT_YET = "its owner was silent for too short a time"
    CUT = "the partner does not answer, but whoever has the store is alive: the network between the two is cut"
    ENDING = "the partner's port is closed, but whoever has the store is alive: the partner is being stopped"
    UNSEEN = "no lock file of the store can be seen from here; a new store is begun once both standbys are up"
    OPENING = "the partner does not answer, but whoever has the store is opening it"
    BEGIN = "nobody ever had the store; it is begun here"
    LEFT = "nobody ever had the store; the partner, a standby too, is the one of the two to begin it"


@dataclass(slots=True)
class PartnerWatch:
    """What was heard and seen, in seconds of one clock."""

    interval: float
    began: float
    heard: float | None = None  # when the partner last answered
    holder: Holder | None = None
    is_closed: bool = False  # the last ping found nobody at the partner's port
    drawn: bool | None = None  # of two standbys that see no store: whether this one begins it; None while it is not so
    moved: float = field(init=False)  # when the owner last gave a sign of life, as far as was seen

    def __post_init__(self) -> None:
        self.moved = self.began

    def look(self, holder: Holder | None, now: float) -> None:
        """Note what the lock file says."""
        before = self.holder
        if holder is not None and (before is None or (holder.number, holder.count) != (before.number, before.count)):
            self.moved = now
        self.holder = holder

    def hear(self, now: float) -> None:
        """Note that the partner has answered as the standard broker."""
        self.heard = now

    def verdict(self, now: float) -> Verdict:
        """Say what a ping that was not answered means."""
        holder = self.holder
        if holder is None:
            return {True: Verdict.BEGIN, False: Verdict.LEFT, None: Verdict.UNSEEN}[self.drawn]
        if not holder.is_open:
            return Verdict.TAKE
        if not holder.count:
            return Verdict.OPENING
        silent = max(self.interval, holder.silent_seconds)
        if now - self.moved < silent:
            lives = Verdict.ENDING if self.is_closed else Verdict.CUT
            return lives if self._is_missed(now) else Verdict.NOT_YET
        return Verdict.PASS if self._is_missed(now) else Verdict.NOT_YET

    def _is_missed(self, now: float) -> bool:
        return now - (self.began if self.heard is None else self.heard) >= self.interval
