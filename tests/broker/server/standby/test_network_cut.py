"""The network between two brokers is cut while both reach the store: nobody takes over what another still has."""

from pathlib import Path

import pytest

from oms_journal.broker.attributes.keywords import CANONICAL
from tests.broker.server.standby.network_namespaces import Hosts, missing
from tests.support.servers.stomp_server import Wire
from tests.support.servers.two_brokers import Pair, wait_for


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    if reason := missing():
        pytest.skip(reason)


@pytest.mark.whole
def test_a_cut_network_is_no_takeover_and_a_dead_owner_behind_it_is_one(tmp_path: Path) -> None:
    loudly = {"INSECURE_NETWORK": "YES"} if "INSECURE-NETWORK" in CANONICAL else {}
    with Hosts() as hosts, Pair(tmp_path, hosts=hosts.addresses, **loudly) as pair:
        first = pair.start(0, "STANDARD", within=hosts.within(0))
        second = pair.start(1, "STANDBY", within=hosts.within(1))
        wait_for(second, "handshake with", "done")
        wire = Wire(hosts.connection(0, first.port))
        wire.say("SEND", b"before", destination="/queue/q", receipt="1")
        assert wire.hear().headers["receipt-id"] == "1"

        hosts.cut()
        wait_for(second, "no takeover: the partner does not answer, but whoever has the store is alive")
        wire.say("SEND", b"meanwhile", destination="/queue/q", receipt="2")
        assert wire.hear().headers["receipt-id"] == "2", "the standard broker goes on"
        assert not [line for line in second.texts() if "takeover:" in line and "no takeover:" not in line]
        hosts.mend()
        wait_for(second, "is the standard broker, and answers")

        hosts.cut()
        first.kill()
        assert second.hear_ports(), "its lock tells that nobody has the store"
        wire.close()
        wire = Wire(hosts.connection(1, second.port))
        wire.say("SUBSCRIBE", destination="/queue/q", id="1", prefetch_count="10")
        assert [wire.hear().body for _ in range(2)] == [b"before", b"meanwhile"]
        wire.close()
