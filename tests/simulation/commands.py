"""What the command does: a campaign of many seeds, one seed again, a script from a file, faults made on purpose."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from tests.simulation.campaign import Answer, Crew, Play, Search, Shorten, Task
from tests.simulation.coverage import Share, gaps, section, tables, write_section
from tests.simulation.faults.all_faults import Fault
from tests.simulation.playing import SECONDS_MAX, Failure, Played, fingerprint, play_script
from tests.simulation.scripts import NotAScript, parsed, text_of, world_of
from tests.simulation.world import Script, Seen, World

COMMAND = ".venv/bin/python -m tests.simulation"
KINDS_MAX = 5  # different failures after which a campaign ends: more say no more
INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What all of it depends on."""

    out: TextIO
    worlds: Sequence[World]
    processes: int = 1
    failures: Path = Path("simulation-failures")
    table: Path | None = None
    ledger: Path | None = None  # the document whose section about the last campaign is written anew
    gaps_fail: bool = False
    seconds: float = SECONDS_MAX  # for one run
    seconds_between_lines: float = 10.0

    def say(self, line: str) -> None:
        print(line, file=self.out, flush=True)


@dataclass(slots=True)
class _Tally:
    """What a campaign has done so far."""

    wanted: int
    shares: dict[str, Share]  # of each world
    start: float = field(default_factory=time.monotonic)
    said: float = 0.0
    kinds: set[tuple[str, str]] = field(default_factory=set)  # world and kind of failure
    is_enough: bool = False  # so many kinds were met that it ends here

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.start

    @property
    def runs(self) -> int:
        return sum(share.runs for share in self.shares.values())

    @property
    def failed(self) -> int:
        return sum(share.failed for share in self.shares.values())

    def line(self) -> str:
        seen = [share.seen for share in self.shares.values()]
        return (
            f"{self.runs:,} of {self.wanted:,} runs in {self.seconds:.0f} s, "
            f"{self.runs / max(self.seconds, 1e-9):.1f}/s; "
            f"{sum(each.steps for each in seen):,} steps, {sum(each.changes for each in seen):,} disk changes, "
            f"{sum(len(each.crashes) for each in seen):,} distinct crash points; {self.failed:,} failed"
        )


def simulate(settings: Settings, seeds: range) -> int:
    """Play the seeds in every world; print each new failure with a short script, and what was met."""
    tally = _Tally(len(seeds) * len(settings.worlds), {world.name: Share() for world in settings.worlds})
    tasks = (Play(world.name, seed, settings.seconds) for seed in seeds for world in settings.worlds)
    interrupted = False
    try:
        with Crew(min(settings.processes, tally.wanted)) as crew:
            for answer in crew.answers(_until_enough(tasks, tally)):
                if answer is not None:
                    _enter(settings, crew, tally, answer)
                if tally.runs and time.monotonic() - tally.said >= settings.seconds_between_lines:
                    tally.said = time.monotonic()
                    settings.say(tally.line())
    except KeyboardInterrupt:
        interrupted = True
        settings.say("interrupted")
    if tally.is_enough:
        settings.say(f"{len(tally.kinds)} kinds of failure are enough: the other runs are left out")
    settings.say(tally.line())
    missing = _show_met(settings, tally.shares)
    if interrupted:
        return INTERRUPTED
    if settings.ledger is not None:
        for name, share in tally.shares.items():
            write_section(settings.ledger, name, section(name, share, tally.seconds, settings.processes))
    return int(tally.failed > 0 or (settings.gaps_fail and bool(missing)))


def _until_enough(tasks: Iterator[Play], tally: _Tally) -> Iterator[Task]:
    for task in tasks:
        if len(tally.kinds) >= KINDS_MAX:
            tally.is_enough = True
            return
        yield task


def _enter(settings: Settings, crew: Crew, tally: _Tally, answer: Answer) -> None:
    task = answer.task
    if isinstance(task, Shorten):
        _show_shrunk(settings, task, answer)
        return
    share = tally.shares[task.world]
    share.runs += answer.runs
    share.seen.add(answer.seen)
    if answer.failure is None:
        return
    share.failed += 1
    if (task.world, answer.failure.kind) in tally.kinds:
        settings.say(f"{task.world}, seed {task.seed}, too: {answer.failure.promise}")
        return
    tally.kinds.add((task.world, answer.failure.kind))
    settings.say(f"\n{task.world}, seed {task.seed}: {answer.failure.promise}")
    _show_found(settings, answer.failure)
    settings.say(f"  play it again: {COMMAND} --world {task.world} --replay {task.seed}\n")
    if answer.failure.kind not in ("hangs", "dies"):  # these take their time, or the process that shrinks
        crew.do_next(Shorten(task.world, task.seed, answer.failure.kind))


def _show_shrunk(settings: Settings, task: Shorten, answer: Answer) -> None:
    world = next(world for world in settings.worlds if world.name == task.world)
    if answer.shrunk is None:
        settings.say(f"{task.world}, seed {task.seed}: shrinking it came to no end")
        return
    script, plays = answer.shrunk.script, answer.shrunk.plays
    settings.failures.mkdir(parents=True, exist_ok=True)
    path = settings.failures / f"{task.world}-{task.seed}.script"
    path.write_text(text_of(world, script, [f"found at seed {task.seed}: {task.kind}"]), encoding="utf-8")
    ending = "" if answer.shrunk.is_minimal else "; the time was over"
    settings.say(f"\n{task.world}, seed {task.seed}: {len(script)} steps are enough ({plays} plays{ending})")
    for step in script:
        settings.say(f"    {step!r}")
    settings.say(f"  play it again: {COMMAND} --script {path}\n")


def _show_found(settings: Settings, failure: Failure) -> None:
    for line in failure.found.splitlines():
        settings.say(f"    {line}")


def _show_met(settings: Settings, shares: Mapping[str, Share]) -> list[str]:
    seen = Seen()
    for share in shares.values():
        seen.add(share.seen)
    lines = list(tables(seen))
    settings.say("")
    for line in lines:
        settings.say(line)
    missing = gaps(seen)
    settings.say(f"\nbranches of recovery that were never met: {', '.join(missing) or 'none'}")
    if settings.table is not None:
        settings.table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return missing


def replay(settings: Settings, seed: int, fault: Fault | None) -> int:
    """Play one seed, in this process: print its script, and what was broken."""
    status = 0
    for world in settings.worlds:
        status |= _play_shown(settings, world, world.script(seed), fault)
    return status


def play_file(settings: Settings, path: Path, fault: Fault | None) -> int:
    """Play the script in the file, in this process."""
    from tests.simulation.worlds import WORLDS

    text = path.read_text(encoding="utf-8")
    if world_of(text) not in WORLDS:
        raise NotAScript(f"there is no world {world_of(text)!r}")
    world = WORLDS[world_of(text)]
    return _play_shown(settings, world, parsed(world, text), fault)


def _play_shown(settings: Settings, world: World, script: Script, fault: Fault | None) -> int:
    for step in script:
        settings.say(f"    {step!r}")
    played: Played
    with fault.made() if fault is not None else contextlib.nullcontext():
        played = play_script(world, script, seconds=settings.seconds)
    crashes = len(played.seen.crashes)
    settings.say(
        f"{played.seen.steps:,} steps, {crashes:,} distinct crash points; fingerprint {fingerprint(played.seen)}"
    )
    if played.failure is None:
        settings.say("nothing was broken")
        return 0
    settings.say(f"\n{world.name}: {played.failure.promise}")
    _show_found(settings, played.failure)
    return 1


def found_by(answer: Answer, budget: int) -> str:
    """Return in which run a fault was found, its budget, and by what; of one that was not, what kept it from it."""
    if answer.failure is not None:
        return f"{answer.runs} | {budget} | {answer.failure.promise}"
    slips = f"{len(answer.slips)} runs ended by {answer.slips[-1]}" if answer.slips else ""
    return f"never | {budget} | {slips}"


def search(settings: Settings, faults: Sequence[Fault]) -> int:
    """Make each fault and play until it is found; print where, and fail if one was not found in its budget."""
    rows: dict[str, str] = {}
    missed = 0
    try:
        with Crew(min(settings.processes, len(faults))) as crew:
            for answer in crew.answers(Search(fault.world, fault.name) for fault in faults):
                if answer is None:
                    continue
                assert isinstance(answer.task, Search)
                name = answer.task.fault
                missed += answer.failure is None
                budget = next(fault.budget for fault in faults if fault.name == name)
                rows[name] = f"| {name} | {answer.task.world} | {found_by(answer, budget)} |"
                settings.say(rows[name])
    except KeyboardInterrupt:
        return INTERRUPTED
    lines = ["| fault | world | found in run | budget | by |", "| --- | --- | --- | --- | --- |"]
    lines += [rows[fault.name] for fault in faults]
    settings.say("\n" + "\n".join(lines) + f"\n\n{len(faults) - missed} of {len(faults)} were found")
    if settings.table is not None:
        settings.table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return int(missed > 0)
