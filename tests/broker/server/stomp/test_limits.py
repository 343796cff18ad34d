"""What a connection may take: hostile bytes, slow senders, subscribers that do not read. Others do not notice."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from oms_journal.broker.codes import Code
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.server.runtime.limits import FrameLimits, StompLimits
from oms_journal.broker.server.stomp.frames import V12, Frame, encode_frame
from oms_journal.broker.server.stomp.listener import StompConnection, StompListener
from tests.broker.server.stomp.test_frames import HOSTILE
from tests.support.servers.stomp_server import Serving, Wire

PATIENCE = 20  # seconds


class Peer:
    """A client on the loop of the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, command: str, body: bytes = b"", /, **headers: str) -> None:
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        self.writer.write(encode_frame(Frame(command, said, body), V12))

    async def hear(self) -> bytes:
        """Return the next frame as it came, without what is between frames."""
        data = await asyncio.wait_for(self.reader.readuntil(b"\0"), PATIENCE)
        return data.lstrip(b"\n")

    async def error(self) -> str:
        """Return the ERROR, behind which nothing comes."""
        data = await asyncio.wait_for(self.reader.read(), PATIENCE)
        assert data.lstrip(b"\n").startswith(b"ERROR\n"), data[:200]
        return data.decode()

    def close(self) -> None:
        self.writer.close()


class Place:
    """A listener, and clients of it."""

    def __init__(self, listener: StompListener, port: int) -> None:
        self.listener = listener
        self.port = port
        self._peers: list[Peer] = []

    async def peer(self, login: str = "", *, connects: bool = True, receive_bytes: int | None = None) -> Peer:
        raw = socket.socket()
        if receive_bytes is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", self.port))
        peer = Peer(*await asyncio.open_connection(sock=raw, limit=1 << 12 if receive_bytes else 1 << 20))
        self._peers.append(peer)
        if connects:
            peer.say("CONNECT", accept_version="1.2", login=login)
            assert (await peer.hear()).startswith(b"CONNECTED")
        return peer

    async def close(self) -> None:
        for peer in self._peers:
            peer.close()
        await self.listener.stop()


def placed(tmp_path: Path, limits: StompLimits, script: Callable[[Place], Awaitable[None]]) -> None:
    async def play() -> None:
        async with AsyncBroker.open(tmp_path) as broker:
            listener = StompListener(broker, limits)
            (address,) = await listener.start("127.0.0.1", 0)
            place = Place(listener, int(address.rpartition(":")[2]))
            try:
                await script(place)
            finally:
                await place.close()

    asyncio.run(play())


# Bytes that are no frames.


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("spool")) as serving:
        yield serving


@pytest.mark.parametrize("name", [name for name in HOSTILE if "limit" not in name and "long" not in name])
def test_what_is_no_frame_is_answered_with_an_error_and_the_end(server: Serving, name: str) -> None:
    data, reason = HOSTILE[name]
    if name in ("an endless line", "many headers"):
        data = data + b"y" * 20_000 if name == "an endless line" else b"SEND\n" + b"a:b\n" * 300 + b"\n\0"
        reason = "longer than" if name == "an endless line" else "more than 256"
    wire, other = Wire(server.port), Wire(server.port)
    wire.socket.sendall(data)

    assert reason in wire.error()
    other.say("SEND", b"x", destination="/queue/a", receipt="1", persistent="false")
    assert other.hear().command == "RECEIPT", "others go on"
    other.close()


def test_what_is_cut_off_anywhere_leaves_nothing(server: Serving) -> None:
    whole = encode_frame(Frame("SEND", {"destination": "/queue/cut", "receipt": "1"}, b"x" * 20), V12)
    for size in range(whole.index(b"\0") + 1):
        wire = Wire(server.port)
        wire.socket.sendall(whole[:size])
        wire.close()
    last = Wire(server.port)
    last.say("SUBSCRIBE", destination="/queue/cut", id="1", ack="auto")
    last.say("SEND", b"whole", destination="/queue/cut")

    assert last.hear().body == b"whole"
    last.close()


# Connections that end.


def test_who_goes_on_sending_behind_its_error_can_still_read_it(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        peer = await place.peer()
        peer.say("SEND", destination="nowhere")
        assert "00200183" in await peer.error()
        for _ in range(3):  # a closed socket would answer the first one with a reset, and the others would fail
            peer.say("SEND", b"e4", destination="/queue/a")
            await peer.writer.drain()
            other = await place.peer()
            other.say("SEND", destination="/queue/b", receipt="1")
            assert (await other.hear()).startswith(b"RECEIPT")  # what was sent before has been read, and did nothing
        peer.close()

    placed(tmp_path, StompLimits(linger_seconds=3600), script)


def test_who_does_not_hang_up_after_its_error_keeps_nothing(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        first, second = await place.peer(), await place.peer()
        first.say("SUBSCRIBE", destination="/queue/a", id="1", ack="client")
        first.say("SEND", b"e4", destination="/queue/a")
        assert (await first.hear()).startswith(b"MESSAGE")
        first.say("SEND", destination="nowhere")
        assert "00200183" in await first.error()
        second.say("SUBSCRIBE", destination="/queue/a", id="1", ack="client")
        assert (await second.hear()).startswith(b"MESSAGE")

    placed(tmp_path, StompLimits(linger_seconds=3600), script)


def test_who_is_gone_before_its_error_is_no_mistake_of_the_server(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        loop, raw = asyncio.get_running_loop(), socket.create_connection(("127.0.0.1", place.port), PATIENCE)
        raw.setblocking(False)
        await loop.sock_sendall(raw, b"CONNECT\n\n\0")
        await asyncio.wait_for(loop.sock_recv(raw, 4096), PATIENCE)
        (connection,) = place.listener.connections
        raw.close()  # the ERROR is answered with a reset
        connection.end(Code.TRANSPORT_TIMED_OUT, "no heart-beat")
        async with asyncio.timeout(PATIENCE):
            while place.listener.connections:
                await asyncio.sleep(0.01)

    placed(tmp_path, StompLimits(linger_seconds=3600), script)


def test_who_reads_late_reads_all_up_to_its_error_and_the_end(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        peer = await place.peer(receive_bytes=1 << 12)
        (connection,) = place.listener.connections
        peer.say("SUBSCRIBE", destination="/queue/a", id="1")
        peer.say("SEND", b"x" * (4 << 20), destination="/queue/a")
        async with asyncio.timeout(PATIENCE):
            while connection.is_writable:
                await asyncio.sleep(0.01)
        connection.end(Code.TRANSPORT_TIMED_OUT, "no heart-beat")
        data = await asyncio.wait_for(peer.reader.read(), PATIENCE)
        assert data.startswith(b"\nMESSAGE\n")
        said = data.partition(b"\0\nERROR\n")[2]
        assert b"no heart-beat" in said and said.endswith(b"\0\n")

    placed(tmp_path, StompLimits(linger_seconds=3600), script)


def test_who_does_not_hang_up_after_its_error_holds_up_no_stop(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        peer = await place.peer()
        peer.say("SEND", destination="nowhere")
        assert "00200183" in await peer.error()
        await asyncio.wait_for(place.listener.stop(), PATIENCE)
        assert not place.listener.connections

    placed(tmp_path, StompLimits(linger_seconds=3600, stop_seconds=3600), script)


def test_who_was_accepted_just_before_a_stop_is_told_why_there_is_one(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        place.listener.ending = "another broker has taken over"
        await place.listener.stop()
        ours, theirs = socket.socketpair()
        await asyncio.get_running_loop().create_connection(lambda: StompConnection(place.listener), sock=ours)
        peer = Peer(*await asyncio.open_connection(sock=theirs))
        said = await peer.error()
        assert "\nmessage:02150148 Broker not active or not reachable: another broker has taken over\n" in said
        peer.close()

    placed(tmp_path, StompLimits(), script)


def test_who_does_not_hang_up_after_its_error_takes_nobodys_place(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        for _ in range(5):
            peer = await place.peer()
            peer.say("SEND", destination="nowhere")
            assert "00200183" in await peer.error()
        assert (place.listener.accepted, place.listener.refused) == (5, 0)

    placed(tmp_path, StompLimits(linger_seconds=3600, connections=2), script)


# Those who are slow.


def test_who_does_not_connect_in_time_is_let_go(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        silent = await place.peer(connects=False)
        assert "no CONNECT within 0.1 seconds" in await silent.error()

    placed(tmp_path, StompLimits(connect_seconds=0.1), script)


def test_a_user_who_has_all_connections_keeps_nobody_out(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        greedy = [await place.peer("GREEDY") for _ in range(3)]
        modest = await place.peer("MODEST")
        assert "GREEDY has most of them" in await greedy[2].error()
        for login in ("GREEDY", "MODEST"):
            refused = await place.peer(connects=False)
            refused.say("CONNECT", accept_version="1.2", login=login)
            assert "at most 3 connections" in await refused.error()
        for peer in (*greedy[:2], modest):
            peer.say("SEND", destination="/queue/a", receipt="1")
            assert (await peer.hear()).startswith(b"RECEIPT")

    placed(tmp_path, StompLimits(connections=3), script)


def test_no_flood_of_connections_without_connect_ends_one_that_is_logged_on(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        known = [await place.peer(login) for login in ("ONE", "TWO", "TWO")]
        for turn in range(20):
            stranger = await place.peer(connects=False)
            if turn % 2:
                stranger.say("SEND", destination="/queue/a")
                await stranger.error()
        for peer in known:
            peer.say("SEND", destination="/queue/a", receipt="1")
            assert (await peer.hear()).startswith(b"RECEIPT")
        assert len(place.listener.connections) <= 3 + 2

    placed(tmp_path, StompLimits(connections=3, linger_seconds=3600), script)


def test_a_second_connection_of_one_token_takes_the_place_of_one_that_says_nothing(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        others = [await place.peer(login) for login in ("ONE", "TWO")]
        idle = await place.peer(connects=False)
        idle.say("CONNECT", accept_version="1.2", login="BOB", token="T")
        assert (await idle.hear()).startswith(b"CONNECTED")
        again = await place.peer(connects=False)
        again.say("CONNECT", accept_version="1.2", login="BOB", token="T")
        assert (await again.hear()).startswith(b"CONNECTED")
        assert "01960196" in await idle.error()
        for peer in (*others, again):
            peer.say("SEND", destination="/queue/a", receipt="1")
            assert (await peer.hear()).startswith(b"RECEIPT")

    placed(tmp_path, StompLimits(connections=3), script)


def test_of_too_many_connections_those_without_connect_go_first_the_oldest_of_them(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        first = await place.peer()
        silent = [await place.peer(connects=False) for _ in range(2)]
        others = [await place.peer() for _ in range(2)]
        for peer in silent:
            assert "this one says nothing" in await peer.error()
        refused = await place.peer(connects=False)
        refused.say("CONNECT", accept_version="1.2")
        assert "at most 3 connections" in await refused.error()
        for peer in (first, *others):
            peer.say("SEND", destination="/queue/a", receipt="1")
            assert (await peer.hear()).startswith(b"RECEIPT")
        assert (place.listener.accepted, place.listener.refused) == (6, 1)

    placed(tmp_path, StompLimits(connections=3), script)


def test_a_frame_that_takes_too_long_ends_its_connection(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        slow, idle = await place.peer(), await place.peer()
        slow.writer.write(b"SEND\ndestination:/queue/a\n\nhalf")
        assert "a frame was not complete after 0 seconds" in await slow.error()
        idle.say("SEND", destination="/queue/a", receipt="1")
        assert (await idle.hear()).startswith(b"RECEIPT"), "who has begun no frame may be silent"
        assert place.listener.half_frames.size == 0

    placed(tmp_path, StompLimits(frame_seconds=0.2, look_seconds=0.02), script)


def test_frames_that_have_begun_take_only_so_much_memory_together(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        begun = [await place.peer() for _ in range(3)]
        for peer in begun:
            peer.writer.write(b"SEND\ndestination:/queue/a\ncontent-length:50000\nreceipt:1\n\n" + b"x" * 40_000)
            await peer.writer.drain()
        while place.listener.half_frames.size < 100_000 and len(place.listener.connections) == 3:
            await asyncio.sleep(0.01)
        ended = [peer for peer in begun if await _is_ended(peer)]
        assert len(ended) == 1
        for peer in begun:
            if peer not in ended:
                peer.writer.write(b"x" * 10_000 + b"\0")
                assert (await peer.hear()).startswith(b"RECEIPT")
        assert place.listener.half_frames.size == 0

    async def _is_ended(peer: Peer) -> bool:
        try:
            return b"too many frames have begun" in await asyncio.wait_for(peer.reader.read(), 0.5)
        except TimeoutError:
            return False

    placed(tmp_path, StompLimits(unread_bytes=100_000), script)


@pytest.mark.parametrize("size", [30_000, 9_000, 900])
def test_of_frames_that_have_begun_those_go_first_whose_user_holds_most(tmp_path: Path, size: int) -> None:
    head = b"SEND\ndestination:/queue/a\ncontent-length:50000\nreceipt:1\n\n"

    async def script(place: Place) -> None:
        half_frames = place.listener.half_frames
        for _ in range(99_000 // size):
            (await place.peer("MALLORY")).writer.write(head + b"x" * size)
        async with asyncio.timeout(PATIENCE):
            while half_frames.size < 99_000 // size * size:
                await asyncio.sleep(0.01)
        for number in range(3):
            victim = await place.peer(f"USER{number}")
            victim.writer.write(head + b"x" * 40_000)
            async with asyncio.timeout(PATIENCE):
                while not any(each.user == f"USER{number}" for each in half_frames._begun):
                    await asyncio.sleep(0.01)
            victim.writer.write(b"x" * 10_000 + b"\0")
            assert (await victim.hear()).startswith(b"RECEIPT")
        await place.peer()

    placed(tmp_path, StompLimits(unread_bytes=100_000), script)


def test_more_is_not_read_than_is_answered(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        client = await place.peer()
        for number in range(2000):
            client.say("SEND", b"x" * 1000, destination="/queue/a", receipt=str(number), persistent="false")
        heard = [await client.hear() for _ in range(2000)]
        assert [frame.split(b"receipt-id:")[1].split(b"\n")[0] for frame in heard] == [b"%d" % n for n in range(2000)]

    placed(tmp_path, StompLimits(calls=10), script)


def test_a_subscriber_that_does_not_read_is_given_nothing_more_and_holds_up_nobody(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        deaf = await place.peer(receive_bytes=1 << 12)
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
        deaf.say("SUBSCRIBE", destination="/queue/a", id="1", ack="auto", receipt="s")
        sender, other = await place.peer(), await place.peer()
        await asyncio.sleep(0.1)
        for number in range(200):
            sender.say("SEND", bytes(100_000), destination="/queue/a", persistent="false", receipt=str(number))
            assert (await sender.hear()).startswith(b"RECEIPT")
        waiting = sum(peer._transport.get_write_buffer_size() for peer in place.listener.connections if peer._transport)
        assert waiting < 1_000_000, "of 20,000,000 bytes"
        other.say("SUBSCRIBE", destination="/queue/a", id="1", ack="auto")
        for _ in range(100):
            await asyncio.wait_for(other.reader.readuntil(b"content-length:100000\n"), PATIENCE)
            await other.reader.readexactly(100_002)

    placed(tmp_path, StompLimits(), script)


LONG = "x" * 16_000
ANSWERED: dict[str, tuple[Callable[[Peer, str], None], Callable[[Peer, str], None]]] = {
    "BEGIN and ABORT": (
        lambda peer, receipt: peer.say("BEGIN", transaction="t", receipt=receipt + LONG),
        lambda peer, receipt: peer.say("ABORT", transaction="t", receipt=receipt + LONG),
    ),
    "calls": 2
    * (
        lambda peer, receipt: peer.say(
            "SEND",
            b'{"function": "VERSION"}',
            destination="/aci",
            reply_to="/temp/a",
            correlation_id=LONG,
            receipt=receipt,
        ),
    ),
}


@pytest.mark.parametrize("what", ANSWERED)
def test_of_what_a_client_brings_about_and_does_not_read_there_is_only_so_much(tmp_path: Path, what: str) -> None:
    limits = StompLimits(unsent_bytes=50_000)

    async def script(place: Place) -> None:
        deaf, other = await place.peer(receive_bytes=1 << 12), await place.peer()
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
        (connection, _) = sorted(place.listener.connections, key=lambda each: each._caller)
        assert connection._transport is not None
        connection._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 14)
        deaf.reader._limit = 1 << 20  # type: ignore[attr-defined]
        count = 200
        for number in range(count):
            ANSWERED[what][number % 2](deaf, f"{number}-")
        async with asyncio.timeout(PATIENCE):
            while not connection._is_reading_paused or not connection.is_behind:
                await asyncio.sleep(0.01)
        for number in range(20):  # others have their turns, and what could be read would be by now
            other.say("BEGIN", transaction=str(number), receipt=str(number))
            assert (await other.hear()).startswith(b"RECEIPT")
        assert connection._is_reading_paused and connection.is_behind
        assert connection._transport.get_write_buffer_size() < 500_000, "of 3,200,000"

        deaf.writer.transport.resume_reading()  # type: ignore[attr-defined]
        heard = [frame async for frame in _receipts(deaf, count)]
        assert [int(each) for each in heard] == list(range(count)), "all of it is done once it reads"

    async def _receipts(peer: Peer, count: int) -> AsyncIterator[bytes]:
        while count:
            frame = await peer.hear()
            if frame.startswith(b"RECEIPT"):
                count -= 1
                yield frame.split(b"receipt-id:")[1].split(b"\n")[0].split(b"-")[0]

    placed(tmp_path, limits, script)


def test_a_frame_over_the_limit_is_refused_before_it_has_arrived(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        peer = await place.peer()
        peer.writer.write(b"SEND\ndestination:/queue/a\ncontent-length:1001\n\n")
        assert "over the limit of 1,000 bytes" in await peer.error()

    placed(tmp_path, StompLimits(frames=FrameLimits(body=1000)), script)


@pytest.mark.whole
def test_hundreds_of_idle_connections_hold_up_nobody(tmp_path: Path) -> None:
    async def script(place: Place) -> None:
        for _ in range(300):
            await place.peer()
        last = await place.peer()
        last.say("SUBSCRIBE", destination="/queue/a", id="1", ack="auto")
        last.say("SEND", b"x", destination="/queue/a")
        assert (await last.hear()).startswith(b"MESSAGE")
        assert len(place.listener.connections) == 301

    placed(tmp_path, StompLimits(), script)
