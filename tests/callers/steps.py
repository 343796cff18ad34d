"""Steps of a script, and the strategies that make scripts from the public signatures.

A method or a parameter that no table here knows fails a test: a new one gets its ways before it gets its users.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

from hypothesis import strategies as st

from oms_journal.broker.sessions.session_parts import (
    ReceivedPublication,
    ReceivedUnit,
    SentPublication,
    SentUnit,
    Subscription,
)
from oms_journal.broker.sessions.sessions import Session
from tests.api.arguments import Argument
from tests.api.moments import Cancel, FromAHandler, Interrupt, Moment
from tests.callers.given import KINDS, RIGHT, WRONG
from tests.callers.operators import VERBS

CLASSES: Mapping[str, type] = {
    "session": Session,
    "sent": SentUnit,
    "received": ReceivedUnit,
    "publishing": SentPublication,
    "reading": ReceivedPublication,
    "subscription": Subscription,
}
# Public names that no call of a script makes, and why.
APART: Mapping[str, Mapping[str, str]] = {
    "session": {
        "ask": "what all others do",
        "request": "needs a partner that answers meanwhile",
        "receive_units": "receive_unit, until there is none",
        "log_on": "a step of its own",
        "log_off": "a step of its own",
        "recover": "a step of its own",
    },
    "sent": {},
    "received": {},
    "publishing": {},
    "reading": {"commit": "acknowledge"},
    "subscription": {"publications": "receive, until there is none"},
}
LEFT = {"sent", "received", "publishing", "reading"}  # blocks: `leave` ends one, with or without an exception
READ = {"received", "reading"}  # iterators: `next` is their next message


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection is lost while a call is under way: before the request arrives, before its answer does, or within.

    The client repeats the call: who calls sees nothing of it.
    """

    when: str


AnyMoment = Moment | Cut


@dataclass(frozen=True, slots=True)
class Call:
    """A call of somebody's session, or of something that it gave out: `of` and `pick` say which."""

    who: str
    of: str
    method: str
    arguments: tuple[tuple[str, Argument], ...] = ()
    moment: AnyMoment = None
    pick: int = 0
    again: bool = False  # the same once more, as who has not heard the answer


@dataclass(frozen=True, slots=True)
class Come:
    """Somebody comes or goes: log_on, log_off, recover, lost, elsewhere."""

    who: str
    how: str
    moment: AnyMoment = None


@dataclass(frozen=True, slots=True)
class Restart:
    """The broker is closed, or killed, and opened again."""

    kills: bool = False


@dataclass(frozen=True, slots=True)
class Together:
    """Threads or tasks at once, each with a session of its own, on a service of their own."""

    count: int
    seed: int


@dataclass(frozen=True, slots=True)
class Resent:
    """A unit of work with a producer's identifier, left after so many calls, and sent again as a whole.

    What happens between: nothing, or as somebody comes or goes, or "killed". With other content it is refused.
    """

    who: str
    producer: int
    size: int
    stop: int
    then: str
    is_other: bool = False


@dataclass(frozen=True, slots=True)
class InPassing:
    """A unit of work of several messages is received, and so many times what else there is: that goes on with it.

    The moment is that of the last of these calls. Then it is read to its end and committed or given back, or its
    receiver comes or goes, and another server receives what there is.
    """

    who: str
    size: int
    times: int
    which: int  # a word
    then: str
    moment: AnyMoment = None


@dataclass(frozen=True, slots=True)
class Operated:
    """An operator says something to the broker: a verb of `operators.py`."""

    verb: str
    arguments: tuple[tuple[str, Argument], ...] = ()
    whose: int = 0  # of the people, who is meant
    moment: AnyMoment = None


@dataclass(frozen=True, slots=True)
class Passed:
    """Time passes."""

    seconds: int


@dataclass(frozen=True, slots=True)
class Tried:
    """A unit of work is received and given back, so many times, with time between them; and received once more."""

    who: str
    service: int
    times: int
    between: int  # seconds
    is_asked_for: bool = False  # an operator has it received at once in the end


Step = Call | Come | Restart | Together | Resent | InPassing | Operated | Passed | Tried
# No sum of some of them is a lifetime or a delay, or comes near to one: what is over by then is over for everybody.
SECONDS = (0, 7, 7, 61, 61, 3607, 100_003, 432_017)
ORDERS = (*VERBS, *["purge"] * 2, *["set_uow_status"] * 3, *["allow_new_uow_messages"] * 3)
CHECKED = ("purge", "set_uow_status")  # what they are given is looked at; all other is made by layers of the broker
CLIENTS, SERVERS = ("ALICE", "CAROL"), ("BOB", "DAVE")
PEOPLE = (*CLIENTS, *SERVERS)
COMINGS = ("lost", "elsewhere", "recover", "log_off", "log_on")
OFTEN = (
    *[("session", "send")] * 6,
    *[("session", "unit_of_work")] * 4,
    *[("sent", "send")] * 6,
    *[("sent", "commit")] * 5,
    *[("sent", "leave")] * 2,
    *[("session", "receive_unit")] * 10,
    *[("received", "next")] * 6,
    *[("received", "commit")] * 6,
    *[("received", "backout"), ("received", "answer"), ("received", "leave")] * 2,
    *[("session", "subscribe"), ("session", "publish"), ("subscription", "receive"), ("reading", "acknowledge")] * 2,
)


def parameters(owner: str, method: str) -> dict[str, bool]:
    """Return the parameters of a public method, those of its typed dictionary too; True for one that is required."""
    if method in ("next", "leave"):
        return {}
    function = getattr(CLASSES[owner], method)
    found: dict[str, bool] = {}
    for one in inspect.signature(function).parameters.values():
        if one.kind is inspect.Parameter.VAR_KEYWORD:
            (terms,) = get_args(get_type_hints(function, include_extras=True)[one.name]) or (None,)
            found |= dict.fromkeys(get_type_hints(terms), False)
        elif one.name != "self":
            found[one.name] = one.default is inspect.Parameter.empty
    return found


def methods(owner: str) -> list[str]:
    """Return the public methods of a class that scripts call."""
    found = []
    for name in dir(CLASSES[owner]):
        member = inspect.getattr_static(CLASSES[owner], name)
        if not name.startswith("_") and name not in APART[owner] and inspect.isfunction(member):
            found.append(name)
    return found + ["leave"] * (owner in LEFT) + ["next"] * (owner in READ)


def kind_of(parameter: str) -> str:
    """Return the kind of an argument; KeyError for one that no table knows."""
    found = KINDS.get(parameter, parameter)
    return found if RIGHT[found] else ""


def arguments(kind: str, *, is_wrong: bool) -> st.SearchStrategy[Argument]:
    ways = sorted((WRONG if is_wrong else RIGHT)[kind])
    return st.builds(Argument, st.just(kind), st.sampled_from(ways), st.integers(0, 999))


def _calls(owner: str, method: str, moments: st.SearchStrategy[AnyMoment]) -> st.SearchStrategy[Call]:
    named = parameters(owner, method)

    @st.composite
    def call(draw: st.DrawFn) -> Call:
        wrong = draw(st.sampled_from([None, None, None, None, *named]))
        given = []
        for name, is_required in named.items():
            is_wrong = name == wrong
            if name == "conv_id" and not (is_wrong or is_required) and draw(st.integers(0, 2)):
                continue
            if is_required or is_wrong or (name == "service" and method != "deregister") or not draw(st.integers(0, 2)):
                given.append((name, draw(arguments(kind_of(name), is_wrong=is_wrong))))
        who = draw(st.sampled_from(PEOPLE if owner != "session" else _people_for(method)))
        pick, again = draw(st.integers(0, 9)), draw(st.integers(0, 5)) == 5
        return Call(who, owner, method, tuple(given), draw(moments), pick, again)

    return call()


def _people_for(method: str) -> tuple[str, ...]:
    if method in ("send", "unit_of_work", "send_message", "publish", "publication"):
        return CLIENTS
    if method in ("receive_unit", "receive_message", "register", "deregister"):
        return (*SERVERS, *SERVERS, *SERVERS, "ALICE")
    return PEOPLE


def moments(face: str) -> st.SearchStrategy[AnyMoment]:
    """Return bad moments of a call of a face, and mostly none."""
    is_remote = "remote" in face
    if "tasks" in face:
        when = st.sampled_from(["begun", "later", "answered"])
        bad: Any = st.builds(Cancel, st.integers(1, 12 if is_remote else 3), when, st.integers(0, 6))
    else:
        places = st.one_of(st.integers(1, 40), st.integers(1, 150), st.integers(1, 4000 if is_remote else 400))
        bad = st.builds(Interrupt, places, st.sampled_from([KeyboardInterrupt, FromAHandler]))
    cuts: list[Any] = [st.builds(Cut, st.sampled_from(["request", "answer", "within"]))] if is_remote else []
    return st.one_of(st.none(), st.none(), st.none(), bad, *cuts)


def steps(face: str) -> st.SearchStrategy[Step]:
    bad = moments(face)
    each = {(owner, name): _calls(owner, name, bad) for owner in CLASSES for name in methods(owner)}
    comings = st.builds(Come, st.sampled_from(PEOPLE), st.sampled_from(COMINGS), bad)
    others = [comings, comings, st.builds(Restart, st.booleans())]
    together = st.builds(Together, st.integers(2, 3), st.integers(0, 999))
    calls = [each[one] for one in OFTEN]
    stops = st.sampled_from(["on", "lost", "elsewhere", "recover", "killed"])
    count = st.integers(1, 3)
    resent = st.builds(
        Resent, st.sampled_from(CLIENTS), st.integers(0, 2), count, st.integers(1, 5), stops, st.booleans()
    )
    ends = st.sampled_from(["commit", "backout", "lost", "elsewhere", "recover"])
    between = st.sampled_from(SECONDS[:4])
    tried = st.builds(Tried, st.sampled_from(SERVERS), st.integers(0, 2), st.integers(1, 3), between, st.booleans())
    passed = st.builds(Passed, st.sampled_from(SECONDS))
    in_passing = st.builds(InPassing, st.sampled_from(SERVERS), st.integers(2, 3), count, st.integers(0, 1), ends, bad)
    often = [*[resent] * 6, *[in_passing] * 6, *[tried] * 4, *[passed] * 4, *[operated(verb, bad) for verb in ORDERS]]
    return st.one_of(*calls, *calls, *each.values(), *others, *others, together, *often)


def operated(verb: str, moments: st.SearchStrategy[AnyMoment]) -> st.SearchStrategy[Operated]:
    """Return what an operator says with a verb, also with a wrong argument."""
    named = [name for name in VERBS[verb] if name != "reader"]

    @st.composite
    def order(draw: st.DrawFn) -> Operated:
        wrong = draw(st.sampled_from([None, None, None, *named])) if named and verb in CHECKED else None
        given = tuple((name, draw(arguments(name, is_wrong=name == wrong))) for name in named)
        return Operated(verb, given, draw(st.integers(0, len(PEOPLE) - 1)), draw(moments))

    return order()


def scripts(face: str, most: int = 25) -> st.SearchStrategy[tuple[Step, ...]]:
    step = steps(face)
    return st.one_of(st.lists(step, min_size=1, max_size=most), st.lists(step, min_size=12, max_size=most)).map(tuple)
