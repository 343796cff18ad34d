"""Handing out messages: each to one caller, in order, until it is given back or gone."""

import asyncio
import random
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from oms_journal import AsyncMessageDatabase, Message, MessageDatabase, NotUndelivered
from oms_journal.database.consumers.consumers import LINES_KEPT, REFILL_MESSAGES, Consumers
from oms_journal.index.duplicates import WindowBounds
from oms_journal.index.held import Held
from oms_journal.index.live import Index
from oms_journal.journal.disk import RealDisk, RealFile
from oms_journal.journal.reading.message import Source
from tests.support.disks.small_files import MODEST
from tests.support.sweeps import a_sample

QUEUES = st.sampled_from(["q", "r"])
COUNTS = st.sampled_from([1, 2, 30, 100])


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path, max_data_file_size=MODEST, cleanup_interval=0) as opened:
        yield opened


def _take(db: MessageDatabase, queue: str = "q") -> int | None:
    message = db.take(queue)
    return None if message is None else message.number


def _forget(taking: Consumers, numbers: Iterable[int]) -> None:
    """Do what the ledger does of messages that are gone."""
    for number in numbers:
        taking.taken.pop(number, None)


class TakingMachine(RuleBasedStateMachine):
    """Random takes, releases and removals against a set of what is there and a set of what is taken."""

    def __init__(self) -> None:
        super().__init__()
        index = Index(WindowBounds())
        self.table = index.table
        self.taking = Consumers(index)
        self.free: set[int] = set()
        self.taken: set[int] = set()
        self.next_number = 1
        self.table.queues.place("q")

    @rule(count=st.sampled_from([1, 2, 30]))
    def add(self, count: int) -> None:
        self.table.add_run(0, self.next_number, 1, 8, [1] * count)
        self.free.update(range(self.next_number, self.next_number + count))
        self.next_number += count

    @rule()
    def take(self) -> None:
        place = self.taking.take("q")
        assert (place.number if place else None) == min(self.free, default=None)
        if place:
            self.free.remove(place.number)
            self.taken.add(place.number)

    @rule()
    def peek(self) -> None:
        place = self.taking.peek("q")
        assert (place.number if place else None) == min(self.free, default=None)
        assert self.taking.ready_count("q") == len(self.free)

    @rule(count=COUNTS)
    def take_many(self, count: int) -> None:
        noted: list[int] = []
        found = [place.number for place in self.taking.take_many("q", count, noted)]
        assert found == noted == sorted(self.free)[:count]
        self.free.difference_update(found)
        self.taken.update(found)

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.taken)))
        assert self.taking.release(number)
        assert not self.taking.release(number)
        self.taken.remove(number)
        self.free.add(number)

    @precondition(lambda self: self.taken | self.free)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.taken | self.free)))
        self.table.remove(number)
        self.taking.taken.pop(number, None)
        self.taken.discard(number)
        self.free.discard(number)
        assert not self.taking.release(number)


class SharedTableMachine(RuleBasedStateMachine):
    """Two queues of many in one table: messages loaded, moved, held and let go, queues that are forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.index = Index(WindowBounds())
        self.table = self.index.table
        self.free: dict[str, set[int]] = {"q": set(), "r": set()}
        self.held: dict[int, str] = {}
        self.taken: dict[int, str] = {}
        self.next_number, self.sequence, self.asked = 1, 1, 0

    @initialize(
        runs=st.lists(st.tuples(QUEUES, COUNTS, st.booleans()), max_size=6), lonely=st.sampled_from([0, 10, 5000])
    )
    def begin(self, runs: list[tuple[str, int, bool]], lonely: int) -> None:
        """What is held back is so from the start on."""
        for queue, count, is_held in runs:
            numbers = self._add(queue, count)
            if is_held:
                self.index.held.add([(numbers[0], numbers[-1])])
                self.free[queue].difference_update(numbers)
                self.held.update(dict.fromkeys(numbers, queue))
            self._skip(lonely)
        self.taking = Consumers(self.index)

    def _skip(self, count: int) -> None:
        """Let somebody else have the next numbers."""
        if count:
            self.table.add_run(self.table.queues.place("others"), self.next_number, self.sequence, 8, [1] * count)
            self.next_number += count

    def _add(self, queue: str, count: int) -> range:
        numbers = range(self.next_number, self.next_number + count)
        self.table.add_run(self.table.queues.place(queue), self.next_number, self.sequence, 8, [1] * count)
        self.free[queue].update(numbers)
        self.next_number += count
        return numbers

    def _there(self) -> dict[int, str]:
        free = {number: queue for queue, numbers in self.free.items() for number in numbers}
        return {**free, **self.held, **self.taken}

    @rule(queue=QUEUES, count=COUNTS, others=st.sampled_from([0, 1, 100]))
    def add(self, queue: str, count: int, others: int) -> None:
        self._skip(others)
        self._add(queue, count)

    @rule(queue=QUEUES, gaps=st.lists(st.integers(1, 5), min_size=1, max_size=20))
    def load(self, queue: str, gaps: list[int]) -> None:
        self.sequence += 1
        numbers = [self.next_number + sum(gaps[: at + 1]) for at in range(len(gaps))]
        place = self.table.queues.place(queue)
        self.index.load(place, np.array(numbers, np.uint64), [1] * len(numbers), (self.sequence, 8))
        self.free[queue].update(numbers)
        self.next_number = numbers[-1] + 1

    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        there = sorted(self._there())
        self.sequence += 1
        for number in data.draw(st.sets(st.sampled_from(there), max_size=5)) if there else ():
            assert self.table.move(number, self.sequence, 16)

    @rule(queue=QUEUES)
    def take(self, queue: str) -> None:
        place = self.taking.take(queue)
        assert (place.number if place else None) == min(self.free[queue], default=None)
        if place:
            self.free[queue].remove(place.number)
            self.taken[place.number] = queue

    @rule(queue=QUEUES, count=COUNTS)
    def take_many(self, queue: str, count: int) -> None:
        noted: list[int] = []
        found = self.taking.take_many(queue, count, noted)
        assert [place.number for place in found] == noted == sorted(self.free[queue])[:count]
        assert found == [self.table.find(number) for number in noted]
        self.free[queue].difference_update(noted)
        self.taken.update(dict.fromkeys(noted, queue))

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.taken)))
        assert self.taking.release(number)
        self.free[self.taken.pop(number)].add(number)

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        there = self._there()
        gone = data.draw(st.sets(st.sampled_from(sorted(there)), max_size=40)) if there else set()
        assert self.table.remove_many(np.array(sorted(gone), np.uint64)) == len(gone)
        _forget(self.taking, gone)
        for number in gone:
            self.free[there[number]].discard(number)
            self.held.pop(number, None)
            self.taken.pop(number, None)

    @rule(data=st.data())
    def empty_a_queue_and_forget_it(self, data: st.DataObject) -> None:
        queue = data.draw(QUEUES)
        numbers = sorted(number for number, name in self._there().items() if name == queue)
        self.table.remove_many(np.array(numbers, np.uint64))
        _forget(self.taking, numbers)
        self.free[queue].clear()
        self.held = {number: name for number, name in self.held.items() if name != queue}
        self.taken = {number: name for number, name in self.taken.items() if name != queue}
        self.table.queues.forget(self.table.queues.empty())
        self._skip(data.draw(st.sampled_from([0, 1, 100])))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def let_go_of_what_is_held(self, data: st.DataObject) -> None:
        freed = data.draw(st.sets(st.sampled_from(sorted(self.held)), min_size=1))
        by_queue: dict[str, list[int]] = {}
        for number in sorted(freed):
            by_queue.setdefault(self.held.pop(number), []).append(number)
        self.index.held = Held([(number, number) for number in self.held])
        self.taking.admit(by_queue)
        for queue, numbers in by_queue.items():
            self.free[queue].update(numbers)

    @rule()
    def ask_for_so_many_queues_that_the_empty_ones_are_forgotten(self) -> None:
        for asked in range(self.asked, self.asked + LINES_KEPT // 2):
            assert self.taking.take(f"nobody's {asked}") is None
        self.asked += LINES_KEPT // 2


SharedTableMachine.TestCase.settings = settings(
    max_examples=20, stateful_step_count=40, deadline=None, derandomize=True
)
TestTakingFromASharedTable = SharedTableMachine.TestCase


class SharedTableMachineForWhole(SharedTableMachine):
    """The same, more times."""


SharedTableMachineForWhole.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestTakingFromASharedTableWhole = pytest.mark.whole(SharedTableMachineForWhole.TestCase)


class SharedTableMachineForLong(SharedTableMachine):
    """The same, many times."""


SharedTableMachineForLong.TestCase.settings = settings(max_examples=3000, stateful_step_count=60, deadline=None)
TestTakingFromASharedTableForLong = pytest.mark.slow(SharedTableMachineForLong.TestCase)


TakingMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=50, deadline=None, derandomize=True)
TestTakingAgainstSets = TakingMachine.TestCase


def test_messages_are_handed_out_in_order_and_once(db: MessageDatabase) -> None:
    numbers = list(db.add_many("q", [b"%d" % index for index in range(5)]))
    db.add("other", b"x")

    assert [_take(db) for _ in range(7)] == [*numbers, None, None]
    assert db.undelivered_count("q") == 5, "what is taken is still undelivered"
    later = db.add("q", b"later")
    assert _take(db) == later
    assert _take(db, "nobody's") is None


def test_what_is_given_back_is_next_and_old_ones_come_first(db: MessageDatabase) -> None:
    numbers = list(db.add_many("q", [b"x"] * 6))
    for _ in range(4):
        _take(db)
    for number in (numbers[2], numbers[0]):
        assert db.release(number) is True

    assert [_take(db) for _ in range(5)] == [numbers[0], numbers[2], numbers[4], numbers[5], None]


def test_only_what_is_taken_can_be_given_back(db: MessageDatabase) -> None:
    one, two = db.add_many("q", [b"1", b"2"])

    assert db.release(one) is False
    assert db.release(999) is False
    assert _take(db) == one
    assert (db.release(one), db.release(one)) == (True, False)
    assert [_take(db), _take(db), _take(db)] == [one, two, None]


@pytest.mark.parametrize("way", ["deliver", "delete", "deliver_many", "block"])
def test_what_is_gone_is_no_longer_taken(way: str, db: MessageDatabase) -> None:
    number = db.add("q", b"x")
    assert _take(db) == number
    match way:
        case "deliver":
            db.deliver(number)
        case "delete":
            db.delete(number)
        case "deliver_many":
            db.deliver_many([number])
        case _:
            with db.commit() as commit:
                commit.deliver(number)

    assert db.release(number) is False
    assert _take(db) is None
    assert not db._consumers.taken, "nothing is remembered of it"


def test_what_is_removed_without_being_taken_is_never_handed_out(db: MessageDatabase) -> None:
    numbers = db.add_many("q", [b"x"] * 10)
    assert _take(db) == numbers[0]
    db.delete_many(numbers[1:9])

    assert [_take(db), _take(db)] == [numbers[9], None]


def test_what_was_taken_and_could_not_be_removed_stays_taken(db: MessageDatabase) -> None:
    one, two = db.add_many("q", [b"1", b"2"])
    assert _take(db) == one
    with pytest.raises(NotUndelivered), db.commit() as commit:
        commit.deliver(one)
        commit.deliver(two)
        db.delete(two)

    assert db.release(one) is True
    assert _take(db) == one


def test_a_queue_longer_than_what_is_kept_ready_comes_in_order() -> None:
    count = 2 * REFILL_MESSAGES + 10
    index = Index(WindowBounds())
    table = index.table
    table.add_run(table.queues.place("q"), 1, 1, 8, [1] * count)
    taking = Consumers(index)
    places = [taking.take("q") for _ in range(count)]

    assert [place.number for place in places if place] == list(range(1, count + 1))
    assert taking.take("q") is None


def test_after_a_restart_everything_undelivered_is_free_again(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path) as db:
        numbers = list(db.add_many("q", [b"x"] * 3))
        assert _take(db) == numbers[0]
        taken = _take(db)
        assert taken is not None
        db.deliver(taken)
    with MessageDatabase.open(tmp_path) as db:
        assert [_take(db) for _ in range(3)] == [numbers[0], numbers[2], None]


def test_what_clean_up_moves_while_it_is_handed_out_is_read_at_its_new_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MessageDatabase.open(tmp_path, max_data_file_size=7680, cleanup_interval=0) as db:
        numbers = [db.add("q", bytes(500)) for _ in range(40)]
        db.deliver_many(numbers[1:])
        source = db._files.source
        moved: list[int] = []

        def late(sequence: int) -> Source:
            if not moved:
                moved.append(sequence)
                assert db.cleanup(compact=True).moved_messages == 1
                db._files.forget(sequence)
            return source(sequence)

        monkeypatch.setattr(db._files, "source", late)
        found = db.take("q")

    assert found is not None
    assert (found.number, found.payload, moved) == (numbers[0], bytes(500), [1])


def test_a_taken_message_that_clean_up_moves_stays_taken(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path, max_data_file_size=7680, cleanup_interval=0) as db:
        number = db.add("q", b"kept")
        rest = [db.add("q", bytes(900)) for _ in range(20)]
        assert _take(db) == number
        db.deliver_many(rest)
        db.cleanup(compact=True)
        assert db.read(number).sequence > 1
        assert _take(db) is None
        assert db.release(number)
        assert _take(db) == number


def test_many_threads_share_a_queue_and_nobody_gets_what_another_has(db: MessageDatabase) -> None:
    numbers = set(db.add_many("q", [b"%d" % index for index in range(500)]))

    def consume(seed: int) -> list[int]:
        chance = random.Random(seed)
        done: list[int] = []
        while (message := db.take("q")) is not None:
            if chance.random() < 0.2:
                assert db.release(message.number), "nobody else has given it back"
            else:
                assert db.deliver(message.number), "nobody else has delivered it"
                done.append(message.number)
        return done

    with ThreadPoolExecutor(16) as pool:
        shares = list(pool.map(consume, range(16)))
    rest = consume(99)  # what was given back after the others had seen an empty queue

    delivered = [number for share in (*shares, rest) for number in share]
    assert sorted(delivered) == sorted(numbers)
    assert db.undelivered_count() == 0


class Alarm(Exception):
    """What the handler of a signal raises."""


def _alarm(number: int, frame: FrameType | None) -> None:
    raise Alarm


def _one(db: MessageDatabase) -> list[Message]:
    message = db.take("q")
    return [] if message is None else [message]


def _several(db: MessageDatabase) -> list[Message]:
    return db.take_many("q", 3)


def _interrupted_take(
    db: MessageDatabase, take: Callable[[MessageDatabase], list[Message]], seconds: float
) -> tuple[list[int], bool]:
    """Take while a signal is on its way; return the numbers that the caller has got, and whether the signal came."""
    messages: list[Message] = []
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            messages = take(db)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Alarm:
        return [message.number for message in messages], True
    return [message.number for message in messages], False


@pytest.mark.whole
@pytest.mark.parametrize(("take", "seconds"), [(_one, 60e-6), (_several, 120e-6)])
def test_an_exception_of_a_signal_handler_at_any_moment_of_a_take_loses_and_doubles_no_message(
    db: MessageDatabase, take: Callable[[MessageDatabase], list[Message]], seconds: float
) -> None:
    rng, got, interrupts = random.Random(14), list[int](), 0
    numbers = [db.add("q", b"x" * (n % 3 * 3000)) for n in range(3000)]
    former = signal.signal(signal.SIGALRM, _alarm)
    try:
        while len(got) < 2500 and interrupts < 1500:
            found, was_interrupted = _interrupted_take(db, take, rng.uniform(1e-6, seconds))
            interrupts += was_interrupted
            got += found
            if found and not rng.randrange(4):
                assert db.release(found[0])
                got.remove(found[0])
    finally:
        signal.signal(signal.SIGALRM, former)
    assert interrupts > 20, "the moments were met"

    while (number := _take(db)) is not None:
        got.append(number)
    assert sorted(got) == numbers


def test_an_exception_that_leaves_a_take_gives_the_message_back(tmp_path: Path) -> None:
    numbers: list[int] = []
    with MessageDatabase.open(tmp_path) as db:
        numbers += db.add_many("q", [b"1", b"2"])
        db.add("other", b"3")
        source = db._files.source

        def interrupted(sequence: int) -> object:
            raise KeyboardInterrupt

        db._files.source = interrupted  # type: ignore[assignment]  # a signal while the message is being read
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                db.take("q")
        db._files.source = source  # type: ignore[method-assign]
        assert [_take(db), _take(db), _take(db)] == [*numbers, None]


@pytest.fixture(params=["in memory", "on a device"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where messages are: read on the loop at once, or by a thread."""
    if request.param == "on a device":
        monkeypatch.setattr(RealFile, "read_now", lambda *_: b"")
    return str(request.param)


@pytest.mark.usefixtures("where")
@pytest.mark.parametrize("turns", range(6))
def test_a_take_that_is_cancelled_at_any_moment_gives_the_message_back(tmp_path: Path, turns: int) -> None:
    async def play() -> list[int]:
        got: list[int] = []
        async with AsyncMessageDatabase.wrap(opened) as db:
            await db.add_many("q", [b"x"] * 40)
            for _ in range(30):
                taking = asyncio.create_task(db.take("q"))
                for _ in range(turns):
                    await asyncio.sleep(0.0002 if turns == 5 else 0)
                taking.cancel()
                found = (await asyncio.gather(taking, return_exceptions=True))[0]
                got += [found.number] if isinstance(found, Message) else []
        return got  # the loop's threads have come to their end when it is closed

    with MessageDatabase.open(tmp_path) as opened:
        got = asyncio.run(play())
        while (number := _take(opened)) is not None:
            got.append(number)
    assert sorted(got) == list(range(1, 41))


@pytest.mark.usefixtures("where")
def test_a_take_that_comes_too_late_gives_the_message_back(tmp_path: Path) -> None:
    async def play() -> None:
        async with AsyncMessageDatabase.open(tmp_path) as db:
            await db.add("q", b"x")
            for _ in range(50):
                try:
                    message = await asyncio.wait_for(db.take("q"), 0.0001)
                except TimeoutError:
                    continue
                assert message is None or db.release(message)
            message = await db.take("q")
            assert message is not None, "the one that was given up has been given back by now"
            assert message.payload == b"x"

    asyncio.run(asyncio.wait_for(play(), 60))


def test_what_a_cancelled_delivery_removed_is_not_released(tmp_path: Path) -> None:
    async def play() -> None:
        async with AsyncMessageDatabase.open(tmp_path) as db:
            await db.add("q", b"x")
            message = await db.take("q")
            assert message is not None
            delivering = asyncio.create_task(db.deliver(message))
            await asyncio.sleep(0)
            delivering.cancel()
            await asyncio.gather(delivering, return_exceptions=True)
            while db.undelivered_count():
                await asyncio.sleep(0.001)
            assert db.release(message) is False
            assert not db._database._consumers.taken

    asyncio.run(asyncio.wait_for(play(), 60))


@a_sample(3)
@pytest.mark.usefixtures("where")
@pytest.mark.parametrize("turns", range(4))
def test_a_take_behind_a_cancelled_one_finds_the_message_that_it_gives_back(tmp_path: Path, turns: int) -> None:
    async def play() -> None:
        async with AsyncMessageDatabase.open(tmp_path) as db:
            for _ in range(100):
                await db.add("q", b"x")
                taking = asyncio.create_task(db.take("q"))
                for _ in range(turns):
                    await asyncio.sleep(0)
                taking.cancel()
                (found,) = await asyncio.gather(taking, return_exceptions=True)
                message = found if isinstance(found, Message) else await db.take("q")
                assert message is not None
                assert await db.deliver(message)
            assert await db.take("q") is None

    asyncio.run(asyncio.wait_for(play(), 60))


@pytest.mark.usefixtures("where")
@pytest.mark.parametrize("turns", range(6))
def test_several_that_are_taken_by_a_call_that_is_cancelled_are_given_back(tmp_path: Path, turns: int) -> None:
    async def play() -> list[int]:
        got: list[int] = []
        async with AsyncMessageDatabase.wrap(opened) as db:
            await db.add_many("q", [b"x"] * 40)
            for _ in range(40):
                await db.add("q", b"y")
            for _ in range(20):
                taking = asyncio.create_task(db.take_many("q", 3))
                for _ in range(turns):
                    await asyncio.sleep(0.0002 if turns == 5 else 0)
                taking.cancel()
                found = (await asyncio.gather(taking, return_exceptions=True))[0]
                got += [message.number for message in found] if isinstance(found, list) else []
        return got

    with MessageDatabase.open(tmp_path) as opened:
        got = asyncio.run(play())
        got += [message.number for message in opened.take_many("q", 100)]
        assert opened.take_many("q", 1) == []
    assert sorted(got) == list(range(1, 81))


@pytest.mark.whole  # there it lies on a disk, each day in a file system in memory
def test_what_is_in_memory_is_taken_without_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> list[bytes]:
        async with AsyncMessageDatabase.open(tmp_path) as db:
            await db.add("q", b"1", properties={"k": "v"}, producer_id="p")
            await db.add_many("q", [b"2", b"3", b"4", b"5"])
            first = await db.take("q")  # opens the file
            assert first is not None and first.properties == {"k": "v"} and first.producer_id == "p"
            second = await db.take("q")  # decodes the commit
            monkeypatch.setattr(AsyncMessageDatabase, "_off_loop", None)
            third = await db.take("q")
            assert second is not None and third is not None
            return [message.payload for message in (first, second, third, *await db.take_many("q", 9))]

    if not _reads_now(tmp_path):
        pytest.skip("this file system does not say what is in memory")
    assert asyncio.run(play()) == [b"1", b"2", b"3", b"4", b"5"]


def _reads_now(directory: Path) -> bool:
    disk = RealDisk()
    file = disk.create(directory / "probe")
    file.write(b"x", 0)
    try:
        return file.read_now(1, 0) == b"x"
    finally:
        file.close()
        disk.unlink(directory / "probe")


@pytest.mark.parametrize("count", [0, -1, True, 1.0, "1", None])
def test_a_count_that_is_none_is_refused_before_anything_is_taken(db: MessageDatabase, count: Any) -> None:
    number = db.add("q", b"x")
    with pytest.raises((TypeError, ValueError), match="count must be"):
        db.take_many("q", count)
    assert _take(db) == number


def test_several_are_taken_in_order_and_at_most_as_many_as_there_are(db: MessageDatabase) -> None:
    singles = [db.add("q", b"%d" % index) for index in range(3)]
    numbers = [*singles, *db.add_many("q", [b"3", b"4", b"5"]), db.add("q", b"6", properties={"k": "v"})]
    db.add("other", b"x")
    db.deliver(numbers[1])
    left = [number for number in numbers if number != numbers[1]]

    found = db.take_many("q", 4)
    assert [message.number for message in found] == left[:4]
    assert db.release(found[2])
    rest = db.take_many("q", 9)
    assert [message.number for message in rest] == [left[2], *left[4:]]
    assert [int(message.payload) for message in rest] == [3, 5, 6] and rest[-1].properties == {"k": "v"}
    assert db.take_many("q", 9) == db.take_many("nobody's", 1) == []
    assert db.deliver_many([*found[:2], found[3], *rest]) == 6


def test_a_message_that_cannot_be_read_is_left_out_of_several(
    db: MessageDatabase, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = [db.add("q", b"payload %d" % index) for index in range(5)]
    with (db.directory / "omsmsg-0000000001.data").open("r+b") as file:
        file.seek(file.read().index(b"payload 2"))
        file.write(b"rotten")

    assert [message.number for message in db.take_many("q", 4)] == [numbers[0], numbers[1], *numbers[3:]]
    assert "checksum does not match" in caplog.text
    assert db.take_many("q", 1) == []


def test_of_a_commit_that_has_rotted_in_one_message_all_others_are_taken(
    db: MessageDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = db.add_many("q", [b"payload %03d" % index for index in range(100)])
    with (db.directory / "omsmsg-0000000001.data").open("r+b") as file:
        file.seek(file.read().index(b"payload 050"))
        file.write(b"rotten")

    first, *rest = db.take_many("q", 90)
    assert [message.number for message in (first, *rest)] == [*numbers[:50], *numbers[51:91]]
    assert [message.payload for message in rest[48:51]] == [b"payload 049", b"payload 051", b"payload 052"]
    assert caplog.text.count("the message's checksum does not match") == 1
    assert [message.payload for message in db.take_many("q", 90)] == [
        b"payload %03d" % place for place in range(91, 100)
    ]
