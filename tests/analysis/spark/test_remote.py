"""Journals on object stores and other remote file systems: files that were shipped there read as they did at home."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oms_journal import MessageDatabase
from oms_journal.analysis.storage import NoJournal
from oms_journal.journal.errors import NewerFormat
from oms_journal.journal.names import DataFileName
from tests.support.journals.random_journal import RandomWriter
from tests.support.journals.source_calls import Rows, batches, dumped, in_order, load, plain, reader, rows_of
from tests.support.journals.stream_engine import Engine

BUCKET = "journals"
KEY, SECRET = "the key", "the secret"


@dataclass(frozen=True, slots=True)
class Store:
    """An S3 server of our own, and a journal in it."""

    endpoint: str
    spool: Path
    rows: Rows

    @property
    def options(self) -> dict[str, Any]:
        return {"storage.endpoint_url": self.endpoint, "storage.key": KEY, "storage.secret": SECRET}

    def file_system(self) -> Any:
        return fsspec.filesystem("s3", endpoint_url=self.endpoint, key=KEY, secret=SECRET, skip_instance_cache=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    moto_server = pytest.importorskip("moto.server", reason="no S3 server to test with: pip install --group test")
    pytest.importorskip("s3fs", reason="nothing reads S3: pip install -e '.[s3]'")
    directory = tmp_path_factory.mktemp("shipped")
    spool = directory / "spool"
    RandomWriter(spool, 3).write(openings=1, steps=40, cleans=False)
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        made = Store(f"http://{host}:{port}", spool, dumped(spool))
        files = made.file_system()
        files.mkdir(BUCKET)
        for path in spool.glob("*.data"):
            files.put(str(path), f"{BUCKET}/days/one/{path.name}")
        yield made
    finally:
        server.stop()


@pytest.mark.whole
def test_spark_reads_an_object_store_as_it_reads_a_disk(store: Store, spark: SparkSession) -> None:
    found = spark.read.format("omsjournal").options(**store.options).load(f"s3a://{BUCKET}/days/one")

    assert in_order(plain(found.toArrow())) == in_order(store.rows)


@pytest.mark.parametrize(
    "path", ["s3://{}/days/one", "s3a://{}/days/*", "s3a://{}/days/one/*.data", "s3n://{}/days/one/"]
)
def test_paths_there_are_like_paths_here(store: Store, path: str) -> None:
    assert in_order(load(path.format(BUCKET), **store.options)) == in_order(store.rows)


def test_a_single_file_there_can_be_read(store: Store) -> None:
    first = min(row["sequence"] for row in store.rows)

    found = load(f"s3a://{BUCKET}/days/one/{DataFileName(first)}", **store.options)
    assert in_order(found) == in_order(row for row in store.rows if row["sequence"] == first)


def test_credentials_may_come_from_the_environment(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": store.endpoint}
    for name, value in names.items():
        monkeypatch.setenv(name, value)

    assert len(load(f"s3a://{BUCKET}/days/one", columns=("message",))) == len(store.rows)


def test_payloads_are_read_and_verified_there_too(store: Store) -> None:
    columns = ("message", "payload", "properties")
    remote = load(f"s3a://{BUCKET}/days/one", columns=columns, **store.options)

    assert remote == load(store.spool, columns=columns)
    assert load(f"s3a://{BUCKET}/days/one", table="damage", **store.options) == []
    files = load(f"s3a://{BUCKET}/days/one", table="files", **store.options)
    assert files == load(store.spool, table="files")


def test_filters_leave_out_objects(store: Store) -> None:
    all_of_it = reader(f"s3a://{BUCKET}/days/one", maxPartitionBytes=1, **store.options)
    some = reader(f"s3a://{BUCKET}/days/one", maxPartitionBytes=1, toSequence=2, **store.options)

    assert (len(some.partitions()), len(all_of_it.partitions())) == (2, len(list(store.spool.glob("*.data"))))


@pytest.mark.whole
def test_a_place_without_a_journal_is_an_error(store: Store, spark: SparkSession) -> None:
    store.file_system().pipe(f"{BUCKET}/notes/read.me", b"nothing")
    for path in (f"s3a://{BUCKET}/none", f"s3a://{BUCKET}/notes", f"s3a://{BUCKET}/none/*"):
        with pytest.raises(NoJournal):
            load(path, **store.options)
    with pytest.raises(PySparkException, match=r"(NoJournal|DiskError): "):
        spark.read.format("omsjournal").options(**store.options).load("s3a://no-such-bucket/spool")


@pytest.mark.whole
def test_an_object_that_has_gone_since_it_was_planned_is_left_out_and_told(store: Store) -> None:
    files = store.file_system()
    files.copy(f"{BUCKET}/days/one", f"{BUCKET}/going", recursive=True)
    made = reader(f"s3a://{BUCKET}/going", **store.options)
    table = reader(f"s3a://{BUCKET}/going", table="damage", **store.options)
    partitions, damage_partitions = made.partitions(), table.partitions()
    first = min(row["sequence"] for row in store.rows)
    files.rm(f"{BUCKET}/going/{DataFileName(first)}")

    found = rows_of(batches(made, partitions))
    assert in_order(found) == in_order(row for row in store.rows if row["sequence"] != first)
    told = rows_of(batches(table, damage_partitions), table="damage")
    assert [(row["file"], row["kind"]) for row in told] == [(str(DataFileName(first)), "gone")]


def test_objects_of_a_newer_format_are_refused(store: Store) -> None:
    from tests.analysis.spark.test_source import _write_version

    path = store.spool.parent / min(path.name for path in store.spool.glob("*.data"))
    path.write_bytes((store.spool / path.name).read_bytes())
    _write_version(path, 9)
    store.file_system().put(str(path), f"{BUCKET}/newer/{path.name}")
    with pytest.raises(NewerFormat, match="format version 9"):
        load(f"s3a://{BUCKET}/newer", **store.options)


@pytest.mark.whole
def test_files_shipped_one_by_one_are_followed(store: Store) -> None:
    files = store.file_system()
    paths = sorted(store.spool.glob("*.data"))
    engine: Engine | None = None
    for path in paths:
        files.put(str(path), f"{BUCKET}/following/{path.name}")
        engine = engine or Engine(f"s3a://{BUCKET}/following", **store.options)
        engine.follow()
    assert engine is not None

    assert in_order(engine.rows) == in_order(store.rows)
    assert len(engine.batches) == len(paths)


@pytest.mark.whole
def test_what_was_shipped_is_read_together_with_what_is_still_here(store: Store, tmp_path: Path) -> None:
    *old, newest = sorted(store.spool.glob("*.data"))
    (tmp_path / newest.name).write_bytes(newest.read_bytes())
    for path in old:
        store.file_system().put(str(path), f"{BUCKET}/older/{path.name}")

    assert in_order(load(tmp_path, f"s3a://{BUCKET}/older", **store.options)) == in_order(store.rows)


# Other file systems.


def test_any_file_system_that_fsspec_knows_will_do(store: Store, tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    for path in store.spool.glob("*.data"):
        memory.put(str(path), f"/spool/{path.name}")
    try:
        assert in_order(load("memory://spool")) == in_order(store.rows)
    finally:
        memory.rm("/spool", recursive=True)
    assert in_order(load(store.spool.as_uri())) == in_order(store.rows)


def test_a_journal_that_is_written_is_read_by_its_file_url(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        db.add("orders", b"1")
        db._vouch()
        assert [row["message"] for row in load(tmp_path.as_uri())] == [1]


@pytest.mark.whole
def test_nothing_is_written_there(store: Store) -> None:
    before = {name: each["LastModified"] for name, each in store.file_system().find(BUCKET, detail=True).items()}
    several: tuple[dict[str, Any], ...] = ({}, {"table": "damage"}, {"table": "files"}, {"payload": True})
    for options in several:
        load(f"s3a://{BUCKET}/days/one", **options, **store.options)

    after = {name: each["LastModified"] for name, each in store.file_system().find(BUCKET, detail=True).items()}
    assert after == before and len(before) > 10
    assert threading.active_count() < 50
