"""What was found out about one data file: the values that validation hands to repair and replay."""

from dataclasses import dataclass
from pathlib import Path

from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, FormatError
from oms_journal.journal.format.contents import Contents
from oms_journal.journal.format.headers import FileHeader, Previous
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.walk import BadPayload, BadRange
from oms_journal.recovery.decision import Action, Decision
from oms_journal.recovery.report import FileReport, Loss
from oms_journal.recovery.survey import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One data file, judged."""

    task: Task
    size: int
    decision: Decision
    end: int  # behind the last frame to keep
    reason: str = ""
    contents: Contents | None = None  # of a file that was walked; others are read from their footer when wanted
    low_water: int = 0  # the first sequence that is still needed, where the file holds that mark
    bad_ranges: tuple[BadRange, ...] = ()  # vouched for, and gone
    bad_padding: tuple[BadRange, ...] = ()  # between groups, where nothing was
    bad_payloads: tuple[BadPayload, ...] = ()
    losses: tuple[Loss, ...] = ()
    successor: tuple[int, int] = (0, 0)  # sequence and identity of the next file, 0 when none was begun
    owner: int = 0  # of its frames
    alignment: int = 0  # likewise
    extent: int = 0  # how far the gap must go that takes the place of a file without a frame
    cut_frames: int = 0
    cut_commits: int = 0  # of these, frames that do more than vouch
    is_recovered: bool = False  # its footer was written by an earlier recovery
    is_settled: bool = False  # a footer was there before the frames were read: they do not look otherwise later
    in_doubt: int | None = None  # from here on nothing says that the bytes were durable; None where something says all

    @property
    def sequence(self) -> int:
        return self.task.sequence

    @property
    def path(self) -> Path:
        return self.task.path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def header(self) -> FileHeader | None:
        return self.task.header

    @property
    def named(self) -> Previous | None:
        """How the file ended, as its successor says."""
        return self.task.named

    def report(self, action: str | None = None, archive: str | None = None) -> FileReport:
        return FileReport(
            name=self.name,
            sequence=self.sequence,
            verdict=self.decision.verdict,
            row=self.decision.row,
            good_end=self.end,
            size=self.size,
            reason=self.reason,
            action=self.decision.action.value if action is None else action,
            archive=archive,
            losses=self.losses,
            maybe_acknowledged=self.cut_frames,
        )


def read_contents(disk: Disk, examined: Examined) -> Contents | None:
    """Return the operations of a file that is to be replayed; None for one that is not."""
    if examined.decision.action in (Action.REMOVE, Action.DROP, Action.ENTOMB) or examined.contents is not None:
        return examined.contents
    try:
        with DataFile(disk, examined.path) as file:
            footer = file.footer(identity=None)
    except OSError as failure:
        raise DiskError(examined.path, failure, "read") from failure
    if not isinstance(footer, Footer):
        raise FormatError(examined.path, examined.end, "the footer changed while the database was being opened")
    return footer.contents()
