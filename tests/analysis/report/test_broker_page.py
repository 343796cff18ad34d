"""What the page says of a broker, on invented tables; where there is none it says nothing."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="not installed: pip install -e '.[parquet]'")

from oms_journal.analysis.report.drawing.markup import escaped
from oms_journal.analysis.report.page import page
from oms_journal.analysis.report.sections.units import FAILED
from tests.support.journals import report_tables
from tests.support.journals.report_tables import BROKER_SCHEMAS, DATABASE, EVIL, LAST, SCHEMAS, Told

OF_BROKER = ("units", "failed", "talks", "topics")
NUMBERS = ("units", "waiting", "uncommitted", "processed", "with_status", *FAILED)
SERVICE: dict[str, Any] = {
    "queue": EVIL,
    **dict.fromkeys(NUMBERS, 0),
    **{"units": 5, "processed": 2, "waiting": 1, "uncommitted": 1, "cancelled": 1},
    **dict.fromkeys(("oldest_age_seconds", "p50_seconds", "p99_seconds"), 90.0),
    "oldest": "1000000100000001",
}
IDLE: dict[str, Any] = SERVICE | {
    **dict.fromkeys(NUMBERS, 0),
    **dict.fromkeys(("oldest_age_seconds", "p50_seconds", "p99_seconds", "oldest")),
}
ATTEMPTS: dict[str, Any] = {"queue": "A/B/C", "attempts": 1, "units": 1, "processed": 1, "waiting": 0, "failed": 0}
TOPIC: dict[str, Any] = {"topic": "NEWS", "publications": 3, "waiting": 0, "timed_out": 0, "subscribers": 1}
READER: dict[str, Any] = {"topic": "NEWS", "user": "READER", "lag_publications": 0, "lag_seconds": 0.0}
TALKS: dict[str, Any] = {
    "service": "GAME/CHESS/BLACK",
    "conversations": 2,
    "open": 0,
    "ended": 2,
    "cancelled": 1,
    "units_mean": 1.5,
}


def told(folder: Path, **rows: list[dict[str, Any]]) -> Told:
    """Return what the page tells of a broker's tables, besides those of a journal with one queue."""
    every: dict[str, list[dict[str, Any]]] = report_tables.invented(report_tables.World(queues=("q",), files=1))
    every |= {name: [{"database": DATABASE, **row} for row in each] for name, each in rows.items()}
    return report_tables.told(report_tables.write(folder, every, {**SCHEMAS, **BROKER_SCHEMAS}))


def said(folder: Path, **rows: list[dict[str, Any]]) -> Mapping[str, str]:
    """Return the answers on the broker, by section."""
    return {name: text for name, text in told(folder, **rows).said().items() if name in OF_BROKER}


def text_of(found: Told) -> str:
    return page(found.facts, found.sections)


def test_where_there_is_no_broker_nothing_is_said_of_one(tmp_path: Path) -> None:
    rows = report_tables.invented(report_tables.World(queues=("q",), files=1))
    found = report_tables.told(report_tables.write(tmp_path, rows))

    assert not found.said().keys() & set(OF_BROKER)
    assert not any(f'id="{anchor}"' in text_of(found) for anchor in OF_BROKER)
    assert "unit of work" not in text_of(found)


def test_a_broker_that_nobody_has_used_yet(tmp_path: Path) -> None:
    none = TOPIC | {"publications": 0, "subscribers": 0}

    assert said(tmp_path, topics=[none]) == {
        "units": "No unit of work has left a trace in the store.",
        "failed": "Nothing: what has ended was processed, and at the first attempt.",
        "talks": "There are no conversations of units of work.",
        "topics": "No durable subscription is there; 0 stored publications.",
    }


def test_without_topics_there_is_no_section_on_them(tmp_path: Path) -> None:
    found = told(tmp_path)

    assert found.said().keys() & set(OF_BROKER) == {"units", "failed", "talks"}
    assert 'id="topics"' not in text_of(found)


def test_units_of_work_in_words(tmp_path: Path) -> None:
    words = said(tmp_path / "one", uow_services=[SERVICE])["units"]

    assert words.startswith(
        "40 % of 5 units of work were processed, 1 waits, 1 ended otherwise and 1 is not committed. "
        "Half of the processed ones took 1 min 30 s from their sender's commit to their receiver's, "
        "99 of 100 1 min 30 s. The oldest that waits was committed 1 min 30 s ago: 1000000100000001 in a "
    )
    assert words.endswith(".")
    fine = SERVICE | {"waiting": 0, "oldest_age_seconds": None}
    several = said(tmp_path / "several", uow_services=[fine, IDLE | {"queue": "A/B/C"}])["units"]
    assert "none waits" in several
    assert "The slowest service is a " in several


@pytest.mark.parametrize(
    ("statuses", "attempts", "words", "tone"),
    [
        (["TIMEOUT"], [], "1 unit of work ended and was not processed: 1 timed out.", "warn"),
        (
            ["BACKEDOUT", "CANCELLED", "CANCELLED"],
            [],
            "3 units of work ended and were not processed: 2 cancelled and 1 backed out.",
            "",
        ),
        (
            [],
            [ATTEMPTS, ATTEMPTS | {"attempts": 0, "units": 9}],
            "1 delivery was attempted in vain, 1 of one unit of work at the most; "
            "1 unit of work was tried again, and 100 % of these processed after all.",
            "",
        ),
    ],
)
def test_failures_in_words(
    tmp_path: Path, statuses: list[str], attempts: list[dict[str, Any]], words: str, tone: str
) -> None:
    failures = [{"queue": "A/B/C", "uowid": f"{place:016}", "status": each} for place, each in enumerate(statuses)]

    found = told(tmp_path, uow_failures=failures, uow_attempts=attempts)

    assert (found.said()["failed"], found.section("failed").verdict.tone) == (words, tone)


def test_conversations_in_words(tmp_path: Path) -> None:
    open_one: dict[str, Any] = {"service": "GAME/CHESS/BLACK", "is_open": True, "waiting": 1, "waiting_replies": 1}
    begun = open_one | {"conv_id": "1000000100000002", "begun": LAST - timedelta(hours=2)}
    later = open_one | {"conv_id": "1000000100000001", "begun": LAST}
    over = begun | {"is_open": False, "begun": LAST - timedelta(hours=9)}
    busy = TALKS | {"conversations": 3, "open": 2}

    assert said(tmp_path / "idle", conversation_services=[TALKS])["talks"] == (
        "None: in 2 conversations nothing waits. Of 2 conversations 2 were ended by one side, 1 of these cancelled."
    )
    assert said(tmp_path / "busy", conversation_services=[busy], conversations=[over, later, begun])["talks"] == (
        "In 2 of 3 conversations something waits. The oldest of them began 2 h ago: 1000000100000002 with "
        "GAME/CHESS/BLACK. Of 3 conversations 2 were ended by one side, 1 of these cancelled."
    )


def test_subscribers_in_words(tmp_path: Path) -> None:
    far = READER | {"token": "R1", "lag_publications": 2, "lag_seconds": 60.0}
    gone = READER | {"user": "GONE", "lag_publications": 9, "lag_seconds": 90.0, "ended": LAST}
    behind = TOPIC | {"subscribers": 2, "timed_out": 1}

    assert said(tmp_path / "fine", topics=[TOPIC], subscribers=[READER, gone])["topics"] == (
        "1 durable subscriber has acknowledged all that was published, 3 stored publications."
    )
    assert said(tmp_path / "behind", topics=[behind], subscribers=[READER, far])["topics"] == (
        "1 of 2 durable subscribers is behind. The farthest is READER (R1) of the topic NEWS: 2 publications, "
        "the oldest committed 1 min ago. 1 publication timed out before every subscriber had acknowledged."
    )


def test_the_page_says_of_how_many_the_time_in_each_status_is_known(tmp_path: Path) -> None:
    words_of = {
        0: "No unit of work here has a persistent status",
        2: "2 of 5 units of work have",
        5: "All units of work",
    }
    for count, words in words_of.items():
        text = text_of(told(tmp_path / str(count), uow_services=[SERVICE | {"with_status": count}]))

        assert words in text
        assert "Without one, a unit of work that a receiver has is still ACCEPTED" in text


def test_the_page_tells_of_starts_and_of_values_that_are_no_records(tmp_path: Path) -> None:
    starts = [
        {"broker_id": EVIL, "checkpoint": mark, "what": what, "time": LAST - timedelta(hours=hours)}
        for mark, what, hours in (("ETBH", "hot start", 0), ("ETBC", "cold start", 2), ("ETBH", "hot start", 1))
    ]

    text = text_of(
        told(tmp_path, uow_services=[SERVICE], broker_starts=starts, broker_records=[{"unreadable": 3, "newer": 1}])
    )

    assert "1 cold start and 2 hot starts; the last one a hot start on 2026-11-21 15:04:00 UTC." in text
    assert "3 values under keys of the broker are damaged or no record of the broker, 1 of them of a newer" in text
    assert EVIL not in text
    assert escaped("\u202egnp.exe") in text


def test_a_service_whose_units_of_work_are_all_of_one_kind_has_one_part_in_its_bar(tmp_path: Path) -> None:
    row = SERVICE | {**dict.fromkeys(NUMBERS, 0), "units": 1, "processed": 1}

    assert 'aria-label="100 % processed"' in text_of(told(tmp_path, uow_services=[row]))
