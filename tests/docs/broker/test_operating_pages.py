"""The pages for who runs a server: the events and figures that they name are there."""

import re

from oms_journal.broker.server.runtime import log
from tests.support.project import REPOSITORY

HOW_TO = REPOSITORY / "docs" / "how-to"
SYSTEMD = (HOW_TO / "systemd-and-containers.md").read_text(encoding="utf-8")
MONITORING = (HOW_TO / "monitoring.md").read_text(encoding="utf-8")
METRICS = (REPOSITORY / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")


def test_every_event_of_the_log_has_a_row_with_its_fields() -> None:
    table = SYSTEMD.split("| event | fields | when |")[1].split("\n\n")[0]
    told = {
        name: set(re.findall(r"`(\w+)`", fields))
        for name, fields in re.findall(r"^\| `(\w+)` \|([^|]*)\|", table, re.MULTILINE)
    }
    lines = (log.__doc__ or "").splitlines()
    known = {line.split()[0]: line for line in lines[3 : 3 + len(log.EVENTS)]}

    assert told.keys() == log.EVENTS
    for name, fields in told.items():
        assert fields <= set(re.findall(r"\w+", known[name].split("  ", 1)[1]))


def test_the_figures_to_be_watched_are_metrics() -> None:
    table = MONITORING.split("| figure | bad if |")[1].split("\n\n")[0]
    named = set(re.findall(r"`((?:oms|process)_\w+)", table))

    assert len(named) >= 10
    assert named <= set(re.findall(r"^\| `(\w+)` \|", METRICS, re.MULTILINE))


def test_what_a_tool_may_wait_for_are_events() -> None:
    named = re.findall(r"`(\w+)`", MONITORING.split("those that a tool may wait for:")[1])
    assert len(named) >= 4 and set(named) <= log.EVENTS
