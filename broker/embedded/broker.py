"""The embedded broker for threads: one object to open, call and close.

    with Broker.open("spool") as broker:
        with broker.session("ALICE", token="PC1") as session:
            session.send("GAME/CHESS/BLACK", b"e4")     # durable on return

Any thread may call. A caller whose call has to be written leads: it commits what everybody has queued up, with one
sync, and hands the lead on when its own call is answered. Meanwhile others call; the kernel is nobody's while the
device works. A thread of the broker's own lets time pass.
"""

import os
import threading
import weakref
from collections.abc import Callable
from itertools import count
from types import TracebackType

from oms_journal.broker.admin.questions import Page, PageSteps
from oms_journal.broker.answers import Answered, Physical, with_enums
from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.block import Reply, Request
from oms_journal.broker.drivers.open import open_store
from oms_journal.broker.embedded.beginning import OpenStore, StartOptions, Value, attributes_of, start
from oms_journal.broker.embedded.runtime import (
    DISCONNECTED,
    TICK_SECONDS,
    Runtime,
    not_connected,
    purge_of,
    set_status_of,
)
from oms_journal.broker.embedded.threads import ThreadDispatcher
from oms_journal.broker.embedded.ticker import Ticker
from oms_journal.broker.kernel.state.effects import (
    AllowNew,
    Command,
    ForbidNew,
    Gone,
    StoreBack,
)
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.records import Status
from oms_journal.broker.sessions.requests import UnitStatus, checked, number_of_seconds, unit_status
from oms_journal.broker.sessions.sessions import Session
from oms_journal.broker.store.start import StoreUnavailable
from oms_journal.database.database import close_in_children


class Broker:
    """A broker in this process, for its threads. Made by `open`."""

    def __init__(self, running: Runtime, *, tick_seconds: float = TICK_SECONDS) -> None:
        self.attributes = running.attributes
        self._running = running
        self._threads = ThreadDispatcher(running)
        self._callers = count(1)
        self._closing = threading.Lock()
        self._is_closed = False
        self._ticker = Ticker(running, self._threads, tick_seconds)
        self._ticker.start()
        close_in_children(weakref.WeakMethod(self._abandon))

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
    ) -> "Broker":
        """Begin the persistent store, restore what it holds, and return the broker.

        `directory` is where the store lies; `attributes` is an attribute file, or one that was read; `given` are
        single values by keyword, `pstore="COLD"`. `erase` confirms a cold start of a store that holds something, by
        the broker id whose data it is. `report` is the file of the PSTORE report where PSTORE-REPORT=YES. `create`
        begins a new store also in a directory that holds files of somebody else.

        StartRefused with its code when the store cannot be begun as PSTORE says: nothing was changed then.
        AttributesInvalid. (EntireX 8.0, Concepts of Persistent Messaging, "Persistent Store".)
        """
        found, seconds = attributes_of(directory, attributes, given), number_of_seconds(tick_seconds, "tick_seconds")
        wanted = StartOptions(attributes=found, erase=erase, report=report, open_store=open_store, create=create)
        return cls(start(wanted), tick_seconds=seconds)

    def __enter__(self) -> "Broker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Calls.

    def call(self, request: Request, *, caller: Physical) -> Answered:
        """Carry out one call and return its answer; with WAIT it takes as long as that says.

        `caller` tells live participants apart, as their connections do: a number from `new_caller`. What the broker
        refuses is an answer with its code, never an exception. From any thread; interrupted by a signal's exception
        it leaves nothing half done, and a message that nobody got to see is given back.
        """
        return self._threads.call(with_enums(request), caller)

    def post(self, request: Request, *, caller: Physical) -> None:
        """Carry out one call whose answer nobody waits for; no handler of a signal ends it in its middle."""
        self._threads.post(with_enums(request), caller)

    def new_caller(self) -> Physical:
        """Return a number that no caller of this broker has yet."""
        return next(self._callers)

    def gone(self, caller: Physical) -> None:
        """Note that a caller will not come back: what it was sending or receiving is taken back."""
        self._threads.give(Gone(caller))

    def session(self, user: str, token: str = "", **fields: str) -> Session:
        """Return a session of a user, which logs on when it is entered.

        USER-ID and TOKEN are whose the units of work and conversations are, over restarts too; a session of the same
        user and token takes this one's place. All sessions of a user without a token have the same ones: each can
        commit, cancel and end what another one has begun, and `last` and `recover` tell of the last one of any. Give
        each program, and each thread that has a session, a token of its own where that is not meant (EntireX, Using
        Persistence and Units of Work). `fields` are fields of the control block that every call of the session has,
        as `password`.
        """
        return Session(self, user, token, fields)

    def purge(self, uowid: str) -> UnitStatus:
        """Remove a unit of work and its status, whosever it is: PURGE. Return its last status; BrokerError 00780305."""
        return unit_status(self._threads.command(purge_of(uowid)))

    def set_uow_status(self, uowid: str, status: Status) -> UnitStatus:
        """Move a unit of work that waits or is put off to ACCEPTED or CANCELLED, SET-UOW-STATUS. 00780307."""
        return unit_status(self._threads.command(set_status_of(uowid, status)))

    def administer(self, command: Callable[[int], Command]) -> Reply:
        """Carry out an operator's command, made with the handle of its answer. BrokerError with what refuses it."""
        return checked(self._threads.command(command)).reply

    def look(self, look: Callable[[World], PageSteps]) -> Page:
        """Return what a look at the kernel's state finds, made in steps: between two of them others have their turn.

        `look` is one of `broker/admin`, with its question. BrokerError 02150148 once the broker is closed.
        """
        return self._threads.look(look)

    # The store's life.

    @property
    def is_store_connected(self) -> bool:
        """Whether the persistent store can be written, as far as is known; False for PSTORE=NO."""
        return self._running.is_store_connected

    def connect_pstore(self) -> None:
        """Go on with the store, after `disconnect_pstore` or a failure: CONNECT-PSTORE.

        It holds what was told durable and nothing else. BrokerError 00780388 when it still cannot be written: then
        everything is as before. (EntireX 8.0, Concepts of Persistent Messaging.)
        """
        store = self._running.persistent_store()
        try:
            self._threads.barrier(store.connect, then=StoreBack())
        except StoreUnavailable as failure:
            raise not_connected(failure) from failure

    def disconnect_pstore(self) -> None:
        """Go on without the store: DISCONNECT-PSTORE.

        What is on its way to it arrives. Then calls about what is persistent are refused with 00780388 or 00780389,
        all others go on, and no persistent lifetime ends. No other process gets the store.
        """
        self._threads.barrier(self._running.persistent_store().disconnect, before=DISCONNECTED)

    def forbid_new_uow_messages(self) -> None:
        """Take no new persistent units of work and publications, 00370445, so that the store empties."""
        self._threads.check_goes_on()
        self._threads.give(ForbidNew())

    def allow_new_uow_messages(self) -> None:
        """Take them again, whatever has forbidden them: `forbid_new_uow_messages`, a full disk, MIN-FREE-SPACE.

        The store makes what room it can first: who has drained a full one can fill it again.
        """
        self._threads.barrier(self._running.make_room, then=AllowNew())

    def close(self) -> None:
        """Write what is on its way and a checkpoint, refuse what waits with 02150148, and let go. Idempotent."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            self._ticker.stop()
            try:
                self._threads.end(self._running.end)
            finally:
                self._running.close()
                self._running.tell()

    def _abandon(self) -> None:
        """Let go in the child of a fork: the store stays the parent's."""
        self._is_closed = True
        self._closing = threading.Lock()  # another thread may have had it
        self._threads.forget()
