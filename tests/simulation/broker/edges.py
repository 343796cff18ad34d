"""The edges of a broker's process in a simulation: chance, names, waits and real time are the simulation's.

What the programs under test take as arguments (disk, clock of the store, time of the kernel) is handed to them. The
little that they ask of the system themselves is answered here while a play goes on.
"""

import contextlib
import random
from collections.abc import Iterator
from types import SimpleNamespace
from unittest.mock import patch

import oms_journal.broker.drivers.journal
import oms_journal.broker.kernel.state.topics
import oms_journal.broker.kernel.state.world
import oms_journal.journal.lock
import oms_journal.recovery.continuation
from tests.support.crashes.crash_model import Unattended

IDENTITIES = 20_260_101  # seed of the identities of files and databases: no two of a play are alike


class Edges:
    """Which process is asking, and what it is told."""

    def __init__(self) -> None:
        self.pid = 1
        self._random = random.Random(IDENTITIES)

    def chance(self, count: int) -> int:
        return self._random.getrandbits(count)


@contextlib.contextmanager
def simulated_edges() -> Iterator[Edges]:
    """Let nothing in the block depend on the machine, the process or the time; a database has no thread."""
    edges = Edges()
    system = SimpleNamespace(getpid=lambda: edges.pid)
    with contextlib.ExitStack() as stack:
        for module, name, put in (
            (oms_journal.journal.lock, "os", system),
            (oms_journal.journal.lock, "socket", SimpleNamespace(gethostname=lambda: "simulated")),
            (oms_journal.recovery.continuation, "os", system),
            (oms_journal.broker.drivers.journal, "MessageDatabase", Unattended),
            (oms_journal.broker.kernel.state.world, "stays", _never),
            (oms_journal.broker.kernel.state.topics, "stays", _never),
        ):
            stack.enter_context(patch.object(module, name, put))
        yield edges


def _never(_: int, *, is_defined: bool) -> bool:
    """Let no name stay that is not used: a play's few ones are all defined."""
    return False
