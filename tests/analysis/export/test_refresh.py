"""A lake has the rows of the data source, each data file once, at any moment, and reads no more than it must."""

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="not installed: pip install -e '.[parquet]'")

import pyarrow as pa
import pyarrow.parquet as pq

from oms_journal.analysis.export import rowgroups
from oms_journal.analysis.export.place import STATE, LakeFile, LakeInJournal, parse
from oms_journal.analysis.export.refresh import (
    COLUMNS,
    FRAME_HEAD_BYTES,
    ExportOptions,
    NotAnExport,
    OtherColumns,
)
from oms_journal.analysis.outdir import CannotWrite
from oms_journal.analysis.reading import schema
from oms_journal.analysis.storage import NoJournal
from oms_journal.journal.format.footer import TRAILER
from oms_journal.journal.format.headers import HEADERS_SIZE
from tests.analysis.export.lakes import (
    ALL_COLUMNS,
    AT_ONCE,
    lake_files,
    lake_rows,
    places,
    refreshed,
    source_rows,
)
from tests.support.crashes.crash_model import Unattended
from tests.support.disks.counting_disk import CountingDisk
from tests.support.disks.small_files import SMALL, churn, fill, open_small
from tests.support.journals.analysed import ALL
from tests.support.journals.late_files import late_files
from tests.support.journals.plain_rows import database_of
from tests.support.journals.random_journal import RandomWriter, damage
from tests.support.sweeps import a_sample, sampled


def names(lake: Path) -> list[str]:
    return [path.stem for path in lake_files(lake)]


@a_sample(more=4)
@pytest.mark.parametrize("seed", sampled(range(16), 1))
def test_the_rows_are_those_of_the_source_whenever_the_lake_is_brought_up_to_date(
    seed: int, lake: Path, tmp_path: Path
) -> None:
    spool, retained = tmp_path / "spool", tmp_path / "retained"
    retained.mkdir()
    writer = RandomWriter(spool, seed, retention=retained)
    for _ in range(2):
        for cleans in (False, True, True):
            writer.write(openings=1, steps=20, cleans=cleans)
            refreshed(lake, spool, retained, options=ALL_COLUMNS)
            assert lake_rows(lake) == source_rows(spool, retained, wanted=ALL)
        with writer.open() as db:
            for _ in range(3):
                writer._add_many(db)
                writer._remove(db)
                found = refreshed(lake, spool, retained, options=ALL_COLUMNS)
                assert lake_rows(lake) == source_rows(spool, retained, wanted=ALL)
                assert (found.missing, found.damages) == ((), ())
    refreshed(lake, spool, retained, options=ALL_COLUMNS)
    assert refreshed(lake, spool, retained, options=ALL_COLUMNS).written == ()


def test_a_data_file_is_there_from_its_first_row_under_the_name_that_it_keeps(lake: Path, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        assert refreshed(lake, tmp_path / "spool").written == ()
        seen = []
        for _ in range(12):
            db.add("q", bytes(1700))
            refreshed(lake, tmp_path / "spool")
            seen.append(names(lake))
            assert lake_rows(lake) == source_rows(tmp_path / "spool")

    assert seen[-1][:2] == ["omsmsg-0000000001", "omsmsg-0000000002"]
    assert all(before == after[: len(before)] for before, after in pairwise(seen))


def test_nothing_new_opens_no_data_file_but_the_one_that_is_being_written(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, retained = tmp_path / "spool", tmp_path / "retained"
    retained.mkdir()
    # Nothing is at work beside the calls: a file that a thread prepares or seals in between is something new.
    with Unattended.open(
        spool, max_data_file_size=SMALL, cleanup_interval=0, compact_share=0, retention_directory=retained
    ) as db:
        churn(db, 4)
        db.cleanup()
        fill(db, 3)
        db._journal.maintain()  # the next file is prepared, and the last one sealed
        refreshed(lake, spool, retained)
        disk = CountingDisk.watching(monkeypatch)
        there = {path.name: path.stat() for path in lake.rglob("*") if path.is_file()}

        again = refreshed(lake, spool, retained)

        assert again.written == ()
        assert len(again.there) > 5
        newest = max(path.name for path in lake_files(lake)).replace("parquet", "data")
        assert {name for name in disk.opens if name.endswith(".data")} == {newest}
        assert disk.read[newest] == HEADERS_SIZE + TRAILER.size + FRAME_HEAD_BYTES
        assert {path.name: path.stat() for path in lake.rglob("*") if path.is_file()} == there


def test_nothing_new_in_a_closed_database_opens_no_data_file(
    spool: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = refreshed(lake, spool)
    disk = CountingDisk.watching(monkeypatch)

    again = refreshed(lake, spool)

    assert (again.written, again.there) == ((), first.written)
    assert [name for name in disk.opens if name.endswith(".data")] == []


def test_more_in_the_file_that_is_being_written_opens_no_other(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_small(tmp_path / "spool") as db:
        fill(db, 3)
        db.add("q", b"one")
        db._journal.maintain()  # the next file is prepared, and the last one sealed
        refreshed(lake, tmp_path / "spool")
        with monkeypatch.context() as patched:
            db.add("q", b"two")
            disk = CountingDisk.watching(patched)

            more = refreshed(lake, tmp_path / "spool")

        newest = names(lake)[-1]
        assert [parse(name) for name in more.written] == [LakeFile(database_of(tmp_path / "spool"), int(newest[-10:]))]
        assert {name for name in disk.opens if name.endswith(".data")} == {f"{newest}.data"}
        assert lake_rows(lake) == source_rows(tmp_path / "spool")


def test_without_what_the_last_export_saw_headers_tell_that_nothing_is_new(spool: Path, lake: Path) -> None:
    first = refreshed(lake, spool)
    for content in (None, b"", b"{}", b"[1]", b'{"version": 1}'):
        (lake / STATE).unlink()
        if content is not None:
            (lake / STATE).write_bytes(content)

        again = refreshed(lake, spool)

        assert (again.written, again.there) == ((), first.written)


def test_a_repaired_file_is_exported_anew(spool: Path, lake: Path) -> None:
    first = refreshed(lake, spool)
    hurt = sorted(spool.glob("*.data"))[1]
    damage(hurt, place=0.5)
    with open_small(spool):
        pass  # which repairs it

    repaired = refreshed(lake, spool)

    assert f"{database_of(spool)}/{hurt.stem}.parquet" in repaired.written
    assert len(repaired.there) >= len(first.written) - 2
    assert lake_rows(lake) == source_rows(spool)


def test_what_has_rotted_since_it_was_exported_stays_as_it_was(spool: Path, lake: Path) -> None:
    refreshed(lake, spool)
    before = lake_rows(lake)
    hurt = sorted(spool.glob("*.data"))[0]
    hurt.write_bytes(hurt.read_bytes()[:2000])

    for _ in range(2):
        found = refreshed(lake, spool)
        assert lake_rows(lake) == before
        assert {one.file for one in found.damages} == {hurt.name}


def test_of_a_damaged_file_all_that_can_be_read_is_exported_and_each_export_tells_of_it(
    spool: Path, lake: Path
) -> None:
    hurt = sorted(spool.glob("*.data"))[0]
    damage(hurt, place=0.5)
    hurt.write_bytes(hurt.read_bytes()[:-40])

    found, again = refreshed(lake, spool), refreshed(lake, spool)

    assert lake_rows(lake) == source_rows(spool)
    assert {one.file for one in found.damages} == {hurt.name}
    assert (again.damages, again.written) == (found.damages, ())


def test_other_columns_than_those_of_the_lake_are_refused(spool: Path, lake: Path) -> None:
    refreshed(lake, spool)
    with pytest.raises(OtherColumns, match="it has not missing, properties, payload"):
        refreshed(lake, spool, options=ALL_COLUMNS)
    (lake / STATE).unlink()
    with pytest.raises(OtherColumns):
        refreshed(lake, spool, options=ALL_COLUMNS)
    assert len(refreshed(lake, spool).there) == len(lake_files(lake))


def test_several_databases_lie_side_by_side_and_each_export_tells_of_its_own(lake: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        with open_small(tmp_path / name) as db:
            fill(db, 1)

    both = refreshed(lake, tmp_path / "*")
    [one] = refreshed(lake, tmp_path / "one").databases

    assert set(both.databases) == {database_of(tmp_path / name) for name in ("one", "two")}
    assert one == database_of(tmp_path / "one")
    assert lake_rows(lake) == source_rows(tmp_path / "one", tmp_path / "two")
    assert refreshed(lake, tmp_path / "*").written == ()


def test_moved_copies_are_there_and_say_that_they_were_moved(lake: Path, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        kept = db.add("q", b"stays")
        churn(db, 3)
        db.cleanup(compact=True)
        refreshed(lake, tmp_path / "spool")
        rows = [row for row in lake_rows(lake) if row["message"] == kept]

    assert {row["moved"] for row in rows} >= {True}
    assert all(count == 1 for count in places(lake_rows(lake)).values())


def test_what_a_former_owner_wrote_late_is_taken_back_when_that_is_known(lake: Path, tmp_path: Path) -> None:
    seen = []
    for _ in late_files(tmp_path / "spool"):
        found = refreshed(lake, tmp_path / "spool")
        seen.append(sorted(int(name[-10:]) for name in names(lake)))
        assert lake_rows(lake) == source_rows(tmp_path / "spool")
        assert found.missing == ()

    assert seen == [[1], [1, 2], [1, 3], [1, 3]]


def test_columns_have_the_types_of_the_source_and_row_groups_tell_the_times(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rowgroups, "GROUP_ROWS", 500)
    monkeypatch.setattr("oms_journal.analysis.reading.rows.BATCH_ROWS", 64)
    with open_small(tmp_path / "spool", max_data_file_size="64K") as db:
        for _ in range(5):
            db.add_many("q", [b"x"] * 700)
        churn(db, 1)
    refreshed(lake, tmp_path / "spool")

    found = [pq.read_metadata(path) for path in lake_files(lake)]
    groups = [each.row_group(place) for each in found for place in range(each.num_row_groups)]
    times = [group.column(COLUMNS.index("time")).statistics for group in groups]

    read = pq.read_schema(lake_files(lake)[0])
    assert [(one.name, one.type) for one in read] == [(one.name, one.type) for one in schema.arrow_schema(COLUMNS)]
    assert json.loads(read.metadata[rowgroups.MADE_FROM])["columns"] == list(COLUMNS)
    assert len(groups) > len(found)
    assert max(group.num_rows for group in groups) <= 500
    assert all(one.min <= one.max for one in times)
    assert all(one.max <= other.min for one, other in pairwise(times))
    assert lake_rows(lake) == source_rows(tmp_path / "spool")


def test_an_empty_journal_is_a_lake_without_files(lake: Path, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool"):
        found = refreshed(lake, tmp_path / "spool")
    assert (found.written, found.there, found.missing, found.damages) == ((), (), (), ())
    assert refreshed(lake, tmp_path / "spool").written == ()
    assert lake_files(lake) == []


def test_one_data_file_can_be_exported_and_its_neighbours_are_not_missing(spool: Path, lake: Path) -> None:
    found = refreshed(lake, spool / "omsmsg-0000000002.data")

    assert names(lake) == ["omsmsg-0000000002"]
    assert found.missing == ()
    assert len(refreshed(lake, spool).written) == len(list(spool.glob("*.data"))) - 1


@pytest.mark.parametrize("content", [b"mine", b"", b"PAR1" + bytes(90) + b"\x20\0\0\0PAR1", "parquet"])
def test_a_file_of_somebody_else_is_not_overwritten(spool: Path, lake: Path, content: bytes | str) -> None:
    folder = lake / database_of(spool)
    folder.mkdir(parents=True)
    mine = folder / "omsmsg-0000000002.parquet"
    if isinstance(content, bytes):
        mine.write_bytes(content)
    else:
        pq.write_table(pa.table({"a": [1]}), mine)
    before = mine.read_bytes()

    with pytest.raises(NotAnExport, match="was not made by an export"):
        refreshed(lake, spool)

    assert mine.read_bytes() == before


def test_other_files_in_the_directory_are_left_alone(spool: Path, lake: Path) -> None:
    folder = lake / database_of(spool)
    (lake / "photos").mkdir(parents=True)
    folder.mkdir()
    mine = [lake / "notes.txt", lake / "photos" / "a.parquet", folder / "my.csv", folder / ".x.unfinished"]
    for path in mine:
        path.write_bytes(b"mine")

    refreshed(lake, spool)
    refreshed(lake, spool, options=ExportOptions(prunes=True, wait_seconds=0))

    assert [path.read_bytes() for path in mine] == [b"mine"] * len(mine)


def test_a_place_that_cannot_be_a_lake_is_told(spool: Path, lake: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")

    for place in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(CannotWrite, match="cannot write a Parquet data set to"):
            refreshed(place, spool)
    for place in (spool, spool / "out", tmp_path / "x" / ".." / "spool"):
        with pytest.raises(LakeInJournal, match="a directory of data files"):
            refreshed(place, spool)
    with pytest.raises(NoJournal):
        refreshed(lake, tmp_path / "nowhere")
    assert not lake.exists()


def test_a_retention_directory_is_no_place_for_a_lake(spool: Path, tmp_path: Path) -> None:
    folder = tmp_path / "retained" / database_of(spool)
    folder.mkdir(parents=True)
    shutil.copy(sorted(spool.glob("*.data"))[0], folder)

    with pytest.raises(LakeInJournal, match="holds data files of a journal"):
        refreshed(tmp_path / "retained", spool)


class Stop(KeyboardInterrupt):
    """Stands for Ctrl-C."""


def test_an_export_that_is_interrupted_leaves_whole_files_only_and_is_gone_on_with(
    spool: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0
    original = rowgroups._groups

    def stopping(found: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        nonlocal made
        made += 1
        for table in original(found):
            yield table
            if made == 2:
                raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(rowgroups, "_groups", stopping)
        with pytest.raises(Stop):
            refreshed(lake, spool)
    assert names(lake) == ["omsmsg-0000000001"]
    assert [path.name for path in lake.rglob(".*")] == []

    found = refreshed(lake, spool)

    assert [Path(name).stem for name in found.there] == ["omsmsg-0000000001"]
    assert lake_rows(lake) == source_rows(spool)
    assert AT_ONCE.columns == COLUMNS
