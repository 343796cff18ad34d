"""`oms delete`, `oms drop`: deletes messages and drops keys, after asking."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from oms_journal.cli import interrupts, options, output
from oms_journal.cli.failures import ExitCode, Usage
from oms_journal.cli.output import counted, printable
from oms_journal.cli.stores import database, view
from oms_journal.database.options import parse_duration

COMMIT_MESSAGES_MAX = 100_000  # of one DELETE commit


def delete(  # noqa: PLR0913
    numbers: Annotated[
        list[int] | None,
        typer.Argument(min=1, metavar="[NUMBER]...", help="The messages.", show_default=False),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", "-q", metavar="Q", help="Delete all messages of this queue, instead of numbers."),
    ] = None,
    older: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="With --queue: delete only those older than AGE (90s, 30m, 12h, 7d)."),
    ] = None,
    yes: options.Yes = False,
    spool: options.Spool = options.SPOOL_DEFAULT,
    wait: options.Wait = 0.0,
    as_json: options.AsJson = False,
) -> None:
    """Delete undelivered messages, by number or queue, after asking.

    Give the numbers of messages, or --queue. oms asks first, unless you give --yes. If a NUMBER is not undelivered,
    oms deletes the others and exits 1.
    """
    if older is not None and queue is None:
        raise Usage("--older goes with --queue")
    if bool(numbers) == (queue is not None):
        raise Usage("give either message numbers or --queue Q")
    if queue is not None:
        chosen = _of_queue(spool, queue, older)
        what = f"{counted(len(chosen), 'message')} of queue {queue}"
    else:
        chosen = sorted(set(numbers or ()))
        what = f"message {chosen[0]}" if len(chosen) == 1 else f"{len(chosen):,} messages"
    if chosen:
        ask(f"Delete {what}?", yes=yes)
    _print_done(chosen, _deleted(spool, chosen, wait) if chosen else 0, by_number=queue is None, as_json=as_json)


def _of_queue(spool: Path, queue: str, older: str | None) -> list[int]:
    with view(spool) as looking:
        if older is None:
            return list(looking.numbers(queue))
        before = moment(older, "--older")
        return [message.number for message in looking.undelivered(queue) if message.added_at < before]


def moment(age: str, option: str) -> datetime:
    """Return the time that was so long ago; Usage where it is no duration."""
    try:
        return datetime.now(UTC) - timedelta(seconds=parse_duration(age))
    except (ValueError, OverflowError) as failure:
        raise Usage(f"{option}: {failure}") from failure


def ask(question: str, *, yes: bool) -> None:
    """Return when the answer is yes; without a terminal there is nobody to ask. Usage."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Usage("there is no terminal to ask on: give --yes to do it without a question")
    typer.confirm(printable(question), abort=True, err=True)


def _deleted(spool: Path, chosen: list[int], wait: float) -> int:
    count = 0
    with database(spool, wait_seconds=wait) as db:
        for start in range(0, len(chosen), COMMIT_MESSAGES_MAX):
            with interrupts.delay_signals():
                count += db.delete_many(chosen[start : start + COMMIT_MESSAGES_MAX])
    return count


def _print_done(chosen: list[int], deleted: int, *, by_number: bool, as_json: bool) -> None:
    missing = len(chosen) - deleted
    if as_json:
        output.print_json({"deleted": deleted, "missing": missing}, indent=None)
    else:
        gone = f"; {missing:,} not undelivered any more" if missing else ""
        output.print_line(f"{counted(deleted, 'message')} deleted{gone}")
    if missing and by_number:
        raise typer.Exit(ExitCode.NO)


def drop(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key, as a program has put it.", show_default=False)],
    yes: options.Yes = False,
    spool: options.Spool = options.SPOOL_DEFAULT,
    wait: options.Wait = 0.0,
    as_json: options.AsJson = False,
) -> None:
    """Drop a key and its value, after asking.

    A key has a small value that programs set with `put`. oms shows how large the value is and asks, unless you give
    --yes. It exits 1 when there is no such key.
    """
    with view(spool) as looking:
        value = looking.get(key)
    if value is not None:
        ask(f"Drop key {key} ({counted(len(value), 'byte')})?", yes=yes)
        with database(spool, wait_seconds=wait) as db, interrupts.delay_signals():
            dropped = db.drop(key)
    else:
        dropped = False
    if as_json:
        output.print_json({"dropped": dropped}, indent=None)
    else:
        output.print_line(f"key {key} dropped" if dropped else f"there is no key {key}")
    if not dropped:
        raise typer.Exit(ExitCode.NO)
