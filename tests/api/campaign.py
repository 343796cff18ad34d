"""Campaigns: many scripts of one seed, as Hypothesis makes them, until one of them breaks a promise."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from database import AsyncMessageDatabase, MessageDatabase
from tests.api.faults import Fault
from tests.api.play import play
from tests.api.surface import Step, scripts

FACES: Mapping[str, type] = {"threads": MessageDatabase, "tasks": AsyncMessageDatabase}
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
    face: str, number: int, *, examples: int = EXAMPLES, until: float = float("inf"), shrinks: bool = True
) -> Found:
    """Play the scripts of a seed; with the smallest one that fails, where one does."""
    found = Found(face, number)
    phases = [Phase.generate, *([Phase.shrink] if shrinks else [])]

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
        found.plays += found.failure is None
        try:
            play(script, is_async=face == "tasks", is_restored=is_restored)
        except Exception as failure:
            found.failure = failure
            raise

    with _quiet():
        try:
            played()
        except Exception as failure:
            found.failure = failure
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Let the database log nothing: what is damaged on purpose is told of by whoever finds it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def search(fault: Fault) -> Found | None:
    """Make a deliberate fault and return what found it, None where nothing did within its budget."""
    with fault.made():
        for number in range(fault.budget):
            found = seed_played(fault.face, number, examples=EXAMPLES, shrinks=False)
            if found.failure is not None:
                found.plays += number * EXAMPLES
                return found
    return None


