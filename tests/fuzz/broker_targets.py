"""Targets: what the broker reads back from its stores, and what two brokers say to one another."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import suppress

from oms_journal.broker.attributes.attributes import BUILT_IN, parse_attributes
from oms_journal.broker.attributes.text import AttributesInvalid
from oms_journal.broker.drivers.sqlite_commit import SCHEMA
from oms_journal.broker.drivers.sqlite_contents import SqliteContents
from oms_journal.broker.durations import duration_text, parse_duration, parse_wait
from oms_journal.broker.migration.agreement import (
    LOAD,
    UNLOAD,
    LoadMark,
    StoreOffer,
    decode_mark,
    decode_offer,
    decode_summary,
    encode_mark,
    encode_offer,
    encode_summary,
)
from oms_journal.broker.migration.stream import Decoder, NotAReplica, Tally, encode_part
from oms_journal.broker.queues import ServiceQueue, TopicQueue, parse_queue
from oms_journal.broker.records import LAYOUTS, PREFIX_FIELDS, VERSION, RecordError
from oms_journal.broker.server.migration.exchange import ExchangeRefused, check_in, failure_in, hello_in, nonce_in
from oms_journal.broker.store.start import StoreError
from oms_journal.broker.store.stored import LastNumber, Loaded, StoredIdentifier, StoredMessage, StoredRecord
from oms_journal.journal.format.records import encode_properties
from tests.fuzz.target import Taker, Target, target
from tests.support.journals.golden_files import broker_records

BROKER_TARGETS: dict[str, Target] = {}
_PREFIX_BYTES = 8
assert len(PREFIX_FIELDS) == 4


def _stored_records() -> Iterator[bytes]:
    for place, layout in enumerate(LAYOUTS):
        yield bytes([place]) + broker_records()[layout.kind.name][_PREFIX_BYTES:]


@target(BROKER_TARGETS, _stored_records)
def broker_record(data: bytes) -> None:
    """A record under its key: of which kind says the first byte; the head's beginning is made right."""
    taker = Taker(data)
    place = taker.number()
    layout, extent, body = LAYOUTS[place % len(LAYOUTS)], place // len(LAYOUTS), taker.rest()
    head = bytes([VERSION, layout.kind]) + (extent if extent else 3).to_bytes(2, "little") + bytes(4)
    for value in (body, head + body):
        try:
            record = layout.decode(value)
        except RecordError:
            continue
        assert layout.decode(layout.encode(record)) == record
        assert len(layout.heads([value])) == 1


def _queues() -> Iterator[bytes]:
    for queue in (ServiceQueue("A", "B/~", "C", is_reply=True), TopicQueue("größe/~1"), ServiceQueue("", "", "")):
        yield str(queue).encode()


@target(BROKER_TARGETS, _queues)
def queue_name(data: bytes) -> None:
    found = parse_queue(data.decode("utf-8", "surrogateescape"))
    if found is not None:
        assert parse_queue(str(found)) == found


def _replicas() -> Iterator[bytes]:
    parts: tuple[Loaded, ...] = (
        StoredMessage(7, "A/B/C", b"payload", {"k": "v"}, -1, "producer"),
        StoredRecord("broker/clock", b"value"),
        StoredIdentifier("A/B/C", "p", 1, 2, 3, 4),
        LastNumber(9),
    )
    yield from map(encode_part, parts)
    yield b"".join(map(encode_part, parts))


@target(BROKER_TARGETS, _replicas)
def replica(data: bytes) -> None:
    """The stream of a store on its way to another, in one piece and in two."""
    found = _parts([data])
    assert _parts([data[: len(data) // 2], data[len(data) // 2 :]]) == found
    for part in found[0]:
        assert _parts([encode_part(part)]) == ([part], False)  # type: ignore[arg-type]


def _parts(pieces: list[bytes]) -> tuple[list[object], bool]:
    decoder, found = Decoder(), list[object]()
    try:
        for piece in pieces:
            for part in decoder.feed(piece):
                found.append(part)
    except NotAReplica:
        return found, True
    return found, False


_OFFER = StoreOffer(version="0.1.0", mode=UNLOAD, driver="JOURNAL", place="/spool", host="h", owner="ETB", parts=3)
_MINE = StoreOffer(version="0.1.0", mode=LOAD, driver="SQLITE", place="/other", host="h")
_SUMMARY = {"Message": Tally(3, 100, "00ff")}


def _said() -> Iterator[bytes]:
    offer = encode_offer(_OFFER)
    for document in (
        offer,
        {"text": "why", "nonce": "0" * 32, "offer": offer},
        {"nonce": "0" * 32, "offer": offer},
        encode_summary(_SUMMARY),
        {"summary": encode_summary(_SUMMARY), "last": 7},
    ):
        yield json.dumps(document).encode()
    yield encode_mark(LoadMark(_OFFER, 1_767_225_600_000_000, _SUMMARY))
    yield b'{"source": "x", "begun": Infinity, "offer": {}}'
    yield b'{"a": {"count": 1e999, "bytes": 1, "digest": ""}}'


@target(BROKER_TARGETS, _said)
def partner_words(data: bytes) -> None:
    """What a partner says of itself, its failure, and what it has; and the mark of a load."""
    try:
        mark = decode_mark(data)
    except ValueError:
        pass
    else:
        assert decode_mark(encode_mark(mark)) == mark and str(mark)
    for read in (lambda body: failure_in(body, _MINE), nonce_in, hello_in, check_in):
        with suppress(ExchangeRefused):
            read(data)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return
    try:
        offer = decode_offer(document)
    except ValueError:
        pass
    else:
        assert decode_offer(encode_offer(offer)) == offer and str(offer)
    try:
        summary = decode_summary(document)
    except ValueError:
        return
    assert decode_summary(encode_summary(summary)) == summary


def _rows() -> Iterator[bytes]:
    yield b""
    message = [b"i\x07\0\0\0\0\0\0\0", b"t\x05\0A/B/C", b"b\x01\0p", b"b\0\0", b"i\0\0\0\0\0\0\0\0", b"n"]
    yield b"\0" + b"".join(message)
    properties = encode_properties({"k": "v"})
    message[3] = b"b" + len(properties).to_bytes(2, "little") + properties
    yield b"\0" + b"".join(message) + b"\1b\x0c\0broker/clockb\x02\0xx"
    yield b"\2" + message[0] + message[1] + b"t\1\0p" + message[0] + b"b\x0c\0" + bytes(12) + message[0]
    yield b"\3" + message[0] + message[0]


_TABLES = (("messages", 6), ("records", 2), ("producers", 6), ("counters", 2))


@target(BROKER_TARGETS, _rows)
def sqlite_rows(data: bytes) -> None:
    """Rows of an SQLite store that somebody else may have written: any table, any type in any column."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in SCHEMA:
        connection.execute(statement.replace(" NOT NULL", ""))
    taker = Taker(data)
    while taker:
        table, width = _TABLES[taker.number() % len(_TABLES)]
        values = [_value(taker) for _ in range(width)]
        try:
            connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * width)})", values)
        except (sqlite3.Error, OverflowError):
            continue
    reading = SqliteContents(connection)
    for read in (
        lambda: list(reading.messages()),
        lambda: list(reading.records("broker/")),
        lambda: list(reading.values("")),
        lambda: list(reading.identifiers()),
        lambda: reading.read(7),
        lambda: reading.record("broker/clock"),
        reading.highest,
        reading.is_empty,
        reading.message_count,
    ):
        try:
            read()
        except StoreError:
            continue
    connection.close()


def _value(taker: Taker) -> object:
    match taker.take(1):
        case b"i":
            return taker.number(8) - (1 << 62)
        case b"t":
            return taker.piece().decode("utf-8", "replace")
        case b"b":
            return taker.piece()
        case b"f":
            return taker.number(8) / 3
        case _:
            return None


def _attributes() -> Iterator[bytes]:
    yield BUILT_IN.encode()
    yield b'DEFAULTS=BROKER BROKER-ID="A B", UWTIME=5M\n* c\nDEFAULTS=SERVICE\nCLASS=A*,SERVER=*,SERVICE=C MAX-UOWS=5'
    yield b"DEFAULTS=BROKER\nPARTNER-CLUSTER-ADDRESS=host:1:TCP RUN-MODE=STANDBY HOST=::1 MAX-UOWS=UNLIM"
    yield b"DEFAULTS=JOURNAL\nMAX-DATA-FILE-SIZE=25M RETENTION-AGE=7D\nDEFAULTS=TOPIC\nTOPIC=T* ALLOW-DURABLE=NO"
    yield b"DEFAULTS=SERVICE\nCLASS=*a*a*a*a*a*a*a*a*a*a*a*b SERVER=* SERVICE=*"


@target(BROKER_TARGETS, _attributes)
def attribute_file(data: bytes) -> None:
    try:
        found = parse_attributes(data.decode("utf-8", "replace"))
    except AttributesInvalid as invalid:
        assert invalid.faults and str(invalid)
        return
    list(found.effective_values())
    found.service("a" * 32, "B", "C")
    found.topic("a" * 96)
    found.longest_message()


def _times() -> Iterator[bytes]:
    for text in ("30S", "5M", "12H", "1D", "90", "36600D", "YES", "no", "0.5S", "1.000001"):
        yield text.encode()


@target(BROKER_TARGETS, _times)
def times(data: bytes) -> None:
    """Durations and waits as callers and attributes write them."""
    text = data.decode("utf-8", "replace")
    try:
        found = parse_duration(text)
    except ValueError:
        pass
    else:
        assert parse_duration(duration_text(found)) == found
    try:
        parse_wait(text)
    except ValueError:
        return
