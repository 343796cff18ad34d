"""Units of work and kept statuses as rows, in the order of their UOWIDs: what the persistent store is asked for as PSF.

Those that are awake and those that sleep are merged by UOWID. Of those that sleep the wanted ones are found by columns,
many at once; no more than a row of each is made.

UOW-STATISTICS: for each service what its active units of work add up to, and the extremes among them.

Counted in passing, a thousand at a time: what begins or ends meanwhile may be in it or not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from oms_journal.broker.admin.codes import CisRefused, CommandCode
from oms_journal.broker.admin.questions import (
    STEP_LOOKS,
    STEP_ROWS,
    Columns,
    Page,
    PageSteps,
    Query,
    Row,
    cursor_of,
    left_of,
    page_of,
    row_of,
    time_of,
)
from oms_journal.broker.admin.services import ServiceFilter
from oms_journal.broker.block import SERVICE_FIELDS, ServiceName
from oms_journal.broker.kernel.state.conversation import Conversation
from oms_journal.broker.kernel.state.unit import UnitOfWork
from oms_journal.broker.kernel.state.unit_records import record_of, service_of_record
from oms_journal.broker.kernel.state.unit_states import COMPLETE, POSTPONED
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.tables.dormant_units import WAITING, NumberColumns, Parties, RowFilter, decode_loose
from oms_journal.broker.records import Flag, UowRecord, identifier

_PARTIES = ("user_id", "token", "receiver_user", "receiver_token", *SERVICE_FIELDS)
YES_OR_NO: Mapping[str, bool] = {"yes": True, "no": False, "true": True, "false": False}  # in either case


class UnitFacts(NamedTuple):
    """What a row of a unit of work is read from."""

    record: UowRecord
    service: ServiceName
    is_asleep: bool
    is_held: bool
    clock: int  # that its lifetime runs on

    @property
    def is_delayed(self) -> bool:
        """Whether nobody can receive it yet since it was given back."""
        return self.record.status is POSTPONED or self.record.back > self.clock


# A unit of work, or the status that is kept of one. Sizes are bytes, lifetimes seconds.
#
# `ends_in` is what is left of its lifetime, or of its status's; `back_in` of the delay after it was given back. The
# receiver is the server instance, or the client of an answer (`from_server`). `asleep`: the store alone has it.
# `held`: since the store was restored from a backup; nobody receives it before RELEASE, its lifetime stands still.
PSF_COLUMNS: Columns[UnitFacts] = {
    "uowid": lambda at: at.record.uowid,
    "conv_id": lambda at: at.record.conv_id,
    "status": lambda at: at.record.status.name,
    "ustatus": lambda at: at.record.ustatus,
    "server_class": lambda at: at.service[0],
    "server_name": lambda at: at.service[1],
    "service": lambda at: at.service[2],
    "sender_user": lambda at: at.record.sender_user,
    "sender_token": lambda at: at.record.sender_token,
    "receiver_user": lambda at: at.record.receiver_user,
    "receiver_token": lambda at: at.record.receiver_token,
    "from_server": lambda at: bool(at.record.flags & Flag.FROM_SERVER),
    "persistent": lambda at: bool(at.record.flags & Flag.PERSISTENT),
    "status_persistent": lambda at: bool(at.record.flags & Flag.STATUS_PERSISTENT),
    "state": lambda at: at.record.state.name,
    "eoc_reason": lambda at: at.record.eoc_reason,
    "delivery_count": lambda at: at.record.adcount,
    "postpones": lambda at: at.record.postpones,
    "messages": lambda at: at.record.messages,
    "size": lambda at: at.record.size,
    "lifetime": lambda at: at.record.lifetime or None,
    "status_lifetime": lambda at: at.record.status_lifetime or None,
    "uwstatp": lambda at: at.record.uwstatp,
    "created": lambda at: time_of(at.record.created),
    "committed": lambda at: time_of(at.record.committed),
    "changed": lambda at: time_of(at.record.changed),
    "ends_in": lambda at: left_of(at.record.ends, at.clock),
    "back_in": lambda at: left_of(at.record.back, at.clock) if at.is_delayed else None,
    "producer": lambda at: at.record.producer,
    "asleep": lambda at: at.is_asleep and at.record.status not in COMPLETE,
    "held": lambda at: at.is_held,
}


def uows(world: World, question: Query) -> PageSteps:
    """Return the units of work, by UOWID."""
    chosen = UnitFilter(world, question)
    after = question.after_identifier()
    total = question.total(world.active_count + _statuses(world)) if not question.selectors else None
    found = records_of(world, chosen, question, after)
    rows: list[Row] = []
    more = ""
    for part in found:
        for record, is_asleep in part:
            if not chosen(record):
                continue
            row = _unit_row(world, record, is_asleep=is_asleep)
            if not question.sees(row):
                continue
            if len(rows) == question.limit:
                return Page(rows=rows, total=total, next=cursor_of(more))
            rows.append(row)
            more = record.uowid
            if not len(rows) % STEP_ROWS:
                yield
        yield
    return Page(rows=rows, total=total)


def _statuses(world: World) -> int:
    """Return how many statuses of complete units of work are kept."""
    return len(world.units) - sum(count.units for count in world.units.counts().values())


class UnitFilter:
    """Whether a record is of a unit of work that is asked for."""

    def __init__(self, world: World, question: Query) -> None:
        self._withheld = world.withheld
        self._held = _yes_or_no(question, "held")
        self._statuses = question.statuses()
        self._is_service = ServiceFilter(question)
        self._uowid, self._conv_id, self._ustatus = (question.fits(name) for name in ("uowid", "conv_id", "ustatus"))
        self._user, self._token = question.fits("user_id"), question.fits("token")
        self._receiver, self._receiver_token = question.fits("receiver_user"), question.fits("receiver_token")
        self._has_parties = any(name in question.selectors for name in _PARTIES)

    def may_be(self, unit: UnitOfWork, talk: Conversation) -> bool:
        """Say whether one that is awake may be asked for, by what most questions ask for."""
        return (
            (self._held is None or unit.is_withheld == self._held)
            and (self._statuses is None or unit.status in self._statuses)
            and self._is_service(talk.service.name)
        )

    def __call__(self, record: UowRecord) -> bool:
        return (
            (self._statuses is None or record.status in self._statuses)
            and (self._held is None or self._withheld.has(record) == self._held)
            and self._uowid(record.uowid)
            and self._conv_id(record.conv_id)
            and self._ustatus(record.ustatus)
            and self._user(record.sender_user)
            and self._token(record.sender_token)
            and self._receiver(record.receiver_user)
            and self._receiver_token(record.receiver_token)
            and self._is_service(service_of_record(record))
        )

    def wanted(self, world: World) -> RowFilter:
        """Return what is known of those that sleep without reading each."""
        parties = world.units.places_of(self._may_be) if self._has_parties else None
        return RowFilter(self._statuses, parties)

    def _may_be(self, parties: Parties) -> bool:
        return (
            self._user(parties.sender[0])
            and self._token(parties.sender[1])
            and self._receiver(parties.receiver[0])
            and self._receiver_token(parties.receiver[1])
            and (self._is_service(parties.offered_by_sender) or self._is_service(parties.offered_by_receiver))
        )


Part = Sequence[tuple[UowRecord, bool]]  # and whether it sleeps


def _yes_or_no(question: Query, name: str) -> bool | None:
    """Return what a selector says that is yes or no; None where it says nothing, or both."""
    said = {value.lower() for value in question.selectors.get(name, ())}
    if not said <= YES_OR_NO.keys():
        raise CisRefused(CommandCode.INVALID_SELECTOR, f"{name} is yes or no")
    found = {YES_OR_NO[value] for value in said}
    return found.pop() if len(found) == 1 else None


def records_of(world: World, chosen: UnitFilter, question: Query, after: str) -> Iterator[Part]:
    """Yield the records that may be asked for, behind a UOWID, a part at a time."""
    named = _named(world, question)
    return _those(world, named, after) if named is not None else _all(world, chosen, after)


def _named(world: World, question: Query) -> list[str] | None:
    """Return the UOWIDs that the question names, by themselves or by their conversation; None where it does not."""
    uowids, conv_id = question.selectors.get("uowid"), question.one("conv_id")
    if uowids is not None and not any("*" in uowid for uowid in uowids):
        return sorted(set(uowids))
    if conv_id is None:
        return None
    talk = world.conversations.get(conv_id)
    found = set(world.units.of_conversation(conv_id))
    if talk is not None:
        found.update(each.uowid for line in talk.lines for each in line if isinstance(each, UnitOfWork))
        found.update(each.uowid for each in talk.sending if each is not None)
    return sorted(found)


def _those(world: World, uowids: list[str], after: str) -> Iterator[Part]:
    found = []
    for uowid in uowids:
        if uowid <= after:
            continue
        record, is_asleep = _awake(world, uowid), False
        if record is None:
            record, is_asleep = world.units.find(uowid), True
        if record is not None:
            found.append((record, is_asleep))
        if len(found) == STEP_ROWS:
            yield found
            found = []
    yield found


def _awake(world: World, uowid: str, chosen: UnitFilter | None = None) -> UowRecord | None:
    unit = world.active.get(uowid)
    talk = world.conversations.get(unit.conv_id) if unit is not None else None
    if unit is None or talk is None:
        return None
    if chosen is not None and not chosen.may_be(unit, talk):
        return None
    return record_of(unit, talk, unit.status)


def _all(world: World, chosen: UnitFilter, after: str) -> Iterator[Part]:
    """Yield what is awake and what sleeps, in the order of the UOWIDs, a part at a time."""
    awake = sorted([uowid for uowid in world.active if uowid > after])
    wanted, at, number = chosen.wanted(world), 0, int(after, 16) if after else 0
    while True:
        asleep, reached = world.units.behind(number, wanted, STEP_ROWS)
        bound = identifier(reached or 0)
        part: list[tuple[UowRecord, bool]] = [(record, True) for record in asleep]
        looks = 0
        while at < len(awake) and (reached is None or awake[at] <= bound):
            record = _awake(world, awake[at], chosen)
            if record is not None:
                part.append((record, False))
            at, looks = at + 1, looks + (1 if record is None else STEP_LOOKS // STEP_ROWS)
            if looks >= STEP_LOOKS:
                bound = awake[at - 1]
                part = [each for each in part if each[0].uowid <= bound]
                reached = int(bound, 16)
                break
        part.sort(key=lambda each: each[0].uowid)
        yield part
        if reached is None:
            return
        number = reached


def _unit_row(world: World, record: UowRecord, *, is_asleep: bool) -> Row:
    """Return what there is to be said of one unit of work."""
    is_held = world.withheld.has(record)
    if is_held:
        clock = world.withheld.record.clock  # there its lifetime stands still
    else:
        lasting = record.flags & (Flag.PERSISTENT | Flag.STATUS_PERSISTENT)
        clock = world.clocks.persistent if lasting else world.clocks.volatile
    facts = UnitFacts(record, service_of_record(record), is_asleep=is_asleep, is_held=is_held, clock=clock)
    return row_of(PSF_COLUMNS, facts)


STEP_UNITS = 500  # units of work, not packed, that are counted between two pauses
_NAMES = ("status", "flags", "messages", "size", "created", "parties")


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


class ServiceSum(NamedTuple):
    """What a row of UOW-STATISTICS is read from."""

    service: ServiceName
    sum: Sum


# The active units of work of a service, in either direction; sizes are bytes. (EntireX 10.3, CIS.)
UOW_STATISTICS_COLUMNS: Columns[ServiceSum] = {
    "server_class": lambda at: at.service[0],
    "server_name": lambda at: at.service[1],
    "service": lambda at: at.service[2],
    "active": lambda at: at.sum.active,
    "messages": lambda at: at.sum.messages,
    "bytes": lambda at: at.sum.bytes,
    "most_messages": lambda at: at.sum.most_messages,
    "most_bytes": lambda at: at.sum.most_bytes,
    "oldest": lambda at: time_of(at.sum.oldest),
    "newest": lambda at: time_of(at.sum.newest),
}


def uow_statistics(world: World, question: Query) -> PageSteps:
    """Return the sums of every service that has an active unit of work."""
    is_wanted, sums = ServiceFilter(question), dict[ServiceName, Sum]()
    for _ in _counted(world, sums):
        yield
    keys = [name for name in sums if is_wanted(name)]
    page = yield from page_of(
        question, keys, lambda name: row_of(UOW_STATISTICS_COLUMNS, ServiceSum(name, sums[name])), total=len(keys)
    )
    return page


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
        _count_records(map(decode_loose, loose[start : start + STEP_UNITS]), sums)
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
            _of(sums, service_of_record(record)).add(record.messages, record.size, record.created)


def _count_columns(world: World, columns: NumberColumns, sums: dict[ServiceName, Sum]) -> None:
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
