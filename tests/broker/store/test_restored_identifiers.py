"""No identifier is given twice by brokers of one lineage: the original that goes on, and what its backups became."""

from pathlib import Path

import pytest

from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.records import MASTER, MASTER_KEY
from oms_journal.broker.store.changes import Changes, Put
from oms_journal.broker.store.master import RESTORED_STARTS
from oms_journal.broker.store.start import PersistentStore, Pstore
from oms_journal.database.options import Options
from oms_journal.journal.disk import Disk
from oms_journal.journal.format.headers import HEADERS_SIZE
from tests.support.broker.stores import begun
from tests.support.crashes.crash_model import SPOOL
from tests.support.crashes.restored import BACKUP, NEW, backed_up, restored
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import a_sample

OTHER = Path("/other")
STARTS = 20  # of each broker, after they have parted
AHEAD = 50_000_000  # starts, of a store that was moved into its directory from one that had been restored often


def opened(disk: Disk, directory: Path) -> JournalStore:
    return JournalStore.open(directory, Options(max_data_file_size=64 << 10, cleanup_interval=0), disk=disk)


def starts_of(disk: Disk, directory: Path, count: int = STARTS, **named: object) -> set[int]:
    """Return the counts of so many starts: what the identifiers of each begin with."""
    found = set()
    for _ in range(count):
        store = opened(disk, directory)
        found.add(begun(store, **named).master.starts)  # type: ignore[arg-type]
        store.close()
    return found


def advanced(store: PersistentStore, starts: int) -> None:
    """Let the store have been started so often, which is more than its directory was opened."""
    value = store.record(MASTER_KEY)
    assert value is not None
    store.commit(Changes(puts=[Put(MASTER_KEY, MASTER.encode(MASTER.decode(value)._replace(starts=starts)))]))


@pytest.fixture(params=[0, AHEAD], ids=["begun here", "moved here"])
def disk(request: pytest.FixtureRequest) -> SimulatedDisk:
    """Return a disk with the store of a broker that was ended cleanly, and a backup of it."""
    disk = SimulatedDisk()
    starts_of(disk, SPOOL, 3)
    if request.param:
        store = opened(disk, SPOOL)
        advanced(store, request.param)
        store.close()
        starts_of(disk, SPOOL, 1)
    return backed_up(disk)


@pytest.mark.whole
@pytest.mark.parametrize("hold", [False, True], ids=["closed", "held"])
def test_the_original_and_all_that_is_restored_from_it_give_identifiers_of_their_own(
    disk: SimulatedDisk, hold: bool
) -> None:
    before = MASTER.decode(opened_record(disk, SPOOL)).starts
    for seed, directory in enumerate((NEW, OTHER)):
        assert restored(disk, BACKUP, directory, seed=seed, hold=hold).held == 0, "no message waits"

    found = [starts_of(disk, directory) for directory in (SPOOL, NEW, OTHER)]

    assert sum(map(len, found)) == len(set().union(*found)) == 3 * STARTS
    assert all(min(starts) > before + RESTORED_STARTS for starts in found[1:]), (
        "room for what the original goes on with"
    )


def test_a_cold_start_of_a_restored_store_gives_identifiers_of_its_own_too(disk: SimulatedDisk) -> None:
    for seed, directory in enumerate((NEW, OTHER)):
        restored(disk, BACKUP, directory, seed=seed)
    found = [starts_of(disk, directory, 1, pstore=Pstore.COLD, erase="ETB001") for directory in (SPOOL, NEW, OTHER)]
    assert len(set().union(*found)) == 3


def test_a_restored_store_is_counted_on_from_its_first_start(disk: SimulatedDisk) -> None:
    restored(disk)
    (first,) = starts_of(disk, NEW, 1)
    assert starts_of(disk, NEW, 2) == {first + 1, first + 2}


@a_sample(3)
@pytest.mark.parametrize("kept", [0, 1, 2], ids=["the first start", "the second", "the third"])
@pytest.mark.parametrize("is_restored", [False, True], ids=["moved or begun", "restored"])
def test_what_a_start_gave_is_not_given_again_where_damage_has_taken_its_records(
    disk: SimulatedDisk, is_restored: bool, kept: int
) -> None:
    directory = SPOOL
    if is_restored:
        restored(disk)
        directory = NEW
    found = sorted(starts_of(disk, directory, kept))
    for _ in range(3):
        found += starts_of(disk, directory, 1)
        newest = directory / max(name for name in disk.list(directory) if name.endswith(".data"))
        data = disk.content(newest)
        disk.put(newest, data[:HEADERS_SIZE] + bytes(512) + data[HEADERS_SIZE + 512 :])

    assert found == sorted(set(found))


def opened_record(disk: SimulatedDisk, directory: Path) -> bytes:
    store = opened(disk, directory)
    value = store.record(MASTER_KEY)
    store.close()
    assert value is not None
    return value
