"""Databases with small data files, so that a test sees many of them."""

from pathlib import Path

from oms_journal import MessageDatabase

SMALL = 7680  # bytes of a data file
MODEST = "1M"  # of one whose size says nothing: its directory keeps 3 MiB in reserve, and not 51 as by default


def open_small(directory: Path, **named: object) -> MessageDatabase:
    """Open a database that cleans up only when asked, and compacts only when told to."""
    options = {"max_data_file_size": SMALL, "cleanup_interval": 0, "compact_share": 0} | named
    return MessageDatabase.open(directory, **options)  # type: ignore[arg-type]


def fill(db: MessageDatabase, files: int) -> dict[int, list[int]]:
    """Fill so many files and begin the next; return the numbers of the messages in each."""
    found: dict[int, list[int]] = {}
    while len(found) <= files:
        number = db.add("q", bytes(700))
        found.setdefault(db.read(number).sequence, []).append(number)
    return found


def churn(db: MessageDatabase, files: int) -> None:
    """Fill so many files with what is delivered at once, and seal them."""
    db.deliver_many([number for numbers in fill(db, files).values() for number in numbers])
    db._journal.seal_all()


def sequences(db: MessageDatabase) -> list[int]:
    """Return the data files that hold anything, and no prepared one."""
    return [fact.sequence for fact in db.explain()]
