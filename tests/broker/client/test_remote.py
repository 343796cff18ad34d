"""A broker elsewhere as programs know it: lost connections, restarts, a partner that takes over; both ways."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.client.brokers import RemoteBroker
from oms_journal.broker.client.connect import connect, connect_async
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.records import Status
from tests.callers.wire import Wire
from tests.support.broker.embedded import SERVICE, Awaited, bodies, refused
from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.servers.web_place import WebPlace
from tests.support.sweeps import a_sample, takes_turns

pytestmark = takes_turns(2, "way")

KEEPS = {"status_lifetime": "1H"}
CUTS = ["request", "answer", "within"]


@contextmanager
def connected(url: str, way: str, **options: Any) -> Iterator[Any]:
    """Yield a broker elsewhere, of threads or of asyncio; spoken to in the same words."""
    if way == "threads":
        with connect(url, **options) as broker:
            yield broker
        return
    loop = asyncio.new_event_loop()
    try:
        with Awaited(connect_async(url, **options), loop) as broker:
            yield broker
    finally:
        loop.close()


@pytest.fixture(params=["threads", "asyncio"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[WebPlace]:
    with WebPlace(tmp_path / "store", broker_id="ETB001") as found:
        yield found


@pytest.fixture
def wire(place: WebPlace) -> Iterator[Wire]:
    with closing(Wire(place.port)) as found:
        yield found


# One way to any broker.


def test_the_same_words_begin_a_broker_here_and_one_elsewhere(place: WebPlace, tmp_path: Path) -> None:
    for where, kind in ((f"local:{tmp_path / 'here'}", Broker), (place.url, RemoteBroker)):
        with connect(where) as broker:
            assert isinstance(broker, kind)
            with broker.session("ALICE", token="PC1") as alice, broker.session("BOB", token="S1") as bob:
                bob.register(SERVICE)
                alice.send(SERVICE, b"e4")
                assert bodies(bob) == [b"e4"]
    assert isinstance(connect_async(f"local:{tmp_path / 'here'}"), AsyncBroker)


def test_a_closed_broker_elsewhere_refuses_every_call(place: WebPlace, way: str) -> None:
    with connected(place.url, way) as broker:
        alice = broker.session("ALICE", token="PC1")
        alice.log_on()
        broker.close()
        with refused(Code.NOT_ACTIVE):
            alice.send(SERVICE, b"")
        alice.log_off()


def test_where_nobody_is_the_first_call_says_so_at_once(way: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        connected(f"http://127.0.0.1:{port}", way) as broker,
        pytest.raises(BrokerError, match=str(port)) as failure,
        broker.session("ALICE"),
    ):
        pass
    assert failure.value.code is Code.NOT_ACTIVE


# A connection that is lost.


@a_sample(6)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("marker", [b'"SEND"', b'"COMMIT"', b'"EOC"'])
def test_a_call_whose_connection_is_lost_is_done_once(
    place: WebPlace, wire: Wire, way: str, cut: str, marker: bytes
) -> None:
    with connected(wire.url, way) as broker, broker.session("ALICE", token="PC1") as alice:
        uow = alice.unit_of_work(SERVICE, **KEEPS)
        uow.send(b"1")
        wire.cut, wire.marker = cut, marker
        uow.send(b"2")
        assert (uow.commit_and_end() if marker == b'"EOC"' else uow.commit()).status is Status.ACCEPTED
        assert not wire.cut
        with broker.session("BOB", token="S1") as bob:
            bob.register(SERVICE)
            unit = bob.receive_unit()
            assert [message.body for message in unit] == [b"1", b"2"] and unit.delivery_count == 0
            assert bob.receive_unit() is None


@pytest.mark.parametrize("cut", CUTS)
def test_a_session_is_left_though_the_connection_is_lost_on_which_that_is_said(
    place: WebPlace, wire: Wire, way: str, cut: str
) -> None:
    """The user has no token: a new session of it displaces none."""
    with connected(wire.url, way) as broker, broker.session("CAROL") as carol:
        uow = carol.unit_of_work(SERVICE, **KEEPS)
        uow.send(b"half")
        wire.cut, wire.marker = cut, b"DELETE "
        carol.recover()
        assert not wire.cut
        assert carol.query(uow.uowid).status is Status.BACKEDOUT


@a_sample(2)
@pytest.mark.parametrize("is_done", [True, False])
def test_a_commit_whose_session_is_lost_too_is_told_by_recover(tmp_path: Path, way: str, is_done: bool) -> None:
    first = WebPlace(tmp_path / "store")
    with first, closing(Wire(first.port)) as wire, connected(wire.url, way) as broker:
        alice = broker.session("ALICE", token="PC1")
        alice.log_on()
        uow = alice.unit_of_work(SERVICE, **KEEPS)
        uow.send(b"half")
        wire.cut, wire.marker = "answer" if is_done else "request", b'"SYNCPOINT", "option": "COMMIT"'
        second = WebPlace(tmp_path / "store", port=first.port)

        def restart() -> None:
            first.end()
            second.__enter__()

        wire.then = restart
        with refused(Code.TRANSPORT_TIMED_OUT):
            uow.commit()
        try:
            last = alice.recover()
            assert last is not None and last.uowid == uow.uowid
            assert last.status is (Status.ACCEPTED if is_done else Status.BACKEDOUT)
            alice.log_off()
        finally:
            second.end()


@pytest.mark.parametrize("cut", CUTS)
def test_a_send_with_a_producer_is_repeated_and_is_there_once(place: WebPlace, wire: Wire, way: str, cut: str) -> None:
    with connected(wire.url, way) as broker, broker.session("ALICE", token="PC1") as alice:
        wire.cut, wire.marker = cut, b'"SEND"'
        assert alice.send(SERVICE, b"once", producer="p1").status is Status.ACCEPTED
        assert not wire.cut
        with broker.session("BOB", token="S1") as bob:
            bob.register(SERVICE)
            assert bodies(bob) == [b"once"]


@pytest.mark.parametrize("cut", CUTS)
def test_a_receive_whose_connection_is_lost_gets_the_unit_all_the_same(
    place: WebPlace, wire: Wire, way: str, cut: str
) -> None:
    with (
        connected(wire.url, way) as broker,
        broker.session("ALICE", token="PC1") as alice,
        broker.session("BOB", token="S1") as bob,
    ):
        bob.register(SERVICE)
        alice.send(SERVICE, b"e4")
        wire.cut, wire.marker = cut, b'"RECEIVE"'
        assert bodies(bob, wait=5, most=1) == [b"e4"]
        assert not wire.cut and bob.receive_unit() is None


def test_a_server_that_recovers_serves_again_and_gets_again_what_it_had_not_committed(
    place: WebPlace, way: str
) -> None:
    with (
        connected(place.url, way) as broker,
        broker.session("ALICE", token="PC1") as alice,
        broker.session("BOB", token="S1") as bob,
    ):
        bob.register(SERVICE)
        alice.send(SERVICE, b"e4")
        assert bob.receive_unit() is not None
        assert bob.recover() is None
        unit = bob.receive_unit(wait=5)
        assert unit is not None and unit.delivery_count == 1


def test_recover_works_for_a_broker_in_the_program_too(tmp_path: Path) -> None:
    with Broker.open(tmp_path / "store") as broker, broker.session("ALICE", token="PC1") as alice:
        sent = alice.send(SERVICE, b"e4")
        alice.unit_of_work(SERVICE).send(b"never committed")
        last = alice.recover()
        assert last is not None and (last.uowid, last.status) == (sent.uowid, Status.ACCEPTED)


# Brokers that come and go.


def test_a_restart_is_waited_out_and_sessions_go_on(tmp_path: Path, way: str) -> None:
    first = WebPlace(tmp_path / "store")
    with first, connected(first.url, way) as broker, broker.session("ALICE", token="PC1") as alice:
        bob = broker.session("BOB", token="S1")
        bob.log_on()
        bob.register(SERVICE)
        alice.send(SERVICE, b"1")
        first.end()
        with WebPlace(tmp_path / "store", port=first.port):
            alice.send(SERVICE, b"2")
            assert bodies(bob, wait=5, most=2) == [b"1", b"2"]
            bob.log_off()


def test_a_session_that_ends_while_the_broker_is_away_does_not_wait_for_it(tmp_path: Path, way: str) -> None:
    with (
        WebPlace(tmp_path / "store") as place,
        connected(place.url, way) as broker,
        broker.session("ALICE", token="PC1") as alice,
    ):
        alice.send(SERVICE, b"1")
        place.end()


def test_the_partner_that_the_broker_named_is_asked_when_the_broker_is_gone(tmp_path: Path, way: str) -> None:
    second = WebPlace(tmp_path / "store")
    with socket.create_server(("127.0.0.1", 0)) as free:
        second.port = free.getsockname()[1]
    first = WebPlace(tmp_path / "store", partner_cluster_address=f"127.0.0.1:{second.port}:TCP")
    with first, connected(first.url, way) as broker, broker.session("ALICE", token="PC1") as alice:
        sent = alice.send(SERVICE, b"e4", **KEEPS)
        first.end()
        with second:
            assert alice.query(sent.uowid).status is Status.ACCEPTED
            assert broker.url == second.url


def in_a_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Begin something; return what waits for its result."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(TIMEOUT_SECONDS)
        return found[0]

    return result


def test_a_takeover_is_waited_out(place: WebPlace, way: str) -> None:
    with connected(place.url, way) as broker, broker.session("ALICE", token="PC1") as alice:
        place.served.broker, place.served.refusal = None, Code.NOT_OPERATIONAL
        asked = place.listener.state.total_requests
        sent = in_a_thread(lambda: alice.send(SERVICE, b"e4").status)
        while place.listener.state.total_requests < asked + 3:
            threading.Event().wait(0.01)
        place.served.broker = place.broker
        assert sent() is Status.ACCEPTED


def test_what_a_cancelled_receive_would_have_brought_comes_again_whole(place: WebPlace, wire: Wire) -> None:
    """The server has handed it out, and its answer is on the way when the task is cancelled."""

    async def cancelled() -> list[bytes]:
        async with connect_async(wire.url) as broker, broker.session("BOB", token="S1") as bob:
            await bob.register(SERVICE)
            async with broker.session("ALICE", token="PC1") as alice, alice.unit_of_work(SERVICE) as unit:
                await unit.send(b"head")
                await unit.send(b"line")
            wire.marker, wire.holds = b'"RECEIVE"', True
            receiving = asyncio.ensure_future(bob.receive_unit())
            assert await asyncio.to_thread(wire.arrived.wait, TIMEOUT_SECONDS)
            receiving.cancel()
            await asyncio.wait([receiving])
            wire.holds = False
            wire.go_on.set()
            received = await bob.receive_unit()
            assert received is not None
            return [message.body async for message in received]

    assert asyncio.run(cancelled()) == [b"head", b"line"]
