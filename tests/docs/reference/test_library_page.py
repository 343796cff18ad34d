"""The page on the library names every public name, and every call with its arguments."""

import inspect
import re
from collections.abc import Callable, Iterator

import pytest

import oms_journal
from oms_journal import JournalError
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
OF_THE_LAYERS = re.compile(r"For the layers (above|of the engine itself)")
UNNAMED = {"check_open"}  # used by the two classes alone


def part(heading: str) -> str:
    return re.split(r"\n## ", PAGE.split(heading, 1)[1], maxsplit=1)[0]


def rows(heading: str) -> list[list[str]]:
    lines = [line for line in part(heading).splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def calls(name: str) -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the public methods of a class, each as the page writes it."""
    for method, value in vars(getattr(oms_journal, name)).items():
        plain = value.__func__ if isinstance(value, classmethod) else value
        if method.startswith("_") or method in UNNAMED or not inspect.isfunction(plain):
            continue
        if not OF_THE_LAYERS.search(inspect.getdoc(plain) or ""):
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


def test_every_field_of_a_message_has_a_row() -> None:
    named = {row[0].strip("`") for row in rows(CLASSES["Message"])}

    assert named == {*oms_journal.Message._fields, "added_at", "attempts"}


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
