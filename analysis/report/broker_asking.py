"""What a report asks of a broker's journal, table by table: until the end of the period, of what had not ended before.

The records of one unit of work tell one story, so it is not cut: what had ended before the period is
left out, and what had not is told from its beginning.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from oms_journal.analysis.broker import conversations, services, stays, store, topics, units
from oms_journal.analysis.broker.scan import Store
from oms_journal.analysis.fold.arrays import is_any, numbers, there
from oms_journal.analysis.fold.asked import micros
from oms_journal.analysis.report.asking import Asked
from oms_journal.analysis.report.journals import Journals, Request
from oms_journal.broker.queues import TopicQueue, parse_queue


def broker_asked(journals: Journals, request: Request) -> list[Asked]:
    """Return the questions in the order in which they are asked; none where the journals are no broker's.

    The first ones keep their answers for those that follow from them.
    """
    found = journals.store()
    if not found.is_a_brokers:
        return []
    period = Period(request)
    return [*_of_units(found, period), *_of_topics(found, period), *_of_store(found, period)]


class Period:
    """What is asked for, as choices of rows."""

    def __init__(self, request: Request) -> None:
        self.now = micros(request.as_of)
        self._since = None if request.since is None else micros(request.since)
        self._queues = request.queues

    def lasting(self, found: pa.Table, end: str) -> pa.Table:
        """Return what had not ended before the period; `end` is null for what goes on."""
        if self._since is None:
            return found
        return found.filter(pa.array(~there(found[end]) | (numbers(found[end]) >= self._since)))

    def of_queues(self, found: pa.Table) -> pa.Table:
        """Return what is of the queues that were asked for."""
        return _among(found, "queue", self._queues) if self._queues else found

    def of_topics(self, found: pa.Table) -> pa.Table:
        """Return what is of topics whose queues were asked for."""
        if not self._queues:
            return found
        parsed = map(parse_queue, self._queues)
        return _among(found, "topic", [queue.topic for queue in parsed if isinstance(queue, TopicQueue)])


def _among(found: pa.Table, name: str, wanted: Sequence[str]) -> pa.Table:
    return found.filter(pa.array(is_any(found[name], wanted) if len(wanted) else np.zeros(len(found), np.bool_)))


def _kept(make: Callable[[], pa.Table]) -> Callable[[], pa.Table]:
    """Return what makes a table once, and has it from then on."""
    made: list[pa.Table] = []

    def answer() -> pa.Table:
        if not made:
            made.append(make())
        return made[0]

    return answer


def _of_units(found: Store, period: Period) -> list[Asked]:
    of_units = _kept(lambda: period.lasting(period.of_queues(units.units_of_work(found)), "ended"))
    talks = _kept(lambda: conversations.conversations(of_units()))

    def stayed() -> pa.Table:
        return period.lasting(period.of_queues(stays.uow_stays(found)), "until")

    return [
        Asked("units_of_work", "what became of each unit of work", of_units),
        Asked(
            "uow_services",
            "what became of the units of work of each service, and how long they waited",
            lambda: services.uow_services(of_units(), now=period.now),
        ),
        Asked(
            "uow_statuses",
            "in which status the units of work of each service are, and how long they stayed in each",
            lambda: services.uow_statuses(of_units(), stayed()),
        ),
        Asked(
            "uow_attempts",
            "how often the delivery of units of work was attempted in vain",
            lambda: services.uow_attempts(of_units()),
        ),
        Asked(
            "uow_failures",
            "units of work that ended and were not processed",
            lambda: services.uow_failures(of_units()),
        ),
        Asked("conversations", "who talks with which service, and what waits", talks),
        Asked(
            "conversation_services",
            "how many conversations each service has, and how long they take",
            lambda: conversations.conversation_services(talks(), now=period.now),
        ),
    ]


def _of_topics(found: Store, period: Period) -> list[Asked]:
    published = _kept(lambda: period.lasting(period.of_topics(topics.publications(found)), "ended"))
    subscribed = _kept(
        lambda: period.lasting(period.of_topics(topics.subscribers(found, published(), now=period.now)), "ended")
    )
    return [
        Asked("publications", "what became of each publication", published),
        Asked("subscribers", "how far each durable subscriber is behind", subscribed),
        Asked(
            "topics",
            "what became of what was published to each topic",
            lambda: topics.topics(published(), subscribed(), now=period.now),
        ),
    ]


def _of_store(found: Store, period: Period) -> list[Asked]:
    return [
        Asked(
            "broker_starts",
            "when the broker was started, and when it ended",
            lambda: period.lasting(store.broker_starts(found), "time"),
        ),
        Asked(
            "broker_records",
            "how many records of which kind the broker keeps",
            lambda: store.broker_records(found),
        ),
    ]
