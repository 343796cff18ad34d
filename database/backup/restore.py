"""Makes a new database from a backup, as a whole or not at all, with an identity of its own.

    1  note in the new directory that a restore is under way: nobody opens it until the note is gone
    2  copy what the manifest names, up to where it says, and read it back
    3  start in it as in any directory (`recovery/startup.py`): what the backup did not keep whole is reported
    4  begin the new database's first data file: it names the parent, is far ahead with all numbers, and has
       in it what is held, and the producers' identifiers as old as they were when the backup was taken
    5  remove the note

If it is killed in between, the same call begins anew. It only reads the backup.
"""

import contextlib
import json
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from oms_journal.database.backup.snapshot import SnapshotReader
from oms_journal.database.backup.target import are_apart
from oms_journal.database.backup.verification import rebuilt
from oms_journal.database.options import system_clock
from oms_journal.index import duplicates, held
from oms_journal.index.table import NUMBER_MAX
from oms_journal.journal import names
from oms_journal.journal.disk import Disk, RealDisk
from oms_journal.journal.errors import DiskError, JournalError, ManifestDamaged, RestoreRefused
from oms_journal.journal.files import copy
from oms_journal.journal.format import manifest
from oms_journal.journal.format.manifest import BackupFile, Manifest
from oms_journal.journal.lock import DirectoryLock, read_holder
from oms_journal.journal.names import DataFileName
from oms_journal.journal.operations import MIB
from oms_journal.journal.reading.datafile import DataFile
from oms_journal.journal.writing.draft import CommitBuilder, Draft
from oms_journal.journal.writing.log import Journal, JournalSettings
from oms_journal.recovery import findings
from oms_journal.recovery import findings as holding
from oms_journal.recovery.bad_blocks import ForgivingDisk
from oms_journal.recovery.numbering import NumberFloor
from oms_journal.recovery.place import directory_of, make_directory
from oms_journal.recovery.report import RecoveryReport
from oms_journal.recovery.restoring import Split, refuse_unfinished
from oms_journal.recovery.startup import RecoveryOptions, StartResult, refuse_backup, start
from oms_journal.recovery.validation import Progress, no_progress

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ATTEMPTS_MAX = 5  # a backup that is being added to lets go of files


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """How a restore goes about it; time and chance come in from outside."""

    unreadable_as_damaged: bool = False  # give up what the device of the backup cannot read
    hold: bool | None = None  # what is undelivered; None: unless the original is seen, untouched since the backup
    data_file_bytes_max: int = 25 * MIB
    key: bytes = b""  # whose presence says that the database is a broker's store, where the manifest is damaged
    broker_key: bytes = b""  # where a broker's store keeps, as JSON, what it was restored from, until its first start
    clock: Callable[[], int] = system_clock  # microseconds since 1970-01-01 UTC
    new_identity: Callable[[], bytes] = field(default=lambda: uuid.uuid4().bytes)
    progress: Progress = no_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What was made of which backup. Sizes in bytes, times in microseconds since 1970-01-01 UTC."""

    directory: str
    database: str  # its identity, 32 hexadecimal digits
    parent: str  # of the database that was backed up
    taken_at: int
    source: str  # where the original was: HOST:DIRECTORY
    was_closed: bool  # so that nothing had been delivered since when it was taken
    went_on: bool | None  # the original after the backup: it was seen from here, or None where nobody could look
    has_broker: bool
    files: int
    bytes: int
    undelivered: int
    held: int  # of these
    changed: tuple[str, ...]  # files that are not as they were when they were backed up
    recovery: RecoveryReport

    @property
    def intact(self) -> bool:
        """Whether all that the backup had is there."""
        return self.recovery.intact and not self.changed

    def as_dict(self) -> dict[str, object]:
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "recovery"}
        return plain | {"intact": self.intact, "recovery": self.recovery.as_dict()}


def restore(
    backup: Path | str, directory: Path | str, options: RestoreOptions | None = None, *, disk: Disk | None = None
) -> RestoreReport:
    """Make a database in a new or empty directory from a backup, and report what is in it.

    By default oms holds back all undelivered messages. It does not when the original was closed at the time of the
    backup and is seen untouched: the backup says on which machine and in which directory it was. If nobody can look
    there from here, the original may have gone on. With `hold=True` oms always holds them. With `hold=False` it holds
    no more than the original did.

    If a part of the backup is damaged, oms salvages the rest and reports the damage. If the manifest is damaged, the
    data files tell what the backup consists of.

    Raises RestoreRefused when the backup was never finished, or when the directory is not empty. Raises DatabaseLocked
    when another restore is at work in the directory. Raises DiskError and NewerFormat. Raises TypeError when `hold` is
    none of True, False and None. Raises TypeError or ValueError for a value that names no directory.
    """
    options = options or RestoreOptions()
    if not isinstance(options.hold, bool | None):
        raise TypeError(f"hold must be True, False or None, not {options.hold!r}")
    disk = disk or RealDisk()
    source, target = directory_of(backup, "backup"), directory_of(directory)
    _check_apart(source, target)
    for _ in range(ATTEMPTS_MAX):
        found, damaged = _manifest(disk, source, options)
        changed = damaged + _copy_all(disk, source, target, found, options)
        if not changed or _manifest(disk, source, options) == (found, damaged):
            break
    went_on = _went_on(disk, found)
    holds = options.hold if options.hold is not None else went_on is not False or not found.was_closed
    options = replace(options, hold=holds)
    split = Split(
        database=options.new_identity(),
        parent=found.database,
        sequence=found.tail.sequence,
        next_message=found.next_message,
        next_commit=found.next_commit,
        owner=found.owner,
        low_water=found.low_water,
        holds=bool(options.hold),
    )
    started = start(disk, target, _recovery_options(options, split))
    try:
        _begin(disk, target, started, options, found)
        holding.done(disk, target)
        findings.handed_over(disk, target, NumberFloor())  # a file begins behind all of them
        _finish(disk, target, found)
    finally:
        started.ownership.close()
    return _report(target, found, started, changed, went_on=went_on)


def _went_on(disk: Disk, found: Manifest) -> bool | None:
    """Say whether the original did anything after its backup.

    False only where it was seen: closed, whole, and with the backup's last commit as its own. None where nobody can
    tell from here: it is gone, on another machine, another database, or its files cannot be read.
    """
    host, _, name = found.source.partition(":")
    directory = Path(name)
    if host != socket.gethostname() or not directory.is_absolute():
        return None
    try:
        refuse_backup(disk, directory)
        refuse_unfinished(disk, directory)
        holder = read_holder(disk, directory)
        snapshot = SnapshotReader(disk, directory).snapshot()
    except (JournalError, OSError):
        return None
    if holder is None or snapshot is None or snapshot.header.database != found.database:
        return None
    if snapshot.was_closed and snapshot.owner == found.owner and snapshot.tail == found.tail:
        return False
    return True if holder.number > found.owner or snapshot.tail.commit > found.tail.commit else None


def _check_apart(source: Path, target: Path) -> None:
    if not are_apart(source, target):
        raise RestoreRefused(f"the backup {source} and {target} are one in the other; give another directory")


def _manifest(disk: Disk, source: Path, options: RestoreOptions) -> tuple[Manifest, tuple[str, ...]]:
    """Return what the backup consists of; and its manifest's name where that is damaged, and the data files tell it."""
    changed: tuple[str, ...] = ()
    try:
        found = manifest.read(disk, source)
    except ManifestDamaged:
        found, changed = rebuilt(disk, source, options.key), (names.BACKUP,)
    if found is None:
        raise RestoreRefused(f"{source} is no backup: there is no {names.BACKUP} in it; nothing was changed")
    if not found.is_complete:
        raise RestoreRefused(f"{source} holds no finished backup: no back-up into it ever ended; nothing was changed")
    return found, changed


def _recovery_options(options: RestoreOptions, split: Split) -> RecoveryOptions:
    return RecoveryOptions(
        hold_suspects=True,
        data_file_bytes_max=options.data_file_bytes_max,
        progress=options.progress,
        split=split,
    )


# Copying.


def _copy_all(disk: Disk, source: Path, target: Path, found: Manifest, options: RestoreOptions) -> tuple[str, ...]:
    """Copy the backup's files into the directory, which is marked before; return which are not as they were."""
    reading = ForgivingDisk(disk) if options.unreadable_as_damaged else disk
    make_directory(disk, target)
    try:
        _check_empty(disk, target)
        ownership = DirectoryLock.acquire(disk, target)
        try:
            entries = _check_empty(disk, target)
            manifest.write(disk, target, found, names.RESTORE)
            ownership.forget_witness()
            _clear(disk, target, entries)
            changed = []
            for number, file in enumerate(found.files, start=1):
                name = str(DataFileName(file.sequence))
                if not _copy(reading, disk, source / name, target / name, file):
                    changed.append(name)
                options.progress("copy", number, len(found.files))
            disk.sync_directory(target)
        finally:
            ownership.close()
    except OSError as failure:
        raise DiskError(target, failure, f"restore {source} into") from failure
    return tuple(changed)


def _check_empty(disk: Disk, target: Path) -> list[str]:
    """Return what a restore that was interrupted has left in the directory; RestoreRefused where it is another's."""
    entries = disk.list(target)
    is_ours = names.RESTORE in entries or set(entries) <= {names.LOCK, names.unfinished(names.RESTORE)}
    strangers = [entry for entry in entries if names.parse(entry) is None]
    if not is_ours or strangers:
        raise RestoreRefused(f"{target} is not empty; a restore needs a directory of its own; nothing was changed")
    return entries


def _clear(disk: Disk, target: Path, entries: list[str]) -> None:
    for entry in entries:
        if entry not in (names.LOCK, names.RESTORE, names.unfinished(names.RESTORE)):
            disk.unlink(target / entry)
    disk.sync_directory(target)


def _copy(reading: Disk, disk: Disk, source: Path, target: Path, wanted: BackupFile) -> bool:
    """Copy as much of a file as belongs to the backup; say whether it is what was put there. OSError."""
    try:
        old = reading.open(source)
    except FileNotFoundError:
        return False  # which the start will find out too
    try:
        new = disk.create(target)
        try:
            copy(old, new, 0, wanted.size)
            new.sync()
        finally:
            new.close()
    finally:
        old.close()
    with DataFile(disk, target) as file:
        return file.size() == wanted.size and file.checksum(wanted.size) == wanted.checksum


# The first data file of the new database.


def _begin(disk: Disk, target: Path, started: StartResult, options: RestoreOptions, found: Manifest) -> None:
    """Write the first data file of the new database; DiskError."""
    marks = {}
    if options.broker_key and found.has_broker and options.hold:
        marks = {options.broker_key: json.dumps({"source": found.source, "taken": _text(found.taken_at)}).encode()}
    draft = _first_commit(started, max(0, options.clock() - found.taken_at), marks)
    settings = JournalSettings(
        random_identity=lambda: int.from_bytes(options.new_identity()[:8], "little"),
        clock=options.clock,
        data_file_bytes_max=options.data_file_bytes_max,
    )
    writing = Journal(disk, target, started.opening, settings)
    try:
        for one in (draft, CommitBuilder().draft()):  # an empty commit vouches for the one before it
            group = writing.form([one])
            if group.refused:
                raise group.refused[0][1]
            writing.write(group)
        closed = writing.close(seal=True)
        assert closed is not None
        started.ownership.witness_end(closed)
    except OSError as failure:
        raise DiskError(target, failure, "write in") from failure


def _text(microseconds: int) -> str:
    try:
        return (EPOCH + timedelta(microseconds=microseconds)).isoformat()
    except OverflowError:  # a year that no calendar has
        return f"{microseconds} µs"


def _first_commit(started: StartResult, away: int, marks: dict[bytes, bytes]) -> Draft:
    """Return what the new database says first: what is held, and the identifiers, `away` microseconds later."""
    index = started.index
    identifiers = duplicates.carried(index.duplicates.later(away))
    values = marks | index.held.values()
    values |= {duplicates.KEY_PREFIX + f"{place:06}".encode(): value for place, value in enumerate(identifiers)}
    composer = CommitBuilder()
    for key, value in values.items():
        composer.put(key, value)
    for prefix in (held.KEY_PREFIX, duplicates.KEY_PREFIX):
        for key in index.keyed.keys(prefix):
            if key not in values:
                composer.drop(key)
    return composer.draft()


def _finish(disk: Disk, target: Path, found: Manifest) -> None:
    """Remove the note: from now on the database is one, or the restore is still unfinished. DiskError."""
    path = target / names.RESTORE
    try:
        disk.unlink(path)
        disk.sync_directory(target)
    except OSError as failure:
        with contextlib.suppress(OSError):
            manifest.write(disk, target, found, names.RESTORE)
        raise DiskError(path, failure, "remove") from failure


def _report(
    target: Path, found: Manifest, started: StartResult, changed: tuple[str, ...], *, went_on: bool | None
) -> RestoreReport:
    index = started.index
    held_count = sum(int(index.held.mask(numbers).sum()) for numbers, _, _ in index.table.batches(None, 0, NUMBER_MAX))
    return RestoreReport(
        directory=str(target),
        database=started.opening.database.hex(),
        parent=found.database.hex(),
        taken_at=found.taken_at,
        source=found.source,
        was_closed=found.was_closed,
        went_on=went_on,
        has_broker=found.has_broker,
        files=len(found.files),
        bytes=sum(file.size for file in found.files),
        undelivered=index.table.count,
        held=held_count,
        changed=changed,
        recovery=started.report,
    )
