"""Threads and tasks at once on one database: each with queues and keys of its own, and one queue that all take from."""

import asyncio
import random
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oms_journal import AsyncMessageDatabase, Message, MessageDatabase
from tests.api.model import Change, Model, New

if TYPE_CHECKING:
    from tests.api.face import Face
    from tests.api.surface import Together

SHARED = "shared"
NARROW = "narrow"  # holds fewer messages than there are callers
WAIT_SECONDS = 20  # for room: reached only where a wake-up is lost
ROUNDS = 6
DEADLINE_SECONDS = 60


class Actor:
    """What one thread or task does, and what should be there of it afterwards."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.chance = random.Random(f"{name} {seed}")
        self.mine: dict[int, bytes] = {}
        self.value: bytes | None = None
        self.delivered: list[int] = []  # of the shared queue
        self.numbers: list[int] = []
        self.failure: BaseException | None = None

    def plan(self) -> list[str]:
        return self.chance.choices(["add", "add_many", "deliver", "put", "take", "give back", "pass through"], k=ROUNDS)

    def fresh(self) -> list[bytes]:
        return [self.chance.randbytes(self.chance.choice([0, 5, 300])) for _ in range(self.chance.randint(1, 4))]

    def added(self, numbers: Sequence[int], payloads: list[bytes]) -> None:
        assert len(numbers) == len(payloads), f"{numbers} for {len(payloads)} messages"
        assert all(number > max(self.numbers, default=0) for number in numbers), "numbers of one caller ascend"
        self.numbers += numbers
        self.mine.update(zip(numbers, payloads, strict=True))

    def threaded(self, db: MessageDatabase) -> None:
        for what in self.plan():
            payloads = self.fresh()
            if what == "add":
                added = db.add(self.name, payloads[0])
                self.added([added], payloads[:1])
            elif what == "add_many":
                given = [bytearray(each) for each in payloads]
                self.added(db.add_many(self.name, given), payloads)
            elif what == "deliver" and self.mine:
                number = self.chance.choice(sorted(self.mine))
                assert db.deliver(number) is True
                del self.mine[number]
            elif what == "put":
                self.value = payloads[0]
                db.put(self.name, self.value)
            elif what == "pass through":
                self.numbers.append(db.add(NARROW, payloads[0], wait=WAIT_SECONDS))
                passed = db.take(NARROW)  # one of those that are there: each caller that adds one takes one
                assert passed is not None and db.deliver(passed)
            elif (message := db.take(SHARED)) is not None:
                self._taken(message, what, db)

    def _taken(self, message: Message, what: str, db: MessageDatabase | AsyncMessageDatabase) -> bool:
        """Give a message back, or say that it is to be delivered."""
        assert message.queue == SHARED
        if what == "give back":
            assert db.release(message.number) is True
            return False
        if isinstance(db, MessageDatabase):
            assert db.deliver(message.number) is True
        self.delivered.append(message.number)
        return True

    async def tasked(self, db: AsyncMessageDatabase) -> None:
        for what in self.plan():
            payloads = self.fresh()
            if what == "add":
                added = await db.add(self.name, payloads[0])
                self.added([added], payloads[:1])
            elif what == "add_many":
                buffer = list(payloads)
                adding = asyncio.ensure_future(db.add_many(self.name, buffer))
                await asyncio.sleep(0)
                buffer.clear()
                self.added(await adding, payloads)
            elif what == "deliver" and self.mine:
                number = self.chance.choice(sorted(self.mine))
                assert await db.deliver(number) is True
                del self.mine[number]
            elif what == "put":
                self.value = payloads[0]
                await db.put(self.name, self.value)
            elif what == "pass through":
                self.numbers.append(await db.add(NARROW, payloads[0], wait=WAIT_SECONDS))
                passed = await db.take(NARROW)
                assert passed is not None and await db.deliver(passed)
            elif (message := await db.take(SHARED)) is not None and self._taken(message, what, db):
                assert await db.deliver(message.number) is True


def at_once(face: "Face", step: "Together", model: Model) -> None:
    """Let all of them act at once, and take over into the model what they did."""
    from tests.api.face import ThreadFace

    shared = face.call("add_many", (SHARED, [b"shared"] * 5), {})
    assert shared.failure is None, shared.failure
    model.apply(Change(added=[New(SHARED, b"shared")] * 5), shared.answer)
    threads = [Actor(f"thread {n}", step.seed) for n in range(step.threads)] if isinstance(face, ThreadFace) else []
    tasks = [Actor(f"task {n}", step.seed) for n in range(step.tasks + (not threads) * step.threads)]
    if isinstance(face, ThreadFace):
        _beside(face.db, threads, tasks)
    else:
        face.together(_all(face.db, tasks))
    _took_over([*threads, *tasks], model)


def _beside(db: MessageDatabase, threads: list[Actor], tasks: list[Actor]) -> None:
    def run(actor: Actor) -> None:
        try:
            actor.threaded(db)
        except BaseException as failure:
            actor.failure = failure

    async def loop() -> None:
        async with AsyncMessageDatabase.wrap(db) as wrapped:
            await _all(wrapped, tasks)

    running = [threading.Thread(target=run, args=(actor,), daemon=True) for actor in threads]
    for thread in running:
        thread.start()
    asyncio.run(loop())
    for thread in running:
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive(), "a thread hangs"


async def _all(db: AsyncMessageDatabase, tasks: list[Actor]) -> Any:
    await asyncio.wait_for(asyncio.gather(*(actor.tasked(db) for actor in tasks)), DEADLINE_SECONDS)


def _took_over(actors: list[Actor], model: Model) -> None:
    delivered = [number for actor in actors for number in actor.delivered]
    assert len(set(delivered)) == len(delivered), f"a message was handed to two: {sorted(delivered)}"
    for actor in actors:
        if actor.failure is not None:
            raise actor.failure
        for number, payload in actor.mine.items():
            model.messages[number] = (number, actor.name, payload, {})
        if actor.value is not None:
            model.keys[actor.name] = actor.value
        model.highest = max([model.highest, *actor.numbers])
    for number in delivered:
        assert model.messages.pop(number, None) is not None, f"{number} was not there to be taken"
        model.gone.append(number)
        model.taken.discard(number)
