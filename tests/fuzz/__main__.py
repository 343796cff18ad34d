"""`make fuzz`: every target in turn for a while, on all cores; what is new is kept, what breaks a promise is shown.

    python -m tests.fuzz [--seconds N] [--processes N] [TARGET …]

The seconds are those of one target. The target `api` is calls of the database, with seeds (`tests/api`), `callers` are
calls of the broker (`tests/callers`). Of the others new inputs that lead to new code are made few and small, and put
into tests/fuzz/corpus; one that breaks a promise is put there too, at the top, to be committed with what mends it.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha1
from itertools import repeat
from pathlib import Path
from typing import Any

from tests.api.campaign import CAMPAIGN as API
from tests.callers.campaign import CAMPAIGN as CALLERS
from tests.fuzz.arcs import smallest
from tests.fuzz.corpora import CORPORA_BYTES_MAX, corpus_file, read_corpus, write_corpus
from tests.fuzz.every import TARGETS
from tests.fuzz.target import INPUT_BYTES_MAX, MEMORY
from tests.support.attack import attack
from tests.support.project import REPOSITORY

SECONDS = 60
CALLS = {"api": API, "callers": CALLERS}  # calls made at random, played with seeds, and no inputs
MERGED_MAX = 3000  # inputs that are tried when a corpus is made small
_DONE = re.compile(r"stat::number_of_executed_units: (\d+)")
_SEEN = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")


@dataclass
class Played:
    """What came of one target."""

    name: str
    plays: int = 0
    edges: int = 0
    features: int = 0
    kept: int = 0
    lines: int = 0  # pairs of lines, of the kept inputs
    crashes: list[bytes] = field(default_factory=list)
    said: str = ""  # by the process that met the crash

    @property
    def is_broken(self) -> bool:
        """Whether a promise was, or the process ended before it could say what it has done."""
        return bool(self.crashes) or not self.plays

    def __str__(self) -> str:
        broken = "  BROKEN" if self.is_broken else ""
        return (
            f"{self.name:20} {self.plays:10,} plays {self.edges:6,} edges {self.features:7,} features "
            f"{self.kept:4} kept {self.lines:6,} pairs of lines{broken}"
        )


def play(name: str, seconds: int) -> Played:
    """Play one target in a process of its own; keep what is new."""
    target, played, kept = TARGETS[name], Played(name), read_corpus(name)
    with tempfile.TemporaryDirectory() as folder:
        inputs, crashes = Path(folder) / "inputs", Path(folder) / "crashes"
        inputs.mkdir()
        crashes.mkdir()
        for data in {*kept, *target.seeds()}:
            (inputs / sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
        command = [sys.executable, "-m", "tests.fuzz.worker", target.name, str(inputs), f"-artifact_prefix={crashes}/"]
        command += [f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}"]
        said: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(command, cwd=REPOSITORY, check=False, errors="replace", **said)
        played.said = done.stdout
        _count(played, done.stdout)
        played.crashes = [path.read_bytes() for path in sorted(crashes.iterdir())]
        found = sorted((path.read_bytes() for path in inputs.iterdir()), key=len)[:MERGED_MAX]
    if not played.plays:
        return played  # nothing was found: what is kept stays as it is
    small, played.lines = smallest(target.play, found)
    played.kept = len(small)
    write_corpus(target.name, small)
    return played


def _count(played: Played, said: str) -> None:
    if found := _DONE.search(said):
        played.plays = int(found[1])
    for seen in _SEEN.finditer(said):
        played.edges, played.features = int(seen[1]), int(seen[2])


def _show_crash(played: Played) -> Iterator[str]:
    """Yield what a person needs of a crash: where it came out, and its line for the corpus."""
    lines = played.said.splitlines()
    begins = next((place for place, line in enumerate(lines) if "Uncaught Python exception" in line), 0)
    yield from [line for line in lines[begins:] if not line.startswith(("INFO", "#", "stat::"))][:40]
    for data in played.crashes:
        yield f"to be put at the top of {corpus_file(played.name).relative_to(REPOSITORY)}, below a line that says why:"
        yield repr(data)


def _every(wanted: Sequence[str], seconds: int, processes: int) -> Iterator[Played]:
    """Yield what came of each target, in a folder for what its processes leave: they end without removing anything."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        with ProcessPoolExecutor(processes) as pool:
            try:
                yield from pool.map(play, wanted, repeat(seconds))
            except KeyboardInterrupt:
                pool.shutdown(cancel_futures=True)
                raise


def main(arguments: Sequence[str]) -> int:
    """Play what is asked for; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz every decoder of foreign bytes.")
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", choices=[*TARGETS, *CALLS, []], help=", ".join([*TARGETS, *CALLS])
    )
    parser.add_argument("--seconds", type=int, default=SECONDS, help="of each target")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="at a time")
    given = parser.parse_args(arguments)
    if min(given.seconds, given.processes) < 1:
        parser.error("at least 1 second, and 1 process")
    wanted = [name for name in given.targets if name not in CALLS] or ([] if given.targets else list(TARGETS))
    called = max([attack(CALLS[name], given.seconds) for name in CALLS if name in (given.targets or CALLS)], default=0)
    if not wanted:
        return called
    plays = broken = 0
    for played in _every(wanted, given.seconds, given.processes):
        print(played, flush=True)
        plays, broken = plays + played.plays, broken + played.is_broken
        if played.is_broken:
            print(*_show_crash(played), sep="\n", flush=True)
    size = sum(corpus_file(name).stat().st_size for name in TARGETS if corpus_file(name).exists())
    print(f"{plays:,} plays of {len(wanted)} targets, {broken} broken; the corpora have {size:,} bytes")
    return 1 if called or broken or size > CORPORA_BYTES_MAX else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("interrupted")
        sys.exit(130)
