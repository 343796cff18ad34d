"""The OpenAPI document is true: what it allows is answered as it says, what it does not is refused."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode
from schemathesis.core.control import SkipTest
from schemathesis.specs.openapi.checks import positive_data_acceptance

from broker.block import FIELDS, Way
from broker.block_json import REPLY_FIELDS, REQUEST_FIELDS
from tests.guarded_server import PASSWORDS, Files
from tests.stomp_server import Serving
from tests.web_place import WebPlace

EXAMPLES = 25  # of each operation and of each way to be asked


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


OURS = {"call", "leave", "openapi", "information", "informationObjects", "command", "commands"}


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_the_server_does_what_the_document_says(place: WebPlace, mode: GenerationMode) -> None:
    statuses = played(place.url, document(place), mode, EXAMPLES)

    assert set(statuses) == OURS or mode is GenerationMode.NEGATIVE
    assert statuses.keys() >= {"call", "command", "information"}
    assert mode is GenerationMode.NEGATIVE or 200 in statuses["information"], "no object was ever asked for"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Files(tmp_path_factory.mktemp("guarded"), has_tls=False).serve() as serving:
        yield serving


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("user", ["", "MALLORY"])
def test_a_server_with_users_does_what_the_document_says_and_only_for_them(
    place: WebPlace, guarded: Serving, user: str, mode: GenerationMode
) -> None:
    auth = (user, PASSWORDS[user]) if user else None
    statuses = played(f"http://127.0.0.1:{guarded.http_port}", document(place), mode, EXAMPLES // 5, auth)

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
    for found in schema.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]
        name = operation.definition.raw["operationId"]
        if name in OURS:
            with suppress(SkipTest):  # nothing about it can be wrong
                statuses[name] = _statuses(name, operation.as_strategy(generation_mode=mode), url, examples, auth)
    return statuses


def _statuses(name: str, cases: Any, url: str, examples: int, auth: tuple[str, str] | None) -> set[int]:
    seen = set[int]()
    # Which selectors go with which object the document leaves to /info: some that it allows are refused.
    named: dict[str, Any] = {"excluded_checks": [positive_data_acceptance] if name == "information" else []}
    named |= {} if auth is None else {"auth": auth}

    @hypothesis.given(case=cases)
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
        seen.add(case.call_and_validate(base_url=url, **named).status_code)

    play()
    return seen
