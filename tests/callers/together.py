"""Threads or tasks at once on one broker: each with a session of its own, all on one service, until nothing is left."""

import asyncio
import random
import threading
from collections import Counter
from secrets import token_hex
from typing import Any

from tests.callers.faces import Face
from tests.callers.steps import Together

SERVICE = "GAME/CHESS/TOGETHER"
ROUNDS = 6
DEADLINE_SECONDS = 60
WAIT_SECONDS = 0.5


class Actor:
    """What one thread or task sends, and what it has received and committed."""

    def __init__(self, number: int, seed: int) -> None:
        self.name = f"T{number}"
        self.chance = random.Random(f"{number} {seed}")
        self.sent: list[bytes] = []
        self.got: list[bytes] = []
        self.failure: BaseException | None = None

    def fresh(self) -> list[bytes]:
        count = self.chance.randint(1, 3)
        return [b"%s %d %d" % (self.name.encode(), len(self.sent), place) for place in range(count)]


def at_once(face: Face, step: Together) -> None:
    """Let all of them act at once: what was committed is received once, and nothing else."""
    actors = [Actor(number, step.seed) for number in range(step.count)]
    if face.is_async:
        face.now(asyncio.wait_for(_all(face.broker, actors), DEADLINE_SECONDS))
    else:
        _threads(face.broker, actors)
    for actor in actors:
        if actor.failure is not None:
            raise AssertionError(f"{actor.name}: {actor.failure!r}") from actor.failure
    sent, got = (Counter(body for actor in actors for body in getattr(actor, each)) for each in ("sent", "got"))
    assert sent == got, f"lost {sent - got}, doubled or strange {got - sent}"


def _threads(broker: Any, actors: list[Actor]) -> None:
    ready = threading.Barrier(len(actors))

    def run(actor: Actor) -> None:
        try:
            with broker.session(actor.name, token="T") as session:
                session.register(SERVICE)
                ready.wait(DEADLINE_SECONDS)
                _act(session, actor)
                ready.wait(DEADLINE_SECONDS)  # nobody goes, and takes its conversations with it, before all have sent
                _drain(session, actor)
                ready.wait(DEADLINE_SECONDS)
        except BaseException as failure:
            actor.failure = failure
            ready.abort()

    threads = [threading.Thread(target=run, args=(actor,), daemon=True) for actor in actors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive(), "a thread hangs"


def _act(session: Any, actor: Actor) -> None:
    for number in range(ROUNDS):
        bodies, producer = actor.fresh(), token_hex()
        unit = session.unit_of_work(SERVICE, producer=producer)
        for body in bodies:
            unit.send(body)
        if actor.chance.randint(0, 4):
            unit.commit()
            actor.sent += bodies
            if not number % 3:  # as who has not heard of it
                unit = session.unit_of_work(SERVICE, producer=producer)
                for body in bodies:
                    unit.send(body)
                unit.commit()
        else:
            unit.backout()
        received = session.receive_unit(SERVICE)
        if received is not None:
            _settle(received, actor)


def _settle(received: Any, actor: Actor) -> None:
    bodies = [message.body for message in received]
    if actor.chance.randint(0, 3):
        received.commit()
        actor.got += bodies
    else:
        received.backout()


def _drain(session: Any, actor: Actor) -> None:
    for unit in session.receive_units(SERVICE):
        bodies = [message.body for message in unit]
        unit.commit()
        actor.got += bodies


async def _all(broker: Any, actors: list[Actor]) -> None:
    ready = asyncio.Barrier(len(actors))
    await asyncio.gather(*(_task(broker, actor, ready) for actor in actors))


async def _task(broker: Any, actor: Actor, ready: asyncio.Barrier) -> None:
    async with broker.session(actor.name, token="T") as session:
        await session.register(SERVICE)
        await ready.wait()
        for number in range(ROUNDS):
            bodies, producer = actor.fresh(), token_hex()
            unit = session.unit_of_work(SERVICE, producer=producer)
            for body in bodies:
                await unit.send(body)
            if actor.chance.randint(0, 4):
                await unit.commit()
                actor.sent += bodies
                if not number % 3:  # as who has not heard of it
                    unit = session.unit_of_work(SERVICE, producer=producer)
                    for body in bodies:
                        await unit.send(body)
                    await unit.commit()
            else:
                await unit.backout()
            received = await session.receive_unit(SERVICE)
            if received is not None:
                await _settle_task(received, actor)
            await _given_up(session, actor)
        await ready.wait()
        async for unit in session.receive_units(SERVICE):
            bodies = [message.body async for message in unit]
            await unit.commit()
            actor.got += bodies
        await ready.wait()


async def _settle_task(received: Any, actor: Actor) -> None:
    bodies = [message.body async for message in received]
    if actor.chance.randint(0, 3):
        await received.commit()
        actor.got += bodies
    else:
        await received.backout()


async def _given_up(session: Any, actor: Actor) -> None:
    """Begin to receive, and be cancelled at once: what nobody got to see is given back."""
    if actor.chance.randint(0, 2):
        return
    waiting = asyncio.ensure_future(session.receive_unit(SERVICE, wait=WAIT_SECONDS))
    await asyncio.sleep(0.001 * actor.chance.randint(0, 3))
    waiting.cancel()
    try:
        unit = await waiting
    except asyncio.CancelledError:
        return
    if unit is not None:
        await _settle_task(unit, actor)
