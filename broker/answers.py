"""An answer to a call, and what takes back a call that nobody heard the answer of."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from operator import is_
from typing import Any, NamedTuple

from oms_journal.broker.block import NEW, Function, Option, Reception, Reply, Request, Store
from oms_journal.broker.codes import Code, detailed
from oms_journal.broker.durations import MICROSECONDS, WaitWord, parse_wait
from oms_journal.database.arguments import every, flag, plain_bytes, plain_properties, plain_text, shown

_NUMBERS = frozenset({"api_type", "api_version", "uwstatp", "receive_length", "errtext_length"})


CLOSED = "the broker was closed"
NO_REQUEST = Request(function=0, option=0)  # type: ignore[arg-type]
_OF_UNITS = (Reception.RECV_FIRST, Reception.RECV_MIDDLE, Reception.RECV_LAST, Reception.RECV_ONLY)
_ENUMERATIONS = {"function": Function, "option": Option, "store": Store}
_BUFFERS = frozenset({"body", "msgid", "user_data", "security_token"})
_FLAGS = frozenset({"is_untried"})
_TEXTS = (
    {field.name for field in fields(Request)} - _NUMBERS - _BUFFERS - {*_ENUMERATIONS, *_FLAGS, "properties", "parts"}
)
_SAID_AS = {"ustatus": "user_status", "user_id": "user"}  # by the sessions
_PLAIN: Mapping[str, type] = (
    _ENUMERATIONS
    | dict.fromkeys(_NUMBERS, int)
    | dict.fromkeys(_BUFFERS, bytes)
    | dict.fromkeys(_TEXTS, str)
    | dict.fromkeys(_FLAGS, bool)
)


Physical = int  # one live participant's connection


class Answered(NamedTuple):
    """What a call is answered: the control block, the message if there is one, and its properties."""

    reply: Reply
    body: bytes | None = None
    properties: Mapping[str, str] | None = None


def not_active(text: str = CLOSED) -> Answered:
    """Return what a call is answered that reaches no broker any more."""
    return Answered(Reply(code=Code.NOT_ACTIVE, text=detailed(Code.NOT_ACTIVE, text)))


def with_enums(request: object) -> Request:
    """Return the request with plain values that nobody changes afterwards, and numbers as members of enumerations.

    TypeError for a value of another type. What is no member of an enumeration, or out of range, the kernel refuses.
    """
    if not isinstance(request, Request):
        raise TypeError(f"request must be a Request, not {shown(request)}")
    said = vars(request)
    if all(map(is_, map(type, said.values()), map(_PLAIN.get, said))):
        return request
    return Request(**{name: _spelled(name, value) for name, value in said.items()})


def _spelled(name: str, value: Any) -> Any:
    if name in _TEXTS:
        return plain_text(value, _SAID_AS.get(name, name))
    if name in _BUFFERS:
        return plain_bytes(value, name)
    if name in _FLAGS:
        return flag(value, name)
    if name == "properties":
        return plain_properties(value)
    if name == "parts":
        return tuple(with_enums(part) for part in every(value, "parts", "Requests"))
    if isinstance(value, bool) or not isinstance(value, int):
        kind = _ENUMERATIONS.get(name)
        raise TypeError(f"{name} must be {'a number (int)' if kind is None else kind.__name__}, not {shown(value)}")
    with suppress(ValueError):
        return _ENUMERATIONS.get(name, int)(value)
    return value


def seconds_to_wait(request: Request) -> float:
    """Return how long the call says that it waits, 0.0 where it says no number."""
    try:
        found = parse_wait(request.wait)
    except ValueError:
        return 0.0
    return 0.0 if isinstance(found, WaitWord) else found / MICROSECONDS


def compensation(request: Request, reply: Reply, *, is_untried: bool = True) -> Request | None:
    """Return the call that takes back what an answer that nobody heard has done; None when it may stand.

    A message that could not be read was tried all the same: such a one comes again later and later, beside others.

    what nobody heard                     is followed by
    a message of a unit of work           its BACKOUT by the receiver: it can be received again, from the first
    a message of a publication            likewise
    that a unit of work was begun         its BACKOUT: nobody knows its UOWID
    that a publication was begun          likewise
    anything else                         nothing: SYNCPOINT QUERY and LAST tell what has happened
    """
    if reply.code not in (Code.OK, Code.TRUNCATED):
        return None
    function, begins = request.function, request.option is Option.SYNC
    who: dict[str, Any] = {"user_id": request.user_id, "token": request.token, "api_version": request.api_version}
    if (function is Function.RECEIVE and reply.uow_status in _OF_UNITS) or (
        function is Function.SEND and begins and request.conv_id.upper() == NEW
    ):
        who |= {"uowid": reply.uowid, "is_untried": is_untried}
        return Request(function=Function.SYNCPOINT, option=Option.BACKOUT, **who)
    if function is Function.RECEIVE_PUBLICATION or (
        function is Function.SEND_PUBLICATION and begins and request.publication_id.upper() == NEW
    ):
        who |= {"publication_id": reply.publication_id, "is_untried": is_untried}
        return Request(function=Function.CONTROL_PUBLICATION, option=Option.BACKOUT, **who)
    return None
