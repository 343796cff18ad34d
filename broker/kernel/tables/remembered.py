"""What the store remembers of producers' identifiers from earlier starts: which came when, with how much of what.

An identifier is known by its queue and by a digest of USER-ID, TOKEN and itself. Identifiers of one commit belong
together: they have one digest and one time, and their messages' numbers follow on one another. Rows of equal width in
the order of their keys, since there can be a hundred thousand, which few ask for again.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from oms_journal.broker.store.stored import StoredIdentifier
from oms_journal.journal.format.headers import xxh3

_ROW = np.dtype([("key", "<u8"), ("first", "<u8"), ("messages", "<u4"), ("digest", "<u8"), ("queue", "<u4")])


class Known(NamedTuple):
    """A unit of work that was sent under an identifier."""

    queue: str
    first: int  # the number of its first message
    messages: int
    digest: int  # of their payloads: `oms_journal.index.duplicates.digest` of their xxh3 hashes


class Remembered:
    """The identifiers that the store told when it was restored. Nothing is added."""

    def __init__(self, identifiers: Iterable[StoredIdentifier] = ()) -> None:
        queues: dict[str, int] = {}
        rows: list[tuple[int, int, int, int, int]] = []
        together: dict[tuple[str, int], list[StoredIdentifier]] = {}
        for each in identifiers:
            place = queues.setdefault(each.queue, len(queues))
            rows.append((_key(each.queue, each.producer), each.first, each.messages, each.digest, place))
            together.setdefault((each.producer, each.added), []).append(each)
        self._queues = list(queues)
        self._rows = np.array(sorted(rows), _ROW)
        self._together = {
            one.first: list(map(_known, commit))
            for found in together.values()
            if len(found) > 1
            for commit in _commits(found)
            for one in commit
        }

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, queue: str, scoped: str) -> Known | None:
        """Return what was sent to the queue under the identifier."""
        key = _key(queue, scoped)
        at = int(np.searchsorted(self._rows["key"], np.uint64(key)))
        if at == len(self._rows) or int(self._rows["key"][at]) != key:
            return None
        _, first, messages, digest, place = self._rows[at].tolist()
        return Known(self._queues[place], first, messages, digest)

    def together_with(self, known: Known) -> Sequence[Known]:
        """Return what one commit has held, this one with it."""
        return self._together.get(known.first, [known])


def scoped(user: str, token: str, producer: str) -> str:
    """Return a producer's identifier as the store gets it: within USER-ID and TOKEN; the queue is the service's."""
    digest = blake2b(digest_size=32)
    for text in (user, token, producer):
        digest.update(len(text.encode()).to_bytes(4, "little") + text.encode())
    return digest.hexdigest()


def _key(queue: str, scoped: str) -> int:
    return xxh3(f"{queue}\0{scoped}".encode())


def _known(found: StoredIdentifier) -> Known:
    return Known(found.queue, found.first, found.messages, found.digest)


def _commits(found: list[StoredIdentifier]) -> Iterable[list[StoredIdentifier]]:
    """Yield those whose numbers follow on one another, where there are several."""
    found.sort(key=lambda each: each.first)
    commit = found[:1]
    for each in found[1:]:
        if each.first != commit[-1].first + commit[-1].messages:
            yield commit
            commit = []
        commit.append(each)
    yield commit
