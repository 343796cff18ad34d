"""A report's tables as Spark would have written them, made of invented figures: pages without a Spark session."""

import json
import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from oms_journal.analysis.broker import answers as of_broker
from oms_journal.analysis.report.drawing.plots import BARS_MAX
from oms_journal.analysis.report.drawing.scales import Buckets, buckets
from oms_journal.analysis.report.facts import Facts, Scope
from oms_journal.analysis.report.sections.contents import sections
from oms_journal.analysis.report.sections.section import Section
from oms_journal.analysis.report.sections.verdicts import plain
from oms_journal.analysis.report.tables import Tables
from oms_journal.analysis.report.wording import microseconds

DATABASE = "0f" * 16
FIRST = datetime(2026, 11, 18, 3, 12, tzinfo=UTC)
LAST = datetime(2026, 11, 21, 15, 4, tzinfo=UTC)
MIB = 1 << 20
EVIL = (
    'a "quoted" <script>fetch("http://127.0.0.1:9/")</script>\n</script>'
    "\u202egnp.exe &lt;b&gt; <img src=x onerror=alert(1)>"
)
QUEUES = ("orders", "billing.invoices", "UA", EVIL, "שלום עולם", "x" * 200, "EV", "B6", "DL", "9E", "idle")

_TIME = pa.timestamp("us", tz="UTC")
_NAMED = {"database": pa.string(), "queue": pa.string()}
_FACTS = pa.struct(
    {
        "queue": pa.string(),
        "length": pa.int64(),
        "hash": pa.int64(),
        "producer": pa.string(),
        "first_time": _TIME,
        "end": pa.string(),
        "end_time": _TIME,
    }
)
_NUMBERS, _SECONDS = pa.int64(), pa.float64()
SCHEMAS: Mapping[str, Mapping[str, pa.DataType]] = {
    "lifecycle": {
        **_NAMED,
        **dict.fromkeys(
            (
                *("added", "added_before", "delivered", "deleted", "expired", "dead_lettered"),
                *("undelivered", "undelivered_bytes"),
            ),
            _NUMBERS,
        ),
        **dict.fromkeys(("p50_seconds", "p90_seconds", "p99_seconds", "max_seconds"), _SECONDS),
        "oldest": _NUMBERS,
        "oldest_added": _TIME,
        "oldest_age_seconds": _SECONDS,
    },
    "latency_histogram": {
        **_NAMED,
        "bin": _NUMBERS,
        "from_seconds": _SECONDS,
        "to_seconds": _SECONDS,
        "messages": _NUMBERS,
    },
    "latency_over_time": {
        "database": pa.string(),
        "bucket": _TIME,
        "queue": pa.string(),
        "messages": _NUMBERS,
        **dict.fromkeys(("p50_seconds", "p90_seconds", "p99_seconds", "max_seconds", "rank_error"), _SECONDS),
    },
    "rate": {
        "database": pa.string(),
        "bucket": _TIME,
        "queue": pa.string(),
        "operation": pa.string(),
        "operations": _NUMBERS,
        "bytes": _NUMBERS,
    },
    "backlog": {
        "database": pa.string(),
        "bucket": _TIME,
        "queue": pa.string(),
        "undelivered": _NUMBERS,
        "undelivered_bytes": _NUMBERS,
    },
    "retention": {
        "database": pa.string(),
        "sequence": _NUMBERS,
        "file": pa.string(),
        "active": pa.bool_(),
        **dict.fromkeys(("bytes", "live_bytes", "dead_bytes", "live_messages", "live_keys"), _NUMBERS),
        "needed": pa.bool_(),
        "pinned_by": pa.string(),
        "pin_message": _NUMBERS,
        "pin_queue": pa.string(),
        "pin_key": pa.string(),
        "pin_age_seconds": _SECONDS,
        "pins_files": _NUMBERS,
        "freed_by_compact": _NUMBERS,
    },
    "commits": {
        "database": pa.string(),
        "bucket": _TIME,
        **dict.fromkeys(("writes", "commits", "operations", "moved", "bytes"), _NUMBERS),
        "commits_per_write": _SECONDS,
        "commits_per_write_max": _NUMBERS,
        "operations_per_commit": _SECONDS,
        "operations_per_commit_max": _NUMBERS,
        "bytes_per_commit": _SECONDS,
        "bytes_per_commit_max": _NUMBERS,
        **dict.fromkeys(("gap_p50_seconds", "gap_p99_seconds", "gap_max_seconds"), _SECONDS),
    },
    "duplicates": {
        "kind": pa.string(),
        **_NAMED,
        "producer": pa.string(),
        **dict.fromkeys(("hash", "length", "messages", "commits"), _NUMBERS),
        "same_payloads": pa.bool_(),
        "first_message": _NUMBERS,
        "last_message": _NUMBERS,
        "first_time": _TIME,
        "last_time": _TIME,
    },
    "losses_by_queue": {
        **_NAMED,
        "operation": pa.string(),
        "effect": pa.string(),
        "operations": _NUMBERS,
        "bytes": _NUMBERS,
        "first_time": _TIME,
        "last_time": _TIME,
    },
    "damage": {
        "database": pa.string(),
        "file": pa.string(),
        **dict.fromkeys(("sequence", "start", "end"), _NUMBERS),
        **dict.fromkeys(("kind", "reason", "archive"), pa.string()),
    },
    "comparison": {
        "kind": pa.string(),
        "database": pa.string(),
        "message": _NUMBERS,
        "key": pa.string(),
        "difference": pa.string(),
        "facts": pa.list_(pa.string()),
        "here": _FACTS,
        "there": _FACTS,
    },
}
BROKER_SCHEMAS: Mapping[str, Mapping[str, pa.DataType]] = {
    name: {column: each.type for column, each in answer.items()}
    for name, answer in {
        "units_of_work": of_broker.UNITS_OF_WORK,
        "uow_services": of_broker.UOW_SERVICES,
        "uow_statuses": of_broker.UOW_STATUSES,
        "uow_attempts": of_broker.UOW_ATTEMPTS,
        "uow_failures": of_broker.UOW_FAILURES,
        "conversations": of_broker.CONVERSATIONS,
        "conversation_services": of_broker.CONVERSATION_SERVICES,
        "subscribers": of_broker.SUBSCRIBERS,
        "topics": of_broker.TOPICS,
        "broker_starts": of_broker.BROKER_STARTS,
        "broker_records": of_broker.BROKER_RECORDS,
    }.items()
}
Rows = dict[str, list[dict[str, Any]]]


def pieces(count_max: int) -> Buckets:
    """Return at most so many intervals over the invented days."""
    return buckets(microseconds(FIRST), microseconds(LAST), count_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """How large the invented journal is."""

    queues: Sequence[str] = QUEUES
    files: int = 128
    databases: Sequence[str] = (DATABASE,)
    pieces: Buckets = field(default_factory=lambda: pieces(BARS_MAX))


def write(
    directory: Path,
    rows: Mapping[str, Iterable[Mapping[str, Any]]],
    schemas: Mapping[str, Mapping[str, pa.DataType]] = SCHEMAS,
) -> Tables:
    """Write the tables as the report does; those without rows are there too. What a row does not say is null."""
    for name, kinds in schemas.items():
        folder = directory / name
        folder.mkdir(parents=True)
        columns = {column: [row.get(column) for row in rows.get(name, ())] for column in kinds}
        arrays = {column: pa.array(values, kinds[column]) for column, values in columns.items()}
        pq.write_table(pa.table(arrays), folder / "part-00000.parquet")
    return Tables(directory)


@dataclass(frozen=True, slots=True)
class Told:
    """What the page tells of the tables."""

    facts: Facts
    sections: Sequence[Section]

    def section(self, anchor: str) -> Section:
        """Return a section."""
        [found] = [section for section in self.sections if section.verdict.question.anchor == anchor]
        return found

    def said(self) -> dict[str, str]:
        """Return the answers in words, by section."""
        return {section.verdict.question.anchor: plain(section.verdict.sentence) for section in self.sections}

    def drawn(self, title: str) -> list[dict[str, Any]]:
        """Return what a figure tells the page's script of its series."""
        text = "".join(part for section in self.sections for part in section.parts)
        pattern = rf"<figcaption>{re.escape(title)} .*?<script type=\"application/json\">(.*?)</script>"
        found = re.search(pattern, text, re.DOTALL)
        rows: list[dict[str, Any]] = json.loads(found[1])["rows"] if found is not None else []
        return rows

    def series(self, title: str) -> dict[str, list[float | None]]:
        """Return the values that a figure draws at first, by label."""
        return {row["label"]: row["values"] for row in self.drawn(title) if not row["waits"]}


def told(tables: Tables, world: World | None = None, **scope: Any) -> Told:
    """Return what the page tells of the tables."""
    world = world or World()
    defaults: dict[str, Any] = {
        "paths": ("/var/opt/universal/spool/oms", "/mnt/retention"),
        "made_at": LAST,
        "first_time": FIRST,
        "last_time": LAST,
        "databases": len(world.databases),
        "files": world.files,
        "bytes": world.files * 25 * MIB,
        "operations": 12_345_678,
        "queues": tables.count("lifecycle"),
        "seconds": 43.2,
    }
    written = [{"name": "lifecycle", "meaning": "what became of the messages of each queue", "rows": 11}]
    facts = Facts(
        scope=Scope(**(defaults | scope)),
        buckets=world.pieces,
        window=timedelta(hours=1),
        archives=1,
        written=written,
    )
    return Told(facts, sections(tables, facts))


def invented(world: World | None = None, *, seed: int = 3) -> Rows:
    """Return rows for every table but the comparison."""
    world = world or World()
    chance = random.Random(seed)
    rows: Rows = {name: [] for name in SCHEMAS}
    for database in world.databases:
        for place, queue in enumerate(world.queues):
            _add_queue(rows, chance, world, {"database": database, "queue": queue}, place)
        for sequence in range(12, 12 + world.files):
            rows["retention"].append(_file(chance, world, database, sequence))
        for time in _times(world.pieces):
            rows["commits"].append({"database": database, "bucket": time, **_commits(chance)})
    named = {"database": world.databases[0], "queue": world.queues[0]}
    rows["duplicates"] += [_payload_again(named, count) for count in range(2, 30)]
    rows["duplicates"].append({**_payload_again(named, 4), "kind": "producer", "producer": EVIL, "commits": 2})
    lost = {"operation": "ADD", "effect": "message lost", "operations": 12, "bytes": 4711}
    rows["losses_by_queue"].append({**named, **lost, "first_time": FIRST, "last_time": LAST})
    rows["damage"].append(_damage("damaged", "the checksum does not match"))
    rows["damage"].append(_damage("torn", "a write was interrupted"))
    return rows


def _add_queue(rows: Rows, chance: random.Random, world: World, named: dict[str, str], place: int) -> None:
    """Add what the tables say of one queue; the last of several is idle."""
    is_idle = place == len(world.queues) - 1 > 0
    delays = sorted(math.exp(chance.gauss(chance.uniform(-7, 4), 1.6)) for _ in range(400))
    waiting = 0 if place % 3 == 0 else chance.randrange(1, 20_000)
    age = timedelta(seconds=chance.uniform(10, 250_000))
    told: dict[str, Any] = {"added": 400 + waiting, "delivered": 400, "deleted": place, "undelivered": waiting}
    told |= {"expired": place // 2, "dead_lettered": place // 3}
    if not is_idle:
        shares = {"p50_seconds": 200, "p90_seconds": 360, "p99_seconds": 396, "max_seconds": -1}
        told |= {name: delays[at] for name, at in shares.items()}
        rows["latency_histogram"] += [named | each for each in _bins(delays)]
    else:
        told["delivered"] = 0
    if waiting:
        told |= {"oldest": 1000 * place, "oldest_added": LAST - age, "oldest_age_seconds": age.total_seconds()}
    rows["lifecycle"].append({**named, **told})
    undelivered = 0
    for at, time in enumerate(_times(world.pieces)):
        count = int(90_000 / (1 + place) * (1.2 + math.sin(at / 14 + place)) * chance.uniform(0.7, 1.3))
        went = int(count * chance.uniform(0.95, 1.04))
        undelivered = max(undelivered + (count - went) // 50, 0)
        for operation, operations in (("ADD", count), ("DELIVER", went)):
            told = {"operation": operation, "operations": operations, "bytes": operations * 700}
            rows["rate"].append({**named, "bucket": time, **told})
        rows["backlog"].append({**named, "bucket": time, "undelivered": undelivered})
        if not is_idle and chance.random() < 0.9:
            rows["latency_over_time"].append({**named, "bucket": time, **_latency(chance, delays)})


def _latency(chance: random.Random, delays: Sequence[float]) -> dict[str, Any]:
    some = sorted(chance.choices(delays, k=40))
    shares = {"p50_seconds": 20, "p90_seconds": 36, "p99_seconds": 39, "max_seconds": 39}
    return {"messages": 40, "rank_error": 0.0, **{name: some[at] for name, at in shares.items()}}


def _times(pieces: Buckets) -> list[datetime]:
    start = datetime(1970, 1, 1, tzinfo=UTC)
    return [start + timedelta(microseconds=pieces.start + at * pieces.width) for at in range(pieces.count)]


def _bins(delays: Sequence[float]) -> list[dict[str, Any]]:
    counts: dict[int, int] = {}
    for delay in delays:
        place = math.floor(math.log10(delay * 1e6) * 8)
        counts[place] = counts.get(place, 0) + 1
    return [
        {"bin": at, "from_seconds": 10 ** (at / 8) / 1e6, "to_seconds": 10 ** ((at + 1) / 8) / 1e6, "messages": count}
        for at, count in counts.items()
    ]


def _file(chance: random.Random, world: World, database: str, sequence: int) -> dict[str, Any]:
    size, is_active = 25 * MIB, sequence == 11 + world.files
    live = int(chance.random() ** 6 * size) if chance.random() < 0.5 else 0
    is_sparse = 0 < live < size // 4
    pin: dict[str, Any] = {}
    if live and sequence % 3:
        pin = {"pinned_by": "message", "pin_message": sequence * 1000, "pin_queue": chance.choice(world.queues)}
    elif live:
        pin = {"pinned_by": "key", "pin_key": f"uow/{sequence}"}
    return {
        "database": database,
        "sequence": sequence,
        "file": f"omsmsg-{sequence:010}.data",
        "active": is_active,
        "bytes": size // 3 if is_active else size,
        "live_bytes": min(live, size // 3),
        "dead_bytes": (size // 3 if is_active else size) - min(live, size // 3),
        "live_messages": live // 700,
        "live_keys": 0,
        "needed": bool(live),
        **pin,
        "pin_age_seconds": chance.uniform(1e3, 3e5) if live else None,
        "pins_files": chance.randrange(7) if live else 0,
        "freed_by_compact": size - live if is_sparse else 0,
    }


def _commits(chance: random.Random) -> dict[str, Any]:
    writes = chance.randrange(40_000, 90_000)
    commits = int(writes * chance.uniform(3, 9))
    operations = int(commits * chance.uniform(1.1, 2.5))
    longest = chance.expovariate(1)
    return {
        "writes": writes,
        "commits": commits,
        "operations": operations,
        "moved": 0,
        "bytes": 700 * operations,
        "commits_per_write_max": chance.randrange(40, 64),
        "operations_per_commit_max": chance.randrange(60, 120),
        "gap_p50_seconds": longest / 100,
        "gap_p99_seconds": longest / 3,
        "gap_max_seconds": longest,
    }


def _payload_again(named: Mapping[str, str], count: int) -> dict[str, Any]:
    return {
        "kind": "payload",
        **named,
        "hash": -count * 0x123456789ABCDEF,
        "length": 700,
        "messages": count,
        "same_payloads": True,
        "first_message": 100 * count,
        "last_message": 100 * count + 50,
        "first_time": FIRST,
        "last_time": LAST,
    }


def _damage(kind: str, reason: str) -> dict[str, Any]:
    return {
        "database": DATABASE,
        "file": "omsmsg-0000000012.data",
        "sequence": 12,
        "start": 123_456,
        "end": 127_552,
        "kind": kind,
        "reason": reason,
        "archive": "omsmsg-0000000012-v001.archive" if kind == "damaged" else None,
    }
