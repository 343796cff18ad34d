"""A database opened only for reading: no lock, nothing changed, also while another process writes.

It shows what a power cut cannot take back: of the active file everything but the last group. Where that is its first
one, the view shows the first commit of it: the file before it, or the lock file, says that the file was begun.

A view shows one moment; open a new one for a later moment. If a running database has removed files since, the view
looks for what it still needs in the newer ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType

from oms_journal.database import queries, stats
from oms_journal.database.arguments import Number, asked_queue, encodable_text, message_number, named_queue, plain_text
from oms_journal.database.commits.ledger import Ledger
from oms_journal.database.options import system_clock
from oms_journal.database.reading import Files, read_known
from oms_journal.database.stats import FileExplanation, Stats
from oms_journal.index.duplicates import WindowBounds
from oms_journal.index.live import Index
from oms_journal.index.readiness import Moment
from oms_journal.index.table import MessageLocation
from oms_journal.journal.disk import Disk, RealDisk
from oms_journal.journal.errors import DiskError, JournalError
from oms_journal.journal.format.records import NO_TERMS
from oms_journal.journal.lock import Holder, read_holder
from oms_journal.journal.operations import encode_name
from oms_journal.journal.reading.message import Message, MessageOnTerms
from oms_journal.recovery import findings
from oms_journal.recovery.decision import Action
from oms_journal.recovery.place import check_database, directory_of
from oms_journal.recovery.replay import identities, load_held, load_returned, replay
from oms_journal.recovery.restoring import refuse_unfinished
from oms_journal.recovery.survey import Candidate
from oms_journal.recovery.validation import LOOKS_MAX, Progress, examine_directory, has_gone_since, no_progress


class DatabaseView:
    """A picture of a database that you can ask the same questions. You make it with `open`. Close it after use.

    with DatabaseView.open("spool") as view:
        for queue, count in view.queues().items():
            print(queue, count)
    """

    def __init__(self, disk: Disk, directory: Path, read: "_Read") -> None:
        self.directory = directory
        self._read = read
        self._disk = disk
        self._ledger = Ledger(read.index)
        self._files = Files(disk, directory, read.identities)

    @classmethod
    def open(
        cls, directory: str | Path, *, disk: Disk | None = None, progress: Progress = no_progress
    ) -> "DatabaseView":
        """Read the directory.

        Raises DiskError when the directory is missing or cannot be read, and NotADatabase when it holds no database.
        Raises RestoreUnfinished while a backup is being restored into it. Raises NewerFormat and NotThisDatabase too.
        """
        disk = disk or RealDisk()
        path = directory_of(directory)
        check_database(disk, path)
        return cls(disk, path, _read_beside(disk, path, progress))

    def __enter__(self) -> "DatabaseView":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._files.close()

    @property
    def owner(self) -> Holder | None:
        """The owner of the directory, and whether that process still has it open. None when nobody ever owned it."""
        try:
            return read_holder(self._disk, self.directory)
        except JournalError:
            return None

    def read(self, number: Number) -> Message:
        """Return an undelivered message. Raises NoSuchMessage and MessageDamaged."""
        known = message_number(number)
        return with_attempts(self, read_known(self._files, known, self._find))

    def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None when there is no such key.

        Raises MessageDamaged when the value is lost.
        """
        name = encode_name(plain_text(key, "key"), "key")
        for _ in range(LOOKS_MAX):
            try:
                return queries.get(self._ledger, self._files, name)
            except DiskError as failure:
                if not isinstance(failure.failure, FileNotFoundError):
                    raise
                self._look_anew()
        return queries.get(self._ledger, self._files, name)

    def _find(self, number: int) -> MessageLocation | None:
        """Return where a message is; look for it anew when its file has gone."""
        place = queries.find(self._ledger, number)
        if place is not None:
            try:
                self._files.source(place.sequence)
            except FileNotFoundError:
                self._look_anew()
                place = queries.find(self._ledger, number)
        return place

    def _look_anew(self) -> None:
        self._read = _read_beside(self._disk, self.directory, no_progress)
        self._files.learn(self._read.identities)
        with self._ledger.lock:
            self._ledger.index = self._read.index

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield the keys that begin with the prefix, in order."""
        return queries.keys(self._ledger, encodable_text(prefix, "prefix"))

    def undelivered(self, queue: str | None = None) -> Iterator[Message]:
        """Yield the undelivered messages of a queue, or of all queues, in order."""
        return map(
            partial(with_attempts, self), queries.undelivered(self._ledger, self._files, asked_queue(queue), self._find)
        )

    def held(self, queue: str | None = None) -> Iterator[Message]:
        """Yield the undelivered messages that are held back. They may have been delivered already."""
        found = queries.undelivered(self._ledger, self._files, asked_queue(queue), self._find, held=True)
        return map(partial(with_attempts, self), found)

    def held_numbers(self, queue: str | None = None) -> Iterator[int]:
        """Yield the numbers of the messages that `held` yields, and of held messages that cannot be read any more."""
        return queries.numbers(self._ledger, asked_queue(queue), held=True)

    def is_held(self, number: Number) -> bool:
        """Say whether an undelivered message is held back."""
        return queries.is_held(self._ledger, message_number(number))

    def held_count(self, queue: str | None = None) -> int:
        """Return how many undelivered messages of a queue, or of all queues, are held back."""
        return queries.held_count(self._ledger, asked_queue(queue))

    def undelivered_count(self, queue: str | None = None) -> int:
        return queries.undelivered_count(self._ledger, asked_queue(queue))

    def numbers(self, queue: str | None = None) -> Iterator[int]:
        """Yield the numbers of the undelivered messages of a queue, or of all queues, in order."""
        return queries.numbers(self._ledger, asked_queue(queue))

    def peek(self, queue: str) -> Message | None:
        """Return the first undelivered message of a queue that is not held back. None when there is none.

        A view does not know what is taken.
        """
        return next(self.undelivered(named_queue(queue)), None)

    def oldest_age(self, queue: str) -> float | None:
        """Return how many seconds ago the oldest undelivered message of a queue was added. None when there is none."""
        return queries.oldest_age(self._ledger, self._files, named_queue(queue), system_clock, self._find)

    def queues(self) -> dict[str, int]:
        """Return how many messages are undelivered in each queue that has any."""
        return queries.queues(self._ledger)

    def stats(self) -> Stats:
        """Return the figures of the database."""
        return stats.stats(self._look())

    def explain(self) -> list[FileExplanation]:
        """Say of each data file why it is still there."""
        return stats.explain(self._look())

    def _look(self) -> queries.DatabaseState:
        holder = self.owner
        return queries.DatabaseState(
            disk=self._disk,
            directory=self.directory,
            ledger=self._ledger,
            files=self._files,
            active=self._read.active,
            active_bytes=self._read.active_bytes,
            owner=holder.number if holder is not None else 0,
            now=system_clock(),
        )


@dataclass(frozen=True, slots=True)
class _Read:
    """What reading the directory gave."""

    index: Index
    identities: Mapping[int, int | None]  # of the data files, by their sequences
    active: int | None  # the newest data file, while it is not sealed
    active_bytes: int  # how far it is vouched for


def _read_beside(disk: Disk, directory: Path, progress: Progress) -> _Read:
    """Read the directory, again and again while files go that were to be read."""
    for attempt in range(1, LOOKS_MAX + 1):
        try:
            return _read(disk, directory, progress)
        except DiskError as failure:
            if attempt == LOOKS_MAX or not has_gone_since(failure, directory):
                raise
    raise AssertionError("the last attempt returns or raises")


def _read(disk: Disk, directory: Path, progress: Progress) -> _Read:
    refuse_unfinished(disk, directory)
    examined = examine_directory(disk, directory, progress, full=False, mark=_vouched_only)
    index, kept = replay(disk, examined, WindowBounds())
    # What is held back, and what a start was about to hold when it was killed, or will hold.
    now = system_clock()
    index.settle_terms(now)
    index.ready(Moment(0, now), ())
    known = identities(kept)
    load_returned(disk, directory, index, known)
    up_to = max(findings.intended(disk, directory), load_held(disk, directory, index, known))
    if up_to:
        index.hold_up_to(up_to)
    if not kept:
        return _Read(index, known, None, 0)
    last = kept[-1]
    return _Read(index, known, None if last.decision.action is not Action.SEAL else last.sequence, last.end)


def _vouched_only(task: Candidate) -> Candidate:
    """Return what is to be examined, but for what nothing vouches for at the end of an unsealed file."""
    return replace(task, vouched_only=True)


def with_attempts(view: DatabaseView, message: Message) -> Message:
    """Return a message with the attempts that the journal says of it, and until when it stays away."""
    entry = view._ledger.index.returned.entries.get(message.number)
    if entry is None:
        return message
    terms = message._terms if isinstance(message, MessageOnTerms) else NO_TERMS
    due = entry.due if terms.due is None else max(entry.due, terms.due)
    return MessageOnTerms._of(message, terms._replace(attempts=entry.attempts or terms.attempts, due=due or None))
