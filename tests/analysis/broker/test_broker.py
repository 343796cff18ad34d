"""The report on brokers, by Spark and without it, and the questions about them as DataFrames: as plain loops answer."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="not installed: pip install -e '.[analysis]'")

from pyspark.sql import DataFrame, SparkSession

from oms_journal import MessageDatabase
from oms_journal.analysis import questions
from oms_journal.analysis.fold import local
from oms_journal.analysis.report.broker_asking import broker_asked
from oms_journal.analysis.report.journals import Journals, Request, sources
from oms_journal.analysis.report.report import write_report
from oms_journal.broker.queues import ServiceQueue, TopicQueue
from tests.analysis.broker import plain_broker as plain
from tests.support.journals.plain_rows import Answer, assert_same, database_of, moment, plain_rows
from tests.support.journals.random_broker import SERVICES, TOPICS, BrokerWriter
from tests.support.servers.browser import Browser, browser, needs_browser

# The report that they look at takes a minute and more.
pytestmark = pytest.mark.whole

SEEDS = (2, 6)
CLEANED = 2  # the seed of a journal of which the first files are not there
ERASED = 6  # the seed of a journal whose last start was a cold one
TABLES = {
    *("units_of_work", "uow_services", "uow_statuses", "uow_attempts", "uow_failures"),
    *("conversations", "conversation_services", "publications", "subscribers", "topics"),
    *("broker_starts", "broker_records"),
}
ANCHORS = ("units", "failed", "talks", "topics")
QUEUE = str(ServiceQueue(*SERVICES[0]))


@dataclass(frozen=True, slots=True)
class Reported:
    """Journals of several brokers as plain values, and the report on them."""

    spark: SparkSession
    paths: tuple[Path, ...]
    now: int
    traced: list[plain.Traced]
    units: Answer
    published: Answer
    directory: Path
    summary: Any
    told: list[tuple[str, float]]

    def table(self, name: str) -> DataFrame:
        return self.spark.read.parquet((self.directory / name).as_uri())

    def figures(self, anchor: str) -> Any:
        return self.summary["answers"][anchor]["figures"]


@pytest.fixture(scope="module")
def reported(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Reported:
    directory = tmp_path_factory.mktemp("brokers")
    paths: list[Path] = []
    now = 0
    for seed in SEEDS:
        spool, retention = directory / f"spool-{seed}", directory / f"retention-{seed}"
        writer = BrokerWriter(spool, seed, retention=retention)
        writer.write(erases=seed == ERASED)
        paths += [spool] if seed == CLEANED else [spool, retention / database_of(spool)]
        now = max(now, writer.clock.now + 10**9)
    told: list[tuple[str, float]] = []
    request = Request(paths=tuple(map(str, paths)), now=moment(now))
    summary = write_report(spark, request, directory / "out", lambda what, share: told.append((what, share)))
    traced = plain.traced(*paths)
    units, published = plain.units_of_work(traced), plain.publications(traced)
    return Reported(spark, tuple(paths), now, traced, units, published, directory / "out", summary, told)


def asked(request: Request) -> dict[str, pa.Table]:
    """Return what a report tells about brokers, by the names of the tables."""
    found = broker_asked(Journals(local.fold, request, sources(request.paths)), request)
    return {question.name: question.answer() for question in found}


def loaded(spark: SparkSession, *paths: Path) -> tuple[DataFrame, DataFrame]:
    """Return the operations on keys with their values, and all operations."""
    reader = spark.read.format("omsjournal")
    names = [str(path) for path in paths]
    operations = reader.load(names)
    return reader.option("operation", "PUT,DROP").option("payload", "true").load(names), operations


def expected(reported: Reported, *, exact: bool = False) -> dict[str, Answer]:
    """Return what plain loops answer to every question."""
    stays, talks = plain.uow_stays(reported.traced), plain.conversations(reported.units)
    units, published, now = reported.units, reported.published, reported.now
    subscribed = plain.subscribers(reported.traced, published, now=now)
    return {
        "units_of_work": units,
        "uow_services": plain.uow_services(units, now=now, exact=exact),
        "uow_statuses": plain.uow_statuses(units, stays, exact=exact),
        "uow_stays": stays,
        "uow_attempts": plain.uow_attempts(units),
        "uow_failures": plain.uow_failures(units, reported.table("uow_failures").columns),
        "conversations": talks,
        "conversation_services": plain.conversation_services(talks, now=now, exact=exact),
        "publications": published,
        "subscribers": subscribed,
        "topics": plain.topics(published, subscribed, now=now, exact=exact),
        "broker_starts": plain.broker_starts(reported.traced),
        "broker_records": plain.broker_records(reported.traced),
    }


def test_the_tables_are_those_of_plain_loops(reported: Reported) -> None:
    for name, rows in expected(reported).items():
        if name in TABLES:
            assert_same(reported.table(name), rows)


def test_without_spark_the_tables_are_the_same_to_the_row(reported: Reported) -> None:
    request = Request(paths=tuple(map(str, reported.paths)), now=moment(reported.now))

    summary = write_report(None, request, reported.directory.parent / "here")

    assert summary["answers"] == reported.summary["answers"]
    assert summary["tables"] == reported.summary["tables"]
    for name in summary["tables"]:
        here, there = (
            pq.read_table(folder / name) for folder in (reported.directory.parent / "here", reported.directory)
        )
        assert here.equals(there), name


def test_the_questions_as_dataframes_answer_the_same(reported: Reported) -> None:
    keyed, operations = (each.cache() for each in loaded(reported.spark, *reported.paths))
    now = moment(reported.now)
    units, stays = questions.units_of_work(keyed, operations), questions.uow_stays(keyed)
    published, talks = questions.publications(keyed, operations), questions.conversations(units)
    subscribed = questions.subscribers(keyed, published, now=now)
    found = {
        "units_of_work": units,
        "uow_services": questions.uow_services(units, now=now, exact=True),
        "uow_statuses": questions.uow_statuses(units, stays, exact=True),
        "uow_stays": stays,
        "uow_attempts": questions.uow_attempts(units),
        "uow_failures": questions.uow_failures(units),
        "conversations": talks,
        "conversation_services": questions.conversation_services(talks, now=now, exact=True),
        "publications": published,
        "subscribers": subscribed,
        "topics": questions.topics(published, subscribed, now=now, exact=True),
        "broker_starts": questions.broker_starts(keyed),
        "broker_records": questions.broker_records(keyed),
    }

    for name, rows in expected(reported, exact=True).items():
        assert_same(found[name], rows)
        assert all(questions.meanings(found[name]).values())


# The report.


def test_a_brokers_journal_has_tables_of_its_own(reported: Reported) -> None:
    tables = reported.summary["tables"]

    assert TABLES | {"rate", "damage"} <= tables.keys()
    for name in TABLES:
        assert list(tables[name]["columns"]) == reported.table(name).columns
        assert all(tables[name]["columns"].values())
    shares = [share for _, share in reported.told]
    assert shares == sorted(shares)
    assert shares[-1] <= 1
    assert {what for what, _ in reported.told} == tables.keys()


def test_the_figures_are_those_of_plain_loops(reported: Reported) -> None:
    statuses = Counter(unit["status"] for unit in reported.units)
    talks = plain.conversations(reported.units)
    subscribed = plain.subscribers(reported.traced, reported.published, now=reported.now)

    assert reported.figures("units") == {
        "units": len(reported.units),
        "processed": statuses["PROCESSED"],
        "waiting": sum(statuses[status] for status in plain.WAITING),
        "uncommitted": statuses["RECEIVED"],
        "failed": len(plain.uow_failures(reported.units, ())),
        "with_status": sum(unit["has_status"] for unit in reported.units),
    }
    fine = (*plain.WAITING, "PROCESSED", "RECEIVED")
    failed = {status: count for status, count in statuses.items() if status not in fine}
    tried = [unit for unit in reported.units if unit["attempts"]]
    assert reported.figures("failed") == {
        "by_status": failed,
        "attempts": sum(unit["attempts"] for unit in tried),
        "attempts_max": max(unit["attempts"] for unit in tried),
        "tried_again": len(tried),
        "processed_again": sum(unit["status"] == "PROCESSED" for unit in tried),
    }
    assert reported.figures("talks") == {
        "conversations": len(talks),
        "open": sum(talk["is_open"] for talk in talks),
        "ended": sum(talk["state"] != "OPEN" for talk in talks),
        "cancelled": sum(talk["state"] == "EOC_CANCEL" for talk in talks),
    }
    there = [row for row in subscribed if row["ended"] is None]
    assert reported.figures("topics") == {
        "publications": len(reported.published),
        "waiting": sum(row["ended"] is None for row in reported.published),
        "timed_out": sum(row["status"] == "TIMEOUT" for row in reported.published),
        "subscribers": len(there),
        "behind": sum(row["lag_publications"] > 0 for row in there),
    }


def test_the_page_begins_with_the_brokers(reported: Reported) -> None:
    page = (reported.directory / "report.html").read_text(encoding="utf-8")

    places = [page.index(f'id="{anchor}"') for anchor in (*ANCHORS, "stuck")]
    assert places == sorted(places)
    assert page.count("cold start") >= len(SEEDS) + 1, "one was begun cold twice"
    assert "persistent status: of these it is known how long they stayed in each" in page
    assert "BANK/PAY~1MENT~0S/BOOK" in page
    assert "&lt;b&gt;/Übung/a b" in page
    assert "<b>/Übung" not in page


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as started:
        yield started


@needs_browser
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_its_window_and_complains_of_nothing(tab: Browser, reported: Reported, width: int) -> None:
    page = reported.directory / "report.html"

    tab.open(page, width=width)

    assert tab.complaints == []
    assert tab.requests == [page.as_uri()]
    assert tab.run("document.documentElement.scrollWidth") == width
    assert tab.run("[...document.querySelectorAll('section')].every(s => s.scrollWidth <= s.clientWidth)")
    plots = tab.run(_PLOTS)
    assert [(plot["title"], plot["drawn"]) for plot in plots] == [("Units of work that wait", 1), ("Units of work", 3)]
    assert all(plot["width"] > (width - 100) / 2.7 for plot in plots)
    filled = tab.run(_BARS)
    assert 0 < len(filled) <= 12, "more are folded"
    assert filled == pytest.approx([1] * len(filled), abs=0.02)


_PLOTS = """[...document.querySelectorAll('#units figure.chart')].map(figure => ({
    title: figure.querySelector('figcaption').firstChild.data.trim(),
    width: figure.querySelector('.plot svg').getBoundingClientRect().width,
    drawn: [...figure.querySelectorAll('.plot .area, .plot .line')]
        .filter(p => p.getBoundingClientRect().width > 20).length,
}))"""
_BARS = """[...document.querySelectorAll('#units .bar')]
    .filter(bar => bar.getClientRects().length).map(bar => [...bar.children]
    .reduce((sum, part) => sum + part.getBoundingClientRect().width, 0) / bar.getBoundingClientRect().width)"""


@needs_browser
def test_every_table_about_the_brokers_can_be_sorted(tab: Browser, reported: Reported) -> None:
    tab.open(reported.directory / "report.html")

    found = [
        (anchor, *each)
        for anchor in ANCHORS
        for each in tab.run(f"""[...document.querySelectorAll('#{anchor} table')].map(table => {{
            table.querySelector('th button').click();
            return [table.querySelectorAll('th[aria-sort]').length, table.tBodies[0].rows.length > 0];
        }})""")
    ]

    assert found == [(anchor, 1, True) for anchor in ANCHORS for _ in range(2)]


# Periods, queues, and journals of others.


def test_a_period_leaves_out_what_had_ended_before_it_and_what_came_after(reported: Reported) -> None:
    paths = reported.paths[1:]
    [whole] = plain.traced(*paths)
    times = sorted(unit["created"] for unit in plain.units_of_work([whole]))
    since, until = times[len(times) // 2], times[-len(times) // 4]
    request = Request(
        paths=tuple(map(str, paths)),
        now=moment(reported.now),
        since=moment(since),
        until=moment(until),
        queues=(QUEUE,),
    )

    found = plain_rows(asked(request)["units_of_work"])

    told = plain.units_of_work([plain.Traced(whole.database, [step for step in whole.steps if step.time < until])])
    expected = [unit for unit in told if unit["queue"] == QUEUE and (unit["ended"] is None or unit["ended"] >= since)]
    assert {unit["uowid"]: unit["status"] for unit in found} == {unit["uowid"]: unit["status"] for unit in expected}
    assert 0 < len(found) < len(times)


def test_only_topics_whose_queues_are_asked_for_are_told_of(reported: Reported) -> None:
    wanted = str(TopicQueue(TOPICS[1]))
    request = Request(paths=(str(reported.paths[0]),), now=moment(reported.now), queues=(QUEUE, wanted))

    found = plain_rows(asked(request)["publications"])

    assert {row["topic"] for row in found} == {TOPICS[1]}


def test_other_journals_are_asked_nothing_about_a_broker(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.put("brokers", b"of ships")
        db.add("q", b"")

    assert asked(Request(paths=(str(tmp_path),), now=moment(0))) == {}
