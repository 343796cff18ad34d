"""What all tests share: Hypothesis tries the same examples each time, no example is timed, and Ctrl-C arrives.

Long files begin first, there are more workers than processors, and what was collected is no garbage.
"""

import gc
import os
import signal
import sys

import pytest
from hypothesis import settings

from tests import one_name
from tests.long_files import ByFile, in_order
from tests.spark_session import spark as spark  # a fixture of all tests

sys.meta_path.insert(0, one_name)
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

# A shell starts what runs in its background with SIGINT ignored, and programs started from there inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = in_order(items)


def pytest_collection() -> None:
    # All tests live until the end: half a million objects, through which every full collection of garbage would go.
    gc.disable()


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
