"""What becomes of the files of a lost database, and of one restored from its backup, when somebody mixes them up."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from oms_journal.journal.errors import NotThisDatabase
from oms_journal.journal.format.manifest import Manifest
from oms_journal.journal.names import DataFileName
from tests.simulation.world import PromiseBroken
from tests.support.crashes.crash_model import SPOOL, Account, State, Unattended, state_of
from tests.support.crashes.crash_store import Store
from tests.support.disks.faulty_disk import SimulatedDisk

APART = "a database is not started on the files of its former or later self"


@dataclass(frozen=True, slots=True)
class Lost:
    """What is left of a database whose machine is gone, and how far its promised numbers went."""

    disk: SimulatedDisk
    highest: int
    identity: bytes  # where a restore had given it one

    def has_gone_on(self, shipped: State, known: Manifest, open_: Callable[[SimulatedDisk], Unattended]) -> bool:
        """Say whether it has done anything after its backup, that can be told from what it holds.

        What a start finds in it counts, and not what was acknowledged: a commit that was on its way when the machine
        went may be in its files, and in the backup.
        """
        if self.identity not in (b"", known.database) or self.highest >= known.next_message:
            return True
        alone = self.disk.restart()
        alone.space = None
        return replace(state_of(open_(alone)), held=shipped.held) != shipped


def check_apart(
    lost: Lost, new: SimulatedDisk, found: State, known: Manifest, open_: Callable[[SimulatedDisk], Unattended]
) -> None:
    """Check that neither directory is started with the other's files in it, unless that is what was restored.

    The lost database's directory may, with the files that the new one has made, just be the new one's: where it had
    not gone on after its backup.
    """
    new_files = _files(new)
    shipped = {str(DataFileName(file.sequence)) for file in known.files}
    own = {name: data for name, data in new_files.items() if name not in shipped}
    mixed = lost.disk.restart()
    for name, data in own.items():
        mixed.put(SPOOL / name, data)
    is_same = _start(mixed, found, open_)
    if is_same and lost.has_gone_on(found, known, open_):
        raise PromiseBroken(f"{APART}\nthe lost one's with {sorted(own)}")
    for name, data in _counted(lost.disk, open_).items():
        if name in new_files:
            continue
        mixed = new.restart()
        mixed.put(SPOOL / name, data)
        if _start(mixed, found, open_):
            raise PromiseBroken(f"{APART}\nthe new one's with {name}")


def _files(disk: SimulatedDisk) -> dict[str, bytes]:
    return {name: data for name, data in disk.contents(SPOOL).items() if name.endswith(".data") and any(data)}


def _counted(disk: SimulatedDisk, open_: Callable[[SimulatedDisk], Unattended]) -> dict[str, bytes]:
    """Return the files that hold what a start finds: not what a former owner wrote too late, nor a repair's gaps."""
    tried = disk.restart()
    tried.space = None
    reports = open_(tried).recovery.files
    there = {report.name for report in reports if report.good_end}
    done = Store({name: data for name, data in _files(tried).items() if name in there}, Account()).frames
    holding = {frame.name for frame in done if frame.pieces or frame.removed or frame.dropped}
    return {name: data for name, data in _files(disk).items() if name in holding}


def _start(disk: SimulatedDisk, expected: State, open_: Callable[[SimulatedDisk], Unattended]) -> bool:
    """Start on a mixture of files; return whether it is taken for the new database, and is just that."""
    try:
        found = open_(disk)
    except NotThisDatabase:
        return False
    if state_of(found) != expected:
        raise PromiseBroken(f"{APART}\nit was started, with {state_of(found)}\nand not {expected}")
    return True
