"""The store that is moved away: opened without a change, read raw, and told about.

(EntireX 8.0, Concepts of Persistent Messaging, "Migrating the Persistent Store": a special non-destructive raw mode,
PSTORE=HOT. Nothing is left out, and the master record stays as it is.)
"""

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.codes import Code
from oms_journal.broker.drivers.journal import ERASING_KEY
from oms_journal.broker.drivers.journal_contents import JournalSource
from oms_journal.broker.drivers.open import place_of, version
from oms_journal.broker.drivers.sqlite_contents import SqliteSource
from oms_journal.broker.migration.agreement import StoreOffer
from oms_journal.broker.migration.stream import Readable, Tallies, chunks, encode_part, reported, scan
from oms_journal.broker.records import MASTER, MASTER_KEY, MasterRecord, RecordError
from oms_journal.broker.store.report import Action, Report, report_path
from oms_journal.broker.store.start import LOADING_KEY, RESTORED_KEY, StartRefused, StoreError
from oms_journal.database.options import system_clock

Progress = Callable[[int, int], None]  # how many messages and records are done, of how many


class Source(Readable, Protocol):
    """A store that is read and not changed. StoreUnavailable, MessageUnreadable."""

    place: str
    identity: str

    def record(self, key: str) -> bytes | None:
        """Return the value of a key, None when it is not there."""

    def record_count(self) -> int:
        """Return how many keys there are."""

    def close(self) -> None:
        """Let go of the store."""


def own_offer(attributes: Attributes) -> StoreOffer:
    """Return what a broker says of itself and its store before it has opened that."""
    driver, place = place_of(attributes)
    mode, host = attributes.broker.run_mode, platform.node()
    return StoreOffer(version=version(), mode=mode, driver=driver, place=str(place), host=host)


class Unloading:
    """A store while it is moved away. Made by `open`. For one thread at a time."""

    def __init__(self, source: Source, attributes: Attributes, master: MasterRecord, report: str | None) -> None:
        self._source = source
        self._attributes = attributes
        self._report = report
        self._clock = system_clock
        self.tallies = Tallies()  # of what has been read
        self.offer = replace(
            own_offer(attributes),
            identity=source.identity,
            owner=master.broker_id,
            created=master.created,
            parts=source.message_count() + source.record_count(),
        )

    @classmethod
    def open(cls, attributes: Attributes, *, report: str | None = None) -> "Unloading":
        """Open the store of the attributes; `report` is where the report goes. StartRefused."""
        driver, place = place_of(attributes)
        source: Source = SqliteSource.open(place) if driver == "SQLITE" else JournalSource.open(place)
        try:
            return cls(source, attributes, _checked(source, attributes), report)
        except StoreError as failure:
            source.close()
            raise StartRefused(Code.RESTART_FAILED, f"the persistent store cannot be unloaded: {failure}") from failure
        except BaseException:
            source.close()
            raise

    def chunks(self, progress: Progress = lambda _done, _total: None) -> Iterator[bytes]:
        """Yield all of the store as a stream in pieces, and write the report; from the beginning with every call."""
        self.tallies = Tallies()
        report = begin_report(self._attributes, self._report)
        try:
            yield from chunks(self._encoded(report, progress))
        finally:
            if report is not None:
                report.close()

    def _encoded(self, report: Report | None, progress: Progress) -> Iterator[bytes]:
        for part in scan(self._source):
            data = encode_part(part)
            self.tallies.take(part, data)
            if report is not None and (line := reported(part, Action.UNLOADED)) is not None:
                report.write([line], self._clock())
            progress(self.tallies.count, self.offer.parts)
            yield data

    def close(self) -> None:
        """Let go of the store."""
        self._source.close()


def begin_report(attributes: Attributes, argument: str | None) -> Report | None:
    """Return the report of a move, begun anew; None where none is wanted."""
    if not attributes.broker.pstore_report:
        return None
    path = report_path(attributes.broker.run_mode, os.environ, argument)
    return Report(path, started=system_clock(), version=version())


def _checked(source: Source, attributes: Attributes) -> MasterRecord:
    """Return the master record of a store that may be moved; StartRefused."""
    for key, what in ((LOADING_KEY, "a load of it was not finished"), (ERASING_KEY, "its erasure was not finished")):
        if source.record(key) is not None:
            raise StartRefused(Code.RESTART_FAILED, f"the store in {source.place} is not whole: {what}")
    if source.record(RESTORED_KEY) is not None:
        raise StartRefused(
            Code.RESTART_FAILED,
            f"the store in {source.place} was restored from a backup and not started since: start its broker once, "
            "which holds what the lost one may have delivered; nothing was changed",
        )
    value = source.record(MASTER_KEY)
    if value is None:
        raise StartRefused(Code.RESTART_FAILED, f"{source.place} is no broker's store: it has no master record")
    try:
        master = MASTER.decode(value)
    except RecordError as failure:
        raise StartRefused(Code.RESTART_FAILED, f"the store's master record cannot be read: {failure}") from failure
    if master.broker_id != attributes.broker.broker_id:
        raise StartRefused(
            Code.INVALID_BROKER_ID,
            f"the persistent store belongs to broker {master.broker_id}, not to {attributes.broker.broker_id}; "
            "nothing was changed",
        )
    return master
