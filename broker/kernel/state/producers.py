"""Producers' identifiers: which unit of work each was used for first, and a repeat of it while it goes on.

The identifier belongs to the unit of work as a whole, within USER-ID, TOKEN and service. What this start has seen is
here; what an earlier one saw the store knows, by number of messages and digest as well (`remembered.py`).
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from oms_journal.broker.block import ServiceName
from oms_journal.broker.kernel.state.decision import Lockable
from oms_journal.index.duplicates import UNKNOWN, digest
from oms_journal.journal.format.headers import xxh3

PRODUCERS_MAX = 100_000  # identifiers that are remembered
ProducerKey = tuple[str, str, ServiceName, str]  # USER-ID, TOKEN, service and identifier


class First(Lockable):
    """The unit of work that an identifier was used for first. Whoever wants its outcome waits for it."""

    __slots__ = ("conv_id", "digest", "is_named", "key", "last", "messages", "together", "uowid")

    def __init__(self, key: ProducerKey, uowid: str, conv_id: str) -> None:
        super().__init__()
        self.is_pending = True  # it is not committed
        self.key = key
        self.uowid = uowid
        self.conv_id = conv_id
        self.messages = 0
        self.digest = 0
        self.last = 0  # of the last message alone
        self.is_named = True  # False where no trace is kept of it, and a repeat's UOWID stands for it
        self.together: Sequence[First] = ()  # what one commit has held, where that was more: all of it is a repeat

    def contain(self, payloads: Iterable[bytes]) -> None:
        """Keep what a repeat is compared with."""
        hashes = [xxh3(payload) for payload in payloads]
        self.messages, self.digest, self.last = len(hashes), digest(hashes), hashes[-1]


class Producers:
    """The identifiers that this start has seen."""

    def __init__(self, released: deque[Lockable]) -> None:
        self._firsts: OrderedDict[ProducerKey, First] = OrderedDict()
        self._pending: set[First] = set()  # of these: a few, of which alone an outcome is waited for
        self._released = released
        self._together: list[First] | None = None  # what is committed together, while it is

    def __len__(self) -> int:
        return len(self._firsts)

    def find(self, key: ProducerKey) -> First | None:
        return self._firsts.get(key)

    def waiting(self) -> list[First]:
        """Return those whose outcome somebody may wait for."""
        return [first for first in self._pending if first.queued]

    def begin(self, key: ProducerKey, uowid: str, conv_id: str) -> None:
        """Note a unit of work that is not committed yet."""
        self._firsts[key] = first = First(key, uowid, conv_id)
        self._pending.add(first)
        if len(self._firsts) > PRODUCERS_MAX:
            # The store knows again what is forgotten as a whole. It would take half of it for something new.
            oldest = next(iter(self._firsts.values()))
            for each in oldest.together or (oldest,):
                self.forget(each.key, each.uowid)

    def commit(self, key: ProducerKey, uowid: str, payloads: Iterable[bytes]) -> None:
        """Keep what a committed unit of work holds."""
        first = self._firsts.get(key)
        if first is not None and first.uowid == uowid:
            first.contain(payloads)
            if self._together is not None:
                self._together.append(first)
            self._release(first)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let what is committed meanwhile be a repeat only as a whole."""
        found: list[First] = []
        self._together = found
        try:
            yield
        finally:
            self._together = None
        if len(found) > 1:
            for first in found:
                first.together = found

    def learn(self, key: ProducerKey, uowid: str, conv_id: str) -> First:
        """Keep and return a unit of work that an earlier start has seen committed; the caller says what it holds."""
        self.begin(key, uowid, conv_id)
        self._release(first := self._firsts[key])
        return first

    def forget(self, key: ProducerKey, uowid: str) -> None:
        """Forget a unit of work that was not committed, and never will be."""
        first = self._firsts.get(key)
        if first is not None and first.uowid == uowid:
            self._release(self._firsts.pop(key))

    def _release(self, first: First) -> None:
        first.is_pending = False
        self._pending.discard(first)
        if first.queued:
            self._released.append(first)


class Repeat:
    """A unit of work that is sent again, as far as it has come. It is not kept, only compared."""

    __slots__ = ("_hashes", "first")

    def __init__(self, first: First) -> None:
        self.first = first
        self._hashes: list[int] = []

    def is_same_with(self, *more: bytes) -> bool:
        """Say whether it holds with these messages what the first holds, as far as anyone knows."""
        hashes = [*self._hashes, *map(xxh3, more)]
        return len(hashes) == self.first.messages and self.first.digest in (UNKNOWN, digest(hashes))

    def is_last_call(self, payload: bytes) -> bool:
        """Say whether the message can be the last of the first, said again by itself: its answer was lost."""
        return not self._hashes and xxh3(payload) == self.first.last

    def add(self, payload: bytes) -> None:
        if len(self._hashes) <= self.first.messages:  # one more is enough to tell them apart
            self._hashes.append(xxh3(payload))
