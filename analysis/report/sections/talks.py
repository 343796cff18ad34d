"""Which conversations of a broker's units of work are open."""

from collections.abc import Mapping, Sequence

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.markup import Html
from oms_journal.analysis.report.facts import Facts
from oms_journal.analysis.report.sections.labels import with_label
from oms_journal.analysis.report.sections.listing import (
    ROWS_MAX,
    Column,
    count_column,
    duration_column,
    listing,
    name_column,
    text_column,
)
from oms_journal.analysis.report.sections.section import Section, summed
from oms_journal.analysis.report.sections.verdicts import Name, Question, Verdict
from oms_journal.analysis.report.tables import Row, Tables
from oms_journal.analysis.report.wording import counted, duration, short_number

QUESTION = Question("talks", "Which conversations are open?", "Conversations")


def talks(tables: Tables, facts: Facts) -> Section:
    """Return the section."""
    services = [with_label(row, facts, "service") for row in tables.read("conversation_services").to_pylist()]
    services.sort(key=lambda row: (-row["open"], -row["conversations"], row["label"]))
    figures = {each: summed(services, each) for each in ("conversations", "open", "ended", "cancelled")}
    order = {"is_open": "descending", "begun": "ascending", "conv_id": "ascending"}
    first = tables.first("conversations", order, ROWS_MAX)
    oldest = [_open(row, facts) for row in first if row["is_open"]]
    return Section(_verdict(figures, oldest), [_services(services), _listed(oldest, figures["open"])], figures)


def _open(row: Row, facts: Facts) -> Row:
    begun = row["begun"]
    age = None if begun is None else max(0.0, (facts.scope.as_of - begun).total_seconds())
    return {
        **with_label(row, facts, "service"), "age_seconds": age, "wait": row["waiting"] + row["waiting_replies"]
    }  # fmt: skip


def _services(services: Sequence[Row]) -> Html:
    columns = (
        name_column("Service", "label"),
        count_column("Conversations", "conversations"),
        count_column("Open", "open", "something waits in them"),
        count_column("Answered", "answered", "the service has answered in them"),
        count_column("Ended", "ended", "by one side, as a unit of work of theirs says"),
        Column(
            "Units in one", lambda row: wording.number(row["units_mean"]), lambda row: row["units_mean"], is_number=True
        ),
        count_column("At most", "units_max"),
        duration_column("p50", "p50_seconds", "half of those that are not open took at most this"),
        duration_column("p99", "p99_seconds", "99 of 100"),
        duration_column("Longest", "max_seconds"),
    )
    label = "Services, those with most open conversations first"
    return listing(label, columns, services, table="conversation_services")


def _listed(oldest: Sequence[Row], count: int) -> Html:
    columns = (
        text_column("Conversation", "conv_id"),
        name_column("Service", "label"),
        name_column("Client", "client"),
        name_column("Server", "server", "the instance that has committed something of it"),
        duration_column("Began", "age_seconds", "ago"),
        count_column("Wait", "wait", "units of work"),
        count_column("Units", "units"),
        count_column("Replies", "replies"),
        count_column("In vain", "attempts", "deliveries"),
        text_column("State", "state"),
    )
    return listing("Open conversations, the oldest first", columns, oldest, table="conversations", count=count)


def _verdict(figures: Mapping[str, int], oldest: Sequence[Row]) -> Verdict:
    if not figures["conversations"]:
        return Verdict(QUESTION, ["There are no conversations of units of work."], "none")
    all_of_them = counted(figures["conversations"], "conversation")
    ended, cancelled = figures["ended"], figures["cancelled"]
    ends = [f"{ended:,} {'was' if ended == 1 else 'were'} ended by one side"] if ended else []
    ends += [f"{cancelled:,} of these cancelled"] if cancelled else []
    told = f" Of {all_of_them} {', '.join(ends)}." if ends else ""
    if not oldest:
        sentence = [f"None: in {all_of_them} nothing waits.", told]
        return Verdict(QUESTION, sentence, "none open", (f"of {all_of_them}",), "good")
    first = oldest[0]
    begun = f"The oldest of them began {duration(first['age_seconds'])} ago: {first['conv_id']} with "
    sentence = [f"In {figures['open']:,} of {all_of_them} something waits. {begun}", Name(first["label"]), ".", told]
    return Verdict(QUESTION, sentence, short_number(figures["open"]), (f"open, of {figures['conversations']:,}",))
