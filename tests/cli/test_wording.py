"""How sizes, ages, times and payloads are worded, and that nothing printed moves a terminal's cursor."""

import json
import unicodedata
from datetime import datetime, timedelta, timezone

import pytest

from oms_journal.cli.output import (
    age_text,
    as_text,
    counted,
    iso,
    iso_microseconds,
    preview,
    printable,
    size_text,
    to_the_second,
)
from tests.support.sweeps import for_each


@for_each("code", [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x202E, 0x2066, 0xFEFF, 0xD800, 0xE000])
def test_a_character_a_terminal_would_act_upon_is_escaped(code: int) -> None:
    shown = printable(f"a{chr(code)}b")

    assert shown.isprintable()
    assert shown.startswith("a\\")
    assert shown.endswith("b")


def test_plain_text_in_any_script_is_left_alone() -> None:
    text = "Zürich 東京 🛫 a\\b"

    assert printable(text) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.0 KiB"),
        (25 << 20, "25.0 MiB"),
        (3 << 41, "6.0 TiB"),
        (1 << 60, "1,048,576.0 TiB"),
    ],
)
def test_a_size_is_shortened_for_people(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0.0 s"),
        (0.25, "0.2 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (3600, "1 h"),
        (5400, "1 h 30 min"),
        (47 * 3600, "47 h"),
        (49 * 3600, "2 d 1 h"),
        (7 * 86400, "7 d"),
    ],
)
def test_an_age_is_told_in_its_largest_units(seconds: float, text: str) -> None:
    assert age_text(seconds) == text


def test_a_noun_agrees_with_its_number() -> None:
    assert [counted(count, "file") for count in (0, 1, 2000)] == ["0 files", "1 file", "2,000 files"]


def test_a_time_is_iso_8601_in_utc() -> None:
    moment = datetime(2013, 1, 1, 5, 15, 0, 7, timezone(timedelta(hours=-5)))

    assert iso(moment) == "2013-01-01T10:15:00.000007Z"
    assert iso_microseconds(1_357_035_300_000_007) == "2013-01-01T10:15:00.000007Z"
    assert to_the_second(moment) == "2013-01-01 10:15:00Z"


@pytest.mark.parametrize("microseconds", [-1, 0, -(1 << 63), (1 << 63) - 1])
def test_no_time_on_disk_is_too_odd_to_be_printed(microseconds: int) -> None:
    assert iso_microseconds(microseconds)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"", ""),
        (b"hello", "hello"),
        (b"two\nlines", "two\\nlines"),
        ("é".encode() * 30, "é" * 19 + "…"),
        (b"\x00\x01\xff", "0x0001ff"),
        (bytes(40), "0x" + "00" * 8 + "…"),
        (b"\x1b[2J boo, the screen", "\\x1b[2J boo, the sc…"),
    ],
)
def test_a_payload_is_previewed_as_text_or_in_hexadecimal(payload: bytes, text: str) -> None:
    assert preview(payload, 20) == text


@for_each("length", range(1, 200))
def test_a_preview_never_exceeds_its_width(length: int) -> None:
    for payload in (b"x" * length, bytes(length), "東".encode() * length, b"\x1b" * length):
        assert len(preview(payload, 30)) <= 30


def test_text_is_told_from_binary() -> None:
    assert as_text("日本".encode()[:-1]) == "日"
    assert as_text(json.dumps({"a": [1]}, indent=1).encode()) is not None
    assert as_text(bytes(range(256))) is None
    assert as_text(b"\x00\x00\x00a") is None
    assert all(not unicodedata.category(c).startswith("C") for c in printable("\x07\u202e"))
