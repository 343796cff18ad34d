"""`oms recover` and `oms cleanup`: what happens at every start, as tools."""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options, output
from cli.failures import ExitCode, Failure
from cli.progress import ProgressBar
from cli.stores import database, engine_options, require
from cli.wording import age_text, counted, size_text
from journal.errors import RecoveryRefused

if TYPE_CHECKING:  # the engine is imported when a command needs it
    from database.cleanup import CleanupReport
    from recovery.report import Loss, RecoveryReport

RANGES_SHOWN = 5


class Policy(StrEnum):
    """What to do about damage."""

    SALVAGE = "salvage"
    TRUNCATE = "truncate"
    REFUSE = "refuse"


class Validation(StrEnum):
    """How much of a sealed file is read."""

    FULL = "full"
    FOOTERS = "footers"


def recover(  # noqa: PLR0913
    policy: Annotated[
        Policy,
        typer.Option(help="salvage keeps all good frames, truncate cuts at the first bad one, refuse stops."),
    ] = Policy.SALVAGE,
    dry_run: options.DryRun = False,
    validation: Annotated[
        Validation, typer.Option(help="full reads every byte, footers trusts those of sealed files.")
    ] = Validation.FULL,
    unreadable_as_damaged: Annotated[
        bool, typer.Option("--unreadable-as-damaged", help="Give up what the device cannot read.")
    ] = False,
    spool: options.Spool = options.SPOOL_DEFAULT,
    as_json: options.AsJson = False,
) -> None:
    """Repair what is torn or damaged, and report what was lost.

    This is what every opening does. Exits 1 when something that was acknowledged is lost.
    """
    from recovery.startup import RecoveryOptions
    from recovery.startup import recover as recovered

    require(spool)
    defaults = engine_options()
    with ProgressBar() as progress:
        chosen = RecoveryOptions(
            policy=policy.value,
            validation=validation.value,
            unreadable_as_damaged=unreadable_as_damaged,
            data_file_bytes_max=defaults.max_data_file_size,
            archives_max=defaults.archives_max,
            progress=progress,
        )
        report = _recovered(lambda: recovered(spool, chosen, dry_run=dry_run))
    if as_json:
        output.print_json(report.as_dict())
    else:
        _print_recovery(report, dry_run=dry_run)
    if report.lost:
        raise typer.Exit(ExitCode.NO)


def _recovered(run: Callable[[], "RecoveryReport"]) -> "RecoveryReport":
    """Return the report; to refuse is the answer to the question here, not a failure of the store."""
    try:
        return run()
    except RecoveryRefused as refused:
        raise Failure(str(refused), ExitCode.NO) from refused


def _print_recovery(report: "RecoveryReport", *, dry_run: bool) -> None:
    bad = [file for file in report.files if file.verdict != "clean"]
    if bad:
        columns = (
            output.Column("file"),
            output.Column("verdict"),
            output.number_column("good end"),
            output.Column("reason"),
            output.Column("action"),
        )
        rows = ((file.name, file.verdict, f"{file.good_end:,}", file.reason, file.action) for file in bad)
        output.print_table(columns, rows)
    for loss in report.lost:
        output.print_line(_loss_text(loss))
    for archive in report.archives:
        output.print_line(f"archive {archive}")
    for suspect in report.suspects:
        what = (
            f"key {suspect.key}" if suspect.kind == "key" else f"messages {suspect.first} to {suspect.last}"
        )
        output.print_line(f"may have been brought back by the damage: {what}")
    for text in report.notes:
        output.print_line(text)
    state = "Nothing was changed" if dry_run else ("Intact" if report.intact else "Recovered")
    files = counted(len(report.files), "file")
    output.print_line(f"{state}: {files}, {report.undelivered:,} undelivered, {age_text(report.seconds)}.")


def _loss_text(loss: "Loss") -> str:
    size = counted(loss.end - loss.start, "byte")
    text = f"LOST {size} of {loss.name} from byte {loss.start:,}: {loss.reason}"
    if loss.numbers:
        ranges = [
            str(first) if first == last else f"{first} to {last}"
            for first, last in loss.numbers[:RANGES_SHOWN]
        ]
        more = (
            f" and {len(loss.numbers) - RANGES_SHOWN} more ranges" if len(loss.numbers) > RANGES_SHOWN else ""
        )
        text += f"; perhaps messages {', '.join(ranges)}{more}"
    return text + (f"; queues {', '.join(loss.queues)}" if loss.queues else "")


def cleanup(  # noqa: PLR0913
    compact: Annotated[
        bool, typer.Option("--compact", help="Move the little that is still needed in old files forward.")
    ] = False,
    dry_run: options.DryRun = False,
    retention_directory: options.RetentionDirectory = None,
    spool: options.Spool = options.SPOOL_DEFAULT,
    wait: options.Wait = 0.0,
    as_json: options.AsJson = False,
) -> None:
    """Delete the oldest data files that nothing needs any more."""
    with database(spool, wait_seconds=wait, retention_directory=retention_directory) as db:
        report = db.cleanup(compact=compact, dry_run=dry_run)
    if as_json:
        output.print_json(report.as_dict())
        return
    _print_cleanup(report)


def _print_cleanup(report: "CleanupReport") -> None:
    would = "would be " if report.dry_run else ""
    for name in report.deleted:
        output.print_line(f"{name} {would}deleted")
    for name in report.moved:
        output.print_line(f"{name} {would}moved to the retention directory")
    if report.moved_messages or report.moved_keys:
        moved = f"{counted(report.moved_messages, 'message')} and {counted(report.moved_keys, 'key')}"
        output.print_line(f"{moved} {would}moved forward")
    output.print_line(
        f"{size_text(report.freed_bytes)} {would}freed, {counted(len(report.deleted), 'file')} "
        f"{would}deleted, {age_text(report.seconds)}."
    )
