"""STOMP frames as bytes: taken apart as they arrive, within limits, and put together. No socket is in it.

Versions 1.0, 1.1 and 1.2, after the three specifications at stomp.github.io. What differs:

    version  escapes in headers  CR before LF            blanks around a name or value
    1.0      none                belongs to the value    dropped
    1.1      \\n \\c \\\\            belongs to the value    kept
    1.2      \\n \\c \\\\ \\r         belongs to the line end  kept

CONNECT, STOMP and CONNECTED are never escaped, since they are what settles the version.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from oms_journal.broker.server.runtime.limits import FrameLimits

V10, V11, V12 = "1.0", "1.1", "1.2"
VERSIONS = (V12, V11, V10)  # the best one first

_TO_CONNECT = ("CONNECT", "STOMP", "DISCONNECT")
_TO_WORK = ("SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT")
CLIENT_COMMANDS = frozenset((*_TO_CONNECT, *_TO_WORK))
COMMAND_BYTES_MAX = max(map(len, CLIENT_COMMANDS))
_COMMANDS = {command.encode() + end: command for command in CLIENT_COMMANDS for end in (b"", b"\r")}
_WITH_BODY = frozenset(("SEND", "MESSAGE", "ERROR"))
_UNESCAPED = frozenset(("CONNECT", "STOMP", "CONNECTED"))
_LENGTH_DIGITS_MAX = 19
_QUOTED_BYTES_MAX = 40  # of what came, in a complaint
_NUL, _LF, _CR = 0, 10, 13

_HEAD_END = re.compile(rb"\n\r?\n")
_UNESCAPES = {b"\\n": b"\n", b"\\c": b":", b"\\\\": b"\\", b"\\r": b"\r"}
_ESCAPE = re.compile(rb"\\.?", re.DOTALL)
_ODD = re.compile(r"[\\\r\0]")  # of these what is neither a colon nor a line's end
_SPECIAL = re.compile(r"[\\\n\r:\0]")  # what no header has as it is, in some version
_ESCAPES = {V11: str.maketrans({"\\": "\\\\", "\n": "\\n", ":": "\\c"})}
_ESCAPES[V12] = _ESCAPES[V11] | str.maketrans({"\r": "\\r"})
_UNSAYABLE = {V10: re.compile("[\n\0]"), V11: re.compile("\0"), V12: re.compile("\0")}


class BadFrame(Exception):
    """What came is no frame, or over a limit. Nothing behind it can be understood: the connection ends."""


class Frame(NamedTuple):
    """A command with its headers, the first of equal names only, and its body."""

    command: str
    headers: Mapping[str, str]
    body: bytes = b""


_Head = tuple[str, dict[str, str], int | None]  # command, headers, and the length of the body if it is said


@dataclass(slots=True)
class FrameReader:
    """Takes bytes as they arrive, and gives frames. Holds at most one frame that is not complete.

    `version` is "" until CONNECT has settled it; the frames behind it are read as it says.
    """

    limits: FrameLimits = field(default_factory=FrameLimits)
    version: str = ""
    _data: bytearray = field(default_factory=bytearray)
    _at: int = 0  # where what has not been read yet begins
    _seen: int = 0  # up to here the end that is waited for is not
    _head: _Head | None = None  # read, its body is not complete

    def feed(self, data: bytes) -> None:
        """Take what has arrived."""
        self._data += data

    @property
    def pending(self) -> int:
        """How many bytes are held of what is not complete."""
        return len(self._data) - self._at

    @property
    def is_within(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return self._head is not None or self.pending > 0

    def frames(self) -> Iterator[Frame]:
        """Yield the frames that are complete, to be taken all. BadFrame: the ones before it were good."""
        while (frame := self._next()) is not None:
            yield frame
        if self._at == len(self._data):
            self._data.clear()
        else:
            del self._data[: self._at]
        self._seen = max(self._seen - self._at, 0)
        self._at = 0

    def _next(self) -> Frame | None:
        if self._head is None:
            self._skip_heart_beats()
            self._head = self._read_head()
            if self._head is None:
                return None
        command, headers, length = self._head
        body = self._body(length)
        if body is None:
            return None
        if body and command not in _WITH_BODY:
            raise BadFrame(f"a {command} frame has no body, and this one has {len(body):,} bytes")
        self._head = None
        return Frame(command, headers, body)

    def _skip_heart_beats(self) -> None:
        data, at, end = self._data, self._at, len(self._data)
        if at < end and data[at] > _CR:
            return
        while at < end and (data[at] == _LF or (data[at] == _CR and at + 1 < end and data[at + 1] == _LF)):
            at += 1 if data[at] == _LF else 2
        self._at = at
        self._seen = max(self._seen, at)

    # The command and the headers.

    def _read_head(self) -> _Head | None:
        """Return the head, None when the blank line behind it is not there yet."""
        data, at = self._data, self._at
        found = _HEAD_END.search(data, max(self._seen - 2, at))
        if found is None:
            self._check_head_so_far()
            self._seen = len(data)
            return None
        end, behind = found.span()
        if end - at > self.limits.head:
            raise BadFrame(f"command and headers are longer than {self.limits.head:,} bytes")
        lines = bytes(data[at:end]).split(b"\n")
        self._at = self._seen = behind
        command = _COMMANDS.get(lines[0])
        if command is None:
            raise BadFrame(_no_command(lines[0]))
        headers = self._headers(command, lines)
        return command, headers, self._length(headers)

    def _check_head_so_far(self) -> None:
        data, at = self._data, self._at
        size = len(data) - at
        if size > self.limits.head:
            raise BadFrame(f"command and headers are longer than {self.limits.head:,} bytes")
        if size > COMMAND_BYTES_MAX + 1 and data.find(b"\n", at, at + COMMAND_BYTES_MAX + 2) < 0:
            raise BadFrame(_no_command(bytes(data[at : at + COMMAND_BYTES_MAX])))
        line = max(data.rfind(b"\n", at) + 1, at)
        if len(data) - line > self.limits.header_line:
            raise BadFrame(f"a line of headers is longer than {self.limits.header_line:,} bytes")

    def _headers(self, command: str, lines: list[bytes]) -> dict[str, str]:
        if len(lines) - 1 > self.limits.header_lines:
            raise BadFrame(f"a frame has more than {self.limits.header_lines} headers")
        version, line_max = self.version, self.limits.header_line
        is_escaped = command not in _UNESCAPED and version not in ("", V10)
        headers: dict[str, str] = {}
        for line in lines[1:]:
            size = len(line)
            if size > line_max:
                raise BadFrame(f"a line of headers is longer than {line_max:,} bytes")
            name, value = (_known_header if size <= _KNOWN_BYTES_MAX else _header)(line, version, is_escaped)
            headers.setdefault(name, value)
        return headers

    # The body.

    def _length(self, headers: Mapping[str, str]) -> int | None:
        text = headers.get("content-length")
        if text is None:
            return None
        length = _number(text)
        if length > self.limits.body:
            raise BadFrame(f"content-length {length:,} is over the limit of {self.limits.body:,} bytes")
        return length

    def _body(self, length: int | None) -> bytes | None:
        data, at = self._data, self._at
        if length is None:
            end = data.find(b"\0", max(self._seen, at))
            if (len(data) if end < 0 else end) - at > self.limits.body:
                raise BadFrame(f"the body is over the limit of {self.limits.body:,} bytes")
            if end < 0:
                self._seen = len(data)
                return None
        else:
            end = at + length
            if end >= len(data):
                return None
            if data[end] != _NUL:
                raise BadFrame(f"no NUL stands behind the {length:,} bytes that content-length tells of")
        self._at = self._seen = end + 1
        return bytes(data[at:end]) if end > at else b""


def _header(line: bytes, version: str, is_escaped: bool) -> tuple[str, str]:
    """Return name and value of a line of headers. BadFrame."""
    if line[-1:] == b"\r" and version in ("", V12):
        line = line[:-1]
    name, colon, value = line.partition(b":")
    if not colon or not name:
        raise BadFrame(f"a line of headers is not NAME:VALUE: {_quoted(line)}")
    if is_escaped and b"\\" in line:
        name, value = _unescaped(name, version), _unescaped(value, version)
    if version == V10:
        name, value = name.strip(), value.strip()
    try:
        return name.decode(), value.decode()
    except UnicodeDecodeError:
        raise BadFrame(f"a header is not UTF-8: {_quoted(line)}") from None


# Clients say the same lines again and again.
_KNOWN_BYTES_MAX = 100
_known_header = lru_cache(4096)(_header)


def _unescaped(text: bytes, version: str) -> bytes:
    def meant(found: re.Match[bytes]) -> bytes:
        meaning = _UNESCAPES.get(found[0])
        if meaning is None or (meaning == b"\r" and version != V12):
            raise BadFrame(f"a header has the escape {_quoted(found[0])}, which version {version} does not know")
        return meaning

    return _ESCAPE.sub(meant, text)


@lru_cache(1024)
def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _LENGTH_DIGITS_MAX):
        raise BadFrame(f"content-length {text[:_QUOTED_BYTES_MAX]!r} is no number of bytes")
    return int(text)


def encode_frame(frame: Frame, version: str) -> bytes:
    """Return the frame as bytes, with its content-length; ValueError when a header cannot be said in this version.

    A line feed stands behind its NUL: some clients read two bytes there, and lose a frame that follows at once.
    """
    command, headers, body = frame
    text = "\n".join([command, *map(":".join, headers.items())])
    count = len(headers)
    if text.count(":") != count or text.count("\n") != count or _ODD.search(text):
        text = _said_long(command, headers, version)
    if body and command in _WITH_BODY and "content-length" not in headers:
        text += f"\ncontent-length:{len(body)}"
    return text.encode() + b"\n\n" + body + b"\0\n"


def _said_long(command: str, headers: Mapping[str, str], version: str) -> str:
    """Return the head of a frame of which some header may have to be escaped. ValueError."""
    escapes = _ESCAPES.get(version) if command not in _UNESCAPED else None
    parts = [command]
    for name, value in headers.items():
        if _SPECIAL.search(name) or _SPECIAL.search(value):
            if not is_sayable(name, value, version if escapes is not None else V10):
                raise ValueError(f"a header cannot be said in version {version or V10}: {name!r}")
            if escapes is not None:
                name, value = name.translate(escapes), value.translate(escapes)
        parts.append(f"{name}:{value}")
    return "\n".join(parts)


def is_sayable(name: str, value: str, version: str) -> bool:
    """Say whether a frame of this version can have the header."""
    unsayable = _UNSAYABLE.get(version, _UNSAYABLE[V10])
    if version not in _ESCAPES and ":" in name:
        return False
    return unsayable.search(name) is None and unsayable.search(value) is None


def _no_command(line: bytes) -> str:
    if line[:4] in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return "this is the port of STOMP, and HTTP was spoken"
    return f"no STOMP command: {_quoted(line[:COMMAND_BYTES_MAX])}"


def _quoted(data: bytes) -> str:
    """Return what came, as a complaint quotes it."""
    return repr(bytes(data[:_QUOTED_BYTES_MAX]).decode(errors="backslashreplace"))
