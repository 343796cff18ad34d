"""A lake on an object store is that of the local disk, and comes to rest whoever writes at once."""

from pathlib import Path
from typing import Any

import fsspec
import pytest

pytest.importorskip("pyarrow", reason="not installed: pip install -e '.[parquet]'")

import pyarrow.dataset as ds

from oms_journal.analysis.export.place import MISSING, STATE, LakeFile, LakeInJournal, parse, place_of
from oms_journal.analysis.export.refresh import ExportOptions
from oms_journal.analysis.storage import NoFileSystem, storage_options
from tests.analysis.export.lakes import cleaned, refreshed, source_rows
from tests.support.disks.small_files import fill, open_small
from tests.support.journals.analysed import Row, plain
from tests.support.journals.plain_rows import database_of
from tests.support.servers.s3_server import s3 as s3  # a fixture

IDENTITY = "0123456789abcdef0123456789abcdef"


def rows_at(file_system: Any, lake: str) -> list[Row]:
    """Return the operations that a reader of the lake finds."""
    file_system.invalidate_cache()
    found = sorted(file_system.glob(f"{lake}/*/*.parquet"))
    return plain(ds.dataset(found, filesystem=file_system, format="parquet").to_table().to_batches()) if found else []


def test_a_lake_in_memory_is_kept_current_pruned_and_told_of(tmp_path: Path) -> None:
    spool, lake, files = tmp_path / "spool", f"memory://lakes/{tmp_path.name}", fsspec.filesystem("memory")
    with open_small(spool) as db:
        cleaned(db, 2)
        fill(db, 2)
        db._journal.maintain()  # the last file is sealed, and the next one prepared
        first = refreshed(lake, spool)
        db.add("q", b"more")
        db._vouch()
        more = refreshed(lake, spool)
        assert refreshed(lake, spool).written == ()
        assert rows_at(files, lake) == source_rows(spool)
        for number in list(db.numbers()):
            db.deliver(number)
        cleaned(db, 2)
        pruned = refreshed(lake, spool, options=ExportOptions(prunes=True))
        assert rows_at(files, lake) == source_rows(spool)

    assert [one.reason for one in first.missing] == ["cleaned-up"]
    assert len(more.written) == 1
    assert len(pruned.removed) >= 2
    assert place_of(lake).read(f"{database_of(spool)}/{MISSING}") is None
    assert place_of(lake).read(STATE) is not None


@pytest.mark.whole
def test_a_lake_on_an_s3_server_is_kept_current_from_there_and_from_here(s3: dict[str, str], tmp_path: Path) -> None:
    files, options = fsspec.filesystem("s3", **storage_options(s3)), ExportOptions(storage=s3)
    files.mkdir("lakes")
    spool, lake = tmp_path / "spool", "s3a://lakes/lake"
    with open_small(spool) as db:
        fill(db, 3)
        db._journal.maintain()  # the last file is sealed, and the next one prepared
        first = refreshed(lake, spool, options=options)
        assert rows_at(files, "lakes/lake") == source_rows(spool)
        db.add("q", b"more")
        db._vouch()
        assert len(refreshed(lake, spool, options=options).written) == 1
        assert refreshed(lake, spool, options=options).written == ()
        assert rows_at(files, "lakes/lake") == source_rows(spool)
    files.put(f"{spool}/", "lakes/spool/", recursive=True)

    shipped = refreshed(lake, "s3://lakes/spool", options=options)
    again = refreshed(lake, "s3://lakes/spool", options=options)

    assert len(first.written) > 2
    assert {parse(name) for name in shipped.written} <= {LakeFile(database_of(spool), 4)}  # it has been sealed
    assert (again.written, len(again.there)) == ((), len(first.written))
    assert rows_at(files, "lakes/lake") == source_rows(spool)
    with pytest.raises(LakeInJournal):
        refreshed("s3://lakes/spool/lake", "s3a://lakes/spool", options=options)


def test_an_older_file_that_a_slower_export_puts_over_a_newer_one_is_put_right(tmp_path: Path) -> None:
    spool, lake, files = tmp_path / "spool", f"memory://slow/{tmp_path.name}", fsspec.filesystem("memory")
    with open_small(spool) as db:
        db.add_many("q", [b"one", b"two"])
        db._vouch()
        [name] = refreshed(lake, spool).written
        slow = files.cat_file(f"{lake}/{name}")
        db.add_many("q", [b"three", b"four"])
        db._vouch()
        refreshed(lake, spool)
        files.pipe_file(f"{lake}/{name}", slow)
        assert len(rows_at(files, lake)) == 2
        refreshed(lake, spool)
        assert rows_at(files, lake) == source_rows(spool)
    refreshed(lake, spool)  # it is sealed
    files.pipe_file(f"{lake}/{name}", slow)
    refreshed(lake, spool)

    assert rows_at(files, lake) == source_rows(spool)


def test_a_file_system_that_nobody_knows_is_refused_by_its_name(tmp_path: Path) -> None:
    with open_small(tmp_path / "spool"), pytest.raises(NoFileSystem, match="nowhere"):
        refreshed("nowhere://bucket/lake", tmp_path / "spool")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        (f"{IDENTITY}/omsmsg-0000000012.parquet", LakeFile(IDENTITY, 12)),
        (f"{IDENTITY}/omsmsg-12.parquet", None),
        (f"{IDENTITY}/omsmsg-0000000012.data", None),
        (f"{IDENTITY}/.omsmsg-0000000012.parquet.unfinished", None),
        (f"{IDENTITY}/{MISSING}", None),
        ("photos/omsmsg-0000000012.parquet", None),
        ("omsmsg-0000000012.parquet", None),
    ],
)
def test_the_name_of_a_lake_file_is_made_and_read_in_one_place(name: str, file: LakeFile | None) -> None:
    assert parse(name) == file
    assert file is None or str(file) == name
