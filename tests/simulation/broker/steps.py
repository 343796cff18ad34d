"""What happens in the simulated world of the broker: steps, and scripts of them from a seed."""

import errno
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.simulation.world import Script, Step

CALLS = {  # what a step may do, and how often
    "exchange": 30,
    "circulate": 12,
    "serve": 12,
    "acknowledge": 12,
    "go_on": 14,
    "take_up": 3,
    "be_done": 7,
    "send": 24,
    "receive": 20,
    "syncpoint": 22,
    "answer": 8,
    "end": 3,
    "undo": 1,
    "publish": 9,
    "read": 9,
    "control": 6,
    "subscribe": 5,
    "wait": 4,
    "pass_time": 8,
    "come_or_go": 5,
    "all_at_once": 14,
    "go": 4,
}
BESIDE = {"start_again": 3, "lose_or_find": 7, "forbid_or_allow": 2}
CHORES = {"clean_up": 3, "compact": 3, "vouch": 3}
FAILING = {
    "write_durably": 6,
    "write": 2,
    "sync": 3,
    "sync_directory": 1,
    "create": 1,
    "rename": 1,
    "truncate": 1,
    "reserve": 1,
    "unlink": 1,
    "lock_write": 1,
    "read": 4,
    "open": 1,
}
ORDERS = {"release": 4, "discard": 3, "release_queue": 2, "discard_queue": 1}  # about what is held
REPEATED = 0.4  # of scripts
POISONED = 0.25  # of scripts, in a world where the second backout ends it
RESTORED = 0.3  # of scripts
OLDER = 0.5  # of restores are of a backup that was made before
SINCE = ("exchange", "circulate", "serve", "acknowledge", "take_up", "be_done", "send", "undo")  # that backup
ORDERED = 0.25  # of the steps behind a restore are followed by an order
AFTERWARDS = 10  # more times that one may follow
MOVED = RECONFIGURED = 0.01  # of steps
ROTTEN = 0.3  # of scripts end in damage
MISDIRECTED = 0.15  # end with a write that goes elsewhere
ENDINGS = ("power cut", "killed")


@dataclass(frozen=True, slots=True)
class Setting:
    """How the world is made; without one, as the defaults say."""

    file_bytes: int = 7680
    group_max: int = 4  # commits that one sync takes
    patience: int = 1  # groups between one look of the maintenance and the next
    is_forgetful: bool = False  # hardly anything is kept in memory
    keeps_files: bool = False  # clean-up moves files away
    min_free: int = 0  # bytes of free space below which no new units of work are taken


@dataclass(frozen=True, slots=True)
class Do:
    """Something is done; the number chooses among what makes sense then."""

    what: str
    number: int


@dataclass(frozen=True, slots=True)
class Crash:
    """The process ends, by a power cut or killed, before the n-th change of the disk from now on; before the 0th, now.

    `again` are such changes of the starts that follow, which end too.
    """

    ending: str
    change: int
    choice: int  # of what a power cut leaves
    again: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Fail:
    """The n-th call of a verb of the disk fails from now on, and where it `stays` every later one."""

    verb: str
    nth: int
    code: int
    is_short: bool = False  # of a write: a part of it is done
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """The disk has so many bytes left from now on; None for no limit, and new units of work are welcome again."""

    spare: int | None


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The broker stands still before the n-th change of the disk from now on, and a standby takes over."""

    change: int


@dataclass(frozen=True, slots=True)
class GoOn:
    """A broker that was taken over goes on and does something: a call, or another thing of PAUSED."""

    what: str
    number: int


@dataclass(frozen=True, slots=True)
class Move:
    """The broker ends, and its store is moved; the mover ends at each of these changes first, and begins again."""

    ending: str
    choice: int
    changes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BackUp:
    """The running broker's store is backed up, onto another disk: what a restore of an older state begins with."""


@dataclass(frozen=True, slots=True)
class Restore:
    """The broker ends, its machine is lost, and another begins with what a backup has: all that waits there is held.

    `again` are changes of the disk before which its first starts end. The backup is made when the broker has ended;
    where it `is_older` it is the last one that was made before: what has happened since only clients know.
    """

    ending: str
    choice: int
    again: tuple[int, ...] = ()
    is_older: bool = False


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """The broker is started again with other attributes: those of `broker_machine.SETTINGS` at this place."""

    place: int


@dataclass(frozen=True, slots=True)
class Rot:
    """The process ends, and what lies in a data file is damaged: the last thing that happens in its world."""

    ending: str
    kind: str  # of DAMAGES
    choice: int  # of file, place and bytes
    times: int = 1
    policy: str = "salvage"  # of the next start
    holds: bool = False  # the next start holds back what the damage may have brought back


@dataclass(frozen=True, slots=True)
class Astray:
    """The n-th durable write from now on lies elsewhere; when it is done, and vouched for, the process ends for good.

    Until then nothing else goes wrong; and where there is no such write any more nothing has happened.
    """

    ending: str
    nth: int
    choice: int  # of where it goes, and of what a power cut leaves


AnyStep = Setting | Do | Crash | Fail | Room | TakeOver | GoOn | Move | BackUp | Restore | Reconfigure | Rot | Astray
DAMAGES = ("bit", "sector", "zeros", "stale")
PAUSED = (*["call"] * 4, "tick", "clean_up", "compact", "vouch", "tend", "connect", "close")


def random_steps(seed: int) -> Script:
    """Return the script of a seed."""
    # With chances of their own: so the steps that these are put between are the same whether they are made or not.
    repeating = _with_repeats(_steps(seed), random.Random(f"again {seed}"))
    held = _with_holds(repeating, random.Random(f"held {seed}"))
    poisoned = _with_poison(held, random.Random(f"poison {seed}"))
    return _with_backups(poisoned, random.Random(f"backed up {seed}"))


def _steps(seed: int) -> Script:
    chance = random.Random(seed)
    file_bytes, is_forgetful = chance.choice((7680, 7680, 11776, 65536)), chance.random() < 0.3
    steps: list[AnyStep] = [
        Setting(
            file_bytes,
            chance.choice((1, 2, 4, 100)),
            chance.choice((1, 1, 3, 10)),
            is_forgetful,
            chance.random() < 0.2,
            chance.choice((0, 0, 4096, 20_000)),
        )
    ]
    names, weights = zip(*(CALLS | CHORES | BESIDE).items(), strict=True)
    crashes = chance.choice((0.03, 0.1, 0.2))
    faults = chance.choice((0.0, 0.03, 0.1))
    takeovers = chance.choice((0.0, 0.0, 0.05, 0.1))
    rooms = chance.choice((0.0, 0.0, 0.03, 0.1))
    for _ in range(chance.randint(20, 100)):
        if chance.random() < crashes:
            steps.append(_crash(chance))
        if chance.random() < faults:
            steps.append(_fail(chance))
        if chance.random() < rooms:
            steps.append(Room(chance.choice((None, chance.randint(0, 3000), chance.randint(0, 30_000)))))
        if chance.random() < takeovers:
            steps.append(_take_over(chance))
        if chance.random() < 3 * takeovers:
            steps.append(GoOn(chance.choice(PAUSED), chance.getrandbits(32)))
        if chance.random() < MOVED:
            ends = tuple(chance.randint(1, 40) for _ in range(chance.choice((0, 1, 2, 3))))
            steps.append(Move(chance.choice((*ENDINGS, "closed")), chance.getrandbits(32), ends))
        if chance.random() < RECONFIGURED:
            steps.append(Reconfigure(chance.randrange(2)))
        steps.append(Do(chance.choices(names, weights)[0], chance.getrandbits(32)))
    if chance.random() < ROTTEN:
        kind, times = chance.choice(DAMAGES), chance.choice((1, 1, 1, 2, 5))
        policy = chance.choice(("salvage", "salvage", "refuse"))
        ending, choice = chance.choice((*ENDINGS, "closed")), chance.getrandbits(32)
        steps.append(Rot(ending, kind, choice, times, policy, chance.random() < 0.3))
    elif chance.random() < MISDIRECTED / (1 - ROTTEN):
        steps.append(Astray(chance.choice((*ENDINGS, "closed")), chance.randint(1, 8), chance.getrandbits(32)))
        steps += [Do(chance.choices(names, weights)[0], chance.getrandbits(32)) for _ in range(10)]
    return steps


def _with_holds(steps: Sequence[Step], chance: random.Random) -> list[Step]:
    """Return the script with a restore in it, and what an operator says then; all else stays as it is."""
    if chance.random() >= RESTORED:
        return [*steps]
    end = _damage_of(steps)
    at = chance.randint(1, end)
    found: list[Step] = [*steps[:at], Do("order_lasting", chance.getrandbits(32)), _restore(chance)]
    found.append(Do("pass_time", chance.getrandbits(32)))
    for place in range(at, end + AFTERWARDS):
        found += steps[place:end][:1]
        if chance.random() < ORDERED:
            if chance.random() < 0.3:
                found.append(chance.choice((_crash, _crash, _fail, _take_over))(chance))
            found.append(Do(chance.choices(*zip(*ORDERS.items(), strict=True))[0], chance.getrandbits(32)))
        if chance.random() < 0.02:
            found.append(_restore(chance))
    return [*found, *steps[end:]]


def _with_repeats(steps: Sequence[Step], chance: random.Random) -> list[Step]:
    """Return the script with what chance seldom makes: repeats of producers, and units of work that are read twice."""
    if chance.random() >= REPEATED:
        return [*steps]
    end = _damage_of(steps)
    found: list[Step] = []
    for step in steps[:end]:
        found.append(step)
        if chance.random() < 0.1:
            found.append(Do(chance.choice(("repeat", "repeat", "hesitate")), chance.getrandbits(32)))
    return [*found, *steps[end:]]


def _with_poison(steps: Sequence[Step], chance: random.Random) -> list[Step]:
    """Return the script with units of work in it that are backed out until they are dead letters.

    Not beside a restore, nor with damage at its end: nobody is told the identifiers of dead letters, so whose they
    are cannot be said where they are held, or unreadable.
    """
    if chance.random() >= POISONED or any(isinstance(step, Restore) for step in steps):
        return [*steps]
    found: list[Step] = [*steps[:1], Reconfigure(2)]
    for step in steps[1 : _damage_of(steps)]:
        found.append(step)
        if chance.random() < 0.15:
            found.append(_do(chance, "refuse"))
    return found


def _with_backups(steps: Sequence[Step], chance: random.Random) -> list[Step]:
    """Return the script with older backups for some of its restores: all that the lost broker did since is undone."""
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Restore) and chance.random() < OLDER:
            at = max(1, len(found) - chance.randint(0, 12))
            before = [_do(chance, "circulate"), _do(chance, "exchange"), BackUp()]
            found[at:at] = [*before, *(_do(chance, chance.choice(SINCE)) for _ in range(chance.randint(0, 6)))]
            found.append(replace(step, is_older=True))
            if chance.random() < 0.4:
                found.append(_do(chance, "compare_queue"))
        else:
            found.append(step)
    return found


def _do(chance: random.Random, what: str) -> Do:
    return Do(what, chance.getrandbits(32))


def _damage_of(steps: Sequence[Step]) -> int:
    """Return where the damage begins that a script ends with, or its end."""
    return next((at for at, step in enumerate(steps) if isinstance(step, Rot | Astray)), len(steps))


def _restore(chance: random.Random) -> Restore:
    again = tuple(chance.randint(1, 20) for _ in range(chance.choice((0, 0, 1, 2))))
    return Restore(chance.choice((*ENDINGS, "closed")), chance.getrandbits(32), again)


def _take_over(chance: random.Random) -> TakeOver:
    return TakeOver(chance.choice((0, 1, 2, 3, chance.randint(1, 15))))


def _crash(chance: random.Random) -> Crash:
    change = chance.choice((0, 1, 2, 2, 3, chance.randint(1, 30)))
    again = tuple(chance.randint(1, 20) for _ in range(chance.choice((0, 0, 0, 1, 2))))
    return Crash(chance.choice(ENDINGS), change, chance.getrandbits(32), again)


def _fail(chance: random.Random) -> Fail:
    verb = chance.choices(*zip(*FAILING.items(), strict=True))[0]
    is_short = verb in ("write", "write_durably") and chance.random() < 0.4
    return Fail(verb, chance.choice((1, 1, 2, chance.randint(1, 9))), errno.EIO, is_short, chance.random() < 0.1)
