"""What may have been delivered already, held: passed over until somebody decides about it, also across crashes."""

import asyncio
from pathlib import Path
from typing import NoReturn
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oms_journal import AsyncMessageDatabase, DatabaseView, MessageDatabase
from oms_journal.index.duplicates import WindowBounds
from oms_journal.index.held import KEY_PREFIX, Held
from oms_journal.index.live import Index
from oms_journal.journal.errors import FormatError
from oms_journal.journal.names import HOLD, DataFileName
from oms_journal.journal.reserve import Reserve
from tests.support.crashes.crash_model import SPOOL, Unattended, open_unattended
from tests.support.disks.faulty_disk import Killed, SimulatedDisk
from tests.support.sweeps import Share, a_sample, in_three_sizes, in_two_sizes

BEFORE, LOST, AFTER = 6, 3, 4
FOOTER_CHECKSUM = 20  # bytes before the end of a file


def damaged(size: int = 8584) -> tuple[SimulatedDisk, list[int], list[int]]:
    """Return a disk with a rotted delivery, the messages added before it, and those added after it."""
    disk = SimulatedDisk()
    with open_unattended(disk, max_data_file_size=size) as database:
        old: list[int] = [database.add("q", b"old") for _ in range(BEFORE)]
        begin = database._journal.unsealed_bytes()
        database.deliver_many(old[:LOST])
        name = f"omsmsg-{database._journal.active_sequence:010}.data"
        database.put("filler", b"x" * 60_000)  # rolls: what comes later lies in another file
        new: list[int] = [database.add("q", b"new") for _ in range(AFTER)]
    data = bytearray(disk.content(SPOOL / name))
    data[begin + 60] ^= 1
    data[-FOOTER_CHECKSUM] ^= 1  # else the footer would tell what was delivered
    found = SimulatedDisk()
    for entry, content in disk.contents(SPOOL).items():
        found.put(SPOOL / entry, bytes(data) if entry == name else content)
    return found, old, new


def numbers(database: MessageDatabase | DatabaseView) -> list[int]:
    return [message.number for message in database.undelivered("q")]


def held(database: MessageDatabase | DatabaseView) -> list[int]:
    return [message.number for message in database.held("q")]


def test_a_start_that_lost_nothing_looks_for_no_suspects(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = damaged()[0]
    open_unattended(disk).close()

    def walked(*_: object) -> None:
        raise AssertionError("all that is live is walked")

    monkeypatch.setattr("oms_journal.index.table.Table.batches", walked)
    open_unattended(disk).close()


def test_without_the_option_suspects_are_reported_and_handed_out() -> None:
    disk, old, new = damaged()
    with open_unattended(disk) as database:
        assert [(one.first, one.last) for one in database.recovery.suspects if one.kind == "message"] == [
            (old[0], old[-1])
        ]
        assert numbers(database) == old + new
        assert held(database) == []
        assert database.stats().held == 0


def test_held_messages_are_passed_over_and_can_still_be_read_delivered_and_deleted() -> None:
    disk, old, new = damaged()
    with open_unattended(disk, hold_suspects=True) as database:
        assert numbers(database) == new
        assert held(database) == old
        assert database.stats().held == len(old)
        assert database.undelivered_count("q") == len(old + new)
        assert [taken.number for taken in iter(lambda: database.take("q"), None)] == new
        assert database.read(old[0]).payload == b"old"
        assert database.deliver(old[0])
        assert database.delete(old[1])
        assert held(database) == old[2:]


def test_what_is_held_stays_held_across_restarts_clean_ups_and_further_damage() -> None:
    disk, old, new = damaged()
    open_unattended(disk, hold_suspects=True).close()
    for _ in range(3):
        with open_unattended(disk) as database:
            assert database.recovery.intact
            assert held(database) == old
            for _ in range(4):
                database.deliver(database.add("other", b"y" * 3000))
            database.cleanup(compact=True)
            assert held(database) == old
            assert numbers(database) == new
    assert HOLD not in disk.list(SPOOL)
    with DatabaseView.open(SPOOL, disk=disk) as view:
        assert held(view) == old
        assert numbers(view) == new
        assert view.held_count("q") == view.stats().held == len(old)


def with_rotted_ranges() -> tuple[SimulatedDisk, list[int], list[int]]:
    """Return a disk on which what is held back cannot be read, what was held, and what came in files behind."""
    disk, old, new = damaged()
    with open_unattended(disk, hold_suspects=True) as database:
        (key,) = database._ledger.index.keyed.keys(KEY_PREFIX)
        version = database._ledger.index.keyed.find(key)
        assert version is not None
        path = SPOOL / str(DataFileName(version.sequence))
        database.put("filler", b"x" * 60_000)  # rolls
        later: list[int] = [database.add("q", b"later") for _ in range(3)]
    value = Held([(old[0], old[-1])]).values()[key]
    at = disk.content(path).index(value, version.offset)
    end = len(disk.content(path)) - FOOTER_CHECKSUM
    for place in (at, end):  # the footer has short values too
        disk.rot(path, bytes([disk.content(path)[place] ^ 1]), place)
    assert new[-1] < later[0]
    return disk, old, later


def check_still_held(disk: SimulatedDisk, old: list[int], later: list[int]) -> None:
    """Check that a start which cannot read what is held holds no less, nothing behind it, and for good."""
    with DatabaseView.open(SPOOL, disk=disk) as view:
        assert set(old) <= set(held(view)) and numbers(view) == later
    with open_unattended(disk) as database:
        assert set(old) <= set(held(database)) and numbers(database) == later
        added = database.add("q", b"")
    with open_unattended(disk) as database:
        assert set(old) <= set(held(database)) and numbers(database) == [*later, added]
        assert not database.recovery.notes and HOLD not in disk.list(SPOOL)
        assert database.unhold(old) == len(old)
        assert set(old) <= set(numbers(database))


def test_where_what_is_held_cannot_be_read_all_that_may_be_is_held() -> None:
    disk, old, later = with_rotted_ranges()
    with open_unattended(disk.restart()) as database:
        (note,) = (note for note in database.recovery.notes if "held back" in note)
        assert "all that is undelivered up to omsmsg-" in note
    check_still_held(disk, old, later)


@a_sample(1)
@in_three_sizes
@pytest.mark.parametrize("how", ["killed", "cut off"])
def test_it_is_so_wherever_the_first_start_that_could_not_read_it_ended(how: str, share: Share) -> None:
    for step in share.every(16, range(1, 1000)):
        whole, old, later = with_rotted_ranges()
        disk = whole.restart()
        disk.kill_at = step
        try:
            open_unattended(disk).close()
        except Killed:
            check_still_held(disk.restart() if how == "killed" else disk.crash(step), old, later)
            continue
        assert step > 10
        return
    raise AssertionError("a start without a kill comes at last")


def test_suspects_are_held_on_a_full_disk_with_what_the_reserve_gives_back() -> None:
    disk, old, new = damaged()
    assert Reserve(disk, SPOOL, 1 << 20).fill()
    disk.space = disk.used()
    with open_unattended(disk, hold_suspects=True) as database:
        assert held(database) == old and numbers(database) == new


def test_it_is_so_on_a_full_disk() -> None:
    disk, old, later = with_rotted_ranges()
    disk.space = disk.used()
    with open_unattended(disk) as database:
        assert set(old) <= set(held(database)) and numbers(database) == later


def test_what_is_let_go_is_handed_out_again_in_order_and_for_good() -> None:
    disk, old, new = damaged()
    with open_unattended(disk, hold_suspects=True) as database:
        first = database.take("q")
        assert first is not None
        assert first.number == new[0]
        assert database.unhold([old[1], old[3], 999_999]) == 2
        assert numbers(database) == [old[1], old[3], *new]
        taken = [message.number for message in iter(lambda: database.take("q"), None)]
        assert taken == [old[1], old[3], *new[1:]]
        assert database.unhold([old[1]]) == 0
    with open_unattended(disk) as database:
        assert held(database) == [old[0], old[2], *old[4:]]
        assert database.unhold() == len(old) - 2
        assert database.unhold() == 0
        assert numbers(database) == old + new
    with open_unattended(disk) as database:
        assert held(database) == []
        assert numbers(database) == old + new


@in_two_sizes
def test_a_start_that_is_killed_anywhere_holds_the_same_when_it_is_repeated_without_the_option(share: Share) -> None:
    for step in share.every(10, range(1, 1000)):
        disk, old, new = damaged()
        disk.kill_at = step
        try:
            open_unattended(disk, hold_suspects=True).close()
        except Killed:
            for left in (disk.restart(), disk.crash(step), disk.crash(1000 + step)):
                again = open_unattended(left)
                if again.recovery.intact:  # the repair was done: so must be the intention
                    assert held(again) == old, step
                    assert numbers(again) == new, step
                again.close()
            continue
        assert step > 10
        return
    raise AssertionError("a start without a kill comes at last")


@in_two_sizes
def test_what_a_start_that_was_killed_had_found_is_held_by_the_next_one_that_is_asked_to(share: Share) -> None:
    """The first one was not asked to hold, may have repaired the file, and nobody has its report."""
    for step in share.every(10, range(1, 1000)):
        disk, old, new = damaged()
        disk.kill_at = step
        try:
            open_unattended(disk).close()
        except Killed:
            for left in (disk.restart(), disk.crash(step)):
                with open_unattended(left, hold_suspects=True) as again:
                    suspects = [one for one in again.recovery.suspects if one.kind == "message"]
                    assert held(again) == (old if suspects else []), step
                    assert numbers(again) == (new if suspects else old + new), step
            continue
        assert step > 10
        return
    raise AssertionError("a start without a kill comes at last")


def test_nothing_is_held_where_nothing_is_damaged() -> None:
    disk = SimulatedDisk()
    with open_unattended(disk, hold_suspects=True) as database:
        number = database.add("q", b"x")
    with open_unattended(disk, hold_suspects=True) as database:
        assert numbers(database) == [number]
        assert database.stats().held == 0


def test_an_intention_that_cannot_be_read_stops_the_start_and_says_which_file() -> None:
    disk, _, _ = damaged()
    disk.put(SPOOL / HOLD, b"rot")
    with pytest.raises(FormatError, match=HOLD):
        open_unattended(disk)


def test_a_hold_that_cannot_be_made_durable_fails_the_opening_and_the_next_one_does_it() -> None:
    class Failing(Unattended):
        def _write(self, draft: object) -> NoReturn:
            raise OSError("no")

    disk, old, _ = damaged()
    with pytest.raises(OSError, match="no"):
        Failing.open(SPOOL, disk=disk, hold_suspects=True)
    with open_unattended(disk) as database:
        assert held(database) == old


def test_asyncio_has_it_too() -> None:
    disk, old, new = damaged()

    async def main() -> None:
        async with AsyncMessageDatabase.wrap(opened) as database:
            assert [message.number for message in await database.held("q")] == old
            assert [message.number async for message in database.undelivered("q")] == new
            assert await database.unhold(old[:2]) == 2
            assert await database.discard_held(old) == len(old) - 2
            assert await database.unhold() == 0

    with open_unattended(disk, hold_suspects=True) as opened:
        asyncio.run(main())


@given(st.lists(st.sampled_from("held delivered let-go young".split()), max_size=60), st.integers(1, 9))  # noqa: SIM905
def test_ranges_are_the_fewest_that_hold_what_is_to_be_held_and_nothing_else(fates: list[str], per_file: int) -> None:
    index = Index(WindowBounds())
    for number, _ in enumerate(fates, start=1):
        sequence = 1 + number // per_file
        index.load(index.table.queues.place("q"), np.array([number], np.uint64), [5], (sequence, 4352))
    gone = [number for number, fate in enumerate(fates, start=1) if fate == "delivered"]
    index.table.remove_many(np.array(gone, np.uint64))
    held = {number for number, fate in enumerate(fates, start=1) if fate == "held"}
    alive = [number for number, fate in enumerate(fates, start=1) if fate != "delivered"]

    ranges = index.ranges_where(lambda numbers, _: np.isin(numbers, sorted(held)))

    covered = [number for number in alive if any(first <= number <= last for first, last in ranges)]
    assert covered == sorted(held)
    runs = sum(number in held and (at == 0 or alive[at - 1] not in held) for at, number in enumerate(alive))
    assert len(ranges) == runs


def test_what_is_discarded_was_held_is_delivered_and_stays_so(tmp_path: Path) -> None:
    disk, old, new = damaged()
    with open_unattended(disk, hold_suspects=True) as database:
        assert database.discard_held([old[0], old[2], new[0], 999_999, 0, -1, 1 << 70]) == 2
        assert database.discard_held([old[0], old[2]]) == 0
        assert held(database) == [old[1], *old[3:]]
        assert numbers(database) == new
        assert [queue.held for queue in database.stats().queues.values()] == [len(old) - 2]
    with open_unattended(disk) as database:
        assert held(database) == [old[1], *old[3:]]
        assert database.discard_held(number for number in old) == len(old) - 2
        assert database.undelivered_count("q") == len(new)


Pairs = list[tuple[int, int]]
RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)).map(lambda pair: (pair[0], sum(pair))), max_size=8)


@given(RANGES, RANGES)
def test_ranges_behave_like_the_set_of_their_numbers(first: Pairs, more: Pairs) -> None:
    def members(ranges: Pairs) -> set[int]:
        return {number for low, high in ranges for number in range(low, high + 1)}

    ranges = Held(first)
    ranges.add(more)
    loaded = Held()
    loaded.load(ranges.values().values())

    assert members(ranges.ranges()) == members(first) | members(more)
    assert ranges.ranges() == loaded.ranges()
    assert np.flatnonzero(ranges.mask(np.arange(80))).tolist() == sorted(members(ranges.ranges()))
    assert all(a[1] + 1 < b[0] for a, b in zip(ranges.ranges(), ranges.ranges()[1:], strict=False))


def test_more_ranges_than_one_value_holds_go_into_several(monkeypatch: pytest.MonkeyPatch) -> None:
    many = Held([(2 * number, 2 * number) for number in range(10_000)])
    loaded = Held()
    add = Mock(wraps=loaded.add)
    monkeypatch.setattr(loaded, "add", add)
    loaded.load(many.values().values())

    assert add.call_count == 1, "what each part joins anew takes a start minutes"
    assert len(many.values()) == 3
    assert max(map(len, many.values().values())) <= 64 << 10
    assert loaded.ranges() == many.ranges()
