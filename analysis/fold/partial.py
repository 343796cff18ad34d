"""What a run of neighbouring files tells, ready to be put together with what comes before it and behind it."""

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np

from oms_journal.analysis.fold.asked import (
    COMMITS,
    COUNTS,
    DUPLICATES,
    FILES,
    OF_MESSAGES,
    RATE,
    RETENTION,
    Asked,
    Candidates,
)
from oms_journal.analysis.fold.commits import Commits
from oms_journal.analysis.fold.duplicates import Added, Found, Marks, marked
from oms_journal.analysis.fold.figures import KINDS, Figures, Numbers
from oms_journal.analysis.fold.matching import NONE, NumberSet
from oms_journal.analysis.fold.messages import Messages
from oms_journal.analysis.fold.operations import Operations, Version, count_keys, count_operations, latest_versions
from oms_journal.analysis.fold.tallies import Tally
from oms_journal.analysis.reading.columns import text
from oms_journal.analysis.reading.damage import Report, warn
from oms_journal.analysis.reading.datafile import Reading, opened
from oms_journal.analysis.reading.files import Row, row_as_read, row_of
from oms_journal.analysis.reading.parts import FilePart
from oms_journal.analysis.reading.schema import Wanted
from oms_journal.analysis.reading.selection import selected
from oms_journal.journal.errors import FormatError
from oms_journal.journal.format.records import BadRecord

Aside = Mapping[str, NumberSet]  # by database, the numbers that are evaluated by themselves
_EVERYTHING = Wanted()
_KEY_GROUPS: Numbers = np.arange(KINDS)


class Queues:
    """The queues of one database, by number."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        """The names, in the order of their numbers."""
        return list(self._places)

    def place(self, name: str) -> int:
        """Return the number of a queue."""
        return self._places.setdefault(name, len(self._places))

    def of_file(self, names: list[bytes], used: Numbers) -> Numbers:
        """Return the queue that each name of a file is which is used at all."""
        found = np.full(len(names), -1, np.int64)
        for place in np.flatnonzero(np.bincount(used)).tolist() if len(used) else ():
            found[place] = self.place(text(names[place]))
        return found

    def of_rows(self, names: list[bytes], used: Numbers) -> Numbers:
        """Return the queue of each row, given the name that it has in the file: in as few bytes as it takes."""
        found = self.of_file(names, used)
        return found.astype(np.min_scalar_type(int(found.max(initial=0))))[used]


class History:
    """What some files of one database tell; each answer's part is there where somebody asks for it."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self.queues = Queues()
        is_period, is_all = asked.asks(*OF_MESSAGES), asked.asks(RETENTION)
        self.figures = Figures(asked)
        self.messages = Messages(self.figures) if is_period else None
        shared = self.messages if is_period and asked.is_of_everything else None
        self.everything = (shared or Messages(None)) if is_all else None
        self.counts = Tally(3)  # operations, moved, bytes
        self.versions: dict[bytes, Version] = {}
        self.key_rate = Tally(2)
        self.commits = Commits(asked.every)
        self.copies: Numbers = NONE  # messages that were moved, where duplicates are asked for
        self.found = Found()  # of duplicates, in the second pass

    def take(self, reading: Reading, aside: NumberSet, marks: Marks) -> None:
        """Take in one file, and mark what it added. Nothing was taken in before. BadRecord."""
        asked, contents, sequence = self._asked, reading.contents, reading.part.sequence
        names = [bytes(name) for name in contents.names]
        queue_of = partial(self.queues.of_rows, names)
        known: dict[Wanted, Operations] = {}

        def operations(wanted: Wanted) -> Operations:
            if wanted not in known:
                known[wanted] = Operations(contents, selected(reading, wanted))
            return known[wanted]

        def take_messages(messages: Messages, found: Operations) -> None:
            messages.take(found.adds(sequence, queue_of), found.ends(queue_of), aside)

        if self.messages is not None:
            take_messages(self.messages, operations(asked.until_end))
        if self.everything is not None and self.everything is not self.messages:
            take_messages(self.everything, operations(_EVERYTHING))
        if asked.asks(RETENTION):
            self.versions = latest_versions(operations(_EVERYTHING), names, sequence)
        if asked.asks(COUNTS):
            count_operations(self.counts, operations(asked.of_period), names, queue_of)
        if asked.asks(RATE) and asked.queues is None:
            count_keys(self.key_rate, operations(asked.of_period), names, asked.every)
        if asked.asks(COMMITS):
            self.commits.take(operations(asked.of_period))
        if asked.asks(DUPLICATES):
            added = Added(contents, operations(asked.of_period), reading.part.database, asked.cell_bits)
            self._take_added(added, names, reading.part.database, marks)

    def _take_added(self, added: Added, names: list[bytes], database: str, marks: Marks) -> None:
        """Mark what may be a duplicate; in the second pass look at what others have marked too."""
        candidates = self._asked.candidates
        if candidates is None:
            self.copies = marked(added, marks)
        else:
            copies = candidates.copies.get(database, NONE)
            queues = self.queues.of_file(names, added.names)[added.names]
            self.found.take(added, queues, candidates, copies, self._asked.window)

    def merge(self, later: "History") -> None:
        """Take in what comes behind."""
        queues = np.array([self.queues.place(name) for name in later.queues.names], np.int64)
        if self.messages is not None and later.messages is not None:
            self.messages.merge(later.messages, queues)
        if self.everything is not None and later.everything is not None and self.everything is not self.messages:
            self.everything.merge(later.everything, queues)
        groups = np.append(_KEY_GROUPS, ((queues[:, None] + 1) * KINDS + _KEY_GROUPS).ravel())
        self.counts.merge(later.counts, groups)
        self.versions |= later.versions
        self.key_rate.merge(later.key_rate, _KEY_GROUPS)
        self.commits.merge(later.commits)
        self.copies = np.union1d(self.copies, later.copies)
        self.found.merge(later.found, queues)

    @property
    def border_bytes(self) -> int:
        """How many bytes the messages take that go on."""
        return sum(messages.border_bytes for messages in self._every_messages())

    def hand_over(self, count: int) -> "list[History]":
        """Move the messages that go on to so many histories, by their numbers."""
        parts = [History(self._asked) for _ in range(count)]
        each = zip(*(part._every_messages() for part in parts), strict=True)
        for mine, theirs in zip(self._every_messages(), each, strict=True):
            mine.hand_over(theirs)
        for part in parts:
            part._take_queues(self.queues.names)
        return parts

    def _every_messages(self) -> list[Messages]:
        every = [self.messages, self.everything if self.everything is not self.messages else None]
        return [messages for messages in every if messages is not None]

    def _take_queues(self, names: list[str]) -> None:
        """Know those queues of another history that the messages are in, and call them by our own numbers."""
        for messages in self._every_messages():
            for columns in (messages.open, messages.ended):
                used, places = np.unique(columns["queue"], return_inverse=True)
                ours = np.array([self.queues.place(names[queue]) for queue in used.tolist()], np.int32)
                columns["queue"] = ours[places]

    def settle(self) -> None:
        """Let go of keys that are gone: nothing comes before."""
        if not all(is_there for _, _, is_there in self.versions.values()):
            self.versions = {key: version for key, version in self.versions.items() if version[2]}

    def doubtful(self) -> NumberSet:
        """Return the numbers of messages that have to be evaluated by themselves."""
        found = NumberSet()
        for messages in (self.messages, self.everything):
            found |= messages.doubtful() if messages is not None else NumberSet()
        return found


class Partial:
    """The histories of some files, by database: those of all files, once everything has come together."""

    def __init__(self) -> None:
        self.histories: dict[str, History] = {}
        self.files: list[Row] = []  # of the table of files, where somebody asks for it
        self.marks: Marks | None = None  # for duplicates

    def merge(self, later: "Partial") -> None:
        """Take in what comes behind, which must not be used any more."""
        self.files += later.files
        if self.marks is None or later.marks is None:
            self.marks = self.marks or later.marks
        else:
            self.marks.merge(later.marks)
        for database, history in later.histories.items():
            mine = self.histories.get(database)
            if mine is None:
                self.histories[database] = history
            else:
                mine.merge(history)

    @property
    def border_bytes(self) -> int:
        """How many bytes the messages take that go on: what is open, and what has ended without its ADD."""
        return sum(history.border_bytes for history in self.histories.values())

    def hand_over(self, count: int) -> "list[Partial]":
        """Move the messages that go on to so many partials, by their numbers.

        Those of one place among the parts of all files can be merged by themselves, in the order of the files. What
        comes of that, and what is left of all files, are merged into what all files tell, in any order of the places.
        """
        found = [Partial() for _ in range(count)]
        for database, history in self.histories.items():
            for one, part in zip(found, history.hand_over(count), strict=True):
                one.histories[database] = part
        return found

    def settle(self) -> None:
        """Let go of what no file behind needs any more, where nothing comes before."""
        for history in self.histories.values():
            history.settle()
        if self.marks is not None:
            self.marks.settle()

    def doubtful(self) -> dict[str, NumberSet]:
        """Return the numbers to be set aside when everything is folded once more; none where all is decided."""
        found = {database: history.doubtful() for database, history in self.histories.items()}
        return {database: numbers for database, numbers in found.items() if numbers}

    def candidates(self) -> Candidates:
        """Return what the second pass for duplicates looks at."""
        cells = np.empty(0, np.uint32) if self.marks is None else self.marks.with_two()
        copies = {name: history.copies for name, history in self.histories.items() if len(history.copies)}
        return Candidates(cells, copies)

    def take_found(self, second: "Partial") -> None:
        """Take in what the second pass has found, which must not be used any more."""
        for database, history in second.histories.items():
            mine = self.histories[database]
            queues = np.array([mine.queues.place(name) for name in history.queues.names], np.int64)
            mine.found.merge(history.found, queues)


def folded(parts: Iterable[FilePart], asked: Asked, aside: Aside, report: Report = warn) -> Partial:
    """Return what neighbouring files tell, in the order of the journal; NewerFormat, FormatError, DiskError.

    What is bad in a file, as far as it is met, goes to `report`.
    """
    found = Partial()
    for part in parts:
        found.merge(_of_file(part, asked, aside.get(part.database, NumberSet()), report))
    return found


def _of_file(part: FilePart, asked: Asked, aside: NumberSet, report: Report) -> Partial:
    found = Partial()
    if asked.questions == {FILES}:
        found.files = [row for row in [row_of(part)] if row is not None]
        return found
    with opened(part.storage.disk(), part) as reading:
        for one in reading.damages:
            report(one)
        if asked.asks(FILES, RETENTION):
            found.files = [row for row in [row_as_read(reading)] if row is not None]
        if len(reading.contents):
            history = found.histories[part.database] = History(asked)
            found.marks = Marks(asked.cell_bits)
            try:
                history.take(reading, aside, found.marks)
            except BadRecord as failure:
                raise FormatError(part.path, 0, str(failure)) from failure
    return found
