"""`oms restore` with real files and processes: whole or not at all, and another database."""

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from oms_journal import AsyncMessageDatabase, DatabaseView, MessageDatabase, NotThisDatabase, RestoreUnfinished
from oms_journal.broker.embedded.broker import Broker
from oms_journal.database.backup.backup import back_up
from oms_journal.journal import names
from tests.support.cli_runner import command_line, environment, invoked, oms, oms_json
from tests.support.journals.analysed import analysed
from tests.support.sweeps import a_sample


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """Return a backup of a database that was running, and has gone on since."""
    with MessageDatabase.open(tmp_path / "spool", max_data_file_size=16_384) as db:
        for number in range(1, 101):
            db.add("orders", b"x" * 500, properties={"order": f"A-{number}"}, producer_id=f"p{number}")
        db.deliver_many(range(1, 11))
        db.put("key", b"value")
        db._vouch()
        back_up(tmp_path / "spool", tmp_path / "backup")
        db.deliver_many(range(11, 61))
        db.add("orders", b"since")
        for _ in range(40):
            db.delete(db.add("other", b"y" * 1000))
    return tmp_path / "backup"


def restored(backup: Path) -> Path:
    spool = backup.parent / "new"
    oms("restore", str(backup), spool=spool)
    return spool


@pytest.mark.whole
def test_a_night_with_a_lost_machine(backup: Path, tmp_path: Path) -> None:
    spool = tmp_path / "new"
    before = {path.name: path.read_bytes() for path in backup.iterdir()}

    said = oms("restore", str(backup), spool=spool).stdout

    assert "90, 90 of these held back" in said
    assert f"Restored into {spool}" in said
    assert {path.name: path.read_bytes() for path in backup.iterdir()} == before
    assert oms("receive", "orders", "--count", "1", spool=spool, code=1).stdout == ""
    assert oms_json("list", "--held", spool=spool)["queues"]["orders"]["held"] == 90
    has = tmp_path / "has"
    has.write_text("".join(f"A-{number}\n" for number in range(1, 61)))
    done = oms_json("release", "--except", str(has), "--by", "property:order", "--yes", spool=spool)
    assert (done["discarded"], done["released"], done["unknown"]) == (50, 40, 10)
    with MessageDatabase.open(spool) as db:
        assert [message.number for message in db.undelivered("orders")] == list(range(61, 101))
        assert db.get("key") == b"value"
        assert db.add("orders", b"x" * 500, producer_id="p50") == 50, "a resend"
        assert db.add("orders", b"since") > 1 << 40
    assert oms("verify", spool=spool).stdout.startswith("Intact")
    assert re.search(r"\n\d{7} .* ADD ", oms("dump", spool=spool).stdout), "a file of its own, far behind the parent's"
    assert oms_json("explain", spool=spool)["files"]


def test_the_report_as_json(backup: Path) -> None:
    found = oms_json("restore", str(backup), spool=backup.parent / "new")
    assert found["intact"]
    assert (found["held"], found["undelivered"], found["was_closed"]) == (90, 90, False)
    assert found["database"] != found["parent"]
    assert json.dumps(found)


def _closed(backup: Path) -> Path:
    """Have the backup be of its database as it was closed; return that one's directory."""
    back_up(backup.parent / "spool", backup)
    return backup.parent / "spool"


def test_of_a_closed_database_that_is_there_untouched_nothing_is_held(backup: Path, tmp_path: Path) -> None:
    original, spool = _closed(backup), tmp_path / "new"
    said = oms("restore", str(backup), spool=spool).stdout
    assert f"The original is in {os.uname().nodename}:{original}, untouched since this backup." in said
    assert "Nothing is held. Open only one" in said
    assert oms_json("stats", spool=spool)["held"] == 0
    assert oms("receive", "orders", "--count", "41", spool=spool).stdout.endswith("since\n")


@pytest.mark.whole
def test_of_a_closed_database_that_nobody_sees_all_is_held_and_it_is_said_what_to_do(
    backup: Path, tmp_path: Path
) -> None:
    _closed(backup).rename(tmp_path / "gone")
    spool = tmp_path / "new"
    said = oms("restore", str(backup), spool=spool).stdout
    assert "Nobody can see from here whether the original went on" in said
    assert "restore anew with --no-hold" in said
    assert oms("receive", "orders", spool=spool, code=1).stdout == ""
    advised = re.search(r"`oms (release --all --spool \S+)`", said)
    assert advised is not None
    oms(*advised[1].split(), "--yes")
    assert oms("receive", "orders", "--count", "41", spool=spool).stdout.endswith("since\n")


@pytest.mark.parametrize(
    "went_on, said",
    [(True, "The original went on"), pytest.param(None, "Nobody can see", marks=pytest.mark.whole)],
)
def test_what_is_known_of_the_original_is_told_in_words_of_its_own(
    backup: Path, tmp_path: Path, went_on: bool | None, said: str
) -> None:
    original = _closed(backup)
    if went_on:
        oms("receive", "orders", spool=original)
    else:
        original.rename(tmp_path / "gone")
    for name, arguments, found in (("all", [], 41), ("none", ["--no-hold"], 0)):
        report = oms_json("restore", str(backup), *arguments, spool=tmp_path / name)
        assert (report["went_on"], report["held"]) == (went_on, found)
    assert said in oms("restore", str(backup), spool=tmp_path / "told").stdout
    again = oms("restore", str(backup), "--no-hold", spool=tmp_path / "knows").stdout
    assert "Nothing is held: what the original delivered after this backup is handed out again." in again
    assert len(oms("receive", "orders", "--count", "41", spool=tmp_path / "knows").stdout.splitlines()) == 41


@a_sample(3)
@pytest.mark.parametrize(
    "arguments, place, said",
    [
        ([], "new", "BACKUP is missing"),
        (["nowhere"], "new", "is no backup"),
        (["spool"], "new", "is no backup"),
        (["backup"], "spool", "not empty"),
        (["backup"], "backup", "one in the other"),
        (["backup"], "backup/new", "one in the other"),
        (["backup"], ".", "one in the other"),
        (["backup"], "spool/omsmsg.lock", "omsmsg.lock"),
        (["backup", "--policy", "salvage"], "new", "there is no option"),
    ],
)
def test_what_cannot_be_restored_is_refused_with_one_line(
    backup: Path, tmp_path: Path, arguments: list[str], place: str, said: str
) -> None:
    paths = [one if one.startswith("--") or one == "salvage" else str(tmp_path / one) for one in arguments]
    before = sorted(str(path) for path in tmp_path.rglob("*"))

    result = invoked("restore", *paths, variables={"SPOOL_DIRECTORY": str(tmp_path / place)})

    assert result.exit_code in (2, 4), result.stderr
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_damage_of_the_backup_is_reported_with_exit_code_1(backup: Path) -> None:
    first = min(backup.glob("*.data"))
    data = bytearray(first.read_bytes())
    data[5584] ^= 1
    first.write_bytes(data)
    result = oms("restore", str(backup), spool=backup.parent / "new", code=1)
    assert f"{first.name} is not as it was when it was backed up." in result.stdout
    assert "LOST" in result.stdout
    assert oms_json("stats", spool=backup.parent / "new")["held"] >= 80


@a_sample(1)
@pytest.mark.parametrize("delay", [0.0, 0.3, 0.5, 0.7, 0.9])
def test_a_killed_restore_says_so_and_is_run_again(backup: Path, tmp_path: Path, delay: float) -> None:
    spool = tmp_path / "new"
    process = subprocess.Popen(
        command_line("restore", str(backup)),
        env=environment(spool),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if not (spool / names.RESTORE).exists() and list(spool.glob("*.data")):
        assert oms_json("stats", spool=spool)["held"] == 90
        return
    if (spool / names.RESTORE).exists():
        with pytest.raises(RestoreUnfinished):
            MessageDatabase.open(spool)
    assert oms_json("restore", str(backup), spool=spool)["held"] == 90


def test_an_unfinished_restore_is_told_by_every_command(backup: Path) -> None:
    spool = restored(backup)
    (spool / names.RESTORE).write_bytes((backup / names.BACKUP).read_bytes())
    has = backup.parent / "has"
    has.write_text("1\n")
    for command in (
        ["stats"], ["list"], ["show", "1"], ["explain"], ["verify"], ["recover"], ["recover", "--dry-run"], ["cleanup"],
        ["send", "q", "x"], ["receive", "q"], ["delete", "1", "--yes"], ["release", "--except", str(has)],
    ):  # fmt: skip
        result = oms(*command, spool=spool, code=4)
        assert "unfinished restore: run `oms restore` again" in result.stderr


def test_the_old_and_the_new_refuse_each_others_files(backup: Path, tmp_path: Path) -> None:
    spool, old = restored(backup), tmp_path / "spool"
    with MessageDatabase.open(spool) as db:
        db.add("orders", b"new")
    for source, target in ((old, spool), (spool, old)):
        foreign = [path for path in source.glob("*.data") if not (target / path.name).exists()]
        assert foreign
        for path in foreign:
            (target / path.name).write_bytes(path.read_bytes())
        result = oms("stats", spool=target, code=4)
        assert "different" in result.stderr or "two directories" in result.stderr
        with pytest.raises(NotThisDatabase):
            MessageDatabase.open(target)
        for path in foreign:
            (target / path.name).unlink()
        with DatabaseView.open(target) as view:
            assert view.undelivered_count()


def test_the_analysis_reads_both_generations_under_one_name(backup: Path) -> None:
    spool = restored(backup)
    with MessageDatabase.open(spool) as db:
        db.unhold()
        db.deliver(20)
        db.add("orders", b"new")
        identity = db._journal._opening.database.hex()
    rows = analysed(spool)
    assert {row["database"] for row in rows} == {identity}
    assert {row["operation"] for row in rows if row["message"] == 20} == {"ADD", "DELIVER"}


@pytest.mark.whole
def test_what_waits_in_a_brokers_store_is_held_by_the_broker(tmp_path: Path) -> None:
    with Broker.open(tmp_path / "spool") as broker, broker.session("ALICE", token="PC1") as alice:
        sent = alice.send("A/B/C", b"before")
        oms("backup", str(tmp_path / "backup"), spool=tmp_path / "spool")
    spool = restored(tmp_path / "backup")
    with Broker.open(spool) as broker, broker.session("BOB", token="S1") as bob:
        bob.register("A/B/C")
        assert list(bob.receive_units(wait=0)) == [], "it may have been delivered since"
        with broker.session("ALICE", token="PC2") as alice:
            after = alice.send("A/B/C", b"after")
        assert after.uowid != sent.uowid
        assert [unit.uowid for unit in bob.receive_units(wait=0)] == [after.uowid]


@pytest.mark.parametrize("is_seen", [True, False])
def test_what_a_broker_delivered_after_a_cold_backup_is_not_delivered_again(tmp_path: Path, is_seen: bool) -> None:
    original = tmp_path / "spool"
    with Broker.open(original) as broker, broker.session("ALICE", token="PC1") as alice:
        alice.send("A/B/C", b"once")
    oms("backup", str(tmp_path / "backup"), spool=original)
    with Broker.open(original) as broker, broker.session("BOB", token="S1") as bob:
        bob.register("A/B/C")
        (unit,) = bob.receive_units(wait=0)
        unit.commit()
    if not is_seen:
        original.rename(tmp_path / "lost")
    spool = restored(tmp_path / "backup")
    with Broker.open(spool) as broker, broker.session("BOB", token="S1") as bob:
        bob.register("A/B/C")
        assert list(bob.receive_units(wait=0)) == []


@pytest.mark.whole
def test_asyncio_has_it_too(backup: Path) -> None:
    spool = restored(backup)

    async def main() -> None:
        async with AsyncMessageDatabase.open(spool) as db:
            assert len(await db.held()) == 90
            assert await db.discard_held(range(11, 61)) == 50
            assert await db.unhold() == 40
            assert [message.number async for message in db.undelivered()] == list(range(61, 101))

    asyncio.run(main())
