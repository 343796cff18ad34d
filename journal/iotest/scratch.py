"""The one directory a measurement writes in: made under a name nobody else uses, locked, removed.

left over        its lock   what is done
with a lock file  free       removed: its run was killed
with a lock file  taken      left alone: another measurement is running
empty             -          removed
anything else     -          left alone, and named
"""

import contextlib
import errno
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from oms_journal.journal.disk import LockFile, RealDisk
from oms_journal.journal.errors import DiskError

PREFIX = "oms-io-test-scratch-"
LOCK = "oms-io-test.lock"
LOCK_BYTE = 0
ATTEMPTS = 3
_NAME = re.compile(re.escape(PREFIX) + r"\w{8}")


@dataclass(frozen=True, slots=True)
class Scratch:
    """The directory to write in, and what was found of earlier measurements, in sentences."""

    path: Path
    notes: tuple[str, ...]


@contextmanager
def scratch(directory: Path) -> Iterator[Scratch]:
    """Make the scratch directory; remove it with all that is in it at the end, however that comes."""
    notes = tuple(_clear(directory))
    path, lock = _make(directory)
    try:
        yield Scratch(path, notes)
    finally:
        lock.close()  # first: some network file systems keep a removed file that is open under another name
        _remove(path)


def _make(directory: Path) -> tuple[Path, LockFile]:
    for _ in range(ATTEMPTS):
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=directory))
        try:
            lock = RealDisk().open_lock(path / LOCK)
            with contextlib.suppress(OSError):  # a file system without locks
                lock.try_lock(LOCK_BYTE)
        except BaseException as failure:
            _remove(path)
            if isinstance(failure, FileNotFoundError):
                continue  # another measurement cleared it away before it had its lock
            raise
        if (path / LOCK).exists():
            return path, lock
        lock.close()
    raise FileNotFoundError(errno.ENOENT, "scratch directories are removed as soon as they are made", str(directory))


def _remove(path: Path) -> None:
    """Remove the directory. A second Ctrl-C does not stop it."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:  # another measurement, just started, is clearing it away too
        shutil.rmtree(path, ignore_errors=True)
    except OSError as failure:
        raise DiskError(path, failure, "remove") from failure
    except KeyboardInterrupt:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _clear(directory: Path) -> Iterator[str]:
    """Remove what killed measurements left; yield what there is to say."""
    for path in sorted(directory.iterdir()):
        if _NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            yield _cleared(path)


def _cleared(path: Path) -> str:
    try:
        if not (path / LOCK).is_file():
            path.rmdir()
            return f"removed {path.name}, which a killed measurement had left"
        if _is_running(path):
            return f"{path.name} belongs to a measurement that is running here: the two disturb each other"
        shutil.rmtree(path)
    except OSError as failure:
        return f"{path.name} was left by an earlier measurement: remove it by hand ({failure.strerror})"
    return f"removed {path.name}, which a killed measurement had left"


def _is_running(path: Path) -> bool:
    lock = RealDisk().open_lock(path / LOCK)
    try:
        return lock.is_locked(LOCK_BYTE)
    finally:
        lock.close()
