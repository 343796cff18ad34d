"""`oms demo`: the main job on real input, with kills on the way, and a verdict."""

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from oms_journal.analysis.outdir import NotAReport, check_place
from oms_journal.cli import options, output
from oms_journal.cli.demo.demonstration import Place, demonstrate, own_place
from oms_journal.cli.demo.flights.outcome import DemoOutcome, DemoSettings
from oms_journal.cli.demo.flights.run import Demo
from oms_journal.cli.demo.flights.table import FLIGHTS
from oms_journal.cli.demo.screen import Screen
from oms_journal.cli.failures import ExitCode, Failure, Usage
from oms_journal.cli.output import counted, size_text
from oms_journal.journal.iotest.place import look_at

FLIGHTS_MIN = 1000  # a day and more: from its first hour on a cancelled flight keeps the files
IN_MEMORY = ("tmpfs", "ramfs")
REPORT = Path("oms-demo-report")


def demo(  # noqa: PLR0913
    spool: Annotated[
        Path | None,
        typer.Option(
            "--spool",
            "-s",
            metavar="DIR",
            help="Use this empty directory and DIR-retained, and keep them.  [default: a temporary one]",
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary directory.")] = False,
    flights: Annotated[
        int, typer.Option(min=FLIGHTS_MIN, max=FLIGHTS, metavar="N", help="Take only the first N flights of the year.")
    ] = FLIGHTS,
    rounds: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="Kill so many writers.")] = 2,
    seed: Annotated[int, typer.Option(metavar="N", help="Choose the moments of the kills by this number.")] = 2013,
    report: Annotated[
        Path,
        typer.Option(
            "--report",
            metavar="DIR",
            help="Write the report into this directory: new, empty, or with an earlier report.",
        ),
    ] = REPORT,
    no_report: Annotated[bool, typer.Option("--no-report", help="Make no report. Then Spark is not needed.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Run the main job on 336,776 real flights, a kill included.

    It writes what happened to the flights that left New York City in 2013. It kills the writer in the middle of its
    commits and recovers. It proves that nothing acknowledged is lost, and that no commit is there by half. It goes on,
    cleans up, and says what it saw. Then Spark makes the report of the flights. All this takes about a minute. If the
    proof fails, it exits 1 and keeps the directory.
    """
    wanted = None if no_report else _place_of_report(report)
    with own_place(spool, "demo", keep=keep) as place:
        settings = DemoSettings(
            spool=place.spool, retained=_beside(place), report=wanted, flights=flights, rounds=rounds, seed=seed
        )

        def show(screen: Screen) -> DemoOutcome:
            seen = Demo(settings, screen).run()
            place.is_kept |= bool(seen.report_failure)
            _print_seen(seen, screen)
            return seen

        seen = demonstrate(place, show, partial(_look_around, settings), as_json=as_json)
    if seen.report_failure:
        raise Failure(f"the report could not be made: {seen.report_failure}", ExitCode.UNUSABLE)


def _place_of_report(report: Path) -> Path:
    """Return where the report goes, once it is known that it can: what is there is an earlier one, or nothing."""
    try:
        is_replaced = check_place(report)
    except NotAReport as refused:
        raise Usage(f"{refused} with --report, or --no-report") from refused
    if is_replaced:
        output.note(f"the earlier report in {report} will be replaced")
    return report.absolute()


def _beside(place: Place) -> Path:
    """Return where clean-up puts files aside: beside the spool directory."""
    path = place.spool.resolve()
    path = path.with_name(f"{path.name}-retained")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise Usage(f"{path} is not an empty directory; the demo puts there what it cleans up")
    return path


def _look_around(settings: DemoSettings) -> Mapping[str, str]:
    retained = [settings.retained] if settings.retained.exists() else []
    paths = [shlex.quote(str(path)) for path in (settings.spool, *retained)]
    return {"To look around:": f"oms stats --spool {paths[0]}", "Or:": f"oms analyze {' '.join(paths)} --out DIR"}


def _print_seen(seen: DemoOutcome, screen: Screen) -> None:
    """Print what was seen, in figures, and the verdict."""
    screen.heading("What was seen")
    spool = seen.settings.spool
    mount = look_at(spool).mount
    system = mount.file_system if mount is not None else "unknown file system"
    in_memory = ": in memory, the rates are not a disk's" if system in IN_MEMORY else ""
    begun = sum(each.under_way for each in seen.rounds)
    whole = sum(len(each.outcome.whole) for each in seen.rounds)
    recoveries = ", ".join(f"{each.recovery.seconds:.2f} s" for each in seen.rounds)
    facts = {
        "directory": f"{spool} ({system}{in_memory})",
        "written": f"{counted(seen.acknowledged, 'operation')}, {seen.rate:,.0f} a second, every commit durable",
        "killed": f"{counted(len(seen.rounds), 'writer')}, {begun:,} commits begun: {whole:,} got through whole",
        "recovered": f"in {recoveries}",
    }
    if seen.compaction is not None:
        left = seen.bytes - seen.compaction.freed_bytes
        facts["files"] = f"{len(seen.files):,}, {size_text(seen.bytes)}; {size_text(left)} after clean-up"
    screen.facts(facts | {"took": f"{seen.seconds:.0f} s"})
    text = f"All {seen.acknowledged:,} acknowledged operations are there, none by half."
    screen.verdict(text, seen.findings.texts, seen.findings.count, holds=seen.holds)
