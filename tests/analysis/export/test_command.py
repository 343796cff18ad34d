"""`oms export`: what it says, what it refuses, and that it can follow, be stopped and be killed."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="not installed: pip install -e '.[parquet]'")

from oms_journal.analysis.export.place import LOCK, MISSING
from tests.analysis.export.lakes import cleaned, lake_files, lake_rows, places, refreshed, source_rows
from tests.support.cli_runner import command_line, environment, oms, oms_json
from tests.support.disks.small_files import fill, open_small
from tests.support.journals.plain_rows import database_of

WAIT_SECONDS = 120


def test_the_command_says_what_it_wrote_and_takes_the_spool_by_default(spool: Path, lake: Path) -> None:
    first = oms("export", "--parquet", str(lake), "--payload", spool=spool)
    again = oms_json("export", "--parquet", str(lake), "--payload", spool=spool)

    assert first.stdout.splitlines()[0].startswith(f"7 new operations: {len(again['there'])} Parquet files written, ")
    assert first.stdout.splitlines()[-1] == f"The files: {lake}"
    assert (again["written"], again["rows"], again["directory"]) == ([], 0, str(lake))
    assert (again["removed"], again["missing"], again["damages"]) == ([], [], [])
    assert [len(row["payload"]) for row in lake_rows(lake)] == [700] * 7


def test_the_command_names_what_clean_up_had_deleted_and_prunes_when_it_is_told_to(lake: Path, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with open_small(spool) as db:
        cleaned(db, 3)
        first = oms("export", "--parquet", str(lake), spool=spool)
        told = oms_json("export", "--parquet", str(lake), spool=spool)
        cleaned(db, 3)
        refreshed(lake, spool)
        pruned = oms("export", "--parquet", str(lake), "--prune", spool=spool)

    assert "Not in it, since clean-up had deleted them before: omsmsg-0000000001.data to " in first.stdout
    [row] = told["missing"]
    assert (row["database"], row["first"], row["reason"]) == (
        database_of(spool),
        "omsmsg-0000000001.data",
        "cleaned-up",
    )
    assert "removed: clean-up has deleted what" in pruned.stdout
    assert list(lake.glob(f"*/{MISSING}")) == []


def test_the_command_exits_1_and_says_why_where_something_cannot_be_read_or_is_lost(spool: Path, lake: Path) -> None:
    first, second, *_ = sorted(spool.glob("*.data"))
    first.write_bytes(first.read_bytes()[:4500])
    second.unlink()

    for _ in range(2):
        result = oms("export", str(spool), "--parquet", str(lake), code=1)

        assert f"oms: {first.name} at byte" in result.stderr
        assert f"oms: {second.name} is lost" in result.stderr
        assert f"Not in it, since they are lost: {second.name}." in result.stdout


def test_the_command_refuses_what_cannot_work_in_one_line(spool: Path, lake: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "other").mkdir()
    shutil.copy(sorted(spool.glob("*.data"))[0], tmp_path / "other" / "notes.txt")
    refreshed(lake, spool)

    for arguments, text, code in (
        ([str(tmp_path / "nowhere"), "--parquet", "out"], "does not exist", 2),
        ([str(tmp_path / "other"), "--parquet", "out"], "holds no message database", 2),
        ([str(spool), "--parquet", str(tmp_path / "file")], "cannot write", 4),
        ([str(spool), "--parquet", str(spool / "out")], "a directory of data files", 2),
        ([str(spool), "--parquet", str(lake), "--payload"], "made with other columns", 2),
        ([str(spool), "--parquet", str(lake), "--follow", "--interval", "0"], "--interval", 2),
        ([str(spool), "--parquet", "nowhere://x/y"], "nowhere", 4),
        ([str(spool)], "--parquet", 2),
    ):
        error = oms("export", *arguments, code=code).stderr
        assert text in error
        assert error.count("\n") == 1


def follower(lake: Path, spool: Path, *more: str) -> "subprocess.Popen[str]":
    """Start an export that follows."""
    arguments = ("export", "--parquet", str(lake), "--follow", "--interval", "0.05", *more)
    return subprocess.Popen(
        command_line(*arguments), env=environment(spool), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_rows(lake: Path, count: int) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while len(lake_rows(lake)) < count:
        assert time.monotonic() < end, "the follower does not follow"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_follower_brings_what_comes_until_it_is_stopped(number: signal.Signals, lake: Path, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        fill(db, 2)
        process = follower(lake, tmp_path / "spool", "--json")
        try:
            wait_for_rows(lake, 4)
            fill(db, 2)
            db._vouch()
            wait_for_rows(lake, len(source_rows(tmp_path / "spool")))
            process.send_signal(number)
            out, error = process.communicate(timeout=WAIT_SECONDS)
        finally:
            process.kill()
        assert lake_rows(lake) == source_rows(tmp_path / "spool")

    assert (process.returncode, error) == (0, "")
    told = [json.loads(line) for line in out.splitlines()]
    assert len(told) > 1
    assert sum(each["rows"] for each in told) == len(lake_rows(lake))


def test_a_follower_that_is_killed_leaves_a_whole_data_set_and_another_one_goes_on(lake: Path, tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        for _ in range(2):
            process = follower(lake, tmp_path / "spool")
            try:
                fill(db, 3)
                wait_for_rows(lake, 2)
            finally:
                process.kill()
                process.communicate(timeout=WAIT_SECONDS)
            found = places(lake_rows(lake))
            assert max(found.values()) == 1
            assert found <= places(source_rows(tmp_path / "spool"))
        refreshed(lake, tmp_path / "spool")
        assert lake_rows(lake) == source_rows(tmp_path / "spool")
    assert [path.name for path in lake.rglob(".*")] == []
    assert (lake / LOCK).exists()


def test_a_follower_tries_again_what_fails_meanwhile(lake: Path, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with open_small(spool) as db:
        fill(db, 1)
    process = follower(lake, spool)
    try:
        wait_for_rows(lake, 2)
        spool.rename(tmp_path / "away")
        assert process.stderr is not None
        assert process.stderr.readline().endswith("trying again\n")
        (tmp_path / "away").rename(spool)
        assert process.stderr.readline() == "oms: the export goes on\n"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=WAIT_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0
    assert out.splitlines()[-1] == f"The files: {lake}"
    assert os.listdir(lake)  # noqa: PTH208
    assert lake_files(lake)
