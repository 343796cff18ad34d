"""Where STOMP frames go and come from: destinations as text, and what of the broker they name.

destination                    names
/queue/NAME                    the service of CLASS QUEUE with NAME over SERVER and SERVICE: at most 64 bytes, case kept
/service/CLASS/SERVER/SERVICE  the service
/topic/NAME                    the topic
/conversation/ID               the conversation
/temp/LABEL                    the answers to what this connection has sent with `reply-to:/temp/LABEL`
/aci                           the broker itself: SEND takes a control block there (`stomp_aci.py`)

A queue's NAME of at most 32 bytes is the SERVER, and the SERVICE is `-`. A longer one is cut behind its 32nd byte at
the latest, never within a character, and never so that `-` would be left: two names never are one service.
"""

from functools import lru_cache
from typing import NamedTuple

from broker.block import FIELDS
from broker.codes import BrokerError, Code, detailed
from broker.words import ServiceName

QUEUE_CLASS = "QUEUE"
NO_SERVICE = "-"
PART_BYTES = FIELDS["SERVER-NAME"].width
NAME_BYTES_MAX = 2 * PART_BYTES


class ToService(NamedTuple):
    """A service."""

    names: ServiceName

    def __str__(self) -> str:
        server_class, server, service = self.names
        if server_class == QUEUE_CLASS and queue_service(text := _queue_name(server, service)) == self.names:
            return f"/queue/{text}"
        return f"/service/{server_class}/{server}/{service}"


class ToTopic(NamedTuple):
    """A topic."""

    topic: str

    def __str__(self) -> str:
        return f"/topic/{self.topic}"


class InConversation(NamedTuple):
    """A conversation."""

    conv_id: str

    def __str__(self) -> str:
        return f"/conversation/{self.conv_id}"


class Temporary(NamedTuple):
    """Answers to this connection."""

    label: str

    def __str__(self) -> str:
        return f"/temp/{self.label}"


Destination = ToService | ToTopic | InConversation | Temporary


_KNOWN_CHARACTERS_MAX = 200  # of a destination that is remembered: a header can be much longer


def parse(text: str) -> Destination:
    """Return what the destination names; 00200183 for one that names nothing."""
    return _known(text) if len(text) <= _KNOWN_CHARACTERS_MAX else _parse(text)


def _parse(text: str) -> Destination:
    _, kind, name = (*text.split("/", 2), "", "")[:3] if text.startswith("/") else ("", "", "")
    if name:
        match kind:
            case "queue":
                return ToService(queue_service(name))
            case "service":
                parts = name.split("/")
                if len(parts) == 3 and all(parts):
                    return ToService((parts[0], parts[1], parts[2]))
            case "topic":
                return ToTopic(name)
            case "conversation":
                return InConversation(name)
            case "temp":
                return Temporary(name)
            case _:
                pass
    known = "/queue/NAME, /service/CLASS/SERVER/SERVICE, /topic/NAME, /conversation/ID, /temp/LABEL or /aci"
    raise BrokerError(
        Code.INVALID_SERVICE_NAME, detailed(Code.INVALID_SERVICE_NAME, f"destination {text[:80]!r} is none of {known}")
    )


_known = lru_cache(16384)(_parse)


@lru_cache(16384)
def destination_of(names: ServiceName) -> str:
    """Return the destination that names the service, as a MESSAGE says it."""
    return str(ToService(names))


def queue_service(name: str) -> ServiceName:
    """Return the service of a queue; 00200183 for a name of more than 64 bytes."""
    data = name.encode()
    if len(data) <= PART_BYTES:
        return (QUEUE_CLASS, name, NO_SERVICE)
    cut = _cut(data, PART_BYTES)
    if data[cut:] == NO_SERVICE.encode():
        cut = _cut(data, cut - 1)
    if len(data) - cut > PART_BYTES:
        text = f"the name of a queue has at most {NAME_BYTES_MAX} bytes, this one has {len(data)}"
        if len(data) <= NAME_BYTES_MAX:
            text += f" and no character ends at byte {PART_BYTES}: make it a little shorter"
        raise BrokerError(Code.INVALID_SERVICE_NAME, detailed(Code.INVALID_SERVICE_NAME, text))
    return (QUEUE_CLASS, data[:cut].decode(), data[cut:].decode())


def _cut(data: bytes, at: int) -> int:
    """Return where the text can be cut: there, or before the character that lies across."""
    while data[at] & 0xC0 == 0x80:
        at -= 1
    return at


def _queue_name(server: str, service: str) -> str:
    return server if service == NO_SERVICE else server + service
