"""What is asked of a broker elsewhere and what is made of what comes back: as values, without a socket."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import ANY, NEW, Function, Option, Reception, Reply, Request, Store
from oms_journal.broker.block_json import encode_answer
from oms_journal.broker.client.calls import (
    Ask,
    AskOutcome,
    CallSteps,
    Connection,
    Heard,
    Lost,
    Pause,
    RemoteOptions,
    Unreached,
)
from oms_journal.broker.codes import Code
from oms_journal.broker.reachability import checked_url

ONE, TWO = "http://one:1971", "http://two:1972"
LOGON = Request(function=Function.LOGON, user_id="ALICE", token="PC1")
SEND = Request(function=Function.SEND, option=Option.COMMIT, user_id="ALICE", token="PC1", conv_id=NEW, body=b"x")
COMMIT = Request(function=Function.SYNCPOINT, option=Option.COMMIT, user_id="ALICE", token="PC1", uowid="1")
LAST = Request(function=Function.SYNCPOINT, option=Option.LAST, user_id="ALICE", token="PC1")
REGISTER = Request(function=Function.REGISTER, user_id="ALICE", token="PC1", server_class="A")
RECEIVE = Request(function=Function.RECEIVE, option=Option.SYNC, user_id="ALICE", token="PC1", conv_id=ANY)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Play:
    """A line whose other end is a script."""

    def __init__(self, **options: Any) -> None:
        self.clock = Clock()
        self.line = Connection(ONE, RemoteOptions(**options), self.clock)
        self.asked: list[tuple[str, str, str]] = []  # host, session, function
        self.blocks: list[dict[str, Any]] = []
        self.seconds: list[float] = []
        self.names: list[str] = []  # identifiers of calls

    def play(self, steps: CallSteps, *outcomes: AskOutcome) -> Answered:
        script: Iterator[AskOutcome] = iter(outcomes)
        outcome: AskOutcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                assert next(script, None) is None, "something was not asked for"
                answered: Answered = end.value
                return answered
            if isinstance(step, Pause):
                self.clock.now += step.seconds
                outcome = None
                continue
            assert isinstance(step, Ask)
            block = json.loads(step.content) if step.content else {"function": step.method}
            self.blocks.append(block)
            self.seconds.append(step.seconds)
            self.names.append(step.headers.get("Broker-Call", ""))
            self.asked.append((step.url.split("/")[2].split(":")[0], step.headers["Broker-Session"], block["function"]))
            outcome = next(script)

    def call(self, request: Request, *outcomes: AskOutcome, caller: int = 1) -> Reply:
        return self.play(self.line.calling(request, caller), *outcomes).reply

    def logged_on(self, *, keeps: bool = False) -> "Play":
        """Log on at a server that keeps answers, or at one that knows no identifiers."""
        self.call(LOGON, heard(session="s1", partner_broker_id="two:1972:TCP")._replace(call="1" if keeps else ""))
        self.asked.clear()
        self.names.clear()
        return self


def heard(code: Code = Code.OK, *, session: str = "", **fields: Any) -> Heard:
    reply = Reply(code=code, **fields)
    return Heard(
        200, session, json.dumps(encode_answer(Answered(reply, b"" if "uow_status" in fields else None))).encode()
    )


GONE = heard(Code.NOT_ACTIVE)  # of a server without a broker
OVER = heard(Code.LOGON_REQUIRED)  # of a session that is over
BUSY = heard(Code.NOT_OPERATIONAL)
FULL = Heard(503, "", b'{"status": 503, "error": "full"}')


def test_a_new_caller_begins_a_session_of_its_own_and_goes_on_with_it() -> None:
    play = Play()
    play.call(LOGON, heard(session="s1"))
    play.call(SEND, heard(session="s1"))
    play.call(LOGON, heard(session="s2"), caller=2)
    play.call(Request(function=Function.LOGOFF), heard(session="s1"))
    play.call(LOGON, heard(session="s3"))

    sessions = [session for _, session, _ in play.asked]
    assert sessions == ["new", "s1", "new", "s1", "new"]


@pytest.mark.parametrize("outcome", [GONE, Unreached("no")])
@pytest.mark.parametrize("request_", [SEND, COMMIT, LAST, REGISTER, RECEIVE])
def test_a_broker_that_is_gone_is_left_for_its_partner_which_it_has_named(
    request_: Request, outcome: AskOutcome
) -> None:
    play = Play().logged_on()

    reply = play.call(request_, outcome, OVER, heard(session="s2"), heard(session="s2", conv_id="1"))

    function = request_.function.name
    assert reply.conv_id == "1"
    hosts = [("one", "s1", function), ("two", "s1", function), ("two", "new", "LOGON"), ("two", "s2", function)]
    assert play.asked == hosts


def test_a_takeover_is_waited_out() -> None:
    play = Play().logged_on()
    no, anew = Unreached("no"), heard(session="s2")

    reply = play.call(SEND, no, BUSY, no, BUSY, no, OVER, anew, anew)

    assert reply.code is Code.OK and play.clock.now > 0
    assert [host for host, _, _ in play.asked] == ["one", "two", "one", "two", "one", "two", "two", "two"]


def test_a_standby_that_was_asked_by_mistake_is_left_for_the_broker() -> None:
    play = Play(partner=TWO)

    assert play.call(LOGON, Unreached("no")).code is Code.NOT_ACTIVE
    assert play.call(LOGON, BUSY, heard(session="s1")).code is Code.OK
    assert [host for host, _, _ in play.asked] == ["one", "two", "one"]


def test_what_was_served_and_subscribed_to_is_so_again_in_a_new_session() -> None:
    play = Play().logged_on()
    subscribe = Request(function=Function.SUBSCRIBE, topic="NEWS")
    for request in (REGISTER, subscribe, Request(function=Function.REGISTER, server_class="B")):
        play.call(request, heard(session="s1"))
    play.call(Request(function=Function.DEREGISTER, server_class="B"), heard(session="s1"))
    play.asked.clear()

    again = heard(session="s2")
    play.call(RECEIVE, OVER, again, again, again, heard(Code.NO_UOWS, session="s2"))

    assert [said for _, _, said in play.asked] == ["RECEIVE", "LOGON", "REGISTER", "SUBSCRIBE", "RECEIVE"]


@pytest.mark.parametrize("outcome", [Lost("reset"), Unreached("no"), FULL])
def test_a_session_that_cannot_be_begun_anew_at_once_is_begun_anew_a_little_later(outcome: AskOutcome) -> None:
    again = heard(session="s3")
    for before in ([], [heard(session="s2")]):  # at its LOGON, at its REGISTER
        play = Play().logged_on()
        play.call(REGISTER, heard(session="s1"))
        reply = play.call(SEND, OVER, *before, outcome, OVER, again, again, heard(session="s3", conv_id="1"))

        assert reply.conv_id == "1"
        assert [said for _, _, said in play.asked][-3:] == ["LOGON", "REGISTER", "SEND"]


def test_a_session_that_is_over_again_at_once_is_the_answer() -> None:
    assert Play().logged_on().call(SEND, OVER, heard(session="s2"), OVER).code is Code.LOGON_REQUIRED


def test_who_never_logged_on_is_told_to() -> None:
    assert Play().call(SEND, heard(Code.LOGON_REQUIRED, session="s1")).code is Code.LOGON_REQUIRED


@pytest.mark.parametrize("request_", [SEND, COMMIT, Request(function=Function.EOC), Request(function=Function.LOGOFF)])
def test_a_call_that_cannot_be_repeated_is_in_doubt_when_its_connection_is_lost(request_: Request) -> None:
    reply = Play().logged_on().call(request_, Lost("reset"))

    assert reply.code is Code.TRANSPORT_TIMED_OUT and "LAST tells" in reply.text


KEPT = heard(session="s1", conv_id="1")._replace(call="2")
EVERY = [SEND, COMMIT, LAST, REGISTER, RECEIVE, Request(function=Function.EOC)]


@pytest.mark.parametrize("request_", EVERY)
def test_a_call_whose_connection_is_lost_is_repeated_with_its_identifier(request_: Request) -> None:
    play = Play().logged_on(keeps=True)

    assert play.call(request_, Lost("reset"), Unreached("no"), FULL, Lost("reset"), KEPT).conv_id == "1"
    assert {session for _, session, _ in play.asked} == {"s1"} and len(set(play.names)) == 1
    play.call(request_, KEPT)
    assert len(set(play.names)) == 2


@pytest.mark.parametrize("request_", [SEND, COMMIT, Request(function=Function.EOC)])
def test_a_call_is_in_doubt_whose_session_is_over_when_it_is_repeated(request_: Request) -> None:
    reply = Play().logged_on(keeps=True).call(request_, Lost("reset"), OVER)

    assert reply.code is Code.TRANSPORT_TIMED_OUT and "LAST tells" in reply.text


def test_a_call_is_in_doubt_that_was_lost_when_patience_ends() -> None:
    play = Play(patience_seconds=0.0).logged_on(keeps=True)
    assert play.call(SEND, Lost("reset")).code is Code.TRANSPORT_TIMED_OUT


@pytest.mark.parametrize("request_", EVERY)
def test_a_call_that_is_cut_is_taken_back_before_the_next_one(request_: Request) -> None:
    play = Play().logged_on(keeps=True)
    next(play.line.calling(request_, 1))
    play.line.cut(request_, 1)
    play.call(LAST, Lost("reset"), Heard(503, "", b""), Heard(204, "", b""), KEPT)

    assert [(session, said) for _, session, said in play.asked] == [("s1", "DELETE")] * 3 + [("s1", "SYNCPOINT")]
    assert len(set(play.names)) == 2 and play.names[-1] != play.names[0] != ""


def test_who_leaves_a_server_that_is_gone_does_not_wait_to_take_something_back() -> None:
    play = Play().logged_on(keeps=True)
    next(play.line.calling(RECEIVE, 1))
    play.line.cut(RECEIVE, 1)

    assert play.call(Request(function=Function.LOGOFF), Unreached("no"), Unreached("no")).code is Code.NOT_ACTIVE
    assert play.clock.now == 0


@pytest.mark.parametrize(("seconds", "count"), [(0.0, 15), (5.0, 3)])  # that each goes unanswered; how often it is said
def test_a_server_that_answers_nobody_holds_up_five_sessions_that_are_left_no_longer_than_one(
    seconds: float, count: int
) -> None:
    play = Play()
    gone = [1, 2, 3, 4, 5]
    for caller in gone:
        play.call(LOGON, heard(session=f"s{caller}"), caller=caller)
    steps, asked = play.line.leaving_all(gone), []

    with suppress(StopIteration):
        asked.append(next(steps))
        while True:
            play.clock.now += seconds
            asked.append(steps.send(Lost("no answer")))

    assert len(asked) == count
    assert gone == []
    assert play.play(play.line.leaving_all([1, 2, 3, 4, 5])).reply.code is Code.OK  # none of them is known any more


def test_what_cannot_be_taken_back_in_time_ends_the_session() -> None:
    play = Play(patience_seconds=0.0).logged_on(keeps=True)
    next(play.line.calling(RECEIVE, 1))
    play.line.cut(RECEIVE, 1)
    play.call(LAST, Lost("reset"), OVER, heard(session="s2"), heard(session="s2"))

    assert [session for _, session, _ in play.asked] == ["s1", "over", "new", "s2"]


def test_a_server_that_knows_no_identifiers_is_told_that_the_session_ends() -> None:
    play = Play().logged_on()
    for request, session in ((RECEIVE, "over"), (COMMIT, "s2")):
        next(play.line.calling(request, 1))
        play.line.cut(request, 1)
        outcomes = [Heard(204, "", b""), OVER, heard(session="s2"), heard(session="s2")]
        play.call(LAST, *(outcomes if session == "over" else outcomes[3:]))
        assert play.asked[-1][1] == "s2"
    assert [session for _, session, said in play.asked if said == "DELETE"] == ["s1"]


PRODUCED = Request(function=Function.SEND, option=Option.COMMIT, conv_id=NEW, producer="p1")


@pytest.mark.parametrize("request_", [LAST, REGISTER, LOGON, PRODUCED])
def test_a_call_that_can_be_repeated_is(request_: Request) -> None:
    play = Play().logged_on()

    assert play.call(request_, Lost("reset"), heard(session="s1", conv_id="1")).conv_id == "1"
    assert [session for _, session, _ in play.asked] == ["s1", "s1"]


def test_a_receive_that_was_lost_is_repeated_in_a_new_session_once_the_old_one_was_left() -> None:
    play = Play().logged_on()
    got = heard(session="s2", uowid="1", uow_status=Reception.RECV_ONLY)

    reply = play.call(RECEIVE, Lost("reset"), Heard(204, "", b""), OVER, heard(session="s2"), got)

    assert reply.uowid == "1"
    said = [(session, function) for _, session, function in play.asked]
    expected = [("s1", "RECEIVE"), ("s1", "DELETE"), ("over", "RECEIVE"), ("new", "LOGON"), ("s2", "RECEIVE")]
    assert said == expected


def test_who_was_never_heard_is_not_waited_for() -> None:
    play = Play()
    reply = play.call(LOGON, Unreached("nobody there"))

    assert reply.code is Code.NOT_ACTIVE and "nobody there" in reply.text and play.clock.now == 0


@pytest.mark.parametrize("outcome", [Unreached("nobody there"), Lost("cut off")])
def test_who_says_how_patient_it_is_waits_for_a_server_that_is_not_there_yet(outcome: AskOutcome) -> None:
    play = Play(patience_seconds=60.0)
    reply = play.call(LOGON, *[outcome] * 8, heard(session="s1"))

    assert reply.code is Code.OK and 0 < play.clock.now < 60

    late = Play(patience_seconds=3.0)
    with pytest.raises(AssertionError, match="not asked for"):
        late.play(late.line.calling(LOGON, 1), *[outcome] * 30)
    assert 3 <= late.clock.now < 5


def test_nobody_waits_for_what_answers_and_is_no_broker() -> None:
    play = Play(patience_seconds=60.0)
    reply = play.call(LOGON, Heard(200, "", b"<html>"))

    assert reply.code is Code.NOT_ACTIVE and "no broker" in reply.text and play.clock.now == 0


def test_patience_ends_and_the_answer_says_why() -> None:
    play = Play(patience_seconds=5.0).logged_on()
    outcomes: Sequence[AskOutcome] = [Unreached("no")] * 30
    steps = play.line.calling(SEND, 1)
    with pytest.raises(AssertionError, match="not asked for"):
        play.play(steps, *outcomes)
    assert 5 <= play.clock.now < 7
    assert {host for host, _, _ in play.asked} == {"one", "two"}


@pytest.mark.parametrize(
    ("status", "code"), [(400, "00200186"), (401, "00080003"), (403, "00080351"), (413, "00200218")]
)
def test_what_is_refused_outside_of_a_block_has_a_code(status: int, code: str) -> None:
    reply = Play().call(LOGON, Heard(status, "", b'{"status": 400, "error": "why"}'))

    assert reply.code.value == code and "why" in reply.text


@pytest.mark.parametrize("status", [408, 503])
def test_no_room_is_asked_again(status: int) -> None:
    play = Play().logged_on()
    assert (
        play.call(
            SEND, Heard(status, "", b'{"status": 503, "error": "full"}'), heard(session="s1", conv_id="1")
        ).conv_id
        == "1"
    )


@pytest.mark.parametrize("content", [b"<html>", b"", b"[]", b'{"error_code": "nonsense"}', b'{"error_code": 7}'])
def test_what_is_no_broker_is_not_taken_for_one(content: bytes) -> None:
    reply = Play().call(LOGON, Heard(200, "", content))
    assert reply.code is Code.NOT_ACTIVE and "no broker" in reply.text


def test_a_long_wait_is_asked_for_in_pieces_and_its_end_is_kept() -> None:
    play = Play().logged_on()
    request = Request(function=Function.RECEIVE, option=Option.SYNC, conv_id=ANY, wait="60S")
    steps = play.line.calling(request, 1)
    timed_out = heard(Code.WAIT_TIMED_OUT, session="s1")
    outcome: AskOutcome = None
    waits = []
    with pytest.raises(StopIteration) as end:
        while True:
            step = steps.send(outcome)
            assert isinstance(step, Ask)
            waits.append(float(json.loads(step.content)["wait"].removesuffix("S")))
            assert step.seconds > waits[-1] + 10
            play.clock.now += waits[-1]
            outcome = timed_out

    assert waits == [25, 25, 10] and end.value.value.reply.code is Code.WAIT_TIMED_OUT


@pytest.mark.parametrize(("wait", "least"), [("YES", 900), ("60S", 60), ("NO", 10), ("", 10), ("rubbish", 10)])
def test_an_answer_that_is_waited_for_has_as_long_as_wait_says(wait: str, least: float) -> None:
    play = Play().logged_on()
    play.call(Request(function=Function.SEND, conv_id="NONE", wait=wait), heard(session="s1"))

    assert least < play.seconds[-1] < least + 60 and play.blocks[-1].get("wait", "") == wait


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"function": 99}, Code.INVALID_FUNCTION),
        ({"function": Function.SEND, "option": 99}, Code.INVALID_OPTION),
        ({"function": Function.SEND, "store": 9}, Code.INVALID_STORE),
    ],
)
def test_what_has_no_words_is_refused_without_a_request(fields: dict[str, Any], code: Code) -> None:
    assert Play().call(Request(**fields)).code is code
    assert Store(2) is Store.BROKER


def test_a_password_goes_with_the_request_and_not_in_the_block() -> None:
    line = Connection(ONE, RemoteOptions())
    step = next(line.calling(Request(function=Function.LOGON, user_id="ALICE", password="secret"), 1))

    assert isinstance(step, Ask) and step.auth == ("ALICE", "secret") and b"secret" not in step.content


@pytest.mark.parametrize(
    "url", ["", "one:1971", "ftp://one", "http://", "http://one/path", "http://one:99999", "local"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL of a broker|[Pp]ort"):
        checked_url(url)
    assert checked_url("https://one:1971/") == "https://one:1971"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://joe:s3cret@h:99999", "http://...@h:99999"),
        ("ftp://joe:s3cret@h", "ftp://...@h"),
        ("http://joe:s3/cr?et@h:1971/?x", "http://...@h:1971/..."),
        ("joe:s3cret@h:1971", "...@h:1971"),
        ("http://h:1971/?token=s3cret", "http://h:1971/..."),
        ("http://h:1971#s3cret", "http://h:1971..."),
        ("http://s3cret@", "http://...@"),
        ("http://joe:s3cret@h:1971", "has no user in it"),
    ],
)
def test_no_error_about_a_url_repeats_what_may_be_a_secret_in_it(url: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)) as refused:
        checked_url(url)
    assert "s3" not in str(refused.value)
