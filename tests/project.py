"""What the tests of the project itself look at: its folders, its packages and their modules."""

import tomllib
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
PYPROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES: list[str] = PYPROJECT["tool"]["setuptools"]["packages"]  # as distributed, with dots
OUTSIDE = ("tests", "bench")  # never distributed


def modules() -> list[Path]:
    """Return the modules of the packages, relative to the repository, in order."""
    folders = (REPOSITORY / package.replace(".", "/") for package in PACKAGES)
    return sorted(path.relative_to(REPOSITORY) for folder in folders for path in folder.glob("*.py"))
