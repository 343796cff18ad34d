"""The page on HTTP has every address, every field, every call and every limit as the server has them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.routing import Route

from oms_journal.broker.block import FIELDS
from oms_journal.broker.block_json import AS_TEXT, BODY, BODY_TEXT, REPLY_FIELDS, REQUEST_FIELDS
from oms_journal.broker.rules import PRODUCER_BYTES_MAX, PROPERTIES_BYTES_MAX, RULES
from oms_journal.broker.server.http.calls import KEPT_MAX
from oms_journal.broker.server.http.openapi import _PROBLEMS
from oms_journal.broker.server.http.request_guard import PUBLIC, PUBLIC_FOLDERS
from oms_journal.broker.server.runtime.limits import WebLimits
from tests.support.project import REPOSITORY
from tests.support.servers.web_place import WebPlace

PAGE = (REPOSITORY / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
ANSWER_NAMES = {"code": "error_code", "text": "error_text"}


def named(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def table(head: str) -> Iterator[list[str]]:
    """Yield the rows of the table whose head begins so, each as its cells."""
    for line in PAGE.split(f"| {head} |")[1].splitlines()[2:]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def addresses() -> Iterator[tuple[str, str, bool]]:
    for method, places, needs_login, _ in table("method"):
        for place in named(places):
            yield method.strip("`"), place, needs_login == "yes"


def test_every_address_is_one_of_the_server_and_the_other_way_round(tmp_path: Path) -> None:
    with WebPlace(tmp_path) as place:
        found = {
            (method, re.sub(r"\{\w+(:\w+)?\}", "*", route.path))
            for route in place.listener.app.routes
            if isinstance(route, Route)
            for method in (route.methods or {"GET"}) - {"HEAD"}
        }

    said = {(method, re.sub(r"OBJECT|NAME", "*", path)) for method, path, _ in addresses()}
    moving = {each for each in said if each[1].endswith("…")}
    assert moving == {("POST", "/peer/load/…"), ("POST", "/peer/unload/…")}
    assert said - moving | {("POST", "/peer/*/*")} == found


def test_the_page_says_what_needs_no_login() -> None:
    for _, path, needs_login in addresses():
        assert (path in PUBLIC or path.startswith(PUBLIC_FOLDERS)) is not needs_login, path


def test_every_status_of_an_error_is_told() -> None:
    assert {int(row[0]) for row in table("status")} == {*_PROBLEMS, 200, 204, 409}


def test_every_field_of_a_request_is_told_with_its_width() -> None:
    widths = {field.attribute: field.width for field in FIELDS.values()} | {"error_code": 8}
    said = [(name, row[1]) for row in table("field of the request") for name in named(row[0])]

    assert sorted(name for name, _ in said) == sorted((*REQUEST_FIELDS, BODY_TEXT, AS_TEXT))
    for name, width in said:
        assert width.removesuffix(" each") == str(widths.get(name, "")), name
    assert f"at most {PROPERTIES_BYTES_MAX >> 10} KiB" in PAGE and f"at most {PRODUCER_BYTES_MAX} bytes" in PAGE


def test_every_field_of_an_answer_is_told() -> None:
    said = [name for row in table("field of the answer") for name in named(row[0])]
    known = {ANSWER_NAMES.get(name, name) for name in REPLY_FIELDS}

    assert sorted(said) == sorted({*known, "error_advice", "properties", BODY, BODY_TEXT})


def test_every_call_is_told_with_its_options() -> None:
    known: dict[str, set[str]] = {}
    for function, option in RULES:
        known.setdefault(function.name, set()).add(option.name)
    said = {
        named(row[0])[0]: set(named(row[1])) | ({"NONE"} if re.search(r"\bnone\b", row[1]) else set())
        for row in table("function")
    }

    assert said == known


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ("connections", f"{WebLimits().connections:,} "),
        ("line and headers of a request", f"{WebLimits().head_bytes:,} bytes, within {WebLimits().head_seconds:g} s"),
        ("body of a request", f"{WebLimits().body_bytes:,} bytes"),
        ("body of a request", f"{WebLimits().block_bytes:,} bytes more"),
        ("speed of a body", f"{WebLimits().body_seconds:g} s"),
        ("speed of a body", f"{WebLimits().body_bytes_per_second:,} bytes"),
        ("bodies that are not complete, together", f"{WebLimits().unread_bytes:,} bytes"),
        ("idle connection", f"{WebLimits().idle_seconds:g} s"),
        ("client that does not read its answer", f"{WebLimits().look_seconds:g} s"),
        ("WAIT", f"{WebLimits().wait_seconds:g} s"),
        ("sessions", f"{WebLimits().sessions:,}"),
        ("calls of a session at a time", f"{WebLimits().calls}"),
        ("messages kept to be repeated, together", f"{WebLimits().kept_bytes:,} bytes"),
    ],
)
def test_every_limit_is_the_one_of_the_server(row: str, shown: str) -> None:
    assert shown in {what: limit for what, limit, _ in table("what")}[row]


def test_the_page_says_how_many_calls_are_remembered() -> None:
    assert f"the last {KEPT_MAX} calls of a session" in PAGE
