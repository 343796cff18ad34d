"""Damage that a running database meets in what it reads: told as damage of what was asked for, and of nothing else."""

import pytest

from oms_journal.database.bulk.values import in_order, values
from oms_journal.journal.errors import MessageDamaged
from tests.support.crashes.crash_model import SPOOL, Unattended, open_unattended
from tests.support.disks.faulty_disk import SimulatedDisk

HEADER = range(4352)  # of a file: both copies of it, and what is between them
FRAMES = range(4352, 7680)


def hurt(places: range, *, is_sealed: bool) -> Unattended:
    """Return a database at work whose first file, which it has not read yet, is overwritten in these places."""
    disk = SimulatedDisk()
    database = open_unattended(disk, max_data_file_size=7680)
    with database.commit() as commit:
        commit.add("q", b"message")
        commit.put("k", b"value")
    while is_sealed and len([name for name in disk.contents(SPOOL) if name.endswith(".data")]) < 3:
        database.add("others", bytes(1500))
    name = min(name for name in disk.contents(SPOOL) if name.endswith(".data"))
    disk.rot(SPOOL / name, bytes(len(places)), places.start)
    return database


@pytest.mark.parametrize(
    ("places", "is_sealed"),
    [(HEADER, False), (FRAMES, False), (FRAMES, True)],  # a sealed file has its header a third time, at its end
    ids=["header", "frames", "frames of a sealed file"],
)
def test_what_cannot_be_read_any_more_is_damaged_however_it_is_asked_for(places: range, is_sealed: bool) -> None:
    with hurt(places, is_sealed=is_sealed) as database:
        with pytest.raises(MessageDamaged):
            database.read(1)
        with pytest.raises(MessageDamaged):
            database.get("k")
        assert [*database.undelivered("q")] == []
        assert [*in_order(database._state(), "k")] == [(b"k", None)]
        assert [(found.keys, found.damaged) for found in values(database._state(), "k")] == [([], [b"k"])]
        database.cleanup(compact=True)
        assert database.undelivered_count("q") == 1, "what is damaged is not given up by clean-up"
        if places != HEADER:
            assert database.read(database.add("q", b"next")).payload == b"next"
