"""Data files that are not what their names say: one is gone, a copy stands under the next name or in another's place.

Somebody's hand, or a restore of half a directory, does this while no process has the database. What must be found
then is what the files that are there add up to, read by themselves; and each such file is reported by its row.
"""

from dataclasses import dataclass

from oms_journal.journal.errors import DiskError, NotThisDatabase
from oms_journal.journal.names import DataFileName, parse
from oms_journal.journal.operations import LOW_WATER_KEY
from tests.simulation.engine.ended import ANYWHERE, NUMBERED, check_ended_anywhere
from tests.simulation.engine.held import HELD, LISTED, listed
from tests.simulation.engine.rot import (
    ONLY,
    REBUILT,
    REPORTED,
    Hit,
    check_found,
    check_rebuilt,
    is_named,
    read_store,
)
from tests.simulation.engine.start import Starts
from tests.simulation.engine.steps import Add, Misplace
from tests.simulation.world import PromiseBroken
from tests.support.crashes.crash_model import SPOOL, Unattended, state_of
from tests.support.disks.faulty_bytes import SECTOR
from tests.support.disks.faulty_disk import SimulatedDisk

WAITED = "what cannot be read for a while is not given up"
REFUSED = "a copy under another file's name is refused, and nothing is changed"
TOLD = "a file that is not what its name says is told by its row"


@dataclass(slots=True)
class Misplacing(Starts):
    """The world of one script, and whose hands are in its directory."""

    def _misplace(self, step: Misplace) -> None:
        """Close the database, change what is in the directory, and start again; not while anything else is wrong."""
        if self.is_rotten or self.disk.space is not None:
            return
        self.armed = None
        self.former = None
        self.disk = self.disk.restart()  # without what was to go wrong
        self.database = None
        database = self._opened()
        database.close()
        self.database = None
        match step.what:
            case "gone" | "emptied":
                self._lose(step)
            case "copied":
                self._copy()
            case "exchanged":
                self._exchange(step)
            case "hidden":
                self._hide(step.file)
            case _:
                raise TypeError(f"nothing that is done to a file: {step!r}")

    def _sequences(self) -> list[int]:
        """Return the data files that hold something, in the order of writing."""
        names = [name for name, data in self.disk.contents(SPOOL).items() if any(data)]
        return [name.sequence for name in map(parse, names) if isinstance(name, DataFileName)]

    def _lose(self, step: Misplace) -> None:
        """Remove or empty a file that another one names: a later one, or the one before it."""
        there = self._sequences()
        before = self.disk.restart()
        files = before.restart()
        base = self._open(before)
        store = read_store(files, base.recovery.files)
        if len(there) < 2:
            return
        name = str(DataFileName(there[step.file % len(there)]))
        is_newest = name == store.newest()
        if is_newest and not is_named(store, name, {}):
            return  # nobody can know that it was there
        is_gone = step.what == "gone"
        is_needed = any(report.name == name for report in base.recovery.files)
        if is_gone:
            self.disk.remove(SPOOL / name)
        else:
            self.disk.put(SPOOL / name, bytes(step.file % 2 * len(files.content(SPOOL / name))))
        self.faults.append(("missing file" if is_gone else "emptied file", "idle"))
        for promise in (ANYWHERE, NUMBERED):
            self.seen.checked[promise] += 1
        check_ended_anywhere(self.disk, self._open, self._open, step.file, self.account.highest)
        found = self._open_own()
        if not is_needed:  # below the low-water mark: a clean-up was to remove it, and came to its end before that
            self._check_told(found, name, None)
            self.database = found
            self._check_start(found)
            return
        self._check_told(found, name, "missing" if is_gone else "emptied")
        hit = Hit(lost=store.frames_of(name))
        is_mark_lost = any(piece.key == LOW_WATER_KEY.decode() for frame in hit.lost for piece in frame.pieces)
        is_known = not is_newest and not is_mark_lost  # nobody knows how long the newest one was
        if is_known:
            for promise in (ONLY, REPORTED, LISTED, HELD):
                self.seen.checked[promise] += 1
            check_found(hit, store, found, is_held=(found.options.hold_suspects,))
        self._go_on_with(found, is_told=is_known)

    def _copy(self) -> None:
        """Have the newest file a second time, under the name that comes next: refused until it is moved away."""
        there = self._sequences()
        if not there:
            return
        path = SPOOL / str(DataFileName(there[-1] + 1))
        copied = self.disk.restart()
        copied.put(path, self.disk.content(SPOOL / str(DataFileName(there[-1]))))
        before = _data_files(copied)
        self.faults.append(("copy of a file", "idle"))
        self.seen.checked[REFUSED] += 1
        try:
            self._open(copied)
        except NotThisDatabase:
            if _data_files(copied) != before:
                raise PromiseBroken(f"{REFUSED}\n{path.name}: files changed") from None
        else:
            raise PromiseBroken(f"{REFUSED}\n{path.name} was taken")
        self._opened()

    def _exchange(self, step: Misplace) -> None:
        """Put a file of a copy that went on by itself in the place of the one that has its name."""
        disk = self.disk.restart()
        other = self._open(disk)
        other.add("qx", bytes(16))  # as long as what is added here; the queues of the script may be full
        other.close()
        for seed in range(2):
            self.callers.add(self._opened(), Add(0, 16, step.file + seed))
            self._close_for_exchange()
        theirs = disk.contents(SPOOL)
        shared = [name for name in theirs if name.endswith(".data") and any(theirs[name])]
        name = shared[-1]
        if name not in self.disk.contents(SPOOL) or name == str(DataFileName(self._sequences()[-1])):
            return
        self.disk.put(SPOOL / name, theirs[name])
        files = self.disk.restart()
        self.faults.append(("another copy's file", "idle"))
        found = self._open_own()
        self._check_told(found, name, "other ending")
        self.seen.checked[REBUILT] += 1
        check_rebuilt(files, found.recovery.files, state_of(found), with_held=not found.options.hold_suspects)
        self._go_on_with(found, is_told=False)

    def _hide(self, place: int) -> None:
        """Let a sector be one that cannot be read for a while: a start is refused, or does without; nothing is lost."""
        there = self._sequences()
        if not there:
            return
        path = SPOOL / str(DataFileName(there[place % len(there)]))
        hidden = self.disk.restart()
        start = place * SECTOR % len(hidden.content(path))
        hidden.make_unreadable(path, start, start + SECTOR)
        self.faults.append(("unreadable sector", "idle"))
        self.seen.checked[WAITED] += 1
        try:
            found = self._open(hidden)
        except DiskError:
            changed = [name for name, data in _data_files(self.disk).items() if _data_files(hidden).get(name) != data]
            if changed:
                raise PromiseBroken(f"{WAITED}\n{changed} changed") from None
        else:
            if found.recovery.lost or found.recovery.archives:
                raise PromiseBroken(f"{WAITED}\n{found.recovery}")
        self._opened()

    def _close_for_exchange(self) -> None:
        assert self.database is not None
        self.database.close()
        self.database = None

    def _check_told(self, found: Unattended, name: str, row: str | None) -> None:
        """Check that the start reports the file under this row; where None is said, that it speaks of no such file."""
        self.seen.checked[TOLD] += 1
        rows = {report.name: report.row for report in found.recovery.files}
        if rows.get(name) != row:
            raise PromiseBroken(f"{TOLD}\n{name} is not {row!r}: {found.recovery}")

    def _go_on_with(self, found: Unattended, *, is_told: bool) -> None:
        """Take what is there in spite of the damage for what is promised from now on."""
        self.database = found
        self.callers.taken.clear()
        self.account.pending = []
        if not is_told:
            self._check_as_told(found, listed(found), frozenset())
        self._take_damaged(found)


def _data_files(disk: SimulatedDisk) -> dict[str, bytes]:
    return {name: data for name, data in disk.contents(SPOOL).items() if name.endswith(".data")}
