"""Headers of other brokers' clients: what changes what is delivered is carried out, or refused with a sentence."""

import pytest

from oms_journal.broker.server.stomp.foreign import FOREIGN
from oms_journal.broker.server.stomp.frames import Frame
from tests.support.servers.stomp_desk import Connection, StompDesk
from tests.support.sweeps import a_sample


@pytest.fixture
def stomp() -> StompDesk:
    return StompDesk()


# The header `conversation`.


def test_a_message_that_is_forwarded_with_its_headers_goes_where_it_is_sent(stomp: StompDesk) -> None:
    client, bridge, other = stomp.connect("CLIENT"), stomp.connect("BRIDGE"), stomp.connect("OTHER")
    bridge.subscribe("/queue/in", ack="client")
    other.subscribe("/queue/out")
    client.send("/queue/in", b"order", reply_to="/temp/answers", correlation_id="7")
    (message,) = bridge.messages()

    headers = {**message.headers, "destination": "/queue/out", "receipt": "f"}
    bridge.say_as_it_is(Frame("SEND", headers, message.body))
    stomp.turn()

    assert bridge.receipts() == ["f"]
    assert other.bodies() == [b"order"]
    assert client.messages() == []


def test_a_conversation_is_gone_on_with_by_its_destination(stomp: StompDesk) -> None:
    client, server = stomp.connect("CLIENT"), stomp.connect("SERVER")
    server.subscribe("/queue/a", ack="client")
    client.send("/queue/a", b"1", conversation="NEW", receipt="1")
    conversation = client.heard[-1].headers["conversation"]
    for body in (b"2", b"3"):
        client.send(f"/conversation/{conversation}", body, conversation=conversation)
    found = []
    for _ in range(3):
        (message,) = server.messages()
        found.append((message.body, message.headers["conversation"]))
        server.ack(message)

    assert found == [(b"1", conversation), (b"2", conversation), (b"3", conversation)]


def test_another_conversations_header_is_a_property(stomp: StompDesk) -> None:
    client, server = stomp.connect("CLIENT"), stomp.connect("SERVER")
    server.subscribe("/queue/a", ack="client")
    client.send("/queue/a", b"1", conversation="NEW", receipt="1")
    conversation = client.heard[-1].headers["conversation"]
    client.send(f"/conversation/{conversation}", b"2", conversation="1000000000000042")
    client.send("/queue/b", b"3", conversation=conversation)
    client.send("/topic/t", b"4", conversation=conversation, receipt="4")

    assert client.receipts() == ["1", "4"]
    looker = stomp.connect("LOOKER")
    looker.subscribe("/queue/b")
    (message,) = looker.messages()
    assert message.headers["conversation"] != conversation, "it is one of its own"


# What is not carried out.

Said = list[tuple[str, str, str]]
VALUES = ("true", "false", "1767225600000", "0 * * * *", "colour = 'red'", "MULTICAST")
REFUSED: Said = [
    (verb, name, each)
    for name, known in FOREIGN.items()
    for verb in known.commands
    for each in VALUES
    if each not in known.harmless
]
LET_BY: Said = [
    (verb, name, each) for name, known in FOREIGN.items() for verb in known.commands for each in known.harmless
]


def say(stomp: StompDesk, command: str, name: str, value: str) -> Connection:
    """Say a frame with the header."""
    client = stomp.connect()
    headers = {"destination": "/queue/a", "id": "s", "receipt": "r"}
    if command != "SUBSCRIBE":
        client.subscribe("/queue/a", ack="client")
    if command == "NACK":
        client.send("/queue/a", b"x")
        headers["id"] = client.messages()[0].headers["ack"]
    client.say_as_it_is(Frame(command, {**headers, name: value}))
    stomp.turn()
    return client


@a_sample(80)
@pytest.mark.parametrize(("command", "name", "value"), REFUSED)
def test_what_would_change_what_is_delivered_is_refused_by_its_name(
    stomp: StompDesk, command: str, name: str, value: str
) -> None:
    client = say(stomp, command, name, value)

    assert client.receipts() == []
    said = client.error()
    assert said.startswith("00200188")
    assert name in said and FOREIGN[name].instead in said


@pytest.mark.parametrize(("command", "name", "value"), LET_BY)
def test_a_value_that_asks_for_nothing_is_let_by(stomp: StompDesk, command: str, name: str, value: str) -> None:
    assert say(stomp, command, name, value).receipts() == ["r"]


WILD = (
    *("/topic/news.*", "/topic/*.sport", "/topic/news.#", "/topic/news.>", "/topic/#", "/queue/orders.>", "/queue/*"),
    *("/queue/a?consumer.exclusive=true", "/queue/a,/queue/b", "/queue/a, /topic/b"),
)
ONLY_OF_SUBSCRIPTIONS = {name for name, known in FOREIGN.items() if "SEND" not in known.commands} - {"persistent"}


@pytest.mark.parametrize("name", sorted(ONLY_OF_SUBSCRIPTIONS))
def test_what_is_foreign_to_a_subscription_only_is_a_property_of_a_message(stomp: StompDesk, name: str) -> None:
    value = next(each for each in VALUES if each not in FOREIGN[name].harmless)
    receiver = stomp.connect("BOB")
    receiver.subscribe("/queue/a")
    client = stomp.connect()
    client.say_as_it_is(Frame("SEND", {"destination": "/queue/a", name: value}))
    stomp.turn()

    (message,) = receiver.messages()
    assert message.headers[name] == value


@pytest.mark.parametrize("destination", WILD)
@pytest.mark.parametrize("command", ["SUBSCRIBE", "SEND"])
def test_a_destination_with_wildcards_or_options_of_another_broker_is_refused(
    stomp: StompDesk, destination: str, command: str
) -> None:
    client = stomp.connect()
    client.take(command, destination=destination, id="s", receipt="r")

    assert client.receipts() == []
    assert client.error().startswith("00200183")
    assert "each one" in client.error()
