"""How a server may be reached, and by whom: its guard, its certificate, and where what is not encrypted listens.

HOST             USERS-FILE and TLS-CERTIFICATE    INSECURE-NETWORK=YES
loopback         as they are                       as they are
anywhere else    both are needed; what is not      not needed; everything listens on HOST, and the log
                 encrypted listens on loopback     warns of it with every start
"""

import asyncio
import ipaddress
import logging
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from oms_journal.broker.attributes.attributes import BrokerAttributes
from oms_journal.broker.rights import OPEN, Guard
from oms_journal.broker.server.runtime.log import event
from oms_journal.broker.server.runtime.tls import Certificate, CertificateInvalid
from oms_journal.broker.server.security.user_guard import UsersFileGuard
from oms_journal.broker.server.security.users import UsersInvalid

_log = logging.getLogger("oms.security")
LOOPBACK = "127.0.0.1"
LOOK_SECONDS = 2.0  # between two looks at the users and the certificate


class AccessRefused(Exception):
    """The server is not allowed to listen as it is asked to: why, and what would be needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the listeners are given. Made by `open`; `async with` looks after what changes."""

    guard: Guard
    certificate: Certificate | None  # None: nothing is encrypted
    host: str  # where what is encrypted listens
    plain_host: str  # where the rest does
    _watching: list[asyncio.Task[None]] = field(default_factory=list)

    @classmethod
    def open(cls, attributes: BrokerAttributes) -> "Access":
        """Return the access that the attributes ask for. AccessRefused."""
        try:
            guard = UsersFileGuard.open(Path(attributes.users_file)) if attributes.users_file else OPEN
        except UsersInvalid as invalid:
            raise AccessRefused(str(invalid)) from invalid
        _check_authority(attributes)
        host, plain = attributes.host, attributes.host
        if not is_loopback(host):
            if attributes.insecure_network:
                _warn(attributes)
            elif guard.is_open or not attributes.tls_certificate:
                raise AccessRefused(_needed(attributes))
            else:
                plain = LOOPBACK
        return cls(guard=guard, certificate=_certificate(attributes), host=host, plain_host=plain)

    @property
    def web_host(self) -> str:
        """Where HTTP listens, encrypted if there is a certificate."""
        return self.plain_host if self.certificate is None else self.host

    async def __aenter__(self) -> "Access":
        self._watching.append(asyncio.get_running_loop().create_task(self._watch()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._watching:
            task.cancel()
        if isinstance(self.guard, UsersFileGuard):
            self.guard.close()

    async def _watch(self) -> None:
        """Look for ever whether users or the certificate have changed."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if isinstance(self.guard, UsersFileGuard):
                self.guard.look_again()
            if self.certificate is not None:
                self.certificate.look()


def is_loopback(host: str) -> bool:
    """Return whether the name or the address is this machine's own, and nobody else can reach it."""
    try:
        found = {str(row[4][0]).partition("%")[0] for row in socket.getaddrinfo(host or None, None)} if host else set()
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(each).is_loopback for each in found)


def _certificate(attributes: BrokerAttributes) -> Certificate | None:
    if not attributes.tls_certificate:
        return None
    key = Path(attributes.tls_key) if attributes.tls_key else None
    try:
        return Certificate.open(Path(attributes.tls_certificate), key)
    except CertificateInvalid as invalid:
        raise AccessRefused(str(invalid)) from invalid


def _check_authority(attributes: BrokerAttributes) -> None:
    if attributes.tls_ca:
        try:
            ssl.create_default_context(cafile=attributes.tls_ca)
        except OSError as failure:  # an SSLError is one
            raise AccessRefused(f"TLS-CA {attributes.tls_ca} holds no certificate in PEM") from failure


def _missing(attributes: BrokerAttributes) -> str:
    missing = [
        name
        for name, value in (("USERS-FILE", attributes.users_file), ("TLS-CERTIFICATE", attributes.tls_certificate))
        if not value
    ]
    return " and ".join(missing)


def _needed(attributes: BrokerAttributes) -> str:
    return (
        f"HOST={attributes.host} is reached from other machines: that needs {_missing(attributes)},"
        " or INSECURE-NETWORK=YES where everybody in the network may do everything"
    )


def _warn(attributes: BrokerAttributes) -> None:
    missing = _missing(attributes)
    _log.warning(
        "INSECURE-NETWORK=YES: %s is reached from other machines without encryption%s",
        attributes.host,
        f"; {missing} is not given" if missing else "",
        extra=event("insecure", host=attributes.host),
    )
