"""Clean-up: let go of data files that hold nothing needed, and move what pins old ones.

    1  move what little is still needed in the files that should go, verified, in small commits
    2  carry forward what the duplicate window has in them
    3  commit the low-water mark: the first sequence that is still needed
    4  delete, or move into the retention directory, oldest first; sync the directory

A crash between any two steps loses nothing: a start discards what lies below the mark unread, and
until the mark is durable every file is still there.

On a file system that has no room for all that is to be moved the steps are done for a few files at a time: what is
moved of them is paid from the reserve, and what they leave pays for the next.

What is small, and alone keeps old files, is moved by every clean-up and start, also where nobody asks for compaction:
but not where the start found damage or something is held back, nor where `compact_share` is 0 and the disk has room.

The retention directory: where clean-up moves data files, so that their history can be analysed.

A file gets a second name there, or, on another file system, is copied; its first name goes when that is durable.
Nothing is ever overwritten. The oldest go when the bounds on age and bytes are reached.
"""

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np

from oms_journal.database.commits.ledger import IndexChanges, StaleDraft
from oms_journal.database.compaction import (
    PIN_SHARE,
    PINS_BYTES_MAX,
    SMALL_FILES_MIN,
    FileFacts,
    leading_dead,
    plan_compaction,
    plan_unpinning,
)
from oms_journal.database.holds import Holds
from oms_journal.database.options import Options
from oms_journal.database.queries import DatabaseState, find, held_count
from oms_journal.database.reading import read_many, read_value
from oms_journal.database.stats import CleanupReport, data_sequences, file_facts
from oms_journal.index import returned
from oms_journal.index.duplicates import KEY_PREFIX, carried
from oms_journal.index.keyed import Version
from oms_journal.index.live import Index
from oms_journal.index.table import MessageLocation
from oms_journal.journal import names
from oms_journal.journal.background import yielding
from oms_journal.journal.disk import NO_LINKS, Disk
from oms_journal.journal.errors import DiskError, DiskFull, MessageDamaged
from oms_journal.journal.files import are_same, build, copy
from oms_journal.journal.format.headers import FileHeader
from oms_journal.journal.format.records import MOVED, Added, encode_low_water, encode_properties
from oms_journal.journal.names import DataFileName
from oms_journal.journal.operations import LOW_WATER_KEY
from oms_journal.journal.reading.datafile import DataFile
from oms_journal.journal.reading.message import Message, record_key, term_columns
from oms_journal.journal.reading.neighbours import files_of_passed_owners, splits
from oms_journal.journal.reserve import NO_SPACE
from oms_journal.journal.writing.draft import CommitBuilder, Draft
from oms_journal.journal.writing.log import Journal
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.startup import StartResult


class Retention:
    """The retained files of one database."""

    def __init__(self, disk: Disk, directory: Path, options: Options) -> None:
        self._disk = disk
        self._directory = directory
        self._options = options

    def take(self, path: Path) -> bool:
        """Move a data file here; False when there is one of this name already. OSError, DiskFull."""
        try:
            if not self._has_taken(path):
                return False
        except OSError as failure:
            if failure.errno not in NO_SPACE:
                raise
            raise DiskFull(self._directory, failure, "move data files into") from failure
        self._disk.unlink(path)
        return True

    def _has_taken(self, path: Path) -> bool:
        """Give the file a name here too, durably; False when there is another one of this name."""
        self._disk.make_directory(self._directory)
        target = self._directory / path.name
        if path.name not in self._disk.list(self._directory):
            self._put(path, target)
        elif not self._is_same(path, target):  # it is, where a move was interrupted
            return False
        self._disk.sync_directory(self._directory)  # a rename would be two changes here, of which either may be lost
        return True

    def _put(self, path: Path, target: Path) -> None:
        try:
            self._disk.link(path, target)
        except OSError as failure:
            if failure.errno not in NO_LINKS:
                raise
            self._copy(path, target)

    def _is_same(self, path: Path, target: Path) -> bool:
        one, other = self._disk.open(path), self._disk.open(target)
        try:
            return are_same(one, other)
        finally:
            one.close()
            other.close()

    def _copy(self, path: Path, target: Path) -> None:
        source = self._disk.open(path)
        try:
            build(self._disk, target, lambda file: copy(source, file, 0, source.size()))
        finally:
            source.close()

    def trim(self) -> list[str]:
        """Remove the oldest files beyond the bounds on age and bytes; return their names."""
        try:
            return self._trim()
        except OSError as failure:
            raise DiskError(self._directory, failure, "trim") from failure

    def _trim(self) -> list[str]:
        try:
            entries = self._disk.list(self._directory)
        except FileNotFoundError:
            return []
        kept = [entry for entry in entries if isinstance(names.parse(entry), names.DataFileName)]
        sizes = {entry: self._disk.size(self._directory / entry) for entry in kept}
        total = sum(sizes.values())
        now = self._options.clock() / 1e6
        removed = []
        for entry in kept:
            path = self._directory / entry
            limit, age = self._options.retention_bytes, self._options.retention_age
            is_old = age is not None and now - self._disk.modified(path) > age
            if not is_old and (limit is None or total <= limit):
                break
            self._disk.unlink(path)
            total -= sizes[entry]
            removed.append(entry)
        if removed:
            self._disk.sync_directory(self._directory)
        return removed


_log = logging.getLogger("oms.database")
MOVE_BYTES = 256 << 10  # moved in one commit: commits of others wait behind it
MOVE_MESSAGES = 256
ASKED_SHARE = 0.5  # `--compact` moves up to half of what it frees
WORTH_BYTES = 64 << 10  # nothing is moved in passing, and no file begun by a start, to free less, or but a few files
AT_START_FILES = 2
FILE_BYTES = 2048  # of a data file besides what it holds, about
IDLE_BYTES = 16 << 10  # an active file of fewer bytes is not worth a roll


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupContext:
    """What clean-up needs of a database."""

    state: Callable[[], DatabaseState]
    write: Callable[[Draft], object]
    holding: Holds
    journal: Journal
    options: Options
    started: StartResult  # whose the directory is, and of which databases the files are that were there

    @property
    def database(self) -> bytes:
        return self.started.opening.database


class Cleanup:
    """The clean-up of one database. One runs at a time, beside the commits."""

    def __init__(self, context: CleanupContext) -> None:
        self._context = context
        self._splits = splits(context.started.files)
        self._found = set(context.started.files)  # those of the files that were there which have not gone yet
        known = context.started.files.values()
        self._lineage = {context.database, *(one.database for one in known), *(one.parent for one in known)}
        self._running = threading.Lock()
        self._said = ""  # the last time that files had to stay

    def at_start(self) -> CleanupReport:
        """Clean up where it frees something worth a new data file; on a full disk more than pins is moved."""
        context = self._context
        with self._disk_errors():
            facts = file_facts(context.state())
            if self.is_cramped and self._is_sound():
                gone = self._doomed(facts, compact=True)
                if sum(fact.bytes - fact.kept_bytes - FILE_BYTES for fact in gone) > WORTH_BYTES:
                    return self.run(compact=True, dry_run=False)
            gone = self._doomed(facts, compact=False)
        if len(gone) >= AT_START_FILES or sum(fact.bytes for fact in gone) > WORTH_BYTES:
            return self.run(compact=False, dry_run=False)
        return CleanupReport()

    @property
    def is_cramped(self) -> bool:
        """Whether the file system has no room for another data file, the reserve filled."""
        return self._context.journal.is_cramped(self._context.options.max_data_file_size)

    def _is_sound(self) -> bool:
        """Say whether the start found nothing damaged, and nothing is held back: then nothing has to stay."""
        report = self._context.started.report
        is_damaged = bool(report.lost) or any(file.verdict is Verdict.DAMAGED for file in report.files)
        return not is_damaged and not held_count(self._context.state().ledger)

    def run(self, *, compact: bool | None, dry_run: bool) -> CleanupReport:
        """Clean up once; `compact` None means: by the option `compact_share`."""
        with self._running, yielding(), self._disk_errors():
            return self._run(compact=compact, dry_run=dry_run)

    def run_soon(self, patience_seconds: float) -> CleanupReport:
        """Clean up once without compaction; where another one is at it, it is waited for no longer than that."""
        if not self._running.acquire(timeout=patience_seconds):
            return CleanupReport()
        try:
            with yielding(), self._disk_errors():
                return self._run(compact=False, dry_run=False)
        finally:
            self._running.release()

    @contextlib.contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as failure:
            raise DiskError(self._context.journal.directory, failure, "clean up") from failure

    def _run(self, *, compact: bool | None, dry_run: bool) -> CleanupReport:
        began = time.perf_counter()
        self._seal_all()  # so that every size is the true one
        state = self._context.state()
        is_pressed = bool(compact) and self._context.journal.is_full
        facts = _with_active(file_facts(state), share=ASKED_SHARE if is_pressed else 0.0)
        doomed = self._doomed(facts, compact=compact)
        if dry_run:
            return _report(doomed, began, dry_run=True)
        if doomed and doomed[-1].sequence == state.active:
            # Nothing may come into the active file before it goes; what has come meanwhile keeps it.
            self._context.journal.roll_at_next_commit()
            self._context.write(CommitBuilder().draft())
            self._seal_all()
            state = self._context.state()
            doomed = self._doomed(file_facts(state), compact=compact)
        if not doomed:
            return CleanupReport()
        report = CleanupReport()
        for part in self._parts(doomed, state):
            try:
                done = self._let_go(part, state)
            except DiskFull:
                if not report.deleted and not report.moved:
                    raise
                break  # what went before is done
            report = _together(report, done)
            if len(done.deleted) + len(done.moved) < len(part):
                break
        return replace(report, seconds=time.perf_counter() - began)

    def _seal_all(self) -> None:
        """Seal what is rolled; what has no room for its footer goes, or stays, without one. DiskError."""
        while True:
            try:
                return self._context.journal.seal_all()
            except DiskError as failure:
                if failure.failure.errno not in NO_SPACE:
                    raise

    def _parts(self, doomed: Sequence[FileFacts], state: DatabaseState) -> Iterator[Sequence[FileFacts]]:
        """Split the files so that what is moved of each part has room: all at once, where there is enough."""
        budget = self._context.options.max_data_file_size
        if sum(fact.kept_bytes for fact in doomed) + budget <= state.disk.free_bytes(state.directory):
            budget = sys.maxsize
        part: list[FileFacts] = []
        kept = 0
        for fact in doomed:
            if part and kept and kept + fact.kept_bytes > budget:
                yield part
                part, kept = [], 0
            part.append(fact)
            kept += fact.kept_bytes
        if part:
            yield part

    def _let_go(self, part: Sequence[FileFacts], state: DatabaseState) -> CleanupReport:
        """Move what is needed of some files, and let go of them."""
        self._context.journal.lend(sum(fact.kept_bytes for fact in part))
        messages, keys, moved = self._move(part, state)
        self._commit_mark(moved, state)
        gone = self._remove(moved, state)
        count = len(gone.deleted) + len(gone.moved)
        return replace(
            gone,
            moved_messages=messages,
            moved_keys=keys,
            freed_bytes=sum(fact.bytes - fact.kept_bytes for fact in moved[:count]),
        )

    def _doomed(self, facts: Sequence[FileFacts], *, compact: bool | None) -> Sequence[FileFacts]:
        """Return the files that should go, the oldest ones."""
        options = self._context.options
        share = (
            options.compact_share if compact is None else max(options.compact_share, ASKED_SHARE) if compact else 0.0
        )
        unpinned = self._unpinned(facts)
        if not share:
            return unpinned
        count = plan_compaction(facts, share=share, data_file_bytes=options.max_data_file_size)
        return unpinned if len(unpinned) > count else facts[:count]

    def _unpinned(self, facts: Sequence[FileFacts]) -> Sequence[FileFacts]:
        """Return the files that hold nothing needed, or are kept by what is moved in passing, where that is worth it.

        Where additions are refused for space everything is.
        """
        dead = leading_dead(facts)
        is_full = self._context.journal.is_full
        share = PIN_SHARE if is_full else min(PIN_SHARE, self._context.options.compact_share)
        size = self._context.options.max_data_file_size
        count = plan_unpinning(facts, share=share, data_file_bytes=size)
        if count == dead or not self._is_sound():
            return facts[:dead]
        weighed = self._weighed(facts[:count])
        going = weighed[: plan_unpinning(weighed, share=share, data_file_bytes=size)]
        freed = sum(fact.bytes - fact.kept_bytes for fact in going)
        is_worth_it = is_full or freed > WORTH_BYTES or len(going) >= SMALL_FILES_MIN
        return going if is_worth_it else facts[:dead]

    def _weighed(self, facts: Sequence[FileFacts]) -> list[FileFacts]:
        """Return the files with the bytes of the values that their keys have: the index knows but where these are.

        No more is read than may be moved in passing; the files behind that are left out.
        """
        state = self._context.state()
        with state.ledger.lock:
            keys = state.ledger.index.keyed.in_files([fact.sequence for fact in facts if fact.live_keys])
        weighed: list[FileFacts] = []
        kept = 0
        for fact in facts:
            kept += fact.kept_bytes
            size = 0
            for key in keys.get(fact.sequence, ()):
                if kept + size > PINS_BYTES_MAX:
                    return weighed
                try:
                    found = self._value_in(key, fact.sequence, state)
                except MessageDamaged:
                    return weighed  # it cannot be moved
                size += len(found[1]) if found is not None else 0
            kept += size
            weighed.append(replace(fact, live_bytes=fact.live_bytes + size))
        return weighed

    # Moving.

    def _move(self, doomed: Sequence[FileFacts], state: DatabaseState) -> tuple[int, int, list[FileFacts]]:
        """Write again what is needed in the files; stop at the first one that cannot be copied whole."""
        messages = keys = 0
        done: list[FileFacts] = []
        for fact in doomed:
            if fact.is_needed:
                try:
                    messages += self._move_messages(fact.sequence, state)
                    keys += self._move_keys(fact.sequence, state)
                except MessageDamaged:
                    break
                except DiskFull:
                    if not done:
                        raise
                    break
            with state.ledger.lock:
                if not state.ledger.index.is_free(fact.sequence):
                    break  # no file goes that anything needs, whatever was planned
            done.append(fact)
        return messages, keys, done

    def _move_messages(self, sequence: int, state: DatabaseState) -> int:
        with state.ledger.lock:
            places = list(state.ledger.index.table.in_file(sequence))
        moved = 0
        for batch in _batches(places):
            began = time.perf_counter()
            moved += self._move_batch([place.number for place in batch], sequence, state)
            self._context.options.sleep(min(0.05, time.perf_counter() - began))  # half the time is the commits' own
        return moved

    def _move_batch(self, numbers: Sequence[int], sequence: int, state: DatabaseState) -> int:
        while True:
            places = [place for number in numbers if (place := find(state.ledger, number)) is not None]
            mine = [(place.number, sequence, place.offset) for place in places if place.sequence == sequence]
            if not mine:
                return 0
            numbers_, sequences, offsets = np.array(mine, np.int64).T
            wanted = [(numbers_, sequences, offsets)]
            found = list(read_many(state.files, wanted, lambda number: find(state.ledger, number)))
            for one in found:
                if isinstance(one, MessageDamaged):
                    raise one
            messages = [one for one in found if isinstance(one, Message)]
            if not messages:
                return 0
            try:
                self._context.write(_moving(messages))
            except StaleDraft:
                continue  # one of them was delivered meanwhile
            return len(messages)

    def _move_keys(self, sequence: int, state: DatabaseState) -> int:
        with state.ledger.lock:
            keys = state.ledger.index.keyed.in_files([sequence])[sequence]
        begin = moved = 0
        while begin < len(keys):
            seen, count = self._move_some(keys[begin : begin + MOVE_MESSAGES], sequence, state)
            begin += seen
            moved += count
        return moved

    def _move_some(self, keys: Sequence[bytes], sequence: int, state: DatabaseState) -> tuple[int, int]:
        """Write the first of the keys again in one commit; return how many those are, and how many still were there."""
        while True:
            composer, places, size, seen = CommitBuilder(), list[tuple[bytes, int, int]](), 0, 0
            for key in keys:
                seen += 1
                if (found := self._value_in(key, sequence, state)) is not None:
                    version, value = found
                    composer.put(key, value, moved=True)
                    places.append((key, *version))
                    size += len(value)
                    if size > MOVE_BYTES:
                        break
            if not places:
                return seen, 0
            draft = composer.draft()
            draft.effect = IndexChanges(moved_keys=places)
            try:
                self._context.write(draft)
            except StaleDraft:
                continue  # a newer version of one of them was on its way
            return seen, len(places)

    def _value_in(self, key: bytes, sequence: int, state: DatabaseState) -> tuple[Version, bytes] | None:
        """Return the latest version of a key with its value, None where it lies in another file. MessageDamaged."""
        with state.ledger.lock:
            version = state.ledger.index.keyed.find(key)
        if version is None or version.sequence != sequence:
            return None
        value = read_value(state.files, key, *version)
        if not isinstance(value, bytes):
            path = state.files.path(sequence)
            raise MessageDamaged(0, path, version.offset, f"the value of key {key!r}: {value.reason}")
        return version, value

    # Letting go.

    def _commit_mark(self, moved: Sequence[FileFacts], state: DatabaseState) -> None:
        """Commit the low-water mark, and what of the duplicate window would go with the files."""
        if not moved:
            return
        # It never goes down: what a former owner has made late may be all that goes, far below the one before.
        mark = max(moved[-1].sequence + 1, self._context.journal.low_water)
        draft = self._carrying(state, mark)
        holding = self._context.holding
        with holding.lock:
            if holding.is_before(mark):
                holding.write()
        self._context.write(draft)
        self._context.journal.low_water = mark

    def carry_identifiers(self) -> None:
        """Commit the identifiers whose times were set with the clock: the files have them as they were."""
        with self._running:
            state = self._context.state()
            draft = self._carrying(state, self._context.journal.low_water)
            state.ledger.index.duplicates.is_set = False
            try:
                self._context.write(draft)
            except BaseException:
                state.ledger.index.duplicates.is_set = True
                raise

    def _carrying(self, state: DatabaseState, mark: int) -> Draft:
        """Return the draft of a low-water mark, with those of the engine's values that go with files below it."""
        duplicates = state.ledger.index.duplicates
        state.ledger.follow_clock()
        with state.ledger.lock:
            duplicates.expire(self._context.options.clock())
            entries = duplicates.before(max(mark, 1))
            old = set(state.ledger.index.keyed.keys(KEY_PREFIX))
            came_back, ended = _returned_before(state.ledger.index, mark)
        values = {KEY_PREFIX + f"{place:06}".encode(): value for place, value in enumerate(carried(entries))}
        gone = [*sorted(old - set(values)), *ended]
        values |= came_back
        composer = CommitBuilder()
        for key, value in values.items():
            composer.put(key, value)
        for key in gone:
            composer.drop(key)
        composer.put(LOW_WATER_KEY, encode_low_water(mark))
        draft = composer.draft()
        draft.effect = IndexChanges(puts=[*values, LOW_WATER_KEY], drops=gone)
        return draft

    def _remove(self, moved: Sequence[FileFacts], state: DatabaseState) -> CleanupReport:
        """Delete the files, or move them into the retention directory, oldest first, as long as that has room."""
        options = self._context.options
        retention = None
        if options.retention_directory is not None:
            retention = Retention(state.disk, options.retention_directory / self._context.database.hex(), options)
        deleted: list[str] = []
        retained: list[str] = []
        stays = ""
        self._seal_all()
        for fact in moved:
            name = str(DataFileName(fact.sequence))
            try:
                if retention is not None and self._is_history(fact, state) and retention.take(state.directory / name):
                    retained.append(name)
                else:
                    state.disk.unlink(state.directory / name)
                    deleted.append(name)
            except DiskFull as full:
                stays = self._stays(full)
                break
            except FileNotFoundError:
                deleted.append(name)
            except OSError as failure:
                raise DiskError(state.directory / name, failure, "remove") from failure
            state.files.forget(fact.sequence)
            self._found.discard(fact.sequence)
            if fact.sequence in self._splits:
                # Where a file of the ancestor came back after a power cut, nobody would be left who names it.
                state.disk.sync_directory(state.directory)
            with state.ledger.lock:
                state.ledger.index.table.forget_file(fact.sequence)
                state.ledger.index.keyed.forget_file(fact.sequence)
        state.disk.sync_directory(state.directory)
        if retention is not None:
            retention.trim()
        return CleanupReport(deleted=tuple(deleted), moved=tuple(retained), stays=stays)

    def _stays(self, full: DiskFull) -> str:
        """Return why files stay that could go, and log it where that was not said last."""
        if str(full) != self._said:
            _log.warning(
                "%s; make room there: until then the data files stay in %s", full, self._context.journal.directory
            )
        self._said = str(full)
        return self._said

    def _is_history(self, fact: FileFacts, state: DatabaseState) -> bool:
        """Say whether a file is this database's: not one that a former owner wrote when it had been passed. OSError."""
        if fact.sequence in self._found:
            return True
        header = _header(state, fact.sequence)
        if header is None or header.owner == state.owner:
            return header is not None
        # The start that an earlier clean-up's end left it to has not looked at what is below the mark.
        headers = {sequence: _header(state, sequence) for sequence in data_sequences(state)}
        return header.database in self._lineage and fact.sequence not in files_of_passed_owners(headers)


def _header(state: DatabaseState, sequence: int) -> FileHeader | None:
    """Return a data file's header, None where there is none, or no file any more. OSError."""
    with contextlib.suppress(FileNotFoundError):
        with DataFile(state.disk, state.directory / str(DataFileName(sequence))) as file:
            header = file.header()
        return header if isinstance(header, FileHeader) else None
    return None


def _with_active(facts: list[FileFacts], *, share: float) -> list[FileFacts]:
    """Let the active file go like the others when no more than a share of it is needed and it is worth it."""
    if facts and (active := facts[-1]).is_active and active.bytes >= IDLE_BYTES:
        return [*facts[:-1], replace(active, is_active=active.kept_bytes > share * active.bytes)]
    return facts


def _together(one: CleanupReport, other: CleanupReport) -> CleanupReport:
    return CleanupReport(
        deleted=one.deleted + other.deleted,
        moved=one.moved + other.moved,
        moved_messages=one.moved_messages + other.moved_messages,
        moved_keys=one.moved_keys + other.moved_keys,
        freed_bytes=one.freed_bytes + other.freed_bytes,
        stays=other.stays,
    )


def _report(doomed: Sequence[FileFacts], began: float, *, dry_run: bool) -> CleanupReport:
    return CleanupReport(
        deleted=tuple(str(DataFileName(fact.sequence)) for fact in doomed),
        moved_messages=sum(fact.live_messages for fact in doomed),
        moved_keys=sum(fact.live_keys for fact in doomed),
        freed_bytes=sum(fact.bytes - fact.kept_bytes for fact in doomed),
        seconds=time.perf_counter() - began,
        dry_run=dry_run,
    )


def _batches(places: Sequence[MessageLocation]) -> Iterator[list[MessageLocation]]:
    """Split places so that what is moved in one commit stays small."""
    batch: list[MessageLocation] = []
    size = 0
    for place in places:
        if batch and (size + place.size > MOVE_BYTES or len(batch) == MOVE_MESSAGES):
            yield batch
            batch, size = [], 0
        batch.append(place)
        size += place.size
    if batch:
        yield batch


def _moving(messages: Sequence[Message]) -> Draft:
    """Return the draft that writes messages again, with their numbers and first times."""
    composer = CommitBuilder()
    for _, group in groupby(messages, key=record_key):
        part = list(group)
        queue, producer = part[0].queue, part[0].producer_id
        has_properties = any(message.properties for message in part)
        composer.add(
            Added(
                queue=queue.encode(),
                payloads=[message.payload for message in part],
                properties=[encode_properties(message.properties) for message in part] if has_properties else None,
                producer=(producer or "").encode(),
                flags=MOVED,
                numbers=[message.number for message in part],
                first_times=[message.added_us for message in part],
                terms=term_columns(part),
            )
        )
    draft = composer.draft()
    draft.effect = IndexChanges(moved=[message.number for message in messages])
    return draft


def _returned_before(index: Index, mark: int) -> tuple[dict[bytes, bytes], list[bytes]]:
    """Return the values about messages that came back which lie in files before a sequence, and keys without message.

    Call with the lock held.
    """
    values: dict[bytes, bytes] = {}
    ended: list[bytes] = []
    for key in index.keyed.keys(returned.KEY_PREFIX):
        number, version = returned.number_of(key), index.keyed.find(key)
        if number not in index.returned.entries:
            ended.append(key)
        elif version is not None and version.sequence < mark:
            values[key] = index.returned.value(number)
    return values, ended
