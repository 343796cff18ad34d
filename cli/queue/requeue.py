"""`oms queue requeue`: puts dead letters back into the queues that they came from."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from oms_journal.cli import interrupts, options, output
from oms_journal.cli.failures import ExitCode
from oms_journal.cli.output import counted
from oms_journal.cli.stores import database

if TYPE_CHECKING:  # the engine, which the help needs nothing of
    from oms_journal.database.database import MessageDatabase
    from oms_journal.journal.reading.message import Message

COMMIT_MESSAGES_MAX = 1000  # that go back in one commit
COMMIT_BYTES_MAX = 16 << 20  # of their payloads, but for the last one


def requeue(  # noqa: PLR0913 - one for each option
    dead_queue: Annotated[
        str, typer.Argument(metavar="DEAD-QUEUE", help="The queue that holds the dead letters.", show_default=False)
    ],
    numbers: Annotated[
        list[int] | None,
        typer.Argument(min=1, metavar="[NUMBER]...", help="Only these of its messages.", show_default=False),
    ] = None,
    of: Annotated[
        str | None, typer.Option("--from", metavar="Q", help="Only those that came from queue Q.", show_default=False)
    ] = None,
    spool: options.Spool = options.SPOOL_DEFAULT,
    wait: options.Wait = 0.0,
    as_json: options.AsJson = False,
) -> None:
    """Put dead letters back at the end of the queues that they came from.

    They have new numbers there, and 0 attempts. Without NUMBER and --from, all dead letters of the queue go back.
    Messages that are no dead letters stay.

    Many go back in one commit. If it is stopped, each message is in one of the two queues: start it again. If a
    NUMBER is not a dead letter of the queue, the others go back and it exits 1.
    """
    wanted = None if not numbers else set(numbers)
    returned = 0
    with database(spool, wait_seconds=wait) as db:
        for part in _parts(_chosen(db, dead_queue, wanted, of)):
            with interrupts.delay_signals():
                returned += len(db.requeue(part))
        left = db.undelivered_count(dead_queue)
    missing = 0 if wanted is None else len(wanted) - returned
    if as_json:
        output.print_json({"requeued": returned, "missing": missing, "left": left}, indent=None)
    else:
        gone = f"; {missing:,} not among the dead letters" if missing else ""
        output.print_line(f"{counted(returned, 'message')} put back{gone}; {left:,} left in queue {dead_queue}")
    if missing:
        raise typer.Exit(ExitCode.NO)


def _chosen(db: "MessageDatabase", queue: str, wanted: set[int] | None, of: str | None) -> "Iterator[Message]":
    """Yield the dead letters of a queue that are meant."""
    from oms_journal.database.consumers.dead_letters import QUEUE

    for message in db.undelivered(queue):
        source = message.properties.get(QUEUE)
        if source is not None and (wanted is None or message.number in wanted) and of in (None, source):
            yield message


def _parts(messages: "Iterable[Message]") -> Iterator[list[int]]:
    """Yield the numbers of the messages, as many together as go into one commit."""
    numbers: list[int] = []
    size = 0
    for message in messages:
        numbers.append(message.number)
        size += len(message.payload)
        if len(numbers) >= COMMIT_MESSAGES_MAX or size >= COMMIT_BYTES_MAX:
            yield numbers
            numbers, size = [], 0
    if numbers:
        yield numbers
