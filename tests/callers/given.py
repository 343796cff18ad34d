"""Arguments of a broker's callers: every way in which one is given, right, wrong and strange, with what it means.

As in `tests/api/arguments.py`, whose payloads, properties and flags are used: what is entered here is about sessions,
services, conversations and terms. An identifier is made when its call is played, from those that were heard of.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oms_journal.broker.block import Option, Store
from oms_journal.broker.codes import BrokerError
from oms_journal.broker.records import Status
from tests.api import many  # noqa: F401  it enters its ways into the tables
from tests.api.arguments import NOTHING_LIKE_IT, Given, Hand, Make, StrangeBytes, StrangeNumber, StrangeText
from tests.api.arguments import RIGHT as RIGHT_OF_API
from tests.api.arguments import WRONG as WRONG_OF_API

REFUSED = (TypeError, ValueError, BrokerError)
UNKNOWN = "1FFFFFFFFFFFFFFF"  # an identifier that nothing has
CLASS, SERVER = "GAME", "CHESS"
SERVICES = ("BLACK", "BLACK", "BLITZ")
TOPICS = ("NEWS", "NEWS", "GOSSIP")


@dataclass(slots=True)
class Known(Hand):
    """What arguments are made from: the identifiers that were heard of, the latest last."""

    talks: Sequence[str] = ()
    uows: Sequence[str] = ()
    publications: Sequence[str] = ()

    def one_of(self, identifiers: Sequence[str], n: int) -> str:
        return identifiers[-1 - n % min(len(identifiers), 6)] if identifiers else UNKNOWN


RIGHT: dict[str, dict[str, Make]] = {}
WRONG: dict[str, dict[str, Make]] = {}
WORDS: dict[str, tuple[str, ...]] = {}  # one of which a refusal says


def kind(name: str, *words: str, right: dict[str, Any], wrong: dict[str, Any]) -> None:
    """Enter a kind: ways by name, each the values among which a number chooses, or what makes the argument."""
    WORDS[name] = words or (name,)
    RIGHT[name] = {way: _maker(values, is_wrong=False) for way, values in right.items()}
    WRONG[name] = {way: _maker(values, is_wrong=True) for way, values in wrong.items()}


def _maker(values: Any, *, is_wrong: bool) -> Make:
    if callable(values):
        made: Make = values
        return made

    def make(hand: Hand, n: int) -> Given:
        value = values[n % len(values)]
        if is_wrong:
            return Given(value, wrong=REFUSED)
        return value if isinstance(value, Given) else Given(value, value)

    return make


def borrowed(name: str, of: str, *words: str) -> None:
    """Enter a kind of the API's."""
    WORDS[name] = (name, *words)
    RIGHT[name] = dict(RIGHT_OF_API[of])
    WRONG[name] = {way: make for way, make in WRONG_OF_API[of].items() if "too-long" not in way}  # for a database


def strange(*values: str) -> Make:
    return lambda _, n: Given(StrangeText(values[n % len(values)]), values[n % len(values)])


def service_as(how: str) -> Make:
    def make(hand: Hand, n: int) -> Given:
        name = SERVICES[n % len(SERVICES)]
        parts: list[str] = [CLASS, SERVER, name]
        if how == "text":
            return Given("/".join(parts), name)
        if how == "tuple":
            return Given(tuple(parts), name)
        if how == "strange":
            return Given(tuple(map(StrangeText, parts)) if n % 2 else StrangeText("/".join(parts)), name)
        hand.meddlers.append(lambda: parts.__setitem__(slice(None), ["NOT", "TO", "BE"]))
        return Given(parts, name)

    return make


def identifier(of: str) -> Make:
    def make(hand: Hand, n: int) -> Given:
        assert isinstance(hand, Known)
        found = hand.one_of(getattr(hand, of), n)
        return Given(StrangeText(found) if n % 7 == 3 else found, found)

    return make


NO_TEXT: tuple[object, ...] = (b"a", 5, 1.5, ["a"], {}, object(), len, bytearray(b"a"), True)
kind(
    "service",
    right={"as text": service_as("text"), "as a tuple": service_as("tuple"), "as a list": service_as("list"),
           "strange": service_as("strange"), "undefined": [Given("GAME/CHESS/OTHER", "OTHER")]},
    wrong={"no names": (b"a/b/c", 5, object(), ("a", 5, "c"), {"a": 1}, True, len),
           "too many": ("", "a", "a/b", "a/b/c/d", ("a", "b"), (), ["a"] * 4),
           "too long": ("a" * 33 + "/b/c", ("a", "b", "c" * 33), ("é" * 20, "b", "c"))},
)  # fmt: skip
kind(
    "conv_id", "conv",
    right={"a conversation": identifier("talks"), "one": identifier("talks"), "unknown": [UNKNOWN]},
    wrong={"no text": NO_TEXT, "too long": ("1" * 17, "\ud800", "a\0b")},
)  # fmt: skip
kind(
    "uowid", "uow",
    right={"a unit": identifier("uows"), "one": identifier("uows"), "unknown": [UNKNOWN]},
    wrong={"no text": (None, *NO_TEXT), "too long": ("1" * 17, "\ud800")},
)  # fmt: skip
kind(
    "publication_id", "publication",
    right={"a publication": identifier("publications"), "unknown": [UNKNOWN]},
    wrong={"no text": (None, *NO_TEXT), "too long": ("1" * 17, "\ud800")},
)  # fmt: skip
kind(
    "user_status", "user_status", "ustatus",
    right={"text": ("paid", "u1", "x" * 32), "none": [""], "strange": strange("odd", "odder")},
    wrong={"no text": (None, *NO_TEXT), "too long": ("x" * 33, "\ud800", "\x00")},
)  # fmt: skip
kind("wait", right={"not": (None, False, 0, 0.0), "a moment": (0.001, 0.002)},
     wrong={"no number": ("1", b"1", [], object(), len, 1j), "nan": [float("nan")]})  # fmt: skip
kind("which", right={"a word": ("ANY", "OLD", "NEW")}, wrong={"no word": ("SOME", None, 5, b"ANY", [], "")})
kind("option", right={"an option": (Option.NONE, Option.QUIESCE, Option.IMMED)},
     wrong={"none": ("NONE", None, b"", 999, [], object())})  # fmt: skip
STATUSES = (Status.ACCEPTED, Status.CANCELLED)
kind("status", right={"that it may have": STATUSES, "another": (Status.PROCESSED, Status.DELIVERED)},
     wrong={"none": (None, "ACCEPTED", 2, [], object())})  # fmt: skip
kind("topic", right={"a topic": TOPICS, "strange": strange(*TOPICS), "undefined": ["OTHER"]},
     wrong={"no text": (None, *NO_TEXT), "too long": ("T" * 97, "\ud800")})  # fmt: skip
kind("lifetime", right={"text": ("1H", "5D"), "seconds": (3600, 7200.0)},
     wrong={"none": (None, [], b"1H", True, object(), float("nan")), "no time": ("soon", "-1S", "1Y")})  # fmt: skip
kind("status_lifetime", "status_lifetime", "uwstat",
     right={"text": ("1H", "5D"), "seconds": (3600, 7200.0)},
     wrong={"none": (None, [], b"1H", True, object(), float("nan")), "no time": ("soon", "1Y")})  # fmt: skip
kind("status_lifetimes", "status_lifetimes", "uwstatp",
     right={"a number": (0, 1, 3, 254)},
     wrong={"none": (None, "1", True, 1.5, [], object()), "too many": (-1, 256, 1000)})  # fmt: skip
kind("producer", right={"text": ("P0", "P1", "P2"), "strange": strange("P0", "P1")},
     wrong={"no text": (None, *NO_TEXT), "too long": ("p" * 256, "é" * 128, "\ud800")})  # fmt: skip
kind("msgtype", right={"text": ("", "ORDER"), "strange": strange("ORDER")},
     wrong={"no text": (None, *NO_TEXT), "too long": ("m" * 17, "\ud800")})  # fmt: skip
for each, width in (("msgid", 32), ("user_data", 16)):
    kind(each,
         right={"bytes": (b"", b"1", bytes(range(width))), "strange": lambda _, n: Given(StrangeBytes(b"s"), b"s")},
         wrong={"no bytes": (None, "a", 5, [1], object(), len), "too long": [bytes(width + 1)]})  # fmt: skip
borrowed("body", "payload", "message", "body")
borrowed("properties", "properties", "propert")
kind("flag", "cancel", "durable", "persistent",
     right={"yes or no": (True, False)},
     wrong={"neither": ("no", None, 1, 0, [], object(), StrangeNumber(1))})  # fmt: skip

KINDS = {"cancel": "flag", "durable": "flag", "persistent": "flag"}  # of a parameter, where it has another name
__all__ = ["KINDS", "NOTHING_LIKE_IT", "RIGHT", "WORDS", "WRONG", "Known", "Store"]
