"""What OpenAPI says of `/aci`: made from the table of the control block's fields, so that it says no other ones."""

from typing import Any

from oms_journal.broker.block import FIELDS, ConvStat, Function, Option, Reception, Store
from oms_journal.broker.block_json import AS_TEXT, BODY, BODY_TEXT, NUMBER_MAX, REPLY_FIELDS, REQUEST_FIELDS
from oms_journal.broker.records import Status
from oms_journal.broker.server.http.calls import HEADER as CALL_HEADER
from oms_journal.broker.server.http.calls import KEPT_MAX, NAME
from oms_journal.broker.server.http.openapi import json_body
from oms_journal.broker.server.http.sessions import HEADER

Json = dict[str, Any]
BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_BYTES: Json = {"type": "string", "contentEncoding": "base64", "pattern": BASE64}
_NUMBER: Json = {"type": "integer", "minimum": 0, "maximum": NUMBER_MAX}
_NUMBERS = ("api_type", "api_version", "uwstatp", "receive_length", "errtext_length")
_NUMBERS_OUT = ("adcount", "client_id", "return_length")
_NAMES = {field.attribute: field.name for field in FIELDS.values() if field.attribute}
_PROPERTIES: Json = {"type": "object", "additionalProperties": {"type": "string"}}
_SPECIAL: Json = {
    "function": {"enum": [each.name for each in Function]},
    "option": {"enum": [each.name for each in Option]},
    "store": {"enum": [each.name for each in Store]},
    "conv_stat": {"enum": [each.name for each in ConvStat]},
    "uow_status": {"enum": [each.name for each in (*Status, *Reception)]},
    "security_token": _BYTES,
    "msgid": _BYTES,
    "user_data": _BYTES,
    BODY: _BYTES | {"description": "The message."},
    "properties": _PROPERTIES | {"description": "Of the message."},
    "producer": {"type": "string", "description": "A repeat of it by the same user gets the first answer."},
    "versions": {"type": "string", "description": "What VERSION and KERNELVERS tell."},
}
_OUT = {"code": "error_code", "text": "error_text"}


def _field(name: str) -> Json:
    found: Json = dict(_SPECIAL.get(name) or {"type": "string"})
    if name in _NUMBERS or name in _NUMBERS_OUT:
        found = dict(_NUMBER)
    if name in _NAMES:
        found["description"] = f"{_NAMES[name]} of the control block."
    return found


REQUEST: Json = {
    "type": "object",
    "description": "A control block. What is left out says nothing; too long or impossible values the broker refuses "
    "by code. The message is in one place.",
    "required": ["function"],
    "properties": {
        **{name: _field(name) for name in REQUEST_FIELDS},
        BODY_TEXT: {"type": "string", "description": "The message, as text."},
        AS_TEXT: {"type": "boolean", "description": "Whether a message that is UTF-8 is answered as body_text."},
    },
    "additionalProperties": False,
    "not": {"required": [BODY, BODY_TEXT]},
}
BLOCK: Json = {
    "type": "object",
    "description": "A control block whose message, if it has one, is a part of its own.",
    "required": ["function"],
    "properties": {name: _field(name) for name in REQUEST_FIELDS if name != BODY} | {AS_TEXT: {"type": "boolean"}},
    "additionalProperties": False,
}
REPLY: Json = {
    "type": "object",
    "description": "The answer: what says nothing is left out.",
    "required": ["error_code", "error_text"],
    "properties": {
        **{_OUT.get(name, name): _field(name) for name in REPLY_FIELDS},
        "error_code": {"type": "string", "pattern": "^[0-9]{8}$", "description": "ERROR-CODE: 00000000 is done."},
        "error_advice": {"type": "string", "description": "What to do about the code, for people."},
        "properties": _SPECIAL["properties"],
        BODY: _SPECIAL[BODY],
        BODY_TEXT: {"type": "string"},
    },
    "additionalProperties": False,
}
_SESSION_IN: Json = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "The session, as an answer named it; `new` for a new one. Without it TOKEN finds it.",
    "schema": {"type": "string"},
}
_SESSION_OUT: Json = {
    "description": "The session that the call was made in; missing where no broker was called.",
    "schema": {"type": "string"},
}
_PROBLEM: Json = {"$ref": "#/components/schemas/Problem"}
_CALL_IN: Json = {
    "name": CALL_HEADER,
    "in": "header",
    "required": False,
    "description": "An identifier of this call, which no other one of its session has, and nobody guesses where it "
    "begins one. The same request with the same one is answered the same and does nothing twice: of the last "
    f"{KEPT_MAX} of a session.",
    "schema": {"type": "string", "pattern": NAME},
}
_CALL_OUT: Json = {
    "description": "The identifier of the call, if it has one: such a call can be repeated and taken back.",
    "schema": {"type": "string"},
}
CALL: Json = {
    "operationId": "call",
    "summary": "Carry out one call of the broker.",
    "description": "With WAIT the answer comes when there is one. What the broker refuses is an answer with its code. "
    "Connections and the memory for bodies are shared out between users. Without a users file the user is whom HTTP "
    "Basic names, with any password, and all requests that name nobody are one user's.",
    "parameters": [_SESSION_IN, _CALL_IN],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Request"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["block"],
                    "properties": {
                        "block": {"$ref": "#/components/schemas/Block"},
                        "body": {"type": "string", "format": "binary", "description": "The message as it is."},
                    },
                    "additionalProperties": False,
                },
                "encoding": {"block": {"contentType": "application/json"}},
            },
        },
    },
    "responses": {
        200: {
            "description": "The answer. With `Accept: multipart/mixed` a message is a part of its own behind it.",
            "headers": {HEADER: _SESSION_OUT, CALL_HEADER: _CALL_OUT},
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/Reply"}},
                "multipart/mixed": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        409: json_body(_PROBLEM, f"The {CALL_HEADER} is that of another call."),
    },
    "schemas": {"Request": REQUEST, "Block": BLOCK, "Reply": REPLY},
}
_TAKEN_BACK: Json = {
    "name": CALL_HEADER,
    "in": "header",
    "required": False,
    "description": "The identifier of the one call that is taken back: what it received is handed out again, and "
    "counts no attempt; what it began to send is backed out; if it has not come yet, it will not be carried out.",
    "schema": {"type": "string", "pattern": NAME},
}
LEAVE: Json = {
    "operationId": "leave",
    "summary": "End a session, what it was sending or receiving is taken back; or take back one call of it.",
    "parameters": [
        _SESSION_IN | {"required": True, "description": "The session; `new` of a call that begins one."},
        _TAKEN_BACK,
    ],
    "responses": {
        200: {
            "description": "The call stands, with this answer; a message is not repeated.",
            "headers": {HEADER: _SESSION_OUT, CALL_HEADER: _CALL_OUT},
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Reply"}}},
        },
        204: {"description": "The session is over, or nothing of the call is left."},
    },
}
