"""What is known of what was lost: exactly by the file's footer, else by the numbers before and behind."""

from collections.abc import Sequence

import numpy as np

from oms_journal.journal.format.contents import Contents
from oms_journal.journal.format.records import MOVED
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.datafile import Footer
from oms_journal.journal.reading.walk import BadPayload, BadRange, Walk
from oms_journal.recovery.report import Loss
from oms_journal.recovery.survey import Task


def losses_of(
    task: Task, bad: Sequence[BadRange], payloads: Sequence[BadPayload], found: Walk, footer: Footer | None
) -> tuple[Loss, ...]:
    """Return what stood in the bad ranges and payloads of one file."""
    name = task.path.name
    found_losses: list[Loss] = []
    contents = footer.contents() if footer is not None else None
    for bad_range in bad:
        if contents is not None:
            found_losses.append(_exact_loss(name, bad_range, contents))
        else:
            found_losses.append(_likely_loss(task, bad_range, found))
    for payload in payloads:
        is_message = payload.operation is Operation.ADD
        reason = "its bytes do" if is_message else f"the value of key {payload.name.decode()!r} does"
        found_losses.append(
            Loss(
                name=name,
                start=payload.frame,
                end=payload.frame,
                reason=f"{reason} not match the checksum",
                numbers=((payload.number, payload.number),) if is_message else (),
                queues=(payload.name.decode(),) if is_message else (),
                is_exact=True,
            )
        )
    return tuple(found_losses)


def _exact_loss(name: str, bad: BadRange, contents: Contents) -> Loss:
    """Return what the footer says of the operations in a range."""
    offsets = contents.columns["offset"].astype(np.int64)
    inside = (offsets >= bad.start) & (offsets < bad.end)
    adds = inside & (contents.columns["kind"] == Operation.ADD)
    queues = np.unique(contents.columns["name"][inside & (contents.columns["kind"] <= Operation.DELETE)])
    return Loss(
        name=name,
        start=bad.start,
        end=bad.end,
        reason=bad.reason,
        numbers=ranges_of(contents.columns["number"][adds].tolist()),
        queues=tuple(sorted(bytes(contents.names[queue]).decode() for queue in queues.tolist())),
        is_exact=True,
    )


def _likely_loss(task: Task, bad: BadRange, found: Walk) -> Loss:
    """Return which messages may have been in a range, by the numbers before and behind it."""
    first, last = bounds_of(task, bad, found.builder.build(found.end))
    return Loss(name=task.path.name, start=bad.start, end=bad.end, reason=bad.reason, numbers=between(first, last))


def bounds_of(task: Task, bad: BadRange | Loss, contents: Contents) -> tuple[int, int]:
    """Return the lowest and the highest number that may have been added in a range; 0 where nobody knows it."""
    is_new = (contents.columns["kind"] == Operation.ADD) & ((contents.columns["flags"] & MOVED) == 0)
    offsets, numbers = contents.columns["offset"][is_new].astype(np.int64), contents.columns["number"][is_new]
    before, behind = numbers[offsets < bad.start], numbers[offsets >= bad.end]
    first = int(before.max()) + 1 if len(before) else task.numbers[0]
    last = int(behind.min()) - 1 if len(behind) else task.numbers[1]
    return first, last


def between(first: int, last: int) -> tuple[tuple[int, int], ...]:
    """Return the numbers that may be lost as ranges; none where they are not known, or there are none."""
    return ((first, last),) if 0 < first <= last else ()


def ranges_of(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return numbers as ranges, both ends included."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)
