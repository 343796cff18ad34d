"""The store that is loaded: marked before anything else comes into it, filled, read again, and compared.

    found in the target          beginning a load                        HOT, COLD, WARM
    nothing                      marks it, durably: its first record     as ever
    an unfinished load           erases and repeats it, from the same    refused
                                 source only
    a finished load, not         compares it with the same source again  goes on; the mark goes
    started since
    anything else                refused                                 as ever

Only the comparison of what can be read back ends a load: in the same commit the mark of the unfinished load goes and
the one of the finished comes. (EntireX 8.0, Concepts of Persistent Messaging, "Migrating the Persistent Store"; the
marks are ours.)
"""

from collections.abc import Callable, Mapping
from enum import Enum

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.codes import Code
from oms_journal.broker.drivers.journal_contents import has_data
from oms_journal.broker.drivers.open import open_store, place_of
from oms_journal.broker.drivers.sqlite import SqliteStore
from oms_journal.broker.migration.agreement import (
    LoadMark,
    MoveRefused,
    StoreOffer,
    decode_mark,
    encode_mark,
    partner_refusal,
)
from oms_journal.broker.migration.stream import (
    Decoder,
    NotAReplica,
    Tallies,
    Tally,
    differences,
    encode_part,
    reported,
    scan,
)
from oms_journal.broker.migration.unload import Progress, begin_report, own_offer
from oms_journal.broker.store.changes import Changes, Put
from oms_journal.broker.store.report import Action
from oms_journal.broker.store.start import (
    LOADED_KEY,
    LOADING_KEY,
    PersistentStore,
    StartRefused,
    StoreError,
    StoreUnavailable,
)
from oms_journal.database.bulk.locked import LockedView
from oms_journal.database.bulk.values import in_order
from oms_journal.database.options import system_clock
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import JournalError


class Stage(Enum):
    """How far a load is."""

    EMPTY = "empty"
    UNFINISHED = "unfinished"
    FINISHED = "finished"


class Loading:
    """A store while it is loaded. Made by `open`. For one thread at a time."""

    def __init__(self, attributes: Attributes, report: str | None) -> None:
        self._attributes = attributes
        self._report = report
        self._store: PersistentStore | None = None
        self._standstill: LockedView | None = None  # a journal with an unfinished load, locked and not opened
        self._mark: LoadMark | None = None
        self._decoder = Decoder()
        self.stage = Stage.EMPTY
        self.parts = 0  # taken in
        self.offer = own_offer(attributes)

    @classmethod
    def open(cls, attributes: Attributes, *, report: str | None = None) -> "Loading":
        """Open the store of the attributes; made where there is none. StartRefused for one that holds anything else."""
        loading = cls(attributes, report)
        try:
            loading._open()
        except StoreError as failure:
            loading.close()
            raise StartRefused(Code.RESTART_FAILED, f"the persistent store cannot be loaded: {failure}") from failure
        except BaseException:
            loading.close()
            raise
        return loading

    def _open(self) -> None:
        driver, place = place_of(self._attributes)
        if driver == "JOURNAL" and has_data(RealDisk(), place):
            standstill = _standstill(self._attributes)
            value = _record(standstill, LOADING_KEY)
            if value is not None:
                self._standstill, self._mark, self.stage = standstill, _mark_in(value), Stage.UNFINISHED
                return
            standstill.close()
        store = self._store = open_store(self._attributes, takes_any=True)
        for key, stage in ((LOADING_KEY, Stage.UNFINISHED), (LOADED_KEY, Stage.FINISHED)):
            value = store.record(key)
            if value is not None:
                self._mark, self.stage = _mark_in(value), stage
                return
        if not store.is_empty():
            raise StartRefused(
                Code.RESTART_FAILED,
                f"{place} is not empty: it holds {store.message_count():,} messages, and records; a load needs an "
                "empty store: give another one; nothing was changed",
            )

    def begin(self, source: StoreOffer) -> bool:
        """Begin, or begin again, the load of a source; False where it is there already, and only to be compared.

        MoveRefused: then nothing was changed. StoreError, StartRefused.
        """
        refusal = partner_refusal(self.offer, source)
        if refusal:
            raise MoveRefused(refusal)
        if self._mark is not None and not self._mark.is_of(source):
            how = "an unfinished load" if self.stage is Stage.UNFINISHED else "a load"
            raise MoveRefused(
                f"the target is not empty: {self.offer.place} holds {how} of {self._mark}, not of {source}; give "
                "another store; nothing was changed"
            )
        if self.stage is Stage.FINISHED:
            return False
        self._mark = LoadMark(source, system_clock())
        self._decoder, self.parts = Decoder(), 0
        put = Put(LOADING_KEY, encode_mark(self._mark))
        if self.stage is Stage.UNFINISHED:
            self._empty({put.key: put.value})
        assert self._store is not None, "an empty store is open"
        self._store.commit(Changes(puts=[put]))
        self.stage = Stage.UNFINISHED
        return True

    def _empty(self, kept: Mapping[str, bytes]) -> None:
        """Erase what an unfinished load has written, numbers included, so that it can come again."""
        if isinstance(self._store, SqliteStore):
            self._store.erase(kept, numbers_too=True)
            return
        if self._store is not None:
            self._store.close()
            self._store = None
        standstill = self._standstill or _standstill(self._attributes)
        self._standstill = None
        try:
            standstill.remove()
        except OSError as failure:
            raise StoreUnavailable(f"the unfinished load cannot be removed: {failure}") from failure
        finally:
            standstill.close()
        self._store = open_store(self._attributes, takes_any=True)

    def take(self, data: bytes) -> None:
        """Take in a piece of the stream. NotAReplica, StoreError."""
        assert self._store is not None and self.stage is Stage.UNFINISHED, "a load was begun"
        for part in self._decoder.feed(data):
            self._store.load(part)
            self.parts += 1

    def check(self, theirs: Mapping[str, Tally], last: int, progress: Progress) -> list[str]:
        """Make all of it durable, read it, write the report, and compare it; return what is not the same.

        Where all of it is, the load is finished. NotAReplica, StoreError.
        """
        store, mark = self._store, self._mark
        assert store is not None and mark is not None, "a load was begun"
        if self.stage is Stage.UNFINISHED:
            if not self._decoder.is_between:
                raise NotAReplica("the stream ends in the middle of a part")
            store.commit(Changes(puts=[Put(LOADING_KEY, encode_mark(mark))]))  # with it what was loaded is durable
        total = sum(tally.count for tally in theirs.values())
        mine = self._read(store, lambda done: progress(done, total))
        found = differences(mine.summary(), theirs)
        if mine.last < last:
            found.append(f"numbers: up to {mine.last:,} here, {last:,} there")
        if not found and self.stage is Stage.UNFINISHED:
            self._mark = LoadMark(mark.source, mark.begun, mine.summary())
            store.commit(Changes(puts=[Put(LOADED_KEY, encode_mark(self._mark))], drops=[LOADING_KEY]))
            self.stage = Stage.FINISHED
        return found

    def _read(self, store: PersistentStore, progress: Callable[[int], None]) -> Tallies:
        tallies, report = Tallies(), begin_report(self._attributes, self._report)
        try:
            for part in scan(store):
                tallies.take(part, encode_part(part))
                if report is not None and (line := reported(part, Action.LOADED)) is not None:
                    report.write([line], system_clock())
                progress(tallies.count)
        finally:
            if report is not None:
                report.close()
        return tallies

    def close(self) -> None:
        """Let go of the store."""
        for each in (self._store, self._standstill):
            if each is not None:
                each.close()
        self._store = self._standstill = None


def _record(standstill: LockedView, key: str) -> bytes | None:
    """Return the value of a key, None where it is not there or cannot be read."""
    return next((value for found, value in in_order(standstill.state(), key) if found == key.encode()), None)


def _mark_in(value: bytes) -> LoadMark:
    try:
        return decode_mark(value)
    except ValueError as failure:
        raise StartRefused(
            Code.RESTART_FAILED, f"the store holds a load that nobody knows any more: {failure}"
        ) from failure


def _standstill(attributes: Attributes) -> LockedView:
    try:
        return LockedView.open(place_of(attributes)[1], forgives=True)
    except JournalError as failure:
        raise StartRefused(Code.RESTART_FAILED, f"the persistent store cannot be opened: {failure}") from failure
