"""Targets: what people and their programs hand to the commands, and text on its way to a terminal or a page."""

import io
import json
from collections.abc import Iterator

from oms_journal.analysis.spark.options import BadOption
from oms_journal.analysis.spark.options import parse as parse_options
from oms_journal.cli.demo.chess.pgn import OPERA, PgnError, numbered
from oms_journal.cli.demo.chess.pgn import parse as parse_game
from oms_journal.cli.messages.sources import BadEntry, SourceFormat, entries
from oms_journal.cli.output import preview, printable
from oms_journal.database.options import ENVIRONMENT, Options, parse_duration, parse_size
from oms_journal.journal import names
from oms_journal.journal.errors import InvalidName, LimitExceeded
from oms_journal.journal.format.records import encode_properties
from oms_journal.journal.operations import encode_name
from tests.fuzz.target import Taker, Target, target

TEXT_TARGETS: dict[str, Target] = {}
MESSAGE_BYTES_MAX = 1000


def _sources() -> Iterator[bytes]:
    said = (
        b"a line\r\nanother\n\nlast",
        b'{"a": 1}\n[1, 2]\n\n"x"\n',
        b'a,b\n1,"two, and ""three"""\nx,\n',
        b'{"payload": "AAE=", "queue": "q", "properties": {"k": "v"}, "producer_id": "p"}\n{"text": "x"}\n',
    )
    for place, each in enumerate(said):
        yield bytes([place]) + each
    yield b"\x01" + "{}".encode("utf-16")
    yield b"\x03" + b'{"text": "x", "queue": "\\ud800", "properties": {"\\ud800": ""}}'


@target(TEXT_TARGETS, _sources)
def load_source(data: bytes) -> None:
    """A file for `oms load`: messages that the engine takes or refuses in words, and what is JSON is JSON in UTF-8."""
    taker = Taker(data)
    kind = list(SourceFormat)[taker.number() % len(SourceFormat)]
    said = taker.rest()
    try:
        found = list(entries(io.BytesIO(said), kind, bytes_max=MESSAGE_BYTES_MAX))
    except BadEntry:
        return
    for entry in found:
        if kind in (SourceFormat.NDJSON, SourceFormat.CSV):
            json.loads(entry.payload.decode())
        try:
            encode_name("q" if entry.queue is None else entry.queue, "queue")
            encode_properties(entry.properties)
            if entry.producer_id is not None:
                encode_name(entry.producer_id, "producer")
        except (InvalidName, LimitExceeded):
            continue
    if kind is SourceFormat.LINES:
        whole = said.replace(b"\r\n", b"\n")
        assert b"\n".join(entry.payload for entry in found) in (whole, whole[:-1])


def _games() -> Iterator[bytes]:
    yield OPERA.read_bytes()[:1500]
    yield b"1. e4 e5 2. Nf3 {c} d6 ; x\n3. d4 Bg4 $6 (3... exd4 (4. a3)) 4. a3 1-0"
    yield b'[White "a \\" b"]\n\n1. f3 e5 2. g4 Qh4# 0-1'


@target(TEXT_TARGETS, _games)
def game(data: bytes) -> None:
    try:
        found = parse_game(data.decode("utf-8", "replace"))
    except PgnError:
        return
    assert parse_game(numbered(found.moves)).moves == found.moves


def _options() -> Iterator[bytes]:
    for text in ("25M", " 7 k", "1.5h", "30", "7d", "nan", "1e9", "9" * 30):
        yield text.encode()


@target(TEXT_TARGETS, _options)
def engine_options(data: bytes) -> None:
    """Sizes and durations as people write them, and the environment's."""
    text = data.decode("utf-8", "replace")
    for read in (parse_size, parse_duration):
        try:
            assert read(text) >= 0
        except ValueError:
            continue
    for name in ENVIRONMENT:
        try:
            Options.from_environment({name: text})
        except ValueError:
            continue


def _loads() -> Iterator[bytes]:
    yield b"path=/spool\nsince=2026-01-01\nqueue=a\nmode=FAILFAST"
    yield b"paths=/a,/b\nmaxPartitionBytes=1000\nverify=false\nfromSequence=3\ntoSequence=9"
    yield b'path=["/a", "/b"]\nuntil=2026-01-01T00:00:00Z\noperation=ADD,DELIVER\nqueues=["a"]'
    yield b"path=/a\nsince=99999-01-01\ntable=files\nstartingOffsets=latest\nmaxFilesPerTrigger=1\nonMissing=gap"


@target(TEXT_TARGETS, _loads)
def analysis_options(data: bytes) -> None:
    lines = data.decode("utf-8", "replace").split("\n")
    given = {name: value for name, _, value in (line.partition("=") for line in lines)}
    try:
        parse_options(given)
    except BadOption:
        return


def _names() -> Iterator[bytes]:
    for name in ("omsmsg-0000000001.data", "omsmsg-0000000001-v0001.archive", "omsmsg.lock", "omsmsg.hold.new"):
        yield name.encode()


@target(TEXT_TARGETS, _names)
def file_name(data: bytes) -> None:
    name = data.decode("utf-8", "surrogateescape")
    found = names.parse(name)
    assert found is None or str(found) == name


def _texts() -> Iterator[bytes]:
    yield b"\x1b[31mred\x1b[0m\x07\r"
    yield "\u202eabc\u2066".encode()
    yield b"\xff\xfe\xfd"


@target(TEXT_TARGETS, _texts)
def terminal_text(data: bytes) -> None:
    """A name or a payload on its way to a terminal: nothing in it that a terminal acts upon."""
    for way in ("surrogateescape", "backslashreplace", "replace"):
        assert printable(data.decode("utf-8", way)).isprintable()
    assert preview(data, 40).isprintable() and len(preview(data, 40)) <= 40
