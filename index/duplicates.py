"""The duplicate window: which producer identifiers were seen lately, and what they were answered.

    scope      (queue, producer identifier); of a commit with one identifier, the queue of its first ADD
    remembers  the first number, how many, and a digest of the payloads
    bounds     how many identifiers, and how old; whichever is reached first

A resend inside the window gets the first answer and adds nothing. The window is rebuilt from the
journal at every start; what stands in files that clean-up removes is carried forward under keys
that belong to the engine. Ages go by the clock. Where that is set while the database is open, the
identifiers' times are set with it, and carried forward: a resend of seconds ago stays one. It is not
part of the index's memory figure: an identifier costs about 450 bytes, and up to 520 when the window
has been full for long.
"""

import struct
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oms_journal.journal.format.contents import Contents
from oms_journal.journal.format.headers import xxh3
from oms_journal.journal.format.records import MOVED, WHOLE_COMMIT
from oms_journal.journal.operations import ENGINE_PREFIX, VALUE_BYTES_MAX, Operation

KEY_PREFIX = f"{ENGINE_PREFIX}duplicates/".encode()
_ENTRY = struct.Struct("<QIQqQ")
MICROSECONDS = 1_000_000
SET_MICROSECONDS = 10 * MICROSECONDS  # a clock that is so much off what has passed was set

UNKNOWN = 0  # the digest where a payload was lost

Scope = tuple[bytes, bytes]


class KnownIdentifier(NamedTuple):
    """What a producer identifier stands for."""

    first: int
    messages: int
    digest: int
    time: int  # microseconds since 1970-01-01 UTC
    sequence: int  # of the data file it lies in; 0 when carried forward

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.messages)

    def is_same(self, messages: int, digest: int) -> bool:
        """Say whether so many messages with this digest are a resend, as far as anyone knows."""
        return self.messages == messages and self.digest in (UNKNOWN, digest)


def digest(hashes: Sequence[int]) -> int:
    """Return one number for the payload hashes of all messages under an identifier."""
    return hashes[0] if len(hashes) == 1 else xxh3(np.array(hashes, "<u8").tobytes())


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowBounds:
    """How much the window remembers."""

    count: int = 100_000
    age_seconds: float = 3600.0


class DuplicateWindow:
    """The identifiers of the window, oldest first. Does not lock: its owner does."""

    def __init__(self, bounds: WindowBounds) -> None:
        self._bounds = bounds
        # A plain dict is searched from its start for the oldest entry, past all those that are gone.
        self._seen: OrderedDict[Scope, KnownIdentifier] = OrderedDict()
        self._ahead: int | None = None  # the clock, of one that nobody sets
        self.is_set = False  # with the clock, and not carried forward since

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, scope: object) -> bool:
        """Say whether the identifier is known, be it too old to count."""
        return scope in self._seen

    def find(self, scope: Scope, now: int) -> KnownIdentifier | None:
        """Return what the identifier stands for, when it is in the window at this time."""
        seen = self._seen.get(scope)
        return None if seen is None or self._is_over(seen, now) else seen

    def remember(self, scope: Scope, seen: KnownIdentifier) -> None:
        """Take in an identifier, and forget what is beyond the bounds."""
        known = self._seen
        known.pop(scope, None)
        known[scope] = seen
        if len(known) > self._bounds.count:  # by this one
            known.popitem(last=False)

    def expire(self, now: int) -> None:
        """Forget what is too old."""
        for scope in [scope for scope, seen in self._seen.items() if self._is_over(seen, now)]:
            del self._seen[scope]

    def follow(self, ahead: int) -> None:
        """Set the times where the clock was set: it is `ahead` microseconds of one that nobody sets."""
        if self._ahead is None:
            self._ahead = ahead
        elif abs(ahead - self._ahead) >= SET_MICROSECONDS:
            times = self.later(ahead - self._ahead)
            self._seen = OrderedDict((scope, seen._replace(sequence=0)) for scope, seen in times.items())
            self._ahead, self.is_set = ahead, bool(times)

    def _is_over(self, seen: KnownIdentifier, now: int) -> bool:
        return now - seen.time > self._bounds.age_seconds * MICROSECONDS

    def before(self, sequence: int) -> dict[Scope, KnownIdentifier]:
        """Return what lies in data files below the sequence, or was carried forward from such."""
        return {scope: seen for scope, seen in self._seen.items() if seen.sequence < sequence}

    def every(self) -> dict[Scope, KnownIdentifier]:
        """Return the identifiers, the oldest first; some may be too old to count."""
        return dict(self._seen)

    def replay(self, contents: Contents, sequence: int) -> None:
        """Take in the identifiers of one data file."""
        for scope, seen in _identifiers(contents, sequence):
            self.remember(scope, seen)

    def load(self, values: Iterable[bytes]) -> None:
        """Take in what was carried forward; older than anything in the data files.

        Where an identifier stands in both, and was carried with a later time, that one counts: a restore
        has put it there, since nobody could send anything while the database was not there.
        """
        carried = {scope: seen for value in values for scope, seen in _decode(value)}
        newer, self._seen = self._seen, OrderedDict()
        for scope, seen in sorted(carried.items(), key=lambda pair: pair[1].time):
            self.remember(scope, seen)
        for scope, seen in newer.items():
            known = carried.get(scope)
            if known is None or known.first != seen.first or known.time <= seen.time:
                self.remember(scope, seen)

    def later(self, microseconds: int) -> dict[Scope, KnownIdentifier]:
        """Return what `every` does, as if it had come so much later."""
        return {scope: seen._replace(time=seen.time + microseconds) for scope, seen in self._seen.items()}


def _identifiers(contents: Contents, sequence: int) -> Iterator[tuple[Scope, KnownIdentifier]]:
    columns = contents.columns
    is_named = (columns["producer"] > 0) & (columns["flags"] & MOVED == 0)
    rows = np.flatnonzero(is_named)
    if not len(rows):
        return
    add_rows = np.flatnonzero((columns["kind"] == Operation.ADD) & (columns["flags"] & MOVED == 0))
    commits = columns["commit"][add_rows]
    done = -1
    for row in rows.tolist():
        if row <= done:
            continue
        commit, producer, name = (int(columns[key][row]) for key in ("commit", "producer", "name"))
        low, high = np.searchsorted(commits, [commit, commit + 1])
        mine = add_rows[low:high]
        mine = mine[mine >= row]
        if not columns["flags"][row] & WHOLE_COMMIT:  # else all of the commit have it, and the identifier
            same = (columns["producer"][mine] == producer) & (columns["name"][mine] == name)
            mine = mine[: int(np.argmin(same))] if not same.all() else mine
        done = int(mine[-1])
        hashes = columns["hash"][mine].tolist()
        scope = (bytes(contents.names[name]), bytes(contents.producers[producer - 1]))
        first, time = int(columns["number"][row]), int(columns["time"][row])
        is_known = 0 not in hashes  # of a payload that was lost the file may have none
        yield scope, KnownIdentifier(first, len(hashes), digest(hashes) if is_known else UNKNOWN, time, sequence)


def carried(entries: dict[Scope, KnownIdentifier]) -> list[bytes]:
    """Return the entries as values that fit under keys."""
    values: list[bytes] = []
    current = bytearray()
    for (queue, producer), seen in entries.items():
        entry = bytes((len(queue),)) + queue + bytes((len(producer),)) + producer
        entry += _ENTRY.pack(seen.first, seen.messages, seen.digest, seen.time, seen.sequence)
        if len(current) + len(entry) > VALUE_BYTES_MAX:
            values.append(bytes(current))
            current.clear()
        current += entry
    return [*values, bytes(current)] if current else values


def _decode(value: bytes) -> Iterator[tuple[Scope, KnownIdentifier]]:
    at = 0
    while at < len(value):
        names = []
        for _ in range(2):
            size = value[at]
            names.append(value[at + 1 : at + 1 + size])
            at += 1 + size
        first, count, hashed, time, _ = _ENTRY.unpack_from(value, at)
        at += _ENTRY.size
        yield (names[0], names[1]), KnownIdentifier(first, count, hashed, time, 0)
