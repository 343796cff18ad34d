"""A backup whose manifest is damaged: one copy is told and mended, without both every advice leads to the messages."""

import random
import re
from pathlib import Path

import pytest

from oms_journal import DatabaseView, MessageDatabase
from oms_journal.broker.embedded.broker import Broker
from oms_journal.database.backup.backup import Backup, BackupOptions, back_up
from oms_journal.database.backup.follow import Follower
from oms_journal.database.backup.restore import restore
from oms_journal.database.backup.verification import verify_backup
from oms_journal.journal import names
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.format import manifest
from tests.support.cli_runner import oms, oms_json
from tests.support.disks.small_files import churn, fill, open_small
from tests.support.sweeps import a_sample

REREAD = BackupOptions(vouch_seconds=0.2, rereads=True)
PLAIN = BackupOptions(vouch_seconds=0.2)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    with open_small(tmp_path / "spool") as db:
        fill(db, 3)
    return tmp_path / "spool"


@pytest.fixture
def target(spool: Path) -> Path:
    back_up(spool, spool.with_name("backup"), BackupOptions(links=False))
    return spool.with_name("backup")


def broken(target: Path, *halves: int) -> bytes:
    """Damage these copies of the manifest; return what it was."""
    path = target / names.BACKUP
    whole = path.read_bytes()
    data = bytearray(whole)
    for half in halves:
        data[half * len(data) // 2 + 40] ^= 0xFF
    path.write_bytes(data)
    return whole


def undelivered(directory: Path) -> dict[int, bytes]:
    with DatabaseView.open(directory) as view:
        return {message.number: message.payload for message in view.undelivered()}


def held(directory: Path) -> dict[int, bytes]:
    with MessageDatabase.open(directory) as db:
        return {message.number: message.payload for message in db.held()}


@pytest.mark.parametrize("half", [0, 1])
def test_one_damaged_copy_is_told_by_every_look_and_changes_nothing_else(target: Path, spool: Path, half: int) -> None:
    whole = broken(target, half)

    for command in (["backup", str(target), "--verify"], ["verify"]):
        said = oms(*command, spool=target, code=1).stdout
        assert "one of its two copies" in said and "Intact" not in said
    assert not oms_json("verify", spool=target, code=1)["intact"]
    assert undelivered(target) == undelivered(spool)
    assert oms_json("restore", str(target), spool=target.with_name("new"))["held"] == 0
    assert (target / names.BACKUP).read_bytes() != whole


@a_sample(2)
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("follows", [True, False])
def test_one_damaged_copy_is_mended_by_the_next_backup(target: Path, spool: Path, half: int, follows: bool) -> None:
    whole = broken(target, half)

    if follows:
        with Backup.open(spool, target, PLAIN) as backup:
            Follower(backup, PLAIN).poll()
    else:
        assert "it is whole again" in oms("backup", str(target), spool=spool).stdout
        assert "whole again" not in oms("backup", str(target), spool=spool).stdout

    assert len((target / names.BACKUP).read_bytes()) == len(whole)
    assert not manifest.flaw(RealDisk(), target)
    assert oms("backup", str(target), "--verify", spool=spool).stdout.startswith("Intact")


COMMANDS = [
    (["verify"], 4),
    (["recover", "--dry-run"], 4),
    (["recover"], 4),
    (["list"], 4),
    (["show", "1"], 4),
    (["stats"], 4),
    (["explain"], 4),
    (["dump"], 4),
    (["receive", "q"], 4),
    (["cleanup"], 4),
    (["backup", "{target}"], 4),
    (["backup", "{target}", "--follow"], 4),
    (["backup", "{target}", "--verify"], 4),
]


@a_sample(2)
@pytest.mark.parametrize(("words", "code"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS])
def test_without_both_the_advice_of_every_command_works(target: Path, spool: Path, words: list[str], code: int) -> None:
    expected = undelivered(spool)
    broken(target, 0, 1)
    place = spool if words[0] == "backup" else target

    result = oms(*[word.format(target=target) for word in words], spool=place, code=code)

    if not code:
        assert result.stdout.count("ADD") == len(expected), "it reads the data files themselves"
        return
    advised = set(re.findall(r"`oms ([a-z]+)", result.stderr))
    assert advised and advised <= {"restore", "backup"}, result.stderr
    if "restore" in advised:
        found = oms_json("restore", str(target), spool=spool.with_name("new"), code=1)
        assert found["held"] == len(expected) and found["changed"] == [names.BACKUP]
        assert held(spool.with_name("new")) == expected
    if "backup" in advised:
        assert "--reread" in result.stderr
        said = oms("backup", str(target), "--reread", spool=spool).stdout
        assert "it is whole again" in said
        assert oms("backup", str(target), "--verify", spool=spool).stdout.startswith("Intact")
        assert undelivered(target) == expected


def test_a_restore_without_a_manifest_says_what_it_is_of(target: Path) -> None:
    broken(target, 0, 1)
    said = oms("restore", str(target), spool=target.with_name("new"), code=1).stdout
    assert "restored is what its data files hold" in said
    assert "Nobody can see from here whether the original went on" in said


def test_what_is_damaged_besides_is_a_loss_and_the_rest_is_held(target: Path, spool: Path) -> None:
    expected = undelivered(spool)
    broken(target, 0, 1)
    chance = random.Random(3)
    files = sorted(target.glob("*.data"))
    for number, path in enumerate(files * 3):
        whole = path.read_bytes()
        data = bytearray(whole)
        at = chance.randrange(len(data))
        data[at] ^= 0xFF
        path.write_bytes(data)
        new = spool.with_name(f"new{number}")
        report = restore(target, new)
        kept = held(new)
        assert kept.items() <= expected.items()
        assert report.held == report.undelivered >= len(kept)
        assert kept == expected or report.recovery.lost
        path.write_bytes(whole)


def test_a_reread_brings_what_has_rotted_and_keeps_what_the_database_has_lost(target: Path, spool: Path) -> None:
    expected = undelivered(spool)
    files = sorted(target.glob("*.data"))
    for rotten in files:
        for lost in files:
            if lost is rotten:
                continue
            broken(target, 0, 1)
            kept = {path: path.read_bytes() for path in (rotten, spool / lost.name)}
            for path, data in kept.items():
                path.unlink()
                path.write_bytes(data[:1000] + bytes([data[1000] ^ 1]) + data[1001:])
            report = back_up(spool, target, REREAD)
            assert list(report.damage) in ([lost.name], [])
            assert undelivered(target) == expected, (rotten.name, lost.name)
            for path, data in kept.items():
                path.write_bytes(data)
            back_up(spool, target, REREAD)
    reports = verify_backup(target)
    assert reports is not None and all(one.verdict == "clean" for one in reports)


def test_a_running_database_is_rebuilt_to_what_it_has_by_now(spool: Path, target: Path) -> None:
    with open_small(spool) as db:
        churn(db, 2)
        back_up(spool, target, PLAIN)
        broken(target, 0, 1)
        added = db.add("q", b"since")
        report = back_up(spool, target, BackupOptions(rereads=True))
        assert report.is_mended and not report.is_first
    assert added in undelivered(target)


def test_another_databases_backup_is_not_taken_over(target: Path, tmp_path: Path) -> None:
    with open_small(tmp_path / "other") as db:
        db.add("q", b"x")
    broken(target, 0, 1)
    before = {path.name: path.read_bytes() for path in target.iterdir() if path.name != names.LOCK}
    assert "another database" in oms("backup", str(target), "--reread", spool=tmp_path / "other", code=4).stderr
    assert {path.name: path.read_bytes() for path in target.iterdir() if path.name != names.LOCK} == before


def test_what_waits_in_a_brokers_store_is_held_by_the_broker(tmp_path: Path) -> None:
    with Broker.open(tmp_path / "spool") as broker, broker.session("ALICE", token="PC1") as alice:
        alice.send("A/B/C", b"before")
    oms("backup", str(tmp_path / "backup"), spool=tmp_path / "spool")
    broken(tmp_path / "backup", 0, 1)
    assert oms_json("restore", str(tmp_path / "backup"), spool=tmp_path / "new", code=1)["has_broker"]
    with Broker.open(tmp_path / "new") as broker, broker.session("BOB", token="S1") as bob:
        bob.register("A/B/C")
        assert list(bob.receive_units(wait=0)) == []


def test_without_any_data_file_it_says_so(target: Path) -> None:
    broken(target, 0, 1)
    for path in target.glob("*.data"):
        path.write_bytes(b"")
    assert "none of its data files" in oms("restore", str(target), spool=target.with_name("new"), code=4).stderr


# Bytes behind the end.


@pytest.mark.parametrize("extra", [1, 8, 5000])
def test_bytes_behind_a_sealed_files_end_are_not_intact(target: Path, spool: Path, extra: int) -> None:
    path = target / "omsmsg-0000000002.data"
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(extra))

    assert "stand behind" in oms("backup", str(target), "--verify", spool=spool, code=1).stdout
    oms("backup", str(target), "--reread", "--copy", spool=spool)

    assert path.read_bytes() == whole
    assert oms("backup", str(target), "--verify", spool=spool).stdout.startswith("Intact")


def test_bytes_behind_the_end_of_the_file_that_is_written_go_with_the_next_backup(tmp_path: Path) -> None:
    spool, target = tmp_path / "spool", tmp_path / "backup"
    with MessageDatabase.open(spool) as db:
        db.add("q", b"x")
        back_up(spool, target)
        (path,) = target.glob("*.data")
        whole = path.read_bytes()
        path.write_bytes(whole + b"of a back-up that was ended")
        back_up(spool, target)
        assert path.read_bytes() == whole
