"""Whole files: read, copied, compared, made beside their place and renamed into it.

What cannot be asked about is an error, and not a name that is not there.
"""

import contextlib
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

from oms_journal.journal import names
from oms_journal.journal.disk import Disk, DiskFile
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


COPY_BYTES = 1 << 20  # read and written at once

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
    build(disk, path, lambda file: file.write(data, 0), durably=durably)
    if durably:
        disk.sync_directory(path.parent)


def build(disk: Disk, path: Path, fill: Callable[[DiskFile], object], *, durably: bool = True) -> None:
    """Make a file beside the path, `durably`, and then give it that name; sync the directory to have the name durable.

    What an earlier attempt has left beside it goes first. Whatever fails leaves what was under the path. OSError.
    """
    unfinished = path.with_name(names.unfinished(path.name))
    with contextlib.suppress(FileNotFoundError):
        disk.unlink(unfinished)
    file = disk.create(unfinished)
    try:
        fill(file)
        if durably:
            file.sync()
    except BaseException:
        with contextlib.suppress(OSError):
            disk.unlink(unfinished)  # what is there of it takes room for nothing
        raise
    finally:
        file.close()
    disk.rename(unfinished, path)


def pieces(file: DiskFile, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes from start to end, and where each piece stands; fewer where the file ends before. OSError."""
    at = start
    while at < end and (data := file.read(min(COPY_BYTES, end - at), at)):
        yield at, data
        at += len(data)


def copy(source: DiskFile, target: DiskFile, start: int, end: int) -> None:
    """Write the bytes from start to end at the same places of the target; fewer where the source ends before."""
    for at, data in pieces(source, start, end):
        target.write(data, at)


def are_same(one: DiskFile, other: DiskFile) -> bool:
    """Say whether two files have the same bytes. OSError."""
    size = one.size()
    return other.size() == size and all(
        mine == its for mine, its in zip_longest(pieces(one, 0, size), pieces(other, 0, size))
    )


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
