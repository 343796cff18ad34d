"""Data files of an owner who had lost the directory to another, and did not know it yet."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from oms_journal.journal.disk import RealDisk
from oms_journal.journal.format.headers import Ending
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.writing.log import Journal, JournalSettings, Opening
from tests.support.journals.golden_files import add, vouch, write

OWN = bytes(range(16))


def write_late(spool: Path) -> None:
    """Let owner 1 write file 1, owner 3 take over and write file 3, and the former one come back with files 2 and 4."""
    for _ in late_files(spool):
        pass


def late_files(spool: Path) -> Iterator[int]:
    """Write the same, and yield the number of each file when it is there: 1, 2, 3, 4."""
    spool.mkdir()
    journal_by(spool, 1, Opening(database=OWN, owner=1)).close(seal=True)
    yield 1
    [one] = spool.glob("*.data")
    with DataFile(RealDisk(), one) as file:
        footer = file.footer(identity=None)
    assert isinstance(footer, Footer)
    summary = footer.summary
    ending = Ending(
        sequence=1,
        identity=summary.header.identity,
        end=summary.end,
        commit=summary.last_commit,
        chain=summary.chain,
    )
    late = Opening(database=OWN, owner=1, previous=ending, next_message=100, next_commit=100)
    journal_by(spool, 2, late).close(seal=True)
    yield 2
    current = Opening(database=OWN, owner=3, previous=ending, next_message=50, next_commit=50)
    journal_by(spool, 3, current).close(seal=True)
    yield 3
    journal_by(spool, 4, replace(late, next_message=200)).close(seal=True)
    yield 4


def journal_by(directory: Path, sequence: int, opening: Opening) -> Journal:
    """Return a journal in which an opening has begun the data file with this number."""
    chance = random.Random(opening.owner)
    settings = JournalSettings(random_identity=lambda: chance.getrandbits(64), clock=lambda: opening.owner * 1_000_000)
    writing = Journal(RealDisk(), directory, replace(opening, next_sequence=sequence), settings)
    write(writing, add(b"q", b"by owner %d" % opening.owner), vouch)
    return writing
