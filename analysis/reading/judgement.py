"""What is bad in a data file whose frames were walked, and what of the rest is known to be durable.

A place that nothing vouches for (`journal/reading/evidence.py`) is torn when it is bad; when it is good it may
still vanish, and is left out. Whatever else is bad is damage.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oms_journal.analysis.reading.parts import Damage, FilePart
from oms_journal.journal.format.footer import BadFooter, Summary
from oms_journal.journal.format.frames import GAP
from oms_journal.journal.format.headers import ALIGNMENT_MAX, FRAMES_AT, HEADERS_SIZE
from oms_journal.journal.format.records import decode_records
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.evidence import Evidence, Expected, gather
from oms_journal.journal.reading.walk import BadPayload, BadRange, Walk

TORN, DAMAGED, GAPPED, MISSING, GONE, UNREADABLE = "torn", "damaged", "gap", "missing", "gone", "unreadable"
KINDS = (TORN, DAMAGED, GAPPED, MISSING, GONE, UNREADABLE)
ROTTED = "the header's copies do not both match their checksums"
PADDING = "the bytes between the headers, or behind the payloads of a frame, are not as they were; nothing is lost"


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
    ranges: Sequence[BadRange] = ()  # without a good frame


def judge(data: bytes, part: FilePart, footer: Summary | BadFooter | None, identity: int) -> Judged:
    """Walk the file's bytes and sort out what is bad. `footer` is what stands at its end, good or not."""
    expected = Expected(
        identity=identity,
        alignment=part.header.alignment if part.header is not None else ALIGNMENT_MAX,
        sequence=part.sequence,
        end=part.named.end if part.named is not None else None,
        is_promised=part.is_promised,
        start=max(FRAMES_AT, part.start),
        header=part.header,
    )
    evidence = gather(data, expected, footer)
    found, vouched, footer, end = evidence.found, evidence.vouched, evidence.footer, evidence.end
    damages = [*_of_ranges(part, evidence), *of_payloads(part, found.bad_payloads, vouched)]
    damages += gaps(data, part, found, vouched)
    if isinstance(footer, BadFooter):
        damages.append(damage(part, DAMAGED, footer.reason, min(evidence.footer_at, len(data)), len(data)))
    if not damages and not found.has_gaps:
        last_commit = found.frames[-1].commit if found.frames else 0
        if not ends_as(part, identity, found.end, last_commit, found.builder.chain()):
            damages.append(other_ending(part, found.end))
    is_promised = end is not None or part.is_promised or bool(found.vouched()) or footer is not None
    if not found.frames and not damages and not is_promised:
        damages.append(
            damage(part, TORN, "its first commit was not finished", evidence.span.start, len(data.rstrip(b"\0")))
        )
    if part.is_rotted:
        damages.append(damage(part, DAMAGED if is_promised else TORN, ROTTED, end=HEADERS_SIZE))
    return Judged(found, vouched, tuple(sorted(damages, key=lambda one: one.start)), evidence.ranges)


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
    not_understood = found.not_understood()
    for frame in found.frames:
        if frame.flags & GAP and frame.offset < vouched and frame.offset not in not_understood:
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


def _of_ranges(part: FilePart, evidence: Evidence) -> Iterator[Damage]:
    for bad in evidence.ranges:
        if bad.start >= evidence.vouched and not bad.is_frame:
            yield damage(part, TORN, bad.reason, bad.start, bad.end)
        else:
            yield damage(part, DAMAGED, bad.reason, bad.start, bad.end)
