"""`oms dump`: every operation of the journal, in order, for a person or a program.

Reads data files and archives without the lock and changes nothing, so it works on a running and on
a broken database. An operation that nothing vouches for yet (the last commit of a running database,
or of one that was killed) is marked: it may not be there after a recovery.
"""

import json
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from oms_journal.broker.records import CHECKPOINT, CHECKPOINTS, RecordError
from oms_journal.cli import options, output
from oms_journal.cli.failures import ExitCode, Usage
from oms_journal.cli.output import iso_microseconds, preview, size_text
from oms_journal.cli.stores import HOW, require
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.reading.dump import DumpedDamage, DumpedOperation, data_paths, sequence_of
from oms_journal.journal.reading.dump import dump as dumped

REDACTED = "***"
CHECKPOINT_MEANINGS = {"ETBC": "cold start", "ETBH": "hot start", "ETBT": "termination"}
PREVIEW_CHARACTERS = 40


class OperationKind(StrEnum):
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
    first: Annotated[int | None, typer.Option("--from", min=1, metavar="SEQ", help="From this data file on.")] = None,
    last: Annotated[int | None, typer.Option("--to", min=1, metavar="SEQ", help="Up to this data file.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", metavar="Q", help="Of this queue only.")] = None,
    operation: Annotated[
        list[OperationKind] | None,
        typer.Option("--operation", "-o", case_sensitive=False, help="Of this kind only; may be given again."),
    ] = None,
    payload: Annotated[bool, typer.Option("--payload", help="With the payloads; base64 with --json.")] = False,
    redact: Annotated[bool, typer.Option("--redact", help="Hide payloads, values and properties.")] = False,
    spool: options.Spool = options.SPOOL_DEFAULT,
    as_json: options.AsJson = False,
) -> None:
    """Print every operation in the journal, in order.

    The operations come from data files or archives. Each is one line, or with --json one object. It works on a running
    or broken database. It exits 1 when oms could not read a part of a file as operations.
    """
    if payload and redact:
        raise Usage("--payload shows what --redact hides: give one of them")
    for path in paths or [spool]:
        _check(path, how="PATH" if paths else HOW)
    narrowed = _Narrowed(first, last, queue, frozenset(kind.value for kind in operation or OperationKind))
    shown = _Shown(as_json=as_json, payload=payload, redact=redact)
    if _dump(paths or [spool], narrowed, shown):
        raise typer.Exit(ExitCode.NO)


def _check(path: Path, *, how: str) -> None:
    """Usage where there is nothing of a database's."""
    if path.is_file() and how != HOW:
        if not sequence_of(path):
            raise Usage(f"{path} is no data file and no archive: their names begin with omsmsg-; see `oms dump --help`")
    elif not path.is_dir() or not data_paths(RealDisk(), [path]):
        require(path, how=how)


@dataclass(frozen=True, slots=True)
class _Narrowed:
    """Which data files and operations are wanted; None is no bound."""

    first: int | None
    last: int | None
    queue: str | None
    operations: frozenset[str]

    def has_file(self, sequence: int) -> bool:
        return (self.first or 0) <= sequence and (self.last is None or sequence <= self.last)

    def has(self, found: DumpedOperation) -> bool:
        return found.operation in self.operations and self.queue in (None, found.queue)


def _dump(paths: list[Path], narrowed: _Narrowed, shown: "_Shown") -> int:
    """Print what is wanted; return how many damaged ranges and payloads there were."""
    disk = RealDisk()
    files = [path for path in data_paths(disk, paths) if narrowed.has_file(sequence_of(path))]
    damage_count = 0
    for found in dumped(disk, files):
        if isinstance(found, DumpedDamage):
            shown.print_damage(found)
            damage_count += not found.is_gap
        else:
            damage_count += found.damaged
            if narrowed.has(found):
                shown.print(found)
    return damage_count


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """How an operation is printed, and how much of it."""

    as_json: bool
    payload: bool
    redact: bool

    def print(self, found: DumpedOperation) -> None:
        """Print one operation."""
        if self.as_json:
            output.print_json_line(self._document(found))
        else:
            output.print_line(self._line(found))

    def print_damage(self, found: DumpedDamage) -> None:
        """Print on stderr what could not be read."""
        if self.as_json:
            place = {"file": found.file, "sequence": found.sequence, "start": found.start, "end": found.end}
            print(json.dumps({"damage": found.reason, **place, "repaired": found.is_gap}), file=sys.stderr)
        else:
            output.note(f"{found.file}, bytes {found.start:,} to {found.end:,}: {found.reason}")

    def _document(self, found: DumpedOperation) -> dict[str, Any]:
        document = {
            "sequence": found.sequence,
            "offset": found.offset,
            "commit": found.commit,
            "operation": found.operation,
            "message": found.message,
            "queue": found.queue,
            "key": found.key,
            "time": iso_microseconds(found.time),
            "first_time": iso_microseconds(found.first_time),
            "length": found.length,
            "properties": self._properties(found),
            "producer_id": found.producer,
            "owner": found.owner,
            "moved": found.moved,
            "vouched": found.vouched,
            "damaged": found.damaged,
        }
        if checkpoint := _checkpoint(found):
            document["checkpoint"] = dict.fromkeys(checkpoint, REDACTED) if self.redact else checkpoint
        return document | ({"payload": found.payload} if self.payload else {})

    def _line(self, found: DumpedOperation) -> str:
        subject = f"key {found.key}" if found.key is not None else f"{found.queue} #{found.message}"
        parts = [subject] + ([size_text(found.length)] if found.length is not None else [])
        parts += [f"{key}={value}" for key, value in (self._properties(found) or {}).items()]
        if not self.redact and (checkpoint := _checkpoint(found)):
            parts.append("{meaning} {start} of broker {broker_id}, {time}, by {job}".format(**checkpoint))
        marks = {"moved": found.moved, "NOT VOUCHED FOR": not found.vouched, "DAMAGED": found.damaged}
        parts += [mark for mark, is_set in marks.items() if is_set]
        if self.payload and found.payload is not None:
            parts.append(preview(found.payload, PREVIEW_CHARACTERS))
        time = iso_microseconds(found.time)
        return f"{found.sequence:4} {found.offset:9}  {time[:19]}Z  {found.operation:7}  {'  '.join(parts)}"

    def _properties(self, found: DumpedOperation) -> dict[str, str] | None:
        if found.properties is None or not self.redact:
            return found.properties
        return dict.fromkeys(found.properties, REDACTED)


def _checkpoint(found: DumpedOperation) -> dict[str, Any] | None:
    """Return what a broker's checkpoint says, None for any other operation.

    (EntireX 9.6, Managing the Broker Persistent Store, "Broker Checkpoints in Adabas".)
    """
    if found.payload is None or found.damaged or not (found.key or "").startswith(CHECKPOINTS):
        return None
    try:
        name, starts, time, broker_id, job = CHECKPOINT.decode(found.payload)
    except RecordError:
        return None
    meaning, when = CHECKPOINT_MEANINGS[name.name], iso_microseconds(time)
    return {"name": name.name, "meaning": meaning, "start": starts, "time": when, "broker_id": broker_id, "job": job}
