"""The steps of the world "backup", beside those of the engine's: a backup is made, and a database made from it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ship:
    """Make a backup. `kill_after` changes of its disk its machine ends, or its process; or the n-th call fails."""

    kill_after: int = 0
    seed: int = 0
    cuts_power: bool = True
    verb: str = ""
    nth: int = 0
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """The machine is lost before the n-th change from here on, and another one goes on with what the backup has.

    The attempts to restore end before so many changes each, but for the last one; in the first of them the n-th call
    of a verb fails. With `is_there` the directory of the former database can still be seen.
    """

    seed: int
    after: int = 0
    is_there: bool = False
    kills: tuple[int, ...] = ()
    cuts_power: bool = True
    verb: str = ""
    nth: int = 0
    is_full: bool = False
