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

from oms_journal.database.database import MessageDatabase
from oms_journal.database.pace import Pace
from oms_journal.journal.background import courteous
from oms_journal.journal.errors import JournalError
from oms_journal.journal.writing.groups import AnyDraft
from oms_journal.journal.writing.single import PlainAdds, QueueTemplate

PLAIN_BYTES = 64 << 10  # of plain adds in one draft: it goes into one data file as a whole


class Batch:
    """The drafts of one turn of the loop, and the futures of their callers. A waiter for the committer."""

    __slots__ = ("_group", "entries")

    def __init__(self, group: "LoopCommit") -> None:
        self._group = group
        self.entries: list[tuple[AnyDraft, list[asyncio.Future[Any]]]] = []  # drafts, and who waits for each

    @property
    def drafts(self) -> list[AnyDraft]:
        return [draft for draft, _ in self.entries]

    def lead(self) -> None:
        self._group.called(self._group.lead)

    def tell(self) -> None:
        self._group.told(self)

    def resolve(self) -> None:
        """Wake the callers; one that was cancelled disturbs no other."""
        for draft, futures in self.entries:
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
        self.is_closed = False
        self._pace = Pace()
        self._told: list[Batch] = []
        self._plain_bytes = min(PLAIN_BYTES, database.options.max_data_file_size // 4)
        # The plain adds of this turn that go into one draft, and what they still have room for.
        self.room = 0
        self.plain: list[tuple[QueueTemplate, bytes, asyncio.Future[int]]] = []

    def close(self) -> None:
        """Let go of the thread, once it has led what it was told to."""
        self.is_closed = True
        self._thread.shutdown(wait=False)

    def commit(self, draft: AnyDraft) -> "asyncio.Future[Any]":
        """Return a future that is done when the draft is settled."""
        self._end_plain()  # what comes later is formed later
        future: asyncio.Future[Any] = self._loop.create_future()
        batch = self._begin()
        draft.waiter = batch
        batch.entries.append((draft, [future]))
        return future

    def begin_plain(self) -> None:
        """Make room for more plain adds of this turn; `room` says for how many bytes."""
        self._end_plain()
        self._begin()
        self.room = self._plain_bytes

    def _end_plain(self) -> None:
        """Make one draft of the plain adds so far."""
        if self.plain:
            batch, weight = self._begin(), self._plain_bytes - self.room
            queues, payloads, futures = map(list, zip(*self.plain, strict=True))
            draft = PlainAdds(queues, payloads, weight)
            draft.waiter = batch
            batch.entries.append((draft, futures))
            self.plain = []
        self.room = 0

    def _begin(self) -> Batch:
        """Return this turn's batch, which goes out at the turn's end."""
        if self._batch is None:
            self._loop.call_soon(self._flush)  # first: an interrupt behind it leaves no batch that never goes out
            self._batch = Batch(self)
        return self._batch

    def _flush(self) -> None:
        self._end_plain()
        batch, self._batch = self._batch, None
        if batch is None or not batch.entries:
            return  # whoever asked for it was interrupted before there was anything in it
        try:
            self._database.check_open()
        except JournalError as failure:
            for draft, _ in batch.entries:
                draft.failure = failure
            batch.resolve()
            return
        if self._group.submit(batch.drafts):
            self.lead()

    def lead(self) -> None:
        """Write the next group: here when the device is fast, else in a thread."""
        if self.is_closed:  # somebody still has to write what others wait for
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
