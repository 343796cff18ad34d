"""A report without Spark and Java: its tables are made by processes of this machine."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from oms_journal.analysis.fold import local
from oms_journal.analysis.fold.engine import T, Work
from oms_journal.analysis.reading.parts import Partition

PASS_WEIGHT = 0.5  # how much of what is left of a question a whole pass is taken for: nobody knows how many follow


class Here:
    """Makes tables here."""

    def __init__(self) -> None:
        self._tell: Callable[[float], None] = lambda _: None
        self._left = 1.0

    @contextmanager
    def asking(self, _what: str, tell: Callable[[float], None]) -> Iterator[None]:
        """Tell while the block runs which share of it is about done: it never goes back."""
        self._tell, self._left = tell, 1.0
        yield

    def fold(self, partitions: Sequence[Partition], work: Work[T]) -> Iterator[T]:
        """Have work done, see `fold/engine.py`."""
        for done, told in enumerate(local.fold(partitions, work), start=1):
            yield told
            self._tell(1.0 - self._left * (1.0 - PASS_WEIGHT * done / len(partitions)))
        self._left *= 1.0 - PASS_WEIGHT
