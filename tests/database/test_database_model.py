"""Random operations on a database and on plain dicts, with restarts, crashes and clean-ups in between.

A crash is a copy of the directory, taken while the database is open: what a killed process would
leave. After every restart everything that the database says must be what the dicts say.
"""

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from oms_journal import DatabaseView, DuplicateConflict, MessageDatabase
from oms_journal.journal.reading.message import Message
from tests.support.disks.watched_disk import HandClock

QUEUES = ["orders", "häuser", "\0", "q" * 255]
queues = st.sampled_from(QUEUES)
payloads = st.one_of(st.binary(max_size=20), st.sampled_from([b"", b"1", bytes(700), bytes(5000)]))
properties = st.none() | st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)
producers = st.sampled_from([None, None, None, "1", "2", "3"])
keys = st.sampled_from(["a", "a/1", "b", "ключ"])
values = st.sampled_from([b"", b"value", bytes(3000)])


@dataclass
class Model:
    """What the database should hold."""

    messages: dict[int, tuple[object, ...]] = field(default_factory=dict)  # number, queue, payload, properties, …
    keys: dict[str, bytes] = field(default_factory=dict)
    identifiers: dict[tuple[str, str], tuple[range, tuple[bytes, ...]]] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    highest: int = 0

    def of(self, queue: str) -> list[int]:
        return [number for number, message in sorted(self.messages.items()) if message[1] == queue]


def _shown(message: Message) -> tuple[object, ...]:
    """Return all of a message but its place, which clean-up may change."""
    return message[:6]


class DatabaseMachine(RuleBasedStateMachine):
    """One database, opened again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="oms-model-"))
        self.directory = self.home / "spool"
        self.clock = HandClock()
        self.model = Model()

    @initialize(
        size=st.sampled_from([7680, 16_384, 65_536]),
        share=st.sampled_from([0.0, 0.5]),
        alignment=st.sampled_from([8, 512]),
    )
    def begin(self, size: int, share: float, alignment: int) -> None:
        self.options = {
            "max_data_file_size": size,
            "compact_share": share,
            "group_alignment": alignment,
            "cleanup_interval": 0,
            "duplicate_age": 1e9,
            "clock": self.clock,
        }
        self._open()

    def _open(self) -> None:
        self.db = MessageDatabase.open(self.directory, **self.options)  # type: ignore[arg-type]

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.close_and_open_again()
            self.db.close()
        shutil.rmtree(self.home)

    # Adding.

    def _added(self, numbers: Sequence[int], wanted: Sequence[tuple[str, bytes, dict[str, str] | None]]) -> None:
        """Enter new messages into the model, and check that they are as they were given."""
        assert list(numbers) == list(range(numbers[0], numbers[0] + len(wanted))), "neighbouring numbers"
        assert numbers[0] > self.model.highest, "no number is given twice"
        self.model.highest = numbers[-1]
        for number, (queue, payload, given) in zip(numbers, wanted, strict=True):
            message = self.db.read(number)
            assert message[:4] == (number, queue, payload, given or {})
            self.model.messages[number] = _shown(message)

    def _answer(
        self, scope: tuple[str, str | None], given: Sequence[bytes], *, removes: bool = False
    ) -> range | type[DuplicateConflict] | None:
        """Return how a commit is answered that is no new one."""
        queue, producer = scope
        known = self.model.identifiers.get((queue, producer)) if producer is not None else None
        if known is None:
            return None
        return known[0] if known[1] == tuple(given) and not removes else DuplicateConflict

    @rule(queue=queues, payload=payloads, given=properties, producer=producers)
    def add(self, queue: str, payload: bytes, given: dict[str, str] | None, producer: str | None) -> None:
        answer = self._answer((queue, producer), [payload])
        if answer is DuplicateConflict:
            with pytest.raises(DuplicateConflict):
                self.db.add(queue, payload, properties=given, producer_id=producer)
            return
        number = self.db.add(queue, payload, properties=given, producer_id=producer)
        if isinstance(answer, range):
            assert (number, number.is_repeat) == (answer.start, True)
            return
        assert not number.is_repeat
        self._added([number], [(queue, payload, given)])
        if producer is not None:
            self.model.identifiers[queue, producer] = (range(number, number + 1), (payload,))

    @rule(queue=queues, many=st.lists(st.tuples(payloads, properties), max_size=6), producer=producers)
    def add_many(self, queue: str, many: list[tuple[bytes, dict[str, str] | None]], producer: str | None) -> None:
        given = [payload for payload, _ in many]
        rich = [each for _, each in many] if any(each for _, each in many) else None
        answer = self._answer((queue, producer), given) if many else range(0)
        if answer is DuplicateConflict:
            with pytest.raises(DuplicateConflict):
                self.db.add_many(queue, given, properties=rich, producer_id=producer)
            return
        numbers = self.db.add_many(queue, given, properties=rich, producer_id=producer)
        if isinstance(answer, range):
            assert (numbers.numbers, numbers.is_repeat) == (answer, bool(many))
            return
        assert not numbers.is_repeat
        self._added(numbers, [(queue, payload, each if rich else None) for payload, each in many])
        if producer is not None:
            self.model.identifiers[queue, producer] = (numbers.numbers, tuple(given))

    # Removing.

    def _choose(self, data: st.DataObject, count: int) -> list[int]:
        if not self.model.messages:
            return []
        return sorted(data.draw(st.sets(st.sampled_from(sorted(self.model.messages)), max_size=count)))

    def _removed(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            del self.model.messages[number]
            self.model.taken.discard(number)

    @rule(data=st.data(), delivers=st.booleans())
    def remove(self, data: st.DataObject, delivers: bool) -> None:
        remove = self.db.deliver if delivers else self.db.delete
        number = data.draw(st.sampled_from([*sorted(self.model.messages), 0, self.model.highest + 1]))
        assert remove(number) is (number in self.model.messages)
        self._removed([number] if number in self.model.messages else [])
        assert remove(number) is False

    @rule(data=st.data(), delivers=st.booleans())
    def remove_many(self, data: st.DataObject, delivers: bool) -> None:
        numbers = self._choose(data, 80)
        remove = self.db.deliver_many if delivers else self.db.delete_many
        assert remove([*numbers, 0, *numbers[:2], self.model.highest + 1]) == len(numbers)
        self._removed(numbers)

    # Several at once, and keys.

    @rule(data=st.data(), added=st.lists(st.tuples(queues, payloads, properties), max_size=4), producer=producers)
    def commit_a_block(
        self, data: st.DataObject, added: list[tuple[str, bytes, dict[str, str] | None]], producer: str | None
    ) -> None:
        gone = self._choose(data, 4)
        put, dropped = data.draw(st.dictionaries(keys, values, max_size=2)), data.draw(keys)
        given = [payload for _, payload, _ in added]
        answer = self._answer((added[0][0], producer), given, removes=bool(gone)) if added else None
        is_refused = answer is DuplicateConflict
        refusal = pytest.raises(DuplicateConflict) if is_refused else nullcontext()
        with refusal, self.db.commit(producer_id=producer) as block:
            for queue, payload, each in added:
                block.add(queue, payload, properties=each)
            for place, number in enumerate(gone):
                (block.deliver if place % 2 else block.delete)(number)
            for key, value in put.items():
                block.put(key, b"overwritten")
                block.put(key, value)
            block.drop(dropped)
        if is_refused:
            return
        if isinstance(answer, range):
            assert (block.numbers, block.is_repeat) == (answer, True)
            return
        assert not block.is_repeat
        self._removed(gone)
        if added:
            self._added(block.numbers, added)
            if producer is not None:
                self.model.identifiers[added[0][0], producer] = (block.numbers, tuple(given))
        self.model.keys = {key: value for key, value in (self.model.keys | put).items() if key != dropped}

    @rule(key=keys, value=values)
    def put(self, key: str, value: bytes) -> None:
        self.db.put(key, value)
        self.model.keys[key] = value
        assert self.db.get(key) == value

    @rule(key=keys)
    def drop(self, key: str) -> None:
        assert self.db.drop(key) is (self.model.keys.pop(key, None) is not None)
        assert self.db.get(key) is None

    # Taking.

    @rule(queue=queues)
    def take(self, queue: str) -> None:
        free = [number for number in self.model.of(queue) if number not in self.model.taken]
        message = self.db.take(queue)
        assert (None if message is None else _shown(message)) == (self.model.messages[free[0]] if free else None)
        self.model.taken.update(free[:1])

    @precondition(lambda self: self.model.taken)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.model.taken)))
        assert self.db.release(number) is True
        assert self.db.release(number) is False
        self.model.taken.remove(number)

    # Time, clean-up, restarts.

    @rule(seconds=st.sampled_from([-100_000.0, -1.0, 0.5, 100_000.0]))
    def the_clock_jumps(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(compact=st.booleans())
    def clean_up(self, compact: bool) -> None:
        names = {path.name for path in self.directory.glob("*.data")}
        planned = self.db.cleanup(compact=compact, dry_run=True)
        report = self.db.cleanup(compact=compact)
        left = {path.name for path in self.directory.glob("*.data")}
        assert set(planned.deleted) == set(report.deleted) == names - left
        self.everything_is_there()

    @rule()
    def everything_is_there(self) -> None:
        assert {m.number: _shown(m) for m in self.db.undelivered()} == self.model.messages
        assert [message.number for message in self.db.undelivered()] == sorted(self.model.messages)
        for queue in QUEUES:
            assert [_shown(m) for m in self.db.undelivered(queue)] == [
                self.model.messages[number] for number in self.model.of(queue)
            ]
            assert list(self.db.numbers(queue)) == self.model.of(queue)
        assert {key: self.db.get(key) for key in list(self.db.keys())} == self.model.keys
        self.db._ledger.index.table.check()

    @rule()
    def close_and_open_again(self) -> None:
        self.db.close()
        with DatabaseView.open(self.directory) as view:
            assert {m.number: _shown(m) for m in view.undelivered()} == self.model.messages
            assert {key: view.get(key) for key in list(view.keys())} == self.model.keys
        self._open()
        assert self.db.recovery.intact, self.db.recovery
        self._restarted()

    @rule()
    def crash_and_open_again(self) -> None:
        crashed = self.directory.with_name(self.directory.name + "+")
        ignored = shutil.ignore_patterns("omsmsg.reserve", "omsmsg.index*", "*.new")  # never trusted, large, or going
        shutil.copytree(self.directory, crashed, ignore=ignored)
        self.db.close()
        shutil.rmtree(self.directory)
        self.directory = crashed
        self._open()
        assert not self.db.recovery.lost, self.db.recovery
        self._restarted()

    def _restarted(self) -> None:
        assert self.db.recovery.undelivered == len(self.model.messages)
        self.model.taken.clear()
        self.everything_is_there()
        for (queue, producer), (numbers, given) in self.model.identifiers.items():
            if len(given) == 1:
                assert self.db.add(queue, given[0], producer_id=producer) == numbers.start
        self.everything_is_there()

    @invariant()
    def the_counts_are_right(self) -> None:
        if not hasattr(self, "db"):
            return
        counts = {queue: len(self.model.of(queue)) for queue in QUEUES}
        assert self.db.queues() == {queue: count for queue, count in counts.items() if count}
        assert self.db.undelivered_count() == len(self.model.messages)


DatabaseMachine.TestCase.settings = settings(max_examples=8, stateful_step_count=30, deadline=None, derandomize=True)
TestTheDatabaseAgainstDicts = DatabaseMachine.TestCase


class DatabaseMachineLonger(DatabaseMachine):
    """The same, more often."""


DatabaseMachineLonger.TestCase.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, derandomize=True
)
TestTheDatabaseAgainstDictsLonger = pytest.mark.whole(DatabaseMachineLonger.TestCase)


class DatabaseMachineForLong(DatabaseMachine):
    """The same, many times."""


DatabaseMachineForLong.TestCase.settings = settings(max_examples=1500, stateful_step_count=60, deadline=None)
TestTheDatabaseAgainstDictsForLong = pytest.mark.slow(DatabaseMachineForLong.TestCase)
