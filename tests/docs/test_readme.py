"""The README is short and leads to what is there; the examples of the public docstrings run."""

import asyncio
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import oms_journal
from tests.support.project import REPOSITORY

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_it_is_read_in_five_minutes() -> None:
    assert len(README.splitlines()) <= 150


def test_the_first_program_has_twelve_lines() -> None:
    assert len(README.split("```python\n")[1].split("```")[0].splitlines()) == 12


def test_every_extra_is_named_and_no_other() -> None:
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    (line,) = [line for line in README.splitlines() if "An extra brings more" in line]

    assert set(re.findall(r"`(\w+)`", line.split("An extra brings more")[1])) - {"oms"} == set(extras)


def test_it_has_a_place_for_its_figures() -> None:
    assert README.index("<!-- bench:readme:begin -->") < README.index("<!-- bench:readme:end -->")


def test_every_make_target_that_it_names_is_there() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")

    for target in set(re.findall(r"(?:`|\$ )make ([\w-]+)", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


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


SINGLE = ("README.md", "SECURITY.md")


@pytest.mark.parametrize("name", SINGLE)
def test_every_link_leads_to_a_file_and_a_heading(name: str) -> None:
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    for path, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text):
        target = REPOSITORY / (path or name)
        assert target.exists(), path
        if anchor:
            assert anchor in headings(target.read_text(encoding="utf-8")), f"{path}#{anchor}"


def headings(text: str) -> set[str]:
    """Return the anchors of a page's headings, as code hosts make them."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ (.+)$", plain, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_the_pictures_are_small_and_ask_nobody_for_anything() -> None:
    shown = re.findall(r"!\[[^]]+\]\((docs/pictures/[^)]+)\)", README)

    assert sorted(shown) == sorted(
        f"docs/pictures/{path.name}" for path in (REPOSITORY / "docs" / "pictures").iterdir()
    )
    for path in shown:
        picture = (REPOSITORY / path).read_bytes()
        assert len(picture) <= 200 << 10, path
        if path.endswith(".svg"):
            addresses = set(re.findall(rb"(?:https?|url)[:(][^\s\"')]+", picture))
            assert all(a.startswith((b"url(#", b"http://www.w3.org/", b"https://www.textualize.io")) for a in addresses)
