"""The words beside a return code say what the call was about, and what to do."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from oms_journal.broker.block import ANY, NEW, Function, Option, Request
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.sessions.sessions import Session
from tests.support.servers.stomp_desk import StompDesk

SERVICE = "GAME/CHESS/BLACK"
NOBODYS = "1000000000000009"


class People:
    """A broker with a sender and a receiver."""

    def __init__(self, broker: Broker, alice: Session, bob: Session) -> None:
        self.broker, self.alice, self.bob = broker, alice, bob

    def about_publication(self, who: Session, option: Option, publication_id: str = NOBODYS) -> str:
        request = who._speaker.about_publication(option, "" if option is Option.LAST else publication_id)
        return self.said(who, request)

    def received(self, publication_id: str = NEW) -> str:
        asked = self.bob._speaker.receive_publication("NEWS", publication_id, None)
        return self.said(self.bob, asked)

    def said(self, who: Session, request: Request) -> str:
        return who.ask(request).reply.text


@pytest.fixture
def people(tmp_path: Path) -> Iterator[People]:
    with (
        Broker.open(tmp_path / "store", max_uows=2) as broker,
        broker.session("ALICE", token="A") as alice,
        broker.session("BOB", token="B") as bob,
    ):
        yield People(broker, alice, bob)


def refusal(call: Callable[[], object], code: Code) -> str:
    with pytest.raises(BrokerError) as caught:
        call()
    assert caught.value.code is code
    return caught.value.text


def test_the_brokers_max_uows_is_not_told_as_one_of_the_service(people: People) -> None:
    for service in (SERVICE, "ANOTHER/ONE/TOO"):
        people.alice.send(service, b"x")
    text = refusal(lambda: people.alice.send("GAME/CHESS/WHITE", b"x"), Code.MAX_UOWS)
    assert text == "MAX-UOWS of the broker reached: 2"


def test_a_services_own_max_uows_is_told_with_its_number(tmp_path: Path) -> None:
    file = tmp_path / "etbfile"
    file.write_text("DEFAULTS=BROKER DEFAULT-VALUES=OMS\nDEFAULTS=SERVICE CLASS=*,SERVER=*,SERVICE=* MAX-UOWS=1\n")
    with Broker.open(tmp_path / "store", attributes=file) as broker, broker.session("ALICE", token="A") as alice:
        alice.send(SERVICE, b"x")
        assert refusal(lambda: alice.send(SERVICE, b"x"), Code.MAX_UOWS) == "MAX-UOWS of the service reached: 1"
        alice.send("ANOTHER/ONE/TOO", b"x")


@pytest.mark.parametrize("service", [None, SERVICE])
def test_who_receives_before_register_is_told_to_register(people: People, service: str | None) -> None:
    bob = people.bob
    for code, which in ((Code.RECEIVE_ANY_BY_CLIENT, ANY), (Code.RECEIVE_NEW_BY_CLIENT, NEW)):
        assert "REGISTER" in refusal(partial(bob.receive_unit, service, which=which), code)
        assert "REGISTER" in refusal(partial(bob.receive_message, service, which=which), code)
    assert "registered" in refusal(lambda: bob.deregister(SERVICE), Code.DEREGISTER_BY_CLIENT)


def test_nothing_that_is_said_about_a_publication_speaks_of_units_of_work(people: People) -> None:
    alice, bob = people.alice, people.bob
    settling = (Option.COMMIT, Option.BACKOUT)
    said = [people.about_publication(alice, option) for option in (*settling, Option.QUERY, Option.LAST)]
    no_subscription = people.received()
    assert "not subscribed to NEWS" in no_subscription and "SUBSCRIBE" in no_subscription
    said += [
        no_subscription,
        people.received(NOBODYS),
        people.said(bob, bob._speaker.request(Function.UNSUBSCRIBE, topic="NEWS")),
    ]
    bob.subscribe("NEWS")
    said += [people.received()]
    published = alice.publish("NEWS", b"x").publication_id
    said += [people.about_publication(who, option, published) for who in (alice, bob) for option in settling]
    said += [people.about_publication(bob, Option.QUERY, published)]
    assert people.received() == ""
    said += [people.received(published)]

    assert all(said)
    assert not [text for text in said if "UOW" in text or "unit of work" in text.lower()]


@pytest.mark.parametrize("option", [Option.BACKOUT, Option.COMMIT, Option.CANCEL])
def test_a_backout_that_comes_too_late_says_what_may_have_happened(people: People, option: Option) -> None:
    alice, bob = people.alice, people.bob
    bob.register(SERVICE)
    sent = alice.send(SERVICE, b"x").uowid
    asked = bob._speaker.about(option, sent)
    assert f"{option.name} is for its sender, and for who is receiving it" in people.said(bob, asked)
    unit = bob.receive_unit()
    assert unit is not None
    unit.commit()
    assert f"{sent} was none, or is complete" in people.said(bob, asked)


@pytest.mark.parametrize(
    ("first", "then", "text"),
    [
        ("ACK", "NACK", "Message not found: the NACK is too late: it was acknowledged"),
        ("NACK", "ACK", "Message not found: the ACK is too late: it was given back, and comes again"),
        ("", "NACK", "Message not found: NACK names the id '9', which this connection did not get"),
    ],
)
def test_an_ack_or_nack_that_is_refused_says_what_became_of_the_message(first: str, then: str, text: str) -> None:
    stomp = StompDesk()
    client = stomp.connect("BOB")
    client.subscribe("/queue/a", ack="client-individual")
    stomp.connect("ALICE").send("/queue/a", b"x")
    (message,) = client.messages()
    if first:
        client.take(first, id=message.headers["ack"])
    client.take(then, id=message.headers["ack"] if first else "9", receipt="r")
    assert client.error() == f"00780305 {text}"
