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
    0            2      reserved
    properties   4      length of the properties, as they stand in a record
                        then name, identifier, properties, and the payload up to the end

    add many     bytes
    queue        1      length of the queue's name
    producer     1      length of the producer identifier, 0 for none
    0            2      reserved
    count        4      messages
                        then name, identifier, for each message the lengths of its properties and of its payload
                        (4 bytes each), and for each message its properties and its payload

    added        bytes  the answer to both
    first        8      number of the first message
    end          8      number behind the last one
    repeat       8      1 where they were there already, as their producer identifier says; else 0

    failed       bytes  the answer where an error was raised
    errno        4      of the operating system, 0 for none
                        then five texts, each behind its length (4 bytes): the error's class, its text, its path, its
                        reason, and what the operating system said

A client has one request on its way on a connection. `ending` comes in the place of an answer, without a body: the
server ends, and has not carried out the request, if there was one.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from oms_journal.database.commits.added import Added, AddedMany
from oms_journal.journal import errors
from oms_journal.journal.errors import DiskError, JournalError, OutcomeUnknown, QueueFull
from oms_journal.journal.format.frames import COMMIT_BYTES_MAX, OPERATIONS_MAX
from oms_journal.journal.format.records import decode_properties
from oms_journal.journal.operations import NAME_BYTES_MAX, PROPERTIES_BYTES_MAX

MAGIC = b"omsqueue"
VERSION = 1
GREETING = struct.Struct("<8sI4xQQ")
HEADER = struct.Struct("<B3xI")
ADD = struct.Struct("<BB2xI")
ADD_MANY = struct.Struct("<BB2xI")
ADDED = struct.Struct("<QQQ")
_ERRNO = struct.Struct("<i")
_LENGTH = struct.Struct("<I")
assert (GREETING.size, HEADER.size, ADD.size, ADD_MANY.size, ADDED.size) == (32, 8, 8, 8, 24)

ANSWER_BYTES_MAX = 1 << 20  # an error's texts are shorter
REQUEST_BYTES_MAX = COMMIT_BYTES_MAX + ADD_MANY.size + 2 * NAME_BYTES_MAX + 8 * OPERATIONS_MAX
_TEXT_MAX = 16 << 10  # characters of an error; the rest is left out


class Kind(IntEnum):
    """What a request or an answer is. None is 0, so a run of zeros is neither."""

    ADD = 1
    ADD_MANY = 2
    ADDED = 3
    FAILED = 4
    ENDING = 5


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


class NewMessages(NamedTuple):
    """What a request adds: one payload, or several; properties where any message has some."""

    queue: str
    payloads: Sequence[bytes]
    properties: Sequence[dict[str, str]] | None
    producer_id: str | None


def add_bytes_max(message_bytes_max: int) -> int:
    """Return how long a request of one message can be."""
    return ADD.size + 2 * NAME_BYTES_MAX + message_bytes_max


def framed(kind: Kind, body: Sequence[bytes]) -> bytes:
    """Return a request or an answer with its header."""
    return b"".join((HEADER.pack(kind, sum(map(len, body))), *body))


def encode_add(queue: bytes, payload: bytes, properties: bytes, producer: bytes) -> list[bytes]:
    """Return the body of a request of one message."""
    return [ADD.pack(len(queue), len(producer), len(properties)), queue, producer, properties, payload]


def decode_add(body: bytes) -> NewMessages:
    """Return what the body of a request of one message says; Garbled."""
    try:
        queue_size, producer_size, properties_size = ADD.unpack_from(body)
        at = ADD.size + queue_size + producer_size
        start = at + properties_size
        if properties_size > PROPERTIES_BYTES_MAX or start > len(body):
            raise Garbled("lengths that do not fit the request")
        properties = [decode_properties(body[at:start])] if properties_size else None
        return NewMessages(_queue(body, queue_size), [body[start:]], properties, _producer(body, at, producer_size))
    except (struct.error, ValueError) as failure:
        raise Garbled(str(failure)) from None


def encode_add_many(
    queue: bytes, payloads: Sequence[bytes], properties: Sequence[bytes], producer: bytes
) -> list[bytes]:
    """Return the body of a request of several messages, each with its properties."""
    sizes: list[int] = []
    parts: list[bytes] = []
    for payload, described in zip(payloads, properties, strict=True):
        sizes += (len(described), len(payload))
        parts += (described, payload)
    head = ADD_MANY.pack(len(queue), len(producer), len(payloads))
    return [head, queue, producer, struct.pack(f"<{len(sizes)}I", *sizes), *parts]


def decode_add_many(body: bytes) -> NewMessages:
    """Return what the body of a request of several messages says; Garbled."""
    try:
        queue_size, producer_size, count = ADD_MANY.unpack_from(body)
        at = ADD_MANY.size + queue_size + producer_size
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
        return NewMessages(_queue(body, queue_size), parts[1::2], properties, _producer(body, at, producer_size))
    except (struct.error, ValueError) as failure:
        raise Garbled(str(failure)) from None


def _queue(body: bytes, size: int) -> str:
    return body[ADD.size : ADD.size + size].decode()


def _producer(body: bytes, end: int, size: int) -> str | None:
    return body[end - size : end].decode() if size else None


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
