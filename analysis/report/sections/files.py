"""The page's sections on files: what keeps the disk, how commits travel, what came twice, what is missing."""

from collections.abc import Sequence

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.markup import Html, data, joined, name, tag, visible
from oms_journal.analysis.report.drawing.plots import Chart, bars, framed, legend, lines
from oms_journal.analysis.report.drawing.scales import Tick, linear
from oms_journal.analysis.report.sections.listing import (
    Column,
    count_column,
    listing,
    name_column,
    number_column,
    size_column,
    text_column,
    time_column,
)
from oms_journal.analysis.report.sections.verdicts import markup, pin_parts, plain
from oms_journal.analysis.report.values.answers import Answers, Row

PLACES_MIN = 8  # on the drawing of the files: a few are no wall


def disk_parts(answers: Answers) -> list[Html]:
    """Return the drawing and the table of the data files."""
    disk = answers.disk
    if not disk.bars:
        return []
    largest = max(row["bytes"] for row in disk.ranked.rows) or 1

    def bar(row: Row) -> Html:
        widths = {"live": row["live_bytes"] / largest, "dead": row["dead_bytes"] / largest}
        pieces = (tag("span", class_=kind, style=f"width:{width:.2%}") for kind, width in widths.items() if width)
        said = f"{wording.size(row['live_bytes'])} needed of {wording.size(row['bytes'])}"
        return tag("div", *pieces, class_="bar", role="img", aria_label=said, title=said)

    columns = (
        Column("File", lambda row: row["label"], lambda row: row["sequence"], is_number=True),
        Column("Needed and dead", bar, _live_share, is_wide=True),
        Column("Kept by", _kept_by, lambda row: plain(_keeper(row))),
        Column("Needed", lambda row: wording.share(row["live_bytes"], row["bytes"]), _live_share, is_number=True),
        size_column("Size", "bytes"),
        count_column("Keeps", "pins_files", "later files that hold nothing needed and stay because of this one"),
        size_column("Can be freed", "freed_by_compact", "what oms cleanup --compact would free of this file"),
    )
    table = listing("Files, those that keep or waste the most first", columns, disk.ranked, table="retention")
    return [_files(answers), table]


def _live_share(row: Row) -> float:
    return float(row["live_bytes"] / row["bytes"]) if row["bytes"] else 0.0


def _keeper(row: Row) -> list[str]:
    if row["pinned_by"] is not None:
        return pin_parts(row)
    return ["it is being written" if row["active"] else "an older file" if row["is_kept"] else "nothing: it can go"]


def _kept_by(row: Row) -> Html:
    return tag("span", markup(_keeper(row)), class_="words")


def _files(answers: Answers) -> Html:
    """Return all files as bars of needed and dead bytes; those that keep others carry a mark."""
    files = answers.disk.bars
    live, dead = [row["live_bytes"] for row in files], [row["dead_bytes"] for row in files]
    axis = linear(max(row["bytes"] for row in files), wording.short_size, binary=True)
    drawing = bars([live, dead], ["live", "dead"], [bool(row["pins_files"]) for row in files], axis, PLACES_MIN)
    said = {
        "heads": [f"file {row['label']}" for row in files],
        "places": max(len(files), PLACES_MIN),
        "rows": [
            {"label": "needed", "colour": "live", "texts": [wording.size(count) for count in live]},
            {"label": "dead", "colour": "dead", "texts": [wording.size(count) for count in dead]},
            {"label": "kept by", "colour": "", "texts": [visible(plain(_keeper(row))) for row in files]},
            {"label": "keeps", "colour": "pins", "texts": [_keeps(row) for row in files]},
        ],
    }
    unit = "needed and dead bytes, in the order of writing"
    if answers.disk.together > 1:
        unit += f"; a bar stands for {answers.disk.together} files"
    return tag(
        "figure",
        tag("figcaption", "Data files ", tag("span", unit, class_="unit")),
        legend([("needed", "live"), ("dead", "dead"), ("keeps later files", "pins")]),
        framed(drawing, axis.ticks, _file_ticks(files), f"{len(files)} data files, {unit}"),
        data(said),
        class_="chart",
    )


def _keeps(row: Row) -> str:
    return wording.counted(row["pins_files"], "later file") if row["pins_files"] else ""


def _file_ticks(files: Sequence[Row]) -> list[Tick]:
    every = -(-len(files) // 10)
    width = 1 / max(len(files), PLACES_MIN)
    return [
        Tick((place + 0.5) * width, str(files[place]["sequence"]), is_minor=number % 2 == 1)
        for number, place in enumerate(range(0, len(files), every))
    ]


def commits_parts(answers: Answers) -> list[Html]:
    """Return the drawings of commits and writes over time."""
    commits = answers.commits
    charts = (
        ("Operations a commit", "mean and largest", commits.sizes, wording.number, wording.short_number),
        ("Commits a write", "mean and largest", commits.shares, wording.number, wording.short_number),
        ("Commits and writes", "a second", commits.rates, wording.number, wording.short_number),
        ("Pauses", "between two writes", commits.gaps, wording.duration, wording.short_duration),
    )
    pieces = answers.traffic.buckets
    drawn = (
        lines(Chart(title=title, unit=unit, buckets=pieces, series=series, text=text, axis_text=axis_text))
        for title, unit, series, text, axis_text in charts
        if series
    )
    return [tag("div", *drawn, class_="figures")]


def twice_parts(answers: Answers) -> list[Html]:
    """Return the table of what came twice."""
    columns = (
        text_column("Same", "kind"),
        name_column("Queue", "label"),
        name_column("Identifier or hash", "value"),
        count_column("Messages", "messages"),
        text_column("Payloads", "payloads", "whether an identifier came with the same payloads again"),
        number_column("First message", "first_message"),
        time_column("Added from", "first_time"),
        time_column("To", "last_time"),
    )
    return [listing("What came most often first", columns, answers.twice.ranked, table="duplicates")]


def lost_parts(answers: Answers) -> list[Html]:
    """Return what archives hold and the files do not, and what nobody can read."""
    queues = (
        name_column("Queue", "label"),
        text_column("Operation", "operation"),
        text_column("Effect", "effect"),
        count_column("Operations", "operations"),
        size_column("Bytes", "bytes"),
        time_column("From", "first_time"),
        time_column("To", "last_time"),
    )
    ranges = (
        name_column("File", "file"),
        text_column("Is", "kind"),
        Column("From byte", lambda row: f"{row['start']:,}", lambda row: row["start"], is_number=True),
        size_column("Bytes", "bytes"),
        Column("Why", lambda row: tag("span", row["reason"] or "", class_="words"), lambda row: row["reason"]),
        Column("Archive", lambda row: name(row["archive"]), lambda row: row["archive"]),
    )
    archives, late = answers.lost.archives, answers.lost.late_archives
    told = "No archive tells of a loss." if late else "There are no archives."
    if archives:
        told = f"{wording.counted(archives, 'archive was', 'archives were')} read."
    parts = [
        tag("p", told, class_="quiet"),
        listing("Operations that only archives hold", queues, answers.lost.operations, table="losses_by_queue"),
        listing("Ranges that are not as they were written", ranges, answers.lost.ranges, table="damage"),
    ]
    return [joined(part) for part in parts]


def copy_parts(answers: Answers) -> list[Html]:
    """Return the table of how the copy differs."""
    assert answers.compared is not None
    columns = (
        text_column("What", "kind"),
        number_column("Message", "message"),
        name_column("Queue or key", "label"),
        text_column("Difference", "difference"),
        text_column("In", "facts"),
    )
    return [listing("Differences", columns, answers.compared.ranked, table="comparison")]
