"""Attacks: scripts of calls that seeds make, played until one breaks a promise; and the command that does it.

    python -m tests.api | tests.callers  [--seconds N] [--seed S] [--face FACE] [--faults [NAME …]]

A seed is so many scripts, the same each time on the same state of the program: a failing one is told of at once, with
the command that plays its seed again, and then made smaller for a while. With --faults each deliberate fault is made in
its turn, and must be found: by the sweeps that it names, or by scripts.
"""

import argparse
import logging
import secrets
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Flaky
from hypothesis.strategies import SearchStrategy

SEEDS_MAX = 1 << 32
SHRINKING_SECONDS = 60.0  # that a failing script is made smaller
FAILING_MAX = 3  # scripts of one sweep that are played again without the fault


@dataclass(frozen=True, slots=True)
class Fault:
    """One deliberate fault."""

    name: str
    text: str  # what is wrong, as a sentence
    face: str  # on which it is looked for
    budget: int  # seeds within which it must be found
    swept: Sequence[str]  # sweeps that are played first
    near: Sequence[str]  # files of tests that are near to it, beside those of its room: `make test-faults`
    made: Callable[[], AbstractContextManager[None]]  # the product has the fault inside of this block


def entering(
    faults: dict[str, Fault], face: str, budget: int, swept: Sequence[str], near: Sequence[str] = ()
) -> Callable[[Callable[[], Iterator[None]]], None]:
    """Return what enters a function into a table of faults: a block that changes the product."""

    def enter(made: Callable[[], Iterator[None]]) -> None:
        name = made.__name__.replace("_", "-")
        assert made.__doc__ is not None and name not in faults
        faults[name] = Fault(name, made.__doc__.strip(), face, budget, swept, near, contextmanager(made))

    return enter


class OutOfTime(Exception):
    """A script was left before its end; it has broken no promise so far."""


IsOver = Callable[[], bool]  # whether a script is to be left: OutOfTime
Swept = Iterator[tuple[Any, Exception | None]]  # scripts, each with what it failed with


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What is attacked, and how."""

    name: str  # of the package that is run
    of: str  # whose calls they are
    faces: Sequence[str]
    scripts: Callable[[str], SearchStrategy[Any]]  # of a face
    play: Callable[[Any, str, IsOver], None]  # a script, on a face; raises where a promise does not hold
    sweep: Callable[[str, str], Swept]  # by name, on a face
    faults: Mapping[str, Fault]
    scripts_of_seed: int


@dataclass(slots=True)
class Found:
    """What came of a seed."""

    face: str
    seed: int
    plays: int = 0
    failure: BaseException | None = None


class _Playing:
    """The scripts of a seed on their way, and what a failing one leaves to be done."""

    def __init__(self, campaign: Campaign, found: Found, fault: Fault | None, until: float) -> None:
        self._campaign, self.found, self._fault = campaign, found, fault
        self._end = until
        self._smallest: Any = None

    def __call__(self, script: Any) -> None:
        found = self.found
        if found.failure is not None and self._fault is not None:
            raise found.failure
        is_told = found.failure is not None and script == self._smallest  # it is asked for once more, to be sure
        if self._is_over() and not is_told:
            return
        found.plays += found.failure is None
        try:
            with self._fault.made() if self._fault else nullcontext():
                self._campaign.play(script, found.face, (lambda: False) if is_told else self._is_over)
        except OutOfTime:
            return
        except Exception as failure:
            if self._fault is None or _passes(self._campaign, script, found.face):
                self._failed(script, failure)
                raise

    def _failed(self, script: Any, failure: Exception) -> None:
        is_first, self.found.failure, self._smallest = self.found.failure is None, failure, script
        failure.add_note(f"the script: {script!r}")
        if is_first and self._fault is None:
            _say("".join(traceback.format_exception(failure)))
            _say(_again(self._campaign, self.found))
            _say(f"It is made smaller, for {SHRINKING_SECONDS:.0f} s at most.")
            self._end = time.monotonic() + SHRINKING_SECONDS

    def _is_over(self) -> bool:
        return time.monotonic() > self._end


def seed_played(
    campaign: Campaign,
    face: str,
    number: int,
    *,
    examples: int = 0,
    until: float = float("inf"),
    fault: Fault | None = None,
) -> Found:
    """Play the scripts of a seed; with the smallest one that fails, where one does.

    With a deliberate fault only a script counts that fails with it and not without it, and it is not made smaller.
    """
    playing = _Playing(campaign, Found(face, number), fault, until)

    @seed(number)
    @settings(
        max_examples=examples or campaign.scripts_of_seed,
        deadline=None,
        database=None,
        derandomize=False,
        phases=[Phase.generate, *([] if fault else [Phase.shrink])],
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(campaign.scripts(face))
    def played(script: Any) -> None:
        playing(script)

    found = playing.found
    with _quiet():
        try:
            played()
        except Flaky:
            assert found.failure is not None
            found.failure.add_note("It did not fail again: threads, or an interrupt elsewhere.")
        except Exception as failure:
            found.failure = found.failure or failure
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Let the program log nothing: what is damaged on purpose is told of by whoever finds it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def search(campaign: Campaign, fault: Fault) -> Found | None:
    """Return what found a deliberate fault, None where nothing did within its budget: the sweeps, and then scripts."""
    found = Found(fault.face, 0)
    for script, failure in _swept_with(campaign, fault, found):
        if _passes(campaign, script, fault.face):
            found.failure = failure
            return found
    for number in range(fault.budget):
        played = seed_played(campaign, fault.face, number, fault=fault)
        found.plays += played.plays
        if played.failure is not None:
            found.failure = played.failure
            return found
    return None


def _swept_with(campaign: Campaign, fault: Fault, found: Found) -> Iterator[tuple[Any, Exception]]:
    """Play the sweeps that a fault names, with the fault made; yield the first scripts that fail, and with what."""
    for name in fault.swept:
        failing: list[tuple[Any, Exception]] = []
        before = found.plays
        with _quiet(), fault.made():
            for script, failure in campaign.sweep(name, fault.face):
                found.plays += 1
                if failure is not None:
                    failing.append((script, failure))
                if len(failing) == FAILING_MAX:
                    break
        if found.plays == before:
            raise ValueError(f"the sweep {name!r} of {fault.name!r} plays nothing as {fault.face}")
        yield from failing


def _passes(campaign: Campaign, script: Any, face: str) -> bool:
    try:
        campaign.play(script, face, lambda: False)
    except Exception:
        return False
    return True


# The command.


def main(campaign: Campaign, arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; 1 where a promise was broken, or a deliberate fault was not found."""
    faults, faces = campaign.faults, campaign.faces
    parser = argparse.ArgumentParser(prog=f"python -m tests.{campaign.name}", description=f"Attack {campaign.of}.")
    parser.add_argument("--seconds", type=float, default=60, metavar="N", help="how long, with fresh seeds (60)")
    parser.add_argument("--seed", type=int, metavar="S", help="play this seed only")
    parser.add_argument("--face", choices=faces, help="to be attacked (all)")
    parser.add_argument("--faults", nargs="*", choices=faults, metavar="NAME", help="make faults on purpose (all)")
    said = parser.parse_args(arguments)
    if said.faults is not None:
        return _search_all(campaign, said.faults or list(faults))
    chosen = [said.face] if said.face else faces
    if said.seed is not None:
        found = [seed_played(campaign, face, said.seed) for face in chosen]
        status = max(_told(campaign, each) for each in found)
        if not status:
            _say(_well(campaign, sum(each.plays for each in found), 1))
        return status
    return attack(campaign, said.seconds, chosen)


def attack(campaign: Campaign, seconds: float, faces: Sequence[str] = ()) -> int:
    """Play fresh seeds for so long, or until one breaks a promise; return the exit status."""
    end, plays, seeds = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        number = secrets.randbelow(SEEDS_MAX)
        for face in faces or campaign.faces:
            found = seed_played(campaign, face, number, until=end)
            plays, seeds = plays + found.plays, seeds + 1
            if _told(campaign, found):
                return 1
    _say(_well(campaign, plays, seeds))
    return 0


def _well(campaign: Campaign, plays: int, seeds: int) -> str:
    return f"{campaign.name}: {plays:,} scripts of {seeds:,} {'seed' if seeds == 1 else 'seeds'}, none broke a promise"


def _told(campaign: Campaign, found: Found) -> int:
    """Say what a seed has found, and return the exit status."""
    if found.failure is None:
        return 0
    _say("".join(traceback.format_exception(found.failure)))
    _say(_again(campaign, found))
    return 1


def _again(campaign: Campaign, found: Found) -> str:
    return (
        f"{campaign.name}: seed {found.seed} broke a promise after {found.plays} scripts of "
        f"{campaign.scripts_of_seed}; to play it again:\n"
        f"    .venv/bin/python -m tests.{campaign.name} --face {found.face!r} --seed {found.seed}"
    )


def _search_all(campaign: Campaign, names: Sequence[str]) -> int:
    missed = 0
    for name in names:
        fault = campaign.faults[name]
        found = search(campaign, fault)
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
