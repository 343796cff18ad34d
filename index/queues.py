"""The names of the queues, and how much is undelivered in each.

A queue has a place as long as anything is undelivered in it, and usually longer: who adds to it may have asked
for its place already. What is empty is forgotten when somebody says so, and its place is given to another queue:
callers may make up a name for each answer that they wait for. Does not lock: its owner does.
"""

from collections.abc import Iterable

FORGOTTEN = -1  # instead of a place: ask for it again


class Queues:
    """Names by place, and the accounts of what is undelivered."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._names: list[str] = []  # by place; of a place that is free, what it was
        self._free: list[int] = []
        self.counts: list[int] = []  # messages, by place
        self.bytes: list[int] = []  # theirs, by place

    def __len__(self) -> int:
        """Return how many have a place."""
        return len(self._places)

    def place(self, name: str) -> int:
        """Return the queue's place; a new queue gets one."""
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = self._new(name)
        return place

    def _new(self, name: str) -> int:
        if self._free:
            place = self._free.pop()
            self._names[place] = name
            return place
        place = len(self._names)
        del self.counts[place:], self.bytes[place:]  # what an interrupt has left of another one
        self.counts.append(0)
        self.bytes.append(0)
        self._names.append(name)  # last: it says how many there are
        return place

    def find(self, name: str) -> int | None:
        """Return the queue's place, None when it has none."""
        return self._places.get(name)

    def name(self, place: int) -> str:
        return self._names[place]

    def used(self) -> dict[str, tuple[int, int]]:
        """Return (undelivered messages, their bytes) of every queue that has any."""
        return {
            name: (self.counts[place], self.bytes[place]) for name, place in self._places.items() if self.counts[place]
        }

    def empty(self) -> list[str]:
        """Return the names of the queues in which nothing is undelivered."""
        return [name for name, place in self._places.items() if not self.counts[place]]

    def forget(self, names: Iterable[str]) -> None:
        """Take their places from queues in which nothing is undelivered."""
        for name in names:
            self._free.append(self._places.pop(name))
