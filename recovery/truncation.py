"""The policy "truncate": a file ends at its first bad place, and what stood behind that is lost with it.

Decided before anything is repaired, so that what is reported, noted and held back is what will be gone. Where a
successor says how long the file was, a gap takes the place of all from there on; else the file is shorter from then on.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from oms_journal.index.held import joined
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError
from oms_journal.journal.format.contents import with_lost_rows, without_rows
from oms_journal.journal.format.headers import ALIGNMENT_MAX
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.datafile import DataFile
from oms_journal.journal.reading.evidence import lost_in
from oms_journal.journal.reading.walk import BadRange, Span, Walk, walk
from oms_journal.recovery.decision import Action
from oms_journal.recovery.examination import Examination, bounds_of, ranges_of
from oms_journal.recovery.report import Loss


def truncate_at_first_damage(disk: Disk, examined: Examination) -> Examination:
    """Return the judgement on a file whose good frames behind the first bad place are given up too. DiskError."""
    places = [bad.start for bad in examined.bad_ranges] + [bad.frame for bad in examined.bad_payloads]
    if not places or examined.decision.action is not Action.REBUILD:
        return examined
    first = min(places)
    kept = _kept(disk, examined, first)
    before, behind = _losses_before(examined, first), _losses_behind(examined, first)
    named = examined.named
    gaps = () if named is None else (BadRange(kept.end, named.end, behind[0].reason),)
    contents, said = kept.builder.build(kept.end), None
    if examined.said is not None:  # of the gaps of earlier repairs in what is kept nothing else knows
        said = without_rows(examined.said, examined.said.columns["offset"] >= first)
        contents = with_lost_rows(contents, said, lost_in(kept)) or contents
    return replace(
        examined,
        end=kept.end if named is None else examined.end,
        contents=contents,
        said=said,
        bad_ranges=gaps,
        bad_payloads=(),
        losses=(*before, *behind),
    )


def _kept(disk: Disk, examined: Examination, first: int) -> Walk:
    """Return the frames in front of the first bad place."""
    identity = examined.task.identity
    assert identity is not None, "no frame can be read without it, and the file is not rebuilt"
    span = Span(
        sequence=examined.sequence,
        identity=identity,
        limit=first,
        alignment=ALIGNMENT_MAX if examined.header is None else examined.header.alignment,
        header=examined.header,
        floor=examined.task.floor,
    )
    try:
        with DataFile(disk, examined.path) as file:
            return walk(file.bytes(first), span)
    except OSError as failure:
        raise DiskError(examined.path, failure, "read") from failure


def _losses_before(examined: Examination, first: int) -> Sequence[Loss]:
    """Return what was lost in front of the first bad place: what an earlier repair knew, and nobody does any more."""
    return [loss for loss in examined.losses if loss.start < first]


def _losses_behind(examined: Examination, first: int) -> Sequence[Loss]:
    """Return all that is given up: what was lost by itself, and the good frames behind it.

    That is one loss, but for what nobody knows the numbers of: beside others it would look as if they were all.
    """
    known: list[Loss] = []
    unknown_ones: list[Loss] = []
    lost = sorted((loss for loss in examined.losses if loss.start >= first), key=lambda loss: loss.start)
    reason = _reason(lost[0].reason if lost else examined.reason)
    for loss in lost:
        (unknown_ones if _is_unknown(examined, loss) else known).append(loss)
    losses: list[Loss] = []
    at = first
    for unknown in unknown_ones:
        if (before := _loss_between(examined, known, (at, unknown.start), reason)) is not None:
            losses.append(before)
            at = unknown.start
        losses.append(replace(unknown, start=at, reason=_reason(unknown.reason)))
        at = unknown.end
    if (behind := _loss_between(examined, known, (at, examined.end), reason)) is not None:
        return [*losses, behind]
    if losses:
        losses[-1] = replace(losses[-1], end=examined.end)  # what only vouches is given up too
    return losses


def _is_unknown(examined: Examination, loss: Loss) -> bool:
    assert examined.contents is not None, "its frames were walked"
    is_told = loss.is_exact or bool(loss.numbers) or not loss.is_range
    return not is_told and 0 in bounds_of(examined.task, loss, examined.contents)


def _loss_between(examined: Examination, known: Sequence[Loss], span: tuple[int, int], reason: str) -> Loss | None:
    """Return the loss of what stands there, what is `known` to be lost by itself among it; None where nothing does."""
    start, end = span
    assert examined.contents is not None, "its frames were walked"
    parts = [loss for loss in known if start <= loss.start < end]
    columns = examined.contents.columns
    is_there = (columns["offset"] >= start) & (columns["offset"] < end)
    if not parts and not is_there.any():
        return None
    added = columns["number"][is_there & (columns["kind"] == Operation.ADD)]
    names = np.unique(columns["name"][is_there & (columns["kind"] <= Operation.DELETE)])
    queues = {bytes(examined.contents.names[name]).decode() for name in names.tolist()}
    ranges = [*(pair for loss in parts for pair in loss.numbers), *ranges_of(added.tolist())]
    return Loss(
        name=examined.name,
        start=start,
        end=end,
        reason=reason,
        numbers=tuple(joined(ranges)),
        queues=tuple(sorted({*queues, *(queue for loss in parts for queue in loss.queues)})),
        is_exact=all(loss.is_exact for loss in parts),
    )


def _reason(reason: str) -> str:
    return f"cut at the first bad place: {reason}"
