"""UOW-STATISTICS: for each service what its active units of work add up to, and the extremes among them.

Counted in passing, a thousand at a time: what begins or ends meanwhile may be in it or not.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from oms_journal.broker.admin.questions import Question, Steps, page_of, time_of
from oms_journal.broker.admin.services import ServiceFilter
from oms_journal.broker.kernel.state.service import ServiceName
from oms_journal.broker.kernel.state.unit_records import service_name
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.tables.dormant_units import WAITING, Columns, opened
from oms_journal.broker.records import Flag, UowRecord

STEP_UNITS = 500  # units of work, not packed, that are counted between two pauses
_NAMES = ("status", "flags", "messages", "size", "created", "parties")


@dataclass(frozen=True, slots=True, kw_only=True)
class UowStatisticsRow:
    """The active units of work of a service, in either direction; sizes are bytes. (EntireX 10.3, CIS.)"""

    server_class: str
    server_name: str
    service: str
    active: int
    messages: int
    bytes: int
    most_messages: int
    most_bytes: int
    oldest: str | None
    newest: str | None


class Sum:
    """What units of work add up to."""

    __slots__ = ("active", "bytes", "messages", "most_bytes", "most_messages", "newest", "oldest")

    def __init__(self) -> None:
        self.active = self.messages = self.bytes = 0
        self.most_messages = self.most_bytes = 0
        self.oldest = self.newest = 0

    def add(self, messages: int, size: int, created: int) -> None:
        """Count one in."""
        self.active += 1
        self.messages += messages
        self.bytes += size
        self.most_messages = max(self.most_messages, messages)
        self.most_bytes = max(self.most_bytes, size)
        self.reach(created, created)

    def reach(self, oldest: int, newest: int) -> None:
        self.oldest = min(self.oldest or oldest, oldest)
        self.newest = max(self.newest, newest)


def uow_statistics(world: World, question: Question) -> Steps:
    """Return the sums of every service that has an active unit of work."""
    is_wanted, sums = ServiceFilter(question), dict[ServiceName, Sum]()
    for _ in _counted(world, sums):
        yield
    keys = [name for name in sums if is_wanted(name)]
    page = yield from page_of(question, keys, lambda name: _row(name, sums[name]), total=len(keys))
    return page


def _row(name: ServiceName, found: Sum) -> UowStatisticsRow:
    return UowStatisticsRow(
        server_class=name[0],
        server_name=name[1],
        service=name[2],
        active=found.active,
        messages=found.messages,
        bytes=found.bytes,
        most_messages=found.most_messages,
        most_bytes=found.most_bytes,
        oldest=time_of(found.oldest),
        newest=time_of(found.newest),
    )


def _counted(world: World, sums: dict[ServiceName, Sum]) -> Iterator[None]:
    """Count everything into the sums; pauses in between."""
    uowids = list(world.active)
    for start in range(0, len(uowids), STEP_UNITS):
        for uowid in uowids[start : start + STEP_UNITS]:
            unit = world.active.get(uowid)
            talk = world.conversations.get(unit.conv_id) if unit is not None else None
            if unit is not None and talk is not None:
                _of(sums, talk.service.name).add(unit.count, unit.size, unit.created)
        yield
    loose = world.units.loose()
    for start in range(0, len(loose), STEP_UNITS):
        _count_records(map(opened, loose[start : start + STEP_UNITS]), sums)
        yield
    reached: int | None = 0
    while reached is not None:
        columns, reached = world.units.columns_behind(reached, _NAMES)
        _count_columns(world, columns, sums)
        yield


def _of(sums: dict[ServiceName, Sum], name: ServiceName) -> Sum:
    return sums.setdefault(name, Sum())


def _count_records(records: Iterable[UowRecord], sums: dict[ServiceName, Sum]) -> None:
    for record in records:
        if record.status in WAITING:
            _of(sums, service_name(record)).add(record.messages, record.size, record.created)


def _count_columns(world: World, columns: Columns, sums: dict[ServiceName, Sum]) -> None:
    is_waiting = np.isin(columns["status"], list(WAITING))
    if not is_waiting.any():
        return
    chosen = {name: column[is_waiting] for name, column in columns.items()}
    is_reply = (chosen["flags"] & np.uint64(Flag.FROM_SERVER)) != 0
    groups, places = np.unique(chosen["parties"] * np.uint64(2) + is_reply, return_inverse=True)
    for at, group in enumerate(groups.tolist()):
        mine = places == at
        found = _of(sums, world.units.parties_at(group // 2).service(is_reply=bool(group % 2)))
        messages, sizes, created = (chosen[name][mine] for name in ("messages", "size", "created"))
        found.active += int(mine.sum())
        found.messages += int(messages.sum())
        found.bytes += int(sizes.sum())
        found.most_messages = max(found.most_messages, int(messages.max()))
        found.most_bytes = max(found.most_bytes, int(sizes.max()))
        found.reach(int(created.min()), int(created.max()))
