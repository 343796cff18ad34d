"""`python -m tests.campaign.soak [--minutes N]`: load without end, and what the broker takes of the machine meanwhile.

Memory, descriptors, threads, and files of the store are looked at at even times. The first third is the broker's to
grow into. Of the rest the line that fits best must not rise by more than each bound over the whole of it: what leaks
rises all the time, what is only busy goes up and down.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from oms_journal import DatabaseView
from tests.campaign.brokers import Brokers
from tests.campaign.campaign import SENDERS, Clients
from tests.campaign.checks import left_in, violations
from tests.campaign.durations import minutes
from tests.campaign.records import read

LOOKS = 60
PAUSE_SECONDS = 1.0  # between two windows of a sender: receivers keep up, or what waits would be what grows
RISE_MAX = {"memory_kib": 6144.0, "descriptors": 8.0, "threads": 2.0, "files": 12.0, "waiting": 200.0}


@dataclass(frozen=True, slots=True)
class Look:
    """What a broker took at one moment."""

    seconds: float
    memory_kib: int
    descriptors: int
    threads: int
    files: int
    waiting: int  # messages that nobody has acknowledged yet


def look(number: int, spool: Path, began: float) -> Look:
    """Return what the process takes now."""
    proc = Path(f"/proc/{number}")
    said = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    return Look(
        seconds=round(time.monotonic() - began, 1),
        memory_kib=int(said["VmRSS"].split()[0]),
        descriptors=len(list((proc / "fd").iterdir())),
        threads=int(said["Threads"]),
        files=len(list(spool.iterdir())),
        waiting=_waiting(spool),
    )


def _waiting(spool: Path) -> int:
    with DatabaseView.open(spool) as view:
        return sum(1 for _ in view.numbers())


def rise(times: Sequence[float], values: Sequence[float]) -> float:
    """Return how far the line that fits best rises from the first time to the last."""
    count = len(times)
    middle_time, middle = sum(times) / count, sum(values) / count
    spread = sum((at - middle_time) ** 2 for at in times)
    slope = sum((at - middle_time) * (value - middle) for at, value in zip(times, values, strict=True)) / spread
    return slope * (times[-1] - times[0])


def rises(looks: Sequence[Look]) -> dict[str, float]:
    """Return how far each figure has risen, the first third left out."""
    steady = looks[len(looks) // 3 :]
    times = [one.seconds for one in steady]
    return {name: rise(times, [float(getattr(one, name)) for one in steady]) for name in RISE_MAX}


def soak(minutes: float) -> tuple[list[Look], list[str]]:
    """Load a broker for so long; return the looks, and what was wrong."""
    with tempfile.TemporaryDirectory(prefix="soak-") as under:
        directory = Path(under)
        brokers = Brokers(directory, directory / "spool", 1, {}, cleanup="1S")
        clients = Clients(directory, brokers.stomp, "soak", pause=PAUSE_SECONDS)
        brokers.wait_standard()
        child = brokers.children[0]
        assert child is not None
        clients.begin()
        began, looks = time.monotonic(), list[Look]()
        try:
            for turn in range(LOOKS):
                time.sleep(max(0.0, began + (turn + 1) * minutes * 60 / LOOKS - time.monotonic()))
                looks.append(look(child.pid, brokers.spool, began))
                _tell(*astuple(looks[-1]))
            clients.hush()
            clients.stop(SENDERS)
            clients.wait_quiet()
        finally:
            clients.end()
            brokers.end()
        found = brokers.faults + brokers.complaints() + violations(read(directory), left_in(brokers.spool))
    for name, risen in rises(looks).items():
        _tell("rise", name, round(risen, 1), "at most", RISE_MAX[name])
        if risen > RISE_MAX[name]:
            found.append(f"{name} rises by {risen:.1f} in {minutes * 2 / 3:.1f} minutes")
    return looks, found


def _tell(*words: object) -> None:
    sys.stdout.write("".join(f"{word!s:>12}" for word in words) + "\n")
    sys.stdout.flush()


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.campaign.soak", description=__doc__)
    asked.add_argument("--minutes", type=minutes, default=10.0)
    given = asked.parse_args()
    _tell(*(field.name for field in fields(Look)))
    _, found = soak(given.minutes)
    sys.stdout.write("\n".join([*found, f"{len(found)} bounds or promises broken"]) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
