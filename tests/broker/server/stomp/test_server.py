"""`oms serve` as a process, and stomp.py from PyPI as its client, unchanged."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stomp

from tests.support.cli_runner import oms
from tests.support.servers.stomp_server import Serving, Wire, connected
from tests.support.sweeps import split

KINDS = [stomp.Connection10, stomp.Connection11, stomp.Connection12]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("spool")) as serving:
        yield serving
        assert serving.stop() == 0
        assert not [entry for entry in serving.log if entry["level"] != "info"], serving.log


def acked(connection: Any, frame: Any, verb: str = "ack", **said: Any) -> None:
    """Say ACK or NACK as the connection's version does."""
    headers = frame.headers
    if isinstance(connection, stomp.Connection12):
        getattr(connection, verb)(headers["ack"], **said)
    elif isinstance(connection, stomp.Connection11):
        getattr(connection, verb)(headers["message-id"], headers["subscription"], **said)
    else:
        getattr(connection, verb)(headers["message-id"], **said)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_sent_is_received_by_who_listens(server: Serving, kind: Any) -> None:
    queue = f"/queue/{kind.__name__}"
    connection, heard = connected(server.port, kind=kind)
    connection.subscribe(queue, id="1", ack="auto")
    connection.send(queue, "grüße", content_type="text/plain", receipt="r", headers={"colour": "red:green"})

    assert heard.bodies(1) == ["grüße"]
    headers = heard.messages[0].headers
    assert (headers["destination"], headers["colour"], headers["content-type"]) == (queue, "red:green", "text/plain")
    assert (headers["uow-status"], headers["user-id"]) == ("RECV_ONLY", "alice")
    heard.wait(lambda: heard.receipts == ["r"])
    connection.disconnect(receipt="bye")
    heard.wait(lambda: heard.receipts == ["r", "bye"])
    assert heard.errors == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_transaction_is_there_as_a_whole(server: Serving, kind: Any) -> None:
    queue = f"/queue/transactions-{kind.__name__}"
    connection, heard = connected(server.port, kind=kind)
    other, listening = connected(server.port, kind=kind)
    other.subscribe(queue, id="1", ack="client")
    dropped = connection.begin()
    connection.send(queue, "never", transaction=dropped)
    connection.abort(dropped)
    name = connection.begin()
    for number in range(3):
        connection.send(queue, str(number), transaction=name)
    connection.commit(name, receipt="c")
    heard.wait(lambda: heard.receipts == ["c"])

    assert listening.bodies(3) == ["0", "1", "2"]
    acked(other, listening.messages[2], receipt="a")
    listening.wait(lambda: listening.receipts == ["a"])
    for each in (connection, other):
        each.disconnect()


@pytest.mark.parametrize("kind", KINDS[1:])
def test_what_was_refused_comes_again(server: Serving, kind: Any) -> None:
    queue = f"/queue/refused-{kind.__name__}"
    connection, heard = connected(server.port, kind=kind)
    connection.subscribe(queue, id="1", ack="client-individual")
    connection.send(queue, "poison")
    heard.bodies(1)
    acked(connection, heard.messages[0], "nack")
    heard.bodies(2)

    assert [frame.headers["delivery-count"] for frame in heard.messages] == ["0", "1"]
    assert heard.messages[1].headers["redelivered"] == "true"
    acked(connection, heard.messages[1], receipt="done")
    heard.wait(lambda: heard.receipts == ["done"])
    connection.disconnect()


@pytest.mark.parametrize("kind", KINDS[1:])
def test_both_sides_send_signs_of_life(server: Serving, kind: Any) -> None:
    connection, heard = connected(server.port, kind=kind, options={"heartbeats": (200, 200)})
    heard.wait(lambda: heard.beats >= 6)

    assert connection.is_connected() and heard.errors == []
    connection.disconnect(receipt="bye")
    heard.wait(lambda: heard.receipts == ["bye"])


def test_who_gives_no_sign_of_life_is_let_go(server: Serving) -> None:
    wire = Wire(server.port, connects=False)
    wire.say("CONNECT", accept_version="1.2", heart_beat="100,0")
    assert wire.hear().command == "CONNECTED"

    assert wire.error() == "02150373 Transport timed out: no heart-beat for 0.2 seconds"


@pytest.mark.parametrize("size", [0, 1, 65_536, 1_000_000, 6_000_000])
def test_bodies_of_any_bytes_and_of_any_size_pass(server: Serving, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"\0" * (size % 256)
    wire = Wire(server.port)
    wire.say("SUBSCRIBE", destination=f"/queue/bytes-{size}", id="1", ack="auto")
    wire.say("SEND", body, destination=f"/queue/bytes-{size}")

    assert wire.hear().body == body
    wire.close()


def test_a_durable_subscriber_gets_what_came_while_it_was_away(server: Serving) -> None:
    def subscriber() -> tuple[Any, Any]:
        found = connected(server.port, "ann", headers={"client-id": "PC1"})
        found[0].subscribe("/topic/news", id="n", ack="auto", headers={"durable": "true", "receipt": "s"})
        found[1].wait(lambda: found[1].receipts[:1] == ["s"])
        return found

    ann, _ = subscriber()
    ann.disconnect()
    publisher, heard = connected(server.port, "paul")
    publisher.send("/topic/news", "flash", receipt="p")
    heard.wait(lambda: heard.receipts == ["p"])
    publisher.disconnect()

    ann, news = subscriber()
    assert news.bodies(1) == ["flash"]
    ann.disconnect()


def test_an_answer_finds_who_has_asked(server: Serving) -> None:
    client, heard = connected(server.port, "client")
    worker, asked = connected(server.port, "worker")
    worker.subscribe("/queue/sums", id="1", ack="client")
    client.send("/queue/sums", "1+1", headers={"reply-to": "/temp/answers", "correlation-id": "7"})
    asked.bodies(1)
    question = asked.messages[0]
    name = worker.begin()
    acked(worker, question, transaction=name)
    worker.send(question.headers["reply-to"], "2", transaction=name)
    worker.commit(name)

    assert heard.bodies(1) == ["2"]
    assert heard.messages[0].headers["correlation-id"] == "7"
    for each in (client, worker):
        each.disconnect()


def test_an_error_ends_the_connection_and_says_why(server: Serving) -> None:
    connection, heard = connected(server.port)
    connection.send("/nowhere", "x", receipt="r")
    heard.wait(lambda: heard.is_disconnected)

    (error,) = heard.errors
    assert error.headers["message"].startswith("00200183 Invalid CLASS, SERVER or SERVICE")
    assert (error.headers["receipt-id"], error.headers["error-code"]) == ("r", "00200183")


def test_a_lost_connection_gives_back_what_it_had(server: Serving) -> None:
    wire = Wire(server.port)
    wire.say("SUBSCRIBE", destination="/queue/lost", id="1", ack="client")
    wire.say("SEND", b"x", destination="/queue/lost")
    assert wire.hear().headers["delivery-count"] == "0"
    wire.close()

    other = Wire(server.port)
    other.say("SUBSCRIBE", destination="/queue/lost", id="1", ack="auto")
    assert other.hear().headers["delivery-count"] == "1"
    other.close()


# Starting and stopping.


@pytest.mark.parametrize("number", split([signal.SIGTERM], [signal.SIGINT]))
def test_a_stop_loses_nothing_and_says_what_it_did(tmp_path: Path, number: signal.Signals) -> None:
    with Serving(tmp_path) as serving:
        wire, idle = Wire(serving.port), Wire(serving.port)
        receipts: list[str] = []
        is_sending = threading.Event()

        def listen() -> None:
            while (frame := wire.hear()).command == "RECEIPT":
                receipts.append(frame.headers["receipt-id"])
                is_sending.set()
            errors.append(frame.headers["message"])

        errors: list[str] = []
        listening = threading.Thread(target=listen)
        listening.start()
        for at in range(300):
            wire.say("SEND", b"%d" % at, destination="/queue/a", receipt=str(at))
        is_sending.wait()
        assert serving.stop(number) == 0
        listening.join()
        assert errors == ["02150148 Broker not active or not reachable: the broker is being stopped"]
        assert idle.error() == errors[0]
        wire.close()
    texts = serving.texts()
    assert texts[-2] == f"stopping: {number.name}"
    assert texts[-1] == "stopped: 2 connections ended; what was acknowledged is durable"

    with Serving(tmp_path) as serving:
        again = Wire(serving.port)
        again.say("SUBSCRIBE", destination="/queue/a", id="1", ack="auto")
        for receipt in receipts:
            assert again.hear().body.decode() == receipt
        again.close()


@pytest.mark.whole
def test_a_directory_that_somebody_serves_is_refused(tmp_path: Path) -> None:
    with Serving(tmp_path):
        refused = oms("serve", "--stomp-port", "0", "--http-port", "0", spool=tmp_path, code=3)
    (line,) = refused.stderr.splitlines()

    assert line.startswith("oms: 00780313 the persistent store cannot be opened:")
    assert refused.stdout == ""


@pytest.mark.whole
def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with Serving(tmp_path / "one") as serving:
        refused = oms("serve", "--stomp-port", str(serving.port), "--http-port", "0", spool=tmp_path / "two", code=4)
        line = refused.stderr.splitlines()[-1]

        assert line == f"oms: cannot listen for STOMP on 127.0.0.1:{serving.port}: Address already in use"
        Wire(serving.port).close()
        assert not (tmp_path / "two").exists(), "nothing was begun"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("DEFAULTS=BROKER\n STOMP-PORT=99999\nDEFAULTS=SERVICE\n CLASS=* SERVER=* SERVICE=*", "99999 is out of range"),
        ("DEFAULTS=BROKER\n STOMP-PROT=1\nDEFAULTS=SERVICE\n CLASS=* SERVER=* SERVICE=*", "is it STOMP-PORT?"),
        ("", "no SERVICE and no TOPIC is defined"),
    ],
)
def test_an_attribute_file_that_is_wrong_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "etbfile"
    file.write_text(text)
    refused = oms("serve", str(file), spool=tmp_path / "spool", code=2)

    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"oms: {file}") and reason in line
    assert not (tmp_path / "spool").exists()


@pytest.mark.whole
def test_an_attribute_file_says_where_and_what_is_served(tmp_path: Path) -> None:
    file = tmp_path / "etbfile"
    file.write_text(
        f"DEFAULTS=BROKER\n BROKER-ID=ETB009 PSTORE=WARM STORE=BROKER MAX-UOWS=100 DEFERRED=YES MAX-CONNECTIONS=2\n"
        f"DEFAULTS=SERVICE\n CLASS=QUEUE SERVER=orders SERVICE=*\n"
        f"DEFAULTS=JOURNAL\n SPOOL-DIRECTORY={tmp_path / 'spool'}\n"
    )
    with Serving(tmp_path / "spool", str(file)) as serving:
        first, second = Wire(serving.port), Wire(serving.port)
        third = Wire(serving.port, connects=False)
        third.say("CONNECT", accept_version="1.2")
        assert third.error() == "02150128 Work queue full: at most 2 connections"
        first.say("SEND", b"x", destination="/queue/orders", receipt="1")
        assert first.hear().command == "RECEIPT"
        second.say("SEND", b"x", destination="/queue/others", receipt="1")
        assert second.error().startswith("00210043 Service definition not found: QUEUE/others/-")
        first.close()


def test_help_says_what_it_is_for() -> None:
    text = oms("serve", "--help").stdout

    assert "Serve programs over STOMP and HTTP until SIGTERM or Ctrl-C." in text
