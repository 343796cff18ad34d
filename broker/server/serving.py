"""The server: a broker and what listens for it, in one process and on one loop, from its start to a clean stop."""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from broker.asynchronous import AsyncBroker
from broker.attributes import Attributes
from broker.server.limits import StompLimits
from broker.server.listening import web_listener
from broker.server.served import Listener, Served
from broker.server.stomp import StompListener

if sys.platform != "win32":
    import resource

_log = logging.getLogger("oms.server")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


FILES_BESIDE = 200  # that a broker has open beside its connections


class PortRefused(Exception):
    """Where the server should listen it cannot."""


class Server:
    """A broker as a server."""

    def __init__(self, attributes: Attributes, *, limits: StompLimits | None = None) -> None:
        self._attributes = attributes
        limits = limits or StompLimits()
        frames = replace(limits.frames, body=attributes.longest_message())
        self._limits = replace(limits, connections=attributes.broker.max_connections, frames=frames)
        self._stopping = asyncio.Event()
        self._why = "it was asked to"
        run_mode, started = attributes.broker.run_mode, datetime.now(UTC).timestamp()
        self._served = Served(attributes=attributes, stop=self.stop, run_mode=run_mode, started=started)

    def stop(self, why: str = "it was asked to") -> None:
        """Let `run` end. To be called on the loop."""
        self._why = why
        self._stopping.set()

    async def run(self, ready: Callable[[list[str]], None] = lambda _: None) -> None:
        """Serve until `stop`, SIGTERM or SIGINT. `ready` is told where it listens. StartRefused, PortRefused."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.stop, number.name)
        try:
            await self._serve(ready)
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    async def _serve(self, ready: Callable[[list[str]], None]) -> None:
        began, served, count = time.monotonic(), self._served, 0
        _allow_files(2 * self._limits.connections + FILES_BESIDE)
        async with AsyncBroker.open(attributes=self._attributes) as broker:
            served.broker = broker
            try:
                addresses = []
                for listener, port in self._listeners(broker):
                    addresses += [f"{listener.name} {each}" for each in await self._start(listener, port)]
                    served.listeners.append(listener)
                _log.info("listening for %s, after %.2f s", ", ".join(addresses), time.monotonic() - began)
                ready(addresses)
                await self._stopping.wait()
                _log.info("stopping: %s", self._why)
            finally:
                for listener in served.listeners:
                    count += await listener.stop()
        _log.info("stopped: %d connections ended; what was acknowledged is durable", count)

    def _listeners(self, broker: AsyncBroker) -> list[tuple[Listener, int]]:
        attributes = self._attributes.broker
        found: list[tuple[Listener, int]] = [(StompListener(broker, self._limits), attributes.stomp_port)]
        web = web_listener(self._served)
        return found if web is None else [*found, (web, attributes.http_port)]

    async def _start(self, listener: Listener, port: int) -> Sequence[str]:
        host = self._attributes.broker.host
        try:
            return await listener.start(host, port)
        except (OSError, OverflowError) as failure:
            errno = failure.errno if isinstance(failure, OSError) else None
            reason = os.strerror(errno) if errno is not None and errno > 0 else str(failure)
            raise PortRefused(f"cannot listen for {listener.name} on {host}:{port}: {reason}") from failure


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
