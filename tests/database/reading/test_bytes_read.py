"""What is not returned is not read: properties least of all, since they may be far longer than what they describe."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oms_journal import DatabaseView, MessageDatabase
from tests.support.disks.watched_disk import CountingDisk

COUNT, QUEUES = 24, 3
PROPERTIES_BYTES = 60_000
PAGE_BYTES = 4096  # what is read of a place at least


@pytest.fixture(scope="module", params=["sealed", "one commit", "open"])
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of a few messages with long properties, in a file that is sealed, or that a crash has left."""
    spool: Path = tmp_path_factory.mktemp("spool") / "db"
    properties = {"long": "x" * PROPERTIES_BYTES}
    db = MessageDatabase.open(spool, cleanup_interval=0)
    if request.param == "one commit":
        for queue in range(QUEUES):
            db.add_many(f"q{queue}", [b"payload"] * (COUNT // QUEUES), properties=[properties] * (COUNT // QUEUES))
    else:
        for number in range(COUNT):
            db.add(f"q{number % QUEUES}", b"payload", properties=properties)
    if request.param == "open":
        db._maintenance.stop()  # no thread of it goes on behind its end
        db._abandon()
    db.close()
    return spool


ASKED: dict[str, Callable[[Any], object]] = {
    "count": lambda db: (db.undelivered_count(), db.undelivered_count("q1")),
    "numbers": lambda db: (list(db.numbers()), list(db.numbers("q1"))),
    "queues": lambda db: db.queues(),
    "keys": lambda db: list(db.keys()),
}


@pytest.mark.parametrize("question", ASKED)
def test_what_the_index_knows_is_answered_without_reading(question: str, directory: Path) -> None:
    disk = CountingDisk()
    with DatabaseView.open(directory, disk=disk) as view:
        disk.bytes_read = 0
        ASKED[question](view)
        assert disk.bytes_read == 0


def test_the_figures_of_a_store_read_no_properties(directory: Path) -> None:
    disk = CountingDisk()
    with DatabaseView.open(directory, disk=disk) as view:
        disk.bytes_read = 0
        stats = view.stats()

    assert len(stats.queues) == QUEUES
    assert all(queue.oldest_age is not None for queue in stats.queues.values())
    assert disk.bytes_read <= (QUEUES + 1) * PAGE_BYTES  # of each queue the frame of its oldest message


def test_an_opening_by_footers_and_a_look_read_no_properties(directory: Path) -> None:
    MessageDatabase.open(directory).close()  # what a crash has left is walked as a whole, and sealed
    disk = CountingDisk()
    with DatabaseView.open(directory, disk=disk):
        assert disk.bytes_read < PROPERTIES_BYTES
    disk.bytes_read = 0
    with MessageDatabase.open(directory, disk=disk, validation="footers"):
        assert disk.bytes_read < PROPERTIES_BYTES


def test_a_take_reads_the_properties_of_its_own_message_only(directory: Path) -> None:
    disk = CountingDisk()
    with MessageDatabase.open(directory, disk=disk, cleanup_interval=0) as db:
        for queue in range(QUEUES):
            db.take(f"q{queue}")  # of a commit of several messages the first take finds out where each is
            disk.bytes_read = 0
            message = db.take(f"q{queue}")
            assert message is not None and len(message.properties["long"]) == PROPERTIES_BYTES
            assert disk.bytes_read <= PROPERTIES_BYTES + 2 * PAGE_BYTES
