"""How our modules are named and described, checked so that nobody has to argue."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.long_files import LONG_FILES, SPARK_FILES
from tests.project.house_map import ARROWS, MAP, MODULES, ROOMS, drawn_arrows, drawn_modules, drawn_rooms, found
from tests.support.project import PACKAGES, REPOSITORY, modules, parsed

# Names that say nothing about their subject: the page's last sentence.
_PAGE = (REPOSITORY / "docs" / "contributing" / "words.md").read_text(encoding="utf-8")
WORDS_NEVER_USED = set(re.findall(r"\*(\w+)\*", _PAGE.split("No name of a module")[1]))


def trees() -> dict[Path, ast.Module]:
    """Return every module, parsed: at the first question, not while tests are collected."""
    return {module: parsed(module) for module in modules()}


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def _words(name: str) -> set[str]:
    """Return the words of a name in either spelling, each also without its plural s."""
    words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
    return words | {word.removesuffix("s") for word in words}


def test_a_module_says_what_it_is() -> None:
    assert [module for module, tree in trees().items() if not ast.get_docstring(tree)] == []


def test_a_name_says_what_its_subject_is() -> None:
    assert {"manager", "helper", "util"} <= WORDS_NEVER_USED
    named = [(module, name) for module, tree in trees().items() for name in (module.stem, *_names(tree))]

    assert [(module, name) for module, name in named if _words(name) & WORDS_NEVER_USED] == []


def test_a_module_that_is_pointed_to_is_there() -> None:
    paths = {f"/{module}" for module in modules()}
    pointed = [
        (module, name)
        for module in modules()
        for name in re.findall(r"`([\w/]+\.py)`", (REPOSITORY / module).read_text(encoding="utf-8"))
    ]

    assert [(module, name) for module, name in pointed if not any(path.endswith(f"/{name}") for path in paths)] == []


def test_the_root_of_the_errors_is_never_raised_itself() -> None:
    calls = [
        (module, node.func) for module, tree in trees().items() for node in ast.walk(tree) if isinstance(node, ast.Call)
    ]

    assert [module for module, call in calls if isinstance(call, ast.Name) and call.id == "JournalError"] == []


def test_the_map_lists_every_module_with_its_own_first_sentence() -> None:
    assert found(MODULES) == drawn_modules(), "write it anew: python -m tests.project.house_map"


def test_the_map_draws_every_folder_with_its_own_first_sentence() -> None:
    assert found(ROOMS) == drawn_rooms(), "write it anew: python -m tests.project.house_map"


def test_the_map_has_the_picture_of_the_house_with_who_imports_whom() -> None:
    assert found(ARROWS) == drawn_arrows(), "write it anew: python -m tests.project.house_map"


def test_the_map_says_of_every_folder_once_whether_it_is_done() -> None:
    table = MAP.read_text(encoding="utf-8").split("## What is done")[1].split("## ")[0]
    folders = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]

    assert sorted(re.findall(r"`([\w/]+)`", " ".join(folders))) == sorted(
        package.replace(".", "/") for package in PACKAGES
    )


def test_the_files_of_tests_that_begin_first_are_there() -> None:
    assert [name for name in LONG_FILES if not (REPOSITORY / "tests" / f"{name}.py").exists()] == []


def test_all_files_that_need_the_shared_spark_are_those_of_one_processor() -> None:
    tests = REPOSITORY / "tests"
    files = {path.relative_to(tests).with_suffix("").as_posix(): path for path in tests.rglob("test_*.py")}
    asking = {name for name, path in files.items() if re.search(r"[(,]\s*spark: ", path.read_text(encoding="utf-8"))}

    assert asking == set(SPARK_FILES)
