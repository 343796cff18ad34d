"""Sweeps: every way of giving every argument of a call; what was sent is received, and is what the model says.

What is handed in changes at every write of the broker's, and when the call has returned (`tests/api/moments.py`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tests.api.arguments import Argument
from tests.api.moments import Interrupt
from tests.callers.given import RIGHT, WRONG
from tests.callers.play import play
from tests.callers.steps import CLASSES, Call, Come, Step, kind_of, methods, parameters
from tests.support.attack import Swept

VARIANTS = 6  # of each way
PLAIN = {  # what the other arguments are given as
    "service": Argument("service", "as text", 0),
    "body": Argument("body", "plain-bytes", 3),
    "topic": Argument("topic", "a topic", 0),
    "conv_id": Argument("conv_id", "a conversation", 0),
    "uowid": Argument("uowid", "a unit", 0),
    "publication_id": Argument("publication_id", "a publication", 0),
    "user_status": Argument("user_status", "text", 0),
    "durable": Argument("flag", "yes or no", 0),
}


def _call(who: str, of: str, method: str, *names: str) -> Call:
    return Call(who, of, method, tuple((name, PLAIN[name]) for name in names))


SEND = _call("ALICE", "session", "send", "service", "body")
RECEIVE = Call("BOB", "session", "receive_unit")
SUBSCRIBE = _call("CAROL", "session", "subscribe", "topic", "durable")
PUBLISH = _call("ALICE", "session", "publish", "topic", "body")
BEFORE: dict[str, tuple[Step, ...]] = {  # of a call of something that a session gave out
    "session": (SEND, SUBSCRIBE, PUBLISH),
    "sent": (_call("ALICE", "session", "unit_of_work", "service"), _call("ALICE", "sent", "send", "body")),
    "received": (SEND, RECEIVE),
    "publishing": (
        *(SUBSCRIBE, _call("ALICE", "session", "publication", "topic")),
        _call("ALICE", "publishing", "send", "body"),
    ),
    "subscription": (SUBSCRIBE, PUBLISH),
    "reading": (SUBSCRIBE, PUBLISH, Call("CAROL", "subscription", "receive")),
}
READ = (
    Call("CAROL", "subscription", "receive"),
    *[Call("CAROL", "reading", "next")] * 3,
    Call("CAROL", "reading", "acknowledge"),
)
AFTER: dict[tuple[str, str], tuple[Step, ...]] = {  # which has what was given looked at
    ("session", "unit_of_work"): (_call("ALICE", "sent", "send", "body"), Call("ALICE", "sent", "commit")),
    ("session", "register"): (Come("BOB", "recover"),),
    ("sent", "send"): (Call("ALICE", "sent", "commit"),),
    ("received", "answer"): (Call("BOB", "received", "commit"),),
    ("session", "publish"): READ,
    ("publishing", "send"): (Call("ALICE", "publishing", "commit"), *READ),
    ("session", "publication"): (
        *(_call("ALICE", "publishing", "send", "body"), Call("ALICE", "publishing", "commit")),
        *READ,
    ),
}
INTERRUPTED: dict[str, tuple[Step, ...]] = {  # what is interrupted, after what comes before it
    "interrupted receive_unit": (SEND, RECEIVE),
    "interrupted receive": (SUBSCRIBE, PUBLISH, Call("CAROL", "subscription", "receive")),
    "interrupted send": (BEFORE["sent"][0], BEFORE["sent"][1]),
}
PLACES = 360  # of such a call, about
SWEPT = tuple(f"{owner}.{method}" for owner in CLASSES for method in methods(owner) if parameters(owner, method))


def scripts_of(name: str, variants: Iterable[int] = range(VARIANTS)) -> Iterator[tuple[Step, ...]]:
    """Yield a script for every argument of a method, "session.send", with variants of all ways of giving it."""
    owner, _, method = name.partition(".")
    who = {"received": "BOB", "subscription": "CAROL", "reading": "CAROL"}.get(owner, "ALICE")
    if method in ("receive_unit", "receive_message", "register", "deregister"):
        who = "BOB"
    for parameter in parameters(owner, method):
        kind = kind_of(parameter)
        script: list[Step] = []
        for way in sorted(RIGHT[kind] | WRONG[kind]):
            for n in variants:
                call = Call(who, owner, method, _given(owner, method, parameter, Argument(kind, way, n)))
                script += [*BEFORE[owner], call, *AFTER.get((owner, method), ())]
        yield tuple(script)


def _given(owner: str, method: str, parameter: str, argument: Argument) -> tuple[tuple[str, Argument], ...]:
    given = {name: PLAIN[name] for name, is_required in parameters(owner, method).items() if is_required}
    if "service" in parameters(owner, method) and method not in ("deregister", "receive_unit", "receive_message"):
        given["service"] = PLAIN["service"]
    if parameter == "conv_id" and not parameters(owner, method).get("service"):
        given.pop("service", None)
    return tuple((given | {parameter: argument}).items())


def interrupted(name: str) -> Iterator[tuple[Step, ...]]:
    """Yield scripts whose last call is interrupted at one of its places, and made again; the last places first."""
    *before, last = INTERRUPTED[name]
    assert isinstance(last, Call)
    for place in range(PLACES, 0, -1):
        yield (*before, replace(last, moment=Interrupt(place)), last)


def sweep(name: str, face: str, variants: Iterable[int] = range(VARIANTS)) -> Swept:
    """Play every way of giving the arguments of a method, or interrupt a call; yield the scripts and their failures."""
    for script in interrupted(name) if name in INTERRUPTED else scripts_of(name, variants):
        try:
            play(script, face)
        except Exception as failure:
            yield script, failure
        else:
            yield script, None
