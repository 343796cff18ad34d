"""The message database for asyncio: the methods of `MessageDatabase`, awaited.

Commits that tasks hand in during one turn of the event loop go out together (`loop.py`). What a caller hands in is
copied or consumed when a verb is called, not when the coroutine that it returns is awaited: a buffer may be used
again at once.

Group commit on an event loop: the commits of one turn of the loop go out together.

On a fast device they are written and synced on the loop itself, since handing each group to a thread
costs more than the sync; on a slow one a thread does it, so that the loop never stalls. What is fast
is measured while running (`Pace`).

Whether a device is so fast that an event loop commits by itself, learned from how long the commits take.

Handing a group to a thread costs more than the sync of a fast device; a slow one would stall the loop. An opening
begins with the thread.
"""

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count, repeat
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, Unpack

from oms_journal.database.arguments import (
    MESSAGES,
    NUMBERS_MAX,
    Number,
    Payload,
    every,
    message_number,
    message_numbers,
    plain_text,
    positive_count,
    shown,
)
from oms_journal.database.commits.added import Added, AddedMany, added_number, added_numbers
from oms_journal.database.commits.block import CommitBlock, Operations
from oms_journal.database.commits.drafting import removed_count
from oms_journal.database.commits.ledger import StaleDraft
from oms_journal.database.commits.limited import LimitedDrafting, write_in_turn_async
from oms_journal.database.commits.terms import Time, new_terms
from oms_journal.database.consumers.consumers import Taken, TakenMessage, receipts_of
from oms_journal.database.consumers.consuming import AsyncConsuming, AsyncTaking
from oms_journal.database.consumers.handing import Handing
from oms_journal.database.consumers.waiting import (
    TaskWaiter,
    known_queue_names,
    lease_microseconds,
    queue_names,
    task_name,
    waiting_seconds,
)
from oms_journal.database.database import MessageDatabase, contended
from oms_journal.database.options import NamedOptions, Options
from oms_journal.database.stats import CleanupReport, FileExplanation, Stats
from oms_journal.index.table import MessageLocation
from oms_journal.journal.background import yielding
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DatabaseClosed, JournalError
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.message import Message
from oms_journal.journal.writing.draft import Draft, QueueTemplate, one_add
from oms_journal.journal.writing.single import PlainAdds
from oms_journal.recovery.place import directory_of
from oms_journal.recovery.report import RecoveryReport
from oms_journal.recovery.validation import Progress, no_progress

SLOW_SECONDS = 0.005  # one group on the loop above this, and the thread takes over again
FAST_SECONDS = 0.002  # what counts as fast
FAST_COUNT = 8  # so many groups more were fast than were slow, and the loop does it itself


class Pace:
    """How fast the groups of one opening become durable. Told by one at a time."""

    __slots__ = ("_lead", "is_fast")

    def __init__(self) -> None:
        self.is_fast = False  # the loop does it itself
        self._lead = 0  # of the fast groups over the slow ones

    def note(self, seconds: float) -> None:
        """Take in how long a group took.

        On a busy machine also a fast device is waited for too long now and then, by a thread that was not given the
        processor: so a slow group counts against a fast one, and no more.
        """
        if seconds < FAST_SECONDS:
            if self._lead < FAST_COUNT:
                self._lead += 1
                self.is_fast = self._lead == FAST_COUNT
        elif seconds > SLOW_SECONDS:
            self.is_fast = False
            self._lead = max(self._lead - 1, 0)


PLAIN_BYTES = 64 << 10  # of plain adds in one draft: it goes into one data file as a whole


class Batch:
    """The drafts of one turn of the loop, and the futures of their callers. A waiter for the committer."""

    __slots__ = ("_group", "entries")

    def __init__(self, group: "LoopCommit") -> None:
        self._group = group
        self.entries: list[tuple[Draft, list[asyncio.Future[Any]]]] = []  # drafts, and who waits for each

    @property
    def drafts(self) -> list[Draft]:
        return [draft for draft, _ in self.entries]

    def lead(self) -> None:
        self._group.called(self._group.lead)

    def tell(self) -> None:
        self._group.told(self)

    def resolve(self) -> None:
        """Wake the callers; one that was cancelled disturbs no other."""
        for draft, futures in self.entries:
            failure = draft.failure
            numbers = count(draft.first) if failure is None else repeat(0)
            for future, number in zip(futures, numbers, strict=False):
                try:
                    if failure is None:
                        future.set_result(number)
                    else:
                        future.set_exception(failure)
                except asyncio.InvalidStateError:
                    pass  # cancelled; asking each one first takes longer


class LoopCommit:
    """Commits of one event loop. Everything but `called` and `told` runs on the loop."""

    def __init__(self, database: MessageDatabase, loop: asyncio.AbstractEventLoop) -> None:
        self._database = database
        self._group = database._group
        self._loop = loop
        self.create_future = loop.create_future
        self.encode = database._drafting.encode
        self._thread_id = threading.get_ident()
        # A thread of its own: those of the loop's may all be waiting for a commit that it is to lead.
        self._thread = ThreadPoolExecutor(1, "oms-commit")
        self._led: Future[None] | None = None  # what the thread was told last
        self._batch: Batch | None = None
        self._is_leading = False  # on the loop, now
        self.is_closed = False
        self._pace = Pace()
        self._told: list[Batch] = []
        self._plain_bytes = min(PLAIN_BYTES, database.options.max_data_file_size // 4)
        # The plain adds of this turn that go into one draft, and what they still have room for.
        self.room = 0
        self.plain: list[tuple[QueueTemplate, bytes, asyncio.Future[int]]] = []

    async def close(self) -> None:
        """End the thread, once it has led what it was told to."""
        self.is_closed = True
        try:
            if self._led is not None:  # the loop goes on while a device takes its time
                await asyncio.wait((asyncio.wrap_future(self._led),))
        finally:
            self._thread.shutdown(wait=self._led is None or self._led.done())

    def commit(self, draft: Draft) -> "asyncio.Future[Any]":
        """Return a future that is done when the draft is settled."""
        self._end_plain()  # what comes later is formed later
        future: asyncio.Future[Any] = self._loop.create_future()
        batch = self._begin()
        draft.waiter = batch
        batch.entries.append((draft, [future]))
        return future

    def begin_plain(self) -> None:
        """Make room for more plain adds of this turn; `room` says for how many bytes."""
        self._end_plain()
        self._begin()
        self.room = self._plain_bytes

    def _end_plain(self) -> None:
        """Make one draft of the plain adds so far."""
        if self.plain:
            batch, weight = self._begin(), self._plain_bytes - self.room
            queues, payloads, futures = map(list, zip(*self.plain, strict=True))
            is_one = len(payloads) == 1
            draft = one_add(queues[0], payloads[0]) if is_one else PlainAdds(queues, payloads, weight)
            draft.waiter = batch
            batch.entries.append((draft, futures))
            self.plain = []
        self.room = 0

    def _begin(self) -> Batch:
        """Return this turn's batch, which goes out at the turn's end."""
        if self._batch is None:
            self._loop.call_soon(self._flush)  # first: an interrupt behind it leaves no batch that never goes out
            self._batch = Batch(self)
        return self._batch

    def _flush(self) -> None:
        self._end_plain()
        batch, self._batch = self._batch, None
        if batch is None or not batch.entries:
            return  # whoever asked for it was interrupted before there was anything in it
        try:
            self._database._check_open()
        except JournalError as failure:
            for draft, _ in batch.entries:
                draft.failure = failure
            batch.resolve()
            return
        if self._group.submit(batch.drafts):
            self.lead()

    def lead(self) -> None:
        """Write the next group: here when the device is fast, else in a thread."""
        if self.is_closed:  # somebody still has to write what others wait for
            threading.Thread(target=self._group.lead, name="oms-commit").start()
            return
        if not self._pace.is_fast:
            self._led = self._thread.submit(self._lead_in_thread)
            asyncio.wrap_future(self._led, loop=self._loop)  # which logs what nobody would hear of
            return
        self._is_leading = True
        try:
            self._lead_measured()
        finally:
            self._is_leading = False
            told, self._told = self._told, []
            for batch in told:
                batch.resolve()

    def _lead_in_thread(self) -> None:
        # Else a busy loop keeps the interpreter for long behind the sync, and the callers wait.
        with yielding():
            self._lead_measured()

    def _lead_measured(self) -> None:
        before = self._group.waited_seconds
        self._group.lead()
        self._pace.note(self._group.waited_seconds - before)

    def called(self, call: Callable[[], None]) -> None:
        """Run something on the loop soon; from any thread."""
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop was closed: somebody still has to write what others wait for
            threading.Thread(target=self._group.lead, name="oms-commit").start()

    def told(self, batch: Batch) -> None:
        """Wake a batch's callers, on the loop; from any thread."""
        if self._is_leading and threading.get_ident() == self._thread_id:
            self._told.append(batch)
            return
        with contextlib.suppress(RuntimeError):  # the loop was closed, and with it every caller
            self._loop.call_soon_threadsafe(batch.resolve)


READ_MESSAGES = 256  # read at once by a thread
REMOVAL_ATTEMPTS_MAX = 100

_T = TypeVar("_T")


class AsyncMessageDatabase:
    """The message database for the tasks of one event loop.

    async def main() -> None:
        async with AsyncMessageDatabase.open("spool") as db:
            number = await db.add("orders", b"...")  # durable when awaited
            while (message := await db.take("orders")) is not None:
                await db.deliver(message)

    asyncio.run(main())
    """

    def __init__(self, opening: Callable[[], MessageDatabase], *, owns: bool = True) -> None:
        if not callable(opening):
            raise TypeError('a database is opened, not constructed: write AsyncMessageDatabase.open("directory")')
        self._opening = opening
        self._owns = owns
        self._opened: MessageDatabase | None = None
        self._commits: LoopCommit | None = None
        self._plain: LoopCommit | None = None  # the same, where no queue has a limit

    @classmethod
    def open(
        cls,
        directory: str | Path,
        *,
        options: Options | None = None,
        disk: Disk | None = None,
        progress: Progress = no_progress,
        **named: Unpack[NamedOptions],
    ) -> "AsyncMessageDatabase":
        """Return a database that `async with` or `await` recovers and opens.

        Arguments and errors as MessageDatabase.open.
        """
        chosen, path = Options._chosen(options, named), directory_of(directory)
        return cls(lambda: MessageDatabase.open(path, options=chosen, disk=disk, progress=progress))

    @classmethod
    def wrap(cls, database: MessageDatabase) -> "AsyncMessageDatabase":
        """Return the asyncio side of an open database. Threads may go on using it.

        `close` of this side does not close it.
        """
        if not isinstance(database, MessageDatabase):
            raise TypeError(f"database must be an open MessageDatabase, not {shown(database)}")
        return cls(lambda: database, owns=False)

    def __await__(self) -> Generator[Any, None, "AsyncMessageDatabase"]:
        """Open it, for who closes it by `await db.close()` and not by leaving a block."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> "AsyncMessageDatabase":
        if self._commits is not None and not self._commits.is_closed:
            return self  # it was awaited
        loop = asyncio.get_running_loop()
        self._opened = await asyncio.to_thread(self._opening)
        self._commits = LoopCommit(self._opened, loop)
        self._plain = None if isinstance(self._opened._drafting, LimitedDrafting) else self._commits
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the database. If it was wrapped, only let go of it."""
        try:
            if self._opened is not None and self._owns:
                await asyncio.to_thread(self._opened.close)
        finally:
            if self._commits is not None:
                await self._commits.close()

    @property
    def _database(self) -> MessageDatabase:
        if self._opened is None:
            raise _not_entered()
        return self._opened

    @property
    def _handing(self) -> Handing:
        return self._database._handing

    @property
    def recovery(self) -> RecoveryReport:
        """The report of the opening."""
        return self._database.recovery

    def _commit(self, draft: Draft) -> "asyncio.Future[None]":
        if self._commits is None:
            raise _not_entered()
        return self._commits.commit(draft)

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
    ) -> Coroutine[Any, Any, Added]:
        """Add a message, and return its number. When you have awaited it, the message is durable.

        As MessageDatabase.add. If you cancel the call while it waits for room, nothing is added.
        """
        if delay is not None or at is not None or expires is not None or group is not None:
            drafting = self._database._drafting
            draft = drafting.add(
                queue, payload, properties, producer_id, lambda: new_terms(drafting.moment, delay, at, expires, group)
            )
            return self._added(draft, wait)
        if properties is not None or producer_id is not None or wait is not None:
            return self._added(self._database._drafting.add(queue, payload, properties, producer_id), wait)
        if self._plain is None:
            return self._add_limited(queue, payload)
        if type(payload) is not bytes:
            payload = self._plain.encode.payload(payload)
        return self._add_plain(self._plain, queue, payload)

    def _add_limited(self, queue: str, payload: Payload) -> Coroutine[Any, Any, Added]:
        """Add a message where queues have limits."""
        commits, drafting = self._commits, self._database._drafting
        if commits is None:
            raise _not_entered()
        if isinstance(drafting, LimitedDrafting) and drafting.limits.of(drafting.encode.queue(queue).name) is not None:
            return self._added(drafting.add(queue, payload), None)
        return self._add_plain(commits, queue, commits.encode.payload(payload))

    def _added(self, draft: Draft, wait: float | None) -> Coroutine[Any, Any, Added]:
        seconds = None if wait is None else waiting_seconds(wait)
        return self._added_in_turn(draft, seconds)

    async def _added_in_turn(self, draft: Draft, seconds: float | None) -> Added:
        return added_number(await self._write(draft, seconds))

    async def _write(self, draft: Draft, seconds: float | None, end: "asyncio.Future[None] | None" = None) -> Draft:
        if seconds is not None:
            return await write_in_turn_async(self._database._drafting.ledger, draft, seconds, self._commit, end)
        await self._commit(draft)
        return draft

    async def _add_plain(self, commits: LoopCommit, queue: str, payload: bytes) -> Added:
        """Add one plain message: put among those of this turn without any further call."""
        encode = commits.encode
        template = (encode.templates.get(queue) if type(queue) is str else None) or encode.queue(queue)
        size = len(payload)
        if size > encode.message_bytes_max:
            encode.payload(payload)
        if commits.room <= 0:
            commits.begin_plain()
        commits.room -= template.bound + size
        future: asyncio.Future[int] = commits.create_future()
        commits.plain.append((template, payload, future))  # in one step: an interrupt leaves no half of it
        return Added(await future)

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
    ) -> Coroutine[Any, Any, AddedMany]:
        """Add all that an iterable gives in one commit. Await it for the numbers. As MessageDatabase.add_many.

        The call itself consumes the iterables, before you await it.
        """
        drafting = self._database._drafting
        draft = drafting.add_many(
            queue, payloads, properties, producer_id, lambda: new_terms(drafting.moment, delay, at, expires, group)
        )
        return self._added_many(draft, None if wait is None else waiting_seconds(wait))

    async def _added_many(
        self, draft: Draft | None, seconds: float | None, end: "asyncio.Future[None] | None" = None
    ) -> AddedMany:
        if draft is None:
            self._database._check_open()
        else:
            draft = await self._write(draft, seconds, end)
        return added_numbers(draft)

    def commit(self, *, producer_id: str | None = None) -> "AsyncCommitBlock":
        """Return a block that gathers operations. When you leave the block, it commits them as a whole."""
        return AsyncCommitBlock(self._database.commit(producer_id=producer_id), self._write_operations)

    async def _write_operations(self, operations: Operations) -> AddedMany:
        draft, receipts = self._database._drafting.operations(operations), operations.receipts
        self._handing.settle(receipts)
        try:
            for _ in range(REMOVAL_ATTEMPTS_MAX):
                try:
                    await self._commit(draft)
                    break
                except StaleDraft:  # a message that it ends has come back since it was drafted
                    draft = self._database._drafting.operations(operations)
            else:
                raise contended()
        except JournalError as failure:
            self._handing.unsettle(receipts, failure)
            raise
        return added_numbers(draft)

    async def deliver(self, number: Number) -> bool:
        """Note that a consumer has acknowledged a message, named by its number or passed itself.

        As MessageDatabase.deliver. Returns False when the message was not undelivered. A commit block raises
        NotUndelivered instead. Raises LeaseEnded for a message whose lease has ended.
        """
        if type(number) is TakenMessage:
            return bool(await self._remove_taken(Operation.DELIVER, [number]))
        return bool(await self._remove(Operation.DELIVER, (message_number(number),)))

    async def delete(self, number: Number) -> bool:
        """Remove an undelivered message, named by its number or passed itself.

        Returns False when it was not undelivered. Raises LeaseEnded as `deliver` does.
        """
        if type(number) is TakenMessage:
            return bool(await self._remove_taken(Operation.DELETE, [number]))
        return bool(await self._remove(Operation.DELETE, (message_number(number),)))

    def deliver_many(self, numbers: Iterable[Number]) -> Coroutine[Any, Any, int]:
        """Deliver messages in one commit. Await it for how many of them were undelivered.

        Raises LeaseEnded as MessageDatabase.deliver_many.
        """
        return self._remove_taken(Operation.DELIVER, every(numbers, "numbers", MESSAGES, NUMBERS_MAX))

    def delete_many(self, numbers: Iterable[Number]) -> Coroutine[Any, Any, int]:
        """Delete messages in one commit. Await it for how many of them were undelivered. Raises LeaseEnded likewise."""
        return self._remove_taken(Operation.DELETE, every(numbers, "numbers", MESSAGES, NUMBERS_MAX))

    def _remove_taken(self, kind: Operation, given: Sequence[object]) -> Coroutine[Any, Any, int]:
        """Remove messages, those among them that say themselves in whose hands they are only while they are there."""
        numbers, receipts = message_numbers(given), receipts_of(given)
        return self._remove_settled(kind, numbers, receipts) if receipts else self._remove(kind, numbers)

    async def _remove_settled(self, kind: Operation, numbers: Sequence[int], receipts: Sequence[TakenMessage]) -> int:
        self._handing.settle(receipts)
        try:
            removed = await self._remove(kind, numbers)
        except JournalError as failure:
            self._handing.unsettle(receipts, failure)
            raise
        for message in receipts:
            message._holding = None
        return removed

    def purge(self, queue: str) -> Coroutine[Any, Any, int]:
        """Delete all undelivered messages of a queue, as they are when the call begins, and return how many.

        As MessageDatabase.purge. If you cancel the call, it goes on.
        """
        return self._off_loop(lambda: self._database.purge(queue))

    async def _remove(self, kind: Operation, numbers: Sequence[int]) -> int:
        self._database._check_open()
        for attempt in range(REMOVAL_ATTEMPTS_MAX):
            draft = self._database._drafting.removal(kind, numbers, again=attempt > 0)
            if draft is None:
                return 0
            try:
                await self._commit(draft)
            except StaleDraft:
                continue
            return removed_count(draft)
        raise contended()

    def put(self, key: str, value: Payload) -> Coroutine[Any, Any, None]:
        """Set a key to a value. When you have awaited it, the value is durable."""
        block = self._database._drafting.gathering(None)
        block.put(key, value)
        return self._put(block._ended())

    async def _put(self, operations: Operations) -> None:
        await self._write_operations(operations)

    async def drop(self, key: str) -> bool:
        """Remove a key. Returns False when the key was not there."""
        self._database._check_open()
        if not self._database._drafting.has_key(key):
            return False
        async with self.commit() as block:
            block.drop(key)
        return True

    async def read(self, number: Number) -> Message:
        """Return an undelivered message. Raises NoSuchMessage and MessageDamaged."""
        return await self._off_loop(lambda: self._database.read(number))

    async def get(self, key: str) -> bytes | None:
        """Return the latest value of a key, or None when there is no such key."""
        return await self._off_loop(lambda: self._database.get(key))

    async def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with the prefix, in order."""
        return await self._off_loop(lambda: list(self._database.keys(prefix)))

    def undelivered(self, queue: str | None = None) -> AsyncIterator[Message]:
        """Yield the undelivered messages of a queue, or of all queues, in order, as they were at the call."""
        return self._each(self._database.undelivered(queue))

    async def _each(self, found: Iterator[Message]) -> AsyncIterator[Message]:
        while messages := await self._off_loop(lambda: [m for m, _ in zip(found, range(READ_MESSAGES), strict=False)]):
            for message in messages:
                yield message

    def undelivered_count(self, queue: str | None = None) -> int:
        """Return how many messages of a queue, or of all queues, are undelivered.

        Not awaited: the count is in memory.
        """
        return self._database.undelivered_count(queue)

    def numbers(self, queue: str | None = None) -> Iterator[int]:
        """Yield the numbers of the undelivered messages of a queue, or of all queues, in order.

        Not awaited: they are in memory.
        """
        return self._database.numbers(queue)

    def ready_count(self, queue: str) -> int:
        """Return how many messages of a queue can be handed out now. Not awaited: the count is in memory."""
        return self._database.ready_count(queue)

    async def oldest_age(self, queue: str) -> float | None:
        """Return how many seconds ago the oldest undelivered message of a queue was added. None when there is none."""
        return await self._off_loop(lambda: self._database.oldest_age(queue))

    def queues(self) -> dict[str, int]:
        """Return how many messages are undelivered in each queue that has any.

        Not awaited: the counts are in memory.
        """
        return self._database.queues()

    async def take(
        self, queue: str | Sequence[str], *, wait: float = 0.0, lease: float | None = None
    ) -> Message | None:
        """Hand the queue's next message to you only, until you release or remove it. Returns None when there is none.

        `wait`, `lease` and several queues as MessageDatabase.take. If you cancel the call, the database takes the
        message back.
        """
        handing = self._handing
        if wait != 0:
            wait = waiting_seconds(wait)
        if lease is not None or type(queue) is not str:
            asked = queue_names(queue)
            return await self._take(asked, wait, None if lease is None else lease_microseconds(lease))
        while True:
            found = handing.take_now(queue, task_name())
            if found is None:
                return await self._take((queue,), wait, None) if wait else None
            if isinstance(found, Message):
                return found
            messages = await self._read_taken([found])
            if messages:
                return handing.with_attempts(messages[0])

    async def peek(self, queue: str) -> Message | None:
        """Return the message that `take` would hand out next, and do not take it. Returns None when there is none."""
        return await self._off_loop(lambda: self._database.peek(queue))

    async def _take(self, queues: Sequence[str], seconds: float, lease: int | None) -> TakenMessage | None:
        """Hand out the next message of the first of the queues that has one, with its receipt; wait for it so long."""
        handing, until = self._handing, time.monotonic() + seconds
        while True:
            waiter = TaskWaiter(queues)
            try:
                place = handing.begin(waiter, is_waiting=seconds > 0)
                while place is None and (left := until - time.monotonic()) > 0:
                    await waiter.sleep(left)
                    place = handing.end_sleep(waiter)
                if place is None:
                    place = handing.end_wait(waiter)
                if place is None:
                    return None
                found = handing.read_now([place])
                if found is None:
                    found = await self._off_loop(functools.partial(handing.read, [place]))
                if found and (taken := handing.receipt(found[0], lease)) is not None:
                    return taken
            except BaseException:
                handing.give_up(waiter)
                raise

    async def take_many(
        self, queue: str, count: int, *, wait: float = 0.0, lease: float | None = None
    ) -> list[Message]:
        """Hand the queue's next messages to you only, at most `count`, in order. Returns [] when there is none.

        `wait` and `lease` as MessageDatabase.take_many. If you cancel the call, the database takes all of them back.
        """
        handing, name, wanted = self._handing, plain_text(queue, "queue"), positive_count(count, "count")
        seconds, until = waiting_seconds(wait), None if lease is None else lease_microseconds(lease)
        numbers: list[int] = []
        messages: list[Message] = []
        try:
            while len(messages) < wanted:
                if places := handing.places(name, wanted - len(messages), task_name()):
                    found = handing.read_now(places) or await self._read_taken(places)  # which gives back itself
                    numbers += [message.number for message in found]
                    messages += handing.receipts(found, until)
                elif messages or not seconds or (first := await self._take((name,), seconds, until)) is None:
                    break
                else:
                    messages.append(first)
                    numbers.append(first.number)
        except BaseException:
            handing.give_back(numbers)
            raise
        return messages

    def consume(self, queue: str | Sequence[str], *, lease: float | None = None) -> AsyncIterator[Message]:
        """Go through the messages of a queue with `async for`, until the database is closed.

            async for message in db.consume("orders"):
                ...
                await db.deliver(message)

        As MessageDatabase.consume.
        """
        queues, until = known_queue_names(queue), None if lease is None else lease_microseconds(lease)
        return AsyncConsuming(lambda wait: self._take(queues, wait, until), self._handing)

    def taking(
        self, queue: str | Sequence[str], *, wait: float = 0.0, lease: float | None = None
    ) -> contextlib.AbstractAsyncContextManager[Message | None]:
        """Take one message for an `async with` block. It is delivered at the end of the block, and durable then.

            async with db.taking("orders", wait=10) as message:
                ...

        As MessageDatabase.taking.
        """
        queues, seconds = known_queue_names(queue), waiting_seconds(wait)
        until = None if lease is None else lease_microseconds(lease)
        return AsyncTaking(lambda: self._take(queues, seconds, until), self._deliver_if_held, self._handing)

    async def _deliver_if_held(self, message: TakenMessage) -> None:
        if self._handing.is_settled_by(message):
            await self.deliver(message)

    def extend(self, message: Message, seconds: float) -> None:
        """Let the lease on a message end so many seconds from now. Raises LeaseEnded. Not awaited: that is in memory.

        Raises ValueError for a message that you took without a lease.
        """
        self._database.extend(message, seconds)

    def taken(self, queue: str | None = None) -> list[Taken]:
        """Return which messages of a queue, or of all queues, are taken, by whom and since when. Not awaited."""
        return self._database.taken(queue)

    async def _read_taken(self, places: Sequence[MessageLocation]) -> list[Message]:
        """Read messages that are taken, in a thread; what a caller does not wait for any more is given back."""
        try:
            return await self._off_loop(lambda: self._handing.read(places))
        except BaseException:
            self._handing.give_back([place.number for place in places])
            raise

    def release(self, number: Number, *, delay: float = 0.0, reason: str = "") -> bool:
        """Give back a message that you took. Returns False when it was not taken. Not awaited: that is in memory.

        As MessageDatabase.release.
        """
        return self._database.release(number, delay=delay, reason=reason)

    def requeue(self, numbers: Iterable[Number]) -> Coroutine[Any, Any, list[int]]:
        """Put dead letters back at the end of the queues that they came from. As MessageDatabase.requeue."""
        known = message_numbers(numbers)
        return self._off_loop(lambda: self._database.requeue(known))

    async def held(self, queue: str | None = None) -> list[Message]:
        """Return the undelivered messages that are held back. They may have been delivered already."""
        return await self._off_loop(lambda: list(self._database.held(queue)))

    def unhold(self, numbers: Iterable[Number] | None = None) -> Coroutine[Any, Any, int]:
        """Stop holding these messages, or all of them. Return how many undelivered messages that were.

        Durable when awaited.
        """
        known = None if numbers is None else message_numbers(numbers)
        return self._off_loop(lambda: self._database.unhold(known))

    def discard_held(self, numbers: Iterable[Number]) -> Coroutine[Any, Any, int]:
        """Deliver those of these messages that are held back, because a consumer has them.

        Return how many those were.
        """
        known = message_numbers(numbers)
        return self._off_loop(lambda: self._database.discard_held(known))

    async def cleanup(self, *, compact: bool = False, dry_run: bool = False) -> CleanupReport:
        """Let go of data files that hold nothing needed, or next to nothing. As MessageDatabase.cleanup."""
        return await self._off_loop(lambda: self._database.cleanup(compact=compact, dry_run=dry_run))

    async def stats(self) -> Stats:
        """Return the figures of the database."""
        return await self._off_loop(self._database.stats)

    async def explain(self) -> list[FileExplanation]:
        """Say of each data file why it is still there."""
        return await self._off_loop(self._database.explain)

    async def _off_loop(self, call: Callable[[], _T]) -> _T:
        return await asyncio.to_thread(call)


def _not_entered() -> JournalError:
    return DatabaseClosed("the database is not open yet: write `async with AsyncMessageDatabase.open(...) as db`")


class AsyncCommitBlock:
    """A commit of several operations: gathered as in CommitBlock, written when the block is left."""

    def __init__(self, block: CommitBlock, write: Callable[[Operations], Awaitable[AddedMany]]) -> None:
        self._block = block
        self._write = write

    async def __aenter__(self) -> CommitBlock:
        return self._block.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        operations = self._block._ended()
        if kind is None and not operations.is_empty():
            added = await self._write(operations)
            self._block.numbers, self._block.is_repeat = added.numbers, added.is_repeat
