"""STOMP frames as bytes: taken apart wherever they are cut, put together as each version says, hostile ones refused."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oms_journal.broker.server.runtime.limits import FrameLimits
from oms_journal.broker.server.stomp.frames import (
    CLIENT_COMMANDS,
    V10,
    V11,
    V12,
    VERSIONS,
    BadFrame,
    Frame,
    FrameReader,
    encode_frame,
    is_sayable,
)
from tests.support.sweeps import a_sample, for_each, split

SMALL = FrameLimits(header_line=64, header_lines=4, head=128, body=256)


def read(data: bytes, version: str = V12, limits: FrameLimits | None = None) -> list[Frame]:
    reader = FrameReader(limits or FrameLimits(), version)
    reader.feed(data)
    return list(reader.frames())


def frame(command: str, body: bytes = b"", /, **headers: str) -> Frame:
    return Frame(command, {name.replace("_", "-"): value for name, value in headers.items()}, body)


# What each version says.


@pytest.mark.parametrize("version", ["", *VERSIONS])
def test_a_frame_is_command_headers_and_body(version: str) -> None:
    data = b"SEND\ndestination:/queue/a\nreceipt:1\n\nhello\0"

    assert read(data, version) == [frame("SEND", b"hello", destination="/queue/a", receipt="1")]


def test_a_body_with_a_nul_needs_its_length() -> None:
    assert read(b"SEND\ncontent-length:3\n\na\0b\0")[0].body == b"a\0b"
    assert read(b"SEND\n\na\0")[0].body == b"a"
    assert read(b"SEND\ncontent-length:0\n\n\0")[0].body == b""


def test_of_equal_headers_the_first_counts() -> None:
    assert read(b"SEND\na:1\na:2\n\n\0")[0].headers == {"a": "1"}


def test_line_ends_between_frames_are_heart_beats() -> None:
    assert [each.command for each in read(b"\n\r\n\nBEGIN\n\n\0\n\n\r\nABORT\n\n\0\n")] == ["BEGIN", "ABORT"]


@pytest.mark.parametrize(
    ("version", "value"), [("", "a"), (V10, "a"), (V11, "a\r"), (V12, "a")], ids=["", "1.0", "1.1", "1.2"]
)
def test_cr_before_lf_belongs_to_the_line_end_from_1_2_on(version: str, value: str) -> None:
    assert read(b"BEGIN\r\ntransaction:a\r\n\r\n\0", version)[0].headers == {"transaction": value}


@pytest.mark.parametrize(("version", "value"), [("", " a "), (V10, "a"), (V11, " a "), (V12, " a ")])
def test_only_1_0_drops_blanks_around_a_value(version: str, value: str) -> None:
    assert read(b"BEGIN\ntransaction: a \n\n\0", version)[0].headers == {"transaction": value}


@pytest.mark.parametrize(
    ("version", "value"), [("", "a\\nb\\\\c"), (V10, "a\\nb\\\\c"), (V11, "a\nb\\c"), (V12, "a\nb\\c")]
)
def test_escapes_came_with_1_1(version: str, value: str) -> None:
    assert read(b"BEGIN\nx:a\\nb\\\\c\n\n\0", version)[0].headers == {"x": value}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_colon_in_a_value_needs_no_escape(version: str) -> None:
    assert read(b"BEGIN\nx:a:b\n\n\0", version)[0].headers == {"x": "a:b"}


@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
def test_the_frame_that_settles_the_version_has_no_escapes(command: str) -> None:
    assert read(f"{command}\npasscode:a\\nb\n\n\0".encode(), "")[0].headers == {"passcode": "a\\nb"}
    assert encode_frame(Frame("CONNECTED", {"x": "a\\b:c"}), V12) == b"CONNECTED\nx:a\\b:c\n\n\0\n"


# Cuts.

PIECES = [
    (V12, b"\r\nCONNECT\r\naccept-version:1.2\r\n\r\n\0\n"),
    (V12, b"SEND\ndestination:/queue/a\ncontent-length:7\nx\\cy:a\\r\\nb\n\nab\0\n\n\ncd\0"[:-1] + b"\0"),
    (V11, b"SEND\ndestination:/queue/\xc3\xa4\n\nno length\0\n\n"),
    (V10, b"ACK\nmessage-id: 7 \n\n\0DISCONNECT\n\n\0"),
]


@pytest.mark.parametrize(("version", "data"), PIECES, ids=["connect", "length", "no-length", "two"])
def test_every_cut_of_the_bytes_gives_the_same_frames(version: str, data: bytes) -> None:
    data = data.replace(b"content-length:7", b"content-length:8")
    whole = read(data, version)
    assert whole

    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1):
            reader = FrameReader(version=version)
            found: list[Frame] = []
            for part in (data[:first], data[first:second], data[second:]):
                reader.feed(part)
                found += reader.frames()
            assert found == whole, (first, second)
            assert reader.pending == 0 and not reader.is_within


def test_bytes_one_by_one_give_the_same_frames() -> None:
    for version, data in PIECES:
        data = data.replace(b"content-length:7", b"content-length:8")
        reader = FrameReader(version=version)
        found: list[Frame] = []
        for byte in data:
            reader.feed(bytes([byte]))
            found += reader.frames()
        assert found == read(data, version)


def test_what_is_not_complete_is_told_of() -> None:
    reader = FrameReader()
    reader.feed(b"\n\n")
    assert list(reader.frames()) == [] and not reader.is_within

    reader.feed(b"BEGIN\ntransaction:1\n\n")
    assert list(reader.frames()) == [] and reader.is_within

    reader.feed(b"\0")
    assert len(list(reader.frames())) == 1 and not reader.is_within


# Round trips.

TEXTS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20)
PLAIN = TEXTS.filter(lambda text: text == text.strip() and not set(text) & set("\n\r:\\"))
NAMES = {V10: PLAIN.filter(bool), V11: TEXTS.filter(bool), V12: TEXTS.filter(bool)}
VALUES = {V10: PLAIN, V11: TEXTS, V12: TEXTS}


@st.composite
def frames_of(draw: st.DrawFn, version: str) -> Frame:
    headers = draw(st.dictionaries(NAMES[version], VALUES[version], max_size=5))
    headers.pop("content-length", None)
    command = draw(st.sampled_from(sorted(CLIENT_COMMANDS - {"CONNECT", "STOMP"})))
    return Frame(command, headers, draw(st.binary(max_size=50)) if command == "SEND" else b"")


@a_sample(1)
@pytest.mark.parametrize("count", split([25], [80]))
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_said_in_a_version_is_understood_in_it(version: str, count: int) -> None:
    @given(data=st.data())
    @settings(max_examples=count, deadline=None)
    def is_understood(data: st.DataObject) -> None:
        said = data.draw(st.lists(frames_of(version), max_size=4))
        sent = b"".join(encode_frame(each, version) for each in said)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=4)))

        reader, heard = FrameReader(version=version), list[Frame]()
        for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
            reader.feed(sent[start:end])
            heard += reader.frames()

        for one, other in zip(said, heard, strict=True):
            expected = dict(one.headers)
            if one.body:
                expected["content-length"] = str(len(one.body))
            assert (other.command, other.headers, other.body) == (one.command, expected, one.body)

    is_understood()


@given(st.binary(max_size=300), st.sampled_from(["", *VERSIONS]))
@settings(max_examples=150, deadline=None)
def test_whatever_comes_is_frames_or_refused(data: bytes, version: str) -> None:
    reader = FrameReader(SMALL, version)
    reader.feed(data)
    try:
        for found in reader.frames():
            assert found.command in CLIENT_COMMANDS
    except BadFrame as refused:
        assert len(str(refused)) < 300


@given(st.lists(st.sampled_from([*b"SEND\n\n\0\r:\\ncx", *b"content-length:12"]), max_size=120))
@settings(max_examples=150, deadline=None)
def test_whatever_comes_is_refused_or_not_however_it_is_cut(codes: list[int]) -> None:
    data = bytes(codes)

    def outcome(parts: list[bytes]) -> tuple[list[Frame], bool]:
        reader, found = FrameReader(SMALL, V12), list[Frame]()
        try:
            for part in parts:
                reader.feed(part)
                for each in reader.frames():
                    found.append(each)
        except BadFrame:
            return found, True
        return found, False

    assert outcome([data]) == outcome([bytes([code]) for code in data])


# What is refused.

HOSTILE = {
    "no command": (b"HELLO\n\n\0", "no STOMP command"),
    "a server's command": (b"MESSAGE\n\n\0", "no STOMP command"),
    "small letters": (b"send\n\n\0", "no STOMP command"),
    "an endless command": (b"S" * 20, "no STOMP command"),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP was spoken"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x01" * 9, "no STOMP command"),
    "a header without a colon": (b"SEND\nx\n\n\0", "not NAME:VALUE"),
    "a header without a name": (b"SEND\n:x\n\n\0", "not NAME:VALUE"),
    "an unknown escape": (b"SEND\nx:a\\tb\n\n\0", "escape"),
    "half an escape": (b"SEND\nx:a\\\n\n\0", "escape"),
    "no UTF-8": (b"SEND\nx:\xff\n\n\0", "UTF-8"),
    "a long line": (b"SEND\nx:" + b"y" * 80 + b"\n\n\0", "longer than 64 bytes"),
    "an endless line": (b"SEND\nx:" + b"y" * 80, "longer than 64 bytes"),
    "many headers": (b"SEND\n" + b"a:b\n" * 5 + b"\n\0", "more than 4 headers"),
    "a long head": (b"SEND\n" + b"abc:def\n" * 20, "longer than 128 bytes"),
    "a length that is none": (b"SEND\ncontent-length:x\n\n\0", "no number"),
    "a length with a sign": (b"SEND\ncontent-length:-1\n\n\0", "no number"),
    "a length with blanks": (b"SEND\ncontent-length: 1\n\na\0", "no number"),
    "a length in other digits": ("SEND\ncontent-length:٣\n\nabc\0".encode(), "no number"),
    "an immense length": (b"SEND\ncontent-length:" + b"9" * 30 + b"\n\n\0", "no number"),
    "a length over the limit": (b"SEND\ncontent-length:257\n\n", "over the limit of 256"),
    "a body over the limit": (b"SEND\n\n" + b"x" * 257, "over the limit of 256"),
    "a length that is too short": (b"SEND\ncontent-length:2\n\nabc\0", "no NUL"),
    "a body where none belongs": (b"BEGIN\ntransaction:1\n\nbody\0", "has no body"),
}


@for_each("name", HOSTILE)
def test_what_is_no_frame_is_refused_with_a_reason(name: str) -> None:
    data, reason = HOSTILE[name]

    with pytest.raises(BadFrame, match=reason):
        read(data, V12, SMALL)
    with pytest.raises(BadFrame, match=reason):
        reader = FrameReader(SMALL, V12)
        for byte in data:
            reader.feed(bytes([byte]))
            list(reader.frames())


def test_the_escape_of_cr_came_with_1_2() -> None:
    assert read(b"BEGIN\nx:a\\rb\n\n\0", V12)[0].headers == {"x": "a\rb"}
    with pytest.raises(BadFrame, match=r"version 1\.1 does not know"):
        read(b"BEGIN\nx:a\\rb\n\n\0", V11)


def test_frames_before_a_bad_one_are_good() -> None:
    reader = FrameReader()
    reader.feed(b"BEGIN\ntransaction:1\n\n\0WHAT\n\n\0")
    frames: Iterator[Frame] = reader.frames()

    assert next(frames).command == "BEGIN"
    with pytest.raises(BadFrame):
        next(frames)


@pytest.mark.parametrize(
    ("version", "name", "value", "is_said"),
    [
        (V10, "a", "b:c", True),
        (V10, "a:b", "c", False),
        (V10, "a", "b\nc", False),
        (V11, "a:b", "c\nd", True),
        (V11, "a", "b\0", False),
        (V12, "a\nb", "c\rd", True),
        (V12, "a\0", "b", False),
    ],
)
def test_a_header_that_a_version_cannot_say_is_refused(version: str, name: str, value: str, is_said: bool) -> None:
    assert is_sayable(name, value, version) is is_said
    if is_said:
        encode_frame(Frame("MESSAGE", {name: value}), version)
    else:
        with pytest.raises(ValueError, match="cannot be said"):
            encode_frame(Frame("MESSAGE", {name: value}), version)


# What it costs: were the time for any of these the square of the bytes, the test would not come to its end.


@pytest.mark.whole
@pytest.mark.parametrize(
    ("data", "piece", "count"),
    [
        (b"SEND\r\ndestination:/queue/a\r\n\r\n\0" * 100_000, 1 << 24, 100_000),
        (b"SEND\ndestination:/queue/a\n\n\0" * 100_000, 1 << 24, 100_000),
        (b"SEND\n\n" + b"x" * 6_000_000 + b"\0", 20, 1),
        (b"SEND\ncontent-length:6000000\n\n" + b"x" * 6_000_000 + b"\0", 20, 1),
        (b"\n" * 1_000_000 + b"BEGIN\ntransaction:1\n\n\0", 1 << 24, 1),
    ],
    ids=["many frames with CR", "many frames", "a long body", "a long body with its length", "many heart-beats"],
)
def test_the_time_is_that_of_the_bytes_and_not_of_their_square(data: bytes, piece: int, count: int) -> None:
    reader, found = FrameReader(version=V12), 0
    for at in range(0, len(data), piece):
        reader.feed(data[at : at + piece])
        found += sum(1 for _ in reader.frames())

    assert found == count
