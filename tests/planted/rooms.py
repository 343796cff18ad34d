"""Which tests are nearest to a deliberate fault: those of the folder that it patches, the closest of them first."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.planted.faults import Planted, patched_by
from tests.support.project import REPOSITORY

TESTS = REPOSITORY / "tests"
# Folders of the product whose tests stand under another name. All others: the same name, or that of the folder above.
OTHER_ROOMS = {"broker/drivers": "broker/store", "broker/sessions": "broker/embedded"}

# Faults that the tests of their room do not find, each with the reason. One that they find is to leave this list.
FOUND_ELSEWHERE: dict[str, str] = {}


def room_of(folder: str) -> str:
    """Return the folder of tests that goes with a folder of the product."""
    folder = "/".join(folder.split("/")[:2])  # what is below are parts of one room
    room = OTHER_ROOMS.get(folder, folder)
    return room if any((TESTS / room).rglob("test_*.py")) else room_of(room.rpartition("/")[0])


def files_near(fault: Planted) -> tuple[list[str], list[str]]:
    """Return the files of tests that are asked first, and those that are asked when these find nothing.

    First those that stand beside the fault, then those that import what it patches; then all others of the rooms.
    """
    places = patched_by(fault)
    modules = {place.module for place in places}
    rooms = dict.fromkeys(room_of(place.folder) for place in places)
    files = [path for room in rooms for path in sorted((TESTS / room).rglob("test_*.py"))]
    beside = [TESTS / f"{name}.py" for name in fault.near]
    first = dict.fromkeys([*beside, *(path for path in files if modules & imported(path))])
    return [_name(path) for path in first], [_name(path) for path in files if path not in first]


def _name(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


@cache
def imported(path: Path) -> frozenset[str]:
    """Return the modules that a file imports, and what it imports of them, with dots."""
    return frozenset(_imports(ast.parse(path.read_text(encoding="utf-8"))))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{one.name}" for one in names)
            case _:
                pass
