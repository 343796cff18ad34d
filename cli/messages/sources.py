"""What `oms load` reads, as messages: lines, NDJSON, CSV or envelopes.

    format    a message is                 its payload
    lines     a line                       the line without its end (LF or CR LF)
    ndjson    a line that is not blank     the line, checked to be JSON
    csv       a row under a header row     a JSON object: column name → text
    envelope  a line that is not blank     a JSON object as `oms receive --json` prints it:
                                           `payload` (base64) or `text`, and if wanted
                                           `queue`, `properties`, `producer_id`; others are ignored

Text is UTF-8. Nothing is guessed but the format, from the file's name: .ndjson and .jsonl, .csv;
anything else is lines.
"""

import base64
import binascii
import csv
import io
import json
import sys
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePath
from typing import BinaryIO

from oms_journal.cli.failures import Usage


class SourceFormat(StrEnum):
    """How the input is cut into messages."""

    LINES = "lines"
    NDJSON = "ndjson"
    CSV = "csv"
    ENVELOPE = "envelope"


@dataclass(frozen=True, slots=True)
class Entry:
    """One message to be added. `line` is where it begins in the input, from 1."""

    line: int
    payload: bytes
    queue: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    producer_id: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is a payload and nothing else."""
        return not self.properties and self.producer_id is None


class BadEntry(Exception):
    """A line of the input is not what its format says."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line:,}: {reason}")
        self.line = line
        self.reason = reason


def lines_of(file: Path, option: str) -> dict[int, str]:
    """Return the lines of a file that are not empty, by their number; - is standard input. Usage."""
    name = "standard input" if file == Path("-") else str(file)
    try:
        data = sys.stdin.buffer.read() if file == Path("-") else file.read_bytes()
        lines = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as failure:
        raise Usage(f"{option}: {name} is no text in UTF-8, at byte {failure.start + 1:,}") from failure
    except OSError as failure:
        raise Usage(f"{option}: cannot read {name}: {failure.strerror}") from failure
    found = {at: text for at, line in enumerate(lines, start=1) if (text := line.removesuffix("\r"))}
    if not found:
        raise Usage(f"{option}: {name} names nothing; without {option} everything is released")
    return found


def guess(name: str) -> SourceFormat:
    """Return the format that the file's name suggests."""
    match PurePath(name).suffix.lower():
        case ".ndjson" | ".jsonl":
            return SourceFormat.NDJSON
        case ".csv":
            return SourceFormat.CSV
        case _:
            return SourceFormat.LINES


def entries(stream: BinaryIO, kind: SourceFormat, *, bytes_max: int) -> Iterator[Entry]:
    """Yield the messages of the stream; BadEntry ends it. No line is longer than a message may be."""
    match kind:
        case SourceFormat.LINES:
            return (Entry(number, line) for number, line in _lines(stream, bytes_max))
        case SourceFormat.NDJSON:
            return _ndjson(stream, bytes_max)
        case SourceFormat.CSV:
            return _csv(stream, bytes_max)
        case SourceFormat.ENVELOPE:
            return _envelopes(stream, 2 * bytes_max)  # base64 and the other fields need their room


def _lines(stream: BinaryIO, bytes_max: int) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := stream.readline(bytes_max + 2):
        number += 1
        text = line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line
        if len(text) > bytes_max:
            raise BadEntry(number, f"it is longer than the {bytes_max:,} bytes a message may have")
        yield number, text


def _json_lines(stream: BinaryIO, bytes_max: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, without the mark that some programs begin a file of UTF-8 with."""
    for number, line in _lines(stream, bytes_max):
        text = line.removeprefix(BOM_UTF8) if number == 1 else line
        if text.strip():
            yield number, text


def _ndjson(stream: BinaryIO, bytes_max: int) -> Iterator[Entry]:
    for number, line in _json_lines(stream, bytes_max):
        _parsed(number, line)
        yield Entry(number, line)


def _parsed(number: int, line: bytes) -> object:
    try:
        return json.loads(line.decode())  # of bytes it would guess the encoding
    except UnicodeDecodeError as failure:
        raise BadEntry(number, f"it is not UTF-8: {failure.reason} at byte {failure.start + 1}") from None
    except json.JSONDecodeError as failure:
        raise BadEntry(number, f"it is not JSON: {failure.msg} at character {failure.pos + 1}") from None
    except (RecursionError, ValueError) as failure:
        raise BadEntry(number, f"it is not JSON that can be read: {failure}") from None


def _csv(stream: BinaryIO, bytes_max: int) -> Iterator[Entry]:
    csv.field_size_limit(bytes_max)
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    reader = csv.reader(text, strict=True)
    names: list[str] | None = None
    start = 1
    while True:
        start = reader.line_num + 1
        try:
            row = next(reader, None)
        except (csv.Error, UnicodeDecodeError) as failure:
            raise BadEntry(start, f"it is not CSV in UTF-8: {failure}") from None
        if row is None:
            text.detach()  # the stream is its owner's to close
            return
        if names is None:
            names = _column_names(row)
        elif row:
            yield Entry(start, _row_payload(names, row, start))


def _column_names(row: list[str]) -> list[str]:
    if len(set(row)) != len(row):
        twice = next(name for name in row if row.count(name) > 1)
        raise BadEntry(1, f"the header names the column {twice!r} twice")
    return row


def _row_payload(names: list[str], row: list[str], line: int) -> bytes:
    if len(row) != len(names):
        raise BadEntry(line, f"it has {len(row)} fields, the header has {len(names)}")
    return json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, separators=(",", ":")).encode()


def _envelopes(stream: BinaryIO, bytes_max: int) -> Iterator[Entry]:
    for number, line in _json_lines(stream, bytes_max):
        fields = _parsed(number, line)
        if not isinstance(fields, dict):
            raise BadEntry(number, "it is not a JSON object")
        yield Entry(
            number,
            _envelope_payload(fields, number),
            _text_field(fields, "queue", number),
            _properties(fields, number),
            _text_field(fields, "producer_id", number),
        )


def _envelope_payload(fields: dict[str, object], line: int) -> bytes:
    match fields:
        case {"payload": _, "text": _}:
            raise BadEntry(line, "it has both `payload` and `text`")
        case {"payload": str(coded)}:
            try:
                return base64.b64decode(coded, validate=True)
            except (binascii.Error, ValueError) as failure:
                raise BadEntry(line, f"`payload` is not base64: {failure}; plain text goes into `text`") from None
        case {"text": str(text)}:
            try:
                return text.encode()
            except UnicodeEncodeError as failure:
                raise BadEntry(line, f"`text` is not valid Unicode: {failure.reason}") from None
        case _:
            raise BadEntry(line, "it needs `payload` (base64) or `text`")


def _text_field(fields: dict[str, object], name: str, line: int) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise BadEntry(line, f"`{name}` is not text")
    return value


def _properties(fields: dict[str, object], line: int) -> dict[str, str]:
    properties = fields.get("properties") or {}
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise BadEntry(line, "`properties` is not an object of texts")
    return properties
