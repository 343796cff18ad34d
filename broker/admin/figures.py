"""What monitoring asks for again and again: figures of services and topics, a bounded number of them by name.

Those that were used first keep their names, so that what is counted of the others together never falls.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from oms_journal.broker.admin.questions import Page, PageSteps, Row
from oms_journal.broker.admin.services import Bound, service_row
from oms_journal.broker.admin.topics import topic_row
from oms_journal.broker.kernel.state.world import World

NAMED_MAX = 200  # services, and topics, that are told by name
STEP_COUNT = 50  # that are looked at between two pauses

_SERVICE_SUMS = (
    *("servers", "conversations", "waiting", "sending", "delivering"),
    *("accepted", "processed", "cancelled", "timed_out", "given_back"),
)
_TOPIC_SUMS = ("publications", "subscribers", "published", "ended")


@dataclass(slots=True)
class Figures:
    """Rows by name, and what all others add up to; `others` are empty where there are no others."""

    services: list[Row] = field(default_factory=list)
    other_services: dict[str, int] = field(default_factory=dict)
    topics: list[Row] = field(default_factory=list)
    other_topics: dict[str, int] = field(default_factory=dict)
    oldest_age: float = 0.0  # seconds; of all services
    largest_lag: int = 0  # of all topics

    def read(self, world: World) -> PageSteps:
        """Read the figures."""
        bound = Bound(world)
        for at, service in enumerate(list(world.services.values())):
            row = service_row(world, service, bound)
            self.oldest_age = max(self.oldest_age, row["oldest_age"] or 0.0)
            if at < NAMED_MAX:
                self.services.append(row)
            else:
                _add(self.other_services, _SERVICE_SUMS, row)
            if not at % STEP_COUNT:
                yield
        _add_sums(self.other_services, world.unused.service_sums)
        for at, topic in enumerate(list(world.topics.topics.values())):
            found = topic_row(world, topic)
            self.largest_lag = max(self.largest_lag, found["largest_lag"])
            if at < NAMED_MAX:
                self.topics.append(found)
            else:
                _add(self.other_topics, _TOPIC_SUMS, found)
            if not at % STEP_COUNT:
                yield
        _add_sums(self.other_topics, world.unused.topic_sums)
        return Page(rows=[])


def _add_sums(sums: dict[str, int], forgotten: Mapping[str, int]) -> None:
    """Add what was counted of those that are forgotten; they were none of those that are told by name."""
    if any(forgotten.values()):
        for name, count in forgotten.items():
            sums[name] = sums.get(name, 0) + count


def _add(sums: dict[str, int], names: Iterable[str], row: Row) -> None:
    for name in names:
        sums[name] = sums.get(name, 0) + row[name]
