"""The files of tests that take longest, the longest first: they begin before all others.

A processor takes a whole file. One that took a long file last would work on it while all others have nothing to do.
"""

import pytest

LONG_FILES = (
    "test_cli_analyze",
    "test_crash_flips",
    "test_demo_report",
    "test_analysis_java",
    "test_analysis_broker",
    "test_cli_estimate",
    "test_analysis_report",
    "test_analysis_questions",
    "test_simulation_same",
    "test_simulation_seeds_broker",
    "test_crash_power_cut",
    "test_crash_recovery",
    "test_analysis_questions_by_hand",
    "test_simulation_faults",
    "test_backup_processes",
    "test_simulation_seeds_engine",
    "test_server_kill",
    "test_faults",
    "test_bench",
    "test_restore",
    "test_broker_oracle",
    "test_server_takeover",
    "test_server_standby",
    "test_demo",
    "test_crash_owners",
)
_PLACES = {name: place for place, name in enumerate(LONG_FILES)}


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in the order in which their files are to begin; the order within a file stays."""
    return sorted(items, key=lambda item: _PLACES.get(item.path.stem, len(_PLACES)))
