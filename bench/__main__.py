"""`python -m bench`: every figure against the raw limit measured beside it, as one table."""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from bench import beside_embedded, figures, lake, machine, spark, table
from bench.broker import restart, stomp, takeover, units
from bench.engine import (
    beside,
    bytecodes,
    commits,
    consumers,
    cost,
    door,
    dumping,
    growth,
    memory,
    opening,
    verbs,
    verifying,
)
from bench.measure import Row, Settings
from bench.raw import sync_seconds

REPOSITORY = Path(__file__).parent.parent
PAGE = REPOSITORY / "docs" / "contributing" / "benchmarks.md"
README = REPOSITORY / "README.md"
FIGURES = "readme"  # the README's part
Group = Callable[[Settings], Iterator[Row]]
# What is measured by name, as the page on benchmarks has it: a table for each part.
PARTS: dict[str, dict[str, Group]] = {
    "engine": {
        "one": commits.one,
        "cpu": cost.cost,
        "growth": growth.growth,
        "asyncio": commits.tasks,
        "threads": commits.threads,
        "add-many": commits.add_many,
        "reopen": opening.reopen,
        "memory": memory.memory,
        "memory-slope": memory.slopes,
        "beside": beside.beside,
        "deliver": commits.deliver,
        "roll": opening.roll,
        "start": opening.start,
        "import": opening.imports,
        "verify": verifying.verify,
        "dump": dumping.dump,
    },
    "consumer": {
        "bytecodes": bytecodes.bytecodes,
        "consumers": consumers.consumers,
        "cycle": commits.cycles,
    },
    "verbs": {"verbs": verbs.verbs},
    "door": {"door": door.door},
    "embedded": {"embedded": beside_embedded.embedded},
    "broker": {
        "broker": units.broker,
        "restart": restart.restart,
        "stomp": stomp.stomp,
        "takeover": takeover.takeover,
    },
    "spark": {"spark": spark.spark},
    "lake": {"lake": lake.lake},
}
# What else a part says of how it was measured, behind the machine.
REMARKS: dict[str, Callable[[], list[str]]] = {"embedded": beside_embedded.options}
GROUPS = {name: group for part in PARTS.values() for name, group in part.items()}


def main() -> int:
    """Measure, print, and say by the exit status whether everything was reached."""
    arguments = _arguments()
    directory = Path(tempfile.mkdtemp(prefix="oms-bench-", dir=arguments.directory))
    try:
        syncs = sync_seconds(directory)
        settings = Settings(directory=directory, method=min(syncs, key=syncs.__getitem__))
        settings = settings.quick() if arguments.quick else settings
        settings = replace(settings, rounds=arguments.rounds) if arguments.rounds else settings
        if arguments.readme:
            return _figures(settings, syncs, is_quick=arguments.quick)
        described = [
            *machine.describe(directory, syncs),
            f"Commit {figures.commit()}, measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {settings.rounds} rounds",
        ]
        groups = arguments.only or list(GROUPS)
        remarks = [line for part, told in REMARKS.items() if set(PARTS[part]) & set(groups) for line in told()]
        print("\n".join([*described, *remarks]), end="\n\n", flush=True)
        company = machine.Company()
        found = _measure(settings, groups)
        rows = [row for group in found.values() for row in group]
        if (share := company.share()) is not None:
            described.append(f"Meanwhile others used {share:.0%} of the CPUs")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print("\n".join((table.text(rows), "", described[-1])))
    if arguments.json is not None:
        document = {"machine": [*described, *remarks], "rows": [table.as_dict(row) for row in rows]}
        arguments.json.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if arguments.write:
        _write(found, described)
    return int(any(row.is_met is False for row in rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(GROUPS), help="measure these rows only (repeatable)")
    parser.add_argument("--quick", action="store_true", help="a look: few short rounds, little data")
    parser.add_argument("--rounds", type=int, help="of each row, in the place of 9 (3 with --quick)")
    parser.add_argument("--directory", type=Path, help="where to measure; the system's temporary directory otherwise")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write machine and rows there too")
    parser.add_argument(
        "--write", action="store_true", help=f"write the parts that were measured whole into {PAGE.name}"
    )
    parser.add_argument(
        "--readme",
        action="store_true",
        help="only six absolute figures, in two minutes; the README has a place for them",
    )
    return parser.parse_args()


def _measure(settings: Settings, groups: list[str]) -> dict[str, list[Row]]:
    """Return the rows of each group; each is said on the way, since all of them take many minutes."""
    found: dict[str, list[Row]] = {}
    for group in groups:
        rows = found[group] = []
        for row in GROUPS[group](settings):
            rows.append(row)
            what, bound, measured, *_ = table.cells(row)
            print(f"{what}: {measured} {bound}".rstrip(), file=sys.stderr, flush=True)
    return found


def _figures(settings: Settings, syncs: dict[str, float], *, is_quick: bool) -> int:
    """Measure the README's figures, print them, and put them into it where it has a place for them."""
    extent = figures.Extent(rounds=2, seconds=0.1, opened=20_000, weighed=20_000) if is_quick else figures.Extent()
    company = machine.Company()
    measured = []
    for figure in figures.figures(settings.directory, extent):
        figures.told(figure)
        measured.append(figure)
    lines = figures.described(settings.directory, syncs, company)
    print(figures.text(measured, lines))
    if not is_quick and table.has_place(README, FIGURES):
        table.rewrite(README, FIGURES, figures.markdown(measured, lines))
    return 0


def _write(found: dict[str, list[Row]], described: list[str]) -> None:
    """Write the tables of the parts all of whose groups were measured; the others stay, with their machine."""
    for part, groups in PARTS.items():
        if set(groups) <= set(found):
            rows = [row for group in groups for row in found[group]]
            remarks = REMARKS[part]() if part in REMARKS else []
            table.rewrite(PAGE, part, table.markdown(rows, [*described, *remarks]))


if __name__ == "__main__":
    sys.exit(main())
