"""The options that several commands share: each is named, explained and bound to its variable here."""

import sys
from pathlib import Path
from typing import Annotated

import typer

SPOOL_DEFAULT = Path(
    r"C:\Program Files\Universal\spool\oms" if sys.platform == "win32" else "/var/opt/universal/spool/oms"
)

Spool = Annotated[
    Path,
    typer.Option("--spool", "-s", envvar="SPOOL_DIRECTORY", metavar="DIR", help="Use the database in this directory."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs. Errors are JSON too.")]
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        min=0,
        metavar="SECONDS",
        help="Wait up to so many seconds while another process has the lock.",
    ),
]
MaxDataFileSize = Annotated[
    str | None,
    typer.Option(
        "--max-data-file-size",
        envvar="MAX_DATA_FILE_SIZE",
        metavar="SIZE",
        help="Seal a data file at this size, and begin the next one (B, K, M, G).  [default: 25M]",
    ),
]
MaxMessageSize = Annotated[
    str | None,
    typer.Option(
        "--max-message-size",
        envvar="MAX_MESSAGE_SIZE",
        metavar="SIZE",
        help="Refuse payloads larger than this, at most 1G (B, K, M, G).  [default: 6144000]",
    ),
]
Create = Annotated[
    bool, typer.Option("--create", help="Begin a new database also in a directory that holds other files.")
]
RetentionDirectory = Annotated[
    Path | None,
    typer.Option(
        "--retention-directory",
        envvar="RETENTION_DIRECTORY",
        metavar="DIR",
        help="Move data files into this directory instead of deleting them.",
    ),
]
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.", show_default=False)]
BrokerUrl = Annotated[
    str | None,
    typer.Option(
        "--broker",
        envvar="OMS_BROKER",
        metavar="URL",
        help="Ask the broker at this HTTP address. QUEUE is one of its queues, or /service/CLASS/SERVER/SERVICE.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Say what would be done, and change nothing.")]


def broker_meant(ctx: typer.Context, broker: str | None) -> str | None:
    """Return the broker's address, or None where a spool directory is meant.

    OMS_BROKER does not count where --spool is on the command line.
    """
    source = {name: ctx.get_parameter_source(name) for name in ("broker", "spool")}
    said = {name: found is not None and found.name == "COMMANDLINE" for name, found in source.items()}
    return None if said["spool"] and not said["broker"] else broker
