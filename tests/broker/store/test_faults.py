"""A broker's store whose process is killed, and whose disk is full: nothing acknowledged is lost, consuming goes on."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.store.changes import Changes
from oms_journal.broker.store.start import PersistentStore, StoreFull, StoreUnavailable
from oms_journal.database.options import Options
from tests.database.test_holds import damaged
from tests.support.broker.store_writer import KEPT, opened, turn_and_first
from tests.support.broker.stores import DRIVERS, Driver, JournalDriver, added, contents, payloads, put
from tests.support.crashes.crash_model import SPOOL
from tests.support.project import PYTHONPATH, REPOSITORY
from tests.support.sweeps import a_sample
from tests.support.warm_starts import Process


@pytest.fixture(params=DRIVERS, ids=["journal", "sqlite"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Driver:
    made: Driver = request.param(tmp_path)
    return made


def killed_after(kind: str, path: Path, seconds: float) -> int:
    """Let a process write and kill it; return the last commit that was acknowledged."""
    command = [sys.executable, "-m", "tests.support.broker.store_writer", kind, str(path)]
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    process = Process(command, stdout=subprocess.PIPE, cwd=REPOSITORY, env=environment)
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        assert first, "the writer has not begun"
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        lines = [first, *process.stdout]
        whole = [int(line) for line in lines if line.endswith(b"\n")]
        return whole[-1]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@a_sample(1)
@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_what_was_acknowledged_outlives_a_kill(kind: str, tmp_path: Path) -> None:
    chance = random.Random(kind)
    for _ in range(2):
        acknowledged = killed_after(kind, tmp_path, chance.random() * 0.3)
        store = opened(kind, tmp_path)
        turn, first = turn_and_first(store)
        assert acknowledged <= turn <= acknowledged + 1
        found = [message.payload for message in store.messages()]
        turns = range(max(1, turn - KEPT + 1), turn + 1)
        assert found == [payload for one in turns for payload in (b"%d" % one, bytes(one % 3000), b"%d" % one)]
        assert [message.number for message in store.messages()][-3:] == [first, first + 1, first + 2]
        assert {key for key, _ in store.records("of")} == {
            f"of{one % KEPT}" for one in turns[1 if turn >= KEPT else 0 :]
        }
        store.close()


def test_messages_that_a_recovery_holds_back_are_messages_of_the_store() -> None:
    disk, old, new = damaged()
    store = JournalStore.open(SPOOL, Options(cleanup_interval=0, hold_suspects=True), disk=disk)
    assert list(payloads(store)) == old + new
    assert store.message_count() == len(old + new)
    assert store.read(old[0]).payload == b"old"
    store.commit(Changes(delivered=[range(old[0], old[0] + 1)]))
    assert list(payloads(store)) == old[1:] + new
    store.close()


# A full disk.


def filled(store: PersistentStore) -> list[int]:
    """Add messages until there is no room; return their numbers."""
    numbers = []
    for turn in range(100_000):
        try:
            numbers.append(store.commit(added(bytes(500), puts=put(f"k{turn:05}", b"v").puts)))
        except StoreFull:
            return numbers
    raise AssertionError("the disk is full at last")


@a_sample(1)
def test_a_full_disk_refuses_messages_only_and_takes_them_again_when_there_is_room(driver: Driver) -> None:
    driver.fill()
    store = driver.open()
    numbers = filled(store)
    assert len(numbers) > 50
    assert store.is_connected
    found = contents(store)

    with pytest.raises(StoreFull):
        store.commit(added(bytes(500), delivered=[range(numbers[0], numbers[0] + 1)]))
    assert contents(store) == found
    for number in numbers[:20]:
        store.commit(Changes(delivered=[range(number, number + 1)], puts=put("k00000", b"moved").puts))
    store.commit(Changes(deleted=[range(numbers[20], numbers[30])], drops=["k00001"]))
    answers = store.commit_many([added(bytes(90_000)), put("k00002", b"w"), added(bytes(90_000))])
    assert [type(answer) for answer in answers] == [StoreFull, int, StoreFull]
    assert list(payloads(store)) == numbers[30:]

    driver.make_room(store)
    later = store.commit(added(b"there is room"))
    found = contents(store)
    store.close()
    again = driver.open()
    assert contents(again) == found
    assert again.read(later).payload == b"there is room"
    again.close()


@pytest.mark.whole
def test_a_store_on_a_full_disk_is_opened_for_draining(driver: Driver) -> None:
    driver.fill()
    store = driver.open()
    numbers = filled(store)
    store.close()
    again = driver.open()
    for number in numbers:
        again.commit(Changes(delivered=[range(number, number + 1)], drops=[f"k{numbers.index(number):05}"]))
    assert again.message_count() == 0
    again.close()


def test_a_disk_that_fills_up_in_the_middle_of_a_write_is_a_loss(tmp_path: Path) -> None:
    import errno

    driver = JournalDriver(tmp_path)
    store = driver.open()
    store.commit(added(b"kept"))
    driver.disk.fail("write_durably", code=errno.ENOSPC)
    with pytest.raises(StoreUnavailable) as refused:
        store.commit(added(b"told as failed"))
    assert refused.value.was_attempted
    store.connect()
    assert list(payloads(store).values()) == [b"kept"]
    store.close()


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_a_small_file_system_that_was_full_and_drained_takes_messages_again(kind: str, tmp_path: Path) -> None:
    inside = (
        f"mount -t tmpfs -o size=8m none {tmp_path} && exec {sys.executable} -m tests.support.broker.small_disk {kind} "
    )
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f"{inside} {tmp_path}"]
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    if shutil.which("unshare") is None or subprocess.run([*command[:5], "-c", "mount -t tmpfs none /mnt"]).returncode:
        pytest.skip("no file system of our own can be mounted here")
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["added"] > 300
    assert seen["connected"] and seen["left"]
    assert seen["drained"] == 0
    assert isinstance(seen["later"], int), "what was drained has made room"
    assert seen["again"] > 100


# Many at once.


def test_many_threads_lose_the_store_together_and_find_it_as_they_were_told(driver: Driver) -> None:
    store = driver.open()
    told: list[int] = []
    lock = threading.Lock()

    def work(thread: int) -> None:
        for turn in range(200):
            try:
                number = store.commit(added(b"%d of %d" % (turn, thread)))
            except StoreUnavailable:
                return
            with lock:
                told.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    while len(told) < 60:
        time.sleep(0.001)
    with driver.fails():
        for thread in threads:
            thread.join()
    store.connect()
    assert sorted(payloads(store)) == sorted(told)
    store.close()


def test_a_store_that_another_process_has_had_since_is_not_gone_on_with(tmp_path: Path) -> None:
    driver = JournalDriver(tmp_path)
    store = driver.open()
    store.commit(added(b"kept"))
    with driver.fails(), pytest.raises(StoreUnavailable):
        store.commit(added(b"told as failed"))
    driver.disk.let_go_of_locks()
    other = driver.open()
    other.commit(added(b"of the other"))
    other.close()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="opened by process"):
            store.connect()
        assert not store.is_connected
    store.close()


def test_who_had_the_store_before_another_process_has_not_even_nothing_to_say(tmp_path: Path) -> None:
    """An empty commit says that this process has the store: in vain too, the next one is refused without a look."""
    driver = JournalDriver(tmp_path)
    store = driver.open()
    assert store.commit(Changes()) == 0
    driver.disk.let_go_of_locks()
    other = driver.open()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="another process has taken over"):
            store.commit(Changes())
    assert store.is_taken_over
    assert other.commit(Changes()) == 0
    other.close()
    store.close()


def test_nothing_is_said_beside_what_could_not_be_written(driver: Driver) -> None:
    store = driver.open()
    with driver.fails():
        answers = store.commit_many([Changes(), added(b"lost"), Changes()])
    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    store.connect()
    assert store.commit_many([Changes(), added(b"kept"), Changes()])[::2] == [0, 0]
    store.close()
