"""A directory for a command that needs one of its own: the one that was named, or a temporary one that is removed."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oms_journal.cli.failures import Usage


class Place:
    """A spool directory, and whether it stays."""

    def __init__(self, path: Path, *, is_kept: bool) -> None:
        self.path = path
        self.is_kept = is_kept


@contextmanager
def own_directory(named: Path | None, what: str, *, keep: bool = False) -> Iterator[Place]:
    """Yield a directory that nothing is in; remove it at the end unless it stays. `what` needs it: "demo".

    Usage where the one that was named holds anything: it may be somebody's.
    """
    if named is not None:
        if named.exists() and (not named.is_dir() or any(named.iterdir())):
            raise Usage(f"--spool {named} is not an empty directory; the {what} needs one of its own")
        yield Place(named.absolute(), is_kept=True)
        return
    place = Place(Path(tempfile.mkdtemp(prefix=f"oms-{what}-")), is_kept=keep)
    try:
        yield place
    finally:
        if not place.is_kept:
            shutil.rmtree(place.path, ignore_errors=True)
