"""Sessions of a broker for asyncio: the methods of `sessions.py`, awaited.

    async with broker.session("BOB", token="S1") as bob:
        await bob.register("GAME/CHESS/BLACK")
        async for unit in bob.receive_units(wait=10):
            async with unit:                        # committed at the end, backed out by an exception
                async for message in unit:
                    await unit.answer(b"...")       # both are committed together

A session, and what it gives out, is for one task at a time. A call that is cancelled loses nothing: if its task never
saw the message of a unit of work, the broker gets the message back.
"""

from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Protocol, TypeVar, Unpack

from oms_journal.broker.answers import Answered, Physical, compensation
from oms_journal.broker.block import ANY, NONE, Function, Option, Request, ServiceName
from oms_journal.broker.codes import Code
from oms_journal.broker.sessions.async_parts import (
    AsyncReceivedUnit,
    AsyncSentPublication,
    AsyncSentUnit,
    AsyncSubscription,
)
from oms_journal.broker.sessions.requests import (
    AnyService,
    Beside,
    Message,
    PublicationStatus,
    RequestFactory,
    Said,
    Terms,
    UnitStatus,
    Wait,
    checked,
    last_publication,
    last_status,
    message,
    message_if_any,
    names,
    publication_status,
    service_fields,
    term_fields,
    unit_status,
)
from oms_journal.broker.sessions.verbs import AGAIN, Again, Reading
from oms_journal.database.arguments import flag

T = TypeVar("T")


class AsyncEntrance(Protocol):
    """What a session needs of a broker."""

    async def call(self, request: Request, *, caller: Physical) -> Answered: ...

    def _post(self, request: Request, *, caller: Physical) -> None: ...

    def new_caller(self) -> Physical: ...

    def gone(self, caller: Physical) -> None: ...


class AsyncSession:
    """A user of the broker, logged on between `async with` and its end. You get it from `AsyncBroker.session`."""

    def __init__(self, broker: AsyncEntrance, user: str, token: str, fields: dict[str, Any]) -> None:
        self.user = user
        self.token = token
        self._speaker = RequestFactory(user, token, fields)
        self._reading = Reading()
        self._broker = broker
        self._caller = broker.new_caller()
        self._services: dict[ServiceName, None] = {}  # that it serves, in this order

    async def __aenter__(self) -> "AsyncSession":
        try:
            await self.log_on()
        except BaseException:
            self._broker.gone(self._caller)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.log_off()
        except BaseException:
            self._broker.gone(self._caller)
            raise

    async def ask(self, request: Request) -> Answered:
        """Make any call of the control block as this session. The session does not look at the answer."""
        return await self._broker.call(request, caller=self._caller)

    async def _taken(self, request: Request, made: Callable[[Answered], T]) -> T:
        """Make a call, and return what is made of its answer.

        If an exception keeps the message from the caller, the session gives it back.
        """
        answered: Answered | None = None
        try:
            answered = await self.ask(request)
            return made(answered)
        except BaseException:
            back = compensation(request, answered.reply) if answered is not None else None
            if back is not None:
                self._reading.lose(back.uowid)
                self._broker._post(back, caller=self._caller)
            raise

    async def log_on(self) -> None:
        """Log on: LOGON. You need it for units of work and topics.

        With a token, the session takes the place of another session of the same user and token.
        """
        checked(await self.ask(self._speaker.request(Function.LOGON)))

    async def log_off(self) -> None:
        """Log off: LOGOFF. The broker backs out what you were sending or receiving. What was committed waits."""
        if (await self.ask(self._speaker.request(Function.LOGOFF))).reply.code is not Code.OK:
            self._broker.gone(self._caller)

    async def recover(self, conv_id: str = "") -> UnitStatus | None:
        """Begin anew after a lost connection, and return the user's last unit of work: SYNCPOINT OPTION=LAST.

        The broker backs out what the session was sending or receiving. The session serves again the services that it
        served. After the call, what you asked before is done or never will be.

        Compare the UOWID that you get with the one whose COMMIT was lost. If they are the same, its status tells. If
        you get another one, or None, it was not committed, or has left no status. (EntireX, Using Persistence and Units
        of Work, "Recovery". With STATUS-LIFETIME or UWSTATP it is sure.)
        """
        self._broker.gone(self._caller)
        self._caller = self._broker.new_caller()
        self._reading.lose_all()
        await self.log_on()
        for service in self._services:
            await self.register(service)
        return await self.last(conv_id)

    # Sending.

    async def send(
        self, service: AnyService | None, body: bytes, *, conv_id: str | None = None, **said: Unpack[Said]
    ) -> UnitStatus:
        """Send a unit of work of one message, committed, to a new conversation of the service or into one."""
        speaker = self._speaker
        request = speaker.send(Option.COMMIT, speaker.to(service, conv_id), body, term_fields(said))
        return unit_status(await self.ask(request))

    def unit_of_work(
        self, service: AnyService | None = None, *, conv_id: str | None = None, **terms: Unpack[Terms]
    ) -> AsyncSentUnit:
        """Return a unit of work to send. `async with` commits it. An exception backs it out."""
        return AsyncSentUnit(self, self._speaker.to(service, conv_id), term_fields(terms))

    async def query(self, uowid: str) -> UnitStatus:
        """Return the status of a unit of work that the user has sent. Raises BrokerError 00780305 and 00780308."""
        return unit_status(await self.ask(self._speaker.about(Option.QUERY, uowid)))

    async def last(self, conv_id: str = "") -> UnitStatus | None:
        """Return the last unit of work that the user has begun, in the conversation or in any.

        Returns None when there is none.
        """
        return last_status(await self.ask(self._speaker.about(Option.LAST, "", conv_id=conv_id)))

    async def set_user_status(self, uowid: str, user_status: str) -> UnitStatus:
        """As sender or receiver, give a unit of work that goes on another user status, of at most 32 characters."""
        return unit_status(await self.ask(self._speaker.about(Option.SETUSTATUS, uowid, ustatus=user_status)))

    async def cancel(self, uowid: str) -> UnitStatus:
        """Cancel a unit of work of the user that nobody has received yet. Raises BrokerError 00780307."""
        return unit_status(await self.ask(self._speaker.about(Option.CANCEL, uowid)))

    async def delete(self, uowid: str) -> UnitStatus:
        """Delete the persistent status of a unit of work of the user that is complete. Raises BrokerError 00780307."""
        return unit_status(await self.ask(self._speaker.about(Option.DELETE, uowid)))

    async def end_conversation(self, conv_id: str, *, cancel: bool = False) -> None:
        """End a conversation: EOC. The partner can still receive what was committed.

        Then the broker tells the partner.
        """
        option = Option.CANCEL if flag(cancel, "cancel") else Option.NONE
        checked(await self.ask(self._speaker.request(Function.EOC, option, conv_id=conv_id)))

    # Receiving.

    async def register(self, service: AnyService) -> None:
        """Serve a service from now on.

        Raises BrokerError 00210043 when the attributes define no service of this name.
        """
        named = names(service)  # for good: a list may be another one when the session begins anew
        checked(await self.ask(self._speaker.request(Function.REGISTER, **service_fields(named))))
        self._services[named] = None

    async def deregister(self, service: AnyService | None = None, option: Option = Option.NONE) -> None:
        """Stop serving a service, or all services. QUIESCE lets conversations end.

        IMMED backs out what is under way.
        """
        named = None if service is None else names(service)
        fields: dict[str, Any] = {} if named is None else service_fields(named)
        checked(await self.ask(self._speaker.request(Function.DEREGISTER, option, **fields)))
        if named is None:
            self._services.clear()
        else:
            self._services.pop(named, None)

    async def receive_unit(
        self, service: AnyService | None = None, *, conv_id: str | None = None, wait: Wait = None, which: str = ANY
    ) -> AsyncReceivedUnit | None:
        """Receive the first message of the next unit of work. Returns None when there is none, or none came in time.

        None is no context manager: look before `async with`, or go through `receive_units`.
        """
        asked = self._speaker.receive(service, conv_id, wait, which=which, option=Option.SYNC)

        def made(answered: Answered) -> AsyncReceivedUnit | Again | None:
            if wait is True and answered.reply.code is Code.WAIT_TIMED_OUT:
                return AGAIN
            found = message_if_any(answered, is_named=conv_id is not None)
            if found is None:
                return None
            return AGAIN if self._reading.takes(found) else AsyncReceivedUnit(self, found)

        while (unit := await self._taken(asked, made)) is AGAIN:
            pass
        return unit

    async def receive_units(
        self, service: AnyService | None = None, *, conv_id: str | None = None, wait: Wait = None, which: str = ANY
    ) -> AsyncIterator[AsyncReceivedUnit]:
        """Yield units of work as `receive_unit` returns them, until there is none."""
        while (unit := await self.receive_unit(service, conv_id=conv_id, wait=wait, which=which)) is not None:
            yield unit

    # Plain messages.

    async def send_message(
        self, service: AnyService | None, body: bytes, *, conv_id: str | None = None, **beside: Unpack[Beside]
    ) -> str:
        """Send a plain message, in a new conversation with a registered service or into a conversation.

        Returns its CONV-ID.
        """
        return checked(await self.ask(self._speaker.send_message(service, conv_id, body, None, beside))).reply.conv_id

    async def request(
        self,
        service: AnyService | None,
        body: bytes,
        *,
        wait: Wait = True,
        conv_id: str = NONE,
        **beside: Unpack[Beside],
    ) -> Message:
        """Send a plain message and return the answer to it, alone or in a conversation. Raises BrokerError 00740074."""
        return message(await self.ask(self._speaker.send_message(service, conv_id, body, wait, beside)))

    async def receive_message(
        self, service: AnyService | None = None, *, conv_id: str | None = None, wait: Wait = None, which: str = ANY
    ) -> Message | None:
        """Receive the next plain message, from where `receive_unit` does. Returns None when there is none.

        You cannot give it back.
        """
        asked = self._speaker.receive(service, conv_id, wait, which=which, option=Option.MSG)
        while True:
            answered = await self.ask(asked)
            if wait is not True or answered.reply.code is not Code.WAIT_TIMED_OUT:
                return message_if_any(answered, is_named=conv_id is not None)

    # Publish and subscribe.

    async def publish(
        self, topic: str, body: bytes, *, user_status: str = "", **beside: Unpack[Beside]
    ) -> PublicationStatus:
        """Publish one message, committed. When nobody subscribes, the broker accepts it, and it is gone."""
        return publication_status(await self.ask(self._speaker.publish(topic, body, user_status, beside)))

    def publication(self, topic: str, *, user_status: str = "") -> AsyncSentPublication:
        """Return a publication of several messages to send. `async with` commits it. An exception backs it out."""
        return AsyncSentPublication(self, topic, user_status)

    async def subscribe(self, topic: str, *, durable: bool = False) -> AsyncSubscription:
        """Subscribe to what is published from now on, or go on with a subscription."""
        option = Option.DURABLE if flag(durable, "durable") else Option.NONE
        checked(await self.ask(self._speaker.request(Function.SUBSCRIBE, option, topic=topic)))
        return AsyncSubscription(self, topic, is_durable=durable)

    async def query_publication(self, publication_id: str) -> PublicationStatus:
        """Return the status of a publication of the user."""
        return publication_status(await self.ask(self._speaker.about_publication(Option.QUERY, publication_id)))

    async def last_publication(self, topic: str = "") -> PublicationStatus | None:
        """Return the last publication that the user has begun, in the topic or in any.

        Returns None when there is none.
        """
        return last_publication(await self.ask(self._speaker.about_publication(Option.LAST, "", topic=topic)))
