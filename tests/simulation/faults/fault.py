"""A deliberate fault: how one is written down, and how a function of the product is changed for a while.

    @fault("engine", budget=30)
    def no_commit_is_synced() -> Iterator[None]:
        \"\"\"Every commit is acknowledged from the page cache.\"\"\"
        with changed(Patched.SEGMENT_GIVE_NAME, ...):
            yield

Nothing of this is in the product: it is changed from outside, as long as the block lasts. `tests/planted/patched.py`
has the names under which faults put something else.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.planted.patched import Patched


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One deliberate fault."""

    name: str
    text: str  # what is wrong, as a sentence
    world: str  # in which it is looked for
    budget: int  # runs within which it must be found
    near: Sequence[str]  # files of tests that are near to it, beside those of its room: `make test-faults`
    made: Callable[[], AbstractContextManager[None]]  # the product has the fault inside of this block


FAULTS: dict[str, Fault] = {}


def fault(world: str, *, budget: int, near: Sequence[str] = ()) -> Callable[[Callable[[], Iterator[None]]], None]:
    """Enter the decorated function into the list of faults: a block that changes the product."""

    def enter(block: Callable[[], Iterator[None]]) -> None:
        name = block.__name__.replace("_", "-")
        assert block.__doc__ is not None and name not in FAULTS
        FAULTS[name] = Fault(
            name=name, text=block.__doc__.strip(), world=world, budget=budget, near=near, made=contextmanager(block)
        )

    return enter


def changed(place: Patched, made: Callable[[Any], object]) -> AbstractContextManager[None]:
    """Have another function, or value, at a place of the product; `made` gets the one that is there."""
    return exchanged(place.owner, place.attribute, made)


@contextmanager
def changed_in(places: Iterable[Patched], made: Callable[[Any], object]) -> Iterator[None]:
    """Have something else at several places, made of what is at each."""
    with ExitStack() as stack:
        for place in places:
            stack.enter_context(changed(place, made))
        yield


@contextmanager
def exchanged(owner: object, name: str, made: Callable[[Any], object]) -> Iterator[None]:
    """Have another function, or value, under the name in a class or a module; `made` gets the one that is there."""
    before = vars(owner)[name]  # with what makes it a static method or a property
    now = made(getattr(owner, name))
    assert isinstance(now, property) or not isinstance(before, property), f"{name}: nobody would call what is put there"
    setattr(owner, name, now)
    try:
        yield
    finally:
        setattr(owner, name, before)


class Instead:
    """Something with some of its methods exchanged; all else is the thing's own."""

    def __init__(self, thing: object, **methods: Callable[..., object]) -> None:
        self.__dict__.update(methods)
        self._thing = thing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._thing, name)


def nothing(*_: object, **__: object) -> None:
    """Do nothing."""


class EqualToAll(int):
    """A number that equals every other one: a checksum that nobody looks at."""

    __hash__ = int.__hash__

    def __eq__(self, _: object) -> bool:
        return True

    def __ne__(self, _: object) -> bool:
        return False
