"""Faults made on purpose in who owns a directory, in clean-up, and in what is visible while the engine runs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from oms_journal.database.cleanup import Cleanup
from oms_journal.database.commits.ledger import Ledger
from oms_journal.database.stats import file_facts
from oms_journal.index.live import Index
from oms_journal.journal.lock import LOCK_BYTE_BASE, _holder
from oms_journal.journal.names import DataFileName
from tests.planted.patched import Patched
from tests.simulation.faults.fault import Instead, changed, fault, nothing


@fault("engine", budget=60, near=["recovery/crashes/test_owners"])
def the_owner_is_not_checked_before_an_answer() -> Iterator[None]:
    """A commit is acknowledged without a look whether the directory is still ours."""
    with changed(Patched.DIRECTORY_LOCK_IS_OURS, lambda _: lambda self: True):
        yield


@fault("engine", budget=60, near=["recovery/crashes/test_owners"])
def no_lock_is_taken() -> Iterator[None]:
    """A directory is opened though another opening has it."""

    def of(claim: Callable[..., int]) -> Callable[..., int]:
        def claimed(lock: Any, *arguments: Any) -> int:
            return claim(
                Instead(
                    lock, is_locked=lambda byte: False, is_locked_anywhere=lambda: False, try_lock=lambda byte: True
                ),
                *arguments,
            )

        return claimed

    with changed(Patched.LOCK_CLAIM, of):
        yield


@fault("engine", budget=200, near=["recovery/crashes/test_owners"])
def the_owners_number_is_not_raised() -> Iterator[None]:
    """Who takes a directory over goes on under the number of the one before."""

    def of(claim: Callable[..., int]) -> Callable[..., int]:
        def claimed(lock: Any, path: Any, passing: Any) -> int:
            before = _holder(lock)
            if before.number and not before.is_open and lock.try_lock(LOCK_BYTE_BASE + before.number):
                return before.number
            return claim(lock, path, passing)

        return claimed

    with changed(Patched.LOCK_CLAIM, of):
        yield


@fault("engine", budget=60, near=["recovery/crashes/test_witness"])
def no_file_is_witnessed() -> Iterator[None]:
    """The lock file does not say which data file must be there."""
    with changed(Patched.DIRECTORY_LOCK_WITNESS, lambda _: nothing):
        yield


@fault("engine", budget=60)
def one_file_too_many_is_deleted() -> Iterator[None]:
    """Clean-up removes the file behind those that hold nothing needed."""

    def of(remove: Callable[..., Any]) -> Callable[..., Any]:
        def removed(self: Cleanup, moved: Any, look: Any) -> Any:
            facts = file_facts(look)
            following = [one for one in facts if moved and one.sequence > moved[-1].sequence and not one.is_active]
            for one in following[:1]:
                look.disk.unlink(look.directory / str(DataFileName(one.sequence)))
            return remove(self, moved, look)

        return removed

    with changed(Patched.CLEANUP_REMOVE, of):
        yield


@fault("engine", budget=60)
def keys_do_not_keep_their_file() -> Iterator[None]:
    """Clean-up counts messages only: a file that holds the latest version of a key goes."""

    def of(facts: Callable[..., Any]) -> Callable[..., Any]:
        return lambda look: [replace(one, live_keys=0) for one in facts(look)]

    def free(_: Callable[..., bool]) -> Callable[..., bool]:
        def is_free(self: Index, sequence: int) -> bool:
            use = self.table.files.get(sequence)
            return not (use and use.live_messages)

        return is_free

    def forget(_: Callable[..., None]) -> Callable[..., None]:
        return lambda self, sequence: self.files.pop(sequence, None)

    with (
        changed(Patched.CLEANUP_FILE_FACTS, of),
        changed(Patched.INDEX_IS_FREE, free),
        changed(Patched.KEYED_FORGET_FILE, forget),
    ):
        yield


@fault("engine", budget=200)
def files_go_before_the_low_water_mark_is_durable() -> Iterator[None]:
    """Clean-up deletes first, and commits the mark afterwards."""

    def of(remove: Callable[..., Any]) -> Callable[..., Any]:
        def removed(self: Cleanup, moved: Any, look: Any) -> Any:
            found = remove(self, moved, look)
            commit_mark(self, moved, look)
            return found

        return removed

    commit_mark = Patched.CLEANUP_COMMIT_MARK.found()
    with changed(Patched.CLEANUP_REMOVE, of), changed(Patched.CLEANUP_COMMIT_MARK, lambda _: nothing):
        yield


@fault("engine", budget=200)
def a_file_goes_before_what_is_moved_is_durable() -> Iterator[None]:
    """Compaction removes the old copy first, and then writes the new one."""

    def of(move: Callable[..., int]) -> Callable[..., int]:
        def moved(self: Any, numbers: Any, sequence: int, look: Any) -> int:
            context = self._context
            path = look.directory / str(DataFileName(sequence))

            def write(draft: Any) -> None:
                if path.name in look.disk.list(look.directory):
                    look.disk.unlink(path)
                    look.disk.sync_directory(look.directory)
                context.write(draft)

            self._context = replace(context, write=write)
            try:
                return move(self, numbers, sequence, look)
            finally:
                self._context = context

        return moved

    with changed(Patched.CLEANUP_MOVE_BATCH, of):
        yield


@fault("engine", budget=300)
def the_duplicate_window_is_not_carried_forward() -> Iterator[None]:
    """Producer identifiers go with the files that clean-up removes."""
    with changed(Patched.CLEANUP_CARRIED, lambda _: lambda entries: []):
        yield


@fault("engine", budget=60)
def half_a_commit_becomes_visible() -> Iterator[None]:
    """A commit of several operations shows its messages; its keys are seen after a restart only."""

    def of(apply: Callable[..., None]) -> Callable[..., None]:
        def applied(self: Ledger, draft: Any, *given: Any) -> None:
            effect = draft.effect
            draft.effect = effect._replace(puts=() if draft.shape.messages else effect.puts)
            apply(self, draft, *given)
            self._keys.difference_update(effect.puts)

        return applied

    with changed(Patched.LEDGER_APPLY_EFFECT, of):
        yield
