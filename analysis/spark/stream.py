"""`spark.readStream.format("omsjournal")`: follows growing journals, a running database's among them.

- Offsets are commits, by their number and by the opening that wrote them, for each database. They survive
  rollover, recovery, salvage and clean-up.
- Only what is known to be durable is read: the last commits of a writer come when a later one vouches for
  them, which an idle writer sees to within about a second.
- In what one query has made good, every operation is there once: a batch that is run again after a failure
  has the rows that it had. A sink that is not idempotent by batch (foreachBatch without a look at the batch's
  number, for example) may see those rows twice. Exactly once needs a sink that can repeat a batch.
- A data file that clean-up has removed before it was read ends the query with FilesGone. With the option
  `onMissing` = `gap` the stream has a row for it instead, with `GAP` as its operation: `commit` is the last
  commit that is missing, `missing` how many are at most, `sequence` the data file behind the hole or the one that
  has gone, and all else but `database` is null. A path to the retention directory beside that of the spool leaves no
  holes.
- `maxFilesPerTrigger` or `maxOperationsPerTrigger` bound a batch. A database that appears later (in a glob, in
  a folder of retained files) is read from its beginning, or with `startingOffsets` = `latest` from then on.
- An older copy put in a journal's place ends the query with JournalWentBack.
- What is damaged is left out, as in a batch: read `table` = `damage` from time to time, or use `mode` = `FAILFAST`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from oms_journal.analysis.reading import damage, plan, rows, schema
from oms_journal.analysis.reading.judgement import GONE, UNREADABLE
from oms_journal.analysis.reading.parts import Damage, FilePart
from oms_journal.analysis.spark.following import Allowance, FilesGone, FileUnreadable, Follower, Hole, Position, Stretch
from oms_journal.analysis.spark.options import BadOption, Mode, Options
from oms_journal.analysis.storage import locate

OPERATION_OF_HOLE = "GAP"
PARTITION_BYTES = 16 << 20  # small data files share a task up to this
_Pieces = tuple[Stretch | Hole, ...]


class JournalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's side of it: made once for a query's planning, and as a copy on every worker."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        if options.table != "operations":
            raise BadOption(f"table={options.table!r}: a stream has the table operations only")
        if options.shows_gaps and "operation" not in columns:
            raise BadOption(
                "onMissing='gap': the schema needs the column operation, or gaps would not be known as such"
            )
        self._options = options
        self._columns = columns
        self._follower: Follower | None = None
        self._listing: object = None  # the names of the files that the follower knows
        self._planned: dict[str, Any] | None = None  # the offset that the follower has found
        self._is_over = False  # nothing newer than what the follower has seen is to be read

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return no position at all: a database is pinned when it is first seen, by the offset that follows."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.files_max is not None:
            return ReadMaxFiles(self._options.files_max)
        if self._options.operations_max is not None:
            return ReadMaxRows(self._options.operations_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._look().reach_all()
        self._is_over = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        follower = self._follower if self._follower is not None and self._is_over else self._look()
        before = _decoded(start)
        known = {database: replace(position, after=None) for database, position in before.items()}
        new = {name: self._first(follower, name) for name in sorted(follower.files) if name not in known}
        found = follower.ahead(known | new, _allowance(limit))
        found |= {database: replace(found[database], after=position.commit) for database, position in new.items()}
        moved = any(database in new or position != known[database] for database, position in found.items())
        self._planned = _encoded(found) if moved else start
        return self._planned

    def _first(self, follower: Follower, database: str) -> Position:
        """Return from where a database is read that has not been seen before."""
        beginning = follower.beginning(database)
        if not self._options.starts_latest:
            return beginning
        return follower.ahead({database: beginning}, Allowance())[database]

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        if self._follower is None or self._planned is None:
            return None
        return _encoded(self._follower.ahead(_decoded(self._planned), Allowance()))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return what is to be read between two offsets; FilesGone where some of it has gone."""
        if start == end:
            return []
        follower = self._follower
        if follower is None or (end != self._planned and not self._is_over):
            follower = self._look()  # the query was started again, from its checkpoint
        pieces = _between(follower, start, end)
        if any(isinstance(piece, Hole) for piece in pieces):
            # Clean-up may have moved it, from a folder that was listed late to one that was listed early, or was not
            # there yet. What is in neither when they are listed once more has gone.
            pieces = _between(self._look(), start, end)
        for piece in pieces:
            if isinstance(piece, Hole):
                self._check(piece)
        return [InputPartition(group) for group in _groups(pieces)]

    def _look(self) -> Follower:
        """Look at the journals as they are now; at the headers only where other files are there than before."""
        locations = locate(self._options.paths, self._options.storage)
        listing = [(one.storage, one.directory, one.names(one.storage.disk())) for one in locations]
        follower = self._follower or Follower({})
        if listing == self._listing and follower.has_headers:
            self._follower = follower.looked_again()
            return self._follower
        files: dict[str, list[FilePart]] = {}
        for part in plan.parts_of(plan.surveyed(locations), locations):
            if part.is_archive:
                raise BadOption(f"{part.path} is an archive: a stream follows data files")
            if part.database:
                files.setdefault(part.database, []).append(part)
        self._follower, self._listing = follower.looked_again(files), listing
        return self._follower

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for piece in partition.value or ():
            yield from self._hole(piece) if isinstance(piece, Hole) else self._stretch(piece)

    def _stretch(self, piece: Stretch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some commits of a file, and a hole for those that have gone since it was planned."""
        part, (first, last) = piece.part, piece.commits
        columns = self._columns if "commit" in self._columns else (*self._columns, "commit")
        wanted = replace(self._options.wanted(columns), commits=piece.commits)
        try:
            if self._options.mode is Mode.FAILFAST and part.named is not None and not part.start:
                for found in damage.found_in(part.storage.disk(), part, full=self._options.verifies):
                    self._report(found)
            for batch in rows.batches(part.storage.disk(), part, wanted, self._report):
                first = max(first, batch["commit"][-1].as_py())
                yield batch.select(list(self._columns))
        except _Gone:
            hole = Hole(database=part.database, commits=(first, last), sequence=part.sequence)
            self._check(hole)
            yield from self._hole(hole)

    def _report(self, found: Damage) -> None:
        if found.kind == GONE:
            raise _Gone
        if found.kind == UNREADABLE:
            raise FileUnreadable(str(found))
        (damage.refuse if self._options.mode is Mode.FAILFAST else damage.warn)(found)

    def _check(self, hole: Hole) -> None:
        if not self._options.shows_gaps:
            raise FilesGone(
                f"{hole} were removed, by a clean-up perhaps, before they were read: read the retention directory too,"
                " begin again without the checkpoint, or take a row in their place with onMissing=gap"
            )

    def _hole(self, hole: Hole) -> Iterator[pa.RecordBatch]:
        """Yield the one row that stands for what has gone."""
        values = {
            "database": hole.database,
            "sequence": hole.sequence or None,
            "commit": hole.commits[1],
            "operation": OPERATION_OF_HOLE,
            "missing": hole.commits[1] - hole.commits[0] + 1,
        }
        row = {name: [values.get(name)] for name in self._columns}
        yield pa.RecordBatch.from_pydict(row, schema=schema.arrow_schema(self._columns))


class _Gone(Exception):
    """The file that was to be read is nowhere any more."""


def _allowance(limit: ReadLimit) -> Allowance:
    match limit:
        case ReadMaxFiles(max_files=count):
            return Allowance(files=count)
        case ReadMaxRows(max_rows=count):
            return Allowance(operations=count)
        case _:
            return Allowance()


def _decoded(offset: Mapping[str, Any]) -> dict[str, Position]:
    return {database: Position.decoded(fields) for database, fields in offset.items()}


def _encoded(positions: Mapping[str, Position]) -> dict[str, Any]:
    """Return an offset; the same positions always make the same text of it."""
    return {database: positions[database].encoded() for database in sorted(positions)}


def _between(follower: Follower, start: dict[str, Any], end: dict[str, Any]) -> list[Stretch | Hole]:
    """Return what stands between two offsets, in order, and what has gone."""
    before = _decoded(start)
    pieces: list[Stretch | Hole] = []
    for database, position in _decoded(end).items():
        known = before.get(database)
        after = known.commit if known is not None else position.after
        assert after is not None, "a database is pinned by the offset in which it first appears"
        pieces += follower.between(database, after, position)
    return pieces


def _groups(pieces: Sequence[Stretch | Hole]) -> Iterator[_Pieces]:
    """Yield what one task is to read: small files together, in order."""
    group: list[Stretch | Hole] = []
    size = 0
    for piece in pieces:
        if group and size >= PARTITION_BYTES:
            yield tuple(group)
            group, size = [], 0
        group.append(piece)
        size += piece.part.bytes if isinstance(piece, Stretch) else 0
    if group:
        yield tuple(group)
