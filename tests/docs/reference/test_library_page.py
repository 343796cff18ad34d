"""The page on the library names every public name, every call with its arguments, and all that a caller holds has."""

import asyncio
import inspect
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import oms_journal
from oms_journal import (
    AsyncMessageDatabase,
    Backup,
    DatabaseView,
    JournalError,
    MessageDatabase,
    connect_queue,
    serve_queue,
)
from tests.support.project import REPOSITORY

PAGE = (REPOSITORY / "docs" / "reference" / "library.md").read_text(encoding="utf-8")
CLASSES = {
    "MessageDatabase": "## MessageDatabase",
    "AsyncMessageDatabase": "## AsyncMessageDatabase",
    "CommitBlock": "## CommitBlock",
    "DatabaseView": "## DatabaseView",
    "QueueClient": "## QueueClient",
    "QueueServer": "## QueueServer",
    "Message": "## Message\n",
    "Backup": "## Backups",
}
# What a caller holds, and the part of the page that names what it has.
HELD = {
    **CLASSES,
    "Message, taken": "## Message\n",
    "Message, taken on a lease": "## Message\n",
    "Message, taken once more": "## Message\n",
    "Message, added on terms": "## Message\n",
    "Message, of a view": "## Message\n",
    "Added": "## What an add answers\n",
    "Added, a repeat": "## What an add answers\n",
    "AddedMany": "## What an add answers\n",
    "Taken": "## Taken\n",
}


def part(heading: str) -> str:
    return re.split(r"\n## ", PAGE.split(heading, 1)[1], maxsplit=1)[0]


def rows(heading: str) -> list[list[str]]:
    lines = [line for line in part(heading).splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def calls(name: str) -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the public methods of a class, each as the page writes it."""
    for method, value in vars(getattr(oms_journal, name)).items():
        plain = value.__func__ if isinstance(value, classmethod) else value
        if not method.startswith("_") and inspect.isfunction(plain):
            yield f"`{method}({', '.join(arguments(plain))})`", plain


def arguments(method: Callable[..., object]) -> Iterator[str]:
    has_star = False
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            has_star = True
            yield "*"
        yield f"**{parameter.name}" if parameter.kind is parameter.VAR_KEYWORD else parameter.name


@pytest.mark.parametrize("name", [name for name in CLASSES if name != "Message"])
def test_every_call_has_a_row_with_its_arguments(name: str) -> None:
    assert sorted(row[0] for row in rows(CLASSES[name])) == sorted(call for call, _ in calls(name))


@pytest.fixture(scope="module")
def held() -> Iterator[dict[str, Any]]:
    """Return one of each thing that a caller holds, by its name in HELD."""
    directory = Path(tempfile.mkdtemp(prefix="oms-"))  # short: the path of a socket is
    try:
        yield {**of_threads(directory), **asyncio.run(of_tasks(directory))}
    finally:
        shutil.rmtree(directory)


def of_threads(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with MessageDatabase.open(directory / "spool") as db, serve_queue(db, directory / "socket") as server:
        found |= {"MessageDatabase": db, "QueueServer": server}
        with connect_queue(server.path) as client:
            found["QueueClient"] = client
        found["Added"] = db.add("q", b"1", producer_id="one")
        found["Added, a repeat"] = db.add("q", b"1", producer_id="one")
        found["AddedMany"] = db.add_many("q", [b"2", b"3"])
        with db.commit() as found["CommitBlock"]:
            found["CommitBlock"].add("q", b"4", expires=1000)
        found["Message"] = db.peek("q")
        found["Message, taken"] = db.take("q")
        found["Taken"] = db.taken()[0]
        found["Message, taken on a lease"] = db.take("q", lease=1000)
        db.release(found["Message, taken on a lease"])
        found["Message, taken once more"] = db.take("q")
        found["Message, added on terms"] = db.read(found["CommitBlock"].numbers[0])
    with DatabaseView.open(directory / "spool") as found["DatabaseView"]:
        found["Message, of a view"] = list(found["DatabaseView"].undelivered())[-1]
    with Backup.open(directory / "spool", directory / "backup") as found["Backup"]:
        found["Backup"].run()
    return found


async def of_tasks(directory: Path) -> dict[str, Any]:
    async with AsyncMessageDatabase.open(directory / "spool") as db:
        assert public(db.commit()) == public(db.taking("q")) == set()
        assert public(db.consume("q")) == {"close"}
        return {"AsyncMessageDatabase": db}


def public(thing: object) -> set[str]:
    """Return what `dir` shows of a thing, but for what every tuple, number or sequence has."""
    names = {name for name in dir(thing) if not name.startswith("_")}
    return names.difference(*(dir(kind) for kind in (tuple, int) if isinstance(thing, kind)), {"count", "index"})


def named_by_the_page(name: str) -> set[str]:
    """Return what the page says that a thing has: its calls and fields, and its attributes."""
    of_it = rows(HELD[name])
    lines = [line for line in part(HELD[name]).splitlines() if "Attributes" in line]
    sentences = [sentence for line in lines for sentence in re.findall(r"Attributes(?: of `(\w+)`)?: ([^.]*)", line)]
    said = " ".join(text for of, text in sentences if of in ("", name.split(",")[0]))
    return {re.split(r"\W", row[0].strip("`"))[0] for row in of_it} | set(
        re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", said))
    )


@pytest.mark.parametrize("name", HELD)
def test_what_a_caller_holds_shows_what_the_page_names_and_nothing_else(name: str, held: dict[str, Any]) -> None:
    assert public(held[name]) == named_by_the_page(name)


def test_what_may_be_said_of_all_that_a_caller_holds_is_said(held: dict[str, Any]) -> None:
    assert set(held) == set(HELD)


def test_the_page_says_of_each_call_of_asyncio_whether_it_is_awaited() -> None:
    said = {row[0]: row[1] for row in rows(CLASSES["AsyncMessageDatabase"])}
    for call, method in calls("AsyncMessageDatabase"):
        returned = str(inspect.signature(method).return_annotation)
        is_awaited = inspect.iscoroutinefunction(method) or "Coroutine" in returned
        assert said[call].startswith("awaited") == is_awaited, call
        assert ("async for" in said[call]) == ("AsyncIterator" in returned), call


def test_what_waits_for_a_sync_is_awaited_too() -> None:
    """A call that the page says to wait is one that asyncio awaits, and one from memory is not."""
    waits = {row[0]: row[2] for row in rows(CLASSES["MessageDatabase"])}
    for row in rows(CLASSES["AsyncMessageDatabase"]):
        if row[0] in waits and "keys" not in row[0]:
            assert row[2] == waits[row[0]], row[0]
        if row[2] == "memory":
            assert not row[1].startswith("awaited"), row[0]


def test_every_error_that_it_names_is_public() -> None:
    errors = {name for name in oms_journal.__all__ if issubclass_of_error(name)}
    named = set(re.findall(r"`([A-Z]\w+)`", " ".join(" ".join(row) for name in CLASSES for row in rows(CLASSES[name]))))

    others = {"False", "None", "TypeError", "ValueError", "CommitBlock", "BackupReport", "Added", "AddedMany"}
    assert named - errors <= others


def issubclass_of_error(name: str) -> bool:
    value = getattr(oms_journal, name)
    return isinstance(value, type) and issubclass(value, JournalError)


def test_every_public_name_but_the_kinds_of_errors_stands_in_the_first_table() -> None:
    first = PAGE.split("\n## ", 1)[0]
    named = set(re.findall(r"`(\w+)`", first))

    assert {name for name in oms_journal.__all__ if not issubclass_of_error(name)} | {"JournalError"} <= named
