"""The names of the queues that a broker's messages lie in, made and parsed. Imports nothing of the broker.

docs/reference/broker-records.md says which queue holds what.
"""

from typing import NamedTuple


class ServiceQueue(NamedTuple):
    """The queue of a service, or that of its answers to clients; `str` is its name in the journal."""

    server_class: str
    server_name: str
    service: str
    is_reply: bool = False

    def __str__(self) -> str:
        return "/".join([*map(_escaped, self[:3]), *(["reply"] if self.is_reply else [])])


class TopicQueue(NamedTuple):
    """The queue of a topic; `str` is its name in the journal."""

    topic: str

    def __str__(self) -> str:
        return f"topic/{_escaped(self.topic)}"


def parse_queue(name: str) -> ServiceQueue | TopicQueue | None:
    """Return whose queue it is, None when it is not the broker's."""
    match [part.replace("~1", "/").replace("~0", "~") for part in name.split("/")]:
        case ["topic", topic]:
            return TopicQueue(topic)
        case [server_class, server_name, service]:
            return ServiceQueue(server_class, server_name, service)
        case [server_class, server_name, service, "reply"]:
            return ServiceQueue(server_class, server_name, service, is_reply=True)
        case _:
            return None


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
