"""The steps of the world "queues": what producers and consumers do, what the clocks do, what goes wrong.

Places in the state (which message in hand, which dead letter) are numbers that are taken modulo what there is.
"""

import errno
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Add:
    """Messages of one queue in one commit, with the same terms; seconds from now, 0: without."""

    queue: int
    count: int = 1
    size: int = 0
    delay: float = 0.0
    at: float = 0.0  # a point in time, which the wall clock is to show
    expires: float = 0.0
    expires_at: float = 0.0  # likewise
    group: int = 0


@dataclass(frozen=True, slots=True)
class Take:
    """The next message of a queue, or of the first of all queues that has one; or the next few."""

    queue: int
    lease: float = 0.0
    count: int = 1
    is_of_any: bool = False


@dataclass(frozen=True, slots=True)
class TakeFor:
    """A message for one block, or one turn of a loop; what an exception or a break leaves is given back."""

    queue: int
    lease: float = 0.0
    is_loop: bool = False
    is_left: bool = False  # by an exception, or by break


@dataclass(frozen=True, slots=True)
class TakeInTurn:
    """A caller asks for a message, or the next few, and waits so long; a slow one goes on when `GoOn` says so."""

    queue: int
    wait: float
    lease: float = 0.0
    count: int = 1
    is_of_any: bool = False
    is_slow: bool = False


@dataclass(frozen=True, slots=True)
class AddInTurn:
    """A caller adds messages of one queue in one commit, and waits so long for room."""

    queue: int
    wait: float
    count: int = 1
    size: int = 0
    is_slow: bool = False


@dataclass(frozen=True, slots=True)
class GiveUp:
    """An interrupt comes to a caller that waits, or that has what it waits for and has not gone on yet."""

    place: int


@dataclass(frozen=True, slots=True)
class GoOn:
    """Slow callers that have what they wait for go on."""


@dataclass(frozen=True, slots=True)
class Extend:
    place: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Deliver:
    """Deliver what is in hand; so much time goes by while that commit is on its way, and somebody takes."""

    place: int
    is_by_number: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Release:
    place: int
    delay: float = 0.0
    is_by_number: bool = False


@dataclass(frozen=True, slots=True)
class Exchange:
    """Deliver what is in hand and add another message, in one commit."""

    place: int
    queue: int


@dataclass(frozen=True, slots=True)
class Requeue:
    """A dead letter goes back."""

    place: int


@dataclass(frozen=True, slots=True)
class Pass:
    """Time goes by, and what it brings is looked at, as a thread does."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Jump:
    """Somebody sets the wall clock."""

    seconds: float


@dataclass(frozen=True, slots=True)
class DeleteExpired:
    """The maintenance deletes what has expired."""


@dataclass(frozen=True, slots=True)
class CleanUp:
    compact: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Everything is asked for, and compared."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """A clean end, and these options from now on."""

    attempts_max: int = 0  # 0: messages come again for ever
    size: int = 7680
    messages_max: int = 0  # that the first queue may hold; 0: as many as there are
    bytes_max: int = 0  # likewise the second


@dataclass(frozen=True, slots=True)
class PowerCut:
    """The power goes before the n-th change from here on, 0: at once; `others` more outcomes are looked at."""

    after: int
    seed: int
    others: int = 0


@dataclass(frozen=True, slots=True)
class Death:
    """The process ends before the n-th change from here on, 0: at once; the machine goes on."""

    after: int


@dataclass(frozen=True, slots=True)
class Fail:
    """The n-th call of a verb from here on fails; who has the database closes it, and opens it again."""

    verb: str
    nth: int
    code: int = errno.EIO


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Another process takes the directory over while this one lives.

    At once for 0, else while this one stands still before the n-th change from here on, where that is of a commit.
    """

    after: int = 0


@dataclass(frozen=True, slots=True)
class Former:
    """The process that had the directory before goes on as if it had it still."""

    what: int
