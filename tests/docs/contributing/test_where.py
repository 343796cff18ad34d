"""The page that says where things are names modules, names and tests that are there."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from tests.support.project import REPOSITORY

TEXT = (REPOSITORY / "docs" / "contributing" / "where.md").read_text(encoding="utf-8")
ROWS: list[tuple[str, str, str, str]] = re.findall(
    r"^\| (.+?) \| `(.+?)` \| `(.+?)` \| `(.+?)` \|$", TEXT, re.MULTILINE
)


def _names(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Yield what a module or a class defines, methods with their class."""
    for node in body:
        match node:
            case ast.ClassDef():
                yield prefix + node.name
                yield from _names(node.body, f"{prefix}{node.name}.")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield prefix + node.name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name
            case _:
                pass


def test_every_row_is_read() -> None:
    lines = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith(("| what", "| ---"))]

    assert len(lines) == len(ROWS) >= 20


def test_every_module_has_the_name() -> None:
    missing = []
    for _, module, name, _ in ROWS:
        path = REPOSITORY / f"{module}.py"
        if not path.is_file() or name not in _names(ast.parse(path.read_text(encoding="utf-8")).body):
            missing.append((module, name))

    assert missing == []


def test_every_test_file_is_there() -> None:
    assert [test for *_, test in ROWS if not (REPOSITORY / test).is_file()] == []


def test_nothing_has_two_places() -> None:
    assert [what for what, count in Counter(row[0] for row in ROWS).items() if count > 1] == []
