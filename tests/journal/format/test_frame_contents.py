"""Messages and values of commits of any size: read as they were written, whether the frame is decoded or was kept."""

import gc
import random
import sys
from array import array
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oms_journal import Message, MessageDatabase
from oms_journal.database.bulk.loading import load
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import MessageDamaged
from oms_journal.journal.format.frames import FrameHeader
from oms_journal.journal.format.records import TERMS, WITHOUT_TERMS, Record, TermColumns
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.message import (
    FRAME_KEPT_BYTES_MAX,
    FRAME_KEPT_MIN,
    KEPT_BYTES_MAX,
    READ_BYTES,
    FrameContents,
    KeptFrames,
    Stored,
    contents_of,
)
from oms_journal.recovery.report import Verdict
from oms_journal.recovery.validation import validate_directory
from tests.support.crashes.crash_model import SPOOL, open_unattended
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.disks.watched_disk import CountingDisk, WatchedDisk
from tests.support.sweeps import a_sample

Added = tuple[str, bytes, dict[str, str], str | None]
queues = st.sampled_from(["q", "häuser"])
payloads = st.sampled_from([b"", b"x", b"y" * 700, b"z" * 5000])
properties = st.sampled_from([{}, {}, {"kind": "order", "leer": ""}])
producers = st.sampled_from([None, None, "4711"])
adds = st.lists(st.tuples(queues, payloads, properties, producers), max_size=12)
puts = st.lists(st.tuples(st.sampled_from("abc"), payloads), max_size=4)


def _commit(db: MessageDatabase, added: list[Added], values: list[tuple[str, bytes]], at: int) -> list[int]:
    """Write one commit with values among its messages; return the numbers."""
    with db.commit() as commit:
        for place, (queue, payload, given, producer) in enumerate(added):
            name = None if producer is None else f"{producer}-{at}-{place}"
            commit.add(queue, payload, properties=given, producer_id=name)
            for key, value in values[place : place + 1]:
                commit.put(key, value)
        for key, value in values[len(added) :]:
            commit.put(key, value)
    return list(commit.numbers)


@pytest.mark.whole
@given(commits=st.lists(st.tuples(adds, puts), min_size=1, max_size=4), seed=st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_every_message_and_value_of_a_commit_is_read_as_it_was_written(
    commits: list[tuple[list[Added], list[tuple[str, bytes]]]], seed: int
) -> None:
    expected: dict[int, Added] = {}
    latest: dict[str, bytes] = {}
    with open_unattended(SimulatedDisk()) as db:
        for at, (added, values) in enumerate(commits):
            expected.update(zip(_commit(db, added, values, at), added, strict=True))
            latest.update(values)
        for _ in range(2):  # decoded, then kept
            wanted = [*expected]
            random.Random(seed).shuffle(wanted)
            for number in wanted:
                queue, payload, given, producer = expected[number]
                found = db.read(number)
                assert (found.number, found.queue, found.payload, found.properties) == (number, queue, payload, given)
                assert (found.producer_id is None) == (producer is None)
            assert {key: db.get(key) for key in latest} == latest
        assert [found.number for found in db.undelivered()] == sorted(expected)


@a_sample(2)
@pytest.mark.parametrize("seed", range(4))
def test_messages_that_were_moved_are_read_as_before(seed: int) -> None:
    """Compaction writes them under numbers that do not follow one another, many in a commit."""
    chance = random.Random(seed)
    with open_unattended(SimulatedDisk(), max_data_file_size=7680) as db:
        numbers = [
            db.add(f"q{place % 3}", b"%d" % place, properties={"place": str(place)} if place % 2 else {})
            for place in range(300)
        ]
        kept = dict.fromkeys(sorted(chance.sample(numbers, 40)))
        for number in kept:
            kept[number] = db.read(number)._replace(sequence=0, offset=0)
        db.deliver_many([number for number in numbers if number not in kept])
        assert db.cleanup(compact=True).moved_messages == len(kept)
        for _ in range(2):
            for number in chance.sample([*kept], len(kept)):
                assert db.read(number)._replace(sequence=0, offset=0) == kept[number]


def test_messages_that_were_loaded_with_numbers_in_any_distance_are_read_as_they_were() -> None:
    loaded = [
        Message(
            number, f"q{number % 2}", b"%d" % number, {"n": str(number)} if number % 3 else {}, 7 * number, None, 0, 0
        )
        for number in sorted(random.Random(1).sample(range(1, 10_000), 200))
    ]
    with open_unattended(SimulatedDisk()) as db:
        load(db, loaded, {})
        for _ in range(2):
            for message in random.Random(2).sample(loaded, len(loaded)):
                assert db.read(message.number)._replace(sequence=0, offset=0) == message


@pytest.mark.parametrize("way", ["add_many", "a block of every kind"])
def test_taking_all_messages_of_a_large_commit_reads_its_records_once(way: str, tmp_path: Path) -> None:
    count, size = 1500, 50
    disk = CountingDisk()
    with MessageDatabase.open(tmp_path, disk=disk, cleanup_interval=0) as db:
        if way == "add_many":
            db.add_many("q", [b"x" * size] * count)
        else:
            with db.commit() as commit:
                for place in range(count):
                    commit.add("q", b"x" * size, producer_id=str(place), properties={"a": "b"} if place % 2 else None)
                    commit.put(f"key {place}", b"value")
        frame_bytes = sum(len(path.read_bytes().rstrip(b"\0")) for path in tmp_path.glob("omsmsg-*.data"))
        disk.bytes_read = 0

        taken = [message.number for message in iter(lambda: db.take("q"), None)]

        assert taken == sorted(taken) and len(taken) == count
        # Each message, and of the first, of which nothing is known yet, once more where a single one would be.
        assert disk.bytes_read <= frame_bytes + (count + 1) * READ_BYTES


@pytest.mark.parametrize("hurt", [0, 3, 9])
def test_a_payload_is_verified_whenever_it_is_read_also_where_its_frame_was_kept(hurt: int) -> None:
    disk = SimulatedDisk()
    with open_unattended(disk) as db:
        numbers = db.add_many("q", [b"payload %d" % place for place in range(10)])
        for number in numbers:
            db.read(number)
        data = disk.contents(SPOOL)["omsmsg-0000000001.data"]
        disk.rot(SPOOL / "omsmsg-0000000001.data", b"rotten", data.index(b"payload %d" % hurt))

        with pytest.raises(MessageDamaged, match="the message's checksum does not match"):
            db.read(numbers[hurt])
        assert [message.number for message in iter(lambda: db.take("q"), None)] == [
            number for number in numbers if number != numbers[hurt]
        ]


def test_a_frame_whose_records_rot_after_they_were_read_still_gives_its_messages_verified() -> None:
    disk = SimulatedDisk()
    with open_unattended(disk) as db:
        numbers = db.add_many("q", [b"payload %d" % place for place in range(10)])
        first = db.read(numbers[0])
        disk.rot(SPOOL / "omsmsg-0000000001.data", b"\xff" * 8, first.offset + 60)

        assert [db.read(number).payload for number in numbers] == [b"payload %d" % place for place in range(10)]
    assert [report.verdict for report in validate_directory(SPOOL, disk)] != [Verdict.CLEAN], "a new look sees it"


def test_what_was_kept_of_a_file_goes_with_it() -> None:
    with open_unattended(SimulatedDisk(), max_data_file_size=7680) as db:
        numbers = [*db.add_many("q", [b"%d" % place for place in range(100)])]
        source, offset = db._state().files.source(1), db.read(numbers[0]).offset
        while source.sequence == db.read(db.add("q", b"later")).sequence:
            pass
        assert source.kept.find(source.identity, offset) is not None
        db.deliver_many(numbers)
        assert db.cleanup().deleted

        assert source.kept.find(source.identity, offset) is None


def test_nothing_is_kept_of_a_frame_whose_records_are_damaged() -> None:
    disk = SimulatedDisk()
    with open_unattended(disk) as db:
        numbers = db.add_many("q", [b"payload %d" % place for place in range(10)])
        place = db._state().ledger.index.table.find(numbers[0])
        assert place is not None
        good = disk.contents(SPOOL)["omsmsg-0000000001.data"]
        disk.rot(SPOOL / "omsmsg-0000000001.data", b"\xff", place.offset + 60)
        for number in numbers:
            with pytest.raises(MessageDamaged, match="checksum"):
                db.read(number)
        disk.rot(SPOOL / "omsmsg-0000000001.data", good[place.offset + 60 : place.offset + 61], place.offset + 60)
        assert [db.read(number).payload for number in numbers] == [b"payload %d" % place for place in range(10)]


def _contents(offset: int, messages: int, *, records: int = 1, values: int = 0) -> FrameContents:
    places = range(messages)
    wide, narrow = array("Q", [0]) * messages, array("I", [0]) * messages
    return FrameContents(
        offset=offset, time=0, numbers=places, order=places, starts=wide, sizes=narrow, checksums=wide,
        property_sizes=narrow, first_times=(), terms={}, ends=[messages] * records,
        names=[(b"queue", b"producer")] * records,
        values={str(place).encode(): Stored(0, 0, 0) for place in range(values)},
    )  # fmt: skip


def _kept(frames: KeptFrames, last: int) -> list[FrameContents]:
    return [found for offset in range(last) if (found := frames.find(1, offset)) is not None]


@given(sizes=st.lists(st.tuples(st.integers(0, 1_200_000), st.integers(1, 1000), st.integers(0, 1000)), max_size=12))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_what_is_kept_never_takes_more_than_its_bounds(sizes: list[tuple[int, int, int]]) -> None:
    frames = KeptFrames()
    for offset, (messages, records, values) in enumerate(sizes):
        given = _contents(offset, messages, records=records, values=values)
        frames.keep(1, given)
        frames.keep(1, given)
        kept = _kept(frames, len(sizes))
        is_worth_it = messages + values >= FRAME_KEPT_MIN and given.memory() <= FRAME_KEPT_BYTES_MAX
        assert (frames.find(1, offset) is given) == is_worth_it
        assert sum(found.memory() for found in kept) <= KEPT_BYTES_MAX
        assert frames.find(2, offset) is None, "of another file"
    kept = _kept(frames, len(sizes))
    frames.forget(2)
    assert _kept(frames, len(sizes)) == kept
    frames.forget(1)
    assert _kept(frames, len(sizes)) == []


def _records(way: str, count: int) -> Iterator[Record]:
    """Yield so many messages or values, in one record or in one each."""
    if way in ("one record", "properties", "terms"):
        large = [1 << 62 | place for place in range(count)]
        small = [1 << 20 | place for place in range(count)]
        yield Record(
            kind=Operation.ADD, flags=TERMS if way == "terms" else 0, name=b"queue", producer=b"", count=count,
            number=1, sizes=small, checksums=large, property_sizes=small if way == "properties" else (),
            terms=_terms(count) if way == "terms" else WITHOUT_TERMS,
        )  # fmt: skip
        return
    kind = Operation.PUT if way == "values" else Operation.ADD
    for place in range(count):
        yield Record(
            kind=kind, flags=0, name=b"name %d" % place, producer=b"producer %d" % place, count=1,
            number=1 << 62 | place, sizes=[1 << 20], checksums=[1 << 62 | place],
        )  # fmt: skip


def _terms(count: int) -> TermColumns:
    groups = [b"group %d" % (place % 1000) for place in range(count)]
    return TermColumns(due=range(count), expiry=range(count), attempts=range(count), groups=groups)


@pytest.mark.parametrize("way", ["one record", "properties", "terms", "a record each", "values"])
def test_contents_take_no_more_memory_than_they_say(way: str) -> None:
    header = FrameHeader(
        offset=0, checksum=0, length=0, meta=0, commit=1, identity=1, synced=0, time=0, operations=1, flags=0
    )
    contents = contents_of(header, _records(way, 20_000))
    taken = _bytes_of(contents)

    assert taken <= contents.memory() <= 2.2 * taken


def _bytes_of(made: object) -> int:
    """Return how many bytes an object takes with all that it refers to, each once."""
    found, waiting, seen = 0, [made], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) not in seen and not isinstance(one, type):
            seen.add(id(one))
            found += sys.getsizeof(one)
            waiting += gc.get_referents(one)
    return found


def test_the_largest_commit_is_kept_also_with_properties() -> None:
    frames = KeptFrames()
    frames.keep(1, _contents(8, 1_000_000))

    assert frames.find(1, 8) is not None


@pytest.fixture
def commits(tmp_path: Path) -> Iterator[tuple[MessageDatabase, dict[int, bytes]]]:
    disk = WatchedDisk()
    disk.syncs = False
    with MessageDatabase.open(tmp_path, disk=disk, cleanup_interval=0) as db:
        written = [[b"%d/%d" % (commit, place) for place in range(200)] for commit in range(20)]
        yield (
            db,
            {number: payload for part in written for number, payload in zip(db.add_many("q", part), part, strict=True)},
        )


def test_many_threads_read_out_of_the_same_commits(commits: tuple[MessageDatabase, dict[int, bytes]]) -> None:
    db, expected = commits

    def read(seed: int) -> bool:
        wanted = random.Random(seed).sample([*expected], 400)
        return all(db.read(number).payload == expected[number] for number in wanted)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(16)))


def test_the_disk_that_counts_is_the_real_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    disk = CountingDisk()
    assert isinstance(disk, RealDisk)

    with_count = disk.open(tmp_path / "file")

    assert with_count.read(30, 10) == b"x" * 30
    assert with_count.read(30, 90) == b"x" * 10
    assert disk.bytes_read == 40
    with_count.close()
