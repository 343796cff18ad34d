"""The map's list of modules, made of their own first sentences: `python -m tests.project.house_map` writes it anew."""

import ast
import re

from tests.support.project import PACKAGES, REPOSITORY, modules

MAP = REPOSITORY / "docs" / "contributing" / "map.md"
BEGIN, END = "<!-- map:begin -->", "<!-- map:end -->"


def first_sentence(text: str) -> str:
    """Return what a module's docstring begins with, on one line, without its full stop."""
    return " ".join(text.split("\n\n", 1)[0].split()).removesuffix(".")


def drawn() -> str:
    """Return the list as it should stand in the map."""
    lines = ["```"]
    for folder in (package.replace(".", "/") for package in PACKAGES):
        lines.append(f"{folder}/")
        for module in modules():
            if module.parent.as_posix() == folder and not module.stem.startswith("__"):
                text = ast.get_docstring(ast.parse((REPOSITORY / module).read_text(encoding="utf-8"))) or ""
                lines.append(f"    {module.stem:17} {first_sentence(text)}")
    return "\n".join([*lines, "```"])


def write() -> None:
    """Put the list into the map."""
    section = re.compile(f"{BEGIN}.*?{END}", re.DOTALL)
    drawn_now = f"{BEGIN}\n{drawn()}\n{END}"
    MAP.write_text(section.sub(lambda _: drawn_now, MAP.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
