"""Services and topics that come to be because a pattern of the attributes fits a name: forgotten once nothing is left.

The first of them stay, as long as the broker runs, and so do those that the attributes name: their counters go on. Of
any other nothing is left once nobody serves it or subscribes to it and nothing of it waits or is under way; when it is
named again its counters begin anew. What they came to is added up, so that no sum over all of them ever falls.
"""

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # they import this
    from oms_journal.broker.block import ServiceName
    from oms_journal.broker.kernel.state.service import Service
    from oms_journal.broker.kernel.state.topics import Topic

NAMES_KEPT = 1000  # services, and topics, that stay though nothing of them is left; some 6 KB each


class UnusedNames:
    """What may have become unused with an input, and what was counted of that which is forgotten."""

    def __init__(self) -> None:
        self.services: list[Service] = []  # to be looked at
        self.topics: list[Topic] = []
        self.service_sums = {"accepted": 0, "given_back": 0, "processed": 0, "cancelled": 0, "timed_out": 0}
        self.topic_sums = {"published": 0, "ended": 0}

    def see(self, service: "Service") -> None:
        """Look at a service once the input is dealt with: it may be unused."""
        if not service.is_lasting:
            self.services.append(service)

    def see_topic(self, topic: "Topic") -> None:
        """Look at a topic likewise."""
        if not topic.is_lasting:
            self.topics.append(topic)

    def forget(self, services: "MutableMapping[ServiceName, Service]", topics: "MutableMapping[str, Topic]") -> None:
        """Forget which of them is unused."""
        for service in self.services:
            if service.is_unused and services.get(service.name) is service:
                del services[service.name]
                service.add_to(self.service_sums)
        self.services.clear()
        for topic in self.topics:
            if topic.is_unused and topics.get(topic.name) is topic:
                del topics[topic.name]
                topic.add_to(self.topic_sums)
        self.topics.clear()


def stays(known: int, *, is_defined: bool) -> bool:
    """Say whether a new name stays though nothing is left of it; so many of its kind are known."""
    return is_defined or known < NAMES_KEPT
