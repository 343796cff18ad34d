"""Publish and subscribe: what subscribers get, in what order, what is kept for them, and what the publisher sees.

Behaviour told by EntireX 8.0, Concepts of Persistent Messaging.
"""

from typing import Any

import pytest

from oms_journal.broker.attributes.attributes import parse_attributes
from oms_journal.broker.block import Function, Option, Reception, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state.effects import Abandoned, Gone
from oms_journal.broker.kernel.topics import removal
from oms_journal.broker.records import PUBLICATIONS, SUBSCRIPTION, SUBSCRIPTIONS, Status
from tests.support.broker.kernel_desk import Desk, Person, Said, attributes

TOPIC = "NEWS"
SYNC, COMMIT, BACKOUT = Option.SYNC, Option.COMMIT, Option.BACKOUT


def publish(person: Person, body: bytes = b"x", option: Option = COMMIT, publication_id: str = "NEW") -> Said:
    return person.call(Function.SEND_PUBLICATION, option, topic=TOPIC, body=body, publication_id=publication_id)


def subscribe(person: Person, option: Option = Option.DURABLE) -> Code:
    return person.call(Function.SUBSCRIBE, option, topic=TOPIC).code


def get(person: Person, publication_id: str = "NEW", **fields: Any) -> Said:
    return person.call(Function.RECEIVE_PUBLICATION, topic=TOPIC, publication_id=publication_id, **fields)


def control(person: Person, option: Option, said: Said | None = None, **fields: Any) -> Said:
    publication_id = said.reply.publication_id if said is not None else ""
    return person.call(
        Function.CONTROL_PUBLICATION, option, publication_id=publication_id, **{"topic": TOPIC, **fields}
    )


@pytest.fixture
def paper(desk: Desk) -> Person:
    return Person(desk, "PAPER", "P", caller=1)


@pytest.fixture
def reader(desk: Desk) -> Person:
    return Person(desk, "READER", "R", caller=2)


@pytest.mark.parametrize("option", [Option.NONE, Option.DURABLE])
def test_a_subscriber_gets_what_is_committed_after_it_has_subscribed(
    paper: Person, reader: Person, option: Option
) -> None:
    publish(paper, b"before")
    begun = publish(paper, b"begun before", SYNC)
    assert subscribe(reader, option) is Code.OK
    publish(paper, b"after")
    assert control(paper, COMMIT, begun).status is Status.ACCEPTED
    assert [get(reader).body, get(reader).body, get(reader).code] == [b"after", b"begun before", Code.NO_UOWS]


def test_the_messages_of_a_publication_come_together_and_in_order(paper: Person, reader: Person) -> None:
    subscribe(reader)
    begun = publish(paper, b"1", SYNC)
    publish(paper, b"2", SYNC, begun.reply.publication_id)
    assert get(reader).code is Code.NO_UOWS, "it is not committed"
    publish(paper, b"3", COMMIT, begun.reply.publication_id)

    got = [get(reader)]
    got += [get(reader, got[0].reply.publication_id) for _ in range(2)]
    assert [each.body for each in got] == [b"1", b"2", b"3"]
    assert [each.status for each in got] == [Reception.RECV_FIRST, Reception.RECV_MIDDLE, Reception.RECV_LAST]
    assert get(reader, got[0].reply.publication_id).code is Code.END_OF_UOW


def test_every_subscriber_gets_every_publication(desk: Desk, paper: Person) -> None:
    readers = [Person(desk, f"R{at}", "T", caller=10 + at) for at in range(3)]
    for at, person in enumerate(readers):
        subscribe(person, Option.DURABLE if at else Option.NONE)
    for at in range(3):
        publish(paper, b"%d" % at)
    for person in readers:
        assert [get(person).body for _ in range(3)] == [b"0", b"1", b"2"]


def test_a_publication_goes_when_the_last_eligible_subscriber_has_acknowledged_it(desk: Desk, paper: Person) -> None:
    one, two = (Person(desk, name, "T", caller=at) for name, at in (("ONE", 5), ("TWO", 6)))
    subscribe(one)
    subscribe(two)
    published = publish(paper, b"news")
    late = Person(desk, "LATE", "T", caller=7)
    subscribe(late)
    control(one, COMMIT, get(one))
    assert len(desk.paper.messages) == 1
    assert control(paper, Option.QUERY, published).status is Status.ACCEPTED
    count = len(desk.paper.commits)
    control(two, COMMIT, get(two))
    assert len(desk.paper.commits) == count + 1, "the acknowledgement and the removal are one commit"
    assert desk.paper.messages == {} and not any(key.startswith(PUBLICATIONS) for key in desk.paper.keys)
    assert control(paper, Option.QUERY, published).status is Status.PROCESSED


def test_a_publication_without_subscribers_is_accepted_and_gone(desk: Desk, paper: Person) -> None:
    said = publish(paper)
    assert (said.code, said.status) == (Code.OK, Status.ACCEPTED)
    assert all(changes.is_empty() for changes in desk.paper.commits)
    assert control(paper, Option.LAST).status is Status.PROCESSED


def test_a_backout_by_a_subscriber_gives_the_publication_again_and_from_the_second_on_after_a_delay(
    desk: Desk, paper: Person, reader: Person
) -> None:
    subscribe(reader)
    publish(paper, b"1")
    publish(paper, b"2")
    first = get(reader)
    second = get(reader)
    assert control(reader, BACKOUT, second).code is Code.OK
    assert control(reader, BACKOUT, first).code is Code.OK
    assert [get(reader).body, get(reader).body] == [b"1", b"2"], "older ones first"
    for delay in (0.1, 0.2, 0.4):
        assert control(reader, BACKOUT, second).code is Code.OK
        waiting = reader.start(Function.RECEIVE_PUBLICATION, topic=TOPIC, publication_id="NEW", wait="1H")
        desk.tick(delay - 0.001)
        assert waiting not in desk.answers
        desk.tick(0.001)
        assert desk.answers[waiting].body == b"2"


def test_a_lost_durable_subscriber_has_tried_the_first_of_what_it_had(desk: Desk, paper: Person) -> None:
    for time in range(3):
        reader = Person(desk, "READER", "PC9", caller=9)
        subscribe(reader)
        if not time:
            publish(paper, b"1")
            publish(paper, b"2")
        assert [get(reader).body for _ in range(2)] == ([b"1", b"2"] if time < 2 else [b"2", None])
        reader.gone()
    desk.tick(0.1)
    reader = Person(desk, "READER", "PC9", caller=9)
    assert get(reader).body == b"1"


def test_acknowledgements_may_come_out_of_turn(desk: Desk, paper: Person, reader: Person) -> None:
    subscribe(reader)
    other = Person(desk, "OTHER", "O", caller=8)
    subscribe(other)
    for at in range(3):
        publish(paper, b"%d" % at)
    got = [get(reader) for _ in range(3)]

    def record() -> tuple[int, tuple[int, ...]]:
        values = [value for key, value in desk.paper.keys.items() if key.startswith(SUBSCRIPTIONS)]
        found = next(each for each in map(SUBSCRIPTION.decode, values) if each.user == "READER")
        return found.position, found.acknowledged

    control(reader, COMMIT, got[1])
    assert record() == (0, (2,))
    control(reader, COMMIT, got[0])
    assert record() == (2, ())
    control(reader, COMMIT, got[2])
    assert record() == (3, ())


def test_a_durable_subscription_goes_on_when_its_owner_comes_again(desk: Desk, paper: Person, reader: Person) -> None:
    subscribe(reader)
    publish(paper, b"1")
    publish(paper, b"2")
    control(reader, COMMIT, get(reader))
    assert get(reader).body == b"2"
    reader.call(Function.LOGOFF)
    publish(paper, b"3")
    again = Person(desk, "READER", "R", caller=30)
    assert [get(again).body, get(again).body] == [b"2", b"3"], "what was not acknowledged comes again"


def test_any_other_subscription_ends_with_its_participant(desk: Desk, paper: Person, reader: Person) -> None:
    subscribe(reader, Option.NONE)
    publish(paper, b"1")
    reader.gone()
    assert desk.paper.messages == {}, "nobody is left who was to have it"
    again = Person(desk, "READER", "R", caller=30)
    assert get(again).code is Code.UOW_NOT_FOUND


def test_unsubscribe_ends_a_subscription_and_what_only_it_was_to_have(
    desk: Desk, paper: Person, reader: Person
) -> None:
    subscribe(reader)
    publish(paper, b"1")
    publish(paper, b"2")
    assert reader.call(Function.UNSUBSCRIBE, topic=TOPIC).code is Code.OK
    assert desk.paper.messages == {} and desk.paper.keys == {}
    assert get(reader).code is Code.UOW_NOT_FOUND
    assert reader.call(Function.UNSUBSCRIBE, topic=TOPIC).code is Code.UOW_NOT_FOUND


def test_subscribing_twice_changes_nothing_and_durably_makes_it_last(desk: Desk, paper: Person, reader: Person) -> None:
    subscribe(reader, Option.NONE)
    publish(paper, b"1")
    assert subscribe(reader, Option.NONE) is Code.OK
    for option in (Option.DURABLE, Option.DURABLE, Option.NONE):
        assert subscribe(reader, option) is Code.OK
        assert len([key for key in desk.paper.keys if key.startswith(SUBSCRIPTIONS)]) == 1
    reader.gone()
    assert get(Person(desk, "READER", "R", caller=30)).body == b"1"


def test_a_receive_waits_for_the_next_publication(desk: Desk, paper: Person, reader: Person) -> None:
    subscribe(reader)
    handle = reader.start(Function.RECEIVE_PUBLICATION, topic=TOPIC, publication_id="NEW", wait="10S")
    assert handle not in desk.answers
    publish(paper, b"news")
    assert desk.answers[handle].body == b"news"
    handle = reader.start(Function.RECEIVE_PUBLICATION, topic=TOPIC, publication_id="NEW", wait="10S")
    desk.tick(10)
    assert desk.answers[handle].code is Code.WAIT_TIMED_OUT


def test_a_publication_outlives_its_lifetime_for_nobody() -> None:
    desk = Desk(attributes(publication_lifetime="1H", client_nonact="UNLIM"))
    paper, reader = Person(desk, "PAPER", "P"), Person(desk, "READER", "R", caller=2)
    subscribe(reader)
    published = publish(paper, b"old news")
    desk.tick(3600)
    assert get(reader).code is Code.NO_UOWS
    assert desk.paper.messages == {}
    assert control(paper, Option.QUERY, published).status is Status.TIMEOUT


def test_a_durable_subscription_expires_when_nobody_uses_it() -> None:
    desk = Desk(attributes(subscription_expiration="1D", client_nonact="UNLIM"))
    paper, reader = Person(desk, "PAPER", "P"), Person(desk, "READER", "R", caller=2)
    subscribe(reader)
    desk.tick(20 * 3600)
    publish(paper, b"1")
    control(reader, COMMIT, get(reader))
    desk.tick(20 * 3600)
    publish(paper, b"2")
    desk.tick(5 * 3600)
    assert desk.paper.messages == {} and desk.paper.keys.keys() <= {"broker/clock"}
    assert get(reader).code is Code.UOW_NOT_FOUND


@pytest.mark.parametrize("is_over", [False, True])
def test_who_is_gone_is_forgotten_with_the_last_that_was_restored_of_it(is_over: bool) -> None:
    desk = Desk(attributes(publication_lifetime="1H", subscription_expiration="2H"))
    subscribe(Person(desk, "READER", "R", caller=2))
    publish(Person(desk, "PAPER", "P", caller=1))
    desk = desk.restart()
    assert desk.kernel.world.owners.keys() == {("PAPER", "P"), ("READER", "R")}
    if is_over:
        desk.tick(2 * 3600)
    else:
        reader = Person(desk, "READER", "R", caller=2)
        control(reader, COMMIT, get(reader))
        reader.call(Function.UNSUBSCRIBE, topic=TOPIC)
        reader.gone()
    assert desk.kernel.world.owners == {}


def test_who_came_again_is_there_though_what_it_had_published_before_is_gone() -> None:
    desk = Desk()
    subscribe(Person(desk, "READER", "R", caller=2))
    publish(Person(desk, "PAPER", "P", caller=1))
    desk.give(Gone(1))
    paper = Person(desk, "PAPER", "P", caller=3)
    reader = Person(desk, "READER", "R", caller=2)
    control(reader, COMMIT, get(reader))
    assert desk.kernel.world.owners["PAPER", "P"].members == 1
    assert control(paper, Option.LAST).status is Status.PROCESSED


def test_a_topic_remembers_the_last_publications_of_so_many_publishers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "PAST_MAX", 3)
    desk = Desk()
    publishers = [Person(desk, f"PAPER{number}", "P", caller=number + 1) for number in range(5)]
    for paper in (publishers[0], *publishers, publishers[2]):
        publish(paper)
    publish(publishers[1])
    codes = [control(paper, Option.LAST).code for paper in publishers]
    assert codes == [Code.UOW_NOT_FOUND, Code.OK, Code.OK, Code.UOW_NOT_FOUND, Code.OK]


def test_auto_commit_acknowledges_what_was_read_when_the_next_is_asked_for() -> None:
    desk = Desk(
        parse_attributes(
            "DEFAULTS=BROKER BROKER-ID=ETB001 PSTORE=WARM SUBSCRIBER-STORE=PSTORE SUBSCRIPTION-EXPIRATION=UNLIM "
            "DEFAULTS=TOPIC TOPIC=NEWS ALLOW-DURABLE=YES AUTO-COMMIT-FOR-SUBSCRIBER=YES"
        )
    )
    paper, reader = Person(desk, "PAPER", "P"), Person(desk, "READER", "R", caller=2)
    assert subscribe(reader) is Code.OK
    publish(paper, b"1")
    begun = publish(paper, b"2a", SYNC)
    publish(paper, b"2b", COMMIT, begun.reply.publication_id)
    publish(paper, b"3")
    get(reader)
    assert len(desk.paper.messages) == 4
    assert get(reader).body == b"2a"
    assert len(desk.paper.messages) == 3
    assert get(reader).body == b"3", "what was not read to its end is not acknowledged"
    assert len(desk.paper.messages) == 3
    assert get(reader).code is Code.NO_UOWS
    assert len(desk.paper.messages) == 2


# The publisher.


def test_a_publisher_backs_out_what_it_has_not_committed(paper: Person, reader: Person) -> None:
    subscribe(reader)
    begun = publish(paper, b"1", SYNC)
    assert control(paper, Option.LAST).status is Status.RECEIVED
    assert control(paper, BACKOUT, begun).status is Status.BACKEDOUT
    assert get(reader).code is Code.NO_UOWS
    assert control(paper, COMMIT, begun).code is Code.WRONG_STATUS
    assert control(paper, Option.QUERY, begun).status is Status.BACKEDOUT


def test_last_query_and_user_status_are_the_publishers(desk: Desk, paper: Person, reader: Person) -> None:
    subscribe(reader)
    one, two = publish(paper, b"1"), publish(paper, b"2")
    assert control(paper, Option.LAST).reply.publication_id == two.reply.publication_id
    assert control(paper, Option.SETUSTATUS, one, ustatus="read me").code is Code.OK
    assert control(paper, Option.QUERY, one).reply.ustatus == "read me"
    assert get(reader).reply.ustatus == "read me"
    assert control(reader, Option.QUERY, one).code is Code.NOT_THE_CREATOR
    assert control(reader, Option.SETUSTATUS, one, ustatus="no").code is Code.NOT_THE_CREATOR
    assert control(reader, Option.LAST).code is Code.UOW_NOT_FOUND
    paper.call(Function.LOGOFF)
    again = Person(desk, "PAPER", "P", caller=40)
    assert control(again, Option.LAST, topic="").reply.publication_id == two.reply.publication_id
    assert control(again, Option.QUERY, one).status is Status.ACCEPTED


def test_what_a_publisher_has_not_committed_goes_with_it(desk: Desk, paper: Person, reader: Person) -> None:
    subscribe(reader)
    begun = publish(paper, b"1", SYNC)
    paper.gone()
    again = Person(desk, "PAPER", "P", caller=40)
    assert control(again, COMMIT, begun).code is Code.WRONG_STATUS
    assert get(reader).code is Code.NO_UOWS


@pytest.mark.parametrize("begins", [True, False], ids=["begun there", "gone on with there"])
def test_what_a_connection_has_not_committed_goes_with_it_though_its_user_has_others(desk: Desk, begins: bool) -> None:
    one, two = (Person(desk, "ALICE", caller=caller) for caller in (10, 11))
    begun = publish(one if begins else two, b"1", SYNC)
    if not begins:
        publish(one, b"2", SYNC, begun.reply.publication_id)
    kept = publish(two, b"3", SYNC)
    one.gone()
    assert list(desk.kernel.world.topics.publications) == [kept.reply.publication_id]
    assert control(two, COMMIT, begun).code is not Code.OK
    assert control(two, COMMIT, kept).code is Code.OK


def test_what_is_begun_at_another_place_goes_with_the_logon_from_a_new_one(desk: Desk, paper: Person) -> None:
    begun = publish(paper, b"1", SYNC)
    assert Person(desk, "PAPER", "P", caller=1).call(Function.LOGON).code is Code.OK
    assert control(paper, Option.QUERY, begun).status is Status.RECEIVED, "the same place"
    elsewhere = Person(desk, "PAPER", "P", caller=40)
    assert not desk.kernel.world.topics.publications
    assert control(elsewhere, COMMIT, begun).code is Code.WRONG_STATUS


@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "it fails"])
def test_what_another_connection_commits_goes_with_that_one_if_it_cannot(
    desk: Desk, reader: Person, is_durable: bool
) -> None:
    subscribe(reader)
    one, two = (Person(desk, "ALICE", caller=caller) for caller in (10, 11))
    begun = publish(one, b"1", SYNC)
    desk.is_slow = True
    committing = two.start(Function.CONTROL_PUBLICATION, COMMIT, publication_id=begun.reply.publication_id)
    one.gone()
    if is_durable:
        desk.settle()
    else:
        desk.fail(is_store_lost=False, is_refused=True)
    desk.is_slow = False
    assert (desk.answers[committing].code is Code.OK) is is_durable
    assert get(reader).body == (b"1" if is_durable else None)
    assert control(two, Option.QUERY, begun).status is (Status.ACCEPTED if is_durable else Status.RECEIVED)
    two.gone()
    assert bool(desk.kernel.world.topics.publications) is is_durable


# Several connections of a user without TOKEN, who have one durable subscription.


@pytest.fixture
def both(desk: Desk) -> tuple[Person, Person]:
    """Return two connections of one user, of which both read."""
    one, two = (Person(desk, "ALICE", caller=caller) for caller in (10, 11))
    assert subscribe(one) is Code.OK
    assert get(two).code is Code.NO_UOWS
    return one, two


def test_what_was_handed_out_to_a_lost_connection_its_users_others_get(
    desk: Desk, paper: Person, both: tuple[Person, Person]
) -> None:
    one, two = both
    for body in (b"1", b"2", b"3"):
        publish(paper, body)
    assert [get(each).body for each in (one, two)] == [b"1", b"2"]
    one.gone()
    three = Person(desk, "ALICE", caller=12)
    assert subscribe(three) is Code.OK
    assert [get(three).body for _ in range(2)] == [b"1", b"3"], "and the second one's is being read"


def test_who_waits_gets_what_was_handed_out_to_a_lost_connection(
    desk: Desk, paper: Person, both: tuple[Person, Person]
) -> None:
    one, two = both
    publish(paper, b"1")
    get(one)
    waiting = two.start(Function.RECEIVE_PUBLICATION, topic=TOPIC, publication_id="NEW", wait="YES")
    one.gone()
    assert desk.answers[waiting].body == b"1"


def test_a_publication_is_with_whoever_of_its_user_has_read_last_of_it(
    desk: Desk, paper: Person, both: tuple[Person, Person]
) -> None:
    one, two = both
    publish(paper, b"2", COMMIT, publish(paper, b"1", SYNC).reply.publication_id)
    got = get(one).reply.publication_id
    assert get(two, got).body == b"2"
    one.gone()
    three = Person(desk, "ALICE", caller=12)
    assert get(three).code is Code.NO_UOWS
    two.gone()
    assert get(three).body == b"1"


@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "it fails"])
def test_what_another_connection_is_acknowledging_for_a_lost_one_is_not_handed_out_meanwhile(
    desk: Desk, paper: Person, both: tuple[Person, Person], is_durable: bool
) -> None:
    one, two = both
    other = Person(desk, "OTHER", "O", caller=3)
    assert subscribe(other) is Code.OK
    publish(paper, b"1")
    got = get(one)
    desk.is_slow = True
    two.start(Function.CONTROL_PUBLICATION, COMMIT, publication_id=got.reply.publication_id)
    one.gone()
    if is_durable:
        desk.settle()
    else:
        desk.fail(is_store_lost=False, is_refused=True)
    desk.is_slow = False
    assert get(two).body == (None if is_durable else b"1")
    assert get(other).body == b"1"


def test_auto_commit_acknowledges_what_the_same_connection_has_read() -> None:
    desk = Desk(
        parse_attributes(
            "DEFAULTS=BROKER BROKER-ID=ETB001 PSTORE=WARM SUBSCRIBER-STORE=PSTORE SUBSCRIPTION-EXPIRATION=UNLIM "
            "DEFAULTS=TOPIC TOPIC=NEWS ALLOW-DURABLE=YES AUTO-COMMIT-FOR-SUBSCRIBER=YES"
        )
    )
    paper, one, two = (Person(desk, user, caller=at) for at, user in enumerate(("PAPER", "ALICE", "ALICE"), 1))
    subscribe(one)
    for body in (b"1", b"2", b"3"):
        publish(paper, body)
    assert [get(each).body for each in (one, two, two)] == [b"1", b"2", b"3"]
    one.gone()
    assert get(two).body == b"1", "the other one had not asked for more"


# Wrong calls, each with its code.


def test_wrong_calls_have_codes_of_their_own(desk: Desk, paper: Person, reader: Person) -> None:
    subscribe(reader)
    begun = publish(paper, b"1", SYNC)
    assert publish(reader, b"2", SYNC, begun.reply.publication_id).code is Code.NOT_THE_CREATOR
    assert publish(reader, b"2", SYNC, "1000000100009999").code is Code.UOW_NOT_FOUND
    control(paper, COMMIT, begun)
    assert publish(paper, b"2", SYNC, begun.reply.publication_id).code is Code.WRONG_STATUS
    assert control(reader, COMMIT, begun).code is Code.WRONG_STATUS, "it was not handed out"
    assert get(reader, begun.reply.publication_id).code is Code.UOW_NOT_FOUND
    eve = Person(desk, "EVE", caller=9)
    assert get(eve).code is Code.UOW_NOT_FOUND
    assert control(eve, COMMIT, begun).code is Code.NOT_THE_CREATOR
    nobody = Person(desk, "NOBODY", caller=11, logs_on=False)
    assert publish(nobody).code is Code.LOGON_REQUIRED
    assert subscribe(nobody) is Code.LOGON_REQUIRED


def test_attributes_permit_and_forbid() -> None:
    desk = Desk(
        parse_attributes(
            "DEFAULTS=BROKER BROKER-ID=ETB001 PSTORE=WARM DEFAULTS=TOPIC TOPIC=NEWS MAX-MESSAGES-IN-PUBLICATION=2 "
            "MAX-PUBLICATION-MESSAGE-LENGTH=5 TOPIC=CLOSED ALLOW-USER-SUBSCRIBE=NO"
        )
    )
    paper, reader = Person(desk, "PAPER", "P"), Person(desk, "READER", "R", caller=2)
    assert subscribe(reader, Option.DURABLE) is Code.SUBSCRIBE_NOT_ALLOWED
    assert reader.call(Function.SUBSCRIBE, topic="CLOSED").code is Code.SUBSCRIBE_NOT_ALLOWED
    assert reader.call(Function.UNSUBSCRIBE, topic="CLOSED").code is Code.SUBSCRIBE_NOT_ALLOWED
    assert reader.call(Function.SUBSCRIBE, topic="OTHER").code is Code.SERVICE_UNDEFINED
    assert subscribe(reader, Option.NONE) is Code.OK
    assert publish(paper, b"sixsix").code is Code.LENGTH_EXCEEDED
    begun = publish(paper, b"1", SYNC)
    publish(paper, b"2", SYNC, begun.reply.publication_id)
    assert publish(paper, b"3", SYNC, begun.reply.publication_id).code is Code.MAX_MESSAGES
    assert control(paper, COMMIT, begun).reply.store is Store.OFF
    assert desk.paper.commits == [], "without ALLOW-DURABLE nothing is stored"
    assert control(paper, Option.LAST).code is Code.WRONG_UOW_TYPE
    assert get(reader).body == b"1"


def test_publish_and_subscribe_is_off_where_no_topic_is_defined() -> None:
    desk = Desk(parse_attributes("DEFAULTS=BROKER BROKER-ID=ETB001 DEFAULTS=SERVICE CLASS=* SERVER=* SERVICE=*"))
    paper = Person(desk, "PAPER", "P")
    assert publish(paper).code is Code.NO_PUBLISH_AND_SUBSCRIBE
    assert subscribe(paper) is Code.NO_PUBLISH_AND_SUBSCRIBE
    assert control(paper, Option.LAST).code is Code.NO_PUBLISH_AND_SUBSCRIBE


def test_a_topic_has_a_name(paper: Person, reader: Person) -> None:
    unnamed = reader.call(Function.SUBSCRIBE, topic="")
    assert (unnamed.code, unnamed.reply.text) == (Code.SERVICE_UNDEFINED, "no topic is named: TOPIC is empty")
    sent = paper.call(Function.SEND_PUBLICATION, COMMIT, topic="", body=b"x", publication_id="NEW")
    assert sent.code is Code.SERVICE_UNDEFINED


def logs_on_elsewhere_while_it_acknowledges(desk: Desk, paper: Person, reader: Person) -> tuple[Person, int]:
    """Have the reader log on from another place while the store is slow to write its acknowledgement."""
    assert subscribe(reader) is Code.OK
    publish(paper, b"news")
    said = get(reader)
    desk.is_slow = True
    reader.start(Function.CONTROL_PUBLICATION, COMMIT, publication_id=said.reply.publication_id, topic=TOPIC)
    elsewhere = Person(desk, "READER", "R", caller=9, logs_on=False)
    return elsewhere, elsewhere.start(Function.LOGON)


@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "it fails"])
def test_what_is_being_acknowledged_is_not_given_again_to_who_logs_on_from_elsewhere(
    desk: Desk, paper: Person, reader: Person, is_durable: bool
) -> None:
    other = Person(desk, "OTHER", "O", caller=3)
    assert subscribe(other) is Code.OK
    elsewhere, logging_on = logs_on_elsewhere_while_it_acknowledges(desk, paper, reader)
    assert logging_on not in desk.answers, "it waits"
    if is_durable:
        desk.settle()
    else:
        desk.fail(is_store_lost=False)
    desk.is_slow = False

    assert desk.answers[logging_on].code is Code.OK
    again = get(elsewhere)
    assert (again.code is Code.NO_UOWS) is is_durable
    if not is_durable:
        assert again.body == b"news"
        assert control(elsewhere, COMMIT, again).code is Code.OK
    assert get(other).body == b"news", "the other one has not had it"


def test_who_hangs_up_while_its_logon_waits_is_not_logged_on(desk: Desk, paper: Person, reader: Person) -> None:
    _, logging_on = logs_on_elsewhere_while_it_acknowledges(desk, paper, reader)
    desk.give(Abandoned(logging_on))
    desk.settle()

    assert logging_on not in desk.answers
    assert get(reader).code is Code.NO_UOWS, "it is where it was"


@pytest.mark.parametrize(
    ("label", "code"),
    [
        ("/" + "x" * 30, Code.OK),
        ("/" + "x" * 31, Code.OUT_OF_RANGE),
        ("/" + "\u00e9" * 16, Code.OUT_OF_RANGE),
        ("x", Code.INVALID_CHARACTER),
        ("\0x", Code.INVALID_CHARACTER),
        ("/\ud800", Code.INVALID_CHARACTER),
    ],
)
def test_the_name_of_a_durable_subscription_fits_into_its_record(reader: Person, label: str, code: Code) -> None:
    assert reader.call(Function.SUBSCRIBE, Option.DURABLE, topic=TOPIC, subscription=label).code is code
    assert reader.call(Function.SUBSCRIBE, topic=TOPIC, subscription="\0" + "x" * 300).code is Code.OK
    assert reader.call(Function.SUBSCRIBE, topic=TOPIC, subscription="1").code is Code.INVALID_CHARACTER
