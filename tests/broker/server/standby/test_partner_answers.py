"""What listens at the partner's address may answer anything: it is read no further than a broker's answer can be."""

import asyncio
import gzip
import socket
from collections.abc import Callable
from typing import Any

import pytest

from oms_journal.broker.attributes.attributes import built_in
from oms_journal.broker.server.migration.partner import Partner, PartnerSays
from oms_journal.broker.server.runtime.partner import ANSWER_BYTES_MAX, PartnerSilent, ask, partner_client

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ZIPPED = gzip.compress(b'{"a": "' + b"x" * (8 * ANSWER_BYTES_MAX) + b'"}')
LONGEST = b'{"a": "' + b"x" * (ANSWER_BYTES_MAX - 9) + b'"}'


async def answered(head: bytes, part: bytes, asking: Callable[[Any], Any]) -> tuple[Any, int]:
    """Return what comes of asking one who answers with the head and this part for ever, and how much was written."""
    written = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + b"\r\n")
        try:
            while not writer.is_closing() and written < 64 * ANSWER_BYTES_MAX:
                writer.write(part)
                written += len(part)
                await writer.drain()
                if b"Content-Length" in head:
                    break
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        attributes = built_in(partner_cluster_address=f"127.0.0.1:{port}:TCP")
        try:
            found = await asking(attributes)
        except (PartnerSilent, PartnerSays) as refused:
            found = refused
    return found, written


async def by_standby(attributes: Any) -> dict[str, Any]:
    async with partner_client(attributes, timeout=20) as client:
        return await ask(client, "/peer/ping")


async def by_mover(attributes: Any) -> dict[str, Any]:
    return await Partner(attributes, "load").ask("hello", {})


def test_a_closed_port_is_told_from_a_partner_that_cannot_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(PartnerSilent) as found:
        asyncio.run(by_standby(built_in(partner_cluster_address=f"127.0.0.1:{port}:TCP")))
    assert found.value.is_closed

    found_wrong, _ = asyncio.run(answered(HEAD + b"Content-Length: 1\r\n", b"x", by_standby))
    assert isinstance(found_wrong, PartnerSilent) and not found_wrong.is_closed


@pytest.mark.parametrize("asking", [by_standby, by_mover])
def test_an_answer_without_an_end_is_given_up(asking: Callable[[Any], Any]) -> None:
    found, written = asyncio.run(answered(HEAD, b" " * 65536, asking))

    assert isinstance(found, PartnerSilent | PartnerSays)
    assert written < 64 * ANSWER_BYTES_MAX


@pytest.mark.parametrize("asking", [by_standby, by_mover])
@pytest.mark.parametrize("content", [ZIPPED, b"[" * 100_000, b"[1]", b"1", b"no JSON", b""], ids=range(6))
def test_what_is_no_answer_of_a_broker_is_told_so(asking: Callable[[Any], Any], content: bytes) -> None:
    zipped = b"Content-Encoding: gzip\r\n" if content is ZIPPED else b""
    head = HEAD + zipped + b"Content-Length: %d\r\n" % len(content)
    found, _ = asyncio.run(answered(head, content, asking))
    assert isinstance(found, PartnerSilent | PartnerSays)


@pytest.mark.parametrize("asking", [by_standby, by_mover])
def test_an_answer_of_just_the_length_is_read(asking: Callable[[Any], Any]) -> None:
    head = HEAD + b"Content-Length: %d\r\n" % len(LONGEST)
    found, _ = asyncio.run(answered(head, LONGEST, asking))
    assert len(LONGEST) == ANSWER_BYTES_MAX
    assert len(found["a"]) == ANSWER_BYTES_MAX - 9
