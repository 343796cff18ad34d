"""Group commit: many commits, one sync, whoever calls from wherever.

Whoever hands in a commit while nobody is writing leads: it forms all that has queued up into a
group, writes it, syncs once, checks that the directory is still ours, lets the index see it, and
tells the callers. What queues up meanwhile is the next group, led by its first caller: the slower
the disk, the larger the groups. One group is in flight at a time, so that a good frame of a later
group proves that everything before it was durable.

The order of events for every commit:

    admitted (checked against all before it) → numbers → bytes → written and synced
    → the directory is still ours → visible in the index → its caller is told

The first group of a data file is witnessed before its callers are told: `omsmsg.lock` says that the file must be there.

A failed write or sync is final. The kernel may have dropped the pages, so a second sync could
succeed without the data: nothing later is accepted, and opening the directory again decides.
"""

import contextlib
import threading
from collections.abc import Callable, Collection, Sequence
from time import perf_counter_ns
from typing import Protocol

from oms_journal.journal.errors import (
    DirectoryGone,
    DiskError,
    DiskFull,
    JournalError,
    NotAttempted,
    OutcomeUnknown,
    TakenOver,
    UnreadableCommit,
)
from oms_journal.journal.format.lockfile import Witness
from oms_journal.journal.writing.draft import CommitBuilder, Draft
from oms_journal.journal.writing.groups import Group
from oms_journal.journal.writing.log import Journal


class Ledger(Protocol):
    """The state that commits are checked against and become visible in. Called by the leader only."""

    @property
    def sharing(self) -> Sequence[object]:
        """What `settle_shared` is for."""

    @property
    def unsaid(self) -> Collection[object]:
        """What the journal is to say with the next commit, whosever that is; `rider` drafts it."""

    def rider(self) -> Draft:
        """Return a draft of what is unsaid. It is composed when it is admitted, behind all others of its group.

        Where all others are refused, nothing is written: whoever is refused waits for no disk.
        """

    def admit(self, draft: Draft) -> bool:
        """Check a draft against the state and all drafts admitted before it.

        Not asked where no draft of a group has an effect.

        False settles it without writing: its answer or failure stands in the draft.
        """

    def withdraw(self, draft: Draft) -> None:
        """Forget an admitted draft that will not be written."""

    def apply(self, group: Group) -> None:
        """Make a durable group visible, and put an answer into each of its drafts."""

    def settle_shared(self) -> None:
        """Settle the drafts that share the outcome of another one."""

    def end_waits(self) -> None:
        """Wake all who wait for what a commit may bring: no more becomes visible. From any thread."""


class ThreadWaiter:
    """Lets a thread sleep until its draft is settled, or until it is the one to lead."""

    __slots__ = ("_lock", "is_settled")

    def __init__(self) -> None:
        self.is_settled = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self) -> None:
        self._lock.acquire()

    def lead(self) -> None:
        self._wake()

    def tell(self) -> None:
        self.is_settled = True
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # woken already, and interrupted before it was noted
            self._lock.release()


class GroupCommit:
    """The one entrance to the journal for commits."""

    def __init__(
        self, journal: Journal, ledger: Ledger, is_ours: Callable[[], bool], witness: Callable[[Witness], None]
    ) -> None:
        self._journal = journal  # the leader's alone, but for what maintains it
        self._ledger = ledger  # the leader's alone
        self._is_ours = is_ours
        self._witness = witness
        self._lock = threading.Lock()  # guards the queue, and who leads
        self._queue: list[Draft] = []
        self._leading: Draft | None = None  # whose caller leads, or is to lead
        self._last: Draft | None = None  # behind it everything is refused
        self._end: JournalError | None = None  # with this
        self.failure: BaseException | None = None
        self._next_commit = 1  # behind the last one that is durable and ours
        self._waited_ns = 0  # for the device, by all groups together
        self._waiting_ns = 0  # since when, as of time.perf_counter_ns; 0: for nothing
        self.wait_counts = [0] * 64  # of groups, by the bits that the microseconds have for which each waited

    @property
    def acknowledged(self) -> int:
        """Number of the last commit that is durable and ours, 0 for none."""
        return self._next_commit - 1

    @property
    def waited_seconds(self) -> float:
        """How long all groups together have waited for the device."""
        return self._waited_ns / 1e9

    @property
    def waiting_since(self) -> float:
        """Since when the device is waited for, as of time.perf_counter; 0.0 for nothing."""
        return self._waiting_ns / 1e9

    def commit(self, draft: Draft) -> None:
        """Return when the draft is settled: durable, answered, or failed. For threads."""
        waiter: ThreadWaiter | None = None
        try:
            with self._lock:
                if self._leading is None:
                    self._leading = draft
                else:
                    waiter = draft.waiter = ThreadWaiter()
                    self._queue.append(draft)
            if waiter is None:
                self.lead(draft)
                return
            waiter.wait()
            if waiter.is_settled:
                return
            draft.waiter = None
            self.lead()
        except BaseException:
            self._abandon(draft)
            raise

    def commit_many(self, drafts: Sequence[Draft]) -> None:
        """Return when all the drafts are settled; they go out together, in this order. For threads."""
        waiter = ThreadWaiter()
        for draft in drafts:
            draft.waiter = waiter
        try:
            if not self.submit(drafts):
                waiter.wait()
                if waiter.is_settled:
                    return
            self.lead()
        except BaseException:
            for draft in drafts:
                self._abandon(draft)
            raise

    def begin_file(self) -> None:
        """Begin a data file of this opening's before anything else, where a former owner may still be at work.

        By its owner's number a file that the former one begins later is late, whatever this opening commits.
        DiskError, TakenOver, DirectoryGone. Where an empty frame has no room that owner's file has none either.
        """
        draft = CommitBuilder().draft()
        self.commit(draft)
        if draft.failure is None or isinstance(draft.failure, DiskFull):
            return
        cause = draft.failure.__cause__
        if isinstance(cause, OSError):
            raise DiskError(self._journal.directory, cause, "begin a data file in") from cause
        raise draft.failure if cause is None else cause

    def check_ours(self) -> None:
        """Raise NotAttempted where a commit would not be acknowledged: for who says something without writing it.

        From any thread. That the directory is not ours, or that this cannot be found out, is final here too.
        """
        try:
            if self.failure is None and not self._is_ours():
                raise TakenOver
        except (TakenOver, DirectoryGone, OSError) as failure:
            self.fence(failure)
        if self.failure is not None:
            raise _refused(NotAttempted, self.failure)

    def _abandon(self, draft: Draft) -> None:
        """Take back the draft of an interrupted caller where it has not been taken up, and hand on its lead."""
        with self._lock:
            if draft in self._queue:
                self._queue.remove(draft)
        self._hand_on(draft)

    @property
    def is_idle(self) -> bool:
        """Whether no commit is on its way, as of a moment ago."""
        return self._leading is None and not self._queue

    def end(self, failure: JournalError) -> None:
        """Refuse every later commit with the failure; on return nothing is being written any more."""
        self._end = failure
        self._last = CommitBuilder().draft()
        self.commit(self._last)

    def fence(self, failure: TakenOver | DirectoryGone | OSError) -> None:
        """Refuse every later commit: the directory is not ours any more, or not there. From any thread."""
        self.failure = self.failure or failure
        self._ledger.end_waits()

    def submit(self, drafts: Sequence[Draft]) -> bool:
        """Queue drafts that have a waiter; True when the caller has to call `lead` soon."""
        with self._lock:
            self._queue.extend(drafts)
            if self._leading is not None:
                return False
            self._leading = drafts[0]
            return True

    def lead(self, given: Draft | None = None) -> None:
        """Write one group of what has queued up, tell its callers, and hand on the lead.

        The caller was told to lead, by `submit` or by a waiter's `lead`. What is given was never queued.
        """
        drafts = [] if given is None else [given]
        mine = given
        try:
            if given is None:
                with self._lock:
                    mine = self._leading
                    drafts, self._queue = self._queue, []
            if self._last is not None and self._last in drafts:
                self._write_last(drafts)
            elif self.failure is None:
                self._write(drafts)
            else:
                self._fail(drafts, self.failure)
        except BaseException as failure:
            # Whatever came between the write and the callers' answers, nobody knows what the disk
            # has: final, an interrupt from the keyboard included.
            self.failure = failure
            self._waiting_ns = 0
            self._ledger.end_waits()
            # What a signal's handler raised, behind the answer to its caller, who would not hear of it.
            is_unheard = mine is not None and _is_settled(mine) and not isinstance(failure, JournalError | OSError)
            self._fail([draft for draft in drafts if not _is_settled(draft)], failure, OutcomeUnknown)
            if is_unheard or not isinstance(failure, Exception):
                raise
        finally:
            try:
                self._hand_on(mine)
                if given is None:
                    _tell(drafts)
            except BaseException:  # an interrupt: nobody may be left waiting
                self._hand_on(mine)
                _tell(drafts)
                raise

    def _hand_on(self, mine: Draft | None) -> None:
        """Let the first one that waits lead next, unless that was done already."""
        with self._lock:
            if self._leading is not mine:
                return
            queue = self._queue
            if queue:
                if queue[0] is mine:
                    del queue[0]  # its caller was interrupted before it was taken up
                if queue:
                    following = queue[0]
                    assert following.waiter is not None, "only the leader's own draft has no waiter"
                    following.waiter.lead()
                    self._leading = following
                    return
            self._leading = None

    def _write_last(self, drafts: list[Draft]) -> None:
        """Write what came before the end, and refuse what comes later."""
        assert self._last is not None and self._end is not None
        end = drafts.index(self._last)
        before, self._last.answer = drafts[:end], 0
        if self.failure is not None:
            self._fail(before, self.failure)
        elif before:
            self._write(before)
        self.failure = self.failure or self._end
        self._fail(drafts[end + 1 :], self.failure)

    def _write(self, drafts: Sequence[Draft]) -> None:
        journal, ledger = self._journal, self._ledger
        admitted = drafts
        for draft in drafts:
            if draft.effect is not None:
                admitted = [draft for draft in drafts if ledger.admit(draft)]
                break
        if ledger.unsaid and admitted and ledger.admit(rider := ledger.rider()):
            admitted = [*admitted, rider]
        while admitted:
            group = journal.form(admitted)
            if group.refused:
                self._refuse(group.refused)
                if not group.drafts:
                    break
            if journal.reads_back and (found := journal.unreadable(group)) is not None:
                admitted = [*self._without(group.drafts, *found), *group.rest]
                continue
            began = self._waiting_ns = perf_counter_ns()
            journal.write(group)
            waited = perf_counter_ns() - began
            self._waited_ns += waited
            self.wait_counts[(waited // 1000).bit_length()] += 1
            if journal.begun is not None:
                if not self._is_ours():
                    raise TakenOver  # the witness is another opening's by now
                self._witness(journal.begun)
                journal.begun = None
            self._waiting_ns = 0
            if not self._is_ours():
                raise TakenOver
            self._next_commit = group.next_commit
            ledger.apply(group)
            admitted = group.rest
        if ledger.sharing:
            ledger.settle_shared()

    def _refuse(self, refused: Sequence[tuple[Draft, JournalError]]) -> None:
        for draft, refusal in refused:
            self._ledger.withdraw(draft)
            draft.failure = refusal

    def _without(self, drafts: Sequence[Draft], place: int, reason: str) -> list[Draft]:
        """Refuse a draft that no reader would take; return the others."""
        self._ledger.withdraw(drafts[place])
        drafts[place].failure = UnreadableCommit(reason)
        return [*drafts[:place], *drafts[place + 1 :]]

    def _fail(
        self,
        drafts: Sequence[Draft],
        failure: BaseException,
        kind: type[OutcomeUnknown] | type[NotAttempted] = NotAttempted,
    ) -> None:
        for draft in drafts:
            draft.failure = failure if failure is self._end else _refused(kind, failure)


def _refused(kind: type[OutcomeUnknown] | type[NotAttempted], failure: BaseException) -> OutcomeUnknown | NotAttempted:
    """Return what is said to a caller when nothing is accepted any more, or its commit has failed."""
    refused = kind(f"{str(failure) or type(failure).__name__}; close the database and open it again")
    refused.__cause__ = failure if isinstance(failure, Exception) else None
    return refused


def _is_settled(draft: Draft) -> bool:
    return draft.failure is not None or draft.answer is not None


def _tell(drafts: Sequence[Draft]) -> None:
    """Tell the callers that their drafts are settled. Telling one again does no harm."""
    told = None
    for draft in drafts:
        if draft.waiter is not told and draft.waiter is not None:
            told = draft.waiter
            told.tell()
