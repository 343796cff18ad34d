"""Targets: what comes over the network to a server, and the files that say who may come."""

import asyncio
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from oms_journal.broker.admin.codes import CisRefused
from oms_journal.broker.admin.commands import COMMANDS, parse_command
from oms_journal.broker.admin.subjects import SUBJECTS, question_of, subject_of
from oms_journal.broker.attributes.attributes import built_in
from oms_journal.broker.block import Function, Request
from oms_journal.broker.block_json import (
    BadBlock,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
    parse_json,
)
from oms_journal.broker.codes import BrokerError
from oms_journal.broker.destinations import parse_destination
from oms_journal.broker.server.http.connection import WebConnection
from oms_journal.broker.server.http.listener import WebListener
from oms_journal.broker.server.http.metrics import Exposition
from oms_journal.broker.server.http.routes import web_listener
from oms_journal.broker.server.runtime.limits import FrameLimits, WebLimits
from oms_journal.broker.server.runtime.state import ServerState
from oms_journal.broker.server.security import passwords, users
from oms_journal.broker.server.stomp.frames import VERSIONS, BadFrame, Frame, FrameReader
from oms_journal.broker.server.stomp.frames import encode_frame as encode_frame
from tests.fuzz.file_targets import folder
from tests.fuzz.target import Taker, Target, target
from tests.support.servers.stomp_desk import Connection, StompDesk

SERVER_TARGETS: dict[str, Target] = {}
_LIMITS = FrameLimits(header_line=200, header_lines=20, head=1000, body=2000)
_SENT = b"SEND\ndestination:/queue/a\nx:\\c\\n\ncontent-length:3\n\na\0b\0"


def _frames() -> Iterator[bytes]:
    for place in range(len(VERSIONS)):
        head = bytes([place, 20, 0])
        yield head + b"CONNECT\naccept-version:1.0,1.2\nhost:h\nheart-beat:0,10\n\n\0\n\n" + _SENT
        yield head + b"SUBSCRIBE\nid:1\ndestination:/topic/a\nack:client\n\n\0ACK\nid:1\n\n\0"
        yield head + b"SEND\r\ndestination:/queue/\xc3\xbc\r\n\r\nbody\0\r\nBEGIN\r\ntransaction:1\r\n\r\n\0"


@target(SERVER_TARGETS, _frames)
def stomp_frames(data: bytes) -> None:
    """Bytes of a connection: the same frames come of them in one piece, in two, and one by one; and said again."""
    taker = Taker(data)
    version, cut, said = VERSIONS[taker.number() % len(VERSIONS)], taker.number(2), taker.rest()
    whole, end = _read(version, [said])
    assert _read(version, [said[:cut], said[cut:]]) == (whole, end)
    assert _read(version, [bytes([byte]) for byte in said[:300]])[0] == _read(version, [said[:300]])[0]
    for frame in whole:
        try:
            again = encode_frame(frame, version)
        except ValueError:
            continue
        if frame.headers.get("content-length", str(len(frame.body))) == str(len(frame.body)):
            assert _read(version, [again])[0] == [_with_length(frame, again)]


def _with_length(frame: Frame, said: bytes) -> Frame:
    """Return the frame as it is read again: what has a body is said with its length."""
    if b"\ncontent-length:" in said.partition(b"\n\n")[0] and "content-length" not in frame.headers:
        return frame._replace(headers={**frame.headers, "content-length": str(len(frame.body))})
    return frame


def _read(version: str, pieces: list[bytes]) -> tuple[list[Frame], bool]:
    reader, found = FrameReader(limits=_LIMITS, version=version), list[Frame]()
    try:
        for piece in pieces:
            reader.feed(piece)
            found.extend(reader.frames())
            assert reader.pending <= _LIMITS.head + _LIMITS.body + len(piece) + 1
    except BadFrame:
        return found, True
    return found, False


def _sessions() -> Iterator[bytes]:
    yield b"CONNECT\naccept-version:1.2\n\n\0" + _SENT
    yield (
        b"CONNECT\naccept-version:1.2\nheart-beat:5,5\nlogin:ALICE\n\n\0SUBSCRIBE\nid:1\nack:client-individual\n"
        b"destination:/queue/a\n\n\0SEND\ndestination:/queue/a\nreceipt:1\nreply-to:/temp/x\n\nbody\0"
    )
    yield (
        b"STOMP\naccept-version:1.1\ntoken:t\n\n\0BEGIN\ntransaction:1\n\n\0SEND\ntransaction:1\ndestination:/topic/a\n"
        b"persistent:false\nlifetime:5M\nstatus-lifetimes:3\nproducer-id:p\n\nx\0COMMIT\ntransaction:1\n\n\0"
        b"SUBSCRIBE\nid:2\ndestination:/topic/a\ndurable:true\n\n\0UNSUBSCRIBE\nid:2\n\n\0DISCONNECT\nreceipt:9\n\n\0"
    )
    yield b"CONNECT\n\n\0SEND\ndestination:/service/A/B/C\nconversation:NEW\nuser-status:s\n\n\0ACK\nmessage-id:1\n\n\0"


@target(SERVER_TARGETS, _sessions)
def stomp_session(data: bytes) -> None:
    """What a client says to a broker, frame by frame, and what comes of it: answers, or an ERROR and the end."""
    stomp = StompDesk()
    connection = Connection(stomp)
    reader = FrameReader(limits=_LIMITS)
    reader.feed(data)
    try:
        for frame in reader.frames():
            if connection.is_closed:
                break
            connection.session.take(frame)
            stomp.turn()
            reader.version = connection.session.flow.version
    except BadFrame as failure:
        connection.session.bad(failure) if hasattr(connection.session, "bad") else None
    stomp.wait(100)
    if not connection.is_closed:
        connection.session.lost()
        stomp.turn()


def _destinations() -> Iterator[bytes]:
    for text in ("/queue/a", "/queue/" + "ü" * 32, "/service/A/B/C", "/topic/x", "/conversation/1", "/temp/x", "/x/y"):
        yield text.encode()


@target(SERVER_TARGETS, _destinations)
def destination(data: bytes) -> None:
    try:
        found = parse_destination(data.decode("utf-8", "replace"))
    except BrokerError:
        return
    assert parse_destination(str(found)) == found


def _users() -> Iterator[bytes]:
    password = str(passwords.hash_password("long enough", passwords.Cost(log_n=4)))
    rights = {"send": ["QUEUE/*", "topic/a"], "administer": ["*"]}
    for given in ({}, {"ALICE": {"password": password, "allow": rights, "deny": {"look": ["broker"]}}}):
        yield json.dumps({"format": users.FORMAT, "users": given}).encode()
    yield password.encode()


@target(SERVER_TARGETS, _users)
def users_file(data: bytes) -> None:
    path = folder() / "users"
    path.touch(0o600)
    path.write_bytes(data)
    try:
        found = users.read_users(path)
    except users.UsersInvalid:
        pass
    else:
        users.write(path, found)
        assert users.read_users(path) == found
    try:
        stored = passwords.parse_password_hash(data.decode("utf-8", "replace"))
    except ValueError:
        return
    assert passwords.parse_password_hash(str(stored)) == stored


def _blocks() -> Iterator[bytes]:
    full = Request(function=Function.SEND, user_id="A", body=b"m", properties={"a": "1"}, msgid=b"x", wait="5S")
    yield json.dumps(encode_request(full)).encode()
    yield b'{"function": "LOGON", "body_text": "x", "as_text": true, "api_version": 9.0}'
    yield b'{"error_code": "00000000", "error_text": "", "body": "AA==", "conv_stat": "NEW", "uow_status": "ACCEPTED"}'
    yield b'{"error_code": "00000000", "body_text": "x", "properties": {"a": "b"}, "store": "BROKER"}'


@target(SERVER_TARGETS, _blocks)
def control_block(data: bytes) -> None:
    """A control block in JSON, and the answer to one."""
    try:
        said = parse_json(data)
    except BadBlock:
        return
    try:
        request, _ = decode_request(said)
    except BadBlock:
        pass
    else:
        assert decode_request(json.loads(json.dumps(encode_request(request))))[0] == request
    try:
        answered = decode_answer(said)
    except BadBlock:
        return
    assert decode_answer(json.loads(json.dumps(encode_answer(answered)))) == answered


def _questions() -> Iterator[bytes]:
    for name in SUBJECTS:
        yield f"{name}\nlimit=5\nserver_class=A*\ncursor=[1,2]".encode()
    yield b"SERVICE\nserver_class=*a*a*a*a*a*a*a*a*a*a*b\ncursor=[[[]]]\nlimit=1000"
    for known in COMMANDS.values():
        yield json.dumps({"command": known.name, "object": known.targets[0], "option": known.options[-1]}).encode()
    yield b'{"command": "PURGE", "uowid": "1", "client_id": 5, "token": null, "exclude_attach": true}'


@target(SERVER_TARGETS, _questions)
def operator_words(data: bytes) -> None:
    """Questions and commands of an operator, as far as they go without a broker."""
    name, *lines = data.decode("utf-8", "replace").split("\n")
    pairs = [(key, value) for key, _, value in (line.partition("=") for line in lines)]
    try:
        question = question_of(subject_of(name), pairs)
        assert 1 <= question.limit <= 1000
        for selector in question.selectors:
            question.fits(selector)("a" * 32)
        question.after()
        question.after_identifier()
    except CisRefused:
        pass
    try:
        parse_command(json.loads(data))
    except (CisRefused, ValueError, RecursionError):
        return


def _labels() -> Iterator[bytes]:
    yield b"A"
    yield b'a"} 7\n# TYPE x gauge\nx{a="b'
    yield '\\\n"ü'.encode()


@target(SERVER_TARGETS, _labels)
def metric_labels(data: bytes) -> None:
    """A label is read back as it was, by a reader that is not ours: nothing of it becomes a line of its own."""
    text = data.decode("utf-8", "replace").replace("\r", "?")  # the other reader takes a CR for the end of a line
    text = "".join("?" if each in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029" else each for each in text)
    page = Exposition()
    page.gauges("oms_x", "What it is.", [({"name": text}, 1.5)])
    (family,) = text_string_to_metric_families(page.text())
    (sample,) = family.samples
    assert sample.labels == {"name": text} and sample.value == 1.5


# HTTP, from the first byte of a connection on.


class _Wire(asyncio.Transport):
    """The server's end of a connection that is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = bytearray()
        self._is_closing = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.heard += data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    abort = close

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


@cache
def _listener() -> tuple[asyncio.AbstractEventLoop, WebListener]:
    loop = asyncio.new_event_loop()

    async def made() -> WebListener:
        served = ServerState(
            attributes=built_in(broker_id="ETB"), stop=lambda _: None, run_mode="STANDARD", started=0.0
        )
        found = web_listener(served, WebLimits(body_bytes=3000))
        assert isinstance(found, WebListener)
        return found

    return loop, loop.run_until_complete(made())


def _requests() -> Iterator[bytes]:
    host = b"Host: localhost\r\n"
    block = b'{"function": "VERSION"}'
    kind = b"Content-Type: application/json\r\n"
    sized = host + kind + b"Content-Length: %d\r\n\r\n" % len(block) + block
    for path in (b"/", b"/aci", b"/info/SERVICE?limit=5", b"/command", b"/metrics", b"/openapi.json", b"/peer/ping"):
        yield b"GET " + path + b" HTTP/1.1\r\n" + host + b"\r\n"
    for path in (b"/aci", b"/login", b"/logout", b"/command", b"/peer/hello", b"/peer/load/hello"):
        yield b"POST " + path + b" HTTP/1.1\r\n" + sized
    chunks = b"Transfer-Encoding: chunked\r\n\r\n17\r\n" + block + b"\r\n0\r\n\r\n"
    yield b"POST /aci HTTP/1.1\r\n" + host + kind + chunks
    who = b"Authorization: Basic QUxJQ0U6eA==\r\nCookie: oms-session=x\r\n\r\n"
    yield b"GET /whoami HTTP/1.1\r\nHost: [::1]:80\r\n" + who
    hello = b'{"version":"0.1","platform":"x","security":"s","nonce":"0123456789abcdef","port":"1"}'
    yield b"POST /peer/hello HTTP/1.1\r\n" + host + kind + b"Content-Length: %d\r\n\r\n" % len(hello) + hello
    yield b"DELETE /aci HTTP/1.1\r\n" + host + b"Broker-Session: x\r\nOrigin: http://localhost\r\n\r\n"


@target(SERVER_TARGETS, _requests)
def http_connection(data: bytes) -> None:
    """The bytes of a connection: answered, never with a mistake of the server's own, and without a word in its log."""
    loop, listener = _listener()
    failures: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))

    async def played() -> bytes:
        wire = _Wire()
        connection = WebConnection(listener._config, listener.state, loop)
        connection.connection_made(wire)
        if data:  # a loop hands over no bytes where there are none, and the parser takes them for the end
            connection.data_received(data)
        for _ in range(50):
            await asyncio.sleep(0)
        connection.connection_lost(None)
        for _ in range(5):
            await asyncio.sleep(0)
        return bytes(wire.heard)

    heard = loop.run_until_complete(played())
    assert not failures, failures
    assert b"HTTP/1.1 500" not in heard
    for line in heard.partition(b"\r\n\r\n")[0].split(b"\r\n"):
        assert b"\n" not in line and b"\r" not in line
