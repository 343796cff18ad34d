"""A backup of a database: what is in it, what is brought again, what is refused."""

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from oms_journal import DatabaseLocked, DatabaseView, DiskError, IsBackup, MessageDatabase
from oms_journal.database.backup.backup import Backup, BackupOptions, BackupReport, back_up
from oms_journal.database.backup.verification import verify_backup
from oms_journal.journal import names
from oms_journal.journal.disk import Buffer, DiskFile, RealDisk
from oms_journal.journal.errors import BehindItsBackup, NothingToBackUp, NotReadBack, NotThisBackup
from oms_journal.journal.format import manifest
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.recovery.validation import validate_directory
from tests.support.disks.small_files import churn, fill, open_small

QUICK = BackupOptions(vouch_seconds=5.0)
COPIES = replace(QUICK, links=False)
WAYS = [pytest.param(QUICK, id="linked"), pytest.param(COPIES, id="copied")]


def numbers_in(directory: Path) -> list[int]:
    with DatabaseView.open(directory) as view:
        return list(view.numbers())


def assert_whole(directory: Path) -> None:
    reports = verify_backup(directory)
    assert reports is not None and all(report.verdict == "clean" for report in reports), reports


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "backup"


@pytest.mark.parametrize("options", WAYS)
def test_what_was_acknowledged_before_the_call_is_in_the_backup(
    spool: Path, target: Path, options: BackupOptions
) -> None:
    with open_small(spool) as db:
        added = [number for numbers in fill(db, 3).values() for number in numbers]
        report = back_up(spool, target, options)
        assert report.is_first and not report.damage and not report.unvouched

    assert numbers_in(target) == added
    assert_whole(target)


@pytest.mark.parametrize("options", WAYS)
def test_repeated_it_brings_only_what_is_new(spool: Path, target: Path, options: BackupOptions) -> None:
    with open_small(spool) as db:
        added = [number for numbers in fill(db, 3).values() for number in numbers]
        back_up(spool, target, options)
        db._journal.seal_all()
        before = back_up(spool, target, options).manifest
        added.append(db.add("q", b"one more"))
        report = back_up(spool, target, options)

    assert report.count("kept") == len(before.files) - 1 and report.count("extended") == 1
    assert 0 < report.written_bytes < 500
    assert numbers_in(target) == added
    assert_whole(target)


def test_sealed_files_are_linked_and_the_one_that_is_written_is_copied(spool: Path, target: Path) -> None:
    with open_small(spool) as db:
        fill(db, 3)
        db._journal.seal_all()
        report = back_up(spool, target, QUICK)

    assert (report.count("linked"), report.count("copied")) == (3, 1)
    linked = [(spool / entry.name).samefile(entry) for entry in sorted(target.glob("*.data"))]
    assert linked == [True, True, True, False]


def test_a_closed_database_is_backed_up_as_closed_and_an_open_one_is_not(spool: Path, target: Path) -> None:
    with open_small(spool) as db:
        db.add("q", b"m")
        assert not back_up(spool, target, QUICK).manifest.was_closed
    assert back_up(spool, target, QUICK).manifest.was_closed
    with open_small(spool) as db:
        assert not back_up(spool, target, QUICK).manifest.was_closed, "it may deliver at any moment"
        db.add("q", b"m")
        assert not back_up(spool, target, QUICK).manifest.was_closed
    assert_whole(target)


def _killed(spool: Path, payloads: list[bytes]) -> None:
    """Have a directory as the death of a process leaves it, right behind its last commit."""
    with open_small(spool.parent / "running") as db:
        for payload in payloads:
            db.add("q", payload)
        shutil.copytree(spool.parent / "running", spool, ignore=shutil.ignore_patterns("*.new"))


def test_a_database_whose_process_was_killed_is_not_backed_up_as_closed(spool: Path, target: Path) -> None:
    _killed(spool, [b"vouched for", b"in the last group"])

    report = back_up(spool, target, QUICK)

    assert not report.manifest.was_closed
    assert report.unvouched == 1
    assert numbers_in(target) == [1]


def test_what_clean_up_removes_goes_from_the_backup_too(spool: Path, target: Path) -> None:
    with open_small(spool) as db:
        churn(db, 3)
        keeps = db.add("q", b"stays")
        first = back_up(spool, target, QUICK)
        db.cleanup()
        second = back_up(spool, target, QUICK)

    gone = {file.sequence for file in first.manifest.files} - {file.sequence for file in second.manifest.files}
    assert gone and {DataFileName(sequence) for sequence in gone} == {names.parse(name) for name in second.removed}
    assert numbers_in(target) == [keeps]
    assert not second.fell_behind
    assert_whole(target)


def test_where_clean_up_was_faster_it_says_so_and_begins_anew(spool: Path, target: Path) -> None:
    with open_small(spool) as db:
        db.add("q", b"first")
        back_up(spool, target, QUICK)
        db.deliver_many(list(db.numbers()))
        churn(db, 4)
        db.cleanup()
        keeps = db.add("q", b"stays")
        report = back_up(spool, target, QUICK)

    assert report.fell_behind and not report.is_first
    assert numbers_in(target) == [keeps]
    assert_whole(target)


def test_a_manifest_says_what_comes_next(spool: Path, target: Path) -> None:
    with open_small(spool) as db:
        added = [number for numbers in fill(db, 2).values() for number in numbers]
        found = back_up(spool, target, QUICK).manifest
        header = found.files[-1]

        assert found.next_message == max(added) + 1
        assert found.next_commit == found.tail.commit + 1
        assert found.owner == db._ownership.number
        assert (header.sequence, header.identity, header.size) == (
            found.tail.sequence,
            found.tail.identity,
            found.tail.end,
        )
        assert found.source.endswith(f":{spool}")


def test_a_backup_knows_that_it_is_a_brokers_by_its_key(spool: Path, target: Path, tmp_path: Path) -> None:
    with open_small(spool) as db:
        db.put("broker/master", b"")
        fill(db, 2)
        keyed = replace(QUICK, key=b"broker/master")
        assert back_up(spool, target, keyed).manifest.has_broker
        db.add("q", b"m")
        assert back_up(spool, target, keyed).manifest.has_broker, "also where the key's file is not read again"
        assert not back_up(spool, tmp_path / "other", replace(QUICK, key=b"other")).manifest.has_broker


# What is refused.


def test_nothing_foreign_is_overwritten(spool: Path, target: Path) -> None:
    open_small(spool).close()
    target.mkdir()
    (target / "letter.txt").write_text("dear")

    with pytest.raises(NotThisBackup, match=r"letter\.txt"):
        back_up(spool, target, QUICK)

    assert [path.name for path in target.iterdir()] == ["letter.txt"]


def test_a_database_is_not_taken_for_a_backup(spool: Path, target: Path) -> None:
    for directory in (spool, target):
        with open_small(directory) as db:
            db.add("q", b"m")
    before = {path.name: path.read_bytes() for path in target.iterdir()}

    with pytest.raises(NotThisBackup):
        back_up(spool, target, QUICK)

    assert {path.name: path.read_bytes() for path in target.iterdir()} == before


def test_the_backup_of_another_database_is_not_overwritten(spool: Path, target: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for directory in (spool, other):
        with open_small(directory) as db:
            db.add("q", str(directory).encode())
    back_up(other, target, QUICK)
    before = {path.name: path.read_bytes() for path in target.iterdir() if path.name != names.LOCK}

    with pytest.raises(NotThisBackup, match="another database"):
        back_up(spool, target, QUICK)

    assert {path.name: path.read_bytes() for path in target.iterdir() if path.name != names.LOCK} == before


@pytest.mark.parametrize("inside", [".", "backup", "deep/down"])
def test_a_backup_is_not_made_inside_its_database_nor_around_it(spool: Path, inside: str) -> None:
    with open_small(spool) as db:
        db.add("q", b"m")
    for source, directory in ((spool, spool / inside), (spool, spool.parent)):
        with pytest.raises(NotThisBackup):
            back_up(source, directory, QUICK)


def test_a_backup_is_not_backed_up(spool: Path, target: Path, tmp_path: Path) -> None:
    with open_small(spool) as db:
        db.add("q", b"m")
    back_up(spool, target, QUICK)

    with pytest.raises(IsBackup):
        back_up(target, tmp_path / "second", QUICK)


def test_two_at_once_do_not_write_one_backup(spool: Path, target: Path) -> None:
    with open_small(spool) as db:
        db.add("q", b"m")
    with Backup.open(spool, target, QUICK), pytest.raises(DatabaseLocked):
        back_up(spool, target, QUICK)


def test_a_database_that_has_gone_back_does_not_take_its_backup_with_it(spool: Path, target: Path) -> None:
    with open_small(spool) as db:
        db.add("q", b"m")
    old = {path.name: path.read_bytes() for path in spool.iterdir()}
    with open_small(spool) as db:
        later = [db.add("q", b"%d" % number) for number in range(3)]
    back_up(spool, target, QUICK)
    for path in spool.iterdir():
        path.unlink()
    for name, data in old.items():
        (spool / name).write_bytes(data)

    with pytest.raises(BehindItsBackup):
        back_up(spool, target, QUICK)

    assert set(later) <= set(numbers_in(target))
    assert_whole(target)


def test_an_empty_database_has_nothing_to_back_up(spool: Path, target: Path) -> None:
    with open_small(spool), pytest.raises(NothingToBackUp):
        back_up(spool, target, replace(QUICK, vouch_seconds=0.2))
    assert not list(target.glob("*.data"))


# Damage.


def _damage(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.unlink()  # never in place: a backup may have a link to it
    path.write_bytes(data)


def _filled(spool: Path) -> list[int]:
    with open_small(spool) as db:
        return [number for numbers in fill(db, 3).values() for number in numbers]


@pytest.mark.parametrize("options", WAYS)
def test_damage_is_told_and_what_is_whole_is_backed_up(spool: Path, target: Path, options: BackupOptions) -> None:
    added = _filled(spool)
    _damage(spool / str(DataFileName(2)), 1000)

    report = back_up(spool, target, options)

    assert list(report.damage) == [str(DataFileName(2))]
    assert report.manifest.files[1].is_damaged and not report.manifest.was_closed
    assert set(numbers_in(target)) >= set(added) - set(range(5, 11))
    reports = verify_backup(target)
    assert reports is not None and [one.verdict for one in reports] == ["clean", "damaged", "clean", "clean"]
    again = back_up(spool, target, options)
    assert list(again.damage) == [str(DataFileName(2))] and not again.written_bytes


@pytest.mark.parametrize("options", WAYS)
def test_what_the_backup_has_whole_is_kept_when_the_database_loses_it(
    spool: Path, target: Path, options: BackupOptions
) -> None:
    added = _filled(spool)
    back_up(spool, target, options)
    _damage(spool / str(DataFileName(2)), 0)
    _damage(spool / str(DataFileName(2)), 512)

    report = back_up(spool, target, options)

    assert list(report.damage) == [str(DataFileName(2))]
    assert numbers_in(target) == added
    assert_whole(target)


def test_a_file_that_is_missing_is_told(spool: Path, target: Path) -> None:
    added = _filled(spool)
    (spool / str(DataFileName(2))).unlink()

    report = back_up(spool, target, QUICK)

    assert list(report.damage) == [str(DataFileName(2))]
    assert set(numbers_in(target)) < set(added)
    with MessageDatabase.open(spool, max_data_file_size=7680, cleanup_interval=0) as db:
        repaired = back_up(spool, target, QUICK)
        assert not repaired.damage, "the start has put a gap in its place"
        assert numbers_in(target) == list(db.numbers())


def test_what_a_repair_has_changed_is_brought_anew_and_the_old_one_archived(spool: Path, target: Path) -> None:
    _killed(spool, [b"%d" % number for number in range(4)])
    back_up(spool, target, QUICK)
    path = spool / str(DataFileName(1))
    _damage(path, 4352 + 96 + 8)
    with open_small(spool) as db:
        db.add("q", b"later")
        kept = list(db.numbers())

    archive = str(names.ArchiveName(1, 1))
    (target / names.unfinished(archive)).write_bytes(b"of an attempt that failed")

    report = back_up(spool, target, QUICK)

    assert report.archived == (archive,)
    assert (target / archive).exists() and not (target / names.unfinished(archive)).exists()
    assert numbers_in(target) == kept
    assert_whole(target)


def test_what_the_device_cannot_read_is_damage_and_no_reason_to_have_no_backup(spool: Path, target: Path) -> None:
    _filled(spool)
    report = back_up(spool, target, COPIES, disk=_Unreadable(spool / str(DataFileName(2))))

    assert list(report.damage) == [str(DataFileName(2))]
    assert len(report.manifest.files) == 4


class _Unreadable(RealDisk):
    """A disk with one file that cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        file = super().open(path, writable=writable)
        return _Broken(file) if path == self._path else file  # type: ignore[return-value]


class _Other:
    """A file whose verbs are the system's, but for those that a test has others for."""

    def __init__(self, file: DiskFile) -> None:
        self.file = file
        for verb in ("write", "write_durably", "sync", "read", "read_into", "size", "truncate", "reserve", "close"):
            if not hasattr(type(self), verb):
                setattr(self, verb, getattr(file, verb))


class _Broken(_Other):
    """A file whose bytes behind its headers cannot be read."""

    def read(self, size: int, offset: int) -> bytes:
        if offset + size > 1024:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self.file.read(size, offset)

    def read_now(self, size: int, offset: int) -> bytes:
        return self.read(size, offset)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        data = self.read(len(buffer), offset)
        buffer[: len(data)] = data
        return len(data)


class _Wrong(_Other):
    """A file that writes something else than it was given."""

    def write(self, data: Buffer, offset: int) -> None:
        self.file.write(b"\xff" * len(data), offset)


def test_what_does_not_read_back_is_no_backup(spool: Path, target: Path) -> None:
    _filled(spool)
    first = back_up(spool, target, COPIES).manifest
    with open_small(spool) as db:
        fill(db, 1)

    with pytest.raises(NotReadBack):
        back_up(spool, target, COPIES, disk=_Lying(target))

    assert manifest.read(RealDisk(), target) == first
    assert_whole(target)


class _InOneDirectory(RealDisk):
    """A disk that is not as it should be in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory


class _Lying(_InOneDirectory):
    """A disk that writes something else than it was given, in one directory."""

    def create(self, path: Path) -> DiskFile:
        file = super().create(path)
        is_data = path.parent == self._directory and ".data" in path.name
        return _Wrong(file) if is_data else file  # type: ignore[return-value]


def test_every_file_that_is_linked_is_finished(spool: Path, target: Path) -> None:
    with open_small(spool) as db:
        for _ in range(5):
            fill(db, 2)
            report = back_up(spool, target, replace(QUICK, vouch_seconds=0))
            assert _all_finished(target, report)


def _all_finished(target: Path, report: BackupReport) -> bool:
    for file in report.manifest.files:
        with DataFile(RealDisk(), target / str(DataFileName(file.sequence))) as found:
            if file.is_sealed != isinstance(found.footer(identity=file.identity), Footer):
                return False
    return True


def test_a_full_disk_leaves_the_backup_as_it_was(spool: Path, target: Path) -> None:
    _filled(spool)
    first = back_up(spool, target, COPIES).manifest
    with open_small(spool) as db:
        fill(db, 2)

    with pytest.raises(DiskError):
        back_up(spool, target, COPIES, disk=_Full(target))

    assert manifest.read(RealDisk(), target) == first
    assert_whole(target)


class _Full(_InOneDirectory):
    """A disk without space for another file in one directory."""

    def create(self, path: Path) -> DiskFile:
        if path.parent == self._directory:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return super().create(path)


class _Listing(RealDisk):
    """A disk that still lists a file, once, when it has gone."""

    def __init__(self, path: Path) -> None:
        self._stale: Path | None = path

    def list(self, directory: Path) -> list[str]:
        found = super().list(directory)
        if self._stale is not None and directory == self._stale.parent:
            found = sorted({*found, self._stale.name})
            self._stale = None
        return found


def test_a_file_that_goes_between_the_list_and_the_look_is_no_failure(spool: Path, target: Path) -> None:
    with open_small(spool) as db:
        churn(db, 3)
        gone = spool / str(DataFileName(1))
        db.cleanup()
        assert not gone.exists()
        assert all(report.verdict == "clean" for report in validate_directory(spool, _Listing(gone)))
        with Backup.open(spool, target, QUICK, disk=(disk := RealDisk())) as backup:
            backup._source.disk = _Listing(gone)
            assert not backup.run().damage
            assert disk.list(target)
