"""Publications that are held for durable subscriptions since their store was restored from a backup."""

import random

import pytest

from oms_journal.broker.block import Function, Option
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel import hold_release
from oms_journal.broker.kernel.state.effects import (
    DiscardPublications,
    ReleasePublications,
    StoreBack,
    StoreLost,
    UnsubscribeFor,
)
from oms_journal.broker.records import HELD, HELDS, HOLD_KEY, PUBLICATIONS, SUBSCRIPTION, SUBSCRIPTIONS
from tests.broker.kernel.topics.test_topics import BACKOUT, COMMIT, TOPIC, control, get, publish, subscribe
from tests.support.broker.kernel_desk import Desk, Person, attributes
from tests.support.sweeps import a_sample, for_each

OPERATOR = 900_000
LIMITED = attributes(publication_lifetime="100S", subscription_expiration="500S", client_nonact="UNLIM")


def order(desk: Desk, command: ReleasePublications | DiscardPublications | UnsubscribeFor) -> Code:
    desk.give(command)
    return desk.answers.pop(OPERATOR).code


def subscription_of(desk: Desk, user: str = "READER") -> str:
    (found,) = [each for each in desk.kernel.world.topics.subscriptions.values() if each.owner.user == user]
    return found.subscription_id


def release(desk: Desk, *publication_ids: str, user: str = "READER") -> Code:
    return order(desk, ReleasePublications(OPERATOR, subscription_of(desk, user), publication_ids or None))


def discard(desk: Desk, *publication_ids: str, user: str = "READER") -> Code:
    return order(desk, DiscardPublications(OPERATOR, subscription_of(desk, user), publication_ids or None))


def drained(person: Person) -> list[bytes | None]:
    """Receive and acknowledge all there is; return the bodies."""
    found = []
    while (got := get(person)).code is Code.OK:
        found.append(got.body)
        assert control(person, COMMIT, got).code is Code.OK
    return found


def people(desk: Desk) -> tuple[Person, Person]:
    return Person(desk, "PAPER", "P", caller=1), Person(desk, "READER", "R", caller=2)


@pytest.fixture
def desk() -> Desk:
    """Return the desk of a restored broker: of five publications the reader had acknowledged the first and third."""
    before = Desk()
    paper, reader = people(before)
    subscribe(reader)
    for number in range(5):
        publish(paper, b"%d" % number)
    got = [get(reader) for _ in range(4)]
    for each in (got[0], got[2]):
        assert control(reader, COMMIT, each).code is Code.OK
    return before.restored()


def held(desk: Desk) -> int:
    return desk.kernel.world.withheld.publications


def test_what_a_subscriber_had_not_acknowledged_is_held_and_what_is_new_is_not(desk: Desk) -> None:
    paper, reader = people(desk)
    assert held(desk) == 3
    assert get(reader).code is Code.NO_UOWS
    publish(paper, b"new")
    assert drained(reader) == [b"new"]
    again = desk.restart()
    paper, reader = people(again)
    publish(paper, b"newer")
    assert (drained(reader), held(again)) == ([b"newer"], 3), "a restart keeps the hold"
    (record,) = [value for key, value in desk.paper.keys.items() if key.startswith(SUBSCRIPTIONS)]
    assert SUBSCRIPTION.decode(record).acknowledged == (), "what goes past what is held is not remembered one by one"


def test_what_is_released_comes_in_order_and_before_what_is_newer(desk: Desk) -> None:
    paper, reader = people(desk)
    publish(paper, b"new")
    assert release(desk) is Code.OK
    assert release(desk) is Code.OK, "nothing is held any more"
    assert drained(reader) == [b"1", b"3", b"4", b"new"]
    assert (held(desk), desk.paper.messages) == (0, {})
    assert not [key for key in desk.paper.keys if key.startswith((HELDS, PUBLICATIONS))]
    desk.tick()
    assert HOLD_KEY not in desk.paper.keys


@pytest.mark.parametrize("at", range(4))
def test_a_restart_in_between_gives_again_what_is_not_acknowledged(desk: Desk, at: int) -> None:
    paper, reader = people(desk)
    publish(paper, b"new")
    assert release(desk) is Code.OK
    got = [get(reader) for _ in range(at)]
    for each in got[1:]:
        assert control(reader, COMMIT, each).code is Code.OK
    again = desk.restart()
    _, reader = people(again)
    assert drained(reader) == [b"1", b"3", b"4", b"new"][: min(at, 1)] + [b"1", b"3", b"4", b"new"][max(at, 0) :]


def test_some_are_released_and_some_discarded_by_what_they_are(desk: Desk) -> None:
    publications = {
        each.publication_id: order
        for order, each in sorted(desk.kernel.world.topics.topics[TOPIC].publications.items())
    }
    first, second, third = publications
    assert release(desk, third) is Code.OK
    assert discard(desk, first) is Code.OK
    assert discard(desk, first) is Code.UOW_NOT_FOUND
    assert release(desk, third) is Code.UOW_NOT_FOUND
    assert release(desk, second, "1" * 16) is Code.UOW_NOT_FOUND
    for one in (desk, desk.restart()):
        _, reader = people(one)
        got = get(reader)
        assert (got.body, held(one)) == (b"4", 1)
        assert get(reader).code is Code.NO_UOWS
    assert control(reader, BACKOUT, got).code is Code.OK
    assert drained(reader) == [b"4"]
    (record,) = [HELD.decode(value) for key, value in one.paper.keys.items() if key.startswith(HELDS)]
    assert (record.done, record.numbers[: record.done]) == (1, (publications[third],))
    assert discard(one) is Code.OK
    assert (held(one), one.paper.messages) == (0, {})


def test_one_subscribers_hold_is_not_anothers() -> None:
    desk = Desk()
    paper, reader = people(desk)
    other = Person(desk, "OTHER", "O", caller=3)
    subscribe(reader)
    subscribe(other)
    publish(paper, b"1")
    publish(paper, b"2")
    assert drained(reader) == [b"1", b"2"]
    publish(paper, b"3")
    again = desk.restored()
    paper, reader = people(again)
    other = Person(again, "OTHER", "O", caller=3)
    late = Person(again, "LATE", "L", caller=4)
    subscribe(late)
    assert held(again) == 4
    assert release(again) is Code.OK
    assert (drained(reader), drained(other), drained(late)) == ([b"3"], [], [])
    assert discard(again, user="OTHER") is Code.OK
    assert (held(again), again.paper.messages) == (0, {})


def test_a_lifetime_stands_still_until_nobody_has_it_held() -> None:
    desk = Desk(LIMITED)
    paper, reader = people(desk)
    other = Person(desk, "OTHER", "O", caller=3)
    for each in (reader, other):
        assert subscribe(each) is Code.OK
    publish(paper, b"1")
    desk.tick(40)
    again = desk.restored()
    again.tick(10_000)
    assert held(again) == 2, "nor does the subscription expire"
    assert release(again) is Code.OK
    again = again.restart()
    again.tick(70)
    assert discard(again, user="OTHER") is Code.OK
    again = again.restart()
    again.tick(59)
    _, reader = people(again)
    assert get(reader).body == b"1"
    again.tick(2)
    assert again.kernel.world.topics.publications == {}
    assert again.paper.messages == {}


@pytest.mark.parametrize("by_operator", [False, True])
def test_who_waits_for_publications_is_told_when_the_subscription_ends(by_operator: bool) -> None:
    desk = Desk(LIMITED)
    paper, reader = people(desk)
    subscribe(reader)
    waiting = {"user_id": "READER", "token": "R", "topic": TOPIC, "publication_id": "NEW", "wait": "YES"}
    handle = desk.start(Function.RECEIVE_PUBLICATION, Option.NONE, caller=2, **waiting)
    assert handle not in desk.answers
    if by_operator:
        assert order(desk, UnsubscribeFor(OPERATOR, TOPIC, "READER", "R")) is Code.OK
    else:
        assert reader.call(Function.UNSUBSCRIBE, topic=TOPIC).code is Code.OK
    said = desk.answers[handle]
    assert said.code is Code.UOW_NOT_FOUND
    assert "subscription" in said.reply.text.lower() and "ended" in said.reply.text
    publish(paper)
    assert not desk.kernel.world.parking.calls


@pytest.mark.parametrize("by_operator", [False, True])
def test_a_subscription_that_ends_takes_its_hold_along(by_operator: bool) -> None:
    desk = Desk(LIMITED)
    paper, reader = people(desk)
    other = Person(desk, "OTHER", "O", caller=3)
    for each in (reader, other):
        subscribe(each)
    publish(paper, b"1")
    again = desk.restored()
    _, reader = people(again)
    assert release(again, user="OTHER") is Code.OK
    again.tick(400)
    if by_operator:
        assert order(again, UnsubscribeFor(OPERATOR, TOPIC, "READER", "R")) is Code.OK
    else:
        assert reader.call(Function.UNSUBSCRIBE, topic=TOPIC).code is Code.OK
    assert held(again) == 0
    assert len([key for key in again.paper.keys if key.startswith(HELDS)]) == 1
    other = Person(again, "OTHER", "O", caller=3)
    again.tick(99)
    assert get(other).body == b"1"
    again.tick(2)
    assert again.paper.messages == {}


def test_a_subscription_whose_publications_were_released_expires_as_ever() -> None:
    desk = Desk(attributes(subscription_expiration="500S", client_nonact="UNLIM"))
    paper, reader = people(desk)
    subscribe(reader)
    publish(paper, b"1")
    desk.tick(100)
    again = desk.restored()
    again.tick(10_000)
    assert release(again) is Code.OK
    again = again.restart()
    again.tick(399)
    assert len(again.kernel.world.topics.subscriptions) == 1
    again.tick(1)
    assert again.kernel.world.topics.subscriptions == {}
    assert again.paper.messages == {}


def test_without_the_store_nothing_is_released(desk: Desk) -> None:
    desk.give(StoreLost())
    assert release(desk) is Code.DURABLE_WITHOUT_STORE
    assert discard(desk) is Code.DURABLE_WITHOUT_STORE
    desk.give(StoreBack())
    desk.is_slow = True
    desk.give(ReleasePublications(OPERATOR, subscription_of(desk), None))
    _, reader = people(desk)
    handle = reader.start(Function.RECEIVE_PUBLICATION, topic=TOPIC, publication_id="NEW")
    assert handle not in desk.answers, "a call about what is on its way to the store waits"
    desk.fail()
    desk.is_slow = False
    assert desk.answers.pop(OPERATOR).code is Code.DURABLE_WITHOUT_STORE
    assert desk.answers[handle].code is Code.NO_UOWS
    assert held(desk) == 3


def published(desk: Desk) -> list[str]:
    topics = desk.kernel.world.topics.topics
    return [each.publication_id for _, each in sorted(topics[TOPIC].publications.items())] if topics else []


@a_sample(2)
@pytest.mark.parametrize("part", [1, 4, 8])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_any_number_of_every_second_publication_is_discarded_and_the_rest_released(
    monkeypatch: pytest.MonkeyPatch, part: int, is_restarted: bool
) -> None:
    monkeypatch.setattr(hold_release, "RELEASED_MAX", 10)
    desk = Desk()
    paper, reader = people(desk)
    subscribe(reader)
    for number in range(80):
        publish(paper, b"%d" % number)
    desk = desk.restored()
    ids = published(desk)
    for at in range(0, len(ids), part):
        for does, some in (
            (discard, ids[at : at + part][at % 2 :: 2]),
            (release, ids[at : at + part][1 - at % 2 :: 2]),
        ):
            if some:
                assert does(desk, *some) is Code.OK
                desk = desk.restart() if is_restarted else desk
        (record,) = [HELD.decode(value) for key, value in desk.paper.keys.items() if key.startswith(HELDS)]
        assert len(record.numbers) <= part
    assert (held(desk), len(published(desk))) == (0, 40)
    assert len([key for key in desk.paper.keys if key.startswith(PUBLICATIONS)]) == len(desk.paper.messages) == 40
    _, reader = people(desk)
    assert drained(reader) == [b"%d" % number for number in range(1, 80, 2)]
    assert desk.paper.messages == {}


def test_what_another_is_still_to_have_is_noted_and_with_too_much_of_it_the_reader_is_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hold_release, "RELEASED_MAX", 10)
    desk = Desk()
    paper, reader = people(desk)
    other = Person(desk, "OTHER", "O", caller=3)
    for each in (reader, other):
        subscribe(each)
    for number in range(40):
        publish(paper, b"%d" % number)
    desk = desk.restored()
    ids, got = published(desk), list[bytes | None]()
    _, reader = people(desk)
    for at in range(0, 40, 4):
        if discard(desk, ids[at], ids[at + 2]) is not Code.OK:
            got += drained(reader)
            assert discard(desk, ids[at], ids[at + 2]) is Code.OK
        assert release(desk, ids[at + 1], ids[at + 3]) is Code.OK
    got += drained(reader)
    assert got == [b"%d" % number for number in range(1, 40, 2)]
    assert release(desk, user="OTHER") is Code.OK
    other = Person(desk, "OTHER", "O", caller=3)
    assert drained(other) == [b"%d" % number for number in range(40)]
    assert desk.paper.messages == {}


def test_what_is_discarded_while_the_store_fails_is_there_and_held_as_before() -> None:
    desk = Desk(LIMITED)
    paper, reader = people(desk)
    subscribe(reader)
    for number in range(4):
        publish(paper, b"%d" % number)
    desk = desk.restored()
    first, _, third, _ = ids = published(desk)
    desk.is_slow = True
    desk.give(DiscardPublications(OPERATOR, subscription_of(desk), (first, third)))
    desk.fail()
    desk.is_slow = False
    assert desk.answers.pop(OPERATOR).code is Code.DURABLE_WITHOUT_STORE
    desk.give(StoreBack())
    assert (held(desk), published(desk), len(desk.paper.messages)) == (4, ids, 4)
    assert discard(desk, first, third) is Code.OK
    assert release(desk) is Code.OK
    _, reader = people(desk)
    assert drained(reader) == [b"1", b"3"]
    assert desk.paper.messages == {}


def test_there_is_nothing_to_release_for_who_has_nothing_held(desk: Desk) -> None:
    late = Person(desk, "LATE", "L", caller=4)
    subscribe(late)
    assert release(desk, user="LATE") is Code.UOW_NOT_FOUND
    assert order(desk, DiscardPublications(OPERATOR, "?", None)) is Code.UOW_NOT_FOUND


# All of it together.


def play(rng: random.Random, desk: Desk, count: int) -> None:
    """Let two subscribers do anything with a few publications."""
    paper, reader = people(desk)
    readers = [reader, Person(desk, "OTHER", "O", caller=3)]
    for number in range(count):
        who = rng.choice(readers)
        match rng.randrange(6):
            case 0 | 1 | 2:
                publish(paper, b"%d of %d" % (number, count))
            case 3:
                assert subscribe(who) is Code.OK
            case 4:
                got = [each for each in (get(who) for _ in range(rng.randrange(1, 4))) if each.code is Code.OK]
                if got:
                    control(who, rng.choice((COMMIT, COMMIT, BACKOUT)), rng.choice(got))
            case _:
                get(who)


def drained_by_all(desk: Desk) -> list[list[bytes | None]]:
    _, reader = people(desk)
    other = Person(desk, "OTHER", "O", caller=3)
    return [drained(each) if desk.kernel.world.topics.topics else [] for each in (reader, other)]


@for_each("seed", range(200), sample=25, is_long=True)
def test_all_that_is_released_is_received_as_after_a_plain_restart(seed: int) -> None:
    rng, again = random.Random(seed), random.Random(seed)
    plain, desk = Desk(), Desk()
    play(rng, plain, 30)
    play(again, desk, 30)
    desk = desk.restored()
    assert drained_by_all(desk) == [[], []]
    if rng.random() < 0.5:
        desk = desk.restored()
    expected = drained_by_all(plain.restart())
    assert held(desk) == sum(map(len, expected))
    for subscription in list(desk.kernel.world.topics.subscriptions.values()):
        if subscription.window is None:
            continue
        publications = subscription.topic.publications
        ids = [publications[each].publication_id for each in subscription.window.withheld(publications)]
        some = tuple(rng.sample(ids, rng.randrange(len(ids) + 1)))
        if some:
            command = ReleasePublications(OPERATOR, subscription.subscription_id, some)
            assert order(desk, command) is Code.OK
        assert order(desk, ReleasePublications(OPERATOR, subscription.subscription_id, None)) is Code.OK
    if rng.random() < 0.5:
        desk = desk.restart()
    assert drained_by_all(desk) == expected
    assert (held(desk), desk.paper.messages) == (0, {})
