"""The socket in the file system: which path is meant, who serves it, and making it."""

import contextlib
import errno
import os
import socket
import stat
import sys
from pathlib import Path

from oms_journal.journal.disk import whose
from oms_journal.journal.errors import LimitExceeded, SocketRefused
from oms_journal.recovery.place import directory_of

PATH_BYTES_MAX = 103 if sys.platform == "darwin" else 107  # the system's own bound for the address of a socket
MODE = 0o600
BACKLOG = 1024  # connections that wait to be accepted


def socket_path(path: object) -> Path:
    """Return the absolute path of a socket; TypeError, ValueError, LimitExceeded where the system takes none so long.

    A path that is too long from the root on is one from the working directory.
    """
    found = directory_of(path, "path")
    size = len(os.fsencode(found))
    if size > PATH_BYTES_MAX:
        raise LimitExceeded(
            f"the path of the socket has {size} bytes, at most {PATH_BYTES_MAX} are allowed: choose a shorter one, "
            f"as in /run/orders.sock; it is {found}"
        )
    return found


def listening(path: Path) -> tuple[socket.socket, int]:
    """Return a socket that listens at the path, for its user only, and the number of its file. SocketRefused.

    A file that a server has left there when it was killed is removed.
    """
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        # Nobody can connect before it listens, so that the mode counts from the first moment on.
        path.chmod(MODE)
        listener.listen(BACKLOG)
        return listener, path.lstat().st_ino
    except OSError as failure:
        listener.close()
        raise SocketRefused(path, _reason(path, failure)) from failure


def remove(path: Path, number: int) -> None:
    """Remove the file of a socket, unless another one has taken its place."""
    with contextlib.suppress(OSError):
        if path.lstat().st_ino == number:
            path.unlink()


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as failure:
        raise SocketRefused(path, _reason(path, failure)) from failure
    if not stat.S_ISSOCK(mode):
        raise SocketRefused(path, "it is there, and is not a socket; choose another path")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            probe.connect(os.fspath(path))
    except (ConnectionRefusedError, FileNotFoundError):  # nobody listens
        try:
            path.unlink(missing_ok=True)
        except OSError as failure:
            raise SocketRefused(path, _reason(path, failure)) from failure
        return
    except BlockingIOError:  # more wait there than it lets wait
        pass
    except OSError as failure:
        raise SocketRefused(path, _reason(path, failure)) from failure
    raise SocketRefused(path, "another process serves it; stop that one, or choose another path")


def _reason(path: Path, failure: OSError) -> str:
    if failure.errno == errno.ENOENT:
        return f"there is no directory {path.parent}; make it, or choose another path"
    refused = whose(failure, path)
    return f"{failure.strerror or failure}{refused and f'; {refused}'}"
