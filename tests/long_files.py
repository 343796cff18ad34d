"""The files of tests that take longest, the longest first: they begin before all others. And those that share Spark.

A processor takes a whole file. One that took a long file last would work on it while all others have nothing to do.
One processor takes all files that need Spark: it starts once. And one those on the project: it parses each module once.
"""

import pytest
from xdist.scheduler.loadfile import LoadFileScheduling

SPARK_FILES = (
    "analysis/broker/test_broker",
    "analysis/report/test_report",
    "analysis/questions/test_questions",
    "analysis/questions/test_questions_by_hand",
    "analysis/spark/test_source",
    "analysis/spark/test_fold",
    "analysis/spark/test_stream",
    "analysis/spark/test_remote",
    "analysis/spark/test_filters",
    "analysis/export/test_lake",
    "analysis/export/test_recipes",
    "cli/history/test_analyze",
)
LONG_FILES = (
    *SPARK_FILES,
    "broker/server/standby/test_standby",
    "broker/server/http/test_console",
    "callers/test_callers",
    "database/test_wrong_inputs",
    "broker/server/migration/test_moving",
    "faults/test_faults",
    "cli/demo/test_demo",
    "broker/server/http/test_operators",
    "broker/server/security/test_attacks",
    "broker/embedded/test_embedded",
    "broker/server/http/test_openapi",
    "journal/format/test_java_reader",
    "journal/reading/test_sweep",
    "database/backup/test_follow",
    "broker/client/test_cut",
    "broker/server/stomp/test_dead_letters",
    "benchmarks/test_bench",
    "broker/embedded/test_store",
    "broker/server/standby/test_network_cut",
    "broker/server/test_cold_start",
    "api/test_api",
    "analysis/spark/test_java",
    "cli/demo/test_demo_report",
    "cli/demo/test_chess",
    "recovery/crashes/test_recovery",
    "recovery/crashes/test_power_cut",
)
_PLACES = {name: place for place, name in enumerate(LONG_FILES)}


def _name(nodeid: str) -> str:
    """Return the name of the file, as the lists have it."""
    return nodeid.split("::", 1)[0].removeprefix("tests/").removesuffix(".py")


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in the order in which their files are to begin; the order within a file stays."""
    return sorted(items, key=lambda item: _PLACES.get(_name(item.nodeid), len(_PLACES)))


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Gives a processor a file after another; to the same one all that need Spark, and all on the project."""

    def _split_scope(self, nodeid: str) -> str:
        if (name := _name(nodeid)) in SPARK_FILES:
            return "spark"
        return "project" if name.startswith("project/") else nodeid.split("::", 1)[0]
