"""Scripts of the engine's simulated world that the checker once judged wrongly, or that chance makes hardly ever."""

import pytest

from tests.simulation.engine.bounds import check_kept
from tests.simulation.engine.start import KEPT
from tests.simulation.engine.steps import (
    Add,
    AddMany,
    CleanUp,
    Close,
    Death,
    Fail,
    Group,
    Look,
    Misplace,
    PowerCut,
    Remove,
    Reopen,
    Rot,
    Silence,
    Space,
    Tend,
)
from tests.simulation.playing import play_script
from tests.simulation.world import PromiseBroken, Script, Step
from tests.simulation.worlds import WORLDS
from tests.support.crashes.crash_model import open_unattended
from tests.support.disks.faulty_bytes import SECTOR
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import Share, in_two_sizes


def _assert_nothing_breaks(script: Script) -> None:
    failure = play_script(WORLDS["engine"], script).failure
    assert failure is None, f"{failure.promise}\n{failure.found}"


@pytest.mark.whole
@pytest.mark.parametrize("what", ["gone", "emptied"])
@pytest.mark.parametrize("after", range(1, 11))
def test_a_file_that_a_killed_clean_up_was_to_remove_is_missed_by_nobody(what: str, after: int) -> None:
    """Once the mark is durable, each file below it may go, be there, or be anything."""
    adds = [Add(0, 2600, seed) for seed in range(3)]
    clean_up = [Tend(), adds[2], Silence(1.0), Death(after), CleanUp(compact=False)]
    _assert_nothing_breaks([*adds[:2], Remove((0, 1), delivers=True), *clean_up, Misplace(what, 0)])


@pytest.mark.whole
@pytest.mark.parametrize("end", ["killed", "power cut"])
@pytest.mark.parametrize("after", range(1, 25))
def test_what_a_start_has_found_that_was_ended_is_told_by_the_next_one(end: str, after: int) -> None:
    """The rot has gone with the repair: what must be found is known from before it."""
    work = [AddMany(1, (0, 1, 100, 20), 0), Silence(1.0), Remove((0,), delivers=True), AddMany(0, (300, 300), 1)]
    rot = [Rot(0, 0.26, SECTOR, 1), Rot(1, 0.26, 0, 1)]
    cut = PowerCut(after, 3) if end == "power cut" else Death(after)
    _assert_nothing_breaks([*work, Add(2, 3000, 2), Add(2, 600, 3), Close(), *rot, cut, Look(), Look()])


@pytest.mark.parametrize("end", [Close(), Reopen()], ids=["closed", "opened anew"])
@pytest.mark.parametrize("verb", ["write", "sync", "truncate"])
@pytest.mark.parametrize("nth", range(1, 5))
def test_what_could_not_be_sealed_when_it_was_closed_is_opened_again(verb: str, nth: int, end: Step) -> None:
    """The caller is told; the directory is let go of all the same, and all that was acknowledged is there."""
    work = [AddMany(0, (2600, 60), 0), Fail(verb, nth), end]
    _assert_nothing_breaks([*work, Remove((1,), delivers=False), Add(0, 8, 1), Look()])


@pytest.mark.parametrize("end", [Close(), Reopen()], ids=["closed", "opened anew"])
def test_what_found_no_room_when_it_was_closed_is_opened_again(end: Step) -> None:
    work = [AddMany(0, (2600, 60), 0), Space(0), end, Space(None)]
    _assert_nothing_breaks([*work, Remove((1,), delivers=False), Add(0, 8, 1), Look()])


@in_two_sizes
@pytest.mark.parametrize("end", ["killed", "power cut"])
def test_what_a_start_was_to_hold_that_was_ended_is_held_by_one_that_was_not_to_hold_anything(
    end: str, share: Share
) -> None:
    """Also where the mark of clean-up has rotted: what is lost then is only told by the report, if anybody has that."""
    work = [Add(0, 2600, 1), Add(0, 2600, 2), Add(1, 20, 3), Silence(1.0), Remove((0,), delivers=True)]
    work += [CleanUp(compact=False), Add(1, 20, 4), Silence(1.0), Close(), Rot(1, 0.25, SECTOR, 1)]
    for after in share.of(range(1, 65), 16):  # a start that comes to its end among them
        cut = PowerCut(after, 0) if end == "power cut" else Death(after)
        _assert_nothing_breaks([*work, Reopen(holds=True), cut, Look(), Reopen(), Look()])


@pytest.mark.whole
@pytest.mark.parametrize("end", ["killed", "power cut"])
@pytest.mark.parametrize("after", range(1, 45))
def test_what_was_torn_and_a_start_has_dropped_that_was_ended_is_told_by_one_that_would_not_have(
    end: str, after: int
) -> None:
    """There is nothing left that it might refuse."""
    torn = [Reopen(alignment=512), AddMany(0, (100, 0, 60), 0), PowerCut(0, 0), Rot(0, 0.2847, 0, 0)]
    cut = PowerCut(after, 0) if end == "power cut" else Death(after)
    _assert_nothing_breaks([*torn, cut, Look(), Reopen(policy="refuse")])


def test_a_file_that_has_lost_its_header_to_another_one_is_moved_away_as_it_is() -> None:
    """Rot goes with its file: where clean-up has moved it, nobody looks for what it was."""
    options = Reopen(7680, 8, "footers", 0.5, retention=True, policy="refuse", otherwise="truncate", holds=True)
    parts = (Add(1, 200, 4, 3), AddMany(2, (5000,), 1), Remove((17, 29, 20, 15, 26), delivers=True), Add(0, 1, 8))
    work = [PowerCut(13, 0), Add(0, 0, 0), Remove((36,), delivers=True), Silence(1.0), Group(parts)]
    work += [Remove((0,), delivers=True), Death(1), Remove((41, 46, 52, 14, 45, 8, 13, 36, 27, 38, 20, 59), True)]
    astray = [Fail("write_durably", 1, 0, misdirected=209403), AddMany(0, (100, 60, 200, 0, 60), 0), PowerCut(0, 0)]
    _assert_nothing_breaks([options, Remove((*range(40),), delivers=True), *work, *astray, Add(0, 0, 0)])


def test_a_file_that_is_damaged_when_it_is_moved_away_is_found() -> None:
    disk = SimulatedDisk()
    with open_unattended(disk, retention_directory=KEPT) as database:
        number = database.add("q", bytes(3000))
        database.put("k", bytes(3000))
        database.deliver(number)
        database._journal.roll_at_next_commit()
        database.put("k", b"")
        database.put("k", b"")
        assert database.cleanup().moved
    check_kept(disk, KEPT)
    (kept,) = [path for path in disk.directories() if path.parent == KEPT]
    name, data = next(iter(disk.contents(kept).items()))
    disk.put(kept / name, data[:1500] + bytes([data[1500] ^ 1]) + data[1501:])
    with pytest.raises(PromiseBroken):
        check_kept(disk, KEPT)


def test_a_file_whose_first_group_rots_is_promised_by_no_footer_that_has_rotted_too() -> None:
    """It looks as if the one before it had been closed, and the power had gone while this one was begun."""
    work = [Add(0, 2600, 1), Add(0, 2600, 2), Tend(), Tend()]
    for footer in range(70, 100, 3):
        rot = [Rot(1, 0.2, 0, 0), Rot(0, footer / 100, 0, 0)]
        _assert_nothing_breaks([*work, *rot, PowerCut(0, 0), Look()])


def test_what_nothing_vouches_for_and_has_become_zeros_is_missed_by_nobody() -> None:
    """The lock file knows the first group of a file, and both that were there read as zeros from then on."""
    options = Reopen(7680, 512, "full", 0.0, retention=False, policy="refuse", otherwise="truncate", holds=True)
    work = [Add(0, 0, 0), Add(0, 0, 0), Remove((*range(40),), delivers=True), Close(), CleanUp(), Add(2, 0, 0)]
    astray = Fail("write_durably", 2, 0, misdirected=410823)
    identified = Add(2, 0, 24278, 0, has_producer=True)
    _assert_nothing_breaks([options, *work, CleanUp(is_due=True), astray, identified, Tend(), Remove((0,), True)])


def test_a_copy_goes_on_whose_queues_have_no_room() -> None:
    options = Reopen(7680, 64, "footers", 0.25, True, "truncate", "truncate", most=1, holds=True)
    _assert_nothing_breaks([AddMany(0, (20, 0), 0), options, Misplace("exchanged", 0)])
