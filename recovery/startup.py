"""The one way into a directory for writing: lock, validate, repair, replay.

    step       what                                          killed in the middle
    lock       become the owner (`journal/lock.py`)          the next opening takes the next number
    validate   judge every file (`validation.py`)            changes nothing
    tidy       remove what an earlier one was still making   is done again
    repair     archive, write anew, rename (`repair.py`)     is done again, with the same result
    replay     build the index                               changes nothing

What the last, unsealed file holds is written again and synced before anyone sees it: after a failed
sync the page cache may show what the disk does not have.

What damage may have brought back: its removal, or a newer version of it, may be among what is lost.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from oms_journal.index.duplicates import WindowBounds
from oms_journal.index.live import Index
from oms_journal.index.table import NUMBER_MAX
from oms_journal.journal import names
from oms_journal.journal.disk import Disk, RealDisk
from oms_journal.journal.errors import DiskError, IsBackup, RecoveryRefused
from oms_journal.journal.files import exists
from oms_journal.journal.format.footer import ranges
from oms_journal.journal.format.headers import Ending, FileHeader
from oms_journal.journal.lock import RENEW_SECONDS, DirectoryLock, Holder, read_witness
from oms_journal.journal.names import ArchiveName, DataFileName, UnfinishedName
from oms_journal.journal.operations import MIB
from oms_journal.journal.reserve import Reserve, reserve_size
from oms_journal.journal.writing.log import Opening
from oms_journal.journal.writing.segment import Sealed
from oms_journal.recovery import findings, place
from oms_journal.recovery import findings as holding
from oms_journal.recovery.bad_blocks import ForgivingDisk
from oms_journal.recovery.continuation import Continuation
from oms_journal.recovery.decision import Action
from oms_journal.recovery.examination import Examination, ranges_of
from oms_journal.recovery.numbering import Counters, NumberFloor, numbers_of_lost
from oms_journal.recovery.repair import Before, Repairer
from oms_journal.recovery.replay import load_duplicates, load_held, load_returned, replay
from oms_journal.recovery.report import FileReport, Loss, RecoveryReport, Suspect, Verdict
from oms_journal.recovery.restoring import OWNERS_APART, Split, refuse_unfinished
from oms_journal.recovery.survey import refuse_newer
from oms_journal.recovery.truncation import truncate_at_first_damage
from oms_journal.recovery.validation import Progress, examine_directory, no_progress

SUSPECTS_MAX = 1000  # ranges of messages listed in a report


def last_damaged_sequence(lost: Iterable[Loss]) -> int:
    """Return the highest sequence of a file that has lost operations which no footer tells; 0 for none.

    Removals may be among them: what is in that file, and before it, is suspect.
    """
    parsed = [names.parse(loss.name) for loss in lost if loss.is_range and not loss.is_remembered]
    return max((name.sequence for name in parsed if isinstance(name, DataFileName)), default=0)


def suspects(index: Index, lost: Iterable[Loss]) -> Iterator[Suspect]:
    """Yield what is live and no newer than a damaged place."""
    reach = last_damaged_sequence(lost)
    if not reach:
        return  # all that is live would be walked, at every start
    older: list[int] = []
    for numbers, places, _ in index.table.batches(None, 0, NUMBER_MAX):
        older += numbers[places <= reach].tolist()
    for first, last in ranges_of(older)[:SUSPECTS_MAX]:
        yield Suspect(kind="message", first=first, last=last)
    for key in index.keyed.keys(b""):
        version = index.keyed.find(key)
        if version is not None and version.sequence <= reach and not key.startswith(b"\0"):
            yield Suspect(kind="key", key=key.decode())


READ_ATTEMPTS = 3  # a read error may pass; damage does not

Policy = Literal["salvage", "truncate", "refuse"]
Validation = Literal["full", "footers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOptions:
    """How a start goes about it."""

    create: bool = False  # also among files of somebody else
    aside: Path | None = None  # where clean-up moves data files to
    policy: Policy = "salvage"
    validation: Validation = "full"
    unreadable_as_damaged: bool = False
    hold_suspects: bool = False  # what damage may have brought back is held, until somebody lets it go
    data_file_bytes_max: int = 25 * MIB
    archives_max: int = 20
    window: WindowBounds = field(default_factory=WindowBounds)
    progress: Progress = no_progress
    seconds: Callable[[], float] = time.perf_counter
    new_identity: Callable[[], bytes] = lambda: uuid.uuid4().bytes
    continuing: Continuation | None = None  # an opening of this process that failed
    passing: Holder | None = None  # an owner that was silent for long enough: it is taken over
    is_shared: bool = False  # with another host
    split: Split | None = None  # a backup was copied into the directory: another database goes on with it
    renew_seconds: float = RENEW_SECONDS

    def claim(self, disk: Disk, directory: Path) -> DirectoryLock:
        """Become the owner; DatabaseLocked, DiskError."""
        return DirectoryLock.acquire(
            disk, directory, passing=self.passing, is_shared=self.is_shared, renew_seconds=self.renew_seconds
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StartResult:
    """A trustworthy directory, and all that is needed to go on with it."""

    ownership: DirectoryLock
    index: Index
    opening: Opening
    report: RecoveryReport
    files: dict[int, FileHeader]  # the data files that are there, by sequence
    sealed: tuple[Sealed, ...]  # the same, as a reader without the lock wants to know them
    # What the next start must keep clear of, where this commits nothing.
    kept: NumberFloor = field(default_factory=NumberFloor)


def start(disk: Disk, directory: Path, options: RecoveryOptions) -> StartResult:
    """Own the directory and make it trustworthy.

    DatabaseLocked when another opening has it, NotADatabase where no new one may be begun, IsBackup, RestoreUnfinished,
    RecoveryRefused when the policy forbids what would be needed, NotThisDatabase and DiskError as their names say,
    CannotContinue where a failed opening was to go on and cannot; then nothing was changed but the owner's number.
    NewerFormat, and not even that was.
    """
    began = options.seconds()
    refuse_backup(disk, directory)
    if options.split is None:
        refuse_unfinished(disk, directory)
    refuse_newer(disk, directory)
    if options.continuing is not None:
        ownership = options.continuing.acquire(disk, directory, options.claim)
    else:
        if not options.create:
            place.check_place(disk, directory, aside=options.aside)
        place.make_directory(disk, directory)
        ownership = options.claim(disk, directory)
    try:
        return _Start(disk, directory, options).run(ownership, began)
    except BaseException:
        ownership.close()
        raise


def refuse_backup(disk: Disk, directory: Path) -> None:
    """Raise IsBackup where the directory has a manifest, be it a bad one. DiskError where that cannot be told."""
    if exists(disk, directory / names.BACKUP):
        raise IsBackup(directory)


def recover(directory: Path | str, options: RecoveryOptions | None = None, *, dry_run: bool = False) -> RecoveryReport:
    """Do what a start does, and let go again. A dry run takes no lock and changes nothing."""
    options = options or RecoveryOptions()
    disk = RealDisk()
    refuse_unfinished(disk, Path(directory))
    if not dry_run:
        started = start(disk, Path(directory), options)
        try:
            findings.handed_over(disk, Path(directory), started.kept)
        finally:
            started.ownership.close()
        return started.report
    began = options.seconds()
    run = _Start(disk, Path(directory), options)
    examined = run.examine()
    index, _ = replay(disk, examined, options.window)
    files = [
        one.report(action=f"would be {one.decision.action.value}" if _needs_repair(one) else "") for one in examined
    ]
    return run.report(index, files, began)


def _needs_repair(examined: Examination) -> bool:
    return examined.decision.action is not Action.KEEP


class _Start:
    """One start, step by step."""

    def __init__(self, disk: Disk, directory: Path, options: RecoveryOptions) -> None:
        self._disk: Disk = ForgivingDisk(disk) if options.unreadable_as_damaged else disk
        self._directory = directory
        self._options = options
        self._notes: list[str] = []
        self._earlier = self._found = findings.EarlierFindings()
        self._reserve = Reserve(self._disk, directory, reserve_size(options.data_file_bytes_max))

    def run(self, ownership: DirectoryLock, began: float) -> StartResult:
        examined = self.examine()
        self._check_policy(examined)
        if self._options.continuing is not None:
            self._options.continuing.check(self._disk, self._directory, examined)
        self._tidy()
        self._intend_to_hold()
        index = Index(self._options.window)
        findings.note(self._disk, self._directory, self._earlier, self._found, self._reserve.release)
        dropped = {one.sequence for one in examined if one.decision.action in (Action.DROP, Action.REMOVE)}
        self._witness_others(ownership, examined, dropped)
        repairer = Repairer(self._disk, self._directory, self._reserve.release)
        split = self._options.split
        counters = Counters(examined, self._found.numbers, self._options.new_identity)
        reports: list[FileReport] = []
        files: dict[int, FileHeader] = {}
        sealed: list[Sealed] = []
        for number, one in enumerate(examined, start=1):
            before = counters.before(index, is_followed=one.named is not None)
            if one.successor[0] in dropped:
                one = replace(one, successor=(0, 0))
            following = examined[number] if number < len(examined) else None
            repaired = repairer.repair(one, before, following)
            if repaired.contents is not None and repaired.header is not None:
                index.replay(repaired.contents, one.sequence)
                limits, ending = ranges(repaired.contents), repaired.ending
                sealed.append(Sealed(one.sequence, ending.identity, ending.end, limits))
                files[one.sequence] = repaired.header
                counters.take(repaired.header, ending, limits.commit[1])
            reports.append(one.report(repaired.action, repaired.archive))
            self._options.progress("replay", number, len(examined))
        self._load_engine_values(index, files)
        if sequence := holding.intended(self._disk, self._directory):
            index.hold_up_to(sequence)
        highest_owner = max((header.owner for header in files.values()), default=0)
        if split is not None:
            ownership.raise_to(max(highest_owner, split.owner) + OWNERS_APART)
        elif ownership.number <= highest_owner:
            # Whoever has had the directory since the newest file was begun had a number below this one.
            ownership.raise_to(highest_owner + OWNERS_APART)
            self._notes.append(
                f"{names.LOCK} was missing or did not say who owns the directory: "
                f"its owners are numbered on from {ownership.number}"
            )
        ahead = counters.before(index, is_followed=False)
        opening = _opening(ownership.number, examined, ahead, files, self._found.numbers.first_sequence)
        if split is None and opening.previous.sequence:
            # All of it is durable, and nothing comes to these files any more: their end is known as after a close.
            ownership.witness_end(opening.witness(opening.previous))
        return StartResult(
            ownership=ownership,
            index=index,
            opening=opening if split is None else _parted(opening, split),
            report=self.report(index, reports, began),
            files=files,
            sealed=tuple(sealed),
            kept=counters.kept(ahead),
        )

    def _witness_others(
        self, ownership: DirectoryLock, examined: Sequence[Examination], dropped: Collection[int]
    ) -> None:
        """Have the lock file say no more that a file must be there which is about to be dropped.

        Its callers were told that all of its commits had failed.
        """
        said = read_witness(self._disk, self._directory)
        if said is None or said.last.sequence not in dropped:
            return
        kept = [one for one in examined if one.sequence not in dropped and one.task.identity is not None]
        last = Ending(sequence=kept[-1].sequence, identity=kept[-1].task.identity or 0) if kept else Ending()
        try:
            ownership.witness(replace(said, owner=ownership.number, last=last))
        except OSError as failure:
            raise DiskError(self._directory / names.LOCK, failure, "write") from failure

    def _tidy(self) -> None:
        """Remove what an earlier process was still building."""
        try:
            unfinished = [e for e in self._disk.list(self._directory) if isinstance(names.parse(e), UnfinishedName)]
            for entry in unfinished:
                self._disk.unlink(self._directory / entry)
            if unfinished:
                self._disk.sync_directory(self._directory)
        except OSError as failure:
            raise DiskError(self._directory, failure, "tidy") from failure

    def examine(self) -> list[Examination]:
        """Judge every file; a read error that passes is not one."""
        full, continuing = self._options.validation == "full", self._options.continuing
        for attempt in range(1, READ_ATTEMPTS + 1):
            try:
                mark = continuing.marked if continuing is not None else None
                earlier = findings.noted(self._disk, self._directory)
                found = examine_directory(self._disk, self._directory, self._options.progress, full=full, mark=mark)
                if self._options.policy == "truncate":
                    found = [truncate_at_first_damage(self._disk, one) for one in found]
                reports = [one.report() for one in found]
                self._earlier, self._found = earlier, earlier.followed_by(reports, numbers_of_lost(found))
                return found
            except DiskError:
                if attempt == READ_ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _check_policy(self, examined: Sequence[Examination]) -> None:
        if self._options.policy != "refuse":
            return
        bad = [one for one in examined if one.decision.verdict is not Verdict.CLEAN]
        if bad:
            what = "; ".join(f"{one.name} is {one.decision.verdict}: {one.reason}" for one in bad)
            raise RecoveryRefused(f"{what} (nothing was changed; recover with another policy)")

    def _intend_to_hold(self) -> None:
        split, reach = self._options.split, last_damaged_sequence(self._found.losses)
        if split is not None and split.holds:
            self._intend(split.sequence)
        elif self._options.hold_suspects and reach:
            self._intend(reach)

    def _intend(self, sequence: int) -> None:
        holding.intend(self._disk, self._directory, sequence, self._reserve.release)

    def _load_engine_values(self, index: Index, files: dict[int, FileHeader]) -> None:
        """Read what clean-up carried forward of the duplicate window, what is held back, and what came back."""
        identities = {sequence: header.identity for sequence, header in files.items()}
        if lost_at := load_duplicates(self._disk, self._directory, index, identities):
            self._notes.append(f"part of the duplicate window is lost: it was in {DataFileName(lost_at)}")
        if lost_at := load_held(self._disk, self._directory, index, identities):
            # Who waits for an operator waits longer, and nothing is handed out twice.
            self._intend(lost_at)
            self._notes.append(
                f"part of what is held back is lost: all that is undelivered up to {DataFileName(lost_at)} is held"
            )

        if lost_at := load_returned(self._disk, self._directory, index, identities):
            self._notes.append(f"how often some messages came back is lost: it was in {DataFileName(lost_at)}")

    def report(self, index: Index, files: Sequence[FileReport], began: float) -> RecoveryReport:
        """Return the report of what was found."""
        archives = [a for a in map(names.parse, self._entries()) if isinstance(a, ArchiveName)]
        if len(archives) > self._options.archives_max:
            self._notes.append(
                f"{len(archives)} archives have piled up in {self._directory}; look at them and move them away"
            )
        if not self._found.is_whole:
            self._notes.append(findings.UNREADABLE)
        files, lost = self._found.told_with(files, archives), self._found.losses
        return RecoveryReport(
            files=tuple(files),
            archives=tuple(file.archive for file in files if file.archive),
            lost=lost,
            suspects=tuple(suspects(index, lost)),
            undelivered=index.table.count,
            seconds=self._options.seconds() - began,
            notes=(*self._notes, *self._strangers()),
        )

    def _entries(self) -> list[str]:
        with contextlib.suppress(OSError):
            return self._disk.list(self._directory)
        return []

    def _strangers(self) -> Iterable[str]:
        for entry in place.others(self._entries(), self._directory, self._options.aside):
            if names.parse(entry) is None:
                yield f"{entry} is not one of the database's files and was left alone"


def _opening(
    owner: int, examined: Sequence[Examination], before: Before, files: dict[int, FileHeader], first_sequence: int
) -> Opening:
    """Return what the opening starts from: behind everything that is, or may have been, there."""
    newest = files[max(files)] if files else None
    known = [one.header.low_water for one in examined if one.header is not None]
    return Opening(
        database=before.database,
        parent=newest.parent if newest is not None else bytes(16),
        parent_sequence=newest.parent_sequence if newest is not None else 0,
        owner=owner,
        next_sequence=max([first_sequence, *(one.sequence + 1 for one in examined)]),
        next_message=before.next_message,
        next_commit=before.next_commit,
        low_water=max([1, *known, *(one.low_water for one in examined)]),
        previous=before.previous,
    )


def _parted(opening: Opening, split: Split) -> Opening:
    """Return what the first opening of a restored database starts from."""
    return replace(
        opening,
        database=split.database,
        parent=split.parent,
        parent_sequence=split.sequence,
        low_water=max(opening.low_water, split.low_water),
        next_sequence=split.next_sequence,
        next_message=max(opening.next_message, split.next_message) + split.jump,
        next_commit=max(opening.next_commit, split.next_commit) + split.jump,
    )
