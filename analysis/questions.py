"""The questions that an operator asks of journals: every function takes DataFrames and returns one.

    question             asks
    lifecycle            what became of the messages of each queue, how long did they wait, what is stuck?
    latency_histogram    how are the times from ADD to DELIVER distributed?
    rate                 what comes and goes over time, in operations and bytes?
    backlog              how much is undelivered, over time?
    retention            why does the disk not get free: what keeps each data file?
    commits              do operations share commits, and commits writes? When did nobody commit?
    duplicates           what was added twice?
    comparison           do two journals hold the same?
    losses               what do archives hold that the repaired files do not?
    losses_by_queue      of which queues is that?
    messages             what is known of each message?
    latest_versions      what was last done to each key?

The operations come from the data source `omsjournal`. A message is known by (database, number), and a
copy that compaction wrote is the same message. Rows come in no order. The columns of an answer stand in
the function's docstring, and in the DataFrame's schema as comments.
"""

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from analysis.commits import commits
from analysis.comparison import comparison
from analysis.described import meanings
from analysis.duplicates import duplicates
from analysis.lifecycle import latency_histogram, lifecycle
from analysis.losses import losses, losses_by_queue
from analysis.messages import latest_versions, messages
from analysis.rates import backlog, rate
from analysis.retention import retention

__all__ = [
    "QUESTIONS",
    "backlog",
    "commits",
    "comparison",
    "duplicates",
    "latency_histogram",
    "latest_versions",
    "lifecycle",
    "losses",
    "losses_by_queue",
    "meanings",
    "messages",
    "rate",
    "retention",
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
        latest_versions,
    )
}
