"""What OpenAPI says of the routes for operators: made from the tables of what there is to be asked and said."""

from collections.abc import Sequence
from typing import Any

from oms_journal.broker.admin.commands import COMMANDS, IDENTIFIERS_MAX, TEXT_MAX, WIDTHS, Known
from oms_journal.broker.admin.questions import LIMIT_MAX
from oms_journal.broker.admin.subjects import ALIASES, SUBJECTS, Subject
from oms_journal.broker.admin.uows import YES_OR_NO
from oms_journal.broker.records import Status
from oms_journal.broker.server.http.openapi import json_body

Json = dict[str, Any]
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
_PROBLEM: Json = {"$ref": "#/components/schemas/Problem"}


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


def _orders(known: Known) -> list[Json]:
    """Return what a command is said with: once for all of its objects that take the same."""
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for target in known.targets:
        alike.setdefault((tuple(known.options_of(target)), tuple(known.selectors_of(target))), []).append(target)
    return [_order(known, targets, *found) for found, targets in alike.items()]


def _order(known: Known, targets: list[str], options: tuple[str, ...], selectors: tuple[str, ...]) -> Json:
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
