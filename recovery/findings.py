"""What a start has found lost or torn: noted before its first repair, kept until its report was handed over.

A repaired file is clean for the next start. So that a start that fails, or is killed, after a repair is not the end
of what it found, `omsmsg.found` says it meanwhile, and the next start tells it again. A file that was dropped tells
no more how far its numbers went: that stays noted until another file begins behind them.

The intention to hold back what damage may have brought back: written before the repair, kept until it is done.

A repaired file is clean for the next start. So that a start that is killed between the repair and the
commit that holds the messages is not the end of it, `omsmsg.hold` says from before the first repair
until that commit is durable: hold what is undelivered in the data files up to this sequence.
"""

import contextlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, FormatError
from oms_journal.journal.files import MakeRoom, exists, put_in_place, read_whole
from oms_journal.journal.format.headers import CHECKSUM, xxh3
from oms_journal.journal.names import ArchiveName
from oms_journal.journal.reading import note as notes
from oms_journal.journal.reserve import NO_SPACE
from oms_journal.recovery.numbering import NUMBER_JUMP_BLIND, NumberFloor
from oms_journal.recovery.report import FileReport, Loss, Verdict

UNREADABLE = f"{names.FOUND} cannot be read: what an interrupted start had found is told by the archives only"


@dataclass(frozen=True, slots=True)
class EarlierFindings:
    """What interrupted starts have found; not `is_whole` where a note of theirs could not be read any more."""

    losses: tuple[Loss, ...] = ()
    torn: tuple[FileReport, ...] = ()
    numbers: NumberFloor = field(default_factory=NumberFloor)
    is_whole: bool = True

    @property
    def tells(self) -> bool:
        """Whether there is anything to tell, and not only numbers to keep clear of."""
        return bool(self.losses or self.torn or not self.is_whole)

    def followed_by(self, files: Sequence[FileReport], numbers: NumberFloor) -> "EarlierFindings":
        """Return this with what is found now; what of it is found again is told as it is now."""
        losses = together([loss for file in files for loss in file.losses], self.losses)
        torn = [file for file in files if file.verdict is Verdict.TORN]
        bad = {file.sequence for file in files if file.verdict is not Verdict.CLEAN}
        torn += [file for file in self.torn if file.sequence not in bad]
        return EarlierFindings(losses, tuple(torn), self.numbers.joined(numbers), self.is_whole)

    def told_with(self, files: Sequence[FileReport], archives: Sequence[ArchiveName]) -> list[FileReport]:
        """Return the files with the verdict on those that an interrupted start has cut or removed as torn."""
        told = {file.sequence: file for file in files}
        for torn in self.torn:
            if torn.sequence not in told or told[torn.sequence].verdict is Verdict.CLEAN:
                made = max((name for name in archives if name.sequence == torn.sequence), default=None)
                told[torn.sequence] = replace(torn, archive=None if made is None else str(made))
        return [told[sequence] for sequence in sorted(told)]


def note(disk: Disk, directory: Path, earlier: EarlierFindings, found: EarlierFindings, make_room: MakeRoom) -> None:
    """Note, durably, what is about to be repaired; what was noted `earlier` is part of it. DiskError.

    What is only torn is no reason not to start: where there is no room for it, this start is the one that tells it.
    """
    if found == earlier:
        return
    path, data = directory / names.FOUND, _encode(found)
    try:
        put_in_place(disk, path, data, durably=True, make_room=make_room)
    except OSError as failure:
        if failure.errno not in NO_SPACE or found.losses != earlier.losses:
            raise DiskError(path, failure, "write") from failure


def _encode(found: EarlierFindings) -> bytes:
    said = {
        "lost": [loss.as_dict() for loss in found.losses],
        "torn": [file.as_dict() for file in found.torn],
        "numbers": found.numbers._asdict(),
        "is_whole": found.is_whole,
    }
    return notes.encode(said)


def noted(disk: Disk, directory: Path) -> EarlierFindings:
    """Return what interrupted starts have noted. DiskError."""
    said = notes.read(disk, directory)
    if said is None:
        return EarlierFindings()
    # It may have told numbers to keep clear of.
    unreadable = EarlierFindings(numbers=NumberFloor(jump=NUMBER_JUMP_BLIND), is_whole=False)
    try:
        return EarlierFindings(
            losses=tuple(Loss.of(loss) for loss in said["lost"]),
            torn=tuple(FileReport.of(file) for file in said["torn"]),
            numbers=NumberFloor(**{name: int(number) for name, number in dict(said["numbers"]).items()}),
            is_whole=bool(said["is_whole"]),
        )
    except (ValueError, TypeError, KeyError):
        return unreadable


def together(found: Iterable[Loss], earlier: Iterable[Loss]) -> tuple[Loss, ...]:
    """Return what is found now, and of what was found earlier that of which nothing is found again."""
    now = tuple(found)
    return (*now, *(loss for loss in earlier if not any(_is_same(loss, other) for other in now)))


def _is_same(one: Loss, other: Loss) -> bool:
    is_near = one.start == other.start or (one.start < other.end and other.start < one.end)
    return one.name == other.name and is_near


def handed_over(disk: Disk, directory: Path, kept: NumberFloor) -> None:
    """Forget what was noted: somebody has the report, or will have it at once. Let it be the last that a start does.

    Where numbers are to be `kept` clear of, which no file tells, the note of them stays. DiskError where all of the
    note is still there. Where it may only not be gone durably, the report is what counts: after a power cut that brings
    the note back, the next start tells it again.
    """
    path = directory / names.FOUND
    if kept != NumberFloor():
        try:
            put_in_place(disk, path, _encode(EarlierFindings(numbers=kept)), durably=True)
        except OSError as failure:
            raise DiskError(path, failure, "write") from failure
        return
    if not exists(disk, path):
        return
    try:
        disk.unlink(path)
    except OSError as failure:
        raise DiskError(path, failure, "remove") from failure
    with contextlib.suppress(OSError):
        disk.sync_directory(directory)


_INTENTION = struct.Struct("<Q")  # the sequence; its checksum follows


def intend(disk: Disk, directory: Path, sequence: int, make_room: MakeRoom = lambda _: False) -> None:
    """Note, durably, what is to be held; an earlier intention that goes further stays. DiskError, FormatError."""
    wanted = max(sequence, intended(disk, directory))
    data = _INTENTION.pack(wanted)
    path = directory / names.HOLD
    try:
        put_in_place(disk, path, data + CHECKSUM.pack(xxh3(data)), durably=True, make_room=make_room)
    except OSError as failure:
        raise DiskError(path, failure, "write") from failure


def intended(disk: Disk, directory: Path) -> int:
    """Return the highest sequence of what is to be held, 0 for nothing. DiskError, FormatError."""
    path = directory / names.HOLD
    data = read_whole(disk, path)
    if data is None:
        return 0
    said = data[: _INTENTION.size]
    if data[len(said) :] != CHECKSUM.pack(xxh3(said)):
        raise FormatError(path, 0, "its checksum does not match; remove it to go on without holding anything")
    return int(_INTENTION.unpack(said)[0])


def done(disk: Disk, directory: Path) -> None:
    """Forget the intention: what it says is durable."""
    path = directory / names.HOLD
    try:
        disk.unlink(path)
        disk.sync_directory(directory)
    except FileNotFoundError:
        return
    except OSError as failure:
        raise DiskError(path, failure, "remove") from failure
