"""Calls to an embedded broker from another process: control blocks over a pair of sockets, one pair for each caller.

The process with the broker gets its ends one by one through a socket of its own (`hand_over`, `handed_over`); the
callers have theirs as standard input. It is how the processes of one program share a broker, and no way in for others:
what comes over a line is believed. A caller whose line ends is gone, with what it was sending or receiving.
"""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from oms_journal.broker.answers import Answered, Physical, refusal
from oms_journal.broker.block import Request
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.embedded.broker import Broker
from oms_journal.cli.failures import ExitCode, Failure, tell

STANDARD_INPUT = 0


@contextmanager
def ending_with_the_broker() -> Iterator[None]:
    """What a caller's process does: it ends quietly when the broker has gone, and says what else it was refused."""
    try:
        yield
    except BrokenPipeError:
        sys.exit(1)  # nobody listens any more
    except BrokerError as refused:
        if refused.code is not Code.NOT_ACTIVE:
            tell(Failure(str(refused), ExitCode.UNUSABLE), as_json=False)
            sys.exit(ExitCode.UNUSABLE)


class Line:
    """The entrance to a broker in another process. A session is opened on it as on a broker."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    def of_standard_input(cls) -> "Line":
        return cls(Connection(os.dup(STANDARD_INPUT)))

    def call(self, request: Request, *, caller: Physical) -> Answered:
        """Return the broker's answer; 02150148 when it is not there any more."""
        try:
            self._connection.send(request)
            answered: Answered = self._connection.recv()
        except (EOFError, OSError):
            return refusal("the process with the broker has gone")
        return answered

    def post(self, request: Request, *, caller: Physical) -> None:
        self.call(request, caller=caller)

    def new_caller(self) -> Physical:
        """Return the number of the one caller that a line has."""
        return 0

    def gone(self, caller: Physical) -> None:
        self._connection.close()


def serve(broker: Broker, connection: Connection) -> None:
    """Carry out the calls of one line until it ends."""
    caller = broker.new_caller()
    try:
        while True:
            connection.send(broker.call(connection.recv(), caller=caller))
    except (EOFError, OSError):
        return
    finally:
        broker.gone(caller)
        connection.close()


def hand_over(control: socket.socket) -> socket.socket:
    """Give one end of a new line to the process with the broker; return the other."""
    ours, theirs = socket.socketpair()
    with theirs:
        socket.send_fds(control, [b"+"], [theirs.fileno()])
    return ours


def handed_over(control: socket.socket) -> Iterator[Connection]:
    """Yield the ends that are handed over, until the control socket ends."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            return
        for descriptor in descriptors:
            yield Connection(descriptor)
