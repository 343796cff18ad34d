"""The deliberate faults of all campaigns: those of the simulation, of the API, and of the broker's callers."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from tests.api import faults as api
from tests.callers import faults as callers
from tests.planted.patched import Patched
from tests.simulation.faults import all_faults as simulation


class Planted(Protocol):
    """One deliberate fault, whichever campaign it is of."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def near(self) -> Sequence[str]:
        """Files of tests that are near to it, beside those of its room."""

    @property
    def made(self) -> Callable[[], AbstractContextManager[None]]: ...


_CAMPAIGNS: tuple[dict[str, Planted], ...] = ({**simulation.FAULTS}, {**api.FAULTS}, {**callers.FAULTS})
ALL: dict[str, Planted] = {name: fault for faults in _CAMPAIGNS for name, fault in faults.items()}
assert len(ALL) == sum(map(len, _CAMPAIGNS)), "no two faults have one name"


def patched_by(fault: Planted) -> list[Patched]:
    """Return the places at which there is something else while the fault is made."""
    before = {place: place.found() for place in Patched}
    with fault.made():
        return [place for place in Patched if place.found() is not before[place]]
