"""A database whose files go faster than they can be read: looked at again so many times, and never called damaged."""

from collections.abc import Callable
from pathlib import Path

import pytest

from oms_journal import DatabaseView, MessageDatabase
from oms_journal.database.backup.backup import Backup, BackupOptions
from oms_journal.journal.disk import DiskFile, RealDisk
from oms_journal.journal.errors import DiskError
from oms_journal.journal.names import DataFileName
from oms_journal.recovery.validation import LOOKS_MAX, validate_directory
from tests.support.sweeps import a_sample

Look = Callable[[Path, RealDisk], None]


class Going(RealDisk):
    """Shows a data file in its first listings; there it is read so often, and has gone then."""

    def __init__(self, path: Path, listings: int, reads: int) -> None:
        self._path = path
        self._listings = listings
        self._reads = self._left = reads

    def list(self, directory: Path) -> list[str]:
        found = super().list(directory)
        if directory == self._path.parent and self._listings:
            self._listings -= 1
            self._left = self._reads
            return sorted({*found, self._path.name})
        self._left = -1  # as it is
        return found

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        if path == self._path and self._left >= 0:
            self._left -= 1
            if self._left < 0:
                self._left = 0
                raise FileNotFoundError(2, "No such file or directory", str(path))
        return super().open(path, writable=writable)


def validated(directory: Path, disk: RealDisk) -> None:
    assert all(report.verdict == "clean" for report in validate_directory(directory, disk))


def viewed(directory: Path, disk: RealDisk) -> None:
    with DatabaseView.open(directory, disk=disk) as view:
        assert view.undelivered_count() == 300


def backed_up(directory: Path, disk: RealDisk) -> None:
    options = BackupOptions(vouch_seconds=0)
    with Backup.open(directory, directory.with_name("backup"), options) as backup:
        backup._source.disk = disk
        assert not backup.run().damage


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    with MessageDatabase.open(tmp_path / "spool", max_data_file_size=16_384) as database:
        for _ in range(30):
            database.add_many("q", [b"x" * 400] * 10)
    return tmp_path / "spool"


@a_sample(2)
@pytest.mark.parametrize("look", [validated, viewed, backed_up])
@pytest.mark.parametrize("reads", [0, 1], ids=["listed", "header read"])
def test_files_that_go_are_looked_for_again_by_everybody_as_often(look: Look, reads: int, spool: Path) -> None:
    look(spool, Going(spool / str(DataFileName(3)), LOOKS_MAX - 1, reads))


@a_sample(2)
@pytest.mark.parametrize("look", [validated, viewed, backed_up])
@pytest.mark.parametrize("reads", [0, 1], ids=["listed", "header read"])
def test_who_gives_up_says_so_and_calls_nothing_damaged(look: Look, reads: int, spool: Path) -> None:
    with pytest.raises(DiskError):
        look(spool, Going(spool / str(DataFileName(3)), 1 << 30, reads))
