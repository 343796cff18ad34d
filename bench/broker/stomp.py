"""`oms serve` over STOMP, a process of its own: durable SENDs, a window of them, cycles, idle connections.

The client is a process of its own too, this one (`stomp_load`); how much of a processor it used stands beside each
figure.
"""

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import TracebackType

from bench.broker.stomp_client import Load, connect, encoded, keep_cycling, keep_sending, sending, settle
from bench.callers import QUEUE, Tasks, frame_bytes, raw_journal, scratch
from bench.measure import Row, Settings, alternate_rates, rate_text
from oms_journal import MessageDatabase

SIZE = 256  # bytes of a message
BOUNDS = {1: 0.5, 16: 0.25, 64: 0.12}  # connections: of the database's own rate with as many callers in asyncio
WINDOW = 100  # receipts of one connection that are awaited together
CYCLING = 16  # connections that send, receive and acknowledge
IDLE = 1000
KIB = 1024


class Serving:
    """`oms serve` as a process, from `with` to its end."""

    def __init__(self, directory: Path) -> None:
        ports = ("--stomp-port", "0", "--http-port", "0")
        command = [sys.executable, "-m", "oms_journal.cli", "serve", "--spool", str(directory), *ports, "--json"]
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.child.stdout is not None
        listening = json.loads(self.child.stdout.readline())["listening"]
        self.address = ("127.0.0.1", int(listening["STOMP"].rpartition(":")[2]))
        self.http = f"http://{listening['HTTP']}"
        self._connections: list[socket.socket] = []

    def __enter__(self) -> "Serving":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, _: TracebackType | None
    ) -> None:
        for connection in self._connections:
            connection.close()
        self.child.terminate()
        self.child.wait()
        assert self.child.stdout is not None
        self.child.stdout.close()

    def connections(self, count: int, name: str = "C") -> list[socket.socket]:
        found = [connect(self.address, login=f"{name}{number}", client_id=name) for number in range(count)]
        self._connections += found
        return found

    def groups(self) -> int:
        """Return how many times it has made commits durable, each with one sync: it tells itself."""
        with urllib.request.urlopen(f"{self.http}/info/STATISTICS", timeout=20) as answer:
            (totals,) = json.load(answer)["rows"]
        return int(totals["groups"])

    def memory_bytes(self) -> int:
        """Return what the process has in memory."""
        for line in Path(f"/proc/{self.child.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * KIB
        raise AssertionError("the system does not tell")


class Noted:
    """The runs of a row, to say how busy the client was."""

    def __init__(self) -> None:
        self.loads: list[Load] = []

    def rate(self, load: Load) -> float:
        self.loads.append(load)
        return load.rate

    def text(self) -> str:
        share = sum(load.cpu_seconds for load in self.loads) / sum(load.seconds for load in self.loads)
        return f"the client used {share:.0%} of a processor"


def stomp(settings: Settings) -> Iterator[Row]:
    """Every row of STOMP."""
    for count, bound in BOUNDS.items():
        yield _sends(settings, count, bound)
    yield _window(settings)
    yield _cycles(settings)
    yield _idle(settings)


def _sends(settings: Settings, count: int, bound: float) -> Row:
    """Connections that wait for each receipt, against as many callers of the database in asyncio."""
    payload, noted = os.urandom(SIZE), Noted()
    with (
        MessageDatabase.open(scratch(settings.directory, "db"), cleanup_interval=0) as database,
        closing(Tasks(database, asyncio.new_event_loop())) as tasks,
        Serving(scratch(settings.directory, "served")) as served,
    ):
        connections = served.connections(count)
        frames = [sending(f"/queue/{QUEUE}{number}", payload) for number in range(count)]
        found = alternate_rates(
            settings,
            lambda seconds: tasks.rate(payload, count, seconds),
            settled(connections, lambda seconds: noted.rate(keep_sending(connections, frames, 1, seconds))),
        )
    return Row(
        name=f"stomp-{count}",
        what=f"STOMP: {count} connections, durable SEND with RECEIPT, {SIZE} B, against callers of the database",
        measured=found.ratios,
        bound=bound,
        raw=rate_text(found.raw, "plain add"),
        ours=rate_text(found.ours, ""),
        note=noted.text(),
    )


def settled(connections: list[socket.socket], run: Callable[[float], float]) -> Callable[[float], float]:
    """Return the run with its last answers read, so that the other side has the machine for itself."""

    def settled(seconds: float) -> float:
        rate = run(seconds)
        settle(connections)
        return rate

    return settled


def _window(settings: Settings) -> Row:
    payload, noted = os.urandom(SIZE), Noted()
    data = os.urandom(frame_bytes(settings.directory, lambda db: db.add(QUEUE, payload)))
    with (
        raw_journal(settings.directory, settings.method) as raw,
        Serving(scratch(settings.directory, "served")) as served,
    ):
        connections = served.connections(1)
        frames = [sending(f"/queue/{QUEUE}", payload)]
        found = alternate_rates(
            settings,
            lambda seconds: raw.run(data, seconds),
            settled(connections, lambda seconds: noted.rate(keep_sending(connections, frames, WINDOW, seconds))),
        )
    return Row(
        name="stomp-window",
        what=f"STOMP: SENDs on one connection, {WINDOW} receipts awaited, against one raw sync each",
        measured=found.ratios,
        bound=2,
        raw=rate_text(found.raw, "syncs"),
        ours=rate_text(found.ours, ""),
        note=noted.text(),
    )


def _cycles(settings: Settings) -> Row:
    payload, noted, measured = os.urandom(SIZE), Noted(), []
    with Serving(scratch(settings.directory, "served")) as served:
        connections = served.connections(CYCLING)
        names = [f"/queue/{QUEUE}{number}" for number in range(CYCLING)]
        for connection, name in zip(connections, names, strict=True):
            connection.sendall(encoded("SUBSCRIBE", id="s", destination=name, ack="client-individual"))
        frames = [sending(name, payload) for name in names]
        seconds = settings.slices * settings.slice_seconds
        for number in range(settings.rounds + 1):
            before = served.groups()
            load = keep_cycling(connections, frames, seconds)
            groups = served.groups() - before
            _drain(connections)
            if number:
                noted.rate(load)
                measured.append(groups / load.count)
    return Row(
        name="stomp-cycle",
        what=f"STOMP: syncs for a cycle of SEND, MESSAGE and ACK, {CYCLING} connections",
        measured=measured,
        bound=0.25,
        is_most=True,
        ours=rate_text([load.rate for load in noted.loads], "cycles"),
        note=noted.text(),
    )


def _drain(connections: list[socket.socket]) -> None:
    """Acknowledge what has come meanwhile, so that the next round begins with empty queues."""
    for connection in connections:
        connection.settimeout(20)
        data = b""
        while b"\nack:" not in data or not data.rstrip(b"\n").endswith(b"\0"):
            data += connection.recv(1 << 16)
        begin = data.index(b"\nack:") + 5
        connection.sendall(b"ACK\nid:" + data[begin : data.index(b"\n", begin)] + b"\n\n\0")
    settle(connections)


def _idle(settings: Settings) -> Row:
    measured = []
    for _ in range(3):
        with Serving(scratch(settings.directory, "served")) as served:
            served.connections(50, "WARM")  # what the first ones need is not theirs
            before = served.memory_bytes()
            served.connections(IDLE)
            measured.append((served.memory_bytes() - before) / IDLE / KIB)
    return Row(
        name="stomp-idle",
        what=f"STOMP: memory of an idle connection, {IDLE:,} of them",
        measured=measured,
        unit=" KiB",
        bound=30,
        is_most=True,
        ours=f"{statistics.median(measured):.1f} KiB each",
    )
