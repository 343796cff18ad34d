"""A broker's hot restart with many units of work that wait: how long it takes, and what of memory."""

import gc
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.callers import scratch
from bench.engine.memory import weigh
from bench.engine.opening import open_seconds
from bench.measure import Row, Settings, alternate_times, time_text
from oms_journal import Options
from oms_journal.broker.attributes.attributes import built_in
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.kernel.kernel import Kernel
from oms_journal.broker.kernel.restart.restore import restore
from oms_journal.broker.queues import ServiceQueue
from oms_journal.broker.records import UOW, UOWS, Flag, Status, UowRecord
from oms_journal.broker.store.changes import Changes, NewMessage, Put
from oms_journal.broker.store.start import Pstore, StoreStart, start_store

PAYLOAD = 100  # bytes
AT_ONCE = 2000  # units of work made durable together, each in a commit of its own
SENDERS = 16
NOW = 1_700_000_000_000_000
_AT = {UOW.offset("first"): 0, UOW.offset("conversation"): 0}


def fill(path: Path, *, count: int, services: int) -> None:
    """Let so many units of work of one message wait, as a broker leaves them."""
    store = JournalStore.open(path)
    identifiers = start_store(store, _start(Pstore.WARM)).identifiers
    for start in range(0, count, AT_ONCE):
        batch = []
        for number in range(start, min(start + AT_ONCE, count)):
            service = ServiceQueue("CLASS", "SERVER", f"SERVICE{number % services:04}")
            at = NOW + 7_919 * number
            record = UowRecord(
                conv_id=identifiers.next(),
                uowid=identifiers.next(),
                status=Status.ACCEPTED,
                flags=Flag.PERSISTENT | Flag.FIRST,
                messages=1,
                lifetime=86_400,
                size=PAYLOAD,
                created=at,
                committed=at + 50,
                begun=at + 50,
                changed=at + 50,
                ends=86_400_000_000 + 7_919 * number,
                sender_user="SOMEBODY",
                sender_token=f"TOKEN{number // services % SENDERS:03}",
                receiver_class=service.server_class,
                receiver_server=service.server_name,
                receiver_service=service.service,
            )
            put = Put(UOWS + record.uowid, UOW.encode(record), _AT)
            batch.append(Changes(adds=[NewMessage(str(service), os.urandom(PAYLOAD))], puts=[put]))
        assert all(isinstance(answer, int) for answer in store.commit_many(batch))
    store.close()


def _start(pstore: Pstore) -> StoreStart:
    return StoreStart(broker_id="BENCH", pstore=pstore, now=NOW)


def started(path: Path, options: Options | None = None) -> tuple[JournalStore, Kernel]:
    """Return the store of a broker that was started hot, and its kernel."""
    store = JournalStore.open(path, options)
    begun = start_store(store, _start(Pstore.WARM))
    return store, Kernel(built_in(broker_id="BENCH"), restore(store, now=NOW), begun.identifiers)


def hot_seconds(path: Path) -> float:
    """Return how long a hot start takes, until the first call can come."""
    gc.collect()
    began = time.perf_counter()
    store, _ = started(path)
    taken = time.perf_counter() - began
    store.close()
    return taken


def restart(settings: Settings) -> Iterator[Row]:
    """One service and a thousand: the start against the database's own, and the memory of each unit of work."""
    count = settings.message_counts[0]
    small = scratch(settings.directory, "small-broker")
    fill(small, count=8, services=1)
    for services in (1, 1000):
        path = scratch(settings.directory, "waiting")
        fill(path, count=count, services=services)
        of = f"{count:,} waiting units of work, {'one service' if services == 1 else f'{services:,} services'}"
        found = alternate_times(settings.rounds, partial(open_seconds, path, "full"), partial(hot_seconds, path))
        yield Row(
            name=f"hot-restart-{services}",
            what=f"hot restart with {of}, against opening the same directory",
            measured=found.ratios,
            bound=3,
            is_most=True,
            raw=time_text(found.raw),
            ours=time_text(found.ours),
        )
        yield weigh((path, small), f"memory-waiting-{services}", f"broker and index, {of}", 300, is_broker=True)
