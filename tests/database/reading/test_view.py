"""Reading a database without its lock, also while another process writes: only what is vouched for, and all of it."""

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from time import sleep

import pytest

from oms_journal import DatabaseView, DiskError, MessageDamaged, MessageDatabase, NoSuchMessage
from oms_journal.database import maintenance
from oms_journal.database.lookup import look_up
from oms_journal.journal.format.headers import HEADERS_SIZE
from oms_journal.journal.names import INDEX, DataFileName
from tests.support.disks.small_files import fill, open_small
from tests.support.journals import golden_files
from tests.support.sweeps import a_sample


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MessageDatabase]:
    monkeypatch.setattr(maintenance, "VOUCH_SECONDS", 3600.0)  # it vouches only where a test says so
    with open_small(tmp_path / "spool") as opened:
        yield opened


def _seen(directory: Path) -> list[int]:
    with DatabaseView.open(directory) as view:
        return [message.number for message in view.undelivered()]


def _looked_up(directory: Path, numbers: range) -> list[int]:
    found = []
    for number in numbers:
        try:
            assert look_up(directory, number).number == number
            found.append(number)
        except NoSuchMessage:
            pass
    return found


# What is vouched for.


@pytest.mark.whole
def test_a_view_shows_what_a_later_commit_vouches_for(db: MessageDatabase) -> None:
    assert _seen(db.directory) == []
    hidden = 0
    for number in range(1, 20):
        db.add("q", b"x" * 50)
        seen = _seen(db.directory)
        assert seen in (list(range(1, number)), list(range(1, number + 1)))
        hidden += number not in seen
        assert _looked_up(db.directory, range(1, 22))[: len(seen)] == seen
    assert hidden > 10, "a power cut could still take the last one back, but where it begins a file"
    db._vouch()  # as after a second of silence
    assert _seen(db.directory) == _looked_up(db.directory, range(1, 22)) == list(range(1, 20))
    db.deliver(1)
    assert _seen(db.directory)[0] == 1
    db._vouch()
    assert _seen(db.directory)[0] == 2


def test_a_view_of_a_closed_database_shows_all_of_it(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        numbers = [db.add(f"queue {index % 3}", b"%d" % index, properties={"k": "v"}) for index in range(50)]
        db.put("a", b"1")
        db.put("b", b"2")
        db.drop("b")
        db.deliver_many(numbers[10:20])
        expected = list(db.undelivered())
        queues, stats = db.queues(), db.stats()
    with DatabaseView.open(tmp_path) as view:
        assert [message[:6] for message in view.undelivered()] == [message[:6] for message in expected]
        assert list(view.undelivered("queue 1")) == [m for m in view.undelivered() if m.queue == "queue 1"]
        assert list(view.numbers()) == [message.number for message in expected]
        assert list(view.numbers("queue 2")) == [m.number for m in expected if m.queue == "queue 2"]
        assert view.read(numbers[0]) == expected[0]
        assert view.queues() == queues
        assert view.undelivered_count() == len(expected)
        assert view.undelivered_count("queue 0") == queues["queue 0"]
        assert (list(view.keys()), view.get("a"), view.get("b")) == (["a"], b"1", None)
        assert view.stats().queues.keys() == stats.queues.keys()
        assert view.owner is not None and not view.owner.is_open
        for number in (numbers[10], 0, 999, 1 << 64):
            with pytest.raises(NoSuchMessage):
                view.read(number)


def test_a_view_knows_who_has_the_databaseopen_small(db: MessageDatabase) -> None:
    with DatabaseView.open(db.directory) as view:
        assert view.owner is not None
        assert (view.owner.pid, view.owner.is_open) == (os.getpid(), True)


def test_a_view_changes_nothing(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        for _ in range(20):
            db.add("q", bytes(500))
        db._maintenance.stop()  # which prepares files
        (tmp_path / "omsmsg-0000000099.data").write_bytes(b"")
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        with DatabaseView.open(tmp_path) as view:
            list(view.undelivered())
            view.stats()
            view.explain()
        look_up(tmp_path, 1)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
        (tmp_path / "omsmsg-0000000099.data").unlink()


def test_a_directory_that_is_not_there_is_an_error_and_a_database_without_files_is_empty(tmp_path: Path) -> None:
    with pytest.raises(DiskError):
        DatabaseView.open(tmp_path / "none")
    with pytest.raises(DiskError):
        look_up(tmp_path / "none", 1)
    (tmp_path / "omsmsg.lock").touch()
    with DatabaseView.open(tmp_path) as view:
        assert view.undelivered_count() == 0
        assert view.stats().files == 0
        assert view.explain() == []
        assert view.owner is None
    with pytest.raises(NoSuchMessage):
        look_up(tmp_path, 1)


def test_keys_of_the_engine_are_not_shown(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        db.deliver_many([db.add("q", bytes(900), producer_id=str(index)) for index in range(12)])
        assert db.cleanup().deleted
    with DatabaseView.open(tmp_path) as view:
        assert list(view.keys()) == list(view.keys("\0")) == []
        assert view.stats().keys == 0


# Beside a running writer.


def test_a_view_beside_a_running_writer_shows_a_moment_that_was(tmp_path: Path) -> None:
    """The writer adds a message and delivers the tenth before it: a view has the ten or eleven newest.

    Those of them that are delivered while they are read are left out.
    """
    acknowledged = 0
    stopping = threading.Event()

    def write(db: MessageDatabase) -> None:
        nonlocal acknowledged
        while not stopping.is_set():
            number = db.add("q", b"x" * 300)
            acknowledged = number
            if number > 10:
                db.deliver(number - 10)
            if number % 50 == 0:
                db.cleanup()

    with open_small(tmp_path) as db:
        writer = threading.Thread(target=write, args=(db,))
        writer.start()
        try:
            for _ in range(60):
                before = acknowledged
                with DatabaseView.open(tmp_path) as view:
                    seen, after = list(view.numbers()), acknowledged
                    left_out = set(seen) - {message.number for message in view.undelivered()}
                assert all(number <= acknowledged - 10 for number in left_out)
                if seen:
                    assert seen == list(range(seen[0], seen[-1] + 1)), "nothing is missing in between"
                    assert before - 1 <= seen[-1] <= after + 1
                    assert seen[0] == 1 or seen[-1] - 10 <= seen[0] <= seen[-1] - 9
                else:
                    assert before <= 1
        finally:
            stopping.set()
            writer.join()


def test_what_a_file_ends_with_is_seen_where_the_next_one_was_begun_meanwhile(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:

        def roll(_stage: str, done: int, _total: int) -> None:
            """Begin the file that was only prepared when the directory was listed."""
            if len(files) == 2 and done:
                before = files.pop()
                while before.read_bytes()[:8] == bytes(8):
                    db.add("q", b"x" * 300)
                db.add("q", b"the one behind it is vouched for by this one")

        while len(files := sorted(tmp_path.glob("*.data"))) < 2:  # the second is prepared while the first is written
            db.add("q", b"x" * 300)
            sleep(0.01)
        with DatabaseView.open(tmp_path, progress=roll) as view:
            seen = list(view.numbers())
        assert len(files) == 1 and seen == list(range(1, seen[-1] + 1)) and len(seen) > 2


@pytest.mark.whole
def test_messages_are_looked_up_beside_a_running_writer(tmp_path: Path) -> None:
    stopping = threading.Event()

    def churn(db: MessageDatabase) -> None:
        while not stopping.is_set():
            db.deliver_many([db.add("q", bytes(700)) for _ in range(8)])
            db.cleanup(compact=True)

    with open_small(tmp_path) as db:
        kept = db.add_many("kept", [b"%d" % index for index in range(10)])
        gone = db.add("gone", b"x")
        db.deliver(gone)
        db._vouch()
        writer = threading.Thread(target=churn, args=(db,))
        writer.start()
        try:
            for turn in range(100):
                number = kept[turn % 10]
                assert look_up(tmp_path, number).payload == b"%d" % (turn % 10)
                with pytest.raises(NoSuchMessage):
                    look_up(tmp_path, gone)
        finally:
            stopping.set()
            writer.join()


def test_a_message_is_looked_up_where_the_index_file_cannot_be_read(db: MessageDatabase) -> None:
    number = db.add("q", b"there")
    db._vouch()
    (db.directory / INDEX).unlink(missing_ok=True)
    (db.directory / INDEX).mkdir()
    assert look_up(db.directory, number).payload == b"there"


@pytest.fixture
def churned(tmp_path: Path) -> Iterator[tuple[DatabaseView, MessageDatabase, list[int]]]:
    """A view whose files have gone since it was opened: what it showed was moved elsewhere."""
    with open_small(tmp_path / "spool") as db:
        kept = list(db.add_many("kept", [b"%d" % index for index in range(10)]))
        db.put("k", b"value")
        rest = [db.add("q", bytes(700)) for _ in range(20)]
        db.deliver_many(rest)
        db._vouch()
        with DatabaseView.open(db.directory) as view:
            db.deliver(kept[3])
            assert db.cleanup(compact=True).moved_messages == 9
            db._vouch()
            yield view, db, kept


def test_a_message_whose_file_has_gone_is_found_where_it_was_moved(
    churned: tuple[DatabaseView, MessageDatabase, list[int]],
) -> None:
    view, _, kept = churned

    assert view.read(kept[0]).payload == b"0"
    with pytest.raises(NoSuchMessage):
        view.read(kept[3])


def test_an_iteration_goes_on_where_its_files_have_gone(
    churned: tuple[DatabaseView, MessageDatabase, list[int]],
) -> None:
    view, _, kept = churned

    assert [message.number for message in view.undelivered("kept")] == [n for n in kept if n != kept[3]]


def test_a_value_whose_file_has_gone_is_found_where_it_was_moved(
    churned: tuple[DatabaseView, MessageDatabase, list[int]],
) -> None:
    view, _, _ = churned

    assert view.get("k") == b"value"


def test_the_figures_of_a_view_whose_files_have_gone_can_still_be_asked_for(
    churned: tuple[DatabaseView, MessageDatabase, list[int]],
) -> None:
    view, db, _ = churned

    assert view.stats().directory == str(db.directory)
    assert isinstance(view.explain(), list)


def test_a_damaged_message_is_told_by_a_view_too(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        one, damaged, two = (db.add("q", word * 9) for word in (b"one", b"damaged", b"two"))
    path = tmp_path / str(DataFileName(1))
    with DatabaseView.open(tmp_path) as view:
        path.write_bytes(path.read_bytes().replace(b"damaged", b"Damaged", 1))
        with pytest.raises(MessageDamaged):
            view.read(damaged)
        assert [message.number for message in view.undelivered()] == [one, two]
    with pytest.raises(MessageDamaged):
        look_up(tmp_path, damaged)


# Looking one message up.


@a_sample(1)
@pytest.mark.parametrize("index", ["fresh", "missing", "broken", "old"])
def test_a_message_is_looked_up_with_or_without_the_index_file(index: str, tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        numbers = [db.add(f"queue {place % 3}", b"%d" % place * 100) for place in range(60)]
        db.deliver_many(numbers[20:30])
        old = (tmp_path / INDEX).read_bytes()
        db.delete(numbers[5])
        db.deliver_many([db.add("q", bytes(900)) for _ in range(10)])
        db.deliver_many(numbers[:4])
        assert db.cleanup(compact=True).moved_messages
        expected = {message.number: message for message in db.undelivered()}
    match index:
        case "missing":
            (tmp_path / INDEX).unlink()
        case "broken":
            (tmp_path / INDEX).write_bytes((tmp_path / INDEX).read_bytes()[:-1] + b"?")
        case "old":
            (tmp_path / INDEX).write_bytes(old)
        case _:
            pass
    for number in range(0, 80):
        if number in expected:
            assert look_up(tmp_path, number)[:6] == expected[number][:6]
        else:
            with pytest.raises(NoSuchMessage):
                look_up(tmp_path, number)


def test_the_first_group_of_a_file_that_the_one_before_it_names_is_shown_whole_frames_at_a_time(tmp_path: Path) -> None:
    writing = golden_files.journal(tmp_path)
    golden_files.write(writing, golden_files.add(b"q", b"one"))
    writing.roll_at_next_commit()
    golden_files.write(writing, golden_files.add(b"q", b"two"), golden_files.add(b"q", b"three"))
    writing.seal_all()

    with DatabaseView.open(tmp_path) as view:
        assert [message.payload for message in view.undelivered()] == [b"one", b"two"]
        assert view.stats().bytes % 8 == 0
    writing.close(seal=False)


# A file without a header, whose identity its neighbours tell.


@pytest.mark.parametrize("index", ["fresh", "missing"])
def test_messages_are_read_from_a_file_whose_header_is_gone_and_whose_identity_is_known(
    index: str, tmp_path: Path
) -> None:
    with open_small(tmp_path) as db:
        db.put("k", b"value")
        fill(db, 2)
        expected = list(db.undelivered())
    path = tmp_path / str(DataFileName(1))
    path.write_bytes(bytes(HEADERS_SIZE) + path.read_bytes()[HEADERS_SIZE:-1] + b"?")  # its footer's copy too
    if index == "missing":
        (tmp_path / INDEX).unlink()

    with DatabaseView.open(tmp_path) as view:
        assert view.undelivered_count() == len(expected)
        assert list(view.undelivered()) == expected
        assert view.get("k") == b"value"
        assert [view.read(message.number) for message in expected] == expected
    assert [look_up(tmp_path, message.number) for message in expected] == expected


def test_a_message_is_looked_up_in_an_unsealed_file_whose_header_is_gone(tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        fill(db, 1)
        last = max(db.numbers())
        db._vouch()
        (tmp_path / "killed").mkdir()
        for name in (INDEX, str(DataFileName(1)), str(DataFileName(2))):
            shutil.copy(tmp_path / "spool" / name, tmp_path / "killed")
    path = tmp_path / "killed" / str(DataFileName(2))  # which the footer before it names
    path.write_bytes(bytes(HEADERS_SIZE) + path.read_bytes()[HEADERS_SIZE:])

    assert look_up(tmp_path / "killed", last).number == last
    assert _seen(tmp_path / "killed")[-1] == last
