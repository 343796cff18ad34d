"""What a durable subscription's record says of its expiration stays, whoever starts a broker on the store meanwhile."""

from pathlib import Path

import pytest

from oms_journal.broker.attributes.attributes import Attributes, built_in
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.records import SUBSCRIPTION, SUBSCRIPTIONS, SubscriptionRecord
from tests.support.broker.held_stores import mark_restored
from tests.support.broker.kernel_desk import attributes
from tests.support.cli_runner import oms

EXPIRATION = 5000  # seconds


def lasting(place: Path) -> Attributes:
    found = attributes(subscription_expiration=f"{EXPIRATION}S")
    own = built_in(spool_directory=str(place))
    found.broker, found.journal, found.sqlite = own.broker, own.journal, own.sqlite
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return the restored store of a broker whose attributes let subscriptions expire; two publications are held."""
    directory = tmp_path / "store"
    with Broker.open(attributes=lasting(directory)) as broker, broker.session("ALICE", token="T") as alice:
        alice.subscribe("NEWS", durable=True)
        for text in (b"rain", b"sun"):
            alice.publish("NEWS", text)
    mark_restored(directory)
    return directory


def record_of(place: Path) -> SubscriptionRecord:
    store = JournalStore.open(place, creates=False)
    ((_, value),) = store.records(SUBSCRIPTIONS)
    store.close()
    return SUBSCRIPTION.decode(value)


@pytest.mark.parametrize("words", [["--all"], ["--all", "--discard"]], ids=["released", "discarded"])
def test_a_release_on_a_stopped_store_leaves_a_subscriptions_own_expiration(place: Path, words: list[str]) -> None:
    before = record_of(place)
    assert before.expiration == EXPIRATION
    oms("release", *words, "--yes", spool=place)
    after = record_of(place)
    assert after.expiration == EXPIRATION
    assert before.ends <= after.ends < before.ends + 600_000_000, "what was left, and the time of the hold"


def test_it_is_what_the_attributes_say_when_the_subscription_is_used(place: Path) -> None:
    with Broker.open(place) as broker, broker.session("ALICE", token="T") as alice:
        subscription = alice.subscribe("NEWS", durable=True)
        alice.publish("NEWS", b"later")
        with subscription.receive() or pytest.fail("it is there"):
            pass
    assert (record_of(place).expiration, record_of(place).ends) == (0, 0)
