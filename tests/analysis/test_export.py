"""Sealed data files as Parquet: the rows of the data source, each file once, and nothing half written."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="not installed: pip install -e '.[parquet]'")

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from oms_journal.analysis import export as exporting
from oms_journal.analysis.export import Exported, NotAnExport, export
from oms_journal.analysis.outdir import CannotWrite
from oms_journal.analysis.reading import schema
from oms_journal.analysis.reading.rows import batches
from oms_journal.analysis.storage import NoJournal
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.format.footer import TRAILER
from oms_journal.journal.format.headers import HEADERS_SIZE
from oms_journal.journal.reading.datafile import DataFile, Footer
from tests.support.cli_runner import oms, oms_json
from tests.support.disks.counting_disk import CountingDisk
from tests.support.disks.small_files import churn, fill, open_small
from tests.support.journals.analysed import ALL, EVERY, Row, analysed, plain
from tests.support.journals.plain_rows import database_of
from tests.support.journals.random_journal import RandomWriter, damage


def is_sealed(path: Path) -> bool:
    with DataFile(RealDisk(), path) as file:
        return isinstance(file.footer(identity=None), Footer)


def rows_of(directory: Path) -> list[Row]:
    table = ds.dataset(sorted(directory.glob("*.parquet")), format="parquet").to_table()
    return plain(table.to_batches())


def sealed_rows(*paths: Path) -> list[Row]:
    """Return what the source reads of the files that are sealed."""
    sealed = {path.name for folder in paths for path in folder.rglob("*.data") if is_sealed(path)}
    return [row for row in analysed(*paths) if row["file"] in sealed]


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(4))
def test_the_rows_are_those_of_the_source_and_each_data_file_has_its_parquet_file(seed: int, tmp_path: Path) -> None:
    spool, retained = tmp_path / "spool", tmp_path / "retained"
    RandomWriter(spool, seed, retention=retained).write()
    files = [*spool.glob("*.data"), *retained.rglob("*.data")]

    found = export([str(spool), str(retained)], tmp_path / "out", columns=EVERY)

    sealed = {path for path in files if is_sealed(path)}
    assert rows_of(tmp_path / "out") == sealed_rows(spool, retained)
    assert found.rows == sum(pq.read_metadata(path).num_rows for path in (tmp_path / "out").iterdir())
    assert {f"{database_of(spool)}-{path.stem[-10:]}.parquet" for path in sealed} == set(found.written)
    assert set(found.unsealed) <= {path.name for path in files} - {path.name for path in sealed}
    assert (found.there, found.damages) == ((), ())


def test_what_is_there_already_is_left_alone_and_what_is_new_is_added(tmp_path: Path) -> None:
    spool, out = tmp_path / "spool", tmp_path / "out"
    with open_small(spool) as db:
        fill(db, 3)
        db._journal.seal_all()
        first = export([str(spool)], out)
        times = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
        again = export([str(spool)], out)
        fill(db, 2)
        db._journal.seal_all()
        more = export([str(spool)], out)

    assert len(first.written) >= 3
    assert (again.written, again.rows, again.bytes) == ((), 0, 0)
    assert set(again.there) == set(first.written) == set(more.there)
    assert len(more.written) >= 2
    assert {name: (out / name).stat().st_mtime_ns for name in times} == times


def test_an_export_with_nothing_new_reads_headers_and_no_footers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, out = tmp_path / "spool", tmp_path / "out"
    with open_small(spool) as db:
        fill(db, 5)
    first = export([str(spool)], out)
    disk = CountingDisk.watching(monkeypatch)

    again = export([str(spool)], out)

    assert (again.written, again.there) == ((), first.written)
    *older, _, _ = sorted(path.name for path in spool.glob("*.data"))  # for lost files the last two footers are read
    assert len(older) > 1
    assert {disk.read[name] for name in older} == {HEADERS_SIZE + TRAILER.size}


def test_the_file_that_is_being_written_comes_when_it_is_sealed(tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        db.add("q", b"x")
        before = export([str(tmp_path / "spool")], tmp_path / "out")
        fill(db, 1)
        db._journal.seal_all()
        after = export([str(tmp_path / "spool")], tmp_path / "out")

    assert (before.written, before.unsealed) == ((), ("omsmsg-0000000001.data",))
    assert [name[-18:] for name in after.written] == ["0000000001.parquet"]
    assert "omsmsg-0000000001.data" not in after.unsealed


def test_a_repaired_file_and_one_with_other_columns_are_written_again(tmp_path: Path) -> None:
    spool, out = tmp_path / "spool", tmp_path / "out"
    with open_small(spool) as db:
        fill(db, 4)
    first = export([str(spool)], out)
    hurt = sorted(spool.glob("*.data"))[1]
    damage(hurt, place=0.5)
    with open_small(spool):
        pass  # which repairs it
    repaired = export([str(spool)], out)
    wider = export([str(spool)], out, columns=EVERY)
    again = export([str(spool)], out, columns=EVERY)

    assert f"{database_of(spool)}-{hurt.stem[-10:]}.parquet" in repaired.written
    assert set(repaired.there) == set(first.written) - set(repaired.written)
    assert set(wider.written) == set(repaired.there) | set(repaired.written)
    assert again.written == ()
    assert rows_of(out) == sealed_rows(spool)


def test_data_files_of_several_databases_lie_side_by_side(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with open_small(tmp_path / name) as db:
            fill(db, 1)

    found = export([str(tmp_path / "*")], tmp_path / "out", columns=EVERY)

    assert {name.partition("-")[0] for name in found.written} == {database_of(tmp_path / n) for n in ("one", "two")}
    assert len(rows_of(tmp_path / "out")) == len(sealed_rows(tmp_path / "one", tmp_path / "two"))


def test_columns_have_the_types_of_the_source_and_the_file_says_what_it_was_made_from(tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        fill(db, 1)
    export([str(tmp_path / "spool")], tmp_path / "out")
    [path, *_] = sorted((tmp_path / "out").iterdir())

    read = pq.read_schema(path)

    assert [(field.name, field.type) for field in read] == [
        (field.name, field.type) for field in schema.arrow_schema(exporting.COLUMNS)
    ]
    made_from = json.loads(read.metadata[exporting.MADE_FROM])
    assert made_from["file"] == "omsmsg-0000000001.data"
    assert made_from["database"] == database_of(tmp_path / "spool")
    assert made_from["columns"] == list(exporting.COLUMNS)


def test_batches_are_put_together_into_groups_of_bounded_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(exporting, "GROUP_ROWS", 1000)
    monkeypatch.setattr("oms_journal.analysis.reading.rows.BATCH_ROWS", 64)
    with open_small(tmp_path / "spool", max_data_file_size="64K") as db:
        db.add_many("q", [b"x"] * 1500)
        churn(db, 1)

    export([str(tmp_path / "spool")], tmp_path / "out", columns=EVERY)

    assert rows_of(tmp_path / "out") == sealed_rows(tmp_path / "spool")
    found = [pq.read_metadata(path) for path in sorted((tmp_path / "out").iterdir())]
    sizes = [each.row_group(place).num_rows for each in found for place in range(each.num_row_groups)]
    assert max(sizes) <= 1000
    assert len(sizes) > len(found)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    with open_small(tmp_path / "spool") as db:
        fill(db, 3)
    return tmp_path / "spool"


class Stop(KeyboardInterrupt):
    """Stands for Ctrl-C."""


def test_an_export_that_is_interrupted_leaves_whole_files_only(
    spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0

    def stopping(*arguments: Any) -> Iterator[pa.RecordBatch]:
        nonlocal made
        made += 1
        for batch in original(*arguments):
            yield batch
            if made == 2:
                raise Stop

    original = batches
    with monkeypatch.context() as patched:
        patched.setattr(exporting, "batches", stopping)
        with pytest.raises(Stop):
            export([str(spool)], tmp_path / "out", columns=EVERY)
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    found = export([str(spool)], tmp_path / "out", columns=EVERY)

    assert [name[-18:] for name in left] == ["0000000001.parquet"]
    assert list(found.there) == left
    assert rows_of(tmp_path / "out") == sealed_rows(spool)


def test_what_a_killed_run_left_is_removed_and_what_a_running_one_writes_is_not(spool: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    killed = out / ".x-0000000001.parquet.unfinished-4194304"  # beyond what a system gives
    running = out / f".x-0000000001.parquet.unfinished-{os.getppid()}"
    for path in (killed, running):
        path.write_bytes(b"half")

    export([str(spool)], out)

    assert not killed.exists()
    assert running.read_bytes() == b"half"


@pytest.mark.parametrize("content", [b"mine", b""])
def test_a_file_of_somebody_else_is_not_overwritten(spool: Path, tmp_path: Path, content: bytes) -> None:
    out = tmp_path / "out"
    out.mkdir()
    mine = out / f"{database_of(spool)}-0000000002.parquet"
    mine.write_bytes(content)

    with pytest.raises(NotAnExport, match="was not made by an export"):
        export([str(spool)], out)

    assert mine.read_bytes() == content
    pq.write_table(pa.table({"a": [1]}), mine)
    with pytest.raises(NotAnExport):
        export([str(spool)], out)


def test_a_place_that_cannot_be_written_is_told(spool: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")

    for place in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(CannotWrite, match="cannot write Parquet files to"):
            export([str(spool)], place)
    with pytest.raises(NoJournal):
        export([str(tmp_path / "nowhere")], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_empty_journal_and_a_damaged_file_are_told(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with open_small(spool):
        pass
    assert export([str(spool)], tmp_path / "out") == Exported()
    with open_small(spool) as db:
        fill(db, 2)
    hurt = sorted(spool.glob("*.data"))[0]
    hurt.write_bytes(hurt.read_bytes()[:2000])

    found = export([str(spool)], tmp_path / "out", columns=EVERY)

    assert hurt.name in found.unsealed
    assert {one.file for one in found.damages} == {hurt.name}
    assert rows_of(tmp_path / "out") == sealed_rows(spool)


# The command.


def test_the_command_says_what_it_wrote_and_takes_the_spool_by_default(spool: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    first = oms("export", "--parquet", str(out), "--payload", spool=spool)
    again = oms_json("export", "--parquet", str(out), "--payload", spool=spool)

    assert first.stdout.splitlines()[0].startswith(f"{len(again['there'])} Parquet files written, ")
    assert first.stdout.splitlines()[-1] == f"The files: {out}"
    assert (again["written"], again["rows"], again["directory"]) == ([], 0, str(out))
    assert [row["payload"] for row in rows_of(out)] == [row["payload"] for row in sealed_rows(spool)]


def test_the_command_exits_1_and_says_why_where_something_cannot_be_read(spool: Path, tmp_path: Path) -> None:
    hurt = sorted(spool.glob("*.data"))[0]
    hurt.write_bytes(hurt.read_bytes()[:2000])

    result = oms("export", str(spool), "--parquet", str(tmp_path / "out"), code=1)

    assert f"oms: {hurt.name} at byte" in result.stderr
    assert f"Not sealed, and left out: {hurt.name}" in result.stdout


def test_the_command_refuses_what_cannot_work_in_one_line(spool: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "other").mkdir()
    shutil.copy(sorted(spool.glob("*.data"))[0], tmp_path / "other" / "notes.txt")

    for arguments, text, code in (
        ([str(tmp_path / "nowhere"), "--parquet", "out"], "does not exist", 2),
        ([str(tmp_path / "other"), "--parquet", "out"], "holds no message database", 2),
        ([str(spool), "--parquet", str(tmp_path / "file")], "cannot write", 4),
        ([str(spool)], "--parquet", 2),
    ):
        error = oms("export", *arguments, code=code).stderr
        assert text in error
        assert error.count("\n") == 1
    assert ALL.columns == EVERY
