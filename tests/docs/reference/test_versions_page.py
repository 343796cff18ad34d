"""The page on versions tells the version of the program and of its formats, and what is public."""

import re
import tomllib
from importlib.metadata import version

from oms_journal.broker import records
from oms_journal.journal.format import headers, manifest
from tests.support.project import REPOSITORY

PAGE = (REPOSITORY / "docs" / "reference" / "versions.md").read_text(encoding="utf-8")


def test_it_tells_the_version_of_the_program() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["version"] == version("oms-journal")
    assert f"This is version {project['version']}." in PAGE
    assert f"Python {project['requires-python'].removeprefix('>=')} or later" in PAGE


def test_it_tells_the_formats_that_this_version_writes() -> None:
    (row,) = re.findall(rf"^\| {re.escape(version('oms-journal'))} \| ([^|]+) \|", PAGE, re.MULTILINE)

    assert re.findall(r"([a-z ]+) of version (\d+)", row) == [
        ("data files", str(headers.VERSION)),
        (" manifests", str(manifest.VERSION)),
        (" broker records", str(records.VERSION)),
    ]
