"""What a report asks of a broker's journal, table by table: until the end of the period, of what had not ended before.

The records of one unit of work tell one story, so it is not cut: what had ended before the period is
left out, and what had not is told from its beginning.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis import questions
from oms_journal.analysis.broker.records import holds_broker, of_broker
from oms_journal.analysis.questions.times import moment
from oms_journal.analysis.report.asking import Asked
from oms_journal.analysis.report.journals import Journals, Request
from oms_journal.analysis.spark.complaints import in_one_line
from oms_journal.broker.queues import TopicQueue, parse_queue


@contextmanager
def broker_asked(journals: Journals, request: Request) -> Iterator[list[Asked]]:
    """Yield the questions in the order in which they are asked; none where the journals are no broker's.

    What they begin with is kept until the end of the block: on disk where memory does not suffice. SparkCouldNot.
    """
    with in_one_line("cannot read the keys"):
        is_broker = holds_broker(journals.keys)
    if not is_broker:
        yield []
        return
    keyed = of_broker(journals.keyed).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        period = Period(request)
        yield [*_of_units(keyed, journals, period), *_of_topics(keyed, journals, period), *_of_store(keyed, period)]
    finally:
        keyed.unpersist()


class Period:
    """What is asked for, as conditions."""

    def __init__(self, request: Request) -> None:
        self.now = request.as_of
        self._since = request.since
        self._queues = request.queues

    def lasting(self, found: DataFrame, end: str) -> DataFrame:
        """Return what had not ended before the period; `end` is null for what goes on."""
        if self._since is None:
            return found
        return found.where(F.col(end).isNull() | (F.col(end) >= moment(self._since)))

    def of_queues(self, found: DataFrame) -> DataFrame:
        """Return what is of the queues that were asked for."""
        return found.where(F.col("queue").isin(*self._queues)) if self._queues else found

    def of_topics(self, found: DataFrame) -> DataFrame:
        """Return what is of topics whose queues were asked for."""
        if not self._queues:
            return found
        parsed = map(parse_queue, self._queues)
        return found.where(self._is_among([queue.topic for queue in parsed if isinstance(queue, TopicQueue)]))

    def _is_among(self, topics: list[str]) -> Column:
        return F.col("topic").isin(*topics) if topics else F.lit(False)


def _of_units(keyed: DataFrame, journals: Journals, period: Period) -> list[Asked]:
    def units() -> DataFrame:
        return period.lasting(period.of_queues(questions.units_of_work(keyed, journals.removals)), "ended")

    def stays() -> DataFrame:
        return period.lasting(period.of_queues(questions.uow_stays(keyed)), "until")

    return [
        Asked("units_of_work", "what became of each unit of work", lambda _: units()),
        Asked(
            "uow_services",
            "what became of the units of work of each service, and how long they waited",
            lambda written: questions.uow_services(written("units_of_work"), now=period.now),
        ),
        Asked(
            "uow_statuses",
            "in which status the units of work of each service are, and how long they stayed in each",
            lambda written: questions.uow_statuses(written("units_of_work"), stays()),
        ),
        Asked(
            "uow_attempts",
            "how often the delivery of units of work was attempted in vain",
            lambda written: questions.uow_attempts(written("units_of_work")),
        ),
        Asked(
            "uow_failures",
            "units of work that ended and were not processed",
            lambda written: questions.uow_failures(written("units_of_work")),
        ),
        Asked(
            "conversations",
            "who talks with which service, and what waits",
            lambda written: questions.conversations(written("units_of_work")),
        ),
        Asked(
            "conversation_services",
            "how many conversations each service has, and how long they take",
            lambda written: questions.conversation_services(written("conversations"), now=period.now),
        ),
    ]


def _of_topics(keyed: DataFrame, journals: Journals, period: Period) -> list[Asked]:
    def published() -> DataFrame:
        return period.lasting(period.of_topics(questions.publications(keyed, journals.removals)), "ended")

    def subscribed(published: DataFrame) -> DataFrame:
        found = questions.subscribers(keyed, published, now=period.now)
        return period.lasting(period.of_topics(found), "ended")

    return [
        Asked("publications", "what became of each publication", lambda _: published()),
        Asked(
            "subscribers",
            "how far each durable subscriber is behind",
            lambda written: subscribed(written("publications")),
        ),
        Asked(
            "topics",
            "what became of what was published to each topic",
            lambda written: questions.topics(written("publications"), written("subscribers"), now=period.now),
        ),
    ]


def _of_store(keyed: DataFrame, period: Period) -> list[Asked]:
    return [
        Asked(
            "broker_starts",
            "when the broker was started, and when it ended",
            lambda _: period.lasting(questions.broker_starts(keyed), "time"),
        ),
        Asked(
            "broker_records",
            "how many records of which kind the broker keeps",
            lambda _: questions.broker_records(keyed),
        ),
    ]
