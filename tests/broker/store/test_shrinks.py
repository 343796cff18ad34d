"""A broker's store gets smaller: a small key or message alone keeps no old file, on either driver."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from oms_journal import Options
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.sessions.sessions import Session
from oms_journal.broker.store.changes import Changes
from oms_journal.database.compaction import SMALL_FILES_MIN
from tests.support.broker.embedded import SERVICE, bodies
from tests.support.broker.small_disk import ALLOWED, DRAINED_BYTES
from tests.support.broker.stores import added
from tests.support.project import PYTHONPATH, REPOSITORY

KEPT = b"kept"


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("omsmsg-*.data"))


def opened(directory: Path) -> Broker:
    """Open a broker whose data files are small."""
    return Broker.open(directory, max_data_file_size="1M")


def pass_through(alice: Session, bob: Session, count: int) -> None:
    """Let so many units of work be sent and received."""
    for _ in range(count):
        alice.send(SERVICE, bytes(20_000))
        assert bodies(bob) == [bytes(20_000)]


@pytest.mark.whole
def test_starts_leave_no_file_each(tmp_path: Path) -> None:
    with Broker.open(tmp_path) as broker, broker.session("ALICE") as alice:
        alice.send(SERVICE, KEPT)
    counts = []
    for _ in range(41):
        with Broker.open(tmp_path):
            counts.append(len(files(tmp_path)))
    assert max(counts) <= SMALL_FILES_MIN + 2
    with Broker.open(tmp_path) as broker, broker.session("BOB") as bob:
        bob.register(SERVICE)
        assert bodies(bob) == [KEPT]


@pytest.mark.whole
def test_starts_that_each_leave_a_unit_waiting_leave_no_file_each(tmp_path: Path) -> None:
    counts = []
    for run in range(41):
        with Broker.open(tmp_path) as broker, broker.session("ALICE") as alice:
            alice.send(SERVICE, b"%d" % run)
            counts.append(len(files(tmp_path)))
    assert max(counts) <= SMALL_FILES_MIN + 2
    with Broker.open(tmp_path) as broker, broker.session("BOB") as bob:
        bob.register(SERVICE)
        assert bodies(bob) == [b"%d" % run for run in range(41)]


@pytest.mark.whole
def test_what_was_delivered_is_gone_with_the_next_start(tmp_path: Path) -> None:
    sizes = []
    for run in range(3):
        with opened(tmp_path) as broker, broker.session("ALICE") as alice, broker.session("BOB") as bob:
            assert len(files(tmp_path)) == 1, run
            bob.register(SERVICE)
            pass_through(alice, bob, 120)
        sizes.append(sum(path.stat().st_size for path in files(tmp_path)))
    assert max(sizes) < sizes[0] + 500_000, sizes


def test_units_of_work_that_are_allowed_again_find_the_room_of_those_that_are_gone(tmp_path: Path) -> None:
    with opened(tmp_path) as broker, broker.session("ALICE") as alice, broker.session("BOB") as bob:
        bob.register(SERVICE)
        pass_through(alice, bob, 120)
        assert len(files(tmp_path)) > 2
        broker.forbid_new_uow_messages()
        broker.allow_new_uow_messages()
        assert files(tmp_path)[0].name != "omsmsg-0000000001.data"
        pass_through(alice, bob, 1)


def test_for_tasks_too_what_is_sent_goes_behind_the_making_of_room(tmp_path: Path) -> None:
    async def run() -> None:
        opening = AsyncBroker.open(tmp_path, max_data_file_size="1M")
        async with opening as broker, broker.session("ALICE") as alice:
            for _ in range(120):
                async with alice.unit_of_work(SERVICE) as uow:
                    await uow.send(bytes(20_000))
                await uow.cancel()
            broker.allow_new_uow_messages()
            await alice.send(SERVICE, KEPT)
            assert files(tmp_path)[0].name != "omsmsg-0000000001.data"
            broker.allow_new_uow_messages()  # and nothing waits for it when the broker ends

    asyncio.run(run())


def test_a_store_of_sqlite_has_no_room_to_make_and_allows_all_the_same(tmp_path: Path) -> None:
    with Broker.open(tmp_path, pstore_type="SQLITE") as broker, broker.session("ALICE") as alice:
        broker.forbid_new_uow_messages()
        broker.allow_new_uow_messages()
        alice.send(SERVICE, KEPT)


def test_a_store_that_is_disconnected_is_allowed_all_the_same(tmp_path: Path) -> None:
    with Broker.open(tmp_path) as broker, broker.session("ALICE") as alice:
        broker.forbid_new_uow_messages()
        broker.disconnect_pstore()
        broker.allow_new_uow_messages()
        broker.connect_pstore()
        alice.send(SERVICE, KEPT)


def test_a_refused_commit_finds_the_room_that_was_made_since_another_was_refused(tmp_path: Path) -> None:
    with Broker.open(tmp_path) as broker:
        store = broker._running.store
        assert isinstance(store, JournalStore)
        assert not store._reclaimed()
        assert not store._reclaimed(), "nothing was committed since"


def test_room_that_cannot_be_made_is_looked_for_and_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each client whose message is refused would have the same tried, and fill the log."""
    (retained := tmp_path / "retained").write_text("no directory")
    options = Options(max_data_file_size=65536, cleanup_interval=0, retention_directory=retained)
    store = JournalStore.open(tmp_path / "spool", options)
    for _ in range(4):
        number = store.commit(added(bytes(60_000)))
        store.commit(Changes(delivered=[range(number, number + 1)]))
    assert not store._reclaimed()
    assert not store._reclaimed()
    assert len(caplog.messages) == 1 and "no room could be made" in caplog.messages[0]
    store.close()


@pytest.mark.whole
def test_a_small_file_system_takes_new_units_of_work_once_it_was_drained_and_they_are_allowed(tmp_path: Path) -> None:
    program = "tests.support.broker.small_disk"
    inside = f"mount -t tmpfs -o size=120m none {tmp_path} && exec {sys.executable} -m {program} broker "
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f"{inside} {tmp_path}"]
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    if shutil.which("unshare") is None or subprocess.run([*command[:5], "-c", "mount -t tmpfs none /mnt"]).returncode:
        pytest.skip("no file system of our own can be mounted here")
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["sent"] * DRAINED_BYTES > 60_000_000
    assert seen["refused"] == ["00370445"] * 3
    assert seen["drained"] == seen["sent"]
    assert (seen["accepted"], seen["codes"]) == (ALLOWED, [])
