"""What a session of asyncio gives out: units of work, publications, subscriptions, as `session_parts.py` has them."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
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


class AsyncAsking(Protocol):
    """A session, as what it gives out needs it."""

    @property
    def _speaker(self) -> RequestFactory: ...

    @property
    def _reading(self) -> Reading: ...

    async def ask(self, request: Request) -> Answered: ...

    async def _taken(self, request: Request, made: Callable[[Answered], T]) -> T: ...


class AsyncSettled(ABC):
    """A block that settles what it is about."""

    is_open: bool

    @abstractmethod
    async def commit(self) -> object:
        """Commit it."""

    @abstractmethod
    async def backout(self) -> object:
        """Back it out."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_open:
            return
        try:
            if kind is None:
                await self.commit()
        finally:
            if self.is_open:
                with suppress(BrokerError):
                    await self.backout()


class AsyncSentUnit(OutgoingUnit, AsyncSettled):
    """A unit of work that you are sending. Nobody sees it before you commit it. Then they see all of it."""

    def __init__(self, session: AsyncAsking, to: dict[str, Any], terms: dict[str, Any]) -> None:
        super().__init__(session._speaker, to, terms)
        self._session = session

    async def send(self, body: bytes, **beside: Unpack[Beside]) -> None:
        """Add a message. Raises BrokerError 00740347 above MAX-MESSAGES-IN-UOW, 00200218 above the length."""
        await self._session._taken(self._to_send(body, {**beside}), self._sent)

    async def commit(self, *, user_status: str = "") -> UnitStatus:
        """Commit the unit of work. If it is persistent, it is durable on return.

        After a BrokerError you can try again.
        """
        return self._settled(await self._session.ask(self._to_settle(Option.COMMIT, user_status)))

    async def commit_and_end(self, *, cancel: bool = False) -> UnitStatus:
        """Commit the unit of work and end its conversation: EOC, or EOCCANCEL with `cancel`."""
        option = Option.EOCCANCEL if flag(cancel, "cancel") else Option.EOC
        return self._settled(await self._session.ask(self._to_settle(option)))

    async def backout(self) -> UnitStatus:
        """Drop the unit of work."""
        return self._settled(await self._session.ask(self._to_settle(Option.BACKOUT)))

    async def cancel(self) -> UnitStatus:
        """Cancel the unit of work after its commit and before anybody receives it. Raises BrokerError 00780307."""
        return self._settled(await self._session.ask(self._to_settle(Option.CANCEL)))

    async def delete(self) -> UnitStatus:
        """Delete the persistent status of the unit of work, once it is complete. Raises BrokerError 00780307."""
        return self._settled(await self._session.ask(self._to_settle(Option.DELETE)))

    async def query(self) -> UnitStatus:
        """Return the status. Raises BrokerError 00780305 when the unit of work is complete and left no status."""
        return self._heard(await self._session.ask(self._to_settle(Option.QUERY)))


class AsyncReceivedUnit(ReceivingUnit, AsyncSettled):
    """A unit of work that you are receiving. It is an iterator over its messages."""

    def __init__(self, session: AsyncAsking, first: Message) -> None:
        super().__init__(session._speaker, session._reading, first)
        self._session = session
        self._answer: AsyncSentUnit | None = None

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        if self.is_read:
            raise StopAsyncIteration
        kept = self._at_hand()
        return kept if kept is not None else await self._session._taken(self._to_go_on(), self._heard)

    async def answer(self, body: bytes, **beside: Unpack[Beside]) -> None:
        """Add a message to an answer in the same conversation. `commit` commits both in one operation."""
        self._check_is_open()
        if self._answer is None or not self._answer.is_open:
            self._answer = AsyncSentUnit(self._session, self._speaker.to(None, self.conv_id), {})
        await self._answer.send(body, **beside)

    async def commit(self, *, user_status: str = "") -> UnitStatus:
        """Commit the unit of work: it is processed.

        With an answer the broker commits both, or neither. The call then returns the answer's status.
        """
        status = self._settled(await self._session.ask(self._to_settle(Option.COMMIT, user_status, self._answer)))
        if self._answer is not None:
            self._answer.is_open = False
        return status

    async def backout(self, *, user_status: str = "") -> UnitStatus:
        """Give the unit of work back. The broker drops an answer.

        The unit of work is ACCEPTED and comes again: the first time at once, then after a delay. After
        MAX-DELIVERY-COUNT times it is POSTPONED, or CANCELLED and a dead letter (`redelivery.py`).
        """
        return await self._give_up(Option.BACKOUT, user_status)

    async def cancel(self, *, user_status: str = "") -> UnitStatus:
        """Complete the unit of work as one that nobody will process. The broker drops an answer."""
        return await self._give_up(Option.CANCEL, user_status)

    async def _give_up(self, option: Option, user_status: str) -> UnitStatus:
        if self._answer is not None and self._answer.is_open:
            check_said(self._speaker.about(option, self.uowid, ustatus=user_status))  # before the answer is dropped
            with suppress(BrokerError) if self.is_lost else nullcontext():  # it may be lost as well
                await self._answer.backout()
        return self._settled(await self._session.ask(self._to_settle(option, user_status, None)))

    async def set_user_status(self, user_status: str) -> UnitStatus:
        """Tell the sender something about the unit of work, in at most 32 characters."""
        request = self._speaker.about(Option.SETUSTATUS, self.uowid, ustatus=user_status)
        return unit_status(await self._session.ask(request))

    async def query(self) -> UnitStatus:
        """Return the status. The sender may have changed the user status meanwhile."""
        return unit_status(await self._session.ask(self._speaker.about(Option.QUERY, self.uowid)))


class AsyncSentPublication(Publishing, AsyncSettled):
    """A publication that you are sending. Once you commit it, its subscribers get all of it."""

    def __init__(self, session: AsyncAsking, topic: str, user_status: str) -> None:
        super().__init__(session._speaker, topic, user_status)
        self._session = session

    async def send(self, body: bytes, **beside: Unpack[Beside]) -> None:
        """Add a message. Raises BrokerError 00740347 above MAX-MESSAGES-IN-PUBLICATION, 00200218 above the length."""
        await self._session._taken(self._to_send(body, {**beside}), self._sent)

    async def commit(self) -> PublicationStatus:
        """Commit the publication. Now its subscribers can have it. If the topic is stored, it is durable on return."""
        return self._settled(await self._session.ask(self._to_settle(Option.COMMIT)))

    async def backout(self) -> PublicationStatus:
        """Drop the publication."""
        return self._settled(await self._session.ask(self._to_settle(Option.BACKOUT)))


class AsyncReceivedPublication(ReceivingPublication, AsyncSettled):
    """A publication that you are receiving. It is an iterator over its messages."""

    def __init__(self, session: AsyncAsking, first: Message) -> None:
        super().__init__(session._speaker, first)
        self._session = session

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        if self.is_read:
            raise StopAsyncIteration
        kept = self._at_hand()
        return kept if kept is not None else await self._session._taken(self._to_go_on(), self._heard)

    async def acknowledge(self) -> PublicationStatus:
        """Acknowledge the publication. It does not come again.

        If the subscription is durable, that holds over a restart too.
        """
        return self._settled(await self._session.ask(self._to_settle(Option.COMMIT)))

    async def commit(self) -> PublicationStatus:
        """Acknowledge the publication."""
        return await self.acknowledge()

    async def backout(self) -> PublicationStatus:
        """Give the publication back. It is the next that you receive.

        From the second time on it comes after a delay.
        """
        return self._settled(await self._session.ask(self._to_settle(Option.BACKOUT)))


class AsyncSubscription:
    """The subscription of a user: the publications that were committed since the user subscribed."""

    def __init__(self, session: AsyncAsking, topic: str, *, is_durable: bool) -> None:
        self.topic = topic
        self.is_durable = is_durable
        self._session = session

    async def receive(self, *, wait: Wait = None) -> AsyncReceivedPublication | None:
        """Receive the first message of the next publication. Returns None when there is none, or none came in time.

        None is no context manager: look before `async with`, or go through `publications`.
        """
        asked = self._session._speaker.receive_publication(self.topic, NEW, wait)

        def made(answered: Answered) -> AsyncReceivedPublication | Again | None:
            if wait is True and answered.reply.code is Code.WAIT_TIMED_OUT:
                return AGAIN
            found = message_if_any(answered, is_named=True)
            return None if found is None else AsyncReceivedPublication(self._session, found)

        while (publication := await self._session._taken(asked, made)) is AGAIN:
            pass
        return publication

    async def publications(self, *, wait: Wait = None) -> AsyncIterator[AsyncReceivedPublication]:
        """Yield publications as `receive` returns them, until there is none."""
        while (publication := await self.receive(wait=wait)) is not None:
            yield publication

    async def unsubscribe(self) -> None:
        """End the subscription. The user loses what was not received."""
        checked(await self._session.ask(self._session._speaker.request(Function.UNSUBSCRIBE, topic=self.topic)))
