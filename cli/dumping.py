"""`oms dump`: every operation of the journal, in order, for a person or a program.

Reads data files and archives without the lock and changes nothing, so it works on a running and on
a broken database. An operation that nothing vouches for yet (the last commit of a running database,
or of one that was killed) is marked: it may not be there after a recovery.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options, output
from cli.failures import ExitCode, Usage
from cli.stores import require
from cli.wording import iso_microseconds, preview, size_text

if TYPE_CHECKING:  # the engine is imported when a command needs it
    from journal.dump import DumpedOperation

REDACTED = "***"
PREVIEW_CHARACTERS = 40
TITLE = "     file     offset     commit  time                         operation  what"


class Kind(StrEnum):
    """An operation as it is asked for."""

    ADD = "ADD"
    DELIVER = "DELIVER"
    DELETE = "DELETE"
    PUT = "PUT"
    DROP = "DROP"


def dump(  # noqa: PLR0913
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="Data files, archives, directories.  [default: the spool]"),
    ] = None,
    first: Annotated[
        int | None, typer.Option("--from", min=1, metavar="SEQ", help="From this data file on.")
    ] = None,
    last: Annotated[
        int | None, typer.Option("--to", min=1, metavar="SEQ", help="Up to this data file.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", "-q", metavar="Q", help="Of this queue only.")
    ] = None,
    operation: Annotated[
        list[Kind] | None,
        typer.Option(
            "--operation", "-o", case_sensitive=False, help="Of this kind only; may be given again."
        ),
    ] = None,
    payload: Annotated[
        bool, typer.Option("--payload", help="With the payloads; base64 with --json.")
    ] = False,
    redact: Annotated[bool, typer.Option("--redact", help="Hide payloads, values and properties.")] = False,
    spool: options.Spool = options.SPOOL_DEFAULT,
    as_json: options.AsJson = False,
) -> None:
    """Print every operation in the journal, in order.

    From data files or archives; one line each, with --json one object.
    Works on a running or broken database.
    Exits 1 when a part of a file could not be read as operations.
    """
    if payload and redact:
        raise Usage("--payload shows what --redact hides: give one of them")
    if not paths:
        require(spool)
    show = _Show(payload=payload, redact=redact)
    printing = show.as_json if as_json else show.as_line
    wanted = {kind.value for kind in operation or Kind}
    damage = _dump(paths or [spool], Span(first, last), lambda found: _fits(found, queue, wanted), printing)
    if damage:
        raise typer.Exit(ExitCode.NO)


@dataclass(frozen=True, slots=True)
class Span:
    """The data files that are wanted, by sequence; None is no bound."""

    first: int | None
    last: int | None


def _fits(found: "DumpedOperation", queue: str | None, wanted: set[str]) -> bool:
    return found.operation in wanted and queue in (None, found.queue)


@dataclass(frozen=True, slots=True)
class _Show:
    """How much of an operation is printed."""

    payload: bool
    redact: bool

    def as_json(self, found: "DumpedOperation") -> None:
        """Print the operation as one JSON object."""
        document = {
            "sequence": found.sequence,
            "offset": found.offset,
            "commit": found.commit,
            "operation": found.operation,
            "message": found.message,
            "queue": found.queue,
            "key": found.key,
            "time": iso_microseconds(found.time),
            "length": found.length,
            "properties": self._properties(found),
            "owner": found.owner,
            "moved": found.moved,
            "vouched": found.vouched,
        }
        if self.payload:
            document["payload"] = found.payload
        output.print_json_line(document)

    def as_line(self, found: "DumpedOperation") -> None:
        """Print the operation as one line."""
        subject = f"key {found.key}" if found.key is not None else f"{found.queue} #{found.message}"
        parts = [subject]
        if found.length is not None:
            parts.append(size_text(found.length))
        parts += [f"{key}={value}" for key, value in (self._properties(found) or {}).items()]
        parts += ["moved"] * found.moved + ["NOT VOUCHED FOR"] * (not found.vouched)
        if self.payload and found.payload is not None:
            parts.append(preview(found.payload, PREVIEW_CHARACTERS))
        where = f"{found.sequence:>9} {found.offset:>10} {found.commit:>10}"
        time = iso_microseconds(found.time)
        output.print_line(f"{where}  {time:27}  {found.operation:9}  {'  '.join(parts)}")

    def _properties(self, found: "DumpedOperation") -> dict[str, str] | None:
        if found.properties is None or not self.redact:
            return found.properties
        return dict.fromkeys(found.properties, REDACTED)
