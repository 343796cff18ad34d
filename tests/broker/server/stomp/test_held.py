"""A real server on a restored store, over STOMP and HTTP: consumers get nothing held, and then what is released."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker.held_stores import SOURCE, mark_restored
from tests.support.cli_runner import oms
from tests.support.servers.stomp_server import Serving, Wire


def tell(serving: Serving, **said: Any) -> dict[str, Any]:
    """Give a command, and return what became of it."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{serving.http_port}/command", json.dumps(said).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as answered:
        return dict(json.load(answered))


def send(wire: Wire, destination: str, *bodies: bytes) -> None:
    for at, body in enumerate(bodies):
        wire.say("SEND", body, destination=destination, receipt=f"s{at}")
        assert wire.hear().command == "RECEIPT"


def logged_on(serving: Serving, user: str) -> Wire:
    wire = Wire(serving.port, connects=False)
    wire.say("CONNECT", accept_version="1.2", login=user, client_id="T")
    assert wire.hear().command == "CONNECTED"
    return wire


def consuming(serving: Serving) -> tuple[Wire, Wire]:
    """Return a consumer of the queue, and one of the topic that subscribes durably."""
    orders, news = logged_on(serving, "BOB"), logged_on(serving, "ANN")
    orders.say("SUBSCRIBE", id="q", destination="/queue/orders", ack="client-individual", receipt="q")
    news.say("SUBSCRIBE", id="n", destination="/topic/NEWS", durable="true", ack="client-individual", receipt="n")
    assert orders.hear().command == news.hear().command == "RECEIPT"
    return orders, news


def got(wire: Wire, count: int) -> list[bytes]:
    """Hear so many messages, and acknowledge each."""
    bodies = []
    for _ in range(count):
        frame = wire.hear()
        assert frame.command == "MESSAGE", frame
        bodies.append(frame.body)
        wire.say("ACK", id=frame.headers["ack"])
    return bodies


@pytest.mark.whole
def test_consumers_of_a_restored_server_get_what_is_new_and_what_is_released_in_order(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with Serving(spool) as before:
        wire, (orders, news) = logged_on(before, "AL"), consuming(before)
        orders.close()
        news.close()
        send(wire, "/queue/orders", b"1", b"2", b"3")
        send(wire, "/topic/NEWS", b"rain", b"sun")
        wire.close()
    mark_restored(spool)
    with Serving(spool) as restored:
        wire, (orders, news) = logged_on(restored, "AL"), consuming(restored)
        send(wire, "/queue/orders", b"new")
        send(wire, "/topic/NEWS", b"snow")
        assert (got(orders, 1), got(news, 1)) == ([b"new"], [b"snow"])
        (said,) = [entry for entry in restored.log if entry.get("event") == "held"]
        assert (said["uows"], said["publications"]) == (3, 2)
        assert any(SOURCE in text for text in restored.texts())

        assert tell(restored, command="RELEASE", all=True)["affected"] == 3
        assert tell(restored, command="RELEASE", object="SUBSCRIBER", all=True)["affected"] == 2
        assert (got(orders, 3), got(news, 2)) == ([b"1", b"2", b"3"], [b"rain", b"sun"])
        for each in (wire, orders, news):
            each.close()
    assert "Nothing is held." in oms("list", "--held", spool=spool).stdout


@pytest.mark.whole
def test_a_killed_server_holds_on(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with Serving(spool) as before:
        wire = logged_on(before, "AL")
        send(wire, "/queue/orders", b"1", b"2")
        wire.close()
    mark_restored(spool)
    for _ in range(2):
        with Serving(spool) as restored:
            orders, news = consuming(restored)
            send(news, "/queue/orders", b"new")
            assert got(orders, 1) == [b"new"]
            restored.child.kill()
            restored.child.wait()
            orders.close()
            news.close()
    with Serving(spool) as restored:
        assert tell(restored, command="DISCARD", option="DISCARDED", all=True)["affected"] == 2
        orders, news = consuming(restored)
        send(news, "/queue/orders", b"last")
        bodies = got(orders, 1)
        while bodies[-1] != b"last":  # an ACK that the kill has overtaken
            bodies += got(orders, 1)
        assert set(bodies) <= {b"new", b"last"}
        orders.close()
        news.close()
