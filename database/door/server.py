"""The process that has the database lets others add to it: a thread with an event loop of its own, beside the program.

Every connection has one request on its way. The adds of many connections that come in one turn of the loop go out
together (`asynchronous.py`), and share a sync with the program's own commits.

What a client can make the server hold: a small request a connection, and `LARGE_BYTES_MAX` of large ones together. A
larger one waits for its turn, unread. Who does not go on with a large request is let go of after `STALL_SECONDS`.

Who waits for room waits as long as its client is there. A large request is not kept meanwhile, so that it holds up no
other: when its turn has come, or its time is up, the client sends it again.

At the end a request that was read whole is carried out and answered, unless it waits for room. All others are told that
they were not.
"""

import asyncio
import contextlib
import logging
import socket
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any

from oms_journal.database.arguments import shown
from oms_journal.database.asynchronous import AsyncMessageDatabase
from oms_journal.database.commits.added import Added, AddedMany, added_numbers
from oms_journal.database.commits.limited import Turn
from oms_journal.database.commits.terms import terms_as_of
from oms_journal.database.database import MessageDatabase, close_in_children
from oms_journal.database.door import address
from oms_journal.database.door.protocol import (
    GREETING,
    HEADER,
    REQUEST_BYTES_MAX,
    VERSION,
    Garbled,
    Greeting,
    Kind,
    NewMessages,
    add_bytes_max,
    decode_add,
    decode_add_many,
    decode_greeting,
    encode_added,
    encode_failure,
    framed,
)
from oms_journal.journal.errors import JournalError, LimitExceeded, QueueFull
from oms_journal.journal.writing.draft import Draft

GREETING_SECONDS = 30.0  # in which a client says who it is
STALL_SECONDS = 60.0  # in which a large request is there whole
SMALL_BYTES = 64 << 10  # a request up to this waits for no other
LARGE_BYTES_MAX = 256 << 20  # of larger ones in memory at once; one that is larger than all of this goes alone
ACCEPT_AGAIN_SECONDS = 0.5  # after the system had no more descriptors
_log = logging.getLogger("oms.database")


class QueueServer:
    """Lets other processes add to an open database. You make it with `serve_queue`.

    with MessageDatabase.open("spool") as db, serve_queue(db, "orders.sock"):
        while (message := db.take("orders")) is not None:
            db.deliver(message)
    """

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError('a server is made by its function: write serve_queue(db, "orders.sock")')

    def _begin(self, database: MessageDatabase, path: Path, *, is_async: bool) -> None:
        self.path = path
        self._database = database
        self._is_async = is_async
        self._listener, self._file_number = address.listening(path)
        self._closing = threading.Lock()  # guards the end
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()
        self._sockets: set[socket.socket] = set()
        self._idle: set[asyncio.Task[None]] = set()  # those that carry nothing out, and may be ended
        self._tasks: set[asyncio.Task[None]] = set()
        self._patient: set[asyncio.Future[None]] = set()  # the ends of the waits for room
        self._large = _Room(LARGE_BYTES_MAX)
        started: Future[None] = Future()
        # A daemon: a program that forgets to close ends all the same, as it does with its database.
        self._thread = threading.Thread(target=self._run, args=(started,), name="oms-door", daemon=True)
        close_in_children(weakref.WeakMethod(self._abandon))
        self._thread.start()
        started.result()

    def close(self) -> None:
        """Carry out what was read, answer it, and let nobody add any more. Idempotent.

        The database stays open. With an AsyncMessageDatabase leave `async with` instead: the loop has to go on
        meanwhile.
        """
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            assert self._loop is not None
            address.remove(self.path, self._file_number)
            self._loop.call_soon_threadsafe(self._ending.set)
            self._thread.join()

    def __enter__(self) -> "QueueServer":
        if self._is_async:
            self.close()
            raise TypeError("the server of an AsyncMessageDatabase is left by its loop: write async with")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> "QueueServer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def _abandon(self) -> None:
        """Let go in the child of a fork: else the parent's clients would wait for a process that does not answer."""
        self._is_closed = True
        self._closing = threading.Lock()
        for each in (self._listener, *self._sockets):
            each.close()

    def _run(self, started: "Future[None]") -> None:
        try:
            asyncio.run(self._serve(started))
        except BaseException as failure:
            if started.done():
                _log.exception("the server of %s has ended", self.path)
            else:
                started.set_exception(failure)
        finally:
            self._listener.close()

    async def _serve(self, started: "Future[None]") -> None:
        self._loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        async with AsyncMessageDatabase.wrap(self._database) as database:
            self._listen(database)
            started.set_result(None)
            await self._ending.wait()
            self._loop.remove_reader(self._listener)
            for end in self._patient:
                _done(end)
            for task in self._idle:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            while self._sockets:  # of tasks that were cancelled before their first step
                self._sockets.pop().close()

    def _listen(self, database: AsyncMessageDatabase) -> None:
        """Accept who comes, in one step: a task that accepts loses whom it has accepted when it is cancelled."""
        if not self._ending.is_set():
            asyncio.get_running_loop().add_reader(self._listener, self._accept, database)

    def _accept(self, database: AsyncMessageDatabase) -> None:
        loop = asyncio.get_running_loop()
        try:
            accepted, _ = self._listener.accept()
        except BlockingIOError:
            return  # it has gone again
        except OSError as failure:
            _log.warning("%s accepts nobody for the moment: %s", self.path, failure)
            loop.remove_reader(self._listener)
            loop.call_later(ACCEPT_AGAIN_SECONDS, self._listen, database)
            return
        accepted.setblocking(False)
        self._sockets.add(accepted)
        task = loop.create_task(self._converse(database, accepted))
        self._tasks.add(task)
        self._idle.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, database: AsyncMessageDatabase, accepted: socket.socket) -> None:
        """Serve one client until either side ends."""
        task = asyncio.current_task()
        assert task is not None
        writer: asyncio.StreamWriter | None = None
        try:
            reader, writer = await asyncio.open_unix_connection(sock=accepted)
            await self._greet(database, reader, writer)
            while not self._ending.is_set():
                answer = await self._answered(database, reader, writer, task)
                writer.write(answer)
                await writer.drain()
            writer.write(framed(Kind.ENDING, ()))
        except Garbled as failure:
            _log.warning("a client of %s was let go of: %s", self.path, failure)
        except _Refused as refused:
            assert writer is not None
            writer.write(encode_failure(refused.failure))
        except (asyncio.IncompleteReadError, OSError, TimeoutError):
            pass  # it has gone, or does not go on
        except asyncio.CancelledError:  # nothing was carried out
            if writer is not None:
                writer.write(framed(Kind.ENDING, ()))
        finally:
            self._idle.discard(task)
            self._sockets.discard(accepted)
            if writer is None:
                accepted.close()
            else:
                writer.close()

    async def _greet(
        self, database: AsyncMessageDatabase, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(Greeting(VERSION, self._message_bytes_max, REQUEST_BYTES_MAX).encode())
        async with asyncio.timeout(GREETING_SECONDS):
            theirs = decode_greeting(await reader.readexactly(GREETING.size))
        if theirs.version != VERSION:
            raise Garbled(f"it speaks version {theirs.version} of the language, not {VERSION}")

    @property
    def _message_bytes_max(self) -> int:
        return self._database.options.max_message_size

    async def _answered(
        self,
        database: AsyncMessageDatabase,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        task: "asyncio.Task[None]",
    ) -> bytes:
        """Read a request, carry it out, and return the answer; Garbled, _Refused where the rest is not read."""
        kind, length = HEADER.unpack(await reader.readexactly(HEADER.size))
        if kind not in (Kind.ADD, Kind.ADD_MANY):
            raise Garbled(f"a request of kind {kind}")
        most = add_bytes_max(self._message_bytes_max) if kind == Kind.ADD else REQUEST_BYTES_MAX
        if length > most:
            raise _Refused(LimitExceeded(f"the request has {length} bytes, at most {most} are allowed"))
        if length <= SMALL_BYTES:
            body = await reader.readexactly(length)
            return await self._carried_out(task, kind, body, lambda new: self._added(database, kind, new, reader))
        large = _Large(self, database, kind)
        try:
            while (answer := await self._answered_large(large, reader, length, task)) is None:
                if self._ending.is_set():
                    return framed(Kind.ENDING, ())
                await self._waited(large, reader)
                writer.write(framed(Kind.AGAIN, ()))
                async with asyncio.timeout(STALL_SECONDS):
                    if HEADER.unpack(await reader.readexactly(HEADER.size)) != (kind, length):
                        raise Garbled("another request than the one that was to come again")
            return answer
        finally:
            large.give_up()

    async def _answered_large(
        self, large: "_Large", reader: asyncio.StreamReader, length: int, task: "asyncio.Task[None]"
    ) -> bytes | None:
        """Read a large request in its turn, and carry it out; None where it has to wait for room in its queue."""
        async with self._large.of(length):
            async with asyncio.timeout(STALL_SECONDS):
                body = await reader.readexactly(length)
            answer = await self._carried_out(task, large.kind, body, large.added)
        return None if large.is_waiting else answer

    async def _waited(self, large: "_Large", reader: asyncio.StreamReader) -> None:
        """Wait for room as long as the client is there; ConnectionError where it has gone."""
        end = asyncio.get_running_loop().create_future()
        gone = asyncio.ensure_future(reader.read(1))  # a client says nothing before it has its answer
        gone.add_done_callback(lambda _: _done(end))
        try:
            await large.wait(end)
            if end.done():
                raise ConnectionResetError
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)

    async def _carried_out(
        self,
        task: "asyncio.Task[None]",
        kind: int,
        body: bytes,
        added: Callable[[NewMessages], Awaitable[bytes]],
    ) -> bytes:
        """Return the answer to a request that was read. From here on the end waits for it."""
        new = decode_add(body) if kind == Kind.ADD else decode_add_many(body)
        del body
        self._idle.discard(task)
        try:
            return await added(new)
        except Exception as failure:
            if not isinstance(failure, JournalError | TypeError | ValueError):
                _log.exception("a request at %s failed", self.path)
            return encode_failure(failure)
        finally:
            if not self._ending.is_set():
                self._idle.add(task)

    async def _added(
        self, database: AsyncMessageDatabase, kind: int, new: NewMessages, reader: asyncio.StreamReader
    ) -> bytes:
        """Return the answer to a request that is kept while it waits for room."""
        if not new.wait:
            return encode_added(await self._add(database, kind, new))
        return await self._add_in_turn(database, kind, new, reader)

    def _add(
        self,
        database: AsyncMessageDatabase,
        kind: int,
        new: NewMessages,
        end: "asyncio.Future[None] | None" = None,
    ) -> "Coroutine[Any, Any, Added | AddedMany]":
        """Add what a client has checked. Where `end` is done, it waits no longer for room."""
        if kind == Kind.ADD and new.terms is None and new.wait is None:
            properties = None if new.properties is None else new.properties[0]
            return database.add(new.queue, new.payloads[0], properties=properties, producer_id=new.producer_id)
        return database._added_many(self._draft(kind, new), new.wait, end)

    def _draft(self, kind: int, new: NewMessages) -> Draft | None:
        """Return the draft of what a client has checked; None for no message."""
        drafting, asked = self._database._drafting, new.terms
        if kind == Kind.ADD_MANY:
            return drafting.add_many(
                new.queue,
                new.payloads,
                new.properties,
                new.producer_id,
                lambda: None if asked is None else terms_as_of(drafting.moment(), asked),
            )
        properties = None if new.properties is None else new.properties[0]
        said = None if asked is None else lambda: terms_as_of(drafting.moment(), asked)
        return drafting.add(new.queue, new.payloads[0], properties, new.producer_id, said)

    async def _add_in_turn(
        self, database: AsyncMessageDatabase, kind: int, new: NewMessages, reader: asyncio.StreamReader
    ) -> bytes:
        """Return the answer to an add that waits for room, as long as its client is there and the server goes on."""
        end = asyncio.get_running_loop().create_future()
        gone = asyncio.ensure_future(reader.read(1))  # a client says nothing before it has its answer
        gone.add_done_callback(lambda _: _done(end))
        self._patient.add(end)
        if self._ending.is_set():
            _done(end)
        try:
            return encode_added(await self._add(database, kind, new, end))
        except QueueFull:
            if self._ending.is_set():
                return framed(Kind.ENDING, ())
            raise
        finally:
            self._patient.discard(end)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)


def _done(end: "asyncio.Future[None]") -> None:
    if not end.done():
        end.set_result(None)


class _Large:
    """A large request, which is not kept while it waits for room."""

    def __init__(self, server: QueueServer, database: AsyncMessageDatabase, kind: int) -> None:
        self.kind = kind
        self.is_waiting = False
        self._server = server
        self._database = database
        self._turn: Turn | None = None

    async def added(self, new: NewMessages) -> bytes:
        """Return the answer to the request, read anew; no answer where it has to wait for room."""
        if not new.wait:
            return encode_added(await self._server._add(self._database, self.kind, new))
        draft = self._server._draft(self.kind, new)
        assert draft is not None, "a request has messages"
        is_again, self.is_waiting = self.is_waiting, False
        if is_again and self._turn is not None:
            self._turn.hand_in_again(draft)
        else:
            self._turn = Turn.wanted(self._database._database._ledger, draft, new.wait)
        try:
            await self._database._commit(draft)
        except QueueFull:
            if is_again or self._turn is None or not self._turn.is_in_line:
                raise
            self.is_waiting = True
            return b""
        return encode_added(added_numbers(draft))

    async def wait(self, end: "asyncio.Future[None]") -> None:
        """Wait for room, until the time is up or `end` is done."""
        assert self._turn is not None, "it was refused"
        await self._turn.wait(end)

    def give_up(self) -> None:
        if self._turn is not None:
            self._turn.give_up()


class _Refused(Exception):
    """A request whose rest is not read: it is answered with the failure, and its connection ends."""

    def __init__(self, failure: JournalError) -> None:
        super().__init__(str(failure))
        self.failure = failure


class _Room:
    """So many bytes of large requests at once, in the order in which they ask."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._used = 0
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def of(self, size: int) -> AsyncIterator[None]:
        """Keep room for so many bytes in the block, and wait for it."""
        async with self._turn:
            while self._used and self._used + size > self._bytes_max:
                self._freed.clear()
                await self._freed.wait()
            self._used += size
        try:
            yield
        finally:
            self._used -= size
            self._freed.set()


def serve_queue(database: MessageDatabase | AsyncMessageDatabase, path: str | Path) -> QueueServer:
    """Let other processes add to an open database, through a Unix socket at the path, until the server is closed.

    It serves on return, in a thread of its own. Other processes call `connect_queue(path)`. Only processes of the same
    user can connect: the mode of the socket is 0600. A socket that a killed server has left is replaced.

    Close the server before the database. In the child of a fork it is closed: clients stay the parent's.

    Raises SocketRefused where the socket cannot be made, LimitExceeded where its path is longer than 107 bytes,
    TypeError and ValueError for a path that is none, and DatabaseClosed.
    """
    is_async = isinstance(database, AsyncMessageDatabase)
    if isinstance(database, AsyncMessageDatabase):
        database = database._database
    if not isinstance(database, MessageDatabase):
        raise TypeError(f"database must be an open MessageDatabase or AsyncMessageDatabase, not {shown(database)}")
    found = address.socket_path(path)
    database._check_open()
    server = QueueServer.__new__(QueueServer)
    server._begin(database, found, is_async=is_async)
    return server
