"""`oms estimate`: what it says of a load is what the load takes, within a tenth."""

import errno
import gc
import json
import tracemalloc
from pathlib import Path

import pytest

from oms_journal.broker.block import Option, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.kernel.restart.restore import restore
from oms_journal.broker.records import UOW, UOWS, Flag, Status, UowRecord
from oms_journal.broker.store.changes import Changes, NewMessage, Put
from oms_journal.broker.store.start import Pstore, StoreFull
from oms_journal.cli.store.estimate import SAMPLE_MAX, Load, estimate_load
from oms_journal.database.options import Options
from tests.support.broker.kernel_desk import Fields, Person
from tests.support.broker.restart_rows import RealDesk
from tests.support.broker.stores import begun
from tests.support.cli_runner import oms
from tests.support.heap import old_heap_frozen as old_heap_frozen
from tests.support.sweeps import sampled, split

pytestmark = pytest.mark.usefixtures("old_heap_frozen")  # an estimate collects garbage six times

QUEUE = "CLASSNAM/SERVERNA/SERVICEN"


def loaded(directory: Path, load: Load) -> None:
    """Do the load on a real store, as a broker does: a commit for each unit of work, and for each status."""
    options = Options(max_data_file_size=load.data_file_bytes, cleanup_interval=0)
    store = JournalStore.open(directory, options)
    identifiers = begun(store).identifiers
    at = UOW.offset("first")
    batch = []
    for place in range(load.uows + load.statuses):
        is_waiting = place < load.uows
        one = UowRecord(
            conv_id=identifiers.next(),
            uowid=identifiers.next(),
            status=Status.ACCEPTED if is_waiting else Status.PROCESSED,
            flags=Flag.PERSISTENT | Flag.FIRST | (Flag(0) if is_waiting else Flag.STATUS_PERSISTENT),
            messages=load.messages,
            lifetime=86_400,
            size=load.messages * load.size,
            created=1_700_000_000_000_000 + 7_919 * place,
            committed=1_700_000_000_000_050 + 7_919 * place,
            begun=1_700_000_000_000_050 + 7_919 * place,
            changed=1_700_000_000_000_050 + 7_919 * place,
            first=1 + place * load.messages,
            ends=86_400_000_000 + 7_919 * place,
            sender_user="SOMEBODY",
            sender_token=f"TOKEN{place % 7:03}",
            receiver_class=QUEUE[:8],
            receiver_server=QUEUE[9:17],
            receiver_service=QUEUE[18:],
        )
        adds = [NewMessage(QUEUE, bytes(load.size))] * load.messages if is_waiting else []
        put = Put(UOWS + one.uowid, UOW.encode(one), {at: 0} if adds else {})
        batch.append(Changes(adds=adds, puts=[put]))
        if len(batch) == 100:
            store.commit_many(batch)
            batch = []
    store.commit_many(batch)
    store.close()


def data_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.data"))


LOADS = [
    Load(uows=2000, messages=2, size=500, statuses=0, data_file_bytes=1 << 20),
    Load(uows=2000, messages=1, size=20, statuses=2000, data_file_bytes=1 << 20),
    Load(uows=200, messages=40, size=59, statuses=1000, data_file_bytes=1 << 20),
    Load(uows=40, messages=3, size=100_000, data_file_bytes=4 << 20),
]


@pytest.mark.whole
@pytest.mark.parametrize("load", sampled(LOADS, 2), ids=str)
def test_the_disk_of_a_load_is_told_within_a_tenth(tmp_path: Path, load: Load) -> None:
    loaded(tmp_path, load)
    assert estimate_load(load).live_bytes == pytest.approx(data_bytes(tmp_path), rel=0.1)


@pytest.mark.whole
@pytest.mark.parametrize("load", split([LOADS[0]], [LOADS[1]]), ids=str)
def test_the_memory_of_a_load_is_told_within_a_tenth(tmp_path: Path, load: Load) -> None:
    loaded(tmp_path / "load", load)
    loaded(tmp_path / "nothing", Load(uows=0))

    def weighed(directory: Path) -> int:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        store = JournalStore.open(directory, Options(cleanup_interval=0, compact_share=0))
        found = restore(store, now=0)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
        assert len(found.units) in (0, load.uows + load.statuses)
        store.close()
        return taken

    tracemalloc.start()
    try:
        weighed(tmp_path / "nothing")
        fixed = weighed(tmp_path / "nothing")
        taken = weighed(tmp_path / "load") - fixed
    finally:
        tracemalloc.stop()
    assert estimate_load(load).memory == pytest.approx(taken, rel=0.1)


NAMES: Fields = {"server_class": QUEUE[:8], "server_name": QUEUE[9:17], "service": QUEUE[18:]}


def played(directory: Path, load: Load, passing: int) -> None:
    """Do the load with calls of a broker: units of work that wait, and others that come and go."""
    store = JournalStore.open(directory, Options(max_data_file_size=load.data_file_bytes, cleanup_interval=0))
    desk = RealDesk(store, Pstore.COLD)
    sender, receiver = Person(desk, "SOMEBODY", "TOKEN001"), Person(desk, "SOMEBODY", "TOKEN002", caller=2)
    receiver.register(**NAMES)
    terms: Fields = {"store": Store.BROKER, "uwstatp": 1 if load.statuses else 255}
    for place in range(load.uows + passing):
        sent = None
        for number in range(load.messages):
            option = Option.COMMIT if number == load.messages - 1 else Option.SYNC
            where: Fields = {"conv_id": sent.conv_id} if sent is not None else NAMES
            sent = sender.send(bytes(load.size), option, **where, **(terms if sent is None else {}))
        assert sent is not None and sent.code is Code.OK
        if place < passing:
            assert receiver.receive(**NAMES).uowid == sent.uowid
            assert receiver.sync(Option.COMMIT, sent.uowid).code is Code.OK
            if load.statuses:
                assert sender.sync(Option.DELETE, sent.uowid).code is Code.OK
    desk.close()


@pytest.mark.whole
@pytest.mark.parametrize(
    ("load", "passing"),
    [
        (Load(uows=400, messages=3, size=200, data_file_bytes=1 << 20), 0),
        (Load(uows=0, messages=2, size=100, rate=1.0, cleanup_seconds=200.0), 200),
        (Load(uows=0, statuses=1, messages=2, size=100, rate=1.0, cleanup_seconds=150.0), 150),
    ],
    ids=["waiting", "passing", "passing, with persistent status"],
)
def test_the_disk_of_a_brokers_calls_is_told_within_a_tenth(tmp_path: Path, load: Load, passing: int) -> None:
    played(tmp_path, load, passing)
    found = estimate_load(load)
    assert found.live_bytes + found.flow_bytes == pytest.approx(data_bytes(tmp_path), rel=0.1)


@pytest.mark.whole
def test_a_load_larger_than_the_sample_is_scaled_up() -> None:
    small = estimate_load(Load(uows=SAMPLE_MAX // 4, size=100))
    large = estimate_load(Load(uows=16 * SAMPLE_MAX, size=100))
    assert large.uow_bytes == pytest.approx(small.uow_bytes, rel=0.1)
    assert large.live_bytes == pytest.approx(64 * small.live_bytes, rel=0.1)
    assert large.memory == pytest.approx(64 * small.memory, rel=0.1)


@pytest.mark.whole
def test_what_comes_and_goes_between_two_clean_ups_is_counted() -> None:
    quiet, busy = estimate_load(Load(uows=100)), estimate_load(Load(uows=100, rate=10.0, cleanup_seconds=100.0))
    assert quiet.flow_bytes == quiet.dead_bytes == 0
    assert 1000 * busy.uow_bytes < busy.flow_bytes < 2000 * busy.uow_bytes
    with_statuses = estimate_load(Load(uows=100, statuses=10, rate=10.0, cleanup_seconds=100.0))
    assert with_statuses.flow_bytes > busy.flow_bytes + 1000 * with_statuses.status_bytes
    assert busy.dead_bytes == pytest.approx(3 * busy.live_bytes, rel=0.01)
    assert busy.disk > quiet.disk
    assert estimate_load(Load(uows=0)).memory < 100_000


@pytest.mark.parametrize(
    "load", [Load(uows=3, messages=5000, size=1000), Load(uows=3, messages=2, size=10 << 20)], ids=str
)
def test_messages_that_are_large_or_many_are_told_without_writing_them(load: Load) -> None:
    payloads = load.messages * load.size
    assert payloads < estimate_load(load).uow_bytes < 1.1 * payloads


def test_a_single_unit_of_work_among_many_statuses_is_counted() -> None:
    assert estimate_load(Load(uows=1, statuses=100_000)).uow_bytes > 1000


def test_nothing_is_left_in_the_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    estimate_load(Load(uows=10))
    assert list(tmp_path.iterdir()) == []

    def interrupted(*_: object, **__: object) -> None:
        assert list(tmp_path.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(JournalStore, "commit_many", interrupted)
    with pytest.raises(KeyboardInterrupt):
        estimate_load(Load(uows=10))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "there is no room"),
        (StoreFull("disk full"), "there is no room"),
        (PermissionError(errno.EACCES, "Permission denied"), "Permission denied"),
    ],
    ids=["full", "full store", "forbidden"],
)
def test_a_temporary_directory_that_takes_no_sample_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, said: str
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(JournalStore, "commit_many", refused)
    told = oms("estimate", "--uows", "10", code=4).stderr
    assert said in told and "TMPDIR=DIR" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.whole
def test_the_command_prints_a_table_and_json() -> None:
    text = oms("estimate", "--uows", "200", "--messages", "40", "--size", "59", "--statuses", "1000").stdout
    assert "200 units of work waiting, 40 messages of 59 bytes each" in text
    assert "1,000 persistent statuses" in text
    assert "Memory:" in text and "Disk:" in text
    said = json.loads(oms("estimate", "--uows", "1000", "--rate", "2", "--json").stdout)
    assert said["load"]["uows"] == 1000
    assert said["estimate"]["disk"] > said["estimate"]["live_bytes"] > 1_000_000
    assert "between clean-ups every 30 min" in oms("estimate", "--uows", "10", "--rate", "2").stdout


@pytest.mark.parametrize("arguments", [("--uows", "-1"), ("--uows", "1", "--size", "big"), (), ("--messages", "1")])
def test_what_makes_no_sense_is_wrong_usage(arguments: tuple[str, ...]) -> None:
    oms("estimate", *arguments, code=2)
