"""Two brokers on one store, as processes: start, handshake, pings, and what follows when the standard broker goes."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import stomp

from oms_journal.broker.attributes.attributes import read_attributes
from oms_journal.broker.attributes.text import AttributesInvalid
from oms_journal.broker.client.connect import connect
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.records import Status
from oms_journal.broker.server.runtime.partner import introduction
from tests.support.servers.stomp_server import Wire, eventually
from tests.support.servers.two_brokers import Pair, asked, wait_for
from tests.support.sweeps import split

NONCE = "0123456789abcdef"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with Pair(tmp_path) as found:
        yield found


def sent(port: int, body: bytes) -> None:
    wire = Wire(port)
    wire.say("SEND", body, destination="/queue/q", receipt="1")
    assert wire.hear().headers["receipt-id"] == "1"
    wire.close()


def received(port: int) -> bytes:
    wire = Wire(port)
    wire.say("SUBSCRIBE", destination="/queue/q", id="1")
    body = wire.hear().body
    wire.say("DISCONNECT", receipt="1")
    assert wire.hear().command == "RECEIPT"
    wire.close()
    return body


def test_a_standby_waits_takes_over_and_gets_a_standby_of_its_own(pair: Pair) -> None:
    """EntireX 8.0, Concepts of Persistent Messaging: either is started first, and the partners change places."""
    second = pair.start(1, "STANDBY")
    wait_for(second, "waiting for the standard broker")
    found = asked(second.http_port, "/peer/ping")
    assert found.pop("lot"), "nobody ever had the store"
    assert found == {"run_mode": "STANDBY", "is_ready": False}
    assert second.port == 0, "a standby does not listen for STOMP"

    first = pair.start(0, "STANDARD")
    wait_for(second, "handshake with", "done")
    connection = stomp.Connection12([("127.0.0.1", pair.ports[3]), ("127.0.0.1", first.port)])
    connection.connect("alice", wait=True)
    assert connection.is_connected(), "a client with both addresses finds the standard broker"
    connection.disconnect()
    wire = Wire(first.port, connects=False)
    wire.say("CONNECT", accept_version="1.2")
    assert wire.hear().headers["partner-broker-id"] == f"127.0.0.1:{pair.ports[2]}:TCP"
    wire.close()
    sent(first.port, b"stored")

    with connect(f"http://127.0.0.1:{first.http_port}") as broker, broker.session("BOB") as bob:
        unit = bob.send("CLASS/SERVER/OTHER", b"over HTTP")
        first.kill()
        assert bob.query(unit.uowid).status is Status.ACCEPTED, "it goes to the partner, and waits the takeover out"
    assert second.hear_ports()
    state = asked(second.http_port, "/peer/ping")
    assert (state["run_mode"], state["is_ready"], state["owner"]) == ("STANDARD", True, 2)
    assert received(second.port) == b"stored"

    again = pair.start(0, "STANDBY")
    wait_for(again, "handshake with", "done")
    sent(second.port, b"of the second")
    wire = Wire(second.port)
    second.child.send_signal(signal.SIGTERM)
    told = wire.hear().headers
    assert told["error-code"] == "02150148"
    assert told["partner-broker-id"] == f"127.0.0.1:{pair.ports[0]}:TCP"
    wire.close()
    assert again.hear_ports(), "a standard broker that is stopped is followed by its standby too"
    assert received(again.port) == b"of the second"


@pytest.mark.whole
def test_of_two_standbys_without_handshake_the_first_one_up_becomes_standard(pair: Pair) -> None:
    with Broker.open(pair.spool, broker_id="ETB001") as broker, broker.session("ALICE") as session:
        session.send("QUEUE/q/q", b"of an earlier day")
    first = pair.start(0, "STANDBY", HANDSHAKE="NO", PSTORE_VERSION="3")
    assert first.hear_ports()
    second = pair.start(1, "STANDBY", HANDSHAKE="NO", PSTORE_VERSION="3")
    wait_for(second, "is the standard broker, and answers")
    first.kill()
    assert second.hear_ports()
    assert asked(second.http_port, "/peer/ping")["run_mode"] == "STANDARD"


@pytest.mark.whole
def test_a_handshake_refuses_what_the_two_do_not_have_alike(pair: Pair) -> None:
    first = pair.start(0, "STANDARD")
    good = introduction(read_attributes(pair.file(1, "STANDBY")), NONCE) | {"nonce": NONCE, "port": pair.ports[2]}

    def faults(**said: object) -> list[str]:
        found = asked(first.http_port, "/peer/hello", good | said)["faults"]
        assert isinstance(found, list)
        return found

    assert faults() == []
    assert faults(version="0.0") == [f"its version is {good['version']}, the standby's 0.0"]
    assert faults(platform="VAX") == [f"its platform is {good['platform']}, the standby's VAX"]
    assert faults(security="of others") == ["its security settings are not the standby's"]
    assert faults(nonce=NONCE[::-1]) == ["its security settings are not the standby's"], "no answer is good twice"
    (wrong,) = faults(port=1)
    assert "the standby answers at port 1" in wrong

    pair.spool = pair.directory / "elsewhere"
    second = pair.start(1, "STANDBY")
    assert second.child.wait(20) == 4
    wait_for(second, "no standby for", "its store is not the one in")


@pytest.mark.slow
def test_a_takeover_that_fails_too_often_is_the_end(pair: Pair) -> None:
    first = pair.start(0, "STANDARD")
    second = pair.start(1, "STANDBY", MAX_TAKEOVER_ATTEMPTS="2")
    wait_for(second, "handshake with", "done")
    with pair.without_data(first, second):
        assert second.child.wait(20) == 4
    wait_for(second, "takeover attempt 1 of 2 failed:", "holds no persistent store")
    wait_for(second, "MAX-TAKEOVER-ATTEMPTS=2")


@pytest.mark.whole
@pytest.mark.parametrize("mode", ["STANDARD", "STANDBY"])
def test_a_port_that_another_program_has_is_told_at_the_start(pair: Pair, mode: str) -> None:
    with socket.create_server(("127.0.0.1", pair.ports[1])), pytest.raises(AssertionError, match="cannot listen"):
        pair.start(0, mode)
    (failed,) = pair.failed
    assert failed.child.returncode == 4
    assert f"cannot listen for STOMP on 127.0.0.1:{pair.ports[1]}: Address already in use" in str(failed.log)
    assert not pair.spool.exists(), "and nothing was begun"


@pytest.mark.whole
def test_a_standby_has_its_port_and_refuses_who_connects_until_it_has_taken_over(pair: Pair) -> None:
    first = pair.start(0, "STANDARD")
    second = pair.start(1, "STANDBY")
    wait_for(second, "handshake with", "done")
    wait_for(second, f"STOMP 127.0.0.1:{pair.ports[3]}: held, and connections are refused")
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            Wire(pair.ports[3])
    for host in ("127.0.0.1", "0.0.0.0"):
        with pytest.raises(OSError, match="in use"):
            socket.create_server((host, pair.ports[3]))  # which allows that the address is used again
    with pair.without_data(first, second):
        wait_for(second, "takeover attempt 1 failed")
        with pytest.raises(ConnectionRefusedError):
            Wire(pair.ports[3])
    assert second.hear_ports()
    assert second.port == pair.ports[3]
    Wire(second.port).close()


@pytest.mark.whole
@pytest.mark.parametrize("handshake", split(["YES"], ["NO"]))
def test_of_two_standbys_on_a_new_directory_one_begins_the_store(pair: Pair, handshake: str) -> None:
    both = [pair.start(number, "STANDBY", HANDSHAKE=handshake) for number in (0, 1)]
    eventually(lambda: any(asked(each.http_port, "/peer/ping")["run_mode"] == "STANDARD" for each in both))
    both.sort(key=lambda each: str(asked(each.http_port, "/peer/ping")["run_mode"]))
    first, second = both
    assert first.hear_ports()
    done = ("handshake with", "done") if handshake == "YES" else ("is the standard broker, and answers",)
    wait_for(second, *done)
    sent(first.port, b"of a new store")
    first.kill()
    assert second.hear_ports()
    assert received(second.port) == b"of a new store"


@pytest.mark.whole
def test_a_standby_whose_partner_is_itself_says_so_and_ends(pair: Pair) -> None:
    second = pair.start(1, "STANDBY", PARTNER_CLUSTER_ADDRESS=f"127.0.0.1:{pair.ports[2]}:TCP")
    assert second.child.wait(20) == 4
    wait_for(second, f"PARTNER-CLUSTER-ADDRESS=127.0.0.1:{pair.ports[2]}:TCP is this broker itself")


def test_two_brokers_do_not_share_a_store_that_has_no_fence(pair: Pair) -> None:
    with pytest.raises(AttributesInvalid, match="two brokers share a store of PSTORE-TYPE=JOURNAL") as caught:
        read_attributes(pair.file(1, "STANDBY", PSTORE_TYPE="SQLITE"))
    assert caught.value.faults[0].keyword == "RUN-MODE"


@pytest.mark.whole
def test_a_broker_whose_lock_file_says_nothing_is_answered_for_without_its_owner(pair: Pair) -> None:
    first = pair.start(0, "STANDARD")
    (pair.spool / "omsmsg.lock").write_bytes(b"nonsense")
    assert asked(first.http_port, "/peer/ping").keys() <= {"run_mode", "is_ready"}
