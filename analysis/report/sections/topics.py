"""How far a broker's durable subscribers are, and what became of what was published."""

from collections.abc import Mapping, Sequence

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.markup import Html
from oms_journal.analysis.report.facts import Facts
from oms_journal.analysis.report.sections.labels import with_label
from oms_journal.analysis.report.sections.listing import (
    Column,
    count_column,
    duration_column,
    listing,
    name_column,
    size_column,
    time_column,
)
from oms_journal.analysis.report.sections.section import Section, summed
from oms_journal.analysis.report.sections.verdicts import Name, Question, Verdict
from oms_journal.analysis.report.tables import Row, Tables
from oms_journal.analysis.report.wording import counted, duration, short_number

QUESTION = Question("topics", "How far are the subscribers?", "Subscribers")


def topics(tables: Tables, facts: Facts) -> Section | None:
    """Return the section; None where there is no topic."""
    rows = [with_label(row, facts, "topic") for row in tables.read("topics").to_pylist()]
    if not rows:
        return None
    rows.sort(key=lambda row: (-row["waiting"], -row["publications"], row["label"]))
    every = [with_label(row, facts, "topic") for row in tables.read("subscribers").to_pylist()]
    readers: list[Row] = [{**row, "reader": _reader(row)} for row in every if row["ended"] is None]
    readers.sort(key=lambda row: (-row["lag_seconds"], -row["lag_publications"], row["label"], row["user"]))
    behind = [row for row in readers if row["lag_publications"]]
    figures = {each: summed(rows, each) for each in ("publications", "waiting", "timed_out", "subscribers")}
    figures["behind"] = len(behind)
    return Section(_verdict(figures, behind), [_subscribers(readers), _topics(rows)], figures)


def _reader(row: Row) -> str:
    return row["user"] if row["token"] is None else f"{row['user']} ({row['token']})"


def _subscribers(readers: Sequence[Row]) -> Html:
    columns = (
        name_column("Subscriber", "reader", "USER-ID, and TOKEN where there is one"),
        name_column("Topic", "label"),
        count_column("Behind", "lag_publications", "publications to acknowledge"),
        size_column("Bytes", "lag_bytes"),
        Column(
            "For",
            lambda row: wording.duration(row["lag_seconds"]) if row["lag_publications"] else "",
            lambda row: row["lag_seconds"],
            "since the commit of the oldest of them",
            is_number=True,
        ),
        count_column("Acknowledged", "acknowledgements", "commits of the subscriber that the journal tells of"),
        duration_column("Silent for", "idle_seconds"),
        time_column("Subscribed", "subscribed"),
    )
    label = "Durable subscribers, those that are behind the longest first"
    return listing(label, columns, readers, table="subscribers")


def _topics(rows: Sequence[Row]) -> Html:
    columns = (
        name_column("Topic", "label"),
        count_column("Publications", "publications", "that were stored: somebody subscribed to the topic"),
        count_column("Wait", "waiting", "for a subscriber"),
        size_column("Bytes that wait", "waiting_bytes"),
        count_column("All have it", "processed"),
        count_column("Timed out", "timed_out"),
        count_column("Subscribers", "subscribers", "durable ones"),
        count_column("Behind", "subscribers_behind"),
        duration_column("p50", "p50_seconds", "half had every acknowledgement within this time of their commit"),
        duration_column("p99", "p99_seconds", "99 of 100"),
        duration_column("Oldest waits", "oldest_age_seconds"),
    )
    return listing("Topics, those in which most waits first", columns, rows, table="topics")


def _verdict(figures: Mapping[str, int], behind: Sequence[Row]) -> Verdict:
    stored = counted(figures["publications"], "stored publication")
    late = counted(figures["timed_out"], "publication", "publications")
    lost = f" {late} timed out before every subscriber had acknowledged." if figures["timed_out"] else ""
    tone = "warn" if figures["timed_out"] else ""
    count = figures["subscribers"]
    if not count:
        return Verdict(QUESTION, [f"No durable subscription is there; {stored}.", lost], "none", tone=tone)
    readers = counted(count, "durable subscriber")
    if not behind:
        sentence = [f"{readers} {'has' if count == 1 else 'have'} acknowledged all that was published, {stored}.", lost]
        return Verdict(QUESTION, sentence, "up to date", (readers,), tone or "good")
    far = behind[0]
    lag = counted(far["lag_publications"], "publication")
    age = duration(far["lag_seconds"])
    sentence = [
        f"{len(behind):,} of {readers} {'is' if len(behind) == 1 else 'are'} behind. The farthest is ",
        Name(far["reader"]),
        " of the topic ",
        Name(far["label"]),
        f": {lag}, the oldest committed {age} ago.",
        lost,
    ]
    detail = (f"of {count:,} behind; the farthest {age}, ", Name(far["reader"]))
    return Verdict(QUESTION, sentence, short_number(len(behind)), detail, tone)
