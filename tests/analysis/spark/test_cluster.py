"""A report on a cluster: its tables are those of this machine."""

import subprocess
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
