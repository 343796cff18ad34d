"""Whether a name is there: what cannot be asked about is an error, and not a name that is not there."""

from pathlib import Path

from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError


def exists(disk: Disk, path: Path) -> bool:
    """Say whether the name is in its directory; DiskError where that cannot be told."""
    try:
        disk.size(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as failure:
        raise DiskError(path, failure, "look at") from failure
    return True
