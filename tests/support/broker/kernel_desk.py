"""A desk for tests of the kernel: calls in words, and a store on paper that answers its commits."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, cast

from oms_journal.broker.attributes.attributes import Attributes, built_in
from oms_journal.broker.block import Function, Option, Reception, Reply, Request
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.kernel import Kernel
from oms_journal.broker.kernel.restart.restore import restore
from oms_journal.broker.kernel.state.effects import (
    Answer,
    Call,
    Commit,
    Durable,
    Effect,
    Expect,
    Failed,
    Gone,
    Input,
    Log,
    Stored,
    Tick,
    split_properties,
)
from oms_journal.broker.kernel.state.world import Restored
from oms_journal.broker.records import UOW, UOWS, Status, UowRecord
from oms_journal.broker.store.changes import Changes, NewMessage, filled
from oms_journal.broker.store.master import Identifiers
from oms_journal.broker.store.report import ReportLine
from oms_journal.broker.store.start import RESTORED_KEY, ProducerReused, Values
from oms_journal.broker.store.start import PersistentStore as StorePort
from oms_journal.broker.store.stored import StoredIdentifier
from oms_journal.index.duplicates import digest
from oms_journal.journal.format.headers import xxh3

SECOND = 1_000_000
T0 = 1_700_000_000 * SECOND
Fields = dict[str, Any]  # of a call, by name
CHESS: Fields = {"server_class": "GAME", "server_name": "CHESS", "service": "BLACK"}


@dataclass
class Paper:
    """What a store would hold: messages by number, and keys."""

    messages: dict[int, NewMessage] = field(default_factory=dict)
    keys: dict[str, bytes] = field(default_factory=dict)
    newest: int = 0  # number of the newest message ever
    commits: list[Changes] = field(default_factory=list)
    producers: dict[tuple[str, str], tuple[int, list[bytes], int]] = field(default_factory=dict)  # first, what, when

    def commit(self, changes: Changes) -> int:
        if changes.producer is not None:
            firsts, place, news = set(), 0, {}
            for queue, messages in groupby(changes.adds, key=lambda message: message.queue):
                payloads, scope = [message.payload for message in messages], (queue, changes.producer)
                first, known, _ = self.producers.get(scope, (place, payloads, 0))
                if known != payloads:
                    raise ProducerReused("the identifier was used for another payload")
                firsts.add(first - place)
                news[scope] = (self.newest + 1 + place, payloads, len(self.commits))
                place += len(payloads)
            if firsts != {0}:
                if len(firsts) > 1:
                    raise ProducerReused("some of it was sent before")
                return firsts.pop()
            self.producers |= news
        self.commits.append(changes)
        first = self.newest + 1 if changes.adds else 0
        for message in changes.adds:
            self.newest += 1
            self.messages[self.newest] = message
        for numbers in (*changes.delivered, *changes.deleted):
            for number in numbers:
                del self.messages[number]  # a KeyError is a mistake of the kernel
        for put in changes.puts:
            value = bytearray(put.value)
            for at, place in put.numbers_at.items():
                value[at : at + 8] = (first + place).to_bytes(8, "little")
            self.keys[put.key] = bytes(value)
        for key in changes.drops:
            del self.keys[key]
        return first

    def uows(self) -> dict[str, UowRecord]:
        """Return the records of units of work by UOWID."""
        return {key.removeprefix(UOWS): UOW.decode(value) for key, value in self.keys.items() if key.startswith(UOWS)}

    # What a restart asks of a store.

    def identifiers(self) -> Iterator[StoredIdentifier]:
        for (queue, producer), (first, payloads, when) in self.producers.items():
            yield StoredIdentifier(queue, producer, first, len(payloads), digest(list(map(xxh3, payloads))), when)

    def highest(self) -> int:
        return self.newest

    def record(self, key: str) -> bytes | None:
        return self.keys.get(key)

    def records(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        return ((key, value) for key, value in sorted(self.keys.items()) if key.startswith(prefix))

    def values(self, prefix: str) -> Iterator[Values]:
        found = list(self.records(prefix))
        yield Values([key.encode() for key, _ in found], [value for _, value in found])


@dataclass
class Said:
    """An answer as the caller sees it."""

    reply: Reply
    body: bytes | None = None
    properties: Mapping[str, str] | None = None

    @property
    def code(self) -> Code:
        return self.reply.code

    @property
    def uowid(self) -> str:
        return self.reply.uowid

    @property
    def conv_id(self) -> str:
        return self.reply.conv_id

    @property
    def status(self) -> Status | Reception | None:
        return self.reply.uow_status


class Desk:
    """A kernel and its store on paper. Commits are answered at once unless `is_slow`."""

    def __init__(self, attributes: Attributes | None = None, restored: Restored | None = None, starts: int = 1) -> None:
        self.attributes = attributes or built_in(broker_id="")
        self.paper = Paper()
        self.starts = starts
        self.kernel = Kernel(self.attributes, restored or Restored(), Identifiers(starts))
        self.answers: dict[int, Said] = {}
        self.logs: list[str] = []
        self.reports: list[ReportLine] = []
        self.commits: deque[Commit] = deque()  # that wait for their answer
        self.is_slow = False
        self.now = T0
        self.late = 0  # microseconds since the last tick
        self._handles = 0

    def restart(self, attributes: Attributes | None = None) -> "Desk":
        """Return the desk of a broker that is started on what this one's store holds; this one is dead."""
        again = Desk(attributes or self.attributes, starts=self.starts + 1)
        again.paper, again.now = self.paper, self.now
        found = restore(cast(StorePort, again.paper), now=self.now)
        again.kernel = Kernel(again.attributes, found, Identifiers(again.starts))
        return again

    def restored(self, attributes: Attributes | None = None) -> "Desk":
        """Return the desk of a broker that is started on a backup of what this one's store holds."""
        self.paper.keys[RESTORED_KEY] = b'{"source": "aa11", "backup": "/backup/orders"}'
        self.paper.newest += 1 << 20
        return self.restart(attributes)

    def give(self, given: Input) -> list[Effect]:
        """Hand an input in and carry the effects out; return them."""
        effects = self.kernel.take(given, self.now, self.late)
        for effect in effects:
            match effect:
                case Answer():
                    assert effect.handle not in self.answers, "a call is answered once"
                    self.answers[effect.handle] = self._read(effect)
                case Commit():
                    self.commits.append(effect)
                case Log(_, text):
                    assert "a mistake of the broker itself" not in text, text
                    self.logs.append(text)
                case Expect():
                    pass  # whoever tests lets time pass
                case ReportLine():
                    self.reports.append(effect)
        if not self.is_slow:
            self.settle()
        return effects

    def _read(self, answer: Answer) -> Said:
        if not answer.bodies:
            return Said(answer.reply)
        (body,) = answer.bodies
        if isinstance(body, Stored):
            message = self.paper.messages[body.number]
            return Said(answer.reply, message.payload, split_properties(answer.reply, message.properties))
        return Said(answer.reply, body, split_properties(answer.reply, answer.properties))

    def settle(self, count: int = 1_000_000) -> None:
        """Answer commits that wait: durable."""
        for _ in range(min(count, len(self.commits)) if count < 1_000_000 else count):
            if not self.commits:
                return
            commit = self.commits.popleft()
            try:
                changes = filled(commit.changes, self.paper.messages.__getitem__)
                given: Durable | Failed = Durable(commit.ticket, self.paper.commit(changes))
            except ProducerReused as refused:
                given = Failed(commit.ticket, False, str(refused), is_refused=True, is_reused=True)
            self._one(given)

    def fail(self, *, is_store_lost: bool = True, is_refused: bool = False) -> None:
        """Answer the oldest commit that waits: failed."""
        self._one(Failed(self.commits.popleft().ticket, is_store_lost, "the disk is gone", is_refused))

    def _one(self, given: Input) -> None:
        slow, self.is_slow = self.is_slow, True
        try:
            self.give(given)
        finally:
            self.is_slow = slow

    def tick(self, seconds: float = 1) -> None:
        self.now += round(seconds * SECOND) - self.late
        self.late = 0
        self.give(Tick(round(seconds * SECOND)))

    def go_on(self, seconds: float) -> None:
        """Let so much of the time until the next tick pass, which has to be for longer."""
        self.now += round(seconds * SECOND)
        self.late += round(seconds * SECOND)

    def start(self, function: Function, option: Option = Option.NONE, *, caller: int = 1, **fields: Any) -> int:
        """Call; return the handle."""
        self._handles += 1
        self.give(Call(Request(function=function, option=option, **fields), caller, self._handles))
        return self._handles

    def call(self, function: Function, option: Option = Option.NONE, *, caller: int = 1, **fields: Any) -> Said:
        """Call and return the answer, which must be there."""
        return self.answers[self.start(function, option, caller=caller, **fields)]


class Person:
    """Somebody at the desk, with USER-ID, TOKEN and a connection of its own."""

    def __init__(self, desk: Desk, user: str, token: str = "", *, caller: int = 1, logs_on: bool = True) -> None:
        self.desk = desk
        self.who: Fields = {"user_id": user, "token": token, "caller": caller}
        if logs_on:
            assert self.call(Function.LOGON).code is Code.OK

    def call(self, function: Function, option: Option = Option.NONE, **fields: Any) -> Said:
        return self.desk.call(function, option, **{**self.who, **fields})

    def start(self, function: Function, option: Option = Option.NONE, **fields: Any) -> int:
        return self.desk.start(function, option, **{**self.who, **fields})

    def register(self, **fields: Any) -> Said:
        return self.call(Function.REGISTER, **{**CHESS, **fields})

    def send(self, body: bytes = b"e4", option: Option = Option.COMMIT, conv_id: str = "NEW", **fields: Any) -> Said:
        names = CHESS if conv_id in ("NEW", "NONE") else {}
        return self.call(Function.SEND, option, body=body, conv_id=conv_id, **{**names, **fields})

    def receive(self, conv_id: str = "NEW", option: Option = Option.SYNC, **fields: Any) -> Said:
        names = CHESS if conv_id in ("NEW", "OLD", "ANY") else {}
        return self.call(Function.RECEIVE, option, conv_id=conv_id, **{**names, **fields})

    def sync(self, option: Option, uowid: str = "", **fields: Any) -> Said:
        return self.call(Function.SYNCPOINT, option, uowid=uowid, **fields)

    def gone(self) -> None:
        self.desk.give(Gone(self.who["caller"]))


def attributes(**given: str) -> Attributes:
    """Return the built-in attributes with some of the broker's changed."""
    return built_in(broker_id="", **given)
