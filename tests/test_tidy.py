"""How our modules are named and described, checked so that nobody has to argue."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house_map import BEGIN, END, MAP, drawn
from tests.long_files import LONG_FILES
from tests.project import REPOSITORY, modules

# Names that say nothing about their subject.
WORDS_NEVER_USED = {
    *("manager", "helper", "util", "handler", "processor", "process", "do", "info", "object", "common"),
    *("base", "impl", "misc"),
}

MODULES = [pytest.param(module, id=module.as_posix()) for module in modules()]


def _tree(module: Path) -> ast.Module:
    return ast.parse((REPOSITORY / module).read_text(encoding="utf-8"))


def _functions(module: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _words(name: str) -> set[str]:
    """Return the words of a name in either spelling, each also without its plural s."""
    words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
    return words | {word.removesuffix("s") for word in words}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_says_what_it_is(module: Path) -> None:
    assert ast.get_docstring(_tree(module))


@pytest.mark.parametrize("module", MODULES)
def test_a_name_says_what_its_subject_is(module: Path) -> None:
    classes = {node.name for node in ast.walk(_tree(module)) if isinstance(node, ast.ClassDef)}
    names = classes | {module.stem} | {function.name for function in _functions(module)}

    assert {name for name in names if _words(name) & WORDS_NEVER_USED} == set()


@pytest.mark.parametrize("module", [each for each in modules() if each.parts[0] not in ("tests", "bench")])
def test_the_root_of_the_errors_is_never_raised_itself(module: Path) -> None:
    calls = [node.func for node in ast.walk(_tree(module)) if isinstance(node, ast.Call)]

    assert not any(isinstance(call, ast.Name) and call.id == "JournalError" for call in calls)


def test_the_map_lists_every_module_with_its_own_first_sentence() -> None:
    found = MAP.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0].strip()

    assert found == drawn(), "write it anew: python -m tests.house_map"


def test_the_files_of_tests_that_begin_first_are_there() -> None:
    assert [name for name in LONG_FILES if not (REPOSITORY / "tests" / f"{name}.py").exists()] == []
