"""What a server tells systemd: that it is ready, that it is alive, that it stops; a few words on a socket.

Where NOTIFY_SOCKET is not in the environment nothing is told, and nothing is needed. The protocol is that of
sd_notify(3): lines NAME=value in one datagram, to a path or, behind `@`, to a name that is in no file system.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from contextlib import suppress

_log = logging.getLogger("oms.server")
STARTING_SECONDS = 10.0  # between two words while the store is restored
MORE_SECONDS = 60.0  # that the start may take more, said each time
_MICROSECONDS = 1_000_000


class Systemd:
    """The other end, if there is one. `async with` begins to tell that the process is alive, and ends with STOPPING."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._watchdog_seconds = _watchdog_seconds(environ) if self._address else 0.0
        self._telling: list[asyncio.Task[None]] = []
        self._is_ready = False

    def tell(self, **said: str) -> None:
        """Tell it this, in one datagram. Whoever does not listen is not waited for."""
        if not self._address:
            return
        data = "\n".join(f"{name}={_one_line(value)}" for name, value in said.items()).encode()
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            sender.sendto(data, self._address)

    def ready(self, status: str) -> None:
        """Tell that it serves; again when that changes."""
        self._is_ready = True
        self.tell(READY="1", STATUS=status, MAINPID=str(os.getpid()))

    async def __aenter__(self) -> "Systemd":
        if self._address:
            self.tell(STATUS="starting")
            loop = asyncio.get_running_loop()
            self._telling.append(loop.create_task(self._start_on()))
            if self._watchdog_seconds:
                _log.info("systemd is told every %.1f s that this process is alive", self._watchdog_seconds / 2)
                self._telling.append(loop.create_task(self._live_on(self._watchdog_seconds / 2)))
        return self

    async def __aexit__(self, *failure: object) -> None:
        for task in self._telling:
            task.cancel()
        self.tell(STATUS="stopped")

    def stopping(self, why: str) -> None:
        """Tell that it ends, and why."""
        self.tell(STOPPING="1", STATUS=f"stopping: {why}")

    async def _start_on(self) -> None:
        """Ask for more time until it is ready: how long a restore takes is up to what the store holds."""
        while not self._is_ready:
            self.tell(EXTEND_TIMEOUT_USEC=str(int(MORE_SECONDS * _MICROSECONDS)))
            await asyncio.sleep(STARTING_SECONDS)

    async def _live_on(self, seconds: float) -> None:
        """Tell that the loop turns. When it does not any more, nothing is told, and systemd starts the broker anew."""
        while True:
            self.tell(WATCHDOG="1")
            await asyncio.sleep(seconds)


def _address(said: str) -> str:
    if said.startswith("@"):
        return "\0" + said[1:]
    return said if said.startswith("/") else ""


def _watchdog_seconds(environ: Mapping[str, str]) -> float:
    """Return how often systemd wants to hear something, 0.0 where it does not or means another process."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    try:
        return max(0, int(environ.get("WATCHDOG_USEC", "0"))) / _MICROSECONDS
    except ValueError:
        return 0.0


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)[:512]
