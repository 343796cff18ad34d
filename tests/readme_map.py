"""The README's map of the folders, made from the modules' own first sentences: `python -m tests.readme_map`."""

import ast
import re

from tests.project import PACKAGES, REPOSITORY, modules

README = REPOSITORY / "README.md"
BEGIN, END = "<!-- map:begin -->", "<!-- map:end -->"


def first_sentence(text: str) -> str:
    """Return what a module's docstring begins with, on one line, without its full stop."""
    return " ".join(text.split("\n\n", 1)[0].split()).removesuffix(".")


def drawn() -> str:
    """Return the map as it should stand in the README."""
    lines = ["```"]
    for folder in (package.replace(".", "/") for package in PACKAGES):
        lines.append(f"{folder}/")
        for module in modules():
            if module.parent.as_posix() == folder and not module.stem.startswith("__"):
                text = ast.get_docstring(ast.parse((REPOSITORY / module).read_text(encoding="utf-8"))) or ""
                lines.append(f"    {module.stem:17} {first_sentence(text)}")
    return "\n".join([*lines, "```"])


def write() -> None:
    """Put the map into the README."""
    readme = README.read_text(encoding="utf-8")
    section = re.compile(f"{BEGIN}.*?{END}", re.DOTALL)
    README.write_text(section.sub(lambda _: f"{BEGIN}\n{drawn()}\n{END}", readme), encoding="utf-8")


if __name__ == "__main__":
    write()
