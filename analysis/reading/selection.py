"""Which operations of a file are wanted: for the file as a whole by what its footer says, and row by row."""

import numpy as np
import numpy.typing as npt

from oms_journal.analysis.reading.columns import Numbers, text
from oms_journal.analysis.reading.datafile import Reading
from oms_journal.analysis.reading.schema import TIME_MAX, TIME_MIN, Range, Wanted
from oms_journal.journal.format.contents import NOTHING, Contents, Ranges
from oms_journal.journal.operations import Operation

Mask = npt.NDArray[np.bool_]
_ALL = (-(1 << 63), (1 << 63) - 1)


def may_hold(wanted: Wanted, ranges: Ranges | None, contents: Contents | None = None) -> bool:
    """Say whether a file may hold wanted rows, by its ranges and, where they are given, by its columns."""
    if ranges is not None:
        asked = ((_times(wanted), ranges.time), (wanted.commits or _ALL, ranges.commit))
        if any(not _meet(one, other) for one, other in asked):
            return False
        if wanted.operations is not None and not wanted.operations & _operations_in(ranges):
            return False
    if contents is None:
        return True
    if wanted.queues is not None and not _wanted_names(contents, wanted.queues).any():
        return False
    if wanted.operations is None:
        return True
    counts = np.bincount(contents.columns["kind"], minlength=len(Operation) + 1)
    return any(counts[operation] for operation in Operation if operation.name in wanted.operations)


def selected(reading: Reading, wanted: Wanted) -> slice | Numbers:
    """Return the places of the wanted rows, all of them vouched for."""
    contents = reading.contents
    columns = contents.columns
    mask: Mask | None = None
    if reading.summary is None or reading.end < reading.summary.end:
        mask = _and(mask, columns["offset"] < np.uint64(reading.end))
    ranges = contents.ranges or Ranges(time=_ALL, commit=_ALL)
    for name, asked, there in (
        ("time", _times(wanted), ranges.time),
        ("commit", wanted.commits or _ALL, ranges.commit),
    ):
        if not _is_within(there, asked):
            values: Numbers = columns[name].view(np.int64)
            mask = _and(mask, (values >= asked[0]) & (values <= asked[1]))
    if wanted.queues is not None:
        is_message = columns["kind"] <= Operation.DELETE
        mask = _and(mask, is_message & _wanted_names(contents, wanted.queues)[columns["name"]])
    if wanted.operations is not None:
        kinds = [operation.value for operation in Operation if operation.name in wanted.operations]
        mask = _and(mask, np.isin(columns["kind"], kinds))
    if mask is None or mask.all():
        return slice(0, len(contents))
    return np.flatnonzero(mask)


def _and(mask: Mask | None, other: Mask) -> Mask:
    return other if mask is None else mask & other


def _times(wanted: Wanted) -> Range:
    """Return the wanted times, both ends included; what Spark cannot show counts as the nearest that it can."""
    since, until = wanted.since, wanted.until
    lowest = _ALL[0] if since is None or since <= TIME_MIN else since if since <= TIME_MAX else _ALL[1]
    highest = _ALL[1] if until is None or until > TIME_MAX else until - 1 if until > TIME_MIN else _ALL[0]
    return lowest, highest


def _meet(one: Range, other: Range) -> bool:
    return one[0] <= other[1] and other[0] <= one[1] and other != NOTHING


def _is_within(one: Range, other: Range) -> bool:
    return other[0] <= one[0] and one[1] <= other[1]


def _operations_in(ranges: Ranges) -> frozenset[str]:
    """Return the operations that a file with these ranges may have."""
    found = {Operation.PUT.name, Operation.DROP.name}
    if ranges.added != NOTHING:
        found.add(Operation.ADD.name)
    if ranges.removed != NOTHING:
        found |= {Operation.DELIVER.name, Operation.DELETE.name}
    return frozenset(found)


def _wanted_names(contents: Contents, queues: frozenset[str]) -> Mask:
    """Say of each of the file's names whether it is a wanted queue's."""
    return np.array([text(name) in queues for name in contents.names], np.bool_)
