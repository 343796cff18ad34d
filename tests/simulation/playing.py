"""One run of a world, and what came of it: nothing broken, or a failure with its kind and how it looks.

A run that takes more of the processor than `SECONDS_MAX`, or whose script is longer than `STEPS_MAX`, is a failure
too: what hangs is broken. Two failures are of one kind if they break the same promise, or if the same exception
left the same function of the programs under test; that is what a shorter script must still show.
"""

import contextlib
import re
import signal
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType, TracebackType

import xxhash

from tests.simulation.world import PromiseBroken, Script, Seen, World

SECONDS_MAX = 30  # of the processor's time, so that a busy machine fails nothing; a run takes well under one
STEPS_MAX = 2000
_OURS = "oms_journal."


class Hangs(BaseException):
    """The run took too long. No handler of the programs under test catches it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What was broken in a run."""

    kind: str  # equal for failures of one cause, as far as can be told
    promise: str  # which promise, on one line
    found: str  # what was found instead, or the traceback


@dataclass(slots=True)
class Played:
    """What came of one run."""

    seen: Seen = field(default_factory=Seen)
    failure: Failure | None = None


def play_seed(world: World, seed: int, *, seconds: float = SECONDS_MAX) -> Played:
    """Play the run of a seed."""
    played = Played()
    with _caught(played), _limited(seconds):
        script = world.script(seed)
        if len(script) > STEPS_MAX:
            raise PromiseBroken(f"a script has at most {STEPS_MAX} steps\n{len(script)} were made of this seed")
        world.play(script, played.seen)
    return played


def play_script(world: World, script: Script, *, seconds: float = SECONDS_MAX) -> Played:
    """Play a script."""
    played = Played()
    with _caught(played), _limited(seconds):
        world.play(script, played.seen)
    return played


def fingerprint(seen: Seen) -> str:
    """Return a number for all that a play has met: the same for every play of a script, wherever it is played."""
    everything = (
        seen.steps,
        seen.changes,
        sorted(seen.crashes),
        sorted(seen.met.items()),
        sorted(seen.checked.items()),
    )
    return xxhash.xxh3_64_hexdigest(repr(everything).encode())


@contextlib.contextmanager
def _caught(played: Played) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise
    except Hangs as failure:
        found = f"it took the processor for longer than {failure} s\n{_trace(failure)}"
        played.failure = Failure("hangs", "a run comes to its end", found)
    except PromiseBroken as failure:
        promise, _, found = str(failure).partition("\n")
        played.failure = Failure(_without_figures(promise), promise, found or _trace(failure))
    except BaseException as failure:  # whatever the programs under test let out is a failure, `Killed` included
        where = _innermost(failure.__traceback__)
        played.failure = Failure(
            f"{type(failure).__name__} in {where}", f"no {type(failure).__name__} leaves {where}", _trace(failure)
        )


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise `Hangs` after so many seconds of the processor, where there are alarms: in the main thread."""

    def hangs(number: int, frame: FrameType | None) -> None:
        raise Hangs(f"{seconds:g}")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPROF, hangs)
    # Again and again, in case that the first was raised where nothing can be: in a finaliser, say.
    signal.setitimer(signal.ITIMER_PROF, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _without_figures(promise: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "…", promise)


def _innermost(trace: TracebackType | None) -> str:
    """Return the last function of the programs under test that the exception came through, or the last of all."""
    frames = [(frame.f_globals.get("__name__", "?"), frame.f_code.co_qualname) for frame, _ in traceback.walk_tb(trace)]
    ours = [frame for frame in frames if frame[0].startswith(_OURS)]
    return ".".join((ours or frames or [("?", "?")])[-1])


def _trace(failure: BaseException) -> str:
    return "".join(traceback.format_exception(failure)).rstrip()
