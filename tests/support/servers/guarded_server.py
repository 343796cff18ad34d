"""`oms serve` with users and TLS, from an attribute file; certificates are made on the spot."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path

import trustme

from oms_journal.broker.attributes.attributes import BUILT_IN
from oms_journal.broker.rights import Right
from oms_journal.broker.server.security.passwords import Cost, hash_password
from oms_journal.broker.server.security.users import User, pattern_of, write
from tests.support.servers.stomp_server import Serving

PASSWORDS = {name: f"the password of {name.lower()}" for name in ("ALICE", "BOB", "MALLORY", "ROOT")}
CHEAP = Cost(log_n=4)
_STORED = {name: hash_password(password, CHEAP) for name, password in PASSWORDS.items()}


def user(name: str, **rights: list[str]) -> User:
    """Return a user that may do this: `send=["/queue/A"]`."""
    allow = {Right(right): tuple(map(pattern_of, patterns)) for right, patterns in rights.items()}
    return User(name, _STORED[name], allow)


OWN = {name: [f"/queue/{name}*", f"/topic/{name}*", "/queue/SHARED"] for name in PASSWORDS}
USERS = [
    user("ALICE", send=OWN["ALICE"], receive=OWN["ALICE"]),
    user("BOB", send=OWN["BOB"], receive=OWN["BOB"]),
    user("MALLORY", send=["/queue/MALLORY*"], receive=["/queue/MALLORY*"]),
    user("ROOT", send=["*"], receive=["*"], administer=["*"]),
]


def set_users(path: Path, users: list[User] = USERS) -> None:
    """Write the users file."""
    write(path, {each.name: each for each in users})


@dataclass
class Files:
    """What such a server is started with."""

    folder: Path
    users: list[User] = field(default_factory=lambda: USERS)
    has_tls: bool = True
    more: str = ""  # attributes of the section BROKER

    def __post_init__(self) -> None:
        self.users_file = self.folder / "users"
        self.authority = trustme.CA()
        self.authority_file = self.folder / "authority.pem"
        self.chain = self.folder / "server.pem"
        self.authority.cert_pem.write_to_path(self.authority_file)
        if self.users:
            set_users(self.users_file, self.users)
        self.renew()
        self.attributes = self.folder / "attributes"
        lines = [f"USERS-FILE={self.users_file}"] if self.users else []
        lines += [f"TLS-CERTIFICATE={self.chain}", "STOMP-TLS-PORT=0"] if self.has_tls else []
        text = BUILT_IN.replace("DEFAULTS=BROKER\n", "DEFAULTS=BROKER\n  " + "\n  ".join([*lines, self.more]) + "\n", 1)
        self.attributes.write_text(text)

    def renew(self) -> None:
        """Let the server have a new certificate."""
        made = self.authority.issue_cert("localhost", "127.0.0.1")
        fresh = self.folder / "fresh.pem"
        fresh.touch(0o600)
        fresh.write_bytes(made.private_key_and_cert_chain_pem.bytes())
        fresh.rename(self.chain)

    def context(self) -> ssl.SSLContext:
        """Return what a client trusts."""
        return ssl.create_default_context(cafile=str(self.authority_file))

    def serve(self, *arguments: str) -> Serving:
        return Serving(self.folder / "spool", str(self.attributes), *arguments)
