"""Units of work that nobody touches: rows, not objects. Restored ones, waiting ones, and statuses of complete ones.

A record takes some 60 bytes here: its head lies packed among its neighbours, and the parties that it has in common
with others are kept once. It is found by UOWID, by CONV-ID, by when its lifetime is over, and the newest of a sender.

The value of a unit of work's record in its parts: the head, the parties that many have in common, its own texts.

Texts that many rows have in common, kept once and known by their places.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oms_journal.broker.block import ServiceName
from oms_journal.broker.kernel.tables.hold import is_held, withheld_rows
from oms_journal.broker.kernel.tables.order import KeyedOrder
from oms_journal.broker.kernel.tables.packed_rows import Matrix, PackedRows
from oms_journal.broker.records import (
    UOW,
    Flag,
    Heads,
    RecordError,
    Status,
    UowRecord,
    decode_shared_texts,
    encode_texts,
    identifier,
)


class SharedTexts:
    """Texts, and how many rows have each. A place is used again when no row has its text any more."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []  # by place
        self._places: dict[bytes, int] = {}
        self._uses: list[int] = []
        self._free: list[int] = []

    def take(self, text: bytes, uses: int = 1) -> int:
        """Return the text's place, for so many rows more."""
        place = self._places.get(text)
        if place is None:
            place = self._free.pop() if self._free else len(self.texts)
            if place == len(self.texts):
                self.texts.append(text)
                self._uses.append(0)
            self.texts[place] = text
            self._places[text] = place
        self._uses[place] += uses
        return place

    def drop(self, place: int) -> None:
        """Note that a row less has the text."""
        self._uses[place] -= 1
        if not self._uses[place]:
            del self._places[self.texts[place]]
            self.texts[place] = b""
            self._free.append(place)

    def used(self) -> list[tuple[int, bytes]]:
        """Return the places and texts that any row has."""
        return [(place, text) for text, place in self._places.items()]


HEAD = UOW.size  # bytes
NO_TEXTS = b"\0\0"  # neither a user status nor a producer
_EXTENT = UOW.offset("extent")  # of the head: the bytes of the parties
_BLANK = UOW.encode(UowRecord("", "", Status.ACCEPTED, Flag(0)))[:HEAD]


def value_of(head: bytes, parties: bytes, texts: bytes = NO_TEXTS) -> bytes:
    """Return a record's value put together again; its own texts are the user status and the producer."""
    return head + parties + texts


def check_texts(texts: bytes) -> None:
    """Raise RecordError unless these are a record's own texts."""
    if texts == NO_TEXTS:
        return
    try:
        middle = 1 + texts[0]
        texts[1:middle].decode()
        texts[middle + 1 :].decode()
        is_whole = len(texts) == middle + 1 + texts[middle]
    except (IndexError, UnicodeDecodeError):
        is_whole = False
    if not is_whole:
        raise RecordError("a UOW record with an unreadable user status or producer")


def record_with(parties: bytes) -> UowRecord:
    """Return a record that says nothing but who its parties are."""
    extent = len(parties).to_bytes(2, "little")
    return UOW.decode(value_of(_BLANK[:_EXTENT] + extent + _BLANK[_EXTENT + 2 :], parties))


def split(value: bytes) -> tuple[bytes, bytes, bytes]:
    """Return a record's value as its head, the parties, and the texts of its own."""
    end = HEAD + int.from_bytes(value[_EXTENT : _EXTENT + 2], "little")
    return value[:HEAD], value[HEAD:end], value[end:]


Person = tuple[str, str]  # USER-ID and TOKEN
WAITING = frozenset({Status.ACCEPTED, Status.POSTPONED})
_SHARED = slice(HEAD, HEAD + 4)  # of a row: the place of its parties
NumberColumns = Mapping[str, npt.NDArray[np.uint64]]


def _slice(name: str) -> slice:
    """Return where in a row a field of the head is."""
    return slice(UOW.offset(name), UOW.offset(name) + UOW.widths[name])


_STATUS = _slice("status")
_FIRST = _slice("first")  # the number of the first message
Places = npt.NDArray[np.uint32]


class Count(NamedTuple):
    """How much waits for a service."""

    units: int = 0
    messages: int = 0
    size: int = 0  # bytes


_NONE = Count()
Loose = UowRecord | bytes  # what is not packed: a record, or its value


class RowFilter(NamedTuple):
    """What is wanted of many at once; None: whatever it is."""

    statuses: Collection[int] | None = None
    places: Collection[int] | None = None  # of parties, as `places_of` has found them


class Parties(NamedTuple):
    """Who sends and who receives a unit of work; the service stands with the one who offers it."""

    sender: Person
    offered_by_sender: ServiceName
    receiver: Person
    offered_by_receiver: ServiceName

    @classmethod
    def of(cls, record: UowRecord) -> "Parties":
        return cls(
            (record.sender_user, record.sender_token),
            (record.sender_class, record.sender_server, record.sender_service),
            (record.receiver_user, record.receiver_token),
            (record.receiver_class, record.receiver_server, record.receiver_service),
        )

    @classmethod
    def read(cls, text: bytes) -> "Parties":
        """Return the parties from the bytes that records have in common. RecordError."""
        try:
            user, token, *offered = decode_shared_texts(text, UOW.shared_texts)
        except UnicodeDecodeError as failure:
            raise RecordError(f"a UOW record with an unreadable party: {failure}") from None
        except (ValueError, IndexError):
            raise RecordError("a UOW record whose parties are not as long as their extent") from None
        return cls((user, token), _service(offered[:3]), (offered[3], offered[4]), _service(offered[5:]))

    def service(self, *, is_reply: bool) -> ServiceName:
        return self.offered_by_sender if is_reply else self.offered_by_receiver

    def instance(self, *, is_reply: bool) -> Person:
        """Return the server instance."""
        return self.sender if is_reply else self.receiver


def decode_loose(loose: Loose) -> UowRecord:
    """Return the record that has not been packed yet."""
    return UOW.decode(loose) if isinstance(loose, bytes) else loose


def _service(names: Sequence[str]) -> ServiceName:
    server_class, server_name, service = names
    return server_class, server_name, service


class DormantUnits:
    """Units of work asleep, under their UOWIDs. Does not lock: its owner does."""

    def __init__(self, held_up_to: int = 0) -> None:
        """`held_up_to` is up to which message number what waits may be held, and then comes to no end."""
        self._held_up_to = held_up_to
        self._rows = PackedRows(self._encode)
        self._shared = SharedTexts()
        self._conversations = KeyedOrder()  # UOWIDs by CONV-ID
        self._dues = KeyedOrder()  # UOWIDs by when they have to be looked at
        self._waiting: dict[ServiceName, Count] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def fill(self, heads: Heads, parties: Sequence[bytes], places: Places, texts: Mapping[int, bytes]) -> None:
        """Begin with records in the order of their UOWIDs: heads, which of the parties each has, its texts if any."""
        if not len(heads):
            return
        uses = np.bincount(places, minlength=len(parties)).tolist()
        where = [self._shared.take(text, use) if use else 0 for text, use in zip(parties, uses, strict=True)]
        shared = np.array(where, "<u4")[places]
        self._rows.fill(heads["uowid"], lambda part: _rows(heads[part], shared[part]), texts, NO_TEXTS)
        self._conversations = _ordered(heads["conv_id"], heads["uowid"])
        dues = _dues(heads)
        if self._held_up_to:
            dues[withheld_rows(heads, self._held_up_to)] = 0
        self._dues = _ordered(dues[dues > 0], heads["uowid"][dues > 0])
        self._count_many(heads, parties, places)

    def _count_many(self, heads: Heads, parties: Sequence[bytes], places: Places) -> None:
        is_waiting = np.isin(heads["status"], list(WAITING))
        is_reply = (heads["flags"][is_waiting] & Flag.FROM_SERVER) != 0
        groups = places[is_waiting].astype(np.int64) * 2 + is_reply
        units = np.bincount(groups)
        messages, sizes = (
            np.bincount(groups, heads[name][is_waiting].astype(np.float64)) for name in ("messages", "size")
        )
        for group in np.flatnonzero(units).tolist():
            service = Parties.read(parties[group // 2]).service(is_reply=bool(group % 2))
            self._count(service, int(units[group]), int(messages[group]), int(sizes[group]))

    # One at a time.

    def add(self, record: UowRecord) -> None:
        """Put a record to sleep; its UOWID is not asleep already."""
        number = int(record.uowid, 16)
        self._rows.add(number, record)
        self._conversations.add(int(record.conv_id, 16), number)
        due = self._due(record)
        if due:
            self._dues.add(due, number)
        if record.status in WAITING:
            self._count_one(record, 1)

    def add_waiting(self, value: bytes, numbers: tuple[int, int, int], service: ServiceName, size: int) -> None:
        """Put a unit of work of one message to sleep, which is ACCEPTED, as the value of its record.

        `numbers` are those of its identifier and its conversation's, and when its lifetime is over.
        """
        number, conversation, due = numbers
        self._rows.add(number, value)
        self._conversations.add(conversation, number)
        if due:
            self._dues.add(due, number)
        self._count(service, 1, 1, size)

    def find(self, uowid: str) -> UowRecord | None:
        """Return a record that sleeps, and leave it; None for none."""
        return self._read(self._rows.find(_number(uowid)))

    def take(self, uowid: str) -> UowRecord | None:
        """Wake a record: return it and forget it; None for none."""
        number = _number(uowid)
        found = self._rows.take(number)
        record = self._read(found)
        if record is None:
            return None
        if not isinstance(found, UowRecord | bytes):
            self._shared.drop(_place(found[0]))
        self._conversations.remove(int(record.conv_id, 16), number)
        due = self._due(record)
        if due:
            self._dues.remove(due, number)
        if record.status in WAITING:
            self._count_one(record, -1)
        return record

    def _read(self, found: Loose | tuple[bytes, bytes] | None) -> UowRecord | None:
        if found is None:
            return None
        if isinstance(found, UowRecord | bytes):
            return decode_loose(found)
        row, texts = found
        return UOW.decode(value_of(row[:HEAD], self._shared.texts[_place(row)], texts))

    def _encode(self, loose: list[Loose]) -> tuple[Matrix, list[bytes]]:
        """Return the rows and the texts of what is to be packed."""
        values = [UOW.encode(each) if isinstance(each, UowRecord) else each for each in loose]
        heads = UOW.heads(values)
        parts = list(map(split, values))
        uses = Counter(parties for _, parties, _ in parts)
        known = {parties: self._shared.take(parties, count) for parties, count in uses.items()}
        return _rows(heads, np.array([known[parties] for _, parties, _ in parts], "<u4")), [
            texts for _, _, texts in parts
        ]

    # Questions.

    def of_conversation(self, conv_id: str) -> list[str]:
        """Return the UOWIDs that sleep of a conversation, in the order of their commits."""
        numbers = self._conversations.of(_number(conv_id))
        if len(numbers) < 2:
            return list(map(identifier, numbers))
        records = [self._read(self._rows.find(number)) for number in numbers]
        return [
            record.uowid for record in sorted(filter(None, records), key=lambda record: (record.first, record.uowid))
        ]

    def last_of(self, user: str, token: str, conv_id: str | None = None) -> str | None:
        """Return the UOWID of the newest unit of work asleep that the sender made, in a conversation or at all."""
        sender = (user, token)
        if conv_id is not None:
            records = [self._read(self._rows.find(number)) for number in self._conversations.of(_number(conv_id))]
            mine = [record.uowid for record in records if record is not None and Parties.of(record).sender == sender]
            return max(mine, default=None)
        places = [place for place, text in self._shared.used() if Parties.read(text).sender == sender]
        texts = encode_texts(sender)

        def is_mine(loose: Loose) -> bool:
            if isinstance(loose, bytes):
                return loose.startswith(texts, HEAD)
            return (loose.sender_user, loose.sender_token) == sender

        found = self._rows.highest(_SHARED, places, is_mine)
        return None if found is None else identifier(found)

    def at_number(self, first: int) -> str | None:
        """Return the UOWID of the unit of work asleep whose first message has this number. Looks at all of them."""
        number = first.to_bytes(8, "little")

        def has_it(loose: Loose) -> bool:
            return loose[_FIRST] == number if isinstance(loose, bytes) else loose.first == first

        found = self._rows.highest(_FIRST, [first], has_it) if first else None
        return None if found is None else identifier(found)

    def places_of(self, is_wanted: Callable[[Parties], bool]) -> list[int]:
        """Return where the parties are that are wanted, to be asked for with `behind`."""
        return [place for place, text in self._shared.used() if is_wanted(Parties.read(text))]

    def behind(self, number: int, wanted: RowFilter, limit: int) -> tuple[list[UowRecord], int | None]:
        """Return some of the wanted records behind a UOWID, in order, and up to which UOWID has been looked.

        That is None when there are no more. Looks at a block of packed ones at most, and makes as many as the limit. Of
        the parties, all that have one of the places are returned, and some more.
        """
        columns = [
            (part, values)
            for part, values in ((_STATUS, wanted.statuses), (_SHARED, wanted.places))
            if values is not None
        ]
        rows, reached = self._rows.behind(number, columns, limit)
        records = [record for record in map(self._read, rows) if record is not None]
        if wanted.statuses is not None:
            records = [record for record in records if record.status in wanted.statuses]
        return records, reached

    def conversations_behind(self, number: int, limit: int) -> list[int]:
        """Return at most so many CONV-IDs behind one, as numbers, in order: those of records that sleep."""
        found: dict[int, None] = {}
        for key, _ in self._conversations.behind(number):
            if len(found) == limit and key not in found:
                break
            found[key] = None
        return list(found)

    def loose(self) -> list[Loose]:
        """Return what is not packed yet, a few thousand at most."""
        return self._rows.loose()

    def columns_behind(self, number: int, names: Sequence[str]) -> "tuple[NumberColumns, int | None]":
        """Return fields of the head of a thousand packed records behind a UOWID, and up to which; None: no more.

        `parties` is where they are, for `parties_at`.
        """
        parts = [_SHARED if name == "parties" else _slice(name) for name in names]
        found, reached = self._rows.columns_behind(number, parts)
        return dict(zip(names, found, strict=True)), reached

    def parties_at(self, place: int) -> Parties:
        return Parties.read(self._shared.texts[place])

    @property
    def has_dues(self) -> bool:
        return len(self._dues) > 0

    def overdue(self, clock: int, limit: int) -> list[str]:
        """Return at most so many UOWIDs whose lifetime, status lifetime or delay is over."""
        found = []
        for _, number in self._dues.up_to(clock):
            found.append(identifier(number))
            if len(found) == limit:
                break
        return found

    def counts(self) -> Mapping[ServiceName, Count]:
        """Return how much waits for every service, in either direction."""
        return self._waiting

    def _due(self, record: UowRecord) -> int:
        """Return when on the pseudo-clock the unit has to be looked at, 0 for never."""
        if is_held(record, self._held_up_to):
            return 0
        is_delayed = record.status is Status.ACCEPTED and record.back and (not record.ends or record.back < record.ends)
        return record.back if is_delayed or record.status is Status.POSTPONED else record.ends

    def _count_one(self, record: UowRecord, sign: int) -> None:
        service = Parties.of(record).service(is_reply=bool(record.flags & Flag.FROM_SERVER))
        self._count(service, sign, sign * record.messages, sign * record.size)

    def _count(self, service: ServiceName, units: int, messages: int, size: int) -> None:
        had_units, had_messages, had_size = self._waiting.get(service, _NONE)
        if had_units + units:
            self._waiting[service] = Count(had_units + units, had_messages + messages, had_size + size)
        else:
            self._waiting.pop(service, None)


def _number(text: str) -> int:
    """Return an identifier as a number; one that is none of ours as 0, which nothing has."""
    try:
        return int(text, 16) if len(text) == 16 else 0
    except ValueError:
        return 0


def _rows(heads: Heads, places: Places) -> Matrix:
    """Return the heads, each with the place of its parties behind it, as bytes."""
    rows = np.empty((len(heads), HEAD + 4), np.uint8)
    rows[:, :HEAD] = heads.view(np.uint8).reshape(-1, HEAD)
    rows[:, HEAD:] = places.view(np.uint8).reshape(-1, 4)
    return rows


def _place(row: bytes) -> int:
    return int.from_bytes(row[HEAD:], "little")


def _dues(heads: Heads) -> npt.NDArray[np.uint64]:
    backs, ends = heads["back"], heads["ends"]
    is_delayed = (heads["status"] == Status.ACCEPTED) & (backs > 0) & ((ends == 0) | (backs < ends))
    return np.where(is_delayed | (heads["status"] == Status.POSTPONED), backs, ends)


def _ordered(keys: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64]) -> KeyedOrder:
    """Return ascending numbers by their keys."""
    if (keys[1:] < keys[:-1]).any():
        order = np.argsort(keys, kind="stable")
        keys, numbers = keys[order], numbers[order]
    return KeyedOrder(column_of(keys), column_of(numbers))


def column_of(values: npt.NDArray[np.uint64]) -> "array[int]":
    """Return a column of numbers as what `KeyedOrder` keeps."""
    column = array("Q")
    column.frombytes(np.ascontiguousarray(values, "=u8").tobytes())
    return column
