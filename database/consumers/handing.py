"""Handing messages to calls: at once, when they come, on a lease, and back when a call does not get that far.

The rules are in `consumers.py`, which knows no clock, lock or file. Here they meet all three, for threads as a whole
and for tasks in the steps that an event loop can go on between.
"""

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from oms_journal.database.arguments import Number, message_number
from oms_journal.database.commits.ledger import Ledger
from oms_journal.database.consumers.consumers import AWAY, Taken, TakenMessage, Waiter
from oms_journal.database.consumers.hand_file import HandFile, LeftInHand
from oms_journal.database.consumers.returns import Returns
from oms_journal.database.consumers.waiting import ThreadWaiter
from oms_journal.database.maintenance import Alarm
from oms_journal.database.reading import Files, read_now, read_one, read_places
from oms_journal.index.readiness import NEVER
from oms_journal.index.returned import Return
from oms_journal.index.table import MessageLocation
from oms_journal.journal.errors import DatabaseClosed, JournalError, MessageDamaged, OutcomeUnknown
from oms_journal.journal.reading.message import Message

_log = logging.getLogger("oms.database")
COLLECTOR_SECONDS = 1.0  # that a finalizer waits for a lock; nobody who can go on has it that long


@dataclass(kw_only=True, eq=False)
class Handing:
    """Hands out the messages of one database. Safe from any thread."""

    ledger: Ledger
    check: Callable[[], object]  # that the database answers: DatabaseClosed, CannotContinue
    files: Files
    find: Callable[[int], MessageLocation | None]
    returns: Returns
    steady: Callable[[], int]  # a clock that nobody sets, in microseconds

    is_attended = True  # by a thread that looks when time brings something; else `look` has to be called

    def __post_init__(self) -> None:
        self._consumers = self.ledger.consumers
        self._alarm = Alarm(self.look, self.steady)
        self._consumers.alarm = self._alarm_at

    # For threads.

    def take(self, queues: Sequence[str], seconds: float, lease: int | None) -> TakenMessage | None:
        """Hand out the next message of the first of the queues that has one, with its receipt; wait for it so long.

        Where the first queue has one, nothing is made that a call needs only to wait.
        """
        consumers, place = self._consumers, None
        try:
            while True:
                with self.ledger.lock:
                    self.check()
                    if consumers.leases:
                        consumers.advance(self.steady())
                    place = consumers.take(queues[0])
                if place is None:
                    break
                found = read_one(self.files, place.number, self.find, place)
                if isinstance(found, Message):
                    if (taken := self.receipt(found, lease)) is not None:
                        return taken
                elif found is not None:
                    _log.error("%s", found)
                place = None  # it is gone, or cannot be read: nobody's, or somebody else's by now
        except BaseException:
            if place is not None:
                self.give_back((place.number,))
            raise
        return self.take_waiting(queues, seconds, lease)

    def take_waiting(self, queues: Sequence[str], seconds: float, lease: int | None) -> TakenMessage | None:
        """Do what `take` does, where there may be nothing."""
        until = time.monotonic() + seconds
        while True:
            waiter = ThreadWaiter(queues)
            try:
                place = self.begin(waiter, is_waiting=seconds > 0)
                while place is None and (left := until - time.monotonic()) > 0:
                    waiter.sleep(left)
                    place = self.end_sleep(waiter)
                if place is None:
                    place = self.end_wait(waiter)
                if place is None:
                    return None
                found = read_one(self.files, place.number, self.find, place)
                if isinstance(found, Message):
                    if (taken := self.receipt(found, lease)) is not None:
                        return taken
                elif found is not None:
                    _log.error("%s", found)
            except BaseException:
                self.give_up(waiter)
                raise

    def take_many(self, queue: str, count: int, seconds: float, lease: int | None) -> list[Message]:
        """Hand out the next messages of a queue, at most so many; wait for the first of them so long."""
        numbers: list[int] = []
        messages: list[Message] = []
        try:
            while len(messages) < count:
                if places := self._places(queue, count - len(messages), numbers):
                    messages += self.receipts(self.read(places), lease)
                elif messages or not seconds or (first := self.take((queue,), seconds, lease)) is None:
                    break
                else:
                    messages.append(first)
                    numbers.append(first.number)
        except BaseException:
            self.give_back(numbers)
            raise
        return messages

    # For the tasks of an event loop, which reads only what no device is waited for.

    def take_now(self, queue: str, holder: int | str) -> Message | MessageLocation | None:
        """Hand out the queue's next message; or its place, for `read`, where a device would be waited for."""
        place = None
        try:
            self.check()
            with self.ledger.lock:
                place = self._consumers.take(queue, holder)
            if place is None:
                return None
            message = read_now(self.files, place)
            return place if message is None else self.with_attempts(message)
        except BaseException:
            if place is not None:
                self.give_back((place.number,))
            raise

    def places(self, queue: str, count: int, holder: int | str) -> list[MessageLocation]:
        """Hand out the queue's next messages, at most so many; [] when there is none."""
        numbers: list[int] = []
        try:
            return self._places(queue, count, numbers, holder)
        except BaseException:
            self.give_back(numbers)
            raise

    def _places(self, queue: str, count: int, noted: list[int], holder: int | str = 0) -> list[MessageLocation]:
        self.check()
        with self.ledger.lock:
            return self._consumers.take_many(queue, count, noted, holder)

    def read(self, places: Sequence[MessageLocation]) -> list[Message]:
        """Return the messages of these places; what is lost is logged, and left out."""
        found = read_places(self.files, places, self.find)
        if MessageDamaged not in set(map(type, found)):
            return found  # type: ignore[return-value]
        for lost in found:
            if isinstance(lost, MessageDamaged):
                _log.error("%s", lost)
        return [message for message in found if isinstance(message, Message)]

    def read_now(self, places: Sequence[MessageLocation]) -> list[Message] | None:
        """Return the messages of these places, None where `read` has to be asked."""
        messages: list[Message] = []
        for where in places:
            message = read_now(self.files, where)
            if message is None:
                return None
            messages.append(message)
        return messages

    # What a call that waits consists of.

    def begin(self, waiter: Waiter, *, is_waiting: bool) -> MessageLocation | None:
        """Hand out what is there, or have the caller wait for it in its turn."""
        with self.ledger.lock:
            self.check()  # with the lock held: closing wakes only who waits by then
            self._consumers.advance(self.steady())
            waiter.place = self._consumers.take_first(waiter.queues, waiter.holder)
            if waiter.place is None and is_waiting:
                self._consumers.wait(waiter)
                self._consumers.watch()
        return waiter.place  # noted there, where an exception that leaves this call does not lose it

    def end_sleep(self, waiter: Waiter) -> MessageLocation | None:
        """Return what the caller was handed meanwhile, None where it still waits."""
        if waiter.place is None:
            with self.ledger.lock:
                if waiter.place is None:
                    self.check()
                    self._consumers.serve(waiter.queues)
        return waiter.place

    def end_wait(self, waiter: Waiter) -> MessageLocation | None:
        """Let the caller wait no more; return what it was handed in that very moment."""
        with self.ledger.lock:
            self._consumers.leave(waiter)
        return waiter.place

    def give_up(self, waiter: Waiter) -> None:
        """Give back what a call was handed that an exception leaves, and let it wait no more."""
        with self.ledger.lock:
            self._consumers.leave(waiter)
            if waiter.place is not None:
                self._consumers.release(waiter.place.number)

    def receipts(self, found: list[Message], lease: int | None) -> list[Message]:
        """Return messages that are taken as they are handed over; what is gone meanwhile is left out of leases."""
        if lease is None:
            are_plain = not self._consumers.returned.entries and {*map(type, found)} <= {Message}
            return found if are_plain else list(map(self.with_attempts, found))
        taken = [self.receipt(message, lease) for message in found]
        return [message for message in taken if message is not None]

    def with_attempts(self, message: Message) -> Message:
        """Return a message that is taken with the attempts that it has, where it has any."""
        if message.number not in self._consumers.returned.entries and not message.attempts:
            return message
        return self.receipt(message, None) or message

    def receipt(self, message: Message, lease: int | None) -> TakenMessage | None:
        """Return a message that is taken, with the proof of it. A lease of so many microseconds begins.

        None where it was delivered, deleted or released by its number meanwhile.
        """
        consumers, number = self._consumers, message.number
        returned = consumers.returned
        with self.ledger.lock:
            holding = consumers.taken.get(number)
            if holding is None or holding[2] == AWAY:
                return None
            if lease is not None:
                consumers.lease(number, holding, until := self.steady() + lease)
            attempts = returned.attempts(number) if returned.entries else 0
            if message.__class__ is not Message and attempts < message.attempts:  # added with them, as a dead letter is
                attempts = returned.begin_at(number, message.attempts)
        if lease is not None and self.is_attended:
            self._alarm.set(until)
        taken = tuple.__new__(TakenMessage, message)
        taken._holding, taken._has_lease, taken._attempts = holding, lease is not None, attempts
        return taken

    def begin_again(self, left: LeftInHand, hand: HandFile | None) -> None:
        """Go on where the opening before this one has stopped: with what came back, and what was in hand as it died."""
        self.returns.restore(left)
        self._consumers.hand = hand
        if self._consumers.taken:
            self._alarm_at(0)

    def end(self) -> None:
        """Wake everybody who waits, since the database is closed. Idempotent."""
        with self.ledger.lock:
            self._consumers.end_waits()
        self._alarm.stop()

    def abandon(self) -> None:
        """Let go in the child of a fork: what is in hand is in the parent's."""
        self._consumers.hand = None

    # Giving back.

    def give_back(self, numbers: Iterable[int]) -> None:
        """Put back messages that nobody received. The first step takes no lock: a second interrupt could come there."""
        self._consumers.given_back.extend(numbers)
        if self._consumers.waiting:
            with self.ledger.lock:
                self._consumers.serve([*self._consumers.waiting])

    def release(self, number: Number, delay: float = 0.0, reason: str = "") -> bool:
        """Give back a message: an attempt was in vain. False when it was not taken. LeaseEnded."""
        known, microseconds = message_number(number), math.ceil(delay * 1e6)
        self.check()
        entry = self.returns.entry(microseconds, reason)
        with self.ledger.lock:
            now = self.steady()
            if type(number) is TakenMessage:
                self._consumers.check_lease(number, now)
            was_taken = self._consumers.give_back(known, entry, now + microseconds if microseconds else None)
        if was_taken:
            self._look_soon()
        return was_taken

    def release_if_held(self, message: TakenMessage) -> None:
        """Give back a message that is still in the hands that it names: an attempt was in vain."""
        try:
            with self.ledger.lock:
                is_held = self._consumers.is_held(message)
                if is_held:
                    self._consumers.give_back(message.number, Return(0))
            if is_held:
                self._look_soon()
        except BaseException:
            if self._consumers.is_held(message):
                self._consumers.given_back.append(message.number)  # no lock: a second interrupt could come there
            raise

    def drop(self, message: TakenMessage) -> None:
        """Put back a message that nobody has any more. No lock is taken: a collector may call it."""
        if self._consumers.is_held(message):
            self._consumers.given_back.append(message.number)

    def give_up_loop(self, message: TakenMessage) -> None:
        """Give back a message of a loop that nobody has any more: an attempt was in vain.

        A collector may call it where this very thread has the lock; then it comes back uncounted.
        """
        if self.ledger.lock.acquire(timeout=COLLECTOR_SECONDS):
            self.ledger.lock.release()
            self.release_if_held(message)
        else:
            self.drop(message)

    def let_go(self, message: TakenMessage, failure: BaseException) -> None:
        """Give back a message that its block could not deliver, as soon as no commit can be on its way that ends it.

        Nothing is given back where nobody knows what became of that commit.
        """
        if isinstance(failure, OutcomeUnknown):
            return
        if isinstance(failure, JournalError) or self._consumers.is_idle():
            self.release_if_held(message)
            return
        with self.ledger.lock:
            is_held, now = self._consumers.is_held(message), self.steady()
            if is_held:
                self._consumers.end_when_idle(message, now)
        if is_held:
            self._alarm_at(now)

    def _look_soon(self) -> None:
        """Have it looked at what came back: a dead letter at once, all else when it is back or to be written."""
        if self._consumers.dead:
            self._alarm_at(0)
            return
        for end in (self._consumers.next_end, self.returns.next_write(self.steady())):
            if end is not None:
                self._alarm_at(end)

    # Leases.

    def extend(self, message: TakenMessage, lease: int) -> None:
        """Let the lease on a message end so many microseconds from now. LeaseEnded."""
        self.check()
        with self.ledger.lock:
            now = self.steady()
            self._consumers.extend(message, now + lease, now)
        self._alarm_at(now + lease)

    def settle(self, receipts: Sequence[TakenMessage]) -> None:
        """Let leases end no more by time, since a commit is on its way that ends the messages. LeaseEnded."""
        if leased := [message for message in receipts if message._has_lease]:
            self.check()
            with self.ledger.lock:
                self._consumers.settle(leased, self.steady())

    def unsettle(self, receipts: Sequence[TakenMessage], failure: JournalError) -> None:
        """Let leases end again, whose commit was not written: nobody knows that where its outcome is unknown."""
        leased = [message for message in receipts if message._has_lease]
        if leased and not isinstance(failure, OutcomeUnknown):
            with self.ledger.lock:
                self._consumers.unsettle(leased)
            self._alarm_at(0)

    def is_settled_by(self, message: TakenMessage) -> bool:
        """Say whether a block that took the message delivers it at its end; `deliver` refuses what came too late."""
        if message._holding is None:
            return False  # the block has removed it
        with self.ledger.lock:
            return self._consumers.is_held(message) or message._has_lease

    def list_taken(self, queue: str | None) -> list[Taken]:
        """Return what is taken of a queue, or of all."""
        self.check()
        with self.ledger.lock:
            return self._consumers.list_taken(queue, self.steady())

    def _alarm_at(self, moment: int) -> None:
        """Have it looked at what time brings at a moment; 0: now."""
        if self.is_attended:
            self._alarm.set(moment)

    def look(self) -> int | None:
        """Do what time brings: leases that are over, messages that were away or are due, what the journal is to say.

        Return when there is more to do, by the steady clock; None for never, and where the database was closed.
        """
        consumers = self._consumers
        try:
            self.check()
            with self.ledger.lock:
                consumers.advance(now := self.steady())
                consumers.look(now)
            self.returns.move_dead()
            written = self.returns.write_in_time(now)
        except DatabaseClosed:
            return None
        end = min(end for end in (consumers.next_end, written, consumers.watched) if end is not None)
        return None if end == NEVER else end
