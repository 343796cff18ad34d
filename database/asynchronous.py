"""The message database for asyncio: the same verbs, awaited.

Commits that tasks hand in during one turn of the event loop go out together (`loop.py`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from database.block import CommitBlock, Operations
from database.database import MessageDatabase
from database.drafting import first_number, number_range, removed_count
from database.ledger import StaleDraft
from database.loop import LoopCommit
from database.options import Options
from database.stats import CleanupReport, FileExplanation, Stats
from journal.errors import JournalError
from journal.group import AnyDraft
from journal.message import Message
from journal.operations import Operation
from recovery.report import RecoveryReport

READ_MESSAGES = 256  # read at once by a thread
REMOVAL_ATTEMPTS_MAX = 100

_T = TypeVar("_T")


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
        if self._commits is not None:
            self._commits.close()

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
            draft = self._database.drafting.add(queue, payload, properties, producer_id)
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
        draft = self._database.drafting.add_many(queue, payloads, properties, producer_id)
        if draft is None:
            return range(0)
        await self._commit(draft)
        return number_range(draft)

    def commit(self, *, producer_id: str | None = None) -> "AsyncCommitBlock":
        """Return a block that gathers operations and commits them as a whole when it is left."""
        return AsyncCommitBlock(self._database.commit(producer_id=producer_id), self._write_operations)

    async def _write_operations(self, operations: Operations) -> range:
        draft = self._database.drafting.operations(operations)
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
        self._database.check_open()
        for _ in range(REMOVAL_ATTEMPTS_MAX):
            draft = self._database.drafting.removal(kind, numbers)
            if draft is None:
                return 0
            try:
                await self._commit(draft)
            except StaleDraft:
                continue
            self._database.forget_taken(numbers)
            return removed_count(draft)
        raise JournalError("these messages are being removed by others all the time; try again")

    async def put(self, key: str, value: bytes) -> None:
        """Set a key to a value, durable on return."""
        async with self.commit() as block:
            block.put(key, value)

    async def drop(self, key: str) -> bool:
        """Remove a key; False when it was not there."""
        if not self._database.drafting.has_key(key):
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

    async def held(self, queue: str | None = None) -> list[Message]:
        """Return the undelivered messages that are held back: they may have been delivered already."""
        return await self._off_loop(lambda: list(self._database.held(queue)))

    async def unhold(self, numbers: Iterable[int] | None = None) -> int:
        """Hold these messages no longer, or none at all; return how many undelivered ones that were, durable."""
        return await self._off_loop(lambda: self._database.unhold(numbers))

    async def discard_held(self, numbers: Iterable[int]) -> int:
        """Deliver those of these messages that are held back: a consumer has them. Return how many those were."""
        return await self._off_loop(lambda: self._database.discard_held(numbers))

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
