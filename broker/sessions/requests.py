"""Makes requests of a broker from plain arguments, and typed results from its replies.

No call is made here. The sessions of both kinds (`sessions.py`, `async_sessions.py`) build their requests and read
their answers with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite, isnan
from typing import Any, TypedDict

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import (
    ANY,
    FIELDS,
    FIELDS_OF_REQUEST,
    NEW,
    OLD,
    SERVICE_FIELDS,
    UWSTATP_NO,
    ConvStat,
    Function,
    Option,
    Reception,
    Request,
    ServiceName,
    Store,
)
from oms_journal.broker.codes import BrokerError, Code, refuse
from oms_journal.broker.records import Status
from oms_journal.database.arguments import flag, plain_text, shown

AnyService = ServiceName | str  # or "CLASS/SERVER/SERVICE"
Wait = float | bool | None  # seconds; None and False do not wait, True waits as long as it takes
WAIT_MAX_SECONDS = 9_999_999
_UNITS = (("S", 1), ("M", 60), ("H", 3600), ("D", 86400))
_WIDTH = FIELDS["UWTIME"].width

# What a RECEIVE is answered when there is nothing for it.
NOTHING_THERE = frozenset(
    {Code.NO_CONVERSATION, Code.NO_MESSAGE, Code.NO_UOWS, Code.END_OF_UOW, Code.WAIT_TIMED_OUT, Code.PARTNER_FINISHED}
)


class Terms(TypedDict, total=False):
    """What the first call about a unit of work may say of it; what is left out the attributes say."""

    persistent: bool  # STORE: whether its messages are kept over a restart
    lifetime: str | float  # UWTIME: "5M", "1D", or seconds
    status_lifetimes: int  # UWSTATP: multiples of the lifetime that its status is kept for, 1 to 254; 0: not at all
    status_lifetime: str | float  # UWSTAT-LIFETIME: how long its status is kept, beside those
    user_status: str  # USTATUS: at most 32 characters
    producer: str  # a repeat of the unit within user, token and service gets the first UOWID; at most 255 bytes


class Beside(TypedDict, total=False):
    """What goes with a message."""

    properties: Mapping[str, str] | None  # at most 60 KiB together
    msgtype: str  # at most 16 characters
    msgid: bytes  # at most 32
    user_data: bytes  # at most 16


class Said(Terms, Beside, total=False):
    """What a unit of work of one message is sent with."""


_TERMS_AS_SAID = frozenset({*Beside.__annotations__, "producer"})  # are called the same in the control block


@dataclass(frozen=True, slots=True)
class UnitStatus:
    """A unit of work, as its sender hears of it."""

    uowid: str
    conv_id: str
    status: Status
    user_status: str
    service: ServiceName
    delivery_count: int  # attempted deliveries that were backed out or timed out
    is_persistent: bool
    commit_time: str  # YYYYMMDDhhmmssmmm UTC, of the conversation's first unit of work; "" before


@dataclass(frozen=True, slots=True)
class PublicationStatus:
    """A publication, as its publisher hears of it."""

    publication_id: str
    topic: str
    status: Status
    user_status: str
    is_persistent: bool


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was received."""

    body: bytes
    properties: Mapping[str, str]
    reception: Reception  # its place in its unit of work or publication; RECV_NONE for a plain message
    conv_id: str
    uowid: str
    publication_id: str
    topic: str
    service: ServiceName
    delivery_count: int  # of its unit of work: attempted deliveries before this one
    user_status: str
    sender: str  # USER-ID of the client, for a server
    is_new: bool  # it begins a conversation
    commit_time: str
    msgtype: str
    msgid: bytes
    user_data: bytes

    @property
    def is_last(self) -> bool:
        """Whether no message of its unit of work or publication follows."""
        return self.reception not in (Reception.RECV_FIRST, Reception.RECV_MIDDLE)


# From arguments to a request.


def names(service: AnyService) -> ServiceName:
    """Return CLASS, SERVER and SERVICE of "CLASS/SERVER/SERVICE"; TypeError, ValueError for anything else."""
    if isinstance(service, str):
        parts = tuple(service.split("/"))
    elif isinstance(service, tuple | list) and all(isinstance(part, str) for part in service):
        parts = tuple(service)
    else:
        raise TypeError(f"service must be text, as in 'CLASS/SERVER/SERVICE', or three names, not {shown(service)}")
    if len(parts) != 3:
        raise ValueError(f"service {service!r} is not CLASS/SERVER/SERVICE")
    return parts


def service_fields(service: AnyService) -> dict[str, Any]:
    """Return the fields of the control block that name the service."""
    return dict(zip(SERVICE_FIELDS, names(service), strict=True))


def wait_text(wait: Wait) -> str:
    """Return WAIT: NO, YES, or a time, at least a millisecond and at most what the field has room for: 115 days.

    TypeError, ValueError.
    """
    if wait is True:
        return "YES"
    if wait is None or wait is False:
        return "NO"
    if not isinstance(wait, int | float):
        raise TypeError(f"wait must be seconds (a number), True, False or None, not {shown(wait)}")
    if isnan(wait) or wait < 0:
        raise ValueError(f"wait must be a number of seconds, at least 0, not {wait}; True waits as long as it takes")
    if not wait:
        return "NO"
    text = f"{min(max(wait, 0.001), WAIT_MAX_SECONDS):.3f}"[:7]
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "S"


def lifetime_text(duration: str | float, what: str = "lifetime") -> str:
    """Return a lifetime: as it was written, or of seconds, rounded up to what the field has room for.

    TypeError, ValueError.
    """
    if isinstance(duration, str):
        return duration
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        raise TypeError(f"{what} must be text as '90S', '5M' or '1D', or seconds (a number), not {shown(duration)}")
    if not isfinite(duration):
        raise ValueError(f"{what} must be a number of seconds, not {duration}")
    texts = (f"{-int(-duration // seconds)}{unit}" for unit, seconds in _UNITS)
    return next((text for text in texts if len(text) <= _WIDTH), f"{duration}")


def term_fields(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the control block that say the terms; what goes with the message is there already.

    TypeError.
    """
    fields: dict[str, Any] = {}
    for name, value in said.items():
        match name:
            case "persistent":
                fields["store"] = Store.BROKER if flag(value, name) else Store.OFF
            case "lifetime":
                fields["uwtime"] = lifetime_text(value)
            case "status_lifetimes":
                fields["uwstatp"] = _count(value, name) or UWSTATP_NO
            case "status_lifetime":
                fields["uwstat_lifetime"] = lifetime_text(value, name)
            case "user_status":
                fields["ustatus"] = plain_text(value, name)
            case _ if name in _TERMS_AS_SAID:
                fields[name] = value
            case _:
                raise TypeError(f"there is no argument {name!r}; there are {', '.join(sorted(Said.__annotations__))}")
    return fields


def number_of_seconds(value: object, what: str, *, may_be_zero: bool = False) -> float:
    """Return a number of seconds; TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} must be a number of seconds, not {shown(value)}")
    if not (0 <= value < inf if may_be_zero else 0 < value < inf):
        raise ValueError(f"{what} must be {'0 or more' if may_be_zero else 'above 0'}, not {value}")
    return value


def member(status: object) -> Status:
    """Return a status; TypeError."""
    if not isinstance(status, Status):
        raise TypeError(f"status must be a Status, as Status.ACCEPTED, not {shown(status)}")
    return status


def _count(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be a number (int), not {shown(value)}")
    return value


def _named(conv_id: str | None, otherwise: str) -> str:
    """Return the conversation that is named, as plain text whatever it says of itself. TypeError."""
    return otherwise if conv_id is None else plain_text(conv_id, "conv_id")


class RequestFactory:
    """Makes the requests of one user."""

    def __init__(self, user: str, token: str, fields: Mapping[str, Any]) -> None:
        unknown = sorted(fields.keys() - FIELDS_OF_REQUEST)
        if unknown:
            raise TypeError(f"a session has no field {', '.join(unknown)}")
        self.token = token
        self._who = {**fields, "user_id": plain_text(user, "user"), "token": plain_text(token, "token")}

    @property
    def user_and_token(self) -> tuple[str, str]:
        return self._who["user_id"], self._who["token"]

    def request(self, function: Function, option: Option = Option.NONE, **fields: Any) -> Request:
        """Return a request of this user."""
        return Request(function=function, option=option, **self._who, **fields)

    def speak_for(self, request: Request) -> None:
        """Have a request say this user's USER-ID and TOKEN. BrokerError where it says others."""
        for name in ("user_id", "token"):
            said, own = getattr(request, name), self._who[name]
            if said not in ("", own):
                text = f"{name.upper().replace('_', '-')} is that of the connection, {own!r}"
                raise refuse(Code.INVALID_USER_ID, text)
            setattr(request, name, own)

    def to(self, service: AnyService | None, conv_id: str | None) -> dict[str, Any]:
        """Return the fields that say where something goes: to a new conversation of a service, or into one."""
        if conv_id is not None:
            if service is not None:
                names(service)  # not needed there, and refused all the same where it is none
            return {"conv_id": conv_id}
        if service is None:
            raise ValueError("say a service, or the conversation")
        return {"conv_id": NEW, **service_fields(service)}

    def send(self, option: Option, to: Mapping[str, Any], body: bytes, beside: Mapping[str, Any]) -> Request:
        return Request(function=Function.SEND, option=option, body=body, **self._who, **to, **beside)

    def send_message(
        self, service: AnyService | None, conv_id: str | None, body: bytes, wait: Wait, beside: Mapping[str, Any]
    ) -> Request:
        """Return a SEND of a plain message: into a conversation, or to a service; alone where CONV-ID=NONE."""
        to: dict[str, Any] = {"conv_id": _named(conv_id, NEW)} | ({} if service is None else service_fields(service))
        return self.request(Function.SEND, body=body, wait=wait_text(wait), **to, **beside)

    def receive(
        self, service: AnyService | None, conv_id: str | None, wait: Wait, *, which: str = ANY, option: Option
    ) -> Request:
        """Return a RECEIVE from a conversation, else from those of a service, or of all that are served. ValueError."""
        if which not in (NEW, OLD, ANY):
            raise ValueError(f"which is NEW, OLD or ANY, not {which!r}")
        fields: dict[str, Any] = {"conv_id": _named(conv_id, which), "wait": wait_text(wait)}
        if service is not None:
            named = service_fields(service)
            fields |= named if conv_id is None else {}
        return self.request(Function.RECEIVE, option, **fields)

    def publish(self, topic: str, body: bytes, user_status: str, beside: Mapping[str, Any]) -> Request:
        """Return the SEND_PUBLICATION of a publication of one message, committed."""
        fields = {"topic": topic, "publication_id": NEW, "ustatus": user_status, **beside}
        return self.request(Function.SEND_PUBLICATION, Option.COMMIT, body=body, **fields)

    def receive_publication(self, topic: str, publication_id: str, wait: Wait) -> Request:
        """Return a RECEIVE_PUBLICATION of the next publication of a topic, or of the next message of one."""
        fields: dict[str, Any] = {"topic": topic, "publication_id": publication_id, "wait": wait_text(wait)}
        return self.request(Function.RECEIVE_PUBLICATION, **fields)

    def about(self, option: Option, uowid: str, **fields: Any) -> Request:
        """Return a SYNCPOINT about a unit of work."""
        return self.request(Function.SYNCPOINT, option, uowid=uowid, **fields)

    def about_publication(self, option: Option, publication_id: str, **fields: Any) -> Request:
        return self.request(Function.CONTROL_PUBLICATION, option, publication_id=publication_id, **fields)


# From an answer to a result.


def checked(answered: Answered) -> Answered:
    """Return the answer, or raise what it refuses. BrokerError."""
    code = answered.reply.code
    if code is not Code.OK:
        raise BrokerError(code, answered.reply.text)
    return answered


def unit_status(answered: Answered) -> UnitStatus:
    """Return what an answer says of a unit of work. BrokerError."""
    reply = checked(answered).reply
    assert isinstance(reply.uow_status, Status), "an answer about a unit of work has its status"
    return UnitStatus(
        uowid=reply.uowid,
        conv_id=reply.conv_id,
        status=reply.uow_status,
        user_status=reply.ustatus,
        service=(reply.server_class, reply.server_name, reply.service),
        delivery_count=reply.adcount,
        is_persistent=reply.store is Store.BROKER,
        commit_time=reply.commit_time,
    )


def publication_status(answered: Answered) -> PublicationStatus:
    """Return what an answer says of a publication. BrokerError."""
    reply = checked(answered).reply
    assert isinstance(reply.uow_status, Status), "an answer about a publication has its status"
    return PublicationStatus(
        reply.publication_id, reply.topic, reply.uow_status, reply.ustatus, reply.store is Store.BROKER
    )


def last_publication(answered: Answered) -> PublicationStatus | None:
    """Return what CONTROL_PUBLICATION LAST says; None where there is no publication. BrokerError."""
    return None if answered.reply.code is Code.UOW_NOT_FOUND else publication_status(answered)


def last_status(answered: Answered) -> UnitStatus | None:
    """Return what SYNCPOINT LAST says; None where there is no unit of work. BrokerError."""
    return None if answered.reply.code is Code.UOW_NOT_FOUND else unit_status(answered)


def message(answered: Answered) -> Message:
    """Return the message that was received. BrokerError."""
    reply, body, properties = checked(answered)
    assert body is not None and isinstance(reply.uow_status, Reception), "a RECEIVE is answered with a message"
    return Message(
        body=body,
        properties=properties or {},
        reception=reply.uow_status,
        conv_id=reply.conv_id,
        uowid=reply.uowid,
        publication_id=reply.publication_id,
        topic=reply.topic,
        service=(reply.server_class, reply.server_name, reply.service),
        delivery_count=reply.adcount,
        user_status=reply.ustatus,
        sender=reply.client_uid,
        is_new=reply.conv_stat is ConvStat.NEW,
        commit_time=reply.commit_time,
        msgtype=reply.msgtype,
        msgid=reply.msgid,
        user_data=reply.user_data,
    )


def message_if_any(answered: Answered, *, is_named: bool) -> Message | None:
    """Return the message, None when there was none; a conversation that was named must be there. BrokerError."""
    code = answered.reply.code
    if code in NOTHING_THERE and not (is_named and code is Code.NO_CONVERSATION):
        return None
    return message(answered)
