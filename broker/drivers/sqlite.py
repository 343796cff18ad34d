"""SQLite as a broker's persistent store: PSTORE-TYPE=SQLITE, with the promises of the message database.

One file; write-ahead log, synchronous=FULL, one process at a time. After a failed write or sync SQLite has not moved
its idea of where the log ends, so a rollback in the same connection makes "not done" the truth: what comes next is
written over it. A count of commits in the store shows where that cannot be had, because the file had to be opened
anew; then `connect` refuses. What a commit does is in `sqlite_commit.py`.
"""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from oms_journal.broker.drivers.driver import StoreDriver, no_store, not_empty, not_opened, not_opened_again
from oms_journal.broker.drivers.sqlite_commit import PAGE_BYTES, Limits, apply_changes, insert, open_file
from oms_journal.broker.drivers.sqlite_contents import SqliteContents
from oms_journal.broker.store.changes import Changes
from oms_journal.broker.store.master import Opened
from oms_journal.broker.store.start import (
    CommitRefused,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from oms_journal.broker.store.stored import FileRow, Loaded, of_sqlite
from oms_journal.database.options import system_clock
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import JournalError
from oms_journal.journal.operations import MIB
from oms_journal.journal.reserve import Reserve

AT_ONCE = 10_000  # messages and records loaded with one sync
RECLAIM_SECONDS = 10.0  # between two attempts on a full disk


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteOptions:
    """How the store is opened. Sizes in bytes."""

    limits: Limits = field(default_factory=Limits)
    reserve_bytes: int = 8 * MIB  # kept back for commits without messages on a full disk
    pages_max: int = 0  # in the file, 0 for no bound
    clock: Callable[[], int] = system_clock


def _identity(file: Path) -> tuple[int, int] | None:
    """Return what tells the file that a path leads to from every other; None where there is none to be seen."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class SqliteStore(StoreDriver, SqliteContents):
    """A broker's store in an SQLite file. Made by `open`."""

    def __init__(self, file: Path, connection: sqlite3.Connection, options: SqliteOptions) -> None:
        super().__init__(connection)
        self.file = file
        self._options = options
        self._reserve = Reserve(RealDisk(), file.parent, options.reserve_bytes, f"{file.name}.reserve")
        self._reserve.fill()
        self.place = str(file)
        self._identity = _identity(file)
        self.waited_seconds = 0.0
        self._is_lost = False
        self._is_loading = False
        self._loaded = 0  # messages and records
        self._reclaims = 0.0  # when that may be tried again
        self._commits = self._number("SELECT commits FROM counters")

    @classmethod
    def open(cls, file: str | Path, options: SqliteOptions | None = None, *, creates: bool = True) -> "SqliteStore":
        """Open the store in the file; made where `creates` says so. StartRefused."""
        path = Path(file).absolute()
        if not creates and not path.exists():
            raise no_store(path)
        chosen = options or SqliteOptions()
        try:
            RealDisk().make_directory(path.parent)
            if not path.exists():
                RealDisk().create(path).close()  # SQLite would let others read it; what it puts beside it is like it
            connection = open_file(path, pages_max=chosen.pages_max)
            try:
                RealDisk().sync_directory(path.parent)
                return cls(path, connection, chosen)
            except BaseException:
                connection.close()
                raise
        except (sqlite3.Error, OSError) as failure:
            raise not_opened(failure) from failure

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    @property
    def opened(self) -> Opened:
        return Opened()  # SQLite counts none, and is not backed up by us

    @property
    def is_taken_over(self) -> bool:
        return False  # its lock ends with its process, and nobody passes it

    # Writing.

    def commit_many(self, batch: Sequence[Changes]) -> list[int | StoreError]:
        with self._lock:
            if self._away:
                return [StoreUnavailable(self._away) for _ in batch]
            try:
                if all(changes.is_empty() for changes in batch):
                    self._check_there()
                    return [0 for _ in batch]
                if self._is_loading:
                    self._write_loaded()
                    self._is_loading = False
                if any(changes.adds for changes in batch) and not self._has_room():
                    return self._without_adds(batch, "the reserve is being used up")
                return self._carried_out(batch)
            except _Full as failure:
                return self._without_adds(batch, str(failure))
            except (StoreFull, StoreUnavailable) as failure:
                return [failure for _ in batch]

    def _carried_out(self, batch: Sequence[Changes]) -> list[int | StoreError]:
        """Carry out the batch in one transaction. _Full, StoreUnavailable: then nothing of it was done."""
        answers: list[int | StoreError] = []
        with self._transaction() as connection:
            for changes in batch:
                connection.execute("SAVEPOINT one")
                try:
                    now = self._options.clock()
                    answers.append(apply_changes(connection, changes, limits=self._options.limits, now=now))
                except (CommitRefused, JournalError, ValueError) as refusal:
                    connection.execute("ROLLBACK TO one")
                    answers.append(refusal if isinstance(refusal, CommitRefused) else CommitRefused(str(refusal)))
                connection.execute("RELEASE one")
        return answers

    def _without_adds(self, batch: Sequence[Changes], why: str) -> list[int | StoreError]:
        """Carry out the commits that add no message, from the reserve; the others are refused."""
        full = StoreFull(f"there is no room for messages in {self.file}: {why}")
        others = [changes for changes in batch if not changes.adds]
        answers: list[int | StoreError] = []
        while others:
            try:
                answers = self._carried_out(others)
                break
            except _Full:
                if not self._reserve.size():
                    answers = [full for _ in others]
                    break
                self._reserve.release(MIB)
            except StoreUnavailable as failure:
                answers = [failure for _ in others]
                break
        found = iter(answers)
        return [full if changes.adds else next(found) for changes in batch]

    def _has_room(self) -> bool:
        """Say whether messages may be added: not while the reserve is short, or they would use up what it keeps."""
        if not self._reserve.is_short or self._reserve.fill():
            return True
        if time.monotonic() < self._reclaims:
            return False
        self._reclaims = time.monotonic() + RECLAIM_SECONDS
        return self._reclaimed() and self._reserve.fill()

    def _reclaimed(self) -> bool:
        """Give pages that nothing needs any more back to the file system, as many as the reserve wants."""
        pages = 2 * self._options.reserve_bytes // PAGE_BYTES
        try:
            for statement in ("wal_checkpoint(TRUNCATE)", f"incremental_vacuum({pages})", "wal_checkpoint(TRUNCATE)"):
                self._connection.execute(f"PRAGMA {statement}").fetchall()
        except sqlite3.Error:  # there is no room for that either, or the next commit meets it
            return False
        return True

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction, durable when it is left. _Full; StoreUnavailable, and the store is lost."""
        connection = self._connection
        is_committing = False
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("UPDATE counters SET commits = commits + 1")
            is_committing = True
            began = time.perf_counter()
            connection.execute("COMMIT")
            self.waited_seconds += time.perf_counter() - began
            self._commits += 1
            self._check_there()
        except sqlite3.Error as failure:
            self._roll_back()
            if getattr(failure, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
                raise _Full(str(failure)) from failure
            self._is_lost = True
            self._away = f"the persistent store is lost: {failure}"
            raise StoreUnavailable(self._away, was_attempted=is_committing) from failure
        except BaseException:
            self._roll_back()
            raise

    def _check_there(self) -> None:
        """StoreUnavailable, and the store is lost, where the path leads to the file that is open no more.

        SQLite goes on with a file that has no name.
        """
        if _identity(self.file) != self._identity:
            self._is_lost = True
            self._away = f"the persistent store is lost: {self.file} was removed, renamed or replaced while it was open"
            raise StoreUnavailable(self._away, was_attempted=True)

    def _roll_back(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    # Reading is in `sqlite_contents.py`.

    def free_bytes(self) -> int | None:
        try:
            return RealDisk().free_bytes(self.file.parent)
        except OSError:
            return None

    def files(self) -> list[FileRow]:
        pages, free = self._number("PRAGMA page_count"), self._number("PRAGMA freelist_count")
        return [of_sqlite(self.file, page_bytes=PAGE_BYTES, pages=pages, free_pages=free)]

    # Loading and erasing.

    def load(self, record: Loaded) -> None:
        with self._lock:
            self.check_connected()
            try:
                if not self._is_loading and self.message_count():
                    raise not_empty(self.file)
                self._is_loading = True
                if not self._connection.in_transaction:
                    self._connection.execute("BEGIN IMMEDIATE")
                insert(self._connection, record, self._options.limits)
            except (JournalError, ValueError) as failure:
                raise CommitRefused(str(failure)) from failure
            except sqlite3.Error as failure:
                raise self._not_loaded(failure) from failure
            self._loaded += 1
            if self._loaded % AT_ONCE == 0:
                self._write_loaded()

    def _write_loaded(self) -> None:
        """Make durable what was loaded. StoreFull, StoreUnavailable."""
        if self._is_loading and self._connection.in_transaction:
            try:
                self._connection.execute("COMMIT")
            except sqlite3.Error as failure:
                raise self._not_loaded(failure) from failure

    def _not_loaded(self, failure: sqlite3.Error) -> StoreError:
        self._roll_back()
        is_full = getattr(failure, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
        return (StoreFull if is_full else StoreUnavailable)(f"the persistent store cannot be loaded: {failure}")

    def erase(self, kept: Mapping[str, bytes], *, numbers_too: bool = False) -> None:
        with self._lock:
            self.check_connected()
            self._write_loaded()
            while True:
                try:
                    with self._transaction() as connection:
                        for table in ("messages", "records", "producers"):
                            connection.execute(f"DELETE FROM {table}")
                        if numbers_too:
                            connection.execute("UPDATE counters SET next_number = 1")
                        rows = [(key.encode(), value) for key, value in kept.items()]
                        connection.executemany("INSERT INTO records VALUES (?, ?)", rows)
                    return
                except _Full as failure:
                    if not self._reserve.size():
                        raise StoreFull(str(failure)) from failure
                    self._reserve.release(MIB)

    # The store's life.

    def connect(self) -> None:
        with self._lock:
            if self._is_lost:
                self._go_on()
            self._is_lost, self._away = False, ""

    def _go_on(self) -> None:
        """Write over what was not acknowledged, in the same connection or, where that is broken, in a new one."""
        self._roll_back()
        self._check_there()
        try:
            self._prove()
            return
        except sqlite3.Error:
            pass
        try:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = open_file(self.file, pages_max=self._options.pages_max, creates=False)
            self._prove()
        except sqlite3.Error as failure:
            raise not_opened_again(failure) from failure

    def _prove(self) -> None:
        """Write something durably, having seen that nothing is there but what was acknowledged."""
        (found,) = self._connection.execute("SELECT commits FROM counters").fetchone()
        if found != self._commits:
            raise StoreUnavailable(
                f"{self.file} is not as this process left it: it has {found} commits, "
                f"{self._commits} were acknowledged; start this process anew"
            )
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("UPDATE counters SET commits = commits + 1")
        self._connection.execute("COMMIT")
        self._commits += 1

    def close(self) -> None:
        with self._lock:
            try:
                if not self._away:
                    self._write_loaded()
            finally:
                self._away = self._away or "the persistent store was closed"
                with contextlib.suppress(sqlite3.Error):
                    self._connection.close()


class _Full(Exception):
    """SQLite has found no room; the transaction was rolled back."""
