"""The server: a broker and what listens for it, in one process and on one loop, from its start to a clean stop.

RUN-MODE       first                                then
STANDARD       HTTP listens, the store is restored  STOMP listens; the end
STANDBY        HTTP listens                         the store is taken over, and it is a standard broker
PSTORE-UNLOAD  HTTP listens                         the store is moved to the partner; the end (`server/migration`)
PSTORE-LOAD    HTTP listens                         the partner's store is taken in; the end

Both have STOMP's ports from the first moment, and refuse connections until they listen there. A standard broker ends
when it is told to, or when it finds that its store was taken over.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.block import Store
from oms_journal.broker.codes import Code
from oms_journal.broker.drivers.open import open_store, spool_directory
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.embedded.beginning import StartOptions, with_start
from oms_journal.broker.migration.agreement import MODES, UNLOAD
from oms_journal.broker.server.admin.commands import tell_held
from oms_journal.broker.server.http.routes import web_listener
from oms_journal.broker.server.migration.exchange import MoveFailed, MoveProgress, Show, no_show
from oms_journal.broker.server.runtime.limits import StompLimits
from oms_journal.broker.server.runtime.listeners import HeldPort
from oms_journal.broker.server.runtime.log import LoopErrorLog, event
from oms_journal.broker.server.runtime.state import Listener, PortRefused, ServerState
from oms_journal.broker.server.runtime.tls import HANDSHAKES_MAX
from oms_journal.broker.server.security.access import Access
from oms_journal.broker.server.security.file_modes import warn_of_wide_modes
from oms_journal.broker.server.standby.standby import Standby, StandbyEnds
from oms_journal.broker.server.stomp.listener import StompListener
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import JournalError
from oms_journal.journal.lock import Holder, read_holder

if sys.platform != "win32":
    import resource

_log = logging.getLogger("oms.server")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


FILES_BESIDE = 200 + 2 * HANDSHAKES_MAX  # that a broker has open beside its connections
T = TypeVar("T")
LOOK_SECONDS = 0.25  # between two looks whether the store is still this broker's


class StoreTaken(Exception):
    """Another broker has taken the store over. Nothing that this one did since was acknowledged."""


class Server:
    """A broker as a server."""

    def __init__(  # noqa: PLR0913 - named, and most callers need two
        self,
        attributes: Attributes,
        *,
        limits: StompLimits | None = None,
        on_stop: Callable[[str], None] = lambda _: None,
        report: str | None = None,
        show: Show = no_show,
        create: bool = False,
        erase: str | None = None,
    ) -> None:
        """`on_stop` is told why, as soon as the server is to end; `show` how far a move of the store is.

        `report` is where the report of the store goes; `create` begins one also among files of somebody else; `erase`
        names the broker whose data a cold start may erase.
        """
        self._attributes, self._create, self._erase = attributes, create, erase
        self._on_stop, self._report, self._show = on_stop, report, show
        limits = limits or StompLimits()
        frames = replace(limits.frames, body=attributes.longest_message())
        self._limits = replace(limits, connections=attributes.broker.max_connections, frames=frames)
        self._stopping = asyncio.Event()
        self._why = "it was asked to"
        run_mode, started = attributes.broker.run_mode, datetime.now(UTC).timestamp()
        self._served = ServerState(
            attributes=attributes,
            stop=self.stop,
            run_mode=run_mode,
            started=started,
            refusal=Code.NOT_OPERATIONAL,
            partner=attributes.broker.partner_cluster_address or "",
        )
        self._access: Access  # while it runs
        self._addresses: dict[str, list[str]] = {}  # where it listens, by the listener's name
        self._held: dict[str, HeldPort] = {}  # where it will, by the listener's name
        self._last_words = _last_words(attributes)
        self._taken = ""  # who has taken the store over

    def stop(self, why: str = "it was asked to") -> None:
        """Let `run` end. To be called on the loop."""
        self._why = why
        self._stopping.set()

    async def run(self, ready: Callable[[list[str]], None] = lambda _: None) -> str:
        """Serve until `stop`, SIGTERM or SIGINT. `ready` is told where it listens, whenever that changes.

        A move of the store ends by itself, and what was moved is returned, for people.
        AccessRefused, StartRefused, PortRefused; StandbyEnds of a standby that cannot be one; StoreTaken; MoveFailed.
        """
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(LoopErrorLog())
        _tell(self._attributes)
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.stop, number.name)
        try:
            async with Access.open(self._attributes.broker) as access:
                self._access, self._served.guard = access, access.guard
                return await self._serve(ready)
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    async def _serve(self, ready: Callable[[list[str]], None]) -> str:
        """HTTP is there from the first moment, so that partners and operators are answered; STOMP with the broker."""
        served, count = self._served, 0
        _allow_files(3 * self._limits.connections + FILES_BESIDE)
        try:
            web = web_listener(served, certificate=self._access.certificate)
            if served.run_mode in MODES:
                return await self._move(web, ready)
            if web is not None:
                await self._start(web, self._access.web_host, self._attributes.broker.http_port)
            await self._hold_ports()
            is_standby = served.run_mode == "STANDBY"
            beginning = self._stand_by(ready) if is_standby else self._begin(self._wanted())
            await self._unless_stopped(beginning)
            if served.broker is not None:
                ready(self._listening())
            await self._until_the_end()
            _log.info("stopping: %s", self._why, extra=event("stopping", why=self._why))
        finally:
            self._on_stop(self._why)
            began = time.monotonic()
            count = await self._end()
        _log.info(
            "stopped: %d connections ended; %s",
            count,
            self._last_words,
            extra=event("stopped", connections=count, seconds=round(time.monotonic() - began, 3)),
        )
        if self._taken:
            raise StoreTaken(self._taken)
        return ""

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return what it comes to; None when the server is to stop before: then it is cancelled."""
        working, stopped = asyncio.ensure_future(work), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, stopped):
                task.cancel()
            await asyncio.gather(working, stopped, return_exceptions=True)
        return None if working.cancelled() else working.result()

    # The run modes.

    def _wanted(self) -> StartOptions:
        return StartOptions(
            attributes=self._attributes,
            erase=self._erase,
            erases_once=True,
            report=self._report,
            create=self._create,
        )

    async def _begin(self, wanted: StartOptions) -> None:
        """Be the standard broker: open the store, restore it, and listen for STOMP. StartRefused, PortRefused."""
        served, began = self._served, time.monotonic()
        broker = AsyncBroker(wanted)
        async with AsyncExitStack() as undone:
            await undone.enter_async_context(broker)
            await asyncio.to_thread(warn_of_wide_modes, self._attributes)
            undone.callback(self._refuse)
            for name, host, port in self._stomp_ports():
                listener = self._stomp_listener(broker, name)
                await self._start(listener, host, port)
                undone.push_async_callback(self._shut, listener)
            undone.pop_all()
        self._let_go()  # the listeners have them
        served.broker, served.run_mode, served.refusal = broker, "STANDARD", Code.NOT_ACTIVE
        took, listening = time.monotonic() - began, self._listening()
        said = event("listening", addresses=listening, seconds=round(took, 3))
        _log.info("listening for %s, after %.2f s", ", ".join(listening), took, extra=said)
        await tell_held(broker)

    async def _stand_by(self, ready: Callable[[list[str]], None]) -> None:
        """Be a standby until the store is taken over. StandbyEnds."""
        web = [addresses for name, addresses in self._addresses.items() if name in ("HTTP", "HTTPS")]
        if not web:
            raise StandbyEnds("a standby answers over HTTP: pip install 'oms-journal[server]'")
        held = [f"{name} {each}" for name, port in self._held.items() for each in port.addresses]
        said = event("standby", addresses=self._listening(), held=held)
        text = "listening for %s as a standby; %s: held, and connections are refused"
        _log.info(text, ", ".join(self._listening()), ", ".join(held), extra=said)
        ready(self._listening())
        port = int(web[0][0].rpartition(":")[2])
        await Standby(self._served, port).run(self._take_over)

    async def _move(self, web: Listener | None, ready: Callable[[list[str]], None]) -> str:
        """Move the store from or to the partner, with HTTP alone; return what was moved. MoveFailed, StartRefused."""
        if web is None or find_spec("httpx") is None:
            raise PortRefused("a store is moved over HTTP: pip install 'oms-journal[server]'")
        from oms_journal.broker.server.migration.load_side import LoadSide
        from oms_journal.broker.server.migration.unload_side import UnloadSide

        side = UnloadSide if self._served.run_mode == UNLOAD else LoadSide
        moving = side(self._served, MoveProgress(self._served, self._show), self._report)
        self._served.moving = moving
        await self._start(web, self._access.web_host, self._attributes.broker.http_port)
        _log.info("listening for %s to move the store", ", ".join(self._listening()))
        ready(self._listening())
        try:
            text = await self._unless_stopped(moving.run())
        finally:
            await moving.close()
        if text is None:
            raise MoveFailed("the server was stopped before the store was moved; start both again, and it begins anew")
        return text

    async def _take_over(self, passing: Holder | None, *, begins: bool) -> None:
        """Become the standard broker. StartRefused, PortRefused."""
        wanted = self._wanted()
        attributes = with_start(wanted.attributes, "WARM") if begins else wanted.attributes
        opening = partial(open_store, passing=passing)
        await self._begin(replace(wanted, attributes=attributes, open_store=opening, is_standby=True))

    # Listening, and the end.

    def _stomp_ports(self) -> list[tuple[str, str, int]]:
        """Return the names of what listens for STOMP, and where."""
        access, broker = self._access, self._attributes.broker
        found = [("STOMP", access.plain_host, broker.stomp_port)]
        if access.certificate is not None:
            found.append(("STOMP-TLS", access.host, broker.stomp_tls_port))
        return found

    def _stomp_listener(self, broker: AsyncBroker, name: str) -> StompListener:
        access = self._access
        certificate = access.certificate if name == "STOMP-TLS" else None
        listener = StompListener(broker, self._limits, guard=access.guard, certificate=certificate)
        listener.held = self._held.get(name)
        return listener

    async def _hold_ports(self) -> None:
        """Have the ports of STOMP, without listening. PortRefused."""
        for name, host, port in self._stomp_ports():
            with _port_refused(name, host, port):
                self._held[name] = await HeldPort.hold(host, port)

    def _refuse(self) -> None:
        """Refuse connections again: there is no broker for them yet."""
        for held in self._held.values():
            held.refuse()

    def _let_go(self) -> None:
        for held in self._held.values():
            held.close()
        self._held = {}

    async def _start(self, listener: Listener, host: str, port: int) -> None:
        """Listen. PortRefused."""
        with _port_refused(listener.name, host, port):
            self._addresses[listener.name] = list(await listener.start(host, port))
        self._served.listeners.append(listener)

    async def _shut(self, listener: Listener) -> int:
        """Listen no more, if it still does; return how many connections there were."""
        if listener not in self._served.listeners:
            return 0
        self._served.listeners.remove(listener)
        self._addresses.pop(listener.name, None)
        return await listener.stop()

    def _listening(self) -> list[str]:
        return [
            f"{name} {address}" for name in sorted(self._addresses, reverse=True) for address in self._addresses[name]
        ]

    async def _until_the_end(self) -> None:
        """Return when the server is to stop, or when the store is not this broker's any more."""
        served = self._served
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), LOOK_SECONDS)
            if served.broker is not None and served.broker._is_taken_over:
                self._taken = f"the store was taken over{_by_whom(served)}; nothing was acknowledged here since"
                served.refusal = Code.NOT_ACTIVE
                _log.error("%s", self._taken, extra=event("taken_over"))
                for listener in served.listeners:
                    if isinstance(listener, StompListener):
                        listener.ending = "another broker has taken over"
                self.stop("another broker has the store")

    async def _end(self) -> int:
        """Let everybody finish what was begun, and let go of the store; return how many connections there were."""
        served = self._served
        broker, served.broker = served.broker, served.broker if not self._taken else None
        count = 0
        self._let_go()
        try:
            for listener in reversed(served.listeners[:]):
                count += await self._shut(listener)
        finally:
            served.broker = None
            if broker is not None:
                if broker._is_store_lost:
                    self._last_words = "the persistent store had been lost before"
                await broker.close()
        return count


@contextmanager
def _port_refused(name: str, host: str, port: int) -> Iterator[None]:
    """Raise PortRefused where a port cannot be had."""
    try:
        yield
    except (OSError, OverflowError) as failure:
        errno = failure.errno if isinstance(failure, OSError) else None
        reason = os.strerror(errno) if errno is not None and errno > 0 else str(failure)
        raise PortRefused(f"cannot listen for {name} on {host}:{port}: {reason}") from failure


def _by_whom(served: ServerState) -> str:
    """Return who has the store, as far as its lock file says it."""
    with suppress(JournalError, OSError):
        holder = read_holder(RealDisk(), spool_directory(served.attributes))
        if holder is not None:
            return f" by process {holder.pid} on {holder.host or 'an unknown host'}, owner {holder.number}"
    return ""


def _allow_files(count: int) -> None:
    """Let the process have so many files open, as far as the system allows."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < count:
        _log.warning("the system allows %d open files, fewer than MAX-CONNECTIONS needs", allowed)


def _last_words(attributes: Attributes) -> str:
    """Return what is durable when the server stops, for the log."""
    if attributes.broker.pstore == "NO":
        return "nothing was stored: PSTORE=NO"
    if any(each.store == Store.OFF for each in (*attributes.services, *attributes.topics)):
        return "what was acknowledged is durable, but for what STORE=OFF keeps out of the store"
    return "what was acknowledged is durable"


def _tell(attributes: Attributes) -> None:
    """Say in the log what an attribute file makes other than one would expect."""
    warnings, differences = attributes.warnings(), attributes.differences()
    for text in warnings:
        _log.warning("%s", text, extra=event("attributes", warnings=warnings, differences=differences))
    if differences:
        said = event("attributes", warnings=warnings, differences=differences)
        _log.info(
            "%s: other values than without a file, which DEFAULT-VALUES=OMS has", ", ".join(differences), extra=said
        )
