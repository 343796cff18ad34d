"""What the runs have met, as tables: which fault × which operation × which branch of recovery."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recovery.decide import TABLE
from tests.simulation.world import Seen

ROWS = tuple(dict.fromkeys(row.decision.row for row in TABLE))
BEGIN, END = "<!-- simulate:begin -->", "<!-- simulate:end -->"
LISTED_MAX = 6  # in one cell of the document: the frequent ones; `make simulate` prints all


@dataclass(slots=True)
class Share:
    """What one world had of a campaign."""

    runs: int = 0
    failed: int = 0
    seen: Seen = field(default_factory=Seen)


def gaps(seen: Seen) -> list[str]:
    """Return the rows of recovery's table that no run has met."""
    branches = {branch for _, _, branch in seen.met}
    return [row for row in ROWS if row not in branches]


def tables(seen: Seen) -> Iterator[str]:
    """Yield the tables' lines, as Markdown."""
    branches: Counter[str] = Counter()
    faults_of: defaultdict[str, Counter[str]] = defaultdict(Counter)
    operations_of: defaultdict[str, Counter[str]] = defaultdict(Counter)
    branches_of: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for (fault, operation, branch), count in seen.met.items():
        branches[branch] += count
        faults_of[branch][fault] += count
        operations_of[branch][operation] += count
        branches_of[fault, operation][branch] += count
    others = sorted(branches.keys() - set(ROWS))
    yield from _table(
        ("branch of recovery", "met", "after", "during"),
        (
            (row, _figure(branches[row]), _listed(faults_of[row]), _listed(operations_of[row]))
            for row in [*ROWS, *others]
        ),
    )
    yield ""
    yield from _table(
        ("fault", "operation", "met", "branches of recovery"),
        (
            (fault, operation, _figure(sum(found.values())), _listed(found))
            for (fault, operation), found in sorted(branches_of.items())
        ),
    )
    yield ""
    yield from _table(
        ("promise", "held against a run, times"),
        ((name, _figure(count)) for name, count in sorted(seen.checked.items())),
    )


def section(shares: Mapping[str, Share], seconds: float, processes: int) -> list[str]:
    """Return what DURABILITY.md says of a campaign, as Markdown."""
    found = [
        f"The last campaign, {seconds / 60:.0f} minutes on {processes} processors:",
        "",
        *_plain(
            ("world", "runs", "steps", "disk changes", "distinct crash points", "broken"),
            (
                (
                    name,
                    *(f"{each:,}" for each in (share.runs, share.seen.steps, share.seen.changes)),
                    *(f"{each:,}" for each in (len(share.seen.crashes), share.failed)),
                )
                for name, share in shares.items()
            ),
        ),
        "",
        "Each row of recovery's table, with the faults that came before it most often and what they hit:",
        "",
    ]
    after, during = _marginals(shares)
    found += _plain(
        ("branch of recovery", "met", "after", "during"),
        ((row, _figure(after[row].total()), _frequent(after[row]), _frequent(during[row])) for row in ROWS),
    )
    found += ["", "How often each promise was held against a run:", ""]
    promises = sorted({name for share in shares.values() for name in share.seen.checked})
    found += _plain(
        ("promise", *shares),
        (
            (name, *(f"{share.seen.checked[name]:,}" if share.seen.checked[name] else "" for share in shares.values()))
            for name in promises
        ),
    )
    return found


def write_section(document: Path, lines: Sequence[str]) -> None:
    """Replace what stands between the markers of the document; ValueError where these are not there."""
    text = document.read_text(encoding="utf-8")
    head, begin, rest = text.partition(f"{BEGIN}\n")
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{document} has no {BEGIN} and {END}")
    document.write_text(head + begin + "\n".join(lines) + "\n" + end + tail, encoding="utf-8")


def _marginals(shares: Mapping[str, Share]) -> tuple[defaultdict[str, Counter[str]], defaultdict[str, Counter[str]]]:
    """Return after which faults, and during which operations, each branch was met."""
    after: defaultdict[str, Counter[str]] = defaultdict(Counter)
    during: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for share in shares.values():
        for (fault, operation, branch), count in share.seen.met.items():
            after[branch][fault] += count
            during[branch][operation] += count
    return after, during


def _plain(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _frequent(counts: Counter[str]) -> str:
    rest = len(counts) - LISTED_MAX
    shown = _listed(Counter(dict(sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:LISTED_MAX])))
    return f"{shown}, and {rest} more" if rest > 0 else shown


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a Markdown table whose columns also line up on a screen, the last one apart."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head) - 1)]
    lines.insert(1, ["-" * width for width in widths] + ["---"])
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, [*widths, 0], strict=True)]
        yield f"| {' | '.join(cells)} |"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(
        f"{name} {_figure(count)}" for name, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    )


def _figure(count: int) -> str:
    return f"{count:,}" if count else "never"
