"""The directories that are kept as bytes for every version of the format: how they are made, and what is said of them.

They are made once a version (`python -m tests.journal.format.golden_writer`), and read for ever: no two of them that
are made are alike, since databases have identities.
"""

import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import sleep
from typing import Any

from oms_journal import MessageDatabase, back_up
from oms_journal.journal.errors import JournalError, MessageDamaged
from oms_journal.journal.format.headers import FRAMES_AT
from oms_journal.journal.format.lockfile import COPY_AT, OWNER_LINE_SIZE
from oms_journal.journal.format.records import TermColumns
from oms_journal.journal.names import LOCK, RESERVE, DataFileName
from tests.support.journals.descriptions import Document, describe, hashed
from tests.support.journals.golden_files import GOLDEN, START
from tests.support.journals.on_terms import add_on_terms

DIRECTORIES = GOLDEN / "directories"
SMALL = 7680  # bytes of a data file
BYTES_MAX = 200 << 10  # of all of them


def opened(directory: Path) -> MessageDatabase:
    """Return the database there, with a clock that says the same each time."""
    clock = count(START, 1_000_003)
    return MessageDatabase.open(directory, max_data_file_size=SMALL, cleanup_interval=0, clock=lambda: next(clock))


def _closed(directory: Path) -> None:
    with opened(directory) as db:
        _, second, third, *_ = db.add_many("orders", [b"first", b"", b"third", bytes(300)])
        with_properties = db.add("größe", b"with properties", properties={"colour": "blue", "größe": "10"})
        db.add("orders", b"last")
        db.deliver(second)
        db.delete(third)
        db.put("status", b"0123456789" * 20)
        db.put("status", b"ready")
        db.put("gone", b"not for long")
        db.drop("gone")
        with db.commit() as block:
            block.add("bills", b"one of a commit")
            block.deliver(with_properties)
            block.put("schlüssel", b"")


def _killed(directory: Path) -> None:
    """Leave a directory as it is while it is open: zeros behind the frames of a file, and a file of zeros."""
    with opened(directory.with_name("alive")) as db:
        first = db.add_many("orders", [bytes([n]) * 30 for n in range(5)])
        db.deliver_many(first[1:3])
        db.put("status", b"begun")
        while not directory.with_name("alive").joinpath(str(DataFileName(2))).exists():
            sleep(0.01)  # it is prepared beside the callers
        shutil.copytree(directory.with_name("alive"), directory, ignore=shutil.ignore_patterns("*.new"))
    shutil.rmtree(directory.with_name("alive"))


def _sealed(directory: Path) -> None:
    """Leave two files with a footer, and sets of removed numbers in the second."""
    with opened(directory) as db:
        numbers = [*db.add_many("orders", [bytes([n]) * 160 for n in range(20)])]
        db.deliver_many([*numbers[:4], *numbers[10:13], numbers[15]])
        db.delete_many(numbers[5:7])
        db.add("bills", b"the last")


def _repaired(directory: Path) -> None:
    """Leave what a start has made of a file with a rotted frame, and the archive of it."""
    _two_adds(directory)
    _flip(directory, 20)
    opened(directory).close()


def _damaged(directory: Path) -> None:
    """Leave a file with a message that has rotted: no start has seen it."""
    _two_adds(directory)
    _flip(directory, 150)


def _two_adds(directory: Path) -> None:
    with opened(directory) as db:
        numbers = db.add_many("orders", [b"rots" * 20, b"stays"])
        db.put("status", b"ready")
        db.add("orders", b"behind")
        db.deliver(numbers[1])


def _flip(directory: Path, place: int) -> None:
    path = min(directory.glob("*.data"))
    data = bytearray(path.read_bytes())
    data[FRAMES_AT + place] ^= 1
    path.write_bytes(data)


def _terms(directory: Path) -> None:
    with opened(directory) as db:
        later = START + 3_600_000_000
        add_on_terms(db, "orders", [b"later"], TermColumns(due=[later]))
        terms = TermColumns(
            due=[later, -1], expiry=[later + 1, (1 << 63) - 1], attempts=[0, 3], groups=["größe 7".encode(), b""]
        )
        add_on_terms(db, "orders", [b"in a group", b"alone"], terms, properties={"k": "v"})
        db.add("orders", b"at once")


def _producers(directory: Path) -> None:
    with opened(directory) as db:
        number = db.add("orders", b"order 1", producer_id="order-1")
        with db.commit(producer_id="batch-9") as block:
            block.add("orders", b"one")
            block.add("bills", b"two")
        db.add_many("bills", [b"x", b"y"], producer_id="bill-4711")
        db.deliver(number)


def _moved(directory: Path) -> None:
    """Leave what compaction leaves: moved messages and values, a low-water mark, the window of identifiers."""
    with opened(directory) as db:
        db.add("orders", b"old", properties={"k": "v"}, producer_id="order-1")
        db.put("status", b"old value")
        passing = db.add_many("passing", [bytes(400)] * 14)
        db.deliver_many(passing)
        db.cleanup(compact=True)
        db.add("orders", b"new")


def _backup(directory: Path) -> None:
    source = directory.with_name("source")
    with opened(source) as db:
        db.add_many("orders", [b"one", b"two"])
        db.put("status", b"ready")
    back_up(source, directory)
    shutil.rmtree(source)


MAKERS: dict[str, Callable[[Path], None]] = {
    make.__name__.strip("_"): make
    for make in (_closed, _killed, _sealed, _repaired, _damaged, _terms, _producers, _moved, _backup)
}


def make(directory: Path, name: str) -> None:
    """Make the directory, without what any opening makes again, and without the names of this machine."""
    MAKERS[name](directory)
    (directory / RESERVE).unlink(missing_ok=True)
    lock = directory / LOCK
    if lock.exists():
        data = bytearray(lock.read_bytes())
        data[OWNER_LINE_SIZE:COPY_AT] = bytes(COPY_AT - OWNER_LINE_SIZE)
        lock.write_bytes(data)


def told(directory: Path) -> Document:
    """Return what is said of the directory by who only reads, and what a start finds and reports. The start repairs."""
    return {"read": describe(directory), "opened": started(directory)}


def started(directory: Path) -> dict[str, Any]:
    """Return what a start finds and reports."""
    try:
        db = opened(directory)
    except JournalError as failure:
        return {"refused": type(failure).__name__}
    with db:
        messages: dict[str, Any] = {}
        for number in db.numbers():
            messages[str(number)] = None
            with suppress(MessageDamaged):
                one = db.read(number)
                messages[str(number)] = [one.queue, hashed(one.payload), dict(one.properties or {}), one.producer_id]
        return {
            "messages": messages,
            "keys": {key: hashed(db.get(key) or b"") for key in [*db.keys()]},
            "files": [[one.name, one.verdict.value, one.row, one.action] for one in db.recovery.files],
            "lost": [loss.as_dict() for loss in db.recovery.lost],
            "suspects": [one.as_dict() for one in db.recovery.suspects],
            "archives": [*db.recovery.archives],
        }
