"""What a start found and did, as values: for the log, for `oms recover`, for a program."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """What state a data file is in."""

    CLEAN = "clean"
    TORN = "torn"  # a write was interrupted that nobody was told is safe
    DAMAGED = "damaged"  # something that was promised is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A range of promised bytes that are gone, and what is known of what they held.

    Where that is not known exactly, the numbers are those that may have been added there; what clean-up had moved there
    has lower numbers, which nobody else tells.
    """

    name: str
    start: int
    end: int
    reason: str
    numbers: tuple[tuple[int, int], ...] = ()  # ranges, both ends included, of messages that may be lost
    queues: tuple[str, ...] = ()
    is_exact: bool = False  # numbers and queues come from the file's own footer
    is_remembered: bool = False  # what was done there is kept, by the footer: only bytes are gone

    @property
    def is_range(self) -> bool:
        """Whether whole operations are lost, removals perhaps among them, and not one payload."""
        return self.start != self.end

    @classmethod
    def of(cls, said: dict[str, Any]) -> "Loss":
        """Return what `as_dict` had said. KeyError, TypeError, ValueError for anything else."""
        return cls(
            name=str(said["name"]),
            start=int(said["start"]),
            end=int(said["end"]),
            reason=str(said["reason"]),
            numbers=tuple((int(first), int(last)) for first, last in said["numbers"]),
            queues=tuple(map(str, said["queues"])),
            is_exact=bool(said["exact"]),
            is_remembered=bool(said["remembered"]),
        )

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "start": self.start,
            "end": self.end,
            "reason": self.reason,
            "numbers": [list(pair) for pair in self.numbers],
            "queues": list(self.queues),
            "exact": self.is_exact,
            "remembered": self.is_remembered,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """What damage may have brought back: its removal, or a newer version, may be among what is lost."""

    kind: str  # "message" or "key"
    first: int = 0
    last: int = 0
    key: str = ""

    def as_dict(self) -> dict[str, object]:
        if self.kind == "key":
            return {"kind": "key", "key": self.key}
        return {"kind": "message", "first": self.first, "last": self.last}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A message or value whose bytes are not those that its checksum is of, or a commit that cannot be understood."""

    kind: str  # "message", "key" or "commit"
    file: str
    offset: int  # of its frame
    number: int = 0  # of the message
    name: str = ""  # queue or key
    reason: str = ""

    def as_dict(self) -> dict[str, object]:
        place = {"file": self.file, "offset": self.offset, "reason": self.reason}
        if self.kind == "message":
            return {"kind": self.kind, "number": self.number, "queue": self.name, **place}
        return {"kind": self.kind, **({"key": self.name} if self.kind == "key" else {}), **place}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """The verdict on one data file. Offsets and sizes in bytes."""

    name: str
    sequence: int
    verdict: Verdict
    row: str  # of the decision table in `recovery/decision.py`
    good_end: int
    size: int
    reason: str = ""
    action: str = ""
    archive: str | None = None
    losses: tuple[Loss, ...] = ()
    maybe_acknowledged: int = 0  # good frames behind a torn place, cut with it
    unreadable: tuple[Unreadable, ...] = ()  # the first ones, where payloads were looked at
    unreadable_count: int = 0

    @classmethod
    def of(cls, said: dict[str, Any]) -> "FileReport":
        """Return what `as_dict` had said, without the losses. KeyError, TypeError, ValueError for anything else."""
        return cls(
            name=str(said["name"]),
            sequence=int(said["sequence"]),
            verdict=Verdict(said["verdict"]),
            row=str(said["row"]),
            good_end=int(said["good_end"]),
            size=int(said["size"]),
            reason=str(said["reason"]),
            action=str(said["action"]),
            archive=None if said["archive"] is None else str(said["archive"]),
            maybe_acknowledged=int(said["maybe_acknowledged"]),
        )

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "sequence": self.sequence,
            "verdict": str(self.verdict),
            "row": self.row,
            "good_end": self.good_end,
            "size": self.size,
            "reason": self.reason,
            "action": self.action,
            "archive": self.archive,
            "maybe_acknowledged": self.maybe_acknowledged,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What one start found and did."""

    files: tuple[FileReport, ...] = ()
    archives: tuple[str, ...] = ()  # made by this start
    lost: tuple[Loss, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    undelivered: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def intact(self) -> bool:
        """Whether every file was clean and nothing is missing. A torn tail is not intact, though nothing is lost."""
        return not self.lost and all(file.verdict is Verdict.CLEAN for file in self.files)

    def as_dict(self) -> dict[str, object]:
        return {
            "files": [file.as_dict() for file in self.files],
            "archives": list(self.archives),
            "lost": [loss.as_dict() for loss in self.lost],
            "suspects": [suspect.as_dict() for suspect in self.suspects],
            "undelivered": self.undelivered,
            "seconds": round(self.seconds, 6),
            "notes": list(self.notes),
            "intact": self.intact,
        }
