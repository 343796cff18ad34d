"""The figures of a database, as values: for `oms stats`, `oms explain`, for a program."""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

import numpy as np

from oms_journal.database.commits.ledger import Ledger
from oms_journal.database.compaction import FileFacts, plan_compaction
from oms_journal.database.queries import DatabaseState, find, places_of
from oms_journal.database.reading import read_added
from oms_journal.index.table import EXPIRED, NUMBER_MAX, MessageLocation
from oms_journal.journal import names
from oms_journal.journal.errors import DiskError
from oms_journal.journal.names import ArchiveName, DataFileName

_log = logging.getLogger("oms.database")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """One queue. Sizes in bytes, ages in seconds."""

    undelivered: int
    bytes: int
    held: int = 0  # of these, passed over until somebody lets them go
    oldest: int | None = None  # number of its oldest undelivered message
    oldest_age: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What keeps a data file: its oldest live message, or a live key."""

    sequence: int
    kind: str  # "message" or "key"
    number: int | None = None
    queue: str | None = None
    key: str | None = None
    age: float | None = None  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncBucket:
    """Groups of commits that waited for less than so many seconds, and not for less than half as long."""

    seconds: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStats:
    """How long groups of commits, each with one sync, have waited for the disk since the database was opened."""

    count: int
    seconds: float  # all together
    slow: int  # of these, told as slow
    buckets: tuple[SyncBucket, ...]  # the shortest first, without empty ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """A whole database. Sizes in bytes."""

    directory: str
    files: int
    bytes: int
    live_bytes: int
    undelivered: int
    held: int  # of these, passed over until somebody lets them go
    queues: dict[str, QueueStats]
    keys: int
    pinned_by: Pin | None
    archives: int
    archive_bytes: int
    reserve_bytes: int
    owner: int
    free_bytes: int
    syncs: SyncStats | None = None  # None in a view: only the process that has the database open knows

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileExplanation:
    """Why one data file is still there."""

    name: str
    sequence: int
    active: bool
    bytes: int
    live_bytes: int
    live_messages: int
    live_keys: int
    needed: bool
    pinned_by: Pin | None
    pins_files: int  # later files that hold nothing needed and stay because of this one
    freed_by_compact: int  # bytes that `cleanup --compact` would free of this file

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReport:
    """What a clean-up did, or would do."""

    deleted: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()  # into the retention directory
    moved_messages: int = 0
    moved_keys: int = 0
    freed_bytes: int = 0
    seconds: float = 0.0
    dry_run: bool = False
    stays: str = ""  # why files that could go are still there: the retention directory has no room

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def sync_stats(counts: Sequence[int], seconds: float, slow: int) -> SyncStats:
    """Return the figures of groups by the bits of the microseconds that each has waited."""
    found = list(counts)  # a commit may come meanwhile
    buckets = tuple(SyncBucket(seconds=(1 << bits) / 1e6, count=count) for bits, count in enumerate(found) if count)
    return SyncStats(count=sum(found), seconds=seconds, slow=slow, buckets=buckets)


def stats(state: DatabaseState, syncs: SyncStats | None = None) -> Stats:
    """Return the figures of the database."""
    facts = file_facts(state)
    archives = [e for e in state.disk.list(state.directory) if isinstance(names.parse(e), ArchiveName)]
    with state.ledger.lock:
        index = state.ledger.index
        queues = index.undelivered()
        undelivered_total, key_count = index.undelivered_count(), len(index.keyed)
    oldest = _oldest(state.ledger)
    ages = _ages(state, oldest.values())
    needed = next((fact for fact in facts if fact.is_needed), None)
    held = _held_counts(state.ledger)
    return Stats(
        directory=str(state.directory),
        files=len(facts),
        bytes=sum(fact.bytes for fact in facts),
        live_bytes=sum(fact.live_bytes for fact in facts),
        undelivered=undelivered_total,
        held=sum(held.values()),
        queues={
            name: QueueStats(
                undelivered=count,
                bytes=size,
                held=held.get(name, 0),
                oldest=oldest[name].number if name in oldest else None,
                oldest_age=ages.get(oldest[name].number) if name in oldest else None,
            )
            for name, (count, size) in queues.items()
        },
        keys=key_count,
        pinned_by=_pins(state, [needed]).get(needed.sequence) if needed is not None else None,
        archives=len(archives),
        archive_bytes=sum(_size(state, entry) for entry in archives),
        reserve_bytes=_size(state, names.RESERVE),
        owner=state.owner,
        free_bytes=state.disk.free_bytes(state.directory),
        syncs=syncs,
    )


def _held_counts(ledger: Ledger) -> dict[str, int]:
    """Return how many undelivered messages are held back in every queue that has such."""
    counts: Counter[str] = Counter()
    for numbers, _, _ in places_of(ledger, None, held=True) if ledger.index.held else ():
        with ledger.lock:
            table = ledger.index.table
            found = np.bincount(table.find_many(numbers.astype(np.uint64))[1])
            counts.update({table.queues.name(queue): int(found[queue]) for queue in np.flatnonzero(found).tolist()})
    return counts


def _oldest(ledger: Ledger) -> dict[str, MessageLocation]:
    """Return the first undelivered message of every queue, from one pass over the table."""
    with ledger.lock:
        table = ledger.index.table
        last, queue_count = ledger.index.highest_number(), len(ledger.index.undelivered())
    found: dict[str, MessageLocation] = {}
    after = 0
    while len(found) < queue_count:
        with ledger.lock:
            block = next(table.batches(None, after, last, EXPIRED), None)
            if block is None:
                break
            block_numbers, queues = table.find_many(block[0].astype(np.uint64))
            firsts = np.unique(queues, return_index=True)[1]
            places = [table.find(number) for number in block_numbers[firsts].tolist()]
            for place in places:
                if place is not None:
                    found.setdefault(table.queues.name(place.queue), place)
        after = int(block[0][-1])
    return found


def _ages(state: DatabaseState, places: Iterable[MessageLocation]) -> dict[int, float]:
    """Return how many seconds ago messages were added, those left out whose frames cannot be read."""
    ages: dict[int, float] = {}
    in_order = sorted(places, key=lambda place: (place.sequence, place.offset))
    for _, mine in groupby(in_order, key=lambda place: place.sequence):
        try:
            for number, added_us in read_added(state.files, [*mine], lambda n: find(state.ledger, n)):
                ages[number] = max(0.0, (state.now - added_us) / 1e6)
        except DiskError as failure:
            _log.warning("%s", failure)
    return ages


def _size(state: DatabaseState, name: str) -> int:
    try:
        return state.disk.size(state.directory / name)
    except OSError:
        return 0


def data_sequences(state: DatabaseState) -> list[int]:
    """Return the sequences of the data files that are there, oldest first. OSError."""
    parsed = (names.parse(entry) for entry in state.disk.list(state.directory))
    return sorted(name.sequence for name in parsed if isinstance(name, DataFileName))


def file_facts(state: DatabaseState) -> list[FileFacts]:
    """Return what is needed of every data file, oldest first."""
    facts = []
    for sequence in data_sequences(state):
        is_active = sequence == state.active
        size = state.active_bytes if is_active else _size(state, str(DataFileName(sequence)))
        with state.ledger.lock:
            use = state.ledger.index.table.files.get(sequence)
            live_keys = state.ledger.index.keyed.files.get(sequence, 0)
        if state.active is not None and sequence > state.active:
            continue  # prepared, nothing in it yet
        facts.append(
            FileFacts(
                sequence=sequence,
                bytes=size,
                live_messages=use.live_messages if use else 0,
                live_bytes=use.live_bytes if use else 0,
                live_keys=live_keys,
                is_active=is_active,
            )
        )
    return facts


def explain(state: DatabaseState) -> list[FileExplanation]:
    """Say of each data file why it is still there."""
    facts = file_facts(state)
    doomed = plan_compaction(facts, share=max(state.compact_share, 0.5), data_file_bytes=state.data_file_bytes_max)
    pins = _pins(state, facts)
    found = []
    later_dead = sum(not fact.is_needed and not fact.is_active for fact in facts)
    for at, fact in enumerate(facts):
        later_dead -= not fact.is_needed and not fact.is_active
        found.append(
            FileExplanation(
                name=str(DataFileName(fact.sequence)),
                sequence=fact.sequence,
                active=fact.is_active,
                bytes=fact.bytes,
                live_bytes=fact.live_bytes,
                live_messages=fact.live_messages,
                live_keys=fact.live_keys,
                needed=fact.is_needed,
                pinned_by=pins.get(fact.sequence),
                pins_files=later_dead if fact.is_needed else 0,
                freed_by_compact=fact.bytes - fact.kept_bytes if at < doomed else 0,
            )
        )
    return found


def _pins(state: DatabaseState, facts: Iterable[FileFacts]) -> dict[int, Pin]:
    """Return what keeps each of the files that are needed: its first live message, else a key."""
    wanted = {fact.sequence for fact in facts if fact.is_needed}
    places = _firsts(state.ledger, wanted)
    ages = _ages(state, [place for _, place in places.values()])
    with state.ledger.lock:
        keys = state.ledger.index.keyed.firsts(wanted - set(places))
    pins = {
        sequence: Pin(
            sequence=sequence,
            kind="message",
            number=place.number,
            queue=queue,
            age=ages.get(place.number),
        )
        for sequence, (queue, place) in places.items()
    }
    return pins | {sequence: Pin(sequence=sequence, kind="key", key=key.decode()) for sequence, key in keys.items()}


def _firsts(ledger: Ledger, wanted: Collection[int]) -> dict[int, tuple[str, MessageLocation]]:
    """Return the first undelivered message of each of these data files that has one, with its queue.

    From one pass over the table.
    """
    found: dict[int, tuple[str, MessageLocation]] = {}
    after = 0
    while len(found) < len(wanted):
        with ledger.lock:
            table = ledger.index.table
            block = next(table.batches(None, after, NUMBER_MAX), None)
            if block is None:
                break
            sequences, firsts = np.unique(block[1], return_index=True)
            for sequence, number in zip(sequences.tolist(), block[0][firsts].tolist(), strict=True):
                if sequence in wanted and sequence not in found and (place := table.find(number)) is not None:
                    found[sequence] = table.queues.name(place.queue), place
        after = int(block[0][-1])
    return found
