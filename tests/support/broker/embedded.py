"""Brokers for tests: in the program, of both kinds and on both drivers, and over HTTP; spoken to in the same words.

A broker for asyncio is spoken to through a loop of its own: what is awaitable is waited for, what it gives out is
wrapped likewise. So one script tries both.
"""

import asyncio
import contextlib
import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from oms_journal.broker.client.brokers import RemoteBroker
from oms_journal.broker.client.connect import connect, connect_async
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.sessions.sessions import Session
from tests.support.disks.small_files import MODEST
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.servers.web_place import WebPlace

SERVICE = "GAME/CHESS/BLACK"
OURS = (
    "oms_journal.broker.embedded.async_broker",
    "oms_journal.broker.sessions.async_sessions",
    "oms_journal.broker.sessions.async_parts",
    "oms_journal.broker.client.brokers",
)


class Awaited:
    """Something of asyncio, spoken to as its counterpart for threads."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._target = target
        self._loop = loop

    def _wrapped(self, value: Any) -> Any:
        if inspect.isawaitable(value):
            value = self._loop.run_until_complete(value)
        is_ours = type(value).__module__ in OURS or inspect.isasyncgen(value)
        return Awaited(value, self._loop) if is_ours else value

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not inspect.ismethod(value):
            return value
        return lambda *given, **named: self._wrapped(value(*given, **named))

    def __enter__(self) -> Any:
        return self._wrapped(self._target.__aenter__())

    def __exit__(self, *failure: Any) -> Any:
        return self._wrapped(self._target.__aexit__(*failure))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self._wrapped(self._target.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


class Elsewhere:
    """A broker behind HTTP, and its client; what only operators do is done where the broker is."""

    def __init__(self, kind: "Kind", directory: Path | None, given: dict[str, Any]) -> None:
        self._place = WebPlace(directory, **given)
        self._kind = kind
        self._remote: Any = None

    def __enter__(self) -> "Elsewhere":
        self._place.__enter__()
        if self._kind.is_async:
            self._remote = Awaited(connect_async(self._place.url), self._kind.loop)
        else:
            self._remote = connect(self._place.url)
        return self

    def __exit__(self, *failure: Any) -> None:
        self.close()

    def close(self) -> None:
        self._remote.close()
        self._place.end()

    def __getattr__(self, name: str) -> Any:
        if name in OF_OPERATORS:
            return self._of_operators(name)
        return getattr(self._remote, name)

    def _of_operators(self, name: str) -> Any:
        value = getattr(self._place.broker, name)
        if not inspect.ismethod(value):
            return value

        async def done(*given: Any, **named: Any) -> Any:
            found = value(*given, **named)
            return await found if inspect.isawaitable(found) else found

        return lambda *given, **named: self._place.run(done(*given, **named))


OF_OPERATORS = frozenset(name for name in dir(AsyncBroker) if not name.startswith("_")) - frozenset(dir(RemoteBroker))


@dataclass
class Kind:
    """A kind of broker with a driver: opens brokers in a directory."""

    is_async: bool
    is_remote: bool
    driver: str  # JOURNAL or SQLITE
    loop: asyncio.AbstractEventLoop

    def open(self, directory: Path | None = None, **given: Any) -> Broker:
        """Return a broker that is not entered yet."""
        if "attributes" not in given:
            given = {"broker_id": "ETB001", "pstore_type": self.driver, "max_data_file_size": MODEST} | given
        if self.is_remote:
            return cast(Broker, Elsewhere(self, directory, given))
        if not self.is_async:
            return Broker.open(directory, **given)
        return cast(Broker, Awaited(AsyncBroker.open(directory, **given), self.loop))

    def pause(self, seconds: float) -> None:
        """Let time pass, and an event loop go on."""
        if self.is_async:
            self.loop.run_until_complete(asyncio.sleep(seconds))
        else:
            time.sleep(seconds)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Let time pass until something is so."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, "it never was so"
            self.pause(0.01)


@contextlib.contextmanager
def kind_of(words: str) -> Iterator[Kind]:
    """Return the kind that "threads JOURNAL" and its like name."""
    way, driver = words.split()
    loop = asyncio.new_event_loop()
    try:
        yield Kind("asyncio" in way, "remote" in way, driver, loop)
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


HERE = ("threads JOURNAL", "asyncio JOURNAL", "threads SQLITE", "asyncio SQLITE")
KINDS = (*HERE, "remote JOURNAL", "remote-asyncio JOURNAL")


@contextlib.contextmanager
def refused(code: Code) -> Iterator[None]:
    """Check that the block is refused with this code."""
    try:
        yield
    except BrokerError as failure:
        assert failure.code is code, str(failure)
    else:
        raise AssertionError(f"it was not refused with {code}")


def bodies(session: Session, service: str | None = None, *, most: int = 0, **how: Any) -> list[bytes]:
    """Receive and commit all units of work, or so many; return the bodies of their messages."""
    found: list[bytes] = []
    for count, unit in enumerate(session.receive_units(service, **how), 1):
        with unit:
            found += [message.body for message in unit]
        if count == most:
            break
    return found
