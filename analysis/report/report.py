"""All questions about journals, by Spark or without it: answers as Parquet tables, a summary, and a page to look at.

    DIR/report.html     the page, see `page.py`
    DIR/summary.json    the answers in words and figures, and what the tables are, for a program
    DIR/<table>/        the Parquet files of a table

DIR is an earlier report, or this one, or not there: see `outdir.py`. The page is made from the tables
as they were written, so every figure on it can be found in them.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from oms_journal.journal.extras import brought_by

with brought_by("parquet"):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

from oms_journal.analysis import outdir
from oms_journal.analysis.fold.answers import COMMENT
from oms_journal.analysis.report.asking import FOLDED, Asked, asked, tables_of_source
from oms_journal.analysis.report.broker_asking import broker_asked
from oms_journal.analysis.report.drawing.plots import BARS_MAX
from oms_journal.analysis.report.drawing.scales import Buckets, buckets
from oms_journal.analysis.report.extras import Extra, Told, told
from oms_journal.analysis.report.facts import Facts, Scope
from oms_journal.analysis.report.here import Here, here
from oms_journal.analysis.report.journals import Journals, Request, Sources, sources
from oms_journal.analysis.report.page import page
from oms_journal.analysis.report.sections.contents import sections
from oms_journal.analysis.report.sections.section import Section
from oms_journal.analysis.report.sections.units import TABLE as UNITS
from oms_journal.analysis.report.tables import Row, Tables
from oms_journal.analysis.report.wording import microseconds

if TYPE_CHECKING:  # a report needs no Spark
    from pyspark.sql import SparkSession

    from oms_journal.analysis.report.on_spark import OnSpark

Progress = Callable[[str, float], None]  # what is being asked, and which share of all is done

VERSION = 1  # of the summary
TABLES_COUNT = 12  # that every report has
READING_SHARE = 0.75  # of the work; what is left is to write the tables and the page, and maybe to compare


def write_report(  # noqa: PLR0913
    spark: "SparkSession | None",
    request: Request,
    directory: Path,
    progress: Progress | None = None,
    check: Callable[[], None] | None = None,
    extras: Sequence[Extra] = (),
    *,
    found: Sources | None = None,
    let_go: Callable[[], None] | None = None,
) -> Row:
    """Write the report and return its summary. Without Spark, processes of this machine make the same tables.

    `progress` is told what is being asked, and which share of all is done. `check` is called before every question and
    at the end, and may raise: then nothing is left. `extras` are questions of the caller's own, which the page answers
    first. They need Spark, and so does a comparison with a copy. The directory is on this machine's file systems; where
    Spark runs on others, it must be theirs too. `found` is what `sources` says of the paths, where somebody has it
    already. `let_go` is called when Spark is not needed any more: it may end while the page is made. Raises what
    `sources` does, NotAReport, CannotWrite, FormatError, SparkCouldNot, TablesNotSeen; ValueError where Spark is needed
    and not there.
    """
    if spark is None and (request.compared_with or extras):
        raise ValueError("a comparison with a copy and questions of your own need Spark")
    since = monotonic()
    found = sources(request.paths) if found is None else found
    with outdir.written(directory) as unfinished, _place(spark, found.bytes) as place:
        journals = Journals(place.fold, request, found)
        tables = Tables(unfinished)
        count = TABLES_COUNT + bool(request.compared_with) + len(extras)
        writer = _Writer(place, tables, count, progress or _silent, check or _go_on)
        with place.asking("files", lambda _: None):
            scope = _scope(journals.files, request)
        pieces = _buckets(scope)
        every = timedelta(microseconds=pieces.width)
        writer.read(lambda: journals.read(FOLDED, every))
        with place.asking(UNITS, lambda _: None):
            of_broker = broker_asked(journals, request)
        needs_spark = journals.has_archives or request.compared_with or extras
        if not needs_spark:
            writer.let_go(let_go or _go_on)
        writer.count += len(of_broker)
        writer.write_all(of_broker)
        writer.write_all(tables_of_source(journals))
        writer.write_all(asked(journals, request, every))
        undelivered_only = False
        if spark is not None:
            undelivered_only = _write_comparison(writer, spark, request) if request.compared_with else False
            writer.write_all([extra.asked(spark, request) for extra in extras])
        if needs_spark:
            writer.let_go(let_go or _go_on)
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
        answers, of_caller = sections(tables, facts), told(extras, tables)
        summary = _summary(facts, answers, of_caller)
        (unfinished / outdir.PAGE).write_text(page(facts, answers, of_caller), encoding="utf-8")
        (unfinished / outdir.SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        writer.check()
    return summary


@contextmanager
def _place(spark: "SparkSession | None", size: int) -> "Iterator[Here | OnSpark]":
    if spark is None:
        with here(size) as place:
            yield place
    else:
        from oms_journal.analysis.report.on_spark import OnSpark

        yield OnSpark(spark)


def _silent(_stage: str, _share: float) -> None:
    return


def _go_on() -> None:
    return


class _Writer:
    """Asks questions and writes their answers, each as a table."""

    def __init__(
        self, place: "Here | OnSpark", tables: Tables, count: int, progress: Progress, check: Callable[[], None]
    ) -> None:
        self._place = place
        self._tables = tables
        self._progress = progress
        self.check = check
        self.count = count  # of tables
        self.written: list[Row] = []

    def read(self, reading: Callable[[], None]) -> None:
        """Have read what the tables are made of."""
        self.check()

        def tell(share: float) -> None:
            self._progress(FOLDED[0], READING_SHARE * share)

        tell(0)
        with self._place.asking(FOLDED[0], tell):
            reading()

    def let_go(self, of_spark: Callable[[], None]) -> None:
        """Ask nothing of Spark from now on."""
        self._place = Here()
        of_spark()

    def write_all(self, questions: Sequence[Asked]) -> None:
        for question in questions:
            self.check()
            self._write(question)

    def _write(self, question: Asked) -> None:
        done = len(self.written)

        def tell(share: float) -> None:
            left = 1 - READING_SHARE
            self._progress(question.name, READING_SHARE + left * (done + share) / self.count)

        tell(0)
        with self._place.asking(question.name, tell):
            answer = question.answer()
            if isinstance(answer, pa.Table):
                rows, columns = self._write_here(question.name, answer)
            else:
                assert not isinstance(self._place, Here), "only Spark makes a DataFrame"
                rows, columns = self._place.write(question.name, answer, self._tables)
        self.written.append({"name": question.name, "meaning": question.meaning, "rows": rows, "columns": columns})

    def _write_here(self, name: str, table: pa.Table) -> tuple[int, Mapping[str, str]]:
        folder = self._tables.directory / name
        try:
            folder.mkdir()
            pq.write_table(table.replace_schema_metadata(), folder / "part-00000.parquet")
        except OSError as failure:
            raise outdir.CannotWrite(folder, failure) from failure
        return table.num_rows, {field.name: (field.metadata or {}).get(COMMENT, b"").decode() for field in table.schema}


def _scope(files: pa.Table, request: Request) -> Scope:
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


def _write_comparison(writer: _Writer, spark: "SparkSession", request: Request) -> bool:
    """Compare with the copy; return whether only what is undelivered was compared."""
    from oms_journal.analysis.report.copies import comparison

    found = comparison(spark, request)
    writer.write_all([found.asked])
    return found.undelivered_only


def _summary(facts: Facts, answers: Sequence[Section], of_caller: Sequence[Told]) -> dict[str, Any]:
    """Return what the page says, for a program."""
    figures: dict[str, Mapping[str, Any]] = {
        **{section.verdict.question.anchor: section.figures for section in answers},
        **{each.verdict.question.anchor: {"rows": each.rows} for each in of_caller},
    }
    answered = [*(each.verdict for each in of_caller), *(each.verdict for each in answers)]
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


def _plain(scope: Scope) -> dict[str, Any]:
    """Return what was looked at, as JSON has it."""
    values = asdict(scope)
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}
