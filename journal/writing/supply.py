"""Data files before and after they are written: made ahead of need, sealed when they have a successor.

The committer takes a file when it rolls over; maintenance makes the next one and seals the old ones
beside it. What both touch is guarded by one lock, which nobody holds while more than a file's first
few blocks are written.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from oms_journal.journal import names
from oms_journal.journal.disk import NO_LINKS, Disk
from oms_journal.journal.errors import CannotContinue
from oms_journal.journal.format.headers import FileHeader
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.datafile import DataFile
from oms_journal.journal.writing.segment import FIRST_BYTES, Rolled, Sealed, Segment

_T = TypeVar("_T")
NO_SUCCESSOR = (0, 0)
ROLLED_MAX = 32  # files that may wait to be sealed: each is open, and its columns are in memory


@contextlib.contextmanager
def _kept(segment: Segment) -> Iterator[None]:
    """Discard the file where the block fails."""
    try:
        yield
    except BaseException:
        segment.discard()
        raise


class Supply:
    """The files of one opening that are not being written: the next one, and those that were."""

    def __init__(self, disk: Disk, directory: Path, owner: int, next_sequence: int) -> None:
        self._disk = disk
        self._directory = directory
        self._owner = owner
        self._lock = threading.Lock()  # guards all below
        self._next_sequence = next_sequence
        self._next: Segment | None = None
        self._rolled: list[Rolled] = []
        self.on_sealed: Callable[[Sequence[Sealed]], None] = lambda _: None

    @property
    def has_next(self) -> bool:
        return self._next is not None

    @property
    def has_rolled(self) -> bool:
        return bool(self._rolled)

    @property
    def is_behind(self) -> bool:
        """Whether so many files wait to be sealed that no more should be begun."""
        return len(self._rolled) > ROLLED_MAX

    def take(self, size_max: int) -> Segment:
        """Return the next file: the one made ahead, or one made now and prepared only a little. OSError."""
        with self._lock:
            segment, self._next = self._next, None
            return segment if segment is not None else self._create(min(FIRST_BYTES, size_max))

    def make_ahead(self, size: int) -> None:
        """Make the next file and prepare it up to `size`; the committer may take it meanwhile. OSError."""
        with self._lock:
            if self._next is None:
                self._next = self._create(min(FIRST_BYTES, size))
            segment = self._next
        segment.prepare(size)

    def _create(self, size: int) -> Segment:
        """Return a new file, its name durable. With the lock: files are begun in the order of their sequences."""
        try:
            segment = self._named_when_prepared(size)
        except OSError as failure:
            if failure.errno not in NO_LINKS:
                raise
            segment = self._prepared_when_named(size)
        with _kept(segment):
            self._disk.sync_directory(self._directory)
        self._next_sequence += 1
        return segment

    def _named_when_prepared(self, size: int) -> Segment:
        unfinished = self._directory / names.prepared(self._next_sequence, self._owner)
        with contextlib.suppress(FileNotFoundError):
            self._disk.unlink(unfinished)  # an earlier attempt of ours came to nothing, and could not remove it
        segment = Segment(self._disk, unfinished)
        with _kept(segment):
            segment.prepare(size)
            self._named(segment.give_name)
        return segment

    def _prepared_when_named(self, size: int) -> Segment:
        """Do without links: after a power cut the file may show what its blocks held before."""
        segment = self._named(lambda path, sequence: Segment(self._disk, path, sequence))
        with _kept(segment):
            segment.prepare(size)
        return segment

    def _named(self, give_name: Callable[[Path, int], _T]) -> _T:
        """Return what giving the first name makes that nobody else has taken."""
        while True:
            path = self._directory / str(DataFileName(self._next_sequence))
            try:
                return give_name(path, self._next_sequence)
            except FileExistsError:
                # Nothing but zeros may be a file that a later owner has just made. It is left alone.
                if not self._remove_stale(path):
                    self._next_sequence += 1

    def _remove_stale(self, path: Path) -> bool:
        """Remove what a former owner, stopped and late, has put where our next file belongs; False for zeros."""
        with DataFile(self._disk, path) as file:
            header = file.header()
            if not isinstance(header, FileHeader) and file.is_zero():
                return False
        if not isinstance(header, FileHeader) or header.owner >= self._owner:
            raise CannotContinue(
                f"another process made {path}, which this one owns: close the database and open it again"
            )
        self._disk.unlink(path)
        return True

    def retire(self, segment: Segment, end: int, successor: tuple[int, int]) -> None:
        """Take back a file whose frames end at `end`; its successor is (sequence, identity)."""
        with self._lock:
            self._rolled.append(Rolled(segment, end, successor))

    def rename_successor(self, successor: tuple[int, int]) -> None:
        """Note that another file than the one last named follows the last one."""
        with self._lock:
            self._rolled[-1:] = [replace(rolled, successor=successor) for rolled in self._rolled[-1:]]

    def seal(self, active: Callable[[], Segment | None]) -> None:
        """Seal the files that are rolled now. A footer names its successor only when that is there to stay. OSError.

        The successor of the last one is the file that is `active`, asked each time: the committer may roll meanwhile.
        """
        sealed: list[Sealed] = []
        try:
            for _ in range(len(self._rolled)):
                with self._lock:
                    following = active() if len(self._rolled) == 1 else None
                    if following is not None and not following.is_begun:
                        return
                    rolled = self._rolled.pop(0)
                try:
                    done = rolled.segment.seal(rolled.end, rolled.successor)
                    sealed += [done] if done is not None else []
                except OSError:
                    rolled.segment.close()  # it stays without a footer; the next start gives it one
                    raise
        finally:
            if sealed:
                self.on_sealed(sealed)

    def close(self, *, is_owner: bool) -> None:
        """Remove the file made ahead, and let go of those that are not sealed.

        Who may not be the owner any more removes nothing: a later one may have made a file of that name.
        """
        with self._lock:
            if self._next is not None:
                if is_owner:
                    self._next.discard()
                else:
                    self._next.close()
                self._next = None
            for rolled in self._rolled:
                rolled.segment.close()
            self._rolled.clear()

    def abandon(self) -> None:
        """Let go of the files in the child of a fork, where a lock may be held by a thread that is not there."""
        for segment in ([] if self._next is None else [self._next]) + [rolled.segment for rolled in self._rolled]:
            segment.close()
