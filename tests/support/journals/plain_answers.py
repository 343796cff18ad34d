"""The answers to the questions without Spark: loops over operations, one after another, in the order of the journal.

Written from what the format says that operations add up to, not from how the fold and Spark put them together: tests
compare them.
"""

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.support.journals.plain_rows import Answer, File, Row

ENGINE = "\0"
_Key = TypeVar("_Key")


@dataclass(slots=True)
class Known:
    """What is known of one message. Times in microseconds."""

    queue: str
    added: int | None = None
    delivered: int | None = None
    deleted: int | None = None
    length: int = 0
    stored: int = 0
    hash: int | None = None
    producer: str | None = None
    sequence: int = 0
    commit: int | None = None
    due: int | None = None
    expiry: int | None = None
    is_dead_lettered: bool = False  # where it is known which commits move messages to the dead letters

    @property
    def ended(self) -> int | None:
        return self.deleted if self.delivered is None else self.delivered

    @property
    def is_undelivered(self) -> bool:
        return self.added is not None and self.ended is None

    @property
    def latency(self) -> int | None:
        """Microseconds from ADD, or from when it was due, to DELIVER; None where one is not known."""
        if self.added is None or self.delivered is None:
            return None
        return max(0, self.delivered - max(self.added, self.due or self.added))


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.database, row.sequence, row.offset))


Moves = frozenset[tuple[str, int, int]]


def moves_in(rows: Iterable[Row]) -> Moves:
    """Return the commits that move messages to the dead letters: what they add tells of attempts."""
    adds = (row for row in rows if row.operation == "ADD" and row.attempts is not None and not row.moved)
    return frozenset((row.database, row.sequence, row.commit) for row in adds)


def known_messages(rows: Iterable[Row], moves: Moves = frozenset()) -> dict[tuple[str, int], Known]:
    """Return what the operations say of each message, by database and number."""
    found: dict[tuple[str, int], Known] = {}
    for row in in_order(rows):
        if row.message is None:
            continue
        assert row.queue is not None
        known = found.setdefault((row.database, row.message), Known(row.queue))
        if row.operation == "ADD":
            assert row.length is not None
            known.added, known.length, known.hash = row.first_time, row.length, row.hash
            known.stored = row.length + (row.properties_length or 0)
            known.sequence, known.producer, known.due = row.sequence, row.producer, row.due
            known.expiry = row.expiry
            if not row.moved:
                known.commit = row.commit
        elif row.operation == "DELIVER":
            known.delivered = row.time if known.delivered is None else min(known.delivered, row.time)
        else:
            known.deleted = row.time if known.deleted is None else min(known.deleted, row.time)
            known.is_dead_lettered |= (row.database, row.sequence, row.commit) in moves
    return found


def latest(rows: Iterable[Row]) -> dict[tuple[str, str], Row]:
    """Return the last operation on each key of the application."""
    return {(row.database, row.key): row for row in in_order(rows) if row.key and not row.key.startswith(ENGINE)}


def grouped(rows: Iterable[Any], key: Callable[[Any], _Key]) -> dict[_Key, list[Any]]:
    found: dict[_Key, list[Any]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def percentile(values: Sequence[int], share: float, *, exact: bool = False) -> float | None:
    """Return the value at a share of the ranks: one of them, or where exact, between two."""
    if not values:
        return None
    ordered = sorted(values)
    if not exact:
        return float(ordered[max(math.ceil(share * len(ordered)), 1) - 1])
    rank = share * (len(ordered) - 1)
    low, part = int(rank), rank - int(rank)
    return ordered[low] if not part else ordered[low] * (1 - part) + ordered[low + 1] * part


def in_seconds(micros: float | None) -> float | None:
    return None if micros is None else micros / 1e6


# Lifecycle.


def lifecycle(rows: Iterable[Row], *, now: int, moves: Moves = frozenset()) -> Answer:
    """Return the answer; with the commits that move messages to the dead letters it knows which those are."""
    found = []
    by_queue = grouped(known_messages(rows, moves).items(), lambda each: (each[0][0], each[1].queue))
    for (database, queue), messages in by_queue.items():
        deleted = [known for _, known in messages if known.delivered is None and known.deleted is not None]
        latencies = [known.latency for _, known in messages if known.latency is not None]
        there = {number: known for (_, number), known in messages if known.is_undelivered}
        oldest = min(there, default=None)
        added = there[oldest].added if oldest is not None else None
        found.append(
            {
                "database": database,
                "queue": queue,
                "added": sum(known.added is not None for _, known in messages),
                "added_before": sum(known.added is None for _, known in messages),
                "delivered": sum(known.delivered is not None for _, known in messages),
                "deleted": len(deleted),
                "expired": sum(_is_expired(known) for known in deleted),
                "dead_lettered": sum(known.is_dead_lettered for known in deleted),
                "undelivered": len(there),
                "undelivered_bytes": sum(known.length for known in there.values()),
                "p50_seconds": in_seconds(percentile(latencies, 0.5)),
                "p90_seconds": in_seconds(percentile(latencies, 0.9)),
                "p99_seconds": in_seconds(percentile(latencies, 0.99)),
                "max_seconds": in_seconds(max(latencies, default=None)),
                "oldest": oldest,
                "oldest_added": added,
                "oldest_age_seconds": in_seconds(None if added is None else max(0, now - added)),
            }
        )
    return found


def _is_expired(known: Known) -> bool:
    is_known = known.added is not None and known.expiry is not None and known.deleted is not None
    return is_known and (known.deleted or 0) >= (known.expiry or 0)


def latency_over_time(rows: Iterable[Row], *, every: int) -> Answer:
    found = []
    delivered = [(database, one) for (database, _), one in known_messages(rows).items() if one.latency is not None]
    for (database, bucket, queue), each in grouped(
        delivered, lambda one: (one[0], (one[1].delivered or 0) // every * every, one[1].queue)
    ).items():
        latencies = [known.latency for _, known in each if known.latency is not None]
        shares = {f"p{share * 100:.0f}_seconds": percentile(latencies, share) for share in (0.5, 0.9, 0.99)}
        found.append(
            {
                "database": database,
                "bucket": bucket,
                "queue": queue,
                "messages": len(each),
                **{name: in_seconds(value) for name, value in shares.items()},
                "max_seconds": in_seconds(max(latencies)),
                "rank_error": 0.0,
            }
        )
    return found


def latency_histogram(rows: Iterable[Row], *, bins_a_decade: int) -> Answer:
    edges = [10 ** (place / bins_a_decade) for place in range(18 * bins_a_decade)]
    counts: Counter[tuple[str, str, int | None]] = Counter()
    for (database, _), known in known_messages(rows).items():
        if known.latency is not None:
            place = bisect_right(edges, known.latency * (1 + 1e-12)) - 1 if known.latency else None
            counts[database, known.queue, place] += 1
    return [
        {
            "database": database,
            "queue": queue,
            "bin": place,
            "from_seconds": 0.0 if place is None else edges[place] / 1e6,
            "to_seconds": 1e-6 if place is None else edges[place + 1] / 1e6,
            "messages": count,
        }
        for (database, queue, place), count in counts.items()
    ]


# Rates.


def rate(rows: Sequence[Row], *, every: int, since: int | None = None) -> Answer:
    counts: Counter[tuple[str, int, str | None, str]] = Counter()
    sizes: Counter[tuple[str, int, str | None, str]] = Counter()

    def count(database: str, time: int | None, queue: str | None, operation: str, size: int) -> None:
        if time is not None and (since is None or time >= since):
            counts[database, time // every * every, queue, operation] += 1
            sizes[database, time // every * every, queue, operation] += size

    for (database, _), known in known_messages(rows).items():
        count(database, known.added, known.queue, "ADD", known.length)
        count(database, known.delivered, known.queue, "DELIVER", known.length)
        if known.delivered is None:
            count(database, known.deleted, known.queue, "DELETE", known.length)
    for row in rows:
        if row.key and not row.key.startswith(ENGINE) and not row.moved:
            count(row.database, row.time, None, row.operation, row.length or 0)
    return [
        {
            "database": database,
            "bucket": bucket,
            "queue": queue,
            "operation": operation,
            "operations": counts[database, bucket, queue, operation],
            "bytes": sizes[database, bucket, queue, operation],
        }
        for database, bucket, queue, operation in counts
    ]


def backlog(rows: Iterable[Row], *, every: int) -> Answer:
    """Count, for each bucket in which something came or went, what is there just before it ends."""
    found = []
    for (database, queue), each in grouped(
        known_messages(rows).items(), lambda each: (each[0][0], each[1].queue)
    ).items():
        lives = [
            (-math.inf if known.added is None else known.added, known.ended, known.length if known.hash else 0, known)
            for _, known in each
        ]
        lives = [(start, None if end is None else max(start, end), size, known) for start, end, size, known in lives]
        times = {int(time) for start, end, _, _ in lives for time in (start, end) if time not in (None, -math.inf)}
        for bucket in {time // every * every for time in times}:
            last = bucket + every
            there = [size for start, end, size, _ in lives if start < last and (end is None or end >= last)]
            found.append(
                {
                    "database": database,
                    "bucket": bucket,
                    "queue": queue,
                    "undelivered": len(there),
                    "undelivered_bytes": sum(there),
                }
            )
    return found


# Commits.


def commits(rows: Sequence[Row], *, every: int) -> Answer:
    writes: dict[tuple[str, int, int], list[Row]] = grouped(
        in_order(rows), lambda row: (row.database, row.sequence, row.time)
    )
    by_bucket: dict[tuple[str, int], list[tuple[list[Row], int | None]]] = defaultdict(list)
    before: dict[str, int] = {}
    for (database, _, time), write in writes.items():  # in the order of the journal
        gap = max(0, time - before[database]) if database in before else None
        by_bucket[database, time // every * every].append((write, gap))
        before[database] = time
    return [_commits_of(at, found) for at, found in by_bucket.items()]


def _commits_of(at: tuple[str, int], writes: list[tuple[list[Row], int | None]]) -> dict[str, Any]:
    every = [grouped(write, lambda row: row.commit) for write, _ in writes]
    each = [commit for write in every for commit in write.values()]
    sizes = [sum(row.length or 0 for row in commit) for commit in each]
    gaps = [gap for _, gap in writes if gap is not None]
    return {
        "database": at[0],
        "bucket": at[1],
        "writes": len(writes),
        "commits": len(each),
        "operations": sum(map(len, each)),
        "moved": sum(row.moved for commit in each for row in commit),
        "bytes": sum(sizes),
        "commits_per_write": len(each) / len(writes),
        "commits_per_write_max": max(map(len, every)),
        "operations_per_commit": sum(map(len, each)) / len(each),
        "operations_per_commit_max": max(map(len, each)),
        "bytes_per_commit": sum(sizes) / len(each),
        "bytes_per_commit_max": max(sizes),
        "gap_p50_seconds": in_seconds(percentile(gaps, 0.5)),
        "gap_p99_seconds": in_seconds(percentile(gaps, 0.99)),
        "gap_max_seconds": in_seconds(max(gaps, default=None)),
    }


# Duplicates.


def duplicates(rows: Iterable[Row], *, window: int) -> Answer:
    known = known_messages(rows)
    return _same_producer(known) + _same_payload(known, window)


def _same_producer(every: dict[tuple[str, int], Known]) -> Answer:
    named = [(at, known) for at, known in every.items() if known.producer is not None and known.added is not None]
    found = []
    for (database, queue, producer), each in grouped(
        named, lambda one: (one[0][0], one[1].queue, one[1].producer)
    ).items():
        # A commit whose file is gone is known by its time alone.
        by_commit = grouped(
            each, lambda one: ("at", one[1].added) if one[1].commit is None else ("commit", one[1].commit)
        )
        if len(by_commit) > 1:
            payloads = [sorted(known.hash for _, known in commit) for commit in by_commit.values()]
            found.append(
                _duplicate("producer", (database, queue), each)
                | {
                    "producer": producer,
                    "hash": None,
                    "length": None,
                    "commits": len(by_commit),
                    "same_payloads": all(one == payloads[0] for one in payloads),
                }
            )
    return found


def _same_payload(every: dict[tuple[str, int], Known], window: int) -> Answer:
    found = []
    named = [(at, known) for at, known in every.items() if known.added is not None]
    for (database, queue, hashed, length), each in grouped(
        named, lambda one: (one[0][0], one[1].queue, one[1].hash, one[1].length)
    ).items():
        runs: list[list[Any]] = []
        for one in sorted(each, key=lambda one: (one[1].added, one[0][1])):
            if runs and one[1].added - runs[-1][-1][1].added <= window:
                runs[-1].append(one)
            else:
                runs.append([one])
        found += [
            _duplicate("payload", (database, queue), run)
            | {"producer": None, "hash": hashed, "length": length, "commits": None, "same_payloads": True}
            for run in runs
            if len(run) > 1
        ]
    return found


def _duplicate(kind: str, where: tuple[str, str], each: list[tuple[tuple[str, int], Known]]) -> dict[str, Any]:
    numbers = [number for (_, number), _ in each]
    times = [known.added for _, known in each if known.added is not None]
    return {
        "kind": kind,
        "database": where[0],
        "queue": where[1],
        "messages": len(each),
        "first_message": min(numbers),
        "last_message": max(numbers),
        "first_time": min(times),
        "last_time": max(times),
    }


# Retention.


def retention(
    rows: Sequence[Row], files: Iterable[File], *, now: int, share: float = 0.5, data_file_bytes: int = 25 << 20
) -> Answer:
    known = known_messages(rows)
    versions = latest(rows)
    found = []
    for _, each in grouped(files, lambda file: file.database).items():
        in_turn = sorted((file for file in each if not file.retained), key=lambda file: file.sequence)
        facts = [
            _file(file, known, versions, now=now, is_last=place == len(in_turn) - 1)
            for place, file in enumerate(in_turn)
        ]
        doomed = _doomed(facts, share, data_file_bytes)
        for place, fact in enumerate(facts):
            later = [other for other in facts[place + 1 :] if not other["needed"] and not other["active"]]
            fact["pins_files"] = len(later) if fact["needed"] else 0
            fact["freed_by_compact"] = fact["bytes"] - _kept(fact) if place < doomed else 0
        found += facts
    return found


def _file(
    file: File, known: dict[tuple[str, int], Known], versions: dict[tuple[str, str], Row], *, now: int, is_last: bool
) -> dict[str, Any]:
    at = (file.database, file.sequence)
    live = {
        number: one
        for (database, number), one in known.items()
        if one.is_undelivered and (database, one.sequence) == at
    }
    keys = {
        key: row
        for (database, key), row in versions.items()
        if row.operation == "PUT" and (database, row.sequence) == at
    }
    pin, first_key = min(live, default=None), min(keys, default=None)
    since = live[pin].added if pin is not None else keys[first_key].time if first_key is not None else None
    return {
        "database": file.database,
        "sequence": file.sequence,
        "file": file.file,
        "active": is_last and not file.sealed,
        "bytes": file.bytes,
        "live_bytes": sum(one.stored for one in live.values()),
        "dead_bytes": file.bytes - sum(one.stored for one in live.values()),
        "live_messages": len(live),
        "live_keys": len(keys),
        "needed": bool(live or keys),
        "pinned_by": "message" if live else "key" if keys else None,
        "pin_message": pin,
        "pin_queue": live[pin].queue if pin is not None else None,
        "pin_key": None if live else first_key,
        "pin_age_seconds": in_seconds(None if since is None else max(0, now - since)),
    }


def _kept(fact: dict[str, Any]) -> int:
    return int(fact["live_bytes"] + 120 * fact["live_messages"] + 300 * fact["live_keys"])


def _doomed(facts: Sequence[dict[str, Any]], share: float, data_file_bytes: int) -> int:
    """Return how many of the first files compaction would let go: the longest run that is worth it."""
    best = 0
    for count in range(1, len(facts) + 1):
        run = facts[:count]
        if run[-1]["active"]:
            break
        total, kept = sum(fact["bytes"] for fact in run), sum(map(_kept, run))
        is_many = count >= 8 and kept <= data_file_bytes // 2 and total <= data_file_bytes
        if not any(fact["needed"] for fact in run) or kept <= share * total or is_many:
            best = count
    return best


# Comparison.


def comparison(
    here: Iterable[Row], there: Iterable[Row], *, match_databases: bool = True, undelivered_only: bool = False
) -> Answer:
    sides = [_facts(rows, undelivered_only=undelivered_only) for rows in (here, there)]
    names = [min((database for database, *_ in side), default="") for side in sides]
    if not match_databases:
        sides = [{("", kind, name): facts for (_, kind, name), facts in side.items()} for side in sides]
    found = []
    for at in sides[0].keys() | sides[1].keys():
        mine, other = sides[0].get(at), sides[1].get(at)
        if mine != other:
            both = mine is not None and other is not None
            found.append(
                {
                    "kind": at[1],
                    "database": at[0] or names[mine is None],
                    "message": at[2] if at[1] == "message" else None,
                    "key": at[2] if at[1] == "key" else None,
                    "difference": "differs" if both else "only there" if mine is None else "only here",
                    "facts": [name for name in mine if mine[name] != other[name]] if mine and other else [],
                    "here": mine,
                    "there": other,
                }
            )
    return found


def _facts(rows: Iterable[Row], *, undelivered_only: bool) -> dict[tuple[str, str, int | str], dict[str, Any]]:
    rows = list(rows)
    found: dict[tuple[str, str, int | str], dict[str, Any]] = {}
    for (database, number), known in known_messages(rows).items():
        if known.is_undelivered or not undelivered_only:
            found[database, "message", number] = {
                "queue": known.queue,
                "length": None if known.added is None else known.length,
                "hash": known.hash,
                "producer": known.producer,
                "first_time": known.added,
                "end": "DELIVER" if known.delivered is not None else "DELETE" if known.deleted is not None else None,
                "end_time": known.ended,
            }
    for (database, key), row in latest(rows).items():
        if row.operation == "PUT":
            nothing = dict.fromkeys(("queue", "producer", "first_time", "end", "end_time"))
            found[database, "key", key] = {**nothing, "length": row.length, "hash": row.hash}
    return found


# Counts.


def counts(rows: Iterable[Row]) -> Answer:
    """Return how many operations of each kind each queue has, and the keys."""
    ours = [row for row in rows if row.key is None or not row.key.startswith(ENGINE)]
    return [
        {
            **dict(zip(("database", "queue", "operation"), at, strict=True)),
            "operations": len(each),
            "moved": sum(row.moved for row in each),
            "bytes": sum(row.length or 0 for row in each),
        }
        for at, each in grouped(ours, lambda row: (row.database, row.queue, row.operation)).items()
    ]


# Losses.


def losses(rows: Sequence[Row], archived: Iterable[Row]) -> list[tuple[Row, str]]:
    """Return the operations of archives that the files in use do not have, each with its effect."""
    archived = [row for row in archived if row.key is None or not row.key.startswith(ENGINE)]
    first = {database: min(row.sequence for row in each) for database, each in _by_database(rows).items()}
    there = {_mark(row) for row in rows}
    lost: dict[object, Row] = {}
    for row in archived:
        if _mark(row) not in there and row.sequence >= first.get(row.database, 0):
            lost.setdefault(_mark(row), row)
    known, had, versions = known_messages(rows), known_messages(archived), latest(rows)
    done_last = latest([*rows, *archived])
    return [(row, _effect(row, known, had, versions, done_last)) for row in lost.values()]


def _by_database(rows: Iterable[Row]) -> dict[str, list[Row]]:
    return grouped(rows, lambda row: row.database)


def _mark(row: Row) -> tuple[object, ...]:
    """Return what makes the operation the one it is; an ADD is the same wherever it stands."""
    commit = None if row.operation == "ADD" else (row.owner, row.commit)
    return row.database, row.operation, row.key, row.message, commit


def _effect(
    row: Row,
    known: dict[tuple[str, int], Known],
    had: dict[tuple[str, int], Known],
    versions: dict[tuple[str, str], Row],
    done_last: dict[tuple[str, str], Row],
) -> str:
    if row.message is None:
        assert row.key is not None
        last, version = done_last[row.database, row.key], versions.get((row.database, row.key))
        if (last.sequence, last.offset) != (row.sequence, row.offset):
            return "none"
        now = version.hash if version is not None and version.operation == "PUT" else None
        return "none" if now == row.hash else "older value"
    mine = known.get((row.database, row.message))
    if row.operation == "ADD":
        has_end = mine is not None and mine.ended is not None
        return "already ended" if has_end or had[row.database, row.message].ended is not None else "message lost"
    if mine is None:
        return "none"
    return "undelivered again" if mine.is_undelivered else "ended twice"
