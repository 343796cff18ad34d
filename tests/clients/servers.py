"""The server that a foreign suite meets: on STOMP's own port, with TLS, and with users where a run wants them."""

from datetime import UTC, datetime
from pathlib import Path

import trustme

from oms_journal.broker.attributes.attributes import BUILT_IN
from oms_journal.broker.rights import Right
from oms_journal.broker.server.security.passwords import Cost, hash_password
from oms_journal.broker.server.security.users import User, write
from tests.clients.suite import Run
from tests.support.servers.stomp_server import Serving

PORT = 61613  # suites have it in their code
USER, PASSWORD = "admin", "password"  # as suites have them in their code
_LONG_AGO = datetime(2020, 1, 2, tzinfo=UTC)


class Authority:
    """Who signs the certificates of the servers and of a client, and another one that signs nothing."""

    def __init__(self) -> None:
        self._authority = trustme.CA()

    def equip(self, folder: Path) -> None:
        """Put into the folder what clients need: those who sign, and a client's certificate."""
        folder.mkdir(exist_ok=True)
        client = self._authority.issue_cert("client")
        self._authority.cert_pem.write_to_path(folder / "broker.pem")
        self._authority.cert_pem.write_to_path(folder / "expiredbroker.pem")
        trustme.CA().cert_pem.write_to_path(folder / "broker2.pem")
        client.private_key_pem.write_to_path(folder / "client.key")
        client.cert_chain_pems[0].write_to_path(folder / "client.pem")

    def serve(self, folder: Path, run: Run) -> Serving:
        """Start a server for the run, with a store of its own."""
        folder.mkdir()
        chain = folder / "server.pem"
        chain.touch(0o600)
        made = self._authority.issue_cert(
            "localhost", "127.0.0.1", "::1", not_after=_LONG_AGO if run.is_expired else None
        )
        chain.write_bytes(made.private_key_and_cert_chain_pem.bytes())
        lines = [f"HOST={run.host}", f"TLS-CERTIFICATE={chain}", "STOMP-TLS-PORT=0"]
        if run.has_users:
            everything = {right: ("*",) for right in Right}
            user = User(USER, hash_password(PASSWORD, Cost(log_n=4)), everything)
            write(folder / "users", {user.name: user})
            lines.append(f"USERS-FILE={folder / 'users'}")
        attributes = folder / "attributes"
        attributes.write_text(BUILT_IN + "".join(f"  {line}\n" for line in lines))
        return Serving(folder / "spool", str(attributes), port=PORT)


def complaints(serving: Serving) -> list[str]:
    """Return the errors in the log of a server that has ended. No client makes a server complain of itself."""
    return [str(entry["text"]) for entry in serving.log if entry.get("level") not in ("info", "warning")]


def variables(serving: Serving, run: Run) -> dict[str, str]:
    """Return what tells the suites of a server, each in its own words."""
    tls_port = str(serving.ports["STOMP-TLS"])
    told = {"OMS_USER": USER, "OMS_PASSWORD": PASSWORD}
    for suite in (
        "STD",
        "IPV6",
        "RABBITMQ",
        "RABBITMQ_WS",
        "STOMPSERVER",
        "ARTEMIS",
    ):  # of stomp.py, for each server it knows
        told |= {f"{suite}_HOST": run.host, f"{suite}_PORT": str(PORT)}
        told |= {f"{suite}_USER": USER, f"{suite}_PASSWORD": PASSWORD}
    told |= {"STD_SSL_PORT": tls_port, "STD_SSL_EXPIRED_PORT": tls_port}
    return told | {"STOMP_HOST": "localhost", "STOMP_SSLPORT": tls_port}
