"""`oms queue serve`: has a database open, and lets other processes add to it, until it is told to stop."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oms_journal.cli import interrupts, options, output

if TYPE_CHECKING:
    from oms_journal.database.database import MessageDatabase

LOOK_SECONDS = 1.0  # between two looks whether the database has failed by itself
SOCKET = "queue.sock"  # in the spool directory, where no other path is given
SpoolServed = Annotated[
    Path,
    typer.Argument(
        metavar="SPOOL",
        envvar="SPOOL_DIRECTORY",
        help="The directory of the database. One that is missing or empty is begun.",
        show_default=False,
    ),
]
SocketPath = Annotated[
    Path | None,
    typer.Option(
        "--socket", metavar="PATH", help="Serve at this path, of at most 107 bytes.  [default: SPOOL/queue.sock]"
    ),
]


def serve(  # noqa: PLR0913 - one for each option
    spool: SpoolServed,
    socket: SocketPath = None,
    max_data_file_size: options.MaxDataFileSize = None,
    max_message_size: options.MaxMessageSize = None,
    create: options.Create = False,
    wait: options.Wait = 0.0,
    as_json: options.AsJson = False,
) -> None:
    """Let other processes add to a database, until SIGTERM or Ctrl-C.

    They call `oms_journal.connect_queue(PATH)`. Only processes of your user
    can connect. It prints the path when it serves.

    It collects. To take messages meanwhile, serve from the program that
    takes them, with `serve_queue`: one process has the database.

    If you stop it, what was acknowledged is durable. What is on its way is
    carried out and answered first.
    """
    from oms_journal.cli.stores import database
    from oms_journal.database.door.address import socket_path

    path = socket_path(spool / SOCKET if socket is None else socket)
    named: dict[str, Any] = {"max_data_file_size": max_data_file_size, "max_message_size": max_message_size}
    with (
        interrupts.raise_on_signals(),
        database(spool, begins=True, wait_seconds=wait, create=create, **named) as db,
    ):
        _serve(db, path, as_json=as_json)


def _serve(db: "MessageDatabase", path: Path, *, as_json: bool) -> None:
    from oms_journal.broker.server.runtime.systemd import Systemd
    from oms_journal.database.door.server import serve_queue

    systemd = Systemd(os.environ)
    with interrupts.watch_signals(signal.SIGTERM, signal.SIGHUP) as ending, serve_queue(db, path):
        if as_json:
            output.print_json_line({"serving": str(path)})
        else:
            output.print_line(f"serving {path}")
        sys.stdout.flush()
        systemd.ready(f"serving {path}")
        while not ending.wait(LOOK_SECONDS):
            if db._group.failure is not None:  # it takes nothing any more: whoever started this one starts it again
                raise db._group.failure
        systemd.stopping("a signal")
