"""What the server is at the moment, for whoever answers a request: its broker, its run mode, its listeners."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.codes import Code
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.rights import OPEN, Guard


class PortRefused(Exception):
    """Where the server should listen it cannot."""


class Listener(Protocol):
    """Something that is reached over the network."""

    name: str

    async def start(self, host: str, port: int) -> Sequence[str]:
        """Listen; return where, as HOST:PORT. OSError."""
        ...

    async def stop(self) -> int:
        """End all connections, having done what was begun; return how many there were."""
        ...


class Answering(Protocol):
    """This server's side of a store's move to another server."""

    async def answer(self, verb: str, names: tuple[str, ...], body: bytes) -> dict[str, Any]:
        """Answer a request of the partner. `ExchangeRefused`."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class ServerState:
    """A server's own state. Routes find it as `request.app.state.served`; only the server changes it."""

    attributes: Attributes
    stop: Callable[[str], None]  # let the server end, with why; to be called on the loop
    run_mode: str  # a standby becomes STANDARD when it has taken over
    started: float  # seconds since 1970
    broker: AsyncBroker | None = None  # None while it is a standby, loads or unloads, or has not begun
    refusal: Code = Code.NOT_ACTIVE  # what a call is answered while there is no broker
    listeners: list[Listener] = field(default_factory=list)  # that have started
    guard: Guard = OPEN  # who may come in, and do what
    partner: str = ""  # the other broker and how it is, for people
    heard: tuple[int, int] = (0, 0)  # owner and count of the lock file, as the standby's last ping proved to see them
    lot: str = field(default_factory=lambda: secrets.token_hex(16))  # of two standbys the one with the lower begins
    moving: Answering | None = None  # while the RUN-MODE is PSTORE-LOAD or PSTORE-UNLOAD
