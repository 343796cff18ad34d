"""The broker in its own process, through the one entrance: units of work against plain commits of the database."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing

from bench.callers import QUEUE, scratch
from bench.measure import Row, Settings, alternate_rates, rate_text
from oms_journal import AsyncMessageDatabase
from oms_journal.broker.answers import Answered
from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.block import ANY, BOTH, NEW, Function, Option, Request
from oms_journal.broker.block import Store as Persistence
from oms_journal.broker.codes import Code
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.drivers.open import journal_options
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.store.changes import Changes
from oms_journal.broker.store.start import PersistentStore, StoreError

SIZE = 256  # bytes of a message
Step = Callable[[], Awaitable[object]]


class CountedStore(JournalStore):
    """The message database as a store, with a count of its durable commits."""

    commits = 0

    def commit_many(self, batch: Sequence[Changes]) -> list[int | StoreError]:
        CountedStore.commits += len(batch)
        return super().commit_many(batch)

    def commit(self, changes: Changes) -> int:
        CountedStore.commits += 1
        return super().commit(changes)


def _open_counted(attributes: Attributes, *, creates: bool = True) -> PersistentStore:
    directory = attributes.journal.spool_directory
    assert directory is not None
    return CountedStore.open(directory, journal_options(attributes), creates=creates)


class Person:
    """A user with a connection."""

    def __init__(self, broker: AsyncBroker, user: str) -> None:
        self._broker = broker
        self._caller = broker.new_caller()
        self._said = {"user_id": user, "token": "T"}

    async def say(self, function: Function, option: Option = Option.NONE, **fields: object) -> Answered:
        request = Request(function=function, option=option, **self._said, **fields)  # type: ignore[arg-type]
        answered = await self._broker.call(request, caller=self._caller)
        assert answered.reply.code is Code.OK, f"{function.name} {option.name}: {answered.reply}"
        return answered


class Pair:
    """A client and a server, with a service of their own."""

    def __init__(self, broker: AsyncBroker, number: int, **terms: object) -> None:
        self._client, self._server = Person(broker, f"CLIENT{number}"), Person(broker, f"SERVER{number}")
        self._service = {"server_class": "BENCH", "server_name": "BROKER", "service": f"S{number}"}
        self._terms = terms
        self._body = os.urandom(SIZE)
        self._conv_id = NEW

    async def begin(self) -> None:
        await self._client.say(Function.LOGON)
        await self._server.say(Function.LOGON)
        await self._server.say(Function.REGISTER, Option.NONE, **self._service)

    async def send(self) -> None:
        """Send a unit of work of one message, committed, in a conversation of its own."""
        said = {"conv_id": NEW, "body": self._body, **self._service, **self._terms}
        await self._client.say(Function.SEND, Option.COMMIT, **said)

    async def cycle(self) -> None:
        """Send, commit, receive, commit: all in one conversation."""
        names = self._service if self._conv_id == NEW else {}
        said = {"conv_id": self._conv_id, "body": self._body, **names, **self._terms}
        sent = await self._client.say(Function.SEND, Option.COMMIT, **said)
        self._conv_id = sent.reply.conv_id
        received = await self._receive()
        await self._server.say(Function.SYNCPOINT, Option.COMMIT, uowid=received.reply.uowid)

    async def answer(self) -> None:
        """Receive what was sent, and commit it together with the answer: UOWID=BOTH."""
        received = await self._receive()
        conv_id = received.reply.conv_id
        await self._server.say(Function.SEND, Option.SYNC, conv_id=conv_id, body=self._body)
        await self._server.say(Function.SYNCPOINT, Option.COMMIT, uowid=BOTH, conv_id=conv_id)

    async def _receive(self) -> Answered:
        received = await self._server.say(Function.RECEIVE, Option.SYNC, conv_id=ANY, **self._service)
        assert received.body == self._body
        return received


class Loop:
    """An event loop with a database and a broker, both open on the same file system."""

    def __init__(self, settings: Settings) -> None:
        self._loop = asyncio.new_event_loop()
        self.database = AsyncMessageDatabase.open(scratch(settings.directory, "db"), cleanup_interval=0)
        spool = scratch(settings.directory, "broker")
        self.broker = AsyncBroker.open(spool, open_store=_open_counted, msg_cleanup_interval="0")
        self.run(self.database.__aenter__())
        self.run(self.broker.__aenter__())
        self._pairs = 0

    def close(self) -> None:
        self.run(self.broker.__aexit__(None, None, None))
        self.run(self.database.__aexit__(None, None, None))
        self.run(self._loop.shutdown_default_executor())
        self._loop.close()

    def run(self, awaited: Awaitable[object]) -> object:
        async def waiting() -> object:
            return await awaited

        return self._loop.run_until_complete(waiting())

    def pairs(self, count: int, **terms: object) -> list[Pair]:
        found = []
        for _ in range(count):
            self._pairs += 1
            found.append(Pair(self.broker, self._pairs, **terms))
            self.run(found[-1].begin())
        return found

    def rate(self, steps: Sequence[Step], seconds: float) -> float:
        """Let so many tasks make their step over and over; return steps a second."""

        async def all_of_them() -> float:
            count, end = 0, time.perf_counter() + seconds

            async def one(step: Step) -> None:
                nonlocal count
                while time.perf_counter() < end:
                    await step()
                    count += 1

            began = time.perf_counter()
            await asyncio.gather(*map(one, steps))
            return count / (time.perf_counter() - began)

        return self._loop.run_until_complete(all_of_them())


def broker(settings: Settings) -> Iterator[Row]:
    """Units of work through the one entrance, in asyncio."""
    with closing(Loop(settings)) as loop:
        for count, bound in {1: 0.5, 16: 0.25, 64: 0.10}.items():
            yield _sending(settings, loop, count, bound)
        for count in (1, 16):
            yield _cycling(settings, loop, count)
        yield _answering(settings, loop)
        yield _passing(settings, loop)


def _sending(settings: Settings, loop: Loop, count: int, bound: float) -> Row:
    payload = os.urandom(SIZE)
    pairs = loop.pairs(count)
    found = alternate_rates(
        settings,
        lambda seconds: loop.rate([lambda: loop.database.add(QUEUE, payload)] * count, seconds),
        lambda seconds: loop.rate([pair.send for pair in pairs], seconds),
    )
    return Row(
        name=f"broker-send-{count}",
        what=f"{count} asyncio clients send and commit a unit of work of one message, {SIZE} B",
        measured=found.ratios,
        bound=bound,
        raw=rate_text(found.raw, "/s plain add"),
        ours=rate_text(found.ours, "/s"),
    )


def _cycling(settings: Settings, loop: Loop, count: int) -> Row:
    payload = os.urandom(SIZE)
    pairs = loop.pairs(count)
    made, before = [0.0], CountedStore.commits

    async def add_and_deliver() -> None:
        await loop.database.deliver(await loop.database.add(QUEUE, payload))

    def cycle(seconds: float) -> float:
        began = time.perf_counter()
        rate = loop.rate([pair.cycle for pair in pairs], seconds)
        made[0] += rate * (time.perf_counter() - began)
        return rate

    found = alternate_rates(settings, lambda seconds: loop.rate([add_and_deliver] * count, seconds), cycle)
    return Row(
        name=f"broker-cycle-{count}",
        what=f"{count} asyncio clients send, commit, receive and commit, {SIZE} B",
        measured=found.ratios,
        bound=0.4,
        raw=rate_text(found.raw, "/s plain add and deliver"),
        ours=rate_text(found.ours, "/s"),
        note=f"{(CountedStore.commits - before) / made[0]:.2f} durable commits a unit of work",
    )


def _answering(settings: Settings, loop: Loop) -> Row:
    counts = []
    for pair in loop.pairs(settings.rounds):
        loop.run(pair.send())
        before = CountedStore.commits
        loop.run(pair.answer())
        counts.append(float(CountedStore.commits - before))
    return Row(
        name="broker-both",
        what="durable commits of COMMIT with UOWID=BOTH: one received, one sent",
        measured=counts,
        bound=1,
        is_most=True,
    )


def _passing(settings: Settings, loop: Loop) -> Row:
    """The cycle of what is not persistent: what it costs, and that it asks nothing of the store."""
    [pair] = loop.pairs(1, store=Persistence.OFF)
    measured, before = [], CountedStore.commits
    for _ in range(settings.rounds + 1):
        began = time.thread_time()
        rate = loop.rate([pair.cycle], settings.slice_seconds)
        measured.append(1e6 * (time.thread_time() - began) / (rate * settings.slice_seconds))
    return Row(
        name="broker-passing",
        what="CPU of a whole cycle that is not persistent: send, commit, receive, commit",
        measured=measured[1:],
        unit=" µs",
        bound=50,
        is_most=True,
        note=f"{CountedStore.commits - before} commits of the store",
    )
