"""The embedded broker's inside for asyncio: what the tasks of one turn of the loop ask for is committed together.

On a fast device that is done on the loop itself, since handing it to a thread costs more than the sync; on a slow one
a thread does it, and the loop never stalls. What is fast is measured while running, as for plain commits of the
message database (`database/asynchronous.py`), by the time that the device takes.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from oms_journal.broker.answers import NO_REQUEST, Answered, Physical, compensation, not_active, seconds_to_wait
from oms_journal.broker.block import Request
from oms_journal.broker.codes import BrokerError
from oms_journal.broker.durations import MICROSECONDS
from oms_journal.broker.embedded.runtime import BATCH_MAX, Runtime, interrupted_by
from oms_journal.broker.embedded.slots import Barrier, PendingCall
from oms_journal.broker.kernel.state.effects import (
    Abandoned,
    Answer,
    Call,
    Command,
    Commit,
    Effect,
    Expect,
    ForbidNew,
    Input,
    Stored,
)
from oms_journal.broker.kernel.state.world import World
from oms_journal.database.asynchronous import Pace
from oms_journal.journal.background import yielding

T = TypeVar("T")
SLACK_SECONDS = 0.001  # by which a timer of the loop may be early
TURNS_MAX = 16  # that a group waits for more: those who always come one by one wait no longer for each other


class PendingCallback(PendingCall):
    """A call whose answer goes to a function, without a task of its own."""

    __slots__ = ("_looped", "then")

    def __init__(
        self,
        looped: "LoopDispatcher",
        request: Request,
        caller: Physical,
        handle: int,
        then: Callable[[Answered], None],
    ) -> None:
        super().__init__(request, caller, handle)
        self._looped = looped
        self.then = then

    def wake(self) -> None:
        self._looped.tell_soon(self)

    def cancel(self) -> None:
        """Let nobody be answered: the call is taken back, or what its answer would have said."""
        self._looped.forget(self)


class LoopDispatcher:
    """The kernel and the store between the tasks of one loop. All of it runs on the loop but what says otherwise."""

    def __init__(self, running: Runtime, loop: asyncio.AbstractEventLoop, *, tick_seconds: float) -> None:
        self._running = running
        self._loop = loop
        self._tick_seconds = tick_seconds
        self._thread = ThreadPoolExecutor(1, "oms-broker-commit")
        self._slots: dict[int, PendingCall] = {}  # of calls that are not answered, by handle
        self._unheard: dict[int, PendingCall] = {}  # of these, cancelled ones that the store is waited for with
        self._handle = 0
        self._queue: list[Commit | Barrier] = []
        self._is_flushing = False  # a flush is scheduled, or a thread is at one
        self._gathered = 0  # commits, at the last look, of a group that waits for more
        self._turns = 0  # that it has waited
        self._usual = 0  # commits of the last group
        self._pace = Pace()
        self._refusal: Answered | None = None  # what new calls are answered
        self._is_ended = False  # nobody is answered any more
        self._told: list[PendingCallback] = []  # that are answered, and not told yet
        self._is_telling = False  # they will be told soon
        self._timer = loop.call_later(tick_seconds, self._tick)
        self._expected: set[asyncio.TimerHandle] = set()  # ticks that are to come in between

    # Calls.

    def call(self, request: Request, caller: Physical) -> Coroutine[Any, Any, Answered]:
        """Return the answer to a call, once it has one."""
        return self._answered(request, caller, None)

    def command(self, command: Callable[[int], Command]) -> Coroutine[Any, Any, Answered]:
        """Return the answer to an operator's command, which is made with the handle of whom the answer belongs to."""
        return self._answered(NO_REQUEST, 0, command)

    async def _answered(self, request: Request, caller: Physical, command: Callable[[int], Command] | None) -> Answered:
        if self._refusal is not None:
            return self._refusal
        seconds = seconds_to_wait(request) if request.wait else 0.0
        if seconds:
            self._take(self._running.tick())  # it begins to wait now, not with the last tick
        self._handle = handle = self._handle + 1
        effects = self._run(self._running.take, Call(request, caller, handle) if command is None else command(handle))
        slot: PendingCall | None = None
        if not (len(effects) == 1 and type(answer := effects[0]) is Answer and answer.handle == handle):
            self._slots[handle] = slot = PendingCall(request, caller, handle)
            self._spread(effects)
            answer = slot.answer or await self._awaited(slot, seconds)
        if self._running.aside:
            self._running.tell()
        if answer.bodies and type(answer.bodies[0]) is Stored:
            if slot is None:
                slot = PendingCall(request, caller, handle)
                slot.answer = answer
            return await self._read(slot, answer)
        return self._running.read(request, answer)

    async def _awaited(self, slot: PendingCall, seconds: float) -> Answer:
        """Return the answer when it is there; the kernel hears of the time when these seconds are over."""
        slot.future = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._give, None) if seconds else None
        try:
            await slot.future
        except BaseException:
            self._abandon(slot)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        assert slot.answer is not None, "who waits is woken with an answer"
        return slot.answer

    def ask(self, request: Request, caller: Physical, then: Callable[[Answered], None]) -> PendingCallback:
        """Begin a call, in this very moment; its answer goes to `then`, later. No WAIT with a time."""
        self._handle = handle = self._handle + 1
        slot = PendingCallback(self, request, caller, handle, then)
        if self._refusal is not None:
            slot.answer = Answer(handle, self._refusal.reply)
            self.tell_soon(slot)
            return slot
        self._slots[handle] = slot
        self._take(Call(request, caller, handle))
        return slot

    @property
    def world(self) -> World:
        """The kernel's state, to be looked at. BrokerError at the end."""
        self.check_goes_on()
        return self._running.world

    @property
    def call_count(self) -> int:
        """How many calls and commands there were."""
        return self._handle

    def tell_soon(self, slot: PendingCallback) -> None:
        """Tell who asked, in this turn of the loop or the next."""
        self._told.append(slot)
        if not self._is_telling:
            self._is_telling = True
            self._loop.call_soon(self._tell)

    def forget(self, slot: PendingCallback) -> None:
        """Tell who asked nothing."""
        if not slot.is_gone:
            self._abandon(slot)

    def _tell(self) -> None:
        """Tell who asked; what these ask in turn is told with the next turn, so that others get theirs."""
        self._is_telling = False
        told, self._told = self._told, []
        if self._running.aside:
            self._running.tell()
        for slot in told:
            if not slot.is_gone:
                self._tell_one(slot)

    def _tell_one(self, slot: PendingCallback) -> None:
        answer = slot.answer
        assert answer is not None, "it was answered"
        if answer.bodies and type(answer.bodies[0]) is Stored and not self._pace.is_fast:
            reading = self._loop.run_in_executor(None, self._running.read, slot.request, answer)
            reading.add_done_callback(lambda found: self._hand_over(slot, found.result()))
        else:
            self._hand_over(slot, self._running.read(slot.request, answer))

    def _hand_over(self, slot: PendingCallback, answered: Answered) -> None:
        if slot.is_gone:
            return
        if answered.body is None and slot.answer is not None and slot.answer.bodies:
            self._hand_back(slot, is_untried=False)
        slot.is_gone = True  # nothing is to be taken back any more
        slot.then(answered)

    async def _read(self, slot: PendingCall, answer: Answer) -> Answered:
        """Return the answer with its message from the store."""
        try:
            if self._pace.is_fast:
                answered = self._running.read(slot.request, answer)
            else:
                answered = await asyncio.to_thread(self._running.read, slot.request, answer)
        except BaseException:
            self._abandon(slot)
            raise
        if answered.body is None:
            self._hand_back(slot, is_untried=False)
        return answered

    def _abandon(self, slot: PendingCall) -> None:
        """Let go of a call whose task was cancelled: take it back, or what its answer would have said."""
        slot.is_gone = True
        if slot.answer is not None:
            self._hand_back(slot)
            return
        self._take(Abandoned(slot.handle))
        if slot.handle not in self._running.awaited():
            self._slots.pop(slot.handle, None)
        elif slot.handle in self._slots:
            self._unheard[slot.handle] = slot

    async def settled(self, caller: Physical) -> None:
        """Return once what the caller's cancelled calls had begun is taken back."""
        while (slot := next((each for each in self._unheard.values() if each.caller == caller), None)) is not None:
            if slot.future is None or slot.future.done():
                slot.future = self._loop.create_future()
            await asyncio.wait([slot.future])

    def _hand_back(self, slot: PendingCall, *, is_untried: bool = True) -> None:
        assert slot.answer is not None, "nothing was handed out"
        request = compensation(slot.request, slot.answer.reply, is_untried=is_untried)
        if request is not None:
            self.post(request, slot.caller)

    def post(self, request: Request, caller: Physical) -> None:
        """Make a call whose answer nobody waits for."""
        self._handle += 1
        self._take(Call(request, caller, self._handle))

    def check_goes_on(self) -> None:
        """Raise what new calls are answered once the end has begun. BrokerError."""
        if self._refusal is not None:
            raise BrokerError(self._refusal.reply.code, self._refusal.reply.text)

    def give(self, given: Input) -> None:
        """Hand the kernel an input that nobody waits for."""
        self._give(given)

    def _give(self, given: Input | None) -> None:
        self._take(self._running.tick() if given is None else given)
        if self._running.aside:
            self._running.tell()

    def _take(self, given: Input) -> None:
        if not self._is_ended:
            self._spread(self._run(self._running.take, given))

    def _run(self, take: Callable[[T], list[Effect]], given: T) -> list[Effect]:
        """Hand something to the kernel. A decision that is interrupted is the last one."""
        try:
            return take(given)
        except BaseException as failure:
            self._die(failure)
            raise

    def _spread(self, effects: list[Effect]) -> None:
        """Carry effects out, or have them carried out soon."""
        for effect in effects:
            if type(effect) is Answer:
                found = self._slots.pop(effect.handle, None)
                if found is not None:
                    found.answer = effect
                    if found.is_gone:
                        self._unheard.pop(found.handle, None)
                        self._hand_back(found)
                    found.wake()
            elif type(effect) is Commit:
                self._queue.append(effect)
                if not self._is_flushing:
                    self._flush_soon()
            elif type(effect) is Expect:
                self._expect(effect.microseconds / MICROSECONDS + SLACK_SECONDS)
            else:
                assert not isinstance(effect, Answer | Commit | Expect), "these are done"
                self._running.aside.append(effect)

    # Time.

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self._tick_seconds, self._tick)
        self._give(None)
        if self._running.has_mark:
            self._loop.run_in_executor(self._thread, self._running.room).add_done_callback(self._told_of_room)

    def _expect(self, seconds: float) -> None:
        """Tick in so much time as well; not after the end, so that the loop keeps nothing of a closed broker."""

        def tick() -> None:
            self._expected.discard(timer)
            self._give(None)

        timer = self._loop.call_later(seconds, tick)
        self._expected.add(timer)

    def _told_of_room(self, found: "asyncio.Future[ForbidNew | None]") -> None:
        if not found.cancelled() and found.exception() is None:
            forbidden = found.result()
            if forbidden is not None:
                self._give(forbidden)

    # Committing.

    async def barrier(
        self, run: Callable[[], object], *, before: Input | None = None, then: Input | None = None
    ) -> None:
        """Do something to the store once all commits before it are durable; what it raises is raised.

        The kernel is told `before` it at once, and `then` when it went well. In a thread. BrokerError at the end.
        """
        self.check_goes_on()
        await self._barrier(run, before, then)

    def make_room(self, *, before: Input) -> None:
        """Tell the kernel this at once, and have the store make room before later commits; nobody waits for it."""
        self._give(before)
        if not self._is_ended:
            future: asyncio.Future[None] = self._loop.create_future()
            future.add_done_callback(lambda done: done.cancelled() or done.exception())  # else the loop logs that
            self._queue.append(Barrier(self._running.make_room, future, None))
            self._flush_soon()

    async def _barrier(self, run: Callable[[], object], before: Input | None = None, then: Input | None = None) -> None:
        if before is not None:
            self._take(before)
        future: asyncio.Future[None] = self._loop.create_future()
        self._queue.append(Barrier(run, future, then))
        self._flush_soon()
        try:
            await future
        finally:
            self._running.tell()

    def _flush_soon(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Commit what this turn has asked for: here when the device is fast, else in a thread.

        While a turn more brings more, up to as many as the last time, it is waited for: who was answered together
        comes again together, over a network in a few turns, and none of them should miss the sync of the others.
        """
        waiting = len(self._queue)
        if self._gathered < waiting < self._usual and self._turns < TURNS_MAX:
            self._gathered, self._turns = waiting, self._turns + 1
            self._loop.call_soon(self._flush)
            return
        self._gathered = self._turns = 0
        batch = self._next_batch()
        self._usual = len(batch)
        if not batch:
            self._is_flushing = False
            return
        if self._pace.is_fast and not isinstance(batch[0], Barrier):
            self._hear(batch, self._carried_out(batch))
            return
        self._thread.submit(self._flush_in_thread, batch)

    def _flush_in_thread(self, batch: Sequence[Commit | Barrier]) -> None:
        # Else a busy loop keeps the interpreter for long behind the sync, and the callers wait.
        with yielding():
            told = self._carried_out(batch)
        with contextlib.suppress(RuntimeError):  # the loop was closed, and with it every caller
            self._loop.call_soon_threadsafe(self._hear, batch, told)

    def _next_batch(self) -> Sequence[Commit | Barrier]:
        """Take the commits up to the next barrier off the queue, or that barrier."""
        barriers = (place for place, entry in enumerate(self._queue) if isinstance(entry, Barrier))
        count = min(next(barriers, BATCH_MAX), BATCH_MAX) or 1
        batch = self._queue[:count]
        del self._queue[:count]
        return batch

    def _carried_out(self, batch: Sequence[Commit | Barrier]) -> Sequence[Input] | BaseException:
        """Carry a batch out; return what the kernel is to be told. From the loop or the thread."""
        barrier = batch[0]
        if isinstance(barrier, Barrier):
            try:
                barrier.run()
            except Exception as failure:
                return failure
            return () if barrier.then is None else (barrier.then,)
        before = self._running.waited_seconds()
        told = self._running.carry_out(batch)  # type: ignore[arg-type]
        if seconds := self._running.waited_seconds() - before:  # else nothing was written
            self._pace.note(seconds)
        return told

    def _hear(self, batch: Sequence[Commit | Barrier], told: Sequence[Input] | BaseException) -> None:
        """Tell the kernel, in order, and go on with what has queued up."""
        if not isinstance(told, BaseException) and not self._is_ended:
            self._spread(self._run(self._running.take_all, told))
        barrier = batch[0]
        if isinstance(barrier, Barrier) and not barrier.future.done():
            if isinstance(told, BaseException):
                barrier.future.set_exception(told)
            else:
                barrier.future.set_result(None)
        self._is_flushing = False
        if self._queue:
            self._flush_soon()
        if self._told:
            self._tell()
        if self._running.aside:
            self._running.tell()

    # The end.

    async def end(self, last: Callable[[], object]) -> None:
        """Refuse new calls, let arrive what is on its way to the store, do the last thing to it; then answer nobody.

        Who waits for something to receive, or for its turn, is refused too: nothing of it was done.
        """
        try:
            if self._refusal is None:
                self._refusal = not_active()
                self._give(None)
                while not self._running.awaited().isdisjoint(self._slots):
                    await self._barrier(lambda: None)
                await self._barrier(last)
        finally:
            self._finish(not_active())

    def _die(self, failure: BaseException) -> None:
        """Answer nobody any more: what the kernel knows is no longer sure. What is durable stays so."""
        self._finish(interrupted_by(failure))

    def _finish(self, end: Answered) -> None:
        if self._is_ended:
            return
        self._is_ended, self._refusal = True, end
        for timer in (self._timer, *self._expected):
            timer.cancel()
        self._expected.clear()
        slots, queue = list(self._slots.values()), self._queue
        self._slots, self._queue = {}, []
        self._unheard.clear()
        for slot in slots:
            slot.answer = Answer(slot.handle, end.reply)
            slot.wake()
        for entry in queue:
            if isinstance(entry, Barrier) and not entry.future.done():
                entry.future.set_exception(BrokerError(end.reply.code, end.reply.text))
        self._thread.shutdown(wait=False)
