"""Names of queues that are empty are forgotten, and what is on its way to one of them still comes to it."""

import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oms_journal import Message, MessageDatabase
from oms_journal.database.bulk.loading import load
from oms_journal.database.commits import encode
from oms_journal.database.commits.drafting import Unit
from oms_journal.database.consumers import consumers
from oms_journal.index.table import Queues
from oms_journal.journal.operations import encode_name
from oms_journal.journal.writing.draft import Draft, QueueTemplate
from oms_journal.journal.writing.single import PlainAdds
from tests.support.crashes.crash_model import open_unattended
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.sweeps import a_sample

NAMES = st.sampled_from("abcde")


@given(steps=st.lists(st.tuples(st.sampled_from(["add", "remove", "forget"]), NAMES), max_size=60))
def test_a_queue_keeps_its_place_while_anything_is_in_it(steps: list[tuple[str, str]]) -> None:
    queues, model = Queues(), Counter[str]()
    places: dict[str, int] = {}
    for step, name in steps:
        if step == "forget":
            before = {name for name in places if not model[name]}
            empty = queues.empty()
            queues.forget(empty)
            assert set(empty) == before
            places = {name: place for name, place in places.items() if model[name]}
        else:
            sign = 1 if step == "add" else -min(1, model[name])
            place = places.setdefault(name, queues.place(name))
            model[name] += sign
            queues.counts[place] += sign
            queues.bytes[place] += sign * 7
        assert {name: queues.find(name) for name in "abcde"} == {name: places.get(name) for name in "abcde"}
        assert [queues.name(place) for place in places.values()] == list(places)
        assert len(set(places.values())) == len(places) == len(queues)
        assert queues.used() == {name: (count, 7 * count) for name, count in model.items() if count}
    assert len(queues.counts) <= 5, "places are given again"


def always_forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a database look for empty queues whenever there is a new one."""
    monkeypatch.setattr(encode, "QUEUES_KEPT", -(10**6))
    monkeypatch.setattr(consumers, "LINES_KEPT", -(10**6))


def plain(db: MessageDatabase) -> Draft:
    return db._drafting.add("a", b"x")


def several(db: MessageDatabase) -> Draft | None:
    return db._drafting.add_many("a", [b"x", b"y"], None, None)


def with_properties(db: MessageDatabase) -> Draft:
    return db._drafting.add("a", b"x", {"k": "v"}, None)


def in_a_block(db: MessageDatabase) -> Draft:
    block = db._drafting.gathering(None)
    block.add("a", b"x")
    block.add("a", b"y")
    block.put("key", b"value")
    return db._drafting.operations(block._operations)


def unit(db: MessageDatabase) -> Draft | None:
    return db._drafting.unit(Unit("a", [b"x", b"y"], [], [], [(b"key", b"value", ())], []))


def of_a_turn(db: MessageDatabase) -> PlainAdds:
    template = db._drafting.encode.queue("a")
    return PlainAdds([template, template], [b"x", b"y"], 2 * template.bound + 2)


DRAFTS = (plain, several, with_properties, in_a_block, unit, of_a_turn)


@pytest.mark.parametrize("draft", DRAFTS, ids=lambda draft: draft.__name__)
def test_what_was_drafted_before_its_queue_was_forgotten_comes_to_its_queue(
    draft: Callable[[MessageDatabase], Draft | PlainAdds | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    always_forgetful(monkeypatch)
    with open_unattended(SimulatedDisk()) as db:
        drafted, second = draft(db), draft(db)
        assert drafted is not None and second is not None
        place = db._drafting.encode.templates["a"].place
        others = [db.add(name, name.encode()) for name in ("b", "c")]
        assert db._ledger.index.table.queues.name(place) == "b", "which has got the place of the other"
        db._write(drafted)
        db.deliver_many([*db.numbers("a")])
        db.add("d", b"")  # forgets once more
        db._write(second)
        assert db.queues() == {"b": 1, "c": 1, "d": 1, "a": db.undelivered_count("a")}
        assert [message.payload for message in db.undelivered("a")] in ([b"x"], [b"x", b"y"])
        assert [*db.numbers("b"), *db.numbers("c")] == others
        db._ledger.index.table.check()


def test_two_callers_who_find_a_new_queue_at_once_agree_on_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_unattended(SimulatedDisk()) as db:
        mine, quicker = db._drafting.encode, list[QueueTemplate]()

        def slowly(name: str, what: str) -> bytes:
            monkeypatch.setattr("oms_journal.database.commits.encode.encode_name", encode_name)
            quicker.append(mine.queue(name))
            return encode_name(name, what)

        monkeypatch.setattr("oms_journal.database.commits.encode.encode_name", slowly)
        assert [mine.queue("a")] == quicker == [mine.templates["a"]]


def test_messages_with_numbers_of_their_own_come_to_their_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    always_forgetful(monkeypatch)
    with open_unattended(SimulatedDisk()) as db:
        db.deliver(db.add("a", b""))
        db.deliver(db.add("b", b""))
        load(db, [Message(100 + n, name, b"x", {}, 5, None, 0, 0) for n, name in enumerate("abab")], {})
        assert {name: [*db.numbers(name)] for name in "ab"} == {"a": [100, 102], "b": [101, 103]}


def test_who_reads_a_queue_while_it_is_forgotten_is_shown_no_other() -> None:
    with open_unattended(SimulatedDisk()) as db:
        for _ in range(3):  # in a block of the index each, since others lie between
            db.add("a", b"a")
            db._journal.roll_at_next_commit()
        table = db._ledger.index.table
        batches = table.batches("a", 0, 1 << 60)
        first = next(batches)[0]
        db.deliver_many([*db.numbers("a")])
        assert table.queues.empty() == ["a"]
        table.queues.forget(["a"])
        assert table.queues.place("b") == 0
        table.add_run(0, 100, 99, 800, [1])
        assert first.tolist() == [1] and not [*batches]


@a_sample(2, more=5)
@pytest.mark.parametrize("seed", range(20))
def test_random_names_take_no_memory_and_change_no_answer(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    always_forgetful(monkeypatch)
    chance, model = random.Random(seed), dict[int, tuple[str, bytes]]()
    taken: set[int] = set()
    disk = SimulatedDisk()
    for _ in range(2):
        with open_unattended(disk) as db:
            taken.clear()
            for _ in range(150):
                name = f"reply-{chance.randrange(12)}"
                match chance.choice(["add", "add", "many", "take", "release", "deliver", "clean up"]):
                    case "add":
                        model[db.add(name, b"x")] = name, b"x"
                    case "many":
                        model |= {number: (name, b"y") for number in db.add_many(name, [b"y"] * 3)}
                    case "take":
                        expected = min((n for n, (q, _) in model.items() if q == name and n not in taken), default=None)
                        found = db.take(name)
                        assert (found.number if found else None) == expected
                        taken.update([] if expected is None else [expected])
                    case "release" if taken:
                        number = chance.choice(sorted(taken))
                        assert db.release(number)
                        taken.remove(number)
                    case "deliver" if model:
                        gone = chance.sample(sorted(model), min(len(model), chance.randrange(1, 9)))
                        assert db.deliver_many(gone) == len(gone)
                        taken.difference_update(gone)
                        model = {number: content for number, content in model.items() if number not in gone}
                    case "clean up":
                        db.cleanup(compact=True)
                    case _:
                        pass  # there is nothing to release or to deliver
            check(db, model)
        disk = disk.restart()


def check(db: MessageDatabase, model: dict[int, tuple[str, bytes]]) -> None:
    found = {message.number: (message.queue, message.payload) for message in db.undelivered()}
    assert found == model
    assert db.queues() == Counter(name for name, _ in model.values())
    for name in {name for name, _ in model.values()}:
        assert [*db.numbers(name)] == sorted(number for number, (queue, _) in model.items() if queue == name)
    db._ledger.index.table.check()


@pytest.mark.whole
def test_answers_in_queues_of_their_own_take_no_memory_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "QUEUES_KEPT", 50)
    monkeypatch.setattr(consumers, "LINES_KEPT", 50)
    with open_unattended(SimulatedDisk()) as db:
        kept = [db.add(f"service {n}", b"request") for n in range(20)]
        for n in range(1000):
            db.add(f"reply-{n}", b"answer")
            message = db.take(f"reply-{n}")
            assert message is not None and message.payload == b"answer"
            db.deliver(message.number)
            sizes = (
                len(db._ledger.index.table.queues.counts),
                len(db._ledger.index.table.queues),
                len(db._drafting.encode.templates),
                len(db._consumers._lines),
            )
            assert max(sizes) <= 50 + 2 * 20 + 1, n
        assert [*db.numbers()] == kept
