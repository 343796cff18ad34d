"""A client at `oms serve` while the server's file calls fail: what it asked for, was promised and got.

phase     the client                                              the server
start     waits until it says where it listens                    begins, on a store with messages in it
commit    SEND of a message, twice, each with a receipt           a commit of one unit of work, and a roll
deliver   SUBSCRIBE, two messages, an ACK of each with a receipt  a delivery
stop      SIGTERM                                                 ends

Whoever is thrown out connects again for the next step. Then a server without faults hands out what is there.
"""

import json
import os
import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from oms_journal.broker.attributes.attributes import BUILT_IN
from oms_journal.broker.embedded.broker import Broker
from tests.faults.nursery import Job, Nursery
from tests.faults.programs import FILE_BYTES
from tests.faults.shim import write_phase
from tests.support.servers.stomp_server import Wire

QUEUE = "/queue/work"
WAITING = ("before 1", "before 2", "before 3")  # in the store that a server begins with
SENT = ("sent 1", "sent 2")
ARGUMENTS = ("serve", "--stomp-port", "0", "--http-port", "0", "--json")
RECEIVED = 2  # of those that wait
_ATTRIBUTES = f"{BUILT_IN}DEFAULTS=JOURNAL\n  MAX-DATA-FILE-SIZE={FILE_BYTES}\n"
_LAST = "nothing comes behind this one"
_START_SECONDS = 60.0
_ANSWER_SECONDS = 30.0
_MESSAGE_SECONDS = 2.0  # a message that cannot be read is tried again after one


@dataclass(slots=True)
class Visit:
    """What a client keeps for itself."""

    receipted: list[str] = field(default_factory=list)
    got: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)  # for the end of it: an ACK
    acknowledged: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # what was sent, and the text of the ERROR
    silent: list[str] = field(default_factory=list)  # what was answered by neither RECEIPT nor ERROR nor an end


def make_store(directory: Path) -> None:
    """Make the store that servers begin with."""
    file = directory.with_name("attributes")
    file.write_text(_ATTRIBUTES)
    with Broker.open(directory, attributes=file) as broker, broker.session("MAKER", token="1") as maker:
        for body in WAITING:
            maker.send("QUEUE/work/-", body.encode())


def visited(nursery: Nursery, job: Job) -> tuple[int | None, Visit]:
    """Let a client visit the server that the job starts; return its exit code, and what the client has kept."""
    visit = Visit()
    with _started(nursery, job) as (number, port):
        if port:
            for phase, step in (("commit", _send), ("deliver", _receive)):
                write_phase(job.path("phase"), phase)
                with suppress(OSError, EOFError):
                    step(port, visit)
        return _stopped(nursery, job, number), visit


def handed_out(nursery: Nursery, job: Job) -> tuple[int | None, list[str] | None]:
    """Return the exit code of a server that the job starts, and all that it hands out; None where it does not."""
    found: list[str] = []
    is_all = False
    with _started(nursery, job) as (number, port):
        if port:
            with suppress(OSError, EOFError), _connected(port) as wire:
                wire.say("SUBSCRIBE", destination=QUEUE, id="1", ack="auto")
                wire.say("SEND", _LAST.encode(), destination=QUEUE)
                while (body := wire.hear().body.decode()) != _LAST:
                    found.append(body)
                is_all = True
        return _stopped(nursery, job, number), found if is_all else None


@contextmanager
def _started(nursery: Nursery, job: Job) -> Iterator[tuple[int, int]]:
    """Start a server; give its process id and where it listens for STOMP, 0 for one that has ended instead."""
    write_phase(job.path("phase"), "start")
    job.path("attributes").write_text(_ATTRIBUTES)
    number = nursery.start(job)
    descriptor = os.pidfd_open(number)
    try:
        ends = time.monotonic() + _START_SECONDS
        while not (line := _first_line(job)) and not _has_ended(descriptor, 0.005) and time.monotonic() < ends:
            pass
        yield number, int(json.loads(line)["listening"]["STOMP"].rpartition(":")[2]) if line else 0
    finally:
        os.close(descriptor)


def _first_line(job: Job) -> str:
    path = job.path("out")
    line = path.read_text("utf-8").partition("\n") if path.exists() else ("", "", "")
    return line[0] if line[1] else ""


def _has_ended(descriptor: int, seconds: float) -> bool:
    return bool(select.select([descriptor], [], [], seconds)[0])


def _stopped(nursery: Nursery, job: Job, number: int) -> int | None:
    write_phase(job.path("phase"), "stop")
    os.kill(number, signal.SIGTERM)
    return nursery.wait(number)


@contextmanager
def _connected(port: int) -> Iterator[Wire]:
    wire = Wire(socket.create_connection(("127.0.0.1", port), _ANSWER_SECONDS), connects=False)
    try:
        wire.say("CONNECT", accept_version="1.2", login="client", token="1")
        if wire.hear().command == "CONNECTED":
            yield wire
            return
        raise EOFError
    finally:
        wire.close()


def _send(port: int, visit: Visit) -> None:
    for body in SENT:
        with suppress(OSError, EOFError), _connected(port) as wire:
            wire.say("SEND", body.encode(), destination=QUEUE, receipt=body)
            try:
                frame = wire.hear()
            except TimeoutError:
                visit.silent.append(f"SEND of {body}")
                continue
            if frame.command == "RECEIPT":
                visit.receipted.append(body)
            else:
                visit.refused[body] = frame.headers.get("message", "")


def _receive(port: int, visit: Visit) -> None:
    for _ in range(2):  # connections: a second one when the first has come to nothing
        if len(visit.acknowledged) < RECEIVED:
            with suppress(OSError, EOFError), _connected(port) as wire:
                wire.say("SUBSCRIBE", destination=QUEUE, id="1", ack="client-individual", prefetch_count="1")
                _take(wire, visit)


def _take(wire: Wire, visit: Visit) -> None:
    """Take messages until so many are acknowledged. What comes beside is given back with the connection."""
    waits: dict[str, str] = {}  # for the receipt of an ACK: what it is about
    while len(visit.acknowledged) < RECEIVED:
        wire.socket.settimeout(_ANSWER_SECONDS if waits else _MESSAGE_SECONDS)
        try:
            frame = wire.hear()
        except TimeoutError:
            visit.silent += [f"ACK of {body}" for body in waits.values()]
            return
        if frame.command == "RECEIPT":
            visit.acknowledged.append(waits.pop(frame.headers["receipt-id"]))
        elif frame.command == "MESSAGE":
            body, ack = frame.body.decode(), frame.headers["ack"]
            visit.got.append(body)
            if len(visit.acknowledged) + len(waits) < RECEIVED:
                visit.asked.append(body)
                waits[ack] = body
                wire.say("ACK", id=ack, receipt=ack)
        else:
            return
