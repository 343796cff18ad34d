"""What `oms load` reads as messages, and which lines it refuses."""

import base64
import io
import json

import pytest

from oms_journal.cli.messages.sources import BadEntry, Entry, SourceFormat, entries, guess

LIMIT = 1000


def read(text: bytes, kind: SourceFormat, *, bytes_max: int = LIMIT) -> list[Entry]:
    return list(entries(io.BytesIO(text), kind, bytes_max=bytes_max))


def payloads(text: bytes, kind: SourceFormat) -> list[bytes]:
    return [entry.payload for entry in read(text, kind)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.ndjson", SourceFormat.NDJSON),
        ("A.JSONL", SourceFormat.NDJSON),
        ("/x/flights.csv", SourceFormat.CSV),
        ("notes.txt", SourceFormat.LINES),
        ("csv", SourceFormat.LINES),
        ("-", SourceFormat.LINES),
    ],
)
def test_the_format_is_guessed_from_the_suffix(name: str, kind: SourceFormat) -> None:
    assert guess(name) is kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"\n\n", [b"", b""]),
        (b"a\r", [b"a\r"]),
        (b"\xff\x00\n", [b"\xff\x00"]),
    ],
)
def test_a_line_is_a_message_without_its_end(text: bytes, expected: list[bytes]) -> None:
    assert payloads(text, SourceFormat.LINES) == expected


def test_a_line_of_the_largest_size_is_read_and_one_byte_more_is_refused() -> None:
    longest = b"x" * LIMIT

    assert payloads(longest + b"\r\n" + longest, SourceFormat.LINES) == [longest, longest]
    with pytest.raises(BadEntry, match="line 2: it is longer than the 1,000 bytes"):
        read(b"short\n" + longest + b"y\n", SourceFormat.LINES)


def test_ndjson_keeps_the_line_as_it_is_and_skips_blank_ones() -> None:
    assert payloads(b'{"a":  1}\n\n  \n[2]\n', SourceFormat.NDJSON) == [b'{"a":  1}', b"[2]"]
    assert [entry.line for entry in read(b"1\n\n2\n", SourceFormat.NDJSON)] == [1, 3]


@pytest.mark.parametrize("line", [b"{", b"\xff", b"nope", b"[" * 900, b"1" * 900 + b"."])
def test_a_line_that_is_not_json_is_named(line: bytes) -> None:
    with pytest.raises(BadEntry, match=r"^line 2: it is not"):
        read(b"{}\n" + line + b"\n{}\n", SourceFormat.NDJSON)


def test_a_csv_row_becomes_a_json_object() -> None:
    text = 'carrier,note\nUA,"say ""hi"",\nthen go"\nDL,é\n'.encode()

    found = read(text, SourceFormat.CSV)

    assert [json.loads(entry.payload) for entry in found] == [
        {"carrier": "UA", "note": 'say "hi",\nthen go'},
        {"carrier": "DL", "note": "é"},
    ]
    assert [entry.line for entry in found] == [2, 4]


def test_a_csv_file_may_begin_with_a_byte_order_mark() -> None:
    assert payloads(b"\xef\xbb\xbfa\n1\n", SourceFormat.CSV) == [b'{"a":"1"}']


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"a,b\n1\n", "line 2: it has 1 fields, the header has 2"),
        (b"a,b\n1,2\n1,2,3\n", "line 3: it has 3 fields, the header has 2"),
        (b"a,a\n1,2\n", "line 1: the header names the column 'a' twice"),
        (b'a\n"1" 2\n', "line 2: it is not CSV in UTF-8"),
        (b"a\n\xff\n", "it is not CSV in UTF-8"),
        (b"a\n" + b"x" * 2000 + b"\n", "line 2: it is not CSV in UTF-8: field larger"),
    ],
)
def test_a_csv_row_that_does_not_fit_is_named(text: bytes, problem: str) -> None:
    with pytest.raises(BadEntry, match=problem):
        read(text, SourceFormat.CSV)


def test_an_envelope_names_everything_a_message_has() -> None:
    line = {
        "queue": "orders",
        "payload": base64.b64encode(b"\x00\xff").decode(),
        "properties": {"k": "v"},
        "producer_id": "p-1",
        "number": 7,
    }

    (found,) = read(json.dumps(line).encode(), SourceFormat.ENVELOPE)

    assert found == Entry(1, b"\x00\xff", "orders", {"k": "v"}, "p-1")


def test_an_envelope_may_hold_plain_text() -> None:
    assert payloads('{"text": "é"}\n'.encode(), SourceFormat.ENVELOPE) == ["é".encode()]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[]", "it is not a JSON object"),
        ("{}", "it needs `payload`"),
        ('{"payload": 1}', "it needs `payload`"),
        ('{"payload": "!"}', "`payload` is not base64"),
        ('{"payload": "", "text": ""}', "it has both"),
        ('{"text": "\\ud800"}', "`text` is not valid Unicode"),
        ('{"text": "", "queue": 1}', "`queue` is not text"),
        ('{"text": "", "producer_id": []}', "`producer_id` is not text"),
        ('{"text": "", "properties": {"a": 1}}', "`properties` is not an object of texts"),
        ('{"text": "", "properties": [1]}', "`properties` is not an object of texts"),
    ],
)
def test_an_envelope_that_is_none_is_named(line: str, problem: str) -> None:
    with pytest.raises(BadEntry, match=f"line 1: {problem}"):
        read(line.encode(), SourceFormat.ENVELOPE)
