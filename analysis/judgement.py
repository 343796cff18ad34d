"""What is bad in a data file whose frames were walked, and what of the rest is known to be durable.

a place is       when                                                      it is
vouched for      a good frame says `synced` behind its beginning, or the   damaged when it is bad
                 file's end is known (from its footer or its successor)
not vouched for  nothing says so                                           torn when it is bad; when it is good it may
                                                                           still vanish, and is left out
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from analysis.parts import Damage, FilePart
from journal.footer import MAGIC as FOOTER_MAGIC
from journal.footer import BadFooter, Summary
from journal.format import ALIGNMENT_MAX, ALIGNMENT_MIN, FRAME, FRAME_BYTES_MAX, FRAME_SIZE, GAP, HEADERS_SIZE, align
from journal.operations import Operation
from journal.records import decode_records
from journal.walk import BadPayload, BadRange, Span, Walk, walk

TORN, DAMAGED, GAPPED, MISSING, GONE, UNREADABLE = "torn", "damaged", "gap", "missing", "gone", "unreadable"
KINDS = (TORN, DAMAGED, GAPPED, MISSING, GONE, UNREADABLE)
ROTTED = "the header's copies do not both match their checksums"
PADDING = "the bytes between two groups are not all zeros; nothing is lost"
PROMISED_BYTES = 128  # of a file of which nothing is left: what its first group took at least
_ALIGNMENTS = tuple(ALIGNMENT_MIN << shift for shift in range((ALIGNMENT_MAX // ALIGNMENT_MIN).bit_length()))


def damage(part: FilePart, kind: str, reason: str, start: int = 0, end: int = 0, archive: str = "") -> Damage:  # noqa: PLR0913
    """Return a row of the damage table about this file."""
    return Damage(
        database=part.database,
        file=part.name,
        sequence=part.sequence,
        start=start,
        end=max(start, end),
        kind=kind,
        reason=reason,
        archive=archive,
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """A walked file."""

    found: Walk
    vouched: int  # frames that begin below this offset are known to be durable
    damages: tuple[Damage, ...]


def judge(data: bytes, part: FilePart, footer: Summary | BadFooter | None, identity: int) -> Judged:
    """Walk the file's bytes and sort out what is bad. `footer` is what stands at its end, good or not."""
    end = part.named.end if part.named is not None else footer.end if isinstance(footer, Summary) else None
    span = _span(data, part, identity, len(data) if end is None else end)
    if isinstance(footer, BadFooter) and end is None:
        span = replace(span, limit=_limit_of_bad_footer(data, span))
    found = walk(data, span)
    footer_at = align(found.end if end is None else end, span.alignment)
    if footer is None and _was_sealed(data, footer_at):
        footer = BadFooter("the file was cut to its length, yet its footer has no good end")
    if end is None and data[footer_at : footer_at + len(FOOTER_MAGIC)] == FOOTER_MAGIC:
        found = walk(data, replace(span, limit=found.end))  # a footer that was begun is no torn frame
    vouched = found.vouched() if end is None else end
    ranges = found.bad_ranges if end is None else _ranges_up_to(end, found, len(data))
    if part.is_promised and end is None:
        vouched = max(vouched, span.start + 1)
        if not found.frames:
            behind = max(align(ranges[-1].end, 8) if ranges else 0, span.start + PROMISED_BYTES)
            reason = ranges[0].reason if ranges else "zeros where frames were promised"
            ranges = [BadRange(span.start, behind, reason)]
    damages = [*_of_ranges(part, found, ranges, vouched), *of_payloads(part, found.bad_payloads, vouched)]
    damages += gaps(data, part, found, vouched)
    if isinstance(footer, BadFooter):
        damages.append(damage(part, DAMAGED, footer.reason, min(footer_at, len(data)), len(data)))
    if not damages and not found.has_gaps:
        last_commit = found.frames[-1].commit if found.frames else 0
        if not ends_as(part, identity, found.end, last_commit, found.builder.chain()):
            damages.append(other_ending(part, found.end))
    is_promised = end is not None or part.is_promised or bool(found.vouched()) or footer is not None
    if not found.frames and not damages and not is_promised:
        damages.append(damage(part, TORN, "its first commit was not finished", span.start, len(data.rstrip(b"\0"))))
    if part.is_rotted:
        damages.append(damage(part, DAMAGED if is_promised else TORN, ROTTED, end=HEADERS_SIZE))
    return Judged(found, vouched, tuple(sorted(damages, key=lambda one: one.start)))


def ends_as(part: FilePart, identity: int, end: int, last_commit: int, chain: int) -> bool:
    """Say whether a file ends where, and as, its successor says."""
    named = part.named
    return named is None or (identity, end, last_commit, chain) == (
        named.identity,
        named.end,
        named.commit,
        named.chain,
    )


def other_ending(part: FilePart, end: int) -> Damage:
    """Return the row for a file whose frames are good, and are not those that its successor names."""
    assert part.named is not None, "what nobody names cannot differ"
    reason = f"its successor says that it ends at byte {part.named.end} with commit {part.named.commit}"
    return damage(part, DAMAGED, f"{reason}, and with other frames", end)


def gaps(data: bytes, part: FilePart, found: Walk, vouched: int) -> Iterator[Damage]:
    """Yield the gap frames that an earlier repair has put in."""
    for frame in found.frames:
        if frame.flags & GAP and frame.offset < vouched:
            archive = next((record.name.decode() for record in decode_records(data[frame.records])), "")
            yield damage(part, GAPPED, "lost in an earlier repair", frame.offset, frame.end, archive)


def of_payloads(part: FilePart, bad: Sequence[BadPayload], vouched: int) -> Iterator[Damage]:
    """Yield a row for each message or value whose bytes do not match."""
    for payload in bad:
        kind = DAMAGED if payload.frame < vouched else TORN
        yield damage(part, kind, payload_reason(payload.operation, payload.number, payload.name), payload.frame)


def payload_reason(operation: int, number: int, name: bytes) -> str:
    """Return in words which message or value does not match."""
    text = name.decode("utf-8", "backslashreplace")
    what = f"message {number} of queue {text!r}" if operation == Operation.ADD else f"the value of key {text!r}"
    return f"{what} does not match its checksum"


def looks_written(data: bytes) -> bool:
    """Say whether a file whose identity is unknown held more than its first group."""
    at = HEADERS_SIZE
    while at + FRAME_SIZE <= len(data):
        _, length, meta, _, _, synced, *_ = FRAME.unpack_from(data, at)
        if not length or length % 8 or length > FRAME_BYTES_MAX or length < FRAME_SIZE + meta:
            return False
        if HEADERS_SIZE < synced <= at:
            return True
        at += length
    return False


def _of_ranges(part: FilePart, found: Walk, ranges: Sequence[BadRange], vouched: int) -> Iterator[Damage]:
    for bad in ranges:
        if bad.start >= vouched:
            yield damage(part, TORN, bad.reason, bad.start, bad.end)
        else:
            reason = PADDING if _is_padding(bad, found, part) else bad.reason
            yield damage(part, DAMAGED, reason, bad.start, bad.end)


def _is_padding(bad: BadRange, found: Walk, part: FilePart) -> bool:
    """Say whether a bad range held nothing: it lies between frames of neighbouring commits."""
    place = bisect_left(found.frames, bad.end, key=lambda frame: frame.offset)
    if place == len(found.frames):
        return False
    if bad.size < FRAME_SIZE:
        return True
    behind = found.frames[place]
    if not place:
        first = part.header.next_commit if part.header is not None and bad.start == part.header.start() else None
        return not behind.flags & GAP and behind.commit == first
    before = found.frames[place - 1]
    return not (before.flags | behind.flags) & GAP and behind.commit == before.commit + 1


def _span(data: bytes, part: FilePart, identity: int, limit: int) -> Span:
    """Return what to walk; without a header the alignment is the first one that leaves no zeros over."""
    header = part.header
    if header is not None:
        start, alignment = max(header.start(), part.start), header.alignment
        return Span(
            path=part.path, identity=identity, start=start, limit=limit, alignment=alignment, owner=header.owner
        )
    spans = [
        Span(path=part.path, identity=identity, start=align(HEADERS_SIZE, one), limit=limit, alignment=one)
        for one in (part.alignment, *_ALIGNMENTS)
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


def _ranges_up_to(end: int, found: Walk, size: int) -> list[BadRange]:
    """Return the bad ranges of a file whose frames are known to go up to `end`."""
    if found.end >= end:
        return found.bad_ranges
    before = [bad_range for bad_range in found.bad_ranges if bad_range.start < found.end]
    reason = "the file is cut off" if size < end else "zeros where frames were promised"
    last = [bad_range for bad_range in found.bad_ranges if bad_range.start >= found.end]
    return [*before, replace(last[0], end=end) if last else BadRange(found.end, end, reason)]
