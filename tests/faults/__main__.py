"""`python -m tests.faults [--minutes N] [--seed N] [--only TEXT]`: the sweep; exits 1 for a broken promise."""

import argparse
import logging
import signal
import sys
import time

from tests.campaign.durations import minutes
from tests.faults.shim import why_not
from tests.faults.sweep import Findings, Sweep, swept

_TELLS_SECONDS = 10.0


class _Course:
    """Says how far the sweep is, and what is broken as soon as it is; ends it with the time, and at Ctrl-C."""

    def __init__(self, minutes: float) -> None:
        self.began = self._told = time.monotonic()
        self.is_interrupted = False
        self._ends = self.began + minutes * 60
        self._broken = 0
        signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, *_: object) -> None:
        self.is_interrupted = True

    def goes_on(self, findings: Findings) -> bool:
        now = time.monotonic()
        lines = findings.violations[self._broken :]
        self._broken = len(findings.violations)
        if lines or now > self._told + _TELLS_SECONDS:
            self._told = now
            lines.append(self.so_far(findings))
            _say(lines)
        return now < self._ends and not self.is_interrupted

    def so_far(self, findings: Findings) -> str:
        seconds = time.monotonic() - self.began
        broken = len(findings.violations)
        return f"{findings.runs:,} of {findings.chosen:,} runs, {broken} promises broken, {seconds:,.0f} s"


def _say(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    asked.add_argument("--minutes", type=minutes, default=60.0)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--only", default="", help="runs whose line has this text")
    given = asked.parse_args()
    if reason := why_not():
        _say([f"not here: {reason}"])
        return 0
    logging.getLogger().addHandler(logging.NullHandler())  # what the checks read is damaged on purpose
    course = _Course(given.minutes)
    with Sweep() as sweep:
        _say(["looking which calls there are"])
        findings = swept(sweep, seed=given.seed, only=given.only, goes_on=course.goes_on)
    _say([findings.table(), "", *findings.violations, ""])
    _say(
        [
            *["interrupted"][: course.is_interrupted],
            f"{course.so_far(findings)}; in {findings.never} the call did not come",
        ]
    )
    if not findings.chosen:
        _say([f"no run's line has the text {given.only!r}"])
        return 2
    return 1 if findings.violations else 130 if course.is_interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
