"""`oms send`, `oms list`, `oms show`: adds one message, and shows what waits."""

import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oms_journal.cli import interrupts, options, output
from oms_journal.cli.failures import Usage
from oms_journal.cli.output import age_text, counted, preview, size_text, to_the_second
from oms_journal.cli.stores import database, engine_options, looked_up, view
from oms_journal.journal.names import DataFileName

if TYPE_CHECKING:  # the engine, which the help needs nothing of
    from oms_journal.database.stats import QueueStats
    from oms_journal.journal.reading.message import Message

LIST_COUNT = 20  # messages shown to a person who did not say how many
PREVIEW_CHARACTERS = 64
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHOWN_BYTES_MAX = 4096  # of a payload, to a person who did not ask for --raw


def send(  # noqa: PLR0913
    ctx: typer.Context,
    queue: options.Queue,
    text: Annotated[
        str | None, typer.Argument(help="The payload. Without it oms reads standard input.", show_default=False)
    ] = None,
    empty: Annotated[bool, typer.Option("--empty", help="Send an empty payload.")] = False,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", "-p", metavar="KEY=VALUE", help="Give the message a property; may be given again."),
    ] = None,
    producer_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Send under an identifier of your own. If you send again under it, nothing is added."
        ),
    ] = None,
    spool: options.Spool = options.SPOOL_DEFAULT,
    max_message_size: options.MaxMessageSize = None,
    create: options.Create = False,
    wait: options.Wait = 0.0,
    broker: options.BrokerUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Add one message to a queue, durably, and print its number.

    The payload is TEXT, or the bytes of standard input exactly as they come. oms refuses an empty payload, because it
    may come from a variable that is not set. If you want one, say --empty.

    With --broker oms sends the message to a broker, as a unit of work of its own. It logs on as OMS_USER with
    OMS_PASSWORD, commits, and prints the UOWID of the unit. OMS_BROKER says the address too, unless you give --spool.
    """
    if producer_id == "":
        raise Usage("--producer-id is an empty text; give an identifier of your own, or leave it out")
    pairs = dict(_pair(text) for text in properties or ())
    limit = engine_options(max_message_size=max_message_size).max_message_size
    payload = _payload(text, limit, is_empty=empty)
    broker = options.broker_meant(ctx, broker)
    if broker is not None:
        from oms_journal.cli.broker import units  # takes as long as the engine, and few send so

        units.refuse_beside(wait=wait, create=create)
        sent = units.send_unit(broker, queue, payload, properties=pairs, producer=producer_id)
        output.print_json(sent, indent=None) if as_json else output.print_line(sent["uowid"])
        return
    opening = database(spool, begins=True, wait_seconds=wait, create=create, max_message_size=max_message_size)
    with opening as db, interrupts.delay_signals():
        number = db.add(queue, payload, properties=pairs or None, producer_id=producer_id)
        if as_json:
            output.print_json({"number": number, "queue": queue, "length": len(payload)}, indent=None)
        else:
            output.print_line(str(number))


def _payload(text: str | None, bytes_max: int, *, is_empty: bool) -> bytes:
    """Return what is to be sent. Usage for nothing that nobody has asked for."""
    if is_empty:
        if text:
            raise Usage("--empty is for a message without a payload: give it without TEXT")
        return b""
    payload = os.fsencode(text) if text is not None else _standard_input(bytes_max)
    if not payload:
        where = "standard input" if text is None else "TEXT"
        raise Usage(f"{where} is empty, and no message was added; --empty adds an empty one")
    return payload


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise Usage(f"--property wants KEY=VALUE, not {text!r}")
    return key, value


def _standard_input(bytes_max: int) -> bytes:
    if sys.stdin.isatty():
        output.note("type the message, end it with Ctrl-D on a line of its own")
    payload = sys.stdin.buffer.read(bytes_max + 1)
    if len(payload) > bytes_max:
        raise Usage(f"standard input has more than the {bytes_max:,} bytes a message may have; see --max-message-size")
    return payload


def list_messages(
    queue: Annotated[
        str | None,
        typer.Argument(help="Show this queue's messages instead of all queues.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Show at most N messages; 0 shows all.  [default: 20, with --json all]"),
    ] = None,
    held: Annotated[
        bool, typer.Option("--held", help="Show only what is held back, because it may have been delivered.")
    ] = False,
    spool: options.Spool = options.SPOOL_DEFAULT,
    as_json: options.AsJson = False,
) -> None:
    """Show the queues, or the undelivered messages of one.

    The oldest comes first. It works on a running database. With --json you get one document for the queues, and one
    line for each message of a queue. Due time, expiry, group and attempts are shown where a message has any.
    """
    if held and _list_held_of_broker(spool, queue, limit, as_json=as_json):
        return
    if queue is None:
        _list_queues(spool, held=held, as_json=as_json)
    elif as_json:
        with view(spool) as looking:
            found = looking.held(queue) if held else looking.undelivered(queue)
            for message in islice(found, limit or None):
                output.print_json_line(message_document(message))
            if not held and (count := looking.held_count(queue)):
                output.note(_held_text(queue, count))
    else:
        _list_queue(spool, queue, LIST_COUNT if limit is None else limit, held=held)


def _list_held_of_broker(spool: Path, queue: str | None, limit: int | None, *, as_json: bool) -> bool:
    """List what is held of a broker's store, by units of work and publications; False where it is nobody's."""
    from oms_journal.cli.broker import held  # takes as long as the engine, and few look so

    with view(spool) as looking:
        if not held.is_brokers(looking):
            return False
        found = [each for each in held.held_of(looking) if queue in (None, each.queue)]
    shown = limit if limit is not None or as_json else LIST_COUNT
    held.print_held(found, shown, as_json=as_json)
    return True


def _list_queues(spool: Path, *, held: bool, as_json: bool) -> None:
    with view(spool) as looking:
        found = looking.stats()
    queues = {name: queue for name, queue in found.queues.items() if queue.held or not held}
    if as_json:
        output.print_json({"queues": {name: asdict(queue) for name, queue in queues.items()}})
    elif queues:
        print_queues(fullest(queues))
    else:
        output.print_line("No messages are held back." if held else "No undelivered messages.")


def fullest(queues: "dict[str, QueueStats]") -> "list[tuple[str, QueueStats]]":
    """Return the queues, the one with the most messages first."""
    return sorted(queues.items(), key=lambda item: (-item[1].undelivered, item[0]))


def print_queues(queues: "list[tuple[str, QueueStats]]") -> None:
    """Print the queues as a table; how many messages are held back only where some are."""
    has_held = any(queue.held for _, queue in queues)
    columns = (
        output.Column("queue", shrinks=True),
        output.number_column("undelivered"),
        *([output.number_column("held back")] if has_held else []),
        output.number_column("size"),
        output.number_column("oldest"),
        output.number_column("age"),
    )
    rows = (
        (
            name,
            f"{queue.undelivered:,}",
            *([f"{queue.held:,}"] if has_held else []),
            size_text(queue.bytes),
            str(queue.oldest or ""),
            age_text(queue.oldest_age),
        )
        for name, queue in queues
    )
    output.print_table(columns, rows)


def _list_queue(spool: Path, queue: str, limit: int, *, held: bool) -> None:
    with view(spool) as looking:
        held_count = looking.held_count(queue)
        count = held_count if held else looking.undelivered_count(queue) - held_count
        found = looking.held(queue) if held else looking.undelivered(queue)
        if count:
            _print_messages([_row(message) for message in islice(found, limit or None)])
    if not count and (held or not held_count):
        output.print_line(f"No {'held back' if held else 'undelivered'} messages in queue {queue}.")
    if limit and count > limit:
        output.print_line(f"… and {count - limit:,} more; --limit 0 shows all")
    if held_count and not held:
        output.print_line(_held_text(queue, held_count))


def _held_text(queue: str, count: int) -> str:
    return (
        f"{counted(count, 'message')} of queue {queue} held back, since delivered already perhaps: "
        "`oms list --held` shows, `oms release` decides."
    )


def _print_messages(rows: "list[tuple[tuple[str, str, str], dict[str, Any], str]]") -> None:
    """Print messages as a table: what it says of their terms and attempts only where some of them have any."""
    said = [name for name in _SAID if any(name in terms for _, terms, _ in rows)]
    columns = (
        output.number_column("number"),
        output.Column("added"),
        output.number_column("size"),
        *(output.number_column(name) if name == "attempts" else output.Column(_SAID[name]) for name in said),
        output.Column("payload", shrinks=True),
    )
    output.print_table(
        columns, ((*row, *(_said_text(terms.get(name)) for name in said), shown) for row, terms, shown in rows)
    )


def _row(message: "Message") -> tuple[tuple[str, str, str], dict[str, Any], str]:
    return (
        (str(message.number), to_the_second(message.added_at), size_text(len(message.payload))),
        _said(message),
        preview(message.payload, PREVIEW_CHARACTERS),
    )


_SAID = {"due_at": "due", "expires_at": "expires", "group": "group", "attempts": "attempts"}  # in JSON, and to a person


def _said(message: "Message") -> dict[str, Any]:
    """Return when a message is due and expires, its group, and how often it came back: what it has of these."""
    terms = getattr(message, "_terms", None)
    found = {
        "due_at": terms and _moment(terms.due),
        "expires_at": terms and _moment(terms.expiry),
        "group": terms and terms.group and terms.group.decode(),
        "attempts": message.attempts or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _moment(microseconds: int | None) -> datetime | None:
    """Return a time, the last one that there is for what lies behind it."""
    if microseconds is None:
        return None
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if microseconds > 0 else datetime.min.replace(tzinfo=UTC)


def _said_text(value: object) -> str:
    if value is None:
        return ""
    return to_the_second(value) if isinstance(value, datetime) else str(value)


def show(
    number: Annotated[
        int,
        typer.Argument(
            min=1, metavar="NUMBER", help="The message's number, as `oms list` shows it.", show_default=False
        ),
    ],
    raw: Annotated[
        bool, typer.Option("--raw", help="Print all bytes of the payload as they are, and nothing else.")
    ] = False,
    spool: options.Spool = options.SPOOL_DEFAULT,
    as_json: options.AsJson = False,
) -> None:
    """Show one undelivered message: place, properties, payload.

    The place is a data file, and the byte in it where the message's commit begins. oms shows at most 4,096 bytes of the
    payload; --raw prints all of it. oms changes nothing, and works on a running database. It exits 1 when there is no
    such message.
    """
    from oms_journal.database.view import with_attempts

    message = looked_up(spool, number)
    if raw:
        sys.stdout.buffer.write(message.payload)
        return
    with view(spool) as looking:
        is_held, message = looking.is_held(number), with_attempts(looking, message)
    if as_json:
        output.print_json(message_document(message, payload=True) | {"held": is_held})
    else:
        _show(message, is_held=is_held)


def _show(message: "Message", *, is_held: bool) -> None:
    age = (datetime.now(UTC) - message.added_at).total_seconds()
    facts = {
        "message": str(message.number),
        "queue": message.queue,
        "added": f"{to_the_second(message.added_at)}  ({age_text(age)} ago)",
        "held back": "it may have been delivered already; see `oms release`" if is_held else "",
        **{_SAID[name]: _said_text(value) for name, value in _said(message).items()},
        "producer": message.producer_id or "",
        "place": f"{DataFileName(message.sequence)} at byte {message.offset:,}",
        "length": f"{len(message.payload):,} bytes",
        **{f"property {key}": value for key, value in message.properties.items()},
    }
    width = max(map(len, facts))
    for name, value in facts.items():
        if value:
            output.print_line(f"{name:{width}}  {value}")
    output.print_line()
    output.print_payload(message.payload, SHOWN_BYTES_MAX)


def message_document(message: "Message", *, payload: bool = False) -> dict[str, Any]:
    """Return the message as JSON has it: terms and attempts where it has any, the payload, if wanted, as base64."""
    document: dict[str, Any] = {
        "number": message.number,
        "queue": message.queue,
        "added_at": message.added_at,
        "producer_id": message.producer_id,
        "properties": message.properties,
        "length": len(message.payload),
        "sequence": message.sequence,
        "offset": message.offset,
    }
    return document | _said(message) | ({"payload": message.payload} if payload else {})
