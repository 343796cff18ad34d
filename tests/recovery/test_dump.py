"""A dump of a directory says of each file what recovery says: the same judgement as `verify`, `list` and a start."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oms_journal import MessageDatabase
from oms_journal.database.backup.backup import back_up
from oms_journal.index.duplicates import WindowBounds
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import NotThisDatabase
from oms_journal.journal.format.headers import HEADERS_SIZE
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.dump import PART_ROWS, DumpedDamage, DumpedOperation, dump_files
from oms_journal.recovery.dump import dump
from oms_journal.recovery.replay import replay
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.validation import examine_directory, no_progress, validate_directory
from tests.support.crashes.crash_model import SPOOL, forget_witness, open_unattended
from tests.support.crashes.crash_store import Store, small_store
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.disks.small_files import fill, open_small
from tests.support.sweeps import Share, a_sample, in_three_sizes

STORES = {
    "sealed": small_store(),
    "unsealed": small_store(is_closed=False),
    "aligned": small_store(is_closed=False, group_alignment=64),
}


def dumped(disk: SimulatedDisk) -> tuple[list[DumpedOperation], list[DumpedDamage]]:
    found = list(dump(disk, [SPOOL]))
    operations = [one for one in found if isinstance(one, DumpedOperation)]
    return operations, [one for one in found if isinstance(one, DumpedDamage) and not one.is_gap]


def undelivered(operations: list[DumpedOperation]) -> list[int]:
    """Return the messages that are undelivered after the operations that something vouches for."""
    live = dict[int, None]()
    for one in operations:
        if one.message is None or not one.vouched:
            continue
        if one.operation == "ADD":
            live.setdefault(one.message)
        else:
            live.pop(one.message, None)
    return sorted(live)


def report_of(disk: SimulatedDisk) -> dict[str, Verdict]:
    return {report.name: report.verdict for report in validate_directory(SPOOL, disk)}


# Files of which their neighbours say what they cannot say themselves.


def taken_over() -> tuple[SimulatedDisk, str]:
    """Return a disk with a file that its owner wrote after another had taken over, and its name."""
    disk = SimulatedDisk()
    with open_unattended(disk) as database:
        database.add("q", b"acknowledged")
    with open_unattended(disk) as former:
        former.add("q", b"too late")
        former.add("q", b"likewise")
    name = str(DataFileName(2))
    late = disk.content(SPOOL / name)
    disk.put(SPOOL / name, bytes(8192))  # as the other one sees it: prepared, and not its own
    forget_witness(disk)
    with open_unattended(disk) as current:
        current.add("q", b"by the new owner")
    disk.put(SPOOL / name, late)
    return disk, name


@pytest.mark.parametrize("is_hurt", [False, True])
def test_nothing_in_a_late_file_is_vouched_for_and_nothing_before_it_is_damaged(is_hurt: bool) -> None:
    disk, late = taken_over()
    if is_hurt:
        disk.put(SPOOL / late, disk.content(SPOOL / late).replace(b"likewise", b"LIKEWISE"))
    operations, damages = dumped(disk)

    assert damages == []
    assert [(one.payload, one.file == late, one.vouched) for one in operations] == [
        (b"acknowledged", False, True),
        (b"too late", True, False),
        (b"LIKEWISE" if is_hurt else b"likewise", True, False),
        (b"by the new owner", False, True),
    ]
    assert report_of(disk)[late] is Verdict.TORN
    assert undelivered(operations) == [1, 2]


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("is_gone", [True, False], ids=["missing", "emptied"])
def test_a_file_that_is_named_and_has_nothing_is_told_as_damage_in_its_place(place: int, is_gone: bool) -> None:
    disk = SimulatedDisk()
    with open_unattended(disk) as database:
        fill(database, 2)
    names = sorted(name for name in disk.list(SPOOL) if name.endswith(".data") and any(disk.content(SPOOL / name)))
    path = SPOOL / names[place]
    is_told = place < len(names) - 1 or is_gone
    disk.remove(path) if is_gone else disk.put(path, bytes(4096))

    operations, damages = dumped(disk)

    assert {one.file for one in operations} == {*names} - {path.name}
    assert [one.file for one in damages] == [path.name]
    assert is_told or report_of(disk)[path.name] is Verdict.DAMAGED


def test_a_backup_ends_as_its_manifest_says(tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as database:
        kept = fill(database, 1)
        database._vouch()
        back_up(tmp_path / "spool", tmp_path / "backup")
        shown = list(dump(RealDisk(), [tmp_path / "backup"]))
        later = [database.add("q", b"later") for _ in range(3)]
        for path in (tmp_path / "spool").glob("*.data"):
            if any(path.read_bytes()):
                (tmp_path / "backup" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "backup" / str(DataFileName(9))).write_bytes(b"of a back-up that was not finished")

    assert list(dump(RealDisk(), [tmp_path / "backup"])) == shown
    assert all(isinstance(one, DumpedOperation) and one.vouched for one in shown)
    assert {one.message for one in shown if isinstance(one, DumpedOperation)} >= {n for ns in kept.values() for n in ns}
    assert not any(isinstance(one, DumpedOperation) and one.message in later for one in shown)


def test_a_file_of_another_database_is_refused_as_by_verify_and_read_by_its_own_path(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with open_small(tmp_path / name) as database:
            fill(database, 2 if name == "a" else 1)
    stranger = tmp_path / "b" / str(DataFileName(1))
    stranger.write_bytes((tmp_path / "a" / stranger.name).read_bytes())

    for look in (lambda: [*dump(RealDisk(), [tmp_path / "b"])], lambda: [*validate_directory(tmp_path / "b")]):
        with pytest.raises(NotThisDatabase):
            look()
    assert len([*dump(RealDisk(), [stranger])]) == 2


def test_what_is_not_needed_any_more_is_left_out(tmp_path: Path) -> None:
    with open_small(tmp_path) as database:
        churned = fill(database, 2)
        database.deliver_many([number for numbers in churned.values() for number in numbers])
        database._journal.seal_all()
        first = (tmp_path / str(DataFileName(1))).read_bytes()
        database.cleanup()
        database.add("q", b"last")
    (tmp_path / str(DataFileName(1))).write_bytes(first)

    assert 1 not in {one.sequence for one in dump(RealDisk(), [tmp_path])}
    assert 1 in {one.sequence for one in dump(RealDisk(), [tmp_path / str(DataFileName(1))])}


# The two ways to read a file: by its footer where all is as that says, and by a walk.


@pytest.mark.parametrize("kind", STORES)
def test_a_walk_shows_what_a_footer_does(kind: str) -> None:
    store, sealed_count = STORES[kind], 0
    for name in store.data_files():
        data = store.files[name]
        ends = max(frame.end for frame in store.frames_of(name))
        sealed_count += len(data) > ends and data.endswith(b"2ATOOFSM")
        whole, walked = (
            [*dump_files(store.damaged(name, content), [SPOOL / name])] for content in (data, data[:ends] + bytes(4096))
        )
        assert [replace(one, vouched=True) for one in walked if isinstance(one, DumpedOperation)] == [
            replace(one, vouched=True) for one in whole if isinstance(one, DumpedOperation)
        ]
        assert whole and len(walked) == len(whole)
    assert sealed_count == len(store.data_files()) - (kind != "sealed") > 1


def test_a_set_of_more_numbers_than_a_part_has_rows_is_shown_whole(tmp_path: Path) -> None:
    count = 3 * PART_ROWS // 2
    with MessageDatabase.open(tmp_path, max_data_file_size="8M") as database:
        numbers = [*database.add_many("q", [b""] * count), database.add("q", b"x")]
        database.deliver_many(numbers[::2])
        database.deliver_many(numbers[1::2])
    found = [one for one in dump(RealDisk(), [tmp_path]) if isinstance(one, DumpedOperation)]

    assert [one.message for one in found] == [*numbers, *numbers[::2], *numbers[1::2]]
    assert [one.payload for one in found if one.operation == "ADD"] == [b""] * count + [b"x"]
    assert {(one.payload, one.length, one.properties) for one in found if one.operation == "DELIVER"} == {(None,) * 3}


# Whatever is wrong with a directory.


def kind_of(what: str) -> str:
    """Return which file is hurt in which way, without the place."""
    return what.rstrip("0123456789")


def wrongs(store: Store) -> Iterator[tuple[str, SimulatedDisk]]:
    """Yield the store, hurt in one way after the other."""
    yield "whole", store.disk()
    for name in store.data_files():
        data = store.files[name]
        yield f"{name} missing", store.damaged(name, None)
        yield f"{name} emptied", store.damaged(name, bytes(len(data)))
        yield f"{name} without headers", store.damaged(name, bytes(HEADERS_SIZE) + data[HEADERS_SIZE:])
        yield f"{name} without any header", store.damaged(name, bytes(HEADERS_SIZE) + data[HEADERS_SIZE:-1] + b"?")
        for size in range(0, len(data), 211):
            yield f"{name} cut at {size}", store.damaged(name, data[:size])
            yield f"{name} zeroed from {size}", store.damaged(name, data[:size] + bytes(len(data) - size))
        for at in range(3, len(data), 89):
            yield f"{name} flipped at {at}", store.flipped(name, 8 * at)


def live_in(disk: SimulatedDisk) -> set[int]:
    """Return the messages that are undelivered by what `verify` reads and something vouches for."""
    examined = examine_directory(
        disk, SPOOL, no_progress, full=True, mark=lambda task: replace(task, vouched_only=True)
    )
    index, _ = replay(disk, examined, WindowBounds())
    return {number for block in index.table.batches(None, 0, index.highest_number()) for number in block[0].tolist()}


@a_sample(1)
@in_three_sizes
@pytest.mark.parametrize("kind", STORES)
def test_a_dump_agrees_with_verify_whatever_is_wrong(kind: str, share: Share) -> None:
    seen, is_mine = 0, share.chooser(27)
    for number, (what, disk) in enumerate(wrongs(STORES[kind])):
        if not is_mine(number, kind_of(what)):
            continue
        operations, damages = dumped(disk)
        live = live_in(disk)
        is_hurt = {one.message for one in operations if one.damaged}
        rows = {report.name: (report.verdict, report.row) for report in validate_directory(SPOOL, disk)}
        lost = {name for name, (verdict, row) in rows.items() if verdict is Verdict.DAMAGED and row == "damaged"}

        assert live - is_hurt == set(undelivered(operations)) - is_hurt, what
        assert lost <= {one.file for one in damages} | {one.file for one in operations if one.damaged}, what
        seen += bool(damages)
    assert seen > 6
