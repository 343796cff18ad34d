"""Publish and subscribe with the embedded broker, of both kinds and on both drivers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oms_journal.broker.block import Reception
from oms_journal.broker.codes import Code
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.records import Status
from oms_journal.broker.sessions.session_parts import Subscription
from oms_journal.broker.sessions.sessions import Session
from tests.support.broker.embedded import KINDS, Kind, kind_of, refused
from tests.support.sweeps import a_sample, takes_turns

pytestmark = takes_turns(3, "kind")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    with kind_of(request.param) as found:
        yield found


@pytest.fixture
def broker(kind: Kind, tmp_path: Path) -> Iterator[Broker]:
    with kind.open(tmp_path / "store") as found:
        yield found


@pytest.fixture
def alice(broker: Broker) -> Iterator[Session]:
    with broker.session("ALICE", token="A") as session:
        yield session


@pytest.fixture
def bob(broker: Broker) -> Iterator[Session]:
    with broker.session("BOB", token="B") as session:
        yield session


def acknowledged(subscription: Subscription, most: int = 1000) -> list[bytes]:
    """Receive and acknowledge all publications, or so many; return the bodies of their messages."""
    found: list[bytes] = []
    for count, publication in enumerate(subscription.publications(), 1):
        with publication:
            found += [message.body for message in publication]
        if count == most:
            break
    return found


@a_sample(4)
@pytest.mark.parametrize("durable", [True, False])
def test_a_subscriber_gets_what_is_published_afterwards(alice: Session, bob: Session, durable: bool) -> None:
    alice.publish("NEWS", b"before")
    news = bob.subscribe("NEWS", durable=durable)
    published = alice.publish("NEWS", b"after", properties={"p": "v"}, user_status="hot")
    assert published.status is Status.ACCEPTED and published.topic == "NEWS"
    publication = news.receive()
    assert publication is not None and publication.publication_id == published.publication_id
    message = publication.first
    assert (message.body, message.properties, message.user_status) == (b"after", {"p": "v"}, "hot")
    assert (message.reception, message.topic) == (Reception.RECV_ONLY, "NEWS")
    assert alice.query_publication(published.publication_id).status is Status.ACCEPTED
    assert publication.acknowledge().status is Status.PROCESSED
    assert news.receive() is None
    assert alice.query_publication(published.publication_id).status is Status.PROCESSED


def test_a_publication_is_had_as_a_whole_once_it_is_committed(alice: Session, bob: Session) -> None:
    news = bob.subscribe("NEWS")
    with alice.publication("NEWS") as publication:
        publication.send(b"1")
        publication.send(b"2")
        assert news.receive() is None
    with pytest.raises(ZeroDivisionError), alice.publication("NEWS") as dropped:
        dropped.send(b"never")
        raise ZeroDivisionError
    last = alice.last_publication()
    assert last is not None and last.publication_id == dropped.publication_id and last.status is Status.BACKEDOUT
    assert acknowledged(news) == [b"1", b"2"]


def test_an_exception_gives_a_publication_back(alice: Session, bob: Session) -> None:
    news = bob.subscribe("NEWS", durable=True)
    alice.publish("NEWS", b"x")
    with pytest.raises(ZeroDivisionError):
        for publication in news.publications():
            with publication:
                raise ZeroDivisionError
    assert acknowledged(news) == [b"x"]


@a_sample(1)
def test_a_durable_subscription_goes_on_where_it_was_over_a_restart(kind: Kind, tmp_path: Path) -> None:
    with (
        kind.open(tmp_path / "store") as broker,
        broker.session("BOB", token="B") as bob,
        broker.session("CAROL", token="C") as carol,
    ):
        news = bob.subscribe("NEWS", durable=True)
        carol.subscribe("NEWS")
        for number in range(4):
            carol.publish("NEWS", b"%d" % number)
        assert acknowledged(news, most=2) == [b"0", b"1"]
        publication = news.receive()
        assert publication is not None and publication.first.body == b"2", "and not acknowledged"
    with kind.open(tmp_path / "store") as broker:
        with broker.session("ALICE") as alice:
            alice.publish("NEWS", b"4")
        with broker.session("BOB", token="B") as bob:
            news = bob.subscribe("NEWS", durable=True)
            assert acknowledged(news) == [b"2", b"3", b"4"]
            news.unsubscribe()
            with refused(Code.UOW_NOT_FOUND):
                news.receive()
        with broker.session("CAROL", token="C") as carol:
            assert acknowledged(carol.subscribe("NEWS")) == []


def test_a_receive_waits_for_a_publication(alice: Session, bob: Session) -> None:
    news = bob.subscribe("NEWS")
    assert news.receive(wait=0.02) is None
    alice.publish("NEWS", b"x")
    publication = news.receive(wait=True)
    assert publication is not None and publication.first.body == b"x"


def test_a_topic_that_forbids_it_refuses(kind: Kind, tmp_path: Path) -> None:
    file = tmp_path / "etbfile"
    file.write_text("DEFAULTS=BROKER PSTORE=NO\nDEFAULTS=TOPIC\n TOPIC=OPEN\n TOPIC=CLOSED ALLOW-USER-SUBSCRIBE=NO\n")
    with kind.open(attributes=file) as broker, broker.session("BOB", token="B") as bob:
        with refused(Code.SUBSCRIBE_NOT_ALLOWED):
            bob.subscribe("CLOSED")
        with refused(Code.SUBSCRIBE_NOT_ALLOWED):
            bob.subscribe("OPEN", durable=True)
        assert bob.subscribe("OPEN").receive() is None
        assert bob.last_publication() is None
