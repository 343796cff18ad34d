"""The embedded broker for threads: one object to open, call and close.

    with Broker.open("spool") as broker:
        with broker.session("ALICE", token="PC1") as session:
            session.send("GAME/CHESS/BLACK", b"e4")     # durable on return

Any thread may call. If a call has to be written, its thread commits all that other threads have queued up too, with
one sync. It hands this task to another thread when its own call is answered. While the device works, other threads go
on calling. A thread of the broker advances its clock.
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
    """A broker in this process, for its threads. You make it with `open`."""

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

        `directory` is where the store lies. `attributes` is an attribute file, or one that you have read. `given` are
        single attributes by keyword, as `pstore="COLD"`. `report` is the file of the PSTORE report, where
        PSTORE-REPORT=YES.

        A cold start erases the store. If the store holds something, confirm that with `erase`: the id of the broker
        whose data it is. With `create` a new store begins also in a directory that holds files of somebody else.

        Raises StartRefused with its code when the store cannot begin as PSTORE says. Then nothing was changed. Raises
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
        """Carry out one call and return its answer. With WAIT it takes as long as that says.

        `caller` is a number from `new_caller`. It tells live participants apart, as their connections do. If the broker
        refuses the call, the answer has the code. The broker raises no exception for that.

        You may call from any thread. If the exception of a signal interrupts the call, it leaves nothing half done. It
        gives back a message that nobody got to see.
        """
        return self._threads.call(with_enums(request), caller)

    def _post(self, request: Request, *, caller: Physical) -> None:
        """Carry out one call whose answer nobody waits for. No handler of a signal ends it in its middle."""
        self._threads.post(with_enums(request), caller)

    def new_caller(self) -> Physical:
        """Return a number that no caller of this broker has yet."""
        return next(self._callers)

    def gone(self, caller: Physical) -> None:
        """Note that a caller will not come back. The broker takes back what the caller was sending or receiving."""
        self._threads.give(Gone(caller))

    def session(self, user: str, token: str = "", **fields: str) -> Session:
        """Return a session of a user. It logs on when you enter it.

        USER-ID and TOKEN own the units of work and conversations, over restarts too. A session with the same user and
        token takes the place of this one. All sessions of a user without a token share what they own: each can commit,
        cancel and end what another one has begun, and `last` and `recover` tell of the last one of any session. If you
        do not want that, give each program, and each thread with a session, a token of its own (EntireX, Using
        Persistence and Units of Work).

        `fields` are fields of the control block that every call of the session has, as `password`.
        """
        return Session(self, user, token, fields)

    def purge(self, uowid: str) -> UnitStatus:
        """Remove a unit of work and its status, whoever owns it: PURGE.

        Returns its last status. Raises BrokerError 00780305.
        """
        return unit_status(self._threads.command(purge_of(uowid)))

    def set_uow_status(self, uowid: str, status: Status) -> UnitStatus:
        """Move a unit of work that waits or is put off to ACCEPTED or CANCELLED: SET-UOW-STATUS.

        Raises BrokerError 00780307.
        """
        return unit_status(self._threads.command(set_status_of(uowid, status)))

    def _administer(self, command: Callable[[int], Command]) -> Reply:
        """Carry out an operator's command that was made with the handle of its answer.

        Raises BrokerError with what refuses the command.
        """
        return checked(self._threads.command(command)).reply

    def _look(self, look: Callable[[World], PageSteps]) -> Page:
        """Return what a look at the kernel's state finds.

        The look goes in steps, and between two steps others have their turn. `look` is one of `broker/admin`, with its
        question. Raises BrokerError 02150148 once the broker is closed.
        """
        return self._threads.look(look)

    # The store's life.

    @property
    def is_store_connected(self) -> bool:
        """Whether the broker can write the persistent store, as far as it knows. False for PSTORE=NO."""
        return self._running.is_store_connected

    def connect_pstore(self) -> None:
        """Go on with the store, after `disconnect_pstore` or a failure: CONNECT-PSTORE.

        Afterwards the store holds what the broker told to be durable, and nothing else. Raises BrokerError 00780388
        when the broker still cannot write it. Then everything is as before. (EntireX 8.0, Concepts of Persistent
        Messaging.)
        """
        store = self._running.persistent_store()
        try:
            self._threads.barrier(store.connect, then=StoreBack())
        except StoreUnavailable as failure:
            raise not_connected(failure) from failure

    def disconnect_pstore(self) -> None:
        """Go on without the store: DISCONNECT-PSTORE.

        What is on its way to the store arrives. After that the broker refuses calls about persistent things with
        00780388 or 00780389. All other calls go on, and no persistent lifetime ends. No other process gets the store.
        """
        self._threads.barrier(self._running.persistent_store().disconnect, before=DISCONNECTED)

    def forbid_new_uow_messages(self) -> None:
        """Take no new persistent units of work and publications, so that the store empties.

        New ones are refused with 00370445.
        """
        self._threads.check_goes_on()
        self._threads.give(ForbidNew())

    def allow_new_uow_messages(self) -> None:
        """Take new persistent units of work and publications again.

        It does not matter what has forbidden them: `forbid_new_uow_messages`, a full disk, or MIN-FREE-SPACE. The store
        first makes what room it can. So if you have emptied a full store, you can fill it again.
        """
        self._threads.barrier(self._running.make_room, then=AllowNew())

    def close(self) -> None:
        """Write what is on its way and a checkpoint, and let go of the store. Idempotent.

        The broker refuses calls that wait with 02150148.
        """
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
