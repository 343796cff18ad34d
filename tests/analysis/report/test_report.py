"""The report: every question asked of real journals, written whole or not at all."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="not installed: pip install -e '.[analysis]'")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oms_journal import DatabaseView, MessageDatabase
from oms_journal.analysis import outdir
from oms_journal.analysis.fold import local
from oms_journal.analysis.fold.engine import T, Work
from oms_journal.analysis.outdir import CannotWrite, NotAReport, check_place, holds_report, written
from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.reading.parts import Partition
from oms_journal.analysis.report.asking import FOLDED, asked, tables_of_source
from oms_journal.analysis.report.broker_asking import broker_asked
from oms_journal.analysis.report.drawing.markup import Html
from oms_journal.analysis.report.extras import Extra
from oms_journal.analysis.report.journals import Journals, Request, Sources, sources
from oms_journal.analysis.report.on_spark import TablesNotSeen
from oms_journal.analysis.report.report import write_report
from oms_journal.analysis.report.sections.listing import count_column, listing, name_column
from oms_journal.analysis.report.sections.twice import TIMES_MIN
from oms_journal.analysis.report.sections.verdicts import Name, Question, Verdict
from oms_journal.analysis.report.tables import Tables
from oms_journal.analysis.spark.complaints import reason
from oms_journal.analysis.storage import NoJournal
from oms_journal.journal.errors import NotThisDatabase
from oms_journal.journal.format.footer import MAGIC
from tests.support.cli_runner import environment
from tests.support.disks.watched_disk import HandClock
from tests.support.journals import plain_answers as plain
from tests.support.journals.plain_rows import MICROSECOND, Row, moment, rows_in
from tests.support.journals.random_journal import QUEUES, RandomWriter, damage
from tests.support.journals.report_tables import SCHEMAS

TABLES = {
    *(
        "files",
        "damage",
        "lifecycle",
        "latency_histogram",
        "latency_over_time",
        "rate",
        "backlog",
        "retention",
        "commits",
    ),
    *("duplicates", "losses", "losses_by_queue", "comparison"),
}
EXTRA = "adds_by_queue"


@answers({"queue": "of the messages", "adds": "operations ADD, those of compaction too"})
def adds_by_queue(operations: DataFrame) -> DataFrame:
    return operations.where(F.col("operation") == "ADD").groupBy("queue").agg(F.count(F.lit(1)).alias("adds"))


def extra() -> Extra:
    """Return a question of somebody else's."""

    def answer(spark: SparkSession, request: Request) -> DataFrame:
        return adds_by_queue(spark.read.format("omsjournal").load(list(request.paths)))

    def verdict(rows: Sequence[Mapping[str, Any]]) -> Verdict:
        most = max(rows, key=lambda row: row["adds"])
        question = Question("adds", "Where is <most> added?", "Most added")
        return Verdict(question, ["Most is added to ", Name(most["queue"]), "."], f"{most['adds']:,}", tone="warn")

    def section(rows: Sequence[Mapping[str, Any]]) -> list[Html]:
        columns = (name_column("Queue", "queue"), count_column("Added", "adds"))
        return [listing("Queues", columns, rows, table=EXTRA)]

    return Extra(name=EXTRA, meaning="how much is added where", answer=answer, verdict=verdict, section=section)


@dataclass(frozen=True, slots=True)
class Reported:
    """A journal that random operations wrote, one of its files damaged and repaired, and the report on it."""

    spool: Path
    rows: list[Row]
    now: datetime
    directory: Path
    summary: Any
    told: list[tuple[str, float]]

    def figures(self, anchor: str) -> Any:
        return self.summary["answers"][anchor]["figures"]

    def table(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = Tables(self.directory).read(name).to_pylist()
        return found


@pytest.fixture(scope="module")
def reported(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Reported:
    folder = tmp_path_factory.mktemp("report")
    writer = RandomWriter(folder / "spool", 3)
    writer.write(cleans=False)
    shutil.copytree(writer.spool, folder / "copy")
    path = sorted(writer.spool.glob("*.data"))[2]
    damage(path, place=0.4)
    path.write_bytes(path.read_bytes()[: path.read_bytes().rindex(MAGIC)])  # its footer would know what was there
    with writer.open():
        pass  # which repairs it
    now = moment(writer.clock.now)
    told: list[tuple[str, float]] = []
    request = Request(paths=(str(writer.spool),), now=now, compared_with=(str(folder / "copy"),))
    summary = write_report(
        spark, request, folder / "out", lambda what, share: told.append((what, share)), extras=[extra()]
    )
    return Reported(writer.spool, rows_in(writer.spool), now, folder / "out", summary, told)


@pytest.mark.whole
def test_the_report_is_a_page_a_summary_and_a_folder_of_parquet_for_each_table(reported: Reported) -> None:
    entries = {entry.name for entry in reported.directory.iterdir()}

    assert entries == {"report.html", "summary.json", EXTRA, *TABLES}
    for table in (EXTRA, *TABLES):
        names = sorted(entry.name for entry in (reported.directory / table).iterdir())
        assert names == [f"part-{place:05}.parquet" for place in range(len(names))] != []
    assert list(reported.directory.parent.glob(".*")) == []


@pytest.mark.whole
def test_the_summary_is_what_was_returned_and_describes_every_column(reported: Reported) -> None:
    read = json.loads((reported.directory / "summary.json").read_text(encoding="utf-8"))

    assert read == json.loads(json.dumps(reported.summary))
    assert set(read["tables"]) == {EXTRA, *TABLES}
    for name, table in read["tables"].items():
        schema = pq.read_schema(reported.directory / name / "part-00000.parquet")
        assert list(table["columns"]) == schema.names
        assert all(table["columns"].values()), name
        assert table["rows"] == len(reported.table(name))


@pytest.mark.whole
def test_the_invented_tables_of_the_pages_tests_are_like_the_real_ones(reported: Reported) -> None:
    for name, kinds in SCHEMAS.items():
        if name != "comparison":  # whose fields within `here` may be null or not
            schema = pq.read_schema(reported.directory / name / "part-00000.parquet")
            assert {field.name: str(field.type) for field in schema} == {
                column: str(kind) for column, kind in kinds.items()
            }, name
    schema = pq.read_schema(reported.directory / "comparison" / "part-00000.parquet")
    assert schema.names == list(SCHEMAS["comparison"])
    assert [field.name for field in schema.field("here").type] == [
        field.name for field in SCHEMAS["comparison"]["here"]
    ]


@pytest.mark.whole
def test_the_figures_are_those_of_plain_loops_over_the_dump(reported: Reported) -> None:
    lifecycle = plain.lifecycle(reported.rows, now=(reported.now - moment(0)) // MICROSECOND)

    for name in ("added", "delivered", "deleted", "undelivered"):
        assert reported.figures("stuck")[name] == sum(row[name] for row in lifecycle), name
    assert reported.figures("stuck")["queues"] == len(lifecycle)
    assert reported.summary["operations"] == len(reported.rows)
    assert reported.figures("commits")["operations"] == len(reported.rows)
    assert reported.figures("commits")["commits"] == len({(row.sequence, row.commit) for row in reported.rows})
    duplicates = plain.duplicates(reported.rows, window=3_600_000_000)
    assert reported.figures("twice")["by_producer"] == sum(row["kind"] == "producer" for row in duplicates)
    payloads = [row["messages"] for row in duplicates if row["kind"] == "payload"]
    assert reported.figures("twice")["by_payload"] == sum(times - 1 for times in payloads if times >= TIMES_MIN)
    assert reported.figures("twice")["by_payload_seldom"] == sum(times - 1 for times in payloads if times < TIMES_MIN)


@pytest.mark.whole
def test_the_disk_figures_are_those_of_oms_explain(reported: Reported) -> None:
    names = ("file", "live_bytes", "live_messages", "live_keys", "needed", "pins_files")
    with DatabaseView.open(reported.spool) as view:
        explained, stats = view.explain(), view.stats()

    found = sorted(reported.table("retention"), key=lambda row: row["sequence"])
    assert [[row[name] for name in names] for row in found] == [
        [file.name, *(getattr(file, name) for name in names[1:])] for file in explained
    ]
    assert reported.figures("disk")["live_bytes"] == stats.live_bytes


@pytest.mark.whole
def test_what_was_lost_is_told_from_the_archive(reported: Reported) -> None:
    lost = reported.figures("lost")

    assert lost["archives"] == len(list(reported.spool.glob("*.archive"))) > 0
    assert sum(lost["effects"].values()) == len(reported.table("losses"))
    assert lost["bad_ranges"] > 0
    assert reported.summary["answers"]["lost"]["tone"] == "bad"


@pytest.mark.whole
def test_times_in_the_tables_are_microseconds_in_utc(reported: Reported) -> None:
    assert str(pq.read_schema(reported.directory / "rate" / "part-00000.parquet").field("bucket").type) == (
        "timestamp[us, tz=UTC]"
    )
    oldest = min(row["first_time"] for row in reported.table("files") if row["first_time"])
    assert oldest == moment(min(row.time for row in reported.rows))


@pytest.mark.whole
def test_names_are_in_the_page_as_text(reported: Reported) -> None:
    text = (reported.directory / "report.html").read_text(encoding="utf-8")

    assert "Grüße: &#x27;quoted&#x27;\\n&lt;b&gt;" in text
    assert QUEUES[2] not in text


@pytest.mark.whole
def test_a_question_of_the_callers_own_has_a_table_an_answer_and_the_first_section(reported: Reported) -> None:
    rows = {row["queue"]: row["adds"] for row in reported.table(EXTRA)}
    counts = Counter(row.queue for row in reported.rows if row.operation == "ADD")
    text = (reported.directory / "report.html").read_text(encoding="utf-8")
    summary = reported.summary["answers"]["adds"]

    assert rows == counts
    assert summary["question"] == "Where is <most> added?"
    assert summary["answer"].startswith("Most is added to ")
    assert (summary["tone"], summary["figures"]) == ("warn", {"rows": len(rows)})
    assert next(iter(reported.summary["answers"])) == "adds"
    assert text.index('<section id="adds"') < text.index('<section id="stuck"')
    assert text.index('href="#adds"') < text.index('href="#stuck"')
    assert "Where is &lt;most&gt; added?" in text
    assert reported.summary["tables"][EXTRA]["meaning"] == "how much is added where"


@pytest.mark.whole
def test_progress_grows_to_the_end_and_names_what_is_asked(reported: Reported) -> None:
    shares = [share for _, share in reported.told]

    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] <= 1
    assert {what for what, _ in reported.told} == {EXTRA, *TABLES}


@pytest.mark.whole
def test_a_copy_from_before_the_damage_is_compared(reported: Reported) -> None:
    copy = reported.figures("copy")
    here, there = (plain.known_messages(rows) for rows in (reported.rows, rows_in(reported.spool.parent / "copy")))

    assert sum(copy["differences"].values()) == len(reported.table("comparison")) > 0
    assert copy["differences"].get("only there", 0) >= len(there.keys() - here.keys())
    assert reported.summary["answers"]["copy"]["answer"].startswith("No. Compared in ")
    assert 'id="copy"' in (reported.directory / "report.html").read_text(encoding="utf-8")


def test_a_period_knows_what_has_waited_longer(tmp_path: Path) -> None:
    """Before the period one message comes that waits on, one that is delivered in it, and one that is gone."""
    clock = HandClock()
    start = clock.now
    with MessageDatabase.open(tmp_path / "spool", clock=clock, cleanup_interval=0) as db:
        waits, slow, gone = (db.add("orders", payload) for payload in (b"waits", b"slow", b"gone"))
        db.deliver(gone)
        db.add("other", b"not asked for")
        clock.advance(7200)
        db.deliver(slow)
        db.add("orders", b"new")
        clock.advance(7200)
        db.deliver(waits)  # after the period
    since, until = moment(start) + timedelta(hours=1), moment(start) + timedelta(hours=3)
    paths = (str(tmp_path / "spool"),)
    request = Request(paths=paths, now=moment(clock.now), since=since, until=until, queues=("orders",))
    journals = Journals(local.fold, request, sources(paths))
    answers = {question.name: question.answer for question in asked(journals, request, timedelta(hours=1))}

    lifecycle, rate = (answers[name]() for name in ("lifecycle", "rate"))
    assert isinstance(lifecycle, pa.Table)
    assert isinstance(rate, pa.Table)
    [orders], rates = lifecycle.to_pylist(), rate.to_pylist()

    assert (orders["queue"], orders["undelivered"], orders["delivered"]) == ("orders", 2, 1)
    assert orders["max_seconds"] == pytest.approx(7200, abs=1)
    assert orders["oldest"] == waits
    assert orders["oldest_age_seconds"] == pytest.approx(3 * 3600, abs=1)
    found = sorted((row["operation"], row["operations"], row["bytes"]) for row in rates)
    assert found == [("ADD", 1, len(b"new")), ("DELIVER", 1, len(b"slow"))]
    assert sum(journals.folded(["files"])["files"]["rows"].to_pylist()) == 8


def test_an_empty_journal_has_a_report(tmp_path: Path) -> None:
    clock = HandClock()
    with MessageDatabase.open(tmp_path / "spool", clock=clock):
        pass

    summary = write_report(None, Request(paths=(str(tmp_path / "spool"),), now=moment(clock.now)), tmp_path / "out")

    assert summary["operations"] == 0
    assert summary["answers"]["stuck"]["answer"] == "Nothing waits: there are no messages."
    rows = {name: table["rows"] for name, table in summary["tables"].items()}
    assert rows == dict.fromkeys(TABLES - {"comparison"}, 0)  # its one data file is prepared, and no more


def test_a_report_reads_the_files_in_one_pass_and_once_more_for_what_may_be_twice(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    writer = RandomWriter(spool, 3)
    writer.write(cleans=False)
    passes: list[int] = []

    def counted(partitions: Sequence[Partition], work: Work[T]) -> Iterator[T]:
        passes.append(len(partitions))
        yield from local.fold(partitions, work, processes=1)

    request = Request(paths=(str(spool),), now=moment(writer.clock.now))
    journals = Journals(counted, request, sources(request.paths))
    assert sum(journals.files["rows"].to_pylist()) == len(rows_in(spool))
    journals.read(FOLDED, timedelta(minutes=1))
    questions = [*tables_of_source(journals), *asked(journals, request, timedelta(minutes=1))]
    answers = {question.name: question.answer() for question in questions}
    answers |= {question.name: question.answer() for question in broker_asked(journals, request)}

    assert passes == [passes[0], passes[0], 0]  # there are no archives
    anew = Journals(local.fold, request, sources(request.paths))
    for question in [*tables_of_source(anew), *asked(anew, request, timedelta(minutes=1))]:
        assert question.answer() == answers[question.name], question.name


def test_a_report_without_spark_imports_none(tmp_path: Path) -> None:
    RandomWriter(tmp_path / "spool", 1).write(openings=1)
    lines = (
        "import sys",
        "from datetime import UTC, datetime",
        "from pathlib import Path",
        "from oms_journal.analysis.report.journals import Request",
        "from oms_journal.analysis.report.report import write_report",
        "write_report(None, Request(paths=(sys.argv[1],), now=datetime.now(UTC)), Path(sys.argv[2]))",
        "assert not {'pyspark', 'py4j'} & set(sys.modules)",
    )
    command = [sys.executable, "-c", "\n".join(lines), str(tmp_path / "spool"), str(tmp_path / "out")]

    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


class Stop(KeyboardInterrupt):
    """Stands for Ctrl-C."""


@pytest.mark.whole
def test_a_report_that_is_interrupted_leaves_nothing_and_the_earlier_one_alone(
    spark: SparkSession, reported: Reported, tmp_path: Path
) -> None:
    request = Request(paths=(str(reported.spool),), now=reported.now)
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    (earlier / "summary.json").write_text(json.dumps({"made_by": "oms analyze", "tables": {}}))

    def stop(what: str, share: float) -> None:
        if what == "damage":
            raise Stop

    for out in (tmp_path / "new", earlier):
        with pytest.raises(Stop):
            write_report(spark, request, out, stop)

    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["earlier"]
    assert [entry.name for entry in earlier.iterdir()] == ["summary.json"]


@pytest.mark.whole
def test_tables_that_this_machine_does_not_see_are_an_error(
    spark: SparkSession, reported: Reported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tables, "count", lambda self, name: 0)
    request = Request(paths=(str(reported.spool),), now=reported.now)

    with pytest.raises(TablesNotSeen, match=rf"Spark wrote \d+ rows of {EXTRA}.* both see"):
        write_report(spark, request, tmp_path / "out", extras=[extra()])

    assert list(tmp_path.iterdir()) == []


@pytest.mark.whole
def test_without_spark_the_tables_and_answers_are_the_same_to_the_row(
    spark: SparkSession, reported: Reported, tmp_path: Path
) -> None:
    request = Request(paths=(str(reported.spool),), now=reported.now)
    told: list[tuple[str, float]] = []

    by_spark = write_report(spark, request, tmp_path / "spark")
    found = write_report(None, request, tmp_path / "here", lambda what, share: told.append((what, share)))

    assert found["answers"] == by_spark["answers"]
    assert found["tables"] == by_spark["tables"]
    for name in found["tables"]:
        assert pq.read_table(tmp_path / "here" / name).equals(pq.read_table(tmp_path / "spark" / name)), name
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] <= 1
    assert {what for what, _ in told} == set(found["tables"])


def test_without_spark_what_only_it_answers_is_refused(tmp_path: Path) -> None:
    request = Request(paths=(str(tmp_path),), now=moment(0), compared_with=(str(tmp_path),))

    with pytest.raises(ValueError, match="need Spark"):
        write_report(None, request, tmp_path / "out")
    with pytest.raises(ValueError, match="need Spark"):
        write_report(None, Request(paths=(str(tmp_path),), now=moment(0)), tmp_path / "out", extras=[extra()])

    assert list(tmp_path.iterdir()) == []


@pytest.mark.whole
def test_every_question_of_a_report_has_a_meaning_of_its_own(reported: Reported) -> None:
    request = Request(paths=(str(reported.spool),), now=reported.now)
    journals = Journals(local.fold, request, Sources((str(reported.spool),), (), 0))

    questions = [*tables_of_source(journals), *asked(journals, request, timedelta(minutes=5))]

    assert {question.name for question in questions} == TABLES - {"comparison"}
    assert len({question.meaning for question in questions}) == len(questions)
    assert any("5 min" in question.meaning for question in questions)


@pytest.mark.whole
def test_archives_beside_data_files_tell_of_losses_and_alone_are_what_is_read(reported: Reported) -> None:
    [archive, *_] = sorted(reported.spool.glob("*.archive"))

    assert sources([str(reported.spool)]).paths == (str(reported.spool),)
    assert str(archive) in sources([str(reported.spool)]).archives
    assert sources([str(archive)]) == Sources((str(archive),), (), archive.stat().st_size)
    assert sources([str(reported.spool / "*.data"), str(archive)]).archives == (str(archive),)


@pytest.mark.whole
def test_what_is_no_journal_is_refused_without_spark(reported: Reported, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    stranger = tmp_path / "mixed"
    stranger.mkdir()
    [file, *_] = sorted(reported.spool.glob("*.data"))
    for name in (file.name, "omsmsg-0000009999.data"):
        (stranger / name).write_bytes(file.read_bytes())

    with pytest.raises(NoJournal):
        sources([str(tmp_path / "nowhere")])
    with pytest.raises(NoJournal):
        sources([str(tmp_path)])
    with pytest.raises(NotThisDatabase):
        sources([str(stranger)])


# The directory, without Spark.


def _report(directory: Path, text: str = "{}") -> None:
    with written(directory) as unfinished:
        (unfinished / "lifecycle").mkdir()
        (unfinished / outdir.PAGE).write_text("page")
        (unfinished / outdir.SUMMARY).write_text(
            json.dumps({"made_by": outdir.MADE_BY, "tables": {"lifecycle": {}}, "text": text})
        )


def test_a_report_appears_whole_and_replaces_an_earlier_one(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "report"

    for text in ("first", "second"):
        _report(place, text)
        assert json.loads((place / outdir.SUMMARY).read_text())["text"] == text
        assert holds_report(place)
        assert [entry.name for entry in place.parent.iterdir()] == ["report"]


def test_an_empty_directory_is_a_place_for_a_report(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()

    assert not holds_report(tmp_path / "report")
    _report(tmp_path / "report")
    assert holds_report(tmp_path / "report")


def test_nothing_that_is_not_a_report_alone_is_overwritten(tmp_path: Path) -> None:
    _report(tmp_path / "with a stranger")
    (tmp_path / "with a stranger" / "notes.txt").write_text("mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "summary.json").write_text('{"tables": {}}')
    (tmp_path / "file").write_text("x")

    for name in ("with a stranger", "other", "file"):
        with pytest.raises(NotAReport, match="give a new or an empty"):
            _report(tmp_path / name)

    assert (tmp_path / "with a stranger" / "notes.txt").read_text() == "mine"


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    with pytest.raises((CannotWrite, NotAReport)):
        _report(tmp_path / "file" / "report")


def test_a_place_is_looked_at_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _report(tmp_path / "earlier")
    (tmp_path / "file").write_text("x")

    assert check_place(tmp_path / "earlier")
    assert not check_place(tmp_path / "deep" / "new")
    with pytest.raises(NotAReport):
        check_place(tmp_path / "file")
    with pytest.raises((CannotWrite, NotAReport)):
        check_place(tmp_path / "file" / "report")
    monkeypatch.setattr(os, "access", lambda place, mode: False)  # as for anybody but root
    with pytest.raises(CannotWrite, match="Permission denied"):
        check_place(tmp_path / "deep" / "new")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["earlier", "file"]


def test_what_a_killed_run_left_is_removed_and_what_a_running_one_writes_is_not(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "getpid", lambda: 4_194_303 + 1)  # beyond what a system gives
        with pytest.raises(Stop), written(tmp_path / "report") as unfinished:
            unfinished.rename(tmp_path / ".report.unfinished-4194304")
            raise Stop
    running = tmp_path / f".report.unfinished-{os.getppid()}"
    for place in (tmp_path / ".report.unfinished-4194304", running):
        place.mkdir(exist_ok=True)

    _report(tmp_path / "report")

    assert sorted(entry.name for entry in tmp_path.iterdir()) == [running.name, "report"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[X] Failed: Traceback\n  File\noms_journal.journal.errors.NotThisDatabase: mixed up\n SQL",
            "NotThisDatabase: mixed up",
        ),
        ("worker:\n  File\nValueError: in a task\n", "ValueError: in a task"),
        ("An error\n: org.x.Y: job\nCaused by: a.B\nCaused by: java.io.IOException: full\n\tat x", "IOException: full"),
        ("only this\n\tat x", "only this"),
    ],
)
def test_of_what_spark_raises_the_line_that_tells_why_is_kept(text: str, line: str) -> None:
    assert reason(text) == line
