"""`oms queue`: the commands below it."""

import typer

from oms_journal.cli.arguments import Command, Group
from oms_journal.cli.queue.requeue import requeue
from oms_journal.cli.queue.serve import serve

queue = typer.Typer(
    name="queue",
    cls=Group,
    help="Serve a queue to other processes; requeue dead letters.",
    rich_markup_mode=None,
    add_completion=False,
)
queue.command("serve", cls=Command)(serve)
queue.command("requeue", cls=Command)(requeue)


@queue.callback()
def several() -> None:
    """Serve a queue to other processes; requeue dead letters."""
