"""What the benchmark's STOMP client counts is what the server has done."""

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from bench.broker.peers import Peer
from bench.broker.stomp import Serving
from bench.broker.stomp_client import LoadFailed, connect, encoded, keep_cycling, keep_sending, sending, settle


def totals(served: Serving) -> dict[str, Any]:
    with urllib.request.urlopen(f"{served.http}/info/STATISTICS", timeout=20) as answer:
        (row,) = json.load(answer)["rows"]
    found: dict[str, Any] = row
    return found


@pytest.mark.whole
def test_every_receipt_counted_is_a_unit_of_work_that_was_accepted(tmp_path: Path) -> None:
    with Serving(tmp_path / "spool") as served:
        connections = served.connections(3)
        frames = [sending(f"/queue/q{number}", b"payload") for number in range(3)]
        load = keep_sending(connections, frames, 5, 0.2)
        settle(connections)
        accepted = totals(served)["accepted"]
        assert 0 < load.count <= accepted <= load.count + 3 * 5  # at most what was under way at the end


def test_every_cycle_counted_is_a_unit_of_work_that_was_received_and_committed(tmp_path: Path) -> None:
    with Serving(tmp_path / "spool") as served:
        connections = served.connections(2)
        for number, connection in enumerate(connections):
            said = {"id": "s", "destination": f"/queue/q{number}", "ack": "client-individual"}
            connection.sendall(encoded("SUBSCRIBE", b"", **said))
        load = keep_cycling(connections, [sending(f"/queue/q{number}", b"p") for number in range(2)], 0.2)
        until = time.monotonic() + 20
        while totals(served)["processed"] < load.count:
            assert time.monotonic() < until, (load, totals(served))
            time.sleep(0.05)
        settle(connections)
        assert 0 < load.count == totals(served)["processed"]


@pytest.mark.whole
def test_an_error_of_the_server_ends_the_measurement(tmp_path: Path) -> None:
    with Serving(tmp_path / "spool") as served:
        connections = served.connections(1)
        with pytest.raises(LoadFailed, match="ERROR"):
            keep_sending(connections, [sending("nowhere", b"p")], 1, 5)
        with pytest.raises(LoadFailed):
            connect(served.address, accept_version="9.9")


@pytest.mark.parametrize("text", ["rabbit", "=h:1", "a=h", "a=h:x", "a=h:1:login"])
def test_a_peer_that_is_not_named_as_it_should_be_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Peer.parsed(text)
