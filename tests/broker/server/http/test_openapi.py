"""The OpenAPI document is true: what it allows is answered as it says, what it does not is refused."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode
from schemathesis.core.control import SkipTest
from schemathesis.specs.openapi.checks import positive_data_acceptance

from oms_journal.broker.admin.codes import CommandCode
from oms_journal.broker.admin.commands import COMMANDS, SELECTORS, WIDTHS
from oms_journal.broker.admin.subjects import ALIASES, SUBJECTS
from oms_journal.broker.block import FIELDS, Way
from oms_journal.broker.block_json import REPLY_FIELDS, REQUEST_FIELDS
from tests.support.servers.guarded_server import PASSWORDS, Files
from tests.support.servers.stomp_server import Serving
from tests.support.servers.web_place import WebPlace
from tests.support.sweeps import a_sample, split

FEW, MANY = 3, 25  # examples of each operation and of each way to be asked; a fifth of it for each information object
WITH_IDENTIFIERS = {"PSF", "UOW", "CONVERSATION", "PUBLICATION"}  # by which their rows are in order


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebPlace]:
    with WebPlace(tmp_path_factory.mktemp("openapi") / "store") as found:
        yield found


def document(place: WebPlace) -> dict[str, Any]:
    status, _, data = place.ask("GET", "/openapi.json")
    assert status == 200
    return dict(json.loads(data))


def test_every_field_of_the_control_block_is_in_it_and_no_other(place: WebPlace) -> None:
    schemas = document(place)["components"]["schemas"]
    said, heard = schemas["Request"]["properties"], schemas["Reply"]["properties"]

    assert set(said) == {*REQUEST_FIELDS, "body_text", "as_text"} and "parts" not in said
    assert set(heard) == {
        *REPLY_FIELDS,
        "error_code",
        "error_text",
        "error_advice",
        "properties",
        "body",
        "body_text",
    } - {
        "code",
        "text",
    }
    for field in FIELDS.values():
        if field.attribute:
            there = said if field.way is not Way.OUT else heard
            spoken = "error_code" if field.attribute == "code" else field.attribute
            assert field.name in there[spoken]["description"]


@a_sample(6)
@pytest.mark.parametrize("name", [*SUBJECTS, *ALIASES])
def test_an_information_object_has_the_selectors_that_the_server_takes_for_it_and_no_other(
    place: WebPlace, name: str
) -> None:
    operation = document(place)["paths"][f"/info/{name}"]["get"]
    values = {each["name"]: each["schema"] for each in operation["parameters"]}
    told = {"limit": "5", "cursor": "0" if name not in WITH_IDENTIFIERS else '"0000000000000001"'}

    taken = set()
    for selector in {*told, "colour", *(each for subject in SUBJECTS.values() for each in subject.selectors)}:
        one = values.get(selector, {}).get("items", {}).get("enum", [told.get(selector, "x")])
        answers = {place.ask("GET", f"/info/{name}?{urlencode({selector: value})}")[0] for value in one}
        assert answers in ({200}, {400}), (selector, answers)
        taken |= {selector} if answers == {200} else set()

    assert taken == set(values)


def test_a_value_that_an_information_object_does_not_list_is_refused(place: WebPlace) -> None:
    listed = 0
    for path, item in document(place)["paths"].items():
        for each in item.get("get", {}).get("parameters", ()):
            if "enum" in each["schema"].get("items", {}):
                listed += 1
                assert place.ask("GET", f"{path}?{each['name']}=x")[0] == 400
    assert listed


SELECTED = {"client_id": 7, "exclude_attach": True, "all": True, "identifiers": ["x"], "older": "1S", "newer": "1S"}


def orders(place: WebPlace) -> list[dict[str, Any]]:
    """Return what the document has commands be said with, as one object of each."""
    body = document(place)["paths"]["/command"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return [
        dict(each, properties=each["properties"] | {"object": {"enum": [target]}})
        for each in body["oneOf"]
        for target in each["properties"]["object"]["enum"]
        if target is not None
    ]


def test_every_command_is_in_it_with_its_objects_and_options_and_no_other(place: WebPlace) -> None:
    found: dict[tuple[str, str], list[str]] = {}
    for each in orders(place):
        said = each["properties"]
        found[said["command"]["const"], said["object"]["enum"][0]] = [
            option or "" for option in said.get("option", {"enum": [""]})["enum"] if option is not None
        ]
    assert found == {
        (known.name, target): list(known.options_of(target)) for known in COMMANDS.values() for target in known.targets
    }


def test_a_command_has_the_selectors_that_the_server_takes_for_it_and_no_other(place: WebPlace) -> None:
    checked = 0
    for each in orders(place):
        said = each["properties"]
        order = {"command": said["command"]["const"], "object": said["object"]["enum"][0]}
        if "option" in each["required"]:
            order["option"] = said["option"]["enum"][0]
        taken = set()
        for name in SELECTORS:
            answer = ordered(place, order | {name: SELECTED.get(name, "x")})
            taken |= {name} if answer["code"] != CommandCode.INVALID_SELECTOR else set()
        assert taken == set(said) - {"command", "object", "option"}, order
        checked += len(taken)
    assert checked > len(SELECTORS)


def ordered(place: WebPlace, order: dict[str, Any]) -> dict[str, Any]:
    data = place.ask("POST", "/command", json.dumps(order).encode(), Content_Type="application/json")[2]
    return dict(json.loads(data))


COMMON = {"call", "leave", "openapi", "informationObjects", "command", "commands"}
OURS = COMMON | {"information"}


@a_sample(1, more=1)
@pytest.mark.parametrize("count", split([FEW], [MANY]))
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_the_server_does_what_the_document_says(place: WebPlace, mode: GenerationMode, count: int) -> None:
    statuses = played(place.url, document(place), mode, count)

    assert set(statuses) == OURS or mode is GenerationMode.NEGATIVE
    assert statuses.keys() >= {"call", "command", "information"}
    assert mode is GenerationMode.NEGATIVE or 200 in statuses["information"], "no object was ever asked for"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Files(tmp_path_factory.mktemp("guarded"), has_tls=False).serve() as serving:
        yield serving


@pytest.mark.whole
@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("user", ["", "MALLORY"])
def test_a_server_with_users_does_what_the_document_says_and_only_for_them(
    place: WebPlace, guarded: Serving, user: str, mode: GenerationMode
) -> None:
    auth = (user, PASSWORDS[user]) if user else None
    statuses = played(f"http://127.0.0.1:{guarded.http_port}", document(place), mode, MANY // 5, auth)

    assert statuses.keys() >= {"call", "command", "information"} and statuses.keys() <= OURS
    for name, seen in statuses.items():
        assert seen <= ({401, 400, 404, 405} if not user and name != "openapi" else seen - {401}), name
    for name in {"call", "information", "command", "commands", "leave"} & statuses.keys():
        assert user or 401 in statuses[name] or mode is GenerationMode.NEGATIVE
    assert "a mistake of the server" not in json.dumps(guarded.log)


def played(
    url: str, said: dict[str, Any], mode: GenerationMode, examples: int, auth: tuple[str, str] | None = None
) -> dict[str, set[int]]:
    """Return which statuses each operation was answered with, all of them as the document has them."""
    schema = schemathesis.openapi.from_dict(said)
    schema.config.generation.update(modes=[mode])
    statuses: dict[str, set[int]] = {}
    for each in schema.get_all_operations():
        operation: Any = each.ok()  # type: ignore[union-attr]
        name = operation.definition.raw["operationId"]
        is_one_of_many = name not in COMMON and name.startswith("information")
        if is_one_of_many or name in COMMON:
            count = max(1, examples // 5) if is_one_of_many else examples
            with suppress(SkipTest):  # nothing about it can be wrong
                found = _statuses(operation, mode, url, count, auth)
                statuses.setdefault("information" if is_one_of_many else name, set()).update(found)
    return statuses


def _statuses(operation: Any, mode: GenerationMode, url: str, examples: int, auth: tuple[str, str] | None) -> set[int]:
    seen = set[int]()
    named: dict[str, Any] = {} if auth is None else {"auth": auth}
    is_command = operation.definition.raw["operationId"] == "command"

    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    @hypothesis.settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def play(case: Any) -> None:
        for block in (case.body, case.body.get("block") if isinstance(case.body, dict) else None):
            if isinstance(block, dict):
                block.pop("wait", None)  # some wait for minutes
                for name, width in WIDTHS.items():  # in bytes, which no schema counts
                    if mode is GenerationMode.POSITIVE and isinstance(text := block.get(name), str):
                        block[name] = text.encode("utf-8", "replace")[:width].decode(errors="ignore")
        case.query.pop("cursor", None)  # a page has said it, no document can
        excluded = [positive_data_acceptance] if is_command else []  # which selectors it needs together no schema says
        seen.add(case.call_and_validate(base_url=url, excluded_checks=excluded, **named).status_code)

    play()
    return seen
