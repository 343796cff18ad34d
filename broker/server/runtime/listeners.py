"""Where a socket listens, as it is told people.

A port that is this server's before it listens there: nobody else can, and who wants to connect is refused.

So clients with a list of brokers cope with a standby: refused, they try the next one at once. A connection that is
accepted and ended again, or told an ERROR before CONNECTED, several libraries take for the answer to their CONNECT, and
try no other broker; one that is accepted and told nothing keeps them waiting.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Any

BACKLOG = 1024  # connections that wait to be accepted


def address(listening: socket.socket) -> str:
    """Return HOST:PORT."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class HeldPort:
    """The sockets of a host and a port. They are closed with `close`, also while a server listens."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        self._sockets = sockets
        self.addresses = [address(each) for each in sockets]  # HOST:PORT each

    @classmethod
    async def hold(cls, host: str, port: int) -> "HeldPort":
        """Hold the port at each address that the host has. OSError where another program has it."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets: list[socket.socket] = []
        try:
            for family, kind, protocol, _, where in dict.fromkeys(found):
                sockets.append(each := _bound(family, kind, protocol, where))
                if not port:
                    # A port that the system has chosen is lost when nobody listens any more; one that was named is not.
                    sockets[-1] = _bound(family, kind, protocol, each.getsockname())
                    each.close()
                sockets[-1].listen()
                _refuse(sockets[-1])
        except BaseException:
            for each in sockets:
                each.close()
            raise
        return cls(sockets)

    def lend(self) -> list[socket.socket]:
        """Return sockets for servers to listen with, which close them; the port stays held."""
        for each in self._sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return [each.dup() for each in self._sockets]

    def refuse(self) -> None:
        """Refuse connections again, once nobody is to listen any more."""
        for each in self._sockets:
            _refuse(each)

    def close(self) -> None:
        """Let go of the port, as far as no server listens there."""
        for each in self._sockets:
            each.close()
        self._sockets = []


def _bound(family: int, kind: int, protocol: int, where: Any) -> socket.socket:
    """Return a socket that is bound. OSError."""
    held = socket.socket(family, kind, protocol)
    try:
        # With SO_REUSEADDR, since ended connections of an earlier server may still have the port.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if held.family == socket.AF_INET6:
            held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        held.bind(where)
    except BaseException:
        held.close()
        raise
    return held


def _refuse(held: socket.socket) -> None:
    # Others with SO_REUSEADDR could bind the port too as long as nobody listens there. A socket that has listened, and
    # allows it no longer, has it alone.
    with suppress(OSError):  # it does not listen
        held.shutdown(socket.SHUT_RD)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
