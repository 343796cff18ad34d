"""`python -m tests.campaign [--minutes N] [--seed N] [--round SEED]`: rounds until the time is over."""

import argparse
import sys
import time
from itertools import count

from tests.campaign.campaign import ROUND_SECONDS, Figures, play
from tests.campaign.durations import minutes


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    asked.add_argument("--minutes", type=minutes, default=10.0)
    asked.add_argument("--seed", type=int, default=0, help="of the first round; each other has the next one")
    asked.add_argument("--round", type=int, help="this round alone")
    asked.add_argument("--seconds", type=float, default=ROUND_SECONDS, help="that a round lasts, without its end")
    given = asked.parse_args()
    figures, ends = Figures(), time.monotonic() + given.minutes * 60
    try:
        for seed in count(given.seed) if given.round is None else (given.round,):
            known = len(figures.violations)
            play(seed, figures, seconds=given.seconds)
            sys.stdout.write("".join(f"{text}\n" for text in figures.violations[known:]))
            sys.stdout.write(f"round {seed} done; {len(figures.violations)} promises broken\n")
            sys.stdout.flush()
            if time.monotonic() > ends:
                break
    finally:  # whatever ends it, Ctrl-C too: what it has done and found is said
        sys.stdout.write(figures.text() + "\n")
    return 1 if figures.violations else 0


if __name__ == "__main__":
    sys.exit(main())
