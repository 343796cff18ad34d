"""The table of undelivered messages, against a plain dict: every operation in any order, checked after each."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from oms_journal.index.table import Block, Line, MessageLocation, Table, compact
from tests.support.sweeps import a_sample, for_each

QUEUES = ["orders", "häuser", "\0", "q" * 255]
LAST = 1 << 62
queues = st.integers(0, len(QUEUES) - 1)
sizes = st.integers(0, 1000)
# Small jumps leave holes that moved messages may come into; large ones are those after a crash.
jumps = st.sampled_from([0, 0, 0, 1, 3, 1 << 20])


@dataclass(frozen=True)
class Row:
    """One message as the model knows it."""

    queue: int
    sequence: int
    offset: int
    size: int


def _numbers(wanted: Sequence[int]) -> np.ndarray:
    return np.array(wanted, np.uint64)


def _columns(rows: Sequence[Row]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        np.array([row.offset for row in rows], np.int64),
        np.array([row.size for row in rows], np.int64),
        np.array([row.queue for row in rows], np.int64),
    )


class TableMachine(RuleBasedStateMachine):
    """Random operations on a table and on a dict of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Table()
        self.model: dict[int, Row] = {}
        self.next_number = 1
        self.holes: set[int] = set()  # numbers that were never given
        self.sequence = 1
        self.offset = 0

    @initialize()
    def name_the_queues(self) -> None:
        assert [self.table.queues.place(queue) for queue in QUEUES] == list(range(len(QUEUES)))

    def _frame(self) -> int:
        self.offset += 8
        return self.offset

    def _skip(self, jump: int) -> None:
        self.holes.update(range(self.next_number, self.next_number + min(jump, 3)))
        self.next_number += jump

    def _take(self, rows: Sequence[Row]) -> int:
        first = self.next_number
        self.model.update(zip(range(first, first + len(rows)), rows, strict=True))
        self.next_number += len(rows)
        return first

    @rule(messages=st.lists(st.tuples(queues, sizes), min_size=1, max_size=70), jump=jumps)
    def add_singles(self, messages: list[tuple[int, int]], jump: int) -> None:
        self._skip(jump)
        rows = [Row(queue, self.sequence, self._frame(), size) for queue, size in messages]
        columns = ([r.offset for r in rows], [r.size for r in rows], [r.queue for r in rows])
        self.table.add_singles(self._take(rows), self.sequence, columns)

    @rule(queue=queues, run=st.lists(sizes, min_size=1, max_size=30), jump=jumps)
    def add_run(self, queue: int, run: list[int], jump: int) -> None:
        self._skip(jump)
        offset = self._frame()
        first = self._take([Row(queue, self.sequence, offset, size) for size in run])
        self.table.add_run(queue, first, self.sequence, offset, run)

    @rule(gaps=st.lists(st.tuples(jumps, queues, sizes), max_size=30))
    def add_columns(self, gaps: list[tuple[int, int, int]]) -> None:
        self.roll()
        numbers, rows = [], []
        for jump, queue, size in gaps:
            self._skip(jump)
            rows.append(Row(queue, self.sequence, self._frame(), size))
            numbers.append(self._take(rows[-1:]))
        self.table.add_columns(self.sequence, _numbers(numbers), _columns(rows))

    @precondition(lambda self: self.holes)
    @rule(data=st.data())
    def insert_columns(self, data: st.DataObject) -> None:
        chosen = sorted(data.draw(st.sets(st.sampled_from(sorted(self.holes)), min_size=1, max_size=8)))
        self.holes.difference_update(chosen)
        rows = [Row(data.draw(queues), self.sequence, self._frame(), data.draw(sizes)) for _ in chosen]
        self.table.insert_columns(self.sequence, _numbers(chosen), _columns(rows))
        self.model.update(zip(chosen, rows, strict=True))

    @rule()
    def roll(self) -> None:
        self.sequence += 1
        self.offset = 0

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from([*self.model, 0, self.next_number, LAST, 1 << 64]))
        row = self.model.pop(number, None)
        expected = None if row is None else MessageLocation(number, row.queue, row.sequence, row.offset, row.size)
        assert self.table.remove(number) == (expected is not None)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), every=st.sampled_from([1, 2, 5]))
    def remove_many(self, data: st.DataObject, every: int) -> None:
        low = data.draw(st.sampled_from(sorted(self.model)))
        high = data.draw(st.integers(low, self.next_number + 3))
        inside = [number for number in self.model if low <= number <= high]
        chosen = {*inside[::every], low - 1, high + 1}
        assert self.table.remove_many(_numbers(sorted(chosen))) == len(chosen & self.model.keys())
        self.model = {number: row for number, row in self.model.items() if number not in chosen}

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        self.sequence += 1
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.model)), min_size=1, max_size=5))
        for number in sorted(chosen):
            offset = self._frame()
            assert self.table.move(number, self.sequence, offset)
            row = self.model[number]
            self.model[number] = Row(row.queue, self.sequence, offset, row.size)
        assert not self.table.move(self.next_number, self.sequence, 8)

    @invariant()
    def the_accounts_are_right(self) -> None:
        self.table.check()
        assert self.table.count == len(self.model)
        assert self.table.last_number() < self.next_number
        assert self.table.last_number() >= max(self.model, default=0)
        for place, queue in enumerate(QUEUES):
            assert self.table.undelivered_count(queue) == sum(row.queue == place for row in self.model.values())

    @invariant()
    def every_message_is_found_in_its_place(self) -> None:
        for number, row in self.model.items():
            assert self.table.find(number) == MessageLocation(number, row.queue, row.sequence, row.offset, row.size)
        for gone in (0, self.next_number, *self.holes):
            assert self.table.find(gone) is None

    @rule(queue=st.sampled_from([None, *QUEUES, "nobody's"]), data=st.data())
    def walk_in_order(self, queue: str | None, data: st.DataObject) -> None:
        after = data.draw(st.integers(0, self.next_number))
        last = data.draw(st.integers(after, self.next_number))
        found = [
            triple
            for batch in self.table.batches(queue, after, last)
            for triple in zip(*(column.tolist() for column in batch), strict=True)
        ]
        expected = [
            (number, row.sequence, row.offset)
            for number, row in sorted(self.model.items())
            if after < number <= last and queue in (None, QUEUES[row.queue])
        ]
        assert found == expected

    @rule(queue=st.sampled_from([*QUEUES, "nobody's"]), data=st.data(), count=st.sampled_from([1, 2, 30, 5000]))
    def go_on_from_where_the_last_look_ended(self, queue: str, data: st.DataObject, count: int) -> None:
        start = after = data.draw(st.integers(0, self.next_number))
        found: list[int] = []
        while after < self.table.last_number():
            numbers, after = self.table.first_numbers(queue, after, count)
            assert numbers or after >= self.table.last_number()
            found += numbers
        assert found == [number for number in self._of(queue) if number > start]
        assert self.table.first_numbers(queue, after, count)[0] == []

    @rule(queue=st.sampled_from([*QUEUES, "nobody's"]))
    def begin_behind_the_messages_of_others(self, queue: str) -> None:
        before = self.table.number_before(queue)
        assert before <= self.table.last_number()
        assert all(number > before for number in self._of(queue))

    def _of(self, queue: str) -> list[int]:
        return [number for number, row in sorted(self.model.items()) if queue == QUEUES[row.queue]]

    @rule(data=st.data(), every=st.sampled_from([1, 1, 2, 7]))
    def find_many_places(self, data: st.DataObject, every: int) -> None:
        low = data.draw(st.integers(0, self.next_number))
        high = data.draw(st.integers(low, self.next_number + 3))
        inside = [number for number in sorted({*self.model, *self.holes}) if low <= number <= high]
        wanted = [low, *inside[::every], high + 1] if data.draw(st.booleans()) else inside[::every]
        wanted = sorted(set(wanted))
        assert self.table.find_places(wanted) == [
            MessageLocation(number, row.queue, row.sequence, row.offset, row.size)
            for number in wanted
            if (row := self.model.get(number)) is not None
        ]

    @rule(data=st.data())
    def look_into_a_file(self, data: st.DataObject) -> None:
        sequence = data.draw(st.integers(1, self.sequence))
        expected = [number for number, row in sorted(self.model.items()) if row.sequence == sequence]
        assert [place.number for place in self.table.in_file(sequence)] == expected
        if not expected and sequence < self.sequence:  # no clean-up lets the active file go
            self.table.forget_file(sequence)


TableMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None, derandomize=True)
TestTheTableAgainstADict = TableMachine.TestCase


class TableMachineForWhole(TableMachine):
    """The same, more times."""


TableMachineForWhole.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestTheTableAgainstADictWhole = pytest.mark.whole(TableMachineForWhole.TestCase)


class TableMachineForLong(TableMachine):
    """The same, many times."""


TableMachineForLong.TestCase.settings = settings(max_examples=3000, stateful_step_count=60, deadline=None)
TestTheTableAgainstADictForLong = pytest.mark.slow(TableMachineForLong.TestCase)


def _of(count: int, *, queue: str = "q") -> Table:
    table = Table()
    table.add_run(table.queues.place(queue), 1, 1, 8, [10] * count)
    return table


def _blocks(table: Table) -> list[Block]:
    return table._blocks


@pytest.mark.parametrize("count", [1, 4, 5, 100])
@pytest.mark.parametrize("remove", [lambda t, n: t.remove(n), lambda t, n: t.remove_many(_numbers([n]))])
def test_a_block_whose_messages_are_all_gone_takes_no_memory_once_another_follows(
    count: int, remove: Callable[[Table, int], object]
) -> None:
    table = _of(count)
    for number in range(1, count + 1):
        remove(table, number)
    table.add_run(0, count + 1, 2, 8, [10])

    assert [block.first for block in _blocks(table)] == [count + 1]
    table.check()


def test_a_block_of_which_little_is_live_when_the_next_begins_is_packed() -> None:
    table = _of(1000)
    for number in range(1, 1000):
        table.remove(number)
    table.add_run(0, 1001, 2, 8, [10])

    assert [len(block.offsets) for block in _blocks(table)] == [1, 1]
    assert [place.number for place in table.in_file(1)] == [1000]


@pytest.mark.parametrize("live", [1, 10, 249, 250, 251, 999])
def test_a_block_is_packed_when_fewer_than_a_quarter_of_it_is_live(live: int) -> None:
    table = _of(1000)
    table.add_run(0, 1001, 2, 8, [10])
    table.remove_many(_numbers(range(1, 1001 - live)))

    assert len(_blocks(table)[0].offsets) == (live if live < 250 else 1000)
    assert table.count == live + 1
    table.check()


def test_the_last_number_is_known_when_every_message_is_gone() -> None:
    table = _of(100)
    table.remove_many(_numbers(range(1, 101)))

    assert table.last_number() == 100
    table.add_run(0, 101, 2, 8, [1])
    table.remove(101)
    assert table.last_number() == 101


@given(numbers=st.sets(st.integers(1, 200), min_size=1))
@settings(derandomize=True, deadline=None)
def test_removing_numbers_together_leaves_what_removing_them_one_by_one_leaves(numbers: set[int]) -> None:
    together, singly = _of(120), _of(120)
    for table in (together, singly):
        table.add_run(table.queues.place("r"), 131, 2, 8, [5] * 40)

    assert together.remove_many(_numbers(sorted(numbers))) == sum(map(singly.remove, sorted(numbers)))

    for table in (together, singly):
        table.check()
    assert [list(together.in_file(s)) for s in (1, 2)] == [list(singly.in_file(s)) for s in (1, 2)]
    assert together.queues.used() == singly.queues.used()


@for_each("beside", [0, 1, 63, 64, 65, 1000])
@for_each("mine", [0, 1, 64, 100])
def test_a_look_for_a_queue_begins_near_its_messages_when_they_are_the_newest(beside: int, mine: int) -> None:
    table = _of(beside, queue="others") if beside else Table()
    table.queues.place("mine")
    if mine:
        table.add_run(table.queues.place("mine"), beside + 1, 1, 8, [10] * mine)

    assert max(0, beside - 64) <= table.number_before("mine") <= beside or mine > 64
    assert table.first_numbers("mine", table.number_before("mine"), 5000)[0] == list(
        range(beside + 1, beside + mine + 1)
    )


def test_an_exception_that_keeps_a_look_at_the_newest_messages_keeps_none_from_being_added() -> None:
    table = _of(200)
    for look in (
        lambda: table.first_numbers("q", 0, 5),
        lambda: next(table.batches("q", 0, LAST)),
        lambda: table.number_before("q"),
    ):
        kept = _frames_of(look)
        table.add_run(0, table.last_number() + 1, 1, 8, [10] * 50)
        assert kept, "every call was kept, with all that it held"


def _frames_of(look: Callable[[], object]) -> list[dict[str, object]]:
    """Return the variables of every step of every call, as a traceback would keep them."""
    kept: list[dict[str, object]] = []

    def watch(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename.endswith(("block.py", "table.py")):
            kept.append(dict(frame.f_locals))
            return watch
        return None

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        look()
    finally:
        sys.settrace(before)
    return kept


def test_a_queue_is_known_by_the_place_it_got_first() -> None:
    table = Table()

    assert [table.queues.place(name) for name in ("a", "b", "a", "c", "b")] == [0, 1, 0, 2, 1]
    assert [table.queues.name(place) for place in range(3)] == ["a", "b", "c"]
    assert table.queues.used() == {}


def _held(table: Table) -> int:
    """Return how many bytes the columns of all blocks take."""
    columns = (column for block in _blocks(table) for column in (block.offsets, block.sizes, block.queues))
    of_columns = sum(0 if isinstance(column, Line) else np.asarray(column).nbytes for column in columns)
    return of_columns + sum(len(block.is_live) for block in _blocks(table))


@a_sample(2)
@pytest.mark.parametrize(
    ("size", "queues", "bytes_max"),
    [
        pytest.param(lambda _: 256, 1, 2, id="one size"),
        pytest.param(lambda number: number * 7919 % 5000, 1, 8, id="mixed sizes"),
        pytest.param(lambda number: number * 7919 % 100_000, 1, 10, id="some above 64 KiB"),
        pytest.param(lambda _: 256, 700, 8, id="many queues"),
    ],
)
def test_a_message_takes_few_bytes_in_a_block_that_grows_no_more(
    size: Callable[[int], int], queues: int, bytes_max: int
) -> None:
    table, offset = Table(), 4352
    for number in range(1, 100_001):
        if number % 20_000 == 1:
            offset = 4352
        queue = table.queues.place(f"queue {number % queues}")
        table.add_one(queue, number, 1 + (number - 1) // 20_000, offset, size(number))
        offset += 104 + -size(number) // 8 * -8
    table.add_one(0, 100_001, 99, 4352, 1)  # the one before it grows no more

    assert _held(table) <= bytes_max * 100_000
    table.check()


@given(values=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50) | st.builds(
    lambda first, step, count: [first + step * place for place in range(count)],
    st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 50),
), data=st.data())  # fmt: skip
def test_a_compact_column_says_what_was_put_into_it(values: list[int], data: st.DataObject) -> None:
    column = compact(np.array(values, np.uint32))
    rows = data.draw(st.lists(st.sampled_from(range(len(values)))))
    low = data.draw(st.integers(0, len(values)))

    assert len(column) == len(values)
    assert [int(column[row]) for row in range(len(values))] == values
    assert column[np.array(rows, np.int64)].tolist() == [values[row] for row in rows]
    assert column[low:].tolist() == values[low:]
    assert isinstance(column, Line) == (len({*np.diff(values).tolist()}) < 2 and values[-1] >= values[0])


@given(live=st.sets(st.integers(1, 300)), wanted=st.sets(st.integers(0, 310)))
@settings(derandomize=True, deadline=None)
def test_many_are_found_as_they_are_found_one_by_one(live: set[int], wanted: set[int]) -> None:
    table = _of(100)
    table.add_run(table.queues.place("r"), 121, 2, 8, [5] * 80)
    table.add_run(0, 201, 3, 8, [5] * 100)
    table.remove_many(_numbers(sorted(set(range(1, 301)) - live)))
    numbers, queues = table.find_many(_numbers(sorted(wanted)))
    places = [place for number in sorted(wanted) if (place := table.find(number))]

    assert [(place.number, place.queue) for place in places] == list(
        zip(numbers.tolist(), queues.tolist(), strict=True)
    )


@pytest.mark.parametrize("column", ["offsets", "sizes", "queues", "is_live"])
@pytest.mark.parametrize("way", ["one", "run", "singles"])
def test_a_column_that_somebody_looks_at_grows_all_the_same(column: str, way: str) -> None:
    table = Table()
    place = table.queues.place("q")
    table.add_one(place, 1, 1, 8, 10)
    kept = memoryview(getattr(table._blocks[-1], column))  # as the traceback of an interrupted look keeps one

    for first in (2, 3):
        if way == "one":
            table.add_one(place, first, 1, 16, 20)
        elif way == "run":
            table.add_run(place, first, 1, 16, [20])
        else:
            table.add_singles(first, 1, ([16], [20], [place]))

    assert [table.find(number) for number in (1, 2, 3)] == [
        MessageLocation(1, place, 1, 8, 10),
        MessageLocation(2, place, 1, 16, 20),
        MessageLocation(3, place, 1, 16, 20),
    ]
    assert table.remove(3)
    assert table.count == table.undelivered_count("q") == 2
    assert len(kept) == 1
