"""A takeover under the load of 16 STOMP clients: no receipt was given for nothing, no ACK either.

In the sample the first broker is stopped and comes back; the whole has one that is killed.
"""

import signal
from pathlib import Path

import pytest

from oms_journal import DatabaseView
from oms_journal.recovery.startup import recover
from tests.broker.server.migration.moving_load import Load
from tests.broker.server.test_kill import drained
from tests.support.servers.stomp_server import Serving, eventually
from tests.support.servers.two_brokers import Pair, wait_for

RECEIPTS = 200  # from each of the two brokers


def check(load: Load, pair: Pair, last: Serving) -> None:
    """Compare what the clients were told with what the last broker, and every later start, has."""
    assert last.stop() == 0
    assert not load.delivered_again(), "acknowledged, and delivered again"
    assert load.seen() <= load.sent
    with DatabaseView.open(pair.spool) as view:
        left = [message.payload for message in view.undelivered()]
    assert len(set(left)) == len(left), "nothing is there twice"
    assert not load.acknowledged() & set(left), "nothing that was acknowledged is there"
    assert load.receipted <= set(left) | load.seen(), "all that has a receipt is there, or was received"
    assert set(left) <= load.sent

    recover(pair.spool)
    with DatabaseView.open(pair.spool) as view:
        assert [message.payload for message in view.undelivered()] == left, "a later start finds the same"
    with Serving(pair.spool, str(pair.file(0, "STANDARD"))) as later:
        assert sorted(drained(later.port, "/queue/load")) == sorted(left)


@pytest.mark.whole
@pytest.mark.parametrize("handover", ["stop", "kill"])
def test_a_takeover_under_load_loses_nothing_and_repeats_nothing(handover: str, tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        first = pair.start(0, "STANDARD")
        second = pair.start(1, "STANDBY")
        wait_for(second, "handshake with", "done")
        load = Load([first.port, pair.ports[3]])
        load.start()
        try:
            eventually(lambda: load.receipts_at[first.port] >= RECEIPTS)
            first.child.send_signal(signal.SIGKILL if handover == "kill" else signal.SIGSTOP)
            assert second.hear_ports()
            eventually(lambda: load.receipts_at[second.port] >= RECEIPTS)
            if handover == "stop":
                first.child.send_signal(signal.SIGCONT)
                assert first.child.wait(20) == 3, "it finds out, and ends"
                wait_for(first, "the store was taken over by process", "nothing was acknowledged here since")
                load.hear_what_is_left()
                assert {error["error-code"] for error in load.errors} <= {"00780388", "02150148"}
                assert {error["partner-broker-id"] for error in load.errors} == {f"127.0.0.1:{pair.ports[2]}:TCP"}
        finally:
            load.stop()
        check(load, pair, second)
