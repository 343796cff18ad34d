"""Whatever is wrong that a broker is told is refused with words for people, at every door, and has changed nothing."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.attributes.text import AttributesInvalid
from oms_journal.broker.client.connect import connect, connect_async
from oms_journal.broker.codes import BrokerError
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.records import Status
from oms_journal.broker.sessions.sessions import Session
from tests.support.broker.embedded import HERE, KINDS, SERVICE, Kind, kind_of
from tests.support.servers.web_place import ALICE, WebPlace
from tests.support.sweeps import for_each, takes_turns
from tests.support.wrong_inputs import faults_of

pytestmark = takes_turns(3, "kind")

NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Opening:
    """What a broker is opened with, what is raised, and what the text must name."""

    given: dict[str, Any]
    raises: type[Exception]
    named: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(f"{name}={value!r}" for name, value in self.given.items())


OPENINGS = [
    Opening({"directory": ""}, ValueError, ("directory", "empty")),
    Opening({"directory": b"spool"}, TypeError, ("directory", "bytes")),
    Opening({"directory": 5}, TypeError, ("directory", "int")),
    Opening({"directory": "a\0b"}, ValueError, ("directory", "NUL")),
    Opening({"attributes": 5}, TypeError, ("attributes", "int 5")),
    Opening({"attributes": "not there"}, AttributesInvalid, ("not there",)),
    Opening({"erase": 5}, TypeError, ("erase", "int 5")),
    Opening({"report": b"x"}, TypeError, ("report", "bytes")),
    Opening({"create": "no"}, TypeError, ("create", "True or False", "'no'")),
    Opening({"tick_seconds": "1"}, TypeError, ("tick_seconds", "'1'")),
    Opening({"tick_seconds": 0}, ValueError, ("tick_seconds", "0")),
    Opening({"tick_seconds": NAN}, ValueError, ("tick_seconds", "nan")),
    Opening({"max_uows": 5.5}, TypeError, ("max_uows", "5.5")),
    Opening({"max_uows": None}, TypeError, ("max_uows", "None")),
    Opening({"max_uows": -1}, AttributesInvalid, ("MAX-UOWS", "-1")),
    Opening({"max_uow": 5}, AttributesInvalid, ("max_uow", "no such attribute")),
    Opening({"deferred": "perhaps"}, AttributesInvalid, ("DEFERRED", "perhaps")),
    Opening({"uwtime": "soon"}, AttributesInvalid, ("UWTIME", "soon")),
    Opening({"broker_id": ["ETB001"]}, TypeError, ("broker_id", "list")),
    Opening({"pstore": "HOTTER"}, AttributesInvalid, ("PSTORE", "HOTTER")),
]


@dataclass(frozen=True, slots=True)
class Wrong:
    """A call of a session, what is raised, and what the text must name."""

    says: str
    call: Callable[[Session], object]
    raises: type[Exception]
    named: tuple[str, ...]

    def __str__(self) -> str:
        return self.says


def _send(what: str, value: Any, raises: type[Exception], *named: str) -> Wrong:
    return Wrong(f"send {what}={value!r}"[:60], lambda a: a.send(SERVICE, b"", **{what: value}), raises, named)


def _of(says: str, call: Callable[[Any], object], raises: type[Exception], *named: str) -> Wrong:
    return Wrong(says, call, raises, named)


CALLS = [
    _send("persistent", "no", TypeError, "persistent", "'no'"),
    _send("lifetime", None, TypeError, "lifetime", "None"),
    _send("lifetime", True, TypeError, "lifetime", "True"),
    _send("lifetime", NAN, ValueError, "lifetime", "nan"),
    _send("lifetime", "soon", BrokerError, "UWTIME", "soon", "30S"),
    _send("lifetime", -1, BrokerError, "UWTIME", "-1S"),
    _send("status_lifetimes", "3", TypeError, "status_lifetimes", "'3'"),
    _send("status_lifetimes", 999, BrokerError, "UWSTATP", "255"),
    _send("status_lifetime", [], TypeError, "status_lifetime", "list"),
    _send("user_status", 5, TypeError, "user_status", "int 5"),
    _send("user_status", "x" * 33, BrokerError, "USTATUS", "32"),
    _send("producer", 5, TypeError, "producer", "int 5"),
    _send("producer", "x" * 256, BrokerError, "producer", "255"),
    _send("properties", ["a"], TypeError, "properties", "list"),
    _send("properties", {"a": 5}, TypeError, "properties", "int 5"),
    _send("properties", {5: "a"}, TypeError, "properties", "int 5"),
    _send("properties", {"a": "\ud800"}, BrokerError, "propert"),
    _send("properties", {"a": "x" * 70_000}, BrokerError, "propert"),
    _send("msgtype", 5, TypeError, "msgtype", "int 5"),
    _send("msgid", "x", TypeError, "msgid", "'x'"),
    _send("user_data", b"x" * 17, BrokerError, "USER-DATA", "16"),
    _send("conv_id", 5, TypeError, "conv_id", "int 5"),
    _send("ttl", 5, TypeError, "ttl", "lifetime"),
    _of("send to 5", lambda a: a.send(5, b""), TypeError, "service", "CLASS/SERVER/SERVICE", "int 5"),
    _of("send to two names", lambda a: a.send("A/B", b""), ValueError, "service", "'A/B'"),
    _of("send to names of numbers", lambda a: a.send(("A", "B", 5), b""), TypeError, "service", "tuple"),
    _of("send to nobody", lambda a: a.send(None, b""), ValueError, "service"),
    _of("send to a name that is empty", lambda a: a.send("A//C", b""), BrokerError, "CLASS, SERVER and SERVICE"),
    _of("send to a long name", lambda a: a.send("A/B/" + "x" * 33, b""), BrokerError, "SERVICE", "32"),
    _of("send text", lambda a: a.send(SERVICE, "text"), TypeError, "body", "bytes", "'text'", "encode"),
    _of("send nothing", lambda a: a.send(SERVICE, None), TypeError, "body", "None"),
    _of("a unit of work to 5", lambda a: a.unit_of_work(5), TypeError, "service", "int 5"),
    _of("a unit of work to nobody", lambda a: a.unit_of_work(), ValueError, "service"),
    _of("a unit of work of text", lambda a: a.unit_of_work(SERVICE).send("text"), TypeError, "body", "'text'"),
    _of("a unit of work with colours", lambda a: a.unit_of_work(SERVICE, colour=1), TypeError, "colour"),
    _of("query 5", lambda a: a.query(5), TypeError, "uowid", "int 5"),
    _of("query what is not there", lambda a: a.query("1" * 16), BrokerError, "00780305"),
    _of("the last of 5", lambda a: a.last(5), TypeError, "conv_id", "int 5"),
    _of("user status 5", lambda a: a.set_user_status("1" * 16, 5), TypeError, "user_status", "int 5"),
    _of("cancel None", lambda a: a.cancel(None), TypeError, "uowid", "None"),
    _of("delete bytes", lambda a: a.delete(b"x"), TypeError, "uowid", "bytes"),
    _of("end 5", lambda a: a.end_conversation(5), TypeError, "conv_id", "int 5"),
    _of("end with no", lambda a: a.end_conversation("x", cancel="no"), TypeError, "cancel", "'no'"),
    _of("register 5", lambda a: a.register(5), TypeError, "service", "int 5"),
    _of("deregister with text", lambda a: a.deregister(SERVICE, "IMMED"), TypeError, "option", "'IMMED'"),
    _of("receive from 5", lambda a: a.receive_unit(5), TypeError, "service", "int 5"),
    _of("receive for 5S", lambda a: a.receive_unit(wait="5S"), TypeError, "wait", "seconds", "'5S'"),
    _of("receive for nan", lambda a: a.receive_unit(wait=NAN), ValueError, "wait", "nan"),
    _of("receive which X", lambda a: a.receive_unit(which="X"), ValueError, "which", "NEW, OLD or ANY", "'X'"),
    _of("receive in 5", lambda a: a.receive_unit(conv_id=5), TypeError, "conv_id", "int 5"),
    _of("a message for 5S", lambda a: a.receive_message(wait="5S"), TypeError, "wait", "'5S'"),
    _of("request text", lambda a: a.request(SERVICE, "text"), TypeError, "body", "'text'"),
    _of("publish in 5", lambda a: a.publish(5, b""), TypeError, "topic", "int 5"),
    _of("publish text", lambda a: a.publish("NEWS", "text"), TypeError, "body", "'text'"),
    _of("publish with status 5", lambda a: a.publish("NEWS", b"", user_status=5), TypeError, "user_status", "int 5"),
    _of("subscribe to 5", lambda a: a.subscribe(5), TypeError, "topic", "int 5"),
    _of("subscribe durable no", lambda a: a.subscribe("NEWS", durable="no"), TypeError, "durable", "'no'"),
    _of("subscribe to a long topic", lambda a: a.subscribe("x" * 97), BrokerError, "TOPIC", "96"),
    _of("query publication 5", lambda a: a.query_publication(5), TypeError, "publication_id", "int 5"),
    _of("the last publication of 5", lambda a: a.last_publication(5), TypeError, "topic", "int 5"),
    _of("ask with text", lambda a: a.ask("LOGON"), TypeError, "request", "'LOGON'"),
]

OF_BROKERS = [
    _of("session of 5", lambda b: b.session(5), TypeError, "user", "int 5"),
    _of("session of nobody", lambda b: b.session(None), TypeError, "user", "None"),
    _of("session with token 5", lambda b: b.session("A", token=5), TypeError, "token", "int 5"),
    _of("session with a colour", lambda b: b.session("A", colour="red"), TypeError, "colour"),
    _of("session with password 5", lambda b: b.session("A", password=5).__enter__(), TypeError, "password", "int 5"),
    _of("session of an empty name", lambda b: b.session("").__enter__(), BrokerError, "USER-ID"),
    _of("session of a long name", lambda b: b.session("x" * 33).__enter__(), BrokerError, "USER-ID", "32"),
    _of("purge 5", lambda b: b.purge(5), TypeError, "uowid", "int 5"),
    _of("purge what is not there", lambda b: b.purge("1" * 16), BrokerError, "00780305"),
    _of("status of 5", lambda b: b.set_uow_status(5, Status.ACCEPTED), TypeError, "uowid", "int 5"),
    _of("status in text", lambda b: b.set_uow_status("1" * 16, "ACCEPTED"), TypeError, "status", "'ACCEPTED'"),
    _of("call with text", lambda b: b.call("LOGON", caller=1), TypeError, "request", "'LOGON'"),
]
CONNECTIONS: list[tuple[str, Any, dict[str, Any], type[Exception], tuple[str, ...]]] = [
    ("a number", 5, {}, TypeError, ("where", "int 5")),
    ("no address", "localhost", {}, ValueError, ("localhost",)),
    ("patience in text", "http://h:1", {"patience_seconds": "60"}, TypeError, ("patience_seconds", "'60'")),
    ("patience below 0", "http://h:1", {"patience_seconds": -1}, ValueError, ("patience_seconds", "-1")),
    ("no time for a call", "http://h:1", {"call_seconds": 0}, ValueError, ("call_seconds", "above 0")),
    ("a partner of bytes", "http://h:1", {"partner": b"x"}, TypeError, ("partner", "bytes")),
    ("another's option", "http://h:1", {"patience": 60}, TypeError, ("patience", "patience_seconds")),
]
OF_HERE_ONLY = ("purge", "status", "call")  # a broker behind HTTP has no such verb, or has it for operators


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    with kind_of(request.param) as found:
        yield found


@pytest.mark.parametrize("kind", HERE[:2], indirect=True)
@pytest.mark.parametrize("row", OPENINGS, ids=str)
def test_a_broker_that_is_opened_wrongly_says_what_is_wrong_and_makes_nothing(
    kind: Kind, row: Opening, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "working").mkdir()
    monkeypatch.chdir(tmp_path / "working")

    with pytest.raises(row.raises) as refused, kind.open(**{"directory": tmp_path / "store"} | row.given):
        pass

    assert faults_of(str(refused.value), row.named) == [], str(refused.value)
    assert [*tmp_path.rglob("*")] == [tmp_path / "working"]


@pytest.mark.parametrize("kind", HERE[:2], indirect=True)
@pytest.mark.parametrize(
    ("given", "attribute", "value"),
    [
        ({"max_uows": 7}, "max_uows", 7),
        ({"deferred": False}, "deferred", False),
        ({"deferred": True}, "deferred", True),
    ],
    ids=str,
)
def test_an_attribute_is_given_as_a_number_or_a_truth_too(
    kind: Kind, given: dict[str, Any], attribute: str, value: object, tmp_path: Path
) -> None:
    with kind.open(tmp_path / "store", **given) as broker:
        assert getattr(broker.attributes.service("GAME", "CHESS", "BLACK"), attribute) == value


def test_wrong_calls_of_a_session_say_what_is_wrong_and_change_nothing(kind: Kind, tmp_path: Path) -> None:
    found: dict[str, Any] = {}
    with kind.open(tmp_path / "store") as broker, broker.session("ALICE", token="A") as alice:
        for row in CALLS:
            found[row.says] = _faults(row, alice)
        assert {says: faults for says, faults in found.items() if faults} == {}
        _goes_on(broker, alice)


def test_wrong_calls_of_a_broker_say_what_is_wrong_and_change_nothing(kind: Kind, tmp_path: Path) -> None:
    found: dict[str, Any] = {}
    with kind.open(tmp_path / "store") as broker, broker.session("ALICE", token="A") as alice:
        for row in OF_BROKERS:
            if not (kind.is_remote and row.says.startswith(OF_HERE_ONLY)):
                found[row.says] = _faults(row, broker)
        assert {says: faults for says, faults in found.items() if faults} == {}
        _goes_on(broker, alice)


def _faults(row: Wrong, target: Any) -> list[str]:
    try:
        row.call(target)
    except row.raises as refused:
        return faults_of(str(refused), row.named)
    except Exception as other:
        return [f"raises {other!r}"]
    return ["is taken"]


def _goes_on(broker: Broker, alice: Session) -> None:
    alice.send(SERVICE, b"goes on")
    with broker.session("BOB", token="B") as bob:
        bob.register(SERVICE)
        bodies = []
        for unit in bob.receive_units():
            with unit:
                bodies += [message.body for message in unit]
        assert bodies == [b"goes on"]


@pytest.mark.parametrize("connects", [connect, connect_async])
@pytest.mark.parametrize(
    ("says", "where", "given", "raises", "named"), CONNECTIONS, ids=[row[0] for row in CONNECTIONS]
)
def test_who_connects_wrongly_is_told_what_is_wrong(
    connects: Callable[..., Any],
    says: str,
    where: Any,
    given: dict[str, Any],
    raises: type[Exception],
    named: tuple[str, ...],
) -> None:
    with pytest.raises(raises) as refused:
        connects(where, **given)

    assert faults_of(str(refused.value), named) == [], says


# Over HTTP.

BLOCK = {"function": "SEND", "option": "COMMIT", **ALICE, "conv_id": "NEW", "server_class": "A", "server_name": "B"}
WELL = BLOCK | {"service": "C", "body_text": "x"}
BLOCKS: list[tuple[object, tuple[str, ...]]] = [
    (b"", ("JSON",)),
    (b"{", ("JSON",)),
    (b"[]", ("object",)),
    (b"NaN", ("JSON",)),
    (b"{}", ("function",)),
    (b'{"function": "SEND", "function": "SEND"}', ("function", "twice")),
    (WELL | {"function": "SENT"}, ("function", "SEND")),
    (WELL | {"function": None}, ("function",)),
    (WELL | {"option": "COMMITTED"}, ("option", "COMMIT")),
    (WELL | {"option": ["COMMIT"]}, ("option",)),
    (WELL | {"user_id": 5}, ("user_id",)),
    (WELL | {"token": None}, ("token",)),
    (WELL | {"service": {}}, ("service",)),
    (WELL | {"store": "DISK"}, ("store", "BROKER")),
    (WELL | {"uwstatp": "3"}, ("uwstatp", "number")),
    (WELL | {"uwstatp": 1.5}, ("uwstatp", "number")),
    (WELL | {"uwstatp": -1}, ("uwstatp", "number")),
    (WELL | {"uwstatp": True}, ("uwstatp", "number")),
    (WELL | {"msgid": "%%%"}, ("msgid", "base64")),
    (WELL | {"body": "eA=="}, ("body", "body_text")),
    (WELL | {"body_text": 5}, ("body_text",)),
    (WELL | {"properties": ["a"]}, ("properties",)),
    (WELL | {"properties": {"a": 5}}, ("properties",)),
    (WELL | {"colour": "red"}, ("colour", "openapi")),
    (WELL | {"parts": 5}, ("parts",)),
    (WELL | {"body_text": "\ud800"}, ("body_text", "half a character")),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebPlace]:
    with WebPlace(tmp_path_factory.mktemp("web") / "store") as found:
        yield found


@for_each(("said", "named"), BLOCKS)
def test_a_block_over_http_that_is_none_is_answered_with_what_is_wrong(
    place: WebPlace, said: object, named: tuple[str, ...]
) -> None:
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    status, answer = place.say(body)

    assert status == 400, answer
    assert faults_of(str(answer), named) == [], answer


def test_there_is_a_table_of_wrong_inputs_worth_the_name() -> None:
    assert len(OPENINGS) + len(CALLS) + len(OF_BROKERS) + len(CONNECTIONS) + len(BLOCKS) >= 60
