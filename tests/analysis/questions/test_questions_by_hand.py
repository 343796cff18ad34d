"""Small journals with the answers written out, a case a database, so that one query answers many of them."""

import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oms_journal import MessageDatabase
from oms_journal.analysis import questions
from oms_journal.analysis.questions import Journals
from tests.analysis.by_hand import add, by_database, delete, deliver, moved, of, put, written
from tests.broker.admin import broker_questions
from tests.support.journals.plain_rows import Row, answer, frame
from tests.support.sweeps import a_sample

SLOW = [*[add(number, number) for number in range(1, 6)], *[deliver(number, number + 1) for number in range(1, 6)]]


HERE = [
    *of("moved", add(1, 0), add(2, 0), put("k", 0, 5), put("gone", 0, 5), put("gone", 1, None, sequence=2)),
    *of("ends", add(1, 0), deliver(1, 1), add(2, 0), add(3, 0), deliver(3, 1)),
    *of("facts", *[add(number, 0) for number in range(1, 7)]),
    *of("keys", put("same", 0, 5), put("other", 0, 5), put("here", 0, 5), put("\0low-water", 0, 5)),
    *of("only here", add(1, 0)),
]
THERE = [
    *of("moved", moved(1, 0, 9, hash=1001), add(2, 0, sequence=7, offset=99, owner=4, commit=77), put("k", 9, 5)),
    *of("ends", add(1, 0), delete(1, 1), add(2, 0), deliver(2, 1), deliver(3, 2)),
    *of("facts", add(1, 0, queue="r"), add(2, 0, hash=5), add(3, 0, length=5), add(4, 0, producer="p"), add(5, 0.5)),
    *of("keys", put("same", 9, 5), put("other", 0, 6), put("there", 0, 5), put("\0low-water", 0, 6)),
]


@pytest.mark.whole
def test_a_comparison_names_what_differs(spark: SparkSession) -> None:
    found = answer(questions.comparison(frame(spark, HERE), frame(spark, THERE)))

    everything = ["length", "hash", "first_time"]
    assert by_database(found, "difference", "message", "key", "facts") == {
        "ends": [
            ("differs", 1, None, ["end"]),
            ("differs", 2, None, ["end", "end_time"]),
            ("differs", 3, None, [*everything, "end_time"]),
        ],
        "facts": [
            ("differs", 1, None, ["queue"]),
            ("differs", 2, None, ["hash"]),
            ("differs", 3, None, ["length"]),
            ("differs", 4, None, ["producer"]),
            ("differs", 5, None, ["first_time"]),
            ("only here", 6, None, []),
        ],
        "keys": [
            ("differs", None, "other", ["hash"]),
            ("only here", None, "here", []),
            ("only there", None, "there", []),
        ],
        "only here": [("only here", 1, None, [])],
    }
    alone = next(row for row in found if row["key"] == "there")
    assert (alone["here"], alone["there"]["hash"], alone["there"]["queue"]) == (None, 5, None)


def archived(row: Row, *, version: int = 1) -> Row:
    """Return the operation as an archive of its data file holds it."""
    named = {"file": f"omsmsg-{row.sequence:010}-v{version:04}.archive"}
    return Row(**{name: getattr(row, name) for name in row.__slots__} | named)


LEFT = [
    *of("add", add(1, 0), moved(2, 0, 5), deliver(3, 9)),
    *of("end", add(1, 0), add(2, 0), deliver(2, 9, commit=300), add(4, 0)),
    *of("key", put("newer", 9, 8, sequence=2), put("older", 0, 7), put("same", 0, 5), put("back", 0, 4)),
    *of("cleaned", add(9, 0, sequence=3)),
]
LOST = [
    *of("add", add(1, 0), add(2, 0), add(3, 0), add(4, 0), add(5, 0), delete(5, 8)),
    *of("end", deliver(1, 1), deliver(2, 1), deliver(3, 1)),
    *of("key", *[put(key, 1, 6, offset=8, commit=201) for key in ("newer", "older", "missing", "\0engine")]),
    *of("key", put("same", 1, 5, offset=8, commit=201), put("back", 1, None, offset=8, commit=201)),
    *of("key", put("missing", 2, 4, offset=16, commit=202)),
    *of("cleaned", add(1, 0), deliver(1, 1, sequence=2)),
    *of("unknown", add(1, 0)),
]


def test_losses_say_what_they_lead_to(spark: SparkSession) -> None:
    twice = [archived(row, version=version) for version in (2, 1) for row in LOST]

    found = questions.losses(frame(spark, LEFT), frame(spark, twice))
    by_queue = answer(questions.losses_by_queue(found))

    rows = answer(found)
    assert by_database(rows, "operation", "message", "key", "effect") == {
        "add": [
            ("ADD", 3, None, "already ended"),
            ("ADD", 4, None, "message lost"),
            ("ADD", 5, None, "already ended"),
            ("DELETE", 5, None, "none"),
        ],
        "end": [
            ("DELIVER", 1, None, "undelivered again"),
            ("DELIVER", 2, None, "ended twice"),
            ("DELIVER", 3, None, "none"),
        ],
        "key": [
            ("DROP", None, "back", "older value"),
            ("PUT", None, "missing", "none"),
            ("PUT", None, "missing", "older value"),
            ("PUT", None, "newer", "none"),
            ("PUT", None, "older", "older value"),
            ("PUT", None, "same", "none"),
        ],
        "unknown": [("ADD", 1, None, "message lost")],
    }
    assert {row["file"][-13:] for row in rows} == {"v0001.archive"}
    assert by_database(by_queue, "queue", "operation", "effect", "operations", "bytes")["add"] == [
        ("q", "ADD", "already ended", 2, 20),
        ("q", "ADD", "message lost", 1, 10),
        ("q", "DELETE", "none", 1, 0),
    ]


OF_JOURNALS = questions.retention.__module__


def _ask(name: str, operations: DataFrame, journals: Journals) -> DataFrame:
    match name:
        case "comparison" | "losses":
            return questions.QUESTIONS[name](operations, operations)
        case "losses_by_queue":
            return questions.losses_by_queue(questions.losses(operations, operations))
        case _ if name in broker_questions.NAMES:
            return broker_questions.ask(name, operations.withColumn("payload", F.lit(b"")), operations)
        case _ if questions.QUESTIONS[name].__module__ == OF_JOURNALS:
            return questions.QUESTIONS[name](journals)
        case _:
            return questions.QUESTIONS[name](operations)


@pytest.fixture
def empty(spark: SparkSession, tmp_path: Path) -> Journals:
    """Return a journal without operations."""
    MessageDatabase.open(tmp_path / "empty").close()
    return Journals(spark, str(tmp_path / "empty"))


@a_sample(3, more=6)
@pytest.mark.parametrize("name", questions.QUESTIONS)
def test_an_empty_journal_has_empty_answers_whose_columns_are_described(
    spark: SparkSession, name: str, empty: Journals
) -> None:
    found = _ask(name, frame(spark, []), empty)

    assert answer(found) == [] or name == "retention"
    assert all(questions.meanings(found).values())
    told = (inspect.getdoc(questions.QUESTIONS[name]) or "").partition("Columns:\n")[2]
    assert [line.split()[0] for line in told.splitlines()] == found.columns
    assert name in (questions.__doc__ or "")


def test_what_makes_no_sense_is_refused(spark: SparkSession, empty: Journals) -> None:
    naive = datetime(2024, 1, 1)  # noqa: DTZ001
    refused: dict[str, Callable[[], DataFrame]] = {
        "no time zone": lambda: questions.lifecycle(empty, now=naive),
        "has no time zone": lambda: questions.counts(Journals(spark, empty.paths, since=naive)),
        "a microsecond": lambda: questions.rate(empty, every=timedelta(0)),
        "microsecond wide": lambda: questions.backlog(empty, every=timedelta(seconds=-1)),
        "at least one bin": lambda: questions.latency_histogram(empty, bins_a_decade=0),
    }
    for reason, ask in refused.items():
        with pytest.raises(ValueError, match=reason):
            ask()


@pytest.mark.whole
def test_ages_are_reckoned_up_to_the_present_by_default(spark: SparkSession, tmp_path: Path) -> None:
    time = datetime.now(UTC) - timedelta(hours=2)
    micros = round(time.timestamp() * 1_000_000)
    [path] = written(tmp_path, [add(1, 0, time=micros, first_time=micros)])

    [row] = answer(questions.lifecycle(Journals(spark, path)))

    assert 7200 <= row["oldest_age_seconds"] < 7200 + 600


def test_messages_need_one_shuffle_and_no_sorting(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    questions.messages(frame(spark, SLOW)).explain()

    plan = capsys.readouterr().out
    assert plan.count("Exchange") == 1
    assert "HashAggregate" in plan
    assert "Sort" not in plan
    assert "Python" not in plan
