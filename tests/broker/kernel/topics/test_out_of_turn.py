"""Publications that are acknowledged out of turn: any number of them is kept, in a record that fits."""

import random
from itertools import pairwise

import pytest

from oms_journal.broker.block import Function, Option
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state import topics
from oms_journal.broker.kernel.state.effects import ReleasePublications
from oms_journal.broker.kernel.tables.ranges import UP_TO
from oms_journal.broker.records import HELD, HELDS, SUBSCRIPTION, SUBSCRIPTIONS, HeldRecord, SubscriptionRecord
from tests.broker.kernel.topics.test_topics import BACKOUT, COMMIT, TOPIC, control, get, publish, subscribe
from tests.support.broker.kernel_desk import Desk, Person, Said, attributes
from tests.support.sweeps import a_sample

OPERATOR = 900_000
FEW = 10  # numbers of a record


def people(desk: Desk) -> tuple[Person, Person]:
    return Person(desk, "PAPER", "P", caller=1), Person(desk, "READER", "R", caller=2)


def record(desk: Desk) -> SubscriptionRecord:
    (found,) = [SUBSCRIPTION.decode(value) for key, value in desk.paper.keys.items() if key.startswith(SUBSCRIPTIONS)]
    return found


def window(desk: Desk) -> HeldRecord | None:
    return next((HELD.decode(value) for key, value in desk.paper.keys.items() if key.startswith(HELDS)), None)


def bodies(person: Person) -> list[bytes | None]:
    found = []
    while (got := get(person)).code is Code.OK:
        found.append(got.body)
    return found


@pytest.fixture
def desk() -> Desk:
    """Return the desk of somebody who publishes and a durable subscriber; another one never acknowledges anything."""
    desk = Desk(attributes(max_delivery_count="0"))  # what is given back comes at once
    _, reader = people(desk)
    subscribe(reader)
    return desk


@pytest.mark.parametrize("left", [0, 1, 7])
def test_all_but_one_of_many_publications_take_two_or_four_numbers(desk: Desk, left: int) -> None:
    paper = Person(desk, "PAPER", "P", caller=3)
    reader = Person(desk, "READER", "R", caller=2)
    for number in range(200):
        publish(paper, b"%d" % number)
        paper.send(b"of something else", service=f"S{number}")
    got = [get(reader) for _ in range(200)]
    for number, each in enumerate(got):
        if number != left:
            assert control(reader, COMMIT, each).code is Code.OK
            assert len(record(desk).acknowledged) <= 2
    again = desk.restart()
    _, reader = people(again)
    assert bodies(reader) == [b"%d" % left]


@pytest.mark.parametrize("step", [2, 3])
def test_a_record_with_a_number_for_each_is_read_as_before(desk: Desk, step: int) -> None:
    paper, reader = Person(desk, "PAPER", "P", caller=3), Person(desk, "READER", "R", caller=2)
    keeper = Person(desk, "KEEPER", "K", caller=4)
    subscribe(keeper)
    for number in range(1, 31):
        publish(paper, b"%d" % number)
    numbers = tuple(each for each in range(2, 30) if each % 10)
    before = record_of(desk, "READER")
    value = SUBSCRIPTION.encode(before._replace(acknowledged=numbers[::-1] if step == 3 else numbers))
    desk.paper.keys[SUBSCRIPTIONS + before.subscription_id] = value
    again = desk.restart()
    _, reader = people(again)
    got = [get(reader) for _ in range(4)]
    assert [each.body for each in got] == [b"1", b"10", b"20", b"30"]
    assert control(reader, COMMIT, got[1]).code is Code.OK
    assert record_of(again, "READER").acknowledged == (2, UP_TO + 19, 21, UP_TO + 29)


def record_of(desk: Desk, user: str) -> SubscriptionRecord:
    values = [value for key, value in desk.paper.keys.items() if key.startswith(SUBSCRIPTIONS)]
    return next(each for each in map(SUBSCRIPTION.decode, values) if each.user == user)


@pytest.mark.parametrize("option", [Option.DURABLE, Option.NONE])
def test_a_subscriber_gets_no_more_than_could_be_written_until_it_is_done_with_older_ones(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, option: Option
) -> None:
    monkeypatch.setattr(topics, "NUMBERS_MAX", FEW)
    paper, reader = Person(desk, "PAPER", "P", caller=3), Person(desk, "OTHER", "O", caller=5)
    assert subscribe(reader, option) is Code.OK
    (own,) = [each for each in desk.kernel.world.topics.subscriptions.values() if each.owner.user == "OTHER"]
    for number in range(3 * FEW):
        publish(paper, b"%d" % number)
    got = [get(reader) for _ in range(FEW)]
    assert get(reader).code is Code.NO_UOWS
    for each in got[1::2]:
        assert control(reader, COMMIT, each).code is Code.OK
        assert get(reader).code is Code.NO_UOWS
    assert own.acknowledged.size == FEW // 2
    waits = reader.start(Function.RECEIVE_PUBLICATION, topic=TOPIC, publication_id="NEW", wait="10S")
    assert waits not in desk.answers
    control(reader, COMMIT, got[2])
    assert desk.answers[waits].body == b"%d" % FEW, "two ranges have become one"


@a_sample(12, more=30)
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("is_restored", [False, True], ids=["published", "held and released"])
@pytest.mark.parametrize("limit", ["0", "UNLIM"], ids=["at once", "delayed"])
def test_whatever_is_acknowledged_in_whatever_order_is_received_once_and_fits(
    monkeypatch: pytest.MonkeyPatch, seed: int, is_restored: bool, limit: str
) -> None:
    monkeypatch.setattr(topics, "NUMBERS_MAX", FEW)
    desk = Desk(attributes(max_delivery_count=limit))
    subscribe(people(desk)[1])
    chance, left = random.Random(seed), 60
    paper, reader = Person(desk, "PAPER", "P", caller=3), Person(desk, "READER", "R", caller=2)
    number, outstanding, done = 0, list[Said](), list[bytes | None]()
    if is_restored:
        for number in range(1, left + 1):
            publish(paper, b"%d" % number)
        desk, left = desk.restored(), 0
        (found,) = desk.kernel.world.topics.subscriptions
        desk.give(ReleasePublications(OPERATOR, found, None))
        paper, reader = people(desk)
    while True:
        what = chance.random()
        if what < 0.3 and number < left:
            number += 1
            publish(paper, b"%d" % number)
        elif what < 0.6 or not outstanding:
            got = get(reader)
            if got.code is Code.OK:
                outstanding.append(got)
            elif not outstanding and number >= left and not desk.kernel.world.topics.later:
                break
            else:
                desk.tick(60)
        elif what < 0.9:
            said = outstanding.pop(chance.randrange(len(outstanding)))
            assert control(reader, COMMIT, said).code is Code.OK
            done.append(said.body)
        elif what < 0.97:
            assert control(reader, BACKOUT, outstanding.pop(chance.randrange(len(outstanding)))).code is Code.OK
        else:
            desk = desk.restart()
            paper, reader = people(desk)
            outstanding = []
        assert len(record(desk).acknowledged) <= FEW
        held = window(desk)
        assert held is None or len(held.numbers) <= FEW
    assert sorted(int(each or b"0") for each in done) == list(range(1, 61))
    assert not desk.paper.messages


def test_what_waits_for_its_redelivery_counts_as_what_may_be_acknowledged_out_of_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topics, "NUMBERS_MAX", FEW)
    desk = Desk(attributes(max_delivery_count="UNLIM"))
    paper, reader = people(desk)
    subscribe(reader)
    for number in range(8 * FEW):
        publish(paper, b"%d" % number)
    for remainder in (0, 2, 1, 3):  # first each fourth one, then those in the middle of what is left between them
        while (got := get(reader)).code is Code.OK:
            is_done = int(got.body or b"") % 4 == remainder
            assert control(reader, COMMIT if is_done else BACKOUT, got).code is Code.OK
            assert len(record(desk).acknowledged) <= FEW
        desk.tick(60)


def test_a_subscription_that_becomes_durable_keeps_what_was_acknowledged_out_of_turn(desk: Desk) -> None:
    paper, passing = Person(desk, "PAPER", "P", caller=3), Person(desk, "OTHER", "O", caller=5)
    subscribe(passing, Option.NONE)
    for number in range(9):
        publish(paper, b"%d" % number)
    got = [get(passing) for _ in range(9)]
    for each in got[2:8]:
        control(passing, COMMIT, each)
    assert subscribe(passing) is Code.OK
    numbers = record_of(desk, "OTHER").acknowledged
    assert [each % UP_TO for each in numbers] == [3, 8]
    assert all(low % UP_TO < high % UP_TO for low, high in pairwise(numbers))
    again = Person(desk.restart(), "OTHER", "O", caller=6)
    assert bodies(again) == [b"0", b"1", b"8"]
