"""A stream has every durable operation of a growing journal once, or says what it has missed."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from oms_journal import MessageDatabase
from oms_journal.analysis.reading import directory
from oms_journal.analysis.spark import stream
from oms_journal.analysis.spark.following import FilesGone, Hole, JournalWentBack
from oms_journal.analysis.spark.options import BadOption
from oms_journal.analysis.spark.stream import _between
from oms_journal.journal.disk import Disk
from oms_journal.journal.format.headers import FRAMES_AT
from tests.support.disks.small_files import churn, fill, open_small
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.journals.plain_rows import database_of, rows_in
from tests.support.journals.random_journal import RandomWriter
from tests.support.journals.source_calls import Rows, dumped, in_order, plain, shown
from tests.support.journals.stream_engine import Engine
from tests.support.project import PYTHONPATH

SEED = 11


def data_files(spool: Path) -> list[Path]:
    return sorted(spool.glob("*.data"))


def messages(rows: Rows) -> list[int]:
    return [row["message"] for row in rows if row["operation"] == "ADD"]


# What a stream has.


def test_a_stream_has_what_a_journal_had_and_what_comes(tmp_path: Path) -> None:
    spool, retention = tmp_path / "spool", tmp_path / "retention"
    retention.mkdir()
    writer = RandomWriter(spool, SEED, retention=retention)
    writer.write(openings=1, steps=30)
    engine = Engine(spool, retention)
    engine.follow()
    for _ in range(4):
        writer.write(openings=1, steps=20)
        engine.follow()
        engine.start()

    assert in_order(engine.rows) == in_order(dumped(spool, *retention.iterdir()))
    assert len(engine.batches) == 5
    assert engine.follow() == []


def test_what_has_gone_is_looked_for_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clean-up may have moved it to a folder that was listed before it was there."""
    with open_small(tmp_path) as db:
        db.add_many("q", [b"x" * 300] * 20)
        db._vouch()
        engine = Engine(tmp_path)
        looks = []

        def between(*arguments: Any) -> Any:
            looks.append(arguments)
            found = _between(*arguments)
            hole = Hole(database=database_of(tmp_path), commits=(1, 1), sequence=1)
            return [hole, *found] if len(looks) == 1 else found

        monkeypatch.setattr(stream, "_between", between)
        engine.follow()
    assert len(looks) == 2
    assert messages(engine.rows) == [*range(1, 21)]


def test_only_what_is_vouched_for_comes(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        engine = Engine(tmp_path)
        assert engine.follow() == []
        for number in range(1, 30):
            db.add("q", b"x" * 300)
            seen = messages(engine.follow() and engine.rows)
            assert messages(engine.rows) in ([*range(1, number)], [*range(1, number + 1)]), seen
        db._vouch()  # as after a second of silence
        engine.follow()
        assert messages(engine.rows) == [*range(1, 30)]
        assert len(data_files(tmp_path)) > 2
    assert engine.follow() == []


def test_a_query_that_starts_again_has_nothing_twice_and_misses_nothing(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    writer = RandomWriter(tmp_path / "spool", SEED, retention=tmp_path / "retention")
    engine = Engine(tmp_path / "spool", tmp_path / "retention", maxOperationsPerTrigger=9)
    writer.write(openings=1, steps=10)
    for _ in range(12):
        with writer.open() as db:
            for _, step in chance.choices(writer._steps, k=6):
                step(db)
            while engine.plan() is not None:
                rows = engine.run()
                if chance.random() < 0.5:
                    engine.start()
                    assert in_order(engine.run()) == in_order(rows), "a batch that is run again has the same rows"
                engine.commit(rows)
                if chance.random() < 0.3:
                    engine.start()
                    break
    engine.follow()

    assert in_order(engine.rows) == in_order(dumped(tmp_path / "spool", *(tmp_path / "retention").iterdir()))


# How much a batch has.


def test_a_batch_goes_through_as_many_files_as_it_may(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        fill(db, 7)
    files = len(data_files(tmp_path))
    engine = Engine(tmp_path, maxFilesPerTrigger=3)
    engine.follow()

    assert in_order(engine.rows) == in_order(dumped(tmp_path))
    assert len(engine.batches) == -(-files // 3)
    at_once = Engine(tmp_path, maxFilesPerTrigger=3)
    at_once.everything()
    assert at_once.batches == [len(engine.rows)]


def test_a_batch_has_no_more_operations_than_it_may_but_a_whole_commit(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, max_data_file_size=7680) as db:
        for count in (1, 2, 3, 25, 1, 1, 4, 5):
            numbers = db.add_many("q", [b"x" * 80] * count)
        db.deliver_many(numbers)
        db.put("key", b"value")
    engine = Engine(tmp_path, maxOperationsPerTrigger=5)
    engine.follow()

    assert engine.batches == [3, 3, 25, 2, 4, 5, 5, 1]
    assert in_order(engine.rows) == in_order(dumped(tmp_path))
    commits = [
        {row["commit"] for row in engine.rows[sum(engine.batches[:n]) :][:size]}
        for n, size in enumerate(engine.batches)
    ]
    assert not set.intersection(*commits)


def test_available_now_ends_with_what_was_there_when_it_began(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        first = db.add_many("q", [b"x" * 500] * 20)
        db._vouch()
        engine = Engine(tmp_path, maxOperationsPerTrigger=1)
        engine.reader.prepareForTriggerAvailableNow()
        db.add_many("q", [b"x" * 500] * 20)
        db._vouch()
        engine.follow()
        assert messages(engine.rows) == list(first)
        engine.start()
        engine.follow()
        assert len(messages(engine.rows)) == 40


# Where it begins.


def test_a_stream_may_begin_with_what_comes(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        db.add("q", b"old")
        db._vouch()
        engine = Engine(tmp_path, startingOffsets="latest")
        engine.follow()
        new = db.add("q", b"new")
        db._vouch()
        engine.follow()

    assert messages(engine.rows) == [new]


def test_several_databases_are_followed_and_new_ones_too(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    writer = RandomWriter(first, 1)
    writer.write(openings=1, steps=20, cleans=False)
    engine = Engine(f"{tmp_path}/*", maxFilesPerTrigger=2)
    engine.follow()
    RandomWriter(second, 2).write(openings=1, steps=20, cleans=False)
    writer.write(openings=1, steps=20, cleans=False)
    engine.follow()

    assert {row["database"] for row in engine.rows} == {database_of(data_files(path)[0]) for path in (first, second)}
    for path in (first, second):
        database = database_of(data_files(path)[0])
        mine = [row for row in engine.rows if row["database"] == database]
        assert [row["offset"] for row in mine] and in_order(mine)[-len(dumped(path)) :] == in_order(dumped(path))


def test_columns_and_rows_can_be_chosen(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.add("orders", b"1")
        db.add("bills", b"2")
    engine = Engine(tmp_path, columns=("queue", "payload"), queue="bills", operation="ADD")

    assert engine.follow() == [{"queue": "bills", "payload": b"2"}]
    with pytest.raises(BadOption, match="the table operations only"):
        Engine(tmp_path, columns=("file",), table="files")
    with pytest.raises(BadOption, match="needs the column operation"):
        Engine(tmp_path, columns=("queue",), onMissing="gap")


# What clean-up has removed.


def test_what_was_read_may_go(tmp_path: Path) -> None:
    engine: Engine | None = None
    for _ in range(5):
        with open_small(tmp_path) as db:
            churn(db, 3)
            db._vouch()
            engine = engine or Engine(tmp_path)
            engine.follow()
            assert db.cleanup().deleted
            db.deliver(db.add("q", b""))
        engine.follow()
        engine.start()
    assert engine is not None
    numbers = messages(engine.rows)
    assert numbers == sorted(set(numbers))


def _removed_unread(spool: Path, **options: Any) -> tuple[Engine, Rows]:
    """Return a query that has read a part of what clean-up then removed, and what that was."""
    with open_small(spool) as db:
        db.deliver(db.add("q", b"first"))
        db._vouch()
        engine = Engine(spool, **options)
        engine.follow()
        churn(db, 4)
        unread = [row for row in dumped(spool) if row["commit"] > engine.rows[-1]["commit"]]
        assert db.cleanup().deleted
        left = {row["sequence"] for row in dumped(spool)}
        db.add("q", b"last")
    return engine, [row for row in unread if row["sequence"] not in left]


def test_what_was_removed_before_it_was_read_is_an_error(tmp_path: Path) -> None:
    engine, gone = _removed_unread(tmp_path)
    assert engine.plan() is not None
    with pytest.raises(FilesGone, match=rf"commits \d+ to {gone[-1]['commit']} of database .* onMissing=gap"):
        engine.run()
    engine.start()
    with pytest.raises(FilesGone):
        engine.run()


def test_or_it_is_counted_as_a_gap(tmp_path: Path) -> None:
    engine, gone = _removed_unread(tmp_path, onMissing="gap")
    rows = engine.follow()
    holes = [row for row in rows if row["operation"] == "GAP"]

    assert [(row["commit"], row["message"], row["database"]) for row in holes] == [
        (gone[-1]["commit"], None, gone[0]["database"])
    ]
    assert in_order(row for row in rows if row["operation"] != "GAP") == in_order(
        row for row in dumped(tmp_path) if row["commit"] > gone[-1]["commit"]
    )


def test_a_gap_says_how_many_commits_it_stands_for_at_most(tmp_path: Path) -> None:
    engine, gone = _removed_unread(tmp_path, columns=("commit", "operation", "missing"), onMissing="gap")

    rows = engine.follow()

    [hole] = [row for row in rows if row["operation"] == "GAP"]
    assert hole["missing"] == hole["commit"] - gone[0]["commit"] + 1 == len({row["commit"] for row in gone})
    assert {row["missing"] for row in rows if row is not hole} == {None}


def test_a_file_that_goes_between_planning_and_reading_is_a_gap_or_an_error(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        fill(db, 3)
    for how in ("gap", "fail"):
        engine = Engine(tmp_path, onMissing=how)
        assert engine.plan() is not None
        rows = rows_in(tmp_path)
        first = data_files(tmp_path)[0]
        partitions = engine.reader.partitions({}, engine.logged or {})
        first.unlink()
        if how == "fail":
            with pytest.raises(FilesGone):
                list(engine.reader.read(partitions[0]))
            continue
        found = plain_rows(engine, partitions)
        assert found[0]["operation"] == "GAP"
        assert found[0]["commit"] == max(row.commit for row in rows if row.file == first.name)
        assert in_order(found[1:]) == in_order(shown(row) for row in rows if row.file != first.name)


def plain_rows(engine: Engine, partitions: object) -> Rows:
    from tests.support.journals.source_calls import rows_of

    return rows_of(batch for each in partitions for batch in engine.reader.read(each))  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["gap", "fail"])
def test_a_file_that_is_begun_while_the_headers_are_read_hides_no_gap(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its header was zeros when it was looked at, and its operations are there by the time it is read."""
    with open_small(tmp_path) as db:
        db.add("q", b"first")
        db._vouch()
        engine = Engine(tmp_path, onMissing=how, columns=("commit", "operation", "missing"))
        before = {row["commit"] for row in engine.follow()}
        churn(db, 3)
        db.add("q", b"last")
        db._vouch()
        first, *gone, begun = [path for path in data_files(tmp_path) if any(path.read_bytes())]
        for path in gone:
            path.unlink()
        read_header = directory._read_header

        def too_early(disk: Disk, path: Path) -> Any:
            found = read_header(disk, path)
            return replace(found, header=None) if path == begun else found

        monkeypatch.setattr(directory, "_read_header", too_early)
        assert engine.plan() is not None
        if how == "fail":
            with pytest.raises(FilesGone):
                engine.run()
            return
        found = engine.run()
    [hole] = [row for row in found if row["operation"] == "GAP"]
    assert {row["commit"] for row in found if row is not hole} == {row.commit for row in rows_in(tmp_path)} - before
    missing = range(max(row.commit for row in rows_in(first)) + 1, min(row.commit for row in rows_in(begun)))
    assert (hole["commit"], hole["missing"]) == (missing[-1], len(missing))


def test_a_stream_begins_with_what_is_there_though_the_first_file_has_lost_its_header(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        fill(db, 3)
        db._vouch()
    there = rows_in(tmp_path)
    first = data_files(tmp_path)[0]
    with first.open("r+b") as file:  # the footer's copy of it too
        file.write(bytes(FRAMES_AT))
        file.seek(-16, os.SEEK_END)
        file.write(bytes(16))
    engine = Engine(tmp_path, onMissing="fail")
    assert in_order(engine.follow()) == in_order(shown(row) for row in there)


def test_the_retention_directory_leaves_no_gap(tmp_path: Path) -> None:
    spool, retention = tmp_path / "spool", tmp_path / "retention"
    with open_small(spool, retention_directory=retention) as db:
        engine = Engine(spool)
        churn(db, 4)
        assert engine.plan() is not None
        db.cleanup()
        db.add("q", b"last")
    with pytest.raises(FilesGone):
        engine.run()
    both = Engine(spool, retention)
    both.follow()
    assert in_order(both.rows) == in_order(dumped(spool, *retention.iterdir()))


def test_a_damaged_file_gives_what_is_good_in_it_and_no_gap(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        fill(db, 3)
    path = data_files(tmp_path)[1]
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size * 2 // 3)
    engine = Engine(tmp_path)
    engine.follow()

    assert in_order(engine.rows) == in_order(dumped(tmp_path))
    MessageDatabase.open(tmp_path, policy="salvage").close()
    assert engine.follow() == []
    with MessageDatabase.open(tmp_path) as db:
        number = db.add("q", b"after")
    assert messages(engine.follow()) == [number]


def test_an_older_copy_in_its_place_is_an_error(tmp_path: Path) -> None:
    spool, copy = tmp_path / "spool", tmp_path / "copy"
    with open_small(spool) as db:
        fill(db, 2)
    shutil.copytree(spool, copy)
    with open_small(spool) as db:
        fill(db, 2)
    engine = Engine(spool)
    engine.follow()
    shutil.rmtree(spool)
    copy.rename(spool)
    with pytest.raises(JournalWentBack):
        engine.follow()
    with open_small(spool) as db:
        fill(db, 5)
    engine.start()
    with pytest.raises(JournalWentBack):
        engine.follow()


# Beside a real writer.


class Writer:
    """A process that writes, and is killed."""

    def __init__(self, spool: Path, retention: Path | str, seed: int, commits: int) -> None:
        command = [
            sys.executable,
            "-m",
            "tests.support.crashes.following_writer",
            str(spool),
            str(retention),
            str(seed),
            str(commits),
        ]
        environment = os.environ | {"PYTHONPATH": PYTHONPATH}
        self.program = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        assert self.program.stdout is not None
        assert self.program.stdout.readline() == b"open\n"

    def kill(self) -> None:
        self.program.send_signal(signal.SIGKILL)
        self.end()

    def end(self) -> None:
        self.program.communicate(timeout=TIMEOUT_SECONDS)


@pytest.mark.whole
def test_a_writer_that_is_killed_and_recovers_is_followed_exactly(tmp_path: Path) -> None:
    spool, retention = tmp_path / "spool", tmp_path / "retention"
    retention.mkdir()
    chance = random.Random(SEED)
    engine: Engine | None = None
    for round_ in range(3):
        writer = Writer(spool, retention, round_, 100_000)
        engine = engine or Engine(spool, retention, maxFilesPerTrigger=3)
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            if engine.plan() is not None and chance.random() < 0.8:
                engine.commit(engine.run())
            else:
                engine.start()
        writer.kill()
    assert engine is not None
    Writer(spool, retention, 99, 20).end()
    engine.follow()

    assert in_order(engine.rows) == in_order(dumped(spool, *retention.iterdir()))
    assert len(engine.batches) > 10 and any(retention.iterdir())


@pytest.mark.whole
def test_spark_follows_a_writer_and_starts_again_from_its_checkpoint(tmp_path: Path, spark: SparkSession) -> None:
    spool, retention, out = tmp_path / "spool", tmp_path / "retention", tmp_path / "out"
    retention.mkdir()
    writer = Writer(spool, retention, 1, 100_000)
    paths = json.dumps([str(spool), str(retention)])
    stream = spark.readStream.format("omsjournal").options(maxFilesPerTrigger=100, paths=paths).load()
    sink = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = sink.start(str(out))
    _wait_for_batches(query, 2)
    writer.kill()
    query.stop()
    Writer(spool, retention, 2, 60).end()
    query = sink.trigger(availableNow=True).start(str(out))
    assert query.awaitTermination(int(TIMEOUT_SECONDS))

    found = spark.read.parquet(str(out))
    assert in_order(plain(found.toArrow())) == in_order(dumped(spool, *retention.iterdir()))


def _wait_for_batches(query: object, count: int) -> None:
    until = time.monotonic() + TIMEOUT_SECONDS
    while len(query.recentProgress) < count:  # type: ignore[attr-defined]
        assert query.isActive and time.monotonic() < until  # type: ignore[attr-defined]
        time.sleep(0.05)


def test_spark_is_told_what_has_gone(tmp_path: Path, spark: SparkSession) -> None:
    spool = tmp_path / "spool"
    with open_small(spool) as db:
        db.deliver(db.add("q", b"first"))
        db._vouch()
        stream = spark.readStream.format("omsjournal").load(str(spool))
        sink = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        sink.trigger(availableNow=True).start().awaitTermination(int(TIMEOUT_SECONDS))
        churn(db, 4)
        assert db.cleanup().deleted
        db.add("q", b"last")
    query = sink.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match=r"FilesGone: commits \d+ to"):
        query.awaitTermination(int(TIMEOUT_SECONDS))
