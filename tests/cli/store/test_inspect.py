"""`oms stats`, `explain`, `dump` and `verify`, on running, clean and broken databases."""

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from oms_journal import MessageDatabase
from oms_journal.cli.output import size_text
from oms_journal.journal.format.records import TermColumns
from tests.support.cli_runner import oms, oms_json, oms_lines
from tests.support.disks.small_files import churn, open_small
from tests.support.journals.on_terms import add_on_terms
from tests.support.sweeps import a_sample

FIELDS = {
    "sequence",
    "offset",
    "commit",
    "operation",
    "message",
    "queue",
    "key",
    "time",
    "length",
    "properties",
}


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """A database of several files whose first one is pinned by one message."""
    with MessageDatabase.open(tmp_path / "spool", max_data_file_size="16K", compact_share=0.0) as db:
        kept = db.add("slow", b"keep me", properties={"secret": "p4ss"})
        assert kept == 1
        for _ in range(20):
            db.deliver_many(db.add_many("fast", [b"x" * 1000] * 8))
        db.put("state", b"value")
        db.drop("state")
        db.put("other", b"value")
    return tmp_path / "spool"


def damage(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def a_sealed_file(spool: Path) -> Path:
    return sorted(spool.glob("*.data"))[2]


def test_stats_count_files_messages_and_what_pins_them(spool: Path) -> None:
    found = oms_json("stats", spool=spool)

    assert {"files", "bytes", "live_bytes", "undelivered", "queues", "pinned_by", "archives"} <= set(found)
    assert found["files"] == len(list(spool.glob("*.data")))
    assert found["undelivered"] == 1
    assert found["queues"]["slow"]["undelivered"] == 1
    assert found["pinned_by"]["number"] == 1
    text = oms("stats", spool=spool).stdout
    assert "message 1 of queue slow" in text
    assert "not open" in text


def test_stats_name_the_process_that_has_a_database_open(spool: Path) -> None:
    with MessageDatabase.open(spool) as db:
        db.add("live", b"x")
        db.add("live", b"y")

        assert "open in process" in oms("stats", spool=spool).stdout
        assert oms_json("stats", spool=spool)["queues"]["live"]["undelivered"] >= 1


def test_explain_says_why_each_file_is_there(spool: Path) -> None:
    files = oms_json("explain", spool=spool)["files"]

    assert [file["name"] for file in files] == sorted(path.name for path in spool.glob("*.data"))
    assert files[0]["pinned_by"]["number"] == 1
    assert files[0]["pins_files"] == len(files) - 2  # the last one holds a key
    assert files[0]["freed_by_compact"] > 0
    text = oms("explain", spool=spool).stdout
    assert "slow #1" in text
    assert "`oms cleanup --compact` would free" in text


def test_explain_names_the_older_file_that_keeps_a_file_and_the_command_that_frees_it(spool: Path) -> None:
    files = oms_json("explain", spool=spool)["files"]
    text = oms("explain", spool=spool).stdout

    assert text.count("file 1, an older one") == files[0]["pins_files"]
    assert "nothing: can go" not in text
    assert "`oms cleanup` would free" not in text  # nothing before file 1 can go
    freed = int(sum(file["freed_by_compact"] for file in files))
    assert f"`oms cleanup --compact` would free {size_text(freed)}." in text


def test_explain_says_what_a_plain_cleanup_frees(spool: Path) -> None:
    with MessageDatabase.open(spool, compact_share=0.0) as db:
        db.deliver(1)
    text = oms("explain", spool=spool).stdout
    (first, *_) = oms_json("explain", spool=spool)["files"]

    assert not first["needed"]
    assert "nothing: can go" in text and "an older one" not in text.partition("key other")[0]
    assert "`oms cleanup` would free" in text


def test_explain_says_when_only_a_delivery_frees_later_files(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with MessageDatabase.open(spool, max_data_file_size="16K", compact_share=0.0) as db:
        db.add_many("slow", [b"x" * 1000] * 14)
        db.deliver_many(db.add_many("fast", [b"x" * 1000] * 4))
    text = oms("explain", spool=spool).stdout

    assert "file 1, an older one" in text
    assert "oms cleanup" not in text
    assert "No clean-up frees them before what file 1 holds is delivered, deleted or dropped." in text


def test_explain_has_an_answer_for_a_database_without_data_files(tmp_path: Path) -> None:
    (tmp_path / "omsmsg.lock").touch()

    assert oms("explain", spool=tmp_path).stdout == "There are no data files.\n"
    assert oms_json("explain", spool=tmp_path) == {"files": []}


def test_a_retention_directory_is_dumped_with_what_lies_in_its_folders(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    for name in ("a", "b"):
        with open_small(tmp_path / name, retention_directory=kept) as db:
            churn(db, 2)
            db.cleanup()

    found = oms_lines("dump", str(kept), spool=tmp_path / "none")
    folders = [sorted(folder.iterdir()) for folder in sorted(kept.iterdir())]

    assert len(folders) == 2 and all(folders)
    assert found == oms_lines("dump", *(str(path) for files in folders for path in files), spool=tmp_path / "none")
    assert "ADD" in {line["operation"] for line in found}


def test_dump_has_every_operation_in_order(spool: Path) -> None:
    found = oms_lines("dump", spool=spool)

    assert set(found[0]) >= FIELDS
    assert [line["operation"] for line in found if line["key"] is not None] == ["PUT", "DROP", "PUT"]
    adds = [line["message"] for line in found if line["operation"] == "ADD"]
    assert adds == sorted(adds)
    assert len(adds) == 161
    delivered = [line["message"] for line in found if line["operation"] == "DELIVER"]
    assert sorted(delivered) == adds[1:]
    places = [(line["sequence"], line["offset"]) for line in found]
    assert places == sorted(places)
    assert all(line["vouched"] for line in found)


def test_dump_shows_the_terms_of_messages(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        terms = TermColumns(due=[1_700_000_000_000_000], expiry=[-(1 << 63)], attempts=[0], groups=["größe".encode()])
        add_on_terms(db, "q", [b"later"], terms)
        db.add("q", b"without")

    later, without = oms_lines("dump", spool=tmp_path)
    line = oms("dump", spool=tmp_path).stdout.splitlines()[0]
    redacted, _ = oms_lines("dump", "--redact", spool=tmp_path)

    told = {"due": "2023-11-14T22:13:20.000000Z", "expiry": f"{-(1 << 63)} µs", "attempts": 0, "group": "größe"}
    assert {name: later[name] for name in told} == told
    assert all(f"{name} {value}" in line for name, value in told.items())
    assert redacted["group"] == "***" and redacted["due"] == told["due"]
    assert not told.keys() & without.keys()


def test_dump_shows_payloads_when_asked(spool: Path) -> None:
    plain, full = oms_lines("dump", spool=spool)[0], oms_lines("dump", "--payload", spool=spool)[0]

    assert "payload" not in plain
    assert base64.b64decode(full["payload"]) == b"keep me"
    assert full["length"] == 7
    assert "keep me" in oms("dump", "--payload", spool=spool).stdout


def test_dump_hides_contents_when_asked(spool: Path) -> None:
    assert oms_lines("dump", spool=spool)[0]["properties"] == {"secret": "p4ss"}
    assert oms_lines("dump", "--redact", spool=spool)[0]["properties"] == {"secret": "***"}
    for as_json in ([], ["--json"]):
        text = oms("dump", "--redact", *as_json, spool=spool).stdout
        assert "p4ss" not in text
        assert "keep me" not in text


@a_sample(2)
@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        (["--queue", "slow"], lambda line: line["queue"] == "slow"),
        (["--operation", "put", "-o", "DROP"], lambda line: line["operation"] in ("PUT", "DROP")),
        (["--from", "3"], lambda line: line["sequence"] >= 3),
        (["--to", "2"], lambda line: line["sequence"] <= 2),
        (
            ["--from", "2", "--to", "3", "-o", "ADD"],
            lambda line: line["sequence"] in (2, 3) and line["operation"] == "ADD",
        ),
        (["--from", "99"], lambda line: False),
    ],
)
def test_dump_can_be_narrowed(spool: Path, arguments: list[str], fits: Any) -> None:
    assert oms_lines("dump", *arguments, spool=spool) == [line for line in oms_lines("dump", spool=spool) if fits(line)]


def test_dump_reads_single_files_and_archives(spool: Path, tmp_path: Path) -> None:
    one = a_sealed_file(spool)
    archive = tmp_path / one.name.replace(".data", "-v0001.archive")
    shutil.copy(one, archive)

    expected = [line for line in oms_lines("dump", spool=spool) if line["sequence"] == 3]

    assert oms_lines("dump", str(one), spool=tmp_path) == expected
    assert oms_lines("dump", str(archive), spool=tmp_path) == expected
    assert oms("dump", str(tmp_path / "none"), spool=spool, code=2).stderr.count("\n") == 1


def test_dump_of_a_broken_file_goes_on_behind_the_damage(spool: Path) -> None:
    before = oms_lines("dump", spool=spool)
    path = a_sealed_file(spool)
    second = sorted({line["offset"] for line in before if line["sequence"] == 3})[1]
    damage(path, second)

    result = oms("dump", "--json", spool=spool, code=1)

    found = [json.loads(line) for line in result.stdout.splitlines()]
    lost = [line for line in found if line["damaged"]]
    assert [line for line in found if line not in lost] == [
        line for line in before if (line["sequence"], line["offset"]) != (3, second)
    ]
    assert {(line["sequence"], line["offset"]) for line in lost} == {(3, second)}, "the footer still knows them"
    told = json.loads(result.stderr)
    assert (told["file"], told["start"], told["repaired"]) == (path.name, second, False)
    assert path.name in oms("dump", spool=spool, code=1).stderr


def test_dump_marks_a_payload_that_is_damaged(spool: Path) -> None:
    damage(a_sealed_file(spool), 5584)

    found = oms_lines("dump", spool=spool, code=1)

    assert [line["operation"] for line in found if line["damaged"]] == ["ADD"]
    assert "DAMAGED" in oms("dump", spool=spool, code=1).stdout


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (-1, "1969-12-31T23:59:59.999999Z"),
        (0, "1970-01-01T00:00:00.000000Z"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
        (253_402_300_800_000_000, "253402300800000000 µs"),
    ],
)
def test_dump_tells_times_that_a_calendar_has_and_others(tmp_path: Path, time: int, text: str) -> None:
    with MessageDatabase.open(tmp_path, clock=lambda: time) as db:
        db.add("q", b"x")

    (line,) = oms_lines("dump", spool=tmp_path)
    assert (line["time"], line["first_time"]) == (text, text)
    assert oms("dump", spool=tmp_path).stdout == f"{1:4} {line['offset']:9}  {text[:19]}Z  ADD      q #1  1 B\n"


def test_dump_marks_what_nothing_vouches_for(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path / "spool") as db:
        db.add("q", b"x")
        db.add("q", b"y")
        found = oms_lines("dump", spool=tmp_path / "spool")
        text = oms("dump", spool=tmp_path / "spool").stdout

    assert [line["vouched"] for line in found] == [True, False], "the lock file knows of the first"
    assert "NOT VOUCHED FOR" in text
    assert all(line["vouched"] for line in oms_lines("dump", spool=tmp_path / "spool"))


def test_looking_changes_nothing(spool: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in spool.iterdir()}

    for command in (["list"], ["list", "slow"], ["show", "1"], ["stats"], ["explain"], ["dump"], ["verify"]):
        oms(*command, spool=spool)
    oms("recover", "--dry-run", spool=spool)

    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in spool.iterdir()} == before


def test_looking_works_while_the_database_is_running(spool: Path) -> None:
    with MessageDatabase.open(spool) as db:
        number = db.add("live", b"x")
        db.add("live", b"y")

        for command in (
            ["list"],
            ["list", "live"],
            ["show", str(number)],
            ["stats"],
            ["explain"],
            ["dump"],
            ["verify"],
        ):
            oms(*command, spool=spool)


def test_an_intact_directory_is_verified(spool: Path) -> None:
    found = oms_json("verify", spool=spool)

    assert found["intact"] is True
    assert {file["verdict"] for file in found["files"]} == {"clean"}
    assert {"name", "verdict", "good_end", "reason"} <= set(found["files"][0])
    assert oms("verify", spool=spool).stdout.startswith(f"Intact: {len(found['files'])} files, ")


def test_a_damaged_file_is_named_with_the_place(spool: Path) -> None:
    path = a_sealed_file(spool)
    damage(path, 2000)

    found = oms_json("verify", spool=spool, code=1)

    assert found["intact"] is False
    (bad,) = [file for file in found["files"] if file["verdict"] != "clean"]
    assert bad["name"] == path.name
    assert bad["verdict"] == "damaged"
    assert bad["reason"]
    text = oms("verify", spool=spool, code=1).stdout
    assert path.name in text
    assert "1 of " in text
