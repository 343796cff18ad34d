"""A lake is whole at any moment of an export: for who reads it then, and where the export is killed or fails there."""

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="not installed: pip install -e '.[parquet]'")

from oms_journal import MessageDatabase
from oms_journal.analysis.export.place import LOCK, LakeIsBusy, LocalPlace
from oms_journal.analysis.export.refresh import ExportOptions
from oms_journal.analysis.outdir import CannotWrite
from tests.analysis.export.lakes import lake_rows, places, refreshed, source_rows, with_moments
from tests.support.disks.small_files import churn, fill, open_small
from tests.support.journals.plain_rows import database_of
from tests.support.sweeps import Share, in_two_sizes

STEPS = 3


def grow(db: MessageDatabase, step: int) -> None:
    """Do what happens between two exports: files begin, grow, are sealed, and are deleted."""
    if step == 0:
        fill(db, 2)
    elif step == 1:
        db.add("q", b"one more")
        db._vouch()
    else:
        churn(db, 1)
        db.cleanup()


def copies_at_each_moment(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Export three times while a journal grows, and return what a SIGKILL at each moment would have left."""
    found: list[Path] = []

    def copy() -> None:
        found.append(tmp_path / "copies" / f"{len(found):03}")
        shutil.copytree(lake, found[-1])

    with open_small(tmp_path / "spool") as db:
        for step in range(STEPS):
            grow(db, step)
            with monkeypatch.context() as patched:
                with_moments(patched, copy)
                refreshed(lake, tmp_path / "spool")
    return found


@in_two_sizes
def test_an_export_that_is_killed_at_any_moment_leaves_each_operation_once_and_is_gone_on_with(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: Share
) -> None:
    copies = copies_at_each_moment(lake, tmp_path, monkeypatch)
    refreshed(lake, tmp_path / "spool")
    whole = lake_rows(lake)

    assert len(copies) > 50
    for copy in share.of(copies, 12):
        _cut_what_is_unfinished(copy)
        rows = lake_rows(copy)
        assert max(places(rows).values(), default=1) == 1
        assert places(rows) <= places(whole)
        refreshed(copy, tmp_path / "spool")
        there = {row["sequence"] for row in whole}
        assert {name for name in copy.rglob(".*")} == set()
        # What clean-up deleted while the export was down is missing, and told so.
        after = lake_rows(copy)
        assert [row for row in after if row["sequence"] in there] == after
        assert places(source_rows(tmp_path / "spool")) <= places(after)
        assert refreshed(copy, tmp_path / "spool").written == ()


def _cut_what_is_unfinished(copy: Path) -> None:
    """Leave half of a file that was only being written."""
    for path in copy.rglob(".*"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_who_reads_while_an_export_writes_sees_each_operation_once(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def read() -> None:
        rows = places(lake_rows(lake))
        assert max(rows.values(), default=1) == 1
        seen.append(len(rows))

    with_moments(monkeypatch, read)
    with open_small(tmp_path / "spool") as db:
        for step in range(STEPS):
            grow(db, step)
            refreshed(lake, tmp_path / "spool")

    assert seen == sorted(seen)  # nothing that was there goes
    assert len(set(seen)) > 3


@in_two_sizes
def test_an_export_that_fails_at_any_moment_says_so_and_leaves_a_whole_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: Share
) -> None:
    with open_small(tmp_path / "spool") as db:
        fill(db, 2)
    count = 0

    def counted() -> None:
        nonlocal count
        count += 1

    with monkeypatch.context() as patched:
        with_moments(patched, counted)
        refreshed(tmp_path / "counted", tmp_path / "spool")
    for moment in share.of(range(count), 8):
        lake, passed = tmp_path / f"lake-{moment}", 0

        def fail(moment: int = moment) -> None:
            nonlocal passed
            passed += 1
            if passed == moment + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched:
            with_moments(patched, fail)
            with pytest.raises(CannotWrite, match="No space left on device; give another directory"):
                refreshed(lake, tmp_path / "spool")
        assert places(lake_rows(lake)) <= places(source_rows(tmp_path / "spool"))
        refreshed(lake, tmp_path / "spool")
        assert lake_rows(lake) == source_rows(tmp_path / "spool")


def test_a_second_export_waits_for_the_first_or_is_refused(lake: Path, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        fill(db, 2)
    begun, may_end = threading.Event(), threading.Event()

    def first() -> None:
        with LocalPlace(lake).locked(0):
            begun.set()
            may_end.wait()

    thread = threading.Thread(target=first)
    thread.start()
    try:
        begun.wait()
        with pytest.raises(LakeIsBusy, match="another export writes to"):
            refreshed(lake, tmp_path / "spool")
        assert lake_rows(lake) == []
        second = threading.Thread(
            target=lambda: refreshed(lake, tmp_path / "spool", options=ExportOptions(wait_seconds=60))
        )
        second.start()
    finally:
        may_end.set()
        thread.join()
    second.join()
    assert lake_rows(lake) == source_rows(tmp_path / "spool")
    assert (lake / LOCK).exists()
    assert [path.name for path in lake.glob("*") if path.is_dir()] == [database_of(tmp_path / "spool")]
