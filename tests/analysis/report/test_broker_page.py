"""What the page says of a broker, on invented figures; where there is none it says nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="not installed: pip install -e '.[parquet]'")

from oms_journal.analysis.report.drawing.markup import escaped
from oms_journal.analysis.report.page import page
from oms_journal.analysis.report.sections.broker_verdicts import broker_verdicts
from oms_journal.analysis.report.sections.verdicts import plain
from oms_journal.analysis.report.values.answers import Ranked
from oms_journal.analysis.report.values.broker_answers import Broker, Failures, Talks, Topics, Units
from tests.support.journals import report_tables
from tests.support.journals.report_tables import DATABASE, EVIL, LAST

NOTHING = Broker(buckets=report_tables.pieces(240), units=Units(), failures=Failures(), talks=Talks(), topics=Topics())
SERVICE: dict[str, Any] = {
    "label": EVIL,
    **dict.fromkeys(("units", "waiting", "uncommitted", "processed", "failed"), 1),
    **dict.fromkeys(("oldest_age_seconds", "p50_seconds", "p99_seconds"), 90.0),
    "oldest": "1000000100000001",
}
UNITS = Units(
    units=5,
    processed=2,
    waiting=1,
    uncommitted=1,
    failed=1,
    slowest=SERVICE,
    oldest=SERVICE,
    services=Ranked([SERVICE], 1),
)
START = {"time": LAST, "what": "hot start"}


def _said(broker: Broker) -> dict[str, str]:
    return {verdict.question.anchor: plain(verdict.sentence) for verdict in broker_verdicts(broker)}


def _page(folder: Path, broker: Broker | None) -> str:
    rows = report_tables.invented(report_tables.World(queues=("q",), files=1))
    told = report_tables.told(report_tables.write(folder, rows))
    return page(told.facts, told.sections, broker)


def test_where_there_is_no_broker_nothing_is_said_of_one(tmp_path: Path) -> None:
    text = _page(tmp_path, None)

    assert broker_verdicts(None) == []
    assert not any(f'id="{anchor}"' in text for anchor in ("units", "failed", "talks", "topics"))
    assert "unit of work" not in text


def test_a_broker_that_nobody_has_used_yet() -> None:
    assert _said(NOTHING) == {
        "units": "No unit of work has left a trace in the store.",
        "failed": "Nothing: what has ended was processed, and at the first attempt.",
        "talks": "There are no conversations of units of work.",
        "topics": "No durable subscription is there; 0 stored publications.",
    }


def test_without_topics_there_is_no_section_on_them(tmp_path: Path) -> None:
    broker = replace(NOTHING, topics=None)

    assert set(_said(broker)) == {"units", "failed", "talks"}
    assert 'id="topics"' not in _page(tmp_path, broker)


def test_units_of_work_in_words() -> None:
    said = _said(replace(NOTHING, units=UNITS))["units"]

    assert said.startswith(
        "40 % of 5 units of work were processed, 1 waits, 1 ended otherwise and 1 is not committed. "
        "Half of the processed ones took 1 min 30 s from their sender's commit to their receiver's, "
        "99 of 100 1 min 30 s. The oldest that waits was committed 1 min 30 s ago: 1000000100000001 in a "
    )
    assert said.endswith(".")
    several = replace(UNITS, waiting=0, uncommitted=0, oldest=None, services=Ranked([SERVICE] * 2, 2))
    assert "none waits" in _said(replace(NOTHING, units=several))["units"]
    assert "The slowest service is a " in _said(replace(NOTHING, units=several))["units"]


@pytest.mark.parametrize(
    ("failures", "said", "tone"),
    [
        (
            Failures(by_status={"TIMEOUT": 1}),
            "1 unit of work ended and was not processed: 1 timed out.",
            "warn",
        ),
        (
            Failures(by_status={"BACKEDOUT": 1, "CANCELLED": 2}),
            "3 units of work ended and were not processed: 2 cancelled and 1 backed out.",
            "",
        ),
        (
            Failures(attempts=1, attempts_max=1, tried_again=1, processed_again=1),
            "1 delivery was attempted in vain, 1 of one unit of work at the most; "
            "1 unit of work was tried again, and 100 % of these processed after all.",
            "",
        ),
    ],
)
def test_failures_in_words(failures: Failures, said: str, tone: str) -> None:
    verdict = broker_verdicts(replace(NOTHING, failures=failures))[1]

    assert verdict.question.anchor == "failed"
    assert (plain(verdict.sentence), verdict.tone) == (said, tone)


def test_conversations_in_words() -> None:
    oldest = {"label": "GAME/CHESS/BLACK", "conv_id": "1000000100000002", "age_seconds": 7200.0}
    idle = Talks(conversations=2, ended=2, cancelled=1)
    busy = replace(idle, conversations=3, open=1, ranked=Ranked([oldest], 1))

    assert _said(replace(NOTHING, talks=idle))["talks"] == (
        "None: in 2 conversations nothing waits. Of 2 conversations 2 were ended by one side, 1 of these cancelled."
    )
    assert _said(replace(NOTHING, talks=busy))["talks"] == (
        "In 1 of 3 conversations something waits. The oldest of them began 2 h ago: 1000000100000002 with "
        "GAME/CHESS/BLACK. Of 3 conversations 2 were ended by one side, 1 of these cancelled."
    )


def test_subscribers_in_words() -> None:
    far = {"label": "NEWS", "reader": "READER (R1)", "lag_publications": 2, "lag_seconds": 60.0}
    fine = Topics(publications=3, subscribers=1)
    behind = Topics(publications=3, subscribers=2, behind=1, timed_out=1, farthest=far)

    assert _said(replace(NOTHING, topics=fine))["topics"] == (
        "1 durable subscriber has acknowledged all that was published, 3 stored publications."
    )
    assert _said(replace(NOTHING, topics=behind))["topics"] == (
        "1 of 2 durable subscribers is behind. The farthest is READER (R1) of the topic NEWS: 2 publications, "
        "the oldest committed 1 min ago. 1 publication timed out before every subscriber had acknowledged."
    )


def test_the_page_says_of_how_many_the_time_in_each_status_is_known(tmp_path: Path) -> None:
    told = {0: "No unit of work here has a persistent status", 2: "2 of 5 units of work have", 5: "All units of work"}
    for count, words in told.items():
        text = _page(tmp_path / str(count), replace(NOTHING, units=replace(UNITS, with_status=count)))

        assert words in text
        assert "Without one, a unit of work that a receiver has is still ACCEPTED" in text


def test_the_page_tells_of_starts_and_of_values_that_are_no_records(tmp_path: Path) -> None:
    start = {"broker_id": EVIL, "database": DATABASE, "ETBC": 1, "ETBH": 2, "ETBT": 0, "last": START}

    text = _page(tmp_path, replace(NOTHING, units=UNITS, starts=[start], unreadable=3, newer=1))

    assert "1 cold start and 2 hot starts; the last one a hot start on 2026-11-21 15:04:00 UTC." in text
    assert "3 values under keys of the broker are damaged or no record of the broker, 1 of them of a newer" in text
    assert EVIL not in text
    assert escaped("\u202egnp.exe") in text


def test_a_service_whose_units_of_work_are_all_of_one_kind_has_one_part_in_its_bar(tmp_path: Path) -> None:
    row = {**SERVICE, "units": 1, "waiting": 0, "uncommitted": 0, "failed": 0}

    text = _page(tmp_path, replace(NOTHING, units=replace(UNITS, services=Ranked([row], 1))))

    assert 'aria-label="100 % processed"' in text
