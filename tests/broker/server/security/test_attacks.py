"""What who is not logged on, who may do little, and who is hostile can do to a server with users."""

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.servers.guarded_server import PASSWORDS, USERS, Files, set_users, user
from tests.support.servers.stomp_server import Heard, Serving, Wire, connected, eventually


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("server"), has_tls=False)


@pytest.fixture(scope="module")
def server(files: Files) -> Iterator[Serving]:
    with files.serve() as serving:
        yield serving
    said = json.dumps(serving.log)
    assert not any(password in said for password in PASSWORDS.values()), "a password is in the log"
    assert "hunter2" not in said and "scrypt" not in said


def wire(server: Serving, login: str = "MALLORY", **said: str) -> Wire:
    """Return a bare connection that has logged on, from where nobody guesses."""
    found = Wire(server.port, connects=False)
    found.say("CONNECT", accept_version="1.2", login=login, passcode=PASSWORDS[login], **said)
    assert found.hear().command == "CONNECTED"
    return found


def client(server: Serving, login: str, **said: Any) -> tuple[Any, Heard]:
    return connected(server.port, login, passcode=PASSWORDS[login], **said)


# Nobody.


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"login": "ALICE"},
        {"passcode": PASSWORDS["ALICE"]},
        {"login": "", "passcode": ""},
        {"login": "ALICE", "passcode": ""},
        {"login": "ALICE", "passcode": "hunter2"},
        {"login": "ALICE", "passcode": PASSWORDS["BOB"]},
        {"login": "alice", "passcode": PASSWORDS["ALICE"]},
        {"login": "ALICE:", "passcode": PASSWORDS["ALICE"]},
        {"login": "ANONYMOUS", "passcode": "hunter2"},
        {"login": "*", "passcode": "hunter2"},
        {"login": "x" * 1000, "passcode": "hunter2" * 100},
    ],
    ids=range(12),
)
def test_who_has_not_the_password_is_not_connected_and_learns_only_that(
    server: Serving, said: dict[str, str], request: pytest.FixtureRequest
) -> None:
    number = int(request.node.callspec.id)
    stranger = Wire(server.port, connects=False, source=f"127.0.1.{number + 1}")
    stranger.say("CONNECT", accept_version="1.2", **said)

    text = stranger.error()

    assert text.startswith("00080003 "), text
    assert "the user or the password is wrong" in text or "a user and its password are needed" in text
    assert "hunter2" not in text and not any(password in text for password in PASSWORDS.values())


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE", "BEGIN", "ACK", "DISCONNECT", "UNSUBSCRIBE"])
def test_nothing_is_done_before_the_login_and_what_was_said_behind_it_waits(server: Serving, command: str) -> None:
    stranger = Wire(server.port, connects=False)
    stranger.say(command, destination="/queue/ALICE", id="1", transaction="1")
    assert "CONNECT comes first" in stranger.error()

    guessing = Wire(server.port, connects=False, source="127.0.2.1" if command < "C" else "127.0.2.2")
    guessing.say("CONNECT", accept_version="1.2", login="BOB", passcode="hunter2 again")
    guessing.say(command, destination="/queue/BOB", id="1", transaction="1", receipt="done")
    assert guessing.error().startswith("00080003 ")


def test_who_logs_on_twice_does_not_become_somebody_else(server: Serving) -> None:
    mallory = wire(server)
    mallory.say("CONNECT", accept_version="1.2", login="ALICE", passcode=PASSWORDS["ALICE"])

    assert "CONNECT comes once" in mallory.error()


def test_a_connection_that_ends_while_its_password_is_looked_at_leaves_nothing(server: Serving) -> None:
    for _ in range(20):
        stranger = Wire(server.port, connects=False)
        stranger.say("CONNECT", accept_version="1.2", login="BOB", passcode=PASSWORDS["BOB"])
        stranger.close()

    wire(server, "BOB").close()


# Who may do little.


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("SEND", {"destination": "/queue/ALICE"}),
        ("SEND", {"destination": "/service/QUEUE/ALICE/-"}),
        ("SEND", {"destination": "/topic/ALICE"}),
        ("SEND", {"destination": "/queue/ALICE", "persistent": "false"}),
        ("SEND", {"destination": "/queue/ALICE", "reply-to": "/temp/mine"}),
        ("SEND", {"destination": "/queue/DEAD-LETTER"}),
        ("SUBSCRIBE", {"destination": "/queue/ALICE", "id": "1"}),
        ("SUBSCRIBE", {"destination": "/queue/DEAD-LETTER", "id": "1"}),
        ("SUBSCRIBE", {"destination": "/topic/ALICE", "id": "1"}),
        ("SUBSCRIBE", {"destination": "/topic/ALICE", "id": "1", "durable": "true"}),
        ("SUBSCRIBE", {"destination": "/topic/ALIC*", "id": "1"}),
        ("UNSUBSCRIBE", {"destination": "/topic/ALICE", "id": "1", "durable": "true"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value.values()).replace("/", "."),
)
def test_what_a_user_may_not_do_ends_its_connection_with_the_code_for_it(
    server: Serving, command: str, said: dict[str, str]
) -> None:
    mallory = wire(server)

    mallory.say(command, b"", **said, receipt="done")

    text = mallory.error()
    assert (text.startswith("00080402 ") and "MALLORY may not" in text) or command == "UNSUBSCRIBE", text


def test_a_transaction_is_held_against_the_rights_message_by_message_and_nothing_of_it_happens(server: Serving) -> None:
    mallory = wire(server)
    mallory.say("BEGIN", transaction="1")
    mallory.say("SEND", b"mine", destination="/queue/MALLORY-1", transaction="1")
    mallory.say("SEND", b"theirs", destination="/queue/ALICE", transaction="1")
    mallory.say("COMMIT", transaction="1", receipt="done")
    assert mallory.error().startswith("00080402 ")

    again = wire(server)
    again.say("SUBSCRIBE", destination="/queue/MALLORY-1", id="1")
    again.say("SEND", b"only this", destination="/queue/MALLORY-1")
    assert again.hear().body == b"only this"
    again.close()


def test_nobody_gets_into_a_conversation_or_a_subscription_of_others(server: Serving) -> None:
    alice, heard = client(server, "ALICE", headers={"token": "home"})
    alice.subscribe("/queue/ALICE", id="1", ack="client-individual")
    alice.subscribe("/topic/ALICE", id="2", headers={"durable": "true"}, receipt="durable")
    heard.wait(lambda: "durable" in heard.receipts)
    alice.send("/queue/ALICE", "secret", headers={"reply-to": "/temp/answers"})
    heard.bodies(1)
    conversation, message = heard.messages[0].headers["conversation"], heard.messages[0].headers["ack"]

    for command, said in (
        ("SEND", {"destination": f"/conversation/{conversation}"}),
        ("SUBSCRIBE", {"destination": f"/conversation/{conversation}", "id": "1"}),
        ("ACK", {"id": message}),
        ("NACK", {"id": message}),
        ("SUBSCRIBE", {"destination": "/topic/ALICE", "id": "1", "durable": "true"}),
    ):
        mallory = wire(server, token="home")
        mallory.say(command, b"forged", **said, receipt="done")
        text = mallory.error()
        assert text[:4] in ("0003", "0008", "0078", "0020"), (command, text)

    alice.ack(message)
    alice.send("/topic/ALICE", "news")
    assert heard.bodies(2) == ["secret", "news"]
    assert not heard.errors
    alice.disconnect()


def asked(server: Serving, login: str, block: dict[str, str]) -> dict[str, Any]:
    url = f"http://127.0.0.1:{server.http_port}/aci"
    return dict(httpx.post(url, json=block, auth=(login, PASSWORDS[login]), timeout=20).json())


UNKNOWN = "00F0000000000000"
ABOUT_A_UNIT = [("SYNCPOINT", each) for each in ("QUERY", "COMMIT", "BACKOUT", "CANCEL", "DELETE", "EOC", "SETUSTATUS")]
ABOUT_A_CONVERSATION = [("SEND", "COMMIT"), ("SEND", "NONE"), ("RECEIVE", "SYNC"), ("RECEIVE", "NONE"), ("EOC", "NONE")]
ABOUT_A_PUBLICATION = [
    *(("CONTROL_PUBLICATION", each) for each in ("QUERY", "COMMIT", "BACKOUT", "SETUSTATUS")),
    *(("SEND_PUBLICATION", "SYNC"), ("RECEIVE_PUBLICATION", "NONE")),
]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("field", "function", "option"),
    [
        *(("uowid", *each) for each in ABOUT_A_UNIT),
        *(("conv_id", *each) for each in ABOUT_A_CONVERSATION),
        *(("publication_id", *each) for each in ABOUT_A_PUBLICATION),
    ],
)
def test_of_what_is_somebody_elses_a_user_is_told_what_it_is_told_of_what_there_is_not(
    server: Serving, field: str, function: str, option: str
) -> None:
    alice = {"user_id": "ALICE", "token": "twin"}
    service = {"server_class": "QUEUE", "server_name": "ALICE", "service": "MESSAGES"}
    asked(server, "ALICE", {"function": "LOGON", **alice})
    asked(server, "ALICE", {"function": "SUBSCRIBE", "topic": "ALICE", **alice})
    sent = asked(server, "ALICE", {"function": "SEND", "option": "COMMIT", "conv_id": "NEW", **service, **alice})
    published = {"publication_id": "NEW", "topic": "ALICE", **alice}
    published = asked(server, "ALICE", {"function": "SEND_PUBLICATION", "option": "COMMIT", **published})
    known = {"uowid": sent["uowid"], "conv_id": sent["conv_id"], "publication_id": published["publication_id"]}[field]
    assert re.fullmatch("[0-9A-F]{16}", known), (sent, published)

    def heard(login: str, identifier: str) -> dict[str, Any]:
        more = {"ustatus": "x"} if "STATUS" in option else {}
        block = {"function": function, "option": option, "user_id": login, "token": "twin", field: identifier}
        return asked(server, login, block | more)

    asked(server, "MALLORY", {"function": "LOGON", "user_id": "MALLORY", "token": "twin"})
    told = heard("MALLORY", known)
    assert told == heard("MALLORY", UNKNOWN)
    assert told["error_code"][:4] in ("0003", "0078", "0020"), told


def test_who_may_look_at_the_broker_is_told_that_it_is_somebody_elses(server: Serving) -> None:
    service = {"server_class": "QUEUE", "server_name": "ALICE", "service": "MESSAGES", "conv_id": "NEW"}
    alice, root = {"user_id": "ALICE", "token": "teller"}, {"user_id": "ROOT", "token": "looker"}
    asked(server, "ALICE", {"function": "LOGON", **alice})
    asked(server, "ROOT", {"function": "LOGON", **root})
    sent = asked(server, "ALICE", {"function": "SEND", "option": "COMMIT", **alice, **service})
    block = {"function": "SYNCPOINT", "option": "QUERY", **root, "uowid": sent["uowid"]}

    assert asked(server, "ROOT", block)["error_code"] == "00780308"


def test_a_user_name_in_a_header_counts_for_nothing(server: Serving) -> None:
    mallory = wire(server)
    mallory.say("SUBSCRIBE", destination="/queue/MALLORY-2", id="1")
    mallory.say("SEND", b"m", destination="/queue/MALLORY-2", user_id="ALICE", login="ALICE", client_uid="ALICE")

    assert mallory.hear().headers["user-id"] == "MALLORY"
    mallory.close()


@pytest.mark.whole
def test_what_is_given_back_too_often_is_moved_to_the_dead_letters_by_the_server_itself(tmp_path: Path) -> None:
    files = Files(tmp_path, has_tls=False, more="MAX-DELIVERY-COUNT=1")
    with files.serve() as server:
        bob = wire(server, "BOB")
        bob.say("SEND", b"poison", destination="/queue/BOB-3")
        bob.say("SUBSCRIBE", destination="/queue/BOB-3", id="1", ack="client-individual")
        bob.say("NACK", id=bob.hear().headers["ack"])
        root, heard = client(server, "ROOT")
        root.subscribe("/queue/DEAD-LETTER", id="1")
        assert heard.bodies(1) == ["poison"]
        assert heard.messages[0].headers["dead-letter-user"] == "BOB"
        root.disconnect()
        bob.close()


# What changes.


@pytest.mark.whole
def test_who_loses_a_right_or_the_login_loses_the_connection_and_others_do_not(tmp_path: Path) -> None:
    files = Files(tmp_path, has_tls=False)
    with files.serve() as server:
        alice, bob, root = wire(server, "ALICE"), wire(server, "BOB"), wire(server, "ROOT")
        alice.say("SUBSCRIBE", destination="/queue/SHARED", id="1")
        alice.say("SUBSCRIBE", destination="/topic/ALICE", id="2", durable="true", receipt="there")
        assert alice.hear().headers["receipt-id"] == "there"

        set_users(files.users_file, [user("ALICE", send=["/queue/SHARED"]), *USERS[2:]])

        assert alice.error().startswith("00080353 ") and bob.error().startswith("00080353 ")
        root.say("SEND", b"news", destination="/topic/ALICE")
        root.say("SEND", b"work", destination="/queue/SHARED", receipt="done")
        assert root.hear().headers["receipt-id"] == "done"
        for said in ({"destination": "/queue/SHARED"}, {"destination": "/topic/ALICE", "durable": "true"}):
            again = wire(server, "ALICE")
            again.say("SUBSCRIBE", id="1", **said)
            assert again.error().startswith("00080402 ")
        stranger = Wire(server.port, connects=False)
        stranger.say("CONNECT", accept_version="1.2", login="BOB", passcode=PASSWORDS["BOB"])
        assert stranger.error().startswith("00080003 ")
        root.close()


SHARED = {"server_class": "QUEUE", "server_name": "SHARED", "service": "-"}


def called(server: Serving, function: str, *, session: str = "", **said: str) -> httpx.Response:
    """Return the answer to a call of ALICE's over HTTP."""
    headers = {"Broker-Session": session} if session else {}
    block = {"function": function, "user_id": "ALICE", **said}
    url, auth = f"http://127.0.0.1:{server.http_port}/aci", ("ALICE", PASSWORDS["ALICE"])
    return httpx.post(url, json=block, auth=auth, headers=headers, timeout=20)


def code_of(answer: httpx.Response) -> str:
    return str(answer.json()["error_code"])


def may_no_more(server: Serving) -> bool:
    """Say whether the server knows that ALICE receives nothing any more."""
    return code_of(called(server, "REGISTER", **SHARED)) == "00080402"


def waits(server: Serving) -> bool:
    """Say whether a call of ALICE's waits for something to receive."""
    url, auth = f"http://127.0.0.1:{server.http_port}/info/PARTICIPANT", ("ROOT", PASSWORDS["ROOT"])
    rows = httpx.get(url, auth=auth, timeout=20).json()["rows"]
    return any(row["calls_waiting"] for row in rows if row["user_id"] == "ALICE")


@pytest.mark.whole
@pytest.mark.parametrize("is_named", [False, True], ids=["by a token", "by its name"])
def test_who_loses_a_right_gets_nothing_more_over_http_of_what_it_had_registered_for(
    tmp_path: Path, is_named: bool
) -> None:
    files = Files(tmp_path, has_tls=False)
    with files.serve() as server, ThreadPoolExecutor(1) as thread:
        token = {} if is_named else {"token": "T"}
        name = called(server, "LOGON", **token).headers["Broker-Session"]
        said: dict[str, str] = {"session": name} if is_named else token
        assert code_of(called(server, "REGISTER", **said, **SHARED)) == "00000000"
        asked = {"option": "SYNC", "conv_id": "ANY", **said}
        waiting = thread.submit(called, server, "RECEIVE", wait="20S", **asked)
        eventually(lambda: waits(server))
        set_users(files.users_file, [user("ALICE", send=["/queue/SHARED"]), *USERS[1:]])
        eventually(lambda: may_no_more(server))
        root = wire(server, "ROOT")
        root.say("SEND", b"secret", destination="/queue/SHARED", receipt="done")
        assert root.hear().headers["receipt-id"] == "done"

        assert code_of(waiting.result()) == "00020002"
        assert code_of(called(server, "RECEIVE", **asked)) != "00000000"
        assert code_of(called(server, "LOGON", **said)) == "00000000"
        answer = called(server, "RECEIVE", **asked)
        assert code_of(answer) != "00000000" and "body" not in answer.json(), answer.text
        root.close()


@pytest.mark.whole
def test_who_does_not_read_has_lost_its_right_all_the_same(tmp_path: Path) -> None:
    files = Files(tmp_path, has_tls=False)
    with files.serve() as server:
        deaf, root = wire(server, "ALICE", token="T"), wire(server, "ROOT")
        deaf.say("SUBSCRIBE", destination="/queue/SHARED", id="1", ack="client-individual", receipt="there")
        assert deaf.hear().headers["receipt-id"] == "there"
        for number in range(8):
            root.say("SEND", bytes(2_000_000), destination="/queue/SHARED", receipt=str(number))
            assert root.hear().headers["receipt-id"] == str(number)

        set_users(files.users_file, [user("ALICE", send=["/queue/SHARED"]), *USERS[1:]])
        eventually(lambda: may_no_more(server))

        assert code_of(called(server, "LOGON", token="T")) == "00000000"
        answer = called(server, "RECEIVE", option="SYNC", conv_id="ANY", token="T")
        assert code_of(answer) != "00000000", "its connection lives on as long as it does not read"
        root.close()
        deaf.close()


@pytest.mark.whole
def test_guesses_are_slowed_down_and_a_client_that_is_logged_on_does_not_notice(tmp_path: Path) -> None:
    with Files(tmp_path, has_tls=False).serve() as server:
        alice, heard = client(server, "ALICE")
        answers: list[str] = []

        def guess(number: int) -> None:
            stranger = Wire(server.port, connects=False, source="127.0.0.2")
            stranger.say("CONNECT", accept_version="1.2", login="BOB", passcode=f"hunter2 {number}")
            answers.append(stranger.error()[:8])

        threads = [threading.Thread(target=guess, args=(number,)) for number in range(60)]
        for thread in threads:
            thread.start()
        for number in range(50):
            alice.send("/queue/ALICE", "m", receipt=str(number))
        for thread in threads:
            thread.join()

        heard.wait(lambda: len(heard.receipts) == 50)
        assert 5 <= answers.count("00080003") <= 7
        assert answers.count("00080008") == 60 - answers.count("00080003")
        wire(server, "BOB").close()  # not locked out at home
        alice.disconnect()
    eventually(lambda: any("logins refused" in text or "login of 'BOB'" in text for text in server.texts()))
    assert "hunter2" not in json.dumps(server.log)


# A place at the server.


@pytest.mark.whole
def test_nobody_without_the_password_ends_a_connection_by_its_user_and_token(server: Serving) -> None:
    known = wire(server, "BOB", token="T")
    for said in (
        {"login": "BOB", "passcode": "wrong", "token": "T"},
        {"token": "T"},
        {"login": "MALLORY", "passcode": PASSWORDS["MALLORY"], "token": "T"},
        {"login": "MALLORY", "passcode": PASSWORDS["MALLORY"], "client-id": "T"},
    ):
        other = Wire(server.port, connects=False)
        other.say("CONNECT", accept_version="1.2", **said)
        other.hear()
        known.say("BEGIN", transaction="x", receipt="1")
        assert known.hear().command == "RECEIPT", said
        known.say("ABORT", transaction="x", receipt="2")
        assert known.hear().command == "RECEIPT", said
        other.close()
    known.close()
