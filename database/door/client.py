"""Adding to a database that another process has open, from any thread.

A call has a connection to itself while it runs. Afterwards the connection waits for the next call: so there are as many
as calls ran at once. In the child of a fork they are closed, and the child's first call makes its own.

What becomes of a message when the connection breaks depends on how far the call was:

    the request                        the server        the call
    was not sent whole                 cannot read it    tries once more, on a new connection
    was sent, and answered by ending   has not done it   tries once more, on a new connection
    was sent, and answered by again    has not kept it   sends it once more: it has waited for room
    was sent, and not answered         may have done it  OutcomeUnknown
"""

import errno
import math
import os
import select
import socket
import stat
import struct
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from oms_journal.database.arguments import Payload, plain_bytes, shown
from oms_journal.database.commits.added import Added, AddedMany, Repeated
from oms_journal.database.commits.encode import (
    plain_payloads,
    producer_bytes,
    properties_bytes,
    properties_of_each,
    queue_bytes,
)
from oms_journal.database.commits.terms import AskedTerms, Time, asked_terms
from oms_journal.database.consumers.waiting import waiting_seconds
from oms_journal.database.door.address import socket_path
from oms_journal.database.door.protocol import (
    ANSWER_BYTES_MAX,
    GREETING,
    HEADER,
    VERSION,
    Front,
    Garbled,
    Greeting,
    Kind,
    decode_added,
    decode_failure,
    decode_greeting,
    encode_add,
    encode_add_many,
    framed,
)
from oms_journal.journal.disk import whose
from oms_journal.journal.errors import DatabaseClosed, LimitExceeded, NotServed, OutcomeUnknown
from oms_journal.journal.operations import check_size

GREETING_SECONDS = 10.0  # in which a server says who it is; also for a place among those that wait to be accepted
AGAIN_SECONDS = 0.05  # between two attempts to connect
SOCKET_SECONDS_MAX = 1e6  # that a socket can be told to wait at once: the system counts milliseconds in 31 bits
TRIES = 2  # of a request that was surely not carried out
_WITH_IT = "start `oms queue serve SPOOL --socket PATH`, or call serve_queue(db, PATH) in the process that consumes"

_connections: "weakref.WeakSet[_Connection]" = weakref.WeakSet()


def _close_all() -> None:
    for connection in list(_connections):
        connection.close()


os.register_at_fork(after_in_child=_close_all)


class QueueClient:
    """Adds to a database that another process serves. You make it with `connect_queue`. Any thread may use it.

    with MessageDatabase.open("spool") as db, serve_queue(db, "orders.sock"):  # in one process
        with connect_queue("orders.sock") as other:  # in another one
            number = other.add("orders", b"...")  # durable on return
    """

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError('a client is made by its function: write connect_queue("orders.sock")')

    def _begin(self, path: Path, wait_seconds: float, timeout_seconds: float | None) -> None:
        self.path = path
        self._wait_seconds = wait_seconds
        self._timeout_seconds = timeout_seconds
        self._is_closed = False
        # Taken from and given back to the end, each in one step: no lock that a fork could leave locked.
        self._idle: list[_Connection] = []
        first = self._connect()
        self._limits = first.limits
        self._give_back(first)

    def add(  # noqa: PLR0913 - named, and most callers need none
        self,
        queue: str,
        payload: Payload,
        *,
        properties: Mapping[str, str] | None = None,
        producer_id: str | None = None,
        wait: float | None = None,
        delay: float | None = None,
        at: Time | None = None,
        expires: Time | None = None,
        group: str | None = None,
    ) -> Added:
        """Add a message, and return its number. The message is durable on return. As MessageDatabase.add.

        Seconds of `delay` and `expires` count from when the process with the database has the request. With `wait` the
        call waits so many seconds for room. If the server ends meanwhile, nothing is added.

        Raises what MessageDatabase.add raises, as the process with the database raises it. Raises NotServed when no
        process serves the socket: nothing was added. Raises OutcomeUnknown when the connection breaks, or `timeout`
        is over, before the answer is there: the message may have been added. Add it again with the same producer_id,
        and it is there once.
        """
        name, producer = queue_bytes(queue), producer_bytes(producer_id)
        data, encoded = plain_bytes(payload, "payload"), properties_bytes(properties, "properties")
        self._check_size(data, encoded)
        seconds, terms = _waiting(wait), _asked(delay, at, expires, group)
        body = encode_add(Front(name, producer, seconds, terms), data, encoded)
        answer = self._ask(framed(Kind.ADD, body), seconds)
        return (Repeated if answer.is_repeat else Added)(answer.start)

    def add_many(  # noqa: PLR0913 - named, and most callers need none
        self,
        queue: str,
        payloads: Iterable[Payload],
        *,
        properties: Iterable[Mapping[str, str] | None] | None = None,
        producer_id: str | None = None,
        wait: float | None = None,
        delay: float | None = None,
        at: Time | None = None,
        expires: Time | None = None,
        group: str | None = None,
    ) -> AddedMany:
        """Add all that an iterable gives in one commit, and return the numbers. As MessageDatabase.add_many.

        One producer identifier covers them all. `wait`, `delay`, `at`, `expires` and `group` are as those of `add`.

        Raises what `add` raises, what the iterables raise, and ValueError when there are more or fewer properties than
        payloads.
        """
        name, producer = queue_bytes(queue), producer_bytes(producer_id)
        plain = plain_payloads(payloads)
        given = properties_of_each(properties, len(plain))
        described = [properties_bytes(one, f"properties[{place}]") for place, one in enumerate(given)]
        for data, encoded in zip(plain, described, strict=True):
            self._check_size(data, encoded)
        seconds, terms = _waiting(wait), _asked(delay, at, expires, group)
        if not plain:
            self._check_open()
            return AddedMany(range(0))
        body = encode_add_many(Front(name, producer, seconds, terms), plain, described)
        size, most = sum(map(len, body)), self._limits.request_bytes_max
        if size > most:
            raise LimitExceeded(f"a commit of {size} bytes, at most {most} are allowed")
        return self._ask(framed(Kind.ADD_MANY, body), seconds)

    def close(self) -> None:
        """Let go of the connections. Idempotent. Calls that are on their way get their answers."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> "QueueClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise DatabaseClosed(f"the connection to {self.path} was closed")

    def _check_size(self, payload: bytes, properties: bytes) -> None:
        check_size(len(payload) + len(properties), self._limits.message_bytes_max, "message with its properties")

    def _ask(self, request: bytes, wait: float | None) -> AddedMany:
        """Have the request carried out, and return the numbers; what the server raised.

        The time for its answer begins when it has waited for room.
        """
        timeout, until = self._timeout_seconds, math.inf if wait is None else time.monotonic() + wait
        for _ in range(TRIES):
            self._check_open()
            connection = self._taken()
            try:
                kind, body = connection.ask(request, timeout, max(until - time.monotonic(), 0.0) if wait else 0.0)
            except _NotTaken:
                connection.close()
                continue
            except BaseException:
                connection.close()  # its answer may be on its way
                raise
            try:
                if kind == Kind.ADDED:
                    return decode_added(body)
                failure = decode_failure(body)
            except Garbled as garbled:
                connection.close()
                raise _unknown(self.path, f"the answer cannot be read ({garbled})") from None
            finally:
                self._give_back(connection)
            raise failure
        raise NotServed(self.path, "the server ends, or takes nothing; try again")

    def _taken(self) -> "_Connection":
        """Return a connection of this call's own: one that waits and is alive, else a new one."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect()
                self._limits = connection.limits
                return connection
            if connection.is_alive():
                return connection
            connection.close()

    def _give_back(self, connection: "_Connection") -> None:
        if not connection.is_closed:
            self._idle.append(connection)
        if self._is_closed:
            self.close()

    def _connect(self) -> "_Connection":
        """Return a new connection, and wait for a server as long as was asked for; NotServed."""
        until = time.monotonic() + self._wait_seconds
        while True:
            try:
                return _Connection(self.path)
            except NotServed:
                if time.monotonic() >= until:
                    raise
            time.sleep(AGAIN_SECONDS)


class _NotTaken(Exception):
    """The server has not read the request as a whole, or says that it did not carry it out."""


class _Connection:
    """One connection, greeted: a request, then its answer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _connections.add(self)
        try:
            self.limits = self._greet()
        except BaseException:
            self.close()
            raise
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def __del__(self) -> None:
        if hasattr(self, "_socket"):  # an interrupt may have come before it, or before anybody had the connection
            self._socket.close()

    @property
    def is_closed(self) -> bool:
        return self._socket.fileno() < 0

    def close(self) -> None:
        self._socket.close()

    def is_alive(self) -> bool:
        """Say whether the server is still there. It says nothing without being asked but that it ends."""
        return not self.is_closed and not self._poll.poll(0)

    def ask(self, request: bytes, timeout_seconds: float | None, wait_seconds: float) -> tuple[int, bytes]:
        """Send a request, and return kind and body of the answer, for which the server may wait; _NotTaken,
        OutcomeUnknown.
        """
        until = None if timeout_seconds is None else time.monotonic() + timeout_seconds + wait_seconds
        kind, body = self._ask_once(request, timeout_seconds, until)
        while kind == Kind.AGAIN:
            kind, body = self._ask_once(request, timeout_seconds, until)
        return kind, body

    def _ask_once(self, request: bytes, timeout_seconds: float | None, until: float | None) -> tuple[int, bytes]:
        try:
            self._socket.settimeout(None if timeout_seconds is None else min(timeout_seconds, SOCKET_SECONDS_MAX))
            self._socket.sendall(request)
        except TimeoutError:
            raise NotServed(self._path, f"the server took no request for {timeout_seconds:g} s") from None
        except OSError:
            # It has gone, or refuses the rest; then it has said why.
            return self._answer(until, lambda _: _NotTaken())
        return self._answer(until, lambda why: _unknown(self._path, why))

    def _answer(self, until: float | None, broken: Callable[[str], Exception]) -> tuple[int, bytes]:
        try:
            kind, length = HEADER.unpack(self._read(HEADER.size, until))
            if kind == Kind.ENDING and not length:
                raise _NotTaken
            if kind not in (Kind.ADDED, Kind.FAILED, Kind.AGAIN) or length > ANSWER_BYTES_MAX:
                raise broken(f"the answer cannot be read (kind {kind} of {length} bytes)")
            return kind, self._read(length, until)
        except TimeoutError:
            raise broken("no answer came in time") from None
        except OSError as failure:
            raise broken(f"the connection broke ({failure.strerror or failure})") from None

    def _read(self, size: int, until: float | None) -> bytes:
        """Read so many bytes; OSError where they do not come."""
        parts: list[bytes] = []
        while size:
            if until is not None:
                left = until - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                self._socket.settimeout(min(left, SOCKET_SECONDS_MAX))
            try:
                part = self._socket.recv(size)
            except TimeoutError:
                continue  # `until` says whether that was all
            if not part:
                raise ConnectionResetError(errno.ECONNRESET, "the server has gone")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _greet(self) -> Greeting:
        until = time.monotonic() + GREETING_SECONDS
        try:
            self._reach(until)
            self._check_peer()
            theirs = decode_greeting(self._read(GREETING.size, until))
        except Garbled as garbled:
            raise NotServed(self._path, f"what serves it is no database of oms: {garbled}") from None
        except TimeoutError:
            raise NotServed(self._path, f"what serves it said nothing for {GREETING_SECONDS:g} s") from None
        except OSError as failure:
            raise NotServed(self._path, _reason(self._path, failure)) from failure
        if theirs.version != VERSION:
            said = f"its server speaks version {theirs.version} of the language, and this process version {VERSION}"
            raise NotServed(self._path, f"{said}: use the same version of oms-journal in both")
        self._socket.settimeout(None)
        try:
            self._socket.sendall(Greeting(VERSION).encode())
        except OSError as failure:  # it has ended since
            raise NotServed(self._path, _reason(self._path, failure)) from failure
        return theirs

    def _reach(self, until: float) -> None:
        """Connect; wait for a place among those that wait to be accepted. OSError."""
        self._socket.settimeout(GREETING_SECONDS)
        while True:
            try:
                return self._socket.connect(os.fspath(self._path))
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise TimeoutError from None
            time.sleep(AGAIN_SECONDS)

    def _check_peer(self) -> None:
        """Raise PermissionError where the server is another user's, who would read the messages."""
        if not hasattr(socket, "SO_PEERCRED"):
            return
        credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, user, _ = _CREDENTIALS.unpack(credentials)
        me = os.geteuid()
        if user not in (me, 0) and me != 0:
            raise PermissionError(errno.EPERM, f"it is served by uid {user}, and you are uid {me}")


_CREDENTIALS = struct.Struct("iII")  # process, user, group


def _reason(path: Path, failure: OSError) -> str:
    if failure.errno == errno.ENOENT:
        return f"there is no such socket; {_WITH_IT}"
    if failure.errno in (errno.EACCES, errno.EPERM):
        refused = whose(failure, path)
        return f"{failure.strerror}{refused and f'; {refused}'}; connect as the user of the server"
    try:
        is_socket = stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        is_socket = True
    if not is_socket:
        return "it is not a socket; give the path that `oms queue serve` prints"
    if failure.errno == errno.ECONNREFUSED:
        return f"its server has ended; {_WITH_IT}"
    return f"{failure.strerror or failure}; {_WITH_IT}"


def _unknown(path: Path, why: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{path}: {why}, so that what was sent is there as a whole, or not at all; "
        "send it again with the same producer_id, and it is there once"
    )


def _waiting(wait: float | None) -> float | None:
    return None if wait is None else waiting_seconds(wait)


def _asked(delay: float | None, at: Time | None, expires: Time | None, group: str | None) -> AskedTerms | None:
    if delay is None and at is None and expires is None and group is None:
        return None
    return asked_terms(delay, at, expires, group)


def connect_queue(path: str | Path, *, wait: float = 0.0, timeout: float | None = None) -> QueueClient:
    """Return a client of the database that another process serves at this path. Threads may share it.

    The other process is `oms queue serve`, or one that has called `serve_queue`. The client connects at once, and again
    by itself when the server was started anew. A child of a fork may use it: the child makes a connection of its own.

    `wait` is how many seconds connecting waits for a server that is not there, here and in each call. `timeout` is how
    many seconds a call waits for its answer: for ever without it.

    Raises NotServed when no process serves the path, or not this version or user. Raises LimitExceeded for a path of
    more than 107 bytes, TypeError and ValueError for an argument that is not valid.
    """
    found, wait_seconds = socket_path(path), waiting_seconds(wait)
    timeout_seconds = None if timeout is None else _positive(timeout)
    client = QueueClient.__new__(QueueClient)
    client._begin(found, wait_seconds, timeout_seconds)
    return client


def _positive(timeout: float) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout must be a number of seconds, or None for no end, not {shown(timeout)}")
    if not 0 < timeout < float("inf"):
        raise ValueError(f"timeout must be more than 0 seconds, or None for no end, not {timeout!r}")
    return float(timeout)
