"""What is on its way to the store about a topic: who subscribes, acknowledges and publishes meanwhile.

A call about a subscription that is on its way waits, and then finds what became of it.
"""

from typing import Any

import pytest

from oms_journal.broker.block import BOTH, Function, Option, Request
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state.topics import Topic
from oms_journal.broker.records import PUBLICATIONS, SUBSCRIPTION, SUBSCRIPTIONS, Status
from tests.support.broker.kernel_desk import CHESS, Desk, Person, Said

TOPIC = "NEWS"
DURABLE, COMMIT, BACKOUT = Option.DURABLE, Option.COMMIT, Option.BACKOUT


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


# What nobody subscribes to.

WAYS = ["alone", "in a transaction", "with a unit of work"]


def commit_of(person: Person, publication_id: str) -> Request:
    who = {"user_id": person.who["user_id"], "token": person.who["token"]}
    return Request(function=Function.CONTROL_PUBLICATION, option=COMMIT, publication_id=publication_id, **who)


def begin_committing(person: Person, publication_id: str, how: str) -> int:
    """Commit what was begun: by itself, or in a transaction."""
    if how == "alone":
        return person.start(Function.CONTROL_PUBLICATION, COMMIT, publication_id=publication_id)
    parts = [commit_of(person, publication_id)]
    if how == "with a unit of work":
        begun = person.send(option=Option.SYNC).uowid
        who = {"user_id": person.who["user_id"], "token": person.who["token"]}
        parts.append(Request(function=Function.SYNCPOINT, option=COMMIT, uowid=begun, **who))
    return person.start(Function.SYNCPOINT, COMMIT, uowid=BOTH, parts=parts)


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "it fails"])
def test_what_nobody_subscribes_to_is_answered_in_the_order_of_commits_by_who_has_the_store(
    desk: Desk, paper: Person, is_durable: bool, how: str
) -> None:
    begun = desk.answers[begin_publishing(paper, option=Option.SYNC)].reply.publication_id
    desk.is_slow = True
    sending = paper.start(Function.SEND, COMMIT, conv_id="NEW", body=b"e4", **CHESS)
    committing = begin_committing(paper, begun, how)
    assert len(desk.commits) == 2
    assert desk.commits[1].changes.is_empty() is (how != "with a unit of work"), "nothing is written of it"
    desk.settle(1)
    assert sending in desk.answers
    assert committing not in desk.answers
    if is_durable:
        desk.settle()
    else:
        desk.fail()

    assert desk.answers[committing].code is (Code.OK if is_durable else Code.DURABLE_WITHOUT_STORE)
    said = desk.answers[paper.start(Function.CONTROL_PUBLICATION, Option.QUERY, publication_id=begun)]
    assert said.status is (Status.PROCESSED if is_durable else Status.RECEIVED)
    assert not topic_of(desk).publications


@pytest.mark.parametrize("how", WAYS)
def test_who_subscribes_before_a_publication_is_decided_has_it_after_a_restart_too(
    desk: Desk, paper: Person, reader: Person, how: str
) -> None:
    begun = desk.answers[begin_publishing(paper, option=Option.SYNC)].reply.publication_id
    desk.is_slow = True
    subscribing = reader.start(Function.SUBSCRIBE, DURABLE, topic=TOPIC)
    committing = begin_committing(paper, begun, how)
    desk.settle()
    desk.is_slow = False

    assert (desk.answers[subscribing].code, desk.answers[committing].code) == (Code.OK, Code.OK)
    assert get(reader).body == b"news"
    assert get(Person(desk.restart(), "READER", "R", caller=9)).body == b"news"


@pytest.mark.parametrize("option", [Option.NONE, DURABLE], ids=["passing", "durable"])
@pytest.mark.parametrize("how", WAYS)
def test_who_subscribes_behind_a_publication_of_nobody_has_the_next_ones_only(
    desk: Desk, paper: Person, reader: Person, option: Option, how: str
) -> None:
    begun = desk.answers[begin_publishing(paper, option=Option.SYNC)].reply.publication_id
    desk.is_slow = True
    begin_committing(paper, begun, how)
    reader.start(Function.SUBSCRIBE, option, topic=TOPIC)
    desk.settle()
    desk.is_slow = False
    for body in (b"1", b"2"):
        begin_publishing(paper, body)

    assert [get(reader).body for _ in range(2)] == [b"1", b"2"]
    assert get(reader).code is Code.NO_UOWS
    assert [one.payload for one in desk.paper.messages.values() if one.queue == f"topic/{TOPIC}"] == [b"1", b"2"]


def test_a_publication_goes_when_the_subscription_that_it_was_for_does_not_come(
    desk: Desk, paper: Person, reader: Person
) -> None:
    desk.is_slow = True
    reader.start(Function.SUBSCRIBE, DURABLE, topic=TOPIC)
    publishing = begin_publishing(paper)
    desk.fail(is_store_lost=False, is_refused=True)
    desk.settle()

    assert desk.answers[publishing].status is Status.ACCEPTED
    assert is_nothing_left(desk)


# One user in two places, without a TOKEN: a durable subscription is both's.


@pytest.fixture
def here(desk: Desk) -> Person:
    """Return a user who has subscribed in one place, and in another one durably."""
    here, there = (Person(desk, "ALICE", caller=caller) for caller in (11, 12))
    assert here.call(Function.SUBSCRIBE, topic=TOPIC).code is Code.OK
    assert there.call(Function.SUBSCRIBE, DURABLE, topic=TOPIC).code is Code.OK
    return here


def test_who_has_subscribed_reads_its_own_though_its_user_subscribes_durably_elsewhere(
    desk: Desk, paper: Person, here: Person
) -> None:
    there = Person(desk, "ALICE", caller=12)
    waiting = begin_waiting(here)
    begin_publishing(paper)
    said = desk.answers[waiting]
    assert said.body == b"news"
    for person, got in ((here, said), (there, get(there))):
        assert got.body == b"news"
        assert desk.answers[begin_control(person, got)].code is Code.OK
    assert is_nothing_left(desk)


@pytest.mark.parametrize("function", [Function.SUBSCRIBE, Function.UNSUBSCRIBE], ids=["too", "not at all"])
def test_its_own_ends_when_it_subscribes_durably_too_or_not_at_all(
    desk: Desk, paper: Person, here: Person, function: Function
) -> None:
    there = Person(desk, "ALICE", caller=12)
    option = DURABLE if function is Function.SUBSCRIBE else Option.NONE
    assert here.call(function, option, topic=TOPIC).code is Code.OK
    assert [each.is_durable for each in topic_of(desk).subscribers.values()] == [True]
    begin_publishing(paper)
    assert desk.answers[begin_control(there, get(there))].code is Code.OK
    assert is_nothing_left(desk)
