"""All records of units of work as columns: what a restart makes of them, and who waits for whom.

A conversation is bound to a server instance only by the receiver's first commit in it, and only where that instance
has a TOKEN; what else a record says of a receiver was true of the broker that is gone. All of it is done for all
records at once. (EntireX, Using Persistence and Units of Work, "Recovery Processing".)
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise, repeat

import numpy as np
import numpy.typing as npt

from oms_journal.broker.block import ServiceName
from oms_journal.broker.codes import Code
from oms_journal.broker.durations import MICROSECONDS, ends, status_lifetime
from oms_journal.broker.kernel.restart.table import after_restart
from oms_journal.broker.kernel.state.unit_states import COMPLETE, Variation
from oms_journal.broker.kernel.state.world import Line
from oms_journal.broker.kernel.tables.dormant_units import (
    HEAD,
    NO_TEXTS,
    WAITING,
    Parties,
    Person,
    Places,
    check_texts,
    column_of,
    record_with,
    split,
    value_of,
)
from oms_journal.broker.kernel.tables.hold import withheld_rows
from oms_journal.broker.records import UOW, UOWS, Flag, Heads, RecordError, Status, identifier
from oms_journal.broker.store.changes import Changes, Put
from oms_journal.broker.store.start import StartRefused

WRITTEN_AT_ONCE = 1000  # records in one commit
_GONE = 0  # no status has this value
_MATTERS = int(Flag.PERSISTENT | Flag.STATUS_PERSISTENT)
_BOUND, _FIRST, _FROM_SERVER, _RELEASED = (
    np.uint8(flag) for flag in (Flag.BOUND, Flag.FIRST, Flag.FROM_SERVER, Flag.RELEASED)
)
_TERMS = ["uwstatp", "lifetime", "status_lifetime"]

Rows = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint64]


class UnitColumns:
    """The records, in the order of their UOWIDs once they are sorted."""

    def __init__(self) -> None:
        self.heads: Heads = np.empty(0, UOW.dtype)
        self.places: Places = np.empty(0, np.uint32)  # of each record's parties
        self.texts: dict[int, bytes] = {}  # of the records that have any of their own, by row
        self.lost: list[str] = []  # keys whose values are damaged
        self._tails: dict[bytes, int] = {}  # parties, as they stand before no texts of a record's own: their places
        self._heads: list[Heads] = []
        self._places: list[Places] = []
        self._count = 0  # rows in them

    @property
    def parties(self) -> list[bytes]:
        """All parties, by their places."""
        return [tail[: -len(NO_TEXTS)] for tail in self._tails]

    def _place(self, parties: bytes) -> int:
        return self._tails.setdefault(parties + NO_TEXTS, len(self._tails))

    def add_batch(self, keys: Sequence[bytes], values: Sequence[bytes], damaged: Sequence[bytes]) -> None:
        """Take in some records. StartRefused where one cannot be read."""
        self.lost += [key.decode() for key in damaged]
        if not values:
            return
        try:
            heads = UOW.heads(values)
            tails = [value[HEAD:] for value in values]
            places = np.fromiter(map(self._tails.get, tails, repeat(-1)), np.int64, len(tails))
            for at in np.flatnonzero(places < 0).tolist():
                places[at] = self._take_tail(self._count + at, tails[at], int(heads["extent"][at]))
        except RecordError as failure:
            raise _refusal(keys, values, failure) from failure
        self._heads.append(heads)
        self._places.append(places.astype(np.uint32))
        self._count += len(values)

    def _take_tail(self, row: int, tail: bytes, extent: int) -> int:
        """Take in what stands behind a head and is seen for the first time; return the place of the parties."""
        place = self._tails.get(tail)
        if place is not None:
            return place
        parties, texts = tail[:extent], tail[extent:]
        if texts != NO_TEXTS:
            check_texts(texts)
            self.texts[row] = texts
        plain = parties + NO_TEXTS
        place = self._tails.get(plain)
        if place is None:
            Parties.read(parties)
            place = self._tails[plain] = len(self._tails)
        return place

    def sort(self) -> None:
        """Put all that was taken in into the order of the UOWIDs. StartRefused where one comes twice."""
        if not self._heads:
            return
        self.heads, self.places = np.concatenate(self._heads), np.concatenate(self._places)
        self._heads.clear()
        self._places.clear()
        uowids = self.heads["uowid"]
        if not (uowids[1:] > uowids[:-1]).all():
            self._choose(np.argsort(uowids, kind="stable"))
        same = np.flatnonzero(np.diff(self.heads["uowid"]) == 0)
        if len(same):
            twice = identifier(int(self.heads["uowid"][same[0]]))
            raise StartRefused(Code.DUPLICATE_UOWID, f"{Code.DUPLICATE_UOWID.text}: {twice}")

    def _choose(self, rows: Rows) -> None:
        """Keep these records, in this order."""
        as_bytes = self.heads.view(np.uint8).reshape(-1, HEAD)  # rows of bytes are moved much faster than records
        where = np.full(len(self.heads), -1, np.int64)
        where[rows] = np.arange(len(rows))
        self.heads = np.take(as_bytes, rows, axis=0).reshape(-1).view(UOW.dtype)
        self.places = self.places[rows]
        self.texts = {int(where[at]): text for at, text in self.texts.items() if where[at] >= 0}

    def latest_begin(self) -> int:
        """Return a reading of the pseudo-clock that it has reached: when the latest lifetime began that goes on."""
        living = self.heads[(self.heads["ends"] > 0) & ~np.isin(self.heads["status"], list(COMPLETE))]
        begins = living["ends"].astype(np.int64) - living["lifetime"].astype(np.int64) * MICROSECONDS
        return max(0, int(begins.max(initial=0)))

    # The restart.

    def restart(self, clock: int, now: int, *, holds_all: bool = False) -> Iterator[Changes]:
        """Apply the restart tables; yield what of it has to be written, in commits of their own.

        `holds_all`: nothing of what waits is released from an earlier hold any more.
        """
        heads = self.heads
        before = heads["status"].copy()
        heads["status"] = _STATUS_AFTER[before, heads["flags"] & _MATTERS]
        is_gone = heads["status"] == _GONE
        ended = np.flatnonzero((heads["status"] != before) & np.isin(heads["status"], list(COMPLETE)))
        self._end(ended, clock, now)
        parties = self.parties
        for part in _parts(ended):
            yield Changes(puts=[Put(self._key(at), self._value(at, parties)) for at in part.tolist()])
        for part in _parts(np.flatnonzero(is_gone)):
            yield Changes(drops=[self._key(at) for at in part.tolist()])
        if is_gone.any():
            self._choose(np.flatnonzero(~is_gone))
        if holds_all:
            yield from self._take_back()
        self._let_go()

    def _take_back(self) -> Iterator[Changes]:
        """Let nothing of what waits be released; yield the records that say so."""
        released = np.flatnonzero(self._is_waiting() & ((self.heads["flags"] & _RELEASED) != 0))
        self.heads["flags"][released] &= ~_RELEASED
        parties = self.parties
        for part in _parts(released):
            yield Changes(puts=[Put(self._key(at), self._value(at, parties)) for at in part.tolist()])

    def _end(self, ended: Rows, clock: int, now: int) -> None:
        """Let the persistent status of units of work that the restart ends live for as long as it has to."""
        if not len(ended):
            return
        heads = self.heads
        terms = np.stack([heads[name][ended].astype(np.int64) for name in _TERMS], axis=1)
        alike, which = np.unique(terms, axis=0, return_inverse=True)
        kept = [
            status_lifetime(multiple, lifetime * MICROSECONDS, explicit * MICROSECONDS)
            for multiple, lifetime, explicit in alike.tolist()
        ]
        heads["ends"][ended] = np.array([ends(clock, lifetime) for lifetime in kept], np.uint64)[which.reshape(-1)]
        heads["back"][ended] = 0
        heads["changed"][ended] = now

    def _key(self, at: int) -> str:
        return UOWS + identifier(int(self.heads["uowid"][at]))

    def _value(self, at: int, parties: Sequence[bytes]) -> bytes:
        return value_of(self.heads[at].tobytes(), parties[self.places[at]], self.texts.get(at, NO_TEXTS))

    def _let_go(self) -> None:
        """Drop the bindings to server instances that the restart does not keep."""
        heads = self.heads
        flags, is_waiting = heads["flags"], self._is_waiting()
        is_to_server = (flags & _FROM_SERVER) == 0
        is_bound = is_waiting & ((flags & _BOUND) != 0)
        if is_bound.any():
            begins = is_waiting & is_to_server & ((flags & _FIRST) != 0)
            is_free = np.isin(heads["conv_id"], heads["conv_id"][begins])
            heads["flags"] = np.where(is_bound & (is_free | ~self._has_token(is_bound)), flags & ~_BOUND, flags)
        self._forget_receivers(np.flatnonzero(is_waiting & is_to_server & ((heads["flags"] & _BOUND) == 0)))

    def _forget_receivers(self, rows: Rows) -> None:
        """Let records that are for every server say of nobody that he receives them."""
        parties = self.parties
        instead = np.arange(len(parties), dtype=np.uint32)
        for place in np.flatnonzero(np.bincount(self.places[rows])).tolist():
            if any(Parties.read(parties[place]).receiver):
                instead[place] = self._place(_without_receiver(parties[place]))
        rows = rows[instead[self.places[rows]] != self.places[rows]]
        if len(rows):
            self.places[rows] = instead[self.places[rows]]
            self.heads["extent"][rows] = np.array(list(map(len, self.parties)))[self.places[rows]]

    def _is_waiting(self) -> npt.NDArray[np.bool_]:
        return np.isin(self.heads["status"], list(WAITING))

    def _has_token(self, is_bound: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Say of bound records whether the server instance is known by more than its connection."""
        found = np.zeros(len(is_bound), np.bool_)
        is_reply = (self.heads["flags"][is_bound] & _FROM_SERVER) != 0
        alike, which = np.unique(self.places[is_bound].astype(np.int64) * 2 + is_reply, return_inverse=True)
        parties = self.parties
        instances = [Parties.read(parties[one // 2]).instance(is_reply=bool(one % 2)) for one in alike.tolist()]
        found[is_bound] = np.array([token != "" for _, token in instances], np.bool_)[which]
        return found

    # For the kernel.

    def lines(self, last: int = 0) -> list[Line]:
        """Return the conversations that wait, by whom they wait for; messages up to number `last` may be held."""
        waiting = np.flatnonzero(self._is_waiting())
        flags, places = self.heads["flags"][waiting], self.places[waiting].astype(np.int64)
        kinds = places * 8 + ((flags & _FROM_SERVER) != 0) * 2 + ((flags & _BOUND) != 0)
        if last:
            kinds += self._stand_still(waiting, last) * 4
        uses, parties = np.bincount(kinds), self.parties
        known: dict[tuple[ServiceName, bool, bool, Person | None], int] = {}
        numbers = np.zeros(len(uses), np.int64)
        for kind in np.flatnonzero(uses).tolist():
            numbers[kind] = known.setdefault(_whom(parties[kind // 8], kind % 8), len(known))
        groups = numbers[kinds]
        if len(known) > 1:  # sorting is several times faster where a key has two bytes at most
            waiting = waiting[np.argsort(groups.astype(np.min_scalar_type(len(known))), kind="stable")]
        ends = np.cumsum(np.bincount(groups)).tolist()
        parts = (waiting[start:end] for start, end in pairwise([0, *ends]))
        return [Line(*whom, *self._in_order(rows)) for whom, rows in zip(known, parts, strict=True)]

    def _stand_still(self, waiting: Rows, last: int) -> npt.NDArray[np.bool_]:
        """Say of units of work that wait whether the first of their conversation's for the same side is held."""
        held = withheld_rows(self.heads, last)[waiting]
        if not held.any():
            return held
        firsts, conversations, flags = (self.heads[name][waiting] for name in ("first", "conv_id", "flags"))
        is_reply = flags & _FROM_SERVER
        order = np.lexsort((firsts, is_reply, conversations))
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (np.diff(conversations[order]) != 0) | (np.diff(is_reply[order]) != 0)
        found = np.empty(len(order), np.bool_)
        found[order] = held[order][begins][np.cumsum(begins) - 1]
        return found

    def _in_order(self, rows: Rows) -> tuple["array[int]", "array[int]"]:
        """Return the conversations of some units of work by the number of their first message, each once."""
        firsts, conversations, begun = (self.heads[name][rows] for name in ("first", "conv_id", "conversation"))
        orders = np.where(begun != 0, begun, firsts)
        if _ascends(conversations) and _ascends(orders):
            return column_of(orders), column_of(conversations)
        order = np.lexsort((firsts, conversations))
        conversations = conversations[order]
        is_new = np.ones(len(rows), np.bool_)
        is_new[1:] = conversations[1:] != conversations[:-1]
        orders, conversations = orders[order][is_new], conversations[is_new]
        by_age = np.lexsort((conversations, orders))
        return column_of(orders[by_age]), column_of(conversations[by_age])

    def withheld(self, last: int) -> dict[ServiceName, int]:
        """Return how many units of work of each service are held where messages up to this number are."""
        rows = np.flatnonzero(withheld_rows(self.heads, last)) if last else np.empty(0, np.int64)
        is_reply = (self.heads["flags"][rows] & _FROM_SERVER) != 0
        found: Counter[ServiceName] = Counter()
        parties = self.parties
        for kind, count in enumerate(np.bincount(self.places[rows].astype(np.int64) * 2 + is_reply).tolist()):
            if count:
                found[Parties.read(parties[kind // 2]).service(is_reply=bool(kind % 2))] += count
        return dict(found)

    def senders(self) -> dict[Person, int]:
        """Return how many units of work of each sender wait."""
        found: Counter[Person] = Counter()
        parties = self.parties
        for place, count in enumerate(np.bincount(self.places[self._is_waiting()]).tolist()):
            if count:
                found[Parties.read(parties[place]).sender] += count
        return dict(found)


def _whom(parties: bytes, kind: int) -> tuple[ServiceName, bool, bool, Person | None]:
    """Return who is waited for: the service, whether it is its client, whether in vain for now, and who exactly."""
    is_reply, is_bound = bool(kind & 2), bool(kind & 1)
    read = Parties.read(parties)
    receiver = read.receiver if is_reply or is_bound else None
    return read.service(is_reply=is_reply), is_reply, bool(kind & 4), receiver


def _ascends(numbers: Numbers) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def _parts(rows: Rows) -> Iterator[Rows]:
    for start in range(0, len(rows), WRITTEN_AT_ONCE):
        yield rows[start : start + WRITTEN_AT_ONCE]


def _refusal(keys: Sequence[bytes], values: Sequence[bytes], failure: RecordError) -> StartRefused:
    """Return the refusal that names the first record that cannot be read."""
    for key, value in zip(keys, values, strict=True):
        try:
            UOW.decode(value)
        except RecordError as its_own:
            return StartRefused(Code.RESTART_FAILED, f"{key.decode()} in the persistent store: {its_own}")
    return StartRefused(Code.RESTART_FAILED, f"a unit of work in the persistent store: {failure}")


def _without_receiver(parties: bytes) -> bytes:
    record = record_with(parties)._replace(receiver_user="", receiver_token="")
    return split(UOW.encode(record))[1]


def _statuses_after() -> npt.NDArray[np.uint8]:
    """Return the status after a restart, by the one before and what is persistent; 0 for no trace."""
    found = np.zeros((max(Status) + 1, _MATTERS + 1), np.uint8)
    for status in Status:
        for flags in range(_MATTERS + 1):
            variation = Variation(bool(flags & Flag.PERSISTENT), bool(flags & Flag.STATUS_PERSISTENT))
            found[status, flags] = after_restart(status, variation).status or _GONE
    return found


_STATUS_AFTER = _statuses_after()
