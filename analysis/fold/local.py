"""The fold on this machine, without Spark: in this process, or in a pool of processes where that pays.

As many partials are waiting at a time as there are processes, and two: so what is open at the borders is put together
as it comes, and no second stage is needed.

    tables = answers(["/var/spool/orders"], asked(["lifecycle"]), now=micros(datetime.now(UTC)))

The processes of a pool import what this one runs as its main module: a program that calls this begins below
`if __name__ == "__main__":`.
"""

import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from types import TracebackType
from typing import Self, TypeVar

from oms_journal.journal.extras import brought_by

with brought_by("parquet"):
    import pyarrow as pa

from oms_journal.analysis.fold import engine
from oms_journal.analysis.fold.asked import Asked
from oms_journal.analysis.fold.engine import Work, decoded, encoded
from oms_journal.analysis.reading.parts import FilePart, Partition
from oms_journal.analysis.reading.schema import Micros

T = TypeVar("T")

POOL_BYTES_MIN = 128 << 20  # of data files: below, starting processes may take longer than they save
AHEAD = 2  # partitions that are folded, and wait for those before them, besides one a process


def answers(
    paths: Sequence[str],
    asked: Asked,
    *,
    now: Micros,
    processes: int | None = None,
    storage: Mapping[str, str] | None = None,
) -> dict[str, pa.Table]:
    """Return the answers by name, as `engine.answers` does; None are as many processes as there are processors."""
    with Pool(processes) as pool:
        return engine.answers(pool, paths, asked, now=now, storage=storage)


def fold(
    partitions: Sequence[Partition],
    work: Work[T],
    *,
    processes: int | None = None,
    pool_bytes_min: int = POOL_BYTES_MIN,
) -> Iterator[T]:
    """Yield what the work on each partition returns, in order: by a pool for this one pass."""
    with Pool(processes, pool_bytes_min) as pool:
        yield from pool(partitions, work)


class Pool:
    """An engine for several passes: processes that begin where there is enough to do, and end with the block.

    None are as many processes as there are processors. Where there is too little to do, the work is done here.
    """

    def __init__(self, processes: int | None = None, pool_bytes_min: int = POOL_BYTES_MIN) -> None:
        self._count = _core_count() if processes is None else processes
        self._bytes_min = pool_bytes_min
        self._processes: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._processes is not None:
            self._processes.shutdown(cancel_futures=True)  # what has begun comes to its end: less than a second

    def begin(self, size: int) -> None:
        """Start the processes, and wait for nothing, where so many bytes of data files are worth it."""
        if self._count > 1 and size >= self._bytes_min:
            with _without_interrupts():
                self._started().submit(_core_count)

    def __call__(self, partitions: Sequence[Partition], work: Work[T]) -> Iterator[T]:
        """Yield what the work on each partition returns, in order."""
        is_small = sum(partition.bytes for partition in partitions) < self._bytes_min
        if self._count <= 1 or is_small or len(partitions) <= 1:
            for partition in partitions:
                yield work(partition.parts)
            return
        waiting: deque[Future[bytes]] = deque()
        try:
            for partition in partitions:
                with _without_interrupts():
                    waiting.append(self._started().submit(_encoded, work, partition.parts))
                if len(waiting) >= self._count + AHEAD:
                    yield decoded(waiting.popleft().result())
            while waiting:
                yield decoded(waiting.popleft().result())
        finally:
            for future in waiting:
                future.cancel()

    def _started(self) -> ProcessPoolExecutor:
        if self._processes is None:
            self._processes = ProcessPoolExecutor(self._count, get_context("spawn"), _end_with_parent)
        return self._processes


def _encoded(work: Work[T], parts: Sequence[FilePart]) -> bytes:
    return encoded(work(parts))


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Let processes be started in the block that Ctrl-C does not reach; here it takes effect behind the block."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """Let a process of the pool end when the one that it works for is gone, however that ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_wait_for_parent, name="fold-parent", daemon=True).start()


def _wait_for_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _core_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
