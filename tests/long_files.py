"""The files of tests that take longest, the longest first: they begin before all others. And those that share Spark.

A processor takes a whole file. One that took a long file last would work on it while all others have nothing to do.
One processor takes all files that need Spark: it starts once.
"""

from pathlib import PurePath

import pytest
from xdist.scheduler.loadfile import LoadFileScheduling

SPARK_FILES = (
    "test_analysis_broker",
    "test_analysis_report",
    "test_analysis_questions",
    "test_analysis_questions_by_hand",
    "test_analysis_source",
    "test_analysis_stream",
    "test_analysis_remote",
    "test_analysis_filters",
    "test_cli_analyze",
    "test_demo_report",
)
LONG_FILES = (
    *SPARK_FILES,
    "test_analysis_java",
    "test_demo",
    "test_callers",
    "test_server_standby",
    "test_cli_chess",
    "test_api",
    "test_cli_broker_wrong_inputs",
    "test_crash_recovery",
    "test_broker_embedded_kill",
    "test_cli_long_uow",
    "test_broker_embedded",
    "test_faults",
    "test_crash_power_cut",
    "test_crash_flips",
    "test_backup_processes",
    "test_simulation_same",
    "test_bench",
)
_PLACES = {name: place for place, name in enumerate(LONG_FILES)}


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in the order in which their files are to begin; the order within a file stays."""
    return sorted(items, key=lambda item: _PLACES.get(item.path.stem, len(_PLACES)))


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Gives a processor a file after another; all files that need Spark to the same one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return "spark" if PurePath(file).stem in SPARK_FILES else file
