"""What is asked of a broker's journal: as the fold tells it of files, for operations that are there as DataFrames.

See `analysis/broker`. Where a question begins with the operations on keys, Spark's workers fold them, and their
partials come to the driver. Where it begins with another's answer, that comes to the driver. So Spark runs when a
question is called, not when its answer is used.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oms_journal.analysis.broker import conversations as of_conversations
from oms_journal.analysis.broker import services as of_services
from oms_journal.analysis.broker import stays as of_stays
from oms_journal.analysis.broker import store as of_store
from oms_journal.analysis.broker import topics as of_topics
from oms_journal.analysis.broker import units as of_units
from oms_journal.analysis.broker.answers import (
    BROKER_RECORDS,
    BROKER_STARTS,
    CONVERSATION_SERVICES,
    CONVERSATIONS,
    PUBLICATIONS,
    SUBSCRIBERS,
    TOPICS,
    UNITS_OF_WORK,
    UOW_ATTEMPTS,
    UOW_FAILURES,
    UOW_SERVICES,
    UOW_STATUSES,
    UOW_STAYS,
)
from oms_journal.analysis.broker.columns import VALUE
from oms_journal.analysis.broker.records import KEPT, Records
from oms_journal.analysis.broker.scan import ENDING, ON_ENDS, Doubtful, Ends, Store, doubtful_in
from oms_journal.analysis.fold.answers import meanings_of
from oms_journal.analysis.fold.asked import micros
from oms_journal.analysis.fold.engine import decoded, encoded
from oms_journal.analysis.questions.described import answers
from oms_journal.analysis.reading.schema import Micros
from oms_journal.analysis.spark.frames import as_frame, as_table
from oms_journal.broker.records import PREFIX

_TOLD = "told binary"
_Batches = Iterator[pa.RecordBatch]


@answers(meanings_of(UNITS_OF_WORK))
def units_of_work(keyed: DataFrame, operations: DataFrame) -> DataFrame:
    """Return one row a unit of work: what is known of it.

    `keyed` are the operations on keys with their values (column `payload`). `operations` are those on messages. If
    clean-up has let go of all of a unit of work but its end, the answer leaves it out.
    """
    return as_frame(keyed.sparkSession, of_units.units_of_work(_store(keyed, operations)))


@answers(meanings_of(UOW_SERVICES))
def uow_services(units: DataFrame, *, now: datetime | None = None, exact: bool = False) -> DataFrame:
    """Return one row a queue of a service, from the answer of `units_of_work`.

    A percentile is a time that occurred. With `exact` it lies between two where its rank does. Ages are reckoned up to
    `now`. By default that is the time at which the question is called.
    """
    found = of_services.uow_services(as_table(units, UNITS_OF_WORK), now=_moment(now), exact=exact)
    return as_frame(units.sparkSession, found)


@answers(meanings_of(UOW_STATUSES))
def uow_statuses(units: DataFrame, stays: DataFrame, *, exact: bool = False) -> DataFrame:
    """Return one row a queue and status, from the answers of `units_of_work` and `uow_stays`.

    Only with a persistent status you know how long units of work stay in it. Without one, a unit that waits and a unit
    that a receiver has are both ACCEPTED.
    """
    tables = as_table(units, UNITS_OF_WORK), as_table(stays, UOW_STAYS)
    return as_frame(units.sparkSession, of_services.uow_statuses(*tables, exact=exact))


@answers(meanings_of(UOW_STAYS))
def uow_stays(keyed: DataFrame) -> DataFrame:
    """Return one row for each time that a unit of work with persistent status came into a status.

    If clean-up has removed the first records of a unit of work, the answer begins with its oldest record. It takes the
    first stay to begin with the last change that this record tells of. A restart writes no record of a unit of work.
    The answer takes it to end a stay in DELIVERED, and to begin one in ACCEPTED.
    """
    return as_frame(keyed.sparkSession, of_stays.uow_stays(_store(keyed)))


@answers(meanings_of(UOW_ATTEMPTS))
def uow_attempts(units: DataFrame) -> DataFrame:
    """Return how many units of work of each queue had how many deliveries in vain, from the answer of `units_of_work`.

    A receiver's backout counts as one. So does the end of a lifetime.
    """
    return as_frame(units.sparkSession, of_services.uow_attempts(as_table(units, UNITS_OF_WORK)))


@answers(meanings_of(UOW_FAILURES))
def uow_failures(units: DataFrame) -> DataFrame:
    """Return the units of work that ended and were not processed, from the answer of `units_of_work`."""
    return as_frame(units.sparkSession, of_services.uow_failures(as_table(units, UNITS_OF_WORK)))


@answers(meanings_of(CONVERSATIONS))
def conversations(units: DataFrame) -> DataFrame:
    """Return one row a conversation, from the answer of `units_of_work`.

    The answer tells the end of a conversation if a unit of work of it was still to come when it ended.
    """
    return as_frame(units.sparkSession, of_conversations.conversations(as_table(units, UNITS_OF_WORK)))


@answers(meanings_of(CONVERSATION_SERVICES))
def conversation_services(talks: DataFrame, *, now: datetime | None = None, exact: bool = False) -> DataFrame:
    """Return one row a service, from the answer of `conversations`."""
    table = as_table(talks, CONVERSATIONS)
    return as_frame(talks.sparkSession, of_conversations.conversation_services(table, now=_moment(now), exact=exact))


@answers(meanings_of(PUBLICATIONS))
def publications(keyed: DataFrame, operations: DataFrame) -> DataFrame:
    """Return one row a publication that the store had.

    The store has a publication if it had a subscriber at its commit. `keyed` are the operations on keys with their
    values (column `payload`). `operations` are those on messages.
    """
    return as_frame(keyed.sparkSession, of_topics.publications(_store(keyed, operations)))


@answers(meanings_of(SUBSCRIBERS))
def subscribers(keyed: DataFrame, published: DataFrame, *, now: datetime | None = None) -> DataFrame:
    """Return one row a durable subscription: how far it is behind, from the answer of `publications`.

    Nobody waits any more for a publication that has timed out. A subscription that has ended is not behind. Ages are
    reckoned up to `now`. By default that is the time at which the question is called.
    """
    table = as_table(published, PUBLICATIONS)
    return as_frame(keyed.sparkSession, of_topics.subscribers(_store(keyed), table, now=_moment(now)))


@answers(meanings_of(TOPICS))
def topics(
    published: DataFrame, subscribed: DataFrame, *, now: datetime | None = None, exact: bool = False
) -> DataFrame:
    """Return one row a topic with stored publications or durable subscribers.

    `published` is the answer of `publications`, `subscribed` that of `subscribers`. The store does not have subscribers
    that are not durable.
    """
    tables = as_table(published, PUBLICATIONS), as_table(subscribed, SUBSCRIBERS)
    return as_frame(published.sparkSession, of_topics.topics(*tables, now=_moment(now), exact=exact))


@answers(meanings_of(BROKER_STARTS))
def broker_starts(keyed: DataFrame) -> DataFrame:
    """Return one row for each start and each orderly end of a broker, as far as the journal tells of them.

    A broker that was killed has no end.
    """
    return as_frame(keyed.sparkSession, of_store.broker_starts(_store(keyed)))


@answers(meanings_of(BROKER_RECORDS))
def broker_records(keyed: DataFrame) -> DataFrame:
    """Return how many records of each kind the broker keeps, has written and has dropped."""
    return as_frame(keyed.sparkSession, of_store.broker_records(_store(keyed)))


def _moment(now: datetime | None) -> Micros:
    return micros(datetime.now(UTC) if now is None else now)


def _store(keyed: DataFrame, operations: DataFrame | None = None) -> Store:
    """Return what the operations on keys tell, and with those on messages how messages ended that matter."""
    of_broker = keyed.where(F.col("key").startswith(PREFIX))
    records, ends = Records(), Ends()
    for each in _folded(of_broker.select(*[_kept(keyed, name) for name in KEPT]), _records_in):
        records.merge(decoded(each))
    doubtful = doubtful_in(records) if operations is not None else {}
    if operations is not None and doubtful:
        removals = operations.where(F.col("operation").isin(*ON_ENDS)).select(*ENDING)
        for each in _folded(removals, partial(_ends_in, doubtful=doubtful)):
            ends.merge(decoded(each))
    return Store(records, ends)


def _kept(keyed: DataFrame, name: str) -> Column:
    if name == "length" and name not in keyed.columns:
        return F.octet_length(VALUE).cast("long").alias(name)
    return F.col(name)


def _folded(rows: DataFrame, work: Callable[[_Batches], bytes]) -> list[bytes]:
    """Return what the work tells of each of Spark's partitions."""

    def fold(batches: _Batches) -> _Batches:
        yield pa.RecordBatch.from_arrays([pa.array([work(batches)], pa.binary())], names=["told"])

    told: list[bytes] = rows.mapInArrow(fold, _TOLD).toArrow()["told"].to_pylist()
    return told


def _records_in(batches: _Batches) -> bytes:
    found = Records()
    for batch in batches:
        found.take(batch)
    return encoded(found)


def _ends_in(batches: _Batches, doubtful: Doubtful) -> bytes:
    found = Ends()
    for batch in batches:
        found.take(batch, doubtful)
    return encoded(found)
