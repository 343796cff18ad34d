"""The message database for asyncio: the same verbs, awaited.

Commits that tasks hand in during one turn of the event loop go out together (`loop.py`). What a caller hands in is
copied or consumed when a verb is called, not when the coroutine that it returns is awaited: a buffer may be used
again at once.
"""

import asyncio
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
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, Unpack

from oms_journal.database.arguments import Number, Payload, message_number, message_numbers, shown
from oms_journal.database.block import CommitBlock, Operations
from oms_journal.database.database import MessageDatabase, contended
from oms_journal.database.drafting import first_number, number_range, removed_count
from oms_journal.database.ledger import StaleDraft
from oms_journal.database.loop import LoopCommit
from oms_journal.database.options import NamedOptions, Options
from oms_journal.database.stats import CleanupReport, FileExplanation, Stats
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DatabaseClosed, JournalError
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.message import Message
from oms_journal.journal.writing.draft import Draft
from oms_journal.journal.writing.groups import AnyDraft
from oms_journal.recovery.place import directory_of
from oms_journal.recovery.report import RecoveryReport
from oms_journal.recovery.validation import Progress, no_progress

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
        self._withdrawn: set[Future[None]] = set()  # done when what a cancelled take got is given back

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
        """Return a database that is recovered and opened by `async with` or `await`; as MessageDatabase.open."""
        chosen, path = Options.chosen(options, named), directory_of(directory)
        return cls(lambda: MessageDatabase.open(path, options=chosen, disk=disk, progress=progress))

    @classmethod
    def wrap(cls, database: MessageDatabase) -> "AsyncMessageDatabase":
        """Return the asyncio side of an open database, which threads may go on using. Does not close it."""
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

    def add(
        self,
        queue: str,
        payload: Payload,
        *,
        properties: Mapping[str, str] | None = None,
        producer_id: str | None = None,
    ) -> Coroutine[Any, Any, int]:
        """Add a message; return its number, durable, when awaited. As MessageDatabase.add."""
        if properties is not None or producer_id is not None:
            return self._added(self._database.drafting.add(queue, payload, properties, producer_id))
        if self._commits is None:
            raise _not_entered()
        if type(payload) is not bytes:
            payload = self._commits.encode.payload(payload)
        return self._add_plain(self._commits, queue, payload)

    async def _added(self, draft: Draft) -> int:
        await self._commit(draft)
        return first_number(draft)

    async def _add_plain(self, commits: LoopCommit, queue: str, payload: bytes) -> int:
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
        return await future

    def add_many(
        self,
        queue: str,
        payloads: Iterable[Payload],
        *,
        properties: Iterable[Mapping[str, str] | None] | None = None,
        producer_id: str | None = None,
    ) -> Coroutine[Any, Any, range]:
        """Add all that an iterable gives in one commit; return the numbers when awaited. As MessageDatabase.add_many.

        The iterables are consumed by the call itself.
        """
        return self._added_many(self._database.drafting.add_many(queue, payloads, properties, producer_id))

    async def _added_many(self, draft: Draft | None) -> range:
        if draft is None:
            self._database.check_open()
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

    async def deliver(self, number: Number) -> bool:
        """Note that a consumer has acknowledged the message, named by its number or itself. As MessageDatabase.deliver.

        False when it was not undelivered; in a commit block that is NotUndelivered.
        """
        return bool(await self._remove(Operation.DELIVER, (message_number(number),)))

    async def delete(self, number: Number) -> bool:
        """Remove the message undelivered, named by its number or itself; False when it was not undelivered."""
        return bool(await self._remove(Operation.DELETE, (message_number(number),)))

    def deliver_many(self, numbers: Iterable[Number]) -> Coroutine[Any, Any, int]:
        """Deliver messages in one commit; return, when awaited, how many of them were undelivered."""
        return self._remove(Operation.DELIVER, message_numbers(numbers))

    def delete_many(self, numbers: Iterable[Number]) -> Coroutine[Any, Any, int]:
        """Delete messages in one commit; return, when awaited, how many of them were undelivered."""
        return self._remove(Operation.DELETE, message_numbers(numbers))

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
            return removed_count(draft)
        raise contended()

    def put(self, key: str, value: Payload) -> Coroutine[Any, Any, None]:
        """Set a key to a value, durable when awaited."""
        block = self._database.drafting.gathering(None)
        block.put(key, value)
        return self._put(block.ended())

    async def _put(self, operations: Operations) -> None:
        await self._write_operations(operations)

    async def drop(self, key: str) -> bool:
        """Remove a key; False when it was not there."""
        self._database.check_open()
        if not self._database.drafting.has_key(key):
            return False
        async with self.commit() as block:
            block.drop(key)
        return True

    async def read(self, number: Number) -> Message:
        """Return an undelivered message; NoSuchMessage, MessageDamaged."""
        return await self._off_loop(lambda: self._database.read(number))

    async def get(self, key: str) -> bytes | None:
        """Return the latest value of a key, None when it is not there."""
        return await self._off_loop(lambda: self._database.get(key))

    async def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with the prefix, in order."""
        return await self._off_loop(lambda: list(self._database.keys(prefix)))

    def undelivered(self, queue: str | None = None) -> AsyncIterator[Message]:
        """Yield the undelivered messages of a queue, or of all, in order, as they were when asked."""
        return self._each(self._database.undelivered(queue))

    async def _each(self, found: Iterator[Message]) -> AsyncIterator[Message]:
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
        """Hand the queue's next message to this caller only, until it is released or removed; None for none.

        A call that is cancelled gives the message back.
        """
        while True:
            withdrawn = [*self._withdrawn]
            message = await self._taken(queue)
            if message is not None or not withdrawn:
                return message
            # What a cancelled call had got was not back yet, and may be what this one looked for.
            await asyncio.wait([asyncio.wrap_future(returned) for returned in withdrawn])

    async def _taken(self, queue: str) -> Message | None:
        database, taking = self._database, Future[Message | None]()

        def take() -> None:
            try:
                taking.set_result(database.take(queue))
            except BaseException as failure:
                taking.set_exception(failure)

        try:
            # Shielded: a thread that never began would leave nothing that says so.
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, take))
            return taking.result()
        except BaseException:
            # The thread may have the message by now, or get it yet: it would be nobody's.
            self._withdraw(database, taking)
            raise

    def _withdraw(self, database: MessageDatabase, taking: "Future[Message | None]") -> None:
        """Give back what a call got, or gets, that nobody waits for any more."""
        returned = Future[None]()
        self._withdrawn.add(returned)

        def give_back(taken: "Future[Message | None]") -> None:
            if taken.exception() is None and (message := taken.result()) is not None:
                database.give_back(message)
            self._withdrawn.discard(returned)
            returned.set_result(None)

        taking.add_done_callback(give_back)

    def release(self, number: Number) -> bool:
        """Give back a message that was taken; False when it was not. Not awaited: it is in memory."""
        return self._database.release(number)

    async def held(self, queue: str | None = None) -> list[Message]:
        """Return the undelivered messages that are held back: they may have been delivered already."""
        return await self._off_loop(lambda: list(self._database.held(queue)))

    def unhold(self, numbers: Iterable[Number] | None = None) -> Coroutine[Any, Any, int]:
        """Hold these messages no longer, or none at all; return how many undelivered ones that were, durable."""
        known = None if numbers is None else message_numbers(numbers)
        return self._off_loop(lambda: self._database.unhold(known))

    def discard_held(self, numbers: Iterable[Number]) -> Coroutine[Any, Any, int]:
        """Deliver those of these messages that are held back: a consumer has them. Return how many those were."""
        known = message_numbers(numbers)
        return self._off_loop(lambda: self._database.discard_held(known))

    async def cleanup(self, *, compact: bool = False, dry_run: bool = False) -> CleanupReport:
        """Let go of data files that hold nothing needed, or next to nothing, as MessageDatabase.cleanup."""
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

    def __init__(self, block: CommitBlock, write: Callable[[Operations], Awaitable[range]]) -> None:
        self._block = block
        self._write = write

    async def __aenter__(self) -> CommitBlock:
        return self._block.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        operations = self._block.ended()
        if kind is None and not operations.is_empty():
            self._block.numbers = await self._write(operations)
