"""The public surface, as the signatures say it: which calls there are, and the strategies that make scripts of them.

A method or a parameter that no table here knows fails a test: a new one gets its ways before it gets its users.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from oms_journal import AsyncMessageDatabase, CommitBlock, DatabaseView, MessageDatabase, QueueClient
from oms_journal.database.asynchronous import AsyncCommitBlock
from tests.api import many  # noqa: F401  it enters its ways into the tables
from tests.api.arguments import RIGHT, WRONG, Argument
from tests.api.moments import Cancel, FromAHandler, Interrupt, Moment

# Which ways each parameter is given in; by method and parameter where the parameter alone does not say it.
KINDS: Mapping[str, str] = {
    "queue": "queue",
    "payload": "payload",
    "payloads": "payloads",
    "properties": "properties",
    "add_many.properties": "many_properties",
    "producer_id": "producer_id",
    "number": "number",
    "numbers": "numbers",
    "unhold.numbers": "numbers_or_all",
    "key": "key",
    "value": "value",
    "prefix": "prefix",
    "compact": "flag",
    "dry_run": "flag",
    "count": "count",
    "numbers_at": "numbers_at",
    "add.delay": "due_in",
    "add_many.delay": "due_in",
    "at": "due_at",
    "expires": "expires",
    "group": "group",
    "take.queue": "queues",
    "taken.queue": "asked_queue",
    "wait": "wait",
    "add.wait": "wait_for_room",
    "add_many.wait": "wait_for_room",
    "lease": "lease",
    "message": "leased",
    "seconds": "lease_seconds",
    "delay": "delay",
    "reason": "reason",
}
# Where a name is only looked for, one that nothing can have may be refused or found nowhere.
LOOKS = {
    "take",
    "take_many",
    "undelivered",
    "undelivered_count",
    "ready_count",
    "oldest_age",
    "peek",
    "purge",
    "numbers",
    "held",
    "held_numbers",
    "held_count",
    "get",
    "drop",
}
ANY_QUEUE = {"undelivered", "undelivered_count", "numbers", "held", "held_numbers", "held_count"}  # None: of all

# Public names that no call of a script makes, and why.
APART: Mapping[str, Mapping[str, str]] = {
    "MessageDatabase": {
        "open": "a step of its own: with each option, right and wrong",
        "close": "a step of its own",
        "commit": "a step of its own: a block",
        "consume": "a step of its own: a loop",
        "taking": "a step of its own: a block that takes",
    },
    "AsyncMessageDatabase": {
        "open": "a step of its own: with each option, right and wrong",
        "wrap": "a step of its own: threads and tasks together",
        "close": "a step of its own",
        "commit": "a step of its own: a block",
        "consume": "a step of its own: a loop",
        "taking": "a step of its own: a block that takes",
    },
    "QueueClient": {"close": "when the database is closed"},
    "CommitBlock": {},
    "AsyncCommitBlock": {},
    "DatabaseView": {
        "open": "a step of its own: after each close",
        "close": "a step of its own: after each close",
    },
}
CLASSES: Mapping[str, type] = {
    each.__name__: each
    for each in (MessageDatabase, AsyncMessageDatabase, QueueClient, CommitBlock, AsyncCommitBlock, DatabaseView)
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a method."""

    method: str
    arguments: tuple[tuple[str, Argument], ...] = ()
    moment: Moment = None
    is_named: bool = False  # what may be given by position is given by name too


@dataclass(frozen=True, slots=True)
class Block:
    """A commit block: the calls within, and how it is left."""

    producer: Argument | None
    calls: tuple[Call, ...]
    raises: bool = False  # it is left with an exception
    again: str = ""  # what is tried once it was left: a method, or "enter"
    moment: Moment = None  # of leaving it
    within: "Block | None" = None  # another block, entered and left within


@dataclass(frozen=True, slots=True)
class Consume:
    """A loop over the messages of queues, with what its body does at each turn; it is left before it would wait."""

    given: tuple[tuple[str, Argument], ...]
    bodies: tuple[str, ...]  # of BODIES
    moment: Moment = None  # of going on to a message
    at: int = 0  # which


@dataclass(frozen=True, slots=True)
class TakeFor:
    """A block that takes a message, with what its body does."""

    given: tuple[tuple[str, Argument], ...]
    body: str  # of BODIES
    raises: bool = False  # it is left with an exception
    moment: Moment = None
    is_of_entering: bool = False  # the moment; else of leaving


@dataclass(frozen=True, slots=True)
class ThroughDoor:
    """A call of a client, through the socket of the database."""

    call: Call


@dataclass(frozen=True, slots=True)
class Restart:
    """The database is closed, or killed, and opened again."""

    crashes: bool = False
    closed: Call | None = None  # tried between close and open
    moment: Moment = None  # of closing


@dataclass(frozen=True, slots=True)
class Fork:
    """A child is forked, in which the database is closed."""

    call: Call


@dataclass(frozen=True, slots=True)
class Together:
    """Threads and tasks at once, each with queues and keys of its own, and one queue that all take from."""

    threads: int
    tasks: int
    seed: int


@dataclass(frozen=True, slots=True)
class Opened:
    """The closed directory is opened with an option that is right or wrong."""

    option: str
    n: int


BODIES = ("pass", "pass", "deliver", "release", "extend", "extend and deliver", "deliver twice")
Step = Call | Block | Consume | TakeFor | ThroughDoor | Restart | Fork | Together | Opened


def methods(owner: type) -> dict[str, inspect.Signature]:
    """Return the public methods of a class that scripts call, with what they are to be given."""
    found = {}
    for name in dir(owner):
        member = inspect.getattr_static(owner, name)
        if name.startswith("_") or name in APART[owner.__name__] or not callable(getattr(member, "__func__", member)):
            continue
        signature = inspect.signature(getattr(owner, name))
        found[name] = signature.replace(parameters=[one for one in signature.parameters.values() if one.name != "self"])
    return found


def kind_of(method: str, parameter: str) -> str:
    """Return the kind of an argument; KeyError for one that no table knows."""
    return KINDS.get(f"{method}.{parameter}") or KINDS[parameter]


def arguments(kind: str, *, is_wrong: bool) -> st.SearchStrategy[Argument]:
    ways = sorted((WRONG if is_wrong else RIGHT)[kind])
    return st.builds(Argument, st.just(kind), st.sampled_from(ways), st.integers(0, 999))


def _calls(method: str, signature: inspect.Signature, moments: st.SearchStrategy[Moment]) -> st.SearchStrategy[Call]:
    parameters = list(signature.parameters.values())
    kinds = [kind_of(method, one.name) for one in parameters]
    required = [one.default is inspect.Parameter.empty for one in parameters]

    @st.composite
    def call(draw: st.DrawFn) -> Call:
        wrong_at = draw(st.sampled_from([None, None, None, *range(len(parameters))])) if parameters else None
        given = []
        for place, one in enumerate(parameters):
            is_wrong = place == wrong_at
            if required[place] or is_wrong or draw(st.booleans()):
                given.append((one.name, draw(arguments(kinds[place], is_wrong=is_wrong))))
        return Call(method, tuple(given), draw(moments), draw(st.booleans()))

    return call()


def interrupts(most: int = 400) -> st.SearchStrategy[Moment]:
    places = st.one_of(st.integers(1, 40), st.integers(1, most))
    return st.builds(Interrupt, places, st.sampled_from([KeyboardInterrupt, FromAHandler]))


def cancels() -> st.SearchStrategy[Moment]:
    return st.builds(Cancel, st.integers(1, 3), st.sampled_from(["begun", "later", "answered"]), st.integers(0, 6))


def calls(owner: type, moments: st.SearchStrategy[Moment]) -> st.SearchStrategy[Call]:
    """Return calls of every method of the class, with right arguments and wrong ones."""
    each = {name: _calls(name, signature, moments) for name, signature in methods(owner).items()}
    often = [
        each[name] for name in ("add", "add_many", "take", "take_many", "deliver", "release", "put") if name in each
    ]
    return st.one_of(*each.values(), *often, *often)


def steps(owner: type) -> st.SearchStrategy[Step]:
    """Return steps on a database of the class."""
    is_async = owner is AsyncMessageDatabase
    moments = st.one_of(st.none(), st.none(), cancels() if is_async else interrupts())
    call = calls(owner, moments)
    plain = calls(owner, st.none())
    within = calls(CommitBlock, st.none())
    names = st.sampled_from(["", "enter", *methods(CommitBlock)])
    producers = (
        st.none() | st.none() | arguments("producer_id", is_wrong=False) | arguments("producer_id", is_wrong=True)
    )

    def blocks(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Block]:
        called = st.lists(within, max_size=4).map(tuple)
        left = st.sampled_from([False, False, False, True])
        return st.builds(Block, producers, called, left, names, moments, inner)

    block = blocks(st.none() | st.none() | blocks(st.none()))
    restarts = st.builds(Restart, st.booleans(), st.none() | plain, moments)
    bodies = st.lists(st.sampled_from(BODIES), min_size=1, max_size=4).map(tuple)
    door = calls(QueueClient, st.none() | st.none() | interrupts())
    loops = st.builds(Consume, given("queue", "lease"), bodies, moments, st.integers(0, 3))
    left = st.sampled_from([False, False, True])
    blocks_that_take = st.builds(
        TakeFor, given("queue", "wait", "lease"), st.sampled_from(BODIES), left, moments, st.booleans()
    )
    others: list[st.SearchStrategy[Step]] = [
        loops,
        blocks_that_take,
        st.builds(ThroughDoor, door),
        restarts,
        st.builds(Opened, st.sampled_from(options()), st.integers(0, 99)),
        st.builds(Together, st.integers(0, 2), st.integers(0, 2), st.integers(0, 999)),
        *([] if is_async else [st.builds(Fork, plain)]),
    ]
    return st.one_of(*[call] * 8, block, block, *others)


def given(queue: str, *others: str) -> st.SearchStrategy[tuple[tuple[str, Argument], ...]]:
    """Return the arguments of a call that takes: a queue, or several, and some of the others; seldom a wrong one."""

    @st.composite
    def made(draw: st.DrawFn) -> tuple[tuple[str, Argument], ...]:
        wrong_at = draw(st.sampled_from([None, None, None, None, queue, *others]))
        names = [queue, *(name for name in others if name == wrong_at or draw(st.booleans()))]
        kinds = {name: "queues" if name == queue else name for name in names}
        return tuple((name, draw(arguments(kinds[name], is_wrong=name == wrong_at))) for name in names)

    return made()


def scripts(owner: type, most: int = 12) -> st.SearchStrategy[tuple[Step, ...]]:
    return st.lists(steps(owner), min_size=1, max_size=most).map(tuple)


def options() -> list[str]:
    """Return the names of all options."""
    from tests.api.options_given import OPTIONS

    return sorted(OPTIONS)
