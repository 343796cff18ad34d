"""The figures of a database, as values: for `oms stats`, `oms explain`, for a program."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """One queue. Sizes in bytes, ages in seconds."""

    undelivered: int
    bytes: int
    held: int = 0  # of these, passed over until somebody lets them go
    oldest: int | None = None  # number of its oldest undelivered message
    oldest_age: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What keeps a data file: its oldest live message, or a live key."""

    sequence: int
    kind: str  # "message" or "key"
    number: int | None = None
    queue: str | None = None
    key: str | None = None
    age: float | None = None  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """A whole database. Sizes in bytes."""

    directory: str
    files: int
    bytes: int
    live_bytes: int
    undelivered: int
    held: int  # of these, passed over until somebody lets them go
    queues: dict[str, QueueStats]
    keys: int
    pinned_by: Pin | None
    archives: int
    archive_bytes: int
    reserve_bytes: int
    owner: int
    free_bytes: int

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileExplanation:
    """Why one data file is still there."""

    name: str
    sequence: int
    active: bool
    bytes: int
    live_bytes: int
    live_messages: int
    live_keys: int
    needed: bool
    pinned_by: Pin | None
    pins_files: int  # later files that hold nothing needed and stay because of this one
    freed_by_compact: int  # bytes that `cleanup --compact` would free of this file

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReport:
    """What a clean-up did, or would do."""

    deleted: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()  # into the retention directory
    moved_messages: int = 0
    moved_keys: int = 0
    freed_bytes: int = 0
    seconds: float = 0.0
    dry_run: bool = False
    stays: str = ""  # why files that could go are still there: the retention directory has no room

    def as_dict(self) -> dict[str, object]:
        return asdict(self)
