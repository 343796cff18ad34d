"""The map's drawings, made of the first sentences of packages and modules: `python -m tests.project.house_map`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.project import FOLDERS, OUTSIDE, PACKAGES, REPOSITORY, modules, parsed

MAP = REPOSITORY / "docs" / "contributing" / "map.md"
ROOMS = ("<!-- rooms:begin -->", "<!-- rooms:end -->")
MODULES = ("<!-- map:begin -->", "<!-- map:end -->")
ARROWS = ("<!-- arrows:begin -->", "<!-- arrows:end -->")
HOUSE = """
                    people and scripts
                            │
                  ┌─────────▼──────────┐
                  │        cli         │
                  └───┬────────────┬───┘
      programs        │            │         notebooks
          │           │            │             │
      ┌───▼───────────▼──┐  ┌──────▼─────────────▼──┐
      │      broker      │◁╌┤       analysis        │
      └────────┬─────────┘  └───────────┬───────────┘
      ┌────────▼─────────┐              │
      │     database     │              │
      └────────┬─────────┘              │
      ┌────────▼─────────┐              │
      │     recovery     │              │
      └────────┬─────────┘              │
      ┌────────▼─────────┐              │
      │      index       │              │
      └────────┬─────────┘              │
      ┌────────▼────────────────────────▼──┐
      │              journal               │
      └────────────────┬───────────────────┘
                     disk

      ─▶ may import, and all below it     ╌▷ the broker's records and queues only
"""


def first_sentence(text: str) -> str:
    """Return what a module's docstring begins with, on one line, without its full stop."""
    return " ".join(text.split("\n\n", 1)[0].split()).removesuffix(".")


def _said(path: Path) -> str:
    """Return the first sentence of a module."""
    return first_sentence(ast.get_docstring(parsed(path)) or "")


def drawn_rooms() -> str:
    """Return the picture of the folders as it should stand in the map: who imports stands above what is imported."""
    lines = ["```"]
    for name in reversed(FOLDERS):
        lines += [_line(name, Path(name)), *_branches(Path(name))]
    return "\n".join([*lines, "", *(_line(name, Path(name)) for name in OUTSIDE), "```"])


def _branches(folder: Path, stem: str = "") -> Iterator[str]:
    """Yield a line for each package in the folder, and behind it those in that one."""
    inside = [path for path in (Path(*package.split(".")) for package in PACKAGES) if path.parent == folder]
    for path in inside:
        branch, below = ("└── ", "    ") if path == inside[-1] else ("├── ", "│   ")
        yield _line(f"{stem}{branch}{path.name}", path)
        yield from _branches(path, stem + below)


def _line(drawing: str, folder: Path) -> str:
    return f"{drawing:22} {_said(folder / '__init__.py')}"


def drawn_arrows() -> str:
    """Return the picture of the house as it should stand in the map, and below it who imports whom in the code."""
    lines = [f"{name:9} imports {', '.join(imported(name)) or 'none of them'}" for name in reversed(FOLDERS)]
    return "\n".join(["```text", HOUSE.strip("\n"), "", *lines, "```"])


def imported(folder: str) -> list[str]:
    """Return which other folders the modules of a folder import."""
    texts = [(REPOSITORY / path).read_text(encoding="utf-8") for path in modules() if path.parts[0] == folder]
    named = {found[1] for text in texts for found in re.finditer(r"^ *(?:from|import) oms_journal\.(\w+)", text, re.M)}
    return [name for name in reversed(FOLDERS) if name in named - {folder}]


def drawn_modules() -> str:
    """Return the list of modules as it should stand in the map."""
    lines = ["```"]
    for folder in (package.replace(".", "/") for package in PACKAGES):
        lines.append(f"{folder}/")
        for module in modules():
            if module.parent.as_posix() == folder and not module.stem.startswith("__"):
                lines.append(f"    {module.stem:17} {_said(module)}")
    return "\n".join([*lines, "```"])


def found(marks: tuple[str, str]) -> str:
    """Return what stands in the map between two marks."""
    begin, end = marks
    return MAP.read_text(encoding="utf-8").split(begin)[1].split(end)[0].strip()


def write() -> None:
    """Put all three into the map."""
    for (begin, end), drawing in ((ARROWS, drawn_arrows()), (ROOMS, drawn_rooms()), (MODULES, drawn_modules())):
        before, behind = re.split(f"{begin}.*?{end}", MAP.read_text(encoding="utf-8"), flags=re.DOTALL)
        MAP.write_text(f"{before}{begin}\n{drawing}\n{end}{behind}", encoding="utf-8")


if __name__ == "__main__":
    write()
