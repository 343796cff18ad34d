"""Verifies a backup: every file is there, has the bytes that were backed up, and is clean.

If the manifest is damaged, it says what the data files tell of themselves.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from oms_journal.journal import names
from oms_journal.journal.disk import Disk, RealDisk
from oms_journal.journal.errors import DiskError, ManifestDamaged
from oms_journal.journal.format import manifest
from oms_journal.journal.format.footer import ranges
from oms_journal.journal.format.headers import Ending, FileHeader
from oms_journal.journal.format.manifest import BackupFile, Manifest
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.walk import Span, walk
from oms_journal.recovery.report import FileReport, Verdict
from oms_journal.recovery.survey import data_files
from oms_journal.recovery.validation import Progress, no_progress, validate_directory

ATTEMPTS_MAX = 5  # a back-up may go on meanwhile


def verify_backup(
    directory: Path | str, disk: Disk | None = None, *, progress: Progress = no_progress, payloads: bool = False
) -> tuple[FileReport, ...] | None:
    """Return the verdict on every file of a backup; None where the directory is none. Takes no lock, changes nothing.

    A file that was damaged when it was backed up is damaged; so is a manifest of which one copy is good, and the next
    back-up mends that. DiskError; ManifestDamaged where neither copy can be read.
    """
    disk, path = disk or RealDisk(), Path(directory)
    found = manifest.read(disk, path)
    for _ in range(ATTEMPTS_MAX):
        if found is None:
            return None
        reports = validate_directory(path, disk, progress=progress, payloads=payloads)
        reports = (*_manifest_report(disk, path), *_compared(disk, path, found, reports))
        again = manifest.read(disk, path)
        if again == found or all(report.verdict is Verdict.CLEAN for report in reports):
            break
        found = again
    return reports


def _manifest_report(disk: Disk, directory: Path) -> Iterator[FileReport]:
    """Yield a report on the manifest where one of its copies is damaged."""
    if reason := manifest.flaw(disk, directory):
        reason += "; the next back-up mends it"
        size = disk.size(directory / names.BACKUP)
        yield FileReport(
            name=names.BACKUP, sequence=0, verdict=Verdict.DAMAGED, row="manifest", good_end=0, size=size, reason=reason
        )


def _compared(disk: Disk, directory: Path, known: Manifest, reports: Iterable[FileReport]) -> Iterable[FileReport]:
    """Yield the reports, with what is not as the manifest has it as damaged."""
    for report in reports:
        file = known.file(report.sequence)
        reason = ""
        if file is not None:
            reason = _difference(disk, directory / str(DataFileName(file.sequence)), file)
            reason = reason or ("it was damaged when it was backed up" if file.is_damaged else "")
        if not reason:
            yield report
            continue
        yield replace(report, verdict=Verdict.DAMAGED, reason="; ".join(filter(None, (reason, report.reason))))


def _difference(disk: Disk, path: Path, wanted: BackupFile) -> str:
    """Say what is other than it was backed up; "" for nothing.

    Behind a file that is not sealed a back-up that was ended may have left what it had shipped: the next one goes over
    that.
    """
    size = wanted.size
    try:
        with DataFile(disk, path) as file:
            if file.size() < size:
                return f"{file.size():,} bytes are there of {size:,}"
            if file.checksum(size) != wanted.checksum:
                return "its bytes are not those that were backed up"
            behind = file.size() - size
            if behind and wanted.is_sealed:
                return f"{behind:,} bytes stand behind the {size:,} that were backed up"
            return ""
    except FileNotFoundError:
        return "the file is missing"
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure


# A backup whose manifest is damaged.


def rebuilt(disk: Disk, directory: Path, key: bytes = b"", *, whole_only: bool = False) -> Manifest:
    """Return the manifest of a backup as its data files tell it; `key` is one that only a broker's store has.

    What cannot be told is assumed so that nothing is handed out twice: the database was running. A file that is not
    whole is damaged, or left out where what is `whole_only` is wanted; only the last one may be unsealed.
    ManifestDamaged where no file has a header; DiskError.
    """
    found = [_told(disk, path, sequence, key) for sequence, path in data_files(disk, directory)]
    headers = [one.header for one in found if one.header is not None]
    if not headers:
        raise ManifestDamaged(directory, "none of its data files can be read either")
    newest, low_water = headers[-1], max(header.low_water for header in headers)
    kept = [one for one in found if one.file.sequence >= low_water]
    last = next(one for one in reversed(kept) if one.header is newest)
    kept = [one if one.file.is_sealed or one is last else one.as_damaged() for one in kept]
    if whole_only:
        kept = [one for one in kept if not one.file.is_damaged]
        last = kept[-1] if kept else replace(last, tail=Ending())
    return Manifest(
        database=newest.database,
        parent=newest.parent,
        parent_sequence=newest.parent_sequence,
        low_water=low_water,
        tail=last.tail,
        next_message=max(newest.next_message, last.highest + 1),
        next_commit=max(newest.next_commit, last.tail.commit + 1),
        owner=max(header.owner for header in headers),
        has_broker=any(one.has_key for one in kept),
        taken_at=max((one.time for one in kept), default=0),
        files=tuple(one.file for one in kept),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What one data file says of itself."""

    file: BackupFile
    header: FileHeader | None = None
    tail: Ending = field(default_factory=Ending)
    highest: int = 0  # number of a message
    time: int = 0  # of its last commit
    has_key: bool = False

    def as_damaged(self) -> "_Told":
        return replace(self, file=replace(self.file, is_damaged=True))


def _told(disk: Disk, path: Path, sequence: int, key: bytes) -> _Told:
    try:
        with DataFile(disk, path) as file:
            header, size = file.header(), file.size()
            entry = BackupFile(sequence=sequence, identity=0, size=size, checksum=0, is_sealed=False, is_damaged=True)
            if not isinstance(header, FileHeader) or header.sequence != sequence:
                return _Told(file=replace(entry, checksum=file.checksum(size)))
            footer = file.footer(identity=header.identity)
            if isinstance(footer, Footer):
                contents, end = footer.contents(), size
                is_whole = file.checksum(footer.summary.start) == footer.summary.file_checksum
            else:
                span = Span(
                    sequence=sequence,
                    identity=header.identity,
                    limit=size,
                    alignment=header.alignment,
                    header=header,
                )
                walked = walk(file.bytes(), span)
                contents, end = walked.builder.build(walked.end), walked.end
                is_whole = footer is None and not walked.bad_ranges and not walked.bad_payloads
            checksum = file.checksum(end)
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure
    limits = ranges(contents)
    return _Told(
        file=replace(
            entry,
            identity=header.identity,
            size=end,
            checksum=checksum,
            is_sealed=isinstance(footer, Footer),
            is_damaged=not is_whole,
        ),
        header=header,
        tail=contents.ending(header),
        highest=limits.added[1],
        time=limits.time[1],
        has_key=bool(key) and contents.value_head(key) is not None,
    )
