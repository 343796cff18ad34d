"""From a report's tables to figures and series, the axes of the plots, and how figures are worded."""

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="not installed: pip install -e '.[parquet]'")

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.plots import BARS_MAX
from oms_journal.analysis.report.drawing.scales import DAY, SECOND, Buckets, Durations, Span, buckets, linear
from oms_journal.analysis.report.facts import Facts, Scope
from oms_journal.analysis.report.sections.contents import sections
from oms_journal.analysis.report.sections.disk import put_together
from oms_journal.analysis.report.sections.over_time import COLOURS
from oms_journal.analysis.report.sections.verdicts import plain
from oms_journal.analysis.report.tables import Tables
from tests.support.journals import report_tables
from tests.support.journals.report_tables import DATABASE, Told, World

COUNTS = ("added", "delivered", "deleted", "undelivered")
START = datetime(2026, 11, 18, 12, tzinfo=UTC)
HOURS = Buckets(wording.microseconds(START), 3600 * SECOND, 4)
WORLD = World(queues=("a", "b"), files=3, pieces=HOURS)


def _told(folder: Path, **rows: list[dict[str, Any]]) -> Told:
    told = {name: [{"database": DATABASE, **row} for row in each] for name, each in rows.items()}
    return report_tables.told(
        report_tables.write(folder, told), WORLD, first_time=START, last_time=START + timedelta(hours=4)
    )


def _at(hour: float) -> datetime:
    return START + timedelta(hours=hour)


def test_the_backlog_stays_between_its_rows_and_begins_with_what_came_before(tmp_path: Path) -> None:
    backlog = [
        {"queue": "a", "bucket": _at(-5), "undelivered": 7},
        {"queue": "a", "bucket": _at(1), "undelivered": 9},
        {"queue": "a", "bucket": _at(3), "undelivered": 0},
        {"queue": "b", "bucket": _at(2), "undelivered": 4},
    ]

    told = _told(tmp_path, backlog=backlog)

    assert told.series("Undelivered messages") == {"a": [7, 9, 9, 0], "b": [0, 0, 4, 4]}


def test_rates_are_by_the_second_and_what_lies_outside_of_the_period_is_left_out(tmp_path: Path) -> None:
    rate: list[dict[str, Any]] = [
        {"queue": "a", "bucket": _at(0), "operation": "ADD", "operations": 3600, "bytes": 7200},
        {"queue": "a", "bucket": _at(0), "operation": "DELIVER", "operations": 1800, "bytes": 7200},
        {"queue": "b", "bucket": _at(3), "operation": "DELETE", "operations": 7200, "bytes": 1},
        {"queue": None, "bucket": _at(3), "operation": "PUT", "operations": 360, "bytes": 5},
        {"queue": "a", "bucket": _at(-1), "operation": "ADD", "operations": 10**9, "bytes": 10**9},
    ]

    told = _told(tmp_path, rate=rate, lifecycle=[{"queue": name} | dict.fromkeys(COUNTS, 0) for name in "ab"])

    assert told.series("Operations") == {"a": [1.5, 0, 0, 0], "b": [0, 0, 0, 2], "keys (PUT, DROP)": [0, 0, 0, 0.1]}
    assert told.series("Payload added") == {"a": [2, 0, 0, 0]}
    assert told.series("In and out") == {"added": [1, 0, 0, 0], "delivered or deleted": [0.5, 0, 0, 2]}
    figures = told.section("traffic").figures
    assert (figures["count"], figures["added_bytes"]) == (12_960, 7200)
    assert figures["peak"] == pytest.approx(2.1)
    assert figures["peak_at"] == "2026-11-18 15:00"
    assert told.said()["traffic"].endswith("The busiest queue, b, has 56 % of all.")


def test_queues_without_a_colour_are_added_up(tmp_path: Path) -> None:
    rate: list[dict[str, Any]] = [
        {"queue": f"q{number}", "bucket": _at(number % 4), "operation": "ADD", "operations": 3600 * number, "bytes": 0}
        for number in range(1, 21)
    ]

    told = _told(tmp_path, rate=rate)

    rows = [row for row in told.drawn("Operations") if not row["waits"]]
    assert [row["label"] for row in rows] == [*(f"q{number}" for number in range(20, 12, -1)), "12 other queues"]
    assert [row["colour"] for row in rows] == [*COLOURS, "other"]
    assert sum(rows[-1]["values"]) == sum(range(1, 13))


def test_a_queue_without_a_colour_has_a_series_that_waits_to_be_chosen(tmp_path: Path) -> None:
    rate: list[dict[str, Any]] = [
        {"queue": f"q{number:02}", "bucket": _at(1), "operation": "ADD", "operations": 3600 * (50 - number), "bytes": 0}
        for number in range(40)
    ]

    told = _told(tmp_path, rate=rate)

    waiting = {row["queue"]: row for row in told.drawn("Operations") if row["waits"]}
    assert list(waiting) == [f"q{number:02}" for number in range(8, 24)]
    assert waiting["q08"]["values"] == [0, 42, 0, 0]
    directions = told.drawn("In and out")
    assert [row["queue"] for row in directions] == [None, *(f"q{number:02}" for number in range(24))]
    assert {row["label"] for row in directions} == {"added"}


def test_latencies_over_time_have_a_line_for_each_queue_and_a_gap_where_nothing_was_delivered(tmp_path: Path) -> None:
    rows = [
        {"queue": queue, "bucket": _at(hour), "messages": 5, "p50_seconds": half, "p90_seconds": 2 * half}
        | {"p99_seconds": 3 * half, "max_seconds": 9.0, "rank_error": error}
        for queue, hour, half, error in (("a", 0, 0.5, 0.0), ("a", 2, 0.25, 0.001), ("b", 1, 8.0, 0.0))
    ]
    backlog = [{"queue": name, "bucket": _at(0), "undelivered": 1} for name in "ab"]

    told = _told(tmp_path, latency_over_time=rows, backlog=backlog)

    assert told.series("p50 over time") == {"a": [0.5, None, 0.25, None], "b": [None, 8, None, None]}
    assert told.series("p99 over time")["a"] == [1.5, None, 0.75, None]
    [note] = [part for part in told.section("delays").parts if "logarithmic" in part]
    assert "A p99 lies between p98.9 and p99.1" in note


def test_why_messages_were_deleted_is_told(tmp_path: Path) -> None:
    row = dict.fromkeys(COUNTS, 0) | {"queue": "a", "added": 9, "deleted": 9}

    both = _told(tmp_path / "both", lifecycle=[row | {"expired": 5, "dead_lettered": 4}])
    one = _told(tmp_path / "one", lifecycle=[row | {"expired": 1, "dead_lettered": 0}])

    assert both.said()["stuck"] == (
        "Nothing waits: all 9 messages were delivered or deleted. "
        "9 messages were deleted: 5 had expired and 4 moved to the dead letters. A message may be both."
    )
    assert one.said()["stuck"].endswith(" 9 messages were deleted: 1 had expired.")


def test_payloads_that_came_again_a_few_times_are_counted_and_not_listed(tmp_path: Path) -> None:
    rows = [
        {"kind": "payload", "queue": "a", "hash": times, "messages": times, "first_message": times}
        | {"first_time": START, "last_time": START, "same_payloads": True}
        for times in (2, 9, 10, 30)
    ]

    told = _told(tmp_path, duplicates=rows)

    assert told.said()["twice"] == (
        "38 messages have the payload of an earlier one of the same queue, at most 1 h before it: of payloads that "
        "came 10 times or more. 9 messages have a payload that came again, but less than 10 times: see the table "
        "`duplicates`."
    )
    [listed] = told.section("twice").parts
    assert listed.count("<tr") == 1 + 2
    assert told.section("twice").figures["by_payload_seldom"] == 9


def test_a_queue_has_the_same_colour_in_every_drawing(tmp_path: Path) -> None:
    told = report_tables.told(report_tables.write(tmp_path, report_tables.invented()))

    colours: dict[str, set[str]] = {}
    for title in ("Operations", "Payload added", "Undelivered messages", "p50 over time", "p99 over time"):
        for row in told.drawn(title):
            colours.setdefault(row["label"], set()).add(row["colour"].split()[0])

    assert all(len(found) == 1 for found in colours.values())


def test_the_time_to_half_of_all_messages_is_found_within_a_bin(tmp_path: Path) -> None:
    bins = [
        {"queue": "a", "from_seconds": 1.0, "to_seconds": 10.0, "messages": 50},
        {"queue": "b", "from_seconds": 10.0, "to_seconds": 100.0, "messages": 100},
        {"queue": "b", "from_seconds": 100.0, "to_seconds": 1000.0, "messages": 50},
    ]

    delays = _told(tmp_path, latency_histogram=bins).section("delays").figures

    assert delays["half_within"] == pytest.approx(10 ** (1 + 50 / 100))
    assert delays["most_within"] == pytest.approx(10 ** (2 + 48 / 50))


def test_the_time_to_half_of_all_messages_is_none_that_no_queue_has(tmp_path: Path) -> None:
    bins = [{"queue": name, "from_seconds": 0.9, "to_seconds": 1.2, "messages": 50} for name in "ab"]
    lifecycle = [
        {"queue": name, "p50_seconds": half, "p90_seconds": half, "p99_seconds": most, **dict.fromkeys(COUNTS, 50)}
        for name, half, most in (("a", 0.91, 0.92), ("b", 1.01, 1.02))
    ]

    delays = _told(tmp_path, latency_histogram=bins, lifecycle=lifecycle).section("delays").figures

    assert 0.91 <= (delays["half_within"] or 0) <= 1.01
    assert delays["most_within"] == 1.02


def test_commits_of_several_databases_are_put_together(tmp_path: Path) -> None:
    row = {"bucket": _at(1), "writes": 10, "commits": 30, "operations": 60, "commits_per_write_max": 5}
    rows = [
        {**row, "operations_per_commit_max": 4, "gap_p99_seconds": 1.0, "gap_max_seconds": 2.0},
        {**row, "database": "ff" * 16, "operations_per_commit_max": 9, "gap_p99_seconds": 0.5, "gap_max_seconds": 3.0},
    ]

    told = _told(tmp_path, commits=rows)

    commits = told.section("commits").figures
    assert (commits["writes"], commits["commits"], commits["operations"]) == (20, 60, 120)
    assert (commits["operations_most"], commits["commits_most"], commits["longest_gap"]) == (9, 5, 3.0)
    assert told.series("Operations a commit") == {"largest": [0, 9, 0, 0], "mean": [0, 2, 0, 0]}
    assert told.series("Commits a write") == {"largest": [0, 5, 0, 0], "mean": [0, 3, 0, 0]}


def test_very_many_files_are_drawn_together_and_none_of_their_bytes_is_lost(tmp_path: Path) -> None:
    world = World(queues=("a",), files=1001, pieces=HOURS)
    rows = Tables(report_tables.write(tmp_path, report_tables.invented(world)).directory).read("retention").to_pylist()
    for row in rows:
        row |= {"label": str(row["sequence"]), "is_kept": False}

    bars = put_together(rows, BARS_MAX)

    assert len(bars) == 201
    for name in ("bytes", "live_bytes", "dead_bytes"):
        assert sum(bar[name] for bar in bars) == sum(row[name] for row in rows)
    assert bars[0]["label"] == "12 to 16"


def test_the_first_rows_are_found_in_any_number_of_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oms_journal.analysis.report.tables.BATCH_ROWS", 7)
    rows: list[dict[str, Any]] = [
        {"kind": "payload", "messages": number * 37 % 101, "first_message": number} for number in range(100)
    ]
    tables = report_tables.write(tmp_path, {"duplicates": rows})

    found = tables.first("duplicates", {"messages": "descending", "first_message": "ascending"}, 5)

    assert [row["messages"] for row in found] == [100, 99, 98, 97, 96]
    assert tables.count_by("duplicates", "kind") == {"payload": 100}
    assert tables.sum_by("duplicates", "kind", "messages") == {"payload": sum(row["messages"] for row in rows)}


def test_commits_that_share_writes_and_commits_that_do_not_are_told_apart(tmp_path: Path) -> None:
    most = {"commits_per_write_max": 9, "operations_per_commit_max": 3, "gap_max_seconds": 0.25}

    shared = _told(tmp_path / "1", commits=[{"bucket": _at(0), "writes": 10, "commits": 50, "operations": 75, **most}])
    alone = _told(tmp_path / "2", commits=[{"bucket": _at(0), "writes": 50, "commits": 50, "operations": 75, **most}])

    assert shared.said()["commits"] == (
        "Yes: 5 commits share a write to the device on average, 9 at the most. A commit carries 1.5 operations on "
        "average, 3 at the most. The longest pause between two writes was 250 ms."
    )
    assert alone.said()["commits"].startswith("It has little to do: nearly every commit is written alone")


def test_losses_are_told_by_what_they_did(tmp_path: Path) -> None:
    def lost(effect: str, operations: int) -> dict[str, Any]:
        return {"queue": "a", "operation": "ADD", "effect": effect, "operations": operations, "bytes": 0}

    damage = {"file": "f", "sequence": 1, "start": 100, "end": 1124, "reason": "why"}
    told = _told(
        tmp_path,
        losses_by_queue=[lost("message lost", 1), lost("undelivered again", 2), lost("none", 3)],
        damage=[{**damage, "kind": "gap"}, {**damage, "kind": "torn"}],
    )

    assert told.said()["lost"] == (
        "1 message is lost: only an archive holds it. 2 messages that had ended are undelivered again. "
        "3 operations only in archives made no difference. 1 range of 1 file (1.0 KiB) cannot be read any more. "
        "1 write was cut short by a crash before anybody was promised anything."
    )


def test_payloads_that_do_not_match_are_told_from_ranges_that_cannot_be_read(tmp_path: Path) -> None:
    damage = {"file": "f", "sequence": 1, "start": 100, "end": 100, "reason": "why"}

    one = _told(tmp_path / "one", damage=[{**damage, "kind": "damaged"}])
    both = _told(
        tmp_path / "both",
        damage=[
            {**damage, "kind": "damaged"},
            {**damage, "kind": "damaged", "start": 7, "end": 7},
            {**damage, "kind": "missing", "start": 0, "end": 0},
        ],
    )

    assert one.said()["lost"] == "1 payload or value does not match the checksum any more."
    assert both.said()["lost"] == (
        "1 range of 1 file cannot be read any more. 2 payloads or values do not match the checksum any more."
    )
    assert {told.section("lost").verdict.tone for told in (one, both)} == {"bad"}


def test_losses_that_made_no_difference_are_no_alarm(tmp_path: Path) -> None:
    row = {"queue": "a", "operation": "ADD", "effect": "already ended", "operations": 3, "bytes": 0}

    told = _told(tmp_path, losses_by_queue=[row]).section("lost").verdict

    assert told.tone == "good"
    assert plain(told.sentence).startswith("Nothing that was promised is lost.")


def test_archives_of_what_was_late_are_told_and_are_no_alarm(tmp_path: Path) -> None:
    tables = report_tables.write(tmp_path / "late", {})
    scope = Scope(paths=("x",), made_at=START)
    facts = Facts(scope=scope, buckets=buckets(0, 1, 2), window=timedelta(hours=1), late_archives=2)

    [told] = [each.verdict for each in sections(tables, facts) if each.verdict.question.anchor == "lost"]

    assert told.tone == "good"
    assert plain(told.sentence) == (
        "Nothing that was promised is lost. "
        "2 archives keep what nobody was promised: it came too late, or was in a file's blocks before it."
    )


@given(st.integers(-(10**15), 10**16), st.integers(0, 10**16), st.integers(2, 300))
def test_buckets_cover_the_time_and_are_not_too_many(first: int, span: int, count_max: int) -> None:
    pieces = buckets(first, first + span, count_max)

    assert 1 <= pieces.count <= count_max
    assert pieces.start <= first
    assert pieces.start + pieces.count * pieces.width > first + span
    assert pieces.start % pieces.width == 0
    assert len(pieces.ticks()) <= 10
    assert len(pieces.texts()) == pieces.count


def test_all_of_the_time_that_a_journal_can_tell_has_an_axis() -> None:
    first = wording.microseconds(datetime(1, 1, 1, tzinfo=UTC))
    last = wording.microseconds(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))

    pieces = buckets(first, last, 240)

    assert 200 < pieces.count <= 240
    assert len(pieces.texts()) == pieces.count
    assert len(pieces.ticks()) <= 10


def test_days_are_labelled_before_hours_where_there_is_little_room() -> None:
    first = wording.microseconds(START)

    ticks = buckets(first, first + 3 * DAY, 240).ticks()

    assert [tick.text for tick in ticks if not tick.is_minor] == ["Nov 19", "Nov 20", "Nov 21"]


@example(5e-324, False, False)
@given(st.floats(0, 1e15), st.booleans(), st.booleans())
def test_an_axis_reaches_the_largest_value_in_a_few_steps(largest: float, binary: bool, whole: bool) -> None:
    axis = linear(largest, wording.short_number, binary=binary, whole=whole)

    assert axis.top >= largest * (1 - 1e-9)
    assert 2 <= len(axis.ticks) <= 6
    assert axis.ticks[0].at == 0
    assert axis.ticks[-1].at == 1
    assert 0 <= axis.at(largest) <= 1


@pytest.mark.parametrize(("low", "high"), [(1e-6, 1e-5), (1e-6, 1e8), (0.3, 0.4), (5.0, 4000.0)])
def test_a_scale_of_durations_has_few_labels_within_it(low: float, high: float) -> None:
    axis = Durations(low, high)

    assert len(axis.ticks()) <= 5
    assert all(0 <= tick.at <= 1 for tick in axis.ticks())
    assert (axis.at(low / 2), axis.at(low), axis.at(high), axis.at(2 * high)) == (0, 0, 1, 1)


@pytest.mark.parametrize(
    ("span", "texts"),
    [
        (Span(-60, 180, 60, str), ["-60", "0", "60", "120", "180"]),
        (Span(-7, 12, 5, str), ["-5", "0", "5", "10"]),
        (Span(1, 4, 5, str), []),
    ],
)
def test_a_span_has_a_tick_at_each_whole_step_and_holds_what_lies_outside_at_its_ends(
    span: Span, texts: list[str]
) -> None:
    ticks = span.ticks()

    assert [tick.text for tick in ticks] == texts
    assert all(0 <= tick.at <= 1 for tick in ticks)
    assert (span.at(span.low - 1), span.at(span.low), span.at(span.high), span.at(span.high + 1)) == (0, 0, 1, 1)
    assert span.at((span.low + span.high) / 2) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.0, "0 s"), (1e-6, "1 µs"), (0.000_999_9, "1 ms"), (0.0125, "12.5 ms"), (0.9999, "1 s"), (59.9, "59.9 s")),
        *((59.99, "1 min"), (90, "1 min 30 s"), (3599.6, "1 h"), (86_400 * 3 + 3600 * 4, "3 d 4 h"), (None, "—")),
        (-2.0, "−2 s"),
    ],
)
def test_durations_are_worded_in_two_units_at_the_most(seconds: float | None, text: str) -> None:
    assert wording.duration(seconds) == text


@given(st.floats(0, 1e12))
def test_a_short_duration_has_one_unit(seconds: float) -> None:
    assert len(wording.short_duration(seconds).split()) == 2


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 0, "0 %"),
        (1, 10**6, "< 0.1 %"),
        (999_999, 10**6, "> 99.9 %"),
        (1, 3, "33 %"),
        (5, 100, "5 %"),
        (1, 8, "12 %"),
    ],
)
def test_a_share_is_never_said_to_be_none_or_all_where_it_is_not(part: float, whole: float, text: str) -> None:
    assert wording.share(part, whole) == text


@given(st.floats(0.001, 1e15))
def test_short_numbers_are_short(value: float) -> None:
    text = wording.short_number(value)

    assert len(text) <= 8
    assert math.isclose(_read(text), value, rel_tol=0.005, abs_tol=1e-9) or value >= 1e15 - 1


def _read(text: str) -> float:
    scale = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(text[-1], 1.0)
    return float(text.rstrip("kMGT")) * scale
