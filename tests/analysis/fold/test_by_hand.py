"""Small journals with the answers written out, a case a database, so that one fold answers many of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from oms_journal.analysis.fold.asked import Asked
from oms_journal.analysis.fold.local import answers
from tests.analysis.by_hand import (
    S,
    T,
    add,
    by_database,
    delete,
    deliver,
    hash_of,
    moved,
    named,
    of,
    put,
    written,
)
from tests.support.journals.plain_rows import Answer, Row, plain_rows


def answer(question: str, directory: Path, rows: Iterable[Row], *, now: int = T, **asked: Any) -> Answer:
    """Return what the fold answers of these operations."""
    paths = written(directory, rows)
    return named(plain_rows(answers(paths, Asked(questions=frozenset((question,)), **asked), now=now)[question]))


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


def test_lifecycle_counts_each_message_once(tmp_path: Path) -> None:
    found = answer("lifecycle", tmp_path, LIFECYCLES, now=T + 105 * S)

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


def test_latencies_lie_in_their_bins(tmp_path: Path) -> None:
    waits = {1: 0.0, 2: 0.000001, 3: 0.000009, 4: 0.00001, 5: 1.0, 6: 3.0, 7: 999.0}
    rows = [*[add(number, 0) for number in waits], *[deliver(number, waited) for number, waited in waits.items()]]

    found = answer("latency_histogram", tmp_path, rows, bins_a_decade=2)

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


def test_rate_counts_what_came_and_went(tmp_path: Path) -> None:
    found = answer("rate", tmp_path, TRAFFIC, every=S)

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


def test_backlog_is_what_is_undelivered_at_the_end_of_a_bucket(tmp_path: Path) -> None:
    found = answer("backlog", tmp_path, TRAFFIC, every=S)

    assert {
        database: [((bucket - T) / S, *rest) for bucket, *rest in rows]
        for database, rows in by_database(found, "bucket", "undelivered", "undelivered_bytes").items()
    } == {
        "plain": [(0, 2, 15), (1, 2, 15), (4, 1, 10)],
        "moved": [(0, 1, 10), (1, 2, 20), (9, 1, 10)],
        "begins late": [(1, 1, 0), (2, 1, 10)],
        "clock set back": [(5, 0, 0)],
    }


def test_commits_that_went_out_together_are_one_write(tmp_path: Path) -> None:
    rows = [
        *of("grouped", add(1, 0, commit=1), add(2, 0, commit=2), add(3, 0, commit=2), add(4, 0.4, commit=3, length=70)),
        *of("grouped", moved(1, 0, 5, commit=4), put("k", 5, commit=4, sequence=2), deliver(2, 5.5, commit=5)),
        *of("set back", add(1, 9, commit=1), add(2, 8, commit=2), add(3, 8.5, commit=3)),
    ]

    found = answer("commits", tmp_path, rows, every=S)

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
        "grouped": [(T, 0.4, 0.4, 0.4), (T + 5 * S, 0.5, 4.6, 4.6)],
        "set back": [(T + 8 * S, 0.0, 0.5, 0.5), (T + 9 * S, None, None, None)],
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


def test_duplicates_are_what_was_added_twice(tmp_path: Path) -> None:
    found = answer("duplicates", tmp_path, DUPLICATES, window=10 * S)

    columns = ("kind", "messages", "commits", "same_payloads", "first_message", "last_message")
    assert by_database(found, *columns) == {
        "sent again": [("producer", 4, 2, True, 1, 7)],
        "used again": [("producer", 2, 2, False, 1, 2)],
        "only moved": [("producer", 3, 2, False, 1, 3)],
        "payloads": [("payload", 2, None, True, 4, 5), ("payload", 3, None, True, 1, 3)],
    }
    times = by_database(found, "producer", "hash", "length", "first_time", "last_time")
    assert times["sent again"] == [("p", None, None, T, T + 99 * S)]
    seven = hash_of(7, 10)
    assert times["payloads"] == [(None, seven, 10, T, T + 20 * S), (None, seven, 10, T + 30 * S + S // 2, T + 40 * S)]
