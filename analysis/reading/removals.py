"""Many removal sets at once: the message numbers that a file's coded sets hold, as columns."""

import numpy as np
import numpy.typing as npt

from oms_journal.analysis.reading.columns import Numbers, part_of
from oms_journal.journal.format.contents import Contents
from oms_journal.journal.format.records import BadRecord
from oms_journal.journal.operations import Operation

_SEPTETS_MAX = 10  # of a number of 64 bits


class RemovalSets:
    """The sets of one file: which of its rows have one, and where its bytes stand."""

    def __init__(self, contents: Contents) -> None:
        kinds, sizes = (contents.part(name, slice(0, len(contents))) for name in ("kind", "size"))
        self._contents = contents
        self._coded = np.frombuffer(contents.sets, np.uint8)
        self._is_set = (sizes > 0) & ((kinds == Operation.DELIVER) | (kinds == Operation.DELETE))
        self._rows = np.flatnonzero(self._is_set)
        self._sizes = sizes[self._rows].astype(np.int64)
        self._starts = np.cumsum(self._sizes) - self._sizes

    def numbers(self, rows: Numbers, counts: Numbers) -> Numbers:
        """Return the message numbers of these rows, `counts` of each, one row behind another.

        BadRecord when a set does not hold as many as its row says.
        """
        firsts = part_of(self._contents, "number", rows)
        places = np.flatnonzero(self._is_set[rows])
        set_counts = counts[places]
        if int(counts.sum()) - int(set_counts.sum()) != len(rows) - len(places):
            raise BadRecord("a removal set is missing")
        if not len(places):
            return firsts
        index = np.searchsorted(self._rows, rows[places])
        sizes = self._sizes[index]
        if index[-1] - index[0] == len(index) - 1:
            coded = self._coded[self._starts[index[0]] : self._starts[index[-1]] + sizes[-1]]
        else:
            coded = self._coded[ranges(self._starts[index], sizes)]
        starts, lengths, runs = runs_of(firsts[places], set_counts, sizes, coded)
        if len(places) < len(rows):
            run_counts = np.ones(len(rows), np.int64)
            run_counts[places] = runs
            where = ranges((np.cumsum(run_counts) - run_counts)[places], runs)
            every_start, every_length = np.repeat(firsts, run_counts), np.ones(int(run_counts.sum()), np.int64)
            every_start[where], every_length[where] = starts, lengths
            starts, lengths = every_start, every_length
        return ranges(starts, lengths)


def ranges(starts: Numbers, lengths: Numbers) -> Numbers:
    """Return the numbers of all ranges, one range behind another."""
    numbers: Numbers = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    numbers += np.arange(len(numbers))
    return numbers


def expanded(firsts: Numbers, counts: Numbers, sizes: Numbers, coded: npt.NDArray[np.uint8]) -> Numbers:
    """Return the numbers of all sets, one set behind another; BadRecord when one does not hold its count.

    `firsts`, `counts` and `sizes` are of the sets in order: the first number, how many there are, and how many of the
    coded bytes are the set's.
    """
    if not len(firsts):
        return np.empty(0, np.int64)
    starts, lengths, _ = runs_of(firsts, counts, sizes, coded)
    return ranges(starts, lengths)


def runs_of(
    firsts: Numbers, counts: Numbers, sizes: Numbers, coded: npt.NDArray[np.uint8]
) -> tuple[Numbers, Numbers, Numbers]:
    """Return the runs of all sets, as `expanded` does: where each begins, how long it is; and how many each set has."""
    is_last = coded < 0x80
    ends = np.cumsum(sizes)
    if int(ends[-1]) != len(coded) or not is_last[ends - 1].all():
        raise BadRecord("a removal set is cut off")
    values = _values(coded, is_last)
    # The values of a set are a run's length, the gap to the next run, its length, and so on.
    behind = np.cumsum(is_last)[ends - 1]
    first_places = np.append(0, behind[:-1])
    value_counts = behind - first_places
    if not (value_counts % 2).all():
        raise BadRecord("a removal set ends with a gap")
    is_run = (np.arange(len(values)) - np.repeat(first_places, value_counts)) % 2 == 0
    before = np.cumsum(values) - values
    starts = before + np.repeat(firsts - before[first_places], value_counts)
    if (np.add.reduceat(np.where(is_run, values, 0), first_places) != counts).any() or not values[is_run].all():
        raise BadRecord("a removal set does not hold as many numbers as it says")
    return starts[is_run], values[is_run], value_counts // 2 + 1


def _values(coded: npt.NDArray[np.uint8], is_last: npt.NDArray[np.bool_]) -> Numbers:
    """Return the LEB128 numbers."""
    if is_last.all():
        return coded.astype(np.int64)
    ends = np.flatnonzero(is_last)
    starts = np.append(0, ends[:-1] + 1)
    place = np.arange(len(coded)) - np.repeat(starts, ends - starts + 1)
    if place.max() >= _SEPTETS_MAX:
        raise BadRecord("a removal set holds a number of more than 64 bits")
    septets = (coded & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.add.reduceat(septets, starts).view(np.int64)
