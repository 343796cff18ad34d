"""The sections of the page, in their order: what is of a broker stands first."""

from oms_journal.analysis.report.facts import Facts
from oms_journal.analysis.report.sections.commits import commits
from oms_journal.analysis.report.sections.copy import copy
from oms_journal.analysis.report.sections.delays import delays
from oms_journal.analysis.report.sections.disk import disk
from oms_journal.analysis.report.sections.failed import failed
from oms_journal.analysis.report.sections.lost import lost
from oms_journal.analysis.report.sections.over_time import OverTime
from oms_journal.analysis.report.sections.section import Section
from oms_journal.analysis.report.sections.stuck import stuck
from oms_journal.analysis.report.sections.talks import talks
from oms_journal.analysis.report.sections.topics import topics
from oms_journal.analysis.report.sections.traffic import traffic
from oms_journal.analysis.report.sections.twice import twice
from oms_journal.analysis.report.sections.units import TABLE, units
from oms_journal.analysis.report.tables import Tables


def sections(tables: Tables, facts: Facts) -> list[Section]:
    """Return the sections, made from the tables as they were written."""
    over_time = OverTime(tables, facts)
    found = [
        *_of_broker(tables, facts),
        stuck(tables, facts, over_time),
        traffic(facts, over_time),
        delays(tables, facts, over_time),
        disk(tables, facts),
        commits(tables, facts),
        twice(tables, facts),
        lost(tables, facts),
    ]
    return [*found, copy(tables, facts)] if facts.scope.compared_with else found


def _of_broker(tables: Tables, facts: Facts) -> list[Section]:
    """Return the sections on a broker; none where the journals are no broker's."""
    if not tables.files(TABLE):
        return []
    found = [units(tables, facts), failed(tables, facts), talks(tables, facts)]
    of_topics = topics(tables, facts)
    return found if of_topics is None else [*found, of_topics]
