"""`oms queue`: the commands below it."""

import typer

from oms_journal.cli.arguments import Command, Group
from oms_journal.cli.queue.serve import serve

queue = typer.Typer(
    name="queue",
    cls=Group,
    help="Let several processes add to one database.",
    rich_markup_mode=None,
    add_completion=False,
)
queue.command("serve", cls=Command)(serve)


@queue.callback()
def several() -> None:
    """Let several processes add to one database."""
