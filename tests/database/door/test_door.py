"""The door for other processes, in one process: what a client gets, and what ends where."""

import asyncio
import contextlib
import math
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from oms_journal import (
    AddedMany,
    AsyncMessageDatabase,
    DatabaseClosed,
    DiskFull,
    DuplicateConflict,
    InvalidName,
    JournalError,
    LimitExceeded,
    MessageDatabase,
    NotAttempted,
    NotServed,
    Options,
    OutcomeUnknown,
    QueueClient,
    QueueFull,
    QueueServer,
    SocketRefused,
    connect_queue,
    serve_queue,
)
from oms_journal.database.door import client, server
from oms_journal.database.door.protocol import (
    GREETING,
    HEADER,
    REQUEST_BYTES_MAX,
    VERSION,
    Front,
    Greeting,
    Kind,
    decode_failure,
    decode_greeting,
    encode_add,
    encode_added,
    framed,
)
from tests.support.disks.faulty_disk import SimulatedDisk
from tests.support.disks.small_files import MODEST
from tests.support.forking import forked
from tests.support.sweeps import a_sample

LONG = 60.0
SMALL = Options.of(max_data_file_size=MODEST, cleanup_interval=0, max_message_size=100_000)
EARLY = datetime(1, 1, 2, tzinfo=UTC)
LATER, LATEST = datetime(2100, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
LIMITED = Options.of(max_data_file_size=MODEST, cleanup_interval=0, max_message_size=100_000, max_messages=2)
ADDS: dict[str, Callable[[MessageDatabase | QueueClient], object]] = {
    "one": lambda db: db.add("q", b"x"),
    "properties": lambda db: db.add("q", bytearray(b"x"), properties={"a": "b"}),
    "many": lambda db: db.add_many("q", iter([b"x", b"y"])),
    "many with properties": lambda db: db.add_many("q", [b"x", b"y"], properties=[None, {"a": "b"}]),
    "none": lambda db: db.add_many("q", []),
    "repeat": lambda db: [db.add("q", b"same", producer_id="p") for _ in range(2)],
    "repeat of many": lambda db: [db.add_many("q", [b"1", b"2"], producer_id="p") for _ in range(2)],
    "conflict": lambda db: [db.add("q", each, producer_id="p") for each in (b"1", b"2")],
    "no name": lambda db: db.add("", b"x"),
    "long name": lambda db: db.add("q" * 256, b"x"),
    "name that is no Unicode": lambda db: db.add("\udc80", b"x"),
    "producer that is no Unicode": lambda db: db.add("q", b"x", producer_id="\udc80"),
    "empty producer": lambda db: db.add("q", b"x", producer_id=""),
    "text": lambda db: db.add("q", "x"),  # type: ignore[arg-type]
    "text among many": lambda db: db.add_many("q", [b"x", "y"]),  # type: ignore[list-item]
    "no iterable": lambda db: db.add_many("q", b"xy"),  # type: ignore[arg-type]
    "queue of bytes": lambda db: db.add(b"q", b"x"),  # type: ignore[arg-type]
    "properties of numbers": lambda db: db.add("q", b"x", properties={"a": 1}),  # type: ignore[dict-item]
    "one mapping for many": lambda db: db.add_many("q", [b"x"], properties={"a": "b"}),  # type: ignore[dict-item]
    "fewer properties": lambda db: db.add_many("q", [b"x", b"y"], properties=[None]),
    "long properties": lambda db: db.add("q", b"x", properties={"a": "b" * 65_535}),
    "large": lambda db: db.add("q", bytes(100_001)),
    "large by its properties": lambda db: db.add("q", bytes(100_000), properties={"a": "b"}),
    "large among many": lambda db: db.add_many("q", [b"x", bytes(100_001)]),
    "terms": lambda db: db.add("q", b"x", delay=5, expires=10, group="g"),
    "terms of many": lambda db: db.add_many("q", [b"x", b"y"], at=LATER, expires=LATEST, group="g"),
    "points in time of every kind": lambda db: [db.add("q", b"x", at=at) for at in (0, 1.5, 253_402_300_800, EARLY)],
    "repeat on terms": lambda db: [db.add("q", b"x", producer_id="p", delay=delay) for delay in (None, 5, 6)],
    "repeat with a wait": lambda db: [db.add("q", b"x", producer_id="p", wait=wait) for wait in (None, 5, 0)],
    "no delay": lambda db: db.add("q", b"x", delay=0),
    "delay and time": lambda db: db.add("q", b"x", delay=1, at=LATER),
    "expires before it is due": lambda db: db.add("q", b"x", delay=60, expires=30),
    "expires at a time before it is due": lambda db: db.add_many("q", [b"x"], at=LATEST, expires=LATER),
    "expires before it is due by two clocks": lambda db: db.add("q", b"x", at=LATEST, expires=1),
    "time without a zone": lambda db: db.add("q", b"x", at=LATER.replace(tzinfo=None)),
    "delay in words": lambda db: db.add("q", b"x", delay="soon"),  # type: ignore[arg-type]
    "negative delay": lambda db: db.add("q", b"x", delay=-1),
    "long group": lambda db: db.add("q", b"x", group="g" * 256),
    "empty group": lambda db: db.add_many("q", [b"x"], group=""),
    "negative wait": lambda db: db.add("q", b"x", wait=-1),
    "wait in words": lambda db: db.add_many("q", [b"x"], wait="long"),  # type: ignore[arg-type]
    "as large as may be": lambda db: db.add("q", bytes(100_000)),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "q.sock"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path / "spool", options=SMALL) as opened:
        yield opened


@pytest.fixture
def door(db: MessageDatabase, path: Path) -> Iterator[QueueServer]:
    with serve_queue(db, path) as serving:
        yield serving


_clients: list[QueueClient] = []


@pytest.fixture(autouse=True)
def closed_clients() -> Iterator[None]:
    yield
    while _clients:
        _clients.pop().close()


def connected(path: str | Path, **named: float) -> QueueClient:
    """Return a client that the test's end closes."""
    _clients.append(connect_queue(path, **named))
    return _clients[-1]


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except Exception as failure:
        return type(failure), str(failure)


def answered(script: Callable[[socket.socket], object], path: Path) -> threading.Thread:
    """Be a server that greets one client, and then does as the script says."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def run() -> None:
        with listener, listener.accept()[0] as accepted, contextlib.suppress(OSError):
            accepted.sendall(Greeting(VERSION, 1 << 20, REQUEST_BYTES_MAX).encode())
            accepted.recv(GREETING.size, socket.MSG_WAITALL)
            script(accepted)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def read_request(accepted: socket.socket) -> None:
    _, length = HEADER.unpack(accepted.recv(HEADER.size, socket.MSG_WAITALL))
    accepted.recv(length, socket.MSG_WAITALL)


def answering(answer: bytes) -> Callable[[socket.socket], None]:
    """Return a script that reads a request and sends this, whatever it is."""

    def script(accepted: socket.socket) -> None:
        read_request(accepted)
        accepted.sendall(answer)

    return script


@a_sample(10)
@pytest.mark.parametrize("adding", ADDS.values(), ids=ADDS)
def test_a_client_gets_what_a_caller_in_the_process_gets(
    adding: Callable[[MessageDatabase | QueueClient], object], tmp_path: Path, path: Path
) -> None:
    with MessageDatabase.open(tmp_path / "here", options=SMALL) as here:
        expected = outcome(lambda: adding(here))
        held = [(each.payload, each.properties, each.producer_id) for each in here.undelivered()]
    with (
        MessageDatabase.open(tmp_path / "there", options=SMALL) as there,
        serve_queue(there, path),
        connect_queue(path) as other,
    ):
        assert outcome(lambda: adding(other)) == expected
        assert [(each.payload, each.properties, each.producer_id) for each in there.undelivered()] == held


def test_what_the_server_refuses_is_raised_by_its_class(tmp_path: Path, path: Path) -> None:
    disk = SimulatedDisk()
    with MessageDatabase.open(tmp_path / "spool", disk=disk, max_data_file_size="64K") as db, serve_queue(db, path):
        other = connected(path)
        other.add("q", b"x")
        disk.space = disk.used()
        with pytest.raises(DiskFull) as full:
            for _ in range(100):
                other.add("q", bytes(5000))
        assert full.value.failure.strerror
        assert full.value.path.is_relative_to(tmp_path)
        disk.space = None
        disk.fail("write_durably")
        with pytest.raises(OutcomeUnknown):
            other.add("q", b"x")
        with pytest.raises(NotAttempted):
            other.add("q", b"x")


def test_after_the_database_was_closed_a_client_is_told_so(db: MessageDatabase, door: QueueServer, path: Path) -> None:
    other = connected(path)
    db.close()

    with pytest.raises(DatabaseClosed):
        other.add("q", b"x")


def test_a_closed_client_says_that_it_is(door: QueueServer, path: Path) -> None:
    with connect_queue(path) as other:
        pass
    other.close()

    for call in (lambda: other.add("q", b"x"), lambda: other.add_many("q", [])):
        with pytest.raises(DatabaseClosed):
            call()


def test_threads_share_a_client_and_each_of_their_messages_is_there_once(
    db: MessageDatabase, door: QueueServer, path: Path
) -> None:
    numbers: list[int] = []
    with connect_queue(path) as other:
        threads = [
            threading.Thread(target=lambda: numbers.extend(other.add("q", b"x") for _ in range(20))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(other._idle) <= 8

    assert sorted(numbers) == list(db.numbers("q"))
    assert len(set(numbers)) == 160


def test_the_program_takes_what_others_add_while_it_serves(db: MessageDatabase, door: QueueServer, path: Path) -> None:
    adding = threading.Thread(target=lambda: connected(path).add("q", b"x"))
    adding.start()
    message = db.take("q", wait=30)
    adding.join()

    assert message is not None
    assert db.deliver(message)


def test_an_asyncio_program_serves_too(tmp_path: Path, path: Path) -> None:
    async def serving() -> bytes:
        async with AsyncMessageDatabase.open(tmp_path / "spool", options=SMALL) as db, serve_queue(db, path):
            adding = asyncio.create_task(asyncio.to_thread(lambda: connected(path).add("q", b"x")))
            message = await db.take("q", wait=30)
            await adding
            assert message is not None
            return message.payload

    assert asyncio.run(serving()) == b"x"


def test_the_server_of_an_asyncio_database_is_not_left_by_a_with_that_would_stop_its_loop(
    tmp_path: Path, path: Path
) -> None:
    async def serving() -> None:
        async with AsyncMessageDatabase.open(tmp_path / "spool", options=SMALL) as db:
            with pytest.raises(TypeError, match="async with"), serve_queue(db, path):
                pass

    asyncio.run(serving())
    assert not path.exists()


def test_only_the_user_can_connect_and_the_end_removes_the_socket(db: MessageDatabase, path: Path) -> None:
    with serve_queue(db, str(path)) as door:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert door.path == path
    door.close()

    assert not path.exists()


def test_a_socket_that_a_killed_server_left_is_replaced(db: MessageDatabase, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    with pytest.raises(NotServed, match="its server has ended"):
        connect_queue(path)

    with serve_queue(db, path):
        assert connected(path).add("q", b"x") == 1


def test_a_second_server_is_refused_and_the_first_one_goes_on(
    db: MessageDatabase, door: QueueServer, path: Path
) -> None:
    with pytest.raises(SocketRefused, match="another process serves it"):
        serve_queue(db, path)

    assert connected(path).add("q", b"x") == 1


@pytest.mark.parametrize("kind", ["file", "directory", "no directory"])
def test_a_path_where_no_socket_can_be_is_refused_on_both_sides(kind: str, db: MessageDatabase, path: Path) -> None:
    if kind == "file":
        path.write_text("kept")
    elif kind == "directory":
        path.mkdir()
    else:
        path = path / "below" / "q.sock"

    with pytest.raises(SocketRefused):
        serve_queue(db, path)
    with pytest.raises(NotServed):
        connect_queue(path)
    if kind == "file":
        assert path.read_text() == "kept"


@pytest.mark.parametrize("size", [108, 200])
def test_a_path_that_the_system_does_not_take_is_refused_with_its_length(db: MessageDatabase, size: int) -> None:
    path = "/" + "x" * (size - 1)

    for call in (lambda: serve_queue(db, path), lambda: connected(path)):
        with pytest.raises(LimitExceeded, match=f"has {size} bytes, at most 10[37] are allowed"):
            call()


@pytest.mark.parametrize("wrong", [None, 1, "", " ", b"q.sock", "q\0"])
def test_what_is_no_path_is_refused(db: MessageDatabase, wrong: object) -> None:
    for call in (lambda: serve_queue(db, wrong), lambda: connect_queue(wrong)):  # type: ignore[arg-type]
        with pytest.raises((TypeError, ValueError), match="path"):
            call()


@pytest.mark.parametrize("wrong", ["spool", None, MessageDatabase])
def test_what_is_no_open_database_is_not_served(wrong: object, path: Path) -> None:
    with pytest.raises(TypeError, match="must be an open MessageDatabase"):
        serve_queue(wrong, path)  # type: ignore[arg-type]


def test_a_closed_database_is_not_served(db: MessageDatabase, path: Path) -> None:
    db.close()

    with pytest.raises(DatabaseClosed):
        serve_queue(db, path)
    assert not path.exists()


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "1", True])
def test_a_timeout_that_is_none_is_refused(door: QueueServer, path: Path, timeout: object) -> None:
    with pytest.raises((TypeError, ValueError), match="timeout"):
        connect_queue(path, timeout=timeout)  # type: ignore[arg-type]


@pytest.mark.parametrize("made", [QueueClient, QueueServer])
def test_neither_side_is_constructed(made: type) -> None:
    with pytest.raises(TypeError, match="is made by its function"):
        made("q.sock")


def test_without_a_server_the_error_says_how_to_start_one(path: Path) -> None:
    with pytest.raises(NotServed, match="start `oms queue serve SPOOL --socket PATH`") as missing:
        connect_queue(path)

    assert missing.value.path == path
    assert "nothing was added" in str(missing.value)


def test_connecting_waits_for_a_server_that_is_started_later(db: MessageDatabase, path: Path) -> None:
    doors: list[QueueServer] = []
    later = threading.Timer(0.2, lambda: doors.append(serve_queue(db, path)))
    later.start()

    assert connected(path, wait=30).add("q", b"x") == 1
    later.join()
    doors[0].close()


def test_a_client_goes_on_when_its_server_was_started_again(db: MessageDatabase, path: Path) -> None:
    with serve_queue(db, path):
        other = connected(path)
        other.add("q", b"x")
    with pytest.raises(NotServed):
        other.add("q", b"x")
    with serve_queue(db, path):
        assert other.add("q", b"x") == 2


def test_a_connection_that_breaks_behind_the_request_leaves_the_outcome_open(path: Path) -> None:
    thread = answered(read_request, path)

    with pytest.raises(OutcomeUnknown, match="send it again with the same producer_id"):
        connect_queue(path).add("q", b"x")
    thread.join()


def test_an_answer_that_is_cut_or_is_none_leaves_the_outcome_open(path: Path) -> None:
    whole = encode_added(AddedMany(range(1, 2)))
    for size in (1, HEADER.size, len(whole) - 1):
        thread = answered(answering(whole[:size]), path)
        with pytest.raises(OutcomeUnknown):
            connected(path).add("q", b"x")
        thread.join()
        path.unlink()
    for garbage in (bytes(100), b"\xff" * 100, framed(Kind.ADDED, [b"short"]), framed(Kind.FAILED, [b"short"])):
        thread = answered(answering(garbage), path)
        with pytest.raises(OutcomeUnknown, match="cannot be read"):
            connected(path).add("q", b"x")
        thread.join()
        path.unlink()


def test_a_server_that_ends_before_it_took_the_request_has_added_nothing(path: Path) -> None:
    thread = answered(answering(framed(Kind.ENDING, ())), path)

    with pytest.raises(NotServed, match="nothing was added"):
        connect_queue(path).add("q", b"x")
    thread.join()


def test_an_answer_that_takes_too_long_leaves_the_outcome_open(path: Path) -> None:
    is_over = threading.Event()
    thread = answered(lambda _: is_over.wait(), path)

    with pytest.raises(OutcomeUnknown, match="no answer came in time"):
        connect_queue(path, timeout=0.1).add("q", b"x")
    is_over.set()
    thread.join()


def test_a_server_that_takes_no_bytes_has_added_nothing(path: Path) -> None:
    is_over = threading.Event()
    thread = answered(lambda _: is_over.wait(), path)

    with pytest.raises(NotServed, match="took no request"):
        connect_queue(path, timeout=0.1).add("q", bytes(1 << 20))
    is_over.set()
    thread.join()


@pytest.mark.parametrize(
    "greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(10), Greeting(VERSION + 1, 1, 1).encode()]
)
def test_another_kind_of_server_and_another_version_are_told_apart_from_none(greeting: bytes, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def greet() -> None:
            with listener.accept()[0] as accepted:
                accepted.sendall(greeting)

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(NotServed, match=r"no database of oms|version \d of the language"):
            connected(path)
        thread.join()


def test_a_server_that_ends_behind_its_greeting_serves_nobody(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        decode = decode_greeting
        is_read = threading.Event()

        def late(data: bytes) -> Greeting:
            is_read.set()
            thread.join()
            return decode(data)

        monkeypatch.setattr(client, "decode_greeting", late)

        def run() -> None:
            with listener.accept()[0] as accepted:
                accepted.sendall(Greeting(VERSION, 1 << 20, REQUEST_BYTES_MAX).encode())
                is_read.wait()

        thread = threading.Thread(target=run)
        thread.start()
        with pytest.raises(NotServed, match="Broken pipe"):
            connect_queue(path)
        thread.join()


def test_a_server_of_another_user_gets_no_message(
    door: QueueServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_user = client._CREDENTIALS.pack(1, 4_000_000, 1)
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_001)
    monkeypatch.setattr(socket.socket, "getsockopt", lambda *_: other_user)

    with pytest.raises(NotServed, match=r"uid 4000000|connect as the user of the server"):
        connect_queue(path)


# Room in a queue that has a limit.


@pytest.fixture
def full(tmp_path: Path) -> Iterator[MessageDatabase]:
    with MessageDatabase.open(tmp_path / "full", options=LIMITED) as opened:
        opened.add_many("q", [b"1", b"2"])
        yield opened


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(6000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("it never came so far")


def waiting(db: MessageDatabase) -> int:
    room = db._ledger.limits._rooms.get("q")  # type: ignore[attr-defined]
    return 0 if room is None else len(room.line)


@pytest.fixture(params=["small", "large"])
def sized(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the server take each request for a small one, or for a large one, which it does not keep while it waits."""
    if request.param == "large":
        monkeypatch.setattr(server, "SMALL_BYTES", 0)


@pytest.mark.usefixtures("sized")
def test_a_full_queue_refuses_with_what_the_error_says_in_the_process(full: MessageDatabase, path: Path) -> None:
    with serve_queue(full, path):
        for given in ({}, {"wait": 0.01, "group": "g"}):
            with pytest.raises(QueueFull) as inside:
                full.add("q", b"x", **given)  # type: ignore[arg-type]
            with pytest.raises(QueueFull) as outside:
                connected(path).add("q", b"x", **given)  # type: ignore[arg-type]
            assert vars(outside.value) == vars(inside.value)
        with pytest.raises(LimitExceeded):
            connected(path).add_many("q", [b"x"] * 3, wait=LONG)


@pytest.mark.usefixtures("sized")
def test_who_waits_for_room_gets_it_in_turn_with_those_in_the_process(full: MessageDatabase, path: Path) -> None:
    with serve_queue(full, path), ThreadPoolExecutor(3) as pool:
        one = pool.submit(connected(path, timeout=0.05).add, "q", b"one", wait=LONG)
        wait_until(lambda: waiting(full) == 1)
        two = pool.submit(full.add, "q", b"two", wait=LONG)
        wait_until(lambda: waiting(full) == 2)
        three = pool.submit(connected(path).add_many, "q", [b"three"], wait=math.inf, group="g")
        wait_until(lambda: waiting(full) == 3)
        for added, payload in ((one, b"one"), (two, b"two"), (three, b"three")):
            full.deliver(next(iter(full.numbers("q"))))
            assert added.result(LONG)
            assert [message.payload for message in full.undelivered("q")][-1] == payload


@pytest.mark.usefixtures("sized")
def test_the_end_of_the_server_ends_waits_for_room_and_nothing_is_added(full: MessageDatabase, path: Path) -> None:
    with serve_queue(full, path) as door, ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(connected(path).add, "q", b"x", wait=wait) for wait in (LONG, math.inf)]
        wait_until(lambda: waiting(full) == 2)
        door.close()
        for one in waits:
            assert isinstance(one.exception(LONG), NotServed)
    full.purge("q")
    assert full.undelivered_count() == waiting(full) == 0


@pytest.mark.usefixtures("sized")
def test_a_client_that_is_gone_waits_for_no_room(full: MessageDatabase, path: Path) -> None:
    with serve_queue(full, path):
        plain = raw(path)
        plain.sendall(Greeting(VERSION).encode() + framed(Kind.ADD, encode_add(Front(b"q", wait=math.inf), b"x", b"")))
        wait_until(lambda: waiting(full) == 1)
        plain.close()
        wait_until(lambda: waiting(full) == 0)
        full.purge("q")
        assert connected(path).add("q", b"y", wait=0) == 3


def test_a_large_request_that_waits_for_room_holds_up_no_other(
    full: MessageDatabase, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LARGE_BYTES_MAX", 100_000)
    monkeypatch.setattr(server, "SMALL_BYTES", 1000)
    with serve_queue(full, path), ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(connected(path).add_many, "q", [bytes(80_000)], wait=LONG) for _ in range(2)]
        wait_until(lambda: waiting(full) == 2)
        assert connected(path).add("other", bytes(90_000), wait=LONG) == 3
        full.purge("q")
        assert sorted(one.result(LONG)[0] for one in waits) == [4, 5]


@pytest.mark.parametrize("how", ["goes", "sends another", "sends another of its size"])
def test_a_client_that_does_not_send_again_what_it_has_room_for_leaves_the_room_to_others(
    how: str, full: MessageDatabase, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SMALL_BYTES", 0)
    request = framed(Kind.ADD, encode_add(Front(b"q", wait=math.inf), b"x", b""))
    with serve_queue(full, path), ThreadPoolExecutor(1) as pool:
        plain = raw(path)
        plain.sendall(Greeting(VERSION).encode() + request)
        wait_until(lambda: waiting(full) == 1)
        behind = pool.submit(connected(path).add, "q", b"behind", wait=LONG)
        wait_until(lambda: waiting(full) == 2)
        full.deliver(1)
        assert plain.recv(HEADER.size, socket.MSG_WAITALL) == framed(Kind.AGAIN, ())
        if how == "sends another":
            plain.sendall(framed(Kind.ADD, encode_add(Front(b"q"), b"longer than that was", b"")))
        elif how == "sends another of its size":
            plain.sendall(framed(Kind.ADD, encode_add(Front(b"r", wait=math.inf), b"x", b"")))
        plain.close()
        assert behind.result(LONG) == 3
    assert full.queues() == {"q": 2}


def test_a_large_request_that_was_known_by_its_identifier_meanwhile_needs_no_room(
    full: MessageDatabase, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SMALL_BYTES", 0)
    with serve_queue(full, path), ThreadPoolExecutor(2) as pool:
        client = connected(path)
        one = pool.submit(client.add, "q", b"x", producer_id="p", wait=LONG)
        wait_until(lambda: waiting(full) == 1)
        two = pool.submit(client.add, "q", b"x", producer_id="p", wait=LONG)
        wait_until(lambda: waiting(full) == 2)
        full.deliver(1)
        first = one.result(LONG)
        full.deliver(2)
        assert two.result(LONG) == first
    assert {first.is_repeat, two.result().is_repeat} == {True, False}


def test_the_terms_count_from_when_the_server_has_the_request(tmp_path: Path, path: Path) -> None:
    now = 1_700_000_000_000_000
    options = Options(clock=lambda: now, steady=lambda: now, cleanup_interval=0)
    with MessageDatabase.open(tmp_path / "s", options=options) as db, serve_queue(db, path):
        client = connected(path)
        client.add("q", b"later", delay=10, expires=20)
        client.add("q", b"first", group="g")
        client.add_many("q", [b"second"], group="g")
        first = db.take("q")
        assert first is not None and first.payload == b"first" and db.take("q") is None
        now += 10_000_000
        later = db.take("q")
        assert later is not None and later.payload == b"later" and db.deliver(first)
        second = db.take("q")
        assert second is not None and second.payload == b"second" and db.release(later)
        now += 10_000_000
        assert db.undelivered_count("q") == 1, "it has expired"


def test_a_time_to_wait_for_an_answer_may_be_longer_than_a_socket_takes(door: QueueServer, path: Path) -> None:
    assert connected(path, timeout=1e12).add("q", b"x") == 1


def raw(path: Path) -> socket.socket:
    """Return a connection whose server has greeted."""
    plain = socket.socket(socket.AF_UNIX)
    plain.settimeout(30)
    plain.connect(str(path))
    plain.recv(GREETING.size, socket.MSG_WAITALL)
    return plain


def rest(plain: socket.socket) -> bytes:
    """Return what still comes, to the end."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := plain.recv(1 << 16):
            found += part
    return found


@pytest.mark.parametrize(
    "garbage",
    [
        bytes(64),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        Greeting(VERSION + 1).encode(),
        Greeting(VERSION).encode() + bytes(HEADER.size),
        Greeting(VERSION).encode() + HEADER.pack(Kind.ADDED, 24) + bytes(24),
        Greeting(VERSION).encode() + framed(Kind.ADD, [bytes(3)]),
        Greeting(VERSION).encode() + framed(Kind.ADD, [b"\xff" * 40]),
        Greeting(VERSION).encode() + framed(Kind.ADD_MANY, [b"\xff" * 40]),
    ],
    ids=range(8),
)
def test_garbage_ends_its_own_connection_and_no_other(
    garbage: bytes, db: MessageDatabase, door: QueueServer, path: Path
) -> None:
    other = connected(path)
    with raw(path) as plain:
        plain.sendall(garbage)
        assert rest(plain) == b""

    assert other.add("q", b"x") == 1
    assert db.undelivered_count() == 1


@pytest.mark.parametrize("kind", [Kind.ADD, Kind.ADD_MANY])
def test_a_request_that_is_too_large_is_refused_by_its_header(kind: Kind, door: QueueServer, path: Path) -> None:
    with raw(path) as plain:
        plain.sendall(Greeting(VERSION).encode() + HEADER.pack(kind, 0xFFFF_FFFF))
        answer = rest(plain)

    failure = decode_failure(answer[HEADER.size :])
    assert isinstance(failure, LimitExceeded)
    assert "at most" in str(failure)


def test_large_requests_share_the_room_for_them(
    db: MessageDatabase, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LARGE_BYTES_MAX", 150_000)
    monkeypatch.setattr(server, "SMALL_BYTES", 1000)
    monkeypatch.setattr(server, "STALL_SECONDS", 0.3)
    with serve_queue(db, path), connect_queue(path) as other, raw(path) as stopped:
        # It has the room, and does not go on: it is let go of.
        request = framed(Kind.ADD, encode_add(Front(b"q"), bytes(100_000), b""))
        stopped.sendall(Greeting(VERSION).encode() + request[:5000])
        threads = [threading.Thread(target=lambda: other.add("q", bytes(90_000))) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert other.add("q", b"small") > 0
        for thread in threads:
            thread.join()
        assert rest(stopped) == b""

    assert db.undelivered_count() == 5


def test_the_end_answers_what_was_read_and_tells_all_others_that_nothing_was_added(
    db: MessageDatabase, path: Path
) -> None:
    door = serve_queue(db, path)
    with raw(path) as idle, raw(path) as half:
        idle.sendall(Greeting(VERSION).encode())
        half.sendall(Greeting(VERSION).encode() + framed(Kind.ADD, encode_add(Front(b"q"), b"x", b""))[:-1])
        connected(path).add("q", b"x")  # by now the others are read
        door.close()
        assert rest(idle) == rest(half) == framed(Kind.ENDING, ())

    assert db.undelivered_count() == 1


def test_many_clients_that_add_while_the_server_ends_know_of_each_message_what_became_of_it(
    db: MessageDatabase, path: Path
) -> None:
    door = serve_queue(db, path)
    added: list[int] = []
    unknown: list[JournalError] = []

    def run() -> None:
        other = connected(path)
        try:
            while True:
                added.append(other.add("q", b"x"))
        except NotServed:
            pass
        except JournalError as failure:
            unknown.append(failure)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(added) < 50:
        pass
    door.close()
    for thread in threads:
        thread.join()

    assert unknown == []
    assert sorted(added) == list(db.numbers("q"))


def test_a_child_of_a_fork_makes_a_connection_of_its_own(db: MessageDatabase, door: QueueServer, path: Path) -> None:
    other = connected(path)
    other.add("q", b"parent")

    assert forked(lambda: 0 if other.add("q", b"child") == 2 else 1) == 0
    assert other.add("q", b"parent") == 3
    assert [message.payload for message in db.undelivered()] == [b"parent", b"child", b"parent"]


def test_a_child_of_the_server_serves_nobody_and_keeps_no_client(
    db: MessageDatabase, door: QueueServer, path: Path
) -> None:
    other = connected(path)
    other.add("q", b"x")

    def child() -> int:
        door.close()
        held = [each.fileno() for each in (door._listener, *door._sockets)]
        return 0 if held and set(held) == {-1} else 1

    assert forked(child) == 0
    assert path.exists()
    assert other.add("q", b"x") == 2


def test_an_error_of_a_name_is_an_error_of_pythons_too(door: QueueServer, path: Path) -> None:
    other = connected(path)
    with pytest.raises(ValueError):
        other.add("", b"x")
    with pytest.raises(InvalidName):
        other.add("", b"x")
    other.add("q", b"1", producer_id="p")
    with pytest.raises(DuplicateConflict):
        other.add("q", b"2", producer_id="p")


def sockets() -> int:
    """Return how many sockets this process has open."""
    found = 0
    for number in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            found += str(number.readlink()).startswith("socket:")
    return found


def others_threads() -> list[str]:
    """Return the threads but for those with which a database looks after itself: these begin when there is need."""
    own = {"oms-renewal", "oms-maintenance", "oms-watch", "oms-alarm"}
    return [thread.name for thread in threading.enumerate() if thread.name not in own]


def test_nothing_of_a_server_or_client_is_left_open(db: MessageDatabase, path: Path) -> None:
    before, threads = sockets(), others_threads()
    for _ in range(3):
        with serve_queue(db, path), connect_queue(path) as other:
            other.add("q", b"x")

    assert sockets() == before
    assert others_threads() == threads


def hold_up(is_held: threading.Event, goes_on: threading.Event) -> None:
    is_held.set()
    goes_on.wait(30)


def test_who_connects_in_the_moment_in_which_the_server_ends_is_let_go_of(db: MessageDatabase, path: Path) -> None:
    for _ in range(5):
        server = serve_queue(db, path)
        assert server._loop is not None
        is_held, goes_on = threading.Event(), threading.Event()
        server._loop.call_soon_threadsafe(hold_up, is_held, goes_on)
        assert is_held.wait(30)
        with socket.socket(socket.AF_UNIX) as plain:
            plain.settimeout(30)
            plain.connect(str(path))
            closing = threading.Thread(target=server.close)
            closing.start()
            while path.exists():
                time.sleep(0.001)
            goes_on.set()
            closing.join()
            rest(plain)
        assert not server._sockets
