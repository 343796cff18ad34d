"""Faults made on purpose in how a backup is made: in which order, how durably, and of what."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from oms_journal.database.backup.files import CopiedFile, FileCopier, _entry
from oms_journal.database.backup.snapshot import FileToBackUp
from oms_journal.database.backup.target import BackupTarget
from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.format.manifest import BackupFile, Manifest
from oms_journal.journal.names import DataFileName
from tests.planted.patched import Patched
from tests.simulation.faults.fault import Instead, changed, fault, nothing


@fault("backup", budget=40)
def a_backups_files_are_not_synced() -> Iterator[None]:
    """The manifest names files that are in the page cache only."""

    def of(begin: Callable[..., None]) -> Callable[..., None]:
        def begun(self: FileCopier, disk: Disk, directory: Path) -> None:
            def unsynced(call: Callable[..., Any]) -> Callable[..., Any]:
                return lambda *arguments, **named: Instead(call(*arguments, **named), sync=nothing)

            begin(self, Instead(disk, create=unsynced(disk.create), open=unsynced(disk.open)), directory)

        return begun

    with changed(Patched.FILE_COPIER_INIT, of):
        yield


@fault("backup", budget=40)
def what_has_come_to_a_file_is_not_brought() -> Iterator[None]:
    """The manifest says that the last file has grown, and the file has not."""

    def extended(_: FileCopier, __: Disk, wanted: FileToBackUp, old: BackupFile) -> CopiedFile:
        return CopiedFile(_entry(wanted, old.checksum), "extended")

    with changed(Patched.FILE_COPIER_EXTEND, lambda _: extended):
        yield


@fault("backup", budget=100)
def files_go_before_the_new_manifest_is_there() -> Iterator[None]:
    """What the next backup does not need is removed first, while the one before is what counts."""

    def of(publish: Callable[..., list[str]]) -> Callable[..., list[str]]:
        def published(self: BackupTarget, wanted: Manifest) -> list[str]:
            needed = {str(DataFileName(file.sequence)) for file in wanted.files}
            for entry in self.disk.list(self.directory):
                if isinstance(names.parse(entry), DataFileName) and entry not in needed:
                    self.disk.unlink(self.directory / entry)
            return publish(self, wanted)

        return published

    with changed(Patched.BACKUP_TARGET_PUBLISH, of):
        yield


@fault("backup", budget=40)
def a_backup_says_a_later_commit() -> Iterator[None]:
    """The manifest names the commit behind the one that the backup ends with."""

    def of(manifest: Callable[..., Manifest]) -> Callable[..., Manifest]:
        def named(*arguments: Any) -> Manifest:
            made = manifest(*arguments)
            return replace(made, tail=replace(made.tail, commit=made.tail.commit + 1))

        return named

    with changed(Patched.BACKUP_MANIFEST_OF, of):
        yield
