"""All who read a directory into an index read the same: a start, a dry run of it, a view, a view with the lock."""

from pathlib import Path

import pytest

from oms_journal import DatabaseView, MessageDatabase
from oms_journal.database.bulk.locked import LockedView
from oms_journal.database.queries import DatabaseState, undelivered_count
from oms_journal.index.duplicates import WindowBounds
from oms_journal.index.held import Held
from oms_journal.journal.disk import RealDisk
from oms_journal.recovery.replay import identities, load_held, replay
from oms_journal.recovery.startup import recover
from oms_journal.recovery.validation import examine_directory, no_progress

PRODUCER = "sender"


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Return a database with messages, keys, held messages and producers in files that clean-up has gone over."""
    options = {"max_data_file_size": 7680, "cleanup_interval": 0}
    with MessageDatabase.open(tmp_path, **options) as database:  # type: ignore[arg-type]
        first = database.add("orders", b"first", producer_id=PRODUCER)
        numbers = [database.add("orders", bytes(200)) for _ in range(40)]
        for number in numbers[:30]:
            database.deliver(number)
        database.put("key", b"value")
        database.deliver(first)
        database.cleanup(compact=True)
    return tmp_path


def _live(state: DatabaseState) -> tuple[int, list[bytes], list[object]]:
    index = state.ledger.index
    return undelivered_count(state.ledger, None), [*index.keyed.keys(b"key")], [*index.duplicates.every()]


def test_each_of_them_finds_the_same(spool: Path) -> None:
    with MessageDatabase.open(spool) as database:
        expected = _live(database._state())
    locked = LockedView.open(spool)
    view = DatabaseView.open(spool)
    try:
        assert _live(locked.state()) == expected == (10, [b"key"], [(b"orders", PRODUCER.encode())])
        assert (view.undelivered_count(), [*view.keys()]) == (10, ["key"])
    finally:
        view.close()
        locked.close()
    assert recover(spool, dry_run=True).undelivered == 10


def test_what_is_held_back_and_cannot_be_read_is_told_by_its_file(spool: Path) -> None:
    with MessageDatabase.open(spool) as database:
        ranges = Held([(35 + 2 * at, 35 + 2 * at) for at in range(10)])  # more than a footer has of a value
        with database._holds.lock:
            database._holds.write(ranges)
        sequence = database._journal.active_sequence
    (value,) = ranges.values().values()
    assert _load_held(spool) == (0, ranges.ranges())

    path = spool / f"omsmsg-{sequence:010}.data"
    data = path.read_bytes()
    path.write_bytes(data.replace(value, bytes(len(value)), 1))

    assert _load_held(spool) == (sequence, [])
    with DatabaseView.open(spool) as view:
        assert view.held_count() == view.undelivered_count() == 10, "all that may be held back is"


def _load_held(spool: Path) -> tuple[int, list[tuple[int, int]]]:
    disk = RealDisk()
    index, kept = replay(disk, examine_directory(disk, spool, no_progress, full=False), WindowBounds())
    lost_at = load_held(disk, spool, index, identities(kept))
    return lost_at, [*index.held.ranges()]
