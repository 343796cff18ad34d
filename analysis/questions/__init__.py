"""The questions that an operator asks of journals: every function returns a DataFrame.

of `Journals`, that is of their data files
    lifecycle              what became of the messages of each queue, how long did they wait, what is stuck?
    latency_histogram      how are the times from ADD to DELIVER distributed?
    latency_over_time      how long do messages take from ADD to DELIVER, over time?
    counts                 how many operations of which kind are there?
    rate                   what comes and goes over time, in operations and bytes?
    backlog                how much is undelivered, over time?
    retention              why does the disk not get free: what keeps each data file?
    commits                do operations share commits, and commits writes? When did nobody commit?
    duplicates             what was added twice?

of operations, as the data source `omsjournal` has them
    comparison             do two journals hold the same?
    losses                 what do archives hold that the repaired files do not?
    losses_by_queue        of which queues is that?
    messages               what is known of each message? With its producer's identifier: messages_with_producers
    latest_versions        what was last done to each key?

of the operations of a broker's journal
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

The fold answers those of `Journals`: Spark's workers read the files, and no row comes through the data source. A
message is known by (database, number), and a copy that compaction wrote is the same message. The columns of an answer
stand in the function's docstring, and in the DataFrame's schema as comments. What is asked of a broker's journal begins
with the operations on keys and their values, see `analysis/questions/of_broker.py`.

Each name is loaded from its module when you first use it.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from oms_journal.journal.extras import brought_by

with brought_by("analysis"):
    from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from oms_journal.analysis.questions.described import meanings
    from oms_journal.analysis.questions.differences import comparison
    from oms_journal.analysis.questions.lost import losses, losses_by_queue
    from oms_journal.analysis.questions.message_rows import latest_versions, messages, messages_with_producers
    from oms_journal.analysis.questions.of_broker import (
        broker_records,
        broker_starts,
        conversation_services,
        conversations,
        publications,
        subscribers,
        topics,
        units_of_work,
        uow_attempts,
        uow_failures,
        uow_services,
        uow_statuses,
        uow_stays,
    )
    from oms_journal.analysis.questions.of_journal import (
        Journals,
        backlog,
        commits,
        counts,
        duplicates,
        latency_histogram,
        latency_over_time,
        lifecycle,
        rate,
        retention,
    )

    QUESTIONS: Mapping[str, Callable[..., DataFrame]]

__all__ = [
    "QUESTIONS",
    "Journals",
    "backlog",
    "broker_records",
    "broker_starts",
    "commits",
    "comparison",
    "conversation_services",
    "conversations",
    "counts",
    "duplicates",
    "latency_histogram",
    "latency_over_time",
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

# The questions by module, in the order of the list above.
_ASKED = {
    "of_journal": (
        *("lifecycle", "latency_histogram", "latency_over_time", "counts", "rate", "backlog", "retention", "commits"),
        "duplicates",
    ),
    "differences": ("comparison",),
    "lost": ("losses", "losses_by_queue"),
    "message_rows": ("messages", "messages_with_producers", "latest_versions"),
    "of_broker": (
        *("units_of_work", "uow_services", "uow_statuses", "uow_stays", "uow_attempts", "uow_failures"),
        *("conversations", "conversation_services", "publications", "subscribers", "topics"),
        *("broker_starts", "broker_records"),
    ),
}
_QUESTIONS = {name: f"questions.{module}" for module, names in _ASKED.items() for name in names}
_HOMES = {**_QUESTIONS, "Journals": "questions.of_journal", "meanings": "questions.described"}


def _loaded(name: str) -> Any:
    return getattr(import_module(f"oms_journal.analysis.{_HOMES[name]}"), name)


def __getattr__(name: str) -> Any:
    if name == "QUESTIONS":
        value: Any = {question: _loaded(question) for question in _QUESTIONS}
    elif name in _HOMES:
        value = _loaded(name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # from now on it is found without asking
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
