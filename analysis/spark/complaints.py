"""What Spark raises, as one line of our own: its exceptions hold the traces of two languages."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from oms_journal.journal.errors import JournalError

_OURS = re.compile(r"^oms_journal(?:\.\w+)+\.(\w+): (.+)$", re.MULTILINE)
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+\.)?(\w+: .+|\w+)$", re.MULTILINE)
_PYTHON = re.compile(r"^(\w[\w.]*(?:Error|Exception|Interrupt)(?:: .+)?)$", re.MULTILINE)
TEXT_MAX = 500  # characters


class SparkCouldNot(JournalError):
    """Spark ended a question with an exception; the text begins with what could not be done and says why."""


@contextmanager
def in_one_line(what: str) -> Iterator[None]:
    """Turn what Spark raises in the block into SparkCouldNot, and let all else pass."""
    try:
        yield
    except (PySparkException, Py4JError) as failure:
        raise SparkCouldNot(f"{what}: {reason(str(failure))}") from failure


def reason(text: str) -> str:
    """Return the line that tells why: our own error's, else the innermost cause, else the first."""
    if ours := _OURS.findall(text):
        name, message = ours[-1]
        return f"{name}: {message}"[:TEXT_MAX]
    for inner in (_PYTHON, _CAUSE):
        if found := inner.findall(text):
            return str(found[-1])[:TEXT_MAX]
    return text.strip().partition("\n")[0][:TEXT_MAX]
