"""The page on the broker's library has every call with its arguments, and every attribute, of what a caller gets."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oms_journal import Broker
from oms_journal.broker.client.brokers import RemoteBroker
from oms_journal.broker.client.calls import RemoteOptions
from oms_journal.broker.codes import Code
from oms_journal.broker.records import Status
from oms_journal.broker.sessions.requests import Beside, Terms
from tests.support.project import REPOSITORY

PAGE = (REPOSITORY / "docs" / "reference" / "broker-library.md").read_text(encoding="utf-8")
TOLD_APART = {"open"}  # in the table of the ways to get a broker
HEADS = {
    "Broker": "## Broker\n",
    "Session": "## Session\n",
    "SentUnit": "## SentUnit\n",
    "ReceivedUnit": "## ReceivedUnit\n",
    "SentPublication": "gives, SentPublication:\n",
    "Subscription": "gives, Subscription:\n",
    "ReceivedPublication": "gives, ReceivedPublication:",
}


def part(head: str) -> str:
    """Return what stands behind a head, to the next section or the next class."""
    behind = PAGE.split(head)[1]
    return re.split(r"^## |^What `\w+` gives, ", behind, flags=re.MULTILINE)[0]


def rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def said_of(text: str) -> dict[str, list[str] | None]:
    """Return the calls with the names of their arguments, and the attributes with None, of the tables headed "call"."""
    found: dict[str, list[str] | None] = {}
    for table in text.split("| call | ")[1:]:
        for cell, *_ in rows(table.split("\n\n")[0]):
            for name, called, arguments in re.findall(r"`(\w+)(\(([^)]*)\))?`", cell):
                found[name] = re.findall(r"\w+", arguments) if called else None
    return found


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    directory: Path = tmp_path_factory.mktemp("store")
    with Broker.open(directory) as broker, broker.session("ALICE") as session:
        session.register("A/B/C")
        session.send("A/B/C", b"1")
        subscription = session.subscribe("NEWS")
        session.publish("NEWS", b"1")
        yield {
            "Broker": broker,
            "Session": session,
            "SentUnit": session.unit_of_work("A/B/C"),
            "ReceivedUnit": session.receive_unit(),
            "SentPublication": session.publication("NEWS"),
            "Subscription": subscription,
            "ReceivedPublication": subscription.receive(),
        }


def known_of(thing: Any) -> dict[str, list[str] | None]:
    found: dict[str, list[str] | None] = {}
    for name in dir(thing):
        if name.startswith("_") or name in TOLD_APART:
            continue
        value = inspect.getattr_static(type(thing), name, None)
        is_call = inspect.isfunction(value)
        found[name] = [each for each in inspect.signature(value).parameters if each != "self"] if is_call else None
    return found


@pytest.mark.parametrize("name", HEADS)
def test_every_call_of_a_class_has_a_row_with_its_arguments(name: str, objects: dict[str, Any]) -> None:
    assert said_of(part(HEADS[name])) == known_of(objects[name])


def test_the_calls_of_a_broker_elsewhere_are_told() -> None:
    line = next(line for line in PAGE.splitlines() if line.startswith("A broker from `connect` to a server has"))
    assert {*re.findall(r"`(\w+)`", line)} - {"connect"} == {
        name for name in dir(RemoteBroker) if not name.startswith("_")
    }


def test_every_option_is_told() -> None:
    def named(head: str) -> set[str]:
        return {re.findall(r"\w+", cell)[0] for cell, *_ in rows(PAGE.split(f"### {head}\n")[1].split("\n#")[0])}

    opened = set(inspect.signature(Broker.open).parameters) - {"open_store", "given"}
    assert named("Options of open") == opened | {"values"}
    assert named("Options of connect to a server") == set(RemoteOptions.__dataclass_fields__)


@pytest.mark.parametrize(("head", "kind"), [("| term | says |", Terms), ("| word | says |", Beside)])
def test_every_term_is_told(head: str, kind: Any) -> None:
    table = PAGE.split(head)[1].split("\n\n")[0]
    assert [re.findall(r"\w+", cell)[0] for cell, *_ in rows(table)] == list(kind.__annotations__)


def test_every_value_has_its_fields() -> None:
    from oms_journal.broker.sessions import requests

    told = dict(re.findall(r"^\| (\w+) \| (`body`.*|`uowid`.*|`publication_id`.*) \|$", PAGE, re.MULTILINE))
    for name in ("Message", "UnitStatus", "PublicationStatus"):
        known = {each for each in dir(getattr(requests, name)) if not each.startswith("_")}
        assert set(re.findall(r"`(\w+)`", told[name])) == known


def test_every_status_has_a_row() -> None:
    table = PAGE.split("| status | a unit of work |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| ([A-Z]+) \|", table, re.MULTILINE)) == {status.name for status in Status}


def test_every_code_of_the_page_is_one_of_the_broker() -> None:
    codes = re.findall(r"^\| ([0-9]{8}) \|", PAGE, re.MULTILINE)
    assert codes and set(codes) <= {code.value for code in Code}
