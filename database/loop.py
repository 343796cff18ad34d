"""Group commit on an event loop: the commits of one turn of the loop go out together.

On a fast device they are written and synced on the loop itself, since handing each group to a thread
costs more than the sync; on a slow one a thread does it, so that the loop never stalls. What is fast
is measured while running (`pace.py`).
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

from database.database import MessageDatabase
from database.pace import Pace
from journal.courtesy import courteous
from journal.errors import JournalError
from journal.group import AnyDraft
from journal.single import PlainAdds, QueueTemplate

PLAIN_BYTES = 64 << 10  # of plain adds in one draft: it goes into one data file as a whole


class Batch:
    """The drafts of one turn of the loop, and the futures of their callers. A waiter for the committer."""

    __slots__ = ("_group", "drafts", "futures")

    def __init__(self, group: "LoopCommit") -> None:
        self._group = group
        self.drafts: list[AnyDraft] = []
        self.futures: list[list[asyncio.Future[Any]]] = []  # of each draft

    def lead(self) -> None:
        self._group.called(self._group.lead)

    def tell(self) -> None:
        self._group.told(self)

    def resolve(self) -> None:
        """Wake the callers; one that was cancelled disturbs no other."""
        for draft, futures in zip(self.drafts, self.futures, strict=True):
            failure = draft.failure
            for future, number in zip(futures, count(draft.first), strict=False):
                try:
                    if failure is None:
                        future.set_result(number)
                    else:
                        future.set_exception(failure)
                except asyncio.InvalidStateError:
                    pass  # cancelled; asking each one first takes longer


class LoopCommit:
    """Commits of one event loop. Everything but `called` and `told` runs on the loop."""

    def __init__(self, database: MessageDatabase, loop: asyncio.AbstractEventLoop) -> None:
        self._database = database
        self._group = database.group
        self._loop = loop
        self.create_future = loop.create_future
        self.encode = database.drafting.encode
        self._thread_id = threading.get_ident()
        # A thread of its own: those of the loop's may all be waiting for a commit that it is to lead.
        self._thread = ThreadPoolExecutor(1, "oms-commit")
        self._batch: Batch | None = None
        self._is_leading = False  # on the loop, now
        self._is_closed = False
        self._pace = Pace()
        self._told: list[Batch] = []
        self._plain_bytes = min(PLAIN_BYTES, database.options.max_data_file_size // 4)
        # The plain adds of this turn, as columns, and what they still have room for.
        self.room = 0
        self.queues: list[QueueTemplate] = []
        self.payloads: list[bytes] = []
        self.futures: list[asyncio.Future[int]] = []
        self._plain: PlainAdds | None = None

    def close(self) -> None:
        """Let go of the thread, once it has led what it was told to."""
        self._is_closed = True
        self._thread.shutdown(wait=False)

    def commit(self, draft: AnyDraft) -> "asyncio.Future[Any]":
        """Return a future that is done when the draft is settled."""
        self._end_plain()  # what comes later is formed later
        future: asyncio.Future[Any] = self._loop.create_future()
        batch = self._begin()
        draft.waiter = batch
        batch.drafts.append(draft)
        batch.futures.append([future])
        return future

    def begin_plain(self) -> None:
        """Make room for more plain adds of this turn; `room` says for how many bytes."""
        self._end_plain()
        batch = self._begin()
        self.queues, self.payloads, self.futures = [], [], []
        self._plain = PlainAdds(self.queues, self.payloads, 0)
        self._plain.waiter = batch
        self.room = self._plain_bytes
        batch.drafts.append(self._plain)
        batch.futures.append(self.futures)

    def _end_plain(self) -> None:
        if self._plain is not None:
            self._plain.weight = self._plain_bytes - self.room
            self._plain = None
            self.room = 0

    def _begin(self) -> Batch:
        """Return this turn's batch, which goes out at the turn's end."""
        if self._batch is None:
            self._batch = Batch(self)
            self._loop.call_soon(self._flush)
        return self._batch

    def _flush(self) -> None:
        self._end_plain()
        batch, self._batch = self._batch, None
        assert batch is not None
        try:
            self._database.check_open()
        except JournalError as failure:
            for draft in batch.drafts:
                draft.failure = failure
            batch.resolve()
            return
        if self._group.submit(batch.drafts):
            self.lead()

    def lead(self) -> None:
        """Write the next group: here when the device is fast, else in a thread."""
        if self._is_closed:  # somebody still has to write what others wait for
            threading.Thread(target=self._group.lead, name="oms-commit").start()
            return
        if not self._pace.is_fast:
            self._loop.run_in_executor(self._thread, self._lead_in_thread)
            return
        self._is_leading = True
        try:
            self._lead_measured()
        finally:
            self._is_leading = False
            told, self._told = self._told, []
            for batch in told:
                batch.resolve()

    def _lead_in_thread(self) -> None:
        # Else a busy loop keeps the interpreter for long behind the sync, and the callers wait.
        with courteous():
            self._lead_measured()

    def _lead_measured(self) -> None:
        before = self._group.waited_seconds
        self._group.lead()
        self._pace.note(self._group.waited_seconds - before)

    def called(self, call: Callable[[], None]) -> None:
        """Run something on the loop soon; from any thread."""
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop was closed: somebody still has to write what others wait for
            threading.Thread(target=self._group.lead, name="oms-commit").start()

    def told(self, batch: Batch) -> None:
        """Wake a batch's callers, on the loop; from any thread."""
        if self._is_leading and threading.get_ident() == self._thread_id:
            self._told.append(batch)
            return
        with contextlib.suppress(RuntimeError):  # the loop was closed, and with it every caller
            self._loop.call_soon_threadsafe(batch.resolve)
