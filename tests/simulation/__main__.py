"""`python -m tests.simulation`: plays worlds made from seeds, and tells what broke. `make simulate` starts it.

Exit status: 0 nothing was broken, 1 something was (or never met, with --gaps-fail), 2 wrong arguments,
130 interrupted.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

from tests.simulation.commands import Settings, play_file, replay, search, simulate
from tests.simulation.faults.all_faults import FAULTS
from tests.simulation.playing import SECONDS_MAX
from tests.simulation.scripts import NotAScript
from tests.simulation.worlds import REAL, TOYS, WORLDS
from tests.support.project import REPOSITORY

LEDGER = REPOSITORY / "docs" / "contributing" / "ledger.md"


def main(arguments: list[str] | None = None) -> int:
    """Do what the arguments say, and return the exit status."""
    parser = _parser()
    named = parser.parse_args(arguments)
    if named.fault and named.script is None and named.replay is None:
        parser.error("--fault goes with --replay or --script; --faults plays a campaign with each")
    settings = Settings(
        out=sys.stdout,
        worlds=[WORLDS[name] for name in named.world or REAL],
        processes=named.processes,
        failures=named.failures,
        table=named.table,
        ledger=LEDGER if named.write_ledger else None,
        gaps_fail=named.gaps_fail,
        seconds=named.seconds_per_run,
    )
    fault = FAULTS[named.fault] if named.fault else None
    try:
        if named.faults is not None:
            return search(settings, [FAULTS[name] for name in named.faults or FAULTS])
        if named.script is not None:
            return play_file(settings, named.script, fault)
        if named.replay is not None:
            return replay(settings, named.replay, fault)
        return simulate(settings, range(named.first, named.first + named.seeds))
    except (NotAScript, OSError) as failure:
        print(f"simulation: {failure}", file=sys.stderr)  # noqa: T201
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__, allow_abbrev=False)
    parser.add_argument("--world", action="append", choices=[*REAL, *TOYS], metavar="|".join(REAL), help="default: all")
    parser.add_argument("--seeds", type=_count, default=100, metavar="N", help="how many runs of each world (100)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of them (0)")
    parser.add_argument(
        "--processes", type=_count, default=os.cpu_count() or 1, metavar="N", help="default: one per core"
    )
    parser.add_argument("--failures", type=Path, default=Path("simulation-failures"), metavar="DIR", help="for scripts")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write what was met there, as Markdown")
    parser.add_argument("--write-ledger", action="store_true", help="write the campaign into the ledger")
    parser.add_argument("--gaps-fail", action="store_true", help="fail if a branch of recovery was never met")
    parser.add_argument("--seconds-per-run", type=float, default=SECONDS_MAX, metavar="S", help="more is a failure")
    parser.add_argument("--fault", choices=FAULTS, metavar="NAME", help="make this fault while replaying")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--replay", type=int, metavar="SEED", help="play this seed again, and print its script")
    what.add_argument("--script", type=Path, metavar="FILE", help="play the script in this file")
    what.add_argument(
        "--faults", nargs="*", choices=FAULTS, metavar="NAME", help="make faults on purpose; each must be found (all)"
    )
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell runs in its background has it ignored
    sys.exit(main())
