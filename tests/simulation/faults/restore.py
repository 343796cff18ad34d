"""Faults made on purpose in back-up and restore, and in what is held back."""

from collections.abc import Callable, Iterator
from typing import Any

from oms_journal.recovery.restoring import Split
from tests.planted.patched import Patched
from tests.simulation.faults.fault import changed, fault, nothing


@fault("backup", budget=60, near=["database/backup/test_restore"])
def a_restore_holds_nothing() -> Iterator[None]:
    """What was undelivered at the last backup is handed out by the restored database."""
    with changed(Patched.START_INTEND_TO_HOLD, lambda _: nothing):
        yield


@fault("backup", budget=60)
def a_restore_goes_on_with_the_numbers() -> Iterator[None]:
    """The restored database begins with the number that came next when the backup was taken."""
    with changed(Patched.SPLIT_JUMP, lambda _: property(lambda self: 0)):
        yield


@fault("backup", budget=60)
def a_restore_keeps_the_identity() -> Iterator[None]:
    """The restored database says that it is the one that was backed up."""

    def of(split: Callable[..., Split]) -> Callable[..., Split]:
        return lambda **named: split(**(named | {"database": named["parent"]}))

    with changed(Patched.BACKUP_RESTORE_SPLIT, of):
        yield


@fault("backup", budget=60, near=["database/backup/test_restore"])
def an_unfinished_restore_is_opened() -> Iterator[None]:
    """Nobody looks whether a restore into the directory has come to its end."""
    with changed(Patched.STARTUP_REFUSE_UNFINISHED, lambda _: nothing):
        yield


@fault("backup", budget=200, near=["database/backup/test_restore"])
def a_restore_forgets_what_producers_sent() -> Iterator[None]:
    """The restored database does not take along what clean-up had carried forward of the duplicate window."""
    with changed(Patched.DUPLICATE_WINDOW_LATER, lambda _: lambda self, microseconds: {}):
        yield


@fault("backup", budget=200)
def nobody_looks_whether_the_original_went_on() -> Iterator[None]:
    """A restore believes that a database that was closed when it was backed up has been closed ever since."""
    with changed(Patched.BACKUP_RESTORE_WENT_ON, lambda _: lambda disk, found: False):
        yield


@fault("backup", budget=60)
def what_is_let_go_is_held_again_after_a_restart() -> Iterator[None]:
    """A release is known in memory only."""

    def of(write: Callable[..., None]) -> Callable[..., None]:
        return lambda self, held=None: write(self) if held is None else None

    with changed(Patched.HOLDS_WRITE, of):
        yield


@fault("backup", budget=200)
def a_backup_leaves_out_what_clean_up_has_acted_on() -> Iterator[None]:
    """A backup beside a clean-up lacks the mark in the last group, and what was carried forward with it."""

    def of(_: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, found: list(found)

    with changed(Patched.SNAPSHOT_READER_WITH_MARKS, of):
        yield
