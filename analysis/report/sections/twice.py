"""What came twice: producers' identifiers, and payloads that came very often."""

from collections.abc import Mapping
from typing import Any

import pyarrow.dataset as ds

from oms_journal.analysis.report.facts import Facts
from oms_journal.analysis.report.sections.labels import with_label
from oms_journal.analysis.report.sections.listing import (
    ROWS_MAX,
    count_column,
    listing,
    name_column,
    number_column,
    text_column,
    time_column,
)
from oms_journal.analysis.report.sections.section import Section
from oms_journal.analysis.report.sections.verdicts import Code, Question, Verdict
from oms_journal.analysis.report.tables import Row, Tables
from oms_journal.analysis.report.wording import counted, duration, short_number

QUESTION = Question("twice", "What came twice?", "Twice")
TIMES_MIN = 10  # that a payload came: fewer may be chance, where messages can be alike
COLUMNS = (
    text_column("Same", "kind"),
    name_column("Queue", "label"),
    name_column("Identifier or hash", "value"),
    count_column("Messages", "messages"),
    text_column("Payloads", "payloads", "whether an identifier came with the same payloads again"),
    number_column("First message", "first_message"),
    time_column("Added from", "first_time"),
    time_column("To", "last_time"),
)


_IS_PRODUCER = ds.field("kind") == "producer"
_IS_OFTEN = ds.field("messages") >= TIMES_MIN


def twice(tables: Tables, facts: Facts) -> Section:
    """Return the section. Messages count that are not the first of their kind."""
    often, seldom = (_again(tables, is_so & ~_IS_PRODUCER) for is_so in (_IS_OFTEN, ~_IS_OFTEN))
    figures = {
        "by_producer": tables.count_by("duplicates", "kind", _IS_PRODUCER).get("producer", 0),
        "by_payload": often,
        "by_payload_seldom": seldom,  # of payloads that came less than `times_min` times
        "times_min": TIMES_MIN,
        "window": facts.window.total_seconds(),
    }
    order = {"messages": "descending", "first_message": "ascending"}
    is_listed = _IS_PRODUCER | _IS_OFTEN
    rows = [_row(row, facts) for row in tables.first("duplicates", order, ROWS_MAX, is_listed)]
    count = sum(tables.count_by("duplicates", "kind", is_listed).values())
    parts = [listing("What came most often first", COLUMNS, rows, table="duplicates", count=count)]
    return Section(_verdict(figures), parts, figures)


def _again(tables: Tables, where: ds.Expression) -> int:
    """Return how many messages are not the first of their kind."""
    messages = tables.sum_by("duplicates", "kind", "messages", where)
    return sum(messages.values()) - sum(tables.count_by("duplicates", "kind", where).values())


def _row(row: Row, facts: Facts) -> Row:
    is_producer = row["kind"] == "producer"
    return {
        **with_label(row, facts),
        "kind": "identifier" if is_producer else "payload",
        "value": row["producer"] if is_producer else f"{row['hash'] % (1 << 64):016x}",
        "payloads": ("the same" if row["same_payloads"] else "others") if is_producer else "",
    }


def _verdict(figures: Mapping[str, Any]) -> Verdict:
    by_producer, by_payload, seldom = (figures[name] for name in ("by_producer", "by_payload", "by_payload_seldom"))
    if not by_producer and not by_payload and not seldom:
        return Verdict(QUESTION, ["No producer's identifier and no payload came again."], "nothing", tone="good")
    sentence: list[str] = []
    if by_producer:
        had = counted(by_producer, "identifier came", "identifiers came")
        sentence.append(f"{had} again, outside of the window in which the database refuses that. ")
    if by_payload:
        had = counted(by_payload, "message has", "messages have")
        window = f"at most {duration(figures['window'])} before it"
        sentence.append(
            f"{had} the payload of an earlier one of the same queue, {window}: "
            f"of payloads that came {TIMES_MIN} times or more. "
        )
    if seldom:
        had = counted(seldom, "message has", "messages have")
        sentence += [
            f"{had} a payload that came again, but less than {TIMES_MIN} times: see the table ",
            Code("duplicates"),
            ".",
        ]
    detail = f"{short_number(by_producer)} by identifier, {short_number(by_payload)} by payload"
    value = short_number(by_producer + by_payload) if by_producer or by_payload else "nothing often"
    return Verdict(QUESTION, sentence, value, (detail,), "warn" if by_producer else "")
