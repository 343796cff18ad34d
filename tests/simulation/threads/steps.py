"""The steps of the world "threads": what each of several callers does, and that they do it at once.

Places are numbers that are taken modulo what there is.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Add:
    queue: int
    size: int


@dataclass(frozen=True, slots=True)
class Send:
    """A message under an identifier, for the first time or once more: it counts once."""

    identifier: int
    size: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two messages and a key in one commit."""

    queue: int
    size: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Several commits that are handed in together."""

    queue: int
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Deliver:
    """Deliver the message at this place of those that are known."""

    place: int


@dataclass(frozen=True, slots=True)
class Take:
    """Take the next message of a queue; deliver it, or give it back."""

    queue: int
    delivers: bool = True


@dataclass(frozen=True, slots=True)
class Tend:
    """What the maintenance does in time."""


@dataclass(frozen=True, slots=True)
class CleanUp:
    compact: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Read everything."""


Work = Add | Send | Pair | Batch | Deliver | Take | Tend | CleanUp | Look


@dataclass(frozen=True, slots=True)
class Caller:
    """One more thread, and what it does, when they all go on."""

    works: tuple[Work, ...]


@dataclass(frozen=True, slots=True)
class Together:
    """The callers go on at once, in turns that chance makes of the seed; `share`: how often a turn ends."""

    seed: int
    share: float
    widely: bool = False  # in the whole engine; else where callers queue up only


@dataclass(frozen=True, slots=True)
class PowerCut:
    """The power goes before the n-th change from here on."""

    after: int
    seed: int


@dataclass(frozen=True, slots=True)
class Death:
    """The process ends before the n-th change from here on; the machine goes on."""

    after: int


@dataclass(frozen=True, slots=True)
class Fail:
    """The n-th call of a verb from here on fails."""

    verb: str
    nth: int


@dataclass(frozen=True, slots=True)
class Close:
    """A clean end."""
