"""The options of `spark.read.format("omsjournal")`: read from text, checked, and refused when they are unknown.

option                        default      meaning
path, paths                   -            where the journals are; `paths` is a JSON list, as load([…]) gives it
table                         operations   operations, damage (what cannot be read, and why) or files
since, until                  -            commits from this time on, and before that one; ISO 8601, UTC unless it says
queue, queues                 -            operations on the messages of this queue; `queues` is a JSON list
operation                     -            ADD, DELIVER, DELETE, PUT, DROP: one, or several with commas
fromSequence, toSequence      -            data files from this number on, and up to and with that one
properties, payload, file     false        true puts that column into the schema
terms                         false        true puts due, expiry, attempts and group into it
mode                          PERMISSIVE   or FAILFAST: what cannot be read is left out, or is an error. FAILFAST
                                           hashes every byte of the files that it reads, and refuses what the damage
                                           table would tell of them; files that are left out whole are not looked at
verify                        true         of FAILFAST and the damage table: false reads the structure only
pushFilters                   see source   true takes filters from Spark also where Spark mixes them up
storage.…                     -            for the remote file system: storage.key, storage.secret, storage.endpoint_url
startingOffsets               earliest     streams: or latest, to see only what is committed from now on
maxFilesPerTrigger            -            streams: data files a batch goes through at the most
maxOperationsPerTrigger       -            streams: operations, likewise; a single commit is never divided
onMissing                     fail         streams: or gap, a row for what clean-up removed before it was read
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TypeVar

from oms_journal.analysis.reading.plan import PARTITION_BYTES
from oms_journal.analysis.reading.schema import TABLES, Range, Wanted
from oms_journal.analysis.storage import OPTION_PREFIX
from oms_journal.journal.errors import JournalError
from oms_journal.journal.operations import Operation

SEQUENCE_MAX = 9_999_999_999
FILES_MAX = ROWS_MAX = (1 << 31) - 1  # what Spark takes as a limit
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = ("properties", "payload", "file", "terms")  # columns of operations that are there when they are asked for
_T = TypeVar("_T")


class BadOption(JournalError):
    """An option is unknown, or its value is none that it can have."""


class Mode(Enum):
    """What becomes of what cannot be read."""

    PERMISSIVE = "PERMISSIVE"
    FAILFAST = "FAILFAST"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a load asks for, but for the columns."""

    paths: tuple[str, ...]
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold credentials
    table: str = "operations"
    shown: frozenset[str] = frozenset()  # options that put their column into the schema
    since: int | None = None
    until: int | None = None
    queues: frozenset[str] | None = None
    operations: frozenset[str] | None = None
    sequences: Range | None = None
    mode: Mode = Mode.PERMISSIVE
    partition_bytes: int = PARTITION_BYTES
    verifies: bool = True
    push_filters: bool | None = None
    starts_latest: bool = False
    files_max: int | None = None
    operations_max: int | None = None
    shows_gaps: bool = False

    def wanted(self, columns: tuple[str, ...]) -> Wanted:
        """Return what is to be read: these columns, of the rows that the options ask for."""
        return Wanted(
            columns=columns,
            since=self.since,
            until=self.until,
            queues=self.queues,
            operations=self.operations,
            sequences=self.sequences,
        )


def parse(given: Mapping[str, str]) -> Options:
    """Return the options of a load; BadOption."""
    lowered = {name.lower(): value for name, value in given.items()}
    values = {name: value for name, value in lowered.items() if not name.startswith(OPTION_PREFIX)}
    if unknown := sorted(set(values) - _NAMES.keys()):
        raise BadOption(f"there is no option {unknown[0]!r}; the options are {', '.join(_NAMES.values())}")
    found = Options(
        paths=_paths(values),
        storage={name: value for name, value in lowered.items() if name.startswith(OPTION_PREFIX)},
        table=_one_of(values, "table", "operations", *TABLES),
        shown=frozenset(name for name in _SHOWN if _optional(values, name, _boolean))
        | frozenset(("onMissing",) if _shows_gaps(values) else ()),
        since=_optional(values, "since", _time),
        until=_optional(values, "until", _time),
        queues=_queues(values),
        operations=_optional(values, "operation", _operations),
        sequences=_sequences(values),
        mode=Mode(_one_of(values, "mode", "PERMISSIVE", *Mode.__members__)),
        partition_bytes=_optional(values, "maxpartitionbytes", _whole(1, 1 << 40)) or PARTITION_BYTES,
        verifies=_optional(values, "verify", _boolean) is not False,
        push_filters=_optional(values, "pushfilters", _boolean),
        starts_latest=_one_of(values, "startingoffsets", "earliest", "latest") == "latest",
        files_max=_optional(values, "maxfilespertrigger", _whole(1, FILES_MAX)),
        operations_max=_optional(values, "maxoperationspertrigger", _whole(1, ROWS_MAX)),
        shows_gaps=_shows_gaps(values),
    )
    if found.files_max is not None and found.operations_max is not None:
        raise BadOption("maxFilesPerTrigger and maxOperationsPerTrigger exclude each other")
    if found.table != "operations" and (meant := sorted(set(values) & _OF_OPERATIONS)):
        raise BadOption(f"{_NAMES[meant[0]]} is about operations, and the table is {found.table}")
    return found


_NAMES = {
    name.lower(): name
    for name in (
        *("path", "paths", "table", "since", "until", "queue", "queues", "operation", "fromSequence", "toSequence"),
        *(*_SHOWN, "mode", "maxPartitionBytes", "verify", "pushFilters"),
        *("startingOffsets", "maxFilesPerTrigger", "maxOperationsPerTrigger", "onMissing"),
    )
}
_OF_OPERATIONS = {"since", "until", "queue", "queues", "operation", "fromsequence", "tosequence"}
_OF_OPERATIONS |= {*_SHOWN}


def _shows_gaps(values: Mapping[str, str]) -> bool:
    return _one_of(values, "onmissing", "fail", "gap") == "gap"


def _paths(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths; `path` may be a JSON list too, since SQL has no other way to give several."""
    found = list(_optional(values, "paths", _texts) or ())
    if single := values.get("path"):
        found += _optional(values, "path", _texts) or () if single.startswith('["') else (single,)
    if not found:
        raise BadOption("no path is given: load(path), or load([path, …])")
    return tuple(dict.fromkeys(found))


def _queues(values: Mapping[str, str]) -> frozenset[str] | None:
    several = _optional(values, "queues", _texts)
    single = (values["queue"],) if "queue" in values else ()
    return None if several is None and not single else frozenset((*(several or ()), *single))


def _sequences(values: Mapping[str, str]) -> Range | None:
    lowest = _optional(values, "fromsequence", _whole(0, SEQUENCE_MAX))
    highest = _optional(values, "tosequence", _whole(0, SEQUENCE_MAX))
    if lowest is None and highest is None:
        return None
    return lowest or 0, SEQUENCE_MAX if highest is None else highest


def _optional(values: Mapping[str, str], name: str, read: Callable[[str], _T]) -> _T | None:
    """Return the value of an option as `read` reads it, None where it is not given; BadOption."""
    if name not in values:
        return None
    try:
        return read(values[name])
    except (ValueError, OverflowError) as failure:
        raise BadOption(f"{_NAMES[name]}={values[name]!r}: {failure}") from failure


def _one_of(values: Mapping[str, str], name: str, default: str, *others: str) -> str:
    choices = {choice.lower(): choice for choice in (default, *others)}
    given = values.get(name, default)
    if given.lower() not in choices:
        raise BadOption(f"{_NAMES[name]}={given!r}: it is one of {', '.join(choices.values())}")
    return choices[given.lower()]


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it is true or false")
    return text.lower() == "true"


def _texts(text: str) -> list[str]:
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError("it is a JSON list of texts")
    return found


def _operations(text: str) -> frozenset[str]:
    found = frozenset(part.strip().upper() for part in text.split(","))
    if not found <= set(Operation.__members__):
        raise ValueError(f"the operations are {', '.join(Operation.__members__)}")
    return found


def _whole(lowest: int, highest: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.strip().isdecimal() or not lowest <= int(text) <= highest:
            raise ValueError(f"it is a number from {lowest} to {highest}")
        return int(text)

    return read


def _time(text: str) -> int:
    """Return a time in ISO 8601 as microseconds since 1970; without a zone it is UTC."""
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError("it is a time like 2026-01-31, 2026-01-31T12:00:00 or 2026-01-31T12:00:00+01:00") from None
    return micros(time)


def micros(time: datetime) -> int:
    """Return a time as microseconds since 1970-01-01 UTC; without a zone it is UTC."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)
