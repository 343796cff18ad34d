"""STOMP and HTTP over TLS, with certificates made on the spot, and where a server may listen without."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import stomp

from oms_journal.broker.attributes.attributes import built_in
from oms_journal.broker.server.runtime.tls import HANDSHAKES_MAX, Certificate, CertificateInvalid
from oms_journal.broker.server.security.access import Access, AccessRefused, is_loopback
from tests.support.cli_runner import oms
from tests.support.servers.guarded_server import PASSWORDS, Files
from tests.support.servers.stomp_server import Heard, Serving, eventually
from tests.support.sweeps import a_sample


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def server(files: Files) -> Iterator[Serving]:
    with files.serve() as serving:
        yield serving


def encrypted(server: Serving, files: Files, kind: Any = stomp.Connection12) -> tuple[Any, Heard]:
    """Return a connection of stomp.py over TLS that trusts the authority of the files, and its listener."""
    where = ("localhost", server.ports["STOMP-TLS"])
    connection = kind([where])
    connection.set_ssl([where], ca_certs=str(files.authority_file))
    heard = Heard()
    connection.set_listener("heard", heard)
    connection.connect("ALICE", PASSWORDS["ALICE"], wait=True)
    return connection, heard


@pytest.mark.parametrize("kind", [stomp.Connection10, stomp.Connection11, stomp.Connection12])
def test_stomp_py_sends_and_receives_over_tls(server: Serving, files: Files, kind: Any) -> None:
    connection, heard = encrypted(server, files, kind)
    queue = f"/queue/ALICE-{kind.__name__}"
    connection.subscribe(queue, id="1", ack="client-individual")
    for number in range(20):
        connection.send(queue, "x" * 5000 + str(number), receipt=str(number))
    heard.wait(lambda: len(heard.receipts) == 20)

    assert [body[5000:] for body in heard.bodies(20)] == [str(number) for number in range(20)]
    connection.disconnect()
    heard.wait(lambda: heard.is_disconnected)


def test_a_client_that_trusts_somebody_else_does_not_connect(server: Serving, files: Files, tmp_path: Path) -> None:
    strangers = Files(tmp_path)
    for port in ("STOMP-TLS", "HTTPS"):
        with (
            socket.create_connection(("127.0.0.1", server.ports[port]), 10) as plain,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            strangers.context().wrap_socket(plain, server_hostname="localhost")


@pytest.mark.parametrize("port", ["STOMP-TLS", "HTTPS"])
def test_what_is_no_tls_or_an_old_one_gets_nothing(server: Serving, files: Files, port: str) -> None:
    for said in (b"CONNECT\nlogin:ALICE\n\n\0", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00" + b"x" * 600, b"\0"):
        with socket.create_connection(("127.0.0.1", server.ports[port]), 10) as plain:
            plain.sendall(said)
            plain.shutdown(socket.SHUT_WR)
            answer = plain.recv(4096)
            assert answer == b"" or answer[0] == 21, "nothing, or an alert of TLS"
    old = files.context()
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", server.ports[port]), 10) as plain, pytest.raises(ssl.SSLError):
        old.wrap_socket(plain, server_hostname="localhost")


@pytest.mark.parametrize("port", ["STOMP-TLS", "HTTPS"])
def test_very_many_who_begin_a_handshake_and_say_nothing_more_keep_nobody_out(
    server: Serving, files: Files, port: str
) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.ports[port]), 10) for _ in range(HANDSHAKES_MAX + 50)]
    try:
        if port == "HTTPS":
            assert whoami(server, files) == "ALICE"
        else:
            connection, _ = encrypted(server, files)
            connection.disconnect()
        ended = 0
        for each in silent[:50]:
            each.settimeout(10)
            try:
                ended += each.recv(1) == b""
            except ConnectionResetError:
                ended += 1
        assert ended == 50  # the oldest have made room
    finally:
        for each in silent:
            each.close()


def whoami(server: Serving, files: Files) -> str:
    found = httpx.get(
        f"https://localhost:{server.ports['HTTPS']}/whoami",
        auth=("ALICE", PASSWORDS["ALICE"]),
        verify=files.context(),
        timeout=20,
    )
    return str(found.raise_for_status().json()["user"])


def test_http_is_encrypted_and_its_cookie_is_for_tls_and_this_host_alone(server: Serving, files: Files) -> None:
    assert whoami(server, files) == "ALICE"
    with httpx.Client(base_url=f"https://localhost:{server.ports['HTTPS']}", verify=files.context()) as client:
        answer = client.post("/login", json={"user": "ALICE", "password": PASSWORDS["ALICE"]})
        said = answer.headers["set-cookie"]
        assert said.startswith("__Host-oms-session=")
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= set(said.split("; ")) and "Domain" not in said
        assert client.get("/whoami").json()["user"] == "ALICE"


@pytest.mark.whole
def test_a_certificate_that_is_renewed_is_used_without_a_restart(tmp_path: Path) -> None:
    files = Files(tmp_path)
    with files.serve() as server:
        before = shown(server, files)
        files.renew()
        eventually(lambda: shown(server, files) != before)
        files.chain.write_text("garbage")
        eventually(lambda: any("goes on to count" in text for text in server.texts()))
        assert shown(server, files) != before
    assert not any("PRIVATE" in text for text in server.texts())


def shown(server: Serving, files: Files) -> bytes | None:
    with (
        socket.create_connection(("127.0.0.1", server.ports["STOMP-TLS"]), 10) as plain,
        files.context().wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        return encrypted.getpeercert(binary_form=True)


@pytest.mark.parametrize("spoil", ["missing", "garbage", "no key", "another key", "everybody", "password"])
def test_a_certificate_that_cannot_be_used_is_refused_with_the_reason(tmp_path: Path, spoil: str) -> None:
    (tmp_path / "others").mkdir()
    files, others = Files(tmp_path), Files(tmp_path / "others")
    chain, key = files.chain, None
    text = chain.read_text()
    if spoil == "missing":
        chain.unlink()
    elif spoil == "garbage":
        chain.write_text("garbage")
    elif spoil == "no key":
        chain.write_text(text[text.index("-----BEGIN CERTIFICATE") :])
    elif spoil == "another key":
        key = others.chain
    elif spoil == "everybody":
        chain.chmod(0o604)
    else:
        chain.write_text(text.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"))

    with pytest.raises(CertificateInvalid) as refused:
        Certificate.open(chain, key)

    assert str(chain) in str(refused.value) or "password" in str(refused.value)
    assert "BEGIN" not in str(refused.value)


# Where a server listens.


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("192.0.2.1", False),
        ("no-such-host.invalid", False),
    ],
)
def test_only_loopback_is_taken_for_loopback(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("has_users", [False, True])
@pytest.mark.parametrize("has_tls", [False, True])
@pytest.mark.parametrize("is_insecure", [False, True])
def test_beyond_loopback_nothing_listens_unguarded_or_unencrypted_unless_that_is_asked_for(
    tmp_path: Path, host: str, has_users: bool, has_tls: bool, is_insecure: bool
) -> None:
    files = Files(tmp_path)
    given = {"host": host, "insecure_network": "YES" if is_insecure else "NO"}
    given |= {"users_file": str(files.users_file)} if has_users else {}
    given |= {"tls_certificate": str(files.chain)} if has_tls else {}

    async def access() -> Access:
        return Access.open(built_in(**given).broker)

    if host == "0.0.0.0" and not is_insecure and not (has_users and has_tls):
        with pytest.raises(AccessRefused, match="INSECURE-NETWORK=YES"):
            asyncio.run(access())
        return
    found = asyncio.run(access())
    assert (found.guard.is_open, found.certificate is None) == (not has_users, not has_tls)
    assert found.plain_host == ("127.0.0.1" if host == "0.0.0.0" and not is_insecure else host)
    assert found.web_host == (host if has_tls or is_insecure else found.plain_host)


def test_oms_serve_says_what_it_would_need_to_listen_beyond_loopback(tmp_path: Path) -> None:
    done = oms("serve", "--spool", str(tmp_path / "spool"), "--host", "0.0.0.0", code=4)

    assert "USERS-FILE and TLS-CERTIFICATE, or INSECURE-NETWORK=YES" in done.stderr
    assert not (tmp_path / "spool").exists()


@pytest.mark.whole
def test_an_insecure_network_is_told_with_every_start(tmp_path: Path) -> None:
    files = Files(tmp_path, users=[], has_tls=False, more="INSECURE-NETWORK=YES")
    with files.serve("--host", "0.0.0.0") as server:
        eventually(lambda: any("INSECURE-NETWORK=YES: 0.0.0.0 is reached" in text for text in server.texts()))


@pytest.mark.parametrize("text", [None, "", "garbage"])
def test_an_authority_that_is_none_is_refused_before_anything_begins(tmp_path: Path, text: str | None) -> None:
    authority = tmp_path / "authority.pem"
    if text is not None:
        authority.write_text(text)

    with pytest.raises(AccessRefused, match="holds no certificate"):
        Access.open(built_in(tls_ca=str(authority)).broker)


@a_sample(1)
@pytest.mark.parametrize("spoil", ["mode", "missing", "garbage"])
def test_a_server_does_not_start_without_the_users_that_it_was_told_of(tmp_path: Path, spoil: str) -> None:
    files = Files(tmp_path, has_tls=False)
    if spoil == "mode":
        files.users_file.chmod(0o644)
    elif spoil == "missing":
        files.users_file.unlink()
    else:
        files.users_file.write_text("{}")

    done = oms("serve", str(files.attributes), "--spool", str(tmp_path / "spool"), code=4)

    assert f"the users file {files.users_file}" in done.stderr and not (tmp_path / "spool").exists()
