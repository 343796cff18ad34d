"""Which messages become dead letters and where they go, and what a dead letter says of itself.

It says why, when, how often, and which queue it comes from, in properties with reserved names, beside those of the
message. Where they do not fit within 64 KiB, the reason is shortened, and then the reserved ones are left out, the
least telling first: a message is never cut.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from oms_journal.index.returned import REASON_BYTES_MAX, Return, shortened
from oms_journal.journal.format.records import encode_properties
from oms_journal.journal.operations import PROPERTIES_BYTES_MAX
from oms_journal.journal.reading.message import Message

QUEUE = "dead-letter.queue"  # that it comes from
ATTEMPTS = "dead-letter.attempts"
REASON = "dead-letter.reason"
TIME = "dead-letter.time"  # when it was moved, as 2026-01-31T12:00:00.000000+00:00
NUMBER = "dead-letter.number"  # that it had there
RESERVED = (QUEUE, ATTEMPTS, REASON, TIME, NUMBER)
EXPIRED = "expired"  # the reason of one that nobody took in time


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Which of a queue's messages become dead letters, and where they go."""

    queue: str  # where they go
    attempts_max: int | None  # what came back so often goes there; None: it comes again
    takes_expired: bool = False  # so does what has expired

    def takes(self, attempts: int) -> bool:
        """Say whether a message that came back so often goes there."""
        return self.attempts_max is not None and attempts >= self.attempts_max


@dataclass(frozen=True, slots=True)
class DeadLetterQueues:
    """The dead letters of every queue of a database."""

    default: DeadLetters | None = None  # of each queue that is not named
    named: Mapping[str, DeadLetters | None] = field(default_factory=dict)  # None also for where dead letters go

    def of(self, queue: str) -> DeadLetters | None:
        """Return what becomes of a queue's messages, None where they come again."""
        return self.named.get(queue, self.default)

    def take_expired(self, queue: str) -> bool:
        """Say whether a queue's messages go there when they have expired."""
        dead = self.of(queue)
        return dead is not None and dead.takes_expired

    @property
    def count_attempts(self) -> bool:
        """Whether attempts have an end in any queue."""
        return any(one is not None and one.attempts_max is not None for one in (self.default, *self.named.values()))


def dead_letter_properties(message: Message, entry: Return, now: int) -> bytes:
    """Return the properties of a message as a dead letter, encoded, at most 64 KiB."""
    told = {
        QUEUE: message.queue,
        ATTEMPTS: str(entry.attempts),
        REASON: entry.reason,
        TIME: datetime.fromtimestamp(now / 1e6, UTC).isoformat(timespec="microseconds"),
        NUMBER: str(message.number),
    }
    own = without_reserved(message.properties)
    room = PROPERTIES_BYTES_MAX - encoded_size(own) - encoded_size({**told, REASON: ""})
    told[REASON] = shortened(entry.reason, min(max(room, 0), REASON_BYTES_MAX))
    while told and encoded_size(own) + encoded_size(told) > PROPERTIES_BYTES_MAX:
        told.popitem()
    return encode_properties({**own, **told})


def without_reserved(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that a message had before it became a dead letter."""
    return {name: value for name, value in properties.items() if name not in RESERVED}


def encoded_size(properties: Mapping[str, str]) -> int:
    """Return how many bytes properties take."""
    return sum(2 + len(text.encode()) for pair in properties.items() for text in pair)


def requeued(message: Message) -> tuple[str, bytes, dict[str, str] | None]:
    """Return queue, payload and properties of the message that a dead letter was. ValueError."""
    queue = message.properties.get(QUEUE)
    if queue is None:
        raise ValueError(f"message {message.number} of queue {message.queue!r} is no dead letter: it has no {QUEUE!r}")
    return queue, message.payload, without_reserved(message.properties) or None
