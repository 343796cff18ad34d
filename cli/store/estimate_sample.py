"""A sample of a load of units of work, in data files and in memory, made by the code that makes the real ones."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from oms_journal.broker.kernel.restart.unit_columns import UnitColumns
from oms_journal.broker.kernel.tables.dormant_units import DormantUnits
from oms_journal.broker.queues import ServiceQueue
from oms_journal.broker.records import UOW, UOWS, Flag, Status, UowRecord, identifier
from oms_journal.index.duplicates import WindowBounds
from oms_journal.index.live import Index
from oms_journal.journal.format.contents import ContentsBuilder
from oms_journal.journal.format.footer import (
    HAS_MOVED,
    HAS_PRODUCER,
    HAS_PROPERTIES,
    HAS_SETS,
    decode_contents,
    decode_summary,
    encode_footer,
    footer_size_max,
    footer_start,
    row_bytes_max,
)
from oms_journal.journal.format.headers import FileHeader
from oms_journal.journal.operations import Operation
from oms_journal.journal.writing.draft import Added, Composer, Draft
from oms_journal.journal.writing.groups import form
from oms_journal.journal.writing.single import Place

if TYPE_CHECKING:
    from oms_journal.cli.store.estimate import Load

IDENTITY = 0x1234_5678_9ABC_DEF0
BEGUN = 1_700_000_000_000_000  # microseconds since 1970 UTC
SENDERS = 10
FIRST_AT = UOW.offset("first")


class Sample:
    """So many units of work that wait, so many statuses and so many that came and went, the newest of the load."""

    def __init__(self, load: "Load", uows: int, statuses: int, gone: int = 0) -> None:
        self._load = load
        self._uows = uows
        self._statuses = statuses
        self._gone = gone
        self._number = max(1, (load.uows - uows) * load.messages + 1)  # of its first message
        name = "N" * 8
        self._service = ServiceQueue(name, name, name)

    def __len__(self) -> int:
        return self._uows + self._statuses + self._gone

    def bytes_each(self) -> float:
        """Return what one takes in data files, its share of their headers and footers included."""
        if not len(self):
            return 0.0
        sizes = [size for size, _ in self._files()]
        return sum(sizes) / len(self)

    def footers(self) -> list[bytes]:
        """Return the footers of the data files."""
        return [footer for _, footer in self._files()]

    def values(self) -> tuple[list[bytes], list[bytes]]:
        """Return the keys and values of the records."""
        records = list(self._records())
        return [self._key(record) for record in records], [UOW.encode(record) for record in records]

    def restored(self, footers: Sequence[bytes], values: tuple[list[bytes], list[bytes]]) -> object:
        """Return what a restart keeps in memory."""
        index = Index(WindowBounds())
        for sequence, footer in enumerate(footers, start=1):
            summary = decode_summary(footer, identity=None)
            index.replay(decode_contents(footer, summary), sequence)  # type: ignore[arg-type]
        columns = UnitColumns()
        columns.add_batch(*values, ())
        columns.sort()
        assert not list(columns.restart(0, 0)), "nothing of the sample changes at a restart"
        units = DormantUnits()
        units.fill(columns.heads, columns.parties, columns.places, columns.texts)
        return index, units, columns.lines()

    # Its records and commits.

    def _records(self) -> Iterator[UowRecord]:
        load, (server_class, server_name, service, _) = self._load, self._service
        for place in range(len(self)):
            is_waiting = not self._uows <= place < self._uows + self._statuses
            at = BEGUN + 10_000 * place
            yield UowRecord(
                uowid=identifier((1 << 60) + (1 << 32) + 2 * place + 2),
                conv_id=identifier((1 << 60) + (1 << 32) + 2 * place + 1),
                status=Status.ACCEPTED if is_waiting else Status.PROCESSED,
                flags=Flag.PERSISTENT | Flag.FIRST | (Flag(0) if is_waiting else Flag.STATUS_PERSISTENT),
                uwstatp=0 if is_waiting else 1,
                messages=load.messages,
                lifetime=86_400,
                size=min(load.messages * load.size, (1 << 32) - 1),
                created=at,
                committed=at + 50,
                begun=at + 50,
                changed=at + 50,
                first=self._number + place * load.messages,
                ends=86_400_000_000 + at - BEGUN,
                sender_user="U" * 8,
                sender_token=f"T{place % SENDERS:07}",
                receiver_class=server_class,
                receiver_server=server_name,
                receiver_service=service,
            )

    def _key(self, record: UowRecord) -> bytes:
        return (UOWS + record.uowid).encode()

    def _drafts(self) -> Iterator[Draft]:
        load, queue = self._load, str(self._service).encode()
        payload = bytes(load.size)
        for place, record in enumerate(self._records()):
            if place >= self._uows + self._statuses:
                yield from self._begins(record)
            composer = Composer()
            if record.status is Status.ACCEPTED:
                composer.add(Added(queue=queue, payloads=[payload] * load.messages))
                composer.put(self._key(record), UOW.encode(record), numbers_at=((FIRST_AT, 0),))
            else:
                composer.put(self._key(record), UOW.encode(record))
            yield composer.draft()
            if place >= self._uows + self._statuses:
                yield from self._ends(record)

    def _begins(self, record: UowRecord) -> Iterator[Draft]:
        """Yield the commits of a unit of work until its sender's: with persistent status one of every SEND."""
        for _ in range(record.messages - 1 if self._load.statuses else 0):
            composer = Composer()
            composer.put(self._key(record), UOW.encode(record._replace(status=Status.RECEIVED)))
            yield composer.draft()

    def _ends(self, record: UowRecord) -> Iterator[Draft]:
        """Yield the commits of a unit of work that is received, and whose status is forgotten at last."""
        queue = str(self._service).encode()
        numbers = np.arange(record.first, record.first + record.messages, dtype=np.uint64)
        key = self._key(record)
        if not self._load.statuses:
            composer = Composer()
            composer.remove(Operation.DELIVER, queue, numbers)
            composer.drop(key)
            yield composer.draft()
            return
        for status in (Status.DELIVERED, Status.PROCESSED):
            composer = Composer()
            if status is Status.PROCESSED:
                composer.remove(Operation.DELIVER, queue, numbers)
            composer.put(key, UOW.encode(record._replace(status=status)))
            yield composer.draft()
        composer = Composer()
        composer.drop(key)
        yield composer.draft()

    def _files(self) -> Iterator[tuple[int, bytes]]:
        """Yield the size and the footer of every data file that the commits fill."""
        at, sequence, number = BEGUN, 0, self._number
        file: _File | None = None
        for draft in self._drafts():
            if file is None or not file.takes(draft, self._load.data_file_bytes):
                if file is not None:
                    yield file.sealed()
                    number = file.place.next_message
                sequence += 1
                file = _File(sequence, number)
            at += 10_000
            file.write(draft, at)
        if file is not None:
            yield file.sealed()


class _File:
    """A data file that is not written anywhere."""

    def __init__(self, sequence: int, number: int) -> None:
        self._header = FileHeader(
            database=bytes(16),
            identity=IDENTITY,
            sequence=sequence,
            owner=1,
            next_message=number,
            next_commit=1,
            low_water=1,
            created=BEGUN,
        )
        self._builder = ContentsBuilder()
        self.place = Place(
            identity=IDENTITY,
            sequence=sequence,
            owner=1,
            alignment=self._header.alignment,
            offset=self._header.start(),
            synced=0,
            next_message=number,
            next_commit=1,
        )
        self._rows = 0
        self._features = 0
        self._names: set[bytes] = set()
        self._blob_bytes = 0

    def takes(self, draft: Draft, size: int) -> bool:
        """Say whether a commit more fits in, with its footer, as the journal says it."""
        if not self._rows:
            return True
        has = [bool(self._features & flag) for flag in (HAS_PRODUCER, HAS_PROPERTIES, HAS_SETS, HAS_MOVED)]
        row_bytes = row_bytes_max(name_count=len(self._names), has=has)
        footer = footer_size_max(rows=self._rows, row_bytes=row_bytes, blob_bytes=self._blob_bytes)
        return self.place.offset + draft.weight + footer + 2 * self.place.alignment <= size

    def write(self, draft: Draft, time: int) -> None:
        group = form(self.place, [draft], time=time)
        self._builder.add_plain(group.offsets, group.heads)
        if draft.value_heads:
            self._builder.add_value_heads(draft.value_heads)
        self.place.offset = self.place.synced = group.end
        self.place.next_message, self.place.next_commit = group.next_message, group.next_commit
        self._rows += draft.rows
        self._features |= draft.features
        new = set(draft.names) - self._names
        self._names |= new
        self._blob_bytes += draft.footer_bytes + sum(len(name) + 1 for name in new)

    def sealed(self) -> tuple[int, bytes]:
        """Return the file's size and its footer."""
        end = self.place.offset
        footer = encode_footer(self._builder.build(end), self._header, 0, (0, 0))
        return footer_start(end, self._header) + len(footer), footer
