"""Faults made on purpose in the limits of queues: what counts too little, or for too long."""

from collections.abc import Iterator

from oms_journal.database.commits.ledger import Ledger
from tests.planted.patched import Patched
from tests.simulation.faults.fault import changed, fault


@fault("engine", budget=60, near=["database/commits/test_queue_limits"])
def what_is_on_its_way_takes_no_room() -> Iterator[None]:
    """Commits of one group are each held against what is durable, and not against one another."""
    with changed(Patched.LIMITS_COUNT, lambda before: lambda self, wanted, *_: before(self, wanted, 0, 0)):
        yield


@fault("engine", budget=120, near=["database/commits/test_queue_limits"])
def a_refused_commit_keeps_its_room() -> Iterator[None]:
    """What a commit that found no space was to add counts for ever."""
    with changed(Patched.LIMITED_LEDGER_WITHDRAW, lambda _: Ledger.withdraw):
        yield


@fault("engine", budget=60, near=["database/commits/test_queue_limits"])
def what_a_block_removes_makes_no_room_for_what_it_adds() -> Iterator[None]:
    """A block that adds as much to a full queue as it removes is refused."""
    with changed(Patched.LIMITS_REMOVED_FROM, lambda _: lambda *_: (0, 0)):
        yield
