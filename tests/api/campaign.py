"""The campaign on the message database's API: `tests/support/attack.py` with its scripts, its sweeps and its faults."""

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from oms_journal import AsyncMessageDatabase, CommitBlock, MessageDatabase, QueueClient
from tests.api.faults import FAULTS
from tests.api.play import play
from tests.api.surface import methods, scripts
from tests.api.sweep import BEGIN, swept, swept_places, swept_waits
from tests.support.attack import Campaign, IsOver, Swept

FACES: Mapping[str, type] = {"threads": MessageDatabase, "tasks": AsyncMessageDatabase}
OWNERS_OF: Mapping[str, tuple[type, ...]] = {
    "threads": (MessageDatabase, CommitBlock, QueueClient),
    "tasks": (AsyncMessageDatabase,),
}

CUT_AT: Mapping[str, Callable[[str], Swept]] = {"interrupted": swept_places, "cancelled": swept_waits}


def _scripts(face: str) -> st.SearchStrategy[Any]:
    """Return scripts, each with whether its database holds back what was restored."""
    return st.tuples(scripts(FACES[face]), st.booleans())


def _play(script: Any, face: str, is_over: IsOver) -> None:
    steps, is_restored = script
    play(steps, is_async=face == "tasks", is_restored=is_restored, is_over=is_over)


def _sweep(name: str, face: str) -> Swept:
    """Play the ways of giving a method's arguments, or with "interrupted" a call that is left at all its places.

    With "cancelled" a task is cancelled at each of the first waits of the call.
    """
    first, _, what = name.partition(" ")
    if first in CUT_AT:
        for steps, failure in CUT_AT[first](what):
            yield (steps, False), failure
        return
    for owner in OWNERS_OF[face]:
        if name in methods(owner):
            for step, failure in swept(owner, name):
                yield ((*BEGIN, step), True), failure


CAMPAIGN = Campaign(
    name="api",
    of="the API of the message database",
    faces=tuple(FACES),
    scripts=_scripts,
    play=_play,
    sweep=_sweep,
    faults=FAULTS,
    scripts_of_seed=100,
)
