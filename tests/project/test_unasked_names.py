"""What cannot be asked about is not taken for what is not there: a look that fails stops what depends on it."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from oms_journal import DatabaseView, DiskError, MessageDatabase
from oms_journal.database.backup.backup import Backup
from oms_journal.database.backup.restore import restore
from oms_journal.database.bulk.locked import LockedView
from oms_journal.journal import names
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.lock import read_holder
from oms_journal.recovery.startup import recover


class Deaf(RealDisk):
    """A disk that has a read error wherever it is asked about one name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def size(self, path: Path) -> int:
        if path.name == self._name:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return super().size(path)


OPENINGS: dict[str, Callable[[Path, Deaf], object]] = {
    "open": lambda spool, disk: MessageDatabase.open(spool, disk=disk),
    "view": lambda spool, disk: DatabaseView.open(spool, disk=disk),
    "standstill": lambda spool, disk: LockedView.open(spool, disk=disk),
    "back-up": lambda spool, disk: Backup.open(spool, spool.parent / "backup", disk=disk),
}
WRITING = sorted(OPENINGS.keys() - {"view"})


@pytest.mark.parametrize("name, opening", [(names.BACKUP, way) for way in WRITING] + [(names.RESTORE, "view")])
def test_a_directory_is_not_opened_while_it_cannot_be_told_what_it_is(tmp_path: Path, name: str, opening: str) -> None:
    with MessageDatabase.open(tmp_path / "spool") as database:
        database.add("q", b"x")
    before = {path.name: path.read_bytes() for path in (tmp_path / "spool").iterdir()}

    with pytest.raises(DiskError, match=name):
        OPENINGS[opening](tmp_path / "spool", Deaf(name))

    assert {path.name: path.read_bytes() for path in (tmp_path / "spool").iterdir()} == before
    assert recover(tmp_path / "spool").intact


def test_an_owner_that_cannot_be_read_is_not_nobody(tmp_path: Path) -> None:
    MessageDatabase.open(tmp_path).close()
    with pytest.raises(DiskError, match=names.LOCK):
        read_holder(Deaf(names.LOCK), tmp_path)
    assert read_holder(RealDisk(), tmp_path / "elsewhere") is None


def test_a_closed_original_that_cannot_be_asked_may_have_been_opened_again(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path / "spool") as database:
        number = database.add("q", b"x")
    with Backup.open(tmp_path / "spool", tmp_path / "backup") as backup:
        backup.run()

    restore(tmp_path / "backup", tmp_path / "free")
    with DatabaseView.open(tmp_path / "free") as view:
        assert list(view.numbers()) == [number]

    report = restore(tmp_path / "backup", tmp_path / "new", disk=Deaf(names.LOCK))
    assert (report.was_closed, report.went_on, report.held) == (True, None, 1)
    with DatabaseView.open(tmp_path / "new") as view:
        assert list(view.numbers()) == []
