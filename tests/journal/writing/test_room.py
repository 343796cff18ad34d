"""No data file is larger than it may be, footer included, whatever is committed last to it."""

import random
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from oms_journal.journal import names
from oms_journal.journal.format.records import MOVED, Added, TermColumns, encode_properties
from oms_journal.journal.names import DataFileName
from oms_journal.journal.operations import Operation
from oms_journal.journal.writing.draft import CommitBuilder, Draft, QueueTemplate
from oms_journal.journal.writing.log import Journal, JournalSettings, Opening
from oms_journal.journal.writing.single import PlainAdds
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.journals.golden_files import add
from tests.support.sweeps import a_sample

SPOOL = Path("/spool")
BYTES_MAX = 16 << 10
FILLED = range(45, 100)  # rows before the commit that is looked at: the file is nearly full by these, and then is
Compose = Callable[[CommitBuilder], None]


class Writer:
    """Writes rows that a footer can say nothing of in few bytes: of any time, any size, any kind."""

    def __init__(self, seed: int, bytes_max: int = BYTES_MAX) -> None:
        self._rng = random.Random(seed)
        self._bytes_max = bytes_max
        self._disk = SimulatedDisk()
        self._disk.make_directory(SPOOL)
        settings = JournalSettings(
            random_identity=lambda: 5, clock=lambda: self._rng.getrandbits(62), data_file_bytes_max=bytes_max
        )
        self.journal = Journal(self._disk, SPOOL, Opening(database=bytes(16), owner=7), settings)

    def write(self, *commits: Compose) -> None:
        builders = [CommitBuilder() for _ in commits]
        for builder, commit in zip(builders, commits, strict=True):
            commit(builder)
        drafts: Sequence[Draft] = [builder.draft() for builder in builders]
        while drafts:
            group = self.journal.form(drafts)
            self.journal.write(group)
            drafts = group.rest

    def plain(self, rows: int) -> None:
        for _ in range(rows):
            self.write(add(b"qr"[self._rng.randrange(2) :][:1], bytes(self._rng.choice((0, 300, *range(8))))))

    def sizes(self) -> list[int]:
        """Return how long the files are, sealed."""
        self.journal.close(seal=True)
        found = [name for name in self._disk.list(SPOOL) if isinstance(names.parse(name), DataFileName)]
        return [self._disk.size(SPOOL / name) for name in sorted(found)]


def _on_terms(builder: CommitBuilder) -> None:
    terms = TermColumns(due=[1 << 60], expiry=[1 << 61], attempts=[1 << 31], groups=[b"group"])
    builder.add(Added(queue=b"q", payloads=[b"x"], terms=terms))


def _moved(builder: CommitBuilder) -> None:
    moved = Added(queue=b"q", payloads=[b"x"], flags=MOVED, numbers=[1 << 62], first_times=[1 << 60])
    builder.add(moved)


def _of_a_producer(builder: CommitBuilder) -> None:
    properties = encode_properties({"a": "b" * 300})
    builder.add(Added(queue=b"q", payloads=[b"x"], properties=[properties], producer=b"producer"))


def _of_everything(builder: CommitBuilder) -> None:
    _on_terms(builder)
    _moved(builder)
    _of_a_producer(builder)
    builder.remove(Operation.DELIVER, b"q", np.arange(1, 300, dtype=np.uint64))


@a_sample(1)
@pytest.mark.parametrize("wide", [_on_terms, _moved, _of_a_producer, _of_everything])
@pytest.mark.parametrize("together", [False, True], ids=["alone", "behind others of its group"])
def test_the_first_commit_that_makes_every_row_of_the_footer_longer_does_not(wide: Compose, *, together: bool) -> None:
    for rows in FILLED:
        writer = Writer(rows)
        writer.plain(rows)
        writer.write(*[add(b"q", b"x")] * together, wide)
        sizes = writer.sizes()
        assert max(sizes) <= BYTES_MAX, (rows, sizes)


def test_nor_do_plain_rows_behind_such_a_commit() -> None:
    for rows in range(1, 40, 3):
        writer = Writer(rows)
        writer.write(_of_everything)
        writer.write(_moved)
        writer.plain(200 + rows)
        assert max(writer.sizes()) <= BYTES_MAX


def test_nor_does_one_queue_more_than_a_byte_can_count() -> None:
    for rows in range(90, 120):
        writer = Writer(rows, 4 * BYTES_MAX)
        writer.write(*(add(b"%d" % queue, b"") for queue in range(255)))
        writer.plain(rows)
        for queue in range(1000, 1020):
            writer.write(add(b"%d" % queue, b""))
        assert max(writer.sizes()) <= 4 * BYTES_MAX


def test_plain_messages_of_many_queues_and_their_turns_of_an_event_loop_do_not() -> None:
    queues = [QueueTemplate(b"%d" % number, number) for number in range(600)]
    for seed in range(8):
        writer = Writer(seed, 4 * BYTES_MAX)
        rng = random.Random(seed)
        for number in count():
            some = [queues[(number + rng.randrange(3)) % 600] for _ in range(rng.randrange(1, 4))]
            payloads = [bytes(rng.choice((0, 300, *range(8)))) for _ in some]
            weight = sum(queue.bound + len(payload) for queue, payload in zip(some, payloads, strict=True))
            writer.journal.write(writer.journal.form([PlainAdds(some, payloads, weight)]))
            if number > 700:
                break
        assert max(writer.sizes()) <= 4 * BYTES_MAX


def test_a_file_of_equal_messages_is_filled_as_far_as_the_longest_footer_lets_it() -> None:
    writer = Writer(1)
    for _ in range(400):
        writer.write(add(b"q", bytes(256)))
    *full, _ = writer.sizes()
    assert len(full) > 5
    assert min(full) > BYTES_MAX - 2000
