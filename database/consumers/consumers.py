"""Handing out messages: each to one caller, until it is given back, delivered or deleted, or its lease ends.

What is taken is remembered in memory only, and so is who waits and until when a lease goes. When the process ends,
every message that was not delivered is undelivered again.

Whoever waits stands in the line of each of its queues, and is served in the order in which it came: by the commit
that brings a message, or by whoever gives one back. While somebody waits for a queue, nothing in it is free.

A caller may be interrupted between any two calls, by Ctrl-C or an exception of a signal handler. So a message is
noted as taken while it still stands in its queue's line, and leaves the line only then: at no moment is it in
neither. Where both say it, the note counts, and what is left in the line is passed over. Who loses a message that
was handed out to an exception puts its number into `given_back`, which takes one call and no lock.

Time is handed in, in microseconds of a clock that nobody sets.
"""

import heapq
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from operator import itemgetter
from threading import get_ident
from time import monotonic
from typing import NamedTuple

import numpy as np

from oms_journal.database.arguments import shown
from oms_journal.database.consumers.dead_letters import DeadLetterQueues
from oms_journal.database.consumers.hand_file import HandFile
from oms_journal.index.live import Index
from oms_journal.index.readiness import MICROSECONDS, NEVER, Moment
from oms_journal.index.returned import Return
from oms_journal.index.table import NUMBER_MAX, MessageLocation
from oms_journal.journal.errors import LeaseEnded
from oms_journal.journal.operations import encode_name
from oms_journal.journal.reading.message import Message

REFILL_MESSAGES = 4096  # candidates kept ready for one queue
LINES_KEPT = 1000  # those of empty queues are not looked for below
SETTLING_MICROSECONDS = 5_000_000  # that a caller takes at most from the look at its lease to its commit
BETWEEN_LOOKS_MICROSECONDS = 20_000  # between two looks at what time makes ready, at least, where much does
ENDS_KEPT = 1000  # moments at which leases end, those of messages that are gone among them


@dataclass(slots=True)
class _Line:
    """The candidates of one queue, in order."""

    ready: deque[int] = field(default_factory=deque)
    after: int = 0  # every number of the queue up to here was a candidate
    returned: list[int] = field(default_factory=list)  # a heap


# Who has a message: its queue, since when as of `time.monotonic`, and the thread's identity or the task's name. Each
# call that takes makes one: it is the proof that a message is still in the hands of that call.
Holding = tuple[str, float, int | str]
AWAY = -1  # instead of a thread: nobody has it, and nobody gets it yet


class TakenMessage(Message):
    """A message that says itself in whose hands it is."""

    _holding: Holding | None  # None once it was removed
    _has_lease: bool
    _attempts: int

    @property
    def attempts(self) -> int:
        return self._attempts


class Taken(NamedTuple):
    """A message that is taken: who has it, since when, and for how much longer."""

    number: int
    queue: str
    holder: int | str  # identity of the thread, or name of the task
    held_seconds: float
    lease_seconds: float | None  # what is left of its lease, None without one


@dataclass(slots=True, eq=False)
class _Lease:
    holding: Holding
    until: int
    settling: int = 0  # commits on their way that end it
    doubted: int = 0  # when it was first seen that it is over and they have not ended it


class Waiter(ABC):
    """A call that waits for a message of any of its queues."""

    def __init__(self, queues: Sequence[str], holder: int | str) -> None:
        self.queues = queues
        self.holder = holder
        self.place: MessageLocation | None = None  # what it was handed

    @abstractmethod
    def wake(self) -> bool:
        """Have it look; False when nobody waits any more. With the lock held, from any thread."""


class _InHand:
    """Which messages somebody has, or are on their way to the dead letters. One that stays away expires there."""

    def __init__(self, consumers: "Consumers") -> None:
        self._consumers = consumers

    def __contains__(self, number: object) -> bool:
        consumers = self._consumers
        holding = consumers.taken.get(number)  # type: ignore[call-overload]
        return holding is not None and (holding[2] != AWAY or number in consumers.dead)


class Consumers:
    """Which messages are handed out, to whom, and who waits. Does not lock: its owner does."""

    def __init__(
        self,
        index: Index,
        dead_letters: DeadLetterQueues | None = None,
        now: Callable[[], Moment] = lambda: Moment(0, 0),
    ) -> None:
        self._index = index
        self._now = now
        self._table = index.table
        self.returned = index.returned
        self.dead_letters = dead_letters or DeadLetterQueues()
        self.dead: dict[int, Holding] = {}  # messages that go there, and are nobody's meanwhile
        self.hand: HandFile | None = None  # for the case that the process dies, where attempts have an end
        self._suspect = 0  # the message in hand that may have killed a process, 0 for none
        self._suspects: dict[str, deque[int]] = {}  # by queue, others like it, which wait for it to leave
        self._lines: dict[str, _Line] = {}
        self.taken: dict[int, Holding] = {}  # the ledger removes what is delivered or deleted
        self.leases: dict[int, _Lease] = {}  # likewise; one counts while its message is in the hands it names
        # Whether no commit is on its way: then a lease that one was to end may end by itself, where an interrupt has
        # come between both. Its owner says so.
        self.is_idle: Callable[[], bool] = lambda: False
        self._ends: list[tuple[int, int, int, Holding]] = []  # a heap: when, order, number, in whose hands
        self._ends_enough = ENDS_KEPT  # when there are so many, those of messages that are gone are looked for
        self._order = count()
        self.waiting: dict[str, OrderedDict[Waiter, None]] = {}  # by queue, who has waited longest first
        self.given_back: deque[int] = deque()  # handed out, and not received: to be put back. From any thread
        self._in_hand = _InHand(self)
        self.watched = NEVER  # when it is looked at the terms, by the steady clock
        self._looked = 0  # when that was done last
        self.alarm: Callable[[int], None] = lambda _: None  # called with such a moment
        self._enough = LINES_KEPT  # when there are so many lines, those of empty queues are forgotten

    def take(self, queue: str, holder: int | str = 0) -> MessageLocation | None:
        """Hand out the queue's next message; None when there is none. InvalidName."""
        line = self._lines.get(queue)
        if line is None:
            line = self._new_line(queue)
        returned, taken = line.returned, self.taken
        noted = 0
        try:
            if self.given_back or self._index.terms is not None:
                self._catch_up_for(line)
            while True:
                ready = line.ready
                if not ready:
                    self._refill(queue, line)
                    ready = line.ready
                is_returned = False
                if returned and (not ready or returned[0] < ready[0]):
                    is_returned, number = True, returned[0]
                elif ready:
                    number = ready[0]
                else:
                    return None
                place = None if number in taken else self._index.messages.find(number)
                if place is not None:
                    noted, taken[number] = number, (queue, monotonic(), holder or get_ident())
                if is_returned:
                    heapq.heappop(returned)
                else:
                    ready.popleft()
                if place is not None and (self.hand is None or self._hand_out(number, queue, self.hand)):
                    return place
        except BaseException:
            if noted:
                self.given_back.append(noted)
            raise

    def _catch_up_for(self, line: _Line) -> None:
        """Catch up before a message of a line is handed out. What has just become due may wait behind what is there."""
        terms = self._index.terms
        patience = BETWEEN_LOOKS_MICROSECONDS if line.ready or line.returned else 0
        if self.given_back or (terms is not None and terms.has_news(self._now(), patience)):
            self.catch_up()

    def peek(self, queue: str) -> MessageLocation | None:
        """Return what `take` would hand out next; it stays where it is. InvalidName."""
        place = None
        try:
            place = self.take(queue)  # so that whatever decides there decides here
            if place is not None:
                self._put_back(place.number, self.taken[place.number])
            return place
        except BaseException:
            if place is not None and place.number in self.taken:
                self.given_back.append(place.number)
            raise

    def pass_over(self, number: int, queue: str) -> None:
        """Hand out to nobody, as `take` does, what cannot be read."""
        if number not in self.taken and self._table.queue_of(number) is not None:
            self.taken[number] = (queue, monotonic(), get_ident())

    def ready_count(self, queue: str) -> int:
        """Return how many messages of a queue can be handed out now: undelivered, not taken, not away, not held."""
        self.catch_up()
        if self.waiting:
            self.serve((queue,))
        held, taken = self._index.held, [number for number, holding in self.taken.items() if holding[0] == queue]
        if self._index.terms is not None:
            return self._ready_on_terms(queue)
        count = self._table.undelivered_count(queue) - len(taken)
        if held:
            there = sum(int(held.mask(batch[0]).sum()) for batch in self._table.batches(queue, 0, NUMBER_MAX))
            count -= there - int(held.mask(taken).sum())
        return count

    def _ready_on_terms(self, queue: str) -> int:
        """Count one by one, where some wait for their time or for their group's turn."""
        held, count, after = self._index.held, 0, 0
        while True:
            numbers, after = self._index.messages.first_numbers(queue, after, REFILL_MESSAGES)
            if not numbers:
                return count
            free = [number for number in numbers if number not in self.taken]
            count += len(free) - (int(held.mask(free).sum()) if free and held else 0)

    def take_first(self, queues: Sequence[str], holder: int | str = 0) -> MessageLocation | None:
        """Hand out the next message of the first of the queues that has one. InvalidName."""
        for queue in queues:
            if (place := self.take(queue, holder)) is not None:
                return place
        return None

    def take_many(self, queue: str, count: int, noted: list[int], holder: int | str = 0) -> list[MessageLocation]:
        """Hand out the queue's next messages, at most so many, in order. InvalidName.

        Their numbers are put into `noted` before they are handed out: an exception leaves those there that the caller
        has to give back.
        """
        line = self._lines.get(queue) or self._new_line(queue)
        places: list[MessageLocation] = []
        if self._index.terms is not None:
            self.catch_up()
        holding = (queue, monotonic(), holder or get_ident())
        while len(places) < count:
            if self.given_back or line.returned or not line.ready:
                place = self.take(queue, holder)  # which puts back, and refills
                if place is None:
                    break
                noted.append(place.number)
                places.append(place)
                continue
            ready, taken = line.ready, self.taken
            numbers = list(islice(ready, count - len(places)))
            free = numbers if taken.keys().isdisjoint(numbers) else [one for one in numbers if one not in taken]
            found = self._index.messages.find_places(free)
            mine = list(map(itemgetter(0), found))
            noted += mine
            taken.update(dict.fromkeys(mine, holding))
            for _ in numbers:
                ready.popleft()
            if (hand := self.hand) is not None:
                found = [place for place in found if self._hand_out(place.number, queue, hand)]
            places += found
        return places

    def _hand_out(self, number: int, queue: str, hand: HandFile) -> bool:
        """Note that a message is in hand; False for a suspect while another one is: it waits for that."""
        if self.returned.entries and self.returned.is_suspect(number):
            if self._suspect:
                self.taken[number] = (queue, monotonic(), AWAY)
                self._suspects.setdefault(queue, deque()).append(number)
                return False
            self._suspect = number
        hand.put(number)
        return True

    def leave_hand(self, numbers: Iterable[int], *, are_gone: bool = False) -> None:
        """Note that messages are in hand no more, gone or not; a suspect lets the next one of each queue go."""
        if (hand := self.hand) is None:
            return
        for number in numbers:
            hand.remove(number, is_gone=are_gone)
            if number == self._suspect:
                self._suspect = 0
        if not self._suspect:
            for queue in [*self._suspects]:
                self._let_follow(queue)

    def _let_follow(self, queue: str) -> None:
        """Let the first of a queue's suspects go that has waited: who takes from the queue is handed it, or nobody."""
        waiting = self._suspects.get(queue)
        while waiting:
            number = waiting.popleft()
            if not waiting:
                self._suspects.pop(queue, None)
            holding = self.taken.get(number)
            if holding is not None and holding[2] == AWAY and number not in self.dead:
                self._put_back(number, holding)
                self.serve((queue,))
                return

    def _new_line(self, queue: str) -> _Line:
        encode_name(queue, "queue name")
        if len(self._lines) >= self._enough:
            self._lines = {name: line for name, line in self._lines.items() if self._table.undelivered_count(name)}
            self._enough = LINES_KEPT + 2 * len(self._lines)
        line = self._lines[queue] = _Line()
        return line

    def _refill(self, queue: str, line: _Line) -> None:
        """Look behind what were candidates until some can be handed out or all of the queue were looked at."""
        if not line.returned and self._index.terms is not None:  # all that was there is somebody's, or gone
            self._catch_up_for(line)
        table, held = self._table, self._index.held
        line.after = line.after or table.number_before(queue)  # of a new one: others' messages may be many
        while not line.ready and line.after < table.last_number():
            numbers, after = self._index.messages.first_numbers(queue, line.after, REFILL_MESSAGES)
            if numbers and held:
                numbers = np.array(numbers)[~held.mask(numbers)].tolist()
            ready = deque(numbers)
            # No call in between: an exception of a signal's handler finds both as they were, or both as they are.
            line.ready, line.after = ready, after

    def release(self, number: int) -> bool:
        """Take a message back that nobody received; False when it was not handed out."""
        holding = self.taken.get(number)
        if holding is None or holding[2] == AWAY:
            return False
        self._put_back(number, holding)
        if self.waiting:
            self.serve((holding[0],))
        return True

    def give_back(self, number: int, entry: Return, until: int | None = None) -> bool:
        """Take a message back that its caller had: an attempt was in vain. False when it was not handed out.

        It is known from then on what the entry says, which counts no attempt yet. It stays away up to a moment, or
        for good where it came back too often. What has no time left expires at once.
        """
        holding = self.taken.get(number)
        if holding is None or holding[2] == AWAY:
            return False
        queue = holding[0]
        attempts = self.returned.attempts(number) + 1
        is_suspect = self.returned.is_suspect(number)
        self.returned.note(number, entry._replace(attempts=attempts, is_suspect=is_suspect))
        dead = self.dead_letters.of(queue)
        if dead is not None and dead.takes(attempts):
            self.dead[number] = self.put_away(number, queue)
        elif until is not None and not self._index.is_late(number):
            self.put_away(number, queue, until)
        else:
            self._put_back(number, holding)
            if self.waiting:
                self.serve((queue,))
        return True

    def put_away(self, number: int, queue: str, until: int | None = None) -> Holding:
        """Let nobody have a message, up to a moment or for good; return what says so."""
        holding = (queue, monotonic(), AWAY)
        self.leases.pop(number, None)
        self.taken[number] = holding
        self.leave_hand((number,))
        if until is not None:
            self.lease(number, holding, until)
        return holding

    def _put_back(self, number: int, holding: Holding) -> None:
        terms = self._index.terms
        if (terms is None or terms.come_back(number)) and (line := self._lines.get(holding[0])) is not None:
            heapq.heappush(line.returned, number)
        self.taken.pop(number, None)
        self.leases.pop(number, None)
        if self.hand is not None and holding[2] != AWAY:
            self.leave_hand((number,))

    def catch_up(self) -> list[str]:
        """Put back what nobody received, and note what time and the ends of other messages have made ready.

        Return the queues of the latter. Whoever waits is served by the caller: what it hands out is not put back.
        """
        while self.given_back:
            if (holding := self.taken.get(number := self.given_back[0])) is not None:
                self._put_back(number, holding)
            self.given_back.popleft()
        if self._index.terms is None:
            return []
        found = self._index.ready(self._now(), self._in_hand)
        if found:
            self._admit(found)
        return [*found]

    def admit(self, freed: Mapping[str, Iterable[int]]) -> None:
        """Note messages that were held back and are not any more, by queue."""
        self._admit(freed)
        if self.waiting:
            self.serve(freed)

    def _admit(self, freed: Mapping[str, Iterable[int]]) -> None:
        for queue, numbers in freed.items():
            line = self._lines.get(queue)
            if line is not None:
                for number in numbers:
                    if number <= line.after:  # its turn has passed; a later one's comes
                        heapq.heappush(line.returned, number)

    # Waiting.

    def wait(self, waiter: Waiter) -> None:
        """Put a caller behind those who wait already. Nothing of its queues is free."""
        for queue in waiter.queues:
            self.waiting.setdefault(queue, OrderedDict())[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        """Let a caller wait no more."""
        for queue in waiter.queues:
            if (line := self.waiting.get(queue)) is not None:
                line.pop(waiter, None)
                if not line:
                    self.waiting.pop(queue, None)

    def serve(self, queues: Iterable[str]) -> None:
        """Hand what is free in these queues to those who wait for it, one message to one of them."""
        if self.given_back or self._index.terms is not None:
            queues = [*queues, *self.catch_up()]
        for queue in queues:
            while line := self.waiting.get(queue):
                waiter = next(iter(line))
                if (place := self.take(queue, waiter.holder)) is None:
                    break
                try:
                    waiter.place = place
                    self.leave(waiter)
                    is_awake = waiter.wake()
                except BaseException:
                    waiter.wake()  # what it was handed stays its own; an interrupt came behind that
                    raise
                if not is_awake:  # its event loop is gone
                    self._put_back(place.number, self.taken[place.number])

    def end_waits(self) -> None:
        """Wake everybody who waits, with nothing."""
        for waiter in {waiter: None for line in self.waiting.values() for waiter in line}:
            self.leave(waiter)
            waiter.wake()

    def next_ready(self) -> int:
        """Return when to look at what time makes ready for those who wait, by the steady clock; NEVER for never.

        Where many messages become due one after the other, it is looked at several of them at once.
        """
        terms = self._index.terms
        if terms is None or not self.waiting:
            return NEVER
        now = self._now()
        seconds = terms.next_change(now)
        if seconds is None:
            return NEVER
        return max(now.steady + int(seconds * MICROSECONDS), self._looked + BETWEEN_LOOKS_MICROSECONDS)

    def look(self, now: int) -> None:
        """Serve those who wait with what time has made ready."""
        self._looked = now
        if self.waiting:
            self.serve([*self.waiting])
        self.watched = self.next_ready()

    def watch(self) -> None:
        """Have it looked at what time makes ready, where it is not looked at early enough."""
        moment = self.next_ready()
        if moment < self.watched:
            self.watched = moment
            self.alarm(moment)

    # Leases.

    def lease(self, number: int, holding: Holding, until: int) -> None:
        """Let a message that was just taken be in its caller's hands up to a moment."""
        self.leases[number] = _Lease(holding, until)
        ends = self._ends
        heapq.heappush(ends, (until, next(self._order), number, holding))
        if len(ends) > self._ends_enough:
            self._forget_ends()

    def _forget_ends(self) -> None:
        """Let go of the ends of leases whose messages are gone, where they are most."""
        if len(self._ends) > ENDS_KEPT + 2 * len(self.leases):
            self._ends = [end for end in self._ends if self._is_leased(end[2], end[3])]
            heapq.heapify(self._ends)
        self._ends_enough = ENDS_KEPT + 2 * len(self.leases)

    def _end_at(self, until: int, number: int, holding: Holding) -> None:
        heapq.heappush(self._ends, (until, next(self._order), number, holding))

    def _is_leased(self, number: int, holding: Holding | None) -> bool:
        """Say whether a message is still in these hands, on a lease."""
        lease = self.leases.get(number)
        return lease is not None and lease.holding is holding is self.taken.get(number)

    def extend(self, message: TakenMessage, until: int, now: int) -> None:
        """Set the moment at which a lease ends anew. LeaseEnded."""
        lease = self._lease(message, now)
        lease.until = until
        self._end_at(until, message.number, lease.holding)

    def settle(self, messages: Iterable[TakenMessage], now: int) -> None:
        """Let these leases end no more: a commit is on its way that ends the messages.

        LeaseEnded: nothing is changed.
        """
        for lease in [self._lease(message, now) for message in messages]:
            lease.settling += 1

    def unsettle(self, messages: Iterable[TakenMessage]) -> None:
        """Let these leases end again in their time: their commit was not written."""
        for message in messages:
            if self._is_leased(message.number, message._holding):
                lease = self.leases[message.number]
                lease.settling -= 1
                self._end_at(lease.until, message.number, lease.holding)

    def end_when_idle(self, message: TakenMessage, now: int) -> None:
        """Take a message back that somebody has, when it is seen that no commit on its way ends it."""
        assert message._holding is not None, "who has it has not removed it"
        if not self._is_leased(message.number, message._holding):
            self.lease(message.number, message._holding, now)
            self.leases[message.number].settling = 1

    def _lease(self, message: TakenMessage, now: int) -> _Lease:
        lease = self.leases[message.number] if self._is_leased(message.number, message._holding) else None
        if lease is None or (lease.until <= now and not lease.settling):
            raise LeaseEnded(message.number)
        return lease

    def check_lease(self, message: TakenMessage, now: int) -> None:
        """LeaseEnded where a message was taken with a lease that is over."""
        if message._has_lease and message._holding is not None:
            self._lease(message, now)

    def is_held(self, message: TakenMessage) -> bool:
        """Say whether a message is still in the hands that it names."""
        return message._holding is not None and self.taken.get(message.number) is message._holding

    @property
    def next_end(self) -> int | None:
        """The moment of the next lease that may end, None where there is none."""
        return self._ends[0][0] if self._ends else None

    def advance(self, now: int) -> None:
        """Take back every message whose lease is over, or which was away up to now."""
        while self._ends and self._ends[0][0] <= now:
            _, _, number, holding = self._ends[0]
            if self._is_leased(number, holding):
                lease = self.leases[number]
                if lease.settling and lease.until <= now and not self._is_forgotten(lease, now):
                    self._end_at(now + SETTLING_MICROSECONDS, number, holding)
                elif lease.until <= now:
                    self._end_lease(number, holding)
            heapq.heappop(self._ends)

    def _is_forgotten(self, lease: _Lease, now: int) -> bool:
        """Say whether the commit that was to end a lease never came: an interrupt was faster. Not at the first look."""
        lease.doubted = lease.doubted or now
        return now - lease.doubted >= SETTLING_MICROSECONDS and self.is_idle()

    def _end_lease(self, number: int, holding: Holding) -> None:
        if holding[2] == AWAY:
            self._put_back(number, holding)
            self.serve((holding[0],))
        else:
            self.give_back(number, Return(0, reason="its lease ended"))

    def list_taken(self, queue: str | None, now: int) -> list[Taken]:
        """Return what is taken of a queue, or of all, by number."""
        since = monotonic()
        found = []
        for number, holding in sorted(self.taken.items()):
            if queue in (None, holding[0]) and holding[2] != AWAY:
                is_leased = self._is_leased(number, holding)
                left = max(self.leases[number].until - now, 0) / 1e6 if is_leased else None
                found.append(Taken(number, holding[0], holding[2], since - holding[1], left))
        return found


def receipts_of(given: Iterable[object]) -> list[TakenMessage]:
    """Return those of the messages that are a proof still: nobody has removed them with it."""
    return [one for one in given if type(one) is TakenMessage and one._holding is not None]


def leased_message(message: object) -> TakenMessage:
    """Return a message that was taken with a lease. TypeError, ValueError."""
    if not isinstance(message, Message):
        raise TypeError(f"message must be a Message that you took with a lease, not {shown(message)}")
    if not isinstance(message, TakenMessage) or not message._has_lease:
        raise ValueError(f"message {message.number} was taken without a lease; write take(queue, lease=seconds)")
    return message
