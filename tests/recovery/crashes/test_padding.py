"""The zeros at the end of a group, and rot: padding costs nothing, frames that became zeros are told as any others."""

import pytest

from oms_journal.journal.format.headers import FRAMES_AT
from tests.simulation.engine.rot import check_found, hits
from tests.support.crashes.crash_model import SPOOL, Account, open_unattended, state_of
from tests.support.crashes.crash_store import Store
from tests.support.disks.faulty_bytes import SECTOR
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import a_sample

ALIGNMENTS = [64, 512, 4096]


def grouped_store(alignment: int, *, is_closed: bool) -> Store:
    """Return a store of one file, with several commits in each group."""
    disk = SimulatedDisk()
    database = open_unattended(disk, max_data_file_size="64K", group_alignment=alignment)
    for turn in range(6):
        payloads = [bytes([turn + 1]) * size for size in (300, 10, 40, 50 * turn)]
        database._group.commit_many([database._drafting.add("q", payload) for payload in payloads])
    if is_closed:
        database.close()
    return Store({name: data for name, data in disk.contents(SPOOL).items() if any(data)}, Account())


@a_sample(2)
@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_a_sector_of_zeros_costs_the_commits_in_it_and_they_are_told(alignment: int, is_closed: bool) -> None:
    store = grouped_store(alignment, is_closed=is_closed)
    (name,) = store.data_files()
    count = 0
    for start in range(FRAMES_AT // SECTOR * SECTOR, store.frames[-1].end, SECTOR):
        disk = store.disk()
        disk.rot(SPOOL / name, bytes(SECTOR), start)
        hit = hits(store, {name: disk.rotten(SPOOL / name)}, disk.contents(SPOOL))
        check_found(hit, store, open_unattended(disk))
        count += len(hit.lost) + len(hit.told)
    assert count


@a_sample(2)
@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_a_flipped_bit_behind_the_payloads_of_any_group_costs_nothing(alignment: int, is_closed: bool) -> None:
    """Behind the last one too, for which nothing vouches yet."""
    store = grouped_store(alignment, is_closed=is_closed)
    (name,) = store.data_files()
    held = [(max([one.body, *(piece.end for piece in one.pieces)]), one.end) for one in store.frames]
    gaps = [(start, end) for start, end in held if start + 8 <= end]
    assert len(gaps) > 3
    for start, end in gaps:
        for place in {start, (start + end) // 2, end - 1}:
            disk = store.flipped(name, 8 * place)
            with open_unattended(disk) as database:
                assert not database.recovery.lost
                assert state_of(database) == store.state()
            with open_unattended(disk) as database:
                assert database.recovery.intact
