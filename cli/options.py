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
    typer.Option("--spool", "-s", envvar="SPOOL_DIRECTORY", metavar="DIR", help="The spool directory."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs; errors too.")]
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        min=0,
        metavar="SECONDS",
        help="Wait so long for a process that has the lock.",
    ),
]
MaxDataFileSize = Annotated[
    str | None,
    typer.Option(
        "--max-data-file-size",
        envvar="MAX_DATA_FILE_SIZE",
        metavar="SIZE",
        help="Size at which a data file is sealed (B, K, M, G).  [default: 25M]",
    ),
]
MaxMessageSize = Annotated[
    str | None,
    typer.Option(
        "--max-message-size",
        envvar="MAX_MESSAGE_SIZE",
        metavar="SIZE",
        help="The largest payload accepted, at most 1G.  [default: 6144000]",
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
        help="Move files there instead of deleting them.",
    ),
]
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.", show_default=False)]
BrokerUrl = Annotated[
    str | None,
    typer.Option(
        "--broker",
        metavar="URL",
        help="A broker's HTTP address: QUEUE is one of its queues, or /service/CLASS/SERVER/SERVICE.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Say what would be done; change nothing.")]
