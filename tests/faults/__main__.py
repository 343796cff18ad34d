"""`python -m tests.faults [--minutes N] [--seed N] [--only TEXT]`: the sweep; exits 1 for a broken promise."""

import argparse
import sys
import time

from tests.faults.shim import why_not
from tests.faults.sweep import Sweep, swept


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    asked.add_argument("--minutes", type=float, default=60.0)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--only", default="", help="runs whose line has this text")
    given = asked.parse_args()
    if reason := why_not():
        sys.stdout.write(f"not here: {reason}\n")
        return 0
    began = time.monotonic()
    with Sweep() as sweep:
        findings = swept(sweep, seed=given.seed, seconds=given.minutes * 60, only=given.only)
    lines = [findings.table(), "", *findings.violations, ""]
    lines.append(
        f"{findings.runs} of {findings.chosen} runs, in {findings.never} of them the call did not come; "
        f"{len(findings.violations)} promises broken; {time.monotonic() - began:.0f} s"
    )
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if findings.violations else 0


if __name__ == "__main__":
    sys.exit(main())
