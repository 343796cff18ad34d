"""The limits, each at its edge: sizes, names, counts, and how few bytes many removals take."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oms_journal import InvalidName, LimitExceeded, MessageDatabase
from oms_journal.database.commits.block import CommitBlock
from oms_journal.database.options import Options
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.names import SEQUENCE_MAX, DataFileName
from oms_journal.journal.operations import PROPERTIES_BYTES_MAX, VALUE_BYTES_MAX
from oms_journal.journal.reading.datafile import DataFile, Footer
from tests.support.disks.small_files import MODEST
from tests.support.disks.watched_disk import HandClock
from tests.support.sweeps import a_sample

ODD_CHARACTERS = [
    *("\0", "\n", "\r\n", "\t", " ", "'", '"', "`", "\\", "/", "..", "*", "?", "%", "%s", "{}", "$(x)", "-", "."),
    *("\x01", "\x7f", "\x85", "\u2028", "\u202e", "\ufeff", "\ufffd", "\uffff", "ß", "ẞ", "é", "e\u0301", "中文", "😀"),
    *("\U0010ffff", "a" * 255, "é" * 127 + "x", "😀" * 63 + "abc", "\0" * 255),
]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path, max_data_file_size=MODEST, cleanup_interval=0) as opened:
        yield opened


def _files(directory: Path) -> dict[int, int]:
    """Return the sizes of the data files by their sequences."""
    return {int(path.name[7:17]): path.stat().st_size for path in directory.glob("omsmsg-*.data")}


def _commits(directory: Path, sequence: int) -> int:
    """Return how many commits a sealed file holds, by its footer."""
    with DataFile(RealDisk(), directory / str(DataFileName(sequence))) as file:
        footer = file.footer(identity=None)
        assert isinstance(footer, Footer)
        return len(set(footer.contents().columns["commit"].tolist()))


# Messages.


@pytest.mark.parametrize("limit", [1, 100, 6_144_000])
def test_a_message_may_have_any_size_up_to_the_limit(limit: int, tmp_path: Path) -> None:
    sizes = sorted(size for size in {0, 1, 7, 8, 9, limit - 1, limit} if size <= limit)
    with MessageDatabase.open(tmp_path, max_message_size=limit) as db:
        wanted: dict[int, int] = {db.add("q", bytes(size)): size for size in sizes}
        wanted |= dict(zip(db.add_many("q", [bytes(size) for size in sizes]), sizes, strict=True))
        with db.commit() as commit:
            commit.add("q", bytes(limit))
        wanted[commit.numbers[0]] = limit
        for call in (
            lambda: db.add("q", bytes(limit + 1)),
            lambda: db.add("q", memoryview(bytes(limit + 1))),
            lambda: db.add("q", bytes(limit + 1), producer_id="p"),
            lambda: db.add("q", bytes(limit), properties={"": ""}),
            lambda: db.add_many("q", [b"", bytes(limit + 1)]),
            lambda: db.commit().add("q", bytes(limit + 1)),
        ):
            with pytest.raises(LimitExceeded, match=f"at most {limit} are allowed"):
                call()
    with MessageDatabase.open(tmp_path) as db:
        assert {message.number: message.payload for message in db.undelivered()} == {
            number: bytes(size) for number, size in wanted.items()
        }


def test_the_default_limit_of_a_message_is_the_documented_one() -> None:
    assert Options().max_message_size == 6_144_000
    assert Options.of(max_message_size="1G").max_message_size == 1 << 30
    with pytest.raises(ValueError, match="max_message_size"):
        Options.of(max_message_size=(1 << 30) + 1)


def test_the_properties_of_a_message_may_have_64_kib(db: MessageDatabase) -> None:
    def properties(size: int) -> dict[str, str]:
        first = {"a": "x" * 30_000}
        rest = size - 4 - 1 - 30_000 - 4 - 1
        return first | {"b": "y" * rest}

    number = db.add("q", b"payload", properties=properties(PROPERTIES_BYTES_MAX))
    assert db.read(number).properties == properties(PROPERTIES_BYTES_MAX)
    assert db.read(number).payload == b"payload"
    for size in (PROPERTIES_BYTES_MAX + 1, 2 * PROPERTIES_BYTES_MAX):
        with pytest.raises(LimitExceeded):
            db.add("q", b"", properties=properties(size))
    with pytest.raises(LimitExceeded, match="property text"):
        db.add("q", b"", properties={"k": "x" * 0x10000})
    many = {str(index): "" for index in range(7000)}
    assert db.read(db.add("q", b"", properties=many)).properties == many
    assert db.undelivered_count() == 2


@pytest.mark.parametrize("wrong", [{"k": 1}, {1: "v"}, {"k": None}, {"k": b"v"}, {"\ud800": "v"}, {"k": "\udfff"}])
def test_properties_that_are_no_text_are_refused(db: MessageDatabase, wrong: dict[str, str]) -> None:
    with pytest.raises((TypeError, InvalidName)):
        db.add("q", b"", properties=wrong)
    assert db.undelivered_count() == 0


def test_a_value_may_have_64_kib(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        for size in (0, 1, 127, 128, 129, VALUE_BYTES_MAX - 1, VALUE_BYTES_MAX):
            db.put(f"key {size}", bytes(range(256)) * (size // 256) + bytes(size % 256))
        with pytest.raises(LimitExceeded, match="at most 65536"):
            db.put("key", bytes(VALUE_BYTES_MAX + 1))
    with MessageDatabase.open(tmp_path) as db:
        for size in (0, 1, 127, 128, 129, VALUE_BYTES_MAX - 1, VALUE_BYTES_MAX):
            assert db.get(f"key {size}") == bytes(range(256)) * (size // 256) + bytes(size % 256)
        assert db.get("key") is None


# Names.


@a_sample(8)
@pytest.mark.parametrize("name", ODD_CHARACTERS, ids=ascii)
def test_a_name_may_have_any_character(name: str, tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, max_data_file_size=MODEST) as db:
        numbers: list[int] = [db.add(name, b"plain"), db.add(name, b"rich", properties={name: name}, producer_id=name)]
        numbers += db.add_many(name, [b"1", b"2"])
        with db.commit() as commit:
            commit.add(name, b"in a block")
        numbers += commit.numbers
        if not name.startswith("\0"):
            db.put(name, name.encode())
        taken = db.take(name)
        assert taken is not None and taken.number == numbers[0]
        assert db.deliver(numbers.pop(2))
    with MessageDatabase.open(tmp_path, max_data_file_size=MODEST) as db:
        assert db.queues() == {name: 4}
        assert db.stats().queues[name].undelivered == 4
        assert [message.number for message in db.undelivered(name)] == numbers
        assert {message.queue for message in db.undelivered()} == {name}
        assert db.read(numbers[1]).properties == {name: name}
        assert db.read(numbers[1]).producer_id == name
        assert db.add(name, b"rich", producer_id=name) == numbers[1]
        if not name.startswith("\0"):
            assert list(db.keys()) == [name]
            assert db.get(name) == name.encode()
            assert db.drop(name)


@given(name=st.text(min_size=1, max_size=64))
@settings(derandomize=True, max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_of_255_bytes_names_a_queue(name: str, db: MessageDatabase) -> None:
    number = db.add(name, name.encode("utf-8"))

    assert db.read(number).queue == name
    assert number in list(db.numbers(name))
    db.delete(number)


@pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128, "😀" * 64, "\0" * 256, "\ud800", "a\udfffb"], ids=ascii)
def test_a_name_that_is_too_long_or_no_unicode_is_refused(name: str, db: MessageDatabase) -> None:
    for call in (
        lambda: db.add(name, b""),
        lambda: db.add("q", b"", producer_id=name),
        lambda: db.add_many(name, [b""]),
        lambda: db.add_many("q", [b""], producer_id=name),
        lambda: db.commit(producer_id=name),
        lambda: db.commit().add(name, b""),
        lambda: db.put(name, b""),
        lambda: db.drop(name),
        lambda: db.get(name),
    ):
        with pytest.raises(InvalidName):
            call()
    assert db.undelivered_count() == 0


@pytest.mark.parametrize("key", ["\0", "\0low-water", "\0duplicates/000000", "\0anything"])
def test_keys_of_the_engine_are_refused_and_never_shown(key: str, tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, max_data_file_size=7680, cleanup_interval=0) as db:
        for index in range(12):
            db.delete(db.add("q", bytes(900), producer_id=str(index)))
        assert db.cleanup().deleted, "clean-up has left keys of its own"

        def in_a_block(call: Callable[[CommitBlock], object]) -> None:
            with db.commit() as block:
                call(block)

        for call in (
            lambda: db.put(key, b""),
            lambda: db.get(key),
            lambda: db.drop(key),
            lambda: in_a_block(lambda block: block.put(key, b"")),
            lambda: in_a_block(lambda block: block.drop(key)),
        ):
            with pytest.raises(InvalidName, match="belong to the engine"):
                call()
        assert list(db.keys()) == list(db.keys("\0")) == []
        assert db.stats().keys == 0
        db.put("a\0b", b"")
        assert list(db.keys()) == ["a\0b"]


# Commits and files.


@pytest.mark.whole
@pytest.mark.parametrize("limit", [7680, 8584, 65_536])
def test_no_sealed_file_is_larger_than_the_limit_unless_one_commit_is(limit: int, tmp_path: Path) -> None:
    chance = random.Random(limit)
    with MessageDatabase.open(tmp_path, max_data_file_size=limit, cleanup_interval=0) as db:
        for turn in range(400):
            match turn % 7:
                case 0:
                    db.add_many("q" * chance.randint(1, 255), [chance.randbytes(chance.randint(0, 60))] * 5)
                case 1:
                    db.put(f"key {chance.randint(0, 9)}", chance.randbytes(chance.randint(0, limit // 4)))
                case 2:
                    db.add("q", chance.randbytes(chance.randint(0, limit // 3)), properties={"k": "v" * 50})
                case 3:
                    db.delete_many(chance.sample(range(1, 500), 20))
                case 4:
                    db.add("q", b"x", producer_id=f"order {turn}")
                case _:
                    db.add(f"queue {chance.randint(0, 3)}", chance.randbytes(chance.randint(0, 200)))
    sizes = _files(tmp_path)

    assert len(sizes) > 3
    assert all(size <= limit or _commits(tmp_path, sequence) == 1 for sequence, size in sizes.items())
    assert sorted(sizes) == list(range(min(sizes), min(sizes) + len(sizes)))


@pytest.mark.parametrize("size", [4097, 20_000, 1_000_000])
def test_a_commit_larger_than_the_limit_has_a_file_of_its_own(size: int, tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, max_data_file_size=7680, cleanup_interval=0) as db:
        before = db.add("q", b"before")
        large = db.add("q", bytes(size))
        many = db.add_many("q", [bytes(100)] * (size // 100))
        after = db.add("q", b"after")
        places = {number: db.read(number).sequence for number in (before, large, many[0], many[-1], after)}
    assert places[before] < places[large] < places[many[0]] == places[many[-1]] < places[after]
    with MessageDatabase.open(tmp_path, max_data_file_size=7680) as db:
        assert db.recovery.intact
        assert db.read(large).payload == bytes(size)
        assert db.undelivered_count() == 3 + len(many)


@pytest.mark.whole
def test_a_commit_has_at_most_a_million_operations_and_delivering_them_costs_few_bytes(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, cleanup_interval=0) as db:
        numbers = db.add_many("q", [b""] * 1_000_000)
        more = db.add("q", b"")
        with pytest.raises(LimitExceeded, match=r"1,?000,?000"):
            db.add_many("q", [b""] * 1_000_001)
        with pytest.raises(LimitExceeded, match=r"1,?000,?000"):
            db.deliver_many([*numbers, more])
        assert db.undelivered_count() == 1_000_001
        assert db.delete(more)
    before = sum(_files(tmp_path).values())
    with MessageDatabase.open(tmp_path, cleanup_interval=0) as db:
        assert db.deliver_many(numbers) == 1_000_000
        assert db.undelivered_count() == 0

    assert sum(_files(tmp_path).values()) - before < 5800, "a run of numbers, and a file around it"


@a_sample(2)
@pytest.mark.parametrize("queues", [1, 12, 100])
@pytest.mark.parametrize("kind", ["deliver_many", "delete_many"])
def test_removing_messages_of_interleaved_queues_costs_two_bytes_each(queues: int, kind: str, tmp_path: Path) -> None:
    count = 6000
    chance = random.Random(queues)
    with MessageDatabase.open(tmp_path, cleanup_interval=0) as db:
        mine: dict[str, list[int]] = {}
        with db.commit() as commit:
            order = [f"queue {chance.randrange(queues)}" for _ in range(count)]
            for queue in order:
                commit.add(queue, b"")
        for number, queue in zip(commit.numbers, order, strict=True):
            mine.setdefault(queue, []).append(number)
    before = sum(_files(tmp_path).values())
    with MessageDatabase.open(tmp_path, cleanup_interval=0) as db:
        for numbers in mine.values():
            assert getattr(db, kind)(numbers) == len(numbers)
        assert db.undelivered_count() == 0
    # The set stands in the frame and in the footer.
    spent = sum(_files(tmp_path).values()) - before - 400 * queues - 2000

    assert spent <= 2 * 2 * count


# Sequences.


def test_sequences_go_on_from_a_high_one_and_names_stay_sorted(tmp_path: Path) -> None:
    start = 99_995
    with MessageDatabase.open(tmp_path, max_data_file_size=7680, cleanup_interval=0) as db:
        db._journal._supply._next_sequence = start
        numbers = [db.add("q", bytes(900)) for _ in range(60)]
    sizes = _files(tmp_path)
    assert min(sizes) == start and max(sizes) > 100_000
    names = sorted(path.name for path in tmp_path.glob("*.data"))
    assert names == [str(DataFileName(sequence)) for sequence in sorted(sizes)]
    with MessageDatabase.open(tmp_path, max_data_file_size=7680, cleanup_interval=0) as db:
        assert db.recovery.intact
        assert [message.number for message in db.undelivered()] == numbers
        db.deliver_many(numbers[:-1])
        db.cleanup()
        assert min(_files(tmp_path)) == db.read(numbers[-1]).sequence


def test_the_last_sequences_can_be_written_and_read(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, max_data_file_size=7680, cleanup_interval=0) as db:
        db._journal._supply._next_sequence = SEQUENCE_MAX - 5
        numbers = [db.add("q", bytes(1500)) for _ in range(4)]
    assert max(_files(tmp_path)) <= SEQUENCE_MAX
    with MessageDatabase.open(tmp_path) as db:
        assert [message.number for message in db.undelivered()] == numbers


# Clocks.


def test_a_clock_that_jumps_back_changes_nothing_but_the_times(tmp_path: Path) -> None:
    clock = HandClock()
    chance = random.Random(1)
    times: list[int] = []
    for _ in range(6):
        with MessageDatabase.open(tmp_path, max_data_file_size=7680, cleanup_interval=0, clock=clock) as db:
            for _ in range(20):
                clock.advance(chance.uniform(-100_000, 10_000))
                number = db.add("q", bytes(100))
                assert abs(db.read(number).added_us - clock.now) < 1_000_000
                times.append(db.read(number).added_us)
            db.cleanup(compact=True)
            assert all(age.oldest_age is None or age.oldest_age >= 0 for age in db.stats().queues.values())
    with MessageDatabase.open(tmp_path, clock=clock) as db:
        assert [message.number for message in db.undelivered()] == list(range(1, 121))
        assert [message.added_us for message in db.undelivered()] == times
    assert times != sorted(times)


@pytest.mark.parametrize("now", [0, -1, -(1 << 62), 1 << 62])
def test_any_time_that_a_clock_may_show_is_kept(now: int, tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, clock=lambda: now) as db:
        number = db.add("q", b"x")
        db.put("k", b"v")
    with MessageDatabase.open(tmp_path) as db:
        assert db.read(number).added_us == now
        assert db.stats().queues["q"].undelivered == 1
