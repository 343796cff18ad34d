"""A broker that runs: its kernel, its store, its report and its log. What threads and asyncio have in common.

Nothing here waits for anybody, locks, or starts a thread. The two embedded brokers decide who calls what:

    verb        may be called
    take        one at a time: the kernel's state is nobody else's
    carry_out   one at a time, in the order in which the commits came, beside `take`
    read, tell  from anywhere
"""

import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence

from oms_journal.broker.answers import Answered, not_active
from oms_journal.broker.attributes.attributes import Attributes, JournalAttributes, SqliteAttributes
from oms_journal.broker.block import Reply, Request
from oms_journal.broker.codes import BrokerError, Code, detailed, refuse
from oms_journal.broker.kernel.kernel import INTERNAL_ERROR, Kernel
from oms_journal.broker.kernel.state.effects import (
    Answer,
    Command,
    Commit,
    Durable,
    Effect,
    Failed,
    ForbidNew,
    Input,
    Level,
    Log,
    Purge,
    SetStatus,
    Stored,
    StoreLost,
    Tick,
    split_properties,
)
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.records import Status
from oms_journal.broker.sessions.requests import member
from oms_journal.broker.store.changes import Changes, filled
from oms_journal.broker.store.latencies import Latencies
from oms_journal.broker.store.report import Report, ReportLine
from oms_journal.broker.store.start import (
    CommitRefused,
    PersistentStore,
    ProducerReused,
    StartedStore,
    StoreError,
    StoreFull,
    StoreUnavailable,
    write_termination,
)
from oms_journal.broker.store.stored import MakesRoom
from oms_journal.database.arguments import plain_text

_log = logging.getLogger("oms.broker")
TICK_SECONDS = 1.0  # a crash costs the pseudo-clock at most so much
BATCH_MAX = 10_000  # commits that one sync takes


def interrupted_by(failure: BaseException) -> Answered:
    """Return what all are answered once a decision was interrupted: what the kernel knows is no longer sure."""
    what = type(failure).__name__
    return not_active(f"a decision was interrupted by {what}; close the broker and open it again")


DISCONNECTED = StoreLost("it was disconnected")


def purge_of(uowid: str) -> Callable[[int], Command]:
    """Return the command for a unit of work, which needs the handle of its answer. TypeError, ValueError."""
    named = plain_text(uowid, "uowid")
    return lambda handle: Purge(handle, named)


def set_status_of(uowid: str, status: Status) -> Callable[[int], Command]:
    """Return the likes for SET-UOW-STATUS. TypeError, ValueError."""
    named, wanted = plain_text(uowid, "uowid"), member(status)
    return lambda handle: SetStatus(handle, named, wanted)


def not_connected(failure: StoreUnavailable) -> BrokerError:
    """Return why CONNECT-PSTORE is refused."""
    return BrokerError(Code.UOW_NOT_PERSISTED, str(failure))


class Runtime:
    """The kernel with what it needs of the world, between a beginning and an end. It does nothing by itself."""

    def __init__(  # noqa: PLR0913 - named, and one place calls it
        self,
        *,
        attributes: Attributes,
        kernel: Kernel,
        store: PersistentStore | None,
        begun: StartedStore | None,
        report: Report | None,
        clock: Callable[[], int],  # microseconds since 1970 UTC
        job: str,
    ) -> None:
        self.attributes = attributes
        self.store = store
        self.begun = begun
        self._kernel = kernel
        self._report = report
        self._clock = clock
        self._job = job
        self._partner = self.attributes.broker.partner_cluster_address or ""
        self._min_free = self._of_store().min_free_space
        self._is_short = False  # of free space
        self.latencies = Latencies()
        self._ticked = time.monotonic_ns()
        self.aside: deque[Log | ReportLine] = deque()  # to be logged or reported by `tell`
        self._telling = threading.RLock()  # whoever logs or reports; a log's handler may call

    def _of_store(self) -> SqliteAttributes | JournalAttributes:
        is_sqlite = self.attributes.broker.pstore_type == "SQLITE"
        return self.attributes.sqlite if is_sqlite else self.attributes.journal

    # The kernel.

    @property
    def world(self) -> World:
        """The kernel's state, for who looks and changes nothing, while nobody takes an input."""
        return self._kernel.world

    def take(self, given: Input) -> list[Effect]:
        """Hand the kernel an input; return its effects. What is to be logged or reported belongs into `aside`."""
        return self._kernel.take(given, self._clock(), self._late())

    def take_all(self, told: Sequence[Input]) -> list[Effect]:
        """Hand the kernel what the store has answered; otherwise as `take`."""
        return self._kernel.take_all(told, self._clock(), self._late())

    def awaited(self) -> set[int | None]:
        """Return the handles of the calls that the store is waited for with: their answers come in any case."""
        return {decision.handle for decision in self._kernel.world.pending.values()}

    def _late(self) -> int:
        """Return how long ago the last tick was, microseconds."""
        return (time.monotonic_ns() - self._ticked) // 1000

    def tick(self) -> Tick:
        """Return the time that has passed since it was asked last."""
        now = time.monotonic_ns()
        elapsed, self._ticked = (now - self._ticked) // 1000, now
        return Tick(elapsed)

    def tell(self) -> None:
        """Log and report what there is. Not under a lock that a call needs: who reads the log may call."""
        with self._telling:
            while self.aside:
                effect = self.aside.popleft()
                if isinstance(effect, Log):
                    _log.log(effect.level, "%s", effect.text)
                elif self._report is not None:
                    self._report.write((effect,), self._clock())

    # The store.

    @property
    def is_store_connected(self) -> bool:
        """Whether the store can be written, as far as is known; False where there is none."""
        return self.store is not None and self.store.is_connected

    def persistent_store(self) -> PersistentStore:
        """Return the store. BrokerError where there is none."""
        if self.store is None:
            raise refuse(Code.UOW_NOT_PERSISTED, "PSTORE=NO")
        return self.store

    def carry_out(self, commits: Sequence[Commit]) -> list[Durable | Failed]:
        """Make commits durable with one sync; return what the kernel is to be told of each, in their order."""
        assert self.store is not None, "a broker without a store has nothing to commit"
        began = time.perf_counter()
        try:
            if any(commit.changes.copies for commit in commits):
                answers = self._with_copies(commits)
            else:
                answers = self.store.commit_many([commit.changes for commit in commits])
            if count := sum(not commit.changes.is_empty() for commit in commits):
                self.latencies.record(time.perf_counter() - began, count)
        except Exception as failure:  # nothing that a driver says: whether it is there, nobody knows
            text = f"{type(failure).__name__}: {failure}"
            self.aside.append(Log(Level.ERROR, f"a mistake of the persistent store: {traceback.format_exc()}"))
            self.store.disconnect()
            return [Failed(commit.ticket, True, text) for commit in commits]
        return [_outcome(commit.ticket, answer) for commit, answer in zip(commits, answers, strict=True)]

    def _with_copies(self, commits: Sequence[Commit]) -> list[int | StoreError]:
        """Carry out commits of which some copy messages; one whose messages cannot be read is not made."""
        assert self.store is not None
        answers: list[int | StoreError] = []
        batch: list[Changes] = []
        places: list[int] = []
        for place, commit in enumerate(commits):
            answers.append(0)
            try:
                batch.append(filled(commit.changes, self.store.read) if commit.changes.copies else commit.changes)
                places.append(place)
            except StoreUnavailable as failure:
                answers[place] = failure
            except StoreError as failure:
                answers[place] = CommitRefused(str(failure))
        for place, answer in zip(places, self.store.commit_many(batch), strict=True):
            answers[place] = answer
        return answers

    def waited_seconds(self) -> float:
        """Return how long commits have waited for the device, all together."""
        return 0.0 if self.store is None else self.store.waited_seconds

    @property
    def has_mark(self) -> bool:
        """Whether the free space is to be looked at."""
        return bool(self._min_free) and self.store is not None

    def room(self) -> ForbidNew | None:
        """Return what the kernel is to be told when the free space has fallen below MIN-FREE-SPACE.

        As long as it is below, the store makes what room it can.
        """
        if not self.has_mark:
            return None
        assert self.store is not None
        try:
            free = self.store.free_bytes()
        except StoreError:
            return None
        was_short, self._is_short = self._is_short, free is not None and free < self._min_free
        if self._is_short and isinstance(self.store, MakesRoom):
            self.store.want_room()
        if was_short or not self._is_short:
            return None
        text = f"no new units of work from now on: {free:,} bytes are free, MIN-FREE-SPACE is {self._min_free:,}"
        self.aside.append(Log(Level.ERROR, text))
        return ForbidNew()

    def make_room(self) -> None:
        """Have the store make room, before new units of work are allowed; a driver that does it by itself does not."""
        if isinstance(self.store, MakesRoom):
            self.store.make_room()

    # Answers.

    def read(self, request: Request, answer: Answer) -> Answered:
        """Return what the caller is told, its message read from the store if need be.

        Without a message where there should be one it could not be read; the reply says so.
        """
        reply, body, properties = answer.reply, None, answer.properties
        if not (answer.bodies or self._partner or request.errtext_length):
            return Answered(reply)
        if answer.bodies:
            (found,) = answer.bodies
            if isinstance(found, Stored):
                assert self.store is not None, "without a store no message is stored"
                try:
                    message = self.store.read(found.number)
                    body, properties = message.payload, message.properties
                except StoreError as failure:
                    reply = self._unreadable(reply, failure)
            else:
                body = found
        if body is not None:
            properties = split_properties(reply, properties)
            reply.return_length = len(body)
            if 0 < request.receive_length < len(body):
                reply.code, reply.text = Code.TRUNCATED, Code.TRUNCATED.text
                body = body[: request.receive_length]
        if self._partner:
            reply.partner_broker_id = self._partner
        if 0 < request.errtext_length < len(reply.text):
            reply.text = reply.text[: request.errtext_length]
        return Answered(reply, body, properties)

    def _unreadable(self, reply: Reply, failure: StoreError) -> Reply:
        """Return what is said in the place of a message that cannot be had now, or never again."""
        self.aside.append(Log(Level.ERROR, f"a message of {reply.uowid or reply.publication_id}: {failure}"))
        is_away = isinstance(failure, StoreUnavailable)
        code = Code.UOW_NOT_PERSISTED if is_away else INTERNAL_ERROR
        return Reply(
            code=code,
            text=detailed(code, str(failure)),
            conv_id=reply.conv_id,
            uowid=reply.uowid,
            publication_id=reply.publication_id,
            topic=reply.topic,
        )

    # The end.

    def end(self) -> None:
        """Write the checkpoint of the termination, when the store can be written."""
        if self.store is None or self.begun is None:
            return
        try:
            if self.store.is_connected:
                now = self._clock()
                reported = write_termination(self.store, self.begun, now=now, job=self._job)
                if self._report is not None:
                    self._report.write(reported, now)
        except StoreError as failure:
            _log.warning("no checkpoint of the termination: %s", failure)

    def close(self) -> None:
        """Let go of the store and the report."""
        try:
            if self.store is not None:
                self.store.close()
        finally:
            if self._report is not None:
                self._report.close()


def _outcome(ticket: int, answer: int | StoreError) -> Durable | Failed:
    if isinstance(answer, int):
        return Durable(ticket, answer)
    if isinstance(answer, StoreFull):
        return Failed(ticket, False, str(answer))
    if isinstance(answer, CommitRefused):
        return Failed(ticket, False, str(answer), is_refused=True, is_reused=isinstance(answer, ProducerReused))
    return Failed(ticket, True, str(answer))
