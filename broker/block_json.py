"""The control block as JSON: a request from what a client wrote, a reply as it is answered, and both the other way.

A field has the name that it has in `Request` and `Reply`; functions, options and statuses are their names, bytes are
base64. What says nothing is left out. The message is `body`, in base64, or `body_text` where it is text; of a reply it
is `body_text` where the request said `"as_text": true` and the message is UTF-8. The return code is `error_code` and
`error_text`, and `error_advice` says what to do about it.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import IntEnum
from typing import Any, NoReturn

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import ConvStat, Function, Option, Reception, Reply, Request, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.records import Status

ACI_PATH = "/aci"  # of a control block over HTTP
SESSION_HEADER = "Broker-Session"
NEW_SESSION = "new"  # in the place of one
CALL_HEADER = "Broker-Call"  # a call's identifier
NUMBER_MAX = (1 << 31) - 1
AS_TEXT = "as_text"
BODY, BODY_TEXT = "body", "body_text"
_KINDS: Mapping[str, type[IntEnum]] = {"function": Function, "option": Option, "store": Store}
_BYTES = frozenset({"security_token", "msgid", "user_data", BODY})
_NUMBERS = frozenset(
    {"api_type", "api_version", "uwstatp", "receive_length", "errtext_length", "adcount", "client_id", "return_length"}
)
_NOT_SAID = frozenset({"parts", "is_untried"})  # of a request: they are the server's own
REQUEST_FIELDS = tuple(field.name for field in fields(Request) if field.name not in _NOT_SAID)
REPLY_FIELDS = tuple(field.name for field in fields(Reply))
_OUT = {"code": "error_code", "text": "error_text"}
_IN = {spoken: name for name, spoken in _OUT.items()}
_NOTHING = Request(function=Function.VERSION)
_STATUSES = {each.name: each for each in (*Status, *Reception)}
_SILENT = Reply()


class BadBlock(ValueError):
    """What a client wrote is no control block; the text says why."""


def parse_json(data: bytes | str) -> Any:
    """Return the value of a text in JSON. BadBlock; also for keys said twice, and what goes beyond JSON."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")  # of bytes json would guess the encoding
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except BadBlock:
        raise
    except RecursionError:
        raise BadBlock("it is nested too deeply") from None
    except json.JSONDecodeError as failure:
        raise BadBlock(f"this is not JSON, at line {failure.lineno}, character {failure.colno}") from None
    except UnicodeDecodeError as failure:
        raise BadBlock(f"this is not JSON in UTF-8, at byte {failure.start + 1}") from None
    except ValueError:  # of a number
        raise BadBlock("this is not JSON: a number has too many digits") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen = set[str]()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise BadBlock(f"{twice[:64]!r} is said twice")
    return found


def _no_constant(text: str) -> NoReturn:
    raise BadBlock(f"this is not JSON: {text} is no number there")


def decode_request(said: Any) -> tuple[Request, bool]:
    """Return what a client says, and whether it wants messages as text. BadBlock."""
    if not isinstance(said, dict):
        raise BadBlock('a control block is an object, as in {"function": "LOGON"}')
    if "function" not in said:
        raise BadBlock('it says no function; a control block has one, as in {"function": "LOGON"}')
    values: dict[str, Any] = {}
    as_text = False
    for name, value in said.items():
        if name == AS_TEXT:
            as_text = _checked(name, value, bool, "true or false")
        elif name == BODY_TEXT:
            values[BODY] = _text(name, value).encode()
        elif name in _READERS:
            values[name] = _READERS[name](name, value)
        else:
            raise BadBlock(f"{name[:64]!r} is no field of a request; see /openapi.json")
    if BODY in said and BODY_TEXT in said:
        raise BadBlock("the message is said twice: body and body_text")
    return Request(**values), as_text


def encode_request(request: Request) -> dict[str, Any]:
    """Return the request as a client writes it."""
    found: dict[str, Any] = {"function": Function(request.function).name}
    for name in REQUEST_FIELDS:
        value = getattr(request, name)
        if value != getattr(_NOTHING, name) and name != "function":
            found[name] = _written(value)
    return found


def encode_answer(answered: Answered, *, as_text: bool = False) -> dict[str, Any]:
    """Return the answer as it is written."""
    reply, message, properties = answered
    found: dict[str, Any] = {"error_code": reply.code.value, "error_text": reply.text or reply.code.text}
    if reply.code.advice:
        found["error_advice"] = reply.code.advice
    for name in REPLY_FIELDS[2:]:
        value = getattr(reply, name)
        if value != getattr(_SILENT, name):
            found[name] = _written(value)
    if properties:
        found["properties"] = dict(properties)
    if message is not None:
        found |= _body(message, as_text=as_text)
    return found


def _body(message: bytes, *, as_text: bool) -> dict[str, str]:
    if as_text:
        try:
            return {BODY_TEXT: message.decode()}
        except UnicodeDecodeError:
            pass
    return {BODY: b64encode(message).decode()}


def decode_answer(said: Any) -> Answered:
    """Return the answer that a server wrote. BadBlock when it is none; what is not known here is passed over."""
    if not isinstance(said, dict) or "error_code" not in said:
        raise BadBlock("this is no answer of a broker")
    values: dict[str, Any] = {}
    try:
        for spoken, value in said.items():
            name = _IN.get(spoken, spoken)
            if name in _REPLY_READERS:
                values[name] = _REPLY_READERS[name](name, value)
        body = _bytes(BODY, said[BODY]) if BODY in said else None
        if body is None and BODY_TEXT in said:
            body = _text(BODY_TEXT, said[BODY_TEXT]).encode()
        properties = _properties("properties", said["properties"]) if "properties" in said else None
    except (KeyError, TypeError, ValueError):
        raise BadBlock("this is no answer of a broker, or of one that says more than this version knows") from None
    code = values["code"]
    values["text"] = "" if code is Code.OK else values.get("text") or code.text
    return Answered(Reply(**values), body, properties)


# Of one value.


def _written(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, Mapping):
        return dict(value)
    return value


def _checked(name: str, value: Any, kind: type, words: str) -> Any:
    if type(value) is not kind:
        raise BadBlock(f"{name} is {words}")
    return value


def _text(name: str, value: Any) -> str:
    found = str(_checked(name, value, str, "a text"))
    if not found.isascii():
        try:
            found.encode()
        except UnicodeEncodeError:
            raise BadBlock(f"{name} holds half a character") from None
    return found


def _number(name: str, value: Any) -> int:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or not 0 <= value <= NUMBER_MAX:
        raise BadBlock(f"{name} is a whole number from 0 to {NUMBER_MAX}")
    return value


def _bytes(name: str, value: Any) -> bytes:
    try:
        return b64decode(_text(name, value), validate=True)
    except ValueError:
        raise BadBlock(f"{name} is not base64") from None


def _properties(name: str, value: Any) -> dict[str, str]:
    found: dict[str, Any] = _checked(name, value, dict, "an object of texts")
    return {_text(name, key): _text(f"{name} {key[:64]!r}", each) for key, each in found.items()}


def _member(kind: type[IntEnum]) -> Callable[[str, Any], IntEnum]:
    members = {each.name: each for each in kind}

    def read(name: str, value: Any) -> IntEnum:
        found = members.get(value) if isinstance(value, str) else None
        if found is None:
            raise BadBlock(f"{name} is one of {', '.join(members)}")
        return found

    return read


def _reader(name: str) -> Callable[[str, Any], Any]:
    if name in _KINDS:
        return _member(_KINDS[name])
    if name in _BYTES:
        return _bytes
    if name in _NUMBERS:
        return _number
    return _properties if name == "properties" else _text


_READERS = {name: _reader(name) for name in REQUEST_FIELDS}
_REPLY_READERS: dict[str, Callable[[str, Any], Any]] = {
    **{name: _reader(name) for name in REPLY_FIELDS},
    "code": lambda _, value: Code(value),
    "conv_stat": lambda _, value: ConvStat[value],
    "uow_status": lambda _, value: _STATUSES[value],
}
