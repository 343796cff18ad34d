"""`oms analyze PATH… --out DIR`: writes a report of what is stuck, slow, full or lost."""

import shutil
import textwrap
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oms_journal.cli import options, output
from oms_journal.cli.failures import ExitCode, Failure, Usage
from oms_journal.cli.progress import ProgressBar
from oms_journal.cli.stores import require_any
from oms_journal.journal.errors import DiskError

if TYPE_CHECKING:  # Spark is imported when the command runs
    from oms_journal.analysis.report.journals import Request

Tell = Callable[[str, float], None]

TEXT_COLUMNS_MAX = 100
SHARES = 1000  # the bar's steps


class EngineName(StrEnum):
    """What reads the journals and makes the tables."""

    SPARK = "spark"
    LOCAL = "local"


def analyze(  # noqa: PLR0913
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Read these spool or retention directories, data files or globs; s3a://… too.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Write the report into this directory: new, empty, or with an earlier report.",
        ),
    ],
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Count from this time on: ISO 8601, in UTC if it names no zone."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Count up to this time, which is not included.")
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", metavar="QUEUE", help="Count only this queue; may be given again.")
    ] = None,
    compare_with: Annotated[
        list[str] | None,
        typer.Option("--compare-with", metavar="PATH", help="A copy: say how it differs; may be given again."),
    ] = None,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="Run on this Spark cluster.  [default: this machine]")
    ] = None,
    engine: Annotated[
        EngineName,
        typer.Option("--engine", help="Let Spark do the work, or without Spark and Java this machine: local."),
    ] = EngineName.SPARK,
    as_json: options.AsJson = False,
) -> None:
    """Answer an operator's questions about journals.

    What is stuck? Where does the time go? Why does the disk not get free? What was lost? oms writes DIR/report.html, a
    page that needs nothing else. It also writes DIR/summary.json, and the tables behind them as Parquet. It only reads
    the journals, and needs no lock. You need Java 17 or later, but not with --engine local: it makes the same page and
    tables. Only Spark compares with a copy, or runs on a cluster.
    """
    if engine is EngineName.LOCAL:
        _refuse_what_needs_spark(compare_with, master)
    request = _request(
        engine,
        paths=tuple(paths),
        now=datetime.now(UTC),
        since=_time("--since", since),
        until=_time("--until", until),
        queues=tuple(queue or ()),
        compared_with=tuple(compare_with or ()),
    )
    summary = _report(request, out, engine, master)
    if as_json:
        output.print_json(summary)
    else:
        _print_answers(summary, out)


def _time(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise Usage(f"{option} {text!r} is no time like 2026-01-31 or 2026-01-31T12:00:00+01:00") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _refuse_what_needs_spark(compare_with: list[str] | None, master: str | None) -> None:
    if compare_with:
        raise Usage(
            "--engine local does not compare with a copy, since that answer may be as large as the journal: "
            "leave out --engine local, and Spark compares, or leave out --compare-with"
        )
    if master is not None:
        raise Usage("--master names a cluster of Spark: leave out --engine local, or leave out --master")


def _request(engine: EngineName, **named: Any) -> "Request":
    """Return what is asked for, once it is known that all can be imported that it takes."""
    try:
        from oms_journal.analysis.report.journals import Request

        import_module(f"oms_journal.analysis.{'spark.session' if engine is EngineName.SPARK else 'report.report'}")
    except ImportError as missing:
        library = missing.name or missing
        extra = "analysis" if engine is EngineName.SPARK else "parquet"
        raise Failure(
            f"the analysis needs packages that are not installed ({library}): pip install 'oms-journal[{extra}]'",
            ExitCode.UNUSABLE,
            error="NotInstalled",
        ) from missing
    request = Request(**named)
    if request.since is not None and request.until is not None and request.since >= request.until:
        raise Usage("--since must be before --until")
    return request


def _report(request: "Request", out: Path, engine: EngineName, master: str | None) -> Mapping[str, Any]:
    from oms_journal.analysis.outdir import NotAReport, check_place
    from oms_journal.analysis.report.journals import sources
    from oms_journal.analysis.storage import NoJournal

    # What can be refused is refused before Spark has started, which takes a while.
    require_any(request.paths)
    try:
        is_replaced = check_place(out)
    except NotAReport as refused:
        raise Usage(f"{refused} with --out") from refused
    if is_replaced:
        output.note(f"the earlier report in {out} will be replaced")
    try:
        found = sources(request.paths)
        compared = found.bytes + sources(request.compared_with).bytes if request.compared_with else 0
    except NoJournal as refused:
        raise Usage(f"{refused}; give the right one with PATH", error=type(refused).__name__) from refused
    except DiskError as refused:
        raise Failure(str(refused), ExitCode.UNUSABLE, error=type(refused).__name__) from refused
    with ProgressBar(is_bytes=False, is_long=True) as bar:

        def tell(what: str, share: float) -> None:
            bar("ask", round(share * SHARES), SHARES, detail=what.replace("_", " "))

        def write(spark: Any = None, **more: Any) -> Mapping[str, Any]:
            from oms_journal.analysis.report.report import write_report

            return write_report(spark, request, out, tell, found=found, **more)

        if engine is EngineName.LOCAL:
            return write()
        return _by_spark(write, out, bar, _Session(compared, master))


@dataclass(frozen=True, slots=True)
class _Session:
    """What is known of the session of Spark before it starts."""

    compared: int  # bytes of data files whose operations go through Java: the fold's do not
    master: str | None


def _by_spark(
    write: Callable[..., Mapping[str, Any]], out: Path, bar: ProgressBar, session: _Session
) -> Mapping[str, Any]:
    from oms_journal.analysis.outdir import remove_unfinished
    from oms_journal.analysis.report.watching import interruptible
    from oms_journal.analysis.spark.session import brief_session, settings_for

    bar("start Spark", 0, 0)
    settings = settings_for(session.compared, session.master)
    with ExitStack() as afterwards:
        afterwards.callback(remove_unfinished, out)
        beside = afterwards.enter_context(ThreadPoolExecutor(1, "analyze-imports"))
        beside.submit(import_module, "oms_journal.analysis.report.report")  # while Java starts
        asked = brief_session(
            master=session.master, name="oms analyze", settings=settings, folds_only=not session.compared
        )
        spark, end = afterwards.enter_context(asked)
        return interruptible(
            spark, lambda check: write(spark, check=check, let_go=end), lambda: bar("stop Spark", 0, 0)
        )


def _print_answers(summary: Mapping[str, Any], out: Path) -> None:
    columns = min(shutil.get_terminal_size().columns, TEXT_COLUMNS_MAX)
    for answer in summary["answers"].values():
        output.print_line(answer["question"])
        for line in textwrap.wrap(answer["answer"], columns - 2, break_on_hyphens=False):
            output.print_line(f"  {line}")
    output.print_line()
    output.print_line(f"The page: {(out / 'report.html').absolute()}")
