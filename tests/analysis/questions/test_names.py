"""The questions are found under their public names, wherever their modules lie, in whatever order they are loaded."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="not installed: pip install -e '.[analysis]'")

from oms_journal.analysis import questions

TREE = ast.parse(Path(questions.__file__).read_text(encoding="utf-8"))


def told_to_type_checkers() -> dict[str, str]:
    """Return the home of each public name as the imports under TYPE_CHECKING give it."""
    [block] = [node for node in TREE.body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def test_a_name_is_loaded_from_where_type_checkers_see_it() -> None:
    loaded = {name: f"oms_journal.analysis.{home}" for name, home in questions._HOMES.items()}

    assert loaded == told_to_type_checkers()
    assert sorted([*loaded, "QUESTIONS"]) == sorted(questions.__all__)


def test_no_module_of_the_package_hides_a_question() -> None:
    modules = {path.stem for path in Path(questions.__file__).parent.glob("*.py")}

    assert modules & set(questions.__all__) == set()


def test_every_public_name_is_there() -> None:
    for name, home in told_to_type_checkers().items():
        assert getattr(questions, name).__module__ == home
        assert name in dir(questions)
    with pytest.raises(AttributeError, match="no attribute 'answer_to_everything'"):
        questions.answer_to_everything  # noqa: B018
    assert {question.__name__ for question in questions.QUESTIONS.values()} == set(questions.QUESTIONS)


@pytest.mark.whole
def test_what_is_asked_of_a_broker_loads_first_too() -> None:
    program = (
        "import oms_journal.analysis.questions.of_broker; from oms_journal.analysis.questions import *; print(topics)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert done.stdout.startswith("<function topics")
