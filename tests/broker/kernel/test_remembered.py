"""What the store remembers of producers' identifiers: each found by its queue, and those of one commit together."""

import random

from oms_journal.broker.kernel.tables.remembered import Known, Remembered
from oms_journal.broker.store.stored import StoredIdentifier


def one(queue: str, producer: str, first: int, messages: int = 1, added: int = 0) -> StoredIdentifier:
    return StoredIdentifier(queue, producer, first, messages, first * 7, added)


def known(found: StoredIdentifier) -> Known:
    return Known(found.queue, found.first, found.messages, found.digest)


def test_each_is_found_by_its_queue_and_its_name_and_no_other_is() -> None:
    chance = random.Random(5)
    every = [one(f"q{at % 7}", f"p{at // 7}", at + 1, added=at) for at in range(1000)]
    chance.shuffle(every)
    remembered = Remembered(every)
    assert len(remembered) == 1000
    for each in every:
        assert remembered.find(each.queue, each.producer) == known(each)
        assert remembered.together_with(known(each)) == [known(each)]
    assert remembered.find("q7", "p1") is None
    assert remembered.find("q1", "p1000") is None
    assert Remembered().find("q1", "p1") is None


def test_those_of_one_commit_have_one_identifier_and_one_time_and_follow_on_one_another() -> None:
    commit = [one("a", "p", 1, 2, added=5), one("b", "p", 3, 1, added=5), one("c", "p", 4, 3, added=5)]
    later = one("d", "p", 7, added=6)  # neighbours of it, and another commit
    apart = [one("e", "p", 9, added=5), one("a", "other", 8, added=5)]
    remembered = Remembered([later, *reversed(commit), *apart])
    together = [known(each) for each in commit]
    for each in commit:
        assert remembered.together_with(known(each)) == together
    for each in (later, *apart):
        assert remembered.together_with(known(each)) == [known(each)]
