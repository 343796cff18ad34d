"""Spark at work, seen from outside: how far it is, and how Ctrl-C ends it.

Python speaks with Spark's Java process on one connection a thread, and an interrupt in the middle of a
call leaves the answer to it for the next call. So the calls are made by a thread of their own, which no
interrupt reaches, and the thread that is interrupted tells Spark to give up.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

_T = TypeVar("_T")

LOOK_SECONDS = 0.2
STAGE_WEIGHT = 0.5  # how much of what is left of a question a whole stage is taken for: nobody knows how many follow


class GivenUp(Exception):
    """Somebody has pressed Ctrl-C; nobody but the thread that works sees it."""


def interruptible(
    spark: SparkSession, work: Callable[[Callable[[], None]], _T], on_interrupt: Callable[[], None] = lambda: None
) -> _T:
    """Return what the work returns; KeyboardInterrupt ends it, Spark's jobs included, and comes through at the end.

    The work is given a function to call between its steps, which raises when it is to end. Only while Spark plans a
    job, which may take seconds, does the end have to wait: `on_interrupt` is called before.
    """
    is_over = threading.Event()

    def check() -> None:
        if is_over.is_set():
            raise GivenUp

    with ThreadPoolExecutor(1, "spark-work") as pool:
        future: Future[_T] | None = None
        try:
            future = pool.submit(work, check)
            while not future.done():  # a signal that the system hands to another thread is seen when this one wakes
                wait([future], LOOK_SECONDS)
            return future.result()
        except KeyboardInterrupt:
            is_over.set()
            on_interrupt()
            if future is not None:
                _cancel(spark, future)
            raise


def _cancel(spark: SparkSession, future: "Future[_T]") -> None:
    """Cancel what runs, again and again: while Spark plans a job there is none to cancel yet."""
    while not future.done():
        with suppress(Py4JError, AttributeError):  # the latter where the session has ended already
            spark.sparkContext.cancelAllJobs()
        wait([future], LOOK_SECONDS)


@contextmanager
def watched(spark: SparkSession, tell: Callable[[float], None]) -> Iterator[None]:
    """Tell again and again, while the block runs, which share of it is about done: it never goes back."""
    is_over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, tell, is_over), name="spark-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


def _watch(spark: SparkSession, tell: Callable[[float], None], is_over: threading.Event) -> None:
    done_by_stage: dict[int, float] = {}
    with suppress(Py4JError):  # Spark has ended, which is told by whoever works
        tracker = spark.sparkContext.statusTracker()
        while not is_over.wait(LOOK_SECONDS):
            for stage in tracker.getActiveStageIds():
                found = tracker.getStageInfo(stage)
                if found is not None and found.numTasks:
                    done_by_stage[stage] = found.numCompletedTasks / found.numTasks
            tell(_share(list(done_by_stage.values())))


def _share(stages: list[float]) -> float:
    """Return a share that grows with every stage and never reaches 1."""
    left = 1.0
    for done in stages:
        left *= 1.0 - STAGE_WEIGHT * done
    return 1.0 - left
