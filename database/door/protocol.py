"""What goes over the socket, as bytes. It is private to one version: both sides say it in their greeting.

    greeting     bytes  each side's first bytes
    magic        8      "omsqueue"
    version      4      VERSION
    0            4      reserved: written as zero
    message      8      largest message that is taken, properties included; 0 from a client
    request      8      largest request that is taken, header not counted; 0 from a client

    header       bytes  in front of every request and every answer
    kind         1      a Kind
    0            3      reserved
    length       4      bytes that follow

    add          bytes
    queue        1      length of the queue's name
    producer     1      length of the producer identifier, 0 for none
    group        1      length of the group's name, 0 for none
    said         1      which of the arguments below are there, one bit each
    properties   4      length of the properties, as they stand in a record
                        then name, identifier, group, arguments, properties, and the payload up to the end

    add many     bytes
    queue        1      length of the queue's name
    producer     1      length of the producer identifier, 0 for none
    group        1      length of the group's name, 0 for none
    said         1      which of the arguments below are there, one bit each
    count        4      messages
                        then name, identifier, group, arguments, for each message the lengths of its properties and of
                        its payload (4 bytes each), and for each message its properties and its payload

    said         bytes  arguments, in this order
    1            8      how many seconds to wait for room, as a double
    2            8      delay, in microseconds
    4            8      when it is due, in microseconds since 1970-01-01 UTC
    8            8      in how many microseconds it expires
    16           8      when it expires, in microseconds since 1970-01-01 UTC

    added        bytes  the answer to both
    first        8      number of the first message
    end          8      number behind the last one
    repeat       8      1 where they were there already, as their producer identifier says; else 0

    failed       bytes  the answer where an error was raised
    errno        4      of the operating system, 0 for none
                        then five texts, each behind its length (4 bytes): the error's class, its text, its path, its
                        reason, and what the operating system said

A client has one request on its way on a connection. `ending` comes in the place of an answer, without a body: the
server ends, and has not carried out the request, if there was one. So does `again`: the request has waited for room in
its queue, and the server has not kept it. The client sends the same request once more.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from oms_journal.database.commits.added import Added, AddedMany
from oms_journal.database.commits.terms import AskedTerms
from oms_journal.journal import errors
from oms_journal.journal.errors import DiskError, JournalError, OutcomeUnknown, QueueFull
from oms_journal.journal.format.frames import COMMIT_BYTES_MAX, OPERATIONS_MAX
from oms_journal.journal.format.records import decode_properties
from oms_journal.journal.operations import NAME_BYTES_MAX, PROPERTIES_BYTES_MAX

MAGIC = b"omsqueue"
VERSION = 3
GREETING = struct.Struct("<8sI4xQQ")
HEADER = struct.Struct("<B3xI")
ADD = struct.Struct("<BBBBI")
ADD_MANY = struct.Struct("<BBBBI")
_ARGUMENTS = "dqqqq"  # what `said` stands for
ADDED = struct.Struct("<QQQ")
_ERRNO = struct.Struct("<i")
_LENGTH = struct.Struct("<I")
assert (GREETING.size, HEADER.size, ADD.size, ADD_MANY.size, ADDED.size) == (32, 8, 8, 8, 24)

ANSWER_BYTES_MAX = 1 << 20  # an error's texts are shorter
_FRONT_BYTES_MAX = ADD_MANY.size + 3 * NAME_BYTES_MAX + 8 * len(_ARGUMENTS)  # before what the messages are
REQUEST_BYTES_MAX = COMMIT_BYTES_MAX + _FRONT_BYTES_MAX + 8 * OPERATIONS_MAX
_TEXT_MAX = 16 << 10  # characters of an error; the rest is left out


class Kind(IntEnum):
    """What a request or an answer is. None is 0, so a run of zeros is neither."""

    ADD = 1
    ADD_MANY = 2
    ADDED = 3
    FAILED = 4
    ENDING = 5
    AGAIN = 6


class Garbled(Exception):
    """Bytes that no client or server of this version sends."""


class Greeting(NamedTuple):
    """What a side says of itself."""

    version: int
    message_bytes_max: int = 0
    request_bytes_max: int = 0

    def encode(self) -> bytes:
        return GREETING.pack(MAGIC, *self)


def decode_greeting(data: bytes) -> Greeting:
    """Return what the other side says of itself; Garbled where it is not one of ours."""
    magic, *said = GREETING.unpack(data)
    if magic != MAGIC:
        raise Garbled("it does not speak the language of oms")
    return Greeting(*said)


class Front(NamedTuple):
    """What a request says before its messages: where they go, and what is asked of all of them."""

    queue: bytes
    producer: bytes = b""
    wait: float | None = None  # seconds, for room in the queue
    terms: AskedTerms | None = None

    def encode(self, head: struct.Struct, number: int) -> list[bytes]:
        """Return it as bytes; `number` stands at the end of the head."""
        *times, group = self.terms or AskedTerms()
        given = [(place, value) for place, value in enumerate((self.wait, *times)) if value is not None]
        layout = "<" + "".join(_ARGUMENTS[place] for place, _ in given)
        said = sum(1 << place for place, _ in given)
        name = group or b""
        return [
            head.pack(len(self.queue), len(self.producer), len(name), said, number),
            self.queue,
            self.producer,
            name,
            struct.pack(layout, *(value for _, value in given)),
        ]


class NewMessages(NamedTuple):
    """What a request adds: one payload, or several; properties where any message has some."""

    queue: str
    payloads: Sequence[bytes]
    properties: Sequence[dict[str, str]] | None
    producer_id: str | None
    wait: float | None = None
    terms: AskedTerms | None = None


def add_bytes_max(message_bytes_max: int) -> int:
    """Return how long a request of one message can be."""
    return _FRONT_BYTES_MAX + message_bytes_max


def framed(kind: Kind, body: Sequence[bytes]) -> bytes:
    """Return a request or an answer with its header."""
    return b"".join((HEADER.pack(kind, sum(map(len, body))), *body))


def encode_add(front: Front, payload: bytes, properties: bytes) -> list[bytes]:
    """Return the body of a request of one message."""
    return [*front.encode(ADD, len(properties)), properties, payload]


def decode_add(body: bytes) -> NewMessages:
    """Return what the body of a request of one message says; Garbled."""
    try:
        front, properties_size, at = _decode_front(ADD, body)
        start = at + properties_size
        if properties_size > PROPERTIES_BYTES_MAX or start > len(body):
            raise Garbled("lengths that do not fit the request")
        properties = [decode_properties(body[at:start])] if properties_size else None
        return _new(front, [body[start:]], properties)
    except (struct.error, ValueError) as failure:
        raise Garbled(str(failure)) from None


def encode_add_many(front: Front, payloads: Sequence[bytes], properties: Sequence[bytes]) -> list[bytes]:
    """Return the body of a request of several messages, each with its properties."""
    sizes: list[int] = []
    parts: list[bytes] = []
    for payload, described in zip(payloads, properties, strict=True):
        sizes += (len(described), len(payload))
        parts += (described, payload)
    return [*front.encode(ADD_MANY, len(payloads)), struct.pack(f"<{len(sizes)}I", *sizes), *parts]


def decode_add_many(body: bytes) -> NewMessages:
    """Return what the body of a request of several messages says; Garbled."""
    try:
        front, count, at = _decode_front(ADD_MANY, body)
        if not 0 < count <= OPERATIONS_MAX:
            raise Garbled(f"a request of {count} messages")
        sizes = struct.unpack_from(f"<{2 * count}I", body, at)
        ends = [at + _LENGTH.size * len(sizes)]
        for size in sizes:
            ends.append(ends[-1] + size)
        if ends[-1] != len(body):
            raise Garbled("lengths that do not fit the request")
        parts = [body[start:end] for start, end in pairwise(ends)]
        properties = [decode_properties(part) for part in parts[::2]] if any(sizes[::2]) else None
        return _new(front, parts[1::2], properties)
    except (struct.error, ValueError) as failure:
        raise Garbled(str(failure)) from None


def _decode_front(head: struct.Struct, body: bytes) -> tuple[Front, int, int]:
    """Return what a request says before its messages, the number in its head, and where it ends; Garbled."""
    *sizes, said, number = head.unpack_from(body)
    at, names = head.size, []
    for size in sizes:
        names.append(body[at : at + size])
        at += size
    if said >> len(_ARGUMENTS):
        raise Garbled(f"arguments {said:#x}")
    layout = struct.Struct("<" + "".join(kind for place, kind in enumerate(_ARGUMENTS) if said >> place & 1))
    given = iter(layout.unpack_from(body, at))
    wait, delay, due, life, expiry = (next(given) if said >> place & 1 else None for place in range(len(_ARGUMENTS)))
    queue, producer, group = names
    terms = AskedTerms(delay, due, life, expiry, group or None)
    if not (wait is None or wait >= 0) or not terms.are_possible or not _is_text(group):
        raise Garbled("arguments that no caller can give")
    return (
        Front(queue, producer, wait, terms if any(one is not None for one in terms) else None),
        number,
        at + layout.size,
    )


def _is_text(name: bytes) -> bool:
    return name.decode(errors="replace").encode() == name


def _new(front: Front, payloads: Sequence[bytes], properties: Sequence[dict[str, str]] | None) -> NewMessages:
    producer = front.producer.decode() or None
    return NewMessages(front.queue.decode(), payloads, properties, producer, front.wait, front.terms)


def encode_added(added: Added | AddedMany) -> bytes:
    first, end = (added, added + 1) if isinstance(added, Added) else (added.start, added.stop)
    return framed(Kind.ADDED, [ADDED.pack(first, end, added.is_repeat)])


def decode_added(body: bytes) -> AddedMany:
    """Return the numbers of an answer; Garbled."""
    try:
        first, end, is_repeat = ADDED.unpack(body)
    except struct.error as failure:
        raise Garbled(str(failure)) from None
    return AddedMany(range(first, end), is_repeat=bool(is_repeat))


def encode_failure(failure: BaseException) -> bytes:
    """Return an error as an answer: its class by name, and what a caller can read of it."""
    system = getattr(failure, "failure", None)
    errno, said = (system.errno or 0, system.strerror or str(system)) if isinstance(system, OSError) else (0, "")
    of_it = [str(getattr(failure, name, "")) for name in ("path", "reason")]
    if isinstance(failure, QueueFull) and hasattr(failure, "queue"):
        of_it[1] = " ".join(map(str, (failure.limit, failure.count, failure.waiting, failure.unit, failure.queue)))
    body = [_ERRNO.pack(errno)]
    for text in (type(failure).__name__, str(failure), *of_it, said):
        data = text[:_TEXT_MAX].encode(errors="surrogatepass")
        body += (_LENGTH.pack(len(data)), data)
    return framed(Kind.FAILED, body)


def decode_failure(body: bytes) -> Exception:
    """Return the error of an answer, to be raised again; Garbled.

    OutcomeUnknown stands for what the engine does not raise on purpose: nobody can say what became of the request.
    """
    try:
        (errno,) = _ERRNO.unpack_from(body)
        at, texts = _ERRNO.size, []
        for _ in range(5):
            (size,) = _LENGTH.unpack_from(body, at)
            at += _LENGTH.size
            texts.append(body[at : at + size].decode(errors="surrogatepass"))
            at += size
    except (struct.error, ValueError) as failure:
        raise Garbled(str(failure)) from None
    name, text, path, reason, said = texts
    kind = _RAISED.get(name)
    if kind is None:
        return OutcomeUnknown(f"the server failed ({name}: {text}): the commit is there as a whole, or not at all")
    error = kind.__new__(kind, text)  # with its text alone: its class makes it of other arguments
    facts: dict[str, object] = {"path": Path(path)} if path else {}
    if isinstance(error, QueueFull) and reason:
        limit, count, waiting, unit, queue = reason.split(" ", 4)
        facts = {"limit": int(limit), "count": int(count), "waiting": int(waiting), "unit": unit, "queue": queue}
    elif reason:
        facts["reason"] = reason
    if isinstance(error, DiskError):
        facts["failure"] = OSError(errno, said)
    for fact, value in facts.items():
        setattr(error, fact, value)
    return error


_RAISED: dict[str, type[Exception]] = {
    name: kind
    for name, kind in [*vars(errors).items(), ("TypeError", TypeError), ("ValueError", ValueError)]
    if isinstance(kind, type) and issubclass(kind, JournalError | TypeError | ValueError)
}
