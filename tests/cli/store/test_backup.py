"""`oms backup`: what it says, its exit codes, and how a follower ends."""

import json
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from oms_journal import DatabaseView, MessageDatabase
from oms_journal.journal import names
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.format import manifest
from tests.support.cli_runner import command_line, environment, oms, oms_json
from tests.support.disks.small_files import fill, open_small
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.warm_starts import Process


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    with open_small(tmp_path / "spool") as db:
        fill(db, 3)
    return tmp_path / "spool"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "backup"


def test_it_says_what_was_done_and_how_far_the_backup_goes(spool: Path, target: Path) -> None:
    assert oms("backup", str(target), spool=spool).stdout.startswith("Backed up to commit ")
    found = oms_json("backup", str(target), spool=spool)

    assert (found["files"], found["kept"], found["was_closed"], found["damage"]) == (4, 4, True, {})
    with DatabaseView.open(target) as backup, DatabaseView.open(spool) as original:
        assert list(backup.numbers()) == list(original.numbers())


def test_linked_files_are_told_to_share_the_disk_and_copies_are_not(spool: Path, target: Path, tmp_path: Path) -> None:
    assert "share the disk" in oms("backup", str(target), spool=spool).stdout
    assert "share the disk" not in oms("backup", str(tmp_path / "other"), "--copy", spool=spool).stdout


def test_damage_is_told_and_the_exit_code_is_1(spool: Path, target: Path) -> None:
    path = spool / "omsmsg-0000000002.data"
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)

    result = oms("backup", str(target), spool=spool, code=1)

    assert "DAMAGED omsmsg-0000000002.data" in result.stdout and "Backed up to commit" in result.stdout
    assert oms_json("backup", str(target), spool=spool, code=1)["damage"]
    assert "omsmsg-0000000002.data" in oms("verify", spool=target, code=1).stdout
    assert not oms_json("backup", str(target), "--verify", spool=spool, code=1)["intact"]


@pytest.mark.parametrize(("inside", "code"), [("spool/in", 2), ("spool", 2), (".", 2), ("letters", 4), ("other", 4)])
def test_nothing_else_is_overwritten(tmp_path: Path, spool: Path, inside: str, code: int) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter.txt").write_text("dear")
    with open_small(tmp_path / "other") as db:
        db.add("q", b"m")
    before = sorted(path.name for path in (tmp_path / inside).glob("*"))

    oms("backup", str(tmp_path / inside), spool=spool, code=code)

    assert sorted(path.name for path in (tmp_path / inside).glob("*")) == before


def test_what_is_no_database_and_what_is_no_backup_is_told(spool: Path, target: Path, tmp_path: Path) -> None:
    oms("backup", str(target), spool=tmp_path / "missing", code=2)
    oms("backup", str(tmp_path / "missing"), "--verify", spool=spool, code=2)
    oms("backup", str(spool), "--verify", spool=spool, code=2)
    assert not target.exists()


def test_a_backup_is_looked_at_as_it_lies(spool: Path, target: Path) -> None:
    oms("backup", str(target), spool=spool)

    assert oms("backup", str(target), "--verify", spool=spool).stdout.startswith("Intact: 4 files")
    assert oms_json("verify", spool=target)["intact"]
    (target / "omsmsg-0000000003.data").unlink()
    assert "--reread" in oms("backup", str(target), "--verify", spool=spool, code=1).stdout
    oms("backup", str(target), spool=spool)
    assert oms_json("verify", spool=target)["intact"]


def test_what_has_rotted_in_a_backup_is_brought_anew_on_demand(spool: Path, target: Path) -> None:
    oms("backup", str(target), "--copy", spool=spool)
    path = target / "omsmsg-0000000002.data"
    whole = path.read_bytes()
    path.write_bytes(whole[:1000] + b"\xff" + whole[1001:])
    oms("backup", str(target), "--copy", spool=spool)
    oms("verify", spool=target, code=1)

    found = oms_json("backup", str(target), "--copy", "--reread", spool=spool)

    assert (found["kept"], found["copied"], path.read_bytes()) == (3, 1, whole)
    assert oms_json("verify", spool=target)["intact"]
    oms("backup", str(target), "--follow", "--reread", spool=spool, code=2)


def test_a_backup_that_was_never_finished_is_not_called_intact(spool: Path, target: Path) -> None:
    oms("backup", str(target), spool=spool)
    known = manifest.read(RealDisk(), target)
    assert known is not None
    manifest.write(RealDisk(), target, replace(known, files=()))

    for command in (["backup", str(target), "--verify"], ["verify"], ["list"], ["restore", str(target)]):
        place = target.with_name("new") if command[0] == "restore" else target
        assert "no finished backup" in oms(*command, spool=place, code=4).stderr
    oms("backup", str(target), spool=spool)
    assert oms_json("verify", spool=target)["intact"]


def test_an_unfinished_restore_is_not_backed_up(spool: Path, target: Path, tmp_path: Path) -> None:
    oms("backup", str(target), spool=spool)
    known = manifest.read(RealDisk(), target)
    assert known is not None
    manifest.write(RealDisk(), spool, known, names.RESTORE)

    assert "unfinished restore" in oms("backup", str(tmp_path / "other"), spool=spool, code=4).stderr
    assert not (tmp_path / "other").exists()


def test_nobody_opens_a_backup_for_writing(spool: Path, target: Path) -> None:
    oms("backup", str(target), spool=spool)

    for command in (["receive", "q"], ["send", "q", "text"], ["recover"], ["cleanup"]):
        assert "oms restore" in oms(*command, spool=target, code=4).stderr
    assert oms("list", spool=target).stdout


@pytest.mark.whole
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_follower_ends_in_good_order_when_it_is_told_to(spool: Path, target: Path, number: signal.Signals) -> None:
    follower = Process(
        command_line("backup", str(target), "--follow", "--interval", "0.02", "--json"),
        env=environment(spool),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert follower.stdout is not None
        first = json.loads(follower.stdout.readline())
        assert first["report"]["is_first"]
        with MessageDatabase.open(spool) as db:
            last = [db.add("q", b"later") for _ in range(3)][-1]
        until = time.monotonic() + TIMEOUT_SECONDS
        while last not in _numbers(target) and time.monotonic() < until:
            time.sleep(0.02)
        follower.send_signal(number)
        lines = [json.loads(line) for line in follower.stdout]
        assert follower.wait(TIMEOUT_SECONDS) == 0
    finally:
        follower.kill()
        follower.communicate()
    assert last in _numbers(target)
    assert all(line["lag_seconds"] >= 0 for line in lines)


def _numbers(directory: Path) -> list[int]:
    with DatabaseView.open(directory) as view:
        return list(view.numbers())
