"""What runs with which libraries: the library with three alone, and what an extra brings is asked for by its name.

The places in which these programs run have links to the libraries that are installed here, and nothing else.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.disks.watched_disk import TIMEOUT_SECONDS
from tests.support.project import NAME, SOURCES
from tests.support.sweeps import a_sample

BROUGHT_ALWAYS = ("xxhash", "numpy", "sortedcontainers")
Run = Callable[..., "subprocess.CompletedProcess[str]"]

A_DAY = """
from oms_journal import AsyncBroker, AsyncMessageDatabase, Broker, MessageDatabase, connect

with MessageDatabase.open("spool") as db:
    db.deliver(db.add("orders", b"one"))
with connect("local:store") as broker, broker.session("ALICE", token="PC1") as alice:
    alice.send("GAME/CHESS/BLACK", b"e4")
print("done")
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return what runs Python where the three libraries are, and those that are named."""

    def run(*arguments: str, beside: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
        place = tmp_path / "libraries"
        place.mkdir(exist_ok=True)
        for name in (*BROUGHT_ALWAYS, *beside):
            folder = Path(import_module(name).__file__ or "").parent
            for each in (folder, folder.with_name(f"{name}.libs")):
                if each.exists() and not (place / each.name).is_symlink():
                    (place / each.name).symlink_to(each)
        return subprocess.run(
            [sys.executable, "-S", "-P", *arguments],  # no site-packages
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(SOURCES), str(place)))},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )

    return run


def test_the_library_and_the_broker_run_with_three_libraries_alone(run: Run) -> None:
    done = run("-c", A_DAY)

    assert (done.stdout, done.stderr) == ("done\n", "")


@pytest.mark.parametrize("beside", [(), ("rich",)])
def test_the_command_without_its_libraries_says_what_to_install(run: Run, beside: tuple[str, ...]) -> None:
    missing = "typer" if beside else "typer, rich"

    done = run("-m", "oms_journal.cli", "--help", beside=beside)

    assert (done.returncode, done.stdout) == (2, "")
    told = f"the command needs packages that are not installed ({missing}): pip install 'oms-journal[cli]'"
    assert done.stderr == f"oms: {told}\n"


def test_the_command_without_its_libraries_tells_a_program_in_json(run: Run) -> None:
    done = run("-m", "oms_journal.cli", "stats", "--json")

    assert done.returncode == 2
    told = json.loads(done.stderr)
    assert (told["error"], told["exit"]) == ("NotInstalled", 2)


@a_sample(4)
@pytest.mark.parametrize(
    ("program", "extra"),
    [
        ("from oms_journal import connect; connect('http://127.0.0.1:1971')", "server"),
        ("from oms_journal import connect_async; connect_async('http://127.0.0.1:1971')", "server"),
        ("from oms_journal.broker.client.brokers import RemoteBroker", "server"),
        ("from oms_journal.broker.server.migration.partner import Partner", "server"),
        ("from oms_journal.analysis.export.refresh import refresh", "parquet"),
        *(
            (f"import oms_journal.analysis.{module}", "parquet")
            for module in ("fold.local", "report.extras", "report.journals", "report.report")
        ),
        *(
            (f"import oms_journal.analysis.{module}", "analysis")
            for module in ("lake", "questions", "report.copies", "report.on_spark")
        ),
        *((f"import oms_journal.analysis.{module}", "analysis") for module in ("session", "source")),
        ("from oms_journal.analysis.storage import locate; list(locate(['memory://spool']))", "analysis"),
        ("from oms_journal.analysis.storage import locate; list(locate(['s3a://bucket/spool']))", "s3"),
    ],
)
def test_what_takes_an_extra_says_which_one(run: Run, program: str, extra: str) -> None:
    done = run("-c", program)

    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.endswith(f" is not installed: pip install 'oms-journal[{extra}]'"), done.stderr


def test_s3_without_what_reads_it_says_what_to_install(run: Run) -> None:
    program = "from oms_journal.analysis.storage import locate; list(locate(['s3://bucket/spool']))"

    done = run("-c", program, beside=("fsspec",))

    assert done.stderr.splitlines()[-1].endswith("s3fs is not installed: pip install 'oms-journal[s3]'")


def test_parquet_is_written_with_pyarrow_alone(run: Run) -> None:
    program = """
from oms_journal import MessageDatabase
from oms_journal.analysis.export.refresh import refresh

with MessageDatabase.open("spool") as db:
    db.add("orders", b"one")
print(refresh(["spool"], "lake").rows)
"""

    done = run("-c", program, beside=("pyarrow",))

    assert done.stderr == ""
    assert int(done.stdout) > 0


def test_what_is_imported_brings_nothing_that_it_does_not_need() -> None:
    heavy = ("pydantic", "rich", "typer", "pyarrow", "pyspark", "pandas", "starlette", "httpx", "sqlite3")
    ours = [f"{NAME}.{name}" for name in ("broker", "cli", "analysis")]
    script = (
        f"import sys, oms_journal\nprint(sorted(name for name in sys.modules if name.startswith('{NAME}.')))\n"
        f"print('numpy' in sys.modules)\nfrom oms_journal import MessageDatabase\n"
        f"print([name for name in {[*heavy, *ours]} if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == ["[]", "False", "[]"]
