"""`GET /openapi.json`: what can be asked over HTTP and how it is answered, from what the routes say of themselves.

A route that is to be in it has an endpoint `described` by an operation of OpenAPI 3.1, or `described_each` by one for
each thing that its path can name, where these take different parameters. What every operation may answer, errors among
it, is added here.

What OpenAPI says of `/aci`: made from the table of the control block's fields, so that it says no other ones.

What OpenAPI says of the routes for operators: made from the tables of what there is to be asked and said.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from oms_journal.broker.admin.commands import COMMANDS, IDENTIFIERS_MAX, TEXT_MAX, WIDTHS, CommandSpec
from oms_journal.broker.admin.questions import LIMIT_MAX
from oms_journal.broker.admin.subjects import ALIASES, SUBJECTS, Subject
from oms_journal.broker.admin.uows import YES_OR_NO
from oms_journal.broker.block import FIELDS, ConvStat, Function, Option, Reception, Store
from oms_journal.broker.block_json import (
    AS_TEXT,
    BODY,
    BODY_TEXT,
    CALL_HEADER,
    NUMBER_MAX,
    REPLY_FIELDS,
    REQUEST_FIELDS,
    SESSION_HEADER,
)
from oms_journal.broker.records import Status
from oms_journal.broker.server.http.calls import KEPT_MAX, NAME

EndpointT = TypeVar("EndpointT", bound=Callable[..., Any])
Json = dict[str, Any]
_OPERATIONS: dict[Any, dict[str, Json]] = {}  # by endpoint and path ("": the route's); made once, where the routes are
PROBLEM: Json = {
    "type": "object",
    "description": "What is wrong outside of a control block.",
    "required": ["status", "error"],
    "properties": {
        "status": {"type": "integer", "description": "The HTTP status."},
        "error": {"type": "string", "description": "Why, for people."},
    },
    "additionalProperties": False,
}
_PROBLEMS: Mapping[int, str] = {
    400: "The request is not what is described here.",
    401: "User and password are needed.",
    403: "The user may not do that.",
    404: "There is no such thing.",
    405: "There is something, but not with this method.",
    408: "The request came too slowly.",
    413: "The request is too long.",
    415: "The body is of no type that is described here.",
    421: "The request is for another host.",
    429: "There have been too many attempts to log on.",
    500: "A mistake of the server itself.",
    503: "There is no room at the moment: try again.",
}


def described(operation: Json) -> Callable[[EndpointT], EndpointT]:
    """Say of an endpoint what OpenAPI is to say of it: summary, parameters, requestBody, and what is no error."""

    return described_each({"": operation})


def described_each(operations: Mapping[str, Json]) -> Callable[[EndpointT], EndpointT]:
    """Say of an endpoint what OpenAPI is to say of it, for each path that it answers."""

    def note(endpoint: EndpointT) -> EndpointT:
        _OPERATIONS[getattr(endpoint, "__func__", endpoint)] = dict(operations)
        return endpoint

    return note


def json_body(schema: Json, description: str = "Done.") -> Json:
    """Return a response of JSON."""
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def document(routes: Iterable[Any]) -> Json:
    """Return the document of all routes that are described."""
    from importlib import metadata

    paths: dict[str, Json] = {}
    schemas: Json = {"Problem": PROBLEM}
    for route in routes:
        endpoint = getattr(route, "endpoint", None)
        operations = _OPERATIONS.get(getattr(endpoint, "__func__", endpoint), {})
        if not isinstance(route, Route):
            continue
        for path, operation in operations.items():
            found = dict(operation)
            schemas |= found.pop("schemas", {})
            found["responses"] = {
                **{str(status): _problem(text) for status, text in _PROBLEMS.items()},
                **{str(status): response for status, response in operation["responses"].items()},
            }
            for method in sorted((route.methods or set()) - {"HEAD"}):
                paths.setdefault(path or route.path, {})[method.lower()] = found
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "A broker of units of work",
            "version": metadata.version("oms-journal"),
            "description": "The control block over HTTP, and what operators ask and say.",
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _problem(text: str) -> Json:
    return json_body({"$ref": "#/components/schemas/Problem"}, text)


SELF: Json = {
    "operationId": "openapi",
    "summary": "This document.",
    "responses": {200: json_body({"type": "object", "required": ["openapi", "paths"]}, "The document.")},
}


def openapi_routes(routes: Iterable[Any]) -> list[Route]:
    """Return the route of the document about these routes and itself."""

    @described(SELF)
    async def answer(request: Request) -> Response:
        return JSONResponse(found)

    own = Route("/openapi.json", answer, methods=["GET"])
    found = document([*routes, own])
    return [own]


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
    "name": SESSION_HEADER,
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
        },
    },
    "responses": {
        200: {
            "description": "The answer.",
            "headers": {SESSION_HEADER: _SESSION_OUT, CALL_HEADER: _CALL_OUT},
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/Reply"}},
            },
        },
        409: json_body(_PROBLEM, f"The {CALL_HEADER} is that of another call."),
    },
    "schemas": {"Request": REQUEST, "Reply": REPLY},
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
            "headers": {SESSION_HEADER: _SESSION_OUT, CALL_HEADER: _CALL_OUT},
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Reply"}}},
        },
        204: {"description": "The session is over, or nothing of the call is left."},
    },
}


_TEXT: Json = {"type": "string"}
_WORD: Json = {"type": ["string", "null"], "maxLength": TEXT_MAX}
_WORDS: Json = {
    **{
        name: _WORD | {"maxLength": width, "description": f"At most {width} bytes of UTF-8."}
        for name, width in WIDTHS.items()
    },
    "client_id": {"type": ["integer", "null"]},
    "exclude_attach": {"type": ["boolean", "null"]},
    "all": {"type": ["boolean", "null"]},
    "identifiers": {
        "type": ["array", "null"],
        "items": {"type": "string", "maxLength": TEXT_MAX},
        "maxItems": IDENTIFIERS_MAX,
    },
}
_ROWS: Json = {"type": "array", "items": {"type": "object"}}
_TIME: Json = {"type": "string", "description": "ISO 8601, UTC."}


def _shape(required: dict[str, Json], description: str) -> Json:
    return {
        "type": "object",
        "description": description,
        "required": list(required),
        "properties": required,
        "additionalProperties": False,
    }


_PAGE = _shape(
    {
        "object": _TEXT,
        "code": {"type": "integer", "description": "Of the command and information services: 0 done, 4 nothing found."},
        "text": _TEXT,
        "time": _TIME,
        "rows": _ROWS,
        "count": {"type": "integer"},
        "total": {"type": ["integer", "null"], "description": "Of all pages; null where nobody has counted."},
        "next": {"type": ["string", "null"], "description": "The cursor of the next page."},
        "summary": {"type": ["object", "null"]},
    },
    "A page of rows.",
)
_OUTCOME = _shape(
    {
        "command": _TEXT,
        "object": _TEXT,
        "option": _TEXT,
        "code": {"type": "integer", "description": "Of the command and information services: 0 done."},
        "text": _TEXT,
        "error_code": {"type": "string", "description": "The broker's own code, where it says more."},
        "error_text": _TEXT,
        "time": _TIME,
        "affected": {"type": "integer"},
        "rows": _ROWS,
    },
    "What became of a command.",
)


def _answers(schema: Json, *refused: int, problems: tuple[int, ...] = ()) -> dict[int, Json]:
    found = {200: json_body(schema)}
    for status in refused:
        either = {"oneOf": [schema, _PROBLEM]} if status in problems else schema
        found[status] = json_body(either, "Refused, with the code that says why.")
    return found


_VALUES: dict[str, Json] = {
    "status": {"type": "string", "enum": [each.name for each in Status]},
    "held": {"type": "string", "enum": list(YES_OR_NO)},
}


def _selector(name: str) -> Json:
    has = "in either case" if name in _VALUES else "* stands for any characters"
    return {
        "name": name,
        "in": "query",
        "required": False,
        "schema": {"type": "array", "items": _VALUES.get(name, _TEXT)},
        "explode": True,
        "description": f"Rows that have one of these; {has}.",
    }


def _information(name: str, subject: Subject) -> Json:
    return {
        "operationId": f"information{name.title().replace('-', '')}",
        "summary": f"{subject.says[0].upper()}{subject.says[1:]}.",
        "description": "What its columns are says /info.",
        "parameters": [
            {
                "name": "limit",
                "in": "query",
                "required": False,
                "schema": {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX},
            },
            {"name": "cursor", "in": "query", "required": False, "schema": _TEXT, "description": "`next` of a page."},
            *map(_selector, subject.selectors),
        ],
        "responses": _answers(_PAGE, 400, 403, 409, 503, problems=(400, 403, 503)),
    }


_NAMED = {**SUBJECTS} | {alias: SUBJECTS[name] for alias, name in ALIASES.items()}
INFORMATION: dict[str, Json] = {f"/info/{name}": _information(name, subject) for name, subject in _NAMED.items()}
INFORMATION_THERE: Json = {
    "operationId": "informationObjects",
    "summary": "What can be asked: objects, selectors, columns.",
    "responses": {200: json_body({"type": "object", "required": ["objects", "refused"]})},
}


def _orders(known: CommandSpec) -> list[Json]:
    """Return what a command is said with: once for all of its objects that take the same."""
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for target in known.targets:
        alike.setdefault((tuple(known.options_of(target)), tuple(known.selectors_of(target))), []).append(target)
    return [_order(known, targets, *found) for found, targets in alike.items()]


def _order(known: CommandSpec, targets: list[str], options: tuple[str, ...], selectors: tuple[str, ...]) -> Json:
    is_target_said = known.has_no_default_target or known.targets[0] not in targets
    properties: dict[str, Json] = {"command": {"type": "string", "const": known.name}}
    properties["object"] = _one_of(targets, is_said=is_target_said)
    if any(options):
        properties["option"] = _one_of(options, is_said="" not in options)
    return {
        "type": "object",
        "title": " ".join((known.name, *(targets if is_target_said else ()))),
        "description": f"{known.says[0].upper()}{known.says[1:]}.",
        "required": [name for name, each in properties.items() if each["type"] == "string"],
        "properties": properties | {name: _WORDS.get(name, _WORD) for name in selectors},
        "additionalProperties": False,
    }


def _one_of(words: Sequence[str], *, is_said: bool) -> Json:
    if is_said:
        return {"type": "string", "enum": list(words)}
    return {"type": ["string", "null"], "enum": [*words, None]}


COMMAND: Json = {
    "operationId": "command",
    "summary": "Carry out an operator's command.",
    "description": "Words are taken in either case. A selector that is null or empty says nothing.",
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"oneOf": [order for known in COMMANDS.values() for order in _orders(known)]},
            }
        },
    },
    "responses": _answers(_OUTCOME, 400, 403, 404, 409, 503, problems=(400, 403, 404, 503)),
}
COMMANDS_THERE: Json = {
    "operationId": "commands",
    "summary": "What can be commanded: objects, options, selectors.",
    "responses": {200: json_body({"type": "object", "required": ["commands", "selectors", "refused"]})},
}
