"""What travels to a worker: which files it is to read, and what their neighbours say of them."""

from dataclasses import dataclass
from pathlib import Path

from oms_journal.analysis.storage import Storage
from oms_journal.journal.format.headers import Ending, FileHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """One data file or archive, and how far it is good as far as its neighbours know."""

    storage: Storage
    path: Path
    sequence: int
    database: str  # 32 hexadecimal digits: of the directory, also for files of the one it was restored from; "" unknown
    header: FileHeader | None = None
    is_rotted: bool = False  # not both copies of the header are good
    named: Ending | None = None  # how it ended, as its successor's header says
    identity: int | None = None  # as its header or a neighbour says
    is_promised: bool = False  # its first group was durable: the file before it names it, or has been cleaned up
    is_newest: bool = False  # of its directory: somebody may be writing it
    is_archive: bool = False
    is_retained: bool = False  # not needed by its database any more, whatever is in it
    owner: int = 0  # of its header, else of its successor's
    bytes: int = 0  # when it was planned
    limit: int | None = None  # of a file that is being written: what is behind was not yet durable when it was planned
    start: int = 0  # frames before this offset are left out where the file is walked: they have been read already
    failure: str = ""  # why not even its header could be read
    elsewhere: tuple[tuple[Storage, Path], ...] = ()  # where clean-up may have moved it, or a copy of it lies

    @property
    def name(self) -> str:
        return self.path.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One row of the damage table. Offsets in bytes; `end` is `start` where no range of the file is bad."""

    database: str
    file: str
    sequence: int
    start: int
    end: int
    kind: str
    reason: str
    archive: str = ""

    def __str__(self) -> str:
        return f"{self.file} at byte {self.start}: {self.kind}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Partition:
    """Files that one worker reads one after another, and files that are known to be missing."""

    parts: tuple[FilePart, ...]
    missing: tuple[Damage, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)
