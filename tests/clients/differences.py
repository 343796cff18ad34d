"""What foreign suites want otherwise than this broker does it, test by test, on purpose: stomp-clients.md."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Why a test fails, in each run that has it; an unsteady one fails at times, as threads happen to run."""

    why: str
    is_unsteady: bool = False


_WEBSOCKET = Difference("It opens a WebSocket, whatever transport is configured. oms speaks STOMP over TCP only.")
_WILDCARD = Difference("It subscribes to a wildcard. oms has none, and answers with an ERROR that says so.")
_LONG_NAME = Difference(
    "The name of its queue is too long: oms takes at most 64 bytes. The test waits for what the gem itself raises. "
    "The ERROR comes before that or after it.",
    is_unsteady=True,
)
_HANGS_UP = Difference(
    "Its threads still read from the socket when the test hangs up. Ruby raises IOError then, but not each time.",
    is_unsteady=True,
)

# By suite, then by test.
DIFFERENCES: Mapping[str, Mapping[str, Difference]] = {
    "stomp.py": {
        "test_rabbitmq_ws.TestRabbitMQSend.test_send": _WEBSOCKET,
        "test_ssl_sni.TestSNIMQSend.testconnect": Difference(
            "It asks a proxy (HAProxy at a fixed address) which of several servers it forwards to."
        ),
        "test_s12.Test12Connect.test_should_send_extra_header_clientnack": Difference(
            "It sends NACK with requeue:false. oms does not carry that out, and answers with an ERROR, which ends the "
            "connection. The test fails where that comes before it hangs up itself.",
            is_unsteady=True,
        ),
    },
    "stomp": {
        "TestClient#test_asterisk_wildcard_subscribe": _WILDCARD,
        "TestClient#test_greater_than_wildcard_subscribe": _WILDCARD,
        "TestConnection1P#test_conn_1p_0124": Difference(
            "It sends a header three times and wants all three values back. STOMP says that the first one counts, and "
            "oms keeps that one. RabbitMQ, ActiveMQ and Artemis do the same; the suite makes exceptions for them."
        ),
        "TestClient#test_raise_on_multiple_subscriptions_to_same_make_destination": _LONG_NAME,
        "TestClient#test_raise_on_multiple_subscriptions_to_same_id_mixed": _LONG_NAME,
        "TestAnonymous#test_multi_thread_poll": _HANGS_UP,
        "TestAnonymous#test_multi_thread_receive": _HANGS_UP,
        "TestConnection#test_multi_thread_poll": _HANGS_UP,
        "TestConnection#test_multi_thread_receive": _HANGS_UP,
    },
    "stompjs": {
        f"Compat Stomp {name}": _WEBSOCKET
        for name in (
            "Connection Connect to a valid Stomp server using URL",
            "Connection Connect to a valid Stomp server using Stomp.over (plain socket)",
            "Connection Connect to a valid Stomp server using Stomp.over (socket factory)",
            "Message Send and receive a message",
            "Message Send and receive a message with a JSON body",
            "Message Should allow skipping content length header",
        )
    },
    "pecl-tools-stomp": {},
}
