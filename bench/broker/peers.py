"""`python -m bench.broker.peers`: `oms serve` beside other brokers that run here, with the same client and messages.

A peer is named with `--peer NAME=HOST:PORT[:LOGIN:PASSCODE]`. Each is measured by turns with ours, in one run; what is
reported is ours in relation to it. `docs/how-to/compare-with-other-brokers.md` says how to start them with durable
messages and disk syncs.
"""

import argparse
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import machine, table
from bench.broker.stomp import CYCLING, SIZE, WINDOW, Noted, Serving, settled
from bench.broker.stomp_client import Load, connect, encoded, keep_cycling, keep_sending, sending
from bench.callers import scratch
from bench.measure import Row, Settings, alternate_rates, rate_text
from bench.raw import sync_seconds

COUNTS = (1, 16, 64)
Sockets = list[socket.socket]
Run = Callable[[float], Load]


@dataclass(frozen=True, slots=True)
class Peer:
    """A broker that speaks STOMP."""

    name: str
    address: tuple[str, int]
    login: str = ""
    passcode: str = ""

    @classmethod
    def parsed(cls, text: str) -> "Peer":
        """Return the peer of NAME=HOST:PORT[:LOGIN:PASSCODE]. ValueError."""
        name, _, rest = text.partition("=")
        host, port, *who = rest.split(":")
        if not name or not host or len(who) not in (0, 2):
            raise ValueError(text)
        return cls(name, (host, int(port)), *who)


def main() -> int:
    """Measure beside every peer, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.broker.peers", description=__doc__)
    shape = "NAME=HOST:PORT[:LOGIN:PASSCODE]"
    parser.add_argument("--peer", action="append", required=True, type=Peer.parsed, metavar=shape)
    parser.add_argument("--quick", action="store_true", help="few short rounds")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="oms-peers-"))
    try:
        syncs = sync_seconds(directory)
        settings = Settings(directory=directory, method=min(syncs, key=syncs.__getitem__))
        settings = settings.quick() if arguments.quick else settings
        described = machine.describe(directory, syncs)
        company = machine.Company()
        rows = []
        for peer in arguments.peer:
            for row in beside(settings, peer):
                print(f"{row.what}: {row.median:.2f}", file=sys.stderr, flush=True)
                rows.append(row)
        if (share := company.share()) is not None:
            described.append(f"Meanwhile others used {share:.0%} of the CPUs, the peers among them")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(table.markdown(rows, described))
    return 0


def beside(settings: Settings, peer: Peer) -> Iterator[Row]:
    """Yield the rows of one peer."""
    payload = os.urandom(SIZE)
    for count in COUNTS:
        frames = [sending(f"/queue/peers-{number}", payload) for number in range(count)]
        what = f"durable SEND with RECEIPT, {count} connections"
        yield _row(settings, peer, what, count, _sender(frames, 1))
    frames = [sending("/queue/peers-w", payload)]
    what = f"SENDs on one connection, {WINDOW} receipts awaited"
    yield _row(settings, peer, what, 1, _sender(frames, WINDOW))
    yield _row(settings, peer, f"cycles of SEND, MESSAGE and ACK, {CYCLING} connections", CYCLING, _cycler(payload))


def _sender(frames: list[bytes], window: int) -> Callable[[Sockets], Run]:
    return lambda made: lambda seconds: keep_sending(made, frames, window, seconds)


def _cycler(payload: bytes) -> Callable[[Sockets], Run]:
    def subscribed(made: Sockets) -> Run:
        names = [f"/queue/peers-c{number}" for number in range(CYCLING)]
        for connection, name in zip(made, names, strict=True):
            connection.sendall(encoded("SUBSCRIBE", id="s", destination=name, ack="client-individual"))
        frames = [sending(name, payload) for name in names]
        return lambda seconds: keep_cycling(made, frames, seconds)

    return subscribed


def _row(settings: Settings, peer: Peer, what: str, count: int, begin: Callable[[Sockets], Run]) -> Row:
    noted = Noted()
    with Serving(scratch(settings.directory, "served")) as served, ExitStack() as held:
        said = {"login": peer.login, "passcode": peer.passcode} if peer.login else {}
        theirs = [held.enter_context(connect(peer.address, **said)) for _ in range(count)]
        ours = served.connections(count)
        runs = [begin(each) for each in (theirs, ours)]
        found = alternate_rates(
            settings,
            settled(theirs, lambda seconds: noted.rate(runs[0](seconds))),
            settled(ours, lambda seconds: noted.rate(runs[1](seconds))),
        )
    return Row(
        name=f"{peer.name}-{count}",
        what=f"{what}, beside {peer.name}",
        measured=found.ratios,
        raw=rate_text(found.raw, peer.name),
        ours=rate_text(found.ours, ""),
        note=noted.text(),
    )


if __name__ == "__main__":
    sys.exit(main())
