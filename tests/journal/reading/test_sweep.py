"""Looking at all frames of a sealed file at once finds what a walk finds, and leaves to the walk what it cannot say."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from oms_journal import MessageDamaged, MessageDatabase
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.format.contents import COLUMNS
from oms_journal.journal.format.headers import FRAMES_AT
from oms_journal.journal.format.records import PROPERTIES
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.sweep import sweep
from oms_journal.journal.reading.walk import BadPayload, Span, walk
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.startup import recover
from oms_journal.recovery.validation import validate_directory
from tests.support.cli_runner import oms, oms_json
from tests.support.crashes.crash_store import Store, small_store
from tests.support.crashes.strange_frames import STRANGE, Strange, put_of, single_add, write_unchecked
from tests.support.sweeps import Share, a_sample, in_three_sizes

STORES = {
    "small files": small_store(),
    "aligned groups": small_store(group_alignment=512, max_data_file_size="64K"),
    "one file": small_store(max_data_file_size="64K"),
}


def swept(data: bytes, path: Path, footer: Footer) -> list[BadPayload] | None:
    path.write_bytes(data)
    with DataFile(RealDisk(), path) as file:
        return sweep(file.file, footer.summary, footer.contents())


@a_sample(1)
@in_three_sizes
@pytest.mark.parametrize("which", STORES)
def test_it_says_what_a_walk_says_wherever_a_byte_is_flipped(which: str, tmp_path: Path, share: Share) -> None:
    store: Store = STORES[which]
    tried = 0
    for name in store.data_files():
        data, path = store.files[name], tmp_path / name
        path.write_bytes(data)
        with DataFile(RealDisk(), path) as file:
            footer = file.footer(identity=None)
        assert isinstance(footer, Footer)
        header, end = footer.summary.header, footer.summary.end
        span = Span(sequence=header.sequence, identity=header.identity, limit=end)
        assert swept(data, path, footer) == []
        for place in share.every(12, range(FRAMES_AT, end, 11)):
            damaged = bytearray(data)
            damaged[place] ^= 1 << place % 8
            found, said = walk(bytes(damaged), span), swept(bytes(damaged), path, footer)
            if found.bad_ranges:
                assert said is None, place
            else:
                assert said == found.bad_payloads, place
                tried += bool(said)
    assert tried > 2


def test_a_footer_that_says_other_than_the_frames_is_left_to_the_walk(tmp_path: Path) -> None:
    store = STORES["one file"]
    path = tmp_path / store.newest()
    path.write_bytes(store.files[store.newest()])
    with DataFile(RealDisk(), path) as file:
        footer = file.footer(identity=None)
        assert isinstance(footer, Footer)
        contents = footer.contents()
        wrong_columns = set(COLUMNS) - {"producer", "offset", "first_time"}
        for name in sorted(wrong_columns):
            column = contents.columns[name].copy()
            column[len(column) // 2] ^= 1
            wrong = replace(contents, columns={**{each: contents.columns[each] for each in COLUMNS}, name: column})
            assert sweep(file.file, footer.summary, wrong) is None, name
        for other in (replace(footer.summary, frame_count=1), replace(footer.summary, chain=1)):
            assert sweep(file.file, other, contents) is None
        assert sweep(file.file, footer.summary, contents) == []


def written_wrongly(directory: Path, *wrong: Strange, good: int = 3) -> Path:
    """Return a closed database in which frames are as they were written, and what they speak of is not."""
    with MessageDatabase.open(directory) as db:
        db.add_many("good", [b"good"] * good)
        for strange in wrong:
            write_unchecked(db._journal, strange)
        db.add("good", b"last")
    return directory


OTHER = single_add(payload=b"X")
WRONG = {
    "a message": (OTHER, ("message", "q")),
    "a value": (put_of(b"key", b"other"), ("key", "key")),
    "a message with properties": (single_add(payload=b"XXXX", flags=PROPERTIES), ("message", "q")),
    "properties that are none": (single_add(payload=b"\xff\xffm", flags=PROPERTIES, is_right=True), ("message", "q")),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_was_written_wrongly_is_found_by_its_own_checksum_only(what: str, tmp_path: Path) -> None:
    strange, (kind, name) = WRONG[what]
    spool = written_wrongly(tmp_path / "spool", strange)

    quick = validate_directory(spool)
    (report,) = validate_directory(spool, payloads=True)
    (found,) = report.unreadable

    assert {one.verdict for one in (*quick, report)} == {Verdict.CLEAN}
    assert not any(one.unreadable_count for one in quick)
    assert (found.kind, found.name, found.file, report.unreadable_count) == (kind, name, report.name, 1)
    with MessageDatabase.open(spool) as db, pytest.raises(MessageDamaged) as damaged:
        db.read(found.number) if kind == "message" else db.get(name)
    assert (damaged.value.number, damaged.value.offset) == (found.number, found.offset)


def test_the_command_says_which_it_did_and_names_the_first_ones(tmp_path: Path) -> None:
    spool = written_wrongly(tmp_path / "spool", *[OTHER] * 25)

    text = oms("verify", spool=spool, code=1).stdout
    said = oms_json("verify", spool=spool, code=1)
    quick = oms_json("verify", "--quick", spool=spool)

    assert text.count("CANNOT BE READ: message ") == 10
    assert "… and 15 more" in text
    assert "25 messages or values cannot be read" in text
    assert "Intact" not in text
    assert (said["intact"], said["payloads"], said["unreadable_count"], len(said["unreadable"])) == (
        False,
        True,
        25,
        25,
    )
    assert {"kind": "message", "number": 4, "queue": "q"}.items() <= said["unreadable"][0].items()
    assert (quick["intact"], quick["payloads"]) == (True, False)
    assert "--quick" in oms("verify", "--quick", spool=spool).stdout


def test_an_intact_database_is_called_so_and_says_that_every_message_was_read(tmp_path: Path) -> None:
    assert "every message was read" in oms("verify", spool=written_wrongly(tmp_path / "spool")).stdout


@pytest.mark.whole
@pytest.mark.parametrize("what", STRANGE)
def test_a_file_with_any_strange_frame_is_no_intact_one(what: str, tmp_path: Path) -> None:
    spool = written_wrongly(tmp_path / "spool", STRANGE[what])
    assert oms_json("verify", spool=spool, code=1)["intact"] is False


@a_sample(2)
@pytest.mark.parametrize("is_closed", [False, True], ids=["killed", "closed"])
@pytest.mark.parametrize("what", ["a number of before", "several numbers of before", "the last commit number"])
def test_the_commands_come_to_an_end_where_numbers_go_back(what: str, is_closed: bool, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with MessageDatabase.open(spool) as db:
        db.add_many("good", [b"good"] * 3)
        write_unchecked(db._journal, STRANGE[what])
        db.deliver(db.add("good", b"delivered"))
        db.add("good", b"last")
        if not is_closed:
            spool = shutil.copytree(spool, tmp_path / "killed")

    listed = oms("list", "good", spool=spool)
    shown = oms("show", "1", spool=spool)
    dumped = oms("dump", spool=spool, code=1)

    assert (listed.stdout.count("good"), "good" in shown.stdout) == (3, True)
    assert ("last" in listed.stdout) is is_closed, "nothing vouches for the last one of a killed database"
    assert "cannot be understood" in dumped.stdout + dumped.stderr
    assert oms_json("recover", spool=spool, code=1)["lost"]
    assert oms_json("verify", spool=spool)["intact"]


def test_a_message_that_a_repair_found_damaged_is_told_until_nobody_wants_it(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with MessageDatabase.open(spool) as db:
        number = db.add("q", b"the payload")
        db.add("q", b"another")
    (path,) = spool.glob("*.data")
    path.write_bytes(path.read_bytes().replace(b"the payload", b"the pAyload"))

    text = oms("recover", spool=spool, code=1).stdout
    told = oms("verify", spool=spool, code=1).stdout
    oms("delete", str(number), "--yes", spool=spool)

    assert (
        f"LOST message {number} of queue q, in {path.name} at byte 4,352: its bytes do not match the checksum" in text
    )
    assert f"message {number} of queue q" in told
    assert oms("verify", spool=spool).stdout.startswith("Intact")


def test_a_flipped_payload_in_every_file_is_judged_as_a_walk_would(tmp_path: Path) -> None:
    """The verdict, and what is lost, are the same with a footer, by columns, and without one, by frames."""
    store = STORES["small files"]
    spool = tmp_path / "spool"
    spool.mkdir()
    for name, data in store.files.items():
        (spool / name).write_bytes(data)
    expected = set()
    for name in store.data_files():
        path = spool / name
        found = bytearray(path.read_bytes())
        piece = next(
            each for frame in store.frames_of(name) for each in frame.pieces if each.content and each.end > each.start
        )
        found[piece.start] ^= 1
        path.write_bytes(found)
        expected.add((name, piece.number))

    reports = validate_directory(spool, payloads=True)
    lost = recover(spool, dry_run=True).lost

    assert {report.verdict for report in reports} == {Verdict.DAMAGED}
    assert {(one.file, one.number) for report in reports for one in report.unreadable} == expected
    assert {(loss.name, loss.numbers[0][0]) for loss in lost} == expected
