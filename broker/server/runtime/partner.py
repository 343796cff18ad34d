"""The other broker: where it is, how it is asked over HTTP, and what both must have alike."""

import asyncio
import hashlib
import hmac
import json
import ssl
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.drivers.open import spool_directory, version
from oms_journal.broker.reachability import is_refused, reason_of
from oms_journal.broker.store.start import platform
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import JournalError
from oms_journal.journal.lock import read_holder

if TYPE_CHECKING:  # of the extra `server`
    import httpx

ANSWER_BYTES_MAX = 1 << 20  # what it may send as one answer, whoever it is that listens there
PING_HEADER = "x-oms-standby"  # of a standby's ping


class PartnerSilent(Exception):
    """The other broker does not answer, or not as a broker does. Says why.

    `is_closed` is True when the machine answers, and nobody listens at the port.
    """

    def __init__(self, text: str, *, is_closed: bool = False) -> None:
        super().__init__(text)
        self.is_closed = is_closed


def partner_url(attributes: Attributes) -> str:
    """Return where the other broker answers, from host:port:TCP."""
    address = attributes.broker.partner_cluster_address
    assert address is not None, "checked with the attributes"
    host, port, _ = address.rsplit(":", 2)
    return f"{'https' if attributes.broker.tls_certificate else 'http'}://{host}:{port}"


def partner_client(attributes: Attributes, *, timeout: float) -> "httpx.AsyncClient":
    """Return a client for the other broker, with its address as base; `timeout` in seconds.

    With TLS-CERTIFICATE both use TLS, and the partner's certificate is checked: by TLS-CA, else by the system's roots.
    """
    import httpx

    trusted = ssl.create_default_context(cafile=attributes.broker.tls_ca)
    return httpx.AsyncClient(base_url=partner_url(attributes), timeout=timeout, trust_env=False, verify=trusted)


async def ask(
    client: "httpx.AsyncClient",
    path: str,
    body: dict[str, Any] | None = None,
    *,
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return the JSON that the other broker answers a GET, or with a body a POST. PartnerSilent."""
    import httpx

    try:
        asked = client.build_request("GET" if body is None else "POST", path, json=body, headers=headers)
        status, found = await answer_of(client, asked)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as failure:
        text = f"{client.base_url}: {reason_of(failure)}"
        raise PartnerSilent(text, is_closed=is_refused(failure)) from failure
    if found is None:
        raise PartnerSilent(f"{client.base_url} answers as no broker does")
    if status != 200:
        raise PartnerSilent(f"{client.base_url} answers {status}")
    return found


async def answer_of(client: "httpx.AsyncClient", asked: "httpx.Request") -> tuple[int, dict[str, Any] | None]:
    """Return the status of an answer and its JSON object; None for one that is none, or beyond ANSWER_BYTES_MAX.

    It is read no further than that, and as it comes: what is compressed could be of any size. httpx.HTTPError.
    """
    answer = await client.send(asked, stream=True)
    content = bytearray()
    try:
        async for part in answer.aiter_raw():
            content += part
            if len(content) > ANSWER_BYTES_MAX:
                return answer.status_code, None
    finally:
        await answer.aclose()
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    return answer.status_code, found if isinstance(found, dict) else None


async def sees_no_store(attributes: Attributes) -> bool:
    """Say whether nobody ever had the store, as far as can be seen from here; False where nothing can be."""
    with suppress(JournalError, OSError):
        return await asyncio.to_thread(read_holder, RealDisk(), spool_directory(attributes)) is None
    return False


def minor_version() -> str:
    """Return what of the version both brokers must have alike: the first two numbers."""
    return ".".join(version().split(".")[:2])


def introduction(attributes: Attributes, nonce: str) -> dict[str, str]:
    """Return what both brokers must have alike; the security settings so that nobody learns them."""
    return {"version": minor_version(), "platform": platform(), "security": _seal(attributes, nonce)}


def ping_header(attributes: Attributes, owner: int, count: int) -> str:
    """Return what a standby's ping says: the owner and the count in the lock file as it sees it, sealed. OSError."""
    seen = f"{owner} {count}"
    return f"{seen} {_seal(attributes, f'ping {seen}')}"


def _seal(attributes: Attributes, nonce: str) -> str:
    """Return a digest of the security settings that is good for this nonce: who cannot make it has others."""
    broker = attributes.broker
    tls = "TLS" if broker.tls_certificate else "no TLS"
    return hmac.new(_users_digest(broker.users_file), f"{nonce} {tls}".encode(), hashlib.sha256).hexdigest()


def _users_digest(users_file: str | None) -> bytes:
    """Return a digest of what the users file says by now; read once, however often strangers introduce themselves."""
    if not users_file:
        return hashlib.sha256(b"").digest()
    found = Path(users_file).stat()
    return _digest_of(users_file, found.st_ino, found.st_mtime_ns, found.st_size)


@lru_cache(4)
def _digest_of(users_file: str, *_: int) -> bytes:
    return hashlib.sha256(Path(users_file).read_bytes()).digest()
