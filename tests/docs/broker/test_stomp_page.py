"""The page on STOMP has every frame, header, call and limit that the server knows."""

import re
from collections.abc import Iterator

import pytest

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import FIELDS, Reception, Reply
from oms_journal.broker.codes import Code
from oms_journal.broker.server.runtime.limits import StompLimits
from oms_journal.broker.server.stomp import consumer, headers
from oms_journal.broker.server.stomp.block_calls import CALLS
from oms_journal.broker.server.stomp.foreign import FOREIGN
from oms_journal.broker.server.stomp.frames import CLIENT_COMMANDS, V12, Frame
from oms_journal.broker.server.stomp.subscriptions import ACK_MODES
from oms_journal.broker.service_text import NAME_BYTES_MAX
from tests.support.project import REPOSITORY

PAGE = (REPOSITORY / "docs" / "reference" / "stomp.md").read_text(encoding="utf-8")
SECTIONS = {part.split("\n")[0]: part for part in PAGE.split("\n## ")[1:]}
LIMITS = StompLimits()
FRAMES = LIMITS.frames


def named(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def rows(section: str) -> Iterator[list[str]]:
    """Yield the rows of a section's tables as their cells, their heads among them."""
    for line in SECTIONS[section].splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def test_every_frame_of_a_client_has_a_row() -> None:
    assert {name for row in rows("Frames of a client") for name in named(row[0])} == CLIENT_COMMANDS


def test_every_header_of_a_send_that_is_no_property_has_a_row() -> None:
    said = {name for row in rows("Headers of SEND") for name in named(row[0])}

    assert said == headers._NO_PROPERTIES | {"conversation", "reply-to", "correlation-id"}


def test_every_header_of_a_subscribe_has_a_row() -> None:
    said = set(named("".join(line for row in rows("Headers of SUBSCRIBE") for line in row)))

    assert {*consumer.PREFETCH, *consumer.NAMES, "durable", "id", "ack", "destination", "receipt"} <= said
    assert set(ACK_MODES) <= said


def test_every_header_of_a_message_has_a_row() -> None:
    said = {name for row in rows("Headers of MESSAGE") for name in named(row[0])}
    wanted = {"reply-to": "/temp/A", "correlation-id": "1"}
    unit = Reply(uowid="1" * 16, conv_id="2" * 16, adcount=1, client_uid="ALICE", ustatus="1 of 2")
    publication = Reply(publication_id="3" * 16, topic="NEWS")
    found: set[str] = set()
    for reply in (unit, publication):
        reply.uow_status = Reception.RECV_ONLY
        found |= set(headers.message_frame(Answered(reply, b"", wanted), "1", "2", V12, needs_ack=True).headers)

    assert said == found


def test_the_headers_of_receipts_and_errors_are_told() -> None:
    told = {named(row[0])[0]: set(named(row[1])) for row in rows("Frames of the server") if named(row[0])}
    frame = Frame("SEND", {"receipt": "1"})
    receipts: set[str] = set()
    for reply in (Reply(uowid="1", conv_id="2"), Reply(publication_id="3")):
        receipt = headers.receipt_frame(frame, reply)
        assert receipt is not None
        receipts |= set(receipt.headers)
    error = headers.error_frame(Code.NOT_ACTIVE, "", frame, version="1.2")

    assert told["RECEIPT"] == receipts
    assert told["ERROR"] == set(error.headers) | {"partner-broker-id"}


def test_every_call_by_control_block_is_told() -> None:
    said = {name: named(row[1]) for row in rows("Control blocks") for name in named(row[0])}

    assert said.keys() == {function.name for function in CALLS}
    for function, options in CALLS.items():
        assert said[function.name] == [] or set(said[function.name]) == {option.name for option in options}


def test_every_header_of_other_brokers_is_told_with_its_frames() -> None:
    said = {
        name: set(row[0].split(", "))
        for row in rows("Headers of other brokers")
        if row[0] != "with"
        for name in named(row[1])
    }

    assert said == {name: set(foreign.commands) for name, foreign in FOREIGN.items()}


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ("connections", f"{LIMITS.connections:,} "),
        ("from the connection to CONNECT", f"{LIMITS.connect_seconds:g} s"),
        ("line of a header", f"{FRAMES.header_line:,} bytes"),
        ("headers of a frame", f"{FRAMES.header_lines}, together {FRAMES.head:,} bytes"),
        ("body of a frame", f"{FRAMES.body:,} bytes"),
        ("frame that has begun", f"{LIMITS.frame_seconds:g} s"),
        ("frame that has begun", f"{LIMITS.frame_bytes_per_second:,} bytes a second"),
        ("frames that are not complete, of all connections together", f"{LIMITS.unread_bytes:,} bytes"),
        ("calls of a connection without an answer", f"{LIMITS.calls:,}, or {LIMITS.call_bytes:,} bytes"),
        ("subscriptions of a connection", f"{LIMITS.subscriptions:,}"),
        ("transactions of a connection", f"{LIMITS.transactions}, together {LIMITS.transaction_bytes:,} bytes"),
        ("receipts and answers that you do not read", f"{LIMITS.unsent_bytes:,} bytes"),
    ],
)
def test_every_limit_is_the_one_of_the_server(row: str, shown: str) -> None:
    assert shown in {what: limit for what, limit, _ in rows("Limits")}[row]


def test_other_numbers_of_the_page_are_those_of_the_server() -> None:
    assert f"NAME has at most {NAME_BYTES_MAX} bytes" in PAGE
    assert f"NAME has at most {FIELDS['TOPIC'].width} bytes" in PAGE
    assert f"shortest interval is {LIMITS.heart_beat_milliseconds} ms" in PAGE
    assert f"{LIMITS.prefetch} without it, at most {LIMITS.prefetch_max:,}" in PAGE
    assert f"answers of {LIMITS.replies:,} conversations" in PAGE
