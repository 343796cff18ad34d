"""Following journals that grow: how far each may be read now, and what of it has not been read yet. No Spark here.

A position is a commit, by its number and by the opening that wrote it: both survive salvage, and clean-up.
What nothing vouches for is not counted, so that what was read once can never be taken back. Where clean-up
was faster than the reader there is a hole, from the first commit that may be missing to the last.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from oms_journal.analysis.reading.datafile import Reading, opened
from oms_journal.analysis.reading.judgement import GONE, UNREADABLE
from oms_journal.analysis.reading.parts import FilePart
from oms_journal.analysis.reading.schema import Range
from oms_journal.journal.errors import JournalError
from oms_journal.journal.format.headers import FileHeader
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.datafile import DataFile

FRAME_HEAD_BYTES = 16  # of which not all are zeros
MARKS_MAX = 1000  # places in one file from which a walk may begin


class JournalWentBack(JournalError):
    """A journal ends before the position that was read up to: an older copy of it has taken its place."""


class FilesGone(JournalError):
    """Clean-up removed data files before they were read."""


class FileUnreadable(JournalError):
    """The device does not read a file that has not been read yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Everything of one database up to and with this commit has been read."""

    owner: int
    commit: int
    sequence: int  # of the data file that holds it
    identity: int | None  # likewise, None where its header is lost
    after: int | None = None  # of a database that is new to the reader: the commit before the first one to read

    def encoded(self) -> dict[str, int | str]:
        """Return it as what JSON knows."""
        found: dict[str, int | str] = {"owner": self.owner, "commit": self.commit, "sequence": self.sequence}
        if self.identity is not None:
            found["file"] = f"{self.identity:016x}"
        return found if self.after is None else found | {"after": self.after}

    @classmethod
    def decoded(cls, fields: Mapping[str, Any]) -> "Position":
        return cls(
            owner=fields["owner"],
            commit=fields["commit"],
            sequence=fields["sequence"],
            identity=int(fields["file"], 16) if "file" in fields else None,
            after=fields.get("after"),
        )


Positions = Mapping[str, Position]  # by database


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Commits of one data file that are to be read; both ends are."""

    part: FilePart
    commits: Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """Commits of one database that have gone unread, some of them or all; both ends are among them."""

    database: str
    commits: Range
    sequence: int  # of the first data file behind the hole, 0 where there is none yet

    def __str__(self) -> str:
        first, last = self.commits
        return f"commits {first} to {last} of database {self.database}"


@dataclass(slots=True)
class Allowance:
    """How much a batch may still take. None: without limit."""

    files: int | None = None
    operations: int | None = None

    @property
    def is_used_up(self) -> bool:
        return self.files == 0 or self.operations == 0


@dataclass(slots=True)
class Tail:
    """How far a file has been looked through that may still grow. Offsets in bytes."""

    commit: int = 0  # all of the file is vouched for up to here
    end: int = 0  # behind the last frame that was seen; 0 before the first look
    is_sealed: bool = False
    marks: list[tuple[int, int]] = field(default_factory=list)  # commits, and from where on frames are later ones

    def start(self, after: int) -> int:
        """Return from where on the commits behind one are to be looked for."""
        place = bisect_right(self.marks, after, key=lambda mark: mark[0])
        return self.marks[place - 1][1] if place else 0

    def take(self, reading: Reading) -> None:
        """Note what a look from the last mark on has found."""
        contents = reading.contents
        self.is_sealed = reading.is_sealed
        if is_gone(reading) or not contents.frame_count:
            return
        is_open = contents.columns["offset"].astype(np.int64) >= reading.end
        self.end, start = contents.end, contents.end
        self.commit = contents.last_commit  # of a frame without operations too: it can only vouch
        if is_open.any():
            self.commit = int(contents.columns["commit"][is_open].min()) - 1
            start = int(contents.columns["offset"][is_open].min())
        if not self.marks or self.marks[-1][0] < self.commit:
            self.marks = [*self.marks[-MARKS_MAX:], (self.commit, start)]


@dataclass(slots=True)
class Follower:
    """Knows data files, by database and in order, and looks into each as little as it can."""

    files: Mapping[str, Sequence[FilePart]]
    tails: dict[tuple[Path, int | None], Tail] = field(default_factory=dict)
    _reached: dict[Path, int] = field(default_factory=dict)  # since the last look
    _headers: dict[Path, FileHeader] = field(default_factory=dict)  # of files that had none yet when they were listed

    def looked_again(self, files: Mapping[str, Sequence[FilePart]] | None = None) -> "Follower":
        """Return a follower that looks again into what may have grown; without files, the same ones are there."""
        files = self.files if files is None else files
        there = {(part.path, part.identity) for parts in files.values() for part in parts}
        return Follower(files, {key: tail for key, tail in self.tails.items() if key in there})

    @property
    def has_headers(self) -> bool:
        """Say whether all headers could be read: a file that was just being made gets one yet."""
        return all(part.header is not None for parts in self.files.values() for part in parts)

    def _header(self, part: FilePart) -> FileHeader | None:
        """Return the header of a file; None where it is lost.

        It is read again where there was none when the directory was: what is read of the file now may be there since.
        """
        if part.header is not None or part.path in self._headers:
            return part.header or self._headers[part.path]
        try:
            with DataFile(part.storage.disk(), part.path) as file:
                found = file.best_of(file.headers())
        except OSError:
            return None  # whoever reads the file says what is wrong
        if isinstance(found, FileHeader) and part.identity in (None, found.identity):
            self._headers[part.path] = found
            return found
        return None

    def beginning(self, database: str) -> Position:
        """Return the position before everything that is there of a database."""
        part = self.files[database][0]
        header = self._header(part)
        return _position(part, header.next_commit - 1 if header is not None else _before_first_row(part))

    def _lost_before(self, place: int, parts: Sequence[FilePart]) -> int | None:
        """Return the last commit before a file; None where nothing stood before it, or the file before it is there."""
        part = parts[place]
        header = self._header(part)
        if header is not None:
            return header.previous.commit if header.previous.sequence else None
        if place and parts[place - 1].sequence == part.sequence - 1:
            return None  # the commits of both have neighbouring numbers
        return _before_first_row(part)

    def reach(self, part: FilePart) -> int:
        """Return the last commit up to which all of a file is vouched for; before its first one for none."""
        if part.named is not None:
            return part.named.commit
        if part.path not in self._reached:
            tail = self.tails.setdefault((part.path, part.identity), Tail())
            if not tail.is_sealed and not _is_idle(part, tail):
                with opened(part.storage.disk(), self._from(part, tail.commit)) as reading:
                    tail.take(reading)
            self._reached[part.path] = tail.commit
        return self._reached[part.path]

    def _from(self, part: FilePart, after: int) -> FilePart:
        """Return a file that is walked from behind a commit on, where it is known where that is."""
        tail = self.tails.get((part.path, part.identity))
        start = tail.start(after) if tail is not None else 0
        return replace(part, start=start, is_promised=False) if start else part

    def reach_all(self) -> None:
        """Look now into every file that may grow: what is written from now on is not reached."""
        for parts in self.files.values():
            for part in parts:
                self.reach(part)

    def ahead(self, start: Positions, allowance: Allowance) -> dict[str, Position]:
        """Return how far the databases may be read now from these positions, within the allowance.

        At least one commit is taken where there is one. JournalWentBack, FileUnreadable, DiskError, NewerFormat.
        """
        found = dict(start)
        is_first = True
        for part in self._in_order(start):
            position = found[part.database]
            if allowance.is_used_up or self.reach(part) <= position.commit:
                continue
            commit = self.reach(part)
            if allowance.operations is not None:
                source = self._from(part, position.commit)
                commit = _within(source, (position.commit + 1, commit), allowance, takes_one=is_first)
            if allowance.files is not None:
                allowance.files -= 1
            if commit > position.commit:
                found[part.database] = _position(part, commit)
                is_first = False
        return found

    def _in_order(self, start: Positions) -> Iterator[FilePart]:
        """Yield the files that may hold what comes next: by database in order, the oldest of all databases first."""
        queues = []
        for database, position in start.items():
            parts = self.files.get(database, ())
            _check_not_back(database, parts, position)
            queues.append([part for part in parts if part.sequence >= position.sequence])
        while queues := [queue for queue in queues if queue]:
            yield min(queues, key=lambda queue: _created(queue[0])).pop(0)

    def between(self, database: str, after: int, end: Position) -> Iterator[Stretch | Hole]:
        """Yield what holds the commits of a database behind `after` up to the position, in order."""
        done = after
        parts = self.files.get(database, ())
        for place, part in enumerate(parts):
            if part.sequence > end.sequence or self.reach(part) <= done:
                continue
            lost = self._lost_before(place, parts)
            if lost is not None and lost > done:
                yield Hole(database=database, commits=(done + 1, lost), sequence=part.sequence)
                done = lost
            last = min(self.reach(part), end.commit)
            if last > done:
                yield Stretch(part=self._from(part, done), commits=(done + 1, last))
                done = last
        if done < end.commit:
            yield Hole(database=database, commits=(done + 1, end.commit), sequence=0)


def is_gone(reading: Reading) -> bool:
    """Say whether a file could not be read since it has gone; FileUnreadable where the device failed."""
    for damage in reading.damages:
        if damage.kind == UNREADABLE:
            raise FileUnreadable(str(damage))
    return any(damage.kind == GONE for damage in reading.damages)


def _position(part: FilePart, commit: int) -> Position:
    return Position(owner=part.owner, commit=commit, sequence=part.sequence, identity=part.identity)


def _before_first_row(part: FilePart) -> int:
    """Return the commit before the first one that a file without a header shows; -1 where it shows none."""
    with opened(part.storage.disk(), part) as reading:
        commits = reading.contents.columns["commit"]
    return int(commits[0]) - 1 if len(commits) else -1


def _first_commit(part: FilePart) -> int:
    """Return the number below which no commit of the file lies; 0 where its header is lost."""
    return part.header.next_commit if part.header is not None else 0


def _created(part: FilePart) -> int:
    return part.header.created if part.header is not None else 0


def _check_not_back(database: str, parts: Sequence[FilePart], position: Position) -> None:
    """Raise JournalWentBack when the files cannot be those that the position was read from."""
    for part in parts:
        is_known = None not in (part.identity, position.identity)
        is_other = is_known and part.sequence == position.sequence and part.identity != position.identity
        is_reused = part.sequence > position.sequence and 0 < _first_commit(part) <= position.commit
        if is_other or is_reused:
            raise JournalWentBack(
                f"database {database} has been read up to commit {position.commit} in data file"
                f" {position.sequence}, and {part.path} is not what followed: an older copy has taken its place"
            )
    if parts and parts[-1].sequence < position.sequence:
        raise JournalWentBack(
            f"database {database} has been read up to data file {position.sequence}, and its newest one is"
            f" {part.path}: an older copy has taken its place"
        )


def _is_idle(part: FilePart, tail: Tail) -> bool:
    """Say whether nothing stands yet where the next frame, or a footer, will."""
    if not tail.end:
        return False
    try:
        with DataFile(part.storage.disk(), part.path) as file:
            return not any(file.file.read(FRAME_HEAD_BYTES, tail.end))
    except OSError:
        return False  # whoever looks into it finds out what is wrong


def _within(part: FilePart, commits: Range, allowance: Allowance, *, takes_one: bool) -> int:
    """Return the last of the commits that the allowance goes for, and use it up by their operations."""
    with opened(part.storage.disk(), part) as reading:
        columns = reading.contents.columns
    mine = (columns["commit"] >= commits[0]) & (columns["commit"] <= commits[1])
    numbers = columns["commit"][mine].astype(np.int64)
    is_on_key = columns["kind"][mine] >= Operation.PUT
    upto = np.cumsum(np.where(is_on_key, 1, columns["count"][mine].astype(np.int64)))
    assert allowance.operations is not None
    if not len(upto) or upto[-1] <= allowance.operations:
        allowance.operations -= int(upto[-1]) if len(upto) else 0
        return commits[1]
    beyond = int(numbers[np.searchsorted(upto, allowance.operations, side="right")])  # the commit that does not fit
    allowance.operations = 0
    if takes_one and beyond == numbers[0]:
        return beyond
    return beyond - 1
