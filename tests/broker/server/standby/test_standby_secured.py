"""Two brokers with users and TLS: they trust each other's certificate, and have the same users."""

import socket
from pathlib import Path

import pytest

from tests.support.servers.guarded_server import USERS, Files, set_users
from tests.support.servers.two_brokers import Pair, wait_for


@pytest.mark.whole
def test_brokers_with_tls_and_the_same_users_take_over_and_those_with_others_do_not(tmp_path: Path) -> None:
    files, others = Files(tmp_path), tmp_path / "others"
    set_users(others, USERS[:1])
    said = {"TLS_CERTIFICATE": str(files.chain), "TLS_CA": str(files.authority_file), "STOMP_TLS_PORT": "0"}
    with Pair(tmp_path, **said, USERS_FILE=str(files.users_file)) as pair:
        first = pair.start(0, "STANDARD")
        stranger = pair.start(1, "STANDBY", USERS_FILE=str(others))
        assert stranger.child.wait(20) == 4
        wait_for(stranger, "its security settings are not the standby's")

        with socket.create_server(("127.0.0.1", 0)) as held:
            port = str(held.getsockname()[1])
            with pytest.raises(AssertionError, match=f"cannot listen for STOMP-TLS on 127.0.0.1:{port}"):
                pair.start(1, "STANDBY", STOMP_TLS_PORT=port)
        second = pair.start(1, "STANDBY")
        wait_for(second, "handshake with", "done")
        wait_for(second, "STOMP-TLS 127.0.0.1:", "held, and connections are refused")
        with pair.without_data(first, second):
            wait_for(second, "takeover attempt 1 failed")
        assert second.hear_ports(), "an attempt that failed leaves nothing behind that the next one would stumble over"
        wait_for(second, "RUN-MODE is STANDARD now")
