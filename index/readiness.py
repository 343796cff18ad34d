"""Which messages may be handed out: by due time, expiry and group. No clock, no thread and no disk in here.

A message without such terms may be handed out at once, and costs nothing here. One with terms stands apart in the
table, by bits of its row, for as long as it may not be handed out:

    bit       stands until
    NOT_DUE   its due time
    BEHIND    the message before it in its group has gone or has expired
    EXPIRED   it is deleted, soon; it counts no more

What is in somebody's hands when its time is over becomes LATE: it expires when it comes back.

Time comes in as a `Moment` of two clocks, in microseconds. A term that was given as a duration goes by the steady
clock while the process runs. A point in time goes by the wall clock, as does every term after a restart, since the
journal holds the wall clock's time alone.

A schedule keeps (time, number) in sorted arrays that are merged when one has become as long as half of the one before
it: 12 bytes a message. What was added last stands in a small heap.

A group is a ring of its messages in the order of their numbers: 20 bytes a message, and a place in a dictionary. It is
known by 60 bits of a hash of its queue and name, so that a long name takes no more memory than a short one. Two groups
with the same hash (a chance of 1 in 10^18 for each pair) would be handed out as if they were one.
"""

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Container, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oms_journal.index.table import (
    APART,
    BEHIND,
    EXPIRED,
    FEW_ROWS,
    GROUPED,
    LATE,
    LIVE,
    NOT_DUE,
    TIMED,
    Ints,
    MessageLocation,
    Numbers,
    Table,
    distinct,
)
from oms_journal.journal.format.headers import xxh3

NEVER = 1 << 63  # behind every time
LOOK_SECONDS = 1.0  # so often the wall clock is looked at: somebody may have set it
MICROSECONDS = 1_000_000
NEAR_MAX = 512  # in a schedule's heap
AHEAD = 256  # taken from a sorted array at once
SPARE = 1024  # so much of messages that are gone is kept at least before it is looked for

_Mask = npt.NDArray[np.bool_]


class Moment(NamedTuple):
    """What two clocks show, in microseconds: one that nobody sets, and the wall clock since 1970-01-01 UTC."""

    steady: int
    wall: int


class NewTerms(NamedTuple):
    """The terms of messages that are added: times as the journal has them, and by the steady clock where they go by it.

    The journal's are the wall clock's.
    """

    due: int | None = None
    expiry: int | None = None
    group: bytes | None = None
    steady_due: int | None = None
    steady_expiry: int | None = None


class TermRows(NamedTuple):
    """Messages of any queues with the terms that the journal says of them, by ascending number."""

    numbers: Numbers
    queues: Ints  # places
    due: Ints  # NEVER_DUE for none
    expiry: Ints  # NEVER_OVER for none
    groups: Numbers  # hashes, 0 for none

    def some(self, rows: Ints) -> "TermRows":
        """Return those of the rows."""
        return TermRows(self.numbers[rows], self.queues[rows], self.due[rows], self.expiry[rows], self.groups[rows])


def joined(parts: Sequence[TermRows]) -> TermRows:
    """Return the rows of all parts, one behind the other."""
    return TermRows(
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.queues for part in parts]),
        np.concatenate([part.due for part in parts]),
        np.concatenate([part.expiry for part in parts]),
        np.concatenate([part.groups for part in parts]),
    )


NEVER_DUE = -(1 << 63)  # what has no due time is due
NEVER_OVER = NEVER - 1


def group_hash(queue: int, group: bytes) -> int:
    """Return what a group of a queue is known by, never 0."""
    return xxh3(group, queue) >> 4 or 1


class _Run:
    """Times and numbers in sorted arrays, from the earliest on."""

    __slots__ = ("_at", "_base", "_near_at", "_near_numbers", "_near_times", "_numbers", "_times", "next_at")

    def __init__(self, times: Ints, numbers: Numbers) -> None:
        self._times = times
        self._base = int(numbers.min())
        offsets = numbers - np.uint64(self._base)
        self._numbers = offsets.astype(np.uint32) if int(offsets.max()) < 1 << 32 else offsets
        self._at = 0  # behind what is in the lists
        self._near_times: list[int] = []
        self._near_numbers: list[int] = []
        self._near_at = 0
        self.next_at = int(times[0])

    def __len__(self) -> int:
        return len(self._times) - self._at + len(self._near_times) - self._near_at

    def rest(self) -> tuple[Ints, Numbers]:
        """Return what is left."""
        start = self._at - len(self._near_times) + self._near_at
        return self._times[start:], self._numbers[start:] + np.uint64(self._base)

    def pop(self, now: int) -> list[int]:
        """Take out the numbers whose time has come."""
        found: list[int] = []
        while self.next_at <= now:
            if self._near_at == len(self._near_times):
                self._load(now)
            end = bisect_right(self._near_times, now, self._near_at)
            found += self._near_numbers[self._near_at : end]
            self._near_at = end
            if end < len(self._near_times):
                self.next_at = self._near_times[end]
            else:
                self.next_at = int(self._times[self._at]) if self._at < len(self._times) else NEVER
        return found

    def _load(self, now: int) -> None:
        """Take the next ones into the lists, all whose time has come at once."""
        end = max(self._at + AHEAD, int(np.searchsorted(self._times, now, "right")))
        part = slice(self._at, end)
        self._near_times, self._near_at = self._times[part].tolist(), 0
        self._near_numbers = (self._numbers[part] + np.uint64(self._base)).tolist()
        self._at += len(self._near_times)


class Schedule:
    """Numbers by the time at which something becomes of them. Those of messages that are gone may stay a while."""

    __slots__ = ("_near", "_runs", "next_at")

    def __init__(self) -> None:
        self._near: list[tuple[int, int]] = []  # a heap
        self._runs: list[_Run] = []  # each at least twice as long as the next one
        self.next_at = NEVER

    def __len__(self) -> int:
        return len(self._near) + sum(map(len, self._runs))

    def add(self, time: int, number: int) -> None:
        heapq.heappush(self._near, (time, number))
        self.next_at = min(time, self.next_at)
        if len(self._near) > NEAR_MAX:
            near, self._near = np.array(self._near, np.int64), []
            self._add(near[:, 0], near[:, 1].astype(np.uint64))

    def add_many(self, times: Ints, numbers: Numbers) -> None:
        """Take in many at once, in any order."""
        if len(times):
            self._add(times, numbers)
            self.next_at = min(self.next_at, int(times.min()))

    def _add(self, times: Ints, numbers: Numbers) -> None:
        self._runs = [run for run in self._runs if len(run)]
        parts = [(times, numbers)]
        length = len(times)
        while self._runs and len(self._runs[-1]) < 2 * length:
            parts.append(self._runs.pop().rest())
            length += len(parts[-1][0])
        times, numbers = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(times, kind="stable")
        self._runs.append(_Run(times[order], numbers[order]))

    def pop(self, now: int) -> list[int]:
        """Take out the numbers whose time has come, in no order."""
        found: list[int] = []
        if self.next_at > now:
            return found
        near = self._near
        while near and near[0][0] <= now:
            found.append(heapq.heappop(near)[1])
        for run in self._runs:
            if run.next_at <= now:
                found += run.pop(now)
        self.next_at = min([near[0][0] if near else NEVER, *(run.next_at for run in self._runs)])
        return found

    def keep(self, are_wanted: Callable[[Numbers], _Mask]) -> None:
        """Forget the numbers that are not wanted; they are told in ascending order."""
        near = np.array(self._near, np.int64).reshape(-1, 2)
        parts = [(near[:, 0], near[:, 1].astype(np.uint64)), *(run.rest() for run in self._runs)]
        times, numbers = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(numbers, kind="stable")
        kept = order[are_wanted(numbers[order])]
        self._near, self._runs, self.next_at = [], [], NEVER
        self.add_many(times[kept], numbers[kept])


class _Clocked:
    """What happens at points in time of the two clocks."""

    __slots__ = ("steady", "wall")

    def __init__(self) -> None:
        self.steady, self.wall = Schedule(), Schedule()

    def __len__(self) -> int:
        return len(self.steady) + len(self.wall)

    def add(self, number: int, wall: int, steady: int | None) -> None:
        if steady is None:
            self.wall.add(wall, number)
        else:
            self.steady.add(steady, number)

    def pop(self, now: Moment) -> list[int]:
        return self.steady.pop(now.steady) + self.wall.pop(now.wall)

    def is_near(self, now: Moment) -> bool:
        """Say whether the time of any has come."""
        return self.steady.next_at <= now.steady or self.wall.next_at <= now.wall

    def keep(self, are_wanted: Callable[[Numbers], _Mask]) -> None:
        self.steady.keep(are_wanted)
        self.wall.keep(are_wanted)


class Groups:
    """The messages of each group, in the order of their numbers. Those that are gone may stay a while."""

    def __init__(self) -> None:
        self._numbers = array("Q")  # ascending
        self._hashes = array("Q")  # of their groups
        self._next = array("I")  # the row of the next message of the group; of the last one, the row of the first
        self._last: dict[int, int] = {}  # by group, the row of its last message
        self._gone = 0  # about so many of the rows are of messages that are gone

    def __len__(self) -> int:
        """Return how many groups have messages."""
        return len(self._last)

    def add(self, number: int, group: int) -> bool:
        """Put a message with the highest number behind its group; say whether it is the first one there."""
        row, last = len(self._numbers), self._last.get(group)
        first = row if last is None else self._next[last]
        self._numbers.append(number)
        self._hashes.append(group)
        self._next.append(first)
        if last is not None:
            self._next[last] = row
        self._last[group] = row
        return last is None

    def end(self, number: int, is_there: Callable[[int], bool]) -> int | None:
        """Return the message whose turn it is now that one has gone; None when it is nobody's, or was before."""
        self._gone += 1
        row = bisect_left(self._numbers, number)
        if row == len(self._numbers) or self._numbers[row] != number:
            return None
        group = self._hashes[row]
        last = self._last.get(group)
        if last is None or self._next[last] != row:
            return None
        while row != last:
            row = self._next[row]
            if is_there(self._numbers[row]):
                self._next[last] = row
                return self._numbers[row]
        del self._last[group]
        return None

    def load(self, numbers: Numbers, groups: Numbers) -> Numbers:
        """Take in ascending numbers with their groups, anew; return those that are behind another one."""
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = ordered[1:] != ordered[:-1]
        firsts = np.flatnonzero(is_first)
        lasts = np.append(firsts[1:], len(order))[: len(firsts)] - 1
        following = np.empty(len(order), np.uint32)
        following[order[:-1]] = order[1:]
        following[order[lasts]] = order[firsts]
        self._numbers, self._hashes = array("Q", numbers.tobytes()), array("Q", groups.tobytes())
        self._next = array("I", following.tobytes())
        self._last = dict(zip(ordered[firsts].tolist(), order[lasts].tolist(), strict=True))
        self._gone = 0
        return np.sort(numbers[order[~is_first]])

    @property
    def has_many_gone(self) -> bool:
        """Whether it would pay to forget the messages that are gone."""
        return self._gone > SPARE and self._gone * 2 > len(self._numbers)

    def keep(self, are_wanted: Callable[[Numbers], _Mask]) -> None:
        """Forget the messages that are gone."""
        numbers = np.frombuffer(self._numbers, np.uint64)
        kept = np.flatnonzero(are_wanted(numbers))
        self.load(numbers[kept], np.frombuffer(self._hashes, np.uint64)[kept])


class Readiness:
    """The terms of the messages in a table, and what time and the ends of messages make of them. Does not lock.

    It stands in for the table where messages are looked for to be handed out, and where they are removed.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self.find = table.find_ready  # where a message is that may be handed out
        self._due, self._expiry = _Clocked(), _Clocked()
        self._groups = Groups()
        self._timed = 0  # messages that stand in a schedule, or stood there
        self._is_spent = False  # the last one has gone
        self._next_steady = self._next_wall = NEVER  # when time changes anything, by either clock
        self._freed: list[tuple[int, int]] = []  # places of queues, and numbers, for the next `ready`
        self._expired = array("Q")  # numbers; those that were deleted since may stay a while
        self.expired: dict[int, int] = {}  # how many expired messages are in the table, by the queue's place
        self.expired_bytes: dict[int, int] = {}  # theirs, likewise

    # What comes.

    def add(self, first: int, count: int, queue: int, terms: NewTerms) -> None:
        """Take in messages that were added with these terms: so many, of neighbouring numbers, in the table already."""
        group = 0 if terms.group is None else group_hash(queue, terms.group)
        bits = _bits(terms)
        for number in range(first, first + count):
            behind = GROUPED if group else 0
            if group and not self._groups.add(number, group):
                behind = GROUPED | BEHIND
            if terms.due is not None:
                self._due.add(number, terms.due, terms.steady_due)
            if terms.expiry is not None:
                self._expiry.add(number, terms.expiry, terms.steady_expiry)
            self._table.change(number, bits | behind)
        if bits & TIMED:
            self._timed += count
            self._look_ahead()

    def load(self, rows: TermRows, now: int) -> None:
        """Take in all messages that a journal has with terms, those of them that are in the table. Begins anew.

        `now` is the wall clock, or the journal's newest time where that is later. What is over by then has expired,
        also where the clock shows less.
        """
        is_due, is_expiring = rows.due > now, rows.expiry != NEVER_OVER
        is_grouped = rows.groups != 0
        self._due.wall.add_many(rows.due[is_due], rows.numbers[is_due])
        ends = np.where(rows.expiry <= now, NEVER_DUE, rows.expiry)
        self._expiry.wall.add_many(ends[is_expiring], rows.numbers[is_expiring])
        self._table.mark(rows.numbers[is_due], NOT_DUE | TIMED)
        self._table.mark(rows.numbers[is_expiring], TIMED)
        self._table.mark(rows.numbers[is_grouped], GROUPED)
        self._timed = int(np.count_nonzero(is_due | is_expiring))
        self._table.mark(self._groups.load(rows.numbers[is_grouped], rows.groups[is_grouped]), BEHIND)
        self._look_ahead()

    def add_rows(self, rows: TermRows) -> None:
        """Take in messages that came with numbers and terms of their own, behind all others."""
        columns = (rows.numbers, rows.queues, rows.due, rows.expiry, rows.groups)
        for number, _, due, expiry, group in zip(*(column.tolist() for column in columns), strict=True):
            bits = 0
            if group:
                bits |= GROUPED if self._groups.add(number, group) else GROUPED | BEHIND
            if due != NEVER_DUE:
                self._due.add(number, due, None)
                bits |= NOT_DUE | TIMED
            if expiry != NEVER_OVER:
                self._expiry.add(number, expiry, None)
                bits |= TIMED
            self._table.change(number, bits)
            self._timed += bool(bits & TIMED)
        self._look_ahead()

    def come_back(self, number: int) -> bool:
        """Say whether a message that was in somebody's hands may be handed out again. What is late expires."""
        state = self._table.state_of(number)
        if state & LATE:
            self._expire([number], ())
            return False
        return not state & APART

    def is_late(self, number: int) -> bool:
        """Say whether a message expires when it comes back."""
        return bool(self._table.state_of(number) & LATE)

    # What time and the ends of others change.

    def has_news(self, now: Moment, patience: int = 0) -> bool:
        """Say whether `ready` has anything to tell or to change. Each take asks it.

        What has become due may wait so long, where something else can be handed out: then many are looked at at once.
        """
        if self._freed or self._is_spent:
            return True
        if self._next_steady > now.steady and self._next_wall > now.wall:
            return False
        if not patience or self._expiry.is_near(now):
            return True
        return self._due.is_near(Moment(now.steady - patience, now.wall - patience))

    def _look_ahead(self) -> None:
        due, expiry = self._due, self._expiry
        self._next_steady = min(due.steady.next_at, expiry.steady.next_at)
        self._next_wall = min(due.wall.next_at, expiry.wall.next_at)

    def ready(self, now: Moment, taken: Container[int]) -> dict[str, list[int]]:
        """Return what may be handed out since this was asked last, up to now, by queue. What is over by now expires.

        What is taken, and over, becomes late. What expires before it is taken may be among what is returned: `find`
        says so.
        """
        if self._expiry.is_near(now):
            self._expire(self._expiry.pop(now), taken)
        if self._due.is_near(now):
            self._become_due(self._due.pop(now))
        self._look_ahead()
        self._is_spent = False
        found: dict[str, list[int]] = {}
        if self._freed:
            freed, self._freed = self._freed, []
            for place, number in freed:
                found.setdefault(self._table.queues.name(place), []).append(number)
        return found

    def next_change(self, now: Moment) -> float | None:
        """Return in how many seconds time may change anything, None for never.

        At most LOOK_SECONDS where a message waits for the wall clock.
        """
        if self._freed:
            return 0.0
        steady, wall = self._next_steady, self._next_wall
        waits = [] if steady == NEVER else [(steady - now.steady) / MICROSECONDS]
        if wall != NEVER:
            waits.append(min((wall - now.wall) / MICROSECONDS, LOOK_SECONDS))
        return max(min(waits), 0.0) if waits else None

    def _expire(self, numbers: Sequence[int], taken: Container[int]) -> None:
        is_there = self._is_there
        for number in numbers:
            state = self._table.state_of(number)
            if not state or state & EXPIRED:
                continue
            if number in taken:
                self._table.change(number, LATE)
                continue
            self._table.change(number, EXPIRED, LATE)
            found = self._table.find(number)
            assert found is not None
            self._count_expired(found.queue, 1, found.size)
            self._expired.append(number)
            if state & GROUPED:
                self._follow(self._groups.end(number, is_there))

    def _become_due(self, numbers: Sequence[int]) -> None:
        if len(numbers) > FEW_ROWS:
            found, queues, bits = self._table.mark(np.sort(np.array(numbers, np.uint64)), 0, NOT_DUE)
            is_free = bits & APART == NOT_DUE
            self._freed += zip(queues[is_free].tolist(), found[is_free].tolist(), strict=True)
            return
        for number in numbers:
            changed = self._table.change(number, 0, NOT_DUE)
            if changed is not None and changed[1] & APART == NOT_DUE:
                self._freed.append((changed[0], number))

    def _follow(self, number: int | None) -> None:
        """Let the next message of a group have its turn."""
        if number is not None:
            changed = self._table.change(number, 0, BEHIND)
            if changed is not None and changed[1] & APART == BEHIND:
                self._freed.append((changed[0], number))

    def _is_there(self, number: int) -> bool:
        state = self._table.state_of(number)
        return bool(state) and not state & EXPIRED

    # What ends.

    def remove_many(self, numbers: Sequence[int] | Numbers) -> int:
        """Take ascending numbers out of the table, and let the next of their groups follow; return how many were there.

        The next ones are told by `ready`.
        """
        found, bits = self._on_terms(numbers)
        if self.expired:
            is_over = [number for number, state in zip(found, bits, strict=True) if state & EXPIRED]
            for place in self._table.find_places(is_over):
                self._count_expired(place.queue, -1, -place.size)
        removed = self._table.remove_many(numbers)
        for number, state in zip(found, bits, strict=True):
            if state & GROUPED:
                self._follow(self._groups.end(number, self._is_there))
            self._timed -= bool(state & TIMED)
        if len(found):
            self._forget_gone()
            self._is_spent = self.is_over
        return removed

    def _on_terms(self, numbers: Sequence[int] | Numbers) -> tuple[Sequence[int], Sequence[int]]:
        """Return those of the numbers that have terms: themselves, and their bits."""
        if len(numbers) == 1:
            known = self._table.change(int(numbers[0]))
            return ((), ()) if known is None or known[1] == LIVE else ((int(numbers[0]),), (known[1],))
        found, _, bits = self._table.mark(np.asarray(numbers, np.uint64))
        has_terms = bits != LIVE
        return found[has_terms].tolist(), bits[has_terms].tolist()

    def _count_expired(self, queue: int, messages: int, size: int) -> None:
        self.expired[queue] = self.expired.get(queue, 0) + messages
        self.expired_bytes[queue] = self.expired_bytes.get(queue, 0) + size
        if not self.expired[queue]:
            del self.expired[queue], self.expired_bytes[queue]

    def _forget_gone(self) -> None:
        """Forget messages that are gone, where they take the larger part of the memory."""
        if len(self._due) + len(self._expiry) > 4 * self._timed + SPARE:
            self._due.keep(self._are_there)
            self._expiry.keep(self._are_there)
            self._look_ahead()
        if self._groups.has_many_gone:
            self._groups.keep(self._are_there)

    def _are_there(self, numbers: Numbers) -> _Mask:
        found, _, bits = self._table.mark(distinct(numbers))
        return np.isin(numbers, found[bits & EXPIRED == 0])

    @property
    def is_over(self) -> bool:
        """Whether no message has terms any more that count, and nothing is left to be told."""
        return not (self._timed or len(self._groups) or self.expired or self._freed)

    # What has expired.

    def first_expired(self, count: int, queues: Collection[int] | None = None) -> list[int]:
        """Return about so many messages that have expired, ascending, to be removed; [] for none.

        `queues` are the places of those that are meant, None for all.
        """
        at = 0
        while at < len(self._expired):
            part = np.sort(np.array(self._expired[at : at + count], np.uint64))
            found, places, bits = self._table.mark(part)
            is_there = bits & EXPIRED != 0
            is_meant = is_there if queues is None else is_there & np.isin(places, [*queues])
            if is_meant.any():
                numbers: list[int] = found[is_meant].tolist()
                return numbers
            if is_there.any():
                at += count
            else:
                del self._expired[at : at + count]
        return []

    @property
    def expired_count(self) -> int:
        """How many messages have expired and are still in the table."""
        return sum(self.expired.values())

    # What the table is asked for, to hand messages out.

    def find_places(self, numbers: Sequence[int]) -> list[MessageLocation]:
        """Return where those of ascending numbers are that may be handed out."""
        found, _, bits = self._table.mark(np.array(numbers, np.uint64))
        return self._table.find_places(found[bits & APART == 0].tolist())

    def first_numbers(self, queue: str, after: int, count: int) -> tuple[list[int], int]:
        """Return what the table does, of messages that may be handed out."""
        return self._table.first_numbers(queue, after, count, APART)


def _bits(terms: NewTerms) -> int:
    bits = 0 if terms.due is None else NOT_DUE | TIMED
    return bits if terms.expiry is None else bits | TIMED
