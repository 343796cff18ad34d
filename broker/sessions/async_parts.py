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
    def speaker(self) -> RequestFactory: ...

    @property
    def reading(self) -> Reading: ...

    async def ask(self, request: Request) -> Answered: ...

    async def taken(self, request: Request, made: Callable[[Answered], T]) -> T: ...


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
    """A unit of work that is being sent. Nobody sees it before it is committed, and then all of it."""

    def __init__(self, session: AsyncAsking, to: dict[str, Any], terms: dict[str, Any]) -> None:
        super().__init__(session.speaker, to, terms)
        self._session = session

    async def send(self, body: bytes, **beside: Unpack[Beside]) -> None:
        """Add a message. BrokerError 00740347 above MAX-MESSAGES-IN-UOW, 00200218 above the length."""
        await self._session.taken(self._to_send(body, {**beside}), self._sent)

    async def commit(self, *, user_status: str = "") -> UnitStatus:
        """Commit it: durable on return where it is persistent. BrokerError: then it can be tried again."""
        return self._settled(await self._session.ask(self._to_settle(Option.COMMIT, user_status)))

    async def commit_and_end(self, *, cancel: bool = False) -> UnitStatus:
        """Commit it, and end its conversation: EOC, or with `cancel` EOCCANCEL."""
        option = Option.EOCCANCEL if flag(cancel, "cancel") else Option.EOC
        return self._settled(await self._session.ask(self._to_settle(option)))

    async def backout(self) -> UnitStatus:
        """Drop it."""
        return self._settled(await self._session.ask(self._to_settle(Option.BACKOUT)))

    async def cancel(self) -> UnitStatus:
        """Cancel it, once it is committed and while nobody has received it. BrokerError 00780307."""
        return self._settled(await self._session.ask(self._to_settle(Option.CANCEL)))

    async def delete(self) -> UnitStatus:
        """Delete its persistent status, once it is complete. BrokerError 00780307."""
        return self._settled(await self._session.ask(self._to_settle(Option.DELETE)))

    async def query(self) -> UnitStatus:
        """Return its status. BrokerError 00780305 when it is complete and left none."""
        return self._heard(await self._session.ask(self._to_settle(Option.QUERY)))


class AsyncReceivedUnit(ReceivingUnit, AsyncSettled):
    """A unit of work that is being received: an iterator over its messages."""

    def __init__(self, session: AsyncAsking, first: Message) -> None:
        super().__init__(session.speaker, session.reading, first)
        self._session = session
        self._answer: AsyncSentUnit | None = None

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        if self.is_read:
            raise StopAsyncIteration
        kept = self._at_hand()
        return kept if kept is not None else await self._session.taken(self._to_go_on(), self._heard)

    async def answer(self, body: bytes, **beside: Unpack[Beside]) -> None:
        """Add a message to an answer in the same conversation, which `commit` commits with it, in one operation."""
        self._check_is_open()
        if self._answer is None or not self._answer.is_open:
            self._answer = AsyncSentUnit(self._session, self._speaker.to(None, self.conv_id), {})
        await self._answer.send(body, **beside)

    async def commit(self, *, user_status: str = "") -> UnitStatus:
        """Commit it: it is processed. With an answer both are, or neither, and the answer's status is returned."""
        status = self._settled(await self._session.ask(self._to_settle(Option.COMMIT, user_status, self._answer)))
        if self._answer is not None:
            self._answer.is_open = False
        return status

    async def backout(self, *, user_status: str = "") -> UnitStatus:
        """Give it back; an answer is dropped.

        It is ACCEPTED and comes again: the first time at once, then after a delay. After MAX-DELIVERY-COUNT times it is
        POSTPONED, or CANCELLED and a dead letter (`redelivery.py`).
        """
        return await self._give_up(Option.BACKOUT, user_status)

    async def cancel(self, *, user_status: str = "") -> UnitStatus:
        """Complete it as one that nobody will process; an answer is dropped."""
        return await self._give_up(Option.CANCEL, user_status)

    async def _give_up(self, option: Option, user_status: str) -> UnitStatus:
        if self._answer is not None and self._answer.is_open:
            check_said(self._speaker.about(option, self.uowid, ustatus=user_status))  # before the answer is dropped
            with suppress(BrokerError) if self.is_lost else nullcontext():  # it may be lost as well
                await self._answer.backout()
        return self._settled(await self._session.ask(self._to_settle(option, user_status, None)))

    async def set_user_status(self, user_status: str) -> UnitStatus:
        """Tell its sender something about it, at most 32 characters."""
        request = self._speaker.about(Option.SETUSTATUS, self.uowid, ustatus=user_status)
        return unit_status(await self._session.ask(request))

    async def query(self) -> UnitStatus:
        """Return its status: its sender may have changed the user status meanwhile."""
        return unit_status(await self._session.ask(self._speaker.about(Option.QUERY, self.uowid)))


class AsyncSentPublication(Publishing, AsyncSettled):
    """A publication that is being sent. Its subscribers get all of it, once it is committed."""

    def __init__(self, session: AsyncAsking, topic: str, user_status: str) -> None:
        super().__init__(session.speaker, topic, user_status)
        self._session = session

    async def send(self, body: bytes, **beside: Unpack[Beside]) -> None:
        """Add a message. BrokerError 00740347 above MAX-MESSAGES-IN-PUBLICATION, 00200218 above the length."""
        await self._session.taken(self._to_send(body, {**beside}), self._sent)

    async def commit(self) -> PublicationStatus:
        """Commit it: now its subscribers can have it. Durable on return where the topic is stored."""
        return self._settled(await self._session.ask(self._to_settle(Option.COMMIT)))

    async def backout(self) -> PublicationStatus:
        """Drop it."""
        return self._settled(await self._session.ask(self._to_settle(Option.BACKOUT)))


class AsyncReceivedPublication(ReceivingPublication, AsyncSettled):
    """A publication that is being received: an iterator over its messages."""

    def __init__(self, session: AsyncAsking, first: Message) -> None:
        super().__init__(session.speaker, first)
        self._session = session

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        if self.is_read:
            raise StopAsyncIteration
        kept = self._at_hand()
        return kept if kept is not None else await self._session.taken(self._to_go_on(), self._heard)

    async def acknowledge(self) -> PublicationStatus:
        """Be done with it: it does not come again, over a restart neither where the subscription is durable."""
        return self._settled(await self._session.ask(self._to_settle(Option.COMMIT)))

    async def commit(self) -> PublicationStatus:
        """Acknowledge it."""
        return await self.acknowledge()

    async def backout(self) -> PublicationStatus:
        """Give it back: it is the next that is received, from the second time on after a delay."""
        return self._settled(await self._session.ask(self._to_settle(Option.BACKOUT)))


class AsyncSubscription:
    """What a user has subscribed to: publications that were committed since."""

    def __init__(self, session: AsyncAsking, topic: str, *, is_durable: bool) -> None:
        self.topic = topic
        self.is_durable = is_durable
        self._session = session

    async def receive(self, *, wait: Wait = None) -> AsyncReceivedPublication | None:
        """Receive the first message of the next publication; None when there is none, or none came in time.

        None is no context manager: look before `async with`, or go through `publications`.
        """
        asked = self._session.speaker.receive_publication(self.topic, NEW, wait)

        def made(answered: Answered) -> AsyncReceivedPublication | Again | None:
            if wait is True and answered.reply.code is Code.WAIT_TIMED_OUT:
                return AGAIN
            found = message_if_any(answered, is_named=True)
            return None if found is None else AsyncReceivedPublication(self._session, found)

        while (publication := await self._session.taken(asked, made)) is AGAIN:
            pass
        return publication

    async def publications(self, *, wait: Wait = None) -> AsyncIterator[AsyncReceivedPublication]:
        """Yield publications as `receive` returns them, until there is none."""
        while (publication := await self.receive(wait=wait)) is not None:
            yield publication

    async def unsubscribe(self) -> None:
        """End the subscription; what was not received is gone for this user."""
        checked(await self._session.ask(self._session.speaker.request(Function.UNSUBSCRIBE, topic=self.topic)))
