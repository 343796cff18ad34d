"""The page on metrics has every metric that a server answers, with its kind and its labels, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from oms_journal.broker.admin.figures import NAMED_MAX
from oms_journal.broker.server.http.metrics import OTHERS
from tests.support.project import REPOSITORY
from tests.support.servers.web_place import ALICE, BOB, SERVICE, WebPlace

PAGE = (REPOSITORY / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([a-z_]+)` \| (gauge|counter|histogram) \|([^|]*)\| ([^|]+) \|$", re.MULTILINE)
OF_SYSTEM = frozenset({"process_resident_memory_bytes", "process_open_fds", "process_max_fds"})  # not told everywhere


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield what a server answers that has something of everything."""
    directory: Path = tmp_path_factory.mktemp("store")
    with WebPlace(directory) as place:
        for who in (ALICE, BOB):
            place.call("LOGON", **who)
        place.call("SEND", "COMMIT", **ALICE, **SERVICE, conv_id="NEW", body_text="e4")
        place.call("REGISTER", **BOB, **SERVICE)
        place.call("SUBSCRIBE", "DURABLE", **BOB, topic="NEWS")
        place.call("SEND_PUBLICATION", "COMMIT", **ALICE, topic="NEWS", publication_id="NEW", body_text="rain")
        place.call("SYNCPOINT", "QUERY", **ALICE, uowid="0000000000000001")  # refused
        status, _, body = place.ask("GET", "/metrics")
        assert status == 200
        yield body if isinstance(body, str) else body.decode()


def test_every_metric_has_a_row_with_its_kind(answered: str) -> None:
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", answered, re.MULTILINE))
    said = {name: kind for name, kind, _, _ in ROW.findall(PAGE)}

    assert said.items() >= kinds.items()
    assert said.keys() - kinds.keys() <= OF_SYSTEM


def test_every_row_has_the_labels_of_its_metric(answered: str) -> None:
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", answered, re.MULTILINE):
        family = re.sub(r"_(bucket|sum|count)$", "", name) if re.search("_(group|sync)_seconds_", name) else name
        found.setdefault(family, set()).update(re.findall(r'(\w+)="', labels))

    assert found
    rows = {name: set(re.findall(r"`(\w+)`", labels)) for name, _, labels, _ in ROW.findall(PAGE)}
    assert {name: rows[name] for name in found} == found


def test_the_page_says_how_many_are_told_by_name() -> None:
    assert f"up to {NAMED_MAX} of each" in PAGE and f"`{OTHERS}`" in PAGE
