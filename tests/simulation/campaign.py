"""Many runs on all processors: each in one of a few worker processes, which are replaced when they hang or die.

A worker takes one task after the other through its pipe, and answers each. So whoever gave it the task knows
which run it is at, and since when; one that does not answer in time is killed, and its run counts as one that
hangs. Workers ignore Ctrl-C: the crew's master ends them.
"""

import contextlib
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from types import TracebackType

from tests.simulation.faults.all_faults import FAULTS
from tests.simulation.playing import SECONDS_MAX, Failure, play_seed
from tests.simulation.shrinking import Shrunk, shrink
from tests.simulation.world import Seen
from tests.simulation.worlds import WORLDS

SECONDS_OF_SHRINKING = 40
SECONDS_OF_SEARCHING = 3600  # until the search for a deliberate fault is given up


@dataclass(frozen=True, slots=True)
class Play:
    """The task to play one seed."""

    world: str
    seed: int
    seconds: float = SECONDS_MAX

    @property
    def patience(self) -> float:
        return (
            20 * self.seconds + 60
        )  # until the worker is killed: it ends a run itself, which counts the processor's time


@dataclass(frozen=True, slots=True)
class Shorten:
    """The task to shrink the failure of a seed."""

    world: str
    seed: int
    kind: str
    patience: float = 20 * SECONDS_OF_SHRINKING


@dataclass(frozen=True, slots=True)
class Search:
    """The task to play seed after seed with a deliberate fault made, until one of them finds it."""

    world: str
    fault: str
    patience: float = SECONDS_OF_SEARCHING
    seed: int = 0  # the first


Task = Play | Shorten | Search


@dataclass(slots=True)
class Answer:
    """What a worker did and found."""

    task: Task
    runs: int = 0
    seen: Seen = field(default_factory=Seen)
    failure: Failure | None = None  # of the task's seed; of a search: at the last of its runs
    shrunk: Shrunk | None = None
    slips: list[str] = field(default_factory=list)  # of a search: runs in which the fault did not fit the product


def answer(task: Task) -> Answer:
    """Do the task in this process."""
    world = WORLDS[task.world]
    match task:
        case Play(_, seed, seconds):
            played = play_seed(world, seed, seconds=seconds)
            return Answer(task, 1, played.seen, played.failure)
        case Shorten(_, seed, kind):
            shrunk = shrink(world, world.script(seed), kind, seconds=SECONDS_OF_SHRINKING, clock=time.monotonic)
            return Answer(task, shrunk=shrunk)
        case Search(_, name, _, first):
            fault = FAULTS[name]
            found = Answer(task)
            with fault.made():
                while found.failure is None and found.runs < fault.budget:
                    played = play_seed(world, first + found.runs)
                    found.runs += 1
                    if played.failure is not None and _is_slip(played.failure):
                        found.slips.append(played.failure.kind)
                    else:
                        found.failure = played.failure
                    found.seen.add(played.seen)
            return found


def _is_slip(failure: Failure) -> bool:
    """Say whether the deliberate fault does not fit the product any more: that is no find."""
    return failure.kind.startswith(("TypeError in", "NameError in", "AttributeError in"))


@dataclass(slots=True)
class _Worker:
    process: ForkServerProcess
    pipe: Connection
    task: Task | None = None
    since: float = 0.0


class Crew:
    """Some worker processes. Use it in a `with` block: at its end every one of them is ended."""

    def __init__(self, count: int) -> None:
        self._workers = [_started() for _ in range(count)]
        self._urgent: deque[Task] = deque()

    def __enter__(self) -> "Crew":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, _: TracebackType | None
    ) -> None:
        for worker in self._workers:
            _end(worker)

    def do_next(self, task: Task) -> None:
        """Have this done before what is still to come."""
        self._urgent.append(task)

    def answers(self, tasks: Iterator[Task]) -> Iterator[Answer | None]:
        """Yield the answers as they come, and None when a second has brought none."""
        while True:
            for worker in self._workers:
                if worker.task is None and (task := self._next(tasks)) is not None:
                    worker.task, worker.since = task, time.monotonic()
                    worker.pipe.send(task)
            busy = {worker.pipe: worker for worker in self._workers if worker.task is not None}
            if not busy:
                return
            ready = wait(list(busy), timeout=1)
            for pipe in ready:
                assert isinstance(pipe, Connection)
                yield self._received(busy[pipe])
            for worker in busy.values():
                if worker.task is not None and time.monotonic() - worker.since > worker.task.patience:
                    yield self._replaced(worker, "hangs", f"it was killed after {worker.task.patience:g} s")
            if not ready:
                yield None

    def _next(self, tasks: Iterator[Task]) -> Task | None:
        return self._urgent.popleft() if self._urgent else next(tasks, None)

    def _received(self, worker: _Worker) -> Answer:
        try:
            found: Answer = worker.pipe.recv()
        except EOFError:
            worker.process.join()
            return self._replaced(worker, "dies", f"the process ended with status {worker.process.exitcode}")
        worker.task = None
        return found

    def _replaced(self, worker: _Worker, kind: str, found: str) -> Answer:
        """Start another process in this one's place, and answer for it."""
        task = worker.task
        assert task is not None, "it had something to do"
        _end(worker)
        self._workers[self._workers.index(worker)] = _started()
        return Answer(task, 1, failure=Failure(kind, "a run comes to its end", found))


def _started() -> _Worker:
    forking = multiprocessing.get_context("forkserver")  # all that workers import is imported once
    forking.set_forkserver_preload([__name__])
    ours, theirs = forking.Pipe()
    process = forking.Process(target=_work, args=(theirs,), daemon=True)
    with _interrupts_ignored():  # while it starts, too
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _end(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.join()
    worker.pipe.close()


def _work(pipe: Connection) -> None:
    """Answer until the master is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            pipe.send(answer(pipe.recv()))


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
