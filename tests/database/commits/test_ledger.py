"""What a commit is checked against: the index, and every commit handed in before it that is not yet durable.

Each test hands several drafts to one group, as callers do who come while the disk is busy.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from oms_journal.database.commits.added import number_range
from oms_journal.database.commits.block import CommitBlock
from oms_journal.database.commits.ledger import FEW, IndexChanges, StaleDraft
from oms_journal.journal.errors import DiskFull, DuplicateConflict, NotUndelivered
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.message import Message
from oms_journal.journal.writing.draft import CommitBuilder, Draft
from tests.support.journals.paper_journal import PaperJournal, moving
from tests.support.sweeps import for_each


def _with_messages(count: int) -> PaperJournal:
    journal = PaperJournal()
    journal.commit([journal.drafting.add("q", b"x") for _ in range(count)])
    return journal


def _removal(journal: PaperJournal, *numbers: int) -> Draft:
    draft = journal.drafting.removal(Operation.DELIVER, numbers)
    assert draft is not None
    return draft


def _block(journal: PaperJournal, producer: str | None = None) -> CommitBlock:
    return journal.drafting.gathering(producer)


def _draft(journal: PaperJournal, block: CommitBlock) -> Draft:
    return journal.drafting.operations(block._operations)


def _put(journal: PaperJournal, key: str, value: bytes = b"new") -> Draft:
    block = _block(journal)
    block.put(key, value)
    return _draft(journal, block)


def _drop(journal: PaperJournal, key: str) -> Draft:
    block = _block(journal)
    block.drop(key)
    return _draft(journal, block)


def _moving_key(journal: PaperJournal, key: str) -> Draft:
    version = journal.ledger.index.keyed.find(key.encode())
    assert version is not None
    composer = CommitBuilder()
    composer.put(key.encode(), b"old", moved=True)
    draft = composer.draft()
    draft.effect = IndexChanges(moved_keys=[(key.encode(), *version)])
    return draft


def _added(journal: PaperJournal, payload: bytes = b"x", producer: str = "1", queue: str = "q") -> Draft:
    return journal.drafting.add(queue, payload, None, producer)


def _written(journal: PaperJournal, drafts: Sequence[Draft]) -> list[bool]:
    written = journal.commit(drafts)
    return [any(draft is one for one in written) for draft in drafts]


def _undelivered(journal: PaperJournal) -> list[int]:
    return [number for batch in journal.ledger.index.table.batches(None, 0, 1 << 62) for number in batch[0].tolist()]


# Removals.


def test_of_two_removals_of_one_message_in_one_group_the_first_is_written() -> None:
    journal = _with_messages(3)
    drafts = [_removal(journal, 1, 2), _removal(journal, 2, 3), _removal(journal, 3)]

    assert _written(journal, drafts) == [True, False, True]
    assert isinstance(drafts[1].failure, StaleDraft), "its caller composes it anew"
    assert _undelivered(journal) == []


@for_each("first", [1, FEW, FEW + 1, 500])
@for_each("second", [1, FEW, FEW + 1, 500])
@for_each("overlap", [0, 1])
def test_commits_of_any_size_see_what_others_of_the_group_remove(first: int, second: int, overlap: int) -> None:
    journal = _with_messages(1001)
    end = first + second - overlap
    drafts = [_removal(journal, *range(1, first + 1)), _removal(journal, *range(first - overlap + 1, end + 1))]

    assert _written(journal, drafts) == [True, not overlap]
    gone = end if not overlap else first
    assert _undelivered(journal) == list(range(gone + 1, 1002))
    if overlap and second > 1:
        assert _written(journal, [_removal(journal, *range(first, end + 1))]) == [True], "composed anew, it goes"
        assert _undelivered(journal) == list(range(end + 1, 1002))


@pytest.mark.parametrize("size", [2, FEW + 10])
def test_a_large_block_is_told_which_of_its_messages_is_gone(size: int) -> None:
    journal = _with_messages(size)
    block = _block(journal)
    for number in range(1, size + 1):
        block.deliver(number)
    draft = _draft(journal, block)

    assert _written(journal, [_removal(journal, size), draft]) == [True, False]
    assert isinstance(draft.failure, NotUndelivered)
    assert draft.failure.number == size


def test_a_block_that_removes_what_another_commit_of_the_group_removes_is_refused() -> None:
    journal = _with_messages(2)
    block = _block(journal)
    block.add("q", b"never written")
    block.deliver(1)
    refused = _draft(journal, block)

    assert _written(journal, [_removal(journal, 1), refused]) == [True, False]
    assert isinstance(refused.failure, NotUndelivered)
    assert refused.failure.number == 1
    assert _undelivered(journal) == [2]


def test_what_a_refused_commit_wanted_to_remove_can_be_removed_by_the_next() -> None:
    journal = _with_messages(2)
    refused, after = _removal(journal, 1, 2), _removal(journal, 1)
    assert journal.ledger.admit(refused)
    journal.ledger.withdraw(refused)

    assert _written(journal, [after]) == [True]
    assert _undelivered(journal) == [2]


def test_a_message_is_not_written_again_behind_its_end() -> None:
    journal = _with_messages(3)
    journal.roll()
    messages = [Message(number, "q", b"x", {}, 1, None, 1, 0) for number in (1, 2, 3)]
    move = moving(messages)

    assert _written(journal, [_removal(journal, 2), move]) == [True, False]
    assert isinstance(move.failure, StaleDraft)
    assert _written(journal, [moving([messages[0], messages[2]]), _removal(journal, 1)]) == [True, True]
    assert _undelivered(journal) == [3]
    journal.files.pop(1)
    assert [place.number for place in journal.rebuilt().table.in_file(2)] == [3]


# Keys.


@pytest.mark.parametrize("change", [_put, _drop])
def test_an_old_version_of_a_key_is_not_written_again_behind_a_newer_one(
    change: Callable[[PaperJournal, str], Draft],
) -> None:
    journal = PaperJournal()
    journal.commit([_put(journal, "k", b"old")])
    journal.roll()
    newer, move = change(journal, "k"), _moving_key(journal, "k")

    assert _written(journal, [newer, move]) == [True, False]
    assert isinstance(move.failure, StaleDraft)
    assert journal.rebuilt().keyed.find(b"k") == journal.ledger.index.keyed.find(b"k")
    assert journal.ledger.index.keyed.find(b"k") == ((2, _last_offset(journal)) if change is _put else None)


def test_a_key_whose_newer_version_was_refused_can_be_moved() -> None:
    journal = PaperJournal()
    journal.commit([_put(journal, "k", b"old")])
    journal.roll()
    refused = _put(journal, "k")
    assert journal.ledger.admit(refused)
    journal.ledger.withdraw(refused)

    assert _written(journal, [_moving_key(journal, "k")]) == [True]
    assert journal.ledger.index.keyed.files == {1: 0, 2: 1}


def test_a_newer_version_may_follow_a_moved_one_in_the_same_group() -> None:
    journal = PaperJournal()
    journal.commit([_put(journal, "k", b"old")])
    journal.roll()
    move, newer = _moving_key(journal, "k"), _put(journal, "k")

    assert _written(journal, [move, newer]) == [True, True]
    assert journal.rebuilt().keyed.find(b"k") == (2, _last_offset(journal))


def _last_offset(journal: PaperJournal) -> int:
    """Return where the last commit begins that did anything."""
    return int(journal.contents()[journal.place.sequence].columns["offset"][-1])


# Producer identifiers.


def test_a_resend_while_the_first_is_on_its_way_shares_its_number() -> None:
    journal = _with_messages(1)
    first, resend, other = _added(journal), _added(journal), _added(journal, producer="2")

    assert _written(journal, [first, resend, other]) == [True, False, True]
    assert (resend.first, resend.answer, first.answer, other.answer) == (2, range(2, 3), 2, 3)


def test_a_resend_of_what_is_refused_is_refused_with_it() -> None:
    journal = PaperJournal()
    first, resend = _added(journal), _added(journal)
    ledger = journal.ledger
    assert ledger.admit(first)
    assert not ledger.admit(resend)
    ledger.withdraw(first)
    first.failure = failure = DiskFull(Path("spool"), OSError(28, "No space left"), "add messages in")
    ledger.settle_shared()

    assert resend.failure is failure
    assert _written(journal, [_added(journal)]) == [True], "and what is sent once more is new"


@pytest.mark.parametrize("together", [True, False])
def test_another_payload_under_a_known_identifier_is_a_conflict(together: bool) -> None:
    journal = PaperJournal()
    first, conflict = _added(journal, b"x"), _added(journal, b"y")
    if together:
        journal.commit([first, conflict])
    else:
        journal.commit([first])
        journal.commit([conflict])

    assert isinstance(conflict.failure, DuplicateConflict)
    assert _undelivered(journal) == [1]


def test_an_identifier_is_known_by_its_queue() -> None:
    journal = PaperJournal()

    assert _written(journal, [_added(journal, queue="q"), _added(journal, b"y", queue="r")]) == [True, True]


def _identified(journal: PaperJournal, *identifiers: str | None) -> Draft:
    block = _block(journal)
    for identifier in identifiers:
        block.add("q", (identifier or "").encode(), producer_id=identifier)
    return _draft(journal, block)


@pytest.mark.parametrize("together", [True, False])
def test_a_commit_of_several_identified_messages_is_answered_as_a_whole(together: bool) -> None:
    journal = _with_messages(5)
    first, resend = _identified(journal, "1", "2", "3"), _identified(journal, "1", "2", "3")
    for drafts in [[first, resend]] if together else [[first], [resend]]:
        journal.commit(drafts)

    assert number_range(first) == number_range(resend) == range(6, 9)
    assert _undelivered(journal) == list(range(1, 9))


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_a_resend_that_removes_more_than_the_first_did_is_a_conflict(together: bool, whole: bool) -> None:
    journal = _with_messages(2)

    def commit(number: int) -> Draft:
        block = _block(journal, "1" if whole else None)
        block.add("q", b"x", producer_id=None if whole else "1")
        block.deliver(number)
        return _draft(journal, block)

    first, other = commit(1), commit(2)
    for drafts in [[first, other]] if together else [[first], [other]]:
        journal.commit(drafts)

    assert isinstance(other.failure, DuplicateConflict), "message 2 would stay, and its consumer think it gone"
    assert _undelivered(journal) == [2, 3]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    "resent", [("1", "new"), ("new", "1"), ("2", "1"), (None, "1"), ("1", None), ("1", "3"), ("3", "1")], ids=str
)
def test_a_commit_of_which_only_some_was_sent_before_is_refused_and_loses_nothing(
    resent: tuple[str | None, ...], together: bool
) -> None:
    journal = PaperJournal()
    first, third = _identified(journal, "1", "2"), _identified(journal, "3")
    mixed = _identified(journal, *resent)
    for drafts in [[first, third, mixed]] if together else [[first, third], [mixed]]:
        journal.commit(drafts)

    assert isinstance(mixed.failure, DuplicateConflict), "an answer would acknowledge what was never written"
    assert _undelivered(journal) == [1, 2, 3]


def test_an_identifier_for_a_whole_commit_covers_all_it_does() -> None:
    journal = _with_messages(2)

    def commit() -> Draft:
        block = _block(journal, "whole")
        block.add("q", b"a")
        block.add("r", b"b")
        block.deliver(1)
        block.put("k", b"v")
        return _draft(journal, block)

    first, shared = commit(), commit()
    assert _written(journal, [first, shared]) == [True, False]
    later = commit()
    assert _written(journal, [later]) == [False]
    assert number_range(first) == number_range(shared) == number_range(later) == range(3, 5)


def test_an_identifier_given_twice_in_one_commit_is_a_conflict() -> None:
    journal = PaperJournal()
    with pytest.raises(DuplicateConflict, match="twice"):
        _identified(journal, "1", "2", "1")


def test_a_commit_with_an_identifier_takes_no_identified_messages() -> None:
    journal = PaperJournal()
    block = _block(journal, "whole")
    with pytest.raises(ValueError, match="has a producer identifier of its own"):
        block.add("q", b"x", producer_id="own")
