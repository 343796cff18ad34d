"""Messages that came back: how often, why the last time, until when they stay away, which may have killed a process.

It is keyed state of the engine's, one key for each message that came back:

    what        bytes  meaning
    number      8      of the message
    attempts    4      how often it came back
    due         8      not handed out before this time, in microseconds since 1970-01-01 UTC; 0: at once
    flags       1      1: it was in hand when a process died
    reason      rest   why it came back the last time, in UTF-8

The key is written with the next commit after the message came back, and dropped in the commit that ends the message.
"""

import struct
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from oms_journal.journal.operations import ENGINE_PREFIX

KEY_PREFIX = f"{ENGINE_PREFIX}returned/".encode()
REASON_BYTES_MAX = 1000
DIED = "the process that had it died"
_VALUE = struct.Struct("<QIqB")
_SUSPECT = 1


class Return(NamedTuple):
    """What is known of a message that came back."""

    attempts: int
    due: int = 0  # microseconds since 1970-01-01 UTC, 0: at once
    reason: str = ""
    is_suspect: bool = False  # it was in hand when a process died


def key_of(number: int) -> bytes:
    """Return the key that says what is known of a message."""
    return KEY_PREFIX + b"%016x" % number


def number_of(key: bytes) -> int:
    """Return the message that a key is about, 0 for a key that nobody writes."""
    try:
        return int(key[len(KEY_PREFIX) :], 16)
    except ValueError:
        return 0


class Returned:
    """All of them, by number. Does not lock: its owner does."""

    def __init__(self) -> None:
        self.entries: dict[int, Return] = {}
        self.changed: dict[int, None] = {}  # those that the journal does not say so yet, the oldest change first

    def note(self, number: int, entry: Return) -> None:
        """Take in that a message came back."""
        self.entries[number] = entry
        self.changed[number] = None

    def forget(self, numbers: Iterable[int]) -> None:
        """Let go of messages that are gone."""
        for number in numbers:
            self.entries.pop(number, None)
            self.changed.pop(number, None)

    def attempts(self, number: int) -> int:
        """Return how often a message came back."""
        entry = self.entries.get(number)
        return 0 if entry is None else entry.attempts

    def begin_at(self, number: int, attempts: int) -> int:
        """Note the attempts that a message was added with, which the journal says already; return them."""
        self.entries[number] = self.entries.get(number, Return(0))._replace(attempts=attempts)
        return attempts

    def note_death(self, in_hand: Collection[int]) -> None:
        """Take in which messages were in hand when a process died.

        A suspect among them, of which at most one is handed out at a time, has come back in vain, and so has one that
        was alone. The others become suspects.
        """
        suspects = [number for number in in_hand if self.is_suspect(number)]
        guilty = suspects or (list(in_hand) if len(in_hand) == 1 else [])
        for number in in_hand:
            before = self.entries.get(number, Return(0))
            attempts = before.attempts + (number in guilty)
            self.note(number, Return(attempts, 0, DIED if number in guilty else before.reason, is_suspect=True))

    def is_suspect(self, number: int) -> bool:
        """Say whether a message was in hand when a process died."""
        entry = self.entries.get(number)
        return entry is not None and entry.is_suspect

    def value(self, number: int) -> bytes:
        """Return what is known of a message as the value of its key."""
        attempts, due, reason, is_suspect = self.entries[number]
        return _VALUE.pack(number, attempts, due, _SUSPECT if is_suspect else 0) + reason.encode()

    def load(self, values: Iterable[bytes], is_live: Callable[[int], bool]) -> None:
        """Take in what `value` gave, of the messages that are there still."""
        for value in values:
            if len(value) >= _VALUE.size:
                number, attempts, due, flags = _VALUE.unpack_from(value)
                if is_live(number):
                    reason = value[_VALUE.size :].decode(errors="replace")
                    self.entries[number] = Return(attempts, due, reason, bool(flags & _SUSPECT))


def shortened(reason: str, bytes_max: int = REASON_BYTES_MAX) -> str:
    """Return a reason in at most so many bytes of UTF-8; what no UTF-8 has bytes for is replaced."""
    return reason.encode(errors="replace")[:bytes_max].decode(errors="ignore")
