"""The index of a running database is the index that a start builds from its files."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from oms_journal.database.commits.ledger import StaleDraft
from oms_journal.index.live import Index
from oms_journal.journal.errors import DuplicateConflict, NotUndelivered
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.message import Message
from oms_journal.journal.writing.draft import Draft
from tests.support.journals.paper_journal import PaperJournal, moving

QUEUES = ["orders", "bills", "häuser"]
queues = st.sampled_from(QUEUES)
payloads = st.binary(max_size=20)
keys = st.sampled_from(["a", "b", "c"])
kinds = st.sampled_from([Operation.DELIVER, Operation.DELETE])


def _everything(index: Index) -> dict[str, object]:
    """Return all that an index knows, but for the internal order of its queues."""
    table, keyed = index.table, index.keyed
    table.check()
    places = [table.find(n) for batch in table.batches(None, 0, 1 << 62) for n in batch[0].tolist()]
    return {
        "messages": [(p.number, table.queues.name(p.queue), p.sequence, p.offset, p.size) for p in places if p],
        "queues": table.queues.used(),
        "use": {s: (use.live_messages, use.live_bytes) for s, use in table.files.items() if use.live_messages},
        "keys": {key: keyed.find(key) for key in keyed.keys(b"")},
        "keys of files": {sequence: count for sequence, count in keyed.files.items() if count},
        "identifiers": index.duplicates.before(1 << 62),
    }


class ReplayMachine(RuleBasedStateMachine):
    """Random groups of commits, several drafts at once as concurrent callers hand them in."""

    def __init__(self) -> None:
        super().__init__()
        self.journal = PaperJournal()
        self.waiting: list[tuple[Draft, Callable[[], None]]] = []  # and what the model does once it is written
        self.messages: dict[int, Message] = {}
        self.keys: set[str] = set()

    def _hand_in(self, draft: Draft | None, effect: Callable[[], None]) -> None:
        if draft is not None:
            self.waiting.append((draft, effect))

    def _added(self, draft: Draft, messages: Sequence[tuple[str, bytes, dict[str, str], str | None]]) -> None:
        for number, (queue, payload, properties, producer) in enumerate(messages, draft.first):
            added = self.journal.now
            self.messages[number] = Message(number, queue, payload, properties, added, producer, 0, 0)

    def _removed(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            del self.messages[number]

    @rule(queue=queues, payload=payloads)
    def add_a_plain_one(self, queue: str, payload: bytes) -> None:
        draft = self.journal.drafting.add(queue, payload)
        self._hand_in(draft, lambda: self._added(draft, [(queue, payload, {}, None)]))

    @rule(queue=queues, many=st.lists(payloads, min_size=1, max_size=8), has_properties=st.booleans())
    def add_many(self, queue: str, many: list[bytes], has_properties: bool) -> None:
        properties = [{"size": str(len(payload))} for payload in many] if has_properties else None
        draft = self.journal.drafting.add_many(queue, many, properties, None)
        assert draft is not None
        rows = [(queue, payload, properties[at] if properties else {}, None) for at, payload in enumerate(many)]
        self._hand_in(draft, lambda: self._added(draft, rows))

    @rule(queue=queues, payload=st.sampled_from([b"1", b"2"]), producer=st.sampled_from(["x", "y"]))
    def add_an_identified_one(self, queue: str, payload: bytes, producer: str) -> None:
        draft = self.journal.drafting.add(queue, payload, None, producer)
        self._hand_in(draft, lambda: self._added(draft, [(queue, payload, {}, producer)]))

    def _numbers(self, data: st.DataObject, count: int) -> list[int]:
        return sorted(data.draw(st.sets(st.sampled_from(sorted(self.messages)), min_size=1, max_size=count)))

    @precondition(lambda self: self.messages)
    @rule(data=st.data(), kind=kinds)
    def remove(self, data: st.DataObject, kind: Operation) -> None:
        numbers = self._numbers(data, 12)
        draft = self.journal.drafting.removal(kind, numbers)
        self._hand_in(draft, lambda: self._removed(numbers))

    @rule(data=st.data(), key=keys, dropped=keys, queue=queues, producer=st.sampled_from([None, "whole"]))
    def commit_several(self, data: st.DataObject, key: str, dropped: str, queue: str, producer: str | None) -> None:
        numbers = self._numbers(data, 3) if self.messages else []
        block = self.journal.drafting.gathering(producer)
        block.put(key, b"first")
        block.add(queue, b"several", properties={"k": "v"})
        block.add_many(QUEUES[0], [b"", b"more"])
        for number in numbers:
            block.deliver(number)
        block.put(key, b"second")
        block.drop(dropped)
        draft = self.journal.drafting.operations(block._operations)

        def effect() -> None:
            several = [
                (queue, b"several", {"k": "v"}, None),
                (QUEUES[0], b"", {}, None),
                (QUEUES[0], b"more", {}, None),
            ]
            self._added(draft, several)
            self.keys = (self.keys | {key}) - {dropped}
            self._removed(numbers)

        self._hand_in(draft, effect)

    @rule()
    def write_the_group(self) -> None:
        drafts = [draft for draft, _ in self.waiting]
        written = self.journal.commit(drafts)
        for draft, effect in self.waiting:
            if any(draft is one for one in written):
                effect()
            else:
                refused = isinstance(draft.failure, StaleDraft | NotUndelivered | DuplicateConflict)
                assert refused or draft.answer is not None, "refused, or answered with the first one's numbers"
        self.waiting.clear()

    @rule()
    def roll(self) -> None:
        self.write_the_group()
        self.journal.roll()

    @precondition(lambda self: len(self.journal.files) > 1)
    @rule(drop=st.booleans())
    def compact_the_oldest_file(self, drop: bool) -> None:
        self.write_the_group()
        oldest, index = min(self.journal.files), self.journal.ledger.index
        inside = [self.messages[place.number] for place in index.table.in_file(oldest)]
        if inside:
            draft = moving(inside)
            assert self.journal.commit([draft]) == [draft]
        if drop and not index.keyed.files.get(oldest):
            del self.journal.files[oldest]
            index.table.forget_file(oldest)
            for scope in index.duplicates.before(oldest + 1):
                del index.duplicates._seen[scope]

    @invariant()
    def a_rebuild_gives_the_same(self) -> None:
        running, rebuilt = self.journal.ledger.index, self.journal.rebuilt()
        assert _everything(rebuilt) == _everything(running)
        found = [
            (number, name)
            for name in QUEUES
            for batch in running.table.batches(name, 0, 1 << 62)
            for number in batch[0].tolist()
        ]
        assert sorted(found) == sorted((message.number, message.queue) for message in self.messages.values())
        assert [key.decode() for key in running.keyed.keys(b"")] == sorted(self.keys)
        assert rebuilt.highest_number() < self.journal.place.next_message


ReplayMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=30, deadline=None, derandomize=True)
TestTheIndexAgainstARebuild = ReplayMachine.TestCase


class ReplayMachineForWhole(ReplayMachine):
    """The same, more times."""


ReplayMachineForWhole.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestTheIndexAgainstARebuildWhole = pytest.mark.whole(ReplayMachineForWhole.TestCase)


class ReplayMachineForLong(ReplayMachine):
    """The same, many times."""


ReplayMachineForLong.TestCase.settings = settings(max_examples=2000, stateful_step_count=60, deadline=None)
TestTheIndexAgainstARebuildForLong = pytest.mark.slow(ReplayMachineForLong.TestCase)


def _put(journal: PaperJournal, key: str) -> Draft:
    block = journal.drafting.gathering(None)
    block.put(key, b"value")
    return journal.drafting.operations(block._operations)


def test_files_replayed_one_by_one_give_the_same_as_in_one_go() -> None:
    journal = PaperJournal()
    for turn in range(20):
        many = journal.drafting.add_many("q", [bytes(turn)] * 5, None, None)
        assert many is not None
        journal.commit([many, _put(journal, f"key {turn % 3}")])
        removal = journal.drafting.removal(Operation.DELIVER, range(1, 100, 3))
        if removal is not None:
            journal.commit([removal])
        if turn % 4 == 3:
            journal.roll()

    assert _everything(journal.rebuilt()) == _everything(journal.ledger.index)


@pytest.mark.parametrize("alignment", [8, 512, 4096])
def test_the_alignment_of_groups_is_no_matter_to_the_index(alignment: int) -> None:
    journal = PaperJournal(alignment=alignment)
    for payload in (b"", b"1", b"12345678"):
        journal.commit([journal.drafting.add("q", payload), journal.drafting.add("r", payload)])

    assert _everything(journal.rebuilt()) == _everything(journal.ledger.index)
    assert journal.ledger.index.table.queues.used() == {"q": (3, 9), "r": (3, 9)}


def test_a_moved_message_whose_first_file_is_gone_takes_its_old_place_in_the_order() -> None:
    journal = PaperJournal()
    for _ in range(3):
        journal.commit([journal.drafting.add("q", b"x") for _ in range(4)])
        journal.roll()
    old = [Message(number, "q", b"x", {}, 1, None, 1, 0) for number in (1, 3)]
    journal.commit([moving(old)])
    removal = journal.drafting.removal(Operation.DELETE, [2, 4, 6])
    assert removal is not None
    journal.commit([removal])
    del journal.files[1]
    rebuilt = journal.rebuilt()
    rebuilt.table.check()

    assert [n for b in rebuilt.table.batches("q", 0, 99) for n in b[0].tolist()] == [1, 3, 5, 7, 8, 9, 10, 11, 12]


def test_what_was_removed_before_its_file_went_is_no_trouble() -> None:
    journal = PaperJournal()
    journal.commit([journal.drafting.add("q", b"x") for _ in range(9)])
    journal.roll()
    removal = journal.drafting.removal(Operation.DELETE, range(1, 10))
    assert removal is not None
    journal.commit([removal])
    del journal.files[1]
    rebuilt = journal.rebuilt()

    assert rebuilt.table.count == 0
    assert rebuilt.highest_number() == 9, "a number is never given twice"
