"""The directories that starts and commands are tried on: closed, not closed, torn, damaged; and what each must give."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from oms_journal import MessageDatabase
from tests.faults.programs import OPTIONS
from tests.faults.visits import make_store
from tests.support.crashes.crash_model import State, state_of

_LAST = b"nothing vouches for this one"
_HIT = b"this one is hit in the middle of a sealed file"


@dataclass(frozen=True, slots=True)
class Place:
    """A directory as something has left it."""

    name: str
    directory: Path
    state: State  # what a start without faults makes of it
    is_damaged: bool = False

    def copied(self, to: Path) -> Path:
        shutil.copytree(self.directory, to)
        return to


def served(under: Path) -> Place:
    """Make the store of a broker, with messages in it."""
    make_store(under / "served")
    return _place(under / "served")


def places(under: Path) -> list[Place]:
    """Make one of each kind."""
    with MessageDatabase.open(under / "closed", **OPTIONS) as database:
        for turn in range(30):
            database.add(f"q{turn % 2}", b"%d " % turn * 60)
            database.put(f"key{turn % 3}", b"value %d" % turn)
            if turn == 9:
                database.add("q0", _HIT)
        database.deliver_many([n for n in database.numbers() if n % 5 == 0])
        database.add("q1", _LAST)
        shutil.copytree(under / "closed", under / "left open")
    for name, origin, payload in (("torn", "left open", _LAST), ("damaged", "closed", _HIT)):
        shutil.copytree(under / origin, under / name)
        _spoil(under / name, payload)
    return [_place(under / name) for name in ("closed", "left open", "torn", "damaged")]


def _spoil(directory: Path, payload: bytes) -> None:
    [path] = [path for path in directory.glob("*.data") if payload in path.read_bytes()]
    path.write_bytes(path.read_bytes().replace(payload, payload.upper()))


def _place(directory: Path) -> Place:
    copy = directory.with_name(f"{directory.name} looked at")
    shutil.copytree(directory, copy)
    with MessageDatabase.open(copy, **OPTIONS) as database:
        report, state = database.recovery, state_of(database)
    shutil.rmtree(copy)
    assert bool(report.lost) is (directory.name == "damaged"), report
    assert report.intact is (directory.name in ("closed", "left open", "served")), report
    return Place(directory.name, directory, state, bool(report.lost))
