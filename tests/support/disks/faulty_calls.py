"""What goes wrong in the calls of a simulated disk: counted out by verb, as a test asked for."""

import errno
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

CHANGES = frozenset(
    [
        "create",
        "write",
        "write_durably",
        "sync",
        "truncate",
        "reserve",
        "rename",
        "link",
        "unlink",
        "sync_directory",
        "make_directory",
        "lock_write",
    ]
)
VERBS = CHANGES | {"read", "open", "list"}


class Killed(BaseException):
    """The process ended here: no verb works any more, as none would."""


class Kind(Enum):
    """In which way a call goes wrong."""

    FAILS = "fails"  # with nothing done; a sync with all of it undone
    SHORT = "short"  # of a write: the first half is written, then it fails
    SLOW = "slow"  # time passes, then it works
    MISDIRECTED = "misdirected"  # of a write: it reports success, and the sectors lie elsewhere


@dataclass(slots=True)
class Fault:
    """The n-th call of a verb goes wrong."""

    verb: str
    nth: int
    code: int = errno.EIO
    kind: Kind = Kind.FAILS
    stays: bool = False  # every later call too
    seconds: float = 0.0  # of a slow one
    seed: int = 0  # of where a misdirected one goes

    def hits(self, verb: str, call: int) -> bool:
        return verb == self.verb and (call == self.nth or (self.stays and call > self.nth))


@dataclass(slots=True)
class Calls:
    """The calls of one disk so far, and which of them go wrong."""

    steps: int = 0  # calls that change something
    kill_at: int | None = None  # before this change the process ends
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    failed: list[Fault] = field(default_factory=list)  # those that came to pass
    is_dead: bool = False
    before_change: Callable[[str], None] | None = None  # told what, while nothing is done of it yet
    pass_time: Callable[[float], None] = lambda _: None  # what a slow call does: so many seconds pass

    def fail(self, fault: Fault) -> None:
        """Have a call go wrong; its number is counted from here on."""
        assert fault.verb in VERBS
        fault.nth += self.counts[fault.verb]
        self.faults.append(fault)

    def begin(self, verb: str, *paths: Path) -> Fault | None:
        """Count a call; raise what the test asked for. A fault that does a part first is returned."""
        self.check_alive()
        self.counts[verb] += 1
        if verb in CHANGES:
            self.step(verb, *paths)
        for fault in self.faults:
            if not fault.hits(verb, self.counts[verb]):
                continue
            self.failed.append(fault)
            if fault.kind is Kind.SLOW:
                self.pass_time(fault.seconds)
            elif fault.kind is not Kind.FAILS or verb in ("sync", "write_durably"):
                return fault
            else:
                raise failure(fault.code, paths[0])
        return None

    def step(self, verb: str, *paths: Path) -> None:
        """Count a change; the machine may stop here."""
        self.steps += 1
        if self.before_change is not None:
            self.before_change(f"{verb} {' '.join(path.name for path in paths)}")
        if self.steps == self.kill_at:
            self.is_dead = True
            raise Killed(f"{verb} {' '.join(path.name for path in paths)}")

    def check_alive(self) -> None:
        if self.is_dead:
            raise Killed("the process has ended")


def failure(code: int, path: Path) -> OSError:
    return OSError(code, os.strerror(code), str(path))
