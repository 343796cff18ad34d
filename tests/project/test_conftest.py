"""What a run of all tests does before the first one: where they lie, and which process compiles what."""

import importlib
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import conftest
from tests.support.project import REPOSITORY


def test_tests_lie_in_memory_only_where_all_of_them_find_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    free = conftest.ROOM_BYTES
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert conftest._has_room(tmp_path)
    assert not conftest._has_room(tmp_path / "none")

    free -= 1
    assert not conftest._has_room(tmp_path)


def test_the_processes_of_a_run_import_each_file_once_between_them(
    monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    imported: list[str] = []
    monkeypatch.setattr(importlib, "import_module", imported.append)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)

    def begin(worker: dict[str, object] | None, *args: str) -> None:
        config = SimpleNamespace(args=[*args], getini=pytestconfig.getini, rootpath=REPOSITORY)
        if worker is not None:
            config.workerinput = worker
        conftest._import_share(config)  # type: ignore[arg-type]

    begin(None, "tests")  # alone, it imports what it collects
    begin({"workerid": "gw0", "workercount": 3}, "tests/journal")  # so few that it is not worth it
    assert imported == []

    for number in range(3):
        begin({"workerid": f"gw{number}", "workercount": 3}, "tests")
    assert len(imported) == len({*imported})
    assert {*imported} == {
        ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
        for path in (REPOSITORY / "tests").rglob("test_*.py")
    }
