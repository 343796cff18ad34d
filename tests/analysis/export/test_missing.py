"""What is not in a lake is told in a row, what clean-up deletes stays, and a lake that is pruned follows it."""

import csv
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="not installed: pip install -e '.[parquet]'")

from oms_journal.analysis.export.missing import HEADS, Missing, named_by, rows
from oms_journal.analysis.export.place import MISSING, STATE
from oms_journal.analysis.export.refresh import ExportOptions
from tests.analysis.export.lakes import cleaned, lake_files, lake_rows, places, refreshed, source_rows, with_moments
from tests.support.disks.small_files import churn, fill, open_small
from tests.support.journals.plain_rows import database_of

PRUNED = ExportOptions(prunes=True, wait_seconds=0)


def told(lake: Path) -> list[dict[str, str]]:
    """Return the rows of the tables, as any program reads them."""
    found = []
    for path in sorted(lake.glob(f"*/{MISSING}")):
        with path.open(encoding="utf-8", newline="") as file:
            found += list(csv.DictReader(file))
    return found


def test_what_clean_up_deletes_stays_in_the_lake(lake: Path, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        churn(db, 3)
        refreshed(lake, tmp_path / "spool")
        before = lake_rows(lake)
        gone = cleaned(db, 2)
        again = refreshed(lake, tmp_path / "spool")

    assert len(gone) >= 4
    assert places(before) <= places(lake_rows(lake))
    never_there = gone - {path.stem for path in lake_files(lake)}
    assert sum(one.files for one in again.missing if one.reason == "cleaned-up") == len(never_there)
    assert again.removed == ()


def test_files_that_were_deleted_before_they_were_exported_are_told_by_every_export(lake: Path, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        refreshed(lake, tmp_path / "spool")
        gone = cleaned(db, 4)
        first, again = (refreshed(lake, tmp_path / "spool") for _ in range(2))

    [row] = first.missing
    assert row == Missing(
        database=database_of(tmp_path / "spool"),
        first_file=f"{min(gone)}.data",
        last_file=f"{max(gone)}.data",
        files=len(gone),
        reason="cleaned-up",
    )
    assert str(row) == f"{min(gone)}.data to {max(gone)}.data ({len(gone)} files)"
    assert again.missing == first.missing
    assert told(lake) == [{name: str(getattr(row, name)) for name in HEADS}]


def test_what_turns_up_in_a_retention_directory_is_exported_and_missing_no_more(lake: Path, tmp_path: Path) -> None:
    spool, retained = tmp_path / "spool", tmp_path / "retained"
    retained.mkdir()
    with open_small(spool, retention_directory=retained) as db:
        gone = cleaned(db, 4)
        [row] = refreshed(lake, spool).missing
        both = refreshed(lake, spool, retained)
        spool_alone = refreshed(lake, spool)
        assert lake_rows(lake) == source_rows(spool, retained)

    assert row.files == len(gone)
    assert both.missing == spool_alone.missing == ()
    assert told(lake) == []


def test_a_file_that_is_moved_to_the_retention_directory_is_not_exported_again(lake: Path, tmp_path: Path) -> None:
    spool, retained = tmp_path / "spool", tmp_path / "retained"
    retained.mkdir()
    with open_small(spool, retention_directory=retained) as db:
        churn(db, 4)
        db._journal.maintain()
        refreshed(lake, spool, retained)
        db.cleanup()
        moved = refreshed(lake, spool, retained)

        assert {Path(name).stem for name in moved.written} <= {max(path.stem for path in lake_files(lake))}
        assert lake_rows(lake) == source_rows(spool, retained)


def test_a_file_that_was_exported_in_part_and_then_deleted_is_told(lake: Path, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        db.add("q", b"first")
        db.add("q", b"second")
        refreshed(lake, tmp_path / "spool")
        [begun] = lake_files(lake)
        before = lake_rows(lake)
        for number in list(db.numbers()):
            db.deliver(number)
        gone = cleaned(db, 3)
        found = refreshed(lake, tmp_path / "spool")

    assert begun.stem in gone
    assert [one.reason for one in found.missing] == ["in-part", "cleaned-up"]
    assert found.missing[0].first_file == f"{begun.stem}.data"
    assert places(before) <= places(lake_rows(lake))


def test_a_file_that_was_exported_to_its_end_while_it_was_written_is_whole(lake: Path, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        [number] = db.add_many("q", [b"first"])
        db.deliver(number)
        db.put("state", bytes(600))
        db._vouch()  # as after a second of silence
        refreshed(lake, tmp_path / "spool")
        [begun] = lake_files(lake)
        before = lake_rows(lake)
        db.put("other", bytes(3000))  # which is too long for the rest of the file, and stays
        db.drop("state")
        db._journal.seal_all()
        db.cleanup()
        found = refreshed(lake, tmp_path / "spool")

        assert not (tmp_path / "spool" / f"{begun.stem}.data").exists()
    assert len(before) == 3
    assert found.missing == ()


def test_a_file_that_is_still_needed_and_not_there_is_lost_and_its_rows_stay(lake: Path, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        fill(db, 4)
    second, third = (tmp_path / "spool" / f"omsmsg-000000000{number}.data" for number in (2, 3))
    second.unlink()
    found = refreshed(lake, tmp_path / "spool")
    third.unlink()
    later = refreshed(lake, tmp_path / "spool", options=PRUNED)

    assert [(one.first_file, one.reason) for one in found.missing] == [(second.name, "lost")]
    assert later.removed == ()
    assert f"{third.stem}.parquet" in {path.name for path in lake_files(lake)}
    assert [one.reason for one in later.missing] == ["lost"]


def test_a_file_that_goes_while_others_are_exported_is_missing(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = tmp_path / "spool"
    with open_small(spool) as db:
        fill(db, 4)
    third = spool / "omsmsg-0000000003.data"
    with monkeypatch.context() as patched:
        with_moments(patched, lambda: third.unlink(missing_ok=True) if lake_files(lake) else None)
        found = refreshed(lake, spool)

    assert [(one.first_file, one.files, one.reason) for one in found.missing] == [(third.name, 1, "cleaned-up")]
    assert found.damages == ()
    assert lake_rows(lake) == source_rows(spool)
    assert [one.reason for one in refreshed(lake, spool).missing] == ["lost"]  # no clean-up deletes what is needed


def test_a_file_that_is_moved_while_others_are_exported_is_found_where_it_is(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, retained = tmp_path / "spool", tmp_path / "retained"
    with open_small(spool) as db:
        fill(db, 4)
    folder = retained / database_of(spool)
    folder.mkdir(parents=True)
    third = spool / "omsmsg-0000000003.data"

    def move() -> None:
        if lake_files(lake) and third.exists():
            third.rename(folder / third.name)

    with monkeypatch.context() as patched:
        with_moments(patched, move)
        found = refreshed(lake, spool, retained)

    assert (found.missing, found.damages) == ((), ())
    assert lake_rows(lake) == source_rows(spool, retained)


def test_a_pruned_lake_follows_what_clean_up_deletes(lake: Path, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        churn(db, 3)
        refreshed(lake, tmp_path / "spool")
        gone = cleaned(db, 2)
        there = {path.stem for path in lake_files(lake)}
        kept = refreshed(lake, tmp_path / "spool")
        pruned = refreshed(lake, tmp_path / "spool", options=PRUNED)
        again = refreshed(lake, tmp_path / "spool", options=PRUNED)

        assert kept.removed == again.removed == again.written == ()
        assert {Path(name).stem for name in pruned.removed} == gone & there
        assert lake_rows(lake) == source_rows(tmp_path / "spool")
        assert (pruned.missing, told(lake)) == ((), [])


def test_pruning_leaves_the_files_of_other_journals_alone(lake: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        with open_small(tmp_path / name) as db:
            fill(db, 2)
    refreshed(lake, tmp_path / "one", tmp_path / "two")

    assert refreshed(lake, tmp_path / "one", options=PRUNED).removed == ()
    assert len(lake_rows(lake)) == len(source_rows(tmp_path / "one", tmp_path / "two"))


def test_without_what_the_last_export_saw_the_table_still_tells_what_is_missing(lake: Path, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        refreshed(lake, tmp_path / "spool")
        cleaned(db, 3)
        first = refreshed(lake, tmp_path / "spool")
        (lake / STATE).unlink()
        assert refreshed(lake, tmp_path / "spool").missing == first.missing


def test_neighbours_that_are_missing_for_one_reason_are_one_row() -> None:
    found = list(rows("d", {1: "cleaned-up", 2: "cleaned-up", 3: "lost", 5: "lost"}))

    assert [(one.first_file[-7:-5], one.last_file[-7:-5], one.files) for one in found] == [
        ("01", "02", 2),
        ("03", "03", 1),
        ("05", "05", 1),
    ]


@pytest.mark.parametrize(
    ("previous", "known", "gone"),
    [
        ({}, (), set()),
        ({1: 0}, (1,), set()),
        ({4: 3, 5: 4}, (4, 5), {1, 2, 3}),
        ({4: 3, 5: 4}, (1, 2, 3, 4, 5), set()),
        ({3: 2, 9: 3}, (3, 9), {1, 2}),  # the numbers jump from 3 to 9
        ({4: 3, 9: 7}, (2, 4, 9), {3, 5, 6, 7}),
    ],
)
def test_a_header_names_the_file_before_it_and_what_lies_between_was_there_too(
    previous: dict[int, int], known: tuple[int, ...], gone: set[int]
) -> None:
    assert named_by(previous, known) == gone
