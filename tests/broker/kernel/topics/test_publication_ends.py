"""A publication ends in two ways at once: its lifetime is over, and the last who was to have it is done, or goes.

The store refuses to remove a message twice, and with it all that is removed in the same commit (a KeyError here).
"""

from collections.abc import Callable

import pytest

from oms_journal.broker.attributes.attributes import Attributes, parse_attributes
from oms_journal.broker.block import Function, Option
from oms_journal.broker.codes import Code
from tests.support.broker.kernel_desk import Desk, Person, Said, attributes

TOPIC = "NEWS"
LIFETIME = 10  # seconds
DURABLE, PASSING = Option.DURABLE, Option.NONE


def person(desk: Desk, name: str, caller: int, option: Option | None = None) -> Person:
    found = Person(desk, name, "T", caller=caller)
    if option is not None:
        assert found.call(Function.SUBSCRIBE, option, topic=TOPIC).code is Code.OK
    return found


def publish(person: Person) -> None:
    person.call(Function.SEND_PUBLICATION, Option.COMMIT, topic=TOPIC, body=b"x", publication_id="NEW")


def get(person: Person) -> Said:
    return person.call(Function.RECEIVE_PUBLICATION, topic=TOPIC, publication_id="NEW")


def acknowledge(person: Person, said: Said) -> int:
    return person.start(Function.CONTROL_PUBLICATION, Option.COMMIT, publication_id=said.reply.publication_id)


def terms(**more: str) -> Attributes:
    return attributes(publication_lifetime=f"{LIFETIME}S", client_nonact="UNLIM", **more)


def messages_and_waiting(desk: Desk) -> tuple[int, int]:
    """Return how many messages the store has, and how many publications are still to be removed from it."""
    topic = desk.kernel.world.topics.topics[TOPIC]
    return len(desk.paper.messages), len(topic.done) + topic.under_way


def hangs_up(desk: Desk, reader: Person) -> None:
    reader.gone()


def unsubscribes(desk: Desk, reader: Person) -> None:
    reader.start(Function.UNSUBSCRIBE, topic=TOPIC)


def acknowledges(desk: Desk, reader: Person) -> None:
    """Its acknowledgement is on its way already when the end is decided; it was not the last one when it was made."""


LEAVINGS = [(PASSING, hangs_up), (PASSING, unsubscribes), (DURABLE, unsubscribes), (DURABLE, acknowledges)]


@pytest.mark.parametrize("fails", [False, True], ids=["the end is durable", "the end fails"])
@pytest.mark.parametrize(("option", "leaves"), LEAVINGS)
def test_the_last_subscriber_is_done_while_the_end_of_the_lifetime_is_on_its_way(
    option: Option, leaves: Callable[[Desk, Person], None], fails: bool
) -> None:
    desk = Desk(terms())
    paper, readers = person(desk, "PAPER", 1), [person(desk, "ONE", 2, option), person(desk, "TWO", 3, option)]
    publish(paper)
    publish(paper)
    got = [[get(reader), get(reader)] for reader in readers]
    desk.tick(LIFETIME - 1)
    desk.is_slow = True
    if leaves is acknowledges:
        for reader, said in zip(readers, got, strict=True):
            acknowledge(reader, said[0])
    desk.tick(2)
    assert len(desk.commits[-1].changes.deleted) == 2, "the end is on its way"
    before = len(desk.commits) - 1
    for reader in readers:
        leaves(desk, reader)
    if fails:
        desk.settle(before)
        desk.fail(is_store_lost=False, is_refused=True)
    desk.settle()
    desk.is_slow = False
    desk.tick(1)
    assert messages_and_waiting(desk) == (0, 0)
    later = person(desk, "LATER", 9, DURABLE)
    publish(paper)
    desk.tick(LIFETIME + 1)
    assert get(later).code is Code.NO_UOWS
    assert messages_and_waiting(desk) == (0, 0)


@pytest.mark.parametrize("readers", [1, 2])
@pytest.mark.parametrize("publications", [1, 3])
@pytest.mark.parametrize("acknowledged", [0, 1])
def test_durable_subscriptions_and_what_they_were_to_have_expire_in_one_tick(
    publications: int, readers: int, acknowledged: int
) -> None:
    desk = Desk(terms(subscription_expiration=f"{LIFETIME}S"))
    paper = person(desk, "PAPER", 1)
    subscribed = [person(desk, f"R{at}", 2 + at, DURABLE) for at in range(readers)]
    for _ in range(publications):
        publish(paper)
    for reader in subscribed[:acknowledged]:
        acknowledge(reader, get(reader))
    desk.tick(LIFETIME + 1)
    assert messages_and_waiting(desk) == (0, 0)
    assert not desk.paper.keys.keys() - {"broker/clock"}


@pytest.mark.parametrize("fails", [False, True], ids=["the end is durable", "the end fails"])
def test_what_was_read_is_not_acknowledged_by_the_next_receive_while_its_end_is_on_its_way(fails: bool) -> None:
    text = (
        "DEFAULTS=BROKER BROKER-ID=ETB001 PSTORE=WARM SUBSCRIBER-STORE=PSTORE SUBSCRIPTION-EXPIRATION=UNLIM "
        "PUBLISH-AND-SUBSCRIBE=YES CLIENT-NONACT=UNLIM\n"
        f"DEFAULTS=TOPIC\nTOPIC={TOPIC} ALLOW-DURABLE=YES AUTO-COMMIT-FOR-SUBSCRIBER=YES "
        f"PUBLICATION-LIFETIME={LIFETIME}S\n"
    )
    desk = Desk(parse_attributes(text))
    paper, reader = person(desk, "PAPER", 1), person(desk, "READER", 2, DURABLE)
    publish(paper)
    assert get(reader).body == b"x"
    desk.tick(LIFETIME - 1)
    desk.is_slow = True
    desk.tick(2)
    handle = reader.start(Function.RECEIVE_PUBLICATION, topic=TOPIC, publication_id="NEW")
    if fails:
        desk.fail(is_store_lost=False, is_refused=True)
    desk.settle()
    assert desk.answers[handle].code is Code.NO_UOWS
    desk.is_slow = False
    desk.tick(1)
    assert messages_and_waiting(desk) == (0, 0)
