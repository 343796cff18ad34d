"""Who has asked last of a standby: only its partner, which proves it, and nobody who merely asks."""

import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oms_journal.broker.attributes.attributes import Attributes, read_attributes
from oms_journal.broker.server.runtime import partner
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.lock import Holder, read_holder
from tests.support.servers.stomp_server import TIMEOUT_SECONDS, Serving, eventually
from tests.support.servers.two_brokers import Pair, asked, wait_for

OTHERS = "other-users"
SAID = "asked last"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with Pair(tmp_path) as found:
        yield found


def partner_of(serving: Serving) -> str:
    """Return what the broker tells operators of its partner."""
    found = asked(serving.http_port, "/info/BROKER")
    return str(found["rows"][0]["partner"])


def pinged(serving: Serving, *headers: str) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{serving.http_port}/peer/ping")
    for header in headers:
        request.add_header(partner.PING_HEADER, header)
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
        assert answer.status == 200


def holder_of(pair: Pair) -> Holder:
    found = read_holder(RealDisk(), pair.spool)
    assert found is not None
    return found


def attributes_of(pair: Pair, users: str = "") -> Attributes:
    """Return the attributes of the standby, or of one with another users file."""
    attributes = read_attributes(pair.file(1, "STANDBY"))
    if users:
        attributes.broker = replace(attributes.broker, users_file=str(pair.directory / users))
        (pair.directory / users).write_text("nobody's")
    return attributes


@pytest.mark.whole
def test_who_asks_and_proves_nothing_leaves_no_trace(pair: Pair) -> None:
    first = pair.start(0, "STANDARD")
    eventually(lambda: holder_of(pair).count > 0)
    seen, ours, strange = holder_of(pair), attributes_of(pair), attributes_of(pair, OTHERS)
    good = partner.ping_header(ours, seen.number, seen.count)
    for headers in (
        [],
        [""],
        ["x" * 4000],
        [good[:-1]],
        [good + "0"],
        [good.upper()],
        [f"{seen.number} {seen.count} {'0' * 64}"],
        [partner.ping_header(strange, seen.number, seen.count)],
        [partner.ping_header(ours, seen.number + 1, seen.count)],
        [partner.ping_header(ours, seen.number, seen.count + 1000)],
        [good.replace(str(seen.count), "²", 1)],
    ):
        pinged(first, *[header.encode().decode("latin-1") for header in headers])
        assert SAID not in partner_of(first), headers


@pytest.mark.whole
def test_what_the_standby_said_once_is_its_word_no_second_time(pair: Pair) -> None:
    """Who has overheard a ping says it again: the time of the last one stays."""
    first = pair.start(0, "STANDARD")
    eventually(lambda: holder_of(pair).count > 0)
    seen = holder_of(pair)
    good = partner.ping_header(attributes_of(pair), seen.number, seen.count)
    pinged(first, good)
    said = partner_of(first)
    assert SAID in said
    eventually(lambda: holder_of(pair).count > seen.count)
    pinged(first, good)
    assert partner_of(first) == said


@pytest.mark.whole
def test_the_pings_of_the_standby_itself_are_told(pair: Pair) -> None:
    first = pair.start(0, "STANDARD")
    second = pair.start(1, "STANDBY")
    wait_for(second, "handshake with", "done")
    eventually(lambda: SAID in partner_of(first))
    before = partner_of(first)
    eventually(lambda: partner_of(first) != before)
    assert f"standby 127.0.0.1:{pair.ports[2]}:TCP" in before
