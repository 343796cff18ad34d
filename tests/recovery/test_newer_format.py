"""A directory with a file of a newer format: everybody refuses it as a whole, says so, and writes nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from oms_journal import DatabaseView, MessageDatabase
from oms_journal.database.backup.backup import back_up
from oms_journal.database.bulk.locked import LockedView
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import NewerFormat
from oms_journal.journal.format.headers import HEADER_COPIES, HEADER_SIZE, xxh3
from oms_journal.recovery.dump import dump
from oms_journal.recovery.startup import RecoveryOptions, recover
from oms_journal.recovery.validation import validate_directory
from tests.support.cli_runner import oms
from tests.support.sweeps import a_sample

TOOLS: dict[str, Callable[[Path], object]] = {
    "open": lambda path: MessageDatabase.open(path),
    "salvage": lambda path: recover(path, RecoveryOptions(policy="salvage")),
    "truncate": lambda path: recover(path, RecoveryOptions(policy="truncate", unreadable_as_damaged=True)),
    "refuse": lambda path: recover(path, RecoveryOptions(policy="refuse")),
    "a dry run": lambda path: recover(path, dry_run=True),
    "verify": lambda path: validate_directory(path),
    "a view": lambda path: DatabaseView.open(path),
    "dump": lambda path: list(dump(RealDisk(), [path])),
    "backup": lambda path: back_up(path, path.parent / "backup"),
    "standstill": lambda path: LockedView.open(path),
}
COMMANDS = [
    "verify",
    "list",
    "stats",
    "explain",
    "dump",
    "recover",
    "cleanup",
    "backup DEST",
    "delete 1 --yes",
    "receive q",
]


def newer(directory: Path, sequence: int) -> Path:
    """Return a database of three files, one of which says that it is of the next version."""
    with MessageDatabase.open(directory, max_data_file_size="8K") as db:
        while len(list(directory.glob("*.data"))) < 4:
            db.add("q", bytes(500))
    path = sorted(directory.glob("*.data"))[sequence]
    data = bytearray(path.read_bytes())
    for copy in HEADER_COPIES:
        data[copy + 8] += 1
        data[copy + 248 : copy + 256] = xxh3(data[copy : copy + HEADER_SIZE - 8]).to_bytes(8, "little")
    path.write_bytes(data)
    return directory


def snapshot(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@a_sample(6)
@pytest.mark.parametrize("sequence", [0, 1, -1])
@pytest.mark.parametrize("what", TOOLS)
def test_a_directory_with_a_file_of_a_newer_version_is_refused_and_not_a_byte_is_written(
    what: str, sequence: int, tmp_path: Path
) -> None:
    spool = newer(tmp_path / "spool", sequence)
    before = snapshot(spool)

    with pytest.raises(NewerFormat, match="format version 3, this program knows up to 2"):
        TOOLS[what](spool)

    assert snapshot(spool) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_so_and_writes_nothing(command: str, tmp_path: Path) -> None:
    spool = newer(tmp_path / "spool", 1)
    before = snapshot(spool)

    result = oms(*command.replace("DEST", str(tmp_path / "backup")).split(), spool=spool, code=4)

    assert "use the version of oms that wrote it" in result.stderr
    assert snapshot(spool) == before


def test_without_its_lock_file_the_directory_gets_none(tmp_path: Path) -> None:
    spool = newer(tmp_path / "spool", 1)
    (spool / "omsmsg.lock").unlink()
    before = snapshot(spool)

    with pytest.raises(NewerFormat):
        MessageDatabase.open(spool)

    assert snapshot(spool) == before
