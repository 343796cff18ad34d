"""STOMP while the broker cannot be called yet: whoever comes is told so, and nothing else.

A standby does not listen for STOMP, so that a client with both addresses finds the standard broker. While it takes over
there is no other broker to be found, and a client is told to come again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from broker.codes import Code, detailed
from broker.server.addresses import address
from broker.server.frames import V12, encode
from broker.server.stomp_words import error_frame
from broker.server.tls import Certificate, Door

PATIENCE_SECONDS = 5.0  # for a CONNECT, and for the answer to leave
_BACKLOG = 1024


class ClosedDoor:
    """The port of STOMP, where every connection is refused with 00780624."""

    def __init__(self, partner: str = "", certificate: Certificate | None = None) -> None:
        self.name = "STOMP" if certificate is None else "STOMP-TLS"
        self._certificate = certificate
        headers = {"partner-broker-id": partner} if partner else {}
        text = detailed(Code.NOT_OPERATIONAL, "it is taking over, try again")
        self.answer = encode(error_frame(Code.NOT_OPERATIONAL, text, None, **headers), V12)
        self.refused: set[asyncio.Transport] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> Sequence[str]:
        """Listen; return where, as HOST:PORT. OSError."""
        loop = asyncio.get_running_loop()
        made: Callable[[], asyncio.Protocol] = lambda: _Visitor(self)  # noqa: E731 - a name for its type
        if self._certificate is not None:
            made = Door(self._certificate, made)
        self._server = await loop.create_server(made, host, port, backlog=_BACKLOG, reuse_address=True)
        return [address(each) for each in self._server.sockets]

    async def stop(self) -> int:
        """Listen no more; what was said has a moment to leave."""
        if self._server is not None:
            self._server.close()
        visitors = list(self.refused)
        for transport in visitors:
            if not transport.is_closing():
                transport.write(self.answer)
                transport.close()
        return len(visitors)


class _Visitor(asyncio.Protocol):
    """A connection, until it has said something or for a while."""

    def __init__(self, door: ClosedDoor) -> None:
        self._door = door
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._door.refused.add(self._transport)
        self._timer = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.write(self._door.answer)
            self._transport.close()

    def connection_lost(self, failure: Exception | None) -> None:
        assert self._transport is not None and self._timer is not None
        self._timer.cancel()
        self._door.refused.discard(self._transport)
