"""One data file while it is written: what is durable when it is prepared, and when it is sealed."""

from pathlib import Path

import pytest

from oms_journal.journal.format.headers import FileHeader
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.writing.draft import QueueTemplate
from oms_journal.journal.writing.groups import Group, form
from oms_journal.journal.writing.segment import Segment
from oms_journal.journal.writing.single import PlainAdds
from tests.support.disks.faulty_disk import SimulatedDisk

SPOOL = Path("/spool")
PATH = SPOOL / str(DataFileName(3))
HEADER = FileHeader(
    database=bytes(16), identity=5, sequence=3, owner=7, next_message=1, next_commit=1, low_water=1, created=0
)
POWER_CUTS = range(40)


def _prepared(disk: SimulatedDisk) -> Segment:
    disk.make_directory(SPOOL)
    segment = Segment(disk, SPOOL / "prepared")
    segment.prepare(8192)
    return segment


def _written(disk: SimulatedDisk) -> tuple[Segment, Group]:
    """Return a file with its name, and the one group that is in it."""
    segment = _prepared(disk)
    segment.give_name(PATH, 3)
    disk.sync_directory(SPOOL)
    group = form(segment.begin(HEADER), [PlainAdds([QueueTemplate(b"queue", 0)], [b"payload"], 0)], time=1)
    segment.append(group)
    return segment, group


def test_a_group_that_is_written_is_there_after_any_power_cut() -> None:
    disk = SimulatedDisk()
    _, group = _written(disk)
    written = disk.content(PATH)

    for seed in POWER_CUTS:
        assert disk.crash(seed).content(PATH)[: group.end] == written[: group.end], seed


def test_a_sealed_file_has_its_footer_and_its_length_after_any_power_cut() -> None:
    disk = SimulatedDisk()
    segment, group = _written(disk)
    assert segment.seal(group.end, (4, 6)) is not None

    for seed in POWER_CUTS:
        with DataFile(disk.crash(seed), PATH) as file:
            assert isinstance(file.footer(identity=HEADER.identity), Footer), seed


@pytest.mark.parametrize("size", [8192, 16384])
def test_a_file_whose_zeros_could_not_be_synced_is_not_prepared_and_is_not_tried_again(size: int) -> None:
    disk = SimulatedDisk()
    segment = _prepared(disk)
    disk.fail("sync")

    with pytest.raises(OSError, match="Input/output error"):
        segment.prepare(8192 + size)
    assert segment.prepared == 8192
    with pytest.raises(OSError, match="Input/output error"):
        segment.prepare(8192 + size)
    assert disk.syncs_after_failure == []
