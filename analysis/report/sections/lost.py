"""What was lost: what archives hold and the files do not, and what nobody can read."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.markup import Html, name, tag
from oms_journal.analysis.report.facts import Facts
from oms_journal.analysis.report.sections.labels import with_label
from oms_journal.analysis.report.sections.listing import (
    ROWS_MAX,
    Column,
    count_column,
    listing,
    name_column,
    size_column,
    text_column,
    time_column,
)
from oms_journal.analysis.report.sections.section import Section
from oms_journal.analysis.report.sections.verdicts import Question, Verdict
from oms_journal.analysis.report.tables import Row, Tables
from oms_journal.analysis.report.wording import counted, short_number, size

QUESTION = Question("lost", "What was lost?", "Lost")
DAMAGED = "damaged"
BAD = (DAMAGED, "gap", "missing", "unreadable")  # kinds of damage: what was promised cannot be read there
_EFFECTS = {  # of what archives hold and the files do not: one, several
    "message lost": ("message is lost: only an archive holds it", "messages are lost: only archives hold them"),
    "undelivered again": (
        "message that had ended is undelivered again",
        "messages that had ended are undelivered again",
    ),
    "ended twice": ("message was ended twice", "messages were ended twice"),
    "older value": ("key has an older value", "keys have an older value"),
}


def lost(tables: Tables, facts: Facts) -> Section:
    """Return the section."""
    ranges = tables.read("damage", ["kind", "file", "start", "end"])
    is_bad = pc.is_in(ranges["kind"], pa.array(BAD))
    is_payload = pc.and_(pc.equal(ranges["kind"], DAMAGED), pc.equal(ranges["start"], ranges["end"]))
    bad = ranges.filter(pc.and_not(is_bad, is_payload))
    figures = {
        "effects": tables.sum_by("losses_by_queue", "effect", "operations"),
        "bad_ranges": bad.num_rows,
        "bad_files": len(pc.unique(bad["file"])),
        "bad_bytes": pc.sum(pc.subtract(bad["end"], bad["start"])).as_py() or 0,
        "bad_payloads": ranges.filter(is_payload).num_rows,  # in frames that are good
        "torn_ranges": tables.count_by("damage", "kind").get("torn", 0),
        "archives": facts.archives,
        "late_archives": facts.late_archives,
    }
    told = "No archive tells of a loss." if facts.late_archives else "There are no archives."
    if facts.archives:
        told = f"{wording.counted(facts.archives, 'archive was', 'archives were')} read."
    return Section(
        _verdict(figures), [tag("p", told, class_="quiet"), _operations(tables, facts), _ranges(tables)], figures
    )


def _operations(tables: Tables, facts: Facts) -> Html:
    first = tables.first("losses_by_queue", {"operations": "descending", "queue": "ascending"}, ROWS_MAX)
    columns = (
        name_column("Queue", "label"),
        text_column("Operation", "operation"),
        text_column("Effect", "effect"),
        count_column("Operations", "operations"),
        size_column("Bytes", "bytes"),
        time_column("From", "first_time"),
        time_column("To", "last_time"),
    )
    rows, table = [with_label(row, facts) for row in first], "losses_by_queue"
    return listing("Operations that only archives hold", columns, rows, table=table, count=tables.count(table))


def _ranges(tables: Tables) -> Html:
    first = tables.first("damage", {"sequence": "ascending", "start": "ascending"}, ROWS_MAX)
    columns = (
        name_column("File", "file"),
        text_column("Is", "kind"),
        Column("From byte", lambda row: f"{row['start']:,}", lambda row: row["start"], is_number=True),
        size_column("Bytes", "bytes"),
        Column("Why", lambda row: tag("span", row["reason"] or "", class_="words"), lambda row: row["reason"]),
        Column("Archive", lambda row: name(row["archive"]), lambda row: row["archive"]),
    )
    rows, count = [{**row, "bytes": _length(row)} for row in first], tables.count("damage")
    return listing("Ranges that are not as they were written", columns, rows, table="damage", count=count)


def _length(row: Row) -> int:
    return 0 if row["start"] is None or row["end"] is None else int(row["end"] - row["start"])


def _verdict(figures: Mapping[str, Any]) -> Verdict:
    sentence = [
        f"{counted(figures['effects'][effect], *words)}. "
        for effect, words in _EFFECTS.items()
        if figures["effects"].get(effect)
    ]
    harmless = sum(count for effect, count in figures["effects"].items() if effect not in _EFFECTS)
    count = sum(figures["effects"].values()) - harmless
    if harmless:
        sentence.append(f"{counted(harmless, 'operation')} only in archives made no difference. ")
    if figures["bad_ranges"]:
        bytes_lost = f" ({size(figures['bad_bytes'])})" if figures["bad_bytes"] else ""
        where = f"of {counted(figures['bad_files'], 'file')}{bytes_lost}"
        sentence.append(f"{counted(figures['bad_ranges'], 'range')} {where} cannot be read any more. ")
    if figures["bad_payloads"]:
        what = counted(figures["bad_payloads"], "payload or value does", "payloads or values do")
        sentence.append(f"{what} not match the checksum any more. ")
    if figures["torn_ranges"]:
        torn = counted(figures["torn_ranges"], "write was", "writes were")
        sentence.append(f"{torn} cut short by a crash before anybody was promised anything. ")
    if figures["late_archives"]:
        kept = counted(figures["late_archives"], "archive keeps", "archives keep")
        sentence.append(f"{kept} what nobody was promised: it came too late, or was in a file's blocks before it. ")
    if not count and not figures["bad_ranges"] and not figures["bad_payloads"]:
        return Verdict(QUESTION, ["Nothing that was promised is lost. ", *sentence], "nothing", tone="good")
    if count:
        return Verdict(QUESTION, sentence, short_number(count), ("operations that are missed",), "bad")
    if not figures["bad_ranges"]:
        return Verdict(QUESTION, sentence, short_number(figures["bad_payloads"]), ("payloads or values",), "bad")
    return Verdict(
        QUESTION, sentence, size(figures["bad_bytes"]), (f"in {counted(figures['bad_files'], 'file')}",), "bad"
    )
