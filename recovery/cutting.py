"""The policy "truncate": a file ends at its first bad place, and what stood behind that is lost with it.

Decided before anything is repaired, so that what is reported, noted and held back is what will be gone. Where a
successor says how long the file was, a gap takes the place of all from there on; else the file is shorter from then on.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from index.held import joined
from journal.contents import Contents
from journal.datafile import DataFile
from journal.disk import Disk
from journal.errors import DiskError
from journal.format import HEADERS_SIZE, align
from journal.operations import Operation
from journal.walk import BadRange, Span, Walk, walk
from recovery.decide import Action
from recovery.examined import Examined
from recovery.losses import ranges_of
from recovery.report import Loss


def cut(disk: Disk, examined: Examined) -> Examined:
    """Return the judgement on a file whose good frames behind the first bad place are given up too. DiskError."""
    places = [bad.start for bad in examined.bad_ranges] + [bad.frame for bad in examined.bad_payloads]
    if not places or examined.decision.action is not Action.REBUILD:
        return examined
    first = min(places)
    kept = _kept(disk, examined, first)
    loss = _loss_behind(examined, first)
    header, named = examined.header, examined.named
    if header is not None:  # what says which files clean-up has let go of may be among what is given up
        header = replace(header, low_water=max(header.low_water, examined.low_water))
    return replace(
        examined,
        task=replace(examined.task, header=header),
        end=kept.end if named is None else examined.end,
        contents=kept.builder.build(kept.end),
        bad_ranges=() if named is None else (BadRange(first, named.end, loss.reason),),
        bad_padding=tuple(bad for bad in examined.bad_padding if bad.end <= first),
        bad_payloads=(),
        losses=(loss,),
    )


def _kept(disk: Disk, examined: Examined, first: int) -> Walk:
    """Return the frames in front of the first bad place."""
    identity = examined.task.identity
    assert identity is not None, "no frame can be read without it, and the file is not rebuilt"
    span = Span(
        path=examined.path,
        identity=identity,
        start=align(HEADERS_SIZE, examined.alignment),
        limit=first,
        alignment=examined.alignment,
    )
    try:
        with DataFile(disk, examined.path) as file:
            return walk(file.bytes(first), span)
    except OSError as failure:
        raise DiskError(examined.path, failure, "read") from failure


def _loss_behind(examined: Examined, first: int) -> Loss:
    """Return all that is given up as one loss: what was lost by itself, and the good frames behind it."""
    assert examined.contents is not None, "its frames were walked"
    parts, (numbers, queues) = examined.losses, _operations_behind(examined.contents, first)
    ranges = [*(pair for loss in parts for pair in loss.numbers), *ranges_of(numbers)]
    return Loss(
        name=examined.name,
        start=first,
        end=examined.end,
        reason=f"cut at the first bad place: {min(parts, key=lambda loss: loss.start).reason}",
        numbers=tuple(joined(ranges)),
        queues=tuple(sorted({*queues, *(queue for loss in parts for queue in loss.queues)})),
        is_exact=all(loss.is_exact for loss in parts),
    )


def _operations_behind(contents: Contents, first: int) -> tuple[Sequence[int], Sequence[str]]:
    """Return which messages were added in the good frames from an offset on, and the queues of all that was done."""
    columns = contents.columns
    is_behind = columns["offset"] >= first
    added = columns["number"][is_behind & (columns["kind"] == Operation.ADD)]
    queues = np.unique(columns["name"][is_behind & (columns["kind"] <= Operation.DELETE)])
    return added.tolist(), [bytes(contents.names[queue]).decode() for queue in queues.tolist()]
