"""Messages that are in hand when their process dies: the one that kills it ends as a dead letter, and no other."""

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oms_journal import MessageDatabase, Options
from oms_journal.database.consumers.hand_file import NOTHING_LEFT, HandFile, in_hand
from oms_journal.journal import names
from tests.support.crashes.crash_model import Unattended
from tests.support.disks.faulty_calls import Killed
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import a_sample

SPOOL = Path("/spool")
SMALL = 65_536  # bytes of a data file: each start copies the disk


def died(db: MessageDatabase, disk: SimulatedDisk) -> SimulatedDisk:
    """Return the disk that the next process finds; no thread of the dead one goes on, or keeps its disk in memory."""
    db._maintenance.stop()
    db._handing._alarm.stop()
    db._abandon()
    return disk.restart()


class Worker:
    """A process that dies of one payload, and is started again; each start takes what it can and works it off."""

    def __init__(self, disk: SimulatedDisk, attempts_max: int) -> None:
        self.disk = disk
        self.options = Options(
            cleanup_interval=0, max_attempts=attempts_max, dead_letter="dead", max_data_file_size=SMALL
        )
        self.done: list[bytes] = []
        self.starts = 0

    def start(self, several: int) -> bool:
        """Run until there is nothing to do (True), or until the process is dead (False)."""
        self.starts += 1
        db = MessageDatabase.open(SPOOL, disk=self.disk, options=self.options)
        db._handing.is_attended = False
        db._handing.look()
        while messages := db.take_many("q", several):
            for message in messages:
                if message.payload.startswith(b"kills"):
                    self.disk = died(db, self.disk)
                    return False
                db.deliver(message)
                self.done.append(message.payload)
        db.close()
        return True


def payloads(killers: int, count: int = 64) -> list[bytes]:
    found = [b"kills %d" % each for each in range(killers)] + [b"fine %d" % each for each in range(count - killers)]
    random.Random(killers).shuffle(found)
    return found


@a_sample(3)
@pytest.mark.parametrize("several", [1, 7, 64])
@pytest.mark.parametrize("killers", [1, 3])
@pytest.mark.parametrize("attempts_max", [1, 3])
def test_what_kills_its_process_is_a_dead_letter_in_the_end_and_all_others_are_done(
    several: int, killers: int, attempts_max: int
) -> None:
    disk = SimulatedDisk()
    sent = payloads(killers)
    with MessageDatabase.open(SPOOL, disk=disk, options=Options(cleanup_interval=0, max_data_file_size=SMALL)) as db:
        db.add_many("q", sent)
    worker = Worker(disk, attempts_max)
    while not worker.start(several):
        assert worker.starts <= killers * (attempts_max + 1)
    with MessageDatabase.open(SPOOL, disk=worker.disk, max_data_file_size=SMALL) as db:
        dead = [message.payload for message in db.undelivered("dead")]
        reasons = {message.properties["dead-letter.reason"] for message in db.undelivered("dead")}
        assert db.queues() == {"dead": killers}
    assert sorted(worker.done) == sorted(one for one in sent if one.startswith(b"fine")), "each of the others once"
    assert sorted(dead) == sorted(one for one in sent if one.startswith(b"kills"))
    assert reasons == {"the process that had it died"}


def counting(disk: SimulatedDisk, kind: type[MessageDatabase] = MessageDatabase) -> MessageDatabase:
    options = Options(cleanup_interval=0, max_attempts=5, dead_letter="dead", max_data_file_size=SMALL)
    return kind.open(SPOOL, disk=disk, options=options)


def attempts(disk: SimulatedDisk) -> dict[int, int]:
    with counting(disk) as db:
        return {message.number: message.attempts for message in db.take_many("q", 100)}


def test_who_was_alone_in_hand_is_counted_at_once_and_of_several_nobody() -> None:
    disk = SimulatedDisk()
    db = counting(disk)
    numbers = list(db.add_many("q", [b"x"] * 3))
    db.take("q")
    disk = died(db, disk)
    db = counting(disk)
    assert [(one.number, one.attempts) for one in db.take_many("q", 2)] == [(numbers[0], 1), (numbers[1], 0)]
    disk = died(db, disk)
    with counting(disk) as db:
        returned = db._ledger.index.returned.entries
        assert {number: (one.attempts, one.is_suspect) for number, one in returned.items()} == {
            numbers[0]: (2, True),
            numbers[1]: (0, True),
        }


def test_at_most_one_suspect_is_in_hand_beside_any_number_of_others() -> None:
    disk = SimulatedDisk()
    db = counting(disk)
    one, two, three, *others = db.add_many("q", [b"x"] * 6)
    db.take_many("q", 3)
    disk = died(db, disk)
    with counting(disk) as db:
        assert [message.number for message in db.take_many("q", 10)] == [one, *others]
        assert db.take("q") is None and db.deliver(others[0]) and db.take("q") is None
        assert db.deliver(one)
        second = db.take("q")
        assert second is not None and second.number == two
        assert db.take("q") is None and db.release(second)
        again = db.take_many("q", 5)
        assert len(again) == 1 and again[0].number in (two, three)
        assert db.delete(again[0])
        last = db.take("q")
        assert last is not None and {again[0].number, last.number} == {two, three}


def test_a_suspect_that_was_passed_over_in_one_queue_does_not_wait_for_those_of_another() -> None:
    disk = SimulatedDisk()
    db = counting(disk)
    first, second = db.add_many("q", [b"x"] * 2)
    other = db.add("other", b"x")
    assert len(db.take_many("q", 2) + db.take_many("other", 1)) == 3
    with counting(died(db, disk)) as db:
        message = db.take("q")
        assert message is not None and message.number == first
        assert db.take("other") is None and db.take("q") is None, "one suspect at a time is in hand"
        assert db.deliver(message)
        message = db.take("q")
        assert message is not None and message.number == second, "though nobody takes from the other queue"
        assert db.take("other") is None and db.deliver(message)
        message = db.take("other")
        assert message is not None and message.number == other


@pytest.mark.parametrize("seed", range(40))
def test_a_close_counts_nothing_though_the_power_goes_behind_it(seed: int) -> None:
    disk = SimulatedDisk()
    with counting(disk) as db:
        db.add("q", b"x")
        assert db.take("q") is not None
    assert set(attempts(disk.crash(seed)).values()) == {0}


@pytest.mark.whole
@pytest.mark.parametrize("several", [1, 3])
def test_a_death_is_counted_once_though_the_start_after_it_dies_anywhere(several: int) -> None:
    disk = SimulatedDisk()
    db = counting(disk)
    numbers = list(db.add_many("q", [b"x"] * 3))
    assert len(db.take_many("q", several)) == several
    disk = died(db, disk)
    expected = {number: (int(several == 1), True) for number in numbers[:several]}
    step, is_over = 0, False
    while not is_over:
        step += 1
        dying = disk.restart()
        dying.kill_at = step
        try:
            died(counting(dying, Unattended), dying)
            is_over = True
        except Killed:
            pass
        for again in range(2):  # the next one may die too, once it has counted
            dying = dying.restart()
            db = counting(dying, Unattended)
            entries = db._ledger.index.returned.entries
            told = {number: (one.attempts, one.is_suspect) for number, one in entries.items()}
            assert told == expected, f"the start died at its change {step}, and {again} more behind it"
            dying = died(db, dying)
    assert step > 5


def test_a_death_is_counted_though_an_opening_in_between_counts_none() -> None:
    disk = SimulatedDisk()
    db = counting(disk)
    number = db.add("q", b"x")
    assert db.take("q") is not None
    disk = died(db, disk)
    MessageDatabase.open(SPOOL, disk=disk).close()
    for _ in range(2):
        assert attempts(disk) == {number: 1}


def test_a_file_that_a_power_cut_brings_back_is_not_counted_again() -> None:
    disk = SimulatedDisk()
    db = counting(disk)
    number = db.add("q", b"x")
    assert db.take("q") is not None
    disk = died(db, disk)
    file = disk.content(SPOOL / names.HAND)
    for _ in range(3):
        assert attempts(disk) == {number: 1}
        disk = disk.restart()
        disk.put(SPOOL / names.HAND, file)


@pytest.mark.parametrize("how", ["close", "power cut"])
def test_what_is_no_death_of_a_process_counts_nothing(how: str) -> None:
    disk = SimulatedDisk()
    db = counting(disk)
    db.add("q", b"x")
    assert db.take("q") is not None
    if how == "close":
        db.close()
        assert names.HAND not in disk.contents(SPOOL)
    else:
        died(db, disk)
        disk = disk.crash(1)
        disk.remove(SPOOL / names.HAND) if names.HAND in disk.contents(SPOOL) else None
    assert set(attempts(disk).values()) == {0}


@pytest.fixture
def disk() -> Iterator[SimulatedDisk]:
    made = SimulatedDisk()
    made.make_directory(SPOOL)
    yield made


@pytest.mark.parametrize("had_one", [True, False])
@pytest.mark.parametrize("goes_on", ["takes", "closes"])
def test_a_process_that_was_overtaken_leaves_the_file_of_the_new_owner_alone(goes_on: str, *, had_one: bool) -> None:
    disk = SimulatedDisk()
    options = Options(
        cleanup_interval=0,
        max_attempts=3,
        dead_letter="dead",
        max_data_file_size=SMALL,
        is_shared=True,
        sleep=lambda _: None,
    )
    former = MessageDatabase.open(SPOOL, disk=disk, options=options)
    former.add_many("q", [b"1", b"2", b"3"])
    if had_one:
        former.take("q")
    disk.let_go_of_locks()
    with MessageDatabase.open(SPOOL, disk=disk, options=options) as db:
        mine = db.take("q")
        assert mine is not None

        if goes_on == "takes":
            former.take("q")
        former.close()

        assert in_hand(disk, SPOOL, db._ownership.number + 1).numbers == [mine.number]


def test_the_file_says_what_is_in_hand_after_any_puts_and_removals(disk: SimulatedDisk) -> None:
    chance, hand, there = random.Random(3), HandFile(disk, SPOOL, 9), set()
    removed: set[int] = set()  # from the database: what the file says of them counts nothing
    for number in range(1, 400):
        hand.put(number)
        there.add(number)
        for left in chance.sample(sorted(there), chance.randint(0, min(2, len(there)))):
            is_gone = chance.random() < 0.5
            hand.remove(left, is_gone=is_gone)
            there.discard(left)
            if is_gone:
                removed.add(left)
        if number % 37 == 0:
            file = in_hand(disk, SPOOL, 9 + number)
            assert (file.owner, [one for one in file.numbers if one not in removed]) == (9, sorted(there))
    assert in_hand(disk, SPOOL, 9) == NOTHING_LEFT, "an opening has no death before itself"
    assert len(disk.content(SPOOL / names.HAND)) <= 16 + 16 * 400
    hand.close()
    assert in_hand(disk, SPOOL, 10) == NOTHING_LEFT


def test_a_place_that_does_not_verify_counts_nothing(disk: SimulatedDisk) -> None:
    hand = HandFile(disk, SPOOL, 9)
    for number in (5, 6, 7):
        hand.put(number)
    whole = disk.content(SPOOL / names.HAND)
    for at in range(len(whole)):
        for bit in (1, 128):
            data = bytearray(whole)
            data[at] ^= bit
            disk.put(SPOOL / names.HAND, bytes(data))
            found = list(in_hand(disk, SPOOL, 10).numbers)
            assert found == ([] if at < 16 else [number for number in (5, 6, 7) if number != 5 + (at - 16) // 16])
    for size in range(len(whole)):
        disk.put(SPOOL / names.HAND, whole[:size])
        assert list(in_hand(disk, SPOOL, 10).numbers) == [5, 6, 7][: max(0, (size - 16) // 16)]


def test_without_room_for_the_file_messages_are_handed_out_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    with counting(disk) as db:
        db.add_many("q", [b"1", b"2"])
        hand = db._consumers.hand
        assert hand is not None
        hand._disk = SimulatedDisk(space=0)
        assert len(db.take_many("q", 2)) == 2
    assert "no death of a process counts" in caplog.text


def test_a_real_worker_that_is_killed_by_one_message_goes_on_with_the_others(tmp_path: Path) -> None:
    spool = str(tmp_path / "spool")
    with MessageDatabase.open(spool) as db:
        db.add_many("q", [b"1", b"kills", b"2", b"3"])
    for start in range(1, 6):  # of the first death nobody knows whose fault it was
        ended = subprocess.run([sys.executable, "-c", WORKER, spool], timeout=60, check=False).returncode
        assert ended == (-signal.SIGKILL if start < 5 else 0), f"start {start}"
    with MessageDatabase.open(spool) as db:
        assert [message.payload for message in db.undelivered()] == [b"kills"]
        assert db.queues() == {"dead": 1}


WORKER = """
import os, signal, sys
from oms_journal import MessageDatabase

with MessageDatabase.open(sys.argv[1], max_attempts=3, dead_letter="dead") as db:
    while messages := db.take_many("q", 64, wait=0.5):
        for message in messages:
            if message.payload == b"kills":
                os.kill(os.getpid(), signal.SIGKILL)
            db.deliver(message)
"""
