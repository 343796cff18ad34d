"""The message database as a broker's persistent store: PSTORE-TYPE=JOURNAL.

A commit of the broker is one commit of the database. A failed one leaves the store lost, until `connect` opens the
directory again; what was told as failed is cut then (`database/database.py`), so that what the broker said is true.
A full disk refuses commits with messages only.

What a decision asks the store to make durable, as the draft of one commit of the message database. Most are messages
of one queue, keys, and ranges of removed messages: these are drafted as they are, all others gathered in a block.
"""

import logging
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import merge
from operator import attrgetter
from pathlib import Path

from oms_journal.broker.drivers.driver import StoreDriver, no_store, not_empty, not_opened, not_opened_again
from oms_journal.broker.drivers.journal_contents import has_data, holds_back, identifiers_of, read_records, stored
from oms_journal.broker.store.changes import Changes, Put
from oms_journal.broker.store.master import Opened
from oms_journal.broker.store.start import (
    NOTHING_SAID,
    RESTORED_KEY,
    CommitRefused,
    MessageUnreadable,
    ProducerReused,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Values,
    is_brokers,
    read_mark,
)
from oms_journal.broker.store.stored import (
    FileRow,
    LastNumber,
    Loaded,
    StoredIdentifier,
    StoredMessage,
    StoredRecord,
    of_journal,
)
from oms_journal.database.bulk import values as bulk
from oms_journal.database.bulk.loading import load, load_identifiers, number_behind
from oms_journal.database.commits.drafting import Unit
from oms_journal.database.database import MessageDatabase, Reopening
from oms_journal.database.options import Options
from oms_journal.database.stats import CleanupReport, SyncStats
from oms_journal.index.duplicates import KnownIdentifier, Scope
from oms_journal.journal.disk import Disk, RealDisk
from oms_journal.journal.errors import (
    CannotContinue,
    CommitFailed,
    DatabaseClosed,
    DiskError,
    DiskFull,
    DuplicateConflict,
    JournalError,
    MessageDamaged,
    NoSuchMessage,
    NotAttempted,
    OutcomeUnknown,
    TakenOver,
)
from oms_journal.journal.reading.message import Message
from oms_journal.journal.writing.draft import Draft


def draft_of(database: MessageDatabase, changes: Changes) -> Draft:
    """Return the changes as one commit of the database. JournalError, ValueError."""
    draft = _unit(database, changes) if changes.producer is None else None
    return _gathered(database, changes) if draft is None else draft


def _unit(database: MessageDatabase, changes: Changes) -> Draft | None:
    """Return the draft of changes of the common form, None of any other."""
    adds, drops = changes.adds, changes.drops
    queue = adds[0].queue if adds else ""
    for message in adds:
        if message.properties or message.queue != queue:
            return None
    values = [(put.key.encode(), put.value, tuple(put.numbers_at.items())) for put in changes.puts]
    keys = [key.encode() for key in drops]
    if len(values) + len(keys) > 1 and len({*keys, *(value[0] for value in values)}) < len(values) + len(keys):
        return None
    payloads = [message.payload for message in adds]
    return database._drafting.unit(Unit(queue, payloads, changes.delivered, changes.deleted, values, keys))


def _gathered(database: MessageDatabase, changes: Changes) -> Draft:
    # Under one identifier each queue's part is known by itself, so that it is known as a part when it comes alone.
    is_by_queue = changes.producer is not None and len({message.queue for message in changes.adds}) > 1
    block = database._drafting.gathering(changes.producer, is_by_queue=is_by_queue)
    for message in changes.adds:
        block.add(message.queue, message.payload, properties=message.properties)
    for numbers in changes.delivered:
        block.deliver_many(numbers)
    for numbers in changes.deleted:
        block.delete_many(numbers)
    for put in changes.puts:
        block.put(put.key, put.value, numbers_at=put.numbers_at)
    for key in changes.drops:
        block.drop(key)
    return database._drafting.operations(block._operations)


_log = logging.getLogger("oms.broker")
ERASING_KEY = "store/erasing"  # there while an erasure goes on: the keys that stay, one a line
ERASED_AT_ONCE = 500_000  # operations of one commit
ROOM_SECONDS = 5.0  # that new units of work wait for a clean-up under way, when they are allowed again
LOADED_AT_ONCE = 1000  # messages and records
LOADED_BYTES = 8 << 20


class JournalStore(StoreDriver):
    """A broker's store in the directory of a message database. Made by `open`."""

    def __init__(self, database: MessageDatabase) -> None:
        self.directory = database.directory
        self.place = str(database.directory)
        self._database = database
        self._connecting = threading.Lock()  # one goes on at a time
        self._reopening: Reopening | None = None  # once the database was closed to be opened again
        self._is_lost = False  # a commit has failed
        self._reclaiming = threading.Lock()
        self._reclaimed_at = -1  # the commit behind which there was no room to be made
        self._messages: list[Message] = []  # loaded, and not written yet
        self._records: dict[str, bytes] = {}
        self._identifiers: dict[Scope, KnownIdentifier] = {}
        self._loaded_bytes = 0
        self._is_loading = False

    @classmethod
    def open(
        cls, directory: str | Path, options: Options | None = None, *, disk: Disk | None = None, creates: bool = True
    ) -> "JournalStore":
        """Open the directory, and finish an erasure that was begun; made where `creates` says so. StartRefused."""
        path, disk = Path(directory).absolute(), disk or RealDisk()
        if not creates and not has_data(disk, path):
            raise no_store(path)
        try:
            store = cls(MessageDatabase.open(path, options=options or Options(), disk=disk))
        except JournalError as failure:
            raise not_opened(failure) from failure
        for loss in store._database.recovery.lost:
            _log.error("LOST of the persistent store: %s from byte %d: %s", loss.name, loss.start, loss.reason)
        if (value := store.record(ERASING_KEY)) is not None:
            store._finish_erasing(value.decode().split("\n"))
        store._take_hold()
        return store

    def _take_hold(self) -> None:
        """Let the broker hold what the engine holds back: it would not hold units of work, but messages. StoreError."""
        if not holds_back(self._database._state()) or not is_brokers(self):
            return
        if read_mark(self.record, RESTORED_KEY) is None:
            self.commit(Changes(puts=[Put(RESTORED_KEY, NOTHING_SAID)]))
        try:
            self._database.unhold()
        except JournalError as failure:
            raise self._meaning(failure, self._database) from failure

    @property
    def opened(self) -> Opened:
        state = self._database._state()
        return Opened(state.database.hex(), state.owner)

    @property
    def waited_seconds(self) -> float:
        return self._database._group.waited_seconds

    @property
    def is_lost(self) -> bool:
        return self._is_lost or self._database._group.failure is not None

    @property
    def is_taken_over(self) -> bool:
        return isinstance(self._database._group.failure, TakenOver)

    # Writing.

    def commit_many(self, batch: Sequence[Changes]) -> list[int | StoreError]:
        if self._away:
            return [StoreUnavailable(self._away) for _ in batch]
        if self._is_loading:
            try:
                self._write_loaded()
            except StoreError as failure:
                return [failure for _ in batch]
            self._is_loading = False
        answers = self._carried_out(batch)
        refused = [place for place, answer in enumerate(answers) if isinstance(answer, StoreFull)]
        if refused and self._reclaimed():
            again = self._carried_out([batch[place] for place in refused])
            for place, answer in zip(refused, again, strict=True):
                answers[place] = answer
        return answers

    def _reclaimed(self) -> bool:
        """Let go of data files that nothing needs, and of those that little keeps; say whether there were any.

        It is tried again when something was committed since. What takes longer the database does beside the commits.
        """
        with self._reclaiming:
            group = self._database._group
            if group.acknowledged == self._reclaimed_at:
                return False
            try:
                return self._database._reclaim()
            except JournalError as failure:
                _log.warning("no room could be made in the persistent store: %s", failure)
                return False
            finally:
                self._reclaimed_at = group.acknowledged

    def _carried_out(self, batch: Sequence[Changes]) -> list[int | StoreError]:
        database = self._database
        drafts: list[Draft | StoreError | None] = []
        for changes in batch:
            try:
                drafts.append(None if changes.is_empty() else draft_of(database, changes))
            except (JournalError, ValueError) as failure:
                drafts.append(self._meaning(failure, database))
        wanted = [draft for draft in drafts if isinstance(draft, Draft)]
        nothing: int | StoreError = 0  # the answer to empty changes: only who has the store gives it
        try:
            database._check_open()
            if wanted:
                database._group.commit_many(wanted)
            if len(wanted) < len(batch):
                database._group.check_ours()
        except DatabaseClosed as failure:
            return [self._meaning(failure, database) for _ in batch]
        except NotAttempted as failure:
            nothing = self._meaning(failure, database)
        answers: list[int | StoreError] = []
        for draft, changes in zip(drafts, batch, strict=True):
            if not isinstance(draft, Draft):
                answers.append(nothing if draft is None else draft)
            elif draft.failure is not None:
                answers.append(self._meaning(draft.failure, database))
            else:
                answers.append(draft.first if changes.adds else 0)
        return answers

    def _meaning(self, failure: BaseException, database: MessageDatabase) -> StoreError:
        """Return what a failed commit means; a store that is lost stays so until `connect`."""
        if isinstance(failure, DiskFull):
            return StoreFull(str(failure))
        if isinstance(failure, DuplicateConflict):
            return ProducerReused(str(failure))
        if isinstance(failure, CommitFailed | DatabaseClosed):
            if database is self._database:  # and not one that was closed to be opened again
                self._is_lost = True
                self._away = self._away or f"the persistent store is lost: {failure.__cause__ or failure}"
            text = str(failure.__cause__ or failure)
            return StoreUnavailable(text, was_attempted=isinstance(failure, OutcomeUnknown))
        if isinstance(failure, DiskError):
            return StoreUnavailable(str(failure))
        if not isinstance(failure, JournalError | ValueError):
            raise failure
        return CommitRefused(str(failure))

    # Reading.

    def _readable(self) -> MessageDatabase:
        self.check_connected()
        return self._database

    def read(self, number: int) -> StoredMessage:
        try:
            return stored(self._readable().read(number))
        except (NoSuchMessage, MessageDamaged) as failure:
            raise MessageUnreadable(str(failure)) from failure
        except (DiskError, DatabaseClosed) as failure:
            raise StoreUnavailable(str(failure)) from failure

    def record(self, key: str) -> bytes | None:
        try:
            return self._readable().get(key)
        except MessageDamaged as failure:
            raise MessageUnreadable(str(failure)) from failure
        except (DiskError, DatabaseClosed) as failure:
            raise StoreUnavailable(str(failure)) from failure

    def records(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        try:
            yield from read_records(self._readable()._state(), prefix)
        except (DiskError, DatabaseClosed) as failure:
            raise StoreUnavailable(str(failure)) from failure

    def values(self, prefix: str) -> Iterator[Values]:
        try:
            for found in bulk.values(self._readable()._state(), prefix):
                yield Values(found.keys, found.values, found.damaged)
        except (DiskError, DatabaseClosed) as failure:
            raise StoreUnavailable(str(failure)) from failure

    def messages(self) -> Iterator[StoredMessage]:
        try:
            database = self._readable()  # what is held back counts here: nobody has received it
            yield from map(stored, merge(database.undelivered(), database.held(), key=attrgetter("number")))
        except (DiskError, DatabaseClosed) as failure:
            raise StoreUnavailable(str(failure)) from failure

    def identifiers(self) -> Iterator[StoredIdentifier]:
        yield from identifiers_of(self._readable()._state())

    def highest(self) -> int:
        return self._readable()._state().next_message - 1

    def is_empty(self) -> bool:
        return not self.message_count() and next(self._readable().keys(), None) is None

    def message_count(self) -> int:
        return self._readable().undelivered_count()

    def free_bytes(self) -> int | None:
        state = self._readable()._state()
        try:
            return state.disk.free_bytes(state.directory)
        except OSError:
            return None

    @property
    def is_full(self) -> bool:
        return not self._away and self._database._is_full

    def want_room(self) -> None:
        if not self._away:
            self._database._want_room()

    def make_room(self) -> None:
        if self._away:
            return
        try:
            self._database._reclaim(ROOM_SECONDS)
            if self._database._is_cramped:
                self._database._want_room()
        except JournalError as failure:
            _log.warning("no room could be made in the persistent store: %s", failure)

    def clean_up(self) -> CleanupReport:
        try:
            return self._readable().cleanup(compact=True)
        except JournalError as failure:
            raise StoreUnavailable(str(failure)) from failure

    def syncs(self) -> SyncStats:
        return self._database._syncs()

    def files(self) -> Sequence[FileRow]:
        try:
            return of_journal(self._readable()._state())
        except (DiskError, DatabaseClosed) as failure:
            raise StoreUnavailable(str(failure)) from failure

    # Loading and erasing.

    def load(self, record: Loaded) -> None:
        database = self._readable()
        if not self._is_loading and database.undelivered_count():
            raise not_empty(self.directory)
        self._is_loading = True
        match record:
            case StoredMessage():
                fields = (record.number, record.queue, record.payload, dict(record.properties), record.added)
                self._messages.append(Message(*fields, record.producer, 0, 0))
                self._loaded_bytes += len(record.payload)
            case StoredRecord():
                self._records[record.key] = record.value
                self._loaded_bytes += len(record.value)
            case StoredIdentifier():
                scope = record.queue.encode(), record.producer.encode()
                self._identifiers[scope] = KnownIdentifier(
                    record.first, record.messages, record.digest, record.added, 0
                )
            case LastNumber():
                self._write_loaded()
                self._end_numbers(database, record.number)
        if len(self._messages) + len(self._records) >= LOADED_AT_ONCE or self._loaded_bytes >= LOADED_BYTES:
            self._write_loaded()

    def _write_loaded(self) -> None:
        messages, records = self._messages, self._records
        if not messages and not records:
            return
        self._messages, self._records, self._loaded_bytes = [], {}, 0
        database = self._readable()
        try:
            load(database, messages, records)
        except (JournalError, ValueError) as failure:
            raise self._meaning(failure, database) from failure

    def _end_numbers(self, database: MessageDatabase, number: int) -> None:
        """Write what the numbers and identifiers of later messages depend on."""
        try:
            load_identifiers(database, self._identifiers)
            number_behind(database, number)
        except (JournalError, ValueError) as failure:
            raise self._meaning(failure, database) from failure

    def erase(self, kept: Mapping[str, bytes]) -> None:
        self._write_loaded()
        database = self._readable()
        try:
            with database.commit() as block:
                for key, value in kept.items():
                    block.put(key, value)
                block.put(ERASING_KEY, "\n".join(kept).encode())
        except JournalError as failure:
            raise self._meaning(failure, database) from failure
        self._finish_erasing(kept)

    def _finish_erasing(self, kept: Collection[str]) -> None:
        """Remove all that is left of what an erasure removes, and at last the key that says so."""
        database = self._database
        try:
            numbers = list(database.numbers())
            for start in range(0, len(numbers), ERASED_AT_ONCE):
                database.delete_many(numbers[start : start + ERASED_AT_ONCE])
            keys = [key for key in database.keys("") if key not in (*kept, ERASING_KEY)]
            for part in (*_parts(keys, ERASED_AT_ONCE), [ERASING_KEY]):
                with database.commit() as block:
                    for key in part:
                        block.drop(key)
            database.cleanup()
        except JournalError as failure:
            raise self._meaning(failure, database) from failure

    # The store's life.

    def connect(self) -> None:
        with self._connecting:
            if self._is_lost:
                self._database = self._opened_again()
                self._is_lost, self._reopening = False, None
            self._away = ""

    def _opened_again(self) -> MessageDatabase:
        """Return the database opened again: it holds what was told durable, and nothing else."""
        try:
            self._reopening = self._reopening or Reopening(self._database)
            database = self._reopening.attempt()
        except CannotContinue as failure:
            self._away = str(failure)
            raise StoreUnavailable(self._away) from failure
        except JournalError as failure:
            raise not_opened_again(failure) from failure
        for loss in database.recovery.lost:
            _log.error("LOST of the persistent store: %s from byte %d: %s", loss.name, loss.start, loss.reason)
        return database

    def close(self) -> None:
        try:
            if not self._away:
                self._write_loaded()
        finally:
            try:
                self._database.close()
            except JournalError as failure:  # the next start seals what could not be sealed
                _log.warning("the persistent store was not closed well: %s", failure)


def _parts(keys: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]
