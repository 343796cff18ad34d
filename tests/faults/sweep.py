"""Which calls there are, which faults each of them gets, and what came of it, as a table."""

import errno
import random
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.faults.nursery import Job, Nursery
from tests.faults.places import Place, places, served
from tests.faults.shim import FULL, GONE, ONCE, SHORTENED, TORN, Fault, build
from tests.faults.verdicts import Ended, Violated, outcome
from tests.faults.visits import ARGUMENTS, handed_out, visited

PROBES = 2  # runs without a fault that say which calls there are; threads make them differ a little
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # what fails is the shim's, so that no device is needed
_NTH_MAX = 12  # of the same call in the same phase on the same kind of file


def _faults(mode: int, *codes: int) -> tuple[Fault, ...]:
    return tuple(Fault(mode=mode, code=code) for code in codes)


_EIO = _faults(ONCE, errno.EIO)
_WRITING = (
    *_faults(ONCE, errno.EIO, errno.EINTR),
    *_faults(FULL, errno.ENOSPC),
    *_faults(TORN, errno.ENOSPC),
    *_faults(GONE, errno.EIO),
    Fault(mode=SHORTENED),
)
_READING = (*_faults(ONCE, errno.EIO, errno.EINTR), *_faults(GONE, errno.EIO), Fault(mode=SHORTENED))
_SYNCING = (*_faults(ONCE, errno.EIO, errno.EINTR, errno.ENOSPC), *_faults(GONE, errno.EIO))
FAULTS: dict[str, tuple[Fault, ...]] = {
    **dict.fromkeys(("write", "pwrite64", "pwritev", "pwritev2"), _WRITING),
    **dict.fromkeys(("read", "pread64", "preadv"), _READING),
    **dict.fromkeys(("fsync", "fdatasync"), _SYNCING),
    "create": (*_faults(ONCE, errno.EIO, errno.EINTR, errno.EMFILE), *_faults(FULL, errno.ENOSPC)),
    "open": (*_faults(ONCE, errno.EIO, errno.EMFILE), *_faults(GONE, errno.EIO)),
    "fallocate": (*_faults(ONCE, errno.EIO, errno.EINTR), *_faults(FULL, errno.ENOSPC)),
    "ftruncate": _faults(ONCE, errno.EIO, errno.EINTR),
    "fcntl": _faults(ONCE, errno.EIO, errno.ENOLCK, errno.EINTR),
    "rename": (*_EIO, *_faults(FULL, errno.ENOSPC)),
    "link": (*_EIO, *_faults(FULL, errno.ENOSPC)),
    "mkdir": (*_EIO, *_faults(FULL, errno.ENOSPC)),
    "opendir": _faults(ONCE, errno.EIO, errno.EMFILE),
    **dict.fromkeys(("unlink", "close", "fstat", "stat", "statvfs"), _EIO),
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is run, on which directory."""

    name: str
    program: str
    arguments: tuple[str, ...] = ()
    place: str = ""  # the directory's kind; empty for none

    def job(self, directory: Path, place: Path, fault: Fault) -> Job:
        arguments = self.arguments
        if self.program in ("command", "server"):
            arguments = (*arguments, "--spool", str(directory))
        return Job(program=self.program, directory=str(directory), place=str(place), fault=fault, arguments=arguments)


_KINDS = ("closed", "left open", "torn", "damaged")
SCENARIOS = [
    Scenario("a day", "day", ("1",)),
    Scenario("takeover", "takeover"),
    *(Scenario(f"recover, {kind}", "command", ("recover",), kind) for kind in _KINDS),
    Scenario("send, left open", "command", ("send", "q1", "hello"), "left open"),
    Scenario("receive, closed", "command", ("receive", "q0", "--count", "4", "--json"), "closed"),
    Scenario("list, left open", "command", ("list", "q0"), "left open"),
    Scenario("verify, damaged", "command", ("verify",), "damaged"),
    Scenario("cleanup, closed", "command", ("cleanup", "--compact"), "closed"),
    Scenario("serve", "server", ARGUMENTS, "served"),
]


@dataclass(frozen=True, slots=True)
class Run:
    """One run to do."""

    scenario: Scenario
    fault: Fault

    def __str__(self) -> str:
        fault = self.fault
        return f"{self.scenario.name}: {fault.phase}: {fault.call} of {fault.kind}, call {fault.nth}: {fault}"


@dataclass(slots=True)
class Findings:
    """What the runs came to."""

    outcomes: dict[tuple[str, str, str, str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    violations: list[str] = field(default_factory=list)
    never: int = 0  # runs whose call did not come
    runs: int = 0
    chosen: int = 0  # that were to be done

    def enter(self, run: Run, word: str) -> None:
        fault = run.fault
        self.outcomes[run.scenario.name, fault.phase, fault.call, fault.kind, str(fault)][word] += 1

    def table(self) -> str:
        """Return the table: call × operation × error → outcome."""
        lines = [f"{'scenario':16} {'operation':13} {'call':10} {'file':11} {'error':15} outcome"]
        for (scenario, phase, call, kind, fault), counted in sorted(self.outcomes.items()):
            said = ", ".join(f"{word} {count}" for word, count in sorted(counted.items()))
            lines.append(f"{scenario:16} {phase:13} {call:10} {kind:11} {fault:15} {said}")
        return "\n".join(lines)


class Sweep:
    """A nursery, the directories, and the runs."""

    def __init__(self) -> None:
        self._held = ExitStack()

    def __enter__(self) -> "Sweep":
        with ExitStack() as held:
            self._under = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="faults-", dir=_MEMORY)))
            self._nursery = held.enter_context(Nursery(build(self._under)))
            (self._under / "places").mkdir()
            made = (*places(self._under / "places"), served(self._under / "places"))
            self._places = {place.name: place for place in made}
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def calls(self, scenario: Scenario) -> Counter[tuple[str, str, str]]:
        """Return how often each call comes: (phase, call, kind of file)."""
        most: Counter[tuple[str, str, str]] = Counter()
        for _ in range(PROBES):
            ended, traced, _ = self._ended(scenario, Fault())
            assert outcome(ended, self._places.get(scenario.place)) in ("goes on", "says no", "ends"), scenario
            most |= traced
            self._clear(ended)
        return most

    def runs(self, scenario: Scenario) -> Iterator[Run]:
        """Yield every fault at every call of a scenario."""
        for (phase, call, kind), count in sorted(self.calls(scenario).items()):
            for fault in FAULTS.get(call, ()):
                for nth in range(1, min(count, _NTH_MAX) + 1):
                    yield Run(scenario, replace(fault, phase=phase, call=call, kind=kind, nth=nth))

    def do(self, run: Run, findings: Findings) -> None:
        """Do one run, and enter what came of it. Its directory stays where a promise was broken."""
        findings.runs += 1
        ended, traced, place = self._ended(run.scenario, run.fault)
        fault = run.fault
        if traced[fault.phase, fault.call, fault.kind] < fault.nth:
            findings.never += 1
        try:
            findings.enter(run, outcome(ended, place))
        except Exception as violated:
            findings.enter(run, "VIOLATED")
            kind = "" if isinstance(violated, Violated) else f"{type(violated).__name__}: "
            findings.violations.append(f"{run}: {kind}{violated}")
        self._clear(ended)

    def _ended(self, scenario: Scenario, fault: Fault) -> tuple[Ended, Counter[tuple[str, str, str]], Place | None]:
        at = Path(tempfile.mkdtemp(dir=self._under))
        place = self._places.get(scenario.place)
        directory = at / "spool"
        if place is not None:
            place.copied(directory)
        job = scenario.job(directory, at, fault)
        ended = self._visited(job) if scenario.program == "server" else Ended(job, self._nursery.run(job))
        traced: Counter[tuple[str, str, str]] = Counter()
        for line in job.path("trace").read_text().splitlines():
            phase, call, kind = line.rsplit(" ", 2)
            traced[phase, call, kind] += 1
        return ended, traced, place

    def _visited(self, job: Job) -> Ended:
        """Let a client visit a server, and another one what a server finds there without a fault."""
        code, visit = visited(self._nursery, job)
        later = replace(job, place=str(job.path("later")), fault=Fault())
        Path(later.place).mkdir()
        later_code, handed = handed_out(self._nursery, later)
        return Ended(job, code, visit=visit, later=Ended(later, later_code, handed=handed))

    def _clear(self, ended: Ended) -> None:
        shutil.rmtree(ended.job.place, ignore_errors=True)


def swept(
    sweep: Sweep,
    *,
    seed: int,
    only: str = "",
    count: int | None = None,
    scenarios: Sequence[Scenario] = SCENARIOS,
    goes_on: Callable[[Findings], bool] = lambda _: True,
) -> Findings:
    """Do all runs in an order of the seed's, or so many, or those up to where `goes_on`, asked before each, says no."""
    findings = Findings()
    runs: Sequence[Run] = [
        run for scenario in _named(scenarios, only) for run in sweep.runs(scenario) if only in str(run)
    ]
    chosen = random.Random(seed).sample(runs, min(len(runs), count or len(runs)))
    findings.chosen = len(chosen)
    for run in chosen:
        if not goes_on(findings):
            break
        sweep.do(run, findings)
    return findings


def _named(scenarios: Sequence[Scenario], only: str) -> Sequence[Scenario]:
    """Return those that a text may be about."""
    return [scenario for scenario in scenarios if only.startswith(scenario.name)] or scenarios
