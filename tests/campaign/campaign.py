"""Rounds of load and nemeses on a store of its own each, and the figures of them all."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign.brokers import Brokers
from tests.campaign.checks import left_in, promised_nothing, tried, violations
from tests.campaign.clients import ANSWERS
from tests.campaign.nemeses import OF_KIND, Nemeses, Nemesis
from tests.campaign.records import read
from tests.support.project import PYTHONPATH

ROUND_SECONDS = 45.0
ROOM_BYTES = 24 << 20  # of the file system that gets full
DESCRIPTORS_MAX = 200
QUIET_SECONDS = 3.0  # without a line in any record: everything was received
DRAIN_SECONDS = 60.0
KINDS = ("alone", *OF_KIND)  # of rounds, by turns
OWN_TIMES = 4  # what a kind of round alone can do, it does so much more often than anything else
SENDERS = ("send", "library", "produce", "pair", "publish", "move-in")
ASKERS = ("ask", "ask")
RECEIVERS = ("receive", "listen", "receive-pairs", "receive-moved", "move", "move", "follow", "follow", "answer")


@dataclass(slots=True)
class Figures:
    """What a campaign has done and found."""

    rounds: int = 0
    events: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    violations: list[str] = field(default_factory=list)

    def text(self) -> str:
        events = ", ".join(f"{name} {count}" for name, count in sorted(self.events.items()))
        notes = self.notes
        return "\n".join(
            [
                *self.violations,
                f"{self.rounds} rounds; brokers started {self.starts} times",
                f"what happened: {events}",
                f"{notes['send']} sent, {notes['receipt']} receipts, {notes['got']} received, {notes['acked']} "
                f"acknowledged with a receipt",
                f"{notes['in vain']} tried while the directory was gone; {notes['waiting answers']} answers left",
                f"{len(self.violations)} promises broken",
            ]
        )


class Clients:
    """The clients of a round, as processes."""

    def __init__(self, directory: Path, ports: list[int], seed: str, *, pause: float = 0.05) -> None:
        self._directory = directory
        self._ports = ports
        self._seed = seed
        self._pause = pause
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._roles: dict[str, str] = {}
        self._lives = 0

    def begin(self) -> None:
        for number, role in enumerate((*SENDERS, *RECEIVERS, *ASKERS)):
            self._roles[f"{role}-{number}"] = role
        for name in self._roles:
            self._start(name)

    def _start(self, name: str) -> None:
        self._lives += 1
        record = self._directory / f"{name}.record"
        words = (self._roles[name], name, str(record), f"{self._seed}/{self._lives}", *map(str, self._ports))
        with (self._directory / "clients.log").open("ab") as log:
            environment = os.environ | {"PYTHONPATH": PYTHONPATH, "CAMPAIGN_PAUSE": str(self._pause)}
            command = [sys.executable, "-m", "tests.campaign.clients", *words]
            self._children[name] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def kill_one(self, chance: random.Random) -> None:
        name = chance.choice(sorted(self._children))
        self._children[name].kill()
        self._children[name].wait()
        self._start(name)

    def stop(self, roles: tuple[str, ...]) -> None:
        """Ask those of these roles to stop, and wait for it."""
        names = [name for name in self._children if self._roles[name] in roles]
        for name in names:
            self._children[name].send_signal(signal.SIGTERM)
        for name in names:
            child = self._children.pop(name)
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def hush(self) -> None:
        """Let those who ask ask no more, and wait for the answers."""
        for name, child in self._children.items():
            if self._roles[name] in ASKERS:
                child.send_signal(signal.SIGUSR1)

    def end(self) -> None:
        self.stop((*SENDERS, *ASKERS, *RECEIVERS))

    def wait_quiet(self) -> None:
        """Return when nobody has written anything for a while, or after a long one."""
        ends = time.monotonic() + DRAIN_SECONDS
        size, since = -1, time.monotonic()
        while time.monotonic() < ends and time.monotonic() - since < QUIET_SECONDS:
            now = sum(path.stat().st_size for path in self._directory.glob("*.record"))
            if now != size:
                size, since = now, time.monotonic()
            time.sleep(0.2)

    def faults(self) -> list[str]:
        path = self._directory / "clients.log"
        text = path.read_text("utf-8", "replace") if path.exists() else ""
        return [f"a client: {text[-1500:]}"] if "Traceback" in text else []


@contextlib.contextmanager
def file_system(directory: Path) -> Iterator[bool]:
    """Mount a small file system of its own; False where this machine does not let us."""
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES}", "tmpfs", str(directory)]
    try:
        is_mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        is_mounted = False
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(directory)], check=False)


def stepped_clock(directory: Path) -> tuple[Path | None, dict[str, str]]:
    """Return the file that says how far the brokers' calendar is off, and their environment; nothing without gcc."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None, {}
    library, file = directory / "clock.so", directory / "clock"
    source = Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", library, source, "-ldl"], check=True)
    file.write_bytes(bytes(8))
    return file, {"LD_PRELOAD": str(library), "CLOCK_STEP_FILE": str(file)}


def play(seed: int, figures: Figures, *, seconds: float = ROUND_SECONDS) -> None:
    """Play a round, and enter what came of it. Where a promise was broken, everything it left is kept, and named."""
    chance = random.Random(seed)
    directory = Path(tempfile.mkdtemp(prefix=f"campaign-{seed}-"))
    kind = KINDS[seed % len(KINDS)]
    with file_system(directory / "room") as is_mounted:
        if kind == "full" and not is_mounted:
            figures.events["no small file system can be mounted here: its round is one of limited files"] += 1
            kind = "limited"
        room = directory / "room" if kind == "full" else None
        clock, variables = stepped_clock(directory)
        brokers = Brokers(directory, (room or directory) / "spool", 2 if kind == "two" else 1, variables)
        brokers.descriptors_max = DESCRIPTORS_MAX if kind == "crowded" else 0
        clients = Clients(directory, brokers.stomp, str(seed))
        nemeses = Nemeses(brokers, room, clock, lambda: clients.kill_one(chance))
        found: list[str] = []
        try:
            brokers.wait_standard()
            clients.begin()
            _let_happen(nemeses.possible(kind), OF_KIND.get(kind, ""), chance, figures, seconds)
            _let_be_received(brokers, clients)
        except (TimeoutError, subprocess.TimeoutExpired) as late:
            found.append(f"{type(late).__name__}: {late}")
        finally:
            clients.end()
            brokers.end()
        records, left = read(directory), left_in(brokers.spool)
        found += brokers.faults + brokers.complaints() + clients.faults()
        found += violations(records, left) + promised_nothing(records, nemeses.gone)
        figures.notes += records.counts
        figures.notes["in vain"] += len(tried(records, nemeses.gone))
        figures.notes["waiting answers"] += len(left.bodies[ANSWERS])
        if found and room is not None:
            shutil.copytree(brokers.spool, directory / "spool-kept")
    figures.starts += brokers.starts
    figures.rounds += 1
    figures.violations += [f"seed {seed} ({kind}): {text}" for text in found]
    if found:
        figures.violations.append(f"seed {seed} ({kind}): everything is in {directory}")
    else:
        shutil.rmtree(directory)


def _let_happen(
    possible: Mapping[str, Nemesis], own: str, chance: random.Random, figures: Figures, seconds: float
) -> None:
    """Let one thing happen after another, for so long."""
    names = [name for name in sorted(possible) for _ in range(OWN_TIMES if name == own else 1)]
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        time.sleep(chance.uniform(0.3, 4.0))
        name = chance.choice(names)
        figures.events[name] += 1
        possible[name](chance)


def _let_be_received(brokers: Brokers, clients: Clients) -> None:
    """Let everything be received that was sent."""
    brokers.wait_standard()
    clients.hush()
    clients.stop(SENDERS)
    clients.wait_quiet()
    clients.stop((*ASKERS, *RECEIVERS))
