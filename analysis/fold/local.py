"""The fold on this machine, without Spark: in this process, or in a pool of processes where that pays.

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
from functools import partial
from multiprocessing import get_context, parent_process
from typing import TypeVar

from oms_journal.journal.extras import brought_by

with brought_by("parquet"):
    import pyarrow as pa

from oms_journal.analysis.fold import engine
from oms_journal.analysis.fold.asked import Asked
from oms_journal.analysis.fold.engine import Work, decoded, encoded
from oms_journal.analysis.reading.parts import FilePart, Partition
from oms_journal.analysis.reading.schema import Micros

T = TypeVar("T")

POOL_BYTES_MIN = 512 << 20  # of data files: below, starting processes takes longer than they save
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
    return engine.answers(partial(fold, processes=processes), paths, asked, now=now, storage=storage)


def fold(
    partitions: Sequence[Partition],
    work: Work[T],
    *,
    processes: int | None = None,
    pool_bytes_min: int = POOL_BYTES_MIN,
) -> Iterator[T]:
    """Yield what the work on each partition returns, in order: from a pool of processes where there is enough to do.

    None are as many processes as there are processors.
    """
    if processes is None:
        processes = _core_count()
    is_small = sum(partition.bytes for partition in partitions) < pool_bytes_min
    if processes <= 1 or is_small or len(partitions) <= 1:
        for partition in partitions:
            yield work(partition.parts)
        return
    waiting: deque[Future[bytes]] = deque()
    pool = ProcessPoolExecutor(min(processes, len(partitions)), get_context("spawn"), _end_with_parent)
    try:
        for partition in partitions:
            with _without_interrupts():
                waiting.append(pool.submit(_encoded, work, partition.parts))
            if len(waiting) >= processes + AHEAD:
                yield decoded(waiting.popleft().result())
        while waiting:
            yield decoded(waiting.popleft().result())
    finally:
        pool.shutdown(cancel_futures=True)  # what has begun comes to its end: less than a second


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
