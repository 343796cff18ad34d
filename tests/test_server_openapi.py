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

from broker.block import FIELDS, Way
from broker.block_json import REPLY_FIELDS, REQUEST_FIELDS
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
    assert set(heard) == {*REPLY_FIELDS, "error_code", "error_text", "properties", "body", "body_text"} - {
        "code",
        "text",
    }
    for field in FIELDS.values():
        if field.attribute:
            there = said if field.way is not Way.OUT else heard
            spoken = "error_code" if field.attribute == "code" else field.attribute
            assert field.name in there[spoken]["description"]


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_the_server_does_what_the_document_says(place: WebPlace, mode: GenerationMode) -> None:
    ours = {"call", "leave", "openapi", "information", "informationObjects", "command", "commands"}
    schema = schemathesis.openapi.from_dict(document(place))
    schema.config.generation.update(modes=[mode])
    tried, played = set(), list[int]()
    for found in schema.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]
        name = operation.definition.raw["operationId"]
        if name not in ours:
            continue
        tried.add(name)

        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        @hypothesis.settings(
            max_examples=EXAMPLES,
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
            played.append(case.call_and_validate(base_url=place.url).status_code)

        with suppress(SkipTest):  # nothing about it can be wrong
            play()
    assert tried == ours and len(played) >= EXAMPLES
