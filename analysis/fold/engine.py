"""Where a fold runs: the files are folded in parts, the parts come back in order, and are merged as they come.

An engine is a function that has some work done on each partition's files, and yields what comes of it, in their
order. What is done with that is the same for every engine, and so are the partitions: so all engines give the same
tables, to the row.

An engine that brings what many partitions tell together at once may hold back what is open at their borders, and have
it matched where it was folded: see `Borders`. Then the quantiles, within what is promised of them, may be others.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

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
    """Has work done on every partition, and yields what it returns, in the order of the partitions.

    Where that has borders they may come behind, in several parts: whoever merges all of it in this order has the same.
    """

    def __call__(self, partitions: Sequence[Partition], work: Work[T], /) -> Iterable[T]: ...


@runtime_checkable
class Borders(Protocol):
    """What some files tell, of which a part goes on to other files: messages that are open, ends without an ADD."""

    @property
    def border_bytes(self) -> int:
        """How many bytes that part takes."""
        ...

    def hand_over(self, count: int) -> list[Self]:
        """Move it to so many others, by what can only meet in one of them."""
        ...

    def merge(self, later: Self) -> None:
        """Take in what comes behind, which must not be used any more."""
        ...


@dataclass(slots=True)
class Both(Generic[T]):
    """What a fold tells of some files, and what other work on them has returned: nothing, where it has no borders."""

    folded: Partial
    beside: tuple[T, ...]

    @property
    def border_bytes(self) -> int:
        return self.folded.border_bytes

    def hand_over(self, count: int) -> "list[Both[T]]":
        return [Both(folded, ()) for folded in self.folded.hand_over(count)]

    def merge(self, later: "Both[T]") -> None:
        self.folded.merge(later.folded)
        self.beside += later.beside


Folding = Callable[[Sequence[Partition], Work[Partial]], Iterable[Partial]]  # an engine, as far as a fold needs it
PARTITION_BYTES = 32 << 20  # of data files: most have one each, so that processors end at about the same time
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
    return told(engine, plan(locate(paths, storage), partition_bytes=PARTITION_BYTES), asked, now)


def told(
    engine: Folding, partitions: Sequence[Partition], asked: Asked, now: Micros, report: Report = warn
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


def together(engine: Folding, partitions: Sequence[Partition], asked: Asked, report: Report = warn) -> Partial:
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


class Beside(Generic[T]):
    """An engine for a fold that has other work done too, in the first pass over the files."""

    def __init__(self, engine: Engine, work: Work[T], take: Callable[[T], None]) -> None:
        self._engine = engine
        self._work: Work[T] | None = work
        self._take = take  # what the work has returned, in the order of the partitions

    def __call__(self, partitions: Sequence[Partition], fold: Work[Partial]) -> Iterator[Partial]:
        work, self._work = self._work, None
        if work is None:
            yield from self._engine(partitions, fold)
            return
        for told_here in self._engine(partitions, partial(_both, fold=fold, work=work)):
            for one in told_here.beside:
                self._take(one)
            yield told_here.folded


def _both(parts: Sequence[FilePart], fold: Work[Partial], work: Work[T]) -> Both[T]:
    return Both(fold(parts), (work(parts),))


def encoded(told: object) -> bytes:
    """Return what work returned as bytes, for another process of the same program."""
    return pickle.dumps(told, pickle.HIGHEST_PROTOCOL)


def decoded(data: bytes | memoryview) -> Any:
    """Return it from its bytes. They come from our own workers, and from nobody else."""
    return pickle.loads(data)
