"""What a database may keep: files that are needed, memory of what is there; and what it has moved away."""

from pathlib import Path

from oms_journal.database.commits.limited import LimitedLedger
from oms_journal.journal.lock import read_witness
from oms_journal.journal.names import DataFileName, parse
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.validation import validate_directory
from tests.simulation.world import PromiseBroken
from tests.support.crashes.crash_model import Unattended
from tests.support.disks.faulty_disk import SimulatedDisk

NEEDED = "the oldest file is needed, once clean-up is through"
BOUNDED = "memory holds what is there, and nothing of what was"
WITNESSED = "the lock file names the newest file that anything was answered from"
KEPT = "what was moved away is a whole file that can be read"


def check_files(disk: SimulatedDisk, database: Unattended, active: int) -> None:
    """Check, after a clean-up without a fault, that no file older than the active one it began with could still go."""
    explained = database.explain()
    if explained and not explained[0].needed and explained[0].sequence < active:
        raise PromiseBroken(f"{NEEDED}\n{explained[0]}")
    lowest = database._journal.low_water
    names = map(parse, disk.list(database.directory))
    left = [name for name in names if isinstance(name, DataFileName) and name.sequence < lowest]
    if left:
        raise PromiseBroken(f"{NEEDED}\n{left} are below the low-water mark {lowest}")


def check_memory(database: Unattended, taken: int) -> None:
    """Check, between two commits, that nothing is kept of those that are through."""
    ledger, options = database._ledger, database.options
    kept = {
        "claims": len(ledger._claims.few) + len(ledger._claims.many),
        "keys on their way": len(ledger._keys),
        "identifiers on their way": len(ledger._scopes),
        "shared": len(ledger.sharing),
        "queued": len(database._group._queue),
        "taken": max(0, len(database._consumers.taken) - taken),
        "rooms": len(ledger.limits._rooms) if isinstance(ledger, LimitedLedger) else 0,
        "window": max(0, len(ledger.index.duplicates) - options.duplicate_count),
    }
    if any(kept.values()):
        raise PromiseBroken(f"{BOUNDED}\n{kept}")


def check_witnessed(disk: SimulatedDisk, database: Unattended) -> None:
    """Check, between two commits, that the file being written would be missed.

    Not where a former owner, which stood still while it closed, has written its own witness over a later one's.
    """
    segment, witness = database._journal._active, read_witness(disk, database.directory)
    if segment is None or not segment.is_begun:
        return
    is_overwritten = witness is not None and witness.owner < database._ownership.number
    if not is_overwritten and (witness is None or witness.last.sequence != segment.sequence):
        raise PromiseBroken(f"{WITNESSED}\n{segment.sequence} is not {witness}")


def check_kept(disk: SimulatedDisk, home: Path) -> None:
    """Check the files that clean-up has moved away, as they were written: rot goes with its file."""
    for directory in disk.directories():
        if directory.parent != home:
            continue
        with disk.as_written():
            reports = validate_directory(directory, disk)
        bad = [report for report in reports if report.verdict is not Verdict.CLEAN and report.row != "missing"]
        if bad:
            raise PromiseBroken(f"{KEPT}\n{bad}")
