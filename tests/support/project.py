"""What the tests of the project itself look at: its folders, its packages and their modules."""

import ast
import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent.parent
SOURCES = REPOSITORY / "src"  # what a program has on its path
PYTHONPATH = os.pathsep.join((str(SOURCES), str(REPOSITORY)))  # of a process that imports tests too
NAME = "oms_journal"
PYPROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = ("journal", "index", "recovery", "database", "broker", "analysis", "cli")  # those of the package
OUTSIDE = ("tests", "bench")  # never distributed


def packages() -> list[str]:
    """Return the packages in the folders, with dots, without the name in front, in order."""
    found = [path.parent for folder in FOLDERS for path in sorted((REPOSITORY / folder).rglob("__init__.py"))]
    return [".".join(folder.relative_to(REPOSITORY).parts) for folder in found]


PACKAGES = packages()


def modules() -> list[Path]:
    """Return the modules of the packages, relative to the repository, in order."""
    folders = (REPOSITORY / package.replace(".", "/") for package in PACKAGES)
    return sorted(path.relative_to(REPOSITORY) for folder in folders for path in folder.glob("*.py"))


@cache
def parsed(module: Path) -> ast.Module:
    """Return one of them, parsed once for all who look at it."""
    return ast.parse((REPOSITORY / module).read_text(encoding="utf-8"))
