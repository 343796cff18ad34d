"""`python -m tests.callers`: plays scripts with fresh seeds for a while; `make fuzz TARGET=callers` starts it.

    python -m tests.callers [--seconds N] [--seed S] [--face FACE] [--faults [NAME …]]

A seed is so many scripts, the same each time on the same state of the program: a failing one is printed with the
command that plays it again, and with the smallest script that fails. With --faults each deliberate fault is made in its
turn, and must be found.
"""

import argparse
import secrets
import sys
import time
import traceback
from collections.abc import Sequence

from tests.callers.campaign import EXAMPLES, Found, search, seed_played
from tests.callers.faces import FACES
from tests.callers.faults import FAULTS

SEEDS_MAX = 1 << 32


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; 1 where a promise was broken, or a deliberate fault was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.callers", description="Attack the callers of the broker.")
    parser.add_argument("--seconds", type=float, default=60, metavar="N", help="how long, with fresh seeds (60)")
    parser.add_argument("--seed", type=int, metavar="S", help="play this seed only")
    parser.add_argument("--face", choices=FACES, help="of the broker (all)")
    parser.add_argument("--faults", nargs="*", choices=FAULTS, metavar="NAME", help="make faults on purpose (all)")
    given = parser.parse_args(arguments)
    faces = [given.face] if given.face else list(FACES)
    if given.faults is not None:
        return _faults(given.faults or list(FAULTS))
    if given.seed is not None:
        return max(_told(seed_played(face, given.seed)) for face in faces)
    return attack(given.seconds, faces)


def attack(seconds: float, faces: Sequence[str] = FACES) -> int:
    """Play fresh seeds for so long, or until one breaks a promise; return the exit status."""
    end, plays, seeds = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        seed = secrets.randbelow(SEEDS_MAX)
        for face in faces:
            found = seed_played(face, seed, until=end)
            plays, seeds = plays + found.plays, seeds + 1
            if _told(found):
                return 1
    _say(f"callers: {plays:,} scripts of {seeds:,} seeds, none broke a promise")
    return 0


def _told(found: Found) -> int:
    """Say what a seed has found, and return the exit status."""
    if found.failure is None:
        return 0
    _say("".join(traceback.format_exception(found.failure)))
    _say(f"callers: seed {found.seed} broke a promise after {found.plays} scripts of {EXAMPLES}; to play it again:")
    _say(f"    .venv/bin/python -m tests.callers --face {found.face!r} --seed {found.seed}")
    return 1


def _faults(names: Sequence[str]) -> int:
    missed = 0
    for name in names:
        fault = FAULTS[name]
        found = search(fault)
        missed += found is None
        text = "NOT FOUND" if found is None else f"found after {found.plays:4} scripts: {_line(found.failure)}"
        _say(f"{name:45} {fault.text}\n{'':45} {text}")
    _say(f"{len(names)} faults made on purpose, {missed} not found")
    return 1 if missed else 0


def _line(failure: BaseException | None) -> str:
    text = str(failure).partition("\n")[0]
    return f"{type(failure).__name__}: {text[:150]}"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
