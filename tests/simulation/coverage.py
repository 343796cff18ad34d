"""What the runs have met, as tables: which fault × which operation × which branch of recovery."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from recovery.decide import TABLE
from tests.simulation.world import Seen

ROWS = tuple(dict.fromkeys(row.decision.row for row in TABLE))


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
