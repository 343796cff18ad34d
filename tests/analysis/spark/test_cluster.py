"""A report on a cluster, and a fold there with a second stage: their tables are those of this machine."""

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="not installed: pip install -e '.[analysis]'")

from oms_journal.analysis.fold.asked import DUPLICATES, FILES, HISTOGRAM, LIFECYCLE, RETENTION, Asked
from oms_journal.analysis.fold.local import answers
from tests.support.cli_runner import command_line, environment
from tests.support.journals.plain_rows import plain_rows
from tests.support.journals.random_journal import RandomWriter

CLUSTER = "local-cluster[2,1,1024]"  # two workers with a process each, of a processor and 1,024 MiB
STARTING_SECONDS = 600  # that a busy machine may take for four processes of Java
ASKED = Asked(questions=frozenset((FILES, LIFECYCLE, HISTOGRAM, RETENTION, DUPLICATES)))


@pytest.mark.whole
def test_a_report_on_a_cluster_has_the_tables_of_this_machine(tmp_path: Path) -> None:
    spool, retention, out = tmp_path / "spool", tmp_path / "retention", tmp_path / "out"
    RandomWriter(spool, 3, retention=retention, has_terms=True).write()

    command = command_line("analyze", str(spool), str(retention), "--out", str(out), "--master", CLUSTER)
    done = subprocess.run(command, env=environment(), capture_output=True, check=False, timeout=STARTING_SECONDS)

    assert done.returncode == 0, done.stderr
    for name, table in answers([str(spool), str(retention)], ASKED, now=0, processes=1).items():
        columns = [column for column in table.schema.names if not column.endswith("age_seconds")]
        found = pq.read_table(out / name).select(columns)
        assert plain_rows(found) == plain_rows(table.select(columns)), name


SECOND_STAGE = f"""\
import sys

from oms_journal.analysis.fold import engine, local
from oms_journal.analysis.fold.asked import Asked
from oms_journal.analysis.reading.plan import plan
from oms_journal.analysis.spark.fold import Bounds, in_spark
from oms_journal.analysis.spark.session import quiet_session
from oms_journal.analysis.storage import locate

with quiet_session(master="{CLUSTER}") as spark:
    there = in_spark(spark, Bounds(border_bytes_max=1, part_bytes=1000))
    found = engine.told(there, plan(locate(sys.argv[1:]), partition_bytes=1), Asked(), 0)
assert found == local.answers(sys.argv[1:], Asked(), now=0, processes=1)
"""


@pytest.mark.whole
def test_a_second_stage_on_a_cluster_gives_the_tables_of_this_machine(tmp_path: Path) -> None:
    spool, retention = tmp_path / "spool", tmp_path / "retention"
    RandomWriter(spool, 5, retention=retention, has_terms=True).write()

    command = [sys.executable, "-c", SECOND_STAGE, str(spool), str(retention)]
    done = subprocess.run(command, env=environment(), capture_output=True, check=False, timeout=STARTING_SECONDS)

    assert done.returncode == 0, done.stderr
