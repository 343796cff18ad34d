"""The commands for messages leave the persistent store of a broker alone; those that only look work on it."""

from pathlib import Path

import pytest

from broker.journal_store import JournalStore
from database.database import MessageDatabase
from tests.broker_stores import added, begun
from tests.cli_runner import oms, oms_json


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


def test_the_messages_of_everybody_else_are_taken_as_ever(tmp_path: Path) -> None:
    oms("send", "C/S/V", "text", spool=tmp_path)
    assert oms_json("list", spool=tmp_path)["queues"]["C/S/V"]["undelivered"] == 1
    oms("receive", "C/S/V", spool=tmp_path)
