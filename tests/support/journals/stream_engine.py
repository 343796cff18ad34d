"""Runs a stream of `omsjournal` as Spark's engine does, without Spark: by batches, offsets as JSON, restarts."""

import json
import pickle
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from oms_journal.analysis.spark.stream import JournalStreamReader
from tests.support.journals.source_calls import DEFAULT, Rows, rows_of, source, struct

Offset = dict[str, Any]


class Engine:
    """One query. What it has made good, and its log of offsets, survive a restart."""

    def __init__(self, *paths: Path | str, columns: tuple[str, ...] = DEFAULT, **options: Any) -> None:
        self._made = source(*paths, **options), struct(columns)
        self.columns = columns
        self.rows: Rows = []
        self.batches: list[int] = []  # how many rows each one had
        self.committed: Offset | None = None
        self.logged: Offset | None = None  # the end of a batch that was planned and not finished
        self.start()

    def start(self) -> None:
        """Begin anew with what a checkpoint keeps."""
        loaded, schema = self._made
        made = loaded.streamReader(schema)
        assert isinstance(made, JournalStreamReader)
        self.reader = made
        self.for_workers = cloudpickle.dumps(loaded.streamReader(schema))  # type: ignore[no-untyped-call]
        if self.committed is not None:
            assert self.reader.partitions(self.committed, self.committed) == []

    def plan(self, limit: ReadLimit | None = None) -> Offset | None:
        """Log the end of the next batch; None when there is nothing new."""
        if self.logged is None:
            begin = self._begin()
            end = _through_json(self.reader.latestOffset(begin, limit or self.reader.getDefaultReadLimit()))
            newest = self.reader.reportLatestOffset()
            assert newest is not None and newest.keys() >= end.keys()
            self.logged = end if end != begin else None
        return self.logged

    def run(self) -> Rows:
        """Return the rows of the batch that was planned, without making them good."""
        assert self.logged is not None
        partitions = pickle.loads(cloudpickle.dumps(self.reader.partitions(self._begin(), self.logged)))  # type: ignore[no-untyped-call]
        worker = pickle.loads(self.for_workers)
        return rows_of((batch for each in partitions for batch in worker.read(each)), self.columns)

    def commit(self, rows: Rows) -> None:
        """Make the batch good."""
        assert self.logged is not None
        self.rows += rows
        self.batches.append(len(rows))
        self.committed, self.logged = self.logged, None
        self.reader.commit(self.committed)

    def follow(self, limit: ReadLimit | None = None) -> Rows:
        """Run batches until there is nothing new; return their rows."""
        before = len(self.rows)
        while self.plan(limit) is not None:
            self.commit(self.run())
        return self.rows[before:]

    def everything(self) -> Rows:
        """Likewise, whatever the options say of a batch's size."""
        return self.follow(ReadAllAvailable())

    def _begin(self) -> Offset:
        return _through_json(self.reader.initialOffset()) if self.committed is None else self.committed


def _through_json(offset: Offset) -> Offset:
    found: Offset = json.loads(json.dumps(offset))
    assert json.dumps(found) == json.dumps(offset)
    return found
