"""The four faces of a broker, for threads and for tasks, here and over HTTP, behind one: a call at a moment."""

import asyncio
import inspect
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.client.connect import connect, connect_async
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.drivers.open import journal_options
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.embedded.broker import Broker
from oms_journal.database.options import Options
from tests.api.moments import (
    Cancel,
    FromAHandler,
    Hung,
    Interrupt,
    Interrupted,
    MeddledDisk,
    Outcome,
    cancelled,
    watched,
)
from tests.callers.steps import AnyMoment, Cut
from tests.callers.wire import Wire
from tests.support.servers.web_place import WebPlace

FACES = ("threads", "tasks", "remote threads", "remote tasks")
SETTLING_TURNS = 10  # of the loop, until what a cancelled call left behind is over
SETTLING_ERRANDS = 3
UNKNOWN = (Code.NOT_ACTIVE, Code.TRANSPORT_TIMED_OUT)  # after a bad moment: maybe it was carried out


def _is_unknown(failure: BaseException) -> bool:
    return isinstance(failure, BrokerError) and failure.code in UNKNOWN


class Signalled(Interrupted):
    """As Interrupted, but with the signal itself, whose handler may be another one by then."""

    def __enter__(self) -> "Signalled":
        self._before = signal.signal(signal.SIGUSR1, _from_a_handler)
        super().__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        super().__exit__(*failure)
        signal.signal(signal.SIGUSR1, self._before)

    def _place(self, frame: FrameType) -> None:
        try:
            super()._place(frame)
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
        except FromAHandler:
            signal.raise_signal(signal.SIGUSR1)


def _from_a_handler(number: int, frame: FrameType | None) -> None:
    raise FromAHandler


class Face:
    """A broker in a directory, and how it is called."""

    def __init__(self, directory: Path, attributes: Attributes, kind: str) -> None:
        self.kind, self.attributes, self.directory = kind, attributes, directory
        self.is_async, self.is_remote = "tasks" in kind, "remote" in kind
        self.disk = MeddledDisk()
        self.meddle: Callable[[], None] = lambda: None
        self._runner: asyncio.Runner | None = None
        self._place: WebPlace | None = None
        self._wire: Wire | None = None
        self.broker: Any = None
        if self.is_async:
            self._runner = asyncio.Runner()
            self._executor = ThreadPoolExecutor(1, "tests-loop")
            self._runner.get_loop().set_default_executor(self._executor)
        self.open()

    def open(self) -> None:
        named: dict[str, Any] = {"attributes": self.attributes, "open_store": self._store, "tick_seconds": 3600.0}
        if self.is_remote:
            self._place = WebPlace(self.directory, port=self._place.port if self._place else 0, **named)
            self._place.__enter__()
            self._reach(self._place)
            return
        opened = AsyncBroker.open(self.directory, **named) if self.is_async else Broker.open(self.directory, **named)
        self.broker = self.now(opened.__aenter__()) if isinstance(opened, AsyncBroker) else opened

    def _reach(self, place: WebPlace) -> None:
        if self.broker is not None:
            return  # a client outlives its server
        self._wire = Wire(place.port)
        self.broker = (connect_async if self.is_async else connect)(self._wire.url, patience_seconds=5.0)

    def _store(self, attributes: Attributes, *, creates: bool = True, among_others: bool = False) -> JournalStore:
        options: Options = journal_options(attributes)
        return JournalStore.open(self.directory, options, disk=self.disk, creates=creates)

    def now(self, coroutine: Any) -> Any:
        assert self._runner is not None
        return self._runner.run(_awaiting(coroutine))

    def call(
        self, function: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any], moment: AnyMoment = None
    ) -> Outcome:
        """Call something of the broker's at a bad moment; an awaitable is awaited."""
        outcome = Outcome(is_unknown=_is_unknown)
        if isinstance(moment, Cut) and self._wire is not None:
            self._wire.cut = moment.when
        interrupt = Signalled(moment if isinstance(moment, Interrupt) else None)
        try:
            with watched():
                if self._runner is not None:
                    answer = function(*given, **named)
                    if inspect.isawaitable(answer):
                        answer = self._runner.run(self._run(answer, moment))
                else:
                    with interrupt:
                        answer = function(*given, **named)
            outcome.answer = answer
        except Hung as failure:
            raise AssertionError(f"{getattr(function, '__qualname__', function)} does not return") from failure
        except BaseException as failure:
            outcome.failure = failure
            if isinstance(failure, asyncio.CancelledError):
                outcome.where = repr(moment)
        if self._wire is not None:
            self._wire.cut = ""
        outcome.where = outcome.where or interrupt.where
        if outcome.where:
            self.settle()
        return outcome

    async def _run(self, coroutine: Any, moment: AnyMoment) -> Any:
        async def meddled() -> Any:
            asyncio.get_running_loop().call_soon(self.meddle)  # between the call's first step and the turn's end
            return await coroutine

        return await (cancelled(meddled(), moment) if isinstance(moment, Cancel) else meddled())

    def operate(self, verb: str, given: Sequence[Any], moment: AnyMoment = None) -> Outcome:
        """Have the process that has the broker do what an operator wants."""
        place = self._place
        if place is None:
            return self.call(getattr(self.broker, verb), given, {}, moment)

        async def operated() -> Any:
            answer = getattr(place.broker, verb)(*given)
            return await answer if inspect.isawaitable(answer) else answer

        outcome = Outcome()
        try:
            outcome.answer = place.run(operated())
        except Exception as failure:
            outcome.failure = failure
        return outcome

    def tick(self) -> None:
        """Have the broker look at the clock."""
        if self._place is not None:
            self._place.run(_ticked(self._place.broker))
        elif self._runner is not None:
            self.now(_ticked(self.broker))
        else:
            self.broker._threads.tick()
        self.settle()

    def settle(self) -> None:
        """Wait until what was left behind is over: by calls that were cut, and by who has gone without a word."""
        if self._runner is not None:
            self.now(_turns())
        with suppress(BrokerError):
            if self._place is not None:
                self._place.run(_stored(self._place.broker))
            elif self._runner is not None:
                self.now(_stored(self.broker))

    def lose(self, session: Any) -> None:
        """Let the connection of a session be lost, so that the broker hears of it."""
        self.broker.gone(session._caller)
        self.settle()

    def session(self, user: str, token: str) -> Any:
        return self.broker.session(user, token)

    def restart(self, *, kills: bool) -> None:
        """Close the broker, or leave it as its death would, and open it again."""
        left = self.directory.with_name(self.directory.name + "+")
        if kills:
            ignored = shutil.ignore_patterns("omsmsg.reserve", "omsmsg.index*", "*.new")
            shutil.copytree(self.directory, left, ignore=ignored)
        self._close_broker()
        if kills:
            shutil.rmtree(self.directory)
            left.rename(self.directory)
        self.open()

    def _close_broker(self) -> None:
        if self._place is not None:
            self._place.end()
        elif self._runner is not None:
            self.now(self.broker.close())
        else:
            self.broker.close()

    def end(self) -> None:
        """Let go of all."""
        self.meddle = self.disk.meddle = lambda: None
        with suppress(BrokerError):
            if self.is_remote and self._runner is not None:
                self.now(self.broker.close())
            elif self.is_remote:
                self.broker.close()
        try:
            self._close_broker()
        finally:
            if self._wire is not None:
                self._wire.close()
            if self._runner is not None:
                self._runner.close()
                self._executor.shutdown()


async def _turns() -> None:
    for _ in range(SETTLING_TURNS):
        await asyncio.to_thread(lambda: None)
        await asyncio.sleep(0)


async def _ticked(broker: AsyncBroker) -> None:
    broker._looped.give(broker._running.tick())  # type: ignore[union-attr]


async def _stored(broker: AsyncBroker) -> None:
    """Wait until the store has what is on its way to it, and what comes of that."""
    for _ in range(SETTLING_ERRANDS):
        await broker._looped.barrier(lambda: None)


async def _awaiting(awaitable: Any) -> Any:
    return await awaitable
