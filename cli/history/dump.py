"""`oms dump`: every operation of the journal, in order, for a person or a program.

Reads data files and archives without the lock and changes nothing, so it works on a running and on
a broken database. An operation that nothing vouches for yet (the last commit of a running database,
or of one that was killed) is marked: it may not be there after a recovery.
"""

import json
import sys
from binascii import b2a_base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from oms_journal.broker.records import CHECKPOINT, CHECKPOINTS, RecordError
from oms_journal.cli import options, output
from oms_journal.cli.failures import ExitCode, Usage
from oms_journal.cli.output import iso_microseconds, preview, size_text
from oms_journal.cli.stores import HOW, require
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.dump import (
    KIND_NAMES,
    Column,
    DumpedColumns,
    DumpedDamage,
    data_paths,
    properties_of,
    sequence_of,
)
from oms_journal.recovery.dump import dump_as_columns

REDACTED = "***"
CHECKPOINT_MEANINGS = {"ETBC": "cold start", "ETBH": "hot start", "ETBT": "termination"}
PREVIEW_CHARACTERS = 40
JSON_MARKS = ("owner", "moved", "vouched", "damaged")
TEXT_MARKS = ("moved", "NOT VOUCHED FOR", "DAMAGED")
SECOND_CHARACTERS = 19  # of a time, up to its seconds
CALENDAR_END = 253_402_300_800_000_000  # the year 10000, in microseconds


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
    or broken database. It exits 1 when oms could not read a part of a file as operations, or a file is missing.

    Of a directory, oms judges each file as `oms verify` does. A file is late when a former owner wrote it after another
    process had taken over. Nothing in it was ever acknowledged: its operations are shown, and marked as not vouched
    for. Files that the database does not need any more are left out. A file that you give by its own path is shown
    whatever stands beside it.
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

    def among(self, found: DumpedColumns) -> DumpedColumns:
        """Return the operations that are wanted."""
        columns = found.columns
        rows = np.isin(columns["kind"], [Operation[name] for name in self.operations])
        if self.queue is not None:
            places = [place for place, name in enumerate(found.names) if name == self.queue]
            rows &= np.isin(columns["name"], places) & (columns["kind"] < Operation.PUT)
        return found if rows.all() else found.only(rows)


def _dump(paths: list[Path], narrowed: _Narrowed, shown: "_Shown") -> int:
    """Print what is wanted; return how many damaged ranges and payloads there were."""
    damage_count = 0
    for found in dump_as_columns(RealDisk(), paths, narrowed.has_file):
        if isinstance(found, DumpedDamage):
            shown.print_damage(found)
            damage_count += not found.is_gap
        else:
            damage_count += int(found.columns["damaged"].sum())
            shown.print(narrowed.among(found))
    return damage_count


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """How operations are printed, and how much of them.

    What is the same in many rows is made into text once, and the rows are put together from these texts.
    """

    as_json: bool
    payload: bool
    redact: bool

    def print(self, found: DumpedColumns) -> None:
        """Print operations."""
        if not len(found):
            return
        if self.as_json:
            output.print_as_they_are(self._documents(found))
        else:
            output.print_lines(self._lines(found))

    def print_damage(self, found: DumpedDamage) -> None:
        """Print on stderr what could not be read."""
        if self.as_json:
            place = {"file": found.file, "sequence": found.sequence, "start": found.start, "end": found.end}
            print(json.dumps({"damage": found.reason, **place, "repaired": found.is_gap}), file=sys.stderr)
        else:
            output.note(f"{found.file}, bytes {found.start:,} to {found.end:,}: {found.reason}")

    def _documents(self, found: DumpedColumns) -> Iterator[str]:
        """Return the JSON object of each row, a line each."""
        columns = found.columns

        def subject(kind: int, name: int) -> str:
            said = json.dumps(found.names[name])
            return f'"queue": null, "key": {said}' if kind >= Operation.PUT else f'"queue": {said}, "key": null'

        def ending(producer: int, *values: int) -> str:
            known = dict(zip(JSON_MARKS, values, strict=True))
            flags = {name: bool(value) for name, value in known.items() if name != "owner"}
            return json.dumps({"producer_id": found.producers[producer], **known, **flags})[1:-1]

        subjects = _texts((columns["kind"], columns["name"]), subject)
        endings = _texts((columns["producer"], *(columns[name] for name in JSON_MARKS)), ending)
        times = _times(columns["time"])
        first_times = times if (columns["first_time"] == columns["time"]).all() else _times(columns["first_time"])
        rows = zip(
            columns["offset"].tolist(),
            columns["commit"].tolist(),
            [KIND_NAMES[kind] for kind in columns["kind"].tolist()],
            _unless(columns["number"], columns["kind"] >= Operation.PUT),
            subjects,
            times,
            first_times,
            _unless(columns["length"], ~_have_bytes(columns["kind"])),
            self._property_texts(found),
            endings,
            self._term_members(found),
            self._checkpoint_members(found),
            self._payload_members(found),
            strict=True,
        )
        line = (
            f'{{"sequence": {found.sequence}, "offset": %d, "commit": %d, "operation": "%s", "message": %s, %s, '
            '"time": "%s", "first_time": "%s", "length": %s, "properties": %s, %s%s%s%s}\n'
        )
        return map(line.__mod__, rows)

    def _property_texts(self, found: DumpedColumns) -> Sequence[str]:
        """Return the properties of each row as JSON."""
        texts: list[str] = np.where(found.columns["kind"] == Operation.ADD, "{}", "null").tolist()
        for row, properties in self._properties(found):
            texts[row] = json.dumps(properties)
        return texts

    def _properties(self, found: DumpedColumns) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the rows that have properties, and these."""
        rows = np.flatnonzero(found.columns["properties"])
        if len(rows):
            mine = found.only(found.columns["properties"] > 0)
            for row, data in zip(rows.tolist(), mine.properties(), strict=True):
                properties = properties_of(data)
                yield row, dict.fromkeys(properties, REDACTED) if self.redact else properties

    def _term_members(self, found: DumpedColumns) -> Sequence[str]:
        texts = [""] * len(found)
        for row, terms in self._terms(found):
            texts[row] = "".join(f", {json.dumps(name)}: {json.dumps(value)}" for name, value in terms.items())
        return texts

    def _terms(self, found: DumpedColumns) -> Iterator[tuple[int, dict[str, str | int]]]:
        """Yield the rows of messages that have terms, and these."""
        for row, (due, expiry, attempts, group) in found.terms().items():
            terms = {
                "due": due if due is None else iso_microseconds(due),
                "expiry": expiry if expiry is None else iso_microseconds(expiry),
                "attempts": attempts,
                "group": group
                if group is None
                else REDACTED
                if self.redact
                else bytes(group).decode(errors="backslashreplace"),
            }
            yield row, {name: value for name, value in terms.items() if value is not None}

    def _checkpoint_members(self, found: DumpedColumns) -> Sequence[str]:
        texts = [""] * len(found)
        for row, checkpoint in _checkpoints(found):
            shown = dict.fromkeys(checkpoint, REDACTED) if self.redact else checkpoint
            texts[row] = f', "checkpoint": {json.dumps(shown)}'
        return texts

    def _payload_members(self, found: DumpedColumns) -> Sequence[str]:
        if not self.payload:
            return [""] * len(found)
        coded = [f', "payload": "{b2a_base64(payload, newline=False).decode()}"' for payload in found.payloads()]
        for row in np.flatnonzero(~_have_bytes(found.columns["kind"])).tolist():
            coded[row] = ', "payload": null'
        return coded

    def _lines(self, found: DumpedColumns) -> Iterator[str]:
        """Return a line for each row, for people."""
        columns = found.columns
        subjects = _texts(
            (columns["kind"], columns["name"]),
            lambda kind, name: f"{found.names[name]} #" if kind < Operation.PUT else f"key {found.names[name]}",
        )
        sizes = _texts((columns["length"],), lambda length: f"  {size_text(length)}")
        for row in np.flatnonzero(~_have_bytes(columns["kind"])).tolist():
            sizes[row] = ""
        more = [""] * len(found)
        for row, properties in self._properties(found):
            more[row] = "".join(f"  {key}={value}" for key, value in properties.items())
        for row, terms in self._terms(found):
            more[row] += "".join(f"  {name} {value}" for name, value in terms.items())
        if not self.redact:
            for row, checkpoint in _checkpoints(found):
                more[row] += "  {meaning} {start} of broker {broker_id}, {time}, by {job}".format(**checkpoint)
        marks = _texts(
            (columns["moved"], ~columns["vouched"], columns["damaged"]),
            lambda *flags: "".join(
                f"  {mark}"
                for mark, is_set in zip(("moved", "NOT VOUCHED FOR", "DAMAGED"), flags, strict=True)
                if is_set
            ),
        )
        rows = zip(
            columns["offset"].tolist(),
            _times(columns["time"], SECOND_CHARACTERS),
            [KIND_NAMES[kind] for kind in columns["kind"].tolist()],
            subjects,
            _unless(columns["number"], columns["kind"] >= Operation.PUT, ""),
            sizes,
            more,
            marks,
            self._previews(found),
            strict=True,
        )
        return map(f"{found.sequence:4} %9d  %sZ  %-7s  %s%s%s%s%s%s".__mod__, rows)

    def _previews(self, found: DumpedColumns) -> Sequence[str]:
        if not self.payload:
            return [""] * len(found)
        shown = [f"  {preview(payload, PREVIEW_CHARACTERS)}" for payload in found.payloads()]
        for row in np.flatnonzero(~_have_bytes(found.columns["kind"])).tolist():
            shown[row] = ""
        return shown


def _have_bytes(kinds: Column) -> Column:
    """Say of each row whether it has a payload or a value."""
    found: Column = (kinds == Operation.ADD) | (kinds == Operation.PUT)
    return found


def _unless(numbers: Column, is_none: Column, none: str = "null") -> list[Any]:
    """Return the numbers, another text where there is none."""
    found: list[Any] = numbers.tolist()
    for row in np.flatnonzero(is_none).tolist():
        found[row] = none
    return found


def _texts(columns: Sequence[Column], text: Callable[..., str]) -> list[str]:
    """Return the text of each row's values, made once for rows that are alike."""
    if all(len(column) and (column == column[0]).all() for column in columns):
        return [text(*(column[0].item() for column in columns))] * len(columns[0])
    known: dict[tuple[Any, ...], str] = {}
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    for row in set(rows):
        known[row] = text(*row)
    return [known[row] for row in rows]


def _times(times: Column, characters: int | None = None) -> list[str]:
    """Return each time as ISO 8601 UTC, or as many of its first characters."""
    if len(times) and times.min() >= 0 and times.max() < CALENDAR_END:
        texts = np.datetime_as_string(times.astype("M8[us]"), unit="us")
        if characters is not None:
            return texts.astype(f"U{characters}").tolist()  # type: ignore[no-any-return]
        return [f"{text}Z" for text in texts.tolist()]
    return [iso_microseconds(time)[:characters] for time in times.tolist()]


def _checkpoints(found: DumpedColumns) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows in which a broker's checkpoint is, and what it says.

    (EntireX 9.6, Managing the Broker Persistent Store, "Broker Checkpoints in Adabas".)
    """
    columns = found.columns
    rows = (columns["kind"] == Operation.PUT) & ~columns["damaged"]
    keys = dict.fromkeys(columns["name"][rows].tolist())
    rows &= np.isin(columns["name"], [key for key in keys if found.names[key].startswith(CHECKPOINTS)])
    for row, value in zip(np.flatnonzero(rows).tolist(), found.only(rows).payloads(), strict=True):
        try:
            name, starts, time, broker_id, job = CHECKPOINT.decode(value)
        except RecordError:
            continue
        meaning, when = CHECKPOINT_MEANINGS[name.name], iso_microseconds(time)
        said = {"name": name.name, "meaning": meaning, "start": starts, "time": when}
        yield row, {**said, "broker_id": broker_id, "job": job}


def _text(name: bytes) -> str:
    return bytes(name).decode(errors="backslashreplace")
