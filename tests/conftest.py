"""What all tests share: Hypothesis tries the same examples each time, no example is timed, and Ctrl-C arrives.

Long files begin first, there are more workers than processors, each of which compiles its share of the files, and what
was collected is no garbage.
"""

import contextlib
import gc
import importlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.internal.conjecture import providers

from tests import one_name
from tests.long_files import ByFile, in_order
from tests.spark_session import spark as spark  # a fixture of all tests
from tests.support.sweeps import EACH_DAY, mark_samples

MEMORY = Path("/dev/shm")  # a file system without a device to wait for; its calls are the system's all the same
ROOM_BYTES = 4 << 30

sys.meta_path.insert(0, one_name)
# A failure is told at once: the phase that explains it takes minutes with a large machine, which no test has.
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, phases=[phase for phase in Phase if phase is not Phase.explain]
)
settings.load_profile("repeatable")
# Nor do the modules that a process of tests happens to have imported decide what is tried: hypothesis takes constants
# out of them.
providers._get_local_constants = lambda: providers._local_constants

# A shell starts what runs in its background with SIGINT ignored, and programs started from there inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Make no cases of a test that is left out as a whole: they would be thousands, in each process of tests.

    Where tests are asked for by their names, it is said of one that is left out that it is.
    """
    config = collector.config
    if config.getoption("markexpr") != EACH_DAY or any("::" in each for each in config.args):
        return None
    marks = [mark.name for mark in (*collector.iter_markers(), *getattr(obj, "pytestmark", ()))]
    return [] if "whole" in marks or "slow" in marks else None


@pytest.hookimpl(tryfirst=True)  # before what is not asked for is left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_samples(items)
    items[:] = in_order(items)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("markexpr") == EACH_DAY and "TMPDIR" not in os.environ and _has_room(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)  # of what is started too
        tempfile.tempdir = None


def _has_room(directory: Path) -> bool:
    """Say whether all that the tests of every day have on a disk at a time finds room there."""
    try:
        return os.access(directory, os.W_OK | os.X_OK) and shutil.disk_usage(directory).free >= ROOM_BYTES
    except OSError:
        return False


def pytest_collection(session: pytest.Session) -> None:
    # All tests live until the end: half a million objects, through which every full collection of garbage would go.
    gc.disable()
    _import_share(session.config)


def _import_share(config: pytest.Config) -> None:
    """In one of several processes of all tests: import its share of the files before it collects them.

    To compile a file with its assertions takes three times as long as all else that is done to collect it. Each process
    collects all files, in one order: in a clean checkout each would compile all of them, at the same time.
    """
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None or config.args != config.getini("testpaths") or sys.dont_write_bytecode:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    files = sorted(Path(__file__).parent.rglob("test_*.py"))
    for file in files[number::count]:
        # What is wrong with it, or why it is skipped, is said when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are processors: a third of the time a test waits, for a process or a clock."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return processors + processors // 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile | None:
    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None
