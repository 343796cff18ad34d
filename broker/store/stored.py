"""What a store holds, as values that every driver reads and writes: what is moved from one store to another."""

from collections.abc import Mapping
from dataclasses import dataclass


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
