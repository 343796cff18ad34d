"""Lakes as a reader sees them: the rows of all that a glob finds, by pyarrow alone."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from oms_journal import MessageDatabase
from oms_journal.analysis.export import refresh as exporting
from oms_journal.analysis.export.place import LocalPlace
from oms_journal.analysis.export.refresh import COLUMNS, ExportOptions, Refreshed
from oms_journal.analysis.reading.schema import Wanted
from oms_journal.journal.disk import DiskFile, LockFile, RealDisk
from tests.support.disks.small_files import churn
from tests.support.journals.analysed import EVERY, Row, analysed, plain

SHOWN = Wanted(columns=COLUMNS)
ALL_COLUMNS = ExportOptions(columns=EVERY, wait_seconds=0)
AT_ONCE = ExportOptions(wait_seconds=0)


def refreshed(lake: Path | str, *paths: Path | str, options: ExportOptions = AT_ONCE) -> Refreshed:
    """Bring a lake up to date."""
    return exporting.refresh([str(path) for path in paths], str(lake), options)


def lake_files(lake: Path) -> list[Path]:
    """Return what a glob finds, database by database in the order of the journal."""
    return sorted(lake.glob("*/*.parquet"))


def lake_rows(lake: Path) -> list[Row]:
    """Return the operations that a reader of the lake finds."""
    found = lake_files(lake)
    return plain(ds.dataset(found, format="parquet").to_table().to_batches()) if found else []


def source_rows(*paths: Path, wanted: Wanted = SHOWN) -> list[Row]:
    """Return the operations that the data source finds, in the order of a lake."""
    return sorted(analysed(*paths, wanted=wanted), key=lambda row: (row["database"], row["sequence"]))


def places(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    """Return how often each operation is among the rows: each has its place, and its number within a commit."""
    return Counter((row["database"], row["commit"], row["operation"], row["message"], row["key"]) for row in rows)


def cleaned(db: MessageDatabase, files: int) -> set[str]:
    """Fill files with what is delivered at once, clean up, and return which have gone."""
    churn(db, files)
    before = {path.stem for path in db.directory.glob("*.data")}
    db.cleanup()
    return before - {path.stem for path in db.directory.glob("*.data")}


class MomentDisk(RealDisk):
    """The disk of a lake, which says when something is about to change there, and has."""

    def __init__(self, at: Callable[[], None]) -> None:
        self._at = at

    def _around(self, change: Callable[[], Any]) -> Any:
        self._at()
        found = change()
        self._at()
        return found

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        found: DiskFile = self._around(lambda: super(MomentDisk, self).open(path, writable=writable))
        return found

    def open_lock(self, path: Path) -> LockFile:
        found: LockFile = self._around(lambda: super(MomentDisk, self).open_lock(path))
        return found

    def rename(self, old: Path, new: Path) -> None:
        self._around(lambda: super(MomentDisk, self).rename(old, new))

    def unlink(self, path: Path) -> None:
        self._around(lambda: super(MomentDisk, self).unlink(path))

    def sync_directory(self, directory: Path) -> None:
        self._around(lambda: super(MomentDisk, self).sync_directory(directory))


def with_moments(monkeypatch: Any, at: Callable[[], None]) -> None:
    """Have `at` called around each change to a lake from now on."""

    def place_of(destination: str, options: object = None) -> LocalPlace:
        return LocalPlace(Path(destination), MomentDisk(at))

    monkeypatch.setattr(exporting, "place_of", place_of)
