"""The message database: one object to open, use, close.

Every method may be called from any thread; commits of many threads share syncs. Names are 1 to 255 bytes of
UTF-8, properties and values at most 64 KiB, a commit at most 1 GiB + 1 MiB and a million operations.

A name with an underscore is for the layers of the engine and of the broker, which share one package: `dir()` of what a
user holds shows nothing that the reference does not name.

After a fork the child's copy of every open database is closed: the directory stays the parent's.

A database that failed, opened again in the same process: what it had not acknowledged is cut.

    again = Reopening(database)     # closes it
    database = again.attempt()      # DiskError: try later; CannotContinue: never

Whoever was told OutcomeUnknown or NotAttempted may then take the commit for not done: it is not there, and does not
come back. See `recovery/continuation.py` for when that cannot be had.
"""

import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Unpack

from oms_journal.database import queries, stats
from oms_journal.database.arguments import (
    MESSAGES,
    NUMBERS_MAX,
    Number,
    Payload,
    asked_queue,
    encodable_text,
    every,
    flag,
    message_number,
    message_numbers,
    named_queue,
    plain_text,
    positive_count,
    shown,
)
from oms_journal.database.cleanup import Cleanup, CleanupContext
from oms_journal.database.commits.added import Added, AddedMany, added_number, added_numbers
from oms_journal.database.commits.block import CommitBlock, Operations
from oms_journal.database.commits.drafting import Drafting, removed_count
from oms_journal.database.commits.encode import Encoder
from oms_journal.database.commits.ledger import Ledger, StaleDraft
from oms_journal.database.commits.limited import LimitedDrafting, LimitedLedger, write_in_turn
from oms_journal.database.commits.terms import Time, new_terms
from oms_journal.database.consumers.consumers import Consumers, Taken, TakenMessage, leased_message, receipts_of
from oms_journal.database.consumers.consuming import Consuming, Taking
from oms_journal.database.consumers.dead_letters import requeued
from oms_journal.database.consumers.hand_file import (
    COUNTED_KEY,
    NOTHING_LEFT,
    HandFile,
    decode_counted,
    forget,
    in_hand,
)
from oms_journal.database.consumers.handing import Handing
from oms_journal.database.consumers.returns import EXPIRED_MAX, Returns
from oms_journal.database.consumers.waiting import (
    delay_seconds,
    known_queue_names,
    lease_microseconds,
    queue_names,
    waiting_seconds,
)
from oms_journal.database.holds import Holds
from oms_journal.database.lookup import SealedIndex
from oms_journal.database.maintenance import Maintenance, SlowSyncs
from oms_journal.database.options import NamedOptions, Options, steady_clock
from oms_journal.database.reading import Files, read_known, read_one
from oms_journal.database.stats import CleanupReport, FileExplanation, Stats, SyncStats
from oms_journal.index.table import NUMBER_MAX, MessageLocation, Numbers
from oms_journal.journal.disk import Disk, RealDisk
from oms_journal.journal.errors import CannotContinue, Contention, DatabaseClosed, JournalError, MessageDamaged
from oms_journal.journal.format.frames import OPERATIONS_MAX
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.message import Message
from oms_journal.journal.writing.draft import CommitBuilder, Draft
from oms_journal.journal.writing.group_commit import GroupCommit
from oms_journal.journal.writing.log import Journal
from oms_journal.recovery import findings, place
from oms_journal.recovery.continuation import Continuation
from oms_journal.recovery.report import RecoveryReport
from oms_journal.recovery.startup import StartResult, start
from oms_journal.recovery.validation import Progress, no_progress

_open: "list[weakref.WeakMethod[Callable[[], None]]]" = []
_registered = False


def close_in_children(close: "weakref.WeakMethod[Callable[[], None]]") -> None:
    """Have the method called in every child that is forked from now on, while its object lives."""
    global _registered
    if not _registered:
        os.register_at_fork(after_in_child=_close_all)
        _registered = True
    _open[:] = [one for one in _open if one() is not None]
    _open.append(close)


def _close_all() -> None:
    for one in _open:
        close = one()
        if close is not None:
            close()


_log = logging.getLogger("oms.database")
REMOVAL_ATTEMPTS_MAX = 100
EXPIRED_MESSAGES_MAX = 100_000  # deleted in one commit


class MessageDatabase:
    """A durable store of messages and keyed state in one directory. You make it with `open`.

    with MessageDatabase.open("spool") as db:
        number = db.add("orders", b"...")  # durable on return
        for message in db.undelivered("orders"):
            db.deliver(message)
    """

    _is_room_wanted = False  # somebody has asked for it
    _looked_for_room = -1  # as of which commit

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError('a database is opened, not constructed: write MessageDatabase.open("directory")')

    def _begin(self, disk: Disk, directory: Path, options: Options, started: StartResult) -> None:
        self.directory = directory
        self.options = options
        self.recovery: RecoveryReport = started.report
        self.cleaned_at_start = CleanupReport()
        self._disk = disk
        self._ownership = started.ownership
        started.index.settle_terms(options.clock())
        self._consumers = Consumers(started.index, options._dead_letters(), options._moment)
        limits = options._limits()
        if limits is None:
            self._ledger = Ledger(started.index, self._consumers, options._ahead)
            encoder = Encoder(self._ledger, options.max_message_size)
            self._drafting = Drafting(self._ledger, encoder, options.clock, options._moment)
        else:
            self._ledger = ledger = LimitedLedger(started.index, self._consumers, options._ahead, limits)
            encoder = Encoder(self._ledger, options.max_message_size)
            self._drafting = LimitedDrafting(ledger, encoder, options.clock, options._moment)
        self._ledger.follow_clock()
        self._encode = self._drafting.encode
        self._files = Files(disk, directory)
        clocks = options.clock, options.steady or steady_clock
        self._returns = Returns(self._ledger, self._encode, self._write, self.read, clocks)
        self._handing = Handing(
            ledger=self._ledger,
            check=lambda: self._readable,
            files=self._files,
            find=self._find,
            returns=self._returns,
            steady=clocks[1],
        )
        self._first_sequence = started.opening.next_sequence  # no file of ours is older
        self._journal = Journal(disk, directory, started.opening, options._journal())
        self._group = GroupCommit(self._journal, self._ledger, self._ownership.is_ours, self._ownership.witness)
        self._consumers.is_idle = lambda: self._group.is_idle
        self._holds = Holds(self._ledger, self._consumers, self._write)
        context = CleanupContext(
            state=self._state,
            write=self._write,
            holding=self._holds,
            journal=self._journal,
            options=options,
            started=started,
        )
        self._cleanup = Cleanup(context)
        self._slow_syncs = SlowSyncs(
            options.slow_sync, lambda: self._group.waiting_since, str(directory), options.on_slow_sync
        )
        self._maintenance = Maintenance(
            maintain=self._maintain,
            needs_maintenance=lambda: self._journal.needs_maintenance or started.index.duplicates.is_set,
            vouch=self._vouch,
            needs_vouching=lambda: self._journal.needs_vouching,
            renew=self._ownership.renew,
            taken_over=self._group.fence,
            clean_up=self._clean_up,
            make_room=self._make_room,
            needs_room=lambda: self._needs_room,
            end_expired=self._end_expired,
            has_expired=self._has_expired,
            cleanup_seconds=options.cleanup_interval,
            renew_seconds=options.renew_interval,
            slow_syncs=self._slow_syncs if options.slow_sync else None,
        )
        self._index = SealedIndex(disk, directory, started.ownership.number, started.sealed)
        self._journal.wake = self._maintenance.wake
        self._journal.on_sealed(self._index.take)
        self._closing = threading.RLock()  # guards the end, and maintenance's beginning; a handler may close too
        self._is_closed = self._is_ready = False  # ready: open, and maintenance is at work
        self._is_ending = self._has_ended = False
        self._end = self._closed()
        close_in_children(weakref.WeakMethod(self._abandon))

    @classmethod
    def open(
        cls,
        directory: str | Path,
        *,
        options: Options | None = None,
        disk: Disk | None = None,
        progress: Progress = no_progress,
        **named: Unpack[NamedOptions],
    ) -> "MessageDatabase":
        """Recover the directory and open it.

        `named` are options. You may write sizes as "25M" and durations as "30m". The call makes the directory when it
        is missing.

        It raises DatabaseLocked when another opening has the directory. It raises NotADatabase when the directory holds
        other files (unless `create`). RecoveryRefused, NotThisDatabase, NewerFormat and DiskError are possible too. It
        raises ValueError or TypeError for an argument or option that is not valid.

        The database makes space ready ahead of commits. So from its first commit on an open database takes twice
        `max_data_file_size` and a little more of the disk (52 MB by default). After a crash the message numbers go on
        2^31 higher, so that no number is given twice. Keep numbers in 8 bytes.
        """
        chosen = Options._chosen(options, named)
        if not callable(progress):
            raise TypeError(f"progress must be a function, not {shown(progress)}")
        if disk is not None and not callable(getattr(disk, "open_lock", None)):
            raise TypeError(f"disk must be a Disk, not {shown(disk)}")
        disk, path = disk or RealDisk(), place.directory_of(directory)
        return cls._begun(disk, path, chosen, start(disk, path, chosen._recovery(progress)))

    @classmethod
    def _begun(cls, disk: Disk, directory: Path, options: Options, started: StartResult) -> "MessageDatabase":
        """Return the database of a directory that was started."""
        database = cls.__new__(cls)
        database._begin(disk, directory, options, started)
        for note in database.recovery.notes:
            _log.warning("%s", note)
        database._index.write()
        try:
            if (options.is_shared or options.passing is not None) and started.ownership.number > 1:
                database._group.begin_file()
            database._holds.settle(disk, directory)
            database._begin_again()
        except BaseException:
            database.close()
            raise
        try:
            database.cleaned_at_start = database._cleanup.at_start()
            if database._is_full and database.cleaned_at_start.freed_bytes:
                database._journal.maintain()
        except JournalError as failure:
            _log.warning("clean-up at start: %s", failure)
        if started.index.terms is not None:
            database._check_open()  # so that what expires is deleted though nobody commits
        with contextlib.suppress(JournalError):  # then the next start tells it again
            findings.handed_over(disk, directory, started.kept)
        return database

    def _begin_again(self) -> None:
        """Go on with what came back to the opening before this one, and with what was in hand where it died."""
        disk, directory, owner = self._disk, self.directory, self._ownership.number
        if not self._consumers.dead_letters.count_attempts:
            self._handing.begin_again(NOTHING_LEFT, None)  # the file stays for the next opening that counts attempts
            return
        left = in_hand(disk, directory, owner)
        if left.owner and left.owner <= self._counted_owner():
            left = NOTHING_LEFT
        self._handing.begin_again(left, HandFile(disk, directory, owner, self._ownership.is_surely_ours))
        forget(disk, directory)  # what it said is in the journal by now

    def _counted_owner(self) -> int:
        """Return the owner number of the last opening whose death was counted; of any, where that cannot be read."""
        try:
            return decode_counted(queries.get(self._ledger, self._files, COUNTED_KEY))
        except MessageDamaged as failure:
            _log.warning("%s: it may tell of a death that was not counted", failure)
            return NUMBER_MAX

    def __enter__(self) -> "MessageDatabase":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Seal the last file and let go of the directory. Idempotent.

        After a failed commit the call only lets go. It raises DiskError when it cannot seal the file, or note its end.
        The database is closed all the same, and nothing that was acknowledged is lost.
        """
        with self._closing:
            if self._has_ended or self._is_ending:
                return
            self._is_ending, self._is_closed, self._is_ready = True, True, False
            try:
                self._ledger.end_waits()
                self._let_go()
            finally:
                self._is_ending = False

    def _let_go(self) -> None:
        """Do what closing is; where an interrupt has cut it off, the next close does the rest."""
        self._handing.end()
        self._maintenance.stop()
        known = self._group.failure
        try:
            if self._group.failure is None:
                self._returns.write(self._group.commit)
            if self._journal.needs_vouching and self._group.failure is None:
                self._group.commit(CommitBuilder().draft())
            self._group.end(self._end)
            closed = self._journal.close(seal=self._group.failure is self._end and self._ownership.is_surely_ours())
            if closed is not None:
                self._ownership.witness_end(closed)
        finally:
            if (hand := self._consumers.hand) is not None:
                hand.close()
            self._files.close()
            self._ownership.close()
            self._has_ended = True
        failure = self._group.failure
        if failure is not known and failure is not None and not isinstance(failure, JournalError | OSError):
            raise failure  # a signal's handler raised it while the last commit was written

    def _abandon(self) -> None:
        """Let go in the child of a fork: files and lock stay the parent's.

        No lock is taken: the thread that had it at the fork is not in the child, and would hold it for ever.
        """
        self._is_closed, self._is_ready, self._has_ended = True, False, True
        self._closing = threading.RLock()
        self._ledger.lock = threading.Lock()
        self._handing.abandon()
        self._ownership.close()
        self._journal.abandon()
        self._files = Files(self._disk, self.directory)

    # Writing.

    def _write(self, draft: Draft) -> Draft:
        """Commit a draft, and return it, or raise its failure."""
        if not self._is_ready:
            self._check_open()
        self._group.commit(draft)
        if draft.failure is not None:
            raise draft.failure
        return draft

    def _check_open(self) -> None:
        """Raise DatabaseClosed after close, and start maintenance before the first commit."""
        if self._is_closed:
            raise self._closed()
        if not self._maintenance.is_started:
            with self._closing:
                if not self._maintenance.is_started and not self._is_closed:
                    self._maintenance.start()
                    self._is_ready = True

    def _closed(self) -> DatabaseClosed:
        return DatabaseClosed(f"{self.directory} was closed")

    def _clean_up(self) -> None:
        self._cleanup.run(compact=None, dry_run=False)
        self._index.write(self._journal.low_water)

    @property
    def _is_full(self) -> bool:
        """Whether the database refuses additions since the disk is full, as far as it knows."""
        return self._journal.is_full

    @property
    def _needs_room(self) -> bool:
        """Whether room is wanted, and a commit since the last attempt may have left something to let go of."""
        return (self._is_full or self._is_room_wanted) and self._group.acknowledged != self._looked_for_room

    def _reclaim(self, patience_seconds: float = 0.0) -> bool:
        """Let go of data files that hold nothing needed, or only a little. Return whether there were any.

        You can call it while a caller waits: it takes a moment. If another clean-up is running, the call waits for it
        up to `patience_seconds`, and returns False if that one has not ended. `want_room` is for what takes longer.
        """
        self._check_open()
        report = self._cleanup.run_soon(patience_seconds)
        return bool(report.deleted or report.moved)

    @property
    def _is_cramped(self) -> bool:
        """Whether there is no room for another data file, the reserve filled."""
        return self._cleanup.is_cramped

    def _want_room(self) -> None:
        """Ask for a clean-up with compaction. It runs soon, at most once in some seconds."""
        self._check_open()
        self._is_room_wanted = True

    def _make_room(self) -> None:
        """Clean up with compaction since room is wanted, and keep back again what that was paid from."""
        self._is_room_wanted = False
        report = self.cleanup(compact=True)
        self._journal.maintain()
        self._looked_for_room = self._group.acknowledged
        if report.deleted or report.moved:
            _log.info("made room in %s: %s bytes freed", self.directory, f"{report.freed_bytes:,}")

    def _maintain(self) -> None:
        if self._ledger.index.duplicates.is_set:
            self._cleanup.carry_identifiers()
        self._journal.maintain()

    def _vouch(self) -> None:
        self._write(CommitBuilder().draft())

    def _has_expired(self) -> bool:
        """Say whether messages have expired by now. A look without the lock: the next one sees what this one misses."""
        if self._ledger.index.terms is None:
            return False
        with self._ledger.lock:
            self._consumers.catch_up()
            terms = self._ledger.index.terms
            return terms is not None and bool(terms.expired)

    def _end_expired(self) -> None:
        """Delete the messages that have expired, many in one commit, or move them where their queue says so.

        While the disk is full a move raises DiskFull, and what it was to move stays. Deleting comes first: it has room.
        """
        dead = self._consumers.dead_letters
        while numbers := self._first_expired(EXPIRED_MESSAGES_MAX, lambda queue: not dead.take_expired(queue)):
            self._remove(Operation.DELETE, numbers)
        for name in [name for name in dead.named if dead.take_expired(name)]:
            while numbers := self._first_expired(EXPIRED_MAX, name.__eq__):
                if not self._returns.move_expired(name, numbers):
                    break  # somebody removes one at the same time: the next look does the rest

    def _first_expired(self, count: int, is_meant: Callable[[str], bool]) -> list[int]:
        """Return about so many messages that have expired in the queues that are meant; [] for none."""
        with self._ledger.lock:
            terms, queues = self._ledger.index.terms, self._ledger.index.table.queues
            if terms is None:
                return []
            return terms.first_expired(count, [place for place in terms.expired if is_meant(queues.name(place))])

    def add(  # noqa: PLR0913 - named, and most callers need none
        self,
        queue: str,
        payload: Payload,
        *,
        properties: Mapping[str, str] | None = None,
        producer_id: str | None = None,
        wait: float | None = None,
        delay: float | None = None,
        at: Time | None = None,
        expires: Time | None = None,
        group: str | None = None,
    ) -> Added:
        """Add a message, and return its number. The message is durable on return.

        If you repeat a producer identifier, nothing is added. You get the number of the first message, and its
        `is_repeat` is true. That message may have been delivered since. Numbers ascend and take 8 bytes. After a crash
        they leave out 2^31 numbers.

        If the queue has a limit and is full, the call raises QueueFull. With `wait` it first waits so many seconds for
        room. Who has waited longest comes first. `close` ends the wait with DatabaseClosed.

        `take` hands the message out after `delay` seconds, or from the time `at` on. That is a datetime with a time
        zone, or seconds since 1970-01-01 UTC as `time.time` gives them. Until then the message counts as undelivered.

        The message expires after `expires` seconds, or at a time that is a datetime with a time zone. Then `take` does
        not hand it out any more, it does not count as undelivered, and the database deletes it within a minute. Where
        its queue says so (`QueueOptions`), it moves to the dead letters. Who has it at that moment may still deliver
        it.

        Messages of one queue with the same `group`, 1 to 255 bytes of UTF-8, are handed out one after another, in the
        order of their numbers. The next one is handed out when the one before is gone: delivered, deleted or expired.

        Seconds go by a clock that nobody sets, and points in time by the clock of the machine. When you open the
        database again, that clock decides about both.

        Raises InvalidName, LimitExceeded, QueueFull, DuplicateConflict, DiskFull, OutcomeUnknown, TypeError and
        ValueError.
        """
        if delay is not None or at is not None or expires is not None or group is not None:
            draft = self._drafting.add(
                queue,
                payload,
                properties,
                producer_id,
                lambda: new_terms(self.options._moment, delay, at, expires, group),
            )
        else:
            draft = self._drafting.add(queue, payload, properties, producer_id)
        if wait is not None:
            draft = self._write_in_turn(draft, wait)
        else:  # as `_write`, without its call: most commits come this way
            if not self._is_ready:
                self._check_open()
            self._group.commit(draft)
            if draft.failure is not None:
                raise draft.failure
        return Added(draft.first) if draft.answer.__class__ is int else added_number(draft)

    def add_many(  # noqa: PLR0913 - named, and most callers need none
        self,
        queue: str,
        payloads: Iterable[Payload],
        *,
        properties: Iterable[Mapping[str, str] | None] | None = None,
        producer_id: str | None = None,
        wait: float | None = None,
        delay: float | None = None,
        at: Time | None = None,
        expires: Time | None = None,
        group: str | None = None,
    ) -> AddedMany:
        """Add all that an iterable gives in one commit, and return the numbers, like a range.

        One producer identifier covers them all. If you repeat it, nothing is added. You get the numbers of the first
        time, and their `is_repeat` is true.

        The call consumes the payloads before it writes anything. If you give properties, it consumes those too, and
        there must be as many. It writes nothing for an empty iterable.

        `wait` is as in `add`: the call waits until there is room for all of them. If there are more than the queue may
        hold, it raises LimitExceeded at once. `delay`, `at`, `expires` and `group` are those of each of the messages.

        It raises what `add` raises, and what the iterables raise. It raises ValueError when there are more or fewer
        properties than payloads.
        """
        draft = self._drafting.add_many(
            queue,
            payloads,
            properties,
            producer_id,
            lambda: new_terms(self.options._moment, delay, at, expires, group),
        )
        if draft is not None:
            if wait is None:
                self._write(draft)
            else:
                draft = self._write_in_turn(draft, wait)
        return added_numbers(draft)

    def _write_in_turn(self, draft: Draft, wait: float) -> Draft:
        return write_in_turn(self._ledger, draft, waiting_seconds(wait), self._write)

    def commit(self, *, producer_id: str | None = None) -> CommitBlock:
        """Return a block that gathers operations. When you leave the block, it commits them as a whole."""
        return self._drafting.block(self._write_operations, producer_id)

    def _write_operations(self, operations: Operations) -> AddedMany:
        draft = self._drafting.operations(operations)
        receipts = operations.receipts
        self._handing.settle(receipts)
        try:
            for _ in range(REMOVAL_ATTEMPTS_MAX):
                try:
                    self._write(draft)
                    break
                except StaleDraft:  # a message that it ends has come back since it was drafted
                    draft = self._drafting.operations(operations)
            else:
                raise contended()
        except JournalError as failure:
            if receipts:
                self._handing.unsettle(receipts, failure)
            raise
        return added_numbers(draft)

    def deliver(self, number: Number) -> bool:
        """Note that a consumer has acknowledged a message. You name it by its number, or pass the message.

        Durable on return.

        Returns False when the message was not undelivered. Then nothing is written. (A commit block raises
        NotUndelivered instead, because it must not write its other operations without this one.)

        If you pass a message that you took with a lease, the lease must not have ended when you call: else the call
        raises LeaseEnded and writes nothing. From then on the lease does not end. A number proves nothing, and asks for
        no lease.
        """
        if type(number) is TakenMessage:
            return bool(self._remove_taken(Operation.DELIVER, (number,)))
        return bool(self._remove(Operation.DELIVER, (message_number(number),)))

    def delete(self, number: Number) -> bool:
        """Remove an undelivered message, named by its number or passed itself.

        Returns False when it was not undelivered. Raises LeaseEnded as `deliver` does.
        """
        if type(number) is TakenMessage:
            return bool(self._remove_taken(Operation.DELETE, (number,)))
        return bool(self._remove(Operation.DELETE, (message_number(number),)))

    def deliver_many(self, numbers: Iterable[Number]) -> int:
        """Deliver messages in one commit, and return how many of them were undelivered.

        If the lease on one of the messages that you pass has ended, the call raises LeaseEnded and delivers none.
        """
        return self._remove_taken(Operation.DELIVER, every(numbers, "numbers", MESSAGES, NUMBERS_MAX))

    def delete_many(self, numbers: Iterable[Number]) -> int:
        """Delete messages in one commit, and return how many of them were undelivered. Raises LeaseEnded likewise."""
        return self._remove_taken(Operation.DELETE, every(numbers, "numbers", MESSAGES, NUMBERS_MAX))

    def _remove_taken(self, kind: Operation, given: Sequence[object]) -> int:
        """Remove messages, those among them that say themselves in whose hands they are only while they are there."""
        numbers = message_numbers(given)
        receipts = receipts_of(given)
        if not receipts:
            return self._remove(kind, numbers)
        self._handing.settle(receipts)
        try:
            count = self._remove(kind, numbers)
        except JournalError as failure:
            self._handing.unsettle(receipts, failure)
            raise
        for message in receipts:
            message._holding = None
        return count

    def purge(self, queue: str) -> int:
        """Delete all undelivered messages of a queue, as they are at the time of the call, and return how many.

        What others have taken goes too, and what is held back. Whoever delivers it then is told False. What is added
        meanwhile stays.

        A million messages go in one commit. More go in several, and an error or an interrupt leaves those done that
        came before it.

        Raises InvalidName, TypeError, and Contention.
        """
        name = named_queue(queue)
        numbers = queries.undelivered_numbers(self._readable, name)
        parts = range(0, len(numbers), OPERATIONS_MAX)
        return sum(self._purge(name, numbers[start : start + OPERATIONS_MAX]) for start in parts)

    def _purge(self, queue: str, numbers: Numbers) -> int:
        for _ in range(REMOVAL_ATTEMPTS_MAX):
            draft = self._drafting.purge(queue, numbers)
            if draft is None:
                return 0
            try:
                self._write(draft)
            except StaleDraft:
                continue
            return removed_count(draft)
        raise contended()

    def _remove(self, kind: Operation, numbers: Sequence[int]) -> int:
        self._check_open()
        for attempt in range(REMOVAL_ATTEMPTS_MAX):
            draft = self._drafting.removal(kind, numbers, again=attempt > 0)
            if draft is None:
                return 0
            try:
                self._write(draft)
            except StaleDraft:
                continue
            return removed_count(draft)
        raise contended()

    def put(self, key: str, value: Payload) -> None:
        """Set a key to a value. The value is durable on return."""
        with self.commit() as block:
            block.put(key, value)

    def drop(self, key: str) -> bool:
        """Remove a key. Returns False when the key was not there."""
        self._check_open()
        if not self._drafting.has_key(key):
            return False
        with self.commit() as block:
            block.drop(key)
        return True

    # Reading.

    @property
    def _counted(self) -> Ledger:
        """The ledger, as time has made it by now; errors as `_readable`."""
        ledger = self._readable
        if ledger.index.terms is not None:
            with ledger.lock:
                self._consumers.catch_up()
        return ledger

    @property
    def _readable(self) -> Ledger:
        """The ledger, to be asked; DatabaseClosed after close, CannotContinue where it has half of a commit."""
        if self._is_closed:
            raise self._closed()
        if self._ledger.is_cut:
            raise CannotContinue(
                "an interrupt came while a commit was made visible: close the database and open it again"
            )
        return self._ledger

    def read(self, number: Number) -> Message:
        """Return an undelivered message. Raises NoSuchMessage and MessageDamaged."""
        known = message_number(number)
        return read_known(self._files, known, self._find)

    def _find(self, number: int) -> MessageLocation | None:
        return queries.find(self._readable, number)

    def get(self, key: str) -> bytes | None:
        """Return the latest value of a key, or None when there is no such key.

        Raises MessageDamaged when the value is lost.
        """
        return queries.get(self._readable, self._files, self._encode.key(key))

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield the keys that begin with the prefix, in order, as they were at the time of the call."""
        return queries.keys(self._readable, encodable_text(prefix, "prefix"))

    def undelivered(self, queue: str | None = None) -> Iterator[Message]:
        """Yield the undelivered messages of a queue, or of all queues, in order, as they were at the time of the call.

        The call reserves nothing. It logs and skips messages that it cannot read any more. It also skips messages that
        are held back.
        """
        return queries.undelivered(self._counted, self._files, asked_queue(queue))

    def undelivered_count(self, queue: str | None = None) -> int:
        """Return how many messages of a queue, or of all queues, are undelivered."""
        return queries.undelivered_count(self._counted, asked_queue(queue))

    def numbers(self, queue: str | None = None) -> Iterator[int]:
        """Yield the numbers of the undelivered messages of a queue, or of all queues, in order."""
        return queries.numbers(self._counted, asked_queue(queue))

    def ready_count(self, queue: str) -> int:
        """Return how many messages of a queue can be handed out now.

        These are the undelivered ones, without those that are taken, put off, or held back.
        """
        name = named_queue(queue)
        with self._readable.lock:
            self._consumers.advance(self._handing.steady())
            return self._consumers.ready_count(name)

    def oldest_age(self, queue: str) -> float | None:
        """Return how many seconds ago the oldest undelivered message of a queue was added. None when there is none.

        The oldest is the one with the lowest number. It counts when it is taken or held back, too. One that cannot be
        read is logged and passed over. The age goes by the clock, and is not below 0.
        """
        return queries.oldest_age(self._readable, self._files, named_queue(queue), self.options.clock)

    def queues(self) -> dict[str, int]:
        """Return how many messages are undelivered in each queue that has any."""
        return queries.queues(self._counted)

    def take(self, queue: str | Sequence[str], *, wait: float = 0.0, lease: float | None = None) -> Message | None:
        """Hand the queue's next message to you only, until you release or remove it. Returns None when there is none.

        With `wait` the call waits up to so many seconds for a message, `math.inf` for as long as it takes. Those who
        wait are served in turn, threads and tasks together. If you close the database, each of them raises
        DatabaseClosed.

        If you name several queues, you get the next message of the first one that has any.

        With `lease` the message is yours for so many seconds, by a clock that nobody sets. Then the next caller gets
        it. `deliver`, `release` and `extend` of a message whose lease has ended raise LeaseEnded and change nothing.

        If an exception leaves the call, an interrupt included, the database takes the message back. If it cannot read a
        message, it logs that, and skips the message until you open the database again.

        Raises InvalidName, TypeError, ValueError, DatabaseClosed and DiskError.
        """
        if wait != 0:
            wait = waiting_seconds(wait)
        if lease is not None or queue.__class__ is not str:
            asked = queue_names(queue)
            return self._handing.take(asked, wait, None if lease is None else lease_microseconds(lease))
        place = None
        try:
            while True:
                ledger = self._readable if self._is_closed else self._ledger
                with ledger.lock:
                    place = self._consumers.take(queue)
                if place is None:
                    return self._handing.take_waiting((queue,), wait, None) if wait else None
                found = read_one(self._files, place.number, self._find, place)
                if found.__class__ is Message and not ledger.index.returned.entries:
                    return found
                if isinstance(found, Message):
                    return self._handing.with_attempts(found)
                if found is not None:
                    _log.error("%s", found)
        except BaseException:
            if place is not None:
                self._handing.give_back((place.number,))
            raise

    def peek(self, queue: str) -> Message | None:
        """Return the message that `take` would hand out next, and do not take it. Returns None when there is none.

        Another caller may take it in the next moment. A message that cannot be read is logged and skipped, as `take`
        does.

        Raises InvalidName, TypeError and DiskError.
        """
        name = named_queue(queue)
        while True:
            with self._readable.lock:
                self._consumers.advance(self._handing.steady())
                place = self._consumers.peek(name)
            if place is None:
                return None
            found = read_one(self._files, place.number, self._find, place)
            if isinstance(found, Message):
                return found
            if found is not None:
                _log.error("%s", found)
                with self._readable.lock:
                    self._consumers.pass_over(place.number, name)

    def take_many(self, queue: str, count: int, *, wait: float = 0.0, lease: float | None = None) -> list[Message]:
        """Hand the queue's next messages to you only, at most `count`, in order. Returns [] when there is none.

        With `wait` the call waits up to so many seconds for the first of them. Then it returns what is there.

        As `take`: `lease` is the time for which they are yours. If an exception leaves the call, the database takes all
        of them back, and it skips what it cannot read.

        Raises InvalidName, TypeError, ValueError for a count below 1, DatabaseClosed and DiskError.
        """
        name, wanted, seconds = plain_text(queue, "queue"), positive_count(count, "count"), waiting_seconds(wait)
        return self._handing.take_many(name, wanted, seconds, None if lease is None else lease_microseconds(lease))

    def consume(self, queue: str | Sequence[str], *, lease: float | None = None) -> Iterator[Message]:
        """Go through the messages of a queue, and wait for the next one, until the database is closed.

            for message in db.consume("orders"):
                ...
                db.deliver(message)

        It never delivers by itself. When the body goes on to the next message, or is left by break, return or an
        exception, a message that it has neither delivered nor released is given back at once.

        `queue` and `lease` are as those of `take`.
        """
        queues, until = known_queue_names(queue), None if lease is None else lease_microseconds(lease)
        return Consuming(lambda wait: self._handing.take(queues, wait, until), self._handing)

    def taking(
        self, queue: str | Sequence[str], *, wait: float = 0.0, lease: float | None = None
    ) -> contextlib.AbstractContextManager[Message | None]:
        """Take one message for a `with` block. It is delivered at the end of the block, and durable then.

            with db.taking("orders", wait=10) as message:
                ...

        If an exception leaves the block, the message is given back. So it is where the delivery at the end raises, but
        for OutcomeUnknown. `message` is None when there was none. What the block has released stays released.

        `queue`, `wait` and `lease` are as those of `take`. The end of the block raises LeaseEnded and what `deliver`
        raises.
        """
        queues, seconds = known_queue_names(queue), waiting_seconds(wait)
        until = None if lease is None else lease_microseconds(lease)
        handing = self._handing
        return Taking(lambda: handing.take(queues, seconds, until), self._deliver_if_held, handing)

    def _deliver_if_held(self, message: TakenMessage) -> None:
        if self._handing.is_settled_by(message):
            self.deliver(message)

    def extend(self, message: Message, seconds: float) -> None:
        """Let the lease on a message end so many seconds from now. Raises LeaseEnded.

        Raises ValueError for a message that you took without a lease.
        """
        self._handing.extend(leased_message(message), lease_microseconds(seconds, "seconds"))

    def taken(self, queue: str | None = None) -> list[Taken]:
        """Return which messages of a queue, or of all queues, are taken, by whom and since when."""
        return self._handing.list_taken(asked_queue(queue))

    def release(self, number: Number, *, delay: float = 0.0, reason: str = "") -> bool:
        """Give back a message that you took. Returns False when it was not taken.

        It counts as an attempt that was in vain (`Message.attempts`). With `delay` nobody gets the message for so many
        seconds, also over a restart. `reason` says why, in at most 1,000 bytes of UTF-8: a longer one is cut. A message
        with `max_attempts` attempts goes to the dead letters, with its reason.

        The journal says so with the next commit, or within a second. Raises LeaseEnded for a message whose lease has
        ended.
        """
        return self._handing.release(number, delay_seconds(delay), plain_text(reason, "reason"))

    def requeue(self, numbers: Iterable[Number]) -> list[int]:
        """Put dead letters back at the end of the queues that they came from, with 0 attempts. Durable on return.

        All of them go in one commit, each once. Returns their new numbers. Raises NotUndelivered when one of them is
        gone, and ValueError for a message that is no dead letter.
        """
        known = message_numbers(numbers)
        with self.commit() as block:
            for number in dict.fromkeys(known):
                queue, payload, properties = requeued(self.read(number))
                block.add(queue, payload, properties=properties)
                block.delete(number)
        return list(block.numbers)

    def held(self, queue: str | None = None) -> Iterator[Message]:
        """Yield the undelivered messages that are held back. They may have been delivered already."""
        return queries.undelivered(self._readable, self._files, asked_queue(queue), held=True)

    def unhold(self, numbers: Iterable[Number] | None = None) -> int:
        """Stop holding these messages, or all of them. Return how many undelivered messages that were.

        Durable on return.
        """
        known = None if numbers is None else message_numbers(numbers)
        self._check_open()
        return self._holds.let_go(known)

    def discard_held(self, numbers: Iterable[Number]) -> int:
        """Deliver those of these messages that are held back, because a consumer has them. Return how many, durable."""
        known = message_numbers(numbers)
        self._check_open()
        return sum(self.deliver_many(part) for part in self._holds.held_among(known))

    # Looking after it.

    def cleanup(self, *, compact: bool = False, dry_run: bool = False) -> CleanupReport:
        """Let go of data files that hold nothing needed.

        With `compact`, also move the little that old files still hold. Without `compact` the call still moves small
        rests that alone keep old files: at most 1 MiB, and at most 1/16 of what goes. It moves none of it in three
        cases: `compact_share` is 0 and the disk has room, after damage, and while messages are held back.

        When the retention directory has no room, the files stay. Then `stays` of the report says so, and the next
        clean-up tries again. The call raises DiskFull when there is no room to write what it moves, and DiskError.
        """
        compact, dry_run = flag(compact, "compact"), flag(dry_run, "dry_run")
        self._check_open()
        report = self._cleanup.run(compact=compact, dry_run=dry_run)
        if not dry_run:
            self._index.write(self._journal.low_water)
        return report

    def stats(self) -> Stats:
        """Return the figures of the database."""
        return stats.stats(self._state(), self._syncs())

    def _syncs(self) -> SyncStats:
        """Return how long commits have waited for the disk so far."""
        return stats.sync_stats(self._group.wait_counts, self._group.waited_seconds, self._slow_syncs.count)

    def explain(self) -> list[FileExplanation]:
        """Say of each data file why it is still there."""
        return stats.explain(self._state())

    def _state(self) -> queries.DatabaseState:
        """Return the state that answers questions.

        Raises DatabaseClosed after close.
        """
        return queries.DatabaseState(
            disk=self._disk,
            directory=self.directory,
            ledger=self._counted,
            files=self._files,
            active=self._journal.active_sequence or self._first_sequence,
            active_bytes=self._journal.unsealed_bytes(),
            owner=self._ownership.number,
            next_message=self._journal.next_message,
            database=self._journal.database,
            now=self.options.clock(),
            compact_share=self.options.compact_share,
            data_file_bytes_max=self.options.max_data_file_size,
        )


def contended() -> Contention:
    return Contention("others remove the same messages all the time; nothing was written: try again")


class Reopening:
    """What is kept of a database that is to be opened again."""

    def __init__(self, database: MessageDatabase) -> None:
        state = database._state()
        with contextlib.suppress(JournalError):  # what could not be sealed is, by the next opening
            database.close()
        self._disk: Final = state.disk
        self._directory: Final = database.directory
        self._options: Final = database.options
        self._kind: Final = type(database)
        self._continuing: Final = Continuation(state.owner, database._group.acknowledged, state.owner)

    def attempt(self, progress: Progress = no_progress) -> MessageDatabase:
        """Open the directory again, as it was opened before; may be tried again after an error but CannotContinue."""
        recovery = replace(self._options._recovery(progress), continuing=self._continuing)
        started = start(self._disk, self._directory, recovery)
        return self._kind._begun(self._disk, self._directory, self._options, started)
