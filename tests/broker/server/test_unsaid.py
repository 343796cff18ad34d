"""What an attribute file does not say: whose defaults count, and that nobody learns of them by a restart only."""

import json
import re
from pathlib import Path

import httpx
import pytest

from oms_journal.broker.attributes.attributes import built_in, parse_attributes, read_attributes
from oms_journal.broker.attributes.example import example_of
from oms_journal.broker.attributes.keywords import DEFAULTS_OF_OMS, KEYWORDS
from oms_journal.broker.block import Store
from tests.support.project import REPOSITORY
from tests.support.servers.stomp_server import Serving, Wire

# What people write who want something else: each of these left PSTORE at NO.
FILES = {
    "USERS-FILE": "MAX-UOWS=UNLIM DEFERRED=YES HTTP-PORT=0",
    "MAX-UOWS and DEFERRED": "MAX-UOWS=UNLIM\n  DEFERRED=YES",
    "SPOOL-DIRECTORY": "MAX-UOWS=UNLIM DEFERRED=YES\nDEFAULTS=JOURNAL\n  SPOOL-DIRECTORY=/nowhere",
    "STORE": "MAX-UOWS=UNLIM DEFERRED=YES STORE=BROKER",
}
SERVICE = "DEFAULTS=SERVICE\n  CLASS=*, SERVER=*, SERVICE=*\n"
STORED = "MAX-UOWS=UNLIM DEFERRED=YES PSTORE=WARM STORE=BROKER"


def text_of(said: str) -> str:
    return f"DEFAULTS=BROKER\n  {said}\n{SERVICE}"


def served(tmp_path: Path, said: str) -> Serving:
    file = tmp_path / "attributes"
    file.write_text(text_of(said))
    return Serving(tmp_path / "spool", str(file))


@pytest.mark.whole
@pytest.mark.parametrize("said", FILES.values(), ids=FILES)
def test_no_receipt_is_said_of_what_is_not_stored_since_nobody_said_so(tmp_path: Path, said: str) -> None:
    with served(tmp_path, said) as server:
        wire = Wire(server.port)
        wire.say("SEND", b"x", destination="/queue/a", receipt="1")
        assert re.match("00200229.*PSTORE.*persistent:false", wire.error())
        for words in ({"persistent": "false", "receipt": "1"}, *([] if "STORE" in said else [{}])):
            wire = Wire(server.port)
            wire.say("SEND", b"asked for", destination="/queue/a", **words)
            wire.say("SUBSCRIBE", destination="/queue/a", id="1", receipt="2")
            heard = [wire.hear() for _ in range(2 + ("receipt" in words))]
            assert {frame.command for frame in heard} == {"RECEIPT", "MESSAGE"}
            wire.close()
        ready = httpx.get(f"http://127.0.0.1:{server.http_port}/readyz")
        assert ready.status_code == 200
        (warning,) = ready.json()["warnings"]
        assert warning.startswith("nothing is stored, since nobody has said PSTORE")
    assert any(entry["event"] == "attributes" and entry["warnings"] == [warning] for entry in server.log)
    assert any("nothing was stored" in text for text in server.texts())
    assert not any("is durable" in text for text in server.texts())


@pytest.mark.whole
def test_nor_in_a_transaction(tmp_path: Path) -> None:
    with served(tmp_path, FILES["STORE"]) as server:
        wire = Wire(server.port)
        wire.say("BEGIN", transaction="t")
        wire.say("SEND", b"x", destination="/queue/a", transaction="t")
        assert "PSTORE" in wire.error()


@pytest.mark.whole
def test_whoever_said_that_nothing_is_stored_gets_what_was_asked_for(tmp_path: Path) -> None:
    with served(tmp_path, FILES["MAX-UOWS and DEFERRED"] + " PSTORE=NO") as server:
        wire = Wire(server.port)
        wire.say("SEND", b"x", destination="/queue/a", receipt="1")
        assert wire.hear().command == "RECEIPT"
        wire.close()
        assert httpx.get(f"http://127.0.0.1:{server.http_port}/readyz").json()["warnings"] == [
            "nothing is stored, with PSTORE=NO"
        ]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("said", "last_words"),
    [
        ("DEFAULT-VALUES=OMS", "what was acknowledged is durable"),
        (
            "DEFAULT-VALUES=OMS STORE=OFF",
            "what was acknowledged is durable, but for what STORE=OFF keeps out of the store",
        ),
        ("DEFAULT-VALUES=OMS PSTORE=NO", "nothing was stored: PSTORE=NO"),
    ],
)
def test_a_server_that_stops_says_what_is_durable(tmp_path: Path, said: str, last_words: str) -> None:
    with served(tmp_path, said) as server:
        server.stop()
    assert server.texts()[-1] == f"stopped: 0 connections ended; {last_words}"


@pytest.mark.whole
@pytest.mark.parametrize("said", [STORED, "DEFAULT-VALUES=OMS", "DEFAULT-VALUES=OMS STORE=BROKER MAX-UOWS=5"])
def test_what_has_a_receipt_is_there_after_a_restart(tmp_path: Path, said: str) -> None:
    with served(tmp_path, said) as server:
        wire = Wire(server.port)
        wire.say("SEND", b"kept", destination="/queue/a", receipt="1")
        assert wire.hear().command == "RECEIPT"
        wire.close()
    with served(tmp_path, said) as server:
        wire = Wire(server.port)
        wire.say("SUBSCRIBE", destination="/queue/a", id="1")
        assert wire.hear().body == b"kept"
        wire.close()


@pytest.mark.parametrize(
    ("said", "unsaid"),
    [
        ("DEFAULT-VALUES=OMS", ""),
        (STORED, ""),
        ("PSTORE=WARM MAX-UOWS=1", "STORE"),
        ("PSTORE=WARM STORE=OFF", ""),
        ("PSTORE=NO", ""),
        ("STORE=BROKER", "PSTORE"),
        ("STORE=OFF", "PSTORE"),
        ("DEFAULT-VALUES=ENTIREX", "PSTORE"),
    ],
)
def test_it_is_known_what_nobody_has_said(said: str, unsaid: str) -> None:
    attributes = parse_attributes(text_of(said))

    assert attributes.unsaid("A", "B", "C") == unsaid
    told = [each for each in attributes.warnings() if "is stored" in each and "with PSTORE=NO" not in each]
    assert [f"said {unsaid}:" in each for each in told] == [True] * bool(unsaid)


def test_a_definition_says_for_itself_what_is_stored() -> None:
    more = "CLASS=RPC, SERVER=*, SERVICE=*\n STORE=BROKER\n"
    attributes = parse_attributes(text_of("PSTORE=WARM MAX-UOWS=UNLIM") + more)

    assert attributes.unsaid("RPC", "B", "C") == ""
    assert attributes.unsaid("A", "B", "C") == "STORE"
    (warning,) = attributes.warnings()
    assert "*/*/*" in warning


@pytest.mark.whole
def test_a_server_that_takes_no_unit_of_work_since_nobody_said_how_many_is_not_ready(tmp_path: Path) -> None:
    with served(tmp_path, "PSTORE=WARM STORE=BROKER DEFERRED=YES") as server:
        ready = httpx.get(f"http://127.0.0.1:{server.http_port}/readyz")
        assert ready.status_code == 503
        (reason,) = ready.json()["reasons"]
        assert "MAX-UOWS" in reason
    assert parse_attributes(text_of("MAX-UOWS=0 PSTORE=NO")).refuses_units == "", "who says so means it"


# Whose defaults.


def test_with_the_defaults_of_oms_a_file_is_as_no_file() -> None:
    said = {
        (each.section, each.definition, each.keyword): each.value
        for each in parse_attributes("DEFAULTS=BROKER\n DEFAULT-VALUES=OMS").effective_values()
    }
    assert said == {(each.section, each.definition, each.keyword): each.value for each in built_in().effective_values()}


@pytest.mark.parametrize("name", DEFAULTS_OF_OMS)
def test_each_default_of_oms_is_another_than_the_vendors_and_can_be_said_otherwise(name: str) -> None:
    (keyword,) = [each for each in KEYWORDS if each.name == name]
    section = "BROKER" if "BROKER" in keyword.sections else "TOPIC"
    before = {each.keyword: each.value for each in built_in().effective_values() if each.section == section}[name]

    assert before == DEFAULTS_OF_OMS[name] != keyword.default
    if section == "BROKER":
        value = keyword.default or "1D"
        shown = parse_attributes(f"DEFAULTS=BROKER\n DEFAULT-VALUES=OMS {name}={value}").effective_values()
        said = {each.keyword: each for each in shown if each.section == section}
        assert said[name].value == value


def test_a_file_with_the_vendors_defaults_tells_which_are_others() -> None:
    attributes = parse_attributes(text_of("PSTORE=WARM MAX-UOWS=5"))
    names = {each.partition("=")[0] for each in attributes.differences()}

    assert "DEFERRED" in names and "STORE" in names
    assert not names & {"PSTORE", "MAX-UOWS"}
    assert parse_attributes("DEFAULTS=BROKER\n DEFAULT-VALUES=OMS").differences() == []
    assert built_in().differences() == []


@pytest.mark.parametrize(("mode", "pstore"), [("STANDARD", "WARM"), ("STANDBY", "HOT"), ("PSTORE-LOAD", "COLD")])
def test_with_the_defaults_of_oms_each_run_mode_begins_as_it_can(mode: str, pstore: str) -> None:
    text = f"DEFAULTS=BROKER\n DEFAULT-VALUES=OMS RUN-MODE={mode} PARTNER-CLUSTER-ADDRESS=host2:1971:TCP"
    assert parse_attributes(text).broker.pstore == pstore


def test_the_longest_message_follows_the_store() -> None:
    text = "DEFAULTS=BROKER\n DEFAULT-VALUES=OMS\nDEFAULTS=JOURNAL\n MAX-MESSAGE-SIZE=9M"
    assert parse_attributes(text).longest_message() == 9 << 20


def test_definitions_stand_beside_what_is_there_without_a_file() -> None:
    text = "DEFAULTS=BROKER\n DEFAULT-VALUES=OMS\nDEFAULTS=SERVICE\n CLASS=RPC SERVER=S SERVICE=*\n STORE=OFF"
    attributes = parse_attributes(text)

    assert [attributes.service(name, "S", "X") is not None for name in ("RPC", "OTHER")] == [True, True]
    found = attributes.service("RPC", "S", "X")
    assert found is not None and found.store == Store.OFF


def test_the_example_is_a_whole_file_that_means_what_no_file_does(tmp_path: Path) -> None:
    file = tmp_path / "attributes"
    file.write_text(example_of(built_in()))
    found = {
        (each.section, each.definition, each.keyword): each.value for each in read_attributes(file).effective_values()
    }

    assert found == {
        (each.section, each.definition, each.keyword): each.value for each in built_in().effective_values()
    }
    lines = file.read_text()
    assert all(re.search(rf"^\*? *{each.name}=", lines, re.MULTILINE) for each in KEYWORDS if "BROKER" in each.sections)


@pytest.mark.whole
def test_the_files_of_two_brokers_in_the_manual_store_what_they_take(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "how-to" / "standby.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```text\n(DEFAULTS=BROKER\n.*?PARTNER-CLUSTER.*?)```", page, re.DOTALL)
    standby = block.replace("RUN-MODE=STANDARD", "RUN-MODE=STANDBY")
    for text in (block, standby):
        attributes = parse_attributes(text)
        assert attributes.warnings() == []
        assert attributes.broker.pstore != "NO"
    file = tmp_path / "attributes"
    file.write_text(block.replace("HOST=host1", "HOST=127.0.0.1"))
    with Serving(tmp_path / "spool", str(file)) as server:
        wire = Wire(server.port)
        wire.say("SEND", b"kept", destination="/queue/a", receipt="1")
        assert wire.hear().command == "RECEIPT"
        wire.close()
        assert json.loads(httpx.get(f"http://127.0.0.1:{server.http_port}/readyz").text)["warnings"] == []
