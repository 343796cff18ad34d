"""STOMP transactions, topics and answers as values: against the kernel and a store on paper."""

import pytest

from oms_journal.broker.server.runtime.limits import StompLimits
from tests.support.broker.kernel_desk import Desk
from tests.support.servers.stomp_desk import Connection, StompDesk, waiting


@pytest.fixture
def stomp() -> StompDesk:
    return StompDesk()


def begun(stomp: StompDesk, login: str = "BOB", **headers: str) -> Connection:
    client = stomp.connect(login, **headers)
    client.take("BEGIN", transaction="t")
    return client


# What is sent.


def test_nothing_of_a_transaction_is_there_before_its_commit_and_then_all_of_it(stomp: StompDesk) -> None:
    client = begun(stomp)
    for destination in ("/queue/a", "/queue/b", "/queue/a"):
        client.send(destination, destination.encode(), transaction="t")
    assert waiting(stomp) == waiting(stomp, "/queue/b") == []
    assert stomp.desk.paper.commits == []

    client.take("COMMIT", transaction="t", receipt="c")
    assert client.receipts() == ["c"]
    assert len(stomp.desk.paper.commits) == 1, "one commit of the store"
    assert len(stomp.desk.paper.uows()) == 2, "one unit of work for each destination"
    assert waiting(stomp) == [b"/queue/a"] * 2
    assert waiting(stomp, "/queue/b") == [b"/queue/b"]


def _resent(client: Connection, sends: list[tuple[str, bytes]], receipt: str) -> None:
    for destination, body in sends:
        client.send(destination, body, transaction="t", producer_id="order-1")
    client.take("COMMIT", transaction="t", receipt=receipt)


@pytest.mark.parametrize("fate", ["waits", "received", "restart", "received, restart", "another connection"])
@pytest.mark.parametrize("destinations", [["/queue/a"], ["/queue/b", "/queue/a"]])
def test_a_transaction_with_a_producers_identifier_is_a_repeat_as_a_whole(
    stomp: StompDesk, fate: str, destinations: list[str]
) -> None:
    sends = [(destination, body) for body in (b"head", b"line 1") for destination in destinations]
    client = begun(stomp)
    _resent(client, sends, "first")
    if "received" in fate:
        for destination in destinations:
            reader = stomp.connect("EVE")
            reader.subscribe(destination)
            assert reader.bodies() == [b"head", b"line 1"]
            reader.vanish()
    before = dict(stomp.desk.paper.messages)
    if "restart" in fate:
        stomp = StompDesk(stomp.desk.restart())
    if fate in ("waits", "received"):
        client.take("BEGIN", transaction="t")
    else:
        client = begun(stomp)
    _resent(client, sends, "second")
    assert client.receipts()[-1] == "second"
    assert stomp.desk.paper.messages == before
    assert stomp.desk.kernel.world.active_count == (0 if "received" in fate else len(destinations))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_transaction_with_other_content_gets_an_error_and_adds_nothing(stomp: StompDesk, restarts: bool) -> None:
    _resent(begun(stomp), [("/queue/a", b"head"), ("/queue/a", b"line 1")], "first")
    if restarts:
        stomp = StompDesk(stomp.desk.restart())
    client = begun(stomp)
    _resent(client, [("/queue/a", b"head"), ("/queue/a", b"line 2")], "second")
    assert client.error().startswith("00209001")
    assert waiting(stomp) == [b"head", b"line 1"]
    assert not stomp.desk.logs


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("received", ["/queue/a", "/queue/b"])
def test_a_transaction_of_which_a_part_was_received_may_be_sent_again_and_again(
    stomp: StompDesk, restarts: bool, received: str
) -> None:
    sends = [("/queue/a", b"head"), ("/queue/b", b"line 1")]
    _resent(begun(stomp), sends, "first")
    reader = stomp.connect("EVE")
    reader.subscribe(received)
    assert len(reader.bodies()) == 1
    reader.vanish()
    before = dict(stomp.desk.paper.messages)
    if restarts:
        stomp = StompDesk(stomp.desk.restart())
    for receipt in ("second", "third"):
        client = begun(stomp)
        _resent(client, sends, receipt)
        assert client.receipts() == [receipt]
        assert stomp.desk.paper.messages == before


@pytest.mark.parametrize(("first", "again"), [("ab", "a"), ("ab", "b"), ("a", "ab"), ("a", "ba"), ("ab", "ac")])
@pytest.mark.parametrize("fate", ["waits", "received", "restart", "received, restart"])
def test_a_transaction_to_other_destinations_gets_an_error_and_adds_nothing(
    stomp: StompDesk, first: str, again: str, fate: str
) -> None:
    _resent(begun(stomp), [(f"/queue/{name}", b"x") for name in first], "first")
    for name in first if "received" in fate else "":
        reader = stomp.connect("EVE")
        reader.subscribe(f"/queue/{name}")
        assert reader.bodies() == [b"x"]
        reader.vanish()
    before = dict(stomp.desk.paper.messages)
    if "restart" in fate:
        stomp = StompDesk(stomp.desk.restart())
    client = begun(stomp)
    _resent(client, [(f"/queue/{name}", b"x") for name in again], "second")
    assert client.error().startswith("00209001")
    assert stomp.desk.paper.messages == before
    assert stomp.desk.kernel.world.active_count == (0 if "received" in fate else len(first))


def test_of_two_transactions_that_wait_for_each_other_the_later_one_gets_an_error(stomp: StompDesk) -> None:
    one, two = begun(stomp), begun(stomp)
    for client, destination in ((one, "a"), (two, "b"), (one, "b")):
        client.send(f"/queue/{destination}", b"x", transaction="t", producer_id="order-1")
    assert not one.heard and not two.heard
    two.send("/queue/a", b"x", transaction="t", producer_id="order-1")
    assert two.error().startswith("00780307")
    one.take("COMMIT", transaction="t", receipt="c")
    assert one.receipts() == ["c"]
    assert waiting(stomp) == waiting(stomp, "/queue/b") == [b"x"]


def test_what_was_aborted_never_was(stomp: StompDesk) -> None:
    client = begun(stomp)
    client.send("/queue/a", transaction="t")
    client.send("/topic/news", transaction="t")
    client.take("ABORT", transaction="t", receipt="a")

    assert client.receipts() == ["a"]
    assert waiting(stomp) == []
    assert stomp.desk.paper.commits == []
    assert stomp.desk.kernel.world.active == {}


def test_a_lost_connection_aborts(stomp: StompDesk) -> None:
    client = begun(stomp)
    client.send("/queue/a", transaction="t")
    client.vanish()

    assert waiting(stomp) == []
    assert stomp.desk.kernel.world.active == {}


def test_a_commit_that_fails_leaves_nothing_behind(stomp: StompDesk) -> None:
    receiver = begun(stomp)
    stomp.connect().send("/queue/in", b"in")
    receiver.subscribe("/queue/in", ack="client")
    (message,) = receiver.messages()
    receiver.ack(message, transaction="t")
    receiver.send("/queue/a", transaction="t")
    receiver.send("/queue/b", transaction="t")
    stomp.desk.is_slow = True
    receiver.take("COMMIT", transaction="t", receipt="c")
    assert len(stomp.desk.commits) == 1
    stomp.desk.fail(is_store_lost=False, is_refused=True)
    stomp.desk.is_slow = False
    stomp.desk.settle()
    stomp.turn()

    assert receiver.error().startswith("00780")
    assert receiver.receipts() == []
    assert waiting(stomp) == waiting(stomp, "/queue/b") == []
    assert waiting(stomp, "/queue/in") == [b"in"]


def test_transactions_have_names_of_their_own(stomp: StompDesk) -> None:
    client = begun(stomp)
    client.take("BEGIN", transaction="u")
    client.send("/queue/a", b"t", transaction="t")
    client.send("/queue/a", b"u", transaction="u")
    client.send("/queue/a", b"alone")
    client.take("ABORT", transaction="t")
    client.take("COMMIT", transaction="u")

    assert waiting(stomp) == [b"alone", b"u"]
    client.take("BEGIN", transaction="t", receipt="again")
    assert client.receipts() == ["again"]


@pytest.mark.parametrize("command", ["BEGIN", "COMMIT", "ABORT"])
@pytest.mark.parametrize("headers", [{}, {"transaction": "other"}])
def test_a_transaction_that_cannot_be_meant_is_refused(stomp: StompDesk, command: str, headers: dict[str, str]) -> None:
    client = begun(stomp)
    if command == "BEGIN" and headers:
        headers = {"transaction": "t"}
    client.take(command, **headers)

    assert client.error()[:8] in ("00200188", "00780305", "00780307")


def test_open_transactions_are_bounded_in_number_and_in_bytes() -> None:
    stomp = StompDesk(limits=StompLimits(transactions=2, transaction_bytes=100))
    many, much = begun(stomp), begun(stomp)
    many.take("BEGIN", transaction="u")
    many.take("BEGIN", transaction="v")
    much.send("/queue/a", b"x" * 60, transaction="t")
    much.send("/queue/a", b"x" * 60, transaction="t")

    assert many.error() == "02150128 Work queue full: at most 2 transactions at a time"
    assert much.error().startswith("00200218")
    assert stomp.desk.kernel.world.active == {}


def test_an_empty_transaction_is_committed(stomp: StompDesk) -> None:
    client = begun(stomp)
    client.take("COMMIT", transaction="t", receipt="c")

    assert client.receipts() == ["c"]


# What is acknowledged.


def test_acks_and_sends_are_one_commit(stomp: StompDesk) -> None:
    for number in range(3):
        stomp.connect().send("/queue/in", b"%d" % number)
    client = begun(stomp)
    client.subscribe("/queue/in", ack="client-individual")
    messages = client.messages()
    before = len(stomp.desk.paper.commits)
    for message in messages[:2]:
        client.ack(message, transaction="t")
    client.send("/queue/out", b"sum", transaction="t")
    assert len(stomp.desk.paper.commits) == before

    client.take("COMMIT", transaction="t", receipt="c")
    assert client.receipts() == ["c"]
    assert len(stomp.desk.paper.commits) == before + 1
    client.vanish()
    assert waiting(stomp, "/queue/in") == [b"2"]
    assert waiting(stomp, "/queue/out") == [b"sum"]


def test_after_an_abort_what_was_acknowledged_is_in_flight_again(stomp: StompDesk) -> None:
    stomp.connect().send("/queue/in", b"in")
    client = begun(stomp)
    client.subscribe("/queue/in", ack="client")
    (message,) = client.messages()
    client.ack(message, transaction="t")
    client.take("ABORT", transaction="t")
    assert client.messages() == [], "it is with the client still"
    client.ack(message, receipt="r")

    assert client.receipts() == ["r"]
    assert stomp.desk.paper.messages == {}


def test_a_nack_in_a_transaction_counts_with_its_commit(stomp: StompDesk) -> None:
    stomp.connect().send("/queue/in", b"in")
    client = begun(stomp)
    client.subscribe("/queue/in", ack="client")
    (message,) = client.messages()
    client.nack(message, transaction="t")
    stomp.wait(1)
    assert client.messages() == []
    client.take("COMMIT", transaction="t")
    stomp.wait(1)

    assert client.bodies() == [b"in"]


def test_what_was_acknowledged_makes_room_for_more_before_the_commit(stomp: StompDesk) -> None:
    for number in range(3):
        stomp.connect().send("/queue/in", b"%d" % number)
    client = begun(stomp)
    client.subscribe("/queue/in", ack="client", prefetch_count="1")
    for number in range(3):
        (message,) = client.messages()
        assert message.body == b"%d" % number
        client.ack(message, transaction="t")
    client.take("COMMIT", transaction="t")

    assert stomp.desk.paper.messages == {}


def test_nothing_of_a_transaction_happens_that_has_acknowledged_units_of_a_subscription_that_ended(
    stomp: StompDesk,
) -> None:
    stomp.connect().send("/queue/in", b"in")
    client = begun(stomp)
    client.subscribe("/queue/in", ack="client")
    (message,) = client.messages()
    client.ack(message, transaction="t")
    client.send("/queue/out", transaction="t")
    client.take("UNSUBSCRIBE", id="s")
    client.take("COMMIT", transaction="t", receipt="c")

    assert client.receipts() == []
    assert client.error().startswith("00780305")
    assert waiting(stomp, "/queue/in") == [b"in"]
    assert waiting(stomp, "/queue/out") == []


# Answers.


def test_an_answer_comes_back_to_where_it_is_wanted(stomp: StompDesk) -> None:
    client, server = stomp.connect("CLIENT"), stomp.connect("SERVER")
    server.subscribe("/queue/sums", ack="client")
    client.send("/queue/sums", b"1+1", reply_to="/temp/answers", correlation_id="77")
    (question,) = server.messages()
    assert question.headers["reply-to"] == f"/conversation/{question.headers['conversation']}"
    server.take("BEGIN", transaction="t")
    server.ack(question, transaction="t")
    server.send(question.headers["reply-to"], b"2", transaction="t")
    assert client.messages() == []
    commits = len(stomp.desk.paper.commits)
    server.take("COMMIT", transaction="t", receipt="c")

    assert server.receipts() == ["c"]
    (answer,) = client.messages()
    assert answer.body == b"2"
    assert answer.headers["subscription"] == "/temp/answers"
    assert answer.headers["correlation-id"] == "77"
    assert answer.headers["conversation"] == question.headers["conversation"]
    assert len(stomp.desk.paper.commits) == commits + 2, "COMMIT of BOTH, and that of the client who has read"
    assert stomp.desk.paper.messages == {}


def test_answers_go_to_a_subscription_if_there_is_one(stomp: StompDesk) -> None:
    client, server = stomp.connect("CLIENT"), stomp.connect("SERVER")
    client.subscribe("/temp/answers", "mine", "client")
    server.subscribe("/queue/sums", ack="client")
    client.send("/queue/sums", b"1+1", reply_to="/temp/answers")
    (question,) = server.messages()
    server.send(question.headers["reply-to"], b"2")

    (answer,) = client.messages()
    assert answer.headers["subscription"] == "mine"
    client.ack(answer, receipt="r")
    assert client.receipts() == ["r"]


def test_a_conversation_goes_on_as_long_as_both_want(stomp: StompDesk) -> None:
    client, server = stomp.connect("CLIENT"), stomp.connect("SERVER")
    server.subscribe("/queue/chess")
    client.send("/queue/chess", b"e4", reply_to="/temp/game")
    conversation = server.messages()[0].headers["reply-to"]
    for move in range(3):
        server.send(conversation, b"black %d" % move)
        (answer,) = client.messages()
        assert answer.body == b"black %d" % move
        client.send(f"/conversation/{answer.headers['conversation']}", b"white %d" % move)
        assert server.bodies() == [b"white %d" % move]


def test_a_transaction_waits_for_answers_from_its_commit_on(stomp: StompDesk) -> None:
    client, server = begun(stomp), stomp.connect("SERVER")
    server.subscribe("/queue/sums")
    client.send("/queue/sums", b"1+1", reply_to="/temp/answers", transaction="t")
    client.take("COMMIT", transaction="t")
    (question,) = server.messages()
    server.send(question.headers["reply-to"], b"2")

    assert client.bodies() == [b"2"]


def test_two_transactions_do_not_send_into_one_conversation(stomp: StompDesk) -> None:
    client, server = stomp.connect("CLIENT"), stomp.connect("SERVER")
    server.subscribe("/queue/chess")
    client.send("/queue/chess", reply_to="/temp/game")
    conversation = server.messages()[0].headers["reply-to"]
    server.take("BEGIN", transaction="t")
    server.send(conversation, transaction="t")
    server.send(conversation)

    assert server.error().startswith("00200505")


REPLIES = 3  # conversations whose answers are awaited


@pytest.fixture
def few() -> StompDesk:
    return StompDesk(limits=StompLimits(replies=REPLIES))


@pytest.mark.parametrize("is_in_transaction", [False, True])
def test_a_request_whose_answer_could_not_be_awaited_is_refused_and_not_sent(
    few: StompDesk, is_in_transaction: bool
) -> None:
    client = few.connect()
    for number in range(REPLIES):
        client.send("/queue/a", reply_to=f"/temp/{number}")
    last = {"transaction": "t"} if is_in_transaction else {}
    if is_in_transaction:
        client.take("BEGIN", transaction="t")
    client.send("/queue/a", b"one too many", reply_to="/temp/last", **last)

    assert client.error().startswith("02150128")
    assert len(few.desk.paper.messages) == REPLIES


def test_requests_that_are_sent_at_once_are_counted_before_they_are_answered(few: StompDesk) -> None:
    client = few.connect()
    for _ in range(REPLIES + 1):
        client.begin("SEND", b"x", destination="/queue/a", reply_to="/temp/a")
    few.turn()

    assert client.error().startswith("02150128")
    assert len(few.desk.paper.messages) <= REPLIES


@pytest.mark.parametrize("is_in_transaction", [False, True])
@pytest.mark.parametrize("ack", ["auto", "client"])
@pytest.mark.parametrize("unanswered", [0, 1, REPLIES - 1])
def test_any_number_of_requests_is_made_as_long_as_few_of_them_are_not_answered(
    few: StompDesk, ack: str, unanswered: int, is_in_transaction: bool
) -> None:
    client, server = few.connect("CLIENT"), few.connect("SERVER")
    client.subscribe("/temp/answers", "mine", ack)
    server.subscribe("/queue/sums")
    later = []
    for _ in range(unanswered):
        client.send("/queue/sums", b"later", reply_to="/temp/answers")
        later.append(server.messages()[0].headers["reply-to"])
    for number in range(5 * REPLIES):
        within = {"transaction": "t"} if is_in_transaction else {}
        if is_in_transaction:
            client.take("BEGIN", transaction="t")
        client.send("/queue/sums", b"%d" % number, reply_to="/temp/answers", **within)
        if is_in_transaction:
            client.take("COMMIT", transaction="t")
        (question,) = server.messages()
        server.send(question.headers["reply-to"], b"answer %d" % number)
        (answer,) = client.messages()
        assert answer.body == b"answer %d" % number
        if ack == "client":
            client.ack(answer)
    for conversation in later:
        server.send(conversation, b"at last")
        assert client.bodies() == [b"at last"]


def test_an_answer_that_is_not_acknowledged_counts_as_one_that_has_not_come(few: StompDesk) -> None:
    client, server = few.connect("CLIENT"), few.connect("SERVER")
    client.subscribe("/temp/answers", "mine", "client-individual")
    server.subscribe("/queue/sums")
    for _ in range(REPLIES):
        client.send("/queue/sums", reply_to="/temp/answers")
        server.send(server.messages()[0].headers["reply-to"], b"2")
    answers = client.messages()
    client.nack(answers[0])
    client.ack(answers[1])
    client.send("/queue/sums", reply_to="/temp/answers")
    assert not client.is_closed
    client.send("/queue/sums", reply_to="/temp/answers")

    assert client.error().startswith("02150128")


def test_a_conversation_whose_second_answer_is_not_acknowledged_is_awaited(few: StompDesk) -> None:
    client, server = few.connect("CLIENT"), few.connect("SERVER")
    client.subscribe("/temp/answers", "mine", "client-individual")
    server.subscribe("/queue/sums")
    conversations = []
    for _ in range(REPLIES):
        client.send("/queue/sums", reply_to="/temp/answers")
        conversations.append(server.messages()[0].headers["reply-to"])
        server.send(conversations[-1], b"first")
        client.ack(client.messages()[0])
    for conversation in conversations[:-1]:
        server.send(conversation, b"second")
    seconds = client.messages()
    client.send("/queue/sums", reply_to="/temp/answers")
    for each in seconds:
        client.nack(each)
    few.wait(1)
    assert client.bodies() == [b"second"] * (REPLIES - 1), "they are given back, and come again"


def test_the_conversation_whose_answer_came_first_is_awaited_no_longer_and_goes_on_all_the_same(few: StompDesk) -> None:
    client, server = few.connect("CLIENT"), few.connect("SERVER")
    server.subscribe("/queue/chess")
    games = []
    for _ in range(REPLIES):
        client.send("/queue/chess", b"e4", reply_to="/temp/game")
        games.append(server.messages()[0].headers["reply-to"])
    for game in (games[2], games[0], games[1]):
        server.send(game, b"e5")
    assert client.bodies() == [b"e5"] * REPLIES
    client.send(games[0], b"d4")  # it waits for an answer again
    assert server.bodies() == [b"d4"]
    client.send("/queue/chess", b"c4", reply_to="/temp/game")
    assert server.bodies() == [b"c4"]
    server.send(games[2], b"d5")
    assert client.bodies() == []
    for game in games[:2]:
        server.send(game, b"d5")
        assert client.bodies() == [b"d5"]
    client.subscribe(games[2], "again")
    assert client.bodies() == [b"d5"]


def test_an_aborted_transaction_awaits_no_answers(few: StompDesk) -> None:
    client = few.connect()
    for _ in range(3):
        client.take("BEGIN", transaction="t")
        for number in range(REPLIES):
            client.send("/queue/a", reply_to=f"/temp/{number}", transaction="t")
        client.take("ABORT", transaction="t")
    assert not client.is_closed
    for number in range(REPLIES):
        client.send("/queue/a", reply_to=f"/temp/{number}")
    assert not client.is_closed


# Topics.


def test_each_subscriber_gets_what_is_published(stomp: StompDesk) -> None:
    publisher, *subscribers = (stomp.connect(login) for login in ("PAUL", "ANN", "BEN"))
    for subscriber in subscribers:
        subscriber.subscribe("/topic/news")
    publisher.send("/topic/news", b"flash", receipt="p", kind="hot")

    assert publisher.receipts() == ["p"]
    for subscriber in subscribers:
        (message,) = subscriber.messages()
        assert (message.body, message.headers["destination"]) == (b"flash", "/topic/news")
        assert (message.headers["kind"], message.headers["uow-status"]) == ("hot", "RECV_ONLY")
    assert stomp.desk.paper.messages == {}


def test_a_durable_subscriber_goes_on_where_it_was(stomp: StompDesk) -> None:
    def subscriber() -> Connection:
        found = stomp.connect("ANN", client_id="PC1")
        found.subscribe("/topic/news", "n", "client", durable="true")
        return found

    publisher, ann = stomp.connect("PAUL"), subscriber()
    publisher.send("/topic/news", b"1")
    publisher.send("/topic/news", b"2")
    first, _ = ann.messages()
    ann.ack(first)
    ann.vanish()
    publisher.send("/topic/news", b"3")

    assert subscriber().bodies() == [b"2", b"3"]
    stomp.connections[-1].take("UNSUBSCRIBE", id="n", receipt="u")
    publisher.send("/topic/news", b"4")
    stomp.wait(1)
    again = subscriber()
    assert again.bodies() == [b"2", b"3", b"4"], "unsubscribing without durable:true is going away"
    again.take("UNSUBSCRIBE", id="n", durable="true")
    publisher.send("/topic/news", b"5")
    assert subscriber().bodies() == []


def test_publications_that_are_acknowledged_together_move_the_position_together(stomp: StompDesk) -> None:
    publisher, ann = stomp.connect("PAUL"), stomp.connect("ANN", token="PC1")
    ann.subscribe("/topic/news", "n", "client-individual", durable="true")
    for number in range(4):
        publisher.send("/topic/news", b"%d" % number)
    messages = ann.messages()
    ann.take("BEGIN", transaction="t")
    for message in (messages[2], messages[0]):
        ann.ack(message, transaction="t")
    ann.send("/queue/done", transaction="t")
    commits = len(stomp.desk.paper.commits)
    ann.take("COMMIT", transaction="t", receipt="c")
    assert ann.receipts() == ["c"]
    assert len(stomp.desk.paper.commits) == commits + 1

    again = StompDesk(stomp.desk.restart())
    late = again.connect("ANN", token="PC1")
    late.subscribe("/topic/news", "n", "client", durable="true")
    assert late.bodies() == [b"1", b"3"]


def test_publications_of_a_transaction_are_one_with_what_is_sent(stomp: StompDesk) -> None:
    client, subscriber = begun(stomp), stomp.connect("ANN")
    subscriber.subscribe("/topic/news")
    client.send("/topic/news", b"1", transaction="t")
    client.send("/queue/a", b"q", transaction="t")
    client.send("/topic/news", b"2", transaction="t")
    assert subscriber.messages() == []
    client.take("COMMIT", transaction="t")

    messages = subscriber.messages()
    assert [(each.body, each.headers["uow-status"]) for each in messages] == [(b"1", "RECV_FIRST"), (b"2", "RECV_LAST")]
    assert waiting(stomp) == [b"q"]


def test_a_publication_that_was_refused_comes_again_at_once_and_then_after_a_delay_that_grows(stomp: StompDesk) -> None:
    publisher, ann = stomp.connect("PAUL"), stomp.connect("ANN")
    ann.subscribe("/topic/news", ack="client")
    publisher.send("/topic/news", b"1")
    for delay in (0, 0.1, 0.2, 0.4):
        (message,) = ann.messages()
        ann.nack(message)
        if delay:
            stomp.wait(delay * 0.9)
            assert ann.messages() == []
            stomp.wait(delay * 0.2)
    assert ann.bodies() == [b"1"]


def test_memory_does_not_grow_with_each_publication_that_was_refused(stomp: StompDesk) -> None:
    publisher, ann = stomp.connect("PAUL"), stomp.connect("ANN")
    ann.subscribe("/topic/news", ack="client-individual")
    topics = stomp.desk.kernel.world.topics
    for number in range(100):
        publisher.send("/topic/news", b"%d" % number)
        for _ in range(2):
            ann.nack(ann.messages()[0])
            stomp.wait(0.1)
        ann.ack(ann.messages()[0])
    assert topics.publications == {} and topics.later == []
    (intake,) = ann.session.consumer._intakes.values()
    kept = [value for value in vars(intake).values() if isinstance(value, dict | set | list)]
    assert kept == [intake.subscriptions], "the connection counts nothing"


# Restart.


def test_a_restart_finds_what_was_committed_and_nothing_else(stomp: StompDesk) -> None:
    client = begun(stomp)
    client.send("/queue/a", b"1", transaction="t")
    client.send("/queue/b", b"2", transaction="t")
    client.take("COMMIT", transaction="t")
    client.take("BEGIN", transaction="u")
    client.send("/queue/a", b"3", transaction="u")

    again = StompDesk(stomp.desk.restart())
    assert waiting(again) == [b"1"]
    assert waiting(again, "/queue/b") == [b"2"]
    receiver = again.connect()
    receiver.subscribe("/queue/a")
    receiver.subscribe("/queue/b", "b")
    assert again.desk.paper.messages == {}
    assert again.desk.paper.uows() == {}
    assert again.desk.kernel.world.conversations == {}


def test_a_lost_connection_during_a_commit_changes_nothing_about_its_outcome(stomp: StompDesk) -> None:
    client = begun(stomp)
    client.send("/queue/a", transaction="t")
    client.send("/queue/b", transaction="t")
    stomp.desk.is_slow = True
    client.take("COMMIT", transaction="t")
    client.vanish()
    stomp.desk.is_slow = False
    stomp.desk.settle()
    stomp.turn()

    assert waiting(stomp) == waiting(stomp, "/queue/b") == [b"e4"]


def test_a_desk_can_be_slow() -> None:
    desk = Desk()
    desk.is_slow = True
    stomp = StompDesk(desk)
    client = begun(stomp)
    for number in range(3):
        client.begin("SEND", b"%d" % number, destination="/queue/a", transaction="t", receipt=str(number))
    client.begin("COMMIT", transaction="t", receipt="c")
    client.begin("SEND", b"behind", destination="/queue/a", receipt="b")
    stomp.turn()
    assert client.receipts() == ["0", "1", "2"]
    desk.settle()
    stomp.turn()

    assert client.receipts() == ["c", "b"]
