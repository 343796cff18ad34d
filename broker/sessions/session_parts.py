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
    def _speaker(self) -> RequestFactory: ...

    @property
    def _reading(self) -> Reading: ...

    def ask(self, request: Request) -> Answered: ...

    def _taken(self, request: Request, made: Callable[[Answered], T]) -> T: ...


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
    """A unit of work that you are sending. Nobody sees it before you commit it. Then they see all of it."""

    def __init__(self, session: Asking, to: dict[str, Any], terms: dict[str, Any]) -> None:
        super().__init__(session._speaker, to, terms)
        self._session = session

    def send(self, body: bytes, **beside: Unpack[Beside]) -> None:
        """Add a message. Raises BrokerError 00740347 above MAX-MESSAGES-IN-UOW, 00200218 above the length."""
        self._session._taken(self._to_send(body, {**beside}), self._sent)

    def commit(self, *, user_status: str = "") -> UnitStatus:
        """Commit the unit of work. If it is persistent, it is durable on return.

        After a BrokerError you can try again.
        """
        return self._settled(self._session.ask(self._to_settle(Option.COMMIT, user_status)))

    def commit_and_end(self, *, cancel: bool = False) -> UnitStatus:
        """Commit the unit of work and end its conversation: EOC, or EOCCANCEL with `cancel`."""
        option = Option.EOCCANCEL if flag(cancel, "cancel") else Option.EOC
        return self._settled(self._session.ask(self._to_settle(option)))

    def backout(self) -> UnitStatus:
        """Drop the unit of work."""
        return self._settled(self._session.ask(self._to_settle(Option.BACKOUT)))

    def cancel(self) -> UnitStatus:
        """Cancel the unit of work after its commit and before anybody receives it. Raises BrokerError 00780307."""
        return self._settled(self._session.ask(self._to_settle(Option.CANCEL)))

    def delete(self) -> UnitStatus:
        """Delete the persistent status of the unit of work, once it is complete. Raises BrokerError 00780307."""
        return self._settled(self._session.ask(self._to_settle(Option.DELETE)))

    def query(self) -> UnitStatus:
        """Return the status. Raises BrokerError 00780305 when the unit of work is complete and left no status."""
        return self._heard(self._session.ask(self._to_settle(Option.QUERY)))


class ReceivedUnit(ReceivingUnit, Settled):
    """A unit of work that you are receiving. It is an iterator over its messages."""

    def __init__(self, session: Asking, first: Message) -> None:
        super().__init__(session._speaker, session._reading, first)
        self._session = session
        self._answer: SentUnit | None = None

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        if self.is_read:
            raise StopIteration
        kept = self._at_hand()
        return kept if kept is not None else self._session._taken(self._to_go_on(), self._heard)

    def answer(self, body: bytes, **beside: Unpack[Beside]) -> None:
        """Add a message to an answer in the same conversation. `commit` commits both in one operation."""
        self._check_is_open()
        if self._answer is None or not self._answer.is_open:
            self._answer = SentUnit(self._session, self._speaker.to(None, self.conv_id), {})
        self._answer.send(body, **beside)

    def commit(self, *, user_status: str = "") -> UnitStatus:
        """Commit the unit of work: it is processed.

        With an answer the broker commits both, or neither. The call then returns the answer's status.
        """
        status = self._settled(self._session.ask(self._to_settle(Option.COMMIT, user_status, self._answer)))
        if self._answer is not None:
            self._answer.is_open = False
        return status

    def backout(self, *, user_status: str = "") -> UnitStatus:
        """Give the unit of work back. The broker drops an answer.

        The unit of work is ACCEPTED and comes again: the first time at once, then after a delay. After
        MAX-DELIVERY-COUNT times it is POSTPONED, or CANCELLED and a dead letter (`redelivery.py`).
        """
        return self._give_up(Option.BACKOUT, user_status)

    def cancel(self, *, user_status: str = "") -> UnitStatus:
        """Complete the unit of work as one that nobody will process. The broker drops an answer."""
        return self._give_up(Option.CANCEL, user_status)

    def _give_up(self, option: Option, user_status: str) -> UnitStatus:
        if self._answer is not None and self._answer.is_open:
            check_said(self._speaker.about(option, self.uowid, ustatus=user_status))  # before the answer is dropped
            with suppress(BrokerError) if self.is_lost else nullcontext():  # it may be lost as well
                self._answer.backout()
        return self._settled(self._session.ask(self._to_settle(option, user_status, None)))

    def set_user_status(self, user_status: str) -> UnitStatus:
        """Tell the sender something about the unit of work, in at most 32 characters."""
        request = self._speaker.about(Option.SETUSTATUS, self.uowid, ustatus=user_status)
        return unit_status(self._session.ask(request))

    def query(self) -> UnitStatus:
        """Return the status. The sender may have changed the user status meanwhile."""
        return unit_status(self._session.ask(self._speaker.about(Option.QUERY, self.uowid)))


class SentPublication(Publishing, Settled):
    """A publication that you are sending. Once you commit it, its subscribers get all of it."""

    def __init__(self, session: Asking, topic: str, user_status: str) -> None:
        super().__init__(session._speaker, topic, user_status)
        self._session = session

    def send(self, body: bytes, **beside: Unpack[Beside]) -> None:
        """Add a message. Raises BrokerError 00740347 above MAX-MESSAGES-IN-PUBLICATION, 00200218 above the length."""
        self._session._taken(self._to_send(body, {**beside}), self._sent)

    def commit(self) -> PublicationStatus:
        """Commit the publication. Now its subscribers can have it. If the topic is stored, it is durable on return."""
        return self._settled(self._session.ask(self._to_settle(Option.COMMIT)))

    def backout(self) -> PublicationStatus:
        """Drop the publication."""
        return self._settled(self._session.ask(self._to_settle(Option.BACKOUT)))


class ReceivedPublication(ReceivingPublication, Settled):
    """A publication that you are receiving. It is an iterator over its messages."""

    def __init__(self, session: Asking, first: Message) -> None:
        super().__init__(session._speaker, first)
        self._session = session

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        if self.is_read:
            raise StopIteration
        kept = self._at_hand()
        return kept if kept is not None else self._session._taken(self._to_go_on(), self._heard)

    def acknowledge(self) -> PublicationStatus:
        """Acknowledge the publication. It does not come again.

        If the subscription is durable, that holds over a restart too.
        """
        return self._settled(self._session.ask(self._to_settle(Option.COMMIT)))

    def commit(self) -> PublicationStatus:
        """Acknowledge the publication."""
        return self.acknowledge()

    def backout(self) -> PublicationStatus:
        """Give the publication back. It is the next that you receive.

        From the second time on it comes after a delay.
        """
        return self._settled(self._session.ask(self._to_settle(Option.BACKOUT)))


class Subscription:
    """The subscription of a user: the publications that were committed since the user subscribed."""

    def __init__(self, session: Asking, topic: str, *, is_durable: bool) -> None:
        self.topic = topic
        self.is_durable = is_durable
        self._session = session

    def receive(self, *, wait: Wait = None) -> ReceivedPublication | None:
        """Receive the first message of the next publication. Returns None when there is none, or none came in time.

        None is no context manager: look before `with`, or go through `publications`.
        """
        asked = self._session._speaker.receive_publication(self.topic, NEW, wait)

        def made(answered: Answered) -> ReceivedPublication | Again | None:
            if wait is True and answered.reply.code is Code.WAIT_TIMED_OUT:
                return AGAIN
            found = message_if_any(answered, is_named=True)
            return None if found is None else ReceivedPublication(self._session, found)

        while (publication := self._session._taken(asked, made)) is AGAIN:
            pass
        return publication

    def publications(self, *, wait: Wait = None) -> Iterator[ReceivedPublication]:
        """Yield publications as `receive` returns them, until there is none."""
        while (publication := self.receive(wait=wait)) is not None:
            yield publication

    def unsubscribe(self) -> None:
        """End the subscription. The user loses what was not received."""
        checked(self._session.ask(self._session._speaker.request(Function.UNSUBSCRIBE, topic=self.topic)))
