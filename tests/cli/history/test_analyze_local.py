"""`oms analyze --engine local`: the same page and tables where there is neither Spark nor Java nor pandas."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pq = pytest.importorskip("pyarrow.parquet", reason="not installed: pip install -e '.[parquet]'")

from oms_journal import MessageDatabase  # noqa: E402
from tests.support.cli_runner import environment, oms  # noqa: E402
from tests.support.disks.small_files import fill, open_small  # noqa: E402
from tests.support.disks.watched_disk import HandClock  # noqa: E402
from tests.support.journals.random_broker import BrokerWriter  # noqa: E402

SECONDS_MAX = 120
# Refuses what Spark and other engines bring, as where it is not installed, and runs the command.
WITHOUT_SPARK = """
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pandas", "fsspec"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refused())
if __name__ == "__main__":
    import oms_journal.cli.main
    oms_journal.cli.main.main()
"""


def analyzed(*paths: Path, out: Path, more: tuple[str, ...] = ()) -> Any:
    """Return the summary of a report that this machine makes."""
    assert oms("analyze", *map(str, paths), "--out", str(out), "--engine", "local", *more).stderr == ""
    return json.loads((out / "summary.json").read_text(encoding="utf-8"))


def bare_environment() -> dict[str, str]:
    """Return the environment without a way to Java."""
    return {name: value for name, value in environment().items() if name != "JAVA_HOME"} | {"PATH": "/nowhere"}


def test_it_needs_pyarrow_and_neither_spark_nor_java_nor_pandas(spool: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_SPARK, "analyze", str(spool), "--out", str(out), "--engine",
         "local"],
        env=bare_environment(), capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "What is stuck?"
    assert lines[1].startswith("  2 messages wait in 2 queues.")
    assert lines[-1] == f"The page: {out / 'report.html'}"
    assert "&lt;script&gt;" in (out / "report.html").read_text(encoding="utf-8")
    tables = json.loads((out / "summary.json").read_text(encoding="utf-8"))["tables"]
    for name, table in tables.items():
        assert pq.read_table(out / name / "part-00000.parquet").num_rows == table["rows"]


def test_what_only_spark_answers_is_refused_before_any_work(spool: Path, tmp_path: Path) -> None:
    for more in (("--compare-with", str(spool)), ("--master", "local[1]")):
        text = oms("analyze", str(spool), "--out", str(tmp_path / "out"), "--engine", "local", *more, code=2).stderr

        assert text.startswith("oms: ")
        assert text.count("\n") == 1
        assert more[0] in text
        assert "leave out --engine local" in text
    assert [entry.name for entry in tmp_path.iterdir()] == ["spool"]


def test_a_brokers_store_has_its_sections(tmp_path: Path) -> None:
    writer = BrokerWriter(tmp_path / "store", 2)
    writer.write(starts=2, steps=60)

    summary = analyzed(writer.spool, out=tmp_path / "out")

    assert list(summary["answers"])[:3] == ["units", "failed", "talks"]
    assert summary["answers"]["units"]["figures"]["units"] == summary["tables"]["units_of_work"]["rows"] > 0


def test_an_empty_journal_has_a_page(tmp_path: Path) -> None:
    with MessageDatabase.open(tmp_path / "spool", clock=HandClock()):
        pass

    summary = analyzed(tmp_path / "spool", out=tmp_path / "out")

    assert summary["operations"] == 0
    assert summary["answers"]["stuck"]["answer"] == "Nothing waits: there are no messages."
    assert {table["rows"] for table in summary["tables"].values()} == {0}


def test_a_journal_that_is_not_there_is_refused(tmp_path: Path) -> None:
    nowhere, out = str(tmp_path / "nowhere"), str(tmp_path / "out")

    text = oms("analyze", nowhere, "--out", out, "--engine", "local", code=2).stderr

    assert "does not exist" in text
    assert list(tmp_path.iterdir()) == []


def test_a_journal_with_a_file_that_was_cut_has_a_page_that_says_so(tmp_path: Path) -> None:
    with open_small(tmp_path / "spool") as db:
        fill(db, 2)
    [first, *_] = sorted((tmp_path / "spool").glob("*.data"))
    first.write_bytes(first.read_bytes()[:5284])

    summary = analyzed(tmp_path / "spool", out=tmp_path / "out")

    assert re.search(r"1 range of 1 file \(\d+ B\) cannot be read any more", summary["answers"]["lost"]["answer"])


def test_a_missing_package_is_one_line_that_names_the_small_extra(spool: Path, tmp_path: Path) -> None:
    script = "import sys; sys.modules['pyarrow'] = None; import oms_journal.cli.main; oms_journal.cli.main.main()"
    arguments = ("analyze", str(spool), "--out", str(tmp_path / "out"), "--engine", "local", "--json")

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *arguments], env=environment(), capture_output=True, text=True,
        timeout=SECONDS_MAX, check=False,
    )  # fmt: skip

    told = json.loads(done.stderr)
    assert (done.returncode, told["exit"]) == (4, 4)
    assert "pip install 'oms-journal[parquet]'" in told["message"]


# Ctrl-C comes while a file is read.
INTERRUPTED = """
import signal
from oms_journal.analysis.fold import partial
before = partial._of_file
def interrupted(*arguments):
    signal.raise_signal(signal.SIGINT)
    return before(*arguments)
partial._of_file = interrupted
"""


def test_ctrl_c_ends_it_in_one_line_and_leaves_nothing(spool: Path, tmp_path: Path) -> None:
    program = f"{INTERRUPTED}\nimport oms_journal.cli.main\noms_journal.cli.main.main()"
    arguments = ("analyze", str(spool), "--out", str(tmp_path / "out"), "--engine", "local")

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments], env=environment(), capture_output=True, text=True,
        timeout=SECONDS_MAX, check=False,
    )  # fmt: skip

    assert done.stderr == "oms: interrupted\n"
    assert (done.returncode, done.stdout) == (130, "")
    assert [entry.name for entry in tmp_path.iterdir()] == ["spool"]
