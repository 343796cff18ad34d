"""The steps of the world "engine": what callers do, what time brings, what goes wrong.

Places in the state (which message, which key) are numbers that are taken modulo what there is, so that a step
means something whatever stands before it.
"""

import errno
from dataclasses import dataclass

ROLLS = 7  # what a former owner does

# What callers do.


@dataclass(frozen=True, slots=True)
class Add:
    """One message; with a producer, an identifier that was never used before."""

    queue: int
    size: int
    seed: int
    properties: int = 0
    has_producer: bool = False


@dataclass(frozen=True, slots=True)
class AddMany:
    """Messages of one queue in one commit."""

    queue: int
    sizes: tuple[int, ...]
    seed: int
    has_producer: bool = False


@dataclass(frozen=True, slots=True)
class Remove:
    """Deliver or delete the messages at these places."""

    places: tuple[int, ...]
    delivers: bool = True


@dataclass(frozen=True, slots=True)
class Put:
    key: int
    size: int
    seed: int


@dataclass(frozen=True, slots=True)
class Drop:
    key: int


@dataclass(frozen=True, slots=True)
class Block:
    """One commit of several operations."""

    parts: tuple[Add | Remove | Put | Drop, ...]
    has_producer: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Several callers whose commits are written together."""

    parts: tuple[Add | AddMany | Remove | Put | Block, ...]


@dataclass(frozen=True, slots=True)
class Resend:
    """An identifier once more, with what it came with or with something else."""

    place: int
    differs: bool = False


@dataclass(frozen=True, slots=True)
class Take:
    queue: int


@dataclass(frozen=True, slots=True)
class Purge:
    """All that is undelivered in a queue is deleted."""

    queue: int


@dataclass(frozen=True, slots=True)
class Release:
    place: int


@dataclass(frozen=True, slots=True)
class LetGo:
    """Of what is held back, the messages at these places, or all of it, are held no longer."""

    places: tuple[int, ...] = ()
    is_all: bool = False


@dataclass(frozen=True, slots=True)
class Discard:
    """Of what is held back, the messages at these places are delivered: a consumer has them."""

    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Clean-up as asked for, or as the clock brings it."""

    compact: bool = False
    is_due: bool = False


@dataclass(frozen=True, slots=True)
class Tend:
    """The maintenance comes round: prepares, seals, fills the reserve."""


@dataclass(frozen=True, slots=True)
class Silence:
    """No commit for so long; the maintenance vouches for the last group and renews."""

    seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class Look:
    """Everything is read, and compared."""


@dataclass(frozen=True, slots=True)
class Close:
    """A clean end."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """A clean end, and these options from now on."""

    size: int = 7680
    alignment: int = 8
    validation: str = "full"
    share: float = 0.25
    retention: bool = False
    policy: str = "salvage"  # with damage: "salvage", "truncate", "refuse"
    otherwise: str = "salvage"  # where that has refused
    most: int = 0  # messages that each queue may hold; 0: any number
    holds: bool = False  # what damage may have brought back


# What goes wrong.


@dataclass(frozen=True, slots=True)
class PowerCut:
    """The power goes before the n-th change from here on; `others` more outcomes of it are looked at."""

    after: int
    seed: int
    is_harsh: bool = False
    others: int = 0


@dataclass(frozen=True, slots=True)
class Death:
    """The process ends before the n-th change from here on; the machine goes on."""

    after: int


@dataclass(frozen=True, slots=True)
class Fail:
    """The n-th call of a verb from here on fails, or is slow, or goes elsewhere."""

    verb: str
    nth: int
    code: int = errno.EIO
    is_short: bool = False
    seconds: float = 0.0
    misdirected: int = 0  # where to


@dataclass(frozen=True, slots=True)
class Space:
    """The disk has so many bytes left, or no limit any more."""

    left: int | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Before the n-th change from here on the process stands still: another one takes over and does this."""

    after: int
    meanwhile: tuple[Add | Remove | Put, ...]
    verb: str = ""  # not before a change of this kind
    in_turn: bool = False  # it goes on before the other one has done more than read, and repair, the files


@dataclass(frozen=True, slots=True)
class Former:
    """The process that stood still does something more; ROLLS: a commit that needs a new file."""

    what: int


@dataclass(frozen=True, slots=True)
class Rot:
    """Bytes of a data file change: a bit, some bytes, a sector; or a sector cannot be read once."""

    file: int
    place: float  # share of the file
    size: int  # bytes; 0: one bit
    seed: int


@dataclass(frozen=True, slots=True)
class EndAnywhere:
    """The start that comes is played on copies of the disk, each ended before another change; only behind rot."""

    seed: int


@dataclass(frozen=True, slots=True)
class Misplace:
    """While nobody has the database, somebody's hand, or the device, does something to a data file.

    It is "gone", "emptied", "copied" under the next name, "exchanged" for another database's, or "hidden" for a while.
    """

    what: str
    file: int
