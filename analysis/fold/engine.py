"""Where a fold runs: the files are folded in parts, the parts come back in order, and are merged as they come.

An engine is a function that has some work done on each partition's files, and yields what comes of it, in their
order. What is done with that is the same for every engine, and so are the partitions: so all engines give the same
tables, to the row.
"""

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from oms_journal.analysis.fold.asked import DUPLICATES, Asked
from oms_journal.analysis.fold.duplicates import cell_bits
from oms_journal.analysis.fold.matching import NumberSet
from oms_journal.analysis.fold.partial import Partial, folded
from oms_journal.analysis.fold.tables import finished
from oms_journal.analysis.reading.damage import Report, warn
from oms_journal.analysis.reading.parts import FilePart, Partition
from oms_journal.analysis.reading.plan import plan
from oms_journal.analysis.reading.schema import Micros
from oms_journal.analysis.storage import locate

T = TypeVar("T")
Work = Callable[
    [Sequence[FilePart]], T
]  # on neighbouring files; it travels to where they are read, and what it returns back


class Engine(Protocol):
    """Has work done on every partition, and yields what it returns, in the order of the partitions."""

    def __call__(self, partitions: Sequence[Partition], work: Work[T], /) -> Iterable[T]: ...


ROUNDS_MAX = 4  # files that go while they are read could make new numbers doubtful each time


def answers(
    engine: Engine,
    paths: Sequence[str],
    asked: Asked,
    *,
    now: Micros,
    storage: Mapping[str, str] | None = None,
) -> dict[str, pa.Table]:
    """Return the answers about the journals at these paths, by name, as `answers.py` describes them.

    Ages are reckoned up to `now`, in microseconds since 1970. Options that begin with `storage.` go to the file system.
    NoJournal, NoFileSystem, NotThisDatabase, NewerFormat, FormatError, DiskError.
    """
    return told(engine, plan(locate(paths, storage)), asked, now)


def told(
    engine: Engine, partitions: Sequence[Partition], asked: Asked, now: Micros, report: Report = warn
) -> dict[str, pa.Table]:
    """Return the answers about the files of all partitions; what is bad in them goes to `report`, in the workers."""
    if asked.asks(DUPLICATES):
        asked = replace(asked, cell_bits=cell_bits(sum(partition.bytes for partition in partitions)))
    found = together(engine, partitions, asked, report)
    if asked.asks(DUPLICATES):
        candidates = found.candidates()
        if len(candidates.cells):
            second = replace(asked, questions=frozenset((DUPLICATES,)), candidates=candidates)
            found.take_found(together(engine, partitions, second, report))
    return finished(found, asked, now)


def together(engine: Engine, partitions: Sequence[Partition], asked: Asked, report: Report = warn) -> Partial:
    """Return what all the partitions tell, with what is doubtful evaluated by itself: by folding once more."""
    aside: dict[str, NumberSet] = {}
    for _ in range(ROUNDS_MAX):
        found = Partial()
        for told_here in engine(partitions, partial(folded, asked=asked, aside=dict(aside), report=report)):
            found.merge(told_here)
            found.settle()
        doubtful = found.doubtful()
        if not doubtful:
            break
        for database, numbers in doubtful.items():
            aside[database] = aside.get(database, NumberSet()) | numbers
    return found


def encoded(told: object) -> bytes:
    """Return what work returned as bytes, for another process of the same program."""
    return pickle.dumps(told, pickle.HIGHEST_PROTOCOL)


def decoded(data: bytes | memoryview) -> Any:
    """Return it from its bytes. They come from our own workers, and from nobody else."""
    return pickle.loads(data)
