"""`oms recover` and `oms cleanup`: repairs and cleans up a directory, as every start does, and reports it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from oms_journal.cli import options, output
from oms_journal.cli.failures import ExitCode, Failure
from oms_journal.cli.output import age_text, counted, size_text
from oms_journal.cli.progress import ProgressBar
from oms_journal.cli.stores import database, engine_options, require, view
from oms_journal.database.stats import CleanupReport
from oms_journal.journal.errors import DatabaseLocked, RecoveryRefused
from oms_journal.recovery.report import Loss, RecoveryReport, Suspect
from oms_journal.recovery.startup import RecoveryOptions
from oms_journal.recovery.startup import recover as recovered

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
        Validation,
        typer.Option(help="full reads every byte; footers reads only the footers of sealed files, and trusts them."),
    ] = Validation.FULL,
    unreadable_as_damaged: Annotated[
        bool, typer.Option("--unreadable-as-damaged", help="Give up what the device cannot read.")
    ] = False,
    hold: Annotated[
        bool, typer.Option("--hold", help="Hold back the messages that damage may have brought back; see oms release.")
    ] = False,
    spool: options.Spool = options.SPOOL_DEFAULT,
    as_json: options.AsJson = False,
) -> None:
    """Repair what is torn or damaged, and report what was lost.

    Every opening does the same. oms exits 1 when something that was acknowledged is lost.
    """
    require(spool)
    defaults = engine_options()
    with ProgressBar() as progress:
        chosen = RecoveryOptions(
            policy=policy.value,
            validation=validation.value,
            unreadable_as_damaged=unreadable_as_damaged,
            hold_suspects=hold,
            data_file_bytes_max=defaults.max_data_file_size,
            archives_max=defaults.archives_max,
            progress=progress,
        )
        report = _recovered(lambda: recovered(spool, chosen, dry_run=dry_run))
    if as_json:
        output.print_json(report.as_dict())
    else:
        print_recovery(report, dry_run=dry_run, hold=hold)
    if report.lost:
        raise typer.Exit(ExitCode.NO)


def _recovered(run: Callable[[], RecoveryReport]) -> RecoveryReport:
    """Return the report; to refuse is the answer to the question here, not a failure of the store."""
    try:
        return run()
    except RecoveryRefused as refused:
        raise Failure(str(refused), ExitCode.NO) from refused


def print_recovery(report: RecoveryReport, *, dry_run: bool = False, hold: bool = False) -> None:
    """Print what was found and done, and what is lost."""
    bad = [file for file in report.files if file.verdict != "clean"]
    if bad:
        columns = (
            output.Column("file"),
            output.Column("verdict"),
            output.number_column("good end"),
            output.Column("reason", wraps=True),
            output.Column("action", wraps=True),
        )
        rows = ((file.name, file.verdict, f"{file.good_end:,}", file.reason, file.action) for file in bad)
        output.print_table(columns, rows)
    for loss in report.lost:
        output.print_line(_loss_text(loss))
    for archive in report.archives:
        output.print_line(f"archive {archive}")
    for text in _suspect_texts(report.suspects):
        output.print_line(text)
    if hold and report.suspects and not dry_run:
        output.print_line("They are held back: look with `oms list --held`, decide with `oms release`.")
    for text in report.notes:
        output.print_line(text)
    state = "Intact" if report.intact else "Nothing was changed" if dry_run else "Recovered"
    files = counted(len(report.files), "file")
    output.print_line(f"{state}: {files}, {report.undelivered:,} undelivered, {age_text(report.seconds)}.")


def _loss_text(loss: Loss) -> str:
    if not loss.is_range:
        what = f"message {_ranges_text(loss.numbers)} of queue {', '.join(loss.queues)}" if loss.numbers else "a value"
        return f"LOST {what}, in {loss.name} at byte {loss.start:,}: {loss.reason}"
    size = counted(loss.end - loss.start, "byte")
    text = f"LOST {size} of {loss.name} from byte {loss.start:,}: {loss.reason}"
    if loss.numbers:
        text += f"; {'' if loss.is_exact else 'perhaps '}messages {_ranges_text(loss.numbers)}"
    return text + (f"; queues {', '.join(loss.queues)}" if loss.queues else "")


def _ranges_text(ranges: Sequence[tuple[int, int]]) -> str:
    shown = [str(first) if first == last else f"{first} to {last}" for first, last in ranges[:RANGES_SHOWN]]
    more = f" and {len(ranges) - RANGES_SHOWN:,} more ranges" if len(ranges) > RANGES_SHOWN else ""
    return ", ".join(shown) + more


def _suspect_texts(suspects: Sequence[Suspect]) -> Iterator[str]:
    """Yield what is live although its removal, or a newer version, may be among what is lost."""
    messages = [(suspect.first, suspect.last) for suspect in suspects if suspect.kind == "message"]
    keys = [suspect.key for suspect in suspects if suspect.kind == "key"]
    if messages:
        yield f"The damage may have brought back messages {_ranges_text(messages)}."
    if keys:
        more = f" and {len(keys) - RANGES_SHOWN:,} more" if len(keys) > RANGES_SHOWN else ""
        yield f"The damage may have brought back old values of keys {', '.join(keys[:RANGES_SHOWN])}{more}."


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
    """Delete the oldest data files that nothing needs any more.

    If only a little keeps old files, oms moves that forward. Every opening does this too. Here oms reports it, and
    --compact goes further. With --dry-run oms names the files that go without a move, or with --compact. If `oms serve`
    is running, ask it with `oms cmd CLEANUP` instead. On a full disk openings and running databases go as far as
    --compact.
    """
    require(spool)
    if dry_run:
        report = _planned(spool, compact=compact)
    else:
        before = _sizes(spool)
        with (
            _asked_for_otherwise(),
            database(spool, repairs=True, wait_seconds=wait, retention_directory=retention_directory) as db,
        ):
            report = db.cleanup(compact=compact)
            retains = db.options.retention_directory is not None
        report = _since(before, _sizes(spool), report, retains=retains)
    if as_json:
        output.print_json(report.as_dict())
        return
    _print_cleanup(report)


@contextmanager
def _asked_for_otherwise() -> Iterator[None]:
    """Say how a clean-up is asked for of who has the database open."""
    try:
        yield
    except DatabaseLocked as locked:
        advice = "`oms cmd CLEANUP` asks a running `oms serve` for it, a program calls cleanup(compact=True)"
        raise Failure(
            f"{locked}; {advice}; or stop it or give --wait", ExitCode.LOCKED, error=type(locked).__name__
        ) from locked


def _planned(spool: Path, *, compact: bool) -> CleanupReport:
    """Return what a clean-up would do, found out without the lock."""
    with view(spool) as looking:
        files = looking.explain()
    if compact:
        doomed = list(takewhile(lambda file: file.freed_by_compact, files))
    else:
        doomed = list(takewhile(lambda file: not file.needed and not file.active, files))
    return CleanupReport(
        deleted=tuple(file.name for file in doomed),
        moved_messages=sum(file.live_messages for file in doomed),
        moved_keys=sum(file.live_keys for file in doomed),
        freed_bytes=sum(file.freed_by_compact if compact else file.bytes for file in doomed),
        dry_run=True,
    )


def _sizes(spool: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(spool.glob("*.data"))}


def _since(before: dict[str, int], after: dict[str, int], report: CleanupReport, *, retains: bool) -> CleanupReport:
    """Return the report with what the opening itself had cleaned up already."""
    gone = tuple(name for name in before if name not in after)
    freed = max(0, sum(before.values()) - sum(after.values()))
    return replace(report, deleted=() if retains else gone, moved=gone if retains else (), freed_bytes=freed)


def _print_cleanup(report: CleanupReport) -> None:
    would = "would be " if report.dry_run else ""
    for name in report.deleted:
        output.print_line(f"{name} {would}deleted")
    for name in report.moved:
        output.print_line(f"{name} {would}moved to the retention directory")
    if report.stays:
        output.note(f"{report.stays}; make room there, then run this again: until then the data files stay")
    if report.moved_messages or report.moved_keys:
        moved = f"{counted(report.moved_messages, 'message')} and {counted(report.moved_keys, 'key')}"
        output.print_line(f"{moved} {would}moved forward")
    output.print_line(
        f"{size_text(report.freed_bytes)} {would}freed, {counted(len(report.deleted), 'file')} "
        f"{would}deleted, {age_text(report.seconds)}."
    )
