"""The public names are the same in `__all__`, in what loads them, and in what a type checker is told of them."""

import ast
from pathlib import Path

import oms_journal

TREE = ast.parse(Path(oms_journal.__file__).read_text(encoding="utf-8"))


def told_to_type_checkers() -> dict[str, str]:
    """Return the home of each public name as the imports under TYPE_CHECKING give it."""
    (block,) = [node for node in TREE.body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom) and node.module != "typing"]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def test_a_name_is_loaded_from_where_type_checkers_see_it() -> None:
    loaded = {name: home for home, names in oms_journal._HOMES.items() for name in names}

    assert loaded == told_to_type_checkers()
    assert sorted(loaded) == sorted(oms_journal.__all__)


def test_every_public_name_is_there_and_is_what_its_home_has() -> None:
    for name, home in told_to_type_checkers().items():
        found = getattr(oms_journal, name)
        assert found.__module__ == home, name
        assert name in dir(oms_journal)
