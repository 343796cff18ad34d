"""Connects to a broker: `connect("local:SPOOL")` runs one here, `connect("http://HOST:1971")` speaks to a server.

Both give the same interface; `connect_async` gives that of asyncio.
"""

from typing import TYPE_CHECKING, Any

from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.embedded.broker import Broker
from oms_journal.database.arguments import plain_text

if TYPE_CHECKING:  # imported where a server is spoken to: it takes an extra
    from oms_journal.broker.client.brokers import AsyncRemoteBroker, RemoteBroker

LOCAL = "local:"


def connect(where: str, **given: Any) -> "Broker | RemoteBroker":
    """Return the broker on a spool directory, or at http://HOST:PORT or https://HOST:PORT.

    For a spool directory, `given` is what `Broker.open` takes. For a server, it is the options of `RemoteOptions`. The
    call does not speak to a server yet.

    Raises ValueError for any other address, StartRefused as Broker.open does, and TypeError.
    """
    plain_text(where, "where")
    if where.startswith(LOCAL):
        return Broker.open(where.removeprefix(LOCAL), **given)
    from oms_journal.broker.client.brokers import RemoteBroker
    from oms_journal.broker.client.calls import RemoteOptions

    return RemoteBroker(where, RemoteOptions.of(given))


def connect_async(where: str, **given: Any) -> "AsyncBroker | AsyncRemoteBroker":
    """Return the broker for asyncio, as `connect`. You begin it with `async with`."""
    plain_text(where, "where")
    if where.startswith(LOCAL):
        return AsyncBroker.open(where.removeprefix(LOCAL), **given)
    from oms_journal.broker.client.brokers import AsyncRemoteBroker
    from oms_journal.broker.client.calls import RemoteOptions

    return AsyncRemoteBroker(where, RemoteOptions.of(given))
