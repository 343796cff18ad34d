"""Several subscriptions of one STOMP connection to one topic: each is its own, with all that is published."""

from itertools import product

import pytest

from oms_journal.broker.block import FIELDS
from oms_journal.broker.records import SUBSCRIPTION, SUBSCRIPTIONS
from oms_journal.broker.server.stomp.frames import VERSIONS
from tests.broker.admin.test_looking import every
from tests.support.servers.stomp_desk import Connection, StompDesk

MODES = ("auto", "client", "client-individual")
NAMES = ("durable-subscription-name", "activemq.subscriptionName", "durable-subscriber-name")


@pytest.fixture
def stomp() -> StompDesk:
    return StompDesk()


def by_subscription(client: Connection) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for message in client.messages():
        found.setdefault(message.headers["subscription"], []).append(message.body)
    return found


def named(name: str) -> dict[str, str]:
    return {"durable_subscription_name": name}


def publish(stomp: StompDesk, *bodies: bytes) -> None:
    publisher = stomp.connect("PAUL")
    for body in bodies:
        publisher.send("/topic/news", body)


@pytest.mark.parametrize("token", [{}, {"client_id": "PC1"}])
@pytest.mark.parametrize(("one", "other"), list(product(MODES, MODES)))
@pytest.mark.parametrize("durable", [(), ("2",), ("1", "2")])
def test_each_gets_every_publication_and_acknowledges_it_by_itself(
    stomp: StompDesk, one: str, other: str, durable: tuple[str, ...], token: dict[str, str]
) -> None:
    ann = stomp.connect("ANN", **token)
    for id_, mode in (("1", one), ("2", other)):
        ann.subscribe("/topic/news", id_, mode, **(named(f"name {id_}") if id_ in durable else {}))
    publish(stomp, b"a", b"b")
    messages = ann.messages()
    assert sorted((each.headers["subscription"], each.body) for each in messages) == [
        ("1", b"a"),
        ("1", b"b"),
        ("2", b"a"),
        ("2", b"b"),
    ]
    for message in messages:
        if "ack" in message.headers and message.headers["subscription"] == "1":
            ann.ack(message, receipt="r")
    assert set(ann.receipts()) == ({"r"} if one != "auto" else set())
    publish(stomp, b"c")
    assert by_subscription(ann) == {"1": [b"c"], "2": [b"c"]}
    ann.take("UNSUBSCRIBE", id="1", receipt="u")
    assert ann.receipts() == ["u"]
    publish(stomp, b"d")
    assert by_subscription(ann) == {"2": [b"d"]}
    ann.take("UNSUBSCRIBE", id="2")
    publish(stomp, b"e")
    assert not ann.is_closed
    assert ann.messages() == []


def test_prefetch_counts_for_each(stomp: StompDesk) -> None:
    ann = stomp.connect("ANN")
    for id_, prefetch in (("1", "1"), ("2", "3")):
        ann.subscribe("/topic/news", id_, "client-individual", prefetch_count=prefetch)
    publish(stomp, b"a", b"b", b"c", b"d")
    first, *rest = ann.messages()
    assert [each.body for each in (first, *rest) if each.headers["subscription"] == "1"] == [b"a"]
    assert [each.body for each in (first, *rest) if each.headers["subscription"] == "2"] == [b"a", b"b", b"c"]
    (mine,) = (each for each in (first, *rest) if each.headers["subscription"] == "1")
    ann.ack(mine)
    assert by_subscription(ann) == {"1": [b"b"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_one_refuses_comes_again_to_that_one_alone(stomp: StompDesk, version: str) -> None:
    ann = stomp.connect("ANN", version=version)
    for id_ in "12":
        ann.subscribe("/topic/news", id_, "client-individual")
    publish(stomp, b"a")
    ann.nack(next(each for each in ann.messages() if each.headers["subscription"] == "2"))
    stomp.wait(3600)
    assert by_subscription(ann) == {"2": [b"a"]}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("token", [{}, {"client_id": "PC1"}])
@pytest.mark.parametrize("restarts", [False, True])
def test_durable_ones_go_on_where_each_was_by_their_names(
    stomp: StompDesk, mode: str, token: dict[str, str], *, restarts: bool
) -> None:
    ann = stomp.connect("ANN", **token)
    ann.subscribe("/topic/news", "1", "client-individual", durable="true")
    ann.subscribe("/topic/news", "2", mode, **named("orders"))
    ann.subscribe("/topic/news", "3", "auto")
    publish(stomp, b"a", b"b")
    messages = ann.messages()
    assert len(messages) == 6
    of_orders = [each for each in messages if each.headers["subscription"] == "2"]
    if mode != "auto":
        ann.ack(of_orders[0], receipt="r")
    ann.vanish()
    if restarts:
        stomp = StompDesk(stomp.desk.restart())
    publish(stomp, b"c")

    again = stomp.connect("ANN", **token)
    again.subscribe("/topic/news", "x", mode, **named("orders"))
    assert again.bodies() == ([b"b", b"c"] if mode != "auto" else [b"c"])
    again.subscribe("/topic/news", "y", "client", durable="true")
    of_y = again.messages()
    assert [each.body for each in of_y] == [b"a", b"b", b"c"]
    again.ack(of_y[1])
    again.subscribe("/topic/news", "z")
    assert again.bodies() == [], "one that is not durable begins with what comes"
    again.take("UNSUBSCRIBE", id="x", durable="true", receipt="u")
    assert again.receipts() == ["u"]
    again.vanish()
    publish(stomp, b"d")
    last = stomp.connect("ANN", **token)
    last.subscribe("/topic/news", "x", **named("orders"))
    assert last.bodies() == [], "it was ended for good"
    last.subscribe("/topic/news", "y", durable="true")
    assert last.bodies() == [b"c", b"d"]


@pytest.mark.parametrize("name", NAMES)
def test_every_header_that_names_a_durable_subscription_makes_it_durable_and_ends_it(
    stomp: StompDesk, name: str
) -> None:
    said = {name.replace("-", "_"): "orders"}
    ann = stomp.connect("ANN", client_id="PC1")
    ann.subscribe("/topic/news", "1", **said)
    ann.vanish()
    publish(stomp, b"a")
    again = stomp.connect("ANN", client_id="PC1")
    again.subscribe("/topic/news", "2", **named("orders"))
    assert again.bodies() == [b"a"]
    again.take("UNSUBSCRIBE", id="2", **said)
    publish(stomp, b"b")
    again.subscribe("/topic/news", "2", **said)
    assert again.bodies() == []


def test_a_named_one_belongs_to_the_user_and_the_token_with_its_name(stomp: StompDesk) -> None:
    ann = stomp.connect("ANN", client_id="PC1")
    ann.subscribe("/topic/news", "1", **named("orders"))
    ((_, value),) = stomp.desk.paper.records(SUBSCRIPTIONS)
    kept = SUBSCRIPTION.decode(value)
    assert (kept.user, kept.token) == ("ANN", "PC1/orders")


def test_both_are_acknowledged_in_one_commit_with_what_is_sent(stomp: StompDesk) -> None:
    ann = stomp.connect("ANN", client_id="PC1")
    ann.subscribe("/topic/news", "1", "client-individual", durable="true")
    ann.subscribe("/topic/news", "2", "client-individual", **named("orders"))
    publish(stomp, b"a", b"b")
    messages = [each for each in ann.messages() if each.body == b"a"]
    ann.take("BEGIN", transaction="t")
    for message in messages:
        ann.ack(message, transaction="t")
    ann.send("/queue/done", transaction="t")
    commits = len(stomp.desk.paper.commits)
    ann.take("COMMIT", transaction="t", receipt="c")
    assert ann.receipts() == ["c"]
    done = stomp.desk.paper.commits[commits]
    assert len([put for put in done.puts if put.key.startswith(SUBSCRIPTIONS)]) == 2
    assert len(done.adds) == 1, "all of it at once"

    late = StompDesk(stomp.desk.restart()).connect("ANN", client_id="PC1")
    late.subscribe("/topic/news", "1", "client", durable="true")
    late.subscribe("/topic/news", "2", "client", **named("orders"))
    assert by_subscription(late) == {"1": [b"b"], "2": [b"b"]}


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ({"id": "1"}, {"id": "1"}, "there is a subscription '1' already"),
        ({"id": "1", "durable": "true"}, {"id": "2", "durable": "true"}, "name another one durable-subscription-name"),
        (
            {"id": "1", "durable-subscription-name": "a"},
            {"id": "2", "activemq.subscriptionName": "a"},
            "has that durable subscription to /topic/news already",
        ),
        ({"id": "1"}, {"id": "2", "durable-subscription-name": "x" * 40}, "at most 32 bytes"),
        ({"id": "1"}, {"id": "2", "durable-subscription-name": "a\tb"}, "is not text"),
    ],
)
def test_one_that_there_is_already_is_refused(
    stomp: StompDesk, first: dict[str, str], second: dict[str, str], says: str
) -> None:
    assert FIELDS["TOKEN"].width == 32
    ann = stomp.connect("ANN")
    for said in (first, second):
        ann.take("SUBSCRIBE", destination="/topic/news", **said)
    assert says in ann.error()


def test_a_name_goes_with_a_topic(stomp: StompDesk) -> None:
    ann = stomp.connect("ANN")
    ann.subscribe("/queue/a", "1", **named("orders"))
    assert "durable goes with a topic" in ann.error()


@pytest.mark.parametrize("token", [{}, {"client_id": "PC1"}])
@pytest.mark.parametrize("goes", [False, True])
def test_all_end_with_their_connection(stomp: StompDesk, token: dict[str, str], *, goes: bool) -> None:
    ann = stomp.connect("ANN", **token)
    for id_ in "123":
        ann.subscribe("/topic/news", id_, "client")
    publish(stomp, b"a")
    if goes:
        ann.vanish()
    else:
        ann = stomp.connect("ANN", client_id="PC1")  # in its place, where it has a token
    publish(stomp, b"b")
    assert len(every(stomp.desk.kernel.world, "SUBSCRIBER")) == (0 if goes or token else 3)
