"""What a broker's journal tells, without Spark: loops over operations and their values, one after another.

Written from `docs/reference/broker-records.md`, not from how the questions are asked of Spark: a test compares the two.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oms_journal.broker.queues import ServiceQueue
from oms_journal.broker.records import (
    LAYOUTS,
    PUBLICATIONS,
    SUBSCRIPTIONS,
    UOWS,
    CheckpointName,
    CheckpointRecord,
    ConversationState,
    Flag,
    Layout,
    MasterRecord,
    PublicationRecord,
    RecordError,
    RecordKind,
    Status,
    SubscriptionRecord,
    UowRecord,
    kind_of,
)
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.reading.dump import DumpedOperation
from oms_journal.recovery.dump import dump
from tests.support.journals.plain_answers import grouped, in_seconds, percentile
from tests.support.journals.plain_rows import Answer, database_of

Place = tuple[int, int]  # sequence and offset
COMPLETE = (Status.BACKEDOUT, Status.PROCESSED, Status.CANCELLED, Status.TIMEOUT, Status.DISCARDED)
WAITING = ("ACCEPTED", "DELIVERED", "POSTPONED")
SHARES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a database."""

    place: Place
    time: int
    operation: str
    key: str = ""
    message: int = 0
    moved: bool = False
    length: int = 0
    record: Any = None  # of a PUT; None where its value is none of its kind


@dataclass(slots=True)
class Traced:
    """What the operations of one database say, in their order."""

    database: str
    steps: list[Step] = field(default_factory=list)

    def keys(self, prefix: str) -> dict[str, list[Step]]:
        """Return the operations on keys of a kind, by what the keys end with."""
        found: dict[str, list[Step]] = defaultdict(list)
        for step in self.steps:
            if step.key.startswith(prefix):
                found[step.key.removeprefix(prefix)].append(step)
        return found

    def ends(self) -> dict[int, Step]:
        """Return how each message was removed, the DELIVER where there are both."""
        found: dict[int, Step] = {}
        for step in self.steps:
            if step.operation == "DELIVER" or (step.operation == "DELETE" and step.message not in found):
                found[step.message] = step
        return found

    def starts(self) -> list[tuple[Place, int]]:
        """Return where and when the broker was started."""
        marks = [
            step
            for step in self.steps
            if isinstance(step.record, CheckpointRecord) and step.record.name is not CheckpointName.ETBT
        ]
        return [(step.place, step.record.time) for step in marks if not step.moved]


def traced(*paths: Path) -> list[Traced]:
    """Return what every database in these directories says."""
    found: dict[str, Traced] = {}
    for path in paths:
        database = database_of(path)
        mine = found.setdefault(database, Traced(database))
        for operation in dump(RealDisk(), [path]):
            if isinstance(operation, DumpedOperation) and operation.vouched:
                mine.steps.append(_step(operation))
    for mine in found.values():
        mine.steps.sort(key=lambda step: step.place)
    return list(found.values())


def _step(operation: DumpedOperation) -> Step:
    kind = kind_of(operation.key) if operation.key else None
    record = None
    if operation.operation == "PUT" and kind is not None and operation.payload is not None:
        record = _decoded(next(layout for layout in LAYOUTS if layout.kind is kind), operation.payload)
    return Step(
        (operation.sequence, operation.offset),
        operation.time,
        operation.operation,
        operation.key or "",
        operation.message or 0,
        operation.moved,
        operation.length or 0,
        record,
    )


def _decoded(layout: Layout[Any], value: bytes) -> Any:
    try:
        return layout.decode(value)
    except RecordError:
        return None


# Units of work.


def units_of_work(databases: Iterable[Traced]) -> Answer:
    found = []
    for traced_ in databases:
        ends, starts = traced_.ends(), traced_.starts()
        for uowid, steps in traced_.keys(UOWS).items():
            if any(step.record is not None for step in steps):
                found.append({"database": traced_.database, "uowid": uowid, **_unit(steps, ends, starts)})
    return found


def _unit(steps: Sequence[Step], ends: dict[int, Step], starts: Sequence[tuple[Place, int]]) -> dict[str, Any]:
    last = [step for step in steps if step.record is not None][-1]
    record: UowRecord = last.record
    drop = steps[-1] if steps[-1].operation == "DROP" else None
    status = _status(last, drop, ends.get(record.first), starts)
    ended = record.changed if record.status in COMPLETE else drop.time if drop is not None else None
    received = [step.record.changed for step in steps if step.record and step.record.status is Status.DELIVERED]
    is_reply = bool(record.flags & Flag.FROM_SERVER)
    committed = record.committed or None
    return {
        "conv_id": record.conv_id,
        "queue": queue_of(record),
        "service": queue_of(record).removesuffix("/reply") if is_reply else queue_of(record),
        "is_reply": is_reply,
        "sender": record.sender_user,
        "receiver": record.receiver_user or None,
        "is_persistent": bool(record.flags & Flag.PERSISTENT),
        "has_status": bool(record.flags & Flag.STATUS_PERSISTENT),
        "status": status,
        "user_status": record.ustatus or None,
        "attempts": record.adcount - (record.status is Status.TIMEOUT),  # which nobody tried to deliver
        "postpones": record.postpones,
        "messages": record.messages,
        "bytes": record.size,
        "lifetime": record.lifetime,
        "first_message": record.first or None,
        "state": record.state.name,
        "reason": f"0003{record.eoc_reason:04}" if record.eoc_reason else None,
        "created": record.created,
        "committed": committed,
        "begun": record.begun or None,
        "received": min(received, default=None),
        "changed": record.changed,
        "ended": ended,
        "forgotten": drop.time if drop is not None else None,
        "seconds_to_receive": _seconds(committed, min(received, default=None)),
        "seconds_to_end": _seconds(committed, ended),
    }


def queue_of(record: UowRecord) -> str:
    if record.flags & Flag.FROM_SERVER:
        return str(ServiceQueue(record.sender_class, record.sender_server, record.sender_service, is_reply=True))
    return str(ServiceQueue(record.receiver_class, record.receiver_server, record.receiver_service))


def _status(last: Step, drop: Step | None, end: Step | None, starts: Sequence[tuple[Place, int]]) -> str:
    record: UowRecord = last.record
    if record.status in COMPLETE:
        return record.status.name
    if drop is None:
        started = any(_is_later(start, last) for start in starts)
        return "ACCEPTED" if record.status is Status.DELIVERED and started else record.status.name
    if end is not None and end.operation == "DELIVER":
        return "PROCESSED"
    if end is None or end.place != drop.place:
        return "GONE"
    return "REMOVED" if record.lifetime else "CANCELLED"


def _is_later(start: tuple[Place, int], step: Step) -> bool:
    """Say whether a start came after a record was written for the first time."""
    return start[1] > step.record.changed if step.moved else start[0] > step.place


def _seconds(start: int | None, end: int | None) -> float | None:
    return None if start is None or end is None else max(0, end - start) / 1e6


def uow_stays(databases: Iterable[Traced]) -> Answer:
    found = []
    for traced_ in databases:
        starts = traced_.starts()
        for uowid, steps in traced_.keys(UOWS).items():
            known = [step.record for step in steps if step.record is not None]
            if known and known[-1].flags & Flag.STATUS_PERSISTENT:
                named = {"database": traced_.database, "uowid": uowid, "queue": queue_of(known[-1])}
                found += [named | stay for stay in _stays(steps, starts)]
    return found


def _stays(steps: Sequence[Step], starts: Sequence[tuple[Place, int]]) -> Answer:
    """Go through what happened to a unit of work and note when it was another status."""
    told = [step for place, step in enumerate(steps) if not place or not step.moved]
    happened: list[tuple[str, int]] = []
    for place, step in enumerate(told):
        if step.operation == "DROP":
            happened.append(("", step.time))
        elif step.record is not None:
            happened.append((step.record.status.name, step.record.changed))
            behind = told[place + 1].place if place + 1 < len(told) else (1 << 60, 0)
            between = [start for start in starts if _is_later(start, step) and start[0] < behind]
            if step.record.status is Status.DELIVERED and between:
                happened.append(("ACCEPTED", between[0][1]))
    changes = [each for place, each in enumerate(happened) if not place or happened[place - 1][0] != each[0]]
    found = []
    for place, (status, since) in enumerate(changes):
        until = changes[place + 1][1] if place + 1 < len(changes) else None
        if status:
            found.append({"status": status, "since": since, "until": until, "seconds": _seconds(since, until)})
    return found


# By service.


def _shares(values: Iterable[float | None], *, exact: bool) -> dict[str, float | None]:
    known = [round(value * 1e6) for value in values if value is not None]
    found = [in_seconds(percentile(known, share, exact=exact)) for share in SHARES]
    return {f"p{share * 100:.0f}_seconds": value for share, value in zip(SHARES, found, strict=True)} | {
        "max_seconds": in_seconds(max(known, default=None))
    }


def uow_services(units: Answer, *, now: int, exact: bool) -> Answer:
    names = {
        "uncommitted": "RECEIVED",
        "postponed": "POSTPONED",
        "processed": "PROCESSED",
        "backed_out": "BACKEDOUT",
        "cancelled": "CANCELLED",
        "timed_out": "TIMEOUT",
        "discarded": "DISCARDED",
        "removed": "REMOVED",
        "gone": "GONE",
    }
    found = []
    for (database, queue), each in grouped(units, lambda unit: (unit["database"], unit["queue"])).items():
        waiting = [unit for unit in each if unit["status"] in WAITING]
        oldest = min(waiting, key=lambda unit: (unit["committed"], unit["uowid"]), default=None)
        received = _shares((unit["seconds_to_receive"] for unit in each), exact=exact)
        found.append(
            {
                "database": database,
                "queue": queue,
                "units": len(each),
                "messages": sum(unit["messages"] for unit in each),
                "bytes": sum(unit["bytes"] for unit in each),
                "with_status": sum(unit["has_status"] for unit in each),
                "waiting": len(waiting),
                **{name: sum(unit["status"] == status for unit in each) for name, status in names.items()},
                "attempts": sum(unit["attempts"] for unit in each),
                "tried_again": sum(unit["attempts"] > 0 for unit in each),
                "attempts_max": max(unit["attempts"] for unit in each),
                **_shares((unit["seconds_to_end"] for unit in each if unit["status"] == "PROCESSED"), exact=exact),
                "receive_p50_seconds": received["p50_seconds"],
                "receive_p99_seconds": received["p99_seconds"],
                "oldest": oldest and oldest["uowid"],
                "oldest_committed": oldest and oldest["committed"],
                "oldest_age_seconds": oldest and _seconds(oldest["committed"], now),
            }
        )
    return found


def uow_statuses(units: Answer, stays: Answer, *, exact: bool) -> Answer:
    def key(row: dict[str, Any]) -> tuple[str, str, str]:
        return row["database"], row["queue"], row["status"]

    by_units, by_stays = grouped(units, key), grouped((row for row in stays if row["seconds"] is not None), key)
    found = []
    for at in by_units.keys() | by_stays.keys():
        each, stayed = by_units.get(at, []), by_stays.get(at, [])
        changes = [unit["ended"] or unit["changed"] for unit in each]
        found.append(
            {
                **dict(zip(("database", "queue", "status"), at, strict=True)),
                "units": len(each),
                "messages": sum(unit["messages"] for unit in each),
                "bytes": sum(unit["bytes"] for unit in each),
                "first_changed": min(changes, default=None),
                "last_changed": max(changes, default=None),
                "stays": len(stayed),
                **_shares((row["seconds"] for row in stayed), exact=exact),
            }
        )
    return found


def uow_attempts(units: Answer) -> Answer:
    counts: dict[tuple[str, str, int], Counter[str]] = defaultdict(Counter)
    for unit in units:
        mine = counts[unit["database"], unit["queue"], unit["attempts"]]
        waiting, done = int(unit["status"] in WAITING), int(unit["status"] == "PROCESSED")
        failed = int(not waiting and not done and unit["status"] != "RECEIVED")
        mine.update(units=1, waiting=waiting, processed=done, failed=failed, postpones=unit["postpones"])
    return [
        {"database": database, "queue": queue, "attempts": attempts, **mine}
        for (database, queue, attempts), mine in counts.items()
    ]


def uow_failures(units: Answer, names: Sequence[str]) -> Answer:
    fine = (*WAITING, "PROCESSED", "RECEIVED")
    return [{name: unit[name] for name in names} for unit in units if unit["status"] not in fine]


# Conversations.


def conversations(units: Answer) -> Answer:
    found = []
    groups = grouped(units, lambda unit: (unit["database"], unit["conv_id"], unit["service"]))
    for (database, conv_id, service), each in groups.items():
        clients = {unit["receiver"] if unit["is_reply"] else unit["sender"] for unit in each} - {None}
        servers = {unit["sender"] for unit in each if unit["is_reply"]}
        servers |= {unit["receiver"] for unit in each if not unit["is_reply"] and unit["status"] == "PROCESSED"} - {
            None
        }
        waiting = [unit for unit in each if unit["status"] in WAITING]
        over = [unit for unit in each if unit["state"] != ConversationState.OPEN.name]
        end = max(over, key=_last, default=None)
        begun, last = min(unit["begun"] or unit["created"] for unit in each), max(map(_last, each))
        found.append(
            {
                "database": database,
                "conv_id": conv_id,
                "service": service,
                "client": max(clients, default=None),
                "server": max(servers, default=None),
                "units": sum(not unit["is_reply"] for unit in each),
                "replies": sum(unit["is_reply"] for unit in each),
                "messages": sum(unit["messages"] for unit in each),
                "bytes": sum(unit["bytes"] for unit in each),
                "waiting": sum(not unit["is_reply"] for unit in waiting),
                "waiting_replies": sum(unit["is_reply"] for unit in waiting),
                "failed": len(uow_failures(each, ())),
                "attempts": sum(unit["attempts"] for unit in each),
                "begun": begun,
                "last": last,
                "seconds": _seconds(begun, last),
                "state": "OPEN" if end is None else end["state"],
                "reason": None if end is None else end["reason"],
                "is_open": bool(waiting),
            }
        )
    return found


def _last(unit: dict[str, Any]) -> int:
    return int(unit["ended"] or unit["changed"])


def conversation_services(talks: Answer, *, now: int, exact: bool) -> Answer:
    found = []
    for (database, service), each in grouped(talks, lambda talk: (talk["database"], talk["service"])).items():
        sizes = [talk["units"] + talk["replies"] for talk in each]
        oldest = min(
            (talk for talk in each if talk["is_open"]), key=lambda talk: (talk["begun"], talk["conv_id"]), default=None
        )
        found.append(
            {
                "database": database,
                "service": service,
                "conversations": len(each),
                "open": sum(talk["is_open"] for talk in each),
                "answered": sum(talk["replies"] > 0 for talk in each),
                "ended": sum(talk["state"] != "OPEN" for talk in each),
                "cancelled": sum(talk["state"] == "EOC_CANCEL" for talk in each),
                "units_mean": sum(sizes) / len(sizes),
                "units_max": max(sizes),
                **_shares((talk["seconds"] for talk in each if not talk["is_open"]), exact=exact),
                "oldest": oldest and oldest["conv_id"],
                "oldest_begun": oldest and oldest["begun"],
                "oldest_age_seconds": oldest and _seconds(oldest["begun"], now),
            }
        )
    return found


# Publish and subscribe.


def publications(databases: Iterable[Traced]) -> Answer:
    found = []
    for traced_ in databases:
        ends = traced_.ends()
        for publication_id, steps in traced_.keys(PUBLICATIONS).items():
            records = [step.record for step in steps if step.record is not None]
            if records:
                row = _publication(records[-1], steps[-1], ends)
                found.append({"database": traced_.database, "publication_id": publication_id, **row})
    return found


def _publication(record: PublicationRecord, last: Step, ends: dict[int, Step]) -> dict[str, Any]:
    drop = last if last.operation == "DROP" else None
    end = ends.get(record.first)
    status = record.status.name
    if drop is not None:
        is_at_once = end is not None and end.place == drop.place
        has_all = end is not None and end.operation == "DELIVER"
        status = "PROCESSED" if has_all else "TIMEOUT" if is_at_once else "GONE"
    return {
        "topic": record.topic,
        "publisher": record.user,
        "status": status,
        "user_status": record.ustatus or None,
        "messages": record.messages,
        "bytes": record.size,
        "lifetime": record.lifetime,
        "first_message": record.first,
        "created": record.created,
        "committed": record.committed,
        "ended": drop and drop.time,
        "seconds_to_end": None if drop is None else _seconds(record.committed, drop.time),
    }


def subscribers(databases: Iterable[Traced], published: Answer, *, now: int) -> Answer:
    found = []
    for traced_ in databases:
        mine = [row for row in published if row["database"] == traced_.database and row["ended"] is None]
        for subscription_id, steps in traced_.keys(SUBSCRIPTIONS).items():
            records = [step.record for step in steps if step.record is not None]
            if records:
                drop = steps[-1] if steps[-1].operation == "DROP" else None
                row = _subscriber(records, drop, mine, now=now)
                found.append({"database": traced_.database, "subscription_id": subscription_id, **row})
    return found


def _is_acknowledged(number: int, numbers: Sequence[int]) -> bool:
    """Say whether a number is one of these, or between one and the next, which has 2^63 added."""
    ranges = zip(numbers, [*numbers, 0][1:], strict=True)
    return any(low <= number <= (high - 2**63 if high >= 2**63 else low) for low, high in ranges if low < 2**63)


def _subscriber(
    records: Sequence[SubscriptionRecord], drop: Step | None, published: Answer, *, now: int
) -> dict[str, Any]:
    record = records[-1]
    behind = [
        row
        for row in published
        if drop is None
        and row["topic"] == record.topic
        and row["first_message"] > record.position
        and not _is_acknowledged(row["first_message"], record.acknowledged)
    ]
    since = min((row["committed"] for row in behind), default=None)
    return {
        "topic": record.topic,
        "user": record.user,
        "token": record.token or None,
        "subscribed": record.subscribed,
        "active": record.active,
        "ended": drop and drop.time,
        "expiration": record.expiration,
        "acknowledgements": len({each.last_committed for each in records} - {""}),
        "last_acknowledged": record.last_committed or None,
        "position": record.position,
        "lag_publications": len(behind),
        "lag_messages": sum(row["messages"] for row in behind),
        "lag_bytes": sum(row["bytes"] for row in behind),
        "lag_since": since,
        "lag_seconds": _seconds(since, now) or 0.0,
        "idle_seconds": _seconds(record.active, now) if drop is None else None,
    }


def topics(published: Answer, subscribed: Answer, *, now: int, exact: bool) -> Answer:
    def key(row: dict[str, Any]) -> tuple[str, str]:
        return row["database"], row["topic"]

    by_topic, by_subscribers = grouped(published, key), grouped(subscribed, key)
    found = []
    for at in by_topic.keys() | by_subscribers.keys():
        each, theirs = by_topic.get(at, []), by_subscribers.get(at, [])
        waiting = [row for row in each if row["ended"] is None]
        there = [row for row in theirs if row["ended"] is None]
        oldest = min((row["committed"] for row in waiting), default=None)
        found.append(
            {
                **dict(zip(("database", "topic"), at, strict=True)),
                "publications": len(each),
                "messages": sum(row["messages"] for row in each),
                "bytes": sum(row["bytes"] for row in each),
                "publishers": len({row["publisher"] for row in each}),
                "waiting": len(waiting),
                "waiting_bytes": sum(row["bytes"] for row in waiting),
                "processed": sum(row["status"] == "PROCESSED" for row in each),
                "timed_out": sum(row["status"] == "TIMEOUT" for row in each),
                "gone": sum(row["status"] == "GONE" for row in each),
                **_shares((row["seconds_to_end"] for row in each if row["status"] == "PROCESSED"), exact=exact),
                "oldest_committed": oldest,
                "oldest_age_seconds": _seconds(oldest, now),
                "subscribers": len(there),
                "subscribers_behind": sum(row["lag_publications"] > 0 for row in there),
                "lag_publications_max": max((row["lag_publications"] for row in there), default=0),
                "lag_seconds_max": max((row["lag_seconds"] for row in there), default=0.0),
                "subscribers_ended": len(theirs) - len(there),
            }
        )
    return found


# The store.


def broker_starts(databases: Iterable[Traced]) -> Answer:
    words = {"ETBC": "cold start", "ETBH": "hot start", "ETBT": "termination"}
    found: dict[object, dict[str, Any]] = {}
    for traced_ in databases:
        masters = {step.record.starts: step.record for step in traced_.steps if isinstance(step.record, MasterRecord)}
        for step in traced_.steps:
            record = step.record
            if isinstance(record, CheckpointRecord):
                master = masters.get(record.starts)
                found[traced_.database, record] = {
                    "database": traced_.database,
                    "broker_id": record.broker_id,
                    "time": record.time,
                    "checkpoint": record.name.name,
                    "what": words[record.name.name],
                    "starts": record.starts,
                    "job": record.job,
                    "platform": master and master.platform,
                    "version": master and master.version,
                }
    return list(found.values())


def broker_records(databases: Iterable[Traced]) -> Answer:
    found = []
    for traced_ in databases:
        for kind in RecordKind:
            steps = [step for step in traced_.steps if step.key and kind_of(step.key) is kind]
            there = {step.key: step for step in steps}
            there = {key: step for key, step in there.items() if step.operation == "PUT"}
            written = [step for step in steps if step.operation == "PUT" and not step.moved]
            unreadable = [step for step in steps if step.operation == "PUT" and step.record is None]
            if steps:
                found.append(
                    {
                        "database": traced_.database,
                        "kind": kind.name,
                        "keys": len(there),
                        "bytes": sum(step.length for step in there.values()),
                        "written": len(written),
                        "written_bytes": sum(step.length for step in written),
                        "dropped": sum(step.operation == "DROP" for step in steps),
                        "unreadable": len(unreadable),
                        "newer": 0,
                    }
                )
    return found
