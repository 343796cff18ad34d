"""`oms restore`: makes a database from a backup, and holds all messages that may have been delivered since."""

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from oms_journal.broker.records import MASTER_KEY
from oms_journal.broker.store.start import RESTORED_KEY
from oms_journal.cli import options, output
from oms_journal.cli.failures import ExitCode
from oms_journal.cli.output import age_text, counted, iso_microseconds, size_text
from oms_journal.cli.progress import ProgressBar
from oms_journal.cli.store.repair import print_recovery
from oms_journal.cli.stores import engine_options
from oms_journal.database.backup.restore import RestoreOptions, RestoreReport
from oms_journal.database.backup.restore import restore as restored
from oms_journal.journal import names


def restore(
    backup: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="Restore the backup in this directory.", show_default=False)
    ],
    unreadable_as_damaged: Annotated[
        bool, typer.Option("--unreadable-as-damaged", help="Give up what the backup's device cannot read.")
    ] = False,
    hold: Annotated[
        bool | None,
        typer.Option(
            "--hold/--no-hold",
            help="Hold all that is undelivered, or nothing.  [default: hold, unless the original is untouched]",
            show_default=False,
        ),
    ] = None,
    spool: options.Spool = options.SPOOL_DEFAULT,
    as_json: options.AsJson = False,
) -> None:
    """Make a database from a backup, in a directory that is new.

    The original may have delivered messages after the backup. So oms holds all that is undelivered: nobody receives it
    before you have decided. `oms list --held` shows it. `oms release` hands it out or discards it. If the original was
    closed when it was backed up, and oms sees it on this machine, untouched since then, oms holds nothing.

    The new database is another one than the original. Neither takes the other's files.

    If root runs it, what oms makes belongs to the owner of the directory that it lies in. If a service has no right to
    the parent directory, first make the empty directory and give it to the service's user.

    If it is interrupted, call it again: it begins anew. It exits 1 when something of the backup is damaged. Held
    messages are no failure.
    """
    with ProgressBar() as progress:
        chosen = RestoreOptions(
            unreadable_as_damaged=unreadable_as_damaged,
            hold=hold,
            key=MASTER_KEY.encode(),
            broker_key=RESTORED_KEY.encode(),
            data_file_bytes_max=engine_options().max_data_file_size,
            progress=progress,
        )
        report = restored(backup, spool, chosen)
    if as_json:
        output.print_json(report.as_dict())
    else:
        _print(report)
    if not report.intact:
        raise typer.Exit(ExitCode.NO)


# What is known of the original, by `was_closed` and `went_on`; {where} is its machine and directory.
_STATE = {True: "of a closed database", False: "of a running database"}
_ORIGINAL = {
    True: "The original went on after this backup, in {where}.",
    False: "The original is in {where}, untouched since this backup.",
    None: "Nobody can see from here whether the original went on after this backup. It was in {where}.",
}


def _print(report: RestoreReport) -> None:
    age = age_text(datetime.now(UTC).timestamp() - report.taken_at / 1e6)
    facts = {
        "database": f"{report.database}, restored from {report.parent}",
        "backup": f"{_STATE[report.was_closed]}, as of {iso_microseconds(report.taken_at)} ({age} ago)",
        "files": f"{report.files:,}, {size_text(report.bytes)}",
        "undelivered": f"{report.undelivered:,}, {report.held:,} of these held back",
    }
    for name, value in facts.items():
        output.print_line(f"{name:11}  {value}")
    for name in report.changed:
        if name == names.BACKUP:
            output.print_line("The backup's list of its files is damaged: restored is what its data files hold.")
        else:
            output.print_line(f"{name} is not as it was when it was backed up.")
    if not report.recovery.intact:
        print_recovery(report.recovery)
    output.print_line(_ORIGINAL[report.went_on].format(where=report.source or "a place that the backup does not tell"))
    for line in _what_next(report):
        output.print_line(line)
    output.print_line(f"Restored into {report.directory}.")


def _what_next(report: RestoreReport) -> Iterator[str]:
    """Yield what is held, and what to do about that."""
    spool = f"--spool {shlex.quote(report.directory)}"
    if report.held:
        yield (
            f"{counted(report.held, 'message')} may have been delivered since: look with `oms list --held {spool}`, "
            f"then hand out what was not with `oms release --all {spool}`, or by number, queue, age, or a consumer's "
            "list (--except)."
        )
        if report.went_on is None and report.was_closed:
            yield "You know that the original was never opened again? Then release all, or restore anew with --no-hold."
    elif report.undelivered and report.went_on is not False:
        yield "Nothing is held: what the original delivered after this backup is handed out again."
    elif report.undelivered:
        yield "Nothing is held. Open only one of the two databases: both would hand out the same messages."
