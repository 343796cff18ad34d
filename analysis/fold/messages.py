"""Messages, matched with their ends: within a file, and where files come together.

What is known of a message is one ADD, maybe copies of it that compaction wrote later, and one end. As soon as an end
and an ADD are in one hand, the message is counted. What is left goes on:

    open    ADDs whose end has not been met; of copies of one message, the newest
    ended   ends whose ADD has not been met
    closed  numbers of messages that were counted by a copy: their first ADD may be in an earlier file

Whatever contradicts that is doubtful, and is evaluated by itself (`aside`): a number that ends twice; an end, a copy
that is open or one that is closed, whose ADD should be in a file that is there, since lower and higher numbers
were added in it, and is not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oms_journal.analysis.fold.figures import Figures, Lives, Mask, Numbers
from oms_journal.analysis.fold.matching import NONE, NumberSet, are_ascending, places_among, repeated
from oms_journal.analysis.reading.schema import Micros
from oms_journal.journal.operations import Operation

Columns = dict[str, npt.NDArray[Any]]

OPEN: Mapping[str, str] = {
    "number": "i8",
    "queue": "i4",
    "added": "i8",  # for the first time
    "ready": "i8",  # when it could be handed out: `added`, or when it was due
    "expiry": "i8",  # not handed out from this time on; NEVER for none
    "length": "u4",
    "properties": "u4",
    "sequence": "i8",  # of the data file that holds its newest copy
    "is_copy": "?",  # and its first ADD has not been met
}
ENDED: Mapping[str, str] = {"number": "i8", "queue": "i4", "time": "i8", "kind": "u1"}
_LATEST, _EARLIEST = (1 << 63) - 1, -(1 << 63)
NEVER = _LATEST
DEAD_LETTERED = 255  # the kind of a DELETE whose commit moves its message to the dead letters


def empty(kinds: Mapping[str, str]) -> Columns:
    """Return columns without rows."""
    return {name: np.empty(0, kind) for name, kind in kinds.items()}


def some(columns: Columns, rows: Numbers | Mask | slice) -> Columns:
    """Return some rows."""
    return {name: column[rows] for name, column in columns.items()}


def joined(parts: Sequence[Columns], kinds: Mapping[str, str]) -> Columns:
    """Return the rows of all, one part behind another, as narrow as they are kept."""
    parts = [part for part in parts if len(part["number"])]
    if not parts:
        return empty(kinds)
    return {
        name: np.concatenate([part[name].astype(kind, copy=False) for part in parts]) for name, kind in kinds.items()
    }


class Messages:
    """The messages of some files of one database; `figures` are counted where somebody asks for them."""

    def __init__(self, figures: Figures | None) -> None:
        self.figures = figures
        self.open = empty(OPEN)  # strictly ascending by number, as the others
        self.ended = empty(ENDED)
        self.closed: Numbers = NONE
        self._ranges: list[tuple[int, int]] = []  # of each file, the numbers that were added in it
        self._doubtful: list[Numbers] = []
        self._aside: list[tuple[Columns, Columns]] = []  # ADDs, ends

    def take(self, adds: Columns, ends: Columns, aside: NumberSet) -> None:
        """Take in the operations of one file: what is set aside is kept as it is. Nothing was taken in before."""
        first = adds["number"][~adds["is_copy"]] if adds["is_copy"].any() else adds["number"]
        if len(first):
            self._ranges.append((int(first.min()), int(first.max())))
        if aside:
            of_adds, of_ends = (aside.has(each["number"]) for each in (adds, ends))
            self._aside.append((joined([some(adds, of_adds)], OPEN), joined([some(ends, of_ends)], ENDED)))
            adds, ends = some(adds, ~of_adds), some(ends, ~of_ends)
        adds = self._each_once(adds)
        places = places_among(adds["number"], ends["number"])
        is_met = places >= 0
        met, mine = (ends, places) if is_met.all() else (some(ends, is_met), places[is_met])
        is_open = np.ones(len(adds["number"]), np.bool_)
        is_open[mine] = False
        if len(is_open) - np.count_nonzero(is_open) < len(mine):
            self._doubt(adds["number"][np.bincount(mine, minlength=len(is_open)) > 1])
        self.closed = self._count(adds, mine, met)
        self.open = joined([some(adds, is_open)], OPEN)
        self.ended = self._each_once(joined([some(ends, ~is_met)], ENDED))

    def merge(self, later: "Messages", queues: Numbers) -> None:
        """Take in what comes behind; `queues` says which of our queues each of its queues is."""
        if self.figures is not None and later.figures is not None:
            self.figures.merge(later.figures, queues)
        for columns in (later.open, later.ended, *(each for pair in later._aside for each in pair)):
            columns["queue"] = queues[columns["queue"]].astype(np.int32)
        self._ranges += later._ranges
        self._doubtful += later._doubtful
        self._aside += later._aside
        self._drop_older_copies(later.open)
        closed = self._drop_closed(later.closed)
        for one, other in (
            (later.open["number"], self.closed),
            (later.ended["number"], self.closed),
            (self.ended["number"], later.closed),
            (self.closed, later.closed),
            (self.ended["number"], later.ended["number"]),
        ):
            self._doubt(one[places_among(other, one) >= 0])
        found = [self.closed, closed]
        self.open, ended = self._close(self.open, later.ended, found)
        opened, self.ended = self._close(later.open, self.ended, found)
        self.open = self._in_order([self.open, opened], OPEN)
        self.ended = self._in_order([self.ended, ended], ENDED)
        self.closed = np.unique(np.concatenate(found))

    @property
    def border_bytes(self) -> int:
        """How many bytes what goes on takes: what is open, what has ended, what was closed."""
        columns = [*self.open.values(), *self.ended.values(), self.closed]
        return sum(column.nbytes for column in columns)

    def hand_over(self, parts: Sequence["Messages"]) -> None:
        """Move what goes on to others, in which nothing was taken in before: to each the numbers that are its own."""
        for kinds, name in ((OPEN, "open"), (ENDED, "ended")):
            columns = getattr(self, name)
            setattr(self, name, empty(kinds))
            for part, rows in zip(parts, _by_part(columns["number"], len(parts)), strict=True):
                setattr(part, name, some(columns, rows))
        for part, rows in zip(parts, _by_part(self.closed, len(parts)), strict=True):
            part.closed = self.closed[rows]
        self.closed = NONE

    def doubtful(self) -> NumberSet:
        """Return the numbers that vectors alone cannot decide, once everything has come together."""
        ranges = sorted(self._ranges)
        overlaps, end = [], _EARLIEST
        for start, stop in ranges:
            if start <= end:
                overlaps.append((start, min(stop, end)))
            end = max(end, stop)
        known = NumberSet.of(ranges)
        copies = self.open["number"][self.open["is_copy"]]
        should_be_there = [each[known.has(each)] for each in (self.ended["number"], copies, self.closed)]
        return NumberSet.of(overlaps, np.unique(np.concatenate([*should_be_there, *self._doubtful, NONE])))

    def finished(self, since: Micros | None) -> Columns:
        """Count what is left, and return the undelivered messages, by number."""
        undelivered = self.open
        if self._aside:
            evaluated = _evaluated(self._aside, since)
            undelivered = joined([self.open, *(there for _, there in evaluated)], OPEN)
            if self.figures is not None:
                for lives, _ in evaluated:
                    self.figures.count(lives)
        if self.figures is not None:
            self.figures.count(_added(undelivered))
            self.figures.count(_ended(self.ended))
        if are_ascending(undelivered["number"]):
            return undelivered
        return some(undelivered, np.argsort(undelivered["number"], kind="stable"))

    def _each_once(self, columns: Columns) -> Columns:
        """Return the rows by strictly ascending number; of several with one number the first, and they are doubtful."""
        numbers = columns["number"]
        if are_ascending(numbers):
            return columns
        again = repeated(numbers)
        columns = some(columns, np.argsort(numbers, kind="stable"))
        if len(again):
            self._doubt(again)
            numbers = columns["number"]
            columns = some(columns, np.append(True, numbers[1:] != numbers[:-1]))
        return columns

    def _in_order(self, parts: Sequence[Columns], kinds: Mapping[str, str]) -> Columns:
        return self._each_once(joined(parts, kinds))

    def _doubt(self, numbers: Numbers) -> None:
        if len(numbers):
            self._doubtful.append(numbers.astype(np.int64))

    def _drop_older_copies(self, later: Columns) -> None:
        """Leave what we know of messages that come again to their newest copies."""
        places = places_among(self.open["number"], later["number"])
        theirs = np.flatnonzero(places >= 0)
        if not len(theirs):
            return
        mine = places[theirs]
        older = some(self.open, mine)
        is_other = older["queue"] != later["queue"][theirs]
        self._doubt(older["number"][is_other | ~(older["is_copy"] | later["is_copy"][theirs])])
        later["added"][theirs] = np.minimum(older["added"], later["added"][theirs])
        later["is_copy"][theirs] &= older["is_copy"]
        later["expiry"][theirs] = np.minimum(older["expiry"], later["expiry"][theirs])
        for name in ("ready", "length", "properties"):
            later[name][theirs] = np.maximum(older[name], later[name][theirs])
        self._without(mine)

    def _drop_closed(self, closed: Numbers) -> Numbers:
        """Let go of messages that were counted by a copy; return the numbers whose first ADD has not been met yet."""
        places = places_among(self.open["number"], closed)
        is_met = places >= 0
        if not is_met.any():
            return closed
        mine = places[is_met]
        is_first = np.zeros(len(closed), np.bool_)
        is_first[is_met] = ~self.open["is_copy"][mine]
        self._without(mine)
        return closed[~is_first]

    def _without(self, places: Numbers) -> None:
        is_kept = np.ones(len(self.open["number"]), np.bool_)
        is_kept[places] = False
        self.open = some(self.open, is_kept)

    def _close(self, adds: Columns, ends: Columns, closed: list[Numbers]) -> tuple[Columns, Columns]:
        """Count the messages that have both, and return what is left of both."""
        places = places_among(adds["number"], ends["number"])
        is_met = places >= 0
        if not is_met.any():
            return adds, ends
        mine = places[is_met]
        closed.append(self._count(adds, mine, some(ends, is_met)))
        is_left = np.ones(len(adds["number"]), np.bool_)
        is_left[mine] = False
        return some(adds, is_left), some(ends, ~is_met)

    def _count(self, adds: Columns, places: Numbers, ends: Columns) -> Numbers:
        """Count the messages of ADDs at these places by their ends, and return the numbers of those that are copies."""
        is_other = adds["queue"][places] != ends["queue"]
        if is_other.any():
            self._doubt(ends["number"][is_other])
        if self.figures is not None:
            self.figures.count(_whole(adds, places, ends, has_lengths=self.figures.are_lengths_asked))
        return np.sort(ends["number"][adds["is_copy"][places]]) if adds["is_copy"].any() else NONE


def _whole(adds: Columns, places: Numbers, ends: Columns, *, has_lengths: bool) -> Lives:
    added = adds["added"][places]
    is_delivered = ends["kind"] == Operation.DELIVER
    is_expired = None if is_delivered.all() else ~is_delivered & (ends["time"] >= adds["expiry"][places])
    return Lives(
        queue=ends["queue"],
        added=added,
        ready=added if adds["ready"] is adds["added"] else adds["ready"][places],
        length=adds["length"][places].astype(np.int64, copy=False) if has_lengths else None,
        ended=ends["time"],
        is_delivered=is_delivered,
        is_expired=is_expired,
        is_dead_lettered=_dead_lettered(ends, is_delivered),
    )


def _added(adds: Columns) -> Lives:
    return Lives(
        queue=adds["queue"],
        added=adds["added"],
        ready=adds["ready"],
        length=adds["length"].astype(np.int64, copy=False),
    )


def _ended(ends: Columns) -> Lives:
    is_delivered = ends["kind"] == Operation.DELIVER
    return Lives(
        queue=ends["queue"],
        ended=ends["time"],
        is_delivered=is_delivered,
        is_dead_lettered=_dead_lettered(ends, is_delivered),
    )


def _dead_lettered(ends: Columns, is_delivered: Mask) -> Mask | None:
    return None if is_delivered.all() else ends["kind"] == DEAD_LETTERED


def _evaluated(aside: Sequence[tuple[Columns, Columns]], since: Micros | None) -> list[tuple[Lives, Columns]]:
    """Return what became of the messages that were set aside, and those that are undelivered.

    As it is defined: of several ADDs the earliest time and the newest file, of several ends the earliest one, and a
    DELIVER goes before a DELETE. A message of which any end was before `since` had ended before. One that was not
    delivered was dead-lettered if any of its ends was so.
    """
    adds, ends = (joined([pair[place] for pair in aside], kinds) for place, kinds in enumerate((OPEN, ENDED)))
    count = len(adds["number"])
    number, queue = (np.concatenate((adds[name], ends[name])).astype(np.int64) for name in ("number", "queue"))
    if not len(number):
        return []
    order = np.lexsort((queue, number))
    starts = np.flatnonzero(np.append(True, (np.diff(number[order]) != 0) | (np.diff(queue[order]) != 0)))
    no_end, no_add = np.full(count, _LATEST), np.zeros(len(number) - count, np.int64)

    def lowest(values: Numbers) -> Numbers:
        return np.minimum.reduceat(values[order], starts)

    def highest(name: str) -> Numbers:
        return np.maximum.reduceat(np.append(adds[name].astype(np.int64), no_add)[order], starts)

    def first_end(*kinds: int) -> Numbers:
        return lowest(np.append(no_end, np.where(np.isin(ends["kind"], kinds), ends["time"], _LATEST)))

    added = lowest(np.append(adds["added"], no_add + _LATEST))
    ready = np.maximum.reduceat(np.append(adds["ready"], no_add + _EARLIEST)[order], starts)
    expiry = lowest(np.append(adds["expiry"], no_add + NEVER))
    delivered, deleted = first_end(Operation.DELIVER), first_end(Operation.DELETE, DEAD_LETTERED)
    is_delivered = delivered != _LATEST
    is_dead_lettered = ~is_delivered & (first_end(DEAD_LETTERED) != _LATEST)
    is_added, is_ended = added != _LATEST, is_delivered | (deleted != _LATEST)
    ended = np.where(is_delivered, delivered, deleted)
    length, properties, sequence = (highest(name) for name in ("length", "properties", "sequence"))
    number, queue = number[order][starts], queue[order][starts]
    is_in = is_added | is_ended
    if since is not None:
        is_in = ~is_ended | (np.minimum(delivered, deleted) >= since)
    undelivered: Columns = {
        "number": number, "queue": queue, "added": added, "ready": ready, "expiry": expiry, "length": length,
        "properties": properties, "sequence": sequence, "is_copy": np.zeros(len(number), np.bool_),
    }  # fmt: skip
    both, only_ended = is_in & is_added & is_ended, is_in & ~is_added
    without_add = Lives(queue=queue, ended=ended, is_delivered=is_delivered, is_dead_lettered=is_dead_lettered)
    is_expired = ~is_delivered & (deleted >= expiry)
    whole = replace(without_add, added=added, ready=ready, length=length, is_expired=is_expired)
    return [
        (whole.where(both), some(undelivered, is_added & ~is_ended)),
        (without_add.where(only_ended), empty(OPEN)),
    ]


def _by_part(numbers: Numbers, count: int) -> list[Numbers]:
    """Return the rows of each part, in their order: neighbouring numbers are in different ones."""
    parts = numbers % count
    order = np.argsort(parts, kind="stable")
    return np.split(order, np.searchsorted(parts[order], np.arange(1, count)))
