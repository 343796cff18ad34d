"""What a start does about damage, as its policy says: the starts of the world "engine" are held to that, exactly.

One that refuses changes nothing and names what is bad; one that truncates gives up a file from its first bad place on.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from oms_journal.journal.errors import RecoveryRefused
from oms_journal.journal.names import LOCK, ArchiveName, parse
from oms_journal.recovery.findings import noted
from oms_journal.recovery.report import RecoveryReport, Verdict
from oms_journal.recovery.validation import examine_directory, no_progress
from tests.simulation.engine.rot import Hit
from tests.simulation.world import PromiseBroken
from tests.support.crashes.crash_model import SPOOL, Unattended
from tests.support.crashes.crash_store import Store
from tests.support.disks.faulty_disk import SimulatedDisk

REFUSED = "a start that refuses changes nothing, and names what is bad and nothing else"
CUT = "a start that truncates gives up all behind a file's first bad place, and keeps what stands before it"
AS_FOUND = "a file that is repaired stays as it was found, in an archive"
REFUSED_BRANCH = "refused by its policy"
CUT_BRANCH = "cut at its first bad place"
HELD_BRANCH = "held as suspect"
Rotten = dict[str, list[tuple[int, int]]]  # data files, and where
Opener = Callable[[SimulatedDisk], Unattended]  # of a disk without that
_NAMED = re.compile(r"(omsmsg-\d{10}\.data) is (torn|damaged): ")


@dataclass(slots=True)
class Untold:
    """What a start was to find that has ended before its caller had the report: the next one tells it."""

    before: SimulatedDisk  # as it was found
    rotten: Rotten
    is_through: bool = False  # all that it had to do was done, and what it had noted for the next one was gone
    policy: str = ""  # of the first one that repairs, and of all that go on with that
    may_hold: bool = False  # one of them was asked to
    must_hold: bool = False  # and had begun to repair
    archives: set[str] = field(default_factory=set)  # when the last one began

    def begin(self, disk: SimulatedDisk, *, holds: bool) -> None:
        """Note that another start begins."""
        self.archives = archives_of(disk)
        self.may_hold |= holds

    def end(self, disk: SimulatedDisk, *, holds: bool) -> None:
        """Note how far a start has come: what it was to hold is noted before the first archive is made."""
        there = archives_of(disk)
        self.must_hold |= holds and there != self.archives
        self.archives = there

    def holding(self, *, holds: bool) -> Sequence[bool]:
        """Return whether what was damaged is held in the end: both where that cannot be told."""
        if self.must_hold or (holds and not self.is_through):
            return (True,)
        return (True, False) if holds or self.may_hold else (False,)


def archives_of(disk: SimulatedDisk) -> set[str]:
    if SPOOL not in disk.directories():
        return set()
    return {name for name in disk.contents(SPOOL) if isinstance(parse(name), ArchiveName)}


def check_refused(
    before: SimulatedDisk, disk: SimulatedDisk, refused: RecoveryRefused, told_as_failed: Collection[str], *, full: bool
) -> None:
    """Check that a start that refused has left all as it was, and names the files that are not clean, and no other.

    Of a file whose last commits were `told_as_failed` only the process knows that they are to be cut.
    """
    if disk.digest(without=LOCK) != before.digest(without=LOCK):
        raise PromiseBroken(f"{REFUSED}\nsomething was changed: {refused}")
    judged = {one.name: one.decision.verdict for one in examine_directory(before, SPOOL, no_progress, full=full)}
    bad = {name: str(verdict) for name, verdict in judged.items() if verdict is not Verdict.CLEAN}
    told = dict(_NAMED.findall(str(refused)))
    others = [{name: verdict for name, verdict in each.items() if name not in told_as_failed} for each in (told, bad)]
    if not told or others[0] != others[1]:
        raise PromiseBroken(f"{REFUSED}\n{refused}\nbad are {bad}")


def check_nothing_repaired(before: SimulatedDisk, report: RecoveryReport) -> None:
    """Check a start that was to refuse, and went on: it tells at most what one that was ended had repaired `before`."""
    told = [replace(file, archive=None) for file in noted(before.restart(), SPOOL).torn]
    bad = [file for file in report.files if file.verdict is not Verdict.CLEAN]
    if mine := [file for file in bad if replace(file, archive=None) not in told]:
        raise PromiseBroken(f"{REFUSED}\nit went on with {mine}")


def check_as_found(before: SimulatedDisk, disk: SimulatedDisk, report: RecoveryReport) -> None:
    """Check that a start which has dropped, cut or rebuilt a file has kept an archive of what it was."""
    files = before.contents(SPOOL)
    told = {file.name for file in noted(before.restart(), SPOOL).torn}
    for file in report.files:
        # What a start that was killed has repaired is told by this one too: that one's archive is of what it had found.
        is_told_again = file.name in told and file.archive in files
        if file.action.startswith("archived") and file.name in files and not is_told_again:
            kept = disk.content(SPOOL / file.archive) if file.archive is not None else None
            if kept != files[file.name]:
                raise PromiseBroken(f"{AS_FOUND}\n{file}")


def cuts(hit: Hit, store: Store, rotten: Collection[str], report: RecoveryReport, *, must_tell: bool) -> Iterator[Hit]:
    """Yield what may be gone where each file is cut at its first bad place.

    A file that is read frame by frame has bytes in it, perhaps, that were known as bad before. Which file was read so
    is told by the report, where that was to tell.
    """
    read = {file.name for file in report.files if file.verdict is Verdict.DAMAGED} | {one.name for one in report.lost}
    yield _cut(hit, store, set(rotten) & read if must_tell else set(rotten))
    if not must_tell:
        yield _cut(hit, store, set())


def _cut(hit: Hit, store: Store, read: Collection[str]) -> Hit:
    lost, damaged, damaged_in, told = [*hit.lost], [*hit.damaged], [*hit.damaged_in], [*hit.told]
    forgotten = [*hit.forgotten]
    for name in store.data_files():
        frames = store.frames_of(name)
        bad = [frame for frame in frames if frame in (*hit.lost, *hit.told, *hit.damaged_in, *hit.kept_in)]
        known = [frame for frame in frames if not frame.is_gap and not all(piece.is_whole for piece in frame.pieces)]
        bad += known if name in read else []
        first = min((frame.offset for frame in bad if frame not in hit.cut), default=None)
        if first is None:
            continue
        gone = [frame for frame in frames if frame.offset >= first and frame not in hit.cut]
        lost = [frame for frame in lost if frame.name != name] + gone
        told = [frame for frame in told if frame.name != name]
        forgotten = [frame for frame in forgotten if frame not in gone]
        damaged_in = [frame for frame in damaged_in if frame.name != name]
        damaged = [piece for piece in damaged if not any(piece in frame.pieces for frame in gone)]
    return Hit(lost, hit.cut, damaged, damaged_in, told, forgotten, is_unclear=hit.is_unclear)
