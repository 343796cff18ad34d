"""A link never changes under a backup: who shortens, repairs or replaces a data file that is not its own makes another.

Every data file gets a second name, before a start or as soon as it is finished; then the engine does all that it does
with data files, every action of recovery included, and what the second names hold is as it was.
"""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from oms_journal.journal.errors import JournalError
from oms_journal.journal.names import DataFileName, parse
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.recovery.decision import Action
from tests.support.crashes.crash_model import SPOOL, Account, Writer, open_unattended, workload
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.sweeps import Share, a_sample, in_three_sizes, split


class Links:
    """Second names of data files, and what they held when they got them."""

    def __init__(self, disk: SimulatedDisk, *, only_finished: bool) -> None:
        self._disk = disk
        self._only_finished = only_finished
        self._held: list[tuple[Callable[[], bytes], bytes]] = []
        self._taken: set[int] = set()
        self._is_looking = False

    def take(self, _: str = "") -> None:
        """Take links of what has none yet."""
        if self._is_looking:
            return
        self._is_looking = True
        for entry in self._disk.list(SPOOL):
            if isinstance(parse(entry), DataFileName):
                file = self._disk.open(SPOOL / entry)  # which holds the file as another name would
                number = id(file._file)
                if number not in self._taken and (not self._only_finished or self._is_finished(SPOOL / entry)):
                    self._taken.add(number)
                    self._held.append((lambda file=file: file.read(file.size(), 0), self._disk.content(SPOOL / entry)))  # type: ignore[misc]
        self._is_looking = False

    def _is_finished(self, path: Path) -> bool:
        with DataFile(self._disk, path) as file:
            return isinstance(file.footer(identity=None), Footer)

    def check(self) -> int:
        """Check that nothing has changed; return how many there are."""
        for found, held in self._held:
            assert found() == held
        return len(self._held)


def test_a_finished_file_never_changes_while_the_database_works() -> None:
    disk = SimulatedDisk()
    links = Links(disk, only_finished=True)
    database = open_unattended(disk)
    disk.before_change = links.take
    workload(Writer(database, Account()), random.Random(1), rounds=60)
    database.close()
    database = open_unattended(disk)
    workload(Writer(database, Account()), random.Random(2), rounds=50)
    links.take()

    assert links.check() > 10


@a_sample(1)
@in_three_sizes
@pytest.mark.parametrize("verb", ["write", "sync", "truncate"])
def test_a_file_that_a_backup_may_have_linked_is_not_cut_where_sealing_it_fails(verb: str, share: Share) -> None:
    taken = failed = 0
    for nth in share.every(9, range(1, 60)):
        disk = SimulatedDisk()
        links = Links(disk, only_finished=True)
        database = open_unattended(disk)
        disk.before_change = links.take
        disk.fail(verb, nth)
        try:
            workload(Writer(database, Account()), random.Random(nth), rounds=25)
            database.close()
        except (JournalError, OSError):
            pass
        links.take()
        taken += links.check()
        failed += bool(disk.failed)
        disk.before_change = lambda _: None
        links.take()
        again = open_unattended(disk.restart())
        assert again.recovery.intact
    assert taken > 6 and failed > 1


@a_sample(4)
@pytest.mark.parametrize("size", range(6000, 11_000, 500))
def test_a_footer_that_makes_its_file_longer_is_not_seen_before_it_is_durable(size: int) -> None:
    disk = SimulatedDisk()
    database = open_unattended(disk)
    links = Links(disk, only_finished=True)
    disk.before_change = links.take
    for nth in range(1, 8):
        disk.fail("sync", nth)
        try:
            database.add("q", bytes(size + nth))  # more than a data file takes: it gets one of its own
            database.add("q", b"in the next one")
            database.maintain()
        except (JournalError, OSError):
            disk.faults.clear()
            links.check()
            disk = disk.restart()
            database = open_unattended(disk)
            links = Links(disk, only_finished=True)
            disk.before_change = links.take
    links.take()
    assert links.check()


def _flip(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _flip_header(data: bytearray, chance: random.Random) -> None:
    for start in chance.sample((0, 512), chance.randint(1, 2)):
        data[start + chance.randrange(256)] ^= 0xFF


def _flip_footer(data: bytearray, chance: random.Random) -> None:
    data[-chance.randint(1, min(len(data), 600))] ^= 0xFF


def _cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def _zero(data: bytearray, chance: random.Random) -> None:
    start = chance.choice((0, 4352, chance.randrange(len(data))))
    data[start:] = bytes(len(data) - start)


def _flip_padding(data: bytearray, _: random.Random) -> None:
    data[300] ^= 1  # between the two copies of the header


DAMAGES = [None, _flip, _flip_header, _flip_footer, _cut, _zero, _flip_padding]


@pytest.mark.whole
@pytest.mark.parametrize("alignment", split([64], [8]))
def test_no_action_of_recovery_changes_a_file_that_was_there(alignment: int) -> None:
    actions: Counter[str] = Counter()
    base = SimulatedDisk()
    database = open_unattended(base, group_alignment=alignment)
    workload(Writer(database, Account()), random.Random(1), rounds=12)
    for seed in range(70):
        chance = random.Random(seed)
        disk = base.restart()
        disk.kill_at = disk.steps + chance.randint(1, 150)
        try:
            again = open_unattended(disk, group_alignment=alignment)
            workload(Writer(again, Account()), chance, rounds=20)
            again.close()
        except Killed:
            pass
        disk = disk.crash(seed)
        for _ in range(chance.randint(0, 2)):
            _damage(disk, chance)
        links = Links(disk, only_finished=False)
        links.take()
        started = open_unattended(disk, group_alignment=alignment)
        actions.update(file.action for file in started.recovery.files)
        started.cleanup(compact=True)
        workload(Writer(started, Account()), chance, rounds=3)
        started.close()
        links.check()

    assert {action.value for action in Action} - {Action.KEEP.value} <= set(actions), actions


def _damage(disk: SimulatedDisk, chance: random.Random) -> None:
    entries = [entry for entry in disk.list(SPOOL) if isinstance(parse(entry), DataFileName)]
    path = SPOOL / (entries[-1] if chance.random() < 0.3 else chance.choice(entries))
    change = chance.choice(DAMAGES)
    data = bytearray(disk.content(path))
    if change is None:
        disk.remove(path)
    elif data:
        change(data, chance)
        disk.put(path, bytes(data))
