"""What a store holds, as values that every driver reads and writes: what is moved from one store to another.

What a driver of the broker's store raises.

The data files of a persistent store as values: what of each is live, and what keeps it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from oms_journal.database.queries import DatabaseState
from oms_journal.database.stats import CleanupReport, SyncStats, explain


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as the store has it."""

    number: int
    queue: str
    payload: bytes
    properties: Mapping[str, str]
    added: int  # microseconds since 1970 UTC
    producer: str | None = None


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A key with its value."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class StoredIdentifier:
    """A producer's identifier that the store remembers, and what it was answered."""

    queue: str
    producer: str
    first: int  # number of the first message that came under it
    messages: int
    digest: int  # of their payloads: `oms_journal.index.duplicates.digest` of their xxh3 hashes
    added: int  # microseconds since 1970 UTC


@dataclass(frozen=True, slots=True)
class LastNumber:
    """No message that comes later has a number up to this one. What is loaded last."""

    number: int


Loaded = StoredMessage | StoredRecord | StoredIdentifier | LastNumber


class StoreError(Exception):
    """The root of what a driver raises.

    StoreError
    ├── StoreUnavailable   nothing can be written or read; carries whether the commit was attempted
    ├── StoreFull          no room for messages: nothing was written, commits without any go on
    ├── CommitRefused      the store is well, this commit cannot be carried out: nothing was written
    │   └── ProducerReused     since its producer's identifier was used for other messages
    └── MessageUnreadable  one message: it is gone, or its bytes are damaged
    """


class StoreUnavailable(StoreError):
    """The store is lost or disconnected.

    A commit that `was_attempted` may be there when another process opens the store; after `connect` in this one it
    is not, as it is not when it was not attempted.
    """

    def __init__(self, text: str, *, was_attempted: bool = False) -> None:
        super().__init__(text)
        self.was_attempted = was_attempted


class StoreFull(StoreError):
    """There is no room for new messages."""


class CommitRefused(StoreError):
    """This commit is over a limit, or removes what is gone."""


class ProducerReused(CommitRefused):
    """The producer's identifier of this commit was used for other messages, or for a part of it."""


class MessageUnreadable(StoreError):
    """A message cannot be handed out."""


# A data file as FILES tells it; sizes are bytes, None is what the driver does not know. `pins_files` later files hold
# nothing needed and stay because of this one; `freed_by_compact` is what moving the little that is live would free.
FILE_COLUMNS = (
    *("name", "sequence", "active", "bytes", "live_bytes", "dead_bytes", "live_messages", "live_keys", "needed"),
    *("pinned_by", "pins_files", "freed_by_compact"),
)
FileRow = Mapping[str, Any]


@runtime_checkable
class HasFiles(Protocol):
    """A driver that can tell what its files hold."""

    @property
    def place(self) -> str:
        """Where the files are."""

    def files(self) -> Sequence[FileRow]:
        """Return the data files, oldest first, as they are now; holds up no commit. StoreUnavailable."""


@runtime_checkable
class HasSyncs(Protocol):
    """A driver that syncs its files itself, and can tell how long it has waited for them."""

    def syncs(self) -> SyncStats:
        """Return how long commits have waited for the disk since the store was opened."""


@runtime_checkable
class MakesRoom(Protocol):
    """A driver that lets go of files once what pins the old ones is moved."""

    @property
    def is_full(self) -> bool:
        """Whether messages are refused since there is no room, as far as that was seen."""

    def want_room(self) -> None:
        """Have room made soon, beside the commits."""

    def make_room(self) -> None:
        """Make the room that takes but a moment, and have more made beside the commits where that is too little."""

    def clean_up(self) -> CleanupReport:
        """Make room; return what was done once it is. StoreUnavailable."""


def of_journal(state: DatabaseState) -> list[FileRow]:
    """Return the data files of a message database, from its own figures."""
    return [_row(found.as_dict()) for found in explain(state)]


def of_sqlite(file: Path, *, page_bytes: int, pages: int, free_pages: int) -> FileRow:
    """Return the file of an SQLite store: what is dead are the pages that nothing is in, and its log."""
    size = sum(each.stat().st_size for each in (file, file.with_name(f"{file.name}-wal")) if each.exists())
    used = {"bytes": size, "live_bytes": min((pages - free_pages) * page_bytes, size)}
    alone = {"sequence": 1, "active": True, "needed": True, "pinned_by": None, "pins_files": 0, "freed_by_compact": 0}
    return _row({"name": file.name, "live_messages": None, "live_keys": None, **used, **alone})


def _row(said: dict[str, Any]) -> FileRow:
    said["dead_bytes"] = max(said["bytes"] - said["live_bytes"], 0)
    if said["pinned_by"] is not None:
        del said["pinned_by"]["sequence"]  # the file's own
    return {name: said[name] for name in FILE_COLUMNS}
