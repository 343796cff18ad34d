"""Space kept back in a named file, so that a full disk can be drained.

`omsmsg.reserve` holds blocks that nothing else may use. When the disk is full, deliveries and
deletions, which make room, are paid from it; recovery's archive and new file too. It is filled
again when there is space.
"""

import contextlib
import errno
import threading
from pathlib import Path

from oms_journal.journal import names
from oms_journal.journal.disk import Disk

MARGIN_BYTES = 1 << 20
BLOCK_BYTES = 1 << 16  # no file system takes and gives back space in larger pieces
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def reserve_size(data_file_size: int) -> int:
    """Return how much is kept back: one archive, one new file, and some removals."""
    return 2 * data_file_size + MARGIN_BYTES


class Reserve:
    """The reserve of one directory, for any thread.

    While it is short, since something was paid from it, nothing may take new space but what is paid
    from it: or new messages would eat what the next deliveries live on. What was all paid is one byte long; no
    file, or an empty one, is a reserve that there never was room for, and holds up nothing.
    """

    def __init__(self, disk: Disk, directory: Path, size: int, name: str = names.RESERVE) -> None:
        self._disk = disk
        self._path = directory / name
        self._wanted = size
        self._lock = threading.Lock()  # guards the file
        self.is_short = 0 < self.size() < size
        self.is_wanting = self.size() < size  # there is something to fill, also where nothing was ever kept back
        self.is_untried = self.is_wanting  # and nobody has since this was opened

    def size(self) -> int:
        """Return how many bytes are kept back."""
        try:
            return self._disk.size(self._path)
        except OSError:
            return 0

    def missing(self) -> int:
        """Return how many bytes more should be kept back."""
        return max(0, self._wanted - self.size())

    def fill(self) -> bool:
        """Make the reserve as large as it should be; False when there is no space for it."""
        with self._lock:
            self.is_untried = False
            is_full = self._fill()
            self.is_short = self.is_short and not is_full
            self.is_wanting = not is_full
            return is_full

    def _fill(self) -> bool:
        have = self.size()
        if have >= self._wanted:
            return True
        try:
            file = self._disk.open(self._path, writable=True) if self._exists() else self._disk.create(self._path)
        except OSError as failure:
            if failure.errno in NO_SPACE:
                return False
            raise
        try:
            file.reserve(self._wanted)
            file.sync()
        except OSError as failure:
            with contextlib.suppress(OSError):
                if failure.errno in NO_SPACE:
                    file.truncate(have)
                else:
                    self._disk.unlink(self._path)  # a sync that failed is never tried again on the same file
            if failure.errno not in NO_SPACE:
                raise
            return False
        finally:
            file.close()
        return True

    def _exists(self) -> bool:
        try:
            self._disk.size(self._path)
        except OSError:
            return False
        return True

    def release(self, size: int) -> bool:
        """Give back at least `size` bytes to the file system; False when the reserve has not that many."""
        with self._lock:
            return self._release(size)

    def _release(self, size: int) -> bool:
        have = self.size()
        if not have:
            return False
        self.is_short = self.is_wanting = True
        file = self._disk.open(self._path, writable=True)
        try:
            file.truncate(max(1, (have - size) // BLOCK_BYTES * BLOCK_BYTES))
            file.sync()
        finally:
            file.close()
        return have >= size
