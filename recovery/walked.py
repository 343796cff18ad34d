"""Judge a data file frame by frame: which bad places are torn, which are damaged, and what was promised.

a place is       when                                                      it is
vouched for      a good frame says `synced` behind its beginning, or the   damaged when it is bad
                 file's end is known (from its footer or its successor)
not vouched for  nothing says so                                           torn when it is bad
padding          it is too short for a frame, or the frames before and     put right
                 behind it are of neighbouring commits
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from journal.contents import DAMAGED, Contents
from journal.datafile import DataFile, Footer
from journal.footer import MAGIC as FOOTER_MAGIC
from journal.footer import BadFooter, Summary
from journal.format import ALIGNMENT_MAX, ALIGNMENT_MIN, FRAME_SIZE, GAP, HEADERS_SIZE, Previous, align
from journal.operations import LOW_WATER_KEY, Operation
from journal.walk import BadPayload, BadRange, Span, Walk, walk
from recovery.decide import Action, Body, Decision, Foot, Head, Seen, decide
from recovery.examined import Examined
from recovery.losses import losses_of
from recovery.survey import Task

PROMISED_BYTES = 128  # of a file of which nothing is left: room for a gap frame that says so


@dataclass(frozen=True, slots=True)
class _Judged:
    """The bad places of a file, sorted out."""

    found: Walk  # up to where the file is good
    torn: Sequence[BadRange]
    damaged: tuple[BadRange, ...]
    padding: tuple[BadRange, ...]
    payloads: tuple[BadPayload, ...]
    good_end: int
    cut_frames: int
    is_disowned: bool = False  # what was cut had been told as failed


def examine_frames(file: DataFile, task: Task, footer: Footer | BadFooter | None, identity: int) -> Examined:
    """Return the judgement on a file whose frames have to be walked."""
    data = file.bytes()
    good_footer = footer if isinstance(footer, Footer) else None
    end = _known_end(task, good_footer)
    span = _span(data, task, identity, len(data) if end is None else end)
    if footer is not None and end is None:
        span = replace(span, limit=_limit_of_bad_footer(data, span))
    found = walk(data, span)
    footer_at = align(found.end if end is None else end, span.alignment)
    if footer is None and _was_sealed(data, footer_at):
        footer = BadFooter("the file was cut to its length, yet its footer has no good end")
    if end is None and data[footer_at : footer_at + len(FOOTER_MAGIC)] == FOOTER_MAGIC:
        found = walk(data, replace(span, limit=found.end))  # a footer that was begun is no torn frame
    is_first_only = end is None and not task.is_promised and not found.vouched()
    judged = _judge(data, span, found, task, end)
    body = _body(judged)
    if body is Body.WHOLE and (judged.padding or (good_footer is not None and _checksum_differs(file, good_footer))):
        body = Body.PADDING
    foot = Foot.GOOD if good_footer else Foot.ABSENT if footer is None else Foot.BAD
    head = _head(task, is_first_only=is_first_only and foot is Foot.ABSENT)
    found = judged.found
    contents = replace(found.builder.build(found.end), has_gaps=found.has_gaps)
    mark_damaged(contents, judged.payloads)
    matches = task.named is None or found.has_gaps or ends_as(contents, identity, task.named)
    decision = decide(Seen(head=head, body=body, foot=foot, is_followed=task.named is not None, ends_as_named=matches))
    return Examined(
        task=replace(task, identity=identity),
        size=len(data),
        decision=decision,
        end=judged.good_end if end is None else end,
        reason=_reason(decision, judged, footer),
        contents=contents,
        low_water=low_water_of(contents),
        bad_ranges=judged.damaged,
        bad_padding=judged.padding,
        bad_payloads=judged.payloads,
        losses=losses_of(task, judged.damaged, judged.payloads, found, good_footer),
        successor=_successor(task, good_footer),
        owner=found.frames[0].owner if found.frames else task.owner,
        alignment=span.alignment,
        cut_frames=judged.cut_frames,
    )


def ends_as(contents: Contents | Summary, identity: int, named: Previous) -> bool:
    """Say whether a file ends where, and as, its successor says."""
    ending = (identity, contents.end, contents.last_commit, contents.chain)
    return ending == (named.identity, named.end, named.commit, named.chain)


def low_water_of(contents: Contents) -> int:
    """Return the first sequence that clean-up still needed, as the file has it, 0 where it does not."""
    value = contents.value_head(LOW_WATER_KEY)
    return int.from_bytes(value, "little") if value is not None and len(value) == 8 else 0


def mark_damaged(contents: Contents, bad: Iterable[BadPayload]) -> None:
    """Flag the rows whose bytes are known not to match: nobody takes their values, later starts don't report them."""
    columns = contents.columns
    for payload in bad:
        mine = columns["offset"] == payload.frame
        if payload.operation is Operation.ADD:
            mine &= columns["number"] == payload.number
        else:
            same = [place for place, name in enumerate(contents.names) if name == payload.name]
            mine &= (columns["kind"] == Operation.PUT) & np.isin(columns["name"], same)
        columns["flags"][mine] |= DAMAGED


def _known_end(task: Task, footer: Footer | None) -> int | None:
    if task.named is not None:
        return task.named.end
    return footer.summary.end if footer is not None else None


def _successor(task: Task, footer: Footer | None) -> tuple[int, int]:
    if task.successor[0] or footer is None:
        return task.successor
    return footer.summary.successor, footer.summary.successor_identity


def _span(data: bytes, task: Task, identity: int, limit: int) -> Span:
    """Return what to walk; without a header the alignment is the first one that leaves no zeros over."""
    header = task.header
    if header is not None:
        return Span(
            path=task.path,
            identity=identity,
            start=header.start(),
            limit=limit,
            alignment=header.alignment,
            owner=header.owner,
        )
    alignments = [task.alignment]
    alignment = ALIGNMENT_MIN
    while alignment <= ALIGNMENT_MAX:
        alignments.append(alignment)
        alignment *= 2
    spans = [
        Span(path=task.path, identity=identity, start=align(HEADERS_SIZE, one), limit=limit, alignment=one)
        for one in alignments
    ]
    return next((span for span in spans if _fits(data, span)), spans[0])


def _fits(data: bytes, span: Span) -> bool:
    found = walk(data, span)
    zeros = [bad for bad in found.bad_ranges if not any(data[bad.start : bad.end])]
    return bool(found.frames) and found.frames[0].offset == span.start and not zeros


def _limit_of_bad_footer(data: bytes, span: Span) -> int:
    """Return where a footer that cannot be trusted seems to start: frames end there at the latest."""
    at = data.rfind(FOOTER_MAGIC)
    return at if at > span.start and at % 8 == 0 else len(data)


def _was_sealed(data: bytes, start: int) -> bool:
    """Say whether a footer that was finished once starts at this offset."""
    head = data[start : start + 16]
    return len(head) == 16 and head[:8] == FOOTER_MAGIC and int.from_bytes(head[8:], "little") == len(data) - start


def _judge(data: bytes, span: Span, found: Walk, task: Task, end: int | None) -> _Judged:
    """Sort out the bad places, and walk again up to where what is to be kept ends."""
    vouched = found.vouched() if end is None else end
    ranges = found.bad_ranges if end is None else _ranges_up_to(end, found, len(data))
    if task.is_promised and end is None:
        vouched = max(vouched, span.start + 1)
        if not found.frames:
            end_of_bad = align(ranges[-1].end, 8) if ranges else 0
            reason = ranges[0].reason if ranges else "zeros where frames were promised"
            ranges = [BadRange(span.start, max(end_of_bad, span.start + PROMISED_BYTES), reason)]
    vouched_ranges = [bad_range for bad_range in ranges if bad_range.start < vouched]
    padding = tuple(bad_range for bad_range in vouched_ranges if _is_padding(bad_range, found, task, span))
    damaged = tuple(bad_range for bad_range in vouched_ranges if bad_range not in padding)
    good_end = _good_end(found, ranges, vouched)
    if task.vouched_only:
        good_end = min(good_end, max(vouched, span.start))
    disowned = _disowned(found, task) if end is None else None
    if disowned is not None:
        good_end = min(good_end, disowned)
    cut = sum(frame.offset >= good_end for frame in found.frames)
    payloads = tuple(payload for payload in found.bad_payloads if payload.frame < good_end)
    torn = [bad_range for bad_range in ranges if bad_range.start >= vouched]
    if cut:
        found = walk(data, replace(span, limit=good_end))
    return _Judged(found, torn, damaged, padding, payloads, good_end, cut, is_disowned=disowned is not None)


def _disowned(found: Walk, task: Task) -> int | None:
    """Return where the first frame starts whose caller was told that it had failed; None for none."""
    if task.kept_commit is None:
        return None
    return next((frame.offset for frame in found.frames if frame.commit > task.kept_commit), None)


def _ranges_up_to(end: int, found: Walk, size: int) -> list[BadRange]:
    """Return the bad ranges of a file whose frames are known to go up to `end`."""
    if found.end >= end:
        return found.bad_ranges
    before = [bad_range for bad_range in found.bad_ranges if bad_range.start < found.end]
    reason = "the file is cut off" if size < end else "zeros where frames were promised"
    last = [bad_range for bad_range in found.bad_ranges if bad_range.start >= found.end]
    return [*before, replace(last[0], end=end) if last else BadRange(found.end, end, reason)]


def _is_padding(bad: BadRange, found: Walk, task: Task, span: Span) -> bool:
    """Say whether a bad range held nothing: it lies between frames of neighbouring commits."""
    place = bisect_left(found.frames, bad.end, key=lambda frame: frame.offset)
    if place == len(found.frames):
        return False
    if bad.size < FRAME_SIZE:
        return True
    before = found.frames[bisect_right(found.frames, bad.start, key=lambda frame: frame.offset) - 1] if place else None
    behind = found.frames[place]
    if before is None or before.offset > bad.start:
        first = task.header.next_commit if task.header is not None and bad.start == span.start else None
        return not behind.flags & GAP and behind.commit == first
    return not (before.flags | behind.flags) & GAP and behind.commit == before.commit + 1


def _good_end(found: Walk, ranges: Sequence[BadRange], vouched: int) -> int:
    """Return where what is to be kept ends: before the first thing that is bad and not vouched for."""
    torn = [bad_range.start for bad_range in ranges if bad_range.start >= vouched]
    torn += [payload.frame for payload in found.bad_payloads if payload.frame >= vouched]
    first = min(torn, default=None)
    # Zeros between the last frame that is kept and a torn group are nobody's.
    ends = [frame.end for frame in found.frames if first is None or frame.offset < first]
    ends += [bad_range.end for bad_range in ranges if bad_range.start < vouched]
    return max(ends, default=found.end if first is None else first)


def _body(judged: _Judged) -> Body:
    if judged.damaged or judged.payloads:
        return Body.BAD
    if not judged.found.frames:
        return Body.EMPTY
    if judged.is_disowned:
        return Body.DISOWNED
    return Body.TORN if judged.cut_frames or judged.torn else Body.WHOLE


def _head(task: Task, *, is_first_only: bool) -> Head:
    if task.header is None:
        return Head.ROTTED
    if not task.is_rotted:
        return Head.GOOD
    return Head.HALF if is_first_only else Head.ROTTED


def _checksum_differs(file: DataFile, footer: Footer) -> bool:
    return file.checksum(footer.summary.start) != footer.summary.file_checksum


def _reason(decision: Decision, judged: _Judged, footer: Footer | BadFooter | None) -> str:
    if decision.action in (Action.KEEP, Action.SEAL):
        return ""
    ranges = sorted((*judged.damaged, *judged.padding, *judged.torn), key=lambda bad_range: bad_range.start)
    parts = [f"byte {bad_range.start}: {bad_range.reason}" for bad_range in ranges[:3]]
    if judged.is_disowned:
        parts.insert(0, f"byte {judged.good_end}: the callers of these commits were told that they had failed")
    for payload in judged.payloads[:3]:
        is_message = payload.operation is Operation.ADD
        what = f"message {payload.number}" if is_message else f"the value of key {payload.name!r}"
        parts.append(f"byte {payload.frame}: {what} does not match its checksum")
    if isinstance(footer, BadFooter):
        parts.append(footer.reason)
    return "; ".join(parts) or decision.row
