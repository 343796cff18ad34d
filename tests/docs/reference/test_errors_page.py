"""The page on errors has each public error once, in the tree that the classes make, with what to do about it."""

import inspect
import re

import oms_journal
from oms_journal import JournalError
from oms_journal.journal import errors
from tests.support.project import REPOSITORY

PAGE = (REPOSITORY / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)


def public() -> set[type[JournalError]]:
    values = [getattr(oms_journal, name) for name in oms_journal.__all__]
    return {value for value in values if isinstance(value, type) and issubclass(value, JournalError)}


def test_every_public_error_has_one_row() -> None:
    named = [row[0] for row in ROWS]

    assert sorted(named) == sorted(error.__name__ for error in public() if error is not JournalError)


def test_every_row_says_when_what_is_lost_and_what_to_do() -> None:
    for name, when, lost, advice in ROWS:
        assert len(when.split()) >= 4, name
        assert lost.strip(), name
        assert len(advice.split()) >= 2, name


def test_the_tree_is_that_of_the_classes() -> None:
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in PAGE.split("```text\n")[1].split("```")[0].splitlines():
        depth, name = len(re.match(r"[^A-Z]*", line)[0]) // 4, line.lstrip("│├└─ ")  # type: ignore[index]
        del above[depth:]
        drawn[name] = above[-1] if above else ""
        above.append(name)

    assert drawn == {error.__name__: "" if error is JournalError else error.__bases__[0].__name__ for error in public()}


def test_every_error_of_the_engine_is_public() -> None:
    """A caller can catch whatever comes out of a call by a public name."""
    for name, error in inspect.getmembers(errors, inspect.isclass):
        if issubclass(error, JournalError):
            assert name in oms_journal.__all__, name


def test_an_error_that_is_one_of_pythons_too_is_said_to_be() -> None:
    for error in public():
        (row,) = [row for row in ROWS if row[0] == error.__name__] or [("", "", "", "")]
        for base in error.__bases__[1:]:
            assert f"Also a `{base.__name__}`" in row[1], error


def test_the_attributes_that_a_row_names_are_those_of_the_class() -> None:
    for name, when, *_ in ROWS:
        taken = set(inspect.signature(getattr(oms_journal, name).__init__).parameters)
        for attribute in re.findall(r"`([a-z]+)`", when):
            if attribute in ("number", "path", "offset", "pid", "host", "failure", "reason"):
                assert attribute in taken, f"{name}.{attribute}"
