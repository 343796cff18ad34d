"""What the runs have met, as tables: which fault × which operation × which branch of recovery."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from oms_journal.journal.reserve import NO_SPACE
from oms_journal.recovery.decision import TABLE
from tests.simulation.world import Seen
from tests.support.disks.faulty_disk import Fault, Kind

ROWS = tuple(dict.fromkeys(row.decision.row for row in TABLE))
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


def section(name: str, share: Share, seconds: float, processes: int) -> list[str]:
    """Return what the ledger says of a world's part in a campaign, as Markdown."""
    seen = share.seen
    after: defaultdict[str, Counter[str]] = defaultdict(Counter)
    during: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for (fault, operation, branch), count in seen.met.items():
        after[branch][fault] += count
        during[branch][operation] += count
    return [
        f'World "{name}": {share.runs:,} runs, {seen.steps:,} steps, {seen.changes:,} disk changes, '
        f"{len(seen.crashes):,} distinct crash points, {share.failed:,} broken, in a campaign of "
        f"{seconds / 60:.0f} minutes on {processes} processors.",
        "",
        *_plain(
            ("branch of recovery", "met", "after", "during"),
            (
                (row, _figure(after[row].total()), _frequent(after[row]), _frequent(during[row]))
                for row in [*ROWS, *sorted(after.keys() - set(ROWS))]
            ),
        ),
        "",
        *_plain(
            ("promise", "held against a run, times"),
            ((promise, _figure(count)) for promise, count in sorted(seen.checked.items())),
        ),
    ]


def write_section(document: Path, name: str, lines: Sequence[str]) -> None:
    """Replace what stands between the world's markers in the document; ValueError where these are not there."""
    begin, end = (f"<!-- simulate {name}:{edge} -->\n" for edge in ("begin", "end"))
    text = document.read_text(encoding="utf-8")
    head, first, rest = text.partition(begin)
    _, last, tail = rest.partition(end)
    if not first or not last:
        raise ValueError(f"{document} has no {begin.strip()} and {end.strip()}")
    document.write_text(head + first + "\n".join(lines) + "\n" + last + tail, encoding="utf-8")


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


def fault_name(fault: Fault) -> str:
    """Return what a fault is called in the tables."""
    if fault.kind is Kind.MISDIRECTED:
        return "misdirected write"
    if fault.kind is Kind.SLOW:
        return "slow call"
    if fault.code in NO_SPACE:
        return "full disk"
    if fault.kind is Kind.SHORT:
        return "short write"
    verb = {"write_durably": "write", "sync_directory": "sync of a directory"}.get(fault.verb, fault.verb)
    return f"failed {verb}"
