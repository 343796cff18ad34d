"""Whether others can reach what only the broker should: the store's directory and files, and the users file's folder.

What the broker makes it makes private: directories 0700, files 0600, whatever the umask. What was there before is left
as it is, since somebody may have meant it; the log says with every start what is wider.
"""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.drivers.open import place_of
from oms_journal.broker.server.runtime.log import event

_log = logging.getLogger("oms.security")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_WRITE = stat.S_IWGRP | stat.S_IWOTH


def warn_of_wide_modes(attributes: Attributes) -> None:
    """Say in the log what others can reach. Changes nothing, and raises nothing."""
    if attributes.broker.pstore != "NO":
        kind, place = place_of(attributes)
        directory = place if kind == "JOURNAL" else place.parent
        found = list(_wide(directory))
        if found:
            path, mode = found[0]
            is_folder = path == directory
            said = event("wide", path=str(path), mode=f"{mode:04o}")
            more = f", and {len(found) - 1} more there" if len(found) > 1 else ""
            advice = f"chmod {'700' if is_folder else '600'} {'it' if not more else 'them'}"
            _log.warning("others can reach the store: %s has mode %04o%s; %s", path, mode, more, advice, extra=said)
    if attributes.broker.users_file:
        _warn_of_folder(Path(attributes.broker.users_file).absolute().parent)


def _wide(directory: Path) -> Iterator[tuple[Path, int]]:
    """Yield what others can reach: a directory that is closed to them keeps all that is in it."""
    mode = _mode(directory)
    if mode is None or not mode & _OTHERS:
        return
    yield directory, mode
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.path for entry in entries if entry.is_file(follow_symlinks=False))
    except OSError:
        return
    for path in map(Path, names):
        found = _mode(path)
        if found is not None and found & _OTHERS:
            yield path, found


def _warn_of_folder(folder: Path) -> None:
    """Say when others could put another users file into the place of this one."""
    mode = _mode(folder)
    if mode is not None and mode & _WRITE and not mode & stat.S_ISVTX:
        said = event("wide", path=str(folder), mode=f"{mode:04o}")
        _log.warning("others can replace the users file: %s has mode %04o", folder, mode, extra=said)


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None
