"""The files of tests that take longest, the longest first: they begin before all others. And those that share Spark.

A processor takes a whole file. One that took a long file last would work on it while all others have nothing to do.
One processor takes all files that need Spark: it starts once.
"""

import pytest
from xdist.scheduler.loadfile import LoadFileScheduling

SPARK_FILES = (
    "analysis/test_broker",
    "analysis/test_report",
    "analysis/test_questions",
    "analysis/test_questions_by_hand",
    "analysis/test_source",
    "analysis/test_stream",
    "analysis/test_remote",
    "analysis/test_filters",
    "cli/test_analyze",
)
LONG_FILES = (
    *SPARK_FILES,
    "analysis/test_java",
    "cli/demo/test_demo_report",
    "cli/demo/test_demo",
    "callers/test_callers",
    "broker/server/test_standby",
    "cli/demo/test_chess",
    "api/test_api",
    "cli/test_broker_wrong_inputs",
    "recovery/test_crash_recovery",
    "broker/embedded/test_kill",
    "broker/embedded/test_embedded",
    "faults/test_faults",
    "recovery/test_crash_power_cut",
    "recovery/test_crash_flips",
    "database/backup/test_processes",
    "simulation/test_same",
    "benchmarks/test_bench",
)
_PLACES = {name: place for place, name in enumerate(LONG_FILES)}


def _name(nodeid: str) -> str:
    """Return the name of the file, as the lists have it."""
    return nodeid.split("::", 1)[0].removeprefix("tests/").removesuffix(".py")


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in the order in which their files are to begin; the order within a file stays."""
    return sorted(items, key=lambda item: _PLACES.get(_name(item.nodeid), len(_PLACES)))


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Gives a processor a file after another; all files that need Spark to the same one."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if _name(nodeid) in SPARK_FILES else nodeid.split("::", 1)[0]
