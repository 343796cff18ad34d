"""What is on its way to the store about a topic: who subscribes, acknowledges and publishes meanwhile.

A call about a subscription that is on its way waits, and then finds what became of it.
"""

from typing import Any

import pytest

from broker.block import Function, Option
from broker.codes import Code
from broker.records import PUBLICATIONS, SUBSCRIPTION, SUBSCRIPTIONS
from broker.topic import Topic
from tests.kernel_desk import Desk, Person, Said

TOPIC = "NEWS"
DURABLE, COMMIT, BACKOUT = Option.DURABLE, Option.COMMIT, Option.BACKOUT


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def paper(desk: Desk) -> Person:
    return Person(desk, "PAPER", "P", caller=1)


@pytest.fixture
def reader(desk: Desk) -> Person:
    return Person(desk, "READER", "R", caller=2)


@pytest.fixture
def other(desk: Desk) -> Person:
    """Return somebody who has subscribed durably."""
    other = Person(desk, "OTHER", "O", caller=3)
    assert other.call(Function.SUBSCRIBE, DURABLE, topic=TOPIC).code is Code.OK
    return other


def begin_publishing(person: Person, body: bytes = b"news", option: Option = COMMIT) -> int:
    return person.start(Function.SEND_PUBLICATION, option, topic=TOPIC, body=body, publication_id="NEW")


def get(person: Person) -> Said:
    return person.call(Function.RECEIVE_PUBLICATION, topic=TOPIC, publication_id="NEW")


def begin_waiting(person: Person) -> int:
    fields: dict[str, Any] = {"topic": TOPIC, "publication_id": "NEW", "wait": "1H"}
    return person.start(Function.RECEIVE_PUBLICATION, **fields)


def begin_control(person: Person, said: Said, option: Option = COMMIT) -> int:
    return person.start(Function.CONTROL_PUBLICATION, option, publication_id=said.reply.publication_id)


def topic_of(desk: Desk) -> Topic:
    return desk.kernel.world.topics.topics[TOPIC]


def is_nothing_left(desk: Desk) -> bool:
    return not desk.paper.messages and not any(key.startswith(PUBLICATIONS) for key in desk.paper.keys)


# A subscription that is made durable.


def reads_and_makes_it_durable(desk: Desk, paper: Person, reader: Person) -> tuple[Said, int]:
    """Have the reader get a publication, and subscribe durably while the store is slow; return both."""
    assert reader.call(Function.SUBSCRIBE, topic=TOPIC).code is Code.OK
    begin_publishing(paper)
    said = get(reader)
    desk.is_slow = True
    return said, reader.start(Function.SUBSCRIBE, DURABLE, topic=TOPIC)


@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "it fails"])
@pytest.mark.parametrize("option", [COMMIT, BACKOUT], ids=["acknowledged", "given back"])
def test_what_is_said_while_a_subscription_is_made_durable_counts(
    desk: Desk, paper: Person, reader: Person, other: Person, option: Option, is_durable: bool
) -> None:
    said, subscribing = reads_and_makes_it_durable(desk, paper, reader)
    told = begin_control(reader, said, option)
    if is_durable:
        desk.settle()
    else:
        desk.fail(is_store_lost=False)
        desk.settle()
    desk.is_slow = False

    assert desk.answers[subscribing].code is (Code.OK if is_durable else Code.DURABLE_WITHOUT_STORE)
    assert desk.answers[told].code is Code.OK
    if option is BACKOUT:
        again = get(reader)
        assert again.body == b"news"
        assert desk.answers[begin_control(reader, again)].code is Code.OK
    assert get(reader).code is Code.NO_UOWS
    assert get(other).body == b"news", "it was acknowledged once for each"


def test_what_a_subscriber_has_it_has_when_its_subscription_is_durable(
    desk: Desk, paper: Person, reader: Person
) -> None:
    said, _ = reads_and_makes_it_durable(desk, paper, reader)
    desk.settle()
    desk.is_slow = False

    assert get(reader).code is Code.NO_UOWS, "it has it already"
    again = Person(desk.restart(), "READER", "R", caller=9)
    assert get(again).body == b"news", "and has not acknowledged it"
    assert desk.answers[begin_control(reader, said)].code is Code.OK
    assert is_nothing_left(desk)


@pytest.mark.parametrize("is_first", [True, False], ids=["nothing before", "another one before"])
def test_who_unsubscribes_while_it_subscribes_durably_has_unsubscribed(
    desk: Desk, paper: Person, reader: Person, is_first: bool
) -> None:
    if not is_first:
        assert reader.call(Function.SUBSCRIBE, topic=TOPIC).code is Code.OK
    desk.is_slow = True
    calls = [
        reader.start(Function.SUBSCRIBE, DURABLE, topic=TOPIC),
        reader.start(Function.UNSUBSCRIBE, topic=TOPIC),
    ]
    desk.settle()

    assert [desk.answers[call].code for call in calls] == [Code.OK, Code.OK]
    assert not topic_of(desk).subscribers
    assert not any(key.startswith(SUBSCRIPTIONS) for key in desk.paper.keys)


def test_who_subscribes_while_it_subscribes_durably_has_one_subscription(
    desk: Desk, paper: Person, reader: Person
) -> None:
    desk.is_slow = True
    calls = [reader.start(Function.SUBSCRIBE, option, topic=TOPIC) for option in (DURABLE, Option.NONE, DURABLE)]
    desk.settle()
    desk.is_slow = False

    assert [desk.answers[call].code for call in calls] == [Code.OK] * 3
    assert len(topic_of(desk).subscribers) == 1
    begin_publishing(paper)
    begin_control(reader, get(reader))
    assert is_nothing_left(desk), "nobody else was to have it"


def test_who_waits_is_served_by_the_durable_subscription_as_well(desk: Desk, paper: Person, reader: Person) -> None:
    assert reader.call(Function.SUBSCRIBE, topic=TOPIC).code is Code.OK
    waiting = begin_waiting(reader)
    desk.is_slow = True
    begin_publishing(paper)
    reader.start(Function.SUBSCRIBE, DURABLE, topic=TOPIC)
    desk.settle(1)
    assert waiting not in desk.answers
    desk.settle()
    desk.is_slow = False
    begin_publishing(paper, b"more")

    assert desk.answers[waiting].body == b"news"
    assert get(reader).body == b"more"


def test_a_subscription_that_is_made_durable_lives_as_long_as_a_durable_one(reader: Person, desk: Desk) -> None:
    assert reader.call(Function.SUBSCRIBE, topic=TOPIC).code is Code.OK
    desk.tick(10)
    assert reader.call(Function.SUBSCRIBE, DURABLE, topic=TOPIC).code is Code.OK

    (value,) = (value for key, value in desk.paper.keys.items() if key.startswith(SUBSCRIPTIONS))
    record, (subscription,) = SUBSCRIPTION.decode(value), topic_of(desk).subscribers.values()
    assert (record.active, record.ends) == (desk.now, subscription.ends)
    assert subscription.is_durable
    assert subscription in desk.kernel.world.topics.subscriptions.values()


# Who waits while something of its own is on its way.


@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "it fails"])
def test_who_waits_gets_what_was_published_while_its_acknowledgement_was_on_its_way(
    desk: Desk, paper: Person, other: Person, is_durable: bool
) -> None:
    begin_publishing(paper, b"1")
    said = get(other)
    waiting = [begin_waiting(other), begin_waiting(other)]
    desk.is_slow = True
    begin_publishing(paper, b"2")
    begin_control(other, said)
    later = begin_waiting(other)
    desk.settle(1)
    assert waiting[0] not in desk.answers
    if is_durable:
        desk.settle()
    else:
        desk.fail(is_store_lost=False, is_refused=True)
    assert desk.answers[waiting[0]].body == b"2"
    desk.is_slow = False
    begin_publishing(paper, b"3")
    begin_publishing(paper, b"4")
    assert [desk.answers[call].body for call in (*waiting, later)] == [b"2", b"3", b"4"], "first come, first served"


def test_who_waits_gets_it_too_when_its_subscription_has_become_durable(
    desk: Desk, paper: Person, reader: Person
) -> None:
    assert reader.call(Function.SUBSCRIBE, topic=TOPIC).code is Code.OK
    waiting = begin_waiting(reader)
    desk.is_slow = True
    begin_publishing(paper)
    reader.start(Function.SUBSCRIBE, DURABLE, topic=TOPIC)
    desk.settle()
    assert desk.answers[waiting].body == b"news"


def test_who_waits_gets_nothing_of_a_subscription_that_has_ended(desk: Desk, paper: Person, other: Person) -> None:
    waiting = begin_waiting(other)
    desk.is_slow = True
    begin_publishing(paper)
    unsubscribing = other.start(Function.UNSUBSCRIBE, topic=TOPIC)
    desk.settle()
    assert desk.answers[unsubscribing].code is Code.OK
    assert waiting not in desk.answers or desk.answers[waiting].code is not Code.OK
    assert is_nothing_left(desk)
