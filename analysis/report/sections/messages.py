"""The page's sections on messages: the question, the answer, the drawings, the tables."""

from collections.abc import Callable, Sequence

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.markup import Html, tag
from oms_journal.analysis.report.drawing.plots import Chart, Series, lines, stack
from oms_journal.analysis.report.drawing.scales import Durations
from oms_journal.analysis.report.sections.files import commits_parts, copy_parts, disk_parts, lost_parts, twice_parts
from oms_journal.analysis.report.sections.listing import (
    count_column,
    duration_column,
    listing,
    name_column,
    number_column,
)
from oms_journal.analysis.report.sections.spreads import Spread, spread_column
from oms_journal.analysis.report.sections.verdicts import Verdict, markup
from oms_journal.analysis.report.values.answers import Answers, Row

SHORTEST = 1e-6  # seconds: the journal's times are no finer


def section(verdict: Verdict, answers: Answers) -> Html:
    """Return one section of the page."""
    return framed_section(verdict, _PARTS[verdict.question.anchor](answers))


def framed_section(verdict: Verdict, parts: Sequence[Html]) -> Html:
    """Return a section: the question, the answer, and the parts."""
    question = verdict.question
    title = f"{question.anchor}-title"
    return tag(
        "section",
        tag("h2", question.text, id=title),
        tag("p", markup(verdict.sentence), class_=f"answer {verdict.tone}".rstrip()),
        *parts,
        id=question.anchor,
        aria_labelledby=title,
    )


def _stuck(answers: Answers) -> list[Html]:
    columns = (
        name_column("Queue", "label"),
        count_column("Undelivered", "undelivered", "added, and neither delivered nor deleted"),
        duration_column("Oldest waits", "oldest_age_seconds", "since it was added first"),
        number_column("Its number", "oldest"),
        count_column("Added", "added"),
        count_column("Delivered", "delivered"),
        count_column("Deleted", "deleted", "removed undelivered: expired, cancelled, purged"),
    )
    table = listing("Queues, the fullest first", columns, answers.waiting.fullest, table="lifecycle")
    if not answers.traffic.backlog:
        return [table]
    chart = Chart(
        title="Undelivered messages",
        unit="by queue, at the end of each interval",
        buckets=answers.traffic.buckets,
        series=answers.traffic.backlog,
        text=wording.number,
        axis_text=wording.short_number,
        whole=True,
        total="all queues",
    )
    return [stack(chart), table]


def _traffic(answers: Answers) -> list[Html]:
    traffic = answers.traffic

    def chart(title: str, unit: str, series: Sequence[Series], *, binary: bool = False) -> Chart:
        return Chart(
            title=title,
            unit=unit,
            buckets=traffic.buckets,
            series=series,
            text=_bytes_rate if binary else _rate,
            axis_text=wording.short_size if binary else wording.short_number,
            binary=binary,
            total="all",
        )

    charts = [
        (lines, chart("In and out", "messages a second", traffic.directions)),
        (stack, chart("Operations", "a second, by queue", traffic.operations)),
        (stack, chart("Payload added", "bytes a second, by queue", traffic.bytes, binary=True)),
    ]
    return [draw(drawn) for draw, drawn in charts if drawn.series]


def _rate(value: float) -> str:
    return f"{wording.number(value)}/s"


def _bytes_rate(value: float) -> str:
    return f"{wording.size(value)}/s"


def _delays(answers: Answers) -> list[Html]:
    delays = answers.delays
    if not delays.slowest.rows:
        return []
    edges = [(low, high) for bins in delays.bins.values() for low, high, _ in bins]
    axis = Durations(max(min(low for low, _ in edges), SHORTEST), max(max(high for _, high in edges), 10 * SHORTEST))

    def spread(row: Row) -> Spread:
        half, most = wording.duration(row["p50_seconds"]), wording.duration(row["p99_seconds"])
        marks = [row[field] for field in ("p50_seconds", "p90_seconds", "p99_seconds")]
        said = f"half within {half}, 99 of 100 within {most}"
        return Spread(bins=delays.bins[row["label"]], marks=marks, said=said)

    columns = (
        name_column("Queue", "label"),
        spread_column("From ADD to DELIVER", axis, spread, lambda row: row["p50_seconds"]),
        duration_column("p50", "p50_seconds", "half of the messages were delivered within this time"),
        duration_column("p90", "p90_seconds", "90 of 100"),
        duration_column("p99", "p99_seconds", "99 of 100"),
        duration_column("Longest", "max_seconds"),
        count_column("Delivered", "delivered"),
    )
    note = "How long the messages of each queue took, on a logarithmic scale. The lines stand at p50, p90 and p99."
    table = listing("Queues, the slowest first", columns, delays.slowest, table="lifecycle")
    return [tag("p", note, class_="quiet"), table]


_PARTS: dict[str, Callable[[Answers], list[Html]]] = {
    "stuck": _stuck,
    "traffic": _traffic,
    "delays": _delays,
    "disk": disk_parts,
    "commits": commits_parts,
    "twice": twice_parts,
    "lost": lost_parts,
    "copy": copy_parts,
}
