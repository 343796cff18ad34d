"""Where STOMP frames go and come from: destinations as text, and what of the broker they name.

destination                    names
/queue/NAME                    the service of CLASS QUEUE with NAME over SERVER and SERVICE: at most 64 bytes, case kept
/service/CLASS/SERVER/SERVICE  the service
/topic/NAME                    the topic
/conversation/ID               the conversation
/temp/LABEL                    the answers to what this connection has sent with `reply-to:/temp/LABEL`
/aci                           the broker itself: SEND takes a control block there (`stomp/block_calls.py`)
"""

from functools import lru_cache
from typing import NamedTuple

from oms_journal.broker.block import ServiceName
from oms_journal.broker.codes import Code, refuse
from oms_journal.broker.service_text import destination_of, service_of_queue


class ToService(NamedTuple):
    """A service."""

    names: ServiceName

    def __str__(self) -> str:
        return destination_of(self.names)


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


def parse_destination(text: str) -> Destination:
    """Return what the destination names; 00200183 for one that names nothing."""
    return _known(text) if len(text) <= _KNOWN_CHARACTERS_MAX else _parse(text)


def _parse(text: str) -> Destination:
    _, kind, name = (*text.split("/", 2), "", "")[:3] if text.startswith("/") else ("", "", "")
    if name:
        match kind:
            case "queue":
                return ToService(service_of_queue(name))
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
    raise refuse(Code.INVALID_SERVICE_NAME, f"destination {text[:80]!r} is none of {known}")


_known = lru_cache(16384)(_parse)
