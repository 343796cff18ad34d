"""`oms receive`: takes messages in order, prints each, then marks it as delivered.

A message is delivered when its bytes have left this process. Whatever ends the command before that
(a closed pipe, Ctrl-C, the power) leaves it undelivered, to be printed again.

Waiting for more holds no lock: the directory's files are watched, and the database is opened, which
takes the lock for a moment, when one of them has changed.
"""

import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from oms_journal.broker.sessions.requests import Message as Received
from oms_journal.cli import interrupts, options, output
from oms_journal.cli.failures import ExitCode
from oms_journal.cli.messages.messages import message_document
from oms_journal.cli.stores import database, require, view
from oms_journal.database.database import MessageDatabase
from oms_journal.journal.errors import DatabaseLocked
from oms_journal.journal.reading.message import Message

LOOK_SECONDS = 0.1  # between two looks at the directory

Print = Callable[[Message], None]


def receive(  # noqa: PLR0913
    ctx: typer.Context,
    queue: options.Queue,
    count: Annotated[
        int | None,
        typer.Option(
            "--count",
            "-n",
            min=1,
            metavar="N",
            help="Receive at most N messages.  [default: 1; no limit with --follow or --timeout]",
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more when the queue is empty.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Wait for messages, and end after so many seconds without one."),
    ] = None,
    peek: Annotated[
        bool, typer.Option("--peek", help="Only print: oms marks nothing as delivered, and needs no lock.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print the exact bytes, without a line end after each payload.")
    ] = False,
    batch: Annotated[
        int, typer.Option(min=1, metavar="N", help="Mark so many messages as delivered in one commit.")
    ] = 1,
    spool: options.Spool = options.SPOOL_DEFAULT,
    wait: options.Wait = 0.0,
    broker: options.BrokerUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Take messages in order: print each, then mark it delivered.

    oms prints each payload and a line end. On a terminal it shows control characters escaped. With --json it prints one
    object a line, with the payload as base64. It exits 1 when there was nothing to receive.

    With --broker it receives whole units of work from a broker. It logs on as OMS_USER with OMS_PASSWORD, and commits
    each unit after it has printed it. OMS_BROKER says the address too, unless you give --spool.
    """
    waits = follow or timeout is not None
    wanted = count if count is not None or waits else 1
    broker = options.broker_meant(ctx, broker)
    if broker is not None:
        from oms_journal.cli.broker import units  # takes as long as the engine, and few receive so

        units.refuse_beside(wait=wait, peek=peek, batch=batch != 1)
        asked = units.Wanted(count=wanted, wait=timeout if timeout is not None else follow)
        printing_units = _printer_of_units(units.document, as_json=as_json, raw=raw)
        received = units.receive_units(broker, queue, asked, printing_units)
        _end(queue, received)
        return
    printing, is_held = _printer(as_json=as_json, raw=raw), False
    if peek:
        received, is_held = _peek(spool, queue, wanted, printing)
    elif waits:
        receiver = _Receiver(queue, batch, printing)
        received = _follow(spool, receiver, wanted, timeout)
    else:
        with database(spool, wait_seconds=wait) as db:
            received = _Receiver(queue, batch, printing).drain(db, wanted)
            is_held = not received and next(db.held(queue), None) is not None
    _end(queue, received, is_held=is_held)


def _end(queue: str, received: int, *, is_held: bool = False) -> None:
    if not received:
        if is_held:
            output.note(f"all there is in queue {queue} is held back: oms list --held shows it, oms release decides")
        elif sys.stderr.isatty():
            output.note(f"nothing in queue {queue}")
        raise typer.Exit(ExitCode.NO)


def _printer(*, as_json: bool, raw: bool) -> Print:
    if as_json:
        return lambda message: output.print_json_line(message_document(message, payload=True))
    show = _payload_printer(raw=raw)
    return lambda message: show(message.payload)


def _printer_of_units(
    document: Callable[[Received], dict[str, Any]], *, as_json: bool, raw: bool
) -> Callable[[Received], None]:
    if as_json:
        return lambda message: output.print_json_line(document(message))
    show = _payload_printer(raw=raw)
    return lambda message: show(message.body)


def _payload_printer(*, raw: bool) -> Callable[[bytes], None]:
    if raw:
        return output.print_bytes
    if sys.stdout.isatty():
        return lambda payload: output.print_payload(payload)
    return lambda payload: output.print_bytes(payload + b"\n")


def _peek(spool: Path, queue: str, wanted: int | None, printing: Print) -> tuple[int, bool]:
    """Return how many messages there were, and whether any is held back."""
    seen = 0
    with view(spool) as looking:
        for message in islice(looking.undelivered(queue), wanted):
            printing(message)
            seen += 1
        return seen, looking.held_count(queue) > 0


class _Receiver:
    """Takes messages of one queue out of an open database."""

    def __init__(self, queue: str, batch: int, printing: Print) -> None:
        self._queue = queue
        self._batch = batch
        self._print = printing

    def drain(self, db: MessageDatabase, wanted: int | None) -> int:
        """Print and deliver until the queue is empty or as many as wanted were; return how many."""
        received = 0
        while wanted is None or received < wanted:
            room = self._batch if wanted is None else min(self._batch, wanted - received)
            taken = list(islice(self._taken(db), room))
            if not taken:
                break
            for message in taken:
                self._print(message)
            sys.stdout.flush()
            with interrupts.delay_signals():
                db.deliver_many([message.number for message in taken])
            received += len(taken)
        return received

    def _taken(self, db: MessageDatabase) -> Iterator[Message]:
        while (message := db.take(self._queue)) is not None:
            yield message


def _follow(spool: Path, receiver: _Receiver, wanted: int | None, timeout: float | None) -> int:
    """Receive until as many as wanted came, or none for the timeout in seconds; return how many."""
    require(spool)
    received = 0
    seen: object = None
    is_told = False
    quiet_since = time.monotonic()
    while wanted is None or received < wanted:
        files = _files(spool)
        if files != seen:
            try:
                with database(spool) as db:
                    more = receiver.drain(db, None if wanted is None else wanted - received)
                    seen = _files(spool)  # nobody else can write between the last look and this
                received += more
                quiet_since = time.monotonic() if more else quiet_since
            except DatabaseLocked as locked:
                if not is_told:
                    output.note(f"{locked}; waiting for it")
                    is_told = True
        if timeout is not None and time.monotonic() - quiet_since >= timeout:
            break
        time.sleep(LOOK_SECONDS)
    return received


def _files(spool: Path) -> list[tuple[str, int, int]]:
    """Return what changes when a message is added: names, sizes and times of the data files."""
    found = []
    for path in spool.glob("*.data"):
        try:
            status = path.stat()
        except FileNotFoundError:  # cleaned away since the listing
            continue
        found.append((path.name, status.st_size, status.st_mtime_ns))
    return sorted(found)
