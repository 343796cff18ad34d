"""The broker's keyed state as bytes: what is kept under which key, and how it is read. Imports nothing of the broker.

A record is the value of a key: a head of fixed width, so that a million of them are columns at once,
and behind it the texts, each one byte of length and so many bytes of UTF-8.
docs/reference/broker-records.md lists the keys and says what every field means; a test compares it with what is here.

Times are microseconds since 1970 UTC; what is called a clock, `ends` and `back` are on the pseudo-clock,
in microseconds, 0 for never; lifetimes are seconds, 0 for no end. An identifier is 16 hexadecimal digits,
and a number in the head; "" and 0 are none.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum, IntFlag
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

VERSION = 1
Heads = npt.NDArray[np.void]  # one row a record, with the fields of its head


class RecordError(ValueError):
    """The bytes under a key are no record of the broker."""


class NewerRecord(RecordError):
    """The record was written by a newer version of the broker."""


class RecordKind(IntEnum):
    """What a record is of."""

    UOW = 1
    PUBLICATION = 2
    SUBSCRIPTION = 3
    MASTER = 4
    CHECKPOINT = 5
    CLOCK = 6
    HOLD = 7
    HELD = 8


class Status(IntEnum):
    """Where a unit of work, or a publication, is in its life. The values are those of UOWSTATUS."""

    RECEIVED = 1
    ACCEPTED = 2
    DELIVERED = 3
    BACKEDOUT = 4
    PROCESSED = 5
    CANCELLED = 6
    TIMEOUT = 7
    DISCARDED = 8
    POSTPONED = 13  # 9 to 12 are what a RECEIVE answers


class Flag(IntFlag):
    """What is true of a unit of work or publication for good; BOUND and RELEASED come to it."""

    PERSISTENT = 1
    STATUS_PERSISTENT = 2
    FROM_SERVER = 4  # an answer to the client
    FIRST = 8  # of its conversation
    BOUND = 16  # to the server instance that is its receiver, or its sender
    RELEASED = 32  # from the hold that a restored store begins with


class ConversationState(IntEnum):
    """Whether the conversation goes on."""

    OPEN = 0
    EOC = 1
    EOC_CANCEL = 2


class CheckpointName(IntEnum):
    """What a checkpoint marks."""

    ETBC = 1  # a cold start
    ETBH = 2  # a hot start
    ETBT = 3  # a termination


class UowRecord(NamedTuple):
    """A unit of work, as it was when it was written."""

    uowid: str
    conv_id: str
    status: Status
    flags: Flag
    state: ConversationState = ConversationState.OPEN
    uwstatp: int = 0  # multiple of the lifetime that the status is kept for after completion
    eoc_reason: int = 0  # number of the return code, of class 0003, that tells the partner why
    adcount: int = 0
    postpones: int = 0
    messages: int = 0
    lifetime: int = 0
    status_lifetime: int = 0
    size: int = 0  # bytes of all its messages
    created: int = 0
    committed: int = 0
    begun: int = 0  # when the conversation's first unit of work was committed
    changed: int = 0
    first: int = 0  # number of the first message; the others follow
    conversation: int = 0  # number of the first message of the conversation's first unit of work
    ends: int = 0
    back: int = 0
    sender_user: str = ""
    sender_token: str = ""
    sender_class: str = ""
    sender_server: str = ""
    sender_service: str = ""
    receiver_user: str = ""
    receiver_token: str = ""
    receiver_class: str = ""
    receiver_server: str = ""
    receiver_service: str = ""
    ustatus: str = ""
    producer: str = ""


class PublicationRecord(NamedTuple):
    """A publication, as it was when it was written."""

    publication_id: str
    status: Status
    flags: Flag
    messages: int = 0
    size: int = 0
    lifetime: int = 0
    created: int = 0
    committed: int = 0
    first: int = 0
    ends: int = 0
    user: str = ""
    token: str = ""
    topic: str = ""
    ustatus: str = ""
    producer: str = ""


class SubscriptionRecord(NamedTuple):
    """A durable subscription, and how far it is."""

    subscription_id: str
    subscribed: int = 0
    active: int = 0
    position: int = 0  # publications up to this message number are done with, or were before its time
    last_committed: str = ""  # PUBLICATION-ID
    ends: int = 0
    expiration: int = 0
    user: str = ""
    token: str = ""
    topic: str = ""
    acknowledged: tuple[
        int, ...
    ] = ()  # publications behind the position that are done with, as `ranges.py` writes them


class MasterRecord(NamedTuple):
    """Whose store this is, and how often it was started."""

    starts: int
    created: int
    started: int
    broker_id: str
    platform: str = ""
    version: str = ""  # of the program


class CheckpointRecord(NamedTuple):
    """When the store was last started cold, started hot, or ended."""

    name: CheckpointName
    starts: int
    time: int
    broker_id: str
    job: str = ""


class ClockRecord(NamedTuple):
    """How long the broker has been active."""

    clock: int
    written: int


class HoldRecord(NamedTuple):
    """That what waited when the store was restored from a backup is held."""

    last: int  # messages up to this number are held; what is newer is not
    clock: int  # the pseudo-clock at which their lifetimes stand still
    since: int
    source: str = ""  # where the store was restored from, for people


class HeldRecord(NamedTuple):
    """The publications that are held for a durable subscription; its own position is behind them."""

    subscription_id: str
    low: int = 0  # publications up to this message number are done with
    last: int = 0  # what is newer is not held
    released: int = 0  # up to this message number they are not held any more
    done: int = 0  # so many of the numbers are of publications that are done with, the others of released ones
    numbers: tuple[int, ...] = ()  # first numbers of publications behind `low`


R = TypeVar("R", bound=tuple[Any, ...])

PREFIX_FIELDS = (("version", "B"), ("kind", "B"), ("extent", "H"), ("reserved", "I"))  # every head begins so
_TYPES = {"B": "u1", "H": "<u2", "I": "<u4", "Q": "<u8", "q": "<i8", "N": "<u8"}  # N: an identifier
_ENUMS: Mapping[str, Mapping[int, int]] = {
    "status": {status.value: status for status in Status},
    "state": {state.value: state for state in ConversationState},
    "name": {name.value: name for name in CheckpointName},
    "flags": {flags: Flag(flags) for flags in range(sum(Flag) + 1)},
}


def encode_texts(texts: Iterable[str]) -> bytes:
    parts: list[bytes] = []
    for text in texts:
        data = text.encode()
        parts += bytes((len(data),)), data
    return b"".join(parts)


def _decode_texts(data: bytes, count: int) -> tuple[list[str], bytes]:
    """Return so many texts and what is behind them; ValueError, IndexError when there are fewer."""
    found, at = [], 0
    for _ in range(count):
        end = at + 1 + data[at]
        if end > len(data):
            raise ValueError("a text is cut off")
        found.append(data[at + 1 : end].decode())
        at = end
    return found, data[at:]


# Senders, receivers and services come again and again.
_encoded_texts = lru_cache(4096)(encode_texts)


@lru_cache(4096)
def decode_shared_texts(data: bytes, count: int) -> list[str]:
    """Return the texts that many records have in common; ValueError, IndexError where they are not so many."""
    texts, rest = _decode_texts(data, count)
    if rest:
        raise ValueError("the texts are shorter than their extent")
    return texts


class Layout(Generic[R]):
    """How one kind of record lies in its bytes: the fields of its head, then its texts, in the order of `make`."""

    def __init__(
        self, kind: RecordKind, make: Callable[..., R], head: str, *, shared: int = 0, has_numbers: bool = False
    ) -> None:
        """`head` lists "field:code" with the codes of `struct`; `extent` has the bytes of the first `shared` texts."""
        own = [(name, code) for name, _, code in (row.partition(":") for row in head.split())]
        rows = [*PREFIX_FIELDS, *own]
        self.kind = kind
        self.dtype = np.dtype([(name, _TYPES[code]) for name, code in rows])
        self.size = self.dtype.itemsize  # bytes of the head
        self.widths = {name: self.dtype[name].itemsize for name, _ in rows}
        self.texts: Sequence[str] = make._fields[len(own) : -1 if has_numbers else None]  # type: ignore[attr-defined]
        self._struct = struct.Struct("<" + "".join(code.replace("N", "Q") for _, code in rows))
        self._make = make
        self._own = len(own)
        self._shared = len(own) + shared
        self._end = len(own) + len(self.texts)
        self.has_numbers = has_numbers
        self._identifiers = [at for at, (_, code) in enumerate(own) if code == "N"]
        self._enums = [(at, name, _ENUMS[name]) for at, (name, _) in enumerate(own) if name in _ENUMS]
        self.known = {name: tuple(known) for _, name, known in self._enums}  # what such a field of the head can be
        self.shared_texts = shared  # so many stand in the extent

    def offset(self, name: str) -> int:
        """Return where in the value the field of the head begins: for numbers that a commit puts there."""
        return int(self.dtype.fields[name][1])  # type: ignore[index]

    def encode(self, record: R) -> bytes:
        """Return the value for the record's key."""
        head: list[Any] = list(record[: self._own])
        for at in self._identifiers:
            head[at] = int(head[at] or "0", 16)
        value = self.value(head, record[self._own : self._shared], record[self._shared : self._end])
        return value + struct.pack(f"<{len(record[-1])}Q", *record[-1]) if self.has_numbers else value

    def value(self, head: Sequence[int], shared: tuple[str, ...], own: tuple[str, ...]) -> bytes:
        """Return a value of its parts: the head behind the extent, with identifiers as numbers, and the texts."""
        texts = _encoded_texts(shared)
        value = self._struct.pack(VERSION, self.kind, len(texts), 0, *head) + texts
        return value + (encode_texts(own) if any(own) else bytes(len(own)))

    def decode(self, value: bytes) -> R:
        """Return the record; NewerRecord, or RecordError where the bytes are none of this kind."""
        self._check_size(len(value))
        version, kind, extent, reserved, *head = self._struct.unpack_from(value)
        self._check(version, kind, reserved)
        for at in self._identifiers:
            head[at] = identifier(head[at])
        end = self.size + extent
        self._require(end <= len(value), "texts cut off")
        try:
            for at, _, known in self._enums:
                head[at] = known[head[at]]
            texts = decode_shared_texts(value[self.size : end], self._shared - self._own)
            own_texts, rest = _decode_texts(value[end:], self._end - self._shared)
        except (ValueError, KeyError, IndexError) as failure:
            raise RecordError(f"a {self.kind.name} record with an unknown or unreadable value: {failure}") from None
        if not self.has_numbers:
            self._require(not rest, "bytes behind its end")
            return self._make(*head, *texts, *own_texts)
        self._require(len(rest) % 8 == 0, "a number cut off")
        return self._make(*head, *texts, *own_texts, struct.unpack(f"<{len(rest) // 8}Q", rest))

    def heads(self, values: Iterable[bytes]) -> Heads:
        """Return the heads of many values as columns, checked; a value may be cut behind its head."""
        cut = [value[: self.size] for value in values]
        self._check_size(min(map(len, cut), default=self.size))
        found = np.frombuffer(b"".join(cut), self.dtype)
        for field in ("version", "kind", "reserved"):
            odd = found[found[field] != {"version": VERSION, "kind": self.kind, "reserved": 0}[field]]
            if len(odd):
                self._check(int(odd["version"][0]), int(odd["kind"][0]), int(odd["reserved"][0]))
        for _, name, known in self._enums:
            self._require(bool(np.isin(found[name], list(known)).all()), f"an unknown {name}")
        return found

    def _check(self, version: int, kind: int, reserved: int) -> None:
        if version > VERSION:
            raise NewerRecord(f"a {self.kind.name} record of version {version}; this is version {VERSION}")
        self._require(version == VERSION, f"version {version}")
        self._require(kind == self.kind, f"kind {kind}")
        self._require(reserved == 0, "a reserved field that is not 0")

    def _check_size(self, size: int) -> None:
        self._require(size >= self.size, f"{size} bytes, less than its head")

    def _require(self, is_so: bool, otherwise: str) -> None:
        if not is_so:
            raise RecordError(f"a {self.kind.name} record with {otherwise}")


UOW = Layout(
    RecordKind.UOW,
    UowRecord,
    "uowid:N conv_id:N status:B flags:B state:B uwstatp:B eoc_reason:I adcount:I postpones:I messages:I lifetime:I"
    " status_lifetime:I size:I created:q committed:q begun:q changed:q first:Q conversation:Q ends:Q back:Q",
    shared=10,
)
PUBLICATION = Layout(
    RecordKind.PUBLICATION,
    PublicationRecord,
    "publication_id:N status:H flags:H messages:I size:I lifetime:I created:q committed:q first:Q ends:Q",
    shared=3,
)
SUBSCRIPTION = Layout(
    RecordKind.SUBSCRIPTION,
    SubscriptionRecord,
    "subscription_id:N subscribed:q active:q position:Q last_committed:N ends:Q expiration:Q",
    shared=3,
    has_numbers=True,
)
MASTER = Layout(RecordKind.MASTER, MasterRecord, "starts:Q created:q started:q", shared=3)
CHECKPOINT = Layout(RecordKind.CHECKPOINT, CheckpointRecord, "name:I starts:I time:q", shared=2)
CLOCK = Layout(RecordKind.CLOCK, ClockRecord, "clock:Q written:q")
HOLD = Layout(RecordKind.HOLD, HoldRecord, "last:Q clock:Q since:q", shared=1)
HELD = Layout(RecordKind.HELD, HeldRecord, "subscription_id:N low:Q last:Q released:Q done:Q", has_numbers=True)
LAYOUTS: Sequence[Layout[Any]] = (UOW, PUBLICATION, SUBSCRIPTION, MASTER, CHECKPOINT, CLOCK, HOLD, HELD)


def identifier(number: int) -> str:
    """Return the identifier that the number stands for: 16 hexadecimal digits, "" for 0."""
    return f"{number:016X}" if number else ""


PREFIX = "broker/"
UOWS, PUBLICATIONS, SUBSCRIPTIONS = f"{PREFIX}uow/", f"{PREFIX}publication/", f"{PREFIX}subscription/"
CHECKPOINTS, MASTER_KEY, CLOCK_KEY = f"{PREFIX}checkpoint/", f"{PREFIX}master", f"{PREFIX}clock"
HOLD_KEY, HELDS = f"{PREFIX}hold", f"{PREFIX}held/"
_STARTS = (UOWS, PUBLICATIONS, SUBSCRIPTIONS, MASTER_KEY, CHECKPOINTS, CLOCK_KEY, HOLD_KEY, HELDS)  # as RecordKind


def kind_of(key: str) -> RecordKind | None:
    """Return what the key's record is of, None for a key that is not the broker's."""
    return next((kind for kind, start in zip(RecordKind, _STARTS, strict=True) if key.startswith(start)), None)
