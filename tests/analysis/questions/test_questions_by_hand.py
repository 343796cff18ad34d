"""Small journals with the answers written out, a case a database, so that one query answers many of them."""

import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis import questions
from oms_journal.journal.format.headers import FRAMES_AT
from tests.broker.admin import broker_questions
from tests.support.journals.plain_rows import Answer, File, Row, answer, files_frame, frame, moment
from tests.support.sweeps import a_sample

S = 1_000_000  # a second
SECOND = timedelta(seconds=1)
T = 1_700_000_000 * S  # when the journals begin


def add(number: int, at: float, *, queue: str = "q", length: int = 10, **more: Any) -> Row:
    """Return the ADD of a message so many seconds after the beginning."""
    time = T + round(at * S)
    known = {"commit": number, "hash": 1000 + number, "first_time": time}
    return Row(operation="ADD", message=number, queue=queue, time=time, length=length, **(known | more))


def moved(number: int, first: float, at: float, **more: Any) -> Row:
    """Return the ADD that compaction wrote of a message."""
    return add(number, at, **({"sequence": 2, "moved": True, "first_time": T + round(first * S), "commit": 900} | more))


def deliver(number: int, at: float, *, operation: str = "DELIVER", queue: str = "q", **more: Any) -> Row:
    """Return the end of a message so many seconds after the beginning."""
    known = {"commit": 100 + number, "sequence": 2, "time": T + round(at * S)}
    return Row(operation=operation, message=number, queue=queue, **(known | more))


def delete(number: int, at: float, **more: Any) -> Row:
    return deliver(number, at, operation="DELETE", **more)


def put(key: str, at: float, value: int | None = 1, **more: Any) -> Row:
    """Return the PUT of a key, or, without a value, its DROP."""
    known: dict[str, Any] = {"operation": "PUT", "length": 8, "hash": value} if value else {"operation": "DROP"}
    where: dict[str, Any] = {"key": key, "commit": 200, "time": T + round(at * S)}
    return Row(**(where | known | more))


def of(database: str, *rows: Row) -> list[Row]:
    """Return the operations as those of a database."""
    return [_in(database, row) for row in rows]


def _in(database: str, row: Row) -> Row:
    return Row(**{name: getattr(row, name) for name in row.__slots__} | {"database": database})


def by_database(found: Answer, *columns: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return the chosen columns of an answer's rows, in order, by database."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for row in found:
        rows.setdefault(row["database"], []).append(tuple(row[name] for name in columns))
    return {database: sorted(each, key=str) for database, each in rows.items()}


SLOW = [
    *[add(number, number) for number in range(1, 6)],
    *[deliver(number, number + waited) for number, waited in ((1, 1), (2, 2), (3, 3), (4, 10), (5, -2))],
]
LIFECYCLES = [
    *of("slow", *SLOW),  # the clock was set back before the last one was delivered
    *of("stuck", add(7, 5), add(8, 3), delete(9, 4)),
    *of("moved", moved(3, 1, 50, length=30), deliver(3, 61), moved(4, 2, 50), add(4, 2)),
    *of("queues", add(1, 0, queue="a b"), add(2, 0, queue="a\nb"), deliver(1, 0.000009, queue="a b")),
]


def test_lifecycle_counts_each_message_once(spark: SparkSession) -> None:
    found = answer(questions.lifecycle(frame(spark, LIFECYCLES), now=moment(T + 105 * S)))

    counts = ("queue", "added", "added_before", "delivered", "deleted", "undelivered", "undelivered_bytes")
    assert by_database(found, *counts) == {
        "slow": [("q", 5, 0, 5, 0, 0, 0)],
        "stuck": [("q", 2, 1, 0, 1, 2, 20)],
        "moved": [("q", 2, 0, 1, 0, 1, 10)],
        "queues": [("a b", 1, 0, 1, 0, 0, 0), ("a\nb", 1, 0, 0, 0, 1, 10)],
    }
    times = ("p50_seconds", "p90_seconds", "p99_seconds", "max_seconds", "oldest", "oldest_added", "oldest_age_seconds")
    assert by_database(found, *times) == {
        "slow": [(2.0, 10.0, 10.0, 10.0, None, None, None)],
        "stuck": [(None, None, None, None, 7, T + 5 * S, 100.0)],  # the lowest number, as `oms stats` has it
        "moved": [(60.0, 60.0, 60.0, 60.0, 4, T + 2 * S, 103.0)],
        "queues": [(9e-6, 9e-6, 9e-6, 9e-6, None, None, None), (None, None, None, None, 2, T, 105.0)],
    }


@pytest.mark.whole
def test_exact_percentiles_lie_between_two_ranks(spark: SparkSession) -> None:
    found = answer(questions.lifecycle(frame(spark, of("slow", *SLOW)), now=moment(0), exact=True))

    # of 0, 1, 2, 3 and 10 seconds
    [(p50, p90, p99)] = by_database(found, "p50_seconds", "p90_seconds", "p99_seconds")["slow"]
    assert (p50, p90, p99) == (2.0, pytest.approx(3 + 0.6 * 7), pytest.approx(3 + 0.96 * 7))


@pytest.mark.whole
def test_approximate_percentiles_are_off_by_few_ranks(spark: SparkSession) -> None:
    count = 200_000
    wait = F.when(F.col("is_end"), F.col("id") * 7919 % count).otherwise(0)  # each of 0 to count - 1 once
    rows = spark.range(count).crossJoin(spark.range(2).select((F.col("id") == 1).alias("is_end")))
    time = F.timestamp_micros(F.lit(T) + wait)
    many = rows.select(
        F.lit("d1").alias("database"),
        F.lit("q").alias("queue"),
        F.lit(1).alias("sequence"),
        F.lit(1).alias("commit"),
        F.when(F.col("is_end"), "DELIVER").otherwise("ADD").alias("operation"),
        F.col("id").alias("message"),
        time.alias("time"),
        F.when(~F.col("is_end"), time).alias("first_time"),
        F.lit(False).alias("moved"),
        *[F.lit(None).cast("long").alias(name) for name in ("length", "hash")],
        F.lit(None).cast("string").alias("producer"),
    )

    [row] = answer(questions.lifecycle(many))

    assert (row["added"], row["delivered"], row["max_seconds"]) == (count, count, (count - 1) / S)
    for share, name in ((0.5, "p50_seconds"), (0.9, "p90_seconds"), (0.99, "p99_seconds")):
        assert row[name] * S == pytest.approx(share * count, abs=count / 10_000 + 1)


def test_latencies_lie_in_their_bins(spark: SparkSession) -> None:
    waits = {1: 0.0, 2: 0.000001, 3: 0.000009, 4: 0.00001, 5: 1.0, 6: 3.0, 7: 999.0}
    rows = [*[add(number, 0) for number in waits], *[deliver(number, waited) for number, waited in waits.items()]]

    found = answer(questions.latency_histogram(frame(spark, rows), bins_a_decade=2))

    edges = by_database(found, "bin", "messages", "from_seconds", "to_seconds")["d1"]
    assert {(place, count) for place, count, _, _ in edges} == {(None, 1), (0, 1), (1, 1), (2, 1), (12, 2), (17, 1)}
    assert {place: (start, end) for place, _, start, end in edges} == {
        None: (0, 1e-6),
        0: (pytest.approx(1e-6), pytest.approx(10**0.5 * 1e-6)),
        1: (pytest.approx(10**0.5 * 1e-6), pytest.approx(1e-5)),
        2: (pytest.approx(1e-5), pytest.approx(10**0.5 * 1e-5)),
        12: (pytest.approx(1), pytest.approx(10**0.5)),
        17: (pytest.approx(10**0.5 * 100), pytest.approx(1000)),
    }


TRAFFIC = [
    *of("plain", add(1, 0.2), add(2, 0.9, length=5), add(3, 1), deliver(1, 1.5), delete(2, 4)),
    *of("moved", moved(1, 0.5, 9), add(2, 1), moved(2, 1, 9), deliver(2, 9.5)),
    *of("begins late", deliver(1, 1), deliver(2, 2), add(3, 2.5)),
    *of("clock set back", add(1, 5), deliver(1, 3)),
    *of("keys", put("k", 0), put("k", 7, moved=True), put("k", 8, None), put("\0engine", 0)),
]


def test_rate_counts_what_came_and_went(spark: SparkSession) -> None:
    found = answer(questions.rate(frame(spark, TRAFFIC), every=SECOND))

    assert {
        database: [((bucket - T) / S, *rest) for bucket, *rest in rows]
        for database, rows in by_database(found, "bucket", "queue", "operation", "operations", "bytes").items()
    } == {
        "plain": [
            (0, "q", "ADD", 2, 15),
            (1, "q", "ADD", 1, 10),
            (1, "q", "DELIVER", 1, 10),
            (4, "q", "DELETE", 1, 5),
        ],
        "moved": [(0, "q", "ADD", 1, 10), (1, "q", "ADD", 1, 10), (9, "q", "DELIVER", 1, 10)],
        "begins late": [(1, "q", "DELIVER", 1, 0), (2, "q", "ADD", 1, 10), (2, "q", "DELIVER", 1, 0)],
        "clock set back": [(3, "q", "DELIVER", 1, 10), (5, "q", "ADD", 1, 10)],
        "keys": [(0, None, "PUT", 1, 8), (8, None, "DROP", 1, 0)],
    }


def test_backlog_is_what_is_undelivered_at_the_end_of_a_bucket(spark: SparkSession) -> None:
    found = answer(questions.backlog(frame(spark, TRAFFIC), every=SECOND))

    assert {
        database: [((bucket - T) / S, *rest) for bucket, *rest in rows]
        for database, rows in by_database(found, "bucket", "undelivered", "undelivered_bytes").items()
    } == {
        "plain": [(0, 2, 15), (1, 2, 15), (4, 1, 10)],
        "moved": [(0, 1, 10), (1, 2, 20), (9, 1, 10)],
        "begins late": [(1, 1, 0), (2, 1, 10)],
        "clock set back": [(5, 0, 0)],
    }


def _files(*sizes: int, database: str = "d1", active: bool = False, retained: int = 0) -> list[File]:
    return [
        File(
            database=database,
            sequence=sequence,
            file=f"omsmsg-{sequence:010}.data",
            bytes=FRAMES_AT + size,  # headers, and what stands behind them
            sealed=not active or sequence < len(sizes),
            retained=sequence <= retained,
        )
        for sequence, size in enumerate(sizes, start=1)
    ]


@pytest.mark.whole
def test_retention_names_what_keeps_each_file(spark: SparkSession) -> None:
    rows = of(
        "pinned",
        *[add(1, 0, sequence=1, queue="dead letters", length=50, properties_length=7), add(2, 1, sequence=1)],
        *[deliver(2, 2), add(3, 2, sequence=2), deliver(3, 3, sequence=3), add(4, 4, sequence=3)],
        *[put("b", 1, sequence=2, offset=9), put("a", 5, sequence=4), put("b", 5, sequence=4), put("b", 6, None)],
        *[put("c", 7, None, sequence=4, offset=8), put("c", 6, sequence=4), put("\0engine", 7, sequence=2)],
    )
    files = _files(1000, 1000, 1000, 1000, 1000, 500, database="pinned", active=True)

    found = answer(questions.retention(frame(spark, rows), files_frame(spark, files), now=moment(T + 60 * S)))

    assert by_database(found, "sequence", "active", "live_bytes", "dead_bytes", "live_messages", "live_keys") == {
        "pinned": [
            (1, False, 57, 5295, 1, 0),
            (2, False, 0, 5352, 0, 0),
            (3, False, 10, 5342, 1, 0),
            (4, False, 0, 5352, 0, 2),
            (5, False, 0, 5352, 0, 0),
            (6, True, 0, 4852, 0, 0),
        ]
    }
    pins = ("sequence", "needed", "pinned_by", "pin_message", "pin_queue", "pin_key", "pin_age_seconds", "pins_files")
    assert by_database(found, *pins)["pinned"] == [
        (1, True, "message", 1, "dead letters", None, 60.0, 2),
        (2, False, None, None, None, None, None, 0),
        (3, True, "message", 4, "q", None, 56.0, 1),
        (4, True, "key", None, None, "a", 55.0, 1),
        (5, False, None, None, None, None, None, 0),
        (6, False, None, None, None, None, None, 0),
    ]
    assert by_database(found, "sequence", "freed_by_compact")["pinned"] == [
        (1, 5352 - 57 - 120),
        (2, 5352),
        (3, 5352 - 10 - 120),
        (4, 5352 - 2 * 300),
        (5, 5352),
        (6, 0),
    ]


@pytest.mark.whole
def test_retention_plans_as_compaction_does(spark: SparkSession) -> None:
    full = [*of("full", add(1, 0, length=800)), *of("half", add(1, 0, length=380)), *of("over", add(1, 0, length=381))]
    many = of("many", *[add(number, 0, length=700, sequence=number) for number in range(1, 9)])
    few = of("few", *[add(number, 0, length=700, sequence=number) for number in range(1, 8)])
    files = [
        *[file for name in ("full", "half", "over") for file in _files(1000, 1000, database=name, active=True)],
        *_files(*[1000] * 8, database="many"),
        *_files(*[1000] * 7, database="few"),
        *_files(1000, 1000, 500, database="away", retained=2),
    ]

    found = answer(questions.retention(frame(spark, full + many + few), files_frame(spark, files), now=moment(T)))

    freed = {
        database: [size for _, size in rows]
        for database, rows in by_database(found, "sequence", "freed_by_compact").items()
    }
    assert freed == {
        "full": [0, 0],
        "half": [4852, 0],
        "over": [0, 0],
        "many": [4532] * 8,
        "few": [0] * 7,
        "away": [4852],  # what clean-up has moved away is not on the disk any more
    }


@pytest.mark.whole
def test_commits_that_went_out_together_are_one_write(spark: SparkSession) -> None:
    rows = [
        *of("grouped", add(1, 0, commit=1), add(2, 0, commit=2), add(3, 0, commit=2), add(4, 0.4, commit=3, length=70)),
        *of("grouped", moved(1, 0, 5, commit=4), put("k", 5, commit=4, sequence=2), deliver(2, 5.5, commit=5)),
        *of("set back", add(1, 9, commit=1), add(2, 8, commit=2), add(3, 8.5, commit=3)),
    ]

    found = answer(questions.commits(frame(spark, rows), every=SECOND, exact=True))

    counts = ("bucket", "writes", "commits", "operations", "moved", "bytes")
    assert {
        database: [((bucket - T) / S, *rest) for bucket, *rest in each]
        for database, each in by_database(found, *counts).items()
    } == {
        "grouped": [(0, 2, 3, 4, 0, 100), (5, 2, 2, 3, 1, 18)],
        "set back": [(8, 2, 2, 2, 0, 20), (9, 1, 1, 1, 0, 10)],
    }
    means = ("commits_per_write", "operations_per_commit", "bytes_per_commit")
    most = ("commits_per_write_max", "operations_per_commit_max", "bytes_per_commit_max")
    assert by_database(found, *means, *most)["grouped"] == [(1, 1.5, 9, 1, 2, 18), (1.5, 4 / 3, 100 / 3, 2, 2, 70)]
    assert by_database(found, "bucket", "gap_p50_seconds", "gap_p99_seconds", "gap_max_seconds") == {
        "grouped": [(T, 0.4, 0.4, 0.4), (T + 5 * S, pytest.approx(2.55), pytest.approx(4.559), 4.6)],
        "set back": [(T + 8 * S, 0.25, pytest.approx(0.495), 0.5), (T + 9 * S, None, None, None)],
    }


DUPLICATES = [
    *of("one commit", *[add(number, 0, commit=1, producer="p") for number in (1, 2, 3)]),
    *of("sent again", *[add(n, 0, commit=1, producer="p", hash=n) for n in (1, 2)]),
    *of("sent again", *[add(n, 99, commit=2, producer="p", hash=n - 5) for n in (6, 7)]),
    *of("used again", add(1, 0, producer="p"), add(2, 0, producer="p")),  # two commits of one write
    *of("moved", add(1, 0, producer="p"), moved(1, 0, 5, producer="p", hash=1001)),
    *of("only moved", moved(1, 0, 5, producer="p"), moved(2, 0, 5, producer="p"), moved(3, 1, 5, producer="p")),
    *of("queues", add(1, 0, producer="p", queue="a"), add(2, 0, producer="p", queue="b")),
    *of("payloads", *[add(n, at, hash=7) for n, at in ((1, 0), (2, 10), (3, 20), (4, 30.5), (5, 40))]),
    *of("lengths", add(1, 0, hash=7, length=1), add(2, 0, hash=7, length=2), moved(2, 0, 5, hash=7, length=2)),
]


@pytest.mark.whole
def test_duplicates_are_what_was_added_twice(spark: SparkSession) -> None:
    found = answer(questions.duplicates(frame(spark, DUPLICATES), window=timedelta(seconds=10)))

    columns = ("kind", "messages", "commits", "same_payloads", "first_message", "last_message")
    assert by_database(found, *columns) == {
        "sent again": [("producer", 4, 2, True, 1, 7)],
        "used again": [("producer", 2, 2, False, 1, 2)],
        "only moved": [("producer", 3, 2, False, 1, 3)],
        "payloads": [("payload", 2, None, True, 4, 5), ("payload", 3, None, True, 1, 3)],
    }
    times = by_database(found, "producer", "hash", "length", "first_time", "last_time")
    assert times["sent again"] == [("p", None, None, T, T + 99 * S)]
    assert times["payloads"] == [(None, 7, 10, T, T + 20 * S), (None, 7, 10, T + 30 * S + S // 2, T + 40 * S)]


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


def _ask(name: str, operations: DataFrame, files: DataFrame) -> DataFrame:
    match name:
        case "comparison" | "losses":
            return questions.QUESTIONS[name](operations, operations)
        case "retention":
            return questions.retention(operations, files)
        case "losses_by_queue":
            return questions.losses_by_queue(questions.losses(operations, operations))
        case _ if name in broker_questions.NAMES:
            return broker_questions.ask(name, operations.withColumn("payload", F.lit(b"")), operations)
        case _:
            return questions.QUESTIONS[name](operations)


@a_sample(3, more=6)
@pytest.mark.parametrize("name", questions.QUESTIONS)
def test_an_empty_journal_has_empty_answers_whose_columns_are_described(spark: SparkSession, name: str) -> None:
    found = _ask(name, frame(spark, []), files_frame(spark, []))

    assert answer(found) == []
    assert all(questions.meanings(found).values())
    told = (inspect.getdoc(questions.QUESTIONS[name]) or "").partition("Columns:\n")[2]
    assert [line.split()[0] for line in told.splitlines()] == found.columns
    assert name in (questions.__doc__ or "")


def test_what_makes_no_sense_is_refused(spark: SparkSession) -> None:
    operations = frame(spark, [])
    refused: dict[str, Callable[[], DataFrame]] = {
        "no time zone": lambda: questions.lifecycle(operations, now=datetime(2024, 1, 1)),  # noqa: DTZ001
        "a microsecond": lambda: questions.rate(operations, every=timedelta(0)),
        "microsecond wide": lambda: questions.backlog(operations, every=-SECOND),
        "at least one bin": lambda: questions.latency_histogram(operations, bins_a_decade=0),
    }
    for reason, ask in refused.items():
        with pytest.raises(ValueError, match=reason):
            ask()


@pytest.mark.whole
def test_ages_are_reckoned_up_to_the_present_by_default(spark: SparkSession) -> None:
    added = datetime.now(UTC) - timedelta(hours=2)
    time = round(added.timestamp() * S)

    [row] = answer(questions.lifecycle(frame(spark, [add(1, (time - T) / S)])))

    assert 7200 <= row["oldest_age_seconds"] < 7200 + 600


def test_latencies_need_one_shuffle_and_no_sorting_of_messages(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    questions.lifecycle(frame(spark, LIFECYCLES)).explain()

    plan = capsys.readouterr().out
    assert plan.count("Exchange") == 2  # to the messages, and to the queues
    assert "HashAggregate" in plan
    assert "Sort" not in plan
    assert "Python" not in plan


@pytest.mark.whole
def test_what_is_asked_twice_can_be_cached_once(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    operations = frame(spark, LIFECYCLES)
    kept = questions.messages(operations).cache()
    try:
        questions.backlog(operations).explain()
    finally:
        kept.unpersist()

    assert "InMemoryTableScan" in capsys.readouterr().out
