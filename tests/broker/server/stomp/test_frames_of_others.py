"""A frame whose checksum is right and whose content nobody understands costs that frame, and nothing else."""

import itertools
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from xxhash import xxh3_64_intdigest

from oms_journal import DatabaseView, MessageDamaged, MessageDatabase
from oms_journal.database.backup.backup import back_up
from oms_journal.database.backup.verification import verify_backup
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import RecoveryRefused
from oms_journal.journal.reading.dump import DumpedDamage, DumpedOperation
from oms_journal.recovery.dump import dump
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.startup import recover
from oms_journal.recovery.validation import validate_directory
from tests.support.crashes.crash_model import (
    SPOOL,
    Account,
    State,
    Unattended,
    Writer,
    found_after,
    open_unattended,
    state_of,
)
from tests.support.crashes.strange_frames import STRANGE, Strange, single_add, write_unchecked
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.journals.descriptions import describe, difference
from tests.support.journals.java_reader import HAS_JAVA, java_reader
from tests.support.sweeps import a_sample, for_each

PLACES = ["first", "middle", "last of a file", "last of all"]
ENDINGS = ["closed", "killed"]


class Broken:
    """A database of three files, in one of which a broken writer has put a frame."""

    def __init__(self, strange: Strange, place: str, *, is_closed: bool = True, alignment: int = 8) -> None:
        self.disk, self.account = SimulatedDisk(), Account()
        database = open_unattended(self.disk, group_alignment=alignment, max_data_file_size="64K")
        writer = Writer(database, self.account)
        self.offset, self.name = 0, ""
        for turn in range(3):
            if turn:
                database._journal.roll_at_next_commit()
            if turn == 1 and place == "first":
                self._roll(database)
                self._write(database, strange)
            numbers = writer.add_many("many", [b"x" * turn, b"y", b"z"])
            writer.put("key", bytes([turn]))
            if turn == 1 and place == "middle":
                self._write(database, strange)
            writer.deliver(numbers[0], numbers[2])
            writer.add("props", b"with", kind="b")
            if (turn, place) in ((1, "last of a file"), (2, "last of all")):
                self._write(database, strange)
        if is_closed:
            database.close()
        self.files = self.disk.contents(SPOOL)

    def _roll(self, database: Unattended) -> None:
        """Begin the next file, with the frame to come as its first."""
        database._journal._roll()
        database._journal._rolls_next = False
        segment, place = database._journal._active, database._journal._place
        assert segment is not None and place is not None
        segment.prepare(4096)

    def _write(self, database: Unattended, strange: Strange) -> None:
        self.offset = write_unchecked(database._journal, strange)
        assert database._journal._active is not None
        self.name = database._journal._active.path.name

    def killed(self) -> SimulatedDisk:
        """Return a disk with the files as they are: nobody has them open."""
        disk = SimulatedDisk()
        for name, data in self.files.items():
            disk.put(SPOOL / name, data)
        return disk

    def on_real_disk(self, directory: Path) -> Path:
        directory.mkdir()
        for name, data in self.files.items():
            (directory / name).write_bytes(data)
        return directory


@pytest.mark.whole
@for_each(
    ("what", "place", "ending"),
    itertools.product(STRANGE, PLACES, ENDINGS),
    sample=12,
    kind=lambda row: row[0],
    is_long=True,
)
def test_it_costs_that_frame_only_is_told_once_and_keeps_the_numbers_clear(what: str, place: str, ending: str) -> None:
    broken = Broken(STRANGE[what], place, is_closed=ending == "closed")
    disk = broken.killed()

    with open_unattended(disk) as database:
        report = database.recovery
        found = state_of(database)
        number = database.add("later", b"goes on")
        database.deliver(number)

    assert found == broken.account.state
    (loss,) = report.lost
    assert (loss.name, loss.start) == (broken.name, broken.offset)
    assert "cannot be understood" in loss.reason
    assert [file.name for file in report.files if file.verdict is Verdict.DAMAGED] == [broken.name]
    assert disk.contents(SPOOL)[str(report.archives[0])] == broken.files[broken.name]
    assert number > broken.account.highest + 1
    assert found_after(disk) == broken.account.state


@pytest.mark.parametrize("alignment", [512, 4096])
@pytest.mark.parametrize("place", PLACES)
def test_it_is_no_padding_where_groups_are_aligned(place: str, alignment: int) -> None:
    broken = Broken(STRANGE["an ADD of no message"], place, is_closed=False, alignment=alignment)

    with open_unattended(broken.killed()) as database:
        assert state_of(database) == broken.account.state
        (loss,) = database.recovery.lost
        assert (loss.name, loss.start) == (broken.name, broken.offset)


@pytest.mark.parametrize("place", PLACES)
def test_several_of_them_cost_as_many_frames(place: str) -> None:
    disk, account = SimulatedDisk(), Account()
    database = open_unattended(disk)
    writer, offsets = Writer(database, account), []
    writer.add("before", b"m")
    for turn, strange in enumerate(STRANGE.values()):
        offsets.append(write_unchecked(database._journal, strange))
        if turn % 3 == PLACES.index(place) % 3:
            writer.add("between", b"m")
    database.close()

    with open_unattended(disk) as again:
        assert state_of(again) == account.state
        assert [loss.start for loss in again.recovery.lost] == offsets
    assert found_after(disk) == account.state


def test_the_policy_refuse_refuses_and_truncate_cuts_there() -> None:
    broken = Broken(STRANGE["an unknown kind"], "middle")
    with pytest.raises(RecoveryRefused, match="cannot be understood"):
        open_unattended(broken.killed(), policy="refuse")

    with open_unattended(broken.killed(), policy="truncate") as database:
        found = state_of(database)
        (loss,) = database.recovery.lost

    assert (loss.name, loss.start) == (broken.name, broken.offset)
    gone = [number for first, last in loss.numbers for number in range(first, last + 1)]
    assert all(number in found.messages or number in gone for number in broken.account.state.messages)
    assert set(broken.account.state.messages) - set(found.messages)


@pytest.mark.parametrize("place", PLACES)
def test_what_its_removals_removed_may_come_back_and_is_held_where_that_is_wanted(place: str) -> None:
    removal = STRANGE["a set of other numbers than it says"]
    broken = Broken(removal, place, is_closed=False)
    (reached,) = [int(broken.name[7:17])]

    with open_unattended(broken.killed(), hold_suspects=True) as database:
        suspects = [one for one in database.recovery.suspects if one.kind == "message"]
        found = state_of(database)
        sequences = {message.number: message.sequence for message in [*database.undelivered(), *database.held()]}

    assert suspects
    assert found.held == {number for number in found.messages if sequences[number] <= reached}
    assert State(found.messages, found.keys) == broken.account.state


def _looked_at(path: Path) -> set[int]:
    with DatabaseView.open(path) as view:
        view.stats(), view.explain(), view.queues()
        return {message.number for message in view.undelivered()}


@a_sample(10)
@pytest.mark.parametrize("what", STRANGE)
def test_every_reader_reads_all_the_rest_and_says_what_is_lost(what: str, tmp_path: Path) -> None:
    broken = Broken(STRANGE[what], "middle")
    spool = broken.on_real_disk(tmp_path / "spool")
    before = {path.name: path.read_bytes() for path in spool.iterdir()}

    (bad,) = [file for file in validate_directory(spool) if file.verdict is not Verdict.CLEAN]
    dumped = list(dump(RealDisk(), [spool]))
    (damage,) = [one for one in dumped if isinstance(one, DumpedDamage)]
    (loss,) = recover(spool, dry_run=True).lost
    report = back_up(spool, tmp_path / "backup")
    in_backup = verify_backup(tmp_path / "backup") or ()

    assert (bad.name, bad.verdict) == (broken.name, Verdict.DAMAGED)
    assert (damage.file, damage.start) == (broken.name, broken.offset) == (loss.name, loss.start)
    assert not HAS_JAVA or not difference(describe(spool), java_reader().read(spool))
    assert _looked_at(spool) == broken.account.state.messages.keys() == _live(dumped)
    assert list(report.damage) == [broken.name]
    assert [file.name for file in in_backup if file.verdict is Verdict.DAMAGED] == [broken.name]
    assert {path.name: path.read_bytes() for path in spool.iterdir()} == before


def _live(dumped: list[DumpedOperation | DumpedDamage]) -> set[int]:
    live: set[int] = set()
    for one in dumped:
        if isinstance(one, DumpedOperation) and one.message is not None:
            (live.add if one.operation == "ADD" else live.discard)(one.message)
    return live


def test_a_database_of_a_generator_of_messages_gives_all_the_others(tmp_path: Path) -> None:
    """A record about 0 messages, then good commits that were acknowledged, then a close: then every tool goes on."""
    with MessageDatabase.open(tmp_path / "spool") as db:
        first = db.add("q", b"before")
        write_unchecked(db._journal, STRANGE["an ADD of no message"])
        later = [db.add("q", bytes([n])) for n in range(20)]

    with MessageDatabase.open(tmp_path / "spool") as db:
        assert [message.number for message in db.undelivered("q")] == [first, *later]
        (loss,) = db.recovery.lost
        assert "it is about no message at all" in loss.reason
        assert loss.numbers == ()
    with MessageDatabase.open(tmp_path / "spool") as db:
        assert db.recovery.intact


def test_a_queue_whose_name_is_no_text_in_a_sealed_file_costs_its_message_only(tmp_path: Path) -> None:
    """The footer has the name right: whoever reads by it meets the record when the message is read."""
    with MessageDatabase.open(tmp_path / "spool") as db:
        kept, lost = db.add("kept", b"before"), db.add("lost", b"message")
        after, place = db.add("kept", b"after"), db.read(lost)
    file = tmp_path / "spool" / "omsmsg-0000000001.data"
    data = bytearray(file.read_bytes())
    start, (identity,) = place.offset, struct.unpack_from("<Q", data, 56)
    records = start + 56 + struct.unpack_from("<I", data, start + 12)[0]
    data[start:records] = data[start:records].replace(b"lost", b"l\xfft!")
    checksum = xxh3_64_intdigest(bytes(data[start + 8 : records]), (identity + start) % 2**64)
    struct.pack_into("<Q", data, start, checksum)
    file.write_bytes(data)

    with DatabaseView.open(tmp_path / "spool") as view:
        assert [message.number for message in view.undelivered()] == [kept, after]
        assert view.stats().undelivered == 3
        with pytest.raises(MessageDamaged, match=f"message {lost}"):
            view.read(lost)
    with MessageDatabase.open(tmp_path / "spool", validation="footers") as db:
        assert db.take("lost") is None


def test_a_message_with_a_number_of_before_is_damage_while_the_database_is_open_too(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path / "spool") as db:
        first = db.add("q", b"before")
        offset = write_unchecked(db._journal, replace(single_add(payload=b"m", is_right=True), messages=0))
        later = [db.add("q", b"after") for _ in range(3)]
        (running,) = validate_directory(tmp_path / "spool", payloads=True)
        assert [message.number for message in db.undelivered()] == [first, *later]
    (closed,) = validate_directory(tmp_path / "spool", payloads=True)

    for report in (running, closed):
        (loss,) = report.losses
        assert (report.verdict, loss.start) == (Verdict.DAMAGED, offset)
        assert "numbers from" in loss.reason
