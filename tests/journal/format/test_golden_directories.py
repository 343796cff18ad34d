"""The golden directories: what databases of each format version are, as bytes, and what is found in them, for ever."""

import json
import shutil
from pathlib import Path

import pytest

from oms_journal.journal.format.headers import VERSION
from tests.support.journals.descriptions import Document, describe, difference
from tests.support.journals.golden_directories import BYTES_MAX, DIRECTORIES, MAKERS, started
from tests.support.journals.java_reader import java_reader, needs_java

NAMES = sorted(path.name for path in DIRECTORIES.iterdir() if path.is_dir())


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def directory(name: str, tmp_path: Path) -> Path:
    """Return a copy of a golden directory."""
    return Path(shutil.copytree(DIRECTORIES / name, tmp_path / "golden"))


@pytest.fixture
def expected(name: str) -> Document:
    return said_of(name)


def said_of(name: str) -> Document:
    found: Document = json.loads((DIRECTORIES / f"{name}.json").read_text(encoding="utf-8"))
    found["read"]["operations"] = found.pop("operations")
    return found


def test_every_version_so_far_has_its_golden_directories() -> None:
    assert {name for name in NAMES if name.startswith(f"v{VERSION}-")} == {f"v{VERSION}-{name}" for name in MAKERS}
    assert {name.split("-")[0] for name in NAMES} == {f"v{version}" for version in range(2, VERSION + 1)}


def test_the_golden_directories_are_small() -> None:
    assert sum(path.stat().st_size for path in DIRECTORIES.rglob("*") if path.is_file()) <= BYTES_MAX


def test_verify_list_and_dump_say_of_a_golden_directory_what_they_always_said(
    directory: Path, expected: Document
) -> None:
    assert describe(directory) == expected["read"]


@needs_java
def test_the_reader_in_java_says_the_same_of_a_golden_directory(directory: Path, expected: Document) -> None:
    assert difference(expected["read"], java_reader().read(directory)) == ""


def test_a_golden_directory_is_opened_with_what_it_always_held(directory: Path, expected: Document) -> None:
    assert started(directory) == expected["opened"]

    again = started(directory)

    assert {part: again.get(part) for part in ("messages", "keys", "refused")} == {
        part: expected["opened"].get(part) for part in ("messages", "keys", "refused")
    }


def test_the_golden_directories_show_all_verdicts_and_what_a_directory_can_hold() -> None:
    shown: set[str] = set()
    for name in NAMES:
        shown |= {path.suffix for path in (DIRECTORIES / name).iterdir()}
        read = said_of(name)["read"]
        shown |= {one["row"] for one in read["files"]} | {name for one in read["operations"] for name in one}
        shown |= {one["kind"] for one in read["operations"]}
        shown |= {f"{what} one" for what in ("moved", "producer") if any(one[what] for one in read["operations"])}

    assert shown >= {".data", ".archive", ".lock", ".backup", "sealed", "unsealed", "prepared", "damaged"}
    assert shown >= {"ADD", "DELIVER", "DELETE", "PUT", "DROP", "due", "expiry", "attempts", "group"}
    assert shown >= {"moved one", "producer one"}
