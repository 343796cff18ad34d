"""The report as one page that opens from disk: no request leaves it, and no name in it can do anything.

Its content security policy allows the page's own script, by its hash, and nothing else: should a name ever get
through as markup, the browser still would not run it or load anything for it.
"""

from collections.abc import Sequence
from importlib.resources import files

from oms_journal.analysis.report import wording
from oms_journal.analysis.report.drawing.markup import Html, joined, name, script_with_hash, tag, unbroken
from oms_journal.analysis.report.extras import Told
from oms_journal.analysis.report.facts import Facts, Scope
from oms_journal.analysis.report.sections.section import Section, framed_section
from oms_journal.analysis.report.sections.verdicts import Verdict, markup
from oms_journal.analysis.report.tables import Row

PATHS_SHOWN = 6
IDLE_SECONDS = 600.0  # without an operation before the report: from then on it is said


def page(facts: Facts, found: Sequence[Section], extras: Sequence[Told] = ()) -> str:
    """Return the page as HTML, to be written as UTF-8; callers' own questions stand first."""
    sources = files("oms_journal.analysis.report")
    script, script_hash = script_with_hash(sources.joinpath("page.js").read_text(encoding="utf-8"))
    style = Html(f"<style>{sources.joinpath('page.css').read_text(encoding='utf-8')}</style>")
    policy = (
        f"default-src 'none'; script-src {script_hash}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )
    answers = [*(told.verdict for told in extras), *(section.verdict for section in found)]
    sections = [framed_section(told.verdict, told.parts) for told in extras]
    sections += [section.html() for section in found]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"Journal report, {wording.moment(facts.scope.as_of)}"),
        style,
    )
    body = tag(
        "body",
        _header(facts),
        tag("main", _tiles(answers), *sections),
        _footer(facts),
        script,
    )
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en") + "\n"


def _header(facts: Facts) -> Html:
    scope = facts.scope
    counts = [wording.counted(scope.operations, "operation"), wording.counted(scope.queues, "queue")]
    counts += [wording.counted(scope.files, "data file"), wording.size(scope.bytes)]
    if scope.databases > 1:
        counts.append(wording.counted(scope.databases, "database"))
    lines = [joined("Read: ", _paths(scope.paths)), unbroken(" · ".join(counts))]
    if scope.first_time is not None and scope.last_time is not None:
        first, last = wording.moment(scope.first_time), wording.moment(scope.last_time)
        idle = (scope.as_of - scope.last_time).total_seconds()
        since = f", {wording.duration(idle)} after the last operation" if idle > IDLE_SECONDS else ""
        ages = f"; ages as of {wording.moment(scope.as_of)}{since}"
        lines.append(joined("From ", tag("b", first), " to ", tag("b", last), ages))
    if scope.compared_with:
        lines.insert(1, joined("Compared with: ", _paths(scope.compared_with)))
    if chosen := _chosen(scope):
        lines.append(joined("Only ", *chosen, ". Disk and lost are about all there is, whatever was chosen."))
    return tag(
        "header",
        tag("h1", "Journal report"),
        *(tag("p", line, class_="quiet") for line in lines),
    )


def _paths(paths: Sequence[str]) -> Html:
    shown = [part for path in paths[:PATHS_SHOWN] for part in (name(path), ", ")][:-1]
    return joined(*shown, f" and {len(paths) - PATHS_SHOWN:,} more" if len(paths) > PATHS_SHOWN else "")


def _chosen(scope: Scope) -> list[str]:
    parts: list[str] = []
    if scope.since is not None:
        parts += [f"since {wording.moment(scope.since)}"]
    if scope.until is not None:
        parts += [f"{', ' if parts else ''}until {wording.moment(scope.until)}"]
    for place, queue in enumerate(scope.queues_wanted):
        parts += [", " if parts else "", "queue " if not place else "", name(queue)]
    return parts


def _tiles(found: list[Verdict]) -> Html:
    return tag("ul", *map(_tile, found), class_="tiles", style=f"--tiles:{len(found) if len(found) < 8 else 4}")


def _tile(verdict: Verdict) -> Html:
    return tag(
        "li",
        tag(
            "a",
            tag("span", verdict.question.short, class_="what"),
            tag("span", verdict.value, class_="value"),
            tag("span", markup(verdict.detail), class_="more"),
            href=f"#{verdict.question.anchor}",
        ),
        class_=verdict.tone or None,
    )


def _footer(facts: Facts) -> Html:
    tables = [piece for row in facts.written for piece in _table(row)]
    scope = facts.scope
    made = f"Made on {wording.moment(scope.made_at)} in {wording.duration(scope.seconds)}. All times are UTC."
    return tag(
        "footer",
        tag("h2", "The tables behind this page"),
        tag("p", "They lie beside it as folders of Parquet files, for Spark, DuckDB, Polars or pandas."),
        tag("dl", *tables),
        tag("p", made),
    )


def _table(row: Row) -> list[Html]:
    return [tag("dt", tag("code", row["name"])), tag("dd", f"{row['meaning']} ({wording.counted(row['rows'], 'row')})")]
