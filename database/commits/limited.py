"""Adding to queues that have a limit: drafts that say what room they want, and callers who wait for it.

A caller hands in its commit. Where there is no room, and it may wait, the leader puts it in line and refuses it
(`limits.py`); the caller then waits to be woken, and hands in the same commit again, whose room is granted. When its
time is up it leaves the line, and tries a last time: a known producer identifier needs no room.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy

from oms_journal.database.arguments import Payload
from oms_journal.database.commits.block import Operations
from oms_journal.database.commits.drafting import Drafting
from oms_journal.database.commits.encode import Encoder
from oms_journal.database.commits.ledger import IndexChanges, Ledger, Removed
from oms_journal.database.commits.limits import Limits, State, Wanted
from oms_journal.database.consumers.consumers import Consumers
from oms_journal.index.live import Index
from oms_journal.index.readiness import Moment, NewTerms
from oms_journal.journal.errors import LimitExceeded, QueueFull
from oms_journal.journal.writing.draft import Draft

WAIT_SECONDS_MAX = 1e9  # some 31 years


class LimitedLedger(Ledger):
    """The index of a database with limits, and what is on its way into it."""

    def __init__(self, index: Index, consumers: Consumers, ahead: Callable[[], int | None], limits: Limits) -> None:
        super().__init__(index, consumers, ahead)
        self.limits = limits  # guarded by the lock
        limits.expired = index.expired

    def admit(self, draft: Draft) -> bool:
        is_admitted = super().admit(draft)
        rooms = _rooms(draft)
        if rooms and not is_admitted:
            self.leave_rooms(rooms)  # a repeat, or refused
        if not rooms or not is_admitted:
            return is_admitted
        try:
            with self.lock:
                if self.index.terms is not None:
                    self.consumers.serve(())  # what has expired by now counts no more
                self.limits.claim(rooms, self.index.table, draft.removed)
        except (QueueFull, LimitExceeded) as failure:
            super().withdraw(draft)
            draft.failure = failure
            return False
        return True

    def withdraw(self, draft: Draft) -> None:
        super().withdraw(draft)
        self.leave_rooms(_rooms(draft))

    def leave_rooms(self, rooms: Sequence[Wanted]) -> None:
        """Give back what was granted or claimed, and grant it to those who wait."""
        with self.lock:
            self.limits.leave(rooms)
            self.limits.pass_on(self.index.table)

    def leave_line(self, wanted: Wanted) -> None:
        """Let a commit wait no more for room; what it was granted it keeps."""
        with self.lock:
            self.limits.leave_line(wanted)
            self.limits.pass_on(self.index.table)

    def end_waits(self) -> None:
        with self.lock:
            self.limits.end()

    def _apply_effect(self, draft: Draft, place: tuple[int, int], time: int) -> None:
        super()._apply_effect(draft, place, time)
        rooms = _rooms(draft)
        if rooms:
            self.limits.leave(rooms)  # the index counts it
            self.limits.pass_on(self.index.table)

    def _remove(self, numbers: Removed) -> None:
        super()._remove(numbers)
        self.limits.pass_on(self.index.table)


def _rooms(draft: Draft) -> Sequence[Wanted]:
    effect = draft.effect
    return effect.rooms if isinstance(effect, IndexChanges) else ()


class LimitedDrafting(Drafting):
    """Makes the drafts of a database with limits. The others do not ask."""

    def __init__(
        self, ledger: LimitedLedger, encode: Encoder, clock: Callable[[], int], moment: Callable[[], Moment]
    ) -> None:
        super().__init__(ledger, encode, clock, moment)
        self.limits = ledger.limits

    def add(
        self,
        queue: str,
        payload: Payload,
        properties: Mapping[str, str] | None = None,
        producer_id: str | None = None,
        said: Callable[[], NewTerms | None] | None = None,
    ) -> Draft:
        return self._limited(super().add(queue, payload, properties, producer_id, said))

    def add_many(
        self,
        queue: str,
        payloads: Iterable[Payload],
        properties: Iterable[Mapping[str, str] | None] | None,
        producer_id: str | None,
        said: Callable[[], NewTerms | None] = lambda: None,
    ) -> Draft | None:
        draft = super().add_many(queue, payloads, properties, producer_id, said)
        return None if draft is None else self._limited(draft)

    def operations(self, operations: Operations) -> Draft:
        return self._limited(super().operations(operations))

    def _limited(self, draft: Draft) -> Draft:
        """Note in a draft what room it wants, where one of its queues has a limit."""
        effect = draft.effect
        rooms = self.limits.wanted(draft.runs)
        if rooms:
            draft.effect = (
                effect._replace(rooms=rooms) if isinstance(effect, IndexChanges) else IndexChanges(rooms=rooms)
            )
        return draft


def write_in_turn(ledger: Ledger, draft: Draft, seconds: float, write: Callable[[Draft], object]) -> Draft:
    """Write a draft of one queue, or another one in its place, which is returned; wait so long for room.

    What `write` raises: QueueFull when there was no room.
    """
    if not isinstance(ledger, LimitedLedger) or not _rooms(draft):
        write(draft)
        return draft
    (wanted,) = _rooms(draft)
    turn, until = threading.Lock(), time.monotonic() + seconds
    turn.acquire()
    wanted.wake, wanted.is_patient = turn.release, True
    try:
        try:
            write(draft)
        except QueueFull:
            if wanted.state is not State.OUT:  # else all waits have ended
                turn.acquire(timeout=_left(until))
            ledger.leave_line(wanted)
            draft = _anew(draft)
            write(draft)
    except BaseException:
        _give_up(ledger, wanted)
        raise
    return draft


async def write_in_turn_async(
    ledger: Ledger,
    draft: Draft,
    seconds: float,
    write: Callable[[Draft], Awaitable[None]],
    end: "asyncio.Future[None] | None" = None,
) -> Draft:
    """Do what `write_in_turn` does, in a task. Where `end` is done, it waits no longer for room."""
    if not isinstance(ledger, LimitedLedger) or not _rooms(draft):
        await write(draft)
        return draft
    turn = Turn(ledger, draft, seconds)
    try:
        try:
            await write(draft)
        except QueueFull:
            await turn.wait(end)
            draft = _anew(draft)
            await write(draft)
    except BaseException:
        turn.give_up()
        raise
    return draft


class Turn:
    """A task's turn to add to a queue that is full. While it waits, nobody has to keep what it adds."""

    def __init__(self, ledger: LimitedLedger, draft: Draft, seconds: float) -> None:
        (self._wanted,) = _rooms(draft)
        self._ledger = ledger
        self._until = time.monotonic() + seconds
        self._loop = loop = asyncio.get_running_loop()
        self._has_come = has_come = loop.create_future()
        self._wanted.wake, self._wanted.is_patient = lambda: _wake(loop, has_come), True

    @classmethod
    def wanted(cls, ledger: Ledger, draft: Draft, seconds: float) -> "Turn | None":
        """Return the turn of a draft of one queue, before it is handed in; None where its queue has no limit."""
        return cls(ledger, draft, seconds) if isinstance(ledger, LimitedLedger) and _rooms(draft) else None

    @property
    def is_in_line(self) -> bool:
        """Whether it stands in line, or was granted its room, once its draft was refused."""
        return self._wanted.state is not State.OUT

    async def wait(self, end: "asyncio.Future[None] | None" = None) -> None:
        """Wait for room, until the time is up or `end` is done; stand in line no more."""
        if self.is_in_line:
            ends = (self._has_come,) if end is None else (self._has_come, end)
            await asyncio.wait(ends, timeout=_left(self._until), return_when=asyncio.FIRST_COMPLETED)
        self._ledger.leave_line(self._wanted)

    def hand_in_again(self, draft: Draft) -> None:
        """Let a draft have the room, which is made of the same request once more. ValueError for another one."""
        (wanted,), mine, effect = _rooms(draft), self._wanted, draft.effect
        if (wanted.queue, wanted.messages, wanted.bytes) != (mine.queue, mine.messages, mine.bytes):
            raise ValueError("it is another request than the one that has waited for room")
        assert isinstance(effect, IndexChanges), "its rooms stand there"
        draft.effect = effect._replace(rooms=(mine,))

    def give_up(self) -> None:
        """Give back what was granted, and stand in line no more."""
        _give_up(self._ledger, self._wanted)


def _wake(loop: asyncio.AbstractEventLoop, turn: "asyncio.Future[None]") -> None:
    loop.call_soon_threadsafe(_tell, turn)


def _tell(turn: "asyncio.Future[None]") -> None:
    with contextlib.suppress(asyncio.InvalidStateError):  # cancelled
        turn.set_result(None)


def _left(until: float) -> float:
    """Return how many seconds there are up to a moment; a thread cannot wait much longer than this allows."""
    return min(max(0.0, until - time.monotonic()), WAIT_SECONDS_MAX)


def _anew(refused: Draft) -> Draft:
    """Return a draft of the same commit. The leader may still tell the waiter of the one that it has refused."""
    draft = copy(refused)
    draft.failure = draft.answer = draft.waiter = None
    return draft


def _give_up(ledger: LimitedLedger, wanted: Wanted) -> None:
    """Give back what was granted. What is claimed is on its way, and settled there."""
    ledger.leave_line(wanted)
    if wanted.state is State.GRANTED:
        ledger.leave_rooms((wanted,))
