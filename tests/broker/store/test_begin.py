"""HOT, COLD and WARM over every kind of store: what goes on, what is begun, what is erased, and what is left alone."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from oms_journal.broker.attributes.attributes import built_in
from oms_journal.broker.codes import Code
from oms_journal.broker.drivers.journal import ERASING_KEY, JournalStore
from oms_journal.broker.embedded.beginning import StartOptions
from oms_journal.broker.embedded.beginning import start as begin_broker
from oms_journal.broker.records import (
    CHECKPOINT,
    CHECKPOINTS,
    CLOCK_KEY,
    MASTER,
    MASTER_KEY,
    CheckpointName,
    RecordKind,
)
from oms_journal.broker.store.changes import Changes
from oms_journal.broker.store.master import Identifiers
from oms_journal.broker.store.report import Action, ReportLine
from oms_journal.broker.store.start import (
    IDENTITY_KEY,
    PersistentStore,
    Pstore,
    StartRefused,
    start_store,
    write_termination,
)
from oms_journal.database.database import MessageDatabase
from tests.support.broker.stores import DRIVERS, Driver, JournalDriver, added, begun, contents, payloads, put, start
from tests.support.sweeps import a_sample

HOT, COLD, WARM = Pstore.HOT, Pstore.COLD, Pstore.WARM


@pytest.fixture(params=DRIVERS, ids=["journal", "sqlite"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Driver:
    made: Driver = request.param(tmp_path)
    return made


def prepare(store: PersistentStore, held: str) -> None:
    """Let the store hold: nothing, what a broker of this id has begun or written, or what is no broker's."""
    kind, _, broker_id = held.partition(" ")
    if kind in ("begun", "written"):
        begun(store, broker_id)
    if kind in ("written", "plain"):
        store.commit(added(b"message", puts=() if kind == "plain" else put("broker/uow/1", b"x").puts))


#        what the store holds, PSTORE, FORCE-COLD, confirmed id, what happens
TABLE = [
    ("nothing", HOT, False, None, Code.RESTART_FAILED),
    ("nothing", COLD, False, None, CheckpointName.ETBC),
    ("nothing", WARM, False, None, CheckpointName.ETBC),
    ("nothing", COLD, True, "ETB001", CheckpointName.ETBC),
    ("nothing", COLD, False, "ETB002", Code.INVALID_BROKER_ID),
    ("nothing", COLD, True, "ETB002", Code.INVALID_BROKER_ID),
    ("nothing", WARM, False, "ETB002", CheckpointName.ETBC),
    ("begun ETB001", HOT, False, None, CheckpointName.ETBH),
    ("begun ETB001", WARM, False, None, CheckpointName.ETBH),
    ("begun ETB001", COLD, False, None, CheckpointName.ETBC),
    ("begun ETB001", COLD, False, "ETB001", CheckpointName.ETBC),
    ("begun ETB001", COLD, True, "ETB002", Code.INVALID_BROKER_ID),
    ("written ETB001", HOT, False, None, CheckpointName.ETBH),
    ("written ETB001", WARM, False, None, CheckpointName.ETBH),
    ("written ETB001", WARM, True, "ETB001", CheckpointName.ETBH),
    ("written ETB001", COLD, False, None, Code.RESTART_FAILED),
    ("written ETB001", COLD, True, None, Code.RESTART_FAILED),
    ("written ETB001", COLD, False, "ETB002", Code.RESTART_FAILED),
    ("written ETB001", COLD, False, "ETB001", CheckpointName.ETBC),
    ("begun ETB002", HOT, False, None, Code.INVALID_BROKER_ID),
    ("begun ETB002", WARM, False, None, Code.INVALID_BROKER_ID),
    ("begun ETB002", COLD, False, None, Code.INVALID_BROKER_ID),
    ("begun ETB002", COLD, True, None, CheckpointName.ETBC),
    ("begun ETB002", COLD, True, "ETB001", Code.INVALID_BROKER_ID),
    ("begun ETB002", COLD, True, "ETB002", CheckpointName.ETBC),
    ("written ETB002", HOT, True, "ETB002", Code.INVALID_BROKER_ID),
    ("written ETB002", WARM, True, "ETB002", Code.INVALID_BROKER_ID),
    ("written ETB002", COLD, False, "ETB002", Code.INVALID_BROKER_ID),
    ("written ETB002", COLD, True, None, Code.RESTART_FAILED),
    ("written ETB002", COLD, True, "ETB001", Code.RESTART_FAILED),
    ("written ETB002", COLD, True, "ETB002", CheckpointName.ETBC),
    ("plain", HOT, False, None, Code.RESTART_FAILED),
    ("plain", WARM, False, None, Code.RESTART_FAILED),
    ("plain", COLD, False, None, Code.RESTART_FAILED),
    ("plain", COLD, True, "ETB001", Code.RESTART_FAILED),
]


@a_sample(24)
@pytest.mark.parametrize(("held", "pstore", "force_cold", "erase", "expected"), TABLE)
def test_a_store_is_begun_as_the_table_says(
    driver: Driver, held: str, pstore: Pstore, force_cold: bool, erase: str | None, expected: Code | CheckpointName
) -> None:
    store = driver.open()
    prepare(store, held)
    before = contents(store)
    wanted = start("ETB001", pstore, force_cold=force_cold, erase=erase, now=99, job="the job")

    if isinstance(expected, Code):
        with pytest.raises(StartRefused) as refused:
            start_store(store, wanted)
        assert refused.value.code is expected
        assert contents(store) == before
    else:
        found = start_store(store, wanted)
        assert found.how is expected
        messages, records = contents(store)
        assert MASTER.decode(records[MASTER_KEY]) == found.master
        assert found.master.broker_id == "ETB001"
        checkpoint = CHECKPOINT.decode(records[f"{CHECKPOINTS}{expected.name}"])
        assert checkpoint == (expected, found.master.starts, 99, "ETB001", "the job")
        if expected is CheckpointName.ETBC:
            assert messages == []
            assert set(records) - {IDENTITY_KEY} == {MASTER_KEY, f"{CHECKPOINTS}ETBC"}
            assert records.get(IDENTITY_KEY, b"").decode() == " ".join(map(str, filter(None, store.opened)))
        else:
            assert messages == before[0]
            assert set(before[1]) <= set(records)
        assert found.highest >= max([message.number for message in before[0]], default=0)
    store.close()


def said(reported: Sequence[ReportLine]) -> list[tuple[str, RecordKind, Action]]:
    return [(line.identifier, line.kind, line.action) for line in reported]


def test_what_a_start_and_an_end_create_and_erase_is_reported(driver: Driver) -> None:
    master, checkpoint = RecordKind.MASTER, RecordKind.CHECKPOINT
    created, deleted = Action.CREATED, Action.DELETED
    store = driver.open()
    cold = start_store(store, start("ETB002", WARM))
    assert said(cold.reported) == [("ETB002", master, created), ("ETBC", checkpoint, created)]
    assert [(line.elements, line.length) for line in cold.reported] == [
        (1, len(store.record(key) or b"")) for key in (MASTER_KEY, f"{CHECKPOINTS}ETBC")
    ]
    hot = start_store(store, start("ETB002", HOT))
    assert said(hot.reported) == [("ETBH", checkpoint, created)]
    assert said(start_store(store, start("ETB002", HOT)).reported) == [], "written anew, not created"
    assert said(write_termination(store, hot, now=5)) == [("ETBT", checkpoint, created)]
    assert said(write_termination(store, hot, now=6)) == []
    store.commit(added(b"message", puts=put("broker/uow/1000000000000001", b"x").puts))

    erased = start_store(store, start("ETB001", COLD, force_cold=True, erase="ETB002", is_reported=True))
    assert said(erased.reported) == [
        ("ETBC", checkpoint, deleted),
        ("ETBH", checkpoint, deleted),
        ("ETBT", checkpoint, deleted),
        ("ETB002", master, deleted),
        ("1000000000000001", RecordKind.UOW, deleted),
        ("ETB001", master, created),
        ("ETBC", checkpoint, created),
    ]
    store.close()


@pytest.mark.parametrize("words", [("WARM", "COLD"), ("nothing was changed",)])
def test_a_hot_start_of_nothing_says_what_to_do(driver: Driver, words: tuple[str, ...]) -> None:
    store = driver.open()
    with pytest.raises(StartRefused) as refused:
        start_store(store, start(pstore=HOT))
    assert all(word in str(refused.value) for word in words)
    store.close()


def test_a_cold_start_says_whose_data_it_would_erase_and_how_much(driver: Driver) -> None:
    store = driver.open()
    prepare(store, "written ETB001")
    store.commit(added(b"x", b"y"))
    with pytest.raises(StartRefused, match=r"3 messages.*confirm it with .*--erase ETB001"):
        start_store(store, start(pstore=COLD))
    with pytest.raises(StartRefused, match=r"confirm it with .*--erase ETB001, not ETB009"):
        start_store(store, start(pstore=COLD, erase="ETB009"))
    assert store.message_count() == 3
    store.close()


def test_a_cold_start_checks_the_platform_too(driver: Driver) -> None:
    store = driver.open()
    prepare(store, "written ETB001")
    with pytest.raises(StartRefused) as refused:
        start_store(store, start(pstore=COLD, platform="SunOS sparc", erase="ETB001"))
    assert refused.value.code is Code.INVALID_BROKER_ID
    assert start_store(store, start(pstore=HOT, platform="SunOS sparc")).master.platform == "SunOS sparc"
    assert start_store(store, start(pstore=COLD, erase="ETB001", force_cold=True)).how is CheckpointName.ETBC
    store.close()


def test_the_clock_and_checkpoints_alone_are_erased_without_asking(driver: Driver) -> None:
    store = driver.open()
    found = begun(store)
    store.commit(put(CLOCK_KEY, b"x" * 40))
    write_termination(store, found, now=5, job="the end")
    assert CHECKPOINT.decode(dict(store.records(CHECKPOINTS))[f"{CHECKPOINTS}ETBT"]) == (3, 1, 5, "ETB001", "the end")
    start_store(store, start(pstore=COLD))
    assert store.record(CLOCK_KEY) is None
    store.close()


def test_no_identifier_comes_twice_over_restarts_and_cold_starts(driver: Driver) -> None:
    given: list[str] = []
    for turn, pstore in enumerate((WARM, HOT, COLD, HOT, WARM, COLD)):
        store = driver.open()
        identifiers = begun(store, pstore=pstore, erase="ETB001", force_cold=turn == 5).identifiers
        given += [identifiers.next() for _ in range(3)]
        given += [identifiers.next_numeric() for _ in range(2)]
        store.close()
    assert len(set(given)) == len(given)
    alphanumeric = [one for one in given if one.startswith("1")]
    assert alphanumeric == sorted(alphanumeric)
    assert {len(one) for one in given} == {16}
    assert all(one.isdecimal() and one.startswith("0") for one in given if one not in alphanumeric)
    assert int(alphanumeric[-1], 16) < 1 << 63


def test_identifiers_that_are_used_up_are_refused() -> None:
    identifiers = Identifiers(1)
    assert identifiers.next() == "1000000100000001"
    identifiers._count = (1 << 32) - 2
    assert identifiers.next() == "10000001FFFFFFFF"
    with pytest.raises(Exception, match=str(Code.NO_NEW_UOWID.value)):
        identifiers.next()
    with pytest.raises(Exception, match=str(Code.NO_NEW_UOWID.value)):
        Identifiers(1 << 28)
    assert Identifiers.without_store(1_700_000_000_000_000).next()[0] == "1"


def test_a_store_that_is_open_is_not_opened_again(driver: Driver) -> None:
    store = driver.open()
    begun(store)
    with pytest.raises(StartRefused) as refused:
        driver.open()
    assert refused.value.code is Code.RESTART_FAILED
    store.disconnect()
    with pytest.raises(StartRefused):
        driver.open()
    store.connect()
    store.commit(added(b"x"))
    store.close()
    driver.open().close()


def test_a_store_that_is_not_there_is_not_made_by_a_hot_start(driver: Driver, tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match="WARM"):
        driver.open(creates=False)
    assert list(tmp_path.rglob("*")) == []


def test_an_unreadable_master_record_is_no_reason_to_begin_anew(driver: Driver) -> None:
    store = driver.open()
    begun(store)
    store.commit(put(MASTER_KEY, b"?"))
    for pstore in (HOT, WARM, COLD):
        with pytest.raises(StartRefused, match="master record"):
            start_store(store, start(pstore=pstore, force_cold=True, erase="ETB001"))
    assert store.record(MASTER_KEY) == b"?"
    store.close()


# The thread beside the commits ends with its process, by the same exception.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("keys", [0, 5])
def test_an_erasure_that_was_interrupted_is_finished_by_the_next_opening(tmp_path: Path, keys: int) -> None:
    driver = JournalDriver(tmp_path)
    expected = None
    for kill_at in range(1, 200):
        driver = JournalDriver(tmp_path)
        store = driver.open()
        prepare(store, "written ETB001")
        for number in range(keys):
            store.commit(added(b"x", puts=put(f"broker/uow/{number}", b"x").puts))
        driver.disk.kill_at = driver.disk.steps + kill_at
        try:
            start_store(store, start(pstore=COLD, erase="ETB001"))
            is_killed = False
        except BaseException as killed:
            is_killed = True
            assert type(killed).__name__ in ("Killed", "StoreUnavailable")
        again = driver.killed().open()
        records = dict(again.records(""))
        assert ERASING_KEY not in records
        if MASTER.decode(records[MASTER_KEY]).starts == 1:
            assert again.message_count() == 1 + keys
        else:
            assert again.message_count() == 0
            assert set(records) - {IDENTITY_KEY} == {MASTER_KEY, f"{CHECKPOINTS}ETBC"}
            assert records.get(IDENTITY_KEY, b"").decode() == " ".join(map(str, filter(None, store.opened)))
        expected = records if not is_killed else None
        again.close()
        if not is_killed:
            break
    assert expected is not None, "at last nothing was killed"


def test_a_directory_of_another_program_is_not_touched_by_sqlite(tmp_path: Path) -> None:
    import sqlite3

    from oms_journal.broker.drivers.sqlite import SqliteStore

    file = tmp_path / "other.sqlite"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE theirs (a)")
    connection.commit()
    connection.close()
    with pytest.raises(StartRefused, match="no persistent store"):
        SqliteStore.open(file)
    (tmp_path / "text").write_bytes(b"no database at all" * 100)
    with pytest.raises(StartRefused):
        SqliteStore.open(tmp_path / "text")
    assert (tmp_path / "text").read_bytes() == b"no database at all" * 100


@pytest.mark.parametrize("kind", ["JOURNAL", "SQLITE"])
def test_the_attributes_name_the_store_and_how_it_is_begun(tmp_path: Path, kind: str) -> None:
    place = {"spool_directory": str(tmp_path / "s")} if kind == "JOURNAL" else {"database_file": str(tmp_path / "f")}

    def opened(pstore: str, erase: str | None = None) -> CheckpointName | None:
        attributes = built_in(broker_id="ME", pstore=pstore, pstore_type=kind, **place)
        running = begin_broker(StartOptions(attributes=attributes, erase=erase))
        store, began = running.store, running.begun
        if store is None or began is None:
            return None
        assert began.master.broker_id == "ME"
        assert began.master.platform and began.master.version
        store.commit(added(b"x"))
        store.close()
        return began.how

    assert opened("NO") is None
    with pytest.raises(StartRefused):
        opened("HOT")
    assert list(tmp_path.iterdir()) == []
    assert opened("WARM") is CheckpointName.ETBC
    assert opened("HOT") is CheckpointName.ETBH
    with pytest.raises(StartRefused):
        opened("COLD")
    assert opened("COLD", erase="ME") is CheckpointName.ETBC


def test_a_journal_of_plain_users_keeps_every_message(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as database:
        database.add("orders", b"1")
    for pstore in (HOT, WARM, COLD):
        store = JournalStore.open(tmp_path)
        with pytest.raises(StartRefused) as refused:
            start_store(store, start(pstore=pstore, force_cold=True, erase="ETB001"))
        assert refused.value.code is Code.RESTART_FAILED
        assert payloads(store) == {1: b"1"}
        store.close()
    with MessageDatabase.open(tmp_path) as database:
        assert database.deliver(1)


def test_nothing_is_written_by_a_commit_of_nothing(driver: Driver) -> None:
    store = driver.open()
    assert store.commit(Changes()) == 0
    assert store.is_empty()
    store.close()
