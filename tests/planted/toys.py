"""Toys of faults, with which tests try the search: one that does no harm, and one that does not fit the product."""

from collections.abc import Iterator

from tests.planted.patched import Patched
from tests.simulation.faults.fault import changed
from tests.support.attack import Fault, entering

TOYS: dict[str, Fault] = {}
_toy = entering(TOYS, "none", 0, ())


@_toy
def toy_nothing_is_wrong() -> Iterator[None]:
    """A function calls the one that was there."""
    with changed(Patched.DUPLICATE_WINDOW_LOAD, lambda before: lambda self, *given: before(self, *given)):
        yield


@_toy
def toy_it_does_not_fit() -> Iterator[None]:
    """A function takes other arguments than it is called with."""
    with changed(Patched.DUPLICATE_WINDOW_LOAD, lambda _: lambda: None):
        yield
