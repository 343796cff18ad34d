"""What a decision asks the store to make durable: one commit, as a value.

The kernel makes it, a driver carries it out, and nothing in between changes it; these values are not
frozen, for speed. The parts of one commit become durable together or not at all.

    part       what it does
    adds       messages put into queues; they get neighbouring numbers in this order
    puts       keyed state from now on; a value may be told numbers of the added messages
    drops      keys that are gone
    delivered  messages whose receiver has committed
    deleted    messages removed unreceived: cancelled, timed out, purged
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

NUMBER_BYTES = 8  # of a message number in a value, least significant first


@dataclass(slots=True)
class NewMessage:
    """A message to be added to a queue."""

    queue: str
    payload: bytes
    properties: Mapping[str, str] | None = None


@dataclass(slots=True)
class CopiedMessage(NewMessage):
    """A message that the store has already, to be added with these properties beside its own. `filled` reads it."""

    number: int = 0


@dataclass(slots=True)
class Put:
    """Keyed state to be written; `numbers_at` maps offsets in the value to places among the adds."""

    key: str
    value: bytes
    numbers_at: Mapping[int, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Changes:
    """One commit. With a producer's identifier a repeat adds nothing and gets the first answer.

    It is known by each queue's messages, which stand side by side then.
    """

    adds: Sequence[NewMessage] = ()
    puts: Sequence[Put] = ()
    drops: Sequence[str] = ()
    delivered: Sequence[range] = ()
    deleted: Sequence[range] = ()
    producer: str | None = None
    copies: bool = False  # some of the adds are CopiedMessages

    def is_empty(self) -> bool:
        return not (self.adds or self.puts or self.drops or self.delivered or self.deleted)


def merge(parts: Iterable[Changes]) -> Changes:
    """Return one commit of all the parts, in order; places among the adds are moved along.

    Of several puts and drops of one key the last counts. At most one producer's identifier may be
    carried, which then covers all of it.
    """
    adds: list[NewMessage] = []
    latest: dict[str, Put | None] = {}  # None: dropped
    delivered: list[range] = []
    deleted: list[range] = []
    producer: str | None = None
    copies = False
    for part in parts:
        assert producer is None or part.producer in (None, producer), "one commit has one producer's identifier"
        producer = part.producer or producer
        for put in part.puts:
            latest[put.key] = _moved(put, len(adds))
        latest.update(dict.fromkeys(part.drops))
        adds += part.adds
        delivered += part.delivered
        deleted += part.deleted
        copies = copies or part.copies
    return Changes(
        adds=adds,
        puts=[put for put in latest.values() if put is not None],
        drops=[key for key, put in latest.items() if put is None],
        delivered=delivered,
        deleted=deleted,
        producer=producer,
        copies=copies,
    )


class Content(Protocol):
    """What a store tells of a message."""

    @property
    def payload(self) -> bytes: ...
    @property
    def properties(self) -> Mapping[str, str] | None: ...


def filled(changes: Changes, read: Callable[[int], Content]) -> Changes:
    """Return the same changes with every message as it is to be added; what `read` raises is raised."""
    adds: list[NewMessage] = []
    for message in changes.adds:
        if isinstance(message, CopiedMessage):
            found = read(message.number)
            properties = {**(found.properties or {}), **(message.properties or {})}
            message = NewMessage(message.queue, found.payload, properties or None)
        adds.append(message)
    return replace(changes, adds=adds, copies=False)


def _moved(put: Put, places: int) -> Put:
    if not places or not put.numbers_at:
        return put
    return Put(put.key, put.value, {at: place + places for at, place in put.numbers_at.items()})
