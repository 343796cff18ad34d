"""Small files of our own, whole: read as one, put in their place as one, made beside it and renamed.

What cannot be asked about is an error, and not a name that is not there.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path

from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError
from oms_journal.journal.reserve import NO_SPACE


def exists(disk: Disk, path: Path) -> bool:
    """Say whether the name is in its directory; DiskError where that cannot be told."""
    try:
        disk.size(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as failure:
        raise DiskError(path, failure, "look at") from failure
    return True


MakeRoom = Callable[[int], bool]  # gives so many bytes back to the file system, and says whether it had them


def put_in_place(disk: Disk, path: Path, data: bytes, *, durably: bool, make_room: MakeRoom = lambda _: False) -> None:
    """Have these bytes under the path, whatever was there; `durably`, so that they survive a power cut on return.

    A reader finds what was there before or the whole of this, never a part, and so does who comes after a kill.
    On a full disk it is tried once more where somebody makes room.
    OSError: the former file is still there, or, where only the directory could not be synced, the new one.
    """
    try:
        _put_in_place(disk, path, data, durably=durably)
    except OSError as failure:
        if failure.errno not in NO_SPACE or not make_room(len(data)):
            raise
        _put_in_place(disk, path, data, durably=durably)


def _put_in_place(disk: Disk, path: Path, data: bytes, *, durably: bool) -> None:
    unfinished = path.with_name(names.unfinished(path.name))
    with contextlib.suppress(FileNotFoundError):
        disk.unlink(unfinished)
    file = disk.create(unfinished)
    try:
        file.write(data, 0)
        if durably:
            file.sync()
    except OSError:
        with contextlib.suppress(OSError):
            disk.unlink(unfinished)
        raise
    finally:
        file.close()
    disk.rename(unfinished, path)
    if durably:
        disk.sync_directory(path.parent)


def read_whole(disk: Disk, path: Path) -> bytes | None:
    """Return the bytes of the file, None where there is none; DiskError."""
    try:
        file = disk.open(path)
        try:
            return file.read(file.size(), 0)
        finally:
            file.close()
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure
