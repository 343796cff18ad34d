"""What a data file that was walked proves: which frames should be there, and which of its bad places held any.

Pure: bytes and what the neighbours say go in. Recovery asks it before it repairs, the analysis before it reads.

a place is       when
vouched for      a good frame says `synced` behind its beginning, or the file's end is known (from its footer or its
                 successor), or the file before it names it and it is the first place, or it cannot be read
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oms_journal.journal.format.contents import Contents
from oms_journal.journal.format.footer import (
    TRAILER,
    BadFooter,
    Summary,
    begins_footer,
    begun_size,
    last_beginning,
    trailer_size,
)
from oms_journal.journal.format.frames import (
    FRAME_SIZE,
    FRAME_WORDS,
    GAP,
    SIZES_WORD,
    SYNCED_WORD,
    WORD_BYTES,
    FrameHeader,
    are_possible,
    decode_frame,
    words_of,
)
from oms_journal.journal.format.headers import ALIGNMENT_MAX, FRAMES_AT, HEADERS_SIZE, Ending, FileHeader, align
from oms_journal.journal.reading.walk import BadRange, Span, Walk, walk

UNREADABLE = "it cannot be read"
PROMISED_BYTES = 128  # of a file of which nothing is left: its first group took as much, and a gap frame fits


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What is known of a file before its frames are looked at."""

    sequence: int
    identity: int
    end: int | None  # of its frames, as its successor says
    is_promised: bool = False  # the file before it names it: its first group was durable
    alignment: int = ALIGNMENT_MAX  # of its groups; the most it can be, without a header
    start: int = FRAMES_AT  # frames before this offset are known already
    unreadable: Sequence[tuple[int, int]] = ()  # ranges of bytes that could not be read, and are not zeros
    header: FileHeader | None = None  # None where no copy of it is good
    floor: int = 0  # no message is added with a lower number: files before this one have those


@dataclass(frozen=True, slots=True)
class Evidence:
    """A walked file, and what of it had to be there."""

    span: Span
    found: Walk
    footer: Summary | BadFooter | None  # a bad one also where only its beginning is left of a finished one
    footer_at: int  # where a footer begins, or would
    end: int | None  # of the frames, where it is known
    vouched: int  # what begins below this offset was durable
    ranges: Sequence[BadRange]  # without a good frame, up to the end


def gather(data: bytes, expected: Expected, footer: Summary | BadFooter | None) -> Evidence:
    """Walk the file's bytes; `footer` is what stands at its end, good or not."""
    end = expected.end if expected.end is not None else footer.end if isinstance(footer, Summary) else None
    limit = len(data) if end is None else end
    span = Span(
        sequence=expected.sequence,
        identity=expected.identity,
        limit=limit,
        start=expected.start,
        alignment=expected.alignment,
        header=expected.header,
        floor=expected.floor,
    )
    sealed_at = _sealed_at(data)
    if end is None and sealed_at is not None and sealed_at >= span.start:
        span = replace(span, limit=sealed_at)
    elif end is None and footer is not None:
        span = replace(span, limit=_limit_of_bad_footer(data, span))
    found = walk(data, span) if end is None else _walk_up_to(end, data, span)
    if end is None and span.limit == sealed_at:
        # A footer is written behind the last frame: what stands before it was durable, readable or not.
        end = sealed_at
    footer_at = found.end if end is None else end
    if footer is None and footer_at == sealed_at:
        footer = BadFooter("the file was cut to its length, yet its footer has no good end")
    if footer is None and found.has_gaps and _was_repaired(found):
        footer = BadFooter("an earlier repair put gaps in it, and the footer that came with them is gone")
    if end is None and begins_footer(data, footer_at):
        found = walk(data, replace(span, limit=found.end))  # a footer that was begun is no torn frame
    vouched = found.vouched() if end is None else end
    ranges = found.bad_ranges if end is None else _ranges_up_to(end, found, data)
    if expected.is_promised and end is None:
        vouched = max(vouched, span.start + 1)
        if not found.frames:
            behind = max(align(ranges[-1].end, 8) if ranges else 0, span.start + PROMISED_BYTES)
            reason = ranges[0].reason if ranges else "zeros where frames were promised"
            ranges = [BadRange(span.start, behind, reason)]
    evidence = Evidence(span, found, footer, footer_at, end, vouched, ranges)
    return _with_hidden(data, expected, evidence) if expected.unreadable else evidence


def _walk_up_to(end: int, data: bytes, span: Span) -> Walk:
    """Walk a file that is known to end there; what is left over at its end has room for the gap frame it becomes.

    It has not where somebody put another file in its place: that one's last frame before the end goes with it.
    """
    found = walk(data, span)
    if found.frames and found.end < end < found.end + FRAME_SIZE:
        return walk(data, replace(span, limit=found.frames[-1].offset))
    return found


def _with_hidden(data: bytes, expected: Expected, evidence: Evidence) -> Evidence:
    """Return what is proven where bytes cannot be read: a bad place among them may have been durable, and all before.

    Behind a place that can be read, and is torn, nothing was. Where the next group would begin, zeros that can be read
    say that there was none.
    """
    found, vouched = evidence.found, evidence.vouched
    ranges = [replace(bad, reason=UNREADABLE) if _meets(expected, bad) else bad for bad in evidence.ranges]
    ends = {frame.offset: frame.end for frame in found.frames}
    payloads = [BadRange(bad.frame, ends[bad.frame], UNREADABLE) for bad in found.bad_payloads]
    for place in sorted([*ranges, *payloads], key=lambda bad: bad.start):
        if place.start < vouched:
            continue
        if not _meets(expected, place) or not any(data[place.start : place.start + FRAME_SIZE]):
            break
        vouched = place.start + 1
    return replace(evidence, ranges=ranges, vouched=vouched)


def _meets(expected: Expected, place: BadRange) -> bool:
    """Say whether bytes of a bad place could not be read."""
    return any(low < place.end and place.start < high for low, high in expected.unreadable)


def first_identity(data: bytes, sequence: int) -> int | None:
    """Return whose a file is by its first frame, None without a good one: asked where nothing else tells."""
    frame = decode_frame(data, FRAMES_AT, sequence=sequence, identity=None)
    return frame.identity if isinstance(frame, FrameHeader) else None


def was_written_on(data: bytes, sequence: int) -> bool:
    """Say whether a file whose identity is not known had more than one group.

    A frame stands in it that was written for a file of this number and this place, and says that what stands before it
    was durable. Whose it is nobody can tell.
    """
    words = words_of(data, FRAMES_AT)
    count = len(words) - FRAME_WORDS + 1
    if count <= 0:
        return False
    plausible = are_possible(words[SIZES_WORD : SIZES_WORD + count])
    synced = words[SYNCED_WORD : SYNCED_WORD + count]
    offsets = FRAMES_AT + WORD_BYTES * np.arange(count, dtype=np.uint64)
    plausible &= (synced > FRAMES_AT) & (synced <= offsets)  # no frame knows of what stands behind it
    for place in np.flatnonzero(plausible).tolist():
        frame = decode_frame(data, FRAMES_AT + WORD_BYTES * place, sequence=sequence, identity=None)
        if isinstance(frame, FrameHeader):
            return True
    return False


def ends_as(contents: Contents | Summary, identity: int, named: Ending) -> bool:
    """Say whether a file ends where, and as, its successor says."""
    ending = (identity, contents.end, contents.last_commit, contents.chain)
    return ending == (named.identity, named.end, named.commit, named.chain)


def counts(footer: Summary, identity: int, named: Ending | None) -> bool:
    """Say whether a good footer stands for frames that have rotted: it is the file's, and ends as its successor says.

    That the file's checksum is not right, since something in it has rotted, does not matter.
    """
    if footer.header.identity != identity or (named is not None and footer.end != named.end):
        return False
    return named is None or footer.has_gaps or ends_as(footer, identity, named)


def lost_in(found: Walk, bad: Iterable[BadRange] = ()) -> list[tuple[int, int]]:
    """Return where a walked file has no good frame: bad ranges, and what earlier repairs have put in their places."""
    gaps = {(frame.offset, frame.end) for frame in found.frames if frame.flags & GAP}
    return sorted(gaps.union((one.start, one.end) for one in bad))


def _was_repaired(found: Walk) -> bool:
    """Say whether a repair wrote the file, which writes gap frames and a footer at once."""
    not_understood = found.not_understood()
    return any(frame.flags & GAP and frame.offset not in not_understood for frame in found.frames)


def _limit_of_bad_footer(data: bytes, span: Span) -> int:
    """Return where a footer that cannot be trusted seems to start: frames end there at the latest."""
    at = last_beginning(data)
    return at if at > span.start and at % 8 == 0 else len(data)


def _sealed_at(data: bytes) -> int | None:
    """Return where the footer of a file begins that was sealed once, as one end of the footer or the other says."""
    size = trailer_size(data[-TRAILER.size :])
    starts = [last_beginning(data), len(data) - size if size is not None else -1]
    return next((start for start in starts if start >= HEADERS_SIZE and _is_footer(data, start, size)), None)


def _is_footer(data: bytes, start: int, size: int | None) -> bool:
    """Say whether one of the footer's ends says that it begins here and ends with the file."""
    return start % 8 == 0 and len(data) - start in (begun_size(data, start), size)


def _ranges_up_to(end: int, found: Walk, data: bytes) -> list[BadRange]:
    """Return the bad ranges of a file whose frames are known to go up to `end`."""
    if found.end >= end:
        return found.bad_ranges
    before = [bad_range for bad_range in found.bad_ranges if bad_range.start < found.end]
    reason = "zeros where frames were promised"
    if any(data[found.end : end]):
        reason = "no frame ends where the next file says that the last one does"
    if len(data) < end:
        reason = "the file is cut off"
    last = [bad_range for bad_range in found.bad_ranges if bad_range.start >= found.end]
    return [*before, replace(last[0], end=end) if last else BadRange(found.end, end, reason)]
