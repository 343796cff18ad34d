"""The sections of the page on journals, in their order."""

from oms_journal.analysis.report.sections.commits import commits
from oms_journal.analysis.report.sections.copy import copy
from oms_journal.analysis.report.sections.delays import delays
from oms_journal.analysis.report.sections.disk import disk
from oms_journal.analysis.report.sections.lost import lost
from oms_journal.analysis.report.sections.over_time import OverTime
from oms_journal.analysis.report.sections.section import Section
from oms_journal.analysis.report.sections.stuck import stuck
from oms_journal.analysis.report.sections.traffic import traffic
from oms_journal.analysis.report.sections.twice import twice
from oms_journal.analysis.report.tables import Tables
from oms_journal.analysis.report.values.answers import Facts


def sections(tables: Tables, facts: Facts) -> list[Section]:
    """Return the sections, made from the tables as they were written."""
    over_time = OverTime(tables, facts)
    found = [
        stuck(tables, facts, over_time),
        traffic(facts, over_time),
        delays(tables, facts, over_time),
        disk(tables, facts),
        commits(tables, facts),
        twice(tables, facts),
        lost(tables, facts),
    ]
    return [*found, copy(tables, facts)] if facts.scope.compared_with else found
