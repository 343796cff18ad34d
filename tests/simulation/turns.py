"""Threads of which one at a time goes on: chance says which, and the same chance gives the same run.

They are real threads that hand one another the turn. Who has it may have to hand it on before each step of the
interpreter in the modules that are watched closely, before each line of the other modules of the product, and at each
lock. Their locks are made here: a thread that waits for one gets no turn, and when none can go on any more, or they
come to no end, each of them ends with `Stuck`.
"""

import contextlib
import gc
import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from tests.simulation.faults.fault import exchanged
from tests.support.project import NAME, SOURCES

POINTS_MAX = 1_000_000  # at which a turn may end, in one run: it takes some ten thousand
AT_LOCKS = 0.5  # how often a turn ends where something is locked, or written durably
_WATCHED = tuple(f"{NAME}.{folder}." for folder in ("journal", "index", "database"))


class Stuck(BaseException):
    """Nobody can go on any more. No handler of the programs under test stops it."""


@dataclass(slots=True, eq=False)
class _Thread:
    program: Callable[[], None]
    may_go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    waits_for: "TurnLock | None" = None
    is_over: bool = False
    failure: BaseException | None = None

    @property
    def can_go(self) -> bool:
        return not self.is_over and (self.waits_for is None or not self.waits_for.is_held)


class Turns:
    """Who goes on, in one run of some programs. `closely`: these files are watched step by step."""

    def __init__(self, seed: int, share: float, *, closely: Sequence[Path], widely: bool) -> None:
        self.is_stuck = False
        self._chance = random.Random(seed)
        self._share = share  # how often a turn ends where it may
        self._closely = {str(path) for path in closely}
        self._widely = tuple(f"{SOURCES / name.replace('.', '/')}" for name in _WATCHED) if widely else ()
        self._threads: list[_Thread] = []
        self._mine: dict[int, _Thread] = {}  # by the thread's identifier
        self._points = 0
        self._over = threading.Semaphore(0)

    def run(self, programs: Sequence[Callable[[], None]]) -> None:
        """Return when all the programs have ended; what one of them has let out is raised."""
        if not programs:
            return
        self._threads = [_Thread(program) for program in programs]
        real = [threading.Thread(target=self._run, args=(each,), daemon=True) for each in self._threads]
        with _no_collector():
            for thread in real:
                thread.start()
            self._chance.choice(self._threads).may_go.release()
            self._over.acquire()
        for thread in real:
            thread.join()
        self._mine.clear()
        for each in self._threads:
            if each.failure is not None:
                raise each.failure

    def _run(self, thread: _Thread) -> None:
        self._mine[threading.get_ident()] = thread
        thread.may_go.acquire()
        try:
            sys.settrace(self._entered)
            thread.program()
        except BaseException as failure:
            thread.failure = failure
        finally:
            sys.settrace(None)
        thread.is_over = True
        if not self._pass_on(thread):
            self._over.release()

    # Where a turn may end.

    def _entered(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        name = frame.f_code.co_filename
        if name in self._closely:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return self._stepped
        return self._stepped if name.startswith(self._widely) and self._widely else None

    def _stepped(self, frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        if event in ("line", "opcode"):
            self.may_end()
        return self._stepped

    def may_end(self, share: float | None = None) -> None:
        """End the turn of the calling thread, perhaps. Nothing for a thread that has no turns."""
        me = self._mine.get(threading.get_ident())
        if me is None:
            return
        self._points += 1
        if self._points > POINTS_MAX:
            self.is_stuck = True
        if self.is_stuck:
            raise Stuck
        if self._chance.random() < (self._share if share is None else share):
            self._hand_over(me)

    def wait_for(self, lock: "TurnLock") -> None:
        """Return when the lock may be free: then it is this thread's turn."""
        me = self._mine.get(threading.get_ident())
        assert me is not None, "a thread without turns finds every lock free"
        me.waits_for = lock
        self._hand_over(me)
        me.waits_for = None

    def _hand_over(self, me: _Thread) -> None:
        if self._pass_on(me):
            me.may_go.acquire()
        if self.is_stuck:
            raise Stuck

    def _pass_on(self, me: _Thread) -> bool:
        """Give the turn to who can go on; False where it stays, or all have ended."""
        left = [each for each in self._threads if not each.is_over]
        able = [each for each in left if each.can_go]
        if left and not able:
            self.is_stuck = True
        if self.is_stuck:
            able = left if me.is_over else [me]
        if not able:
            return False
        following = self._chance.choice(able)
        if following is me:
            return False
        following.may_go.release()
        return True


class TurnLock:
    """A lock for threads that take turns."""

    def __init__(self, turns: Turns) -> None:
        self.is_held = False
        self._turns = turns

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # as Python's own
        self._turns.may_end(AT_LOCKS)
        while self.is_held:
            if not blocking:
                return False
            self._turns.wait_for(self)
        self.is_held = True
        return True

    def release(self) -> None:
        if not self.is_held:
            raise RuntimeError("release unlocked lock")
        self.is_held = False
        self._turns.may_end(AT_LOCKS)

    def locked(self) -> bool:
        return self.is_held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class _Threading:
    """The module `threading`, with other locks."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def Lock(self) -> TurnLock:  # noqa: N802  # as there
        return TurnLock(self._turns)

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


@contextlib.contextmanager
def locks_of(turns: Turns) -> Iterator[None]:
    """Have the product make locks for threads that take turns, as long as the block lasts."""
    with contextlib.ExitStack() as all_changed:
        for name, module in list(sys.modules.items()):
            if not name.startswith(_WATCHED) or vars(module).get("threading") is not threading:
                continue
            all_changed.enter_context(exchanged(module, "threading", lambda _: _Threading(turns)))
            for one in [one for one, value in vars(module).items() if isinstance(value, type(threading.Lock()))]:
                all_changed.enter_context(exchanged(module, one, lambda _: TurnLock(turns)))
        yield


@contextlib.contextmanager
def _no_collector() -> Iterator[None]:
    """Let the collector rest: when it comes depends on what was before, and it runs code of the product."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
