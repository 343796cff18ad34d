"""What a store holds, as values that every driver reads and writes: what is moved from one store to another.

What a driver of the broker's store raises.

The data files of a persistent store as values: what of each is live, and what keeps it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from oms_journal.database.queries import DatabaseState
from oms_journal.database.stats import CleanupReport, FileExplanation, Pin, explain


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """What keeps a data file: its oldest live message, or a live key. The age is seconds."""

    kind: str  # "message" or "key"
    number: int | None = None
    queue: str | None = None
    key: str | None = None
    age: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A data file; sizes are bytes.

    `pins_files` later files hold nothing needed and stay because of this one; `freed_by_compact` is what moving the
    little that is live would free of it. None is what the driver does not know.
    """

    name: str
    sequence: int
    active: bool
    bytes: int
    live_bytes: int
    dead_bytes: int
    live_messages: int | None
    live_keys: int | None
    needed: bool
    pinned_by: Keeper | None
    pins_files: int
    freed_by_compact: int


@runtime_checkable
class HasFiles(Protocol):
    """A driver that can tell what its files hold."""

    @property
    def place(self) -> str:
        """Where the files are."""

    def files(self) -> Sequence[StoredFile]:
        """Return the data files, oldest first, as they are now; holds up no commit. StoreUnavailable."""


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


def of_journal(state: DatabaseState) -> list[StoredFile]:
    """Return the data files of a message database, from its own figures."""
    return list(map(_file, explain(state)))


def _file(found: FileExplanation) -> StoredFile:
    pin = found.pinned_by
    return StoredFile(
        name=found.name,
        sequence=found.sequence,
        active=found.active,
        bytes=found.bytes,
        live_bytes=found.live_bytes,
        dead_bytes=max(found.bytes - found.live_bytes, 0),
        live_messages=found.live_messages,
        live_keys=found.live_keys,
        needed=found.needed,
        pinned_by=_keeper(pin) if pin is not None else None,
        pins_files=found.pins_files,
        freed_by_compact=found.freed_by_compact,
    )


def _keeper(pin: Pin) -> Keeper:
    return Keeper(kind=pin.kind, number=pin.number, queue=pin.queue, key=pin.key, age=pin.age)


def of_sqlite(file: Path, *, page_bytes: int, pages: int, free_pages: int) -> StoredFile:
    """Return the file of an SQLite store: what is dead are the pages that nothing is in, and its log."""
    size = sum(each.stat().st_size for each in (file, file.with_name(f"{file.name}-wal")) if each.exists())
    live = (pages - free_pages) * page_bytes
    return StoredFile(
        name=file.name,
        sequence=1,
        active=True,
        bytes=size,
        live_bytes=min(live, size),
        dead_bytes=max(size - live, 0),
        live_messages=None,
        live_keys=None,
        needed=True,
        pinned_by=None,
        pins_files=0,
        freed_by_compact=0,
    )
