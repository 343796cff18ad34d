"""Campaigns: many scripts of one seed, as Hypothesis makes them, until one of them breaks a promise."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyFailure

from database import AsyncMessageDatabase, CommitBlock, MessageDatabase
from tests.api.faults import Fault
from tests.api.play import play
from tests.api.surface import Step, methods, scripts
from tests.api.sweep import BEGIN, SWEPT, swept, swept_places

FACES: Mapping[str, type] = {"threads": MessageDatabase, "tasks": AsyncMessageDatabase}
OWNERS_OF: Mapping[str, tuple[type, ...]] = {
    "threads": (MessageDatabase, CommitBlock),
    "tasks": (AsyncMessageDatabase,),
}
FAILING_MAX = 3  # scripts of one sweep that are played again without the fault
EXAMPLES = 100  # scripts of one seed


@dataclass(slots=True)
class Found:
    """What came of a seed."""

    face: str
    seed: int
    plays: int = 0
    failure: BaseException | None = None


class _Over(BaseException):
    """The time is over."""


def seed_played(
    face: str,
    number: int,
    *,
    examples: int = EXAMPLES,
    until: float = float("inf"),
    fault: Fault | None = None,
) -> Found:
    """Play the scripts of a seed; with the smallest one that fails, where one does.

    With a deliberate fault only a script counts that fails with it and not without it, and it is not made smaller.
    """
    found = Found(face, number)
    phases = [Phase.generate, *([] if fault else [Phase.shrink])]

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        phases=phases,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(scripts(FACES[face]), st.booleans())
    def played(script: tuple[Step, ...], is_restored: bool) -> None:
        if time.monotonic() > until and found.failure is None:
            return
        if fault is not None and found.failure is not None:
            raise found.failure
        found.plays += found.failure is None
        try:
            with fault.made() if fault else nullcontext():
                play(script, is_async=face == "tasks", is_restored=is_restored)
        except Exception as failure:
            if fault is not None and not _passes(script, is_async=face == "tasks", is_restored=is_restored):
                return
            failure.add_note(f"the script, restored={is_restored}: {script!r}")
            found.failure = failure
            raise

    with quiet():
        try:
            played()
        except FlakyFailure:
            assert found.failure is not None
            found.failure.add_note("It did not fail again: threads, or an interrupt elsewhere.")
        except Exception as failure:
            found.failure = failure
    return found


@contextmanager
def quiet() -> Iterator[None]:
    """Let the database log nothing: what is damaged on purpose is told of by whoever finds it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def search(fault: Fault) -> Found | None:
    """Return what found a deliberate fault, None where nothing did within its budget: the sweep, and then scripts."""
    found = Found(fault.face, 0)
    for script, failure in _swept_with(fault, found):
        if _passes(script, is_async=fault.face == "tasks", is_restored=len(script) > len(BEGIN)):
            found.failure = failure
            return found
    for number in range(fault.budget):
        played = seed_played(fault.face, number, fault=fault)
        found.plays += played.plays
        if played.failure is not None:
            found.failure = played.failure
            return found
    return None


def _swept_with(fault: Fault, found: Found) -> Iterator[tuple[tuple[Step, ...], Exception]]:
    """Play the sweeps that a fault names, with the fault made; yield the first scripts that fail, and with what."""
    for owner in OWNERS_OF[fault.face]:
        for method in [name for name in methods(owner) if name in fault.swept]:
            scripts = (((*BEGIN, step), failure) for step, failure in swept(owner, method))
            yield from _first_failing(fault, scripts, found)
    for what in [name for name in SWEPT if f"interrupted {name}" in fault.swept]:
        yield from _first_failing(fault, swept_places(what), found)


def _first_failing(
    fault: Fault, played: Iterator[tuple[tuple[Step, ...], Exception | None]], found: Found
) -> list[tuple[tuple[Step, ...], Exception]]:
    failing: list[tuple[tuple[Step, ...], Exception]] = []
    with quiet(), fault.made():
        for script, failure in played:
            found.plays += 1
            if failure is not None:
                failing.append((script, failure))
            if len(failing) == FAILING_MAX:
                break
    return failing


def _passes(script: tuple[Step, ...], *, is_async: bool, is_restored: bool) -> bool:
    try:
        play(script, is_async=is_async, is_restored=is_restored)
    except Exception:
        return False
    return True
