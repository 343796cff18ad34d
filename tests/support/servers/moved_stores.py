"""Stores that are moved: one with everything in it, attributes for either driver, and a move without a network."""

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

from oms_journal.broker.attributes.attributes import Attributes, built_in
from oms_journal.broker.drivers.open import open_store
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.migration.load import Loading
from oms_journal.broker.migration.stream import scan
from oms_journal.broker.migration.unload import Unloading
from oms_journal.broker.records import UOW, UOWS, Flag, Status, UowRecord
from oms_journal.broker.store.changes import Changes, NewMessage, Put
from oms_journal.broker.store.stored import Loaded
from tests.support.disks.small_files import MODEST
from tests.support.journals.random_broker import BrokerWriter

STEPS = 60  # random calls of each of two starts


def attributes(place: Path, driver: str, mode: str = "STANDARD", **given: str) -> Attributes:
    """Return the attributes of a broker with its store under `place`."""
    kept = {"spool_directory": str(place), "database_file": str(place / "broker.sqlite"), "pstore_type": driver}
    kept["max_data_file_size"] = MODEST
    if mode != "STANDARD":
        kept |= {"run_mode": mode, "pstore": "HOT" if mode == "PSTORE-UNLOAD" else "COLD"}
        kept |= {"partner_cluster_address": "localhost:1:TCP"}
    return built_in(**(kept | given))


def source(place: Path, driver: str = "JOURNAL", **given: str) -> Attributes:
    return attributes(place, driver, "PSTORE-UNLOAD", **given)


def target(place: Path, driver: str, **given: str) -> Attributes:
    return attributes(place, driver, "PSTORE-LOAD", **given)


def write_everything(spool: Path, seed: int = 1) -> None:
    """Fill a journal with what a broker leaves there: random work of two starts, the last one ended by a kill.

    Beside it stand a unit of work in every status, a queue of messages of all lengths, and identifiers of producers.
    """
    BrokerWriter(spool, seed).write(starts=2, steps=STEPS)
    chance = random.Random(seed)
    with Broker.open(spool) as broker, broker.session("ALICE", token="T") as alice:
        for number in range(4):
            with alice.unit_of_work("A/B/C", producer=f"order-{number}") as unit:
                unit.send(b"x" * 10 ** (number + 2), properties={"kind": "ü", "n": str(number)})
                unit.send(b"")
    store = open_store(attributes(spool, "JOURNAL"))
    for status in Status:
        record = UowRecord(f"1FFFFFF{status.value:09X}", "1FFFFFF000000000", status, Flag.PERSISTENT, ustatus="é" * 16)
        adds = [NewMessage("A/B/C", chance.randbytes(chance.randrange(2000))) for _ in range(3)]
        put = Put(f"{UOWS}{record.uowid}", UOW.encode(record._replace(messages=3)))
        store.commit(Changes(adds=adds, puts=[put]))
    first = store.commit(Changes(adds=[NewMessage("A/B/C", b"gone")]))  # a number that only counters know of
    store.commit(Changes(delivered=[range(first, first + 1)]))
    store.close()


def move(source: Attributes, target: Attributes, *, stops_after: int | None = None) -> list[str]:
    """Move a store, in pieces as over the network; return what is not the same. None of it is left open."""
    unloading = Unloading.open(source)
    try:
        loading = Loading.open(target)
        try:
            is_new = loading.begin(unloading.offer)
            for count, data in enumerate(unloading.chunks()):
                if is_new:
                    loading.take(data)
                if count == stops_after:
                    return ["stopped"]
            tallies = unloading.tallies
            return loading.check(tallies.summary(), tallies.last, lambda _done, _total: None)
        finally:
            loading.close()
    finally:
        unloading.close()


def everything(place: Path, driver: str) -> list[Loaded]:
    """Return all that a store holds."""
    unloading = Unloading.open(source(place, driver))
    try:
        return list(scan(unloading._source))
    finally:
        unloading.close()


def files(place: Path) -> dict[str, str]:
    """Return digests of the files of a store, but for who locks it and what its readers share."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(place.iterdir())
        if path.suffix in (".data", ".sqlite", ".index", ".archive") or path.name.endswith("-wal")
    }


def lines(report: Path) -> Iterator[tuple[str, ...]]:
    """Yield Identifier, Elements, Total length and Type of every line of a report."""
    for line in report.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words and words[-1] in ("Loaded", "Unloaded"):
            yield tuple(words[:4])
