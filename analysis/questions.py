"""The questions that an operator asks of journals: every function takes DataFrames and returns one.

    question               asks
    lifecycle              what became of the messages of each queue, how long did they wait, what is stuck?
    latency_histogram      how are the times from ADD to DELIVER distributed?
    rate                   what comes and goes over time, in operations and bytes?
    backlog                how much is undelivered, over time?
    retention              why does the disk not get free: what keeps each data file?
    commits                do operations share commits, and commits writes? When did nobody commit?
    duplicates             what was added twice?
    comparison             do two journals hold the same?
    losses                 what do archives hold that the repaired files do not?
    losses_by_queue        of which queues is that?
    messages               what is known of each message? With its producer's identifier: messages_with_producers
    latest_versions        what was last done to each key?

of a broker's journal
    units_of_work          what became of each unit of work?
    uow_services           what became of the units of work of each service, how long did they wait, what is stuck?
    uow_statuses           in which status are they, and how long do they stay in each?
    uow_stays              when did a unit of work come into a status, and leave it?
    uow_attempts           how often was their delivery attempted in vain?
    uow_failures           what was backed out, cancelled or timed out?
    conversations          who talks with which service, and what is open in it?
    conversation_services  how many conversations has each service, and how long do they take?
    publications           what became of each publication?
    subscribers            how far is each durable subscriber behind?
    topics                 what became of what was published to each topic?
    broker_starts          when was the broker started, and when did it end?
    broker_records         how many records of which kind does it keep?

The operations come from the data source `omsjournal`. A message is known by (database, number), and a
copy that compaction wrote is the same message. Rows come in no order. The columns of an answer stand in
the function's docstring, and in the DataFrame's schema as comments. What is asked of a broker's journal
begins with the operations on keys and their values, see `broker_records.py`.
"""

from collections.abc import Callable, Mapping

from oms_journal.journal.extras import brought_by

with brought_by("analysis"):
    from pyspark.sql import DataFrame

from oms_journal.analysis.broker_services import uow_attempts, uow_failures, uow_services, uow_statuses
from oms_journal.analysis.broker_stays import uow_stays
from oms_journal.analysis.broker_store import broker_records, broker_starts
from oms_journal.analysis.broker_talks import conversation_services, conversations
from oms_journal.analysis.broker_topics import publications, subscribers, topics
from oms_journal.analysis.broker_units import units_of_work
from oms_journal.analysis.commits import commits
from oms_journal.analysis.comparison import comparison
from oms_journal.analysis.described import meanings
from oms_journal.analysis.duplicates import duplicates
from oms_journal.analysis.lifecycle import latency_histogram, lifecycle
from oms_journal.analysis.losses import losses, losses_by_queue
from oms_journal.analysis.messages import latest_versions, messages, messages_with_producers
from oms_journal.analysis.rates import backlog, rate
from oms_journal.analysis.retention import retention

__all__ = [
    "QUESTIONS",
    "backlog",
    "broker_records",
    "broker_starts",
    "commits",
    "comparison",
    "conversation_services",
    "conversations",
    "duplicates",
    "latency_histogram",
    "latest_versions",
    "lifecycle",
    "losses",
    "losses_by_queue",
    "meanings",
    "messages",
    "messages_with_producers",
    "publications",
    "rate",
    "retention",
    "subscribers",
    "topics",
    "units_of_work",
    "uow_attempts",
    "uow_failures",
    "uow_services",
    "uow_statuses",
    "uow_stays",
]

QUESTIONS: Mapping[str, Callable[..., DataFrame]] = {
    question.__name__: question
    for question in (
        lifecycle,
        latency_histogram,
        rate,
        backlog,
        retention,
        commits,
        duplicates,
        comparison,
        losses,
        losses_by_queue,
        messages,
        messages_with_producers,
        latest_versions,
        units_of_work,
        uow_services,
        uow_statuses,
        uow_stays,
        uow_attempts,
        uow_failures,
        conversations,
        conversation_services,
        publications,
        subscribers,
        topics,
        broker_starts,
        broker_records,
    )
}
