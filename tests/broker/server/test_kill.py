"""kill -9 of the server under load: what has a receipt is there, and what was acknowledged never comes again.

In the sample it is killed after forty receipts; in the whole also after one, and after many.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.servers.stomp_server import Serving, Wire
from tests.support.sweeps import split

SENDERS, WINDOW = 4, 20


class Load:
    """Clients that send and receive until the server is gone."""

    def __init__(self, port: int, kill: Callable[[], None], kill_after: int, round_: int) -> None:
        self.sent: set[bytes] = set()
        self.receipted: set[bytes] = set()
        self.acknowledged: set[bytes] = set()  # with a receipt
        self.seen: Counter[bytes] = Counter()
        self._port = port
        self._kill = kill
        self._kill_after = kill_after
        self._round = round_
        self._counting = threading.Lock()
        self._counted = 0

    def run(self) -> None:
        """Send and receive; the server is killed after so many receipts."""
        threads = [threading.Thread(target=self._send, args=(at,)) for at in range(SENDERS)]
        threads += [threading.Thread(target=self._receive), threading.Thread(target=self._transact)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _count(self) -> None:
        with self._counting:
            self._counted += 1
            if self._counted == self._kill_after:
                self._kill()

    def _send(self, at: int) -> None:
        number = 0
        with suppress(OSError, EOFError), closing(Wire(self._port)) as wire:
            while True:
                for _ in range(WINDOW):
                    body = b"%d %d %d" % (self._round, at, number)
                    self.sent.add(body)
                    wire.say("SEND", body, destination="/queue/load", receipt=body.decode())
                    number += 1
                for _ in range(WINDOW):
                    self.receipted.add(wire.hear().headers["receipt-id"].encode())
                    self._count()

    def _transact(self) -> None:
        """Send pairs in transactions: both are there, or neither."""
        number = 0
        with suppress(OSError, EOFError), closing(Wire(self._port)) as wire:
            while True:
                name = str(number)
                pair = [b"%d pair %d %s" % (self._round, number, place) for place in (b"load", b"other")]
                wire.say("BEGIN", transaction=name)
                for body, queue in zip(pair, ("/queue/load", "/queue/other"), strict=True):
                    self.sent.add(body)
                    wire.say("SEND", body, destination=queue, transaction=name)
                wire.say("COMMIT", transaction=name, receipt=name)
                assert wire.hear().command == "RECEIPT"
                self.receipted.update(pair)
                number += 1

    def _receive(self) -> None:
        with suppress(OSError, EOFError), closing(Wire(self._port)) as wire:
            wire.say("SUBSCRIBE", destination="/queue/load", id="1", ack="client-individual", prefetch_count="10")
            bodies: dict[str, bytes] = {}
            while True:
                frame = wire.hear()
                if frame.command == "MESSAGE":
                    self.seen[frame.body] += 1
                    bodies[frame.headers["ack"]] = frame.body
                    wire.say("ACK", id=frame.headers["ack"], receipt=frame.headers["ack"])
                else:
                    self.acknowledged.add(bodies.pop(frame.headers["receipt-id"]))


def drained(port: int, queue: str) -> list[bytes]:
    """Return all that waits, acknowledged by being written."""
    wire, found = Wire(port), list[bytes]()
    wire.say("SUBSCRIBE", destination=queue, id="1", ack="auto", prefetch_count="10000")
    wire.say("SEND", b"end", destination=queue, persistent="false")
    while (frame := wire.hear()).body != b"end" or frame.command != "MESSAGE":
        found.append(frame.body)
    wire.say("DISCONNECT", receipt="bye")
    while (frame := wire.hear()).command == "MESSAGE":
        found.append(frame.body)
    wire.close()
    return found


@pytest.mark.parametrize("kill_after", split([40], [1, 250]))
def test_what_has_a_receipt_is_there_and_what_was_acknowledged_is_not(tmp_path: Path, kill_after: int) -> None:
    sent, receipted, acknowledged, seen = set[bytes](), set[bytes](), set[bytes](), Counter[bytes]()
    for round_ in range(2):
        with Serving(tmp_path) as serving:
            load = Load(serving.port, serving.child.kill, kill_after, round_)
            load.run()
            serving.kill()
        sent |= load.sent
        receipted |= load.receipted
        again = {body for body in load.seen if body in acknowledged}
        assert not again, "acknowledged before, and received again"
        acknowledged |= load.acknowledged
        seen += load.seen
    assert len(receipted) >= kill_after

    with Serving(tmp_path) as serving:
        left = drained(serving.port, "/queue/load")
        other = drained(serving.port, "/queue/other")
        assert len(set(left)) == len(left), "nothing is there twice"
        assert not acknowledged & set(left), "nothing that was acknowledged comes again"
        assert receipted <= set(left) | set(other) | set(seen), "all that has a receipt is there, or was received"
        assert set(left) | set(other) <= sent
        pairs = {body.rsplit(b" ", 1)[0] for body in [*left, *seen] if b"pair" in body}
        assert pairs == {body.rsplit(b" ", 1)[0] for body in other}, "both of a transaction, or neither"
        assert drained(serving.port, "/queue/load") == []


@pytest.mark.whole
def test_an_answer_finds_who_has_asked_on_a_later_connection_to_a_later_server(tmp_path: Path) -> None:
    with Serving(tmp_path / "spool") as serving, known(serving, "asker") as asker:
        asker.say("SEND", b"1+1", destination="/queue/sums", reply_to="/temp/answers", receipt="asked")
        conversation = asker.hear().headers["conversation"]
        serving.kill()
    with Serving(tmp_path / "spool") as serving, known(serving, "worker") as worker:
        worker.say("SUBSCRIBE", destination="/queue/sums", id="1", ack="client")
        question = worker.hear()
        worker.say("BEGIN", transaction="t")
        worker.say("SEND", b"2", destination=question.headers["reply-to"], transaction="t")
        worker.say("ACK", id=question.headers["ack"], transaction="t")
        worker.say("COMMIT", transaction="t", receipt="answered")
        assert worker.hear().headers["receipt-id"] == "answered"
        serving.kill()
    with Serving(tmp_path / "spool") as serving, known(serving, "asker") as asker:
        asker.say("SUBSCRIBE", destination=f"/conversation/{conversation}", id="mine", ack="client")
        answer = asker.hear()
        assert (answer.body, answer.headers["subscription"]) == (b"2", "mine")
        asker.say("ACK", id=answer.headers["ack"], receipt="read")
        assert asker.hear().headers["receipt-id"] == "read"


@contextmanager
def known(serving: Serving, login: str) -> Iterator[Wire]:
    """Return the connection of somebody who is the same on each."""
    with closing(Wire(serving.port, connects=False)) as made:
        made.say("CONNECT", accept_version="1.2", login=login, token="1")
        assert made.hear().command == "CONNECTED"
        yield made
