"""What one can ask a database, open for writing or only for reading: the same answers from the same index."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from oms_journal.database.compaction import FileFacts, plan_compaction
from oms_journal.database.ledger import Ledger
from oms_journal.database.reading import Files, Wanted, read_many, read_value
from oms_journal.database.stats import FileExplanation, Pin, QueueStats, Stats
from oms_journal.index.table import NUMBER_MAX, MessageLocation
from oms_journal.journal import names
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, MessageDamaged
from oms_journal.journal.format.frames import BadFrame
from oms_journal.journal.names import ArchiveName, DataFileName
from oms_journal.journal.reading.message import Message

_log = logging.getLogger("oms.database")
BATCH_MESSAGES = 1024  # places taken from the index at once
READ_ATTEMPTS_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseState:
    """A database to be asked."""

    disk: Disk
    directory: Path
    ledger: Ledger
    files: Files
    active: int | None  # sequence of the file being written, or to be written first; None in a view
    active_bytes: int
    owner: int
    now: int
    next_message: int = 0  # the lowest number that the next message can get
    database: bytes = b""  # its identity, where it is open for writing
    compact_share: float = 0.25
    data_file_bytes_max: int = 25 << 20


def find(ledger: Ledger, number: int) -> MessageLocation | None:
    """Return where an undelivered message is."""
    with ledger.lock:
        return ledger.index.table.find(number)


def get(ledger: Ledger, files: Files, key: bytes) -> bytes | None:
    """Return the latest value of a key."""
    for attempt in range(READ_ATTEMPTS_MAX):
        with ledger.lock:
            version = ledger.index.keyed.find(key)
        if version is None:
            return None
        try:
            value = read_value(files, key, version.sequence, version.offset)
        except FileNotFoundError as failure:
            files.forget(version.sequence)
            if attempt == READ_ATTEMPTS_MAX - 1:
                raise DiskError(Path(str(failure.filename)), failure, "read") from failure
            continue
        if isinstance(value, BadFrame):
            path = files.path(version.sequence)
            raise MessageDamaged(0, path, value.offset, f"the value of key {key.decode()!r}: {value.reason}")
        return value
    raise AssertionError("the last attempt returns or raises")


def keys(ledger: Ledger, prefix: str) -> Iterator[str]:
    """Return the callers' keys with a prefix, as they are now, in order."""
    with ledger.lock:
        found = [key for key in ledger.index.keyed.keys(prefix.encode()) if not key.startswith(b"\0")]
    return (key.decode() for key in found)


def queues(ledger: Ledger) -> dict[str, int]:
    """Return how many messages are undelivered in every queue that has any."""
    with ledger.lock:
        return {name: count for name, (count, _) in ledger.index.table.queues.used().items()}


def undelivered_count(ledger: Ledger, queue: str | None) -> int:
    with ledger.lock:
        return ledger.index.table.count if queue is None else ledger.index.table.undelivered_count(queue)


def undelivered(
    ledger: Ledger,
    files: Files,
    queue: str | None,
    find_again: Callable[[int], MessageLocation | None] | None = None,
    *,
    held: bool = False,
) -> Iterator[Message]:
    """Return undelivered messages in order: those that are there now, as they are when they are reached.

    `find_again` says where a message is whose file has gone meanwhile; with `held` only what is held
    back is returned, without it only what is not.
    """
    places = _places(ledger, queue, held=held)
    return _readable(files, places, find_again or (lambda number: find(ledger, number)))


def _readable(
    files: Files, batches: Iterator[Wanted], find_again: Callable[[int], MessageLocation | None]
) -> Iterator[Message]:
    for found in read_many(files, batches, find_again):
        if isinstance(found, MessageDamaged):
            _log.error("%s", found)
        else:
            yield found


def numbers(ledger: Ledger, queue: str | None, *, held: bool = False) -> Iterator[int]:
    """Return the numbers of undelivered messages in order, those held back or the others: as they are now."""
    return (number for batch in _places(ledger, queue, held=held) for number in batch[0].tolist())


def is_held(ledger: Ledger, number: int) -> bool:
    """Say whether an undelivered message is held back."""
    with ledger.lock:
        return ledger.index.table.find(number) is not None and bool(ledger.index.held.mask([number])[0])


def held_count(ledger: Ledger, queue: str | None = None) -> int:
    """Return how many undelivered messages of a queue, or of all, are held back."""
    return sum(len(batch[0]) for batch in _places(ledger, queue, held=True)) if ledger.index.held else 0


def _held_counts(ledger: Ledger) -> dict[str, int]:
    """Return how many undelivered messages are held back in every queue that has such."""
    counts: Counter[str] = Counter()
    for numbers, _, _ in _places(ledger, None, held=True) if ledger.index.held else ():
        with ledger.lock:
            table = ledger.index.table
            found = np.bincount(table.find_many(numbers.astype(np.uint64))[1])
            counts.update({table.queues.name(queue): int(found[queue]) for queue in np.flatnonzero(found).tolist()})
    return counts


def _places(ledger: Ledger, queue: str | None, *, held: bool = False) -> Iterator[Wanted]:
    """Return batches of the places of the messages that are there now, each looked up just before it is needed."""
    with ledger.lock:
        last = ledger.index.highest_number()
    return _places_up_to(ledger, queue, last, held=held)


def _places_up_to(ledger: Ledger, queue: str | None, last: int, *, held: bool) -> Iterator[Wanted]:
    after = 0
    while True:
        with ledger.lock:
            block = next(ledger.index.table.batches(queue, after, last), None)
            if block is None:
                return
            after = int(block[0][-1])
            if ledger.index.held or held:
                chosen = ledger.index.held.mask(block[0]) == held
                block = block[0][chosen], block[1][chosen], block[2][chosen]
        for start in range(0, len(block[0]), BATCH_MESSAGES):
            part = slice(start, start + BATCH_MESSAGES)
            yield block[0][part], block[1][part], block[2][part]


def stats(state: DatabaseState) -> Stats:
    """Return the figures of the database."""
    facts = file_facts(state)
    archives = [e for e in state.disk.list(state.directory) if isinstance(names.parse(e), ArchiveName)]
    with state.ledger.lock:
        table = state.ledger.index.table
        queues = table.queues.used()
        undelivered_total, key_count = table.count, len(state.ledger.index.keyed)
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
    )


def _oldest(ledger: Ledger) -> dict[str, MessageLocation]:
    """Return the first undelivered message of every queue, from one pass over the table."""
    with ledger.lock:
        table = ledger.index.table
        last, queue_count = ledger.index.highest_number(), len(table.queues.used())
    found: dict[str, MessageLocation] = {}
    after = 0
    while len(found) < queue_count:
        with ledger.lock:
            block = next(table.batches(None, after, last), None)
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
    """Return how many seconds ago messages were added, those left out that cannot be read."""
    ages: dict[int, float] = {}
    in_order = sorted(places, key=lambda place: (place.sequence, place.offset))
    for _, part in groupby(in_order, key=lambda place: place.sequence):
        mine = [(place.number, place.sequence, place.offset) for place in part]
        wanted = np.array(mine, np.int64).reshape(-1, 3).T
        try:
            for found in read_many(state.files, [(wanted[0], wanted[1], wanted[2])], lambda n: find(state.ledger, n)):
                if isinstance(found, Message):
                    ages[found.number] = max(0.0, (state.now - found.added_us) / 1e6)
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
