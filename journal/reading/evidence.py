"""What a data file that was walked proves: which frames should be there, and which of its bad places held any.

Pure: bytes and what the neighbours say go in. Recovery asks it before it repairs, the analysis before it reads.

a place is       when
vouched for      a good frame says `synced` behind its beginning, or the file's end is known (from its footer or its
                 successor), or the file before it names it and it is the first place, or it cannot be read
padding          it is bad and too short for a frame, or the frames before and behind it are of neighbouring commits
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

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
    COMMIT_WORD,
    COUNTS_WORD,
    FRAME_CHECKSUM_AT,
    FRAME_COMMIT_AT,
    FRAME_LENGTH_AT,
    FRAME_SIZE,
    FRAME_SYNCED_AT,
    FRAME_WORDS,
    GAP,
    HIGH_HALF,
    OWNER_WORD,
    SIZES_WORD,
    SYNCED_WORD,
    WORD_BYTES,
    FrameHeader,
    are_possible,
    decode_frame,
    length_at,
    number_at,
    words_of,
)
from oms_journal.journal.format.headers import (
    ALIGNMENT_MAX,
    ALIGNMENT_MIN,
    HEADERS_SIZE,
    SECTOR_BYTES,
    FileHeader,
    align,
)
from oms_journal.journal.reading.walk import BadRange, Span, Walk, walk

UNREADABLE = "it cannot be read"
PROMISED_BYTES = 128  # of a file of which nothing is left: its first group took as much, and a gap frame fits
PLACES_MAX = 4096  # where a frame that went astray may belong: within 2 MiB
_ALIGNMENTS = tuple(ALIGNMENT_MIN << shift for shift in range((ALIGNMENT_MAX // ALIGNMENT_MIN).bit_length()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What is known of a file before its frames are looked at."""

    path: Path
    identity: int
    header: FileHeader | None  # None where neither copy is good
    alignment: int  # of its neighbours, for a file without a header
    end: int | None  # of its frames, as its successor says
    is_promised: bool = False  # the file before it names it: its first group was durable
    start: int = 0  # frames before this offset are known already
    unreadable: Sequence[tuple[int, int]] = ()  # ranges of bytes that could not be read, and are not zeros


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
    span = _span(data, expected, len(data) if end is None else end)
    sealed_at = _sealed_at(data)
    if end is None and sealed_at is not None and sealed_at >= span.start:
        span = replace(span, limit=sealed_at)
    elif end is None and footer is not None:
        span = replace(span, limit=_limit_of_bad_footer(data, span))
    found = walk(data, span) if end is None else _walk_up_to(end, data, span)
    if end is None and span.limit == sealed_at:
        # A footer is written behind the last frame: what stands before it was durable, readable or not.
        end = found.end if align(found.end, span.alignment) == sealed_at else sealed_at
    footer_at = align(found.end if end is None else end, span.alignment)
    if footer is None and footer_at == sealed_at:
        footer = BadFooter("the file was cut to its length, yet its footer has no good end")
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
    found, vouched, alignment = evidence.found, evidence.vouched, evidence.span.alignment
    ranges = [replace(bad, reason=UNREADABLE) if _meets(expected, bad) else bad for bad in evidence.ranges]
    ends = {frame.offset: frame.end for frame in found.frames}
    payloads = [BadRange(bad.frame, ends[bad.frame], UNREADABLE) for bad in found.bad_payloads]
    for place in sorted([*ranges, *payloads], key=lambda bad: bad.start):
        if place.start < vouched:
            continue
        if not _meets(expected, place) or not any(data[place.start : align(place.start, alignment) + FRAME_SIZE]):
            break
        vouched = place.start + 1
    return replace(evidence, ranges=ranges, vouched=vouched)


def _meets(expected: Expected, place: BadRange) -> bool:
    """Say whether bytes of a bad place could not be read."""
    return any(low < place.end and place.start < high for low, high in expected.unreadable)


def is_padding(bad: BadRange, found: Walk, header: FileHeader | None, alignment: int) -> bool:
    """Say whether a bad range held nothing: it lies between frames of neighbouring commits, where a group may begin."""
    place = bisect_left(found.frames, bad.end, key=lambda frame: frame.offset)
    if place == len(found.frames) or bad.is_frame:
        return False
    if bad.size < FRAME_SIZE:
        return True
    before = found.frames[bisect_right(found.frames, bad.start, key=lambda frame: frame.offset) - 1] if place else None
    behind = found.frames[place]
    if before is None or before.offset > bad.start:
        first = header.next_commit if header is not None and bad.start == header.start() else None
        return not behind.flags & GAP and behind.commit == first
    is_next = not (before.flags | behind.flags) & GAP and behind.commit == before.commit + 1
    return is_next and behind.offset % alignment == 0


def looks_written(data: bytes, *, since: int = 0, others: Sequence[tuple[int, int]] = ()) -> bool:
    """Say whether a file whose identity is unknown held more than its first group.

    Its frames cannot be verified. What looks like one, of a commit numbered `since` or higher, and says that what
    stands before it was durable, is taken for one; lower numbers are those of a file whose blocks this one has got. Of
    the `others` of the directory, their first commit and identity are given: a write of theirs may have gone astray.
    """
    words = words_of(data, HEADERS_SIZE)
    count = len(words) - FRAME_WORDS + 1
    if count <= 0:
        return False
    fields = SIZES_WORD, COMMIT_WORD, OWNER_WORD, SYNCED_WORD, COUNTS_WORD
    sizes, commit, owner, synced, counts = (words[field : field + count] for field in fields)
    offsets = HEADERS_SIZE + WORD_BYTES * np.arange(count, dtype=np.uint64)
    plausible = are_possible(sizes)
    plausible &= (owner > 0) & (commit > 0) & (commit >= since) & (counts >> HIGH_HALF <= GAP)
    found = np.flatnonzero(plausible & (synced > HEADERS_SIZE) & (synced <= offsets))
    places = (
        int(offsets[place]) for place in found.tolist() if _follows(data, int(synced[place]), int(offsets[place]))
    )
    return any(not _is_of_another(data, place, others) for place in places)


def _is_of_another(data: bytes, offset: int, others: Sequence[tuple[int, int]]) -> bool:
    """Say whether a frame is another file's, or without its checksum and followed by one that is.

    What goes astray are sectors: the first of them may begin behind the checksum of a frame.
    """
    length = length_at(data, offset)
    checksum = data[offset + FRAME_CHECKSUM_AT : offset + FRAME_LENGTH_AT]
    is_without = not any(checksum) and offset + length + FRAME_SIZE <= len(data)
    return _is_good_elsewhere(data, offset, others) or (
        is_without and length >= FRAME_SIZE and _is_good_elsewhere(data, offset + length, others)
    )


def _is_good_elsewhere(data: bytes, offset: int, others: Sequence[tuple[int, int]]) -> bool:
    """Say whether a frame is good at the place where another file has, or should have, its commit."""
    commit, synced = number_at(data, offset + FRAME_COMMIT_AT), number_at(data, offset + FRAME_SYNCED_AT)
    _, identity = max((other for other in others if other[0] <= commit), default=(0, 0))
    first = synced + (offset - synced) % SECTOR_BYTES  # a frame lies behind what was durable when it was written
    places = range(first, first + PLACES_MAX * SECTOR_BYTES, SECTOR_BYTES)
    found = (decode_frame(data, offset, identity=identity + place - offset) for place in places)
    return any(isinstance(frame, FrameHeader) for frame in found)


def _follows(data: bytes, synced: int, offset: int) -> bool:
    """Say whether a frame belongs here: its group begins behind what was durable, and leads up to it frame by frame."""
    return any(_leads(data, align(synced, one), offset) for one in _ALIGNMENTS)


def _leads(data: bytes, at: int, offset: int) -> bool:
    while at < offset:
        length = length_at(data, at)
        if length < FRAME_SIZE or length % 8:
            return False
        at += length
    return at == offset


def _span(data: bytes, expected: Expected, limit: int) -> Span:
    """Return what to walk; without a header the alignment is the first one that leaves the least over."""
    header, path, identity = expected.header, expected.path, expected.identity
    if header is not None:
        alignment = header.alignment
        if expected.end is not None and expected.end != header.start():
            alignment = alignment_of_gap(alignment, expected.end)  # it is another file's header, put in its place
        start = max(align(HEADERS_SIZE, alignment), expected.start)
        return Span(path=path, identity=identity, start=start, limit=limit, alignment=alignment, owner=header.owner)
    spans = [
        Span(path=path, identity=identity, start=align(HEADERS_SIZE, one), limit=limit, alignment=one)
        for one in (expected.alignment, *_ALIGNMENTS)
    ]
    left: list[int] = []
    for span in spans:
        found = walk(data, span)
        left.append(_left_over(data, found, span))
        if found.frames and not left[-1]:
            return span
    return min(zip(left, spans, strict=True), key=lambda one: (one[0], one[1].start))[1]


def _left_over(data: bytes, found: Walk, span: Span) -> int:
    """Return how many bytes are no frames; where the first group may have begun earlier, what stands before it, too.

    That counts for a byte more than it has: frames that were lost there are told as lost only by a walk from there.
    Zeros before the first place say that it is the first one only where a frame stands there that knows of none before.
    """
    first = found.frames[0] if found.frames else None
    is_first = first is not None and first.offset == span.start and (first.synced <= HEADERS_SIZE or first.flags & GAP)
    is_clean = is_first and not any(data[HEADERS_SIZE : min(span.start, span.limit)])
    before = 0 if is_clean else span.start - HEADERS_SIZE + 1
    return before + sum(bad.size for bad in found.bad_ranges if not bad.is_frame)


def alignment_of_gap(alignment: int, end: int) -> int:
    """Return this alignment where a file that is one gap up to `end` can have it, else the smallest one.

    It is the neighbours', and the file's own may have been less: then its frames began before theirs could.
    """
    return alignment if align(HEADERS_SIZE, alignment) + FRAME_SIZE <= end else ALIGNMENT_MIN


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
