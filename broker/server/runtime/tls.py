"""TLS: the certificate of the server, read again when it changes, and a door where connections wait to be encrypted.

How many handshakes are under way at a time is bounded, and how long each may take; the oldest makes room for the next.
So who begins very many and says nothing more keeps nobody else out, and no open file from the store.
"""

import asyncio
import contextlib
import logging
import ssl
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from oms_journal.broker.server.runtime.log import event

_log = logging.getLogger("oms.security")
HANDSHAKES_MAX = 500  # under way at a time
HANDSHAKE_SECONDS = 10.0
SHUTDOWN_SECONDS = 5.0  # for the client to say that it ends too


class CertificateInvalid(Exception):
    """The certificate or its key cannot be used: why."""


class Certificate:
    """A certificate chain and its key, in PEM."""

    def __init__(self, chain: Path, key: Path | None) -> None:
        self._chain = chain
        self._key = key or chain
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._load()
        self._seen = self._versions()

    @classmethod
    def open(cls, chain: Path, key: Path | None = None) -> "Certificate":
        """Return the certificate; the key is in the same file where none is named. CertificateInvalid."""
        try:
            return cls(chain, key)
        except (OSError, ValueError) as failure:
            raise CertificateInvalid(_why(chain, key or chain, failure)) from failure

    def _load(self) -> None:
        mode = stat.S_IMODE(self._key.stat().st_mode)
        if mode & stat.S_IRWXO:
            raise ValueError(f"{self._key} has mode {mode:04o}: everybody can reach the key; chmod 600 it")
        self.context.load_cert_chain(self._chain, self._key, password=_no_password)

    def _versions(self) -> list[tuple[int, int]]:
        found = (path.stat() for path in (self._chain, self._key))
        return [(each.st_ino, each.st_mtime_ns) for each in found]

    def look(self) -> None:
        """Read the files again when they have changed: who connects from now on gets the new certificate."""
        try:
            seen = self._versions()
            if seen == self._seen:
                return
            self._seen = seen
            self._load()
        except (OSError, ValueError) as failure:
            _log.error(
                "%s; the certificate that was read before goes on to count", _why(self._chain, self._key, failure)
            )
        else:
            _log.info("the certificate was read again", extra=event("certificate_read"))


def _why(chain: Path, key: Path, failure: OSError | ValueError) -> str:
    if isinstance(failure, ssl.SSLError):
        return f"{chain} and {key} are no certificate and its key in PEM: {failure.reason or 'they cannot be read'}"
    if isinstance(failure, OSError):
        return f"{failure.filename or chain}: {failure.strerror}"
    return str(failure)


def _no_password() -> str:
    raise ValueError("the key has a password; a server needs one without")


class TlsDoor:
    """Makes protocols for `create_server` whose connections are encrypted before those of `make` hear of them."""

    def __init__(self, certificate: Certificate, make: Callable[[], asyncio.Protocol]) -> None:
        self.certificate = certificate
        self.make = make
        self.waiting: dict[_Waiting, asyncio.Transport] = {}  # the oldest first

    def __call__(self) -> asyncio.Protocol:
        return _Waiting(self)


class _Waiting(asyncio.Protocol):
    """A connection before it is encrypted; what comes in the very moment is kept for whom it is for."""

    def __init__(self, door: TlsDoor) -> None:
        self._door = door
        self._loop = asyncio.get_running_loop()
        self._early: list[bytes] = []
        self._is_lost = False
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        raw = cast(asyncio.Transport, transport)
        waiting = self._door.waiting
        if len(waiting) >= HANDSHAKES_MAX:
            waiting.pop(next(iter(waiting))).abort()
        waiting[self] = raw
        self._task = self._loop.create_task(self._shake_hands(raw))

    async def _shake_hands(self, raw: asyncio.Transport) -> None:
        encrypted: Any = None
        try:
            with contextlib.suppress(OSError, ssl.SSLError):
                encrypted = await self._loop.start_tls(
                    raw,
                    self,
                    self._door.certificate.context,
                    server_side=True,
                    ssl_handshake_timeout=HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=SHUTDOWN_SECONDS,
                )
        finally:
            self._door.waiting.pop(self, None)
        if encrypted is None or self._is_lost:
            raw.abort()
            return
        protocol = self._door.make()
        encrypted.set_protocol(protocol)
        protocol.connection_made(encrypted)
        for data in self._early:
            protocol.data_received(data)

    def data_received(self, data: bytes) -> None:
        self._early.append(data)

    def connection_lost(self, failure: Exception | None) -> None:
        self._is_lost = True
