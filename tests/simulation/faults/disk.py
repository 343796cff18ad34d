"""Faults made on purpose in how the engine writes: syncs, names, the archive, what it does on a failure."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from oms_journal.journal.disk import Buffer
from oms_journal.journal.writing.segment import Segment
from oms_journal.recovery.repair import Repaired
from tests.planted.patched import Patched
from tests.simulation.faults.fault import Instead, changed, fault, nothing


def _deaf(method: Callable[..., Any], **exchanged: Callable[..., object]) -> Callable[..., Any]:
    """Return a method during which the disk of its object has other verbs: by default, no sync of a directory."""
    exchanged = exchanged or {"sync_directory": nothing}

    def deaf(self: Any, *arguments: Any, **named: Any) -> Any:
        disk = self._disk
        self._disk = Instead(disk, **exchanged)
        try:
            return method(self, *arguments, **named)
        finally:
            self._disk = disk

    return deaf


def _with_file(made: Callable[[Any], object]) -> Callable[..., Any]:
    """Return what changes the file that a segment writes to, once it has its name."""

    def of(give_name: Callable[..., None]) -> Callable[..., None]:
        def gives(self: Segment, *arguments: Any) -> None:
            give_name(self, *arguments)
            self.file = made(self.file)  # type: ignore[assignment]

        return gives

    return of


@fault("engine", budget=30)
def no_commit_is_synced() -> Iterator[None]:
    """A commit is acknowledged when it is written, not when it is durable."""

    def lazy(file: Any) -> Instead:
        return Instead(file, write_durably=lambda buffers, offset: file.write(b"".join(buffers), offset))

    with changed(Patched.SEGMENT_GIVE_NAME, _with_file(lazy)):
        yield


@fault("engine", budget=60)
def a_commit_is_synced_with_the_next_one() -> Iterator[None]:
    """A commit is acknowledged when the one before it is durable."""

    def late(file: Any) -> Instead:
        waiting: list[tuple[bytes, int]] = []

        def write_durably(buffers: Sequence[Buffer], offset: int) -> None:
            for data, at in waiting:
                file.write_durably([data], at)
            waiting[:] = [(b"".join(buffers), offset)]
            file.write(*waiting[0])

        return Instead(file, write_durably=write_durably)

    with changed(Patched.SEGMENT_GIVE_NAME, _with_file(late)):
        yield


@fault("engine", budget=120)
def a_failed_sync_is_tried_again() -> Iterator[None]:
    """After a failed sync the sync is done again, and its success is believed."""

    def stubborn(file: Any) -> Instead:
        def write_durably(buffers: Sequence[Buffer], offset: int) -> None:
            try:
                file.write_durably(buffers, offset)
            except OSError:
                file.sync()

        return Instead(file, write_durably=write_durably)

    with changed(Patched.SEGMENT_GIVE_NAME, _with_file(stubborn)):
        yield


@fault("engine", budget=100, near=["recovery/crashes/test_power_cut"])
def a_new_files_name_is_not_synced() -> Iterator[None]:
    """The directory is not synced after a data file was created."""
    with changed(Patched.SUPPLY_CREATE, _deaf):
        yield


@fault("engine", budget=300)
def a_repaired_files_name_is_not_synced() -> Iterator[None]:
    """The directory is not synced after a repaired file, or an archive, took its name."""
    with changed(Patched.REPAIRER_BUILD, _deaf):
        yield


@fault("engine", budget=200)
def a_repaired_file_is_not_synced() -> Iterator[None]:
    """A repaired file, or an archive, takes its name before its bytes are durable."""

    def of(build: Callable[..., None]) -> Callable[..., None]:
        def builds(self: Any, *arguments: Any) -> None:
            disk = self._disk
            lazy = _deaf(build, create=lambda path: Instead(disk.create(path), sync=nothing))
            lazy(self, *arguments)

        return builds

    with changed(Patched.REPAIRER_BUILD, of):
        yield


@fault("engine", budget=200)
def the_old_file_goes_before_the_repaired_one_comes() -> Iterator[None]:
    """A file is removed first, then the repaired one takes its name."""

    def of(build: Callable[..., None]) -> Callable[..., None]:
        def builds(self: Any, *arguments: Any) -> None:
            disk = self._disk

            def rename(old: Any, new: Any) -> None:
                with contextlib.suppress(FileNotFoundError):
                    disk.unlink(new)
                    disk.sync_directory(new.parent)
                disk.rename(old, new)

            _deaf(build, rename=rename)(self, *arguments)

        return builds

    with changed(Patched.REPAIRER_BUILD, of):
        yield


@fault("engine", budget=100)
def no_archive_is_kept() -> Iterator[None]:
    """A file is cut or rebuilt without an archive of what was found."""

    def of(archive: Callable[..., str | None]) -> Callable[..., str | None]:
        def kept(self: Any, examined: Any) -> str | None:
            before = set(self._disk.list(self._directory))
            name = archive(self, examined)
            if name is not None and name not in before:
                self._disk.unlink(self._directory / name)
                self._disk.sync_directory(self._directory)
            return name

        return kept

    with changed(Patched.REPAIRER_ARCHIVE, of):
        yield


@fault("engine", budget=200)
def the_tail_is_believed() -> Iterator[None]:
    """What the last file holds is not written again at a start, though the page cache may lie."""

    def of(_: Callable[..., Repaired]) -> Callable[..., Repaired]:
        def believed(self: Any, examined: Any, before: Any) -> Repaired:
            return Repaired(examined.sequence, examined.contents, examined.header, None, "believed")

        return believed

    with changed(Patched.REPAIRER_SEAL, of):
        yield


@fault("engine", budget=200)
def a_footer_is_not_synced() -> Iterator[None]:
    """A file is sealed and cut to its length without a sync."""

    def of(seal: Callable[..., Any]) -> Callable[..., Any]:
        def sealed(self: Any, *arguments: Any) -> Any:
            self.file = Instead(self.file, sync=nothing)
            return seal(self, *arguments)

        return sealed

    with changed(Patched.SEGMENT_SEAL, of):
        yield


@fault("engine", budget=300)
def a_failed_sync_of_prepared_zeros_is_swallowed() -> Iterator[None]:
    """A file counts as prepared though the sync of its zeros has failed."""

    def of(fill: Callable[..., None]) -> Callable[..., None]:
        def filled(self: Any, start: int, end: int) -> None:
            disk = self._disk

            def open_deaf(path: Any, **named: Any) -> Instead:
                file = disk.open(path, **named)

                def sync() -> None:
                    with contextlib.suppress(OSError):
                        file.sync()

                return Instead(file, sync=sync)

            _deaf(fill, open=open_deaf)(self, start, end)

        return filled

    with changed(Patched.SEGMENT_FILL_WITH_ZEROS, of):
        yield


@fault("engine", budget=1500, near=["recovery/crashes/test_full_disk"])
def no_reserve_is_kept() -> Iterator[None]:
    """Nothing is kept back for the deliveries on a full disk."""
    with changed(Patched.RESERVE_FILL, lambda _: lambda self: True):
        yield
