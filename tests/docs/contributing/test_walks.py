"""The walks in docs/contributing are those that a payload and a SEND frame take."""

from pathlib import Path

from tests.project.walks import rows, traced


def test_each_walk_passes_the_modules_of_its_table_in_their_order(tmp_path: Path) -> None:
    found = {name: [tuple(step) for step in steps] for name, steps in traced(tmp_path).items()}

    told = {name: [(module, function) for module, function, _ in rows(name)] for name in found}

    assert told == found, "write it anew: python -m tests.project.walks"
    assert all(said for name in found for _, _, said in rows(name))
