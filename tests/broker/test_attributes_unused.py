"""An attribute that is accepted and not carried out is told to whoever says it."""

import json
import re
from pathlib import Path

import pytest

from oms_journal.broker.attributes.attributes import built_in, parse_attributes
from oms_journal.broker.attributes.keywords import KEYWORDS, NOT_CARRIED_OUT
from tests.support.cli_runner import oms
from tests.support.project import REPOSITORY
from tests.support.servers.stomp_server import Serving

SAID = [
    ("DEFAULTS=BROKER PSTORE-VERSION=3", "PSTORE-VERSION=3 of BROKER has no effect"),
    ("DEFAULTS=BROKER TRACE-LEVEL=8", "TRACE-LEVEL=8 of BROKER has no effect"),
    ("DEFAULTS=JOURNAL TRACE-LEVEL=2", "TRACE-LEVEL=2 of JOURNAL has no effect"),
    ("DEFAULTS=BROKER PUBLISHER-NONACT=1M", "PUBLISHER-NONACT=1M of BROKER has no effect"),
    ("DEFAULTS=TOPIC PUBLISHER-NONACT=1M", "PUBLISHER-NONACT=1M of TOPIC has no effect"),
    ("DEFAULTS=TOPIC TOPIC=NEWS PUBLISHER-NONACT=1M", "PUBLISHER-NONACT=1M of TOPIC has no effect"),
    ("DEFAULTS=ADABAS DBID=9", "DBID=9 of ADABAS has no effect"),
    ("DEFAULTS=SQLITE MIN-FREE-SPACE=1G", "MIN-FREE-SPACE=1G of SQLITE has no effect"),
    (
        "DEFAULTS=BROKER PSTORE-TYPE=SQLITE DEFAULTS=JOURNAL RETENTION-AGE=1D",
        "RETENTION-AGE=1D of JOURNAL has no effect",
    ),
]


@pytest.mark.parametrize(("said", "told"), SAID)
def test_what_is_not_carried_out_is_told(said: str, told: str) -> None:
    text = said if said.startswith("DEFAULTS=BROKER") else f"DEFAULTS=BROKER {said}"
    attributes = parse_attributes(
        text.replace("DEFAULTS=BROKER", "DEFAULTS=BROKER DEFAULT-VALUES=OMS", 1).replace(" ", "\n")
    )
    assert [warning for warning in attributes.warnings() if warning.startswith(told)]


def test_a_start_without_a_file_and_a_store_elsewhere_have_nothing_to_be_told() -> None:
    assert built_in(spool_directory="here", database_file="there").warnings() == []


@pytest.mark.whole
def test_a_start_and_oms_attributes_tell_it(tmp_path: Path) -> None:
    file = tmp_path / "etbfile"
    file.write_text("DEFAULTS=BROKER DEFAULT-VALUES=OMS PSTORE-VERSION=3\n")
    assert "PSTORE-VERSION=3" in oms("attributes", str(file)).stderr
    assert "PSTORE-VERSION=3" in json.loads(oms("attributes", str(file), "--json").stdout)["warnings"][0]
    with Serving(tmp_path / "spool", str(file)) as server:
        server.stop()
        assert any("PSTORE-VERSION=3 of BROKER has no effect" in text for text in server.texts())


def test_the_example_says_no_attribute_that_has_no_effect(tmp_path: Path) -> None:
    file = tmp_path / "etbfile"
    file.write_text(oms("attributes", "--example").stdout)
    assert "no effect" not in oms("attributes", str(file)).stderr


def test_every_other_attribute_is_used_by_something() -> None:
    """What is not told as without effect is read outside of the attributes' own modules."""
    modules = [path for path in (REPOSITORY / "broker").rglob("*.py") if not path.name.startswith("attribute")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in modules if path.parent.name != "looking")
    read = set(re.findall(r"\.(\w+)", text))
    assert {each.name for each in KEYWORDS if each.attribute not in read} - set(NOT_CARRIED_OUT) == {"DEFAULT-VALUES"}
