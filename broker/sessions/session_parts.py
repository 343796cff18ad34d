"""What a session of threads gives out: units of work and publications, sent and received, and subscriptions.

Each is committed at the end of its `with` block, and backed out by an exception. What is received is an iterator over
its messages.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, Unpack

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import NEW, Function, Option, Request
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.sessions.requests import (
    Beside,
    Message,
    PublicationStatus,
    RequestFactory,
    UnitStatus,
    Wait,
    checked,
    message_if_any,
    unit_status,
)
from oms_journal.broker.sessions.verbs import (
    AGAIN,
    Again,
    OutgoingUnit,
    Publishing,
    Reading,
    ReceivingPublication,
    ReceivingUnit,
    check_said,
)
from oms_journal.database.arguments import flag

T = TypeVar("T")


class Asking(Protocol):
    """A session, as what it gives out needs it."""

    @property
    def speaker(self) -> RequestFactory: ...

    @property
    def reading(self) -> Reading: ...

    def ask(self, request: Request) -> Answered: ...

    def taken(self, request: Request, made: Callable[[Answered], T]) -> T: ...


class Settled(ABC):
    """A block that settles what it is about."""

    is_open: bool

    @abstractmethod
    def commit(self) -> object:
        """Commit it."""

    @abstractmethod
    def backout(self) -> object:
        """Back it out."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_open:
            return
        try:
            if kind is None:
                self.commit()
        finally:
            if self.is_open:
                with suppress(BrokerError):
                    self.backout()


class SentUnit(OutgoingUnit, Settled):
    """A unit of work that is being sent. Nobody sees it before it is committed, and then all of it."""

    def __init__(self, session: Asking, to: dict[str, Any], terms: dict[str, Any]) -> None:
        super().__init__(session.speaker, to, terms)
        self._session = session

    def send(self, body: bytes, **beside: Unpack[Beside]) -> None:
        """Add a message. BrokerError 00740347 above MAX-MESSAGES-IN-UOW, 00200218 above the length."""
        self._session.taken(self._to_send(body, {**beside}), self._sent)

    def commit(self, *, user_status: str = "") -> UnitStatus:
        """Commit it: durable on return where it is persistent. BrokerError: then it can be tried again."""
        return self._settled(self._session.ask(self._to_settle(Option.COMMIT, user_status)))

    def commit_and_end(self, *, cancel: bool = False) -> UnitStatus:
        """Commit it, and end its conversation: EOC, or with `cancel` EOCCANCEL."""
        option = Option.EOCCANCEL if flag(cancel, "cancel") else Option.EOC
        return self._settled(self._session.ask(self._to_settle(option)))

    def backout(self) -> UnitStatus:
        """Drop it."""
        return self._settled(self._session.ask(self._to_settle(Option.BACKOUT)))

    def cancel(self) -> UnitStatus:
        """Cancel it, once it is committed and while nobody has received it. BrokerError 00780307."""
        return self._settled(self._session.ask(self._to_settle(Option.CANCEL)))

    def delete(self) -> UnitStatus:
        """Delete its persistent status, once it is complete. BrokerError 00780307."""
        return self._settled(self._session.ask(self._to_settle(Option.DELETE)))

    def query(self) -> UnitStatus:
        """Return its status. BrokerError 00780305 when it is complete and left none."""
        return self._heard(self._session.ask(self._to_settle(Option.QUERY)))


class ReceivedUnit(ReceivingUnit, Settled):
    """A unit of work that is being received: an iterator over its messages."""

    def __init__(self, session: Asking, first: Message) -> None:
        super().__init__(session.speaker, session.reading, first)
        self._session = session
        self._answer: SentUnit | None = None

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        if self.is_read:
            raise StopIteration
        kept = self._at_hand()
        return kept if kept is not None else self._session.taken(self._to_go_on(), self._heard)

    def answer(self, body: bytes, **beside: Unpack[Beside]) -> None:
        """Add a message to an answer in the same conversation, which `commit` commits with it, in one operation."""
        self._check_is_open()
        if self._answer is None or not self._answer.is_open:
            self._answer = SentUnit(self._session, self._speaker.to(None, self.conv_id), {})
        self._answer.send(body, **beside)

    def commit(self, *, user_status: str = "") -> UnitStatus:
        """Commit it: it is processed. With an answer both are, or neither, and the answer's status is returned."""
        status = self._settled(self._session.ask(self._to_settle(Option.COMMIT, user_status, self._answer)))
        if self._answer is not None:
            self._answer.is_open = False
        return status

    def backout(self, *, user_status: str = "") -> UnitStatus:
        """Give it back; an answer is dropped.

        It is ACCEPTED and comes again: the first time at once, then after a delay. After MAX-DELIVERY-COUNT times it is
        POSTPONED, or CANCELLED and a dead letter (`redelivery.py`).
        """
        return self._give_up(Option.BACKOUT, user_status)

    def cancel(self, *, user_status: str = "") -> UnitStatus:
        """Complete it as one that nobody will process; an answer is dropped."""
        return self._give_up(Option.CANCEL, user_status)

    def _give_up(self, option: Option, user_status: str) -> UnitStatus:
        if self._answer is not None and self._answer.is_open:
            check_said(self._speaker.about(option, self.uowid, ustatus=user_status))  # before the answer is dropped
            with suppress(BrokerError) if self.is_lost else nullcontext():  # it may be lost as well
                self._answer.backout()
        return self._settled(self._session.ask(self._to_settle(option, user_status, None)))

    def set_user_status(self, user_status: str) -> UnitStatus:
        """Tell its sender something about it, at most 32 characters."""
        request = self._speaker.about(Option.SETUSTATUS, self.uowid, ustatus=user_status)
        return unit_status(self._session.ask(request))

    def query(self) -> UnitStatus:
        """Return its status: its sender may have changed the user status meanwhile."""
        return unit_status(self._session.ask(self._speaker.about(Option.QUERY, self.uowid)))


class SentPublication(Publishing, Settled):
    """A publication that is being sent. Its subscribers get all of it, once it is committed."""

    def __init__(self, session: Asking, topic: str, user_status: str) -> None:
        super().__init__(session.speaker, topic, user_status)
        self._session = session

    def send(self, body: bytes, **beside: Unpack[Beside]) -> None:
        """Add a message. BrokerError 00740347 above MAX-MESSAGES-IN-PUBLICATION, 00200218 above the length."""
        self._session.taken(self._to_send(body, {**beside}), self._sent)

    def commit(self) -> PublicationStatus:
        """Commit it: now its subscribers can have it. Durable on return where the topic is stored."""
        return self._settled(self._session.ask(self._to_settle(Option.COMMIT)))

    def backout(self) -> PublicationStatus:
        """Drop it."""
        return self._settled(self._session.ask(self._to_settle(Option.BACKOUT)))


class ReceivedPublication(ReceivingPublication, Settled):
    """A publication that is being received: an iterator over its messages."""

    def __init__(self, session: Asking, first: Message) -> None:
        super().__init__(session.speaker, first)
        self._session = session

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        if self.is_read:
            raise StopIteration
        kept = self._at_hand()
        return kept if kept is not None else self._session.taken(self._to_go_on(), self._heard)

    def acknowledge(self) -> PublicationStatus:
        """Be done with it: it does not come again, over a restart neither where the subscription is durable."""
        return self._settled(self._session.ask(self._to_settle(Option.COMMIT)))

    def commit(self) -> PublicationStatus:
        """Acknowledge it."""
        return self.acknowledge()

    def backout(self) -> PublicationStatus:
        """Give it back: it is the next that is received, from the second time on after a delay."""
        return self._settled(self._session.ask(self._to_settle(Option.BACKOUT)))


class Subscription:
    """What a user has subscribed to: publications that were committed since."""

    def __init__(self, session: Asking, topic: str, *, is_durable: bool) -> None:
        self.topic = topic
        self.is_durable = is_durable
        self._session = session

    def receive(self, *, wait: Wait = None) -> ReceivedPublication | None:
        """Receive the first message of the next publication; None when there is none, or none came in time.

        None is no context manager: look before `with`, or go through `publications`.
        """
        asked = self._session.speaker.receive_publication(self.topic, NEW, wait)

        def made(answered: Answered) -> ReceivedPublication | Again | None:
            if wait is True and answered.reply.code is Code.WAIT_TIMED_OUT:
                return AGAIN
            found = message_if_any(answered, is_named=True)
            return None if found is None else ReceivedPublication(self._session, found)

        while (publication := self._session.taken(asked, made)) is AGAIN:
            pass
        return publication

    def publications(self, *, wait: Wait = None) -> Iterator[ReceivedPublication]:
        """Yield publications as `receive` returns them, until there is none."""
        while (publication := self.receive(wait=wait)) is not None:
            yield publication

    def unsubscribe(self) -> None:
        """End the subscription; what was not received is gone for this user."""
        checked(self._session.ask(self._session.speaker.request(Function.UNSUBSCRIBE, topic=self.topic)))
