"""A real kernel on a real store, driven in the model's words, and killed, restarted and failed as a script says."""

import contextlib
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from oms_journal.broker.attributes.attributes import Attributes, parse_attributes
from oms_journal.broker.block import Function, Reply, Request
from oms_journal.broker.kernel.kernel import Kernel
from oms_journal.broker.kernel.restart.restore import restore
from oms_journal.broker.kernel.state.effects import (
    AllowNew,
    Answer,
    Call,
    Command,
    Commit,
    DiscardHeld,
    DiscardPublications,
    Durable,
    Effect,
    Expect,
    Failed,
    ForbidNew,
    Gone,
    Input,
    Log,
    ReleaseHeld,
    ReleasePublications,
    StoreBack,
    Stored,
    StoreLost,
    Tick,
)
from oms_journal.broker.records import SUBSCRIPTION, SUBSCRIPTIONS, UOW, UOWS, Status
from oms_journal.broker.store.changes import filled
from oms_journal.broker.store.report import ReportLine
from oms_journal.broker.store.start import CommitRefused, ProducerReused, StoreFull, StoreUnavailable, write_termination
from tests.support.broker.kernel_desk import SECOND, T0
from tests.support.broker.model import Terms
from tests.support.broker.model_topics import TopicTerms
from tests.support.broker.stores import Driver, begun
from tests.support.broker.words import Ask, Order

CLASS, NAME = "GAME", "CHESS"


@dataclass
class Said:
    """An answer as the caller sees it."""

    reply: Reply
    body: bytes | None


@dataclass
class Identifiers:
    """Which of the broker's identifiers is which of the model's numbers."""

    of_number: dict[int, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def is_the(self, number: int, identifier: str) -> bool:
        """Say whether the identifier may be the number's; when either is new, it is from now on."""
        if number not in self.of_number and identifier not in self.numbers:
            self.of_number[number], self.numbers[identifier] = identifier, number
        return self.of_number.get(number) == identifier

    def number(self, said: int | str) -> int | str:
        """Return the model's number of an identifier; words stay as they are."""
        is_identifier = isinstance(said, str) and len(said) == 16
        return self.numbers.get(str(said), -1) if is_identifier else said


class OracleDesk:
    """A broker on a store of a driver. Commits are carried out as `settle` says."""

    def __init__(self, driver: Driver, attributes: Attributes) -> None:
        self.driver = driver
        self.attributes = attributes
        self.now = T0
        self.store = driver.open()
        self._start()

    def _start(self) -> None:
        self.begun = begun(self.store, now=self.now)
        self.kernel = Kernel(self.attributes, restore(self.store, now=self.now), self.begun.identifiers)
        self._go_on()

    def _go_on(self) -> None:
        """Let the broker that was started do what the restart has left to do."""
        self.answers: dict[int, Said] = {}
        self.commits: deque[Commit] = deque()
        self.give(Tick(0))

    def give(self, given: Input) -> None:
        """Hand an input in; commits wait."""
        self._take_in(self.kernel.take(given, self.now))

    def _take_in(self, effects: list[Effect]) -> None:
        """Carry out what the kernel wants done; commits wait."""
        self._count_again()
        for effect in effects:
            match effect:
                case Answer():
                    assert effect.handle not in self.answers, "a call is answered once"
                    self.answers[effect.handle] = self._read(effect)
                case Commit():
                    self.commits.append(effect)
                case Log(_, text):
                    assert "a mistake of the broker itself" not in text, text
                case Expect():
                    pass  # whoever tests lets time pass
                case ReportLine():
                    pass

    def _count_again(self) -> None:
        """Compare what the kernel has counted with what there is."""
        world = self.kernel.world
        found = Counter((world.conversations[unit.conv_id].service.name, unit.status) for unit in world.active.values())
        for name, service in world.services.items():
            counted = (service.sending, service.delivering)
            assert counted == (found[name, Status.RECEIVED], found[name, Status.DELIVERED])

    def _read(self, answer: Answer) -> Said:
        bodies = [self.store.read(body.number).payload if isinstance(body, Stored) else body for body in answer.bodies]
        return Said(answer.reply, bodies[0] if bodies else None)

    def settle(self, count_max: int = 1_000_000, *, is_told: bool = True) -> None:
        """Carry out commits; the last one is durable and not told where `is_told` says so."""
        count = 0
        while self.commits and count < count_max:
            commit = self.commits.popleft()
            count += 1
            try:
                given: Input = Durable(commit.ticket, self.store.commit(filled(commit.changes, self.store.read)))
            except StoreFull as full:
                given = Failed(commit.ticket, False, str(full))
            except StoreUnavailable as lost:
                given = Failed(commit.ticket, True, str(lost))
            except CommitRefused as refused:
                given = Failed(
                    commit.ticket, False, str(refused), is_refused=True, is_reused=isinstance(refused, ProducerReused)
                )
            if self.commits or is_told:
                self.give(given)

    def call(self, handle: int, request: Request, connection: int) -> None:
        self.give(Call(request, connection, handle))

    def order(self, handle: int, ask: Ask) -> None:
        """Give an operator's order."""
        self.give(self._command_of(handle, ask))

    def _command_of(self, handle: int, ask: Ask) -> Command:
        held = tuple(map(str, ask.held))
        if not ask.topic:
            status = Status.PROCESSED if ask.function is Order.CONFIRM else Status.DISCARDED
            return ReleaseHeld(handle, held) if ask.function is Order.RELEASE else DiscardHeld(handle, held, status)
        kind = ReleasePublications if ask.function is Order.RELEASE else DiscardPublications
        return kind(handle, self.subscription_of(ask.topic, ask.reader), held or None)

    def subscription_of(self, topic: str, reader: tuple[str, str]) -> str:
        """Return the identifier of somebody's durable subscription, "" for none, as an operator is told of it."""
        for identifier, found in self.kernel.world.topics.subscriptions.items():
            if found.topic.name == topic and found.is_durable and (found.owner.user, found.owner.token) == reader:
                return identifier
        return ""

    def gone(self, connection: int) -> None:
        self.give(Gone(connection))

    def tick(self, seconds: int) -> None:
        self.now += seconds * SECOND
        self.give(Tick(seconds * SECOND))

    # The store and the process.

    @contextlib.contextmanager
    def failing(self) -> Iterator[None]:
        with self.driver.fails():
            yield

    def lose(self) -> None:
        self.store.disconnect()
        self.give(StoreLost("taken away"))

    def forbid(self, *, is_forbidden: bool) -> None:
        self.give(ForbidNew() if is_forbidden else AllowNew())

    def find(self) -> None:
        self.store.connect()
        self.give(StoreBack())

    def stop_and_start(self) -> None:
        """End the broker and start it again."""
        write_termination(self.store, self.begun, now=self.now)
        self.store.close()
        self.store = self.driver.open(creates=False)
        self._start()

    def kill_and_start(self) -> None:
        """Let the process die, and start another on what it leaves."""
        after = self.driver.killed()
        with contextlib.suppress(StoreUnavailable):
            self.store.close()
        self.driver = after
        self.store = after.open(creates=False)
        self._start()

    def close(self) -> None:
        self.store.close()

    def records(self) -> dict[str, Status]:
        """Return the units of work in the store."""
        return {key.removeprefix(UOWS): UOW.decode(value).status for key, value in self.store.records(UOWS)}

    def subscribers(self) -> list[tuple[str, str, str]]:
        """Return topic, USER-ID and TOKEN of the subscriptions in the store."""
        records = (SUBSCRIPTION.decode(value) for _, value in self.store.records(SUBSCRIPTIONS))
        return sorted((record.topic, record.user, record.token) for record in records)


def request_of(ask: Ask) -> Request:
    """Return the control block of a call; it names conversations and units of work by their identifiers."""
    assert isinstance(ask.function, Function), "an order is no call"
    is_named = ask.service and ask.talk in ("", "NEW", "NONE", "OLD", "ANY")
    return Request(
        function=ask.function,
        option=ask.option,
        user_id=ask.who.user,
        token=ask.who.token,
        server_class=CLASS if is_named else "",
        server_name=NAME if is_named else "",
        service=ask.service if is_named else "",
        conv_id=str(ask.talk),
        uowid=str(ask.uow),
        publication_id=str(ask.publication),
        topic=ask.topic,
        body=ask.body,
        ustatus=ask.ustatus,
        store=ask.store,
        uwtime=f"{ask.uwtime}S" if ask.uwtime else "",
        uwstatp=ask.uwstatp,
        uwstat_lifetime=f"{ask.uwstat_lifetime}S" if ask.uwstat_lifetime else "",
        producer=ask.producer,
        wait=f"{ask.wait}S" if ask.wait else "",
    )


ATTRIBUTES = """
DEFAULTS=BROKER
  BROKER-ID=ETB001  PSTORE=WARM  STORE=BROKER  DEFERRED=YES  UWTIME=UNLIM  MAX-UOWS=UNLIM
  MAX-DELIVERY-COUNT=UNLIM  CLIENT-NONACT=UNLIM  SERVER-NONACT=UNLIM  CONV-NONACT=UNLIM
  PUBLISHER-NONACT=UNLIM  SUBSCRIBER-NONACT=UNLIM
  SUBSCRIBER-STORE=PSTORE  SUBSCRIPTION-EXPIRATION=UNLIM  PUBLICATION-LIFETIME=UNLIM
  MAX-MESSAGES-IN-PUBLICATION=3
DEFAULTS=SERVICE
  CLASS=GAME SERVER=CHESS SERVICE=BLACK
  CLASS=GAME SERVER=CHESS SERVICE=BLITZ  STORE=OFF UWTIME=40S UWSTATP=2 DEFERRED=NO MAX-MESSAGES-IN-UOW=3 MAX-UOWS=4
    MAX-DELIVERY-COUNT=2 POSTPONE-ATTEMPTS=1 POSTPONE-DELAY=30S
DEFAULTS=TOPIC
  TOPIC=NEWS  ALLOW-DURABLE=YES
  TOPIC=GOSSIP  PUBLICATION-LIFETIME=40S
  TOPIC=OFFERS  ALLOW-DURABLE=YES PUBLICATION-LIFETIME=40S
"""
SERVICES = {
    "BLACK": Terms(),
    "BLITZ": Terms(
        is_persistent=False,
        uwtime=40,
        uwstatp=2,
        is_deferred=False,
        uows_max=4,
        messages_max=3,
        delivery_max=2,
        postpone_attempts=1,
        postpone_delay=30,
    ),
}
TOPICS = {
    "NEWS": TopicTerms(messages_max=3),
    "GOSSIP": TopicTerms(is_durable=False, lifetime=40, messages_max=3),
    "OFFERS": TopicTerms(lifetime=40, messages_max=3),
}


def attributes() -> Attributes:
    return parse_attributes(ATTRIBUTES)
