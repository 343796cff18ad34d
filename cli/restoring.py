"""`oms restore`: a database from a backup, in a directory of its own, with all held that may have been delivered."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options, output
from cli.failures import ExitCode
from cli.progress import ProgressBar
from cli.repairing import print_recovery
from cli.stores import engine_options
from cli.wording import age_text, counted, iso_microseconds, size_text

if TYPE_CHECKING:  # the engine is imported when a command needs it
    from database.restore import RestoreReport


def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="The directory of the backup.", show_default=False)],
    unreadable_as_damaged: Annotated[
        bool, typer.Option("--unreadable-as-damaged", help="Give up what the backup's device cannot read.")
    ] = False,
    hold: Annotated[
        bool, typer.Option("--hold", help="Hold what is undelivered also where the backup is of a closed database.")
    ] = False,
    spool: options.Spool = options.SPOOL_DEFAULT,
    as_json: options.AsJson = False,
) -> None:
    """Make a database from a backup, in a directory that is new.

    What may have been delivered since the backup is held: oms list --held shows it, oms release decides.
    Nothing is where the database was closed before the backup and not opened again, as far as can be seen from here.
    It is another database than the one that was backed up, and neither takes the other's files.
    Interrupted, it begins anew when it is called again. Exits 1 when something of the backup is damaged.
    """
    from broker.pstore import RESTORED_KEY
    from database.restore import RestoreOptions
    from database.restore import restore as restored

    with ProgressBar() as progress:
        chosen = RestoreOptions(
            unreadable_as_damaged=unreadable_as_damaged,
            hold=hold,
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


_SINCE = {
    False: "",
    True: ", which was opened again since",
    None: ", which may have been opened again since: its lock file cannot be read",
}


def _print(report: "RestoreReport") -> None:
    age = age_text(datetime.now(UTC).timestamp() - report.taken_at / 1e6)
    state = "of a closed database" if report.was_closed else "of a running database"
    state += _SINCE[report.went_on]
    facts = {
        "database": f"{report.database}, restored from {report.parent}",
        "backup": f"{state}, as of {iso_microseconds(report.taken_at)} ({age} ago)",
        "files": f"{report.files:,}, {size_text(report.bytes)}",
        "undelivered": f"{report.undelivered:,}, {report.held:,} of these held back",
    }
    for name, value in facts.items():
        output.print_line(f"{name:11}  {value}")
    for name in report.changed:
        output.print_line(f"{name} is not as it was when it was backed up.")
    if not report.recovery.intact:
        print_recovery(report.recovery)
    if report.held:
        output.print_line(
            f"{counted(report.held, 'message')} may have been delivered since: look with `oms list --held`, "
            "decide with `oms release`."
        )
    elif report.was_closed and report.undelivered:
        output.print_line(
            "Nothing is held: the database was closed when it was backed up, and nobody sees from here that it was "
            "opened again. Where it was, restore anew with --hold before anybody receives."
        )
    output.print_line(f"Restored into {report.directory}.")
