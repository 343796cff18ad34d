"""The embedded broker's inside for threads: who calls, who commits, and who waits.

A caller whose call has to be written leads: it commits what everybody has queued up with one sync, tells the kernel,
and hands the lead on to somebody who still waits when its own call is answered. A single caller does all of it in
its own thread. Meanwhile others call: the kernel's lock is not held while the device works.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence

from oms_journal.broker.admin.questions import Page, PageSteps
from oms_journal.broker.answers import NO_REQUEST, Answered, Physical, compensation, not_active, seconds_to_wait
from oms_journal.broker.block import Reply, Request
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.durations import MICROSECONDS
from oms_journal.broker.embedded.interrupts import uninterrupted
from oms_journal.broker.embedded.runtime import BATCH_MAX, Runtime, interrupted_by
from oms_journal.broker.kernel.state.effects import Abandoned, Answer, Call, Command, Commit, Expect, Input
from oms_journal.broker.kernel.state.world import World

NO_CALLER = -1  # whose handle it is that a tick is expected with though no call waits for it


class ThreadCall:
    """A call under way, or a barrier to the store, and the thread that waits for it."""

    __slots__ = ("answer", "caller", "command", "failure", "handle", "is_gone", "leads", "request", "waiter")

    def __init__(self, request: Request = NO_REQUEST, caller: Physical = 0) -> None:
        self.request = request
        self.caller = caller
        self.command: Callable[[int], Command] | None = None  # with the handle, in the place of a request
        self.handle = 0
        self.answer: Answer | None = None
        self.failure: BaseException | None = None  # of a barrier
        self.is_gone = False  # nobody waits for it any longer
        self.leads = False  # its thread is to commit what has queued up
        self.waiter: threading.Lock | None = None

    def will_wait(self) -> None:
        """Let its thread wait until `wake`."""
        if self.waiter is None:
            self.waiter = threading.Lock()
            self.waiter.acquire()

    def can_lead(self) -> bool:
        return self.waiter is not None and self.answer is None and not self.is_gone

    def wake(self) -> None:
        if self.waiter is not None:
            with contextlib.suppress(RuntimeError):  # woken already
                self.waiter.release()


class ThreadBarrier:
    """Something to be done to the store between two commits, and what the kernel is told when it went well."""

    __slots__ = ("_run", "_then", "slot")

    def __init__(self, run: Callable[[], object], slot: ThreadCall, then: Input | None) -> None:
        self._run = run
        self._then = then
        self.slot = slot

    def carried_out(self) -> Sequence[Input]:
        """Do it; return what the kernel is to be told."""
        try:
            self._run()
        except Exception as failure:
            self.slot.failure = failure
            return ()
        return () if self._then is None else (self._then,)


DONE = Answer(0, Reply(code=Code.OK))


class ThreadDispatcher:
    """The kernel and the store between the threads that call."""

    def __init__(self, running: Runtime) -> None:
        self._running = running
        self._lock = threading.Lock()  # guards all below, and the kernel
        self._slots: dict[int, ThreadCall] = {}  # of calls that are not answered, by handle
        self._handle = 0
        self._queue: list[
            tuple[Commit | ThreadBarrier, ThreadCall | None]
        ] = []  # with who waits for it, if anybody does
        self._is_leading = False
        self._refusal: Answered | None = None  # what new calls are answered
        self._is_ended = False  # nobody is answered any more
        self.expect: Callable[[float, int], None] = lambda _seconds, _handle: None  # a call waits for so long

    # Calls.

    def call(self, request: Request, caller: Physical) -> Answered:
        """Return the answer to a call, once it has one."""
        return self._answered(ThreadCall(request, caller), seconds_to_wait(request) if request.wait else 0.0)

    def command(self, command: Callable[[int], Command]) -> Answered:
        """Return the answer to an operator's command, which is made with the handle of whom the answer belongs to."""
        slot = ThreadCall()
        slot.command = command
        return self._answered(slot, 0.0)

    def look(self, look: Callable[[World], PageSteps]) -> Page:
        """Return what a look at the kernel's state finds; between its steps others have the kernel. BrokerError."""
        steps: PageSteps | None = None
        while True:
            began = time.perf_counter()
            with self._lock:
                if self._refusal is not None:
                    raise BrokerError(self._refusal.reply.code, self._refusal.reply.text)
                steps = look(self._running.world) if steps is None else steps
                try:
                    next(steps)
                except StopIteration as end:
                    found: Page = end.value
                    return found
            time.sleep(time.perf_counter() - began)  # as long for others: a lock that is let go is not handed over

    def _answered(self, slot: ThreadCall, seconds: float) -> Answered:
        try:
            with uninterrupted():
                self._begin(slot, seconds)
            if slot.answer is None:
                if seconds:
                    self.expect(seconds, slot.handle)
                self._wait(slot)
            answer = slot.answer
            assert answer is not None, "who waits is woken with an answer"
            answered = self._running.read(slot.request, answer)
            if answer.bodies and answered.body is None:
                with uninterrupted():
                    self._abandon(slot, is_untried=False)
        except BaseException:
            with uninterrupted():
                self._abandon(slot)
            raise
        if self._running.aside:
            self._running.tell()
        return answered

    def _begin(self, slot: ThreadCall, seconds: float) -> None:
        with self._lock:
            if self._refusal is not None:
                slot.answer = Answer(0, self._refusal.reply)
                return
            if seconds:
                self._take(self._running.tick(), None)  # it begins to wait now, not with the last tick
            self._handle += 1
            slot.handle = self._handle
            self._slots[slot.handle] = slot
            command = slot.command
            self._take(Call(slot.request, slot.caller, slot.handle) if command is None else command(slot.handle), slot)
            if not self._leads_now():
                if slot.answer is None:
                    slot.will_wait()
                return
        self._lead(slot)

    def give(self, given: Input | None) -> None:
        """Hand the kernel an input that nobody waits for, None for a tick; commit what comes of it if nobody does."""
        self._told(lambda: self._running.tick() if given is None else given)

    def post(self, request: Request, caller: Physical) -> None:
        """Make a call whose answer nobody waits for."""
        self._told(lambda: self._call(request, caller))

    def _told(self, given: Callable[[], Input]) -> None:
        with uninterrupted():
            with self._lock:
                self._take(given(), None)
                leads = self._leads_now()
            if leads:
                self._lead(None)
        if self._running.aside:
            self._running.tell()

    def _call(self, request: Request, caller: Physical) -> Call:
        """Return a call that nobody waits for; with the lock held."""
        self._handle += 1
        return Call(request, caller, self._handle)

    def check_goes_on(self) -> None:
        """Raise what new calls are answered once the end has begun. BrokerError."""
        if self._refusal is not None:
            raise BrokerError(self._refusal.reply.code, self._refusal.reply.text)

    def tick(self) -> None:
        """Let time pass."""
        self.give(None)

    def barrier(self, run: Callable[[], object], *, before: Input | None = None, then: Input | None = None) -> None:
        """Do something to the store once all commits before it are durable; what it raises is raised.

        The kernel is told `before` it at once, and `then` when it went well. BrokerError at the end.
        """
        self.check_goes_on()
        self._barrier(run, before, then)

    def _barrier(self, run: Callable[[], object], before: Input | None = None, then: Input | None = None) -> None:
        slot = ThreadCall()
        try:
            with uninterrupted():
                self._begin_barrier(ThreadBarrier(run, slot, then), before)
            if slot.answer is None:
                self._wait(slot)
        except BaseException:
            with uninterrupted():
                self._abandon(slot)
            raise
        if self._running.aside:
            self._running.tell()
        if slot.failure is not None:
            raise slot.failure

    def _begin_barrier(self, barrier: ThreadBarrier, before: Input | None) -> None:
        with self._lock:
            if self._is_ended:
                barrier.slot.answer = DONE
                return
            if before is not None:
                self._take(before, None)
            self._queue.append((barrier, barrier.slot))
            if not self._leads_now():
                barrier.slot.will_wait()
                return
        self._lead(barrier.slot)

    def awaits(self, handle: int) -> bool:
        """Say whether the call is not answered yet; NO_CALLER's never is."""
        return handle in self._slots or handle == NO_CALLER

    def _wait(self, slot: ThreadCall) -> None:
        """Wait for the answer, and lead when told to."""
        with self._lock:
            if slot.answer is None:
                slot.will_wait()
        while slot.answer is None:
            assert slot.waiter is not None
            slot.waiter.acquire()
            if slot.leads:
                with uninterrupted():
                    slot.leads = False
                    self._lead(slot)

    def _abandon(self, slot: ThreadCall, *, is_untried: bool = True) -> None:
        """Let go of a call whose thread was interrupted: take it back, or what its answer would have said."""
        with self._lock:
            slot.is_gone = True
            if slot.handle and slot.answer is not None:
                self._hand_back(slot, is_untried=is_untried)
            elif slot.handle and not self._is_ended:
                self._take(Abandoned(slot.handle), None)
                if slot.handle not in self._running.awaited():
                    self._slots.pop(slot.handle, None)
            leads = slot.leads or self._leads_now()
            slot.leads = False
        if leads:
            self._lead(None)

    def _hand_back(self, slot: ThreadCall, *, is_untried: bool = True) -> None:
        assert slot.answer is not None, "nothing was handed out"
        request = compensation(slot.request, slot.answer.reply, is_untried=is_untried)
        if request is not None:
            self._take(self._call(request, slot.caller), None)

    # The kernel; with the lock held.

    def _take(self, given: Input, slot: ThreadCall | None) -> None:
        if self._is_ended:
            return
        try:
            effects = self._running.take(given)
        except BaseException as failure:
            self._die(failure)
            raise
        for effect in effects:
            if type(effect) is Answer:
                found = self._slots.pop(effect.handle, None)
                if found is not None:
                    found.answer = effect
                    if found.is_gone:
                        self._hand_back(found)
                    else:
                        found.wake()
            elif type(effect) is Commit:
                self._queue.append((effect, slot))
            elif type(effect) is Expect:
                self.expect(effect.microseconds / MICROSECONDS, NO_CALLER)
            else:
                assert not isinstance(effect, Answer | Commit | Expect), "these are done"
                self._running.aside.append(effect)

    def _leads_now(self) -> bool:
        """Say whether the caller has to lead: there is something to commit, and nobody does."""
        if self._is_leading or not self._queue:
            return False
        self._is_leading = True
        return True

    # Committing; without the lock.

    def _lead(self, own: ThreadCall | None) -> None:
        """Commit what has queued up, until somebody else can."""
        try:
            while self._lead_once(own):
                pass
        except BaseException as failure:
            with self._lock:
                self._die(failure)
            raise

    def _lead_once(self, own: ThreadCall | None) -> bool:
        """Carry out one batch; False when the lead is somebody else's, or nobody's."""
        with self._lock:
            batch = self._next_batch()
            if not batch:  # all of it was refused meanwhile
                self._is_leading = False
                return False
        first = batch[0]
        told = first.carried_out() if isinstance(first, ThreadBarrier) else self._running.carry_out(batch)  # type: ignore[arg-type]
        with self._lock:
            for given in told:
                self._take(given, None)
            if isinstance(first, ThreadBarrier):
                first.slot.answer = DONE
                first.slot.wake()
            if not self._queue:
                self._is_leading = False
                return False
            if own is not None and own.answer is None:
                return True
            follower = next((slot for _, slot in self._queue if slot is not None and slot.can_lead()), None)
            if follower is None:
                return True
            follower.leads = True
            follower.wake()
            return False

    def _next_batch(self) -> list[Commit | ThreadBarrier]:
        """Take the commits up to the next barrier off the queue, or that barrier."""
        count = 0
        for entry, _ in self._queue:
            if isinstance(entry, ThreadBarrier) or count == BATCH_MAX:
                break
            count += 1
        count = count or 1
        batch = [entry for entry, _ in self._queue[:count]]
        del self._queue[:count]
        return batch

    # The end.

    def end(self, last: Callable[[], object]) -> None:
        """Refuse new calls, let arrive what is on its way to the store, do the last thing to it; then answer nobody.

        Who waits for something to receive, or for its turn, is refused too: nothing of it was done.
        """
        try:
            if self._refusal is None:
                self._refusal = not_active()
                self.tick()
                while self._is_awaiting():
                    self._barrier(lambda: None)
                self._barrier(last)
        finally:
            with self._lock:
                self._finish(not_active())

    def _is_awaiting(self) -> bool:
        """Say whether a caller waits for the store."""
        with self._lock:
            return not self._is_ended and not self._running.awaited().isdisjoint(self._slots)

    def _die(self, failure: BaseException) -> None:
        """Answer nobody any more: what the kernel knows is no longer sure. What is durable stays so."""
        self._finish(interrupted_by(failure))

    def _finish(self, end: Answered) -> None:
        if self._is_ended:
            return
        self._is_ended, self._refusal = True, end
        slots = [*self._slots.values(), *(entry.slot for entry, _ in self._queue if isinstance(entry, ThreadBarrier))]
        self._slots.clear()
        self._queue.clear()
        self._is_leading = False
        for slot in slots:
            slot.failure = BrokerError(end.reply.code, end.reply.text)
            slot.answer = Answer(slot.handle, end.reply)
            slot.wake()

    def forget(self) -> None:
        """End in the child of a fork, whatever the other threads of the parent were at."""
        self._lock = threading.Lock()
        self._finish(not_active("it belongs to the process that this one was forked from"))
