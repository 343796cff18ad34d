"""What Spark raises is told by our own sentence, wherever Spark has put it among the traces of two languages."""

import pytest

pytest.importorskip("pyspark", reason="not installed: pip install -e '.[analysis]'")

from pyspark.errors import PySparkException

from oms_journal.analysis.reading.damage import DamageFound
from oms_journal.analysis.reading.schema import UnknownColumn
from oms_journal.analysis.spark.complaints import SparkCouldNot, in_one_line, reason
from oms_journal.analysis.spark.following import FilesGone, JournalWentBack
from oms_journal.analysis.spark.options import BadOption
from oms_journal.analysis.storage import NoJournal
from oms_journal.journal.errors import DiskError, JournalError, NewerFormat, NotThisDatabase

OURS: tuple[type[JournalError], ...] = (
    *(BadOption, DamageFound, DiskError, FilesGone, JournalWentBack, NewerFormat, NoJournal, NotThisDatabase),
    UnknownColumn,
)

WRAPPED = """[PYTHON_DATA_SOURCE_ERROR] Failed to plan Python data source omsjournal: Traceback (most recent call last):
  File "/opt/lib/python3.11/site-packages/oms_journal/analysis/spark/source.py", line 104, in partitions
    locations = locate(options.paths, options.storage)
FileNotFoundError: [Errno 2] No such file or directory: '/var/spool/oms'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/opt/lib/python3.11/site-packages/pyspark/worker_util.py", line 206, in main
{name}: what happened, and where
 SQLSTATE: 38000
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure
"""


@pytest.mark.parametrize("kind", OURS)
def test_an_error_of_ours_is_told_by_its_sentence(kind: type[JournalError]) -> None:
    text = WRAPPED.format(name=f"{kind.__module__}.{kind.__qualname__}")

    assert reason(text) == f"{kind.__name__}: what happened, and where"
    with pytest.raises(SparkCouldNot) as told, in_one_line("the question"):
        raise PySparkException(text)
    assert str(told.value) == f"the question: {kind.__name__}: what happened, and where"


def test_without_one_of_ours_the_innermost_cause_is_told() -> None:
    assert reason(WRAPPED.format(name="pyspark.errors.exceptions.base.PySparkRuntimeError")) == (
        "pyspark.errors.exceptions.base.PySparkRuntimeError: what happened, and where"
    )
    assert reason("first line\nCaused by: java.lang.OutOfMemoryError: Java heap space\n") == (
        "OutOfMemoryError: Java heap space"
    )
    assert reason("nothing that is known\nand more") == "nothing that is known"
