"""A move of the broker's store to another directory of the simulated disk: what unloads and what loads, in one place.

What the network carries between the two is handed over as it is; `test_moving.py` has the network.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import oms_journal.broker.drivers.journal_contents
import oms_journal.broker.migration.load
import oms_journal.broker.migration.unload
import oms_journal.database.bulk.locked
from oms_journal.broker.attributes.attributes import Attributes, built_in
from oms_journal.broker.drivers.journal_contents import JournalSource
from oms_journal.broker.migration.agreement import LOAD, UNLOAD
from oms_journal.broker.migration.load import Loading
from oms_journal.broker.migration.stream import scan
from oms_journal.broker.migration.unload import Unloading
from oms_journal.broker.store.start import PersistentStore
from oms_journal.broker.store.stored import LastNumber
from tests.simulation.broker.machine import Machine


def move(machine: Machine, target: Path) -> None:
    """Carry all of the store over into the directory; again from the beginning where an attempt was not finished."""
    with _on(machine):
        unloading = Unloading.open(_attributes(machine.directory, UNLOAD))
        try:
            loading = Loading.open(_attributes(target, LOAD))
            try:
                is_begun = loading.begin(unloading.offer)
                for chunk in unloading.chunks():
                    if is_begun:
                        loading.take(chunk)
                tallies = unloading.tallies
                found = loading.check(tallies.summary(), tallies.last, lambda done, total: None)
                assert not found, found
            finally:
                loading.close()
        finally:
            unloading.close()


def differences(machine: Machine, loaded: PersistentStore) -> list[str]:
    """Return what a store that was loaded holds otherwise than the one it was loaded from."""
    source = JournalSource.open(machine.directory, disk=machine.disk)
    try:
        theirs, ours = (
            {repr(part) for part in scan(store) if not isinstance(part, LastNumber)} for store in (source, loaded)
        )
        found = sorted(theirs ^ ours)
        if loaded.highest() < source.highest():  # more is right: numbers that may have been given are passed over
            found.append(f"numbers up to {loaded.highest()} and not {source.highest()}")
    finally:
        source.close()
    return found


@contextlib.contextmanager
def _on(machine: Machine) -> Iterator[None]:
    """Let what moves a store find the simulated disk, clock and host."""
    with contextlib.ExitStack() as stack:
        for module in (
            oms_journal.broker.migration.load,
            oms_journal.broker.drivers.journal_contents,
            oms_journal.database.bulk.locked,
        ):
            stack.enter_context(patch.object(module, "RealDisk", lambda: machine.disk))
        for module in (oms_journal.broker.migration.load, oms_journal.broker.migration.unload):
            stack.enter_context(patch.object(module, "system_clock", machine.clock))
        stack.enter_context(
            patch.object(oms_journal.broker.migration.unload, "platform", SimpleNamespace(node=lambda: "simulated"))
        )
        stack.enter_context(patch.object(oms_journal.broker.migration.load, "open_store", _opening(machine)))
        yield


def _opening(machine: Machine) -> Callable[..., PersistentStore]:
    def open_store(attributes: Attributes, *, takes_any: bool) -> PersistentStore:
        assert takes_any
        assert attributes.journal.spool_directory is not None
        return machine.open(Path(attributes.journal.spool_directory))

    return open_store


def _attributes(directory: Path, mode: str) -> Attributes:
    return built_in(
        broker_id="ETB001",
        spool_directory=str(directory),
        run_mode=mode,
        pstore="HOT" if mode == UNLOAD else "COLD",
        partner_cluster_address="127.0.0.1:1971:TCP",
    )
