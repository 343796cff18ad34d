"""Journals folded, and what plain loops over their operations answer to the same."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from oms_journal.analysis.fold.asked import Asked
from oms_journal.analysis.reading import plan
from oms_journal.analysis.reading.parts import FilePart
from oms_journal.analysis.storage import locate
from tests.support.journals import plain_answers as plain
from tests.support.journals.plain_rows import Answer, File, Row

EVERY = 40_000_000  # microseconds
ENDS = ("DELIVER", "DELETE")


def parts_of(*paths: Path) -> list[FilePart]:
    """Return the files, in the order of the journal."""
    return [part for one in plan.plan(locate([str(path) for path in paths])) for part in one.parts]


def expected(rows: Sequence[Row], files: Iterable[File], asked: Asked, now: int) -> dict[str, Answer]:
    """Return the answers of plain loops; the table of files is not among them."""
    until_end = [row for row in rows if _is_before_end(row, asked)]
    of_period = [row for row in until_end if asked.since is None or row.time >= asked.since]
    ends = [row for row in until_end if row.operation in ENDS]
    gone = {(row.database, row.message) for row in ends if asked.since is not None and row.time < asked.since}
    present = [row for row in until_end if row.message is None or (row.database, row.message) not in gone]
    messages = [row for row in present if row.message is not None]
    on_keys = [row for row in of_period if row.key is not None]
    answers: dict[str, Callable[[], Answer]] = {
        "lifecycle": lambda: plain.lifecycle(present, now=now, moves=plain.moves_in(rows)),
        "latency_over_time": lambda: plain.latency_over_time(present, every=asked.every),
        "latency_histogram": lambda: plain.latency_histogram(present, bins_a_decade=asked.bins_a_decade),
        "counts": lambda: plain.counts(of_period),
        "rate": lambda: plain.rate([*messages, *on_keys], every=asked.every, since=asked.since),
        "backlog": lambda: plain.backlog(present, every=asked.every),
        "retention": lambda: plain.retention(rows, files, now=now),
        "commits": lambda: plain.commits(of_period, every=asked.every),
        "duplicates": lambda: plain.duplicates(of_period, window=asked.window),
    }
    return {name: answer() for name, answer in answers.items() if name in asked.questions}


def _is_before_end(row: Row, asked: Asked) -> bool:
    is_before = asked.until is None or row.time < asked.until
    return is_before and (asked.queues is None or row.queue in asked.queues)
