"""Due times, expiries and groups, against a plain dict of messages: any order of events, clocks that are set too."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from oms_journal.database.consumers.consumers import Consumers
from oms_journal.index import readiness
from oms_journal.index.duplicates import WindowBounds
from oms_journal.index.live import Index
from oms_journal.index.readiness import (
    LOOK_SECONDS,
    MICROSECONDS,
    NEVER_DUE,
    NEVER_OVER,
    Moment,
    NewTerms,
    TermRows,
    group_hash,
)
from oms_journal.index.table import EXPIRED
from tests.support.sweeps import a_sample

QUEUES = ("q", "r")
START = 1_000_000_000
UNIT = 200_000  # microseconds of a span
SPANS = (0, 1, 2, 5, 20)


@dataclass(slots=True)
class Sent:
    """A message as the model knows it."""

    queue: str
    due: tuple[str, int] | None = None  # clock and time
    expiry: tuple[str, int] | None = None
    group: str | None = None
    wall_due: int = NEVER_DUE
    wall_expiry: int = NEVER_OVER
    is_due: bool = True
    has_expired: bool = False
    is_late: bool = False


class Walk:
    """Messages that come, are taken, come back, end; clocks that go on and are set; starts. One step after another."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.steady, self.wall = 77, START
        self.messages: dict[int, Sent] = {}
        self.taken: set[int] = set()
        self.next_number = 1
        self._begin(Index(WindowBounds()))

    def _begin(self, index: Index) -> None:
        self.index = index
        self.taking = Consumers(index, now=self._now)

    def _now(self) -> Moment:
        return Moment(self.steady, self.wall)

    def step(self) -> None:
        """Do one thing, and look whether both say the same."""
        often = [self.add, self.take, self.go_on]
        every = [self.take_many, self.end, self.come_back, self.look_when_told, self.count]
        seldom = [self.set_the_clock, self.delete_what_has_expired, self.start_again]
        self.random.choice(often * 4 + every * 2 + seldom)()
        self.index.table.check()
        if not self.messages:
            self.index.ready(self._now(), ())
            assert self.index.terms is None, "without messages it costs what it did before"

    def _shows(self, at: tuple[str, int] | None) -> bool:
        """Say whether a time has come."""
        return at is None or at[1] <= (self.steady if at[0] == "steady" else self.wall)

    def _look(self) -> None:
        """Let both see what time it is."""
        self.taking.catch_up()
        self._observe()

    def _observe(self) -> None:
        for number, sent in self.messages.items():
            is_over = sent.expiry is not None and self._shows(sent.expiry) and not sent.has_expired
            sent.is_due = sent.is_due or self._shows(sent.due)
            sent.has_expired = sent.has_expired or (is_over and number not in self.taken)
            sent.is_late = sent.is_late or (is_over and number in self.taken)

    def _free(self, queue: str) -> list[int]:
        """Return what may be handed out of a queue, in order."""
        firsts: dict[str, int] = {}
        for number, sent in self.messages.items():
            if sent.queue == queue and sent.group is not None and not sent.has_expired:
                firsts.setdefault(sent.group, number)
        return [
            number
            for number, sent in self.messages.items()
            if sent.queue == queue
            and sent.is_due
            and not sent.has_expired
            and number not in self.taken
            and (sent.group is None or firsts[sent.group] == number)
        ]

    def _time(self, chance: float) -> tuple[int | None, int | None, tuple[str, int] | None]:
        """Return a time as the wall clock's, as the steady clock's, and as the model knows it."""
        if self.random.random() > chance:
            return None, None, None
        span = self.random.choice(SPANS) * UNIT
        steady, wall = self.steady + span, self.wall + span
        return (wall, steady, ("steady", steady)) if self.random.random() < 0.6 else (wall, None, ("wall", wall))

    def add(self) -> None:
        queue, group = self.random.choice(QUEUES), self.random.choice((None, "a", "b"))
        count = self.random.choice((1, 1, 2, 9))
        place, first = self.index.table.queues.place(queue), self.next_number
        self.index.table.add_run(place, first, 1, 8, [1] * count)
        due, steady_due, due_at = self._time(0.5)
        expiry, steady_expiry, expiry_at = self._time(0.4)
        terms = NewTerms(due, expiry, None if group is None else group.encode(), steady_due, steady_expiry)
        if terms != NewTerms():
            self.index.add_terms(first, count, place, terms)
        for number in range(first, first + count):
            self.messages[number] = Sent(
                queue,
                due_at,
                expiry_at,
                group,
                NEVER_DUE if due is None else due,
                NEVER_OVER if expiry is None else expiry,
                is_due=due is None,
            )
        self.next_number += count

    def go_on(self) -> None:
        span = self.random.choice((0, 1, 3, 10)) * UNIT
        self.steady += span
        self.wall += span

    def set_the_clock(self) -> None:
        self.wall += self.random.choice((-40, -7, 7, 40)) * UNIT

    def take(self) -> None:
        queue = self.random.choice(QUEUES)
        self._observe()
        place = self.taking.take(queue)
        assert (place.number if place else None) == min(self._free(queue), default=None)
        if place:
            self.taken.add(place.number)

    def take_many(self) -> None:
        queue, count = self.random.choice(QUEUES), self.random.choice((1, 5, 100))
        self._observe()
        noted: list[int] = []
        found = [place.number for place in self.taking.take_many(queue, count, noted)]
        assert found == noted == self._free(queue)[:count]
        self.taken.update(found)

    def come_back(self) -> None:
        if not self.taken:
            return
        number = self.random.choice(sorted(self.taken))
        if self.random.random() < 0.5:
            self.taking.given_back.append(number)
            self.taking.catch_up()
            self._came_back(number)
            self._observe()
        else:
            assert self.taking.release(number)
            self._came_back(number)

    def _came_back(self, number: int) -> None:
        self.taken.remove(number)
        self.messages[number].has_expired |= self.messages[number].is_late

    def end(self) -> None:
        """Messages are delivered or deleted, whatever they wait for."""
        if not self.messages:
            return
        first = self.random.choice([*self.messages, *self.taken])
        count = self.random.choice((1, 1, 3, 20))
        self._remove([number for number in self.messages if number >= first][:count])

    def _remove(self, numbers: Sequence[int]) -> None:
        assert self.index.messages.remove_many(numbers) == len(numbers)
        for number in numbers:
            self.taking.taken.pop(number, None)
            self.taken.discard(number)
            del self.messages[number]

    def delete_what_has_expired(self) -> None:
        count = self.random.choice((1, 100))
        self._look()
        terms = self.index.terms
        numbers = [] if terms is None else terms.first_expired(count)
        expired = {number for number, sent in self.messages.items() if sent.has_expired}
        assert set(numbers) <= expired and numbers == sorted(numbers) and len(numbers) <= count
        assert bool(numbers) == bool(expired)
        if numbers:
            self._remove(numbers)

    def count(self) -> None:
        queue = self.random.choice(QUEUES)
        self._look()
        there = [number for number, sent in self.messages.items() if sent.queue == queue and not sent.has_expired]
        found = [n for batch in self.index.table.batches(queue, 0, 1 << 62, EXPIRED) for n in batch[0].tolist()]
        assert found == there
        assert self.index.undelivered_count(queue) == len(there)
        size = sum(self.index.table.find_places([number])[0].size for number in there)
        assert self.index.undelivered().get(queue, (0, 0)) == (len(there), size)

    def look_when_told(self) -> None:
        """Before the moment that is told nothing changes, as far as nobody sets the clock."""
        self._look()
        terms = self.index.terms
        seconds = None if terms is None else terms.next_change(self._now())
        times = [
            at
            for sent in self.messages.values()
            for at, is_open in (
                (sent.due, not sent.is_due),
                (sent.expiry, not sent.has_expired and not sent.is_late),
            )
            if at is not None and is_open
        ]
        waits = [(time - (self.steady if clock == "steady" else self.wall)) / MICROSECONDS for clock, time in times]
        if waits:
            assert seconds is not None and seconds <= min(waits)
            if any(clock == "wall" for clock, _ in times):
                assert seconds <= LOOK_SECONDS
        if len(self.messages) == 1 and waits:
            assert seconds in (min(waits), LOOK_SECONDS)

    def start_again(self) -> None:
        """The journal has the wall clock's times; a clock that is behind its newest commit is taken to show that."""
        index = Index(WindowBounds())
        now = max(self.wall, self.wall + self.random.choice((-40, 0, 40)) * UNIT)
        rows = []
        for number, sent in self.messages.items():
            place = index.table.queues.place(sent.queue)
            index.table.add_run(place, number, 1, 8, [1])
            group = 0 if sent.group is None else group_hash(place, sent.group.encode())
            if group or sent.wall_due != NEVER_DUE or sent.wall_expiry != NEVER_OVER:
                rows.append((number, place, sent.wall_due, sent.wall_expiry, group))
            sent.due, sent.is_due = ("wall", sent.wall_due), sent.wall_due <= now
            ends = (
                0 if sent.wall_expiry <= now else sent.wall_expiry
            )  # what is over stays over, whatever the clock shows
            sent.expiry = None if sent.wall_expiry == NEVER_OVER else ("wall", ends)
            sent.has_expired = sent.is_late = False
        if rows:
            numbers, places, due, expiry, groups = zip(*rows, strict=True)
            terms = TermRows(
                np.array(numbers, np.uint64),
                np.array(places, np.int64),
                np.array(due, np.int64),
                np.array(expiry, np.int64),
                np.array(groups, np.uint64),
            )
            index.load_terms(terms, now)
        self.taken.clear()
        self._begin(index)


def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a few messages do what many would."""
    for name, value in {"NEAR_MAX": 3, "AHEAD": 2, "SPARE": 4, "FEW_ROWS": 3}.items():
        monkeypatch.setattr(readiness, name, value)


@a_sample(20)
@pytest.mark.parametrize("are_many", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_messages_are_ready_when_their_terms_say_so(seed: int, are_many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if are_many:
        _small(monkeypatch)
    walk = Walk(seed)
    for _ in range(150):
        walk.step()
