"""The message database for asyncio: the same verbs, awaited.

Commits that tasks hand in during one turn of the event loop go out together. On a fast device they
are written and synced on the loop itself, since handing each group to a thread costs more than the
sync; on a slow one a thread does it, so that the loop never stalls. What is fast is measured while
running: an opening begins with the thread.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from database.block import CommitBlock, Operations
from database.database import MessageDatabase, first_number, number_range, removed_count
from database.ledger import StaleDraft
from database.options import Options
from database.stats import CleanupReport, FileExplanation, Stats
from journal.errors import JournalError
from journal.group import AnyDraft
from journal.message import Message
from journal.operations import Operation
from journal.single import PlainAdds, QueueTemplate
from recovery.report import RecoveryReport

SLOW_SECONDS = 0.005  # one group above this, and the thread takes over again
FAST_SECONDS = 0.002  # so fast, so often, and the loop does it itself
FAST_COUNT = 8
READ_MESSAGES = 256  # read at once by a thread
REMOVAL_ATTEMPTS_MAX = 100
PLAIN_BYTES = 64 << 10  # of plain adds in one draft: it goes into one data file as a whole

_T = TypeVar("_T")


class Batch:
    """The drafts of one turn of the loop, and the futures of their callers. A waiter for the committer."""

    __slots__ = ("_group", "drafts", "futures")

    def __init__(self, group: "LoopCommit") -> None:
        self._group = group
        self.drafts: list[AnyDraft] = []
        self.futures: list[list[asyncio.Future[Any]]] = []  # of each draft

    def lead(self) -> None:
        self._group.called(self._group.lead)

    def tell(self) -> None:
        self._group.told(self)

    def resolve(self) -> None:
        """Wake the callers; one that was cancelled disturbs no other."""
        for draft, futures in zip(self.drafts, self.futures, strict=True):
            number = draft.first
            failure = draft.failure
            for future in futures:
                if future.done():
                    pass
                elif failure is None:
                    future.set_result(number)
                else:
                    future.set_exception(failure)
                number += 1


class LoopCommit:
    """Commits of one event loop. Everything but `called` and `told` runs on the loop."""

    def __init__(self, database: MessageDatabase, loop: asyncio.AbstractEventLoop) -> None:
        self._database = database
        self._group = database.group
        self._loop = loop
        self.create_future = loop.create_future
        self.encode = database.encode
        self._thread_id = threading.get_ident()
        self._batch: Batch | None = None
        self._is_leading = False  # on the loop, now
        self._is_fast = False
        self._fast_count = 0
        self._told: list[Batch] = []
        self._plain_bytes = min(PLAIN_BYTES, database.options.max_data_file_size // 4)
        # The plain adds of this turn, as columns, and what they still have room for.
        self.room = 0
        self.queues: list[QueueTemplate] = []
        self.payloads: list[bytes] = []
        self.futures: list[asyncio.Future[int]] = []
        self._plain: PlainAdds | None = None

    def commit(self, draft: AnyDraft) -> "asyncio.Future[Any]":
        """Return a future that is done when the draft is settled."""
        self._end_plain()  # what comes later is formed later
        future: asyncio.Future[Any] = self._loop.create_future()
        batch = self._begin()
        draft.waiter = batch
        batch.drafts.append(draft)
        batch.futures.append([future])
        return future

    def begin_plain(self) -> None:
        """Make room for more plain adds of this turn; `room` says for how many bytes."""
        self._end_plain()
        batch = self._begin()
        self.queues, self.payloads, self.futures = [], [], []
        self._plain = PlainAdds(self.queues, self.payloads, 0)
        self._plain.waiter = batch
        self.room = self._plain_bytes
        batch.drafts.append(self._plain)
        batch.futures.append(self.futures)

    def _end_plain(self) -> None:
        if self._plain is not None:
            self._plain.weight = self._plain_bytes - self.room
            self._plain = None
            self.room = 0

    def _begin(self) -> Batch:
        """Return this turn's batch, which goes out at the turn's end."""
        if self._batch is None:
            self._batch = Batch(self)
            self._loop.call_soon(self._flush)
        return self._batch

    def _flush(self) -> None:
        self._end_plain()
        batch, self._batch = self._batch, None
        assert batch is not None
        try:
            self._database.check_open()
        except JournalError as failure:
            for draft in batch.drafts:
                draft.failure = failure
            batch.resolve()
            return
        if self._group.submit(batch.drafts):
            self.lead()

    def lead(self) -> None:
        """Write the next group: here when the device is fast, else in a thread."""
        if not self._is_fast:
            self._loop.run_in_executor(None, self._lead_measured)
            return
        self._is_leading = True
        try:
            self._lead_measured()
        finally:
            self._is_leading = False
            told, self._told = self._told, []
            for batch in told:
                batch.resolve()

    def _lead_measured(self) -> None:
        began = time.perf_counter()
        self._group.lead()
        taken = time.perf_counter() - began
        if taken > SLOW_SECONDS:
            self._is_fast, self._fast_count = False, 0
        elif taken < FAST_SECONDS and not self._is_fast:
            self._fast_count += 1
            self._is_fast = self._fast_count >= FAST_COUNT

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


class AsyncMessageDatabase:
    """The message database for the tasks of one event loop.

    async with AsyncMessageDatabase.open("spool") as db:
        number = await db.add("orders", b"...")
    """

    def __init__(self, opening: Callable[[], MessageDatabase], *, owns: bool) -> None:
        self._opening = opening
        self._owns = owns
        self._opened: MessageDatabase | None = None
        self._commits: LoopCommit | None = None

    @classmethod
    def open(cls, directory: str | Path, *, options: Options | None = None, **named: object) -> "AsyncMessageDatabase":
        """Return a database that is recovered and opened on `async with`; arguments as MessageDatabase.open."""
        return cls(lambda: MessageDatabase.open(directory, options=options, **named), owns=True)  # type: ignore[arg-type]

    @classmethod
    def wrap(cls, database: MessageDatabase) -> "AsyncMessageDatabase":
        """Return the asyncio side of an open database, which threads may go on using. Does not close it."""
        return cls(lambda: database, owns=False)

    async def __aenter__(self) -> "AsyncMessageDatabase":
        loop = asyncio.get_running_loop()
        self._opened = await asyncio.to_thread(self._opening)
        self._commits = LoopCommit(self._opened, loop)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the database, or let go of it when it was wrapped."""
        if self._opened is not None and self._owns:
            await asyncio.to_thread(self._opened.close)

    @property
    def _database(self) -> MessageDatabase:
        if self._opened is None:
            raise _not_entered()
        return self._opened

    @property
    def recovery(self) -> RecoveryReport:
        """The report of the opening."""
        return self._database.recovery

    def _commit(self, draft: AnyDraft) -> "asyncio.Future[None]":
        if self._commits is None:
            raise _not_entered()
        return self._commits.commit(draft)

    async def add(
        self,
        queue: str,
        payload: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        producer_id: str | None = None,
    ) -> int:
        """Add a message; return its number, durable."""
        if properties is not None or producer_id is not None:
            draft = self._database.draft_add(queue, payload, properties, producer_id)
            await self._commit(draft)
            return first_number(draft)
        commits = self._commits
        if commits is None:
            raise _not_entered()
        # One plain message: put into the columns of this turn without any further call.
        encode = commits.encode
        template = encode.templates.get(queue) or encode.queue(queue)
        if type(payload) is not bytes or len(payload) > encode.message_bytes_max:
            payload = encode.payload(payload)
        if commits.room <= 0:
            commits.begin_plain()
        commits.room -= template.bound + len(payload)
        commits.queues.append(template)
        commits.payloads.append(payload)
        future: asyncio.Future[int] = commits.create_future()
        commits.futures.append(future)
        return await future

    async def add_many(
        self,
        queue: str,
        payloads: Sequence[bytes],
        *,
        properties: Sequence[Mapping[str, str] | None] | None = None,
        producer_id: str | None = None,
    ) -> range:
        """Add messages in one commit; return their numbers."""
        draft = self._database.draft_add_many(queue, payloads, properties, producer_id)
        if draft is None:
            return range(0)
        await self._commit(draft)
        return number_range(draft)

    def commit(self, *, producer_id: str | None = None) -> "AsyncCommitBlock":
        """Return a block that gathers operations and commits them as a whole when it is left."""
        return AsyncCommitBlock(self._database.commit(producer_id=producer_id), self._write_operations)

    async def _write_operations(self, operations: Operations) -> range:
        draft = self._database.compose(operations)
        await self._commit(draft)
        return number_range(draft)

    async def deliver(self, number: int) -> bool:
        """Note that a consumer has acknowledged the message; False when it was not undelivered."""
        return bool(await self._remove(Operation.DELIVER, (number,)))

    async def delete(self, number: int) -> bool:
        """Remove the message undelivered; False when it was not undelivered."""
        return bool(await self._remove(Operation.DELETE, (number,)))

    async def deliver_many(self, numbers: Iterable[int]) -> int:
        """Deliver messages in one commit; return how many of them were undelivered."""
        return await self._remove(Operation.DELIVER, list(numbers))

    async def delete_many(self, numbers: Iterable[int]) -> int:
        """Delete messages in one commit; return how many of them were undelivered."""
        return await self._remove(Operation.DELETE, list(numbers))

    async def _remove(self, kind: Operation, numbers: Sequence[int]) -> int:
        for _ in range(REMOVAL_ATTEMPTS_MAX):
            draft = self._database.draft_removal(kind, numbers)
            if draft is None:
                return 0
            try:
                await self._commit(draft)
            except StaleDraft:
                continue
            return removed_count(draft)
        raise JournalError("these messages are being removed by others all the time; try again")

    async def put(self, key: str, value: bytes) -> None:
        """Set a key to a value, durable on return."""
        async with self.commit() as block:
            block.put(key, value)

    async def drop(self, key: str) -> bool:
        """Remove a key; False when it was not there."""
        if not self._database.has_key(key):
            return False
        async with self.commit() as block:
            block.drop(key)
        return True

    async def read(self, number: int) -> Message:
        """Return an undelivered message; NoSuchMessage, MessageDamaged."""
        return await self._off_loop(lambda: self._database.read(number))

    async def get(self, key: str) -> bytes | None:
        """Return the latest value of a key, None when it is not there."""
        return await self._off_loop(lambda: self._database.get(key))

    async def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with the prefix, in order."""
        return await self._off_loop(lambda: list(self._database.keys(prefix)))

    async def undelivered(self, queue: str | None = None) -> AsyncIterator[Message]:
        """Yield the undelivered messages of a queue, or of all, in order, as they were when asked."""
        found = self._database.undelivered(queue)
        while messages := await self._off_loop(lambda: [m for m, _ in zip(found, range(READ_MESSAGES), strict=False)]):
            for message in messages:
                yield message

    def undelivered_count(self, queue: str | None = None) -> int:
        """Return how many messages of a queue, or of all, are undelivered. Not awaited: it is in memory."""
        return self._database.undelivered_count(queue)

    def queues(self) -> dict[str, int]:
        """Return how many messages are undelivered in every queue that has any. Not awaited: it is in memory."""
        return self._database.queues()

    async def take(self, queue: str) -> Message | None:
        """Hand the queue's next message to this caller only, until it is released or removed."""
        return await self._off_loop(lambda: self._database.take(queue))

    def release(self, number: int) -> bool:
        """Give back a message that was taken; False when it was not. Not awaited: it is in memory."""
        return self._database.release(number)

    async def cleanup(self, *, compact: bool = False, dry_run: bool = False) -> CleanupReport:
        """Let go of data files that hold nothing needed."""
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
    return JournalError("enter the database first: async with AsyncMessageDatabase.open(...) as db")


class AsyncCommitBlock:
    """A commit of several operations: gathered as in CommitBlock, written when the block is left."""

    def __init__(self, block: CommitBlock, write: Callable[[Operations], Awaitable[range]]) -> None:
        self._block = block
        self._write = write

    async def __aenter__(self) -> CommitBlock:
        return self._block

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        operations = self._block.operations
        if kind is None and not operations.is_empty():
            self._block.numbers = await self._write(operations)
