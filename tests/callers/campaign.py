"""Campaigns: many scripts of one seed, as Hypothesis makes them, until one of them breaks a promise."""

import time
from contextlib import nullcontext
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import FlakyFailure

from tests.api.campaign import quiet
from tests.callers.faults import Fault
from tests.callers.play import play
from tests.callers.steps import Step, scripts

EXAMPLES = 50  # scripts of one seed
SHRINKING_SECONDS = 120.0  # that a failing script is made smaller


@dataclass(slots=True)
class Found:
    """What came of a seed."""

    face: str
    seed: int
    plays: int = 0
    failure: BaseException | None = None


def seed_played(
    face: str, number: int, *, examples: int = EXAMPLES, until: float = float("inf"), fault: Fault | None = None
) -> Found:
    """Play the scripts of a seed; with the smallest one that fails, where one does.

    With a deliberate fault only a script counts that fails with it and not without it, and it is not made smaller.
    """
    found = Found(face, number)
    phases = [Phase.generate, *([] if fault else [Phase.shrink])]
    ends = [until]

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=phases,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(scripts(face))
    def played(script: tuple[Step, ...]) -> None:
        if found.failure is not None and (fault is not None or script != smallest[-1]):
            if fault is not None:
                raise found.failure
            if time.monotonic() > ends[0]:
                return
        elif time.monotonic() > ends[0] and found.failure is None:
            return
        found.plays += found.failure is None
        try:
            with fault.made() if fault else nullcontext():
                play(script, face=face)
        except Exception as failure:
            if fault is not None and not passes(script, face):
                return
            if found.failure is None:
                ends[0] = time.monotonic() + SHRINKING_SECONDS
            failure.add_note(f"the script: {script!r}")
            found.failure = failure
            smallest.append(script)
            raise

    smallest: list[tuple[Step, ...]] = []
    with quiet():
        try:
            played()
        except FlakyFailure:
            assert found.failure is not None
            found.failure.add_note("It did not fail again: threads, or an interrupt elsewhere.")
        except Exception as failure:
            found.failure = found.failure or failure
    return found


def passes(script: tuple[Step, ...], face: str) -> bool:
    try:
        play(script, face=face)
    except Exception:
        return False
    return True


def search(fault: Fault) -> Found | None:
    """Return what found a deliberate fault; None where nothing did within its budget."""
    found = Found(fault.face, 0)
    for number in range(fault.budget):
        played = seed_played(fault.face, number, fault=fault)
        found.plays += played.plays
        if played.failure is not None:
            found.failure = played.failure
            return found
    return None
