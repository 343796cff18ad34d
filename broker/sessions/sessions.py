"""Sessions of a broker for threads: the units of work, conversations and topics of one user.

    with broker.session("BOB", token="S1") as bob:
        bob.register("GAME/CHESS/BLACK")
        for unit in bob.receive_units(wait=10):
            with unit:                              # committed at the end, backed out by an exception
                for message in unit:
                    unit.answer(b"...")             # both are committed together

If the broker refuses a call, the method raises BrokerError with the eight-digit code. A session, and what it gives out,
is for one thread at a time. The methods do what the options of SEND, RECEIVE and SYNCPOINT do (EntireX, Using
Persistence and Units of Work), for topics what the functions for publications do (EntireX 8.0, Concepts of Persistent
Messaging, "Publish-and-Subscribe").
"""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Protocol, TypeVar, Unpack

from oms_journal.broker.answers import Answered, Physical, compensation
from oms_journal.broker.block import ANY, NONE, Function, Option, Request, ServiceName
from oms_journal.broker.codes import Code
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
from oms_journal.broker.sessions.session_parts import ReceivedUnit, SentPublication, SentUnit, Subscription
from oms_journal.broker.sessions.verbs import AGAIN, Again, Reading
from oms_journal.database.arguments import flag

T = TypeVar("T")


class Entrance(Protocol):
    """What a session needs of a broker."""

    def call(self, request: Request, *, caller: Physical) -> Answered: ...

    def _post(self, request: Request, *, caller: Physical) -> None: ...

    def new_caller(self) -> Physical: ...

    def gone(self, caller: Physical) -> None: ...


class Session:
    """A user of the broker, logged on between `with` and its end. You get it from `Broker.session`."""

    def __init__(self, broker: Entrance, user: str, token: str, fields: dict[str, Any]) -> None:
        self.user = user
        self.token = token
        self._speaker = RequestFactory(user, token, fields)
        self._reading = Reading()
        self._broker = broker
        self._caller = broker.new_caller()
        self._services: dict[ServiceName, None] = {}  # that it serves, in this order

    def __enter__(self) -> "Session":
        try:
            self.log_on()
        except BaseException:
            self._broker.gone(self._caller)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.log_off()
        except BaseException:
            self._broker.gone(self._caller)
            raise

    def ask(self, request: Request) -> Answered:
        """Make any call of the control block as this session. The session does not look at the answer."""
        return self._broker.call(request, caller=self._caller)

    def _taken(self, request: Request, made: Callable[[Answered], T]) -> T:
        """Make a call, and return what is made of its answer.

        If an exception keeps the message from the caller, the session gives it back.
        """
        answered: Answered | None = None
        try:
            answered = self.ask(request)
            return made(answered)
        except BaseException:
            back = compensation(request, answered.reply) if answered is not None else None
            if back is not None:
                self._reading.lose(back.uowid)
                self._broker._post(back, caller=self._caller)
            raise

    def log_on(self) -> None:
        """Log on: LOGON. You need it for units of work and topics.

        With a token, the session takes the place of another session of the same user and token.
        """
        checked(self.ask(self._speaker.request(Function.LOGON)))

    def log_off(self) -> None:
        """Log off: LOGOFF. The broker backs out what you were sending or receiving. What was committed waits."""
        if self.ask(self._speaker.request(Function.LOGOFF)).reply.code is not Code.OK:
            self._broker.gone(self._caller)

    def recover(self, conv_id: str = "") -> UnitStatus | None:
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
        self.log_on()
        for service in self._services:
            self.register(service)
        return self.last(conv_id)

    # Sending.

    def send(
        self, service: AnyService | None, body: bytes, *, conv_id: str | None = None, **said: Unpack[Said]
    ) -> UnitStatus:
        """Send a unit of work of one message, committed, to a new conversation of the service or into one.

        If it is persistent, it is durable on return. Raises BrokerError: 00070007 when nobody serves the service and
        the unit is not deferred, 00740345 above MAX-UOWS, 00200218 when the message is too long, 00780388 when the
        store is away, 00370445 when the broker takes no new units of work, and others. (EntireX, Using Persistence and
        Units of Work: SEND with OPTION=COMMIT.)
        """
        speaker = self._speaker
        request = speaker.send(Option.COMMIT, speaker.to(service, conv_id), body, term_fields(said))
        return unit_status(self.ask(request))

    def unit_of_work(
        self, service: AnyService | None = None, *, conv_id: str | None = None, **terms: Unpack[Terms]
    ) -> SentUnit:
        """Return a unit of work to send. `with` commits it. An exception backs it out."""
        return SentUnit(self, self._speaker.to(service, conv_id), term_fields(terms))

    def query(self, uowid: str) -> UnitStatus:
        """Return the status of a unit of work that the user has sent. Raises BrokerError 00780305 and 00780308."""
        return unit_status(self.ask(self._speaker.about(Option.QUERY, uowid)))

    def last(self, conv_id: str = "") -> UnitStatus | None:
        """Return the last unit of work that the user has begun, in the conversation or in any.

        Returns None when there is none.
        """
        return last_status(self.ask(self._speaker.about(Option.LAST, "", conv_id=conv_id)))

    def set_user_status(self, uowid: str, user_status: str) -> UnitStatus:
        """As sender or receiver, give a unit of work that goes on another user status, of at most 32 characters."""
        return unit_status(self.ask(self._speaker.about(Option.SETUSTATUS, uowid, ustatus=user_status)))

    def cancel(self, uowid: str) -> UnitStatus:
        """Cancel a unit of work of the user that nobody has received yet. Raises BrokerError 00780307."""
        return unit_status(self.ask(self._speaker.about(Option.CANCEL, uowid)))

    def delete(self, uowid: str) -> UnitStatus:
        """Delete the persistent status of a unit of work of the user that is complete. Raises BrokerError 00780307."""
        return unit_status(self.ask(self._speaker.about(Option.DELETE, uowid)))

    def end_conversation(self, conv_id: str, *, cancel: bool = False) -> None:
        """End a conversation: EOC. The partner can still receive what was committed.

        Then the broker tells the partner.
        """
        option = Option.CANCEL if flag(cancel, "cancel") else Option.NONE
        checked(self.ask(self._speaker.request(Function.EOC, option, conv_id=conv_id)))

    # Receiving.

    def register(self, service: AnyService) -> None:
        """Serve a service from now on.

        Raises BrokerError 00210043 when the attributes define no service of this name.
        """
        named = names(service)  # for good: a list may be another one when the session begins anew
        checked(self.ask(self._speaker.request(Function.REGISTER, **service_fields(named))))
        self._services[named] = None

    def deregister(self, service: AnyService | None = None, option: Option = Option.NONE) -> None:
        """Stop serving a service, or all services. QUIESCE lets conversations end.

        IMMED backs out what is under way.
        """
        named = None if service is None else names(service)
        fields: dict[str, Any] = {} if named is None else service_fields(named)
        checked(self.ask(self._speaker.request(Function.DEREGISTER, option, **fields)))
        if named is None:
            self._services.clear()
        else:
            self._services.pop(named, None)

    def receive_unit(
        self, service: AnyService | None = None, *, conv_id: str | None = None, wait: Wait = None, which: str = ANY
    ) -> ReceivedUnit | None:
        """Receive the first message of the next unit of work. Returns None when there is none, or none came in time.

        None is no context manager: look before `with`, or go through `receive_units`.

        The unit comes from the conversation. Without one it comes from those of the service, or of all services served.
        With `which` as ANY you get first the conversations of this instance, and then new ones. OLD and NEW stand for
        one kind only. `wait` is in seconds, to the millisecond. Units of work that you have begun go on beside it.

        Raises BrokerError 00030011 when the partner has cancelled the conversation, 00030003 when there is none of this
        id.
        """
        asked = self._speaker.receive(service, conv_id, wait, which=which, option=Option.SYNC)

        def made(answered: Answered) -> ReceivedUnit | Again | None:
            if wait is True and answered.reply.code is Code.WAIT_TIMED_OUT:
                return AGAIN
            found = message_if_any(answered, is_named=conv_id is not None)
            if found is None:
                return None
            return AGAIN if self._reading.takes(found) else ReceivedUnit(self, found)

        while (unit := self._taken(asked, made)) is AGAIN:
            pass
        return unit

    def receive_units(
        self, service: AnyService | None = None, *, conv_id: str | None = None, wait: Wait = None, which: str = ANY
    ) -> Iterator[ReceivedUnit]:
        """Yield units of work as `receive_unit` returns them, until there is none."""
        while (unit := self.receive_unit(service, conv_id=conv_id, wait=wait, which=which)) is not None:
            yield unit

    # Plain messages.

    def send_message(
        self, service: AnyService | None, body: bytes, *, conv_id: str | None = None, **beside: Unpack[Beside]
    ) -> str:
        """Send a plain message, in a new conversation with a registered service or into a conversation.

        Returns its CONV-ID.
        """
        return checked(self.ask(self._speaker.send_message(service, conv_id, body, None, beside))).reply.conv_id

    def request(
        self,
        service: AnyService | None,
        body: bytes,
        *,
        wait: Wait = True,
        conv_id: str = NONE,
        **beside: Unpack[Beside],
    ) -> Message:
        """Send a plain message and return the answer to it, alone or in a conversation. Raises BrokerError 00740074."""
        return message(self.ask(self._speaker.send_message(service, conv_id, body, wait, beside)))

    def receive_message(
        self, service: AnyService | None = None, *, conv_id: str | None = None, wait: Wait = None, which: str = ANY
    ) -> Message | None:
        """Receive the next plain message, from where `receive_unit` does. Returns None when there is none.

        You cannot give it back.
        """
        asked = self._speaker.receive(service, conv_id, wait, which=which, option=Option.MSG)
        while True:
            answered = self.ask(asked)
            if wait is not True or answered.reply.code is not Code.WAIT_TIMED_OUT:
                return message_if_any(answered, is_named=conv_id is not None)

    # Publish and subscribe.

    def publish(self, topic: str, body: bytes, *, user_status: str = "", **beside: Unpack[Beside]) -> PublicationStatus:
        """Publish one message, committed. When nobody subscribes, the broker accepts it, and it is gone."""
        return publication_status(self.ask(self._speaker.publish(topic, body, user_status, beside)))

    def publication(self, topic: str, *, user_status: str = "") -> SentPublication:
        """Return a publication of several messages to send. `with` commits it. An exception backs it out."""
        return SentPublication(self, topic, user_status)

    def subscribe(self, topic: str, *, durable: bool = False) -> Subscription:
        """Subscribe to what is published from now on, or go on with a subscription.

        A durable subscription belongs to USER-ID and TOKEN. After a restart it goes on where its acknowledgements have
        come to. Any other subscription ends with the session. Raises BrokerError 00200485 when the topic does not allow
        it, and 00200472.
        """
        option = Option.DURABLE if flag(durable, "durable") else Option.NONE
        checked(self.ask(self._speaker.request(Function.SUBSCRIBE, option, topic=topic)))
        return Subscription(self, topic, is_durable=durable)

    def query_publication(self, publication_id: str) -> PublicationStatus:
        """Return the status of a publication of the user."""
        return publication_status(self.ask(self._speaker.about_publication(Option.QUERY, publication_id)))

    def last_publication(self, topic: str = "") -> PublicationStatus | None:
        """Return the last publication that the user has begun, in the topic or in any.

        Returns None when there is none.
        """
        return last_publication(self.ask(self._speaker.about_publication(Option.LAST, "", topic=topic)))
