"""Why a server was not reached, in words for people."""

import errno

import pytest

from oms_journal.broker.reachability import reason_of


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        ConnectionError("Remote end closed connection without response"),
    ],
)
def test_a_server_that_ends_the_connection_without_an_answer_may_want_tls_however_it_ends_it(
    failure: ConnectionError,
) -> None:
    assert "https://" in reason_of(failure)


def test_a_server_that_refuses_is_told_as_the_system_says_it() -> None:
    assert reason_of(ConnectionRefusedError(errno.ECONNREFUSED, "")) == "Connection refused"
