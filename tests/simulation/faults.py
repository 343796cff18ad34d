"""Faults made on purpose, to see that the simulation finds them: a checker that cannot fail is worth nothing.

Nothing of this is in the product: a fault changes a function of it from outside, as long as its block lasts.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One deliberate fault."""

    name: str
    world: str  # in which it is looked for
    budget: int  # runs within which it must be found
    made: Callable[[], AbstractContextManager[None]]  # the product has the fault inside of this block


FAULTS: dict[str, Fault] = {}
