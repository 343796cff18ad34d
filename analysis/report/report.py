"""All questions about journals in one Spark session: the answers as Parquet tables, a summary, and a page to look at.

    DIR/report.html     the page, see `page.py`
    DIR/summary.json    the answers in words and figures, and what the tables are, for a program
    DIR/<table>/        the Parquet files of a table

DIR is an earlier report, or this one, or not there: see `outdir.py`. The page is made from the tables
as they were written, so every figure on it can be found in them.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

from oms_journal.journal.extras import brought_by

with brought_by("analysis"):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame, Observation, SparkSession
    from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis import outdir
from oms_journal.analysis.fold.answers import COMMENT
from oms_journal.analysis.questions import meanings
from oms_journal.analysis.report.asking import Asked, asked, comparison, tables_of_source
from oms_journal.analysis.report.broker_asking import broker_asked
from oms_journal.analysis.report.drawing.plots import BARS_MAX
from oms_journal.analysis.report.drawing.scales import Buckets, buckets
from oms_journal.analysis.report.extras import Extra, Told, told
from oms_journal.analysis.report.journals import Journals, Request, sources
from oms_journal.analysis.report.page import page
from oms_journal.analysis.report.sections.broker_verdicts import broker_verdicts
from oms_journal.analysis.report.sections.contents import sections
from oms_journal.analysis.report.sections.section import Section
from oms_journal.analysis.report.tables import Tables
from oms_journal.analysis.report.values import broker_answers
from oms_journal.analysis.report.values.answers import Facts, Row, Scope
from oms_journal.analysis.report.values.broker_answers import Broker
from oms_journal.analysis.report.watching import Progress, watched
from oms_journal.analysis.report.wording import microseconds
from oms_journal.analysis.spark.complaints import in_one_line
from oms_journal.journal.errors import JournalError

VERSION = 1  # of the summary
TABLES_COUNT = 12  # that every report has
_SAME_DISK = "give a directory that Spark's executors and this machine both see"
_LISTS = ("paths", "queues_wanted", "compared_with", "effects", "differences", "by_status")


class TablesNotSeen(JournalError):
    """Spark has written a table where this machine does not find it, or not the whole of it."""


def write_report(  # noqa: PLR0913
    spark: SparkSession,
    request: Request,
    directory: Path,
    progress: Progress | None = None,
    check: Callable[[], None] | None = None,
    extras: Sequence[Extra] = (),
) -> Row:
    """Write the report and return its summary.

    `progress` is told what is being asked, and which share of all is done. `check` is called before every question and
    at the end, and may raise: then nothing is left. `extras` are questions of the caller's own, which the page answers
    first. The directory is on this machine's file systems; where Spark runs on others, it must be theirs too. Raises
    what `sources` does, NotAReport, CannotWrite, SparkCouldNot, TablesNotSeen.
    """
    since = monotonic()
    found = sources(request.paths)
    journals = Journals(spark, request, found)
    with outdir.written(directory) as unfinished:
        tables = Tables(unfinished)
        count = TABLES_COUNT + bool(request.compared_with) + len(extras)
        writer = _Writer(spark, tables, count, progress or _silent, check or _go_on)
        with broker_asked(journals, request) as of_broker:
            writer.count += len(of_broker)
            writer.write_all(of_broker)
        writer.write_all(tables_of_source(journals))
        scope = _scope(tables, request)
        pieces = _buckets(scope)
        writer.write_all(asked(journals, request, timedelta(microseconds=pieces.width)))
        undelivered_only = _write_comparison(writer, journals) if request.compared_with else False
        writer.write_all([extra.asked(spark, request) for extra in extras])
        scope = replace(scope, queues=tables.count("lifecycle"), seconds=monotonic() - since)
        facts = Facts(
            scope=scope,
            buckets=pieces,
            window=request.duplicate_window,
            archives=len(found.archives),
            late_archives=len(found.late),
            undelivered_only=undelivered_only,
            written=writer.written,
        )
        answers, broker = sections(tables, facts), broker_answers.digest(tables, scope, pieces)
        of_caller = told(extras, tables)
        summary = _summary(facts, answers, broker, of_caller)
        (unfinished / outdir.PAGE).write_text(page(facts, answers, broker, of_caller), encoding="utf-8")
        (unfinished / outdir.SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        writer.check()
    return summary


def _silent(_stage: str, _share: float) -> None:
    return


def _go_on() -> None:
    return


class _Writer:
    """Asks questions and writes their answers, each as a table."""

    def __init__(
        self, spark: SparkSession, tables: Tables, count: int, progress: Progress, check: Callable[[], None]
    ) -> None:
        self._spark = spark
        self._tables = tables
        self._progress = progress
        self.check = check
        self.count = count  # of tables
        self.written: list[Row] = []

    def write_all(self, questions: Sequence[Asked]) -> None:
        for question in questions:
            self.check()
            self._write(question)

    def _write(self, question: Asked) -> None:
        done, observation = len(self.written), Observation()
        folder = self._tables.directory / question.name

        def tell(share: float) -> None:
            self._progress(question.name, (done + share) / self.count)

        tell(0)
        with in_one_line(f"cannot answer {question.name!r}"), watched(self._spark, tell):
            answer = question.answer(self.read)
            if isinstance(answer, pa.Table):
                self._write_here(question, answer)
                return
            counted = answer.observe(observation, F.count(F.lit(1)).alias("rows"))
            with _times_as_micros(self._spark):
                counted.write.parquet(folder.absolute().as_uri())
            made = observation.get["rows"]
            columns = meanings(answer)
        _tidy(folder)
        seen = self._tables.count(question.name)
        if seen != made:
            raise TablesNotSeen(f"Spark wrote {made} rows of {question.name}, and {folder} has {seen}; {_SAME_DISK}")
        self.written.append({"name": question.name, "meaning": question.meaning, "rows": seen, "columns": columns})

    def _write_here(self, question: Asked, table: pa.Table) -> None:
        folder = self._tables.directory / question.name
        try:
            folder.mkdir()
            pq.write_table(table.replace_schema_metadata(), folder / "part-00000.parquet")
        except OSError as failure:
            raise outdir.CannotWrite(folder, failure) from failure
        columns = {field.name: (field.metadata or {}).get(COMMENT, b"").decode() for field in table.schema}
        self.written.append(
            {"name": question.name, "meaning": question.meaning, "rows": table.num_rows, "columns": columns}
        )

    def read(self, name: str) -> DataFrame:
        """Return a table that has been written."""
        return self._spark.read.parquet((self._tables.directory / name).absolute().as_uri())


def _tidy(folder: Path) -> None:
    """Leave the Parquet files alone, under plain names; nothing where the folder is on another machine."""
    if not folder.exists():
        return
    files = sorted(folder.glob("part-*.parquet"))
    for entry in set(folder.iterdir()) - set(files):
        entry.unlink()
    for place, file in enumerate(files):
        file.rename(folder / f"part-{place:05}.parquet")


@contextmanager
def _times_as_micros(spark: SparkSession) -> Iterator[None]:
    """Let times be written as microseconds in UTC: Spark's own default is a form that others read as local time."""
    name = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(name)
    spark.conf.set(name, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def _scope(tables: Tables, request: Request) -> Scope:
    files = tables.read("files")
    return Scope(
        paths=request.paths,
        made_at=request.now,
        since=request.since,
        until=request.until,
        queues_wanted=request.queues,
        compared_with=request.compared_with,
        first_time=pc.min(files["first_time"]).as_py(),
        last_time=pc.max(files["last_time"]).as_py(),
        databases=len(pc.unique(files["database"])),
        files=files.num_rows,
        bytes=pc.sum(files["bytes"]).as_py() or 0,
        operations=pc.sum(files["rows"]).as_py() or 0,
    )


def _buckets(scope: Scope) -> Buckets:
    """Return the intervals of the page's drawings: over the period, or what of it the journals know."""
    first = max(filter(None, (scope.first_time, scope.since)), default=scope.as_of)
    last = min(filter(None, (scope.last_time, scope.until)), default=scope.as_of)
    return buckets(microseconds(first), max(microseconds(last), microseconds(first)), BARS_MAX)


def _write_comparison(writer: _Writer, journals: Journals) -> bool:
    """Compare with the copy; return whether only what is undelivered was compared.

    Databases are told apart where both sides know the same ones. Where clean-up has removed data files on one side
    only, ended messages are no difference.
    """
    with in_one_line("cannot compare"):
        here, there = (_first_sequences(each("files")) for each in (journals.table, journals.table_of_copy))
    match_databases = bool(here.keys() & there.keys()) or max(len(here), len(there)) > 1
    undelivered_only = match_databases and any(here[name] != there[name] for name in here.keys() & there.keys())
    question = comparison(journals, match_databases=match_databases, undelivered_only=undelivered_only)
    writer.write_all([question])
    return undelivered_only


def _first_sequences(files: DataFrame) -> dict[str, int]:
    rows = files.groupBy("database").agg(F.min("sequence").alias("first")).collect()
    return {row["database"]: row["first"] for row in rows}


def _summary(
    facts: Facts, answers: Sequence[Section], broker: Broker | None, of_caller: Sequence[Told]
) -> dict[str, Any]:
    """Return what the page says, for a program."""
    of_broker = broker.figures() if broker is not None else {}
    figures: dict[str, Mapping[str, Any]] = {
        **{name: _plain(values) for name, values in of_broker.items() if values is not None},
        **{section.verdict.question.anchor: section.figures for section in answers},
        **{each.verdict.question.anchor: {"rows": each.rows} for each in of_caller},
    }
    answered = [*(each.verdict for each in of_caller), *broker_verdicts(broker), *(each.verdict for each in answers)]
    return {
        "made_by": outdir.MADE_BY,
        "version": VERSION,
        **_plain(facts.scope),
        "as_of": facts.scope.as_of.isoformat(),
        "answers": {
            verdict.question.anchor: {**verdict.as_dict(), "figures": figures[verdict.question.anchor]}
            for verdict in answered
        },
        "tables": {row["name"]: {key: row[key] for key in ("meaning", "rows", "columns")} for row in facts.written},
    }


def _plain(values: Any) -> dict[str, Any]:
    """Return the single values of an answer, without its rows and series."""
    found: dict[str, Any] = {}
    for name in values.__dataclass_fields__:
        value = getattr(values, name)
        if isinstance(value, datetime):
            found[name] = value.isoformat()
        elif isinstance(value, str | int | float | None) or (name in _LISTS):
            found[name] = (
                dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
            )
    return found
