"""A backup as it lies: every file is there, has the bytes that were backed up, and is what validation calls clean."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from journal import manifest
from journal.datafile import DataFile
from journal.disk import Disk, RealDisk
from journal.errors import DiskError
from journal.manifest import Manifest
from journal.names import DataFileName
from recovery.report import FileReport, Verdict
from recovery.validate import Progress, no_progress, validate_directory

ATTEMPTS_MAX = 5  # a back-up may go on meanwhile


def verify_backup(
    directory: Path | str, disk: Disk | None = None, *, progress: Progress = no_progress, payloads: bool = False
) -> tuple[FileReport, ...] | None:
    """Return the verdict on every file of a backup; None where the directory is none. Takes no lock, changes nothing.

    A file that was damaged when it was backed up is damaged. DiskError; FormatError where the manifest cannot be read.
    """
    disk, path = disk or RealDisk(), Path(directory)
    found = manifest.read(disk, path)
    for _ in range(ATTEMPTS_MAX):
        if found is None:
            return None
        reports = validate_directory(path, disk, progress=progress, payloads=payloads)
        reports = tuple(_compared(disk, path, found, reports))
        again = manifest.read(disk, path)
        if again == found or all(report.verdict is Verdict.CLEAN for report in reports):
            break
        found = again
    return reports


def _compared(disk: Disk, directory: Path, known: Manifest, reports: Iterable[FileReport]) -> Iterable[FileReport]:
    """Yield the reports, with what is not as the manifest has it as damaged."""
    for report in reports:
        file = known.file(report.sequence)
        reason = ""
        if file is not None:
            reason = _difference(disk, directory / str(DataFileName(file.sequence)), file.size, file.checksum)
            reason = reason or ("it was damaged when it was backed up" if file.is_damaged else "")
        if not reason:
            yield report
            continue
        yield replace(report, verdict=Verdict.DAMAGED, reason="; ".join(filter(None, (reason, report.reason))))


def _difference(disk: Disk, path: Path, size: int, checksum: int) -> str:
    try:
        with DataFile(disk, path) as file:
            if file.size() < size:
                return f"{file.size():,} bytes are there of {size:,}"
            return "" if file.checksum(size) == checksum else "its bytes are not those that were backed up"
    except FileNotFoundError:
        return "the file is missing"
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure
