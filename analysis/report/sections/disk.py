"""Why the disk does not get free: what keeps each data file."""

from collections.abc import Mapping, Sequence

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.markup import Html, data, tag, visible
from oms_journal.analysis.report.drawing.plots import BARS_MAX, bars, framed, legend
from oms_journal.analysis.report.drawing.scales import Tick, linear
from oms_journal.analysis.report.facts import Facts
from oms_journal.analysis.report.sections.listing import ROWS_MAX, Column, count_column, listing, size_column
from oms_journal.analysis.report.sections.section import Section
from oms_journal.analysis.report.sections.verdicts import Code, Name, Question, Verdict, markup, plain
from oms_journal.analysis.report.tables import Row, Tables
from oms_journal.analysis.report.wording import counted, duration, share, size

QUESTION = Question("disk", "Why does the disk not get free?", "Disk")
PLACES_MIN = 8  # on the drawing of the files: a few are no wall
FREED_MUCH = 0.5  # share of the disk that compaction would free, from which on it is worth a warning


def disk(tables: Tables, facts: Facts) -> Section:
    """Return the section."""
    rows = tables.read("retention").sort_by([("database", "ascending"), ("sequence", "ascending")]).to_pylist()
    keeping: set[str] = set()
    for row in rows:
        row["label"] = f"{row['sequence']} ({row['database'][:8]})" if facts.has_several else str(row["sequence"])
        row["is_kept"] = row["database"] in keeping
        if row["needed"]:
            keeping.add(row["database"])
    bars = put_together(rows, BARS_MAX)
    figures = {
        "together": -(-len(rows) // max(len(bars), 1)),
        "bytes": sum(row["bytes"] for row in rows),
        "live_bytes": sum(row["live_bytes"] for row in rows),
        "freed": sum(row["freed_by_compact"] for row in rows),
    }
    return Section(_verdict(rows, figures), [_files(bars, figures["together"]), _table(rows)] if rows else [], figures)


def _table(rows: Sequence[Row]) -> Html:
    ranked = sorted(
        rows, key=lambda row: (-row["pins_files"], -row["freed_by_compact"], -row["dead_bytes"], row["sequence"])
    )
    shown = ranked[:ROWS_MAX]
    largest = max(row["bytes"] for row in shown) or 1

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
    label = "Files, those that keep or waste the most first"
    return listing(label, columns, shown, table="retention", count=len(ranked))


def _live_share(row: Row) -> float:
    return float(row["live_bytes"] / row["bytes"]) if row["bytes"] else 0.0


def _keeper(row: Row) -> list[str]:
    if row["pinned_by"] is not None:
        return pin_parts(row)
    return ["it is being written" if row["active"] else "an older file" if row["is_kept"] else "nothing: it can go"]


def _kept_by(row: Row) -> Html:
    return tag("span", markup(_keeper(row)), class_="words")


def _files(files: Sequence[Row], together: int) -> Html:
    """Return all files as bars of needed and dead bytes; those that keep others carry a mark."""
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
    if together > 1:
        unit += f"; a bar stands for {together} files"
    return tag(
        "figure",
        tag("figcaption", "Data files ", tag("span", unit, class_="unit")),
        legend([("needed", "live"), ("dead", "dead"), ("keeps later files", "pins")]),
        framed(drawing, axis.ticks, _file_ticks(files), f"{len(files)} data files, {unit}"),
        data(said),
        class_="chart",
    )


def put_together(rows: Sequence[Row], count_max: int) -> list[Row]:
    """Return at most so many rows, neighbouring files as one where there are more."""
    together = max(-(-len(rows) // count_max), 1)
    return [_together(rows[at : at + together]) for at in range(0, len(rows), together)]


def _together(rows: Sequence[Row]) -> Row:
    """Return neighbouring files as one: what keeps it is what keeps most later files."""
    first = max(rows, key=lambda row: (row["pins_files"], row["needed"]))
    sums = {name: sum(row[name] for row in rows) for name in ("bytes", "live_bytes", "dead_bytes")}
    label = rows[0]["label"] if len(rows) == 1 else f"{rows[0]['label']} to {rows[-1]['label']}"
    return {**first, **sums, "label": label, "sequence": rows[0]["sequence"]}


def _keeps(row: Row) -> str:
    return wording.counted(row["pins_files"], "later file") if row["pins_files"] else ""


def _file_ticks(files: Sequence[Row]) -> list[Tick]:
    every = -(-len(files) // 10)
    width = 1 / max(len(files), PLACES_MIN)
    return [
        Tick((place + 0.5) * width, str(files[place]["sequence"]), is_minor=number % 2 == 1)
        for number, place in enumerate(range(0, len(files), every))
    ]


def _verdict(rows: Sequence[Row], figures: Mapping[str, int]) -> Verdict:
    if not rows:
        return Verdict(QUESTION, ["There are no data files."], "empty")
    wanted = share(figures["live_bytes"], figures["bytes"])
    sentence = [f"{size(figures['bytes'])} in {counted(len(rows), 'file')}, of which {wanted} is still needed. "]
    pin = max(rows, key=lambda row: row["pins_files"])
    if pin["pins_files"]:
        kept = counted(pin["pins_files"], "later file that holds", "later files that hold")
        sentence += [
            f"File {pin['sequence']} keeps {kept} nothing needed, because of ",
            *pin_parts(pin),
            ". ",
        ]
    elif len(rows) > 1:
        sentence.append("No file is kept by an older one. ")
    if figures["freed"]:
        sentence += [Code("oms cleanup --compact"), f" would free {size(figures['freed'])}."]
    detail = f"{wanted} needed" + (f"; {size(figures['freed'])} can be freed" if figures["freed"] else "")
    tone = "warn" if figures["freed"] > FREED_MUCH * figures["bytes"] else ""
    return Verdict(QUESTION, sentence, size(figures["bytes"]), (detail,), tone)


def pin_parts(row: Row) -> list[str]:
    """Return in words what keeps a file: its oldest undelivered message, or a key."""
    age = "" if row["pin_age_seconds"] is None else f", {duration(row['pin_age_seconds'])} old"
    if row["pinned_by"] == "key":
        return ["the key ", Name(row["pin_key"]), age]
    return [f"message {row['pin_message']} of ", Name(row["pin_queue"]), age]
