"""The README says what is there: its links, and its ten lines, which run."""

import asyncio
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import oms_journal
from tests.support.project import REPOSITORY

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_the_ten_lines_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = README.split("## The library in ten lines")[1].split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)

    for _ in range(2):  # as a reader does, in the same directory
        exec(compile(code, "README.md", "exec"), {})

    assert (tmp_path / "spool" / "omsmsg-0000000001.data").exists()


def _examples() -> Iterator[tuple[str, str]]:
    """Yield the examples of the public classes: the paragraphs of their docstrings that begin with a statement."""
    for name in oms_journal.__all__:
        paragraphs = (inspect.getdoc(getattr(oms_journal, name)) or "").split("\n\n")
        lines = [text for text in paragraphs if text.startswith(("with ", "async def ", "asyncio.run(", "report = "))]
        if lines:
            yield name, "\n\n".join(lines)


def test_the_classes_that_a_caller_begins_with_show_an_example() -> None:
    shown = {name for name, _ in _examples()}

    assert shown >= {"MessageDatabase", "AsyncMessageDatabase", "CommitBlock", "DatabaseView", "Backup"}


def test_the_examples_of_the_public_classes_run_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {name: getattr(oms_journal, name) for name in oms_journal.__all__} | {"asyncio": asyncio}
    for name, code in list(_examples()) * 2:
        exec(compile(code, name, "exec"), dict(names))


def test_every_file_the_readme_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (REPOSITORY / target).exists(), target


def test_every_link_within_the_readme_leads_to_a_heading() -> None:
    headings = {
        re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.+)$", README, re.MULTILINE)
    }

    assert set(re.findall(r"\]\(#([\w-]+)\)", README)) <= headings
