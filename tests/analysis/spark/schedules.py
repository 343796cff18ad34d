"""Streams that race a clean-up, from seeds: between any two calls of the reader on its disk the writer may go on.

    python -m tests.analysis.spark.schedules 1000          that many schedules, from seed 0 on
    python -m tests.analysis.spark.schedules 1 --first 17  one again

The journals are real files, and so are the reader and what Spark calls of it; only Spark itself is not there, and one
thread does both sides' work by turns that a seed chooses. What clean-up removes is kept aside, and so it is known in
the end what there was to read.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from oms_journal.analysis.spark.following import FilesGone
from oms_journal.analysis.spark.stream import OPERATION_OF_HOLE
from oms_journal.analysis.storage import Storage
from oms_journal.journal.disk import DiskFile, RealDisk
from tests.support.crashes.crash_model import Unattended
from tests.support.disks.small_files import SMALL
from tests.support.journals.source_calls import DEFAULT, Rows, dumped
from tests.support.journals.stream_engine import Engine

TURNS = 12  # batches, restarts and pauses of a query
BUSY = (0.0, 0.02, 0.1, 0.4)  # how likely the writer goes on at a call of the reader
LIMITS: tuple[dict[str, int], ...] = ({}, {}, {"maxFilesPerTrigger": 1}, {"maxOperationsPerTrigger": 25})


class Broken(AssertionError):
    """A stream has lost an operation and told nobody, or has one twice."""


@dataclass(slots=True)
class Writer:
    """Adds, delivers all or some of it, and cleans up at once."""

    spool: Path
    kept: Path
    chance: random.Random
    busy: float = 0.0
    vouched: int = 0  # the last commit that any reader can know to be durable
    _is_at_work: bool = False
    _database: Unattended = field(init=False)
    _undelivered: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._open()

    def _open(self) -> None:
        options: dict[str, Any] = {"max_data_file_size": SMALL, "cleanup_interval": 0, "compact_share": 0}
        database = Unattended.open(self.spool, retention_directory=self.kept, **options)
        assert isinstance(database, Unattended)
        self._database = database

    def go_on(self) -> None:
        """Take a few steps, or none."""
        while not self._is_at_work and self.chance.random() < self.busy:
            self._is_at_work = True
            try:
                self.step()
            finally:
                self._is_at_work = False

    def step(self) -> None:
        match self.chance.randrange(12):
            case 0 | 1 | 2 | 3 | 4:
                sizes = [self.chance.choice((0, 40, 900)) for _ in range(self.chance.choice((1, 1, 5, 30)))]
                self._undelivered += self._database.add_many("q", [bytes(size) for size in sizes])
            case 5 | 6 | 7:
                count = self.chance.choice((len(self._undelivered), self.chance.randint(0, len(self._undelivered))))
                if count:
                    self._database.deliver_many(self._undelivered[:count])
                    del self._undelivered[:count]
            case 8:
                self._database._journal.seal_all()
            case 9 | 10:
                self._database.cleanup(compact=self.chance.random() < 0.2)
            case _:
                self._database.close()
                self._open()
        if self.chance.random() < 0.3:
            self.vouch()

    def vouch(self) -> None:
        """Do what a second of silence does."""
        self._database.vouch()
        self.vouched = self._database._journal.last_commit

    def close(self) -> None:
        self._database.close()


class _Watched(RealDisk):
    """The reader's disk: before each of its calls the writer may go on."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def list(self, directory: Path) -> list[str]:
        self._writer.go_on()
        return super().list(directory)

    def open(self, path: Path, *, writable: bool = False) -> DiskFile:
        self._writer.go_on()
        return super().open(path, writable=writable)


@contextmanager
def _watched(writer: Writer) -> Iterator[None]:
    disk = _Watched(writer)
    with patch.object(Storage, "disk", lambda _: disk):
        yield


def play(seed: int, directory: Path) -> str:
    """Run one schedule; return how it ended. Broken."""
    chance = random.Random(seed)
    spool, kept = directory / "spool", directory / "kept"
    kept.mkdir()
    writer = Writer(spool, kept, chance)
    how = chance.choice(("fail", "fail", "gap"))
    is_once = chance.random() < 0.4
    try:
        for _ in range(chance.choice((0, 3, 30))):
            writer.step()
        engine = Engine(spool, onMissing=how, columns=(*DEFAULT, "missing"), **chance.choice(LIMITS))
        writer.busy = chance.choice(BUSY)
        with _watched(writer):
            try:
                wanted = _once(engine, writer, chance) if is_once else _on_and_on(engine, writer, chance)
            except FilesGone:
                if how != "fail":
                    raise Broken("a stream with onMissing=gap raised FilesGone") from None
                return "told that files have gone"
    finally:
        writer.busy = 0.0
        writer.close()
    if not any(spool.glob("*.data")):
        return "nothing was written"
    _check(engine.rows, dumped(spool, *kept.iterdir()), dumped(spool), wanted)
    return "gaps" if any(row["operation"] == OPERATION_OF_HOLE for row in engine.rows) else "all of it"


def _once(engine: Engine, writer: Writer, chance: random.Random) -> int:
    """Follow as `availableNow` does, again and again; return the commit up to which all was there at the last."""
    for _ in range(chance.randint(1, 3)):
        wanted = writer.vouched
        engine.reader.prepareForTriggerAvailableNow()
        while engine.plan() is not None:
            engine.commit(engine.run())
        engine.start()
        for _ in range(chance.choice((0, 10))):
            writer.step()
    return wanted


def _on_and_on(engine: Engine, writer: Writer, chance: random.Random) -> int:
    """Follow by batches, with restarts in between, and in the end once the writer is silent."""
    for _ in range(TURNS):
        if engine.plan() is not None:
            rows = engine.run()
            if chance.random() < 0.2:
                engine.start()
                _check_again(rows, engine.run())
            engine.commit(rows)
        if chance.random() < 0.2:
            engine.start()
        for _ in range(chance.choice((0, 0, 1, 5))):
            writer.step()
    writer.busy = 0.0
    writer.vouch()
    engine.follow()
    return writer.vouched


def _check_again(first: Rows, second: Rows) -> None:
    """Check a batch that was run again: what has gone since is a gap, all else is the same."""
    rows = [row for row in second if row["operation"] != OPERATION_OF_HOLE]
    if [row for row in rows if row not in first]:
        raise Broken(f"a batch that was run again has rows that it did not have: {rows}")
    if len(rows) == len(second) and len(rows) != len(first):
        raise Broken("a batch that was run again has lost rows, and tells of no gap")


def _check(found: Rows, written: Rows, left: Rows, wanted: int) -> None:
    """Hold what a query has made good against all that there was, from the first commit that it knew of on."""
    holes = [row for row in found if row["operation"] == OPERATION_OF_HOLE]
    rows = [row for row in found if row["operation"] != OPERATION_OF_HOLE]
    begun = min((row["commit"] - (row["missing"] or 1) + 1 for row in found), default=None)
    if begun is None:
        if any(row["commit"] <= wanted for row in left):
            raise Broken(f"nothing was read of what is there up to commit {wanted}")
        return
    missing = {commit for row in holes for commit in range(row["commit"] - row["missing"] + 1, row["commit"] + 1)}
    last = max(wanted, *(row["commit"] for row in found))
    expected = [row for row in written if begun <= row["commit"] <= last]
    untold = [row for row in expected if row["commit"] not in missing and _key(row) not in {_key(one) for one in rows}]
    if untold:
        raise Broken(f"{len(untold)} operations of {len(expected)} are missing and nobody says so: {untold[:3]}")
    counted = Counter(map(_key, rows))
    if twice := [key for key, times in counted.items() if times > 1]:
        raise Broken(f"{len(twice)} operations came twice: {twice[:3]}")
    if strange := counted.keys() - {_key(row) for row in expected}:
        raise Broken(f"what nobody has written came: {sorted(map(str, strange))[:3]}")


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("commit", "offset", "operation", "message", "key"))


def main(arguments: list[str]) -> int:
    """Run many; 1 when one was broken."""
    parser = argparse.ArgumentParser(description="Streams that race a clean-up.")
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args(arguments)
    ends: Counter[str] = Counter()
    for seed in range(asked.first, asked.first + asked.count):
        with tempfile.TemporaryDirectory(prefix="oms-schedule-") as directory:
            try:
                ends[play(seed, Path(directory))] += 1
            except Exception as failure:  # the top: which seed it was
                ends["broken"] += 1
                sys.stdout.write(f"seed {seed}: {type(failure).__name__}: {failure}\n")
    sys.stdout.write(", ".join(f"{count} {end}" for end, count in ends.most_common()) + "\n")
    return 1 if ends["broken"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
