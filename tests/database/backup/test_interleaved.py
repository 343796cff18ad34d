"""A backup beside a writer that goes on between any two reads: nothing is damaged, and so nothing is said to be."""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from oms_journal.database.backup.backup import BackupOptions, back_up
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.survey import survey
from oms_journal.recovery.validation import validate_directory
from tests.database.backup.interleaved import ReadInParts, Stepwise
from tests.support.crashes.backup_model import BACKUP, COPIED, LINKED, History, RecordedWriter, backed_up, grown
from tests.support.crashes.crash_model import SPOOL, Account, open_unattended, workload
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import Share, a_sample, in_two_sizes

ROUNDS = 60
SCENES = range(2)
MOMENTS = ["write_durably", "write", "sync", "truncate", "create", "rename", "unlink"]
LOOK_CALLS = 150  # about so many calls a look at a few files takes
WAYS = [pytest.param(COPIED, id="copied"), pytest.param(LINKED, id="linked")]


class _Scene:
    """A database that was killed at its work, and a process that starts it and goes on."""

    def __init__(self, seed: int) -> None:
        self.history, self._account = History(), Account()
        self.chance = random.Random(seed)
        killed = SimulatedDisk()
        grown(killed, self.history, self._account, 15, seed)
        self.disk = killed.restart()
        self.writer = Stepwise(self.disk, self._write)

    def _write(self, disk: Any) -> None:
        database = open_unattended(disk)
        writer = RecordedWriter(database, self._account, self.history)
        workload(writer, random.Random(self.chance.getrandbits(64)), rounds=ROUNDS)

    def seen_at(self, moment: str) -> Iterator[Any]:
        """Yield the disk, whenever the writer is about to do this, as a program sees it while the writer goes on."""
        self.writer.go_to(moment)
        while not self.writer.is_over:
            yield self._read_with(self._goes())
            self.writer.go_to(moment)
        self.writer.finish()

    def _read_with(self, goes: Iterator[int]) -> Any:
        return ReadInParts(self.disk, lambda _: self.writer.go(next(goes)))

    def _goes(self) -> Iterator[int]:
        """Yield how many changes the writer makes before each call of the reader: all before one, or a few often."""
        if self.chance.random() < 0.7:
            yield from [0] * self.chance.randrange(LOOK_CALLS)
            yield self.chance.choice([1, 2, 3, 30])
            yield from itertools.repeat(0)
        often = self.chance.choice([0.02, 0.1])
        while True:
            yield self.chance.randint(1, 3) if self.chance.random() < often else 0


@a_sample(2, more=6)
@in_two_sizes
@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_backup_finds_no_damage_wherever_the_writer_goes_on(
    moment: str, options: BackupOptions, share: Share
) -> None:
    for seed in share.of(SCENES, 1):
        scene = _Scene(seed)
        patient = replace(options, wait=_going(scene.writer))
        backups = []
        for disk in scene.seen_at(moment):
            assert back_up(SPOOL, BACKUP, patient, disk=disk).damage == {}
            backups.append(backed_up(scene.disk))
        for found, state in backups:  # now that the writer has been told of its last commits
            assert found is not None and found.is_complete
            assert state == scene.history.at(found.tail.commit)


def _going(writer: Stepwise) -> Callable[[float], None]:
    return lambda _: writer.go(3)


@a_sample(2, more=3)
@in_two_sizes
@pytest.mark.parametrize("moment", MOMENTS)
def test_validation_finds_no_damage_wherever_the_writer_goes_on(moment: str, share: Share) -> None:
    for seed in share.of(SCENES, 1):
        for disk in _Scene(seed).seen_at(moment):
            reports = validate_directory(SPOOL, disk)
            assert [report for report in reports if report.verdict is Verdict.DAMAGED] == []


@pytest.mark.parametrize("call", range(14))
def test_a_header_that_is_written_while_it_is_read_has_not_rotted(call: int) -> None:
    disk = SimulatedDisk()
    grown(disk, History(), Account(), 4, 1)
    path = survey(disk, SPOOL)[0].path
    content = disk.content(path)
    file = disk.open(path, writable=True)
    file.write(bytes(len(content)), 0)
    calls = itertools.count()
    reading = ReadInParts(disk, lambda _: file.write(content, 0) if next(calls) == call else None)

    found = survey(reading, SPOOL)[0]

    assert found.header is None or not found.is_rotted
