"""The embedded broker for asyncio: the methods of `Broker`, awaited.

async with AsyncBroker.open("spool") as broker:
    async with broker.session("ALICE", token="PC1") as session:
        await session.send("GAME/CHESS/BLACK", b"e4")
"""

import asyncio
import os
from collections.abc import Callable
from itertools import count
from types import TracebackType

from oms_journal.broker.admin.questions import Page, PageSteps, run_steps_async
from oms_journal.broker.answers import Answered, Physical, with_enums
from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.block import Reply, Request
from oms_journal.broker.codes import BrokerError, Code, refuse
from oms_journal.broker.drivers.open import open_store
from oms_journal.broker.embedded.beginning import OpenStore, StartOptions, Value, attributes_of, start
from oms_journal.broker.embedded.loop import LoopDispatcher, PendingCallback
from oms_journal.broker.embedded.runtime import (
    DISCONNECTED,
    TICK_SECONDS,
    Runtime,
    not_connected,
    purge_of,
    set_status_of,
)
from oms_journal.broker.kernel.state.effects import (
    AllowNew,
    Command,
    ForbidNew,
    Gone,
    StoreBack,
)
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.records import Status
from oms_journal.broker.sessions.async_sessions import AsyncSession
from oms_journal.broker.sessions.requests import UnitStatus, checked, number_of_seconds, unit_status
from oms_journal.broker.store.latencies import Latencies
from oms_journal.broker.store.start import PersistentStore, StoreUnavailable

_ENTERED = "this AsyncBroker was entered already; make another one with AsyncBroker.open"


class AsyncBroker:
    """A broker in this process, for the tasks of one event loop.

    You make it with `open` and begin it with `async with`.
    """

    def __init__(self, wanted: StartOptions, *, tick_seconds: float = TICK_SECONDS) -> None:
        self.attributes = wanted.attributes
        self._wanted = wanted
        self._tick_seconds = tick_seconds
        self._callers = count(1)
        self._running: Runtime | None = None
        self._tasks: LoopDispatcher | None = None
        self._closing: asyncio.Task[None] | None = None
        self._is_entered = False

    @classmethod
    def open(  # noqa: PLR0913 - named, and most callers need one
        cls,
        directory: str | os.PathLike[str] | None = None,
        *,
        attributes: Attributes | str | os.PathLike[str] | None = None,
        erase: str | None = None,
        report: str | None = None,
        open_store: OpenStore = open_store,
        create: bool = False,
        tick_seconds: float = TICK_SECONDS,
        **given: Value,
    ) -> "AsyncBroker":
        """Return a broker that you begin with `async with`. Arguments and errors as Broker.open."""
        found = attributes_of(directory, attributes, given)
        wanted = StartOptions(attributes=found, erase=erase, report=report, open_store=open_store, create=create)
        return cls(wanted, tick_seconds=number_of_seconds(tick_seconds, "tick_seconds"))

    async def __aenter__(self) -> "AsyncBroker":
        if self._is_entered:
            raise refuse(Code.NOT_ACTIVE, _ENTERED)
        self._is_entered = True
        loop = asyncio.get_running_loop()
        beginning = loop.run_in_executor(None, start, self._wanted)
        try:
            self._running = await asyncio.shield(beginning)
        except BaseException as failure:
            self._is_entered = False
            if isinstance(failure, asyncio.CancelledError):
                beginning.add_done_callback(_let_go)
            raise
        self._tasks = LoopDispatcher(self._running, loop, tick_seconds=self._tick_seconds)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def call(self, request: Request, *, caller: Physical) -> Answered:
        """Carry out one call, as Broker.call.

        If you cancel it, it leaves nothing half done, and loses no unit of work.
        """
        return await self._looped.call(with_enums(request), caller)

    def _ask(self, request: Request, *, caller: Physical, then: Callable[[Answered], None]) -> PendingCallback:
        """Begin a call now. Its answer goes to `then` in a later turn of the loop. Not awaited.

        If you have many calls under way, this is cheaper than `call`, because no task waits. To take the call back, use
        `cancel` of what it returns.
        """
        return self._looped.ask(with_enums(request), caller, then)

    def _post(self, request: Request, *, caller: Physical) -> None:
        """Carry out one call whose answer nobody waits for. Not awaited."""
        self._looped.post(with_enums(request), caller)

    def new_caller(self) -> Physical:
        """Return a number that no caller of this broker has yet. Not awaited."""
        return next(self._callers)

    def gone(self, caller: Physical, *, is_untried: bool = False) -> None:
        """Note that a caller will not come back, as Broker.gone. Not awaited: the writing goes on by itself.

        With `is_untried` the caller was sent away, and the attempt does not count for what it was receiving.
        """
        self._looped.give(Gone(caller, is_untried))

    async def _settled(self, caller: Physical) -> None:
        """Return once the broker has taken back what the cancelled calls of the caller had begun."""
        await self._looped.settled(caller)

    def session(self, user: str, token: str = "", **fields: str) -> AsyncSession:
        """Return a session of a user, as Broker.session. It logs on when you enter it with `async with`."""
        return AsyncSession(self, user, token, fields)

    @property
    def _looped(self) -> LoopDispatcher:
        if self._tasks is None:
            raise BrokerError(Code.NOT_ACTIVE, "enter the broker first: async with AsyncBroker.open(...) as broker")
        return self._tasks

    async def purge(self, uowid: str) -> UnitStatus:
        """Remove a unit of work and its status, as Broker.purge."""
        command = purge_of(uowid)
        return unit_status(await self._looped.command(command))

    async def set_uow_status(self, uowid: str, status: Status) -> UnitStatus:
        """Move a unit of work that waits or is put off, as Broker.set_uow_status."""
        command = set_status_of(uowid, status)
        return unit_status(await self._looped.command(command))

    async def _administer(self, command: Callable[[int], Command]) -> Reply:
        """Carry out an operator's command that was made with the handle of its answer.

        Raises BrokerError with what refuses the command.
        """
        return checked(await self._looped.command(command)).reply

    # Looking.

    async def _look(self, look: Callable[[World], PageSteps]) -> Page:
        """Return what a look at the kernel's state finds.

        The look goes in steps, and between two steps others have their turn. `look` is one of `broker/admin`, with its
        question. Raises BrokerError 02150148 once the broker is closed.
        """
        return await run_steps_async(look(self._looped.world))

    @property
    def _store(self) -> PersistentStore | None:
        """The persistent store, or None for PSTORE=NO. It is for those who look at the store."""
        return self._running.store if self._running is not None else None

    @property
    def _latencies(self) -> Latencies:
        """How long commits have taken since the start."""
        return self._running.latencies if self._running is not None else Latencies()

    @property
    def _call_count(self) -> int:
        """How many calls there were since the start, this broker's own among them."""
        return self._tasks.call_count if self._tasks is not None else 0

    # The store's life.

    @property
    def is_store_connected(self) -> bool:
        """Whether the broker can write the persistent store, as far as it knows. False for PSTORE=NO."""
        return self._running is not None and self._running.is_store_connected

    @property
    def _is_store_lost(self) -> bool:
        """Whether a commit has failed, or would fail. Then what was acknowledged may not be where it was."""
        store = self._running.store if self._running is not None else None
        return store is not None and store.is_lost

    @property
    def _is_taken_over(self) -> bool:
        """Whether another broker has the persistent store by now. Then it is time to end."""
        store = self._running.store if self._running is not None else None
        return store is not None and store.is_taken_over

    async def connect_pstore(self) -> None:
        """Go on with the store, as Broker.connect_pstore."""
        try:
            await self._looped.barrier(self._connectable_store().connect, then=StoreBack())
        except StoreUnavailable as failure:
            raise not_connected(failure) from failure

    async def disconnect_pstore(self) -> None:
        """Go on without the store, as Broker.disconnect_pstore."""
        await self._looped.barrier(self._connectable_store().disconnect, before=DISCONNECTED)

    def _connectable_store(self) -> PersistentStore:
        if self._running is None:
            raise refuse(Code.UOW_NOT_PERSISTED, "PSTORE=NO")
        return self._running.persistent_store()

    def forbid_new_uow_messages(self) -> None:
        """Take no new persistent units of work and publications, as Broker does. Not awaited."""
        self._looped.check_goes_on()
        self._looped.give(ForbidNew())

    def allow_new_uow_messages(self) -> None:
        """Take new persistent units of work and publications again, as Broker does.

        Not awaited: what you send from now on goes behind the making of room.
        """
        self._looped.check_goes_on()
        self._looped.make_room(before=AllowNew())

    async def close(self) -> None:
        """Close, as Broker.close. Idempotent. Once begun, closing ends, whoever is cancelled."""
        if self._running is None or self._tasks is None:
            return
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(self._running, self._tasks))
        await asyncio.shield(self._closing)

    async def _close(self, running: Runtime, tasks: LoopDispatcher) -> None:
        try:
            await tasks.end(running.end)
        finally:
            await asyncio.to_thread(running.close)
            running.tell()


def _let_go(beginning: "asyncio.Future[Runtime]") -> None:
    """Close what was begun for a task that had been cancelled by then."""
    if not beginning.cancelled() and beginning.exception() is None:
        beginning.result().close()
