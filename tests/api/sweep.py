"""Sweeps: every way of giving every argument, one at a time; and an interrupt at every place of a call."""

import inspect
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

from oms_journal import AsyncMessageDatabase, MessageDatabase, QueueClient
from oms_journal.database.commits.block import CommitBlock
from tests.api.arguments import RIGHT, WRONG, Argument
from tests.api.moments import Cancel, Interrupt, Moment
from tests.api.play import Player
from tests.api.surface import Block, Call, Consume, Restart, Step, TakeFor, ThroughDoor, kind_of, methods
from tests.fuzz.target import MEMORY

RIGHT_VARIANTS, WRONG_VARIANTS = 5, 20  # of each way
ASYNC_VARIANTS = 5  # of each: what looks at an argument is the same for both faces
DOOR_VARIANTS = 2  # likewise for a client
PLAIN = {  # what the other arguments are given as
    "count": Argument("count", "so-many", 1),
    **{kind: Argument(kind, "plain-text", 0) for kind in ("queue", "queues", "key")},
    **{kind: Argument(kind, "plain-bytes", 3) for kind in ("payload", "value")},
    **{kind: Argument(kind, "some", 3) for kind in ("payloads", "numbers")},
    "number": Argument("number", "a-number", 0),
    "leased": Argument("leased", "what-was-taken-on-a-lease", 0),
    "lease_seconds": Argument("lease_seconds", "how-long-it-goes-on", 0),
}
FULL = Argument("queue", "plain-text", 1)  # which holds less than these add
ROOM_WAIT = Argument("wait_for_room", "no-wait-or-a-short-one", 3)
SHORT_WAIT = Argument("wait", "no-wait-or-a-short-one", 3)
LEASE = Argument("lease", "a-lease-or-none", 1)
LONG_DELAY = Argument("delay", "no-delay-or-a-long-one", 2)
BEGIN = (
    Call("add", (("queue", PLAIN["queue"]), ("payload", PLAIN["payload"]))),
    Call("put", (("key", PLAIN["key"]), ("value", PLAIN["value"]))),
    Call("take", (("queue", PLAIN["queue"]),)),
)

BEGIN_OF = {  # what else comes before a method
    "extend": (BEGIN[0], Call("take", (("queue", PLAIN["queues"]), ("lease", LEASE)))),
}
FEWER_VARIANTS: Mapping[type, int] = {AsyncMessageDatabase: ASYNC_VARIANTS, QueueClient: DOOR_VARIANTS}


Chosen = Callable[[int], Iterable[int]]  # which of so many variants are played


def every_way(owner: type, method: str, chosen: Chosen = range) -> Iterator[Step]:
    """Yield a call, in a block where the class is one, for every way to give every argument of the method."""
    parameters = list(methods(owner)[method].parameters.values())
    for one in parameters:
        kind = kind_of(method, one.name)
        for table, variants in ((RIGHT, RIGHT_VARIANTS), (WRONG, WRONG_VARIANTS)):
            for way in sorted(table[kind]):
                for n in chosen(FEWER_VARIANTS.get(owner, variants)):
                    call = _call(method, parameters, one, Argument(kind, way, n))
                    if owner is QueueClient:
                        yield ThroughDoor(call)
                    else:
                        yield Block(None, (BEGIN[0], call)) if owner is CommitBlock else call


def swept(owner: type, method: str, chosen: Chosen = range) -> Iterator[tuple[Step, Exception | None]]:
    """Play every way to give every argument of a method; yield each with what it failed with."""
    player: Player | None = None
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="oms-api-") as home:
        try:
            for place, step in enumerate(every_way(owner, method, chosen)):
                if player is None:
                    player = Player(Path(home) / str(place), is_async=owner is AsyncMessageDatabase, is_restored=True)
                    for each in (*BEGIN, *BEGIN_OF.get(method, ())):
                        player.step(each)
                failed: Exception | None = None
                try:
                    player.step(step)
                except Exception as failure:
                    failed = failure
                    player.end()
                    player = None
                yield step, failed
        finally:  # who asks for no more has it end too
            if player is not None:
                player.end()


def _call(method: str, parameters: list[inspect.Parameter], one: inspect.Parameter, argument: Argument) -> Call:
    given = []
    for other in parameters:
        if other is one:
            given.append((other.name, argument))
        elif other.default is inspect.Parameter.empty:
            given.append((other.name, PLAIN[kind_of(method, other.name)]))
    return Call(method, tuple(given))


SWEPT: dict[str, tuple[Step, ...]] = {  # what is interrupted at every place, after what comes before it
    "add": BEGIN[:1],
    "add to a full queue": (
        Call("add_many", (("queue", FULL), ("payloads", Argument("payloads", "some", 3)))),
        *(Call("add", (("queue", FULL), ("payload", PLAIN["payload"]))),) * 3,
        Call("add", (("queue", FULL), ("payload", PLAIN["payload"]), ("wait", ROOM_WAIT))),
    ),
    "add to a new queue": (
        Call("add", (("queue", Argument("queue", "plain-text", 1)), ("payload", PLAIN["payload"]))),
    ),
    "take": BEGIN[::2],
    "take_many": (
        *BEGIN[:1] * 3,
        Call("take_many", (("queue", PLAIN["queue"]), ("count", Argument("count", "so-many", 1)))),
    ),
    "take that waits": (*BEGIN[:1], Call("take", (("queue", PLAIN["queues"]), ("wait", SHORT_WAIT)))),
    "take that waits in vain": (Call("take", (("queue", PLAIN["queues"]), ("wait", SHORT_WAIT))),),
    "take on a lease": (*BEGIN[:1], Call("take", (("queue", PLAIN["queues"]), ("lease", LEASE)))),
    "consume": (*BEGIN[:1] * 2, Consume((("queue", PLAIN["queues"]),), ("pass", "pass"), at=1)),
    "taking": (*BEGIN[:1], TakeFor((("queue", PLAIN["queues"]),), "pass", is_of_entering=True)),
    "the end of taking": (*BEGIN[:1], TakeFor((("queue", PLAIN["queues"]),), "pass")),
    "taking that is left": (*BEGIN[:1], TakeFor((("queue", PLAIN["queues"]),), "pass", raises=True)),
    "extend": (
        *BEGIN[:1],
        Call("take", (("queue", PLAIN["queues"]), ("lease", LEASE))),
        Call("extend", (("message", PLAIN["leased"]), ("seconds", PLAIN["lease_seconds"]))),
    ),
    "add through a socket": (ThroughDoor(BEGIN[0]), ThroughDoor(BEGIN[0])),
    "release with a delay": (
        *BEGIN[::2],
        Call("release", (("number", Argument("number", "a-taken-number", 0)), ("delay", LONG_DELAY))),
    ),
    "release": (*BEGIN[::2], Call("release", (("number", Argument("number", "a-taken-number", 0)),))),
    "deliver what is taken": (*BEGIN[::2], Call("deliver", (("number", Argument("number", "a-taken-number", 0)),))),
    "peek": (*BEGIN[:1], Call("peek", (("queue", PLAIN["queue"]),))),
    "purge": (*BEGIN[:1] * 3, BEGIN[2], Call("purge", (("queue", PLAIN["queue"]),))),
    "put": BEGIN[1:2],
    "a block": (
        BEGIN[0],
        Block(
            None,
            (
                Call("deliver", (("number", PLAIN["number"]),)),
                Call("put", (("key", PLAIN["key"]), ("value", PLAIN["value"]))),
                Call("add_many", (("queue", PLAIN["queue"]), ("payloads", Argument("payloads", "some", 3)))),
            ),
        ),
    ),
    "add again with an identifier": (
        Call("add", (*BEGIN[0].arguments, ("producer_id", Argument("producer_id", "plain-text", 0)))),
    ),
    "close": (Restart(),),
    "unhold": (Call("unhold", ()),),
}
CANCELS = [
    Cancel(place, when, turns)
    for place in (1, 2, 3)
    for when, turns in (("begun", 0), ("later", 1), ("later", 4), ("answered", 0))
]
RESTORED = frozenset({"unhold"})  # in a database that holds what it has back


def interrupted(steps: tuple[Step, ...], moment: Moment) -> tuple[Step, ...]:
    """Return the steps with a moment for the last of them."""
    *before, last = steps
    match last:
        case Call():
            return (*before, Call(last.method, last.arguments, moment))
        case Block():
            return (*before, Block(last.producer, last.calls, moment=moment))
        case Consume():
            return (*before, replace(last, moment=moment))
        case TakeFor():
            return (*before, replace(last, moment=moment))
        case ThroughDoor():
            return (*before, ThroughDoor(Call(last.call.method, last.call.arguments, moment)))
        case Restart():
            return (*before, Restart(moment=moment))
        case _:
            raise ValueError(f"{last} has no moment")


def swept_places(
    what: str, first: int = 1, every: int = 1, kind: type[BaseException] = KeyboardInterrupt
) -> Iterator[tuple[tuple[Step, ...], Exception | None]]:
    """Play the steps with an interrupt at every so many places of the last; yield them with what they failed with."""
    for place in count(first, every):
        steps = interrupted(SWEPT[what], Interrupt(place, kind))
        was_reached, failure = _played(steps, is_async=False, is_restored=what in RESTORED)
        if failure is None and not was_reached:
            return
        yield steps, failure


def swept_waits(what: str) -> Iterator[tuple[tuple[Step, ...], Exception | None]]:
    """Play the steps as tasks, the last one cancelled while it waits; yield them as `swept_places` does."""
    for moment in CANCELS:
        steps = interrupted(SWEPT[what], moment)
        was_reached, failure = _played(steps, is_async=True, is_restored=what in RESTORED)
        if failure is not None or was_reached:
            yield steps, failure


def _played(steps: tuple[Step, ...], *, is_async: bool, is_restored: bool) -> tuple[bool, Exception | None]:
    """Return whether the moment of the last step came, and what a step failed with."""
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="oms-api-") as home:
        player = Player(Path(home), is_async=is_async, is_restored=is_restored)
        was_reached = False
        try:
            for step in steps:
                player.step(step)
            was_reached = player.was_reached
            if was_reached and is_restored:
                player.step(Restart())
        except Exception as failure:
            return was_reached, failure
        finally:
            player.end()
        return was_reached, None


OWNERS = (MessageDatabase, AsyncMessageDatabase, CommitBlock, QueueClient)
