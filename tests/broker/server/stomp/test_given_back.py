"""An ACK or a NACK of what the connection has no more: a receipt is said of what is so, and of nothing else."""

from collections.abc import Callable

import pytest

from oms_journal.broker.server.stomp.frames import V12, VERSIONS, Frame
from tests.support.servers.stomp_desk import Connection, StompDesk, waiting


@pytest.fixture
def stomp() -> StompDesk:
    return StompDesk()


def unsubscribed(client: Connection, _: Frame) -> None:
    client.take("UNSUBSCRIBE", id="s")


def refused(client: Connection, message: Frame) -> None:
    client.nack(message)


WAYS = [unsubscribed, refused]
GivesBack = Callable[[Connection, Frame], None]
any_way = pytest.mark.parametrize("gives_back", WAYS, ids=lambda way: way.__name__)
KINDS = {"/queue/a": {}, "/topic/a": {}, "/topic/b": {"durable": "true"}}


def received(stomp: StompDesk, destination: str = "/queue/a", ack: str = "client", version: str = V12) -> Connection:
    """Return a connection that has one message in flight."""
    client = stomp.connect("BOB", version=version, token="T")
    client.subscribe(destination, ack=ack, **KINDS[destination])
    stomp.connect("ALICE").send(destination, b"x")
    return client


@any_way
@pytest.mark.parametrize("destination", KINDS)
@pytest.mark.parametrize("ack", ["client", "client-individual"])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_ack_with_a_receipt_of_what_was_given_back_is_refused(
    stomp: StompDesk, gives_back: GivesBack, destination: str, ack: str, version: str
) -> None:
    client = received(stomp, destination, ack, version)
    (message,) = client.messages()
    gives_back(client, message)
    client.ack(message, receipt="r")

    assert client.receipts() == []
    assert client.error().startswith("00780305")
    if destination == "/queue/a":
        assert waiting(stomp) == [b"x"]


@any_way
def test_an_ack_without_a_receipt_is_ignored_as_clients_send_it_in_good_faith(
    stomp: StompDesk, gives_back: GivesBack
) -> None:
    client = received(stomp)
    (message,) = client.messages()
    gives_back(client, message)
    client.ack(message)
    client.send("/queue/b", b"goes on", receipt="b")

    assert client.receipts() == ["b"]
    client.vanish()
    assert waiting(stomp) == [b"x"]


@pytest.mark.parametrize(("gives_back", "is_first"), [(unsubscribed, True), (unsubscribed, False), (refused, False)])
@pytest.mark.parametrize("receipt", [{}, {"receipt": "c"}], ids=["no receipt", "a receipt"])
def test_nothing_of_a_commit_happens_that_acknowledges_what_was_given_back(
    stomp: StompDesk, gives_back: GivesBack, is_first: bool, receipt: dict[str, str]
) -> None:
    client = received(stomp)
    (message,) = client.messages()
    client.take("BEGIN", transaction="t")
    if not is_first:
        gives_back(client, message)
    client.ack(message, transaction="t")
    client.send("/queue/moved", b"x", transaction="t")
    if is_first:
        gives_back(client, message)
    client.take("COMMIT", transaction="t", **receipt)

    assert client.receipts() == []
    assert client.error().startswith("00780305")
    assert waiting(stomp, "/queue/moved") == []
    assert waiting(stomp) == [b"x"]


def test_an_abort_of_such_a_transaction_is_answered(stomp: StompDesk) -> None:
    client = received(stomp)
    (message,) = client.messages()
    client.take("BEGIN", transaction="t")
    client.ack(message, transaction="t")
    client.take("UNSUBSCRIBE", id="s")
    client.take("ABORT", transaction="t", receipt="a")

    assert client.receipts() == ["a"]


def test_a_nack_with_a_receipt_of_what_was_acknowledged_is_refused_and_of_what_was_given_back_is_not(
    stomp: StompDesk,
) -> None:
    client = received(stomp)
    (message,) = client.messages()
    client.nack(message, receipt="1")
    client.nack(message, receipt="2")
    stomp.wait(60)
    (again,) = client.messages()
    client.ack(again, receipt="3")
    client.nack(again)
    assert client.receipts() == ["1", "2", "3"]

    client.nack(again, receipt="4")
    assert client.error().startswith("00780305")


def test_what_was_acknowledged_long_ago_is_still_known(stomp: StompDesk) -> None:
    """Any number of messages takes little room to remember."""
    client, sender = stomp.connect("BOB"), stomp.connect("ALICE")
    client.subscribe("/queue/a", ack="client-individual")
    seen = []
    for number in range(60):
        sender.send("/queue/a", b"%d" % number)
        (message,) = client.messages()
        client.ack(message)
        seen.append(message)
    for message in seen:
        client.ack(message, receipt=message.headers["ack"])

    assert len(client.receipts()) == 60
    assert client.session.consumer._done.size <= 2, "one range"


def test_the_rest_of_a_unit_that_was_given_back_is_given_back_with_it(stomp: StompDesk) -> None:
    sender, client = stomp.connect("ALICE"), stomp.connect("BOB")
    sender.take("BEGIN", transaction="t")
    for body in (b"1", b"2"):
        sender.send("/queue/a", body, transaction="t")
    sender.take("COMMIT", transaction="t")
    client.subscribe("/queue/a", ack="client-individual")
    first, second = client.messages()
    client.ack(first, receipt="1")
    client.nack(second)
    client.ack(first, receipt="2")

    assert client.receipts() == ["1"]
    assert client.error().startswith("00780305")
