"""A report without Spark and Java: its tables are made by processes of this machine."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from oms_journal.analysis.fold import local
from oms_journal.analysis.fold.engine import Engine, T, Work
from oms_journal.analysis.reading.parts import Partition

PASS_WEIGHT = 0.5  # how much of what is left of a question a whole pass is taken for: nobody knows how many follow


@contextmanager
def here(size: int) -> "Iterator[Here]":
    """Make tables here while the block runs, of so many bytes of data files."""
    with local.Pool() as pool:
        pool.begin(size)
        yield Here(pool)


class Here:
    """Makes tables here."""

    def __init__(self, engine: Engine = local.fold) -> None:
        self._engine = engine
        self._tell: Callable[[float], None] = lambda _: None
        self._left = 1.0

    @contextmanager
    def asking(self, _what: str, tell: Callable[[float], None]) -> Iterator[None]:
        """Tell while the block runs which share of it is about done: it never goes back."""
        self._tell, self._left = tell, 1.0
        yield

    def fold(self, partitions: Sequence[Partition], work: Work[T]) -> Iterator[T]:
        """Have work done, see `fold/engine.py`."""
        for done, told in enumerate(self._engine(partitions, work), start=1):
            yield told
            self._tell(1.0 - self._left * (1.0 - PASS_WEIGHT * done / len(partitions)))
        self._left *= 1.0 - PASS_WEIGHT
