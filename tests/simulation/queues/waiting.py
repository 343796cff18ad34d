"""Who waits in the world "queues", for a message or for room: each wait held against the model from begin to end."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from oms_journal.database.database import MessageDatabase
from oms_journal.journal.errors import DatabaseClosed, JournalError, LimitExceeded, QueueFull
from oms_journal.journal.reading.message import Message
from tests.simulation.queues.callers import Caller, GivesUp
from tests.simulation.queues.model import Change, Hand, Item, Model, Wait, Wish
from tests.simulation.queues.steps import AddInTurn, TakeInTurn
from tests.simulation.world import PromiseBroken, Seen

SERVED = "who has waited longest is served first, with the next message or with room that is there"
WAITED = "nobody waits for a message that is free, or for room that has come free"
ENDED = "a wait ends in its time, at an interrupt, and when the database is closed"
LIMITED = "a queue takes what it has room for, and nothing more"

SECOND = 1_000_000
Committing = Callable[[Change], AbstractContextManager[list[int]]]
CheckHanded = Callable[[str, Message | None, float | None], object]


class Waiting:
    """The callers that wait, in the order in which they came."""

    def __init__(self, seen: Seen, model: Model, committing: Committing) -> None:
        self._seen, self._model = seen, model
        self._committing = committing  # has a commit on its way in its block
        self.check_handed: CheckHanded = lambda *_: None  # that it was the right one, and note in whose hands it is
        self.enter_hand: Callable[[Item, Message, float | None], None] = lambda *_: None  # note that alone
        self._callers: dict[Caller, Wait | Wish] = {}
        self._log: list[Caller] = []  # those that were woken, in order
        self._awake: list[Caller] = []  # likewise; they have not gone on yet
        self.is_room_due = False  # something has left a queue, or somebody the line: what room there is is passed on

    def _begin(self, call: Callable[[], object], *, is_slow: bool) -> Caller:
        caller = Caller(call)
        caller.log, caller.is_slow = self._log, is_slow
        return caller

    # Messages.

    def take(self, database: MessageDatabase, step: TakeInTurn, queues: Sequence[str]) -> None:
        """Have a caller ask for messages, and wait for them."""
        model, lease = self._model, step.lease or None
        wait = Wait(queues, model.clocks.steady + round(step.wait * SECOND), lease, step.count)
        if step.count > 1:
            wait.queues = queues[:1]
            call: Callable[[], Any] = lambda: database.take_many(queues[0], step.count, wait=step.wait, lease=lease)  # noqa: E731
        else:
            name = queues if step.is_of_any else queues[0]
            call = lambda: database.take(name, wait=step.wait, lease=lease)  # noqa: E731
        is_one_there = any(model.why_not(queue, None) is not None for queue in wait.queues)
        if not is_one_there or (step.count == 1 and (lease is not None or step.is_of_any)):
            model.advance()
        caller = self._begin(call, is_slow=step.is_slow)
        caller.go_on()
        self.note(is_exact=False)
        if caller.is_over:
            self._received(wait, _messages(caller))
            return
        for queue in wait.queues:
            self.check_handed(queue, None, lease)
        model.waits.append(wait)
        self._callers[caller] = wait

    def _received(self, wait: Wait, found: list[Message]) -> None:
        """Check what a caller was answered."""
        rest = found
        if (item := wait.handed) is not None:
            if not found or found[0].number != item.number:
                raise PromiseBroken(f"{SERVED}\n{wait} was answered with {found}")
            self.enter_hand(item, found[0], wait.lease)
            rest = found[1:]
        if wait.count == 1 and wait.handed is None:
            for queue in wait.queues:
                mine = next((one for one in found if one.queue == queue), None)
                self.check_handed(queue, mine, wait.lease)
                if mine is not None:
                    return
        elif wait.count > 1:
            for one in rest:
                self.check_handed(wait.queues[0], one, wait.lease)
            if len(found) < wait.count:
                self.check_handed(wait.queues[0], None, wait.lease)

    # Room.

    def add(self, database: MessageDatabase, step: AddInTurn, queue: str, items: list[Item]) -> None:
        """Have a caller add messages, and wait for room for them."""
        model, payloads = self._model, [item.payload for item in items]
        wish = Wish(queue, items, model.clocks.steady + round(step.wait * SECOND))
        if len(items) == 1:
            call: Callable[[], Any] = lambda: [int(database.add(queue, payloads[0], wait=step.wait))]  # noqa: E731
        else:
            call = lambda: [*database.add_many(queue, payloads, wait=step.wait)]  # noqa: E731
        caller = self._begin(call, is_slow=step.is_slow)
        fits = model.has_room(queue, items) and not model.is_over_limit(queue, len(items), wish.size)
        self._seen.checked[LIMITED] += 1
        with self._committing(Change(added=items)) as numbers:
            caller.go_on()
            numbers += _numbers(caller)
        if fits != bool(numbers) or (not caller.is_over and model.is_over_limit(queue, len(items), wish.size)):
            raise PromiseBroken(f"{LIMITED}\n{wish} got {numbers} and is over: {caller.is_over}, though {fits=}")
        if not caller.is_over:
            model.wishes.append(wish)
            self._callers[caller] = wish

    # What comes to those who wait.

    def settle(self, *, is_exact: bool = False, hurries: bool = False) -> None:
        """Let those go on who were woken, and check that nobody waits in vain."""
        self.note(is_exact=is_exact)
        while ready := [caller for caller in self._awake if hurries or not caller.is_slow]:
            self._go_on(ready[0])
        if self._callers:
            self._check_waiting()
        self.is_room_due = False

    def note(self, *, is_exact: bool) -> None:
        """Take in who was woken, with what. Not exact: several messages came, one after another, in any order."""
        model = self._model
        while self._log:
            self._note_granted()
            if not self._log:
                return
            caller = self._log.pop(0)
            self._seen.checked[SERVED] += 1
            waiting = self._callers[caller]
            assert isinstance(waiting, Wait)
            item = next((one for one in model.items.values() if one.number == caller.handed), None)
            if item is None or item.queue not in waiting.queues or not model.is_first_waiting(waiting, item.queue):
                raise PromiseBroken(f"{SERVED}\n{waiting} was handed {caller.handed}: {item}; {model.waits}")
            is_free = item in model.free(item.queue)
            why = model.why_not(item.queue, item.number) if is_exact or not is_free else None
            if why is not None:
                raise PromiseBroken(f"{SERVED}\n{waiting} was handed {why}")
            item.hand, waiting.handed = Hand(None, None), item
            self._awake.append(caller)

    def _note_granted(self) -> None:
        """Take in who was granted room, up to the first who was handed a message."""
        model = self._model
        while self._log and isinstance(waiting := self._callers[self._log[0]], Wish):
            self._awake.append(self._log.pop(0))
            self._seen.checked[SERVED] += 1
            is_first = model.in_line(waiting.queue)[:1] == [waiting]
            if not is_first or not model.has_room(waiting.queue, waiting.items, in_turn=True):
                raise PromiseBroken(f"{SERVED}\n{waiting} was granted room; {is_first=}; {model.wishes}")
            waiting.is_granted = True

    def _go_on(self, caller: Caller) -> None:
        """Let a caller go on that was woken: its call comes to its end."""
        self._awake.remove(caller)
        waiting = self._callers[caller]
        if isinstance(waiting, Wait):
            caller.go_on()
            self._is_over(caller)
            self._received(waiting, _messages(caller))
            return
        with self._committing(Change(added=waiting.items)) as numbers:
            caller.go_on()
            self._is_over(caller)
            numbers += _numbers(caller)
        if not numbers:
            raise PromiseBroken(f"{LIMITED}\n{waiting} was granted room, and refused: {caller.failure!r}")

    def _is_over(self, caller: Caller) -> None:
        """Check that a call has come to its end, and forget it."""
        self._seen.checked[ENDED] += 1
        waiting = self._callers.pop(caller)
        line: list[Any] = self._model.waits if isinstance(waiting, Wait) else self._model.wishes
        if waiting in line:  # else its process was overtaken while it committed
            line.remove(waiting)
        self.is_room_due |= isinstance(waiting, Wish)
        if not caller.is_over:
            raise PromiseBroken(f"{ENDED}\n{waiting} goes on waiting")

    def _check_waiting(self) -> None:
        model = self._model
        self._seen.checked[WAITED] += 1
        for wait in model.waits:
            for queue in wait.queues if wait.handed is None else ():
                if (why := model.why_not(queue, None)) is not None:
                    raise PromiseBroken(f"{WAITED}\n{wait} waits, though {why}")
        for queue in {wish.queue for wish in model.wishes} if self.is_room_due else ():
            first = model.in_line(queue)[:1]
            if first and model.has_room(queue, first[0].items, in_turn=True):
                raise PromiseBroken(f"{WAITED}\n{first} waits for room, and there is some")

    def look(self) -> None:
        """Let those look by themselves who have slept long enough; the time of some is over."""
        now = self._model.clocks.steady
        for caller in [one for one in self._callers if one not in self._awake]:
            if caller in self._awake or caller not in self._callers:
                continue  # another one's end has woken it
            waiting = self._callers[caller]
            if isinstance(waiting, Wish):
                if waiting.until <= now:
                    self._end_wish(caller, waiting)
                continue
            caller.go_on()
            self.note(is_exact=False)
            if caller in self._awake:
                raise PromiseBroken(f"{WAITED}\n{waiting} had to look by itself")
            if waiting.until > now and not caller.is_over:
                continue
            self._is_over(caller)
            if (found := _messages(caller)) or waiting.until > now:
                raise PromiseBroken(f"{ENDED}\n{waiting} was answered with {found}")

    def _end_wish(self, caller: Caller, wish: Wish) -> None:
        """The time of a caller that waits for room is over: it leaves the line, and tries a last time."""
        with self._committing(Change(added=wish.items)) as numbers:
            caller.go_on()
            self._is_over(caller)
            self._note_granted()  # others come before it
            fits = self._model.has_room(wish.queue, wish.items)
            numbers += _numbers(caller)
        if fits != bool(numbers):
            raise PromiseBroken(f"{LIMITED}\nat its end {wish} got {numbers} ({caller.failure!r}), though {fits=}")

    def give_up(self, place: int) -> None:
        """Interrupt one of those that wait."""
        if not self._callers:
            return
        caller, waiting = list(self._callers.items())[place % len(self._callers)]
        if caller in self._awake:
            self._awake.remove(caller)
        caller.go_on(GivesUp())
        self._is_over(caller)
        if not isinstance(caller.failure, GivesUp):
            raise PromiseBroken(f"{ENDED}\n{waiting} was interrupted, and {caller.failure!r}") from caller.failure
        if isinstance(waiting, Wait) and (item := waiting.handed) is not None:
            item.hand = None
            item.is_expired |= item.is_late

    # The end.

    def end(self) -> None:
        """Check that the end of the database has ended every wait."""
        self._log.clear()
        for caller, waiting in list(self._callers.items()):
            caller.go_on()
            self._is_over(caller)
            has_message = isinstance(waiting, Wait) and waiting.handed is not None
            is_right = isinstance(caller.failure, DatabaseClosed | (JournalError if has_message else DatabaseClosed))
            if not is_right and not (has_message and caller.failure is None):
                raise PromiseBroken(f"{ENDED}\n{waiting} ended with {caller.failure!r}, {caller.answer}")
        self.abandon()

    def abandon(self) -> None:
        """Let all of them go: their process is gone, or has no database any more."""
        for caller in self._callers:
            for _ in range(3):
                if not caller.is_over:
                    caller.go_on(GivesUp())
        self._callers.clear()
        self._log.clear()
        self._awake.clear()


def _messages(caller: Caller) -> list[Message]:
    """Return the messages that a caller was answered with; what it has failed with is raised."""
    if caller.failure is not None:
        raise caller.failure
    return caller.answer if isinstance(caller.answer, list) else [caller.answer] if caller.answer is not None else []


def _numbers(caller: Caller) -> list[int]:
    """Return the numbers that a caller has got, [] where it waits or was refused for want of room."""
    if not caller.is_over or isinstance(caller.failure, QueueFull | LimitExceeded):
        return []
    if caller.failure is not None:
        raise caller.failure
    return list(caller.answer)
