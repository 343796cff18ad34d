"""What a database has that a backup needs, at one moment: read without its lock, while another process may write.

The moment is the end of the last frame that is vouched for. Where clean-up has removed a file that only the mark in
the last group lets go of, the file's absence vouches for that group: clean-up waits until its mark is durable. What
was carried forward of the removed files stands beside that mark, and nowhere else.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, FormatError, JournalError, NewerFormat
from oms_journal.journal.format.contents import Contents
from oms_journal.journal.format.footer import ranges
from oms_journal.journal.format.frames import GAP, joined_checksums
from oms_journal.journal.format.headers import FRAMES_AT, Ending, FileHeader, xxh3
from oms_journal.journal.format.manifest import Manifest
from oms_journal.journal.lock import Holder, read_holder
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.walk import good_frames
from oms_journal.recovery.bad_blocks import ForgivingDisk
from oms_journal.recovery.decision import Action
from oms_journal.recovery.examination import Examination, read_contents
from oms_journal.recovery.repair import stand_in_identity
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.survey import Candidate, survey
from oms_journal.recovery.validation import FASTER, LOOKS_MAX, as_followed, examine, has_gone_since


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToBackUp:
    """One data file that a backup needs. Sizes in bytes."""

    task: Candidate
    identity: int
    size: int  # how much of the file is needed
    is_sealed: bool  # all of it is, and it will never change
    ending: Ending | None  # how it ends, where that is known
    damage: str = ""  # what is wrong with it; "" for a file that is whole

    @property
    def sequence(self) -> int:
        return self.task.sequence

    @property
    def name(self) -> str:
        return self.task.path.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A database at the moment at which it was looked at."""

    files: tuple[FileToBackUp, ...]
    header: FileHeader  # of the newest file with frames
    tail: Ending  # how that file ends
    low_water: int
    next_message: int
    owner: int
    was_closed: bool  # cleanly, and nobody has opened it since
    is_open: bool  # a process has it
    unvouched: int = 0  # commits behind the end that nothing vouches for yet
    lost: tuple[str, ...] = ()  # data files that should be there
    holds_key: bool = False  # one of the files that were read for the first time has the key that was asked for

    @property
    def damage(self) -> dict[str, str]:
        """What is wrong, by the name of the file."""
        lost = dict.fromkeys(self.lost, "the file is missing, and another one names it")
        return {**lost, **{file.name: file.damage for file in self.files if file.damage}}


class SnapshotReader:
    """Looks at one database, again and again; what was found sealed and whole is not read a second time."""

    def __init__(self, disk: Disk, directory: Path, key: bytes = b"") -> None:
        self.disk: Disk = ForgivingDisk(disk)  # what cannot be read is damaged, and no reason to have no backup
        self.directory = directory
        self._key = key
        self._known: dict[int, Examination] = {}

    def snapshot(self) -> Snapshot | None:
        """Return what is there, None where no commit is vouched for. DiskError, NotThisDatabase, NewerFormat."""
        before = self._holder()
        for _ in range(LOOKS_MAX):
            try:
                tasks = survey(self.disk, self.directory)
                found = [self._examine(task) for task in tasks]
                found = self._with_marks(as_followed(self.disk, tasks, found, full=False))
                if not any(one.decision.row == "missing" and one.task.is_listed for one in found):
                    return self._snapshot(found, before)
            except DiskError as failure:
                if not has_gone_since(failure, self.directory):
                    raise
            except FileNotFoundError:
                pass  # clean-up was faster
            except OSError as failure:
                raise DiskError(self.directory, failure, "back up") from failure
            except NewerFormat:
                raise
            except FormatError:
                self._known.clear()  # a file was replaced between two looks at it
        raise DiskError(self.directory, OSError(FASTER), "back up")

    def has(self, snapshot: Snapshot, known: Manifest) -> bool:
        """Say whether the database's history has the last commit of a backup, as far as its files can tell.

        Where clean-up has removed all files up to that commit, and more behind it, the oldest one that is left must at
        least be a later one: behind that commit, and of no earlier opening. DiskError.
        """
        tail = known.tail
        first = next((file for file in snapshot.files if file.sequence >= tail.sequence and file.task.header), None)
        if first is None or first.task.header is None:
            return False
        header, previous = first.task.header, first.task.header.previous
        if first.sequence == tail.sequence:
            return first.ending == tail or self._holds(first, header, known)
        if previous.sequence > tail.sequence:
            return previous.commit > tail.commit and header.owner >= known.owner
        is_behind = (previous.identity, True) == (tail.identity, previous.end >= tail.end)
        return is_behind and (previous == tail or previous.end > tail.end)

    def _holds(self, wanted: FileToBackUp, header: FileHeader, known: Manifest) -> bool:
        """Say whether a file has the last commit of a backup: the same bytes, or frames, or what a repair has left."""
        tail, entry = known.tail, known.file(known.tail.sequence)
        if header.identity not in (tail.identity, stand_in_identity(header.database, header.sequence)):
            return False
        try:
            with DataFile(self.disk, wanted.task.path) as file:
                if entry is not None and file.size() >= entry.size and file.checksum(entry.size) == entry.checksum:
                    return True
                frames = good_frames(file.bytes(tail.end), 0, header, FRAMES_AT)
        except OSError as failure:
            raise DiskError(wanted.task.path, failure, "read") from failure
        if frames and (frames[-1].end, xxh3(joined_checksums(frames))) == (tail.end, tail.chain):
            return True
        is_repaired = wanted.damage or header.identity != tail.identity or any(frame.flags & GAP for frame in frames)
        return bool(is_repaired) and (wanted.ending.end if wanted.ending is not None else wanted.size) >= tail.end

    def is_open(self) -> bool:
        """Say whether a process has the database, as far as can be told."""
        holder = self._holder()
        return holder is None or holder.is_open

    def _holder(self) -> Holder | None:
        try:
            return read_holder(self.disk, self.directory)
        except JournalError:
            return None

    def _examine(self, task: Candidate) -> Examination:
        known = self._known.get(task.sequence)
        if known is not None and known.header == task.header and task.named in (None, known.named):
            with contextlib.suppress(OSError):
                if self.disk.size(task.path) == known.size:
                    return known
        return examine(self.disk, replace(task, vouched_only=True), full=False)

    def _with_marks(self, found: Sequence[Examination]) -> list[Examination]:
        """Return the files, with a last group that nothing vouches for where clean-up has acted on the mark in it."""
        missing = [one.sequence for one in found if one.decision.row == "missing"]
        result = list(found)
        for place, one in enumerate(found):
            if missing and one.sequence > missing[0] and one.cut_frames:
                whole = examine(self.disk, replace(one.task, vouched_only=False), full=False)
                if whole.low_water > missing[0]:
                    result[place] = whole
        return result

    def _snapshot(self, found: Sequence[Examination], before: Holder | None) -> Snapshot | None:
        headers = [one.header for one in found if one.header is not None]
        low_water = max([1, *(one.low_water for one in found), *(header.low_water for header in headers)])
        kept = [one for one in found if one.decision.action not in (Action.REMOVE, Action.DROP)]
        kept = [one for one in kept if one.sequence >= low_water]
        with_frames = [one for one in kept if one.decision.action is not Action.ENTOMB and one.header is not None]
        if not with_frames:
            return None
        tail = with_frames[-1]
        contents, ending = self._ending(tail)
        missing = [one for one in kept if one.decision.row == "missing"]
        holder = self._holder()
        files = tuple(
            _wanted(self.disk, one, ending if one is tail else one.named) for one in kept if one not in missing
        )
        new = [one for one in kept if one.sequence not in self._known and one not in missing]
        self._known = {one.sequence: one for one in kept if one.decision.action is Action.KEEP}
        is_at_rest = holder is not None and not holder.is_open and before is not None and before.number == holder.number
        is_whole = not missing and not any(file.damage for file in files) and not self._is_to_hold()
        assert tail.header is not None
        return Snapshot(
            files=files,
            header=tail.header,
            tail=ending,
            low_water=low_water,
            next_message=max(tail.header.next_message, ranges(contents).added[1] + 1),
            owner=max([holder.number if holder is not None else 0, *(one.owner for one in kept)]),
            was_closed=is_at_rest and is_whole and tail.decision.action is Action.KEEP and not tail.successor[0],
            is_open=holder is None or holder.is_open,
            unvouched=sum(one.cut_commits for one in found if one.sequence >= tail.sequence),
            lost=tuple(one.name for one in missing),
            holds_key=any(self._holds_key(one) for one in new),
        )

    def _ending(self, tail: Examination) -> tuple[Contents, Ending]:
        contents = read_contents(self.disk, tail)
        assert contents is not None and tail.header is not None
        return contents, replace(contents.ending(tail.header), sequence=tail.sequence, end=tail.end)

    def _is_to_hold(self) -> bool:
        """Say whether a start was killed before it held what damage may have brought back."""
        return names.HOLD in self.disk.list(self.directory)

    def _holds_key(self, examined: Examination) -> bool:
        contents = read_contents(self.disk, examined) if self._key else None
        return contents is not None and contents.value_head(self._key) is not None


def _wanted(disk: Disk, examined: Examination, ending: Ending | None) -> FileToBackUp:
    """Return what of a file is needed: a damaged one as it is, for its recovery to make the best of it."""
    action = examined.decision.action
    is_sealed = action is Action.KEEP or (action is Action.REBUILD and _has_footer(disk, examined))
    return FileToBackUp(
        task=examined.task,
        identity=examined.task.identity or 0,
        size=examined.size if is_sealed or action is Action.ENTOMB else examined.end,
        is_sealed=is_sealed,
        ending=ending,
        damage=examined.reason if examined.decision.verdict is Verdict.DAMAGED else "",
    )


def _has_footer(disk: Disk, examined: Examination) -> bool:
    with DataFile(disk, examined.path) as file:
        return isinstance(file.footer(identity=None), Footer)
