"""Programs with the Python client while the broker is killed and its partner takes over: each message arrives once."""

import threading
from collections import Counter
from pathlib import Path

import pytest

from oms_journal.broker.client.brokers import RemoteBroker
from oms_journal.broker.client.connect import connect
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.sessions.sessions import Session
from tests.support.broker.embedded import SERVICE
from tests.support.servers.two_brokers import Pair, wait_for

SENDERS, MESSAGES, KILLED_AFTER = 4, 25, 30


class Senders:
    """Programs that send, and ask LAST when they do not know whether they have."""

    def __init__(self, broker: RemoteBroker, pair: Pair) -> None:
        self._broker = broker
        self._pair = pair
        self._counting = threading.Lock()
        self._count = 0
        self.sent: list[bytes] = []
        self.in_doubt = 0

    def run(self) -> None:
        threads = [threading.Thread(target=self._send, args=(at,)) for at in range(SENDERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send(self, at: int) -> None:
        with self._broker.session("ALICE", token=f"PC{at}") as session:
            last = ""
            for number in range(MESSAGES):
                body = b"%d %d" % (at, number)
                last = self._sent(session, body, last)
                with self._counting:
                    self.sent.append(body)
                    self._count += 1
                    if self._count == KILLED_AFTER:
                        self._pair.started[0].kill()

    def _sent(self, session: Session, body: bytes, before: str) -> str:
        """Send it once; return its UOWID."""
        while True:
            try:
                return session.send(SERVICE, body, status_lifetime="1H").uowid
            except BrokerError as failure:
                assert failure.code is Code.TRANSPORT_TIMED_OUT, str(failure)
            self.in_doubt += 1
            last = session.recover()
            if last is not None and last.uowid != before:
                return last.uowid


@pytest.mark.whole
def test_each_message_arrives_once_though_the_broker_is_killed_and_its_partner_takes_over(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        pair.start(0, "STANDARD")
        standby = pair.start(1, "STANDBY")
        wait_for(standby, "handshake with", "done")
        with connect(f"http://127.0.0.1:{pair.ports[0]}") as broker:
            assert isinstance(broker, RemoteBroker)
            senders = Senders(broker, pair)
            senders.run()
            assert broker.url.endswith(str(pair.ports[2])), "the partner, which the broker had named"

            received: Counter[bytes] = Counter()
            with broker.session("BOB", token="S1") as bob:
                bob.register(SERVICE)
                while (unit := bob.receive_unit(wait=0.5)) is not None:
                    with unit:
                        received.update(message.body for message in unit)

    assert len(senders.sent) == SENDERS * MESSAGES
    assert received == Counter(senders.sent)
