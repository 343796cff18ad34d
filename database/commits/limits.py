"""Limits of queues: how much each may hold, what of it is spoken for, and who waits for room.

What counts is what is undelivered in the queue, and what commits on their way add to it. The leader of a group decides,
when it admits a commit: so a limit holds exactly, however many threads and tasks add. A commit that is refused and may
wait lines up. Room that comes free is granted to the first in line, and counts from then on.

    state     counts   what comes next
    OUT       no       admitted: CLAIMED. No room: refused, or IN_LINE where it may wait
    IN_LINE   no       room comes free: GRANTED. Its caller gives up: OUT
    GRANTED   yes      admitted: CLAIMED. A repeat, refused, or its caller gives up: OUT
    CLAIMED   yes      durable, or refused: OUT

Nobody overtakes those who wait, but a commit that removes as much from the queue as it adds.

Nothing here locks, or waits: the ledger calls all of it under its lock. The callers wait elsewhere, and are woken here.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from oms_journal.index.table import EXPIRED, Numbers, Table
from oms_journal.journal.errors import LimitExceeded, QueueFull
from oms_journal.journal.writing.draft import Run


class Limit(NamedTuple):
    """How much a queue may hold; None: as much as there is. At least one of both is given."""

    messages: int | None
    bytes: int | None  # of payloads and properties


class State(Enum):
    """Of what a commit wants of a queue."""

    OUT = auto()
    IN_LINE = auto()
    GRANTED = auto()
    CLAIMED = auto()


class Wanted:
    """The room in one queue that one commit wants."""

    __slots__ = ("bytes", "counted", "is_patient", "limit", "messages", "queue", "state", "wake")

    def __init__(self, queue: str, limit: Limit, messages: int, size: int) -> None:
        self.queue = queue
        self.limit = limit
        self.messages = messages
        self.bytes = size
        self.state = State.OUT
        self.counted = (0, 0)  # messages and bytes, while it is granted or claimed
        self.is_patient = False  # it lines up where there is no room
        self.wake: Callable[[], None] = _nobody  # told once, when it is granted or all waits end


def _nobody() -> None:
    pass


class Room:
    """What of a queue is spoken for, and who waits for more."""

    __slots__ = ("bytes", "line", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self.line: deque[Wanted] = deque()


class Limits:
    """The queues of one database that have a limit."""

    def __init__(self, named: Mapping[bytes, Limit | None], default: Limit | None) -> None:
        self._named = dict(named)
        self._default = default  # of all others
        self._rooms: dict[str, Room] = {}  # of the queues for which commits are on their way, or wait
        self._lined_up: dict[str, Room] = {}  # of these, where somebody waits
        self.expired: Callable[[int], tuple[int, int]] = lambda _: (0, 0)  # messages and bytes of a place: not counted
        self.is_ended = False  # nobody waits any more

    def of(self, queue: bytes) -> Limit | None:
        """Return the limit of a queue, None where it has none."""
        return self._named.get(queue, self._default)

    def wanted(self, runs: Iterable[Run]) -> tuple[Wanted, ...]:
        """Return what a commit that adds these messages wants of the queues that have a limit."""
        found: dict[bytes, Wanted] = {}
        for template, sizes in runs:
            limit = self.of(template.name)
            if limit is not None:
                known = found.get(template.name)
                if known is None:
                    known = found[template.name] = Wanted(template.name.decode(), limit, 0, 0)
                known.messages += len(sizes)
                known.bytes += sum(sizes)
        return tuple(found.values())

    def claim(self, wanted: Sequence[Wanted], table: Table, removed: Sequence[int] | Numbers | None) -> None:
        """Count what an admitted commit adds, less what it removes. QueueFull, LimitExceeded: nothing is counted."""
        counted = [
            each.counted if each.state is State.GRANTED else self._room_for(each, table, removed) for each in wanted
        ]
        for each, (messages, size) in zip(wanted, counted, strict=True):
            if each.state is not State.GRANTED:
                self._count(each, messages, size)
            each.state = State.CLAIMED

    def _room_for(self, wanted: Wanted, table: Table, removed: Sequence[int] | Numbers | None) -> tuple[int, int]:
        """Return the messages and bytes that it makes a queue longer by; where it waits it is in line now."""
        messages, size = wanted.messages, wanted.bytes
        if removed is not None:
            gone_messages, gone_bytes = _removed_from(wanted.queue, table, removed)
            messages, size = max(0, messages - gone_messages), max(0, size - gone_bytes)
            if not messages and not size:
                return 0, 0
        elif wanted.limit.messages is not None and messages > wanted.limit.messages:
            raise LimitExceeded(_never(wanted, messages, wanted.limit.messages, "messages"))
        elif wanted.limit.bytes is not None and size > wanted.limit.bytes:
            raise LimitExceeded(_never(wanted, size, wanted.limit.bytes, "bytes"))
        full = self._full(wanted, table, messages, size)
        if full is None:
            return messages, size
        if wanted.is_patient and not self.is_ended:
            room = self._rooms.setdefault(wanted.queue, Room())
            room.line.append(wanted)
            self._lined_up[wanted.queue] = room
            wanted.state = State.IN_LINE
        raise full

    def _full(
        self, wanted: Wanted, table: Table, messages: int, size: int, *, in_turn: bool = False
    ) -> QueueFull | None:
        """Return why there is no room for so much more; None where there is. `in_turn`: it is the first in line."""
        room = self._rooms.get(wanted.queue)
        place = table.queues.find(wanted.queue)
        there = (0, 0)
        if place is not None:
            over = self.expired(place)
            there = table.queues.counts[place] - over[0], table.queues.bytes[place] - over[1]
        spoken = (0, 0) if room is None else (room.messages, room.bytes)
        waiting = 0 if room is None or in_turn else len(room.line)
        limits = (("messages", wanted.limit.messages, messages), ("bytes", wanted.limit.bytes, size))
        for (unit, limit, more), has, under_way in zip(limits, there, spoken, strict=True):
            if limit is not None and more and (waiting or has + under_way + more > limit):
                return QueueFull(wanted.queue, limit=limit, count=has + under_way, unit=unit, waiting=waiting)
        return None

    def _count(self, wanted: Wanted, messages: int, size: int) -> None:
        wanted.counted = (messages, size)
        if wanted.counted == (0, 0):
            return  # it makes its own room: a queue's is kept for what it counts alone
        room = self._rooms.setdefault(wanted.queue, Room())
        room.messages += messages
        room.bytes += size

    def leave(self, wanted: Iterable[Wanted]) -> None:
        """Count no longer what was granted or claimed. Who is in line stays there."""
        for each in wanted:
            if each.state in (State.GRANTED, State.CLAIMED):
                counted, each.counted, each.state = each.counted, (0, 0), State.OUT
                if counted == (0, 0):
                    continue
                room = self._rooms[each.queue]
                room.messages -= counted[0]
                room.bytes -= counted[1]
                if not (room.line or room.messages or room.bytes):
                    del self._rooms[each.queue]

    def leave_line(self, wanted: Wanted) -> None:
        """Let it wait no more; what it was granted it keeps."""
        wanted.is_patient = False
        if wanted.state is State.IN_LINE:
            wanted.state = State.OUT
            room = self._rooms[wanted.queue]
            room.line.remove(wanted)
            self._tidy(wanted.queue, room)

    def _tidy(self, queue: str, room: Room) -> None:
        if not room.line:
            self._lined_up.pop(queue, None)
            if not (room.messages or room.bytes):
                self._rooms.pop(queue, None)

    def pass_on(self, table: Table) -> None:
        """Grant the room that there is to those who wait for it, in their order."""
        for queue, room in list(self._lined_up.items()):
            line = room.line
            while line and self._full(line[0], table, line[0].messages, line[0].bytes, in_turn=True) is None:
                first = line[0]
                self._count(first, first.messages, first.bytes)
                first.state = State.GRANTED
                line.popleft()
                try:
                    first.wake()
                except RuntimeError:  # its event loop was closed, and it with it
                    self.leave([first])
            self._tidy(queue, room)

    def end(self) -> None:
        """Wake all who wait: there will be no more room."""
        self.is_ended = True
        for queue, room in list(self._lined_up.items()):
            while room.line:
                one = room.line.popleft()
                one.is_patient, one.state = False, State.OUT
                with contextlib.suppress(RuntimeError):
                    one.wake()
            self._tidy(queue, room)


def _removed_from(queue: str, table: Table, removed: Sequence[int] | Numbers) -> tuple[int, int]:
    """Return how many of the removed messages are the queue's and count, and their bytes."""
    place = table.queues.find(queue)
    numbers = removed.tolist() if isinstance(removed, np.ndarray) else removed
    found = [one for one in table.find_places(numbers) if one.queue == place]
    mine = [one.size for one in found if not table.state_of(one.number) & EXPIRED]
    return len(mine), sum(mine)


def _never(wanted: Wanted, given: int, limit: int, unit: str) -> str:
    return (
        f"a commit adds {given:,} {unit} to queue {wanted.queue!r}, which may hold at most {limit:,}; nothing was "
        "written: add less at once, or raise the limit"
    )
