"""The commands for messages leave the persistent store of a broker alone; those that only look work on it."""

import os
import platform
from pathlib import Path

import pytest

from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.embedded.broker import Broker
from oms_journal.database.database import MessageDatabase
from tests.support.broker.stores import added, begun
from tests.support.cli_runner import oms, oms_json, oms_lines


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    store = JournalStore.open(tmp_path / "spool")
    begun(store, "ETB007")
    store.commit(added(b"a unit of work", queue="C/S/V"))
    store.close()
    return tmp_path / "spool"


@pytest.mark.parametrize(
    "arguments",
    [
        ("send", "C/S/V", "text"),
        ("receive", "C/S/V"),
        ("delete", "1", "--yes"),
        ("delete", "--queue", "C/S/V", "--yes"),
        ("drop", "broker/master", "--yes"),
        ("load", "-", "--queue", "C/S/V"),
    ],
    ids=" ".join,
)
def test_a_command_that_changes_messages_is_refused(spool: Path, arguments: tuple[str, ...]) -> None:
    result = oms(*arguments, spool=spool, stdin=b"line\n", code=2)

    assert "persistent store of broker ETB007" in result.stderr
    assert all(word in result.stderr for word in ("SEND", "RECEIVE", "SYNCPOINT", "stats"))
    with MessageDatabase.open(spool) as database:
        assert [message.payload for message in database.undelivered()] == [b"a unit of work"]
        assert database.get("broker/master") is not None


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("list", "C/S/V"),
        ("show", "1"),
        ("dump",),
        ("stats",),
        ("explain",),
        ("verify",),
        ("recover", "--dry-run"),
        ("recover",),
        ("cleanup",),
        ("receive", "C/S/V", "--peek"),
    ],
    ids=" ".join,
)
def test_a_command_that_looks_or_repairs_works(spool: Path, arguments: tuple[str, ...]) -> None:
    oms(*arguments, spool=spool)


def test_a_person_reads_the_checkpoints_of_a_broker_in_a_dump(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    for _ in range(2):
        Broker.open(spool, broker_id="ETB007").close()

    dumped = oms("dump", spool=spool).stdout.splitlines()
    said = [line.split("  ")[-1].split(",")[0] for line in dumped if "checkpoint" in line]
    assert said == [
        *("cold start 1 of broker ETB007", "termination 1 of broker ETB007"),
        *("hot start 2 of broker ETB007", "termination 2 of broker ETB007"),
    ]
    assert all(f", by {platform.node()[:64]} {os.getpid()}" in line for line in dumped if "checkpoint" in line)
    found = [line["checkpoint"] for line in oms_lines("dump", spool=spool) if "checkpoint" in line]
    assert [(each["name"], each["start"], each["broker_id"]) for each in found][2:] == [
        *(("ETBH", 2, "ETB007"), ("ETBT", 2, "ETB007")),
    ]
    assert found[0]["time"] < found[1]["time"] < found[2]["time"]
    for arguments in (("dump", "--redact"), ("dump", "--redact", "--json")):
        assert "ETB007" not in oms(*arguments, spool=spool).stdout


def test_what_is_no_checkpoint_is_dumped_as_any_key(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path / "spool") as database:
        database.put("broker/checkpoint/ETBC", b"nothing of a broker's")
    (line,) = oms("dump", spool=tmp_path / "spool").stdout.splitlines()
    assert line.endswith("key broker/checkpoint/ETBC  21 B")


def test_the_messages_of_everybody_else_are_taken_as_ever(tmp_path: Path) -> None:
    oms("send", "C/S/V", "text", spool=tmp_path)
    assert oms_json("list", spool=tmp_path)["queues"]["C/S/V"]["undelivered"] == 1
    oms("receive", "C/S/V", spool=tmp_path)
