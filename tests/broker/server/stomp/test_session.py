"""A STOMP connection as values: frames in, frames out, against the kernel and a store on paper."""

from typing import Any

import pytest

from oms_journal.broker.block import Function, Option
from oms_journal.broker.codes import Code
from oms_journal.broker.records import Status
from oms_journal.broker.server.stomp.frames import V10, V11, V12, VERSIONS, Frame
from tests.support.broker.kernel_desk import Desk, Person, attributes
from tests.support.servers.stomp_desk import Connection, StompDesk, fields_of, waiting


@pytest.fixture
def stomp() -> StompDesk:
    return StompDesk()


# CONNECT.


@pytest.mark.parametrize(
    ("accepted", "version"),
    [(None, V10), ("1.0", V10), ("1.1", V11), ("1.0,1.1", V11), ("1.0, 1.2 ,1.1", V12), ("1.2,2.0", V12)],
)
def test_the_best_version_that_both_know_is_spoken(stomp: StompDesk, accepted: str | None, version: str) -> None:
    client = Connection(stomp)
    client.take("CONNECT", **({} if accepted is None else {"accept_version": accepted}))

    assert fields_of(client.heard[0], "version", "heart-beat") == [version, "100,100"]


def test_a_version_nobody_knows_is_refused_with_those_that_are(stomp: StompDesk) -> None:
    client = Connection(stomp)
    client.take("CONNECT", accept_version="3.0")

    assert client.error().startswith("00200208")
    assert client.heard[0].headers["version"] == "1.0,1.1,1.2"


def test_nothing_can_be_said_before_connect_and_connect_only_once(stomp: StompDesk) -> None:
    early, twice = Connection(stomp), stomp.connect()
    early.send("/queue/a")
    twice.take("CONNECT")

    assert early.error() == "00200134 LOGON required: CONNECT comes first"
    assert twice.error().startswith("00200182")


@pytest.mark.parametrize(
    ("said", "agreed"), [("0,0", (0, 0)), ("500,1000", (1000, 500)), ("20,0", (0, 100)), ("0,1", (100, 0))]
)
def test_heart_beats_are_agreed_upon(stomp: StompDesk, said: str, agreed: tuple[int, int]) -> None:
    assert stomp.connect(heart_beat=said).session.heart_beats == agreed


@pytest.mark.parametrize("said", ["1", "a,b", "-1,2", "1,2,3", "99999999999,1"])
def test_heart_beats_that_are_none_are_refused(stomp: StompDesk, said: str) -> None:
    client = Connection(stomp)
    client.take("CONNECT", heart_beat=said)

    assert client.error().startswith("00200311")


def test_who_connects_is_a_user_of_the_broker(stomp: StompDesk) -> None:
    stomp.connect("BOB", token="PC1")
    stomp.connect("EVE", client_id="PC2")
    stomp.connect("DAN", client_id="PC3", token="PC4")
    stomp.connect("")

    names = stomp.desk.kernel.world.participants
    assert [name[:2] for name in names] == [("BOB", "PC1"), ("EVE", "PC2"), ("DAN", "PC4"), ("ANONYMOUS", "")]


def test_a_second_connection_of_one_identity_takes_it_over(stomp: StompDesk) -> None:
    first, second = stomp.connect("BOB", token="PC1"), stomp.connect("BOB", token="PC1")
    first.send("/queue/a")
    second.send("/queue/a", receipt="1")

    assert first.error().startswith("01960196")
    assert second.receipts() == ["1"]


def test_who_was_silent_too_long_is_logged_on_again_with_its_next_frame() -> None:
    stomp = StompDesk(Desk(attributes(client_nonact="10S")))
    client = stomp.connect()
    stomp.desk.tick(11)
    client.begin("SEND", b"1", destination="/queue/a", receipt="1")
    client.begin("SEND", b"2", destination="/queue/a", receipt="2")
    stomp.turn()

    assert client.receipts() == ["1", "2"]


# SEND.


def test_a_message_is_a_unit_of_work_that_ends_its_conversation(stomp: StompDesk) -> None:
    client = stomp.connect()
    client.send("/queue/moves", b"e4", receipt="7")
    (record,) = stomp.desk.paper.uows().values()
    server = Person(stomp.desk, "SERVER", caller=2)
    where: dict[str, Any] = {"server_class": "QUEUE", "server_name": "moves", "service": "-"}
    server.call(Function.REGISTER, **where)
    received = server.call(Function.RECEIVE, Option.SYNC, conv_id="NEW", **where)

    assert fields_of(client.heard[0], "receipt-id", "uow-id", "conversation") == ["7", record.uowid, record.conv_id]
    assert received.body == b"e4"
    assert server.sync(Option.COMMIT, received.uowid).code is Code.OK
    assert stomp.desk.kernel.world.conversations == {}, "none stays open"
    assert stomp.desk.paper.messages == {}


def test_a_receipt_is_said_once_the_message_is_durable_and_not_before(stomp: StompDesk) -> None:
    client = stomp.connect()
    stomp.desk.is_slow = True
    for number in range(3):
        client.send("/queue/a", receipt=str(number))
    assert client.receipts() == []
    assert len(stomp.desk.commits) == 3, "they are on their way together"

    stomp.desk.settle(1)
    stomp.turn()
    assert client.receipts() == ["0"]
    stomp.desk.settle()
    stomp.turn()
    assert client.receipts() == ["1", "2"]


def test_what_the_store_refuses_is_told_with_its_code(stomp: StompDesk) -> None:
    client = stomp.connect()
    stomp.desk.is_slow = True
    client.send("/queue/a", receipt="1")
    stomp.desk.fail()
    stomp.turn()

    assert client.error().startswith("00780388")
    assert client.heard[0].headers["receipt-id"] == "1"
    assert b"of the frame SEND to /queue/a" in client.heard[0].body


def test_headers_say_how_the_unit_is_kept(stomp: StompDesk) -> None:
    client = stomp.connect()
    client.send("/queue/a", persistent="false")
    assert stomp.desk.paper.uows() == {}

    client.send("/queue/a", lifetime="5M", user_status="HOT", status_lifetimes="3", producer_id="P1")
    (record,) = stomp.desk.paper.uows().values()
    assert (record.lifetime, record.ustatus, record.uwstatp, record.producer) == (300, "HOT", 3, "P1")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"persistent": "maybe"}, "00200229"),
        ({"lifetime": "soon"}, "00200311"),
        ({"status_lifetimes": "999"}, "00200312"),
        ({"user_status": "x" * 33}, "00200312"),
        ({"producer_id": "x" * 256}, "00200312"),
        ({"transaction": "none"}, "00780305"),
        ({"property": "x" * 62_000}, "00200218"),
    ],
)
def test_headers_that_cannot_be_meant_are_refused(stomp: StompDesk, headers: dict[str, str], code: str) -> None:
    client = stomp.connect()
    said: dict[str, Any] = {name: value[:16_000] for name, value in headers.items()} | _more(headers)
    client.send("/queue/a", **said)

    assert client.error().startswith(code)


def _more(headers: dict[str, str]) -> dict[str, str]:
    """Return as many headers as a long value needs."""
    long = headers.get("property", "")
    return {f"property{at}": long[at : at + 16_000] for at in range(16_000, len(long), 16_000)}


@pytest.mark.parametrize(
    "destination",
    ["", "queue", "/queue/", "/queue", "/nothing/a", "/service/a/b", "/service/a//b", "/temp/a", "/topic/"],
)
def test_a_destination_that_is_none_is_refused(stomp: StompDesk, destination: str) -> None:
    client = stomp.connect()
    client.send(destination)

    assert client.error().startswith("00200183")


def test_a_repeat_with_a_producers_identifier_adds_nothing(stomp: StompDesk) -> None:
    client = stomp.connect("BOB", token="PC1")
    client.send("/queue/a", producer_id="P1", receipt="1")
    client.send("/queue/a", producer_id="P1", receipt="2")

    first, second = client.heard
    assert first.headers["uow-id"] == second.headers["uow-id"]
    assert len(stomp.desk.paper.messages) == 1


# MESSAGE.


@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_tells_where_it_is_from_and_what_it_belongs_to(stomp: StompDesk, version: str) -> None:
    sender, receiver = stomp.connect("BOB"), stomp.connect("EVE", version=version)
    sender.send("/service/GAME/CHESS/BLACK", b"e4", user_status="HOT", content_type="text/plain", colour="white")
    receiver.subscribe("/service/GAME/CHESS/BLACK", "7", "client")

    (message,) = receiver.messages()
    assert message.body == b"e4"
    assert fields_of(message, "subscription", "destination") == ["7", "/service/GAME/CHESS/BLACK"]
    assert fields_of(message, "uow-status", "delivery-count", "user-status") == ["RECV_ONLY", "0", "HOT"]
    assert fields_of(message, "user-id", "content-type", "colour") == ["BOB", "text/plain", "white"]
    assert ("ack" in message.headers) == (version == V12)
    receiver.ack(message)
    assert stomp.desk.paper.messages == {}


def test_what_the_broker_says_itself_no_property_says(stomp: StompDesk) -> None:
    sender, receiver = stomp.connect(), stomp.connect()
    sender.send("/queue/a", uow_id="mine", subscription="mine", ack="mine", redelivered="true", message_id="mine")
    receiver.subscribe("/queue/a", "s", "client")

    (message,) = receiver.messages()
    assert "mine" not in message.headers.values()
    assert "redelivered" not in message.headers


def test_a_header_that_1_0_cannot_say_is_left_out(stomp: StompDesk) -> None:
    sender, receiver = stomp.connect(), stomp.connect(version=V10)
    sender.take("SEND", b"e4", destination="/queue/a", lines="one\ntwo", other="there")
    receiver.subscribe("/queue/a")

    (message,) = receiver.messages()
    assert fields_of(message, "lines", "other") == [None, "there"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["odd\0", "odd"])
def test_a_header_that_no_version_can_say_is_left_out(stomp: StompDesk, name: str, version: str) -> None:
    """Or who receives the message would lose the connection, and the next one who does too."""
    sender, receiver = stomp.connect(), stomp.connect(version=version)
    sender.session.take(Frame("SEND", {"destination": "/queue/a", "other": "there", name: "\0value"}, b"e4"))
    stomp.turn()
    receiver.subscribe("/queue/a")

    (message,) = receiver.messages()
    assert fields_of(message, name, "other") == [None, "there"]


# Acknowledging.


def sent(stomp: StompDesk, count: int, destination: str = "/queue/a") -> None:
    sender = stomp.connect("SENDER")
    for number in range(count):
        sender.send(destination, b"%d" % number)


def test_auto_commits_what_was_written_and_nothing_that_was_not(stomp: StompDesk) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a")
    receiver.is_writable = False
    sent(stomp, 3)
    assert len(stomp.desk.paper.messages) == 3

    receiver.read()
    assert receiver.bodies() == [b"0", b"1", b"2"]
    assert stomp.desk.paper.messages == {}


def test_a_subscriber_that_does_not_read_gets_nothing_more(stomp: StompDesk) -> None:
    receiver, other = stomp.connect(), stomp.connect()
    receiver.subscribe("/queue/a")
    receiver.is_writable = False
    sent(stomp, 5)
    other.subscribe("/queue/a")

    assert other.bodies() == [b"1", b"2", b"3", b"4"]


def test_client_is_cumulative(stomp: StompDesk) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", ack="client")
    sent(stomp, 4)
    messages = receiver.messages()

    receiver.ack(messages[2], receipt="r")
    assert receiver.receipts() == ["r"]
    assert len(stomp.desk.paper.messages) == 1
    receiver.vanish()
    other = stomp.connect()
    other.subscribe("/queue/a")
    assert other.bodies() == [b"3"]


def test_client_individual_is_not(stomp: StompDesk) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", ack="client-individual")
    sent(stomp, 3)
    messages = receiver.messages()

    receiver.ack(messages[2])
    receiver.ack(messages[0])
    receiver.vanish()
    other = stomp.connect()
    other.subscribe("/queue/a")
    assert other.bodies() == [b"1"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_second_ack_of_a_message_says_nothing_new(stomp: StompDesk, version: str) -> None:
    receiver = stomp.connect(version=version)
    receiver.subscribe("/queue/a", ack="client")
    sent(stomp, 1)
    (message,) = receiver.messages()

    receiver.ack(message, receipt="1")
    receiver.ack(message, receipt="2")
    assert receiver.receipts() == ["1", "2"]


@pytest.mark.parametrize("id_", ["", "x", "1", "0", "-5", "1000000100000001-1", "1000000100000001-"])
def test_an_ack_of_what_never_went_out_is_refused(stomp: StompDesk, id_: str) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", ack="client")
    receiver.take("ACK", id=id_)

    assert receiver.error()[:8] in ("00780305", "00200188")


def test_an_ack_that_fails_is_told_of_and_nothing_is_lost(stomp: StompDesk) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", ack="client")
    sent(stomp, 1)
    (message,) = receiver.messages()
    stomp.desk.is_slow = True
    receiver.ack(message, receipt="1")
    stomp.desk.fail(is_store_lost=False, is_refused=True)
    stomp.desk.is_slow = False
    stomp.turn()

    assert receiver.error().startswith("00780")
    assert receiver.receipts() == []
    other = stomp.connect()
    other.subscribe("/queue/a")
    assert other.bodies() == [b"0"]


def test_prefetch_count_bounds_what_is_in_flight(stomp: StompDesk) -> None:
    receiver, other = stomp.connect(), stomp.connect()
    receiver.subscribe("/queue/a", ack="client-individual", prefetch_count="2")
    sent(stomp, 5)
    first, second = receiver.messages()
    other.subscribe("/queue/a")
    assert other.bodies() == [b"2", b"3", b"4"]

    sent(stomp, 1, "/queue/a")
    receiver.ack(first)
    receiver.ack(second)
    assert stomp.desk.paper.messages == {}


def test_each_of_two_subscriptions_of_a_connection_gets_its_share(stomp: StompDesk) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", "one", "client")
    receiver.subscribe("/queue/a", "two", "client")
    sent(stomp, 4)

    assert [message.headers["subscription"] for message in receiver.messages()] == ["one", "two", "one", "two"]


# Units of work of several messages.


def unit_of(stomp: StompDesk, count: int, destination: str = "/queue/a") -> None:
    sender = stomp.connect("SENDER")
    sender.take("BEGIN", transaction="t")
    for number in range(count):
        sender.send(destination, b"%d" % number, transaction="t")
    sender.take("COMMIT", transaction="t", receipt="done")
    assert sender.receipts() == ["done"]


@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_the_ack_of_the_last_message_commits_the_unit(stomp: StompDesk, ack: str) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", ack=ack)
    unit_of(stomp, 3)
    messages = receiver.messages()
    assert [message.headers["uow-status"] for message in messages] == ["RECV_FIRST", "RECV_MIDDLE", "RECV_LAST"]
    assert len({message.headers["uow-id"] for message in messages}) == 1

    receiver.ack(messages[0])
    receiver.ack(messages[1])
    assert len(stomp.desk.paper.messages) == 3
    receiver.ack(messages[2])
    assert stomp.desk.paper.messages == {}


def test_a_unit_that_was_begun_is_handed_out_to_its_end_whatever_the_prefetch_count(stomp: StompDesk) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", ack="client", prefetch_count="1")
    unit_of(stomp, 3)
    unit_of(stomp, 2)

    messages = receiver.messages()
    assert len(messages) == 3
    receiver.ack(messages[-1])
    assert len(receiver.messages()) == 2


def test_a_unit_goes_to_one_subscription_as_a_whole(stomp: StompDesk) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", "one")
    receiver.subscribe("/queue/a", "two")
    unit_of(stomp, 3)
    unit_of(stomp, 2)

    assert [each.headers["subscription"] for each in receiver.messages()] == ["one", "one", "one", "two", "two"]


# NACK.


def test_a_nack_gives_the_unit_back_at_once_and_then_after_a_delay_that_grows(stomp: StompDesk) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", ack="client-individual")
    unit_of(stomp, 2)
    for count, delay in enumerate([0, 0.1, 0.2, 0.4, 0.8]):
        first, _ = receiver.messages()
        assert first.headers["delivery-count"] == str(count)
        assert ("redelivered" in first.headers) == (count > 0)
        receiver.nack(first, receipt="n")
        assert receiver.receipts() == ["n"]
        if delay:
            stomp.wait(delay - 0.001)
            assert receiver.messages() == []
            stomp.wait(0.001)
    assert len(receiver.messages()) == 2 and stomp.timers == [], "the broker waits, and not the connection"


def refused(stomp: StompDesk, times: int) -> Connection:
    """Return a receiver that has refused the unit so often."""
    receiver = stomp.connect("EVE")
    receiver.subscribe("/queue/a", ack="client-individual")
    for _ in range(times):
        receiver.nack(receiver.messages()[0])
        stomp.wait(100)
    return receiver


@pytest.mark.parametrize("count", [1, 3])
def test_what_was_refused_too_often_is_a_dead_letter_as_a_whole(count: int) -> None:
    stomp = StompDesk(Desk(attributes(max_delivery_count="3")))
    unit_of(stomp, count)
    (uowid,) = stomp.desk.paper.uows()
    receiver = refused(stomp, 2)
    assert [each.headers["delivery-count"] for each in receiver.messages()] == ["2"] * count
    receiver.vanish()
    assert refused(stomp, 0).messages() == [], "a lost connection counts as well"

    looker = stomp.connect("LOOKER")
    looker.subscribe("/queue/DEAD-LETTER")
    messages = looker.messages()
    assert [each.body for each in messages] == [b"%d" % number for number in range(count)]
    assert fields_of(messages[0], "dead-letter-from", "dead-letter-uow") == ["/queue/a", uowid]
    assert fields_of(messages[0], "dead-letter-count", "dead-letter-user") == ["3", "SENDER"]
    assert stomp.desk.paper.messages == {}
    assert stomp.desk.kernel.world.conversations == {}


def test_a_dead_letter_is_moved_with_the_refusal_itself_and_in_the_same_commit() -> None:
    stomp = StompDesk(Desk(attributes(max_delivery_count="1")))
    unit_of(stomp, 2)
    receiver = stomp.connect("EVE")
    receiver.subscribe("/queue/a", ack="client-individual")
    stomp.desk.is_slow = True
    receiver.nack(receiver.messages()[0], receipt="n")
    (move,) = stomp.desk.commits
    assert [message.queue for message in move.changes.adds] == ["QUEUE/DEAD-LETTER/-"] * 2
    receiver.begin("UNSUBSCRIBE", id="s", receipt="u")
    stomp.desk.settle()
    stomp.turn()
    assert receiver.receipts() == ["n", "u"]
    bodies = sorted(message.payload for message in stomp.desk.paper.messages.values())
    assert bodies == [b"0", b"1"]
    again = StompDesk(stomp.desk.restart())
    looker = again.connect()
    looker.subscribe("/queue/DEAD-LETTER")
    assert looker.bodies() == [b"0", b"1"]


def test_others_go_on_while_a_unit_waits_for_its_redelivery(stomp: StompDesk) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", ack="client-individual", prefetch_count="1")
    sent(stomp, 3)
    for _ in range(2):
        (poison,) = receiver.messages()
        receiver.nack(poison)
    for expected in (b"1", b"2"):
        (message,) = receiver.messages()
        assert message.body == expected
        receiver.ack(message)
    stomp.wait(1)

    assert receiver.bodies() == [b"0"]


def test_nack_is_cumulative_where_ack_is(stomp: StompDesk) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", ack="client")
    sent(stomp, 3)
    messages = receiver.messages()
    receiver.nack(messages[1])
    stomp.wait(1)

    assert sorted(receiver.bodies()) == [b"0", b"1"]


def test_a_lost_connection_gives_back_what_it_had(stomp: StompDesk) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", ack="client")
    sent(stomp, 2)
    receiver.messages()
    receiver.vanish()
    other = stomp.connect()
    other.subscribe("/queue/a", ack="client")

    assert [(each.body, each.headers["delivery-count"]) for each in other.messages()] == [(b"0", "1"), (b"1", "0")]


def crashed(stomp: StompDesk, times: int, *, acks: int = 0, ack: str = "client-individual") -> list[list[bytes]]:
    """Let a consumer be lost so often, a minute apart; return what it had got each time."""
    got = []
    for _ in range(times):
        consumer = stomp.connect("EVE", token="T")
        consumer.subscribe("/queue/a", ack=ack)
        messages = consumer.messages()
        for message in messages[:acks]:
            consumer.ack(message)
        got.append([message.body for message in messages])
        consumer.vanish()
        stomp.wait(60)
    return got


def test_quick_reconnects_of_a_crashing_consumer_move_what_is_at_fault_and_not_its_prefetch(stomp: StompDesk) -> None:
    sent(stomp, 50)
    got = crashed(stomp, 11)

    assert [len(each) for each in got] == [50, 50, *[1] * 9], "after two losses in a row it gets one at a time"
    assert [each[0] for each in got] == [b"0"] * 10 + [b"1"]
    looker = stomp.connect()
    looker.subscribe("/queue/DEAD-LETTER")
    assert looker.bodies() == [b"0"]
    stomp.wait(60)
    assert waiting(stomp) == [b"%d" % number for number in range(1, 50)]


def test_who_acknowledges_something_gets_more_than_one_again(stomp: StompDesk) -> None:
    sent(stomp, 9)
    crashed(stomp, 2)
    consumer = stomp.connect("EVE", token="T")
    consumer.subscribe("/queue/a", ack="client-individual")
    (first,) = consumer.messages()
    consumer.nack(first)
    stomp.wait(60)
    (second,) = consumer.messages()
    consumer.ack(second)
    assert len(consumer.messages()) == 8
    other = stomp.connect("ANN")
    sent(stomp, 3)
    consumer.vanish()
    other.subscribe("/queue/a", ack="client-individual")
    stomp.wait(60)
    assert len(other.messages()) == 11, "others get what they asked for"


def test_losses_between_which_something_was_acknowledged_are_not_in_a_row(stomp: StompDesk) -> None:
    sent(stomp, 20)

    assert [len(each) for each in crashed(stomp, 5, acks=1)] == [20, 19, 18, 17, 16]


def test_unsubscribing_again_and_again_moves_nothing_that_was_only_prefetched(stomp: StompDesk) -> None:
    sent(stomp, 5)
    receiver = stomp.connect()
    for _ in range(9):
        receiver.subscribe("/queue/a", ack="client")
        assert len(receiver.messages()) == 5
        receiver.take("UNSUBSCRIBE", id="s")
        stomp.wait(60)
    receiver.subscribe("/queue/a", ack="client")
    assert [message.headers["delivery-count"] for message in receiver.messages()] == ["9", "0", "0", "0", "0"]


def test_an_unsubscribe_that_leaves_another_counts_for_the_first_alone_as_a_lost_connection(stomp: StompDesk) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", "one", "client", prefetch_count="3")
    sent(stomp, 3)
    assert len(receiver.messages()) == 3
    receiver.subscribe("/queue/a", "two", "client")
    receiver.take("UNSUBSCRIBE", id="one")
    stomp.wait(60)

    again = sorted((each.body, each.headers["delivery-count"]) for each in receiver.messages())
    assert again == [(b"0", "1"), (b"1", "0"), (b"2", "0")]


def test_an_unsubscribe_from_a_durable_subscription_counts_for_the_first_alone(stomp: StompDesk) -> None:
    receiver, sender = stomp.connect(token="T"), stomp.connect("SENDER")
    for time in range(3):
        receiver.subscribe("/topic/a", "one", "client", durable="true")
        if time == 0:
            for number in range(3):
                sender.send("/topic/a", b"%d" % number)
        got = receiver.bodies()
        receiver.take("UNSUBSCRIBE", id="one")
    assert got == [b"1", b"2"], "what was given back twice comes a little later"


def test_two_subscriptions_of_a_connection_to_one_destination_are_lost_as_one(stomp: StompDesk) -> None:
    """One program has both: which of the two firsts was at fault shows when it gets one at a time."""
    sent(stomp, 6)
    done: list[bytes] = []
    for _ in range(40):
        consumer = stomp.connect("EVE", token="T")
        consumer.subscribe("/queue/a", "one", "client-individual")
        consumer.subscribe("/queue/a", "two", "client-individual")
        while (messages := consumer.messages()) and b"1" not in (each.body for each in messages):
            for message in messages:
                done.append(message.body)
                consumer.ack(message)
        consumer.vanish()  # whatever it has got with it, b"1" is what it cannot survive
        stomp.wait(60)
    looker = stomp.connect("LOOKER")
    looker.subscribe("/queue/DEAD-LETTER")

    assert looker.bodies() == [b"1"]
    assert sorted(done) == [b"0", b"2", b"3", b"4", b"5"]


def test_one_of_two_that_unsubscribes_again_and_again_moves_nothing_that_was_only_prefetched(
    stomp: StompDesk,
) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", "other", "client", prefetch_count="1")
    sent(stomp, 5)
    assert receiver.bodies() == [b"0"]
    for _ in range(9):
        receiver.subscribe("/queue/a", "s", "client")
        assert len(receiver.messages()) == 4
        receiver.take("UNSUBSCRIBE", id="s")
        stomp.wait(60)
    receiver.subscribe("/queue/a", "s", "client")
    assert [message.headers["delivery-count"] for message in receiver.messages()] == ["9", "0", "0", "0"]


# UNSUBSCRIBE and DISCONNECT.


def test_unsubscribe_gives_back_what_is_in_flight(stomp: StompDesk) -> None:
    receiver, other = stomp.connect(), stomp.connect()
    receiver.subscribe("/queue/a", ack="client")
    sent(stomp, 2)
    receiver.messages()
    receiver.take("UNSUBSCRIBE", id="s", receipt="u")
    other.subscribe("/queue/a")

    assert receiver.receipts() == ["u"]
    assert sorted(other.bodies()) == [b"0", b"1"]
    sent(stomp, 1)
    assert receiver.messages() == []


def test_unsubscribe_of_one_of_two_leaves_the_other(stomp: StompDesk) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", "one", "client")
    receiver.subscribe("/queue/a", "two", "client")
    sent(stomp, 2)
    receiver.messages()
    receiver.take("UNSUBSCRIBE", id="one")

    assert [(each.body, each.headers["subscription"]) for each in receiver.messages()] == [(b"0", "two")]


@pytest.mark.parametrize("version", VERSIONS)
def test_unsubscribe_of_what_is_not_subscribed_is_refused(stomp: StompDesk, version: str) -> None:
    receiver = stomp.connect(version=version)
    receiver.take("UNSUBSCRIBE", id="s", destination="/queue/a")

    assert receiver.error().startswith("00780305")


def test_1_0_knows_a_subscription_by_its_destination(stomp: StompDesk) -> None:
    receiver = stomp.connect(version=V10)
    receiver.take("SUBSCRIBE", destination="/queue/a")
    sent(stomp, 1)
    assert [each.headers["subscription"] for each in receiver.messages()] == ["/queue/a"]

    receiver.take("UNSUBSCRIBE", destination="/queue/a", receipt="u")
    assert receiver.receipts() == ["u"]


@pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
def test_a_client_that_begins_to_read_after_its_disconnect_receives_nothing_more_and_gets_its_receipt(
    stomp: StompDesk, ack: str
) -> None:
    client = stomp.connect()
    client.take("SUBSCRIBE", destination="/queue/a", id="1", ack=ack)
    sender = stomp.connect("BOB")
    sender.send("/queue/a")
    client.is_writable = False
    sender.send("/queue/a")
    stomp.desk.is_slow = True
    client.begin("DISCONNECT", receipt="bye")
    client.is_writable = True
    stomp.turn()
    assert [asked.request.function for asked in stomp.open] == [Function.LOGOFF]
    stomp.desk.is_slow = False
    stomp.desk.settle()
    stomp.turn()

    assert [frame.command for frame in client.heard if frame.command != "MESSAGE"] == ["RECEIPT"]


def test_disconnect_is_answered_once_all_before_it_is_durable(stomp: StompDesk) -> None:
    client = stomp.connect()
    stomp.desk.is_slow = True
    client.begin("SEND", destination="/queue/a", receipt="1")
    client.begin("DISCONNECT", receipt="bye")
    client.begin("SEND", destination="/queue/a", receipt="too late")
    stomp.turn()
    assert client.receipts() == []

    stomp.desk.is_slow = False
    stomp.desk.settle()
    stomp.turn()
    assert client.receipts() == ["1", "bye"]
    assert client.is_closed
    assert len(stomp.desk.paper.messages) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"destination": "/queue/a"},
        {"id": "s"},
        {"destination": "/queue/a", "id": "s", "ack": "never"},
        {"destination": "/queue/a", "id": "s", "prefetch_count": "0"},
        {"destination": "/queue/a", "id": "s", "prefetch_count": "many"},
        {"destination": "/queue/a", "id": "s", "durable": "true"},
        {"destination": "/queue/*", "id": "s"},
        {"destination": "/queue/" + "x" * 65, "id": "s"},
    ],
)
def test_a_subscription_that_cannot_be_meant_is_refused(stomp: StompDesk, headers: dict[str, str]) -> None:
    receiver = stomp.connect()
    receiver.take("SUBSCRIBE", **headers)

    assert receiver.error().startswith("0020")


def test_two_subscriptions_have_two_ids(stomp: StompDesk) -> None:
    receiver = stomp.connect()
    receiver.subscribe("/queue/a", "s")
    receiver.subscribe("/queue/b", "s")

    assert receiver.error().startswith("00200188")


def test_frames_behind_a_subscription_wait_for_it(stomp: StompDesk) -> None:
    client = stomp.connect("BOB", token="PC1")
    stomp.desk.is_slow = True
    client.begin("SUBSCRIBE", destination="/topic/news", id="s", durable="true", receipt="s")
    for number in range(3):
        client.begin("SEND", b"%d" % number, destination="/topic/news")
    stomp.turn()
    assert client.heard == []
    stomp.desk.is_slow = False
    stomp.desk.settle()
    stomp.turn()

    assert client.bodies() == [b"0", b"1", b"2"]


def test_a_status_is_what_the_sender_can_ask_for(stomp: StompDesk) -> None:
    sender, receiver = stomp.connect("BOB", token="PC1"), stomp.connect()
    sender.send("/queue/a", status_lifetimes="1", lifetime="1H", receipt="1")
    uowid = sender.heard[0].headers["uow-id"]
    receiver.subscribe("/queue/a")
    receiver.messages()

    person = Person(stomp.desk, "BOB", "PC1")
    assert person.sync(Option.QUERY, uowid).status is Status.PROCESSED
