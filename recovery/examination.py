"""What was found out about one data file: the values that validation hands to repair and replay.

Judge a data file frame by frame: which bad places are torn, which are damaged, and what was promised.

A bad place that something vouches for is damaged, any other torn (`journal/reading/evidence.py`). A whole frame that
nobody understands is damaged: it was written so.

What is known of what was lost: exactly by the file's footer, else by the numbers before and behind.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, FormatError
from oms_journal.journal.format.contents import COLUMNS, DAMAGED, Contents, with_lost_rows
from oms_journal.journal.format.footer import BadFooter, ranges
from oms_journal.journal.format.headers import ALIGNMENT_MAX, ALIGNMENT_MIN, Ending, FileHeader
from oms_journal.journal.format.records import MOVED, decode_low_water
from oms_journal.journal.operations import LOW_WATER_KEY, Operation
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.evidence import Evidence, Expected, counts, ends_as, gather, lost_in
from oms_journal.journal.reading.walk import BadPayload, BadRange, Walk, walk
from oms_journal.recovery.bad_blocks import unreadable_in
from oms_journal.recovery.decision import Action, Body, Decision, Foot, Head, Observed, decide
from oms_journal.recovery.report import FileReport, Loss
from oms_journal.recovery.survey import Candidate

NOT_REPLAYED = (Action.REMOVE, Action.DROP, Action.ENTOMB)  # of a file nothing is taken in then


def losses_of(
    task: Candidate, bad: Sequence[BadRange], payloads: Sequence[BadPayload], found: Walk, contents: Contents | None
) -> tuple[Loss, ...]:
    """Return what stood in the bad ranges and payloads of one file; `contents` are its footer's, where that counts."""
    name = task.path.name
    found_losses: list[Loss] = []
    for bad_range in bad:
        if contents is not None:
            found_losses.append(_exact_loss(name, bad_range, contents))
            found_losses += _lost_values(name, bad_range, contents)
        else:
            found_losses.append(_likely_loss(task, bad_range, found))
    for payload in payloads:
        if contents is not None and _is_in_footer(payload, contents):
            continue
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
        is_remembered=True,
    )


def _lost_values(name: str, bad: BadRange, contents: Contents) -> Iterable[Loss]:
    """Yield the values in a range that the footer does not have as a whole: their keys are left without any."""
    columns = contents.columns
    offsets = columns["offset"].astype(np.int64)
    inside = (offsets >= bad.start) & (offsets < bad.end) & (columns["kind"] == Operation.PUT)
    for row in np.flatnonzero(inside).tolist():
        key, offset = bytes(contents.names[int(columns["name"][row])]), int(offsets[row])
        if contents.short_value(key, offset) is None:
            reason = f"the value of key {key.decode()!r} is lost with its frame"
            yield Loss(name=name, start=offset, end=offset, reason=reason, is_exact=True)


def _is_in_footer(payload: BadPayload, contents: Contents) -> bool:
    """Say whether the footer has a value that has rotted in its frame."""
    is_value = payload.operation is Operation.PUT
    return is_value and contents.short_value(payload.name, payload.frame) is not None


def _likely_loss(task: Candidate, bad: BadRange, found: Walk) -> Loss:
    """Return which messages may have been in a range, by the numbers before and behind it."""
    first, last = bounds_of(task, bad, found.builder.build(found.end))
    return Loss(name=task.path.name, start=bad.start, end=bad.end, reason=bad.reason, numbers=between(first, last))


def bounds_of(task: Candidate, bad: BadRange | Loss, contents: Contents) -> tuple[int, int]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """One data file, judged."""

    task: Candidate
    size: int
    decision: Decision
    end: int  # behind the last frame to keep
    reason: str = ""
    contents: Contents | None = None  # of a file that was walked; others are read from their footer when wanted
    highest: int = 0  # of the messages that it adds, moved ones too; 0 for none
    said: Contents | None = None  # by the footer of a file that was walked, where it counts
    low_water: int = 0  # the first sequence that is still needed, where the file holds that mark
    bad_ranges: tuple[BadRange, ...] = ()  # vouched for, and gone
    bad_payloads: tuple[BadPayload, ...] = ()
    losses: tuple[Loss, ...] = ()
    successor: tuple[int, int] = (0, 0)  # sequence and identity of the next file, 0 when none was begun
    owner: int = 0  # of its frames
    extent: int = 0  # how far the gap must go that takes the place of a file without a frame
    cut_frames: int = 0
    cut_commits: int = 0  # of these, frames that do more than vouch
    is_recovered: bool = False  # its footer was written by an earlier recovery
    is_settled: bool = False  # a footer was there before the frames were read: they do not look otherwise later
    in_doubt: int | None = None  # from here on nothing says that the bytes were durable; None where something says all

    @property
    def sequence(self) -> int:
        return self.task.sequence

    @property
    def path(self) -> Path:
        return self.task.path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def header(self) -> FileHeader | None:
        return self.task.header

    @property
    def alignment(self) -> int:
        """How its groups are aligned, as far as is known."""
        return self.task.header.alignment if self.task.header is not None else ALIGNMENT_MIN

    @property
    def named(self) -> Ending | None:
        """How the file ended, as its successor says."""
        return self.task.named

    def report(self, action: str | None = None, archive: str | None = None) -> FileReport:
        return FileReport(
            name=self.name,
            sequence=self.sequence,
            verdict=self.decision.verdict,
            row=self.decision.row,
            good_end=self.end,
            size=self.size,
            reason=self.reason,
            action=self.decision.action.value if action is None else action,
            archive=archive,
            losses=self.losses,
            maybe_acknowledged=self.cut_frames,
        )


def read_contents(disk: Disk, examined: Examination) -> Contents | None:
    """Return the operations of a file that is to be replayed; None for one that is not."""
    if examined.decision.action in NOT_REPLAYED or examined.contents is not None:
        return examined.contents
    try:
        with DataFile(disk, examined.path) as file:
            footer = file.footer(identity=None)
    except OSError as failure:
        raise DiskError(examined.path, failure, "read") from failure
    if not isinstance(footer, Footer):
        raise FormatError(examined.path, examined.end, "the footer changed while the database was being opened")
    return footer.contents()


@dataclass(frozen=True, slots=True)
class _Judged:
    """The bad places of a file, sorted out."""

    found: Walk  # up to where the file is good
    torn: Sequence[BadRange]
    damaged: tuple[BadRange, ...]
    payloads: tuple[BadPayload, ...]
    good_end: int
    cut_frames: int
    cut_commits: int
    is_disowned: bool = False  # what was cut had been told as failed


def examine_frames(file: DataFile, task: Candidate, footer: Footer | BadFooter | None, identity: int) -> Examination:
    """Return the judgement on a file whose frames have to be walked."""
    data = file.bytes()
    good_footer = footer if isinstance(footer, Footer) else None
    said = (
        good_footer.contents()
        if good_footer is not None and counts(good_footer.summary, identity, task.named)
        else None
    )
    expected = Expected(
        identity=identity,
        sequence=task.sequence,
        alignment=task.header.alignment if task.header is not None else ALIGNMENT_MAX,
        end=task.named.end if task.named is not None else None,
        is_promised=task.is_promised,
        unreadable=unreadable_in(file.file),
        header=task.header,
        floor=task.floor,
    )
    evidence = gather(data, expected, footer.summary if isinstance(footer, Footer) else footer)
    found, end = evidence.found, evidence.end
    bad_footer = evidence.footer if isinstance(evidence.footer, BadFooter) else None
    is_first_only = end is None and not task.is_promised and not found.vouched()
    judged = _judge(data, evidence, task)
    found = judged.found
    contents = replace(found.builder.build(found.end), has_gaps=found.has_gaps)
    matches = task.named is None or found.has_gaps or ends_as(contents, identity, task.named)
    if said is not None:
        with_lost = with_lost_rows(contents, said, lost_in(found, judged.damaged))
        if with_lost is None:
            bad_footer, good_footer, said = BadFooter("the footer does not say what the frames do"), None, None
        else:
            contents = with_lost
    body = _body(judged)
    if body is Body.WHOLE and good_footer is not None and _checksum_differs(file, good_footer):
        body = Body.PADDING
    foot = Foot.GOOD if good_footer else Foot.ABSENT if bad_footer is None else Foot.BAD
    head = _head(task, is_first_only=is_first_only and foot is Foot.ABSENT)
    mark_damaged(contents, judged.payloads)
    forgotten = _forgotten(found, judged.damaged) if said is None else ()
    decision = decide(
        Observed(head=head, body=body, foot=foot, is_followed=task.named is not None, ends_as_named=matches)
    )
    return Examination(
        task=replace(task, identity=identity),
        size=len(data),
        decision=decision,
        end=judged.good_end if end is None else end,
        reason=_reason(decision, judged, bad_footer),
        contents=contents,
        highest=ranges(contents).added[1],
        said=said,
        low_water=low_water_of(contents),
        bad_ranges=judged.damaged,
        bad_payloads=judged.payloads,
        losses=losses_of(task, [*judged.damaged, *forgotten], judged.payloads, found, said),
        successor=_successor(task, good_footer),
        owner=task.header.owner if task.header is not None else task.owner,
        cut_frames=judged.cut_frames,
        cut_commits=judged.cut_commits,
        in_doubt=_in_doubt(found, evidence.vouched),
    )


def examine_swept(file: DataFile, task: Candidate, footer: Footer, bad: Sequence[BadPayload]) -> Examination:
    """Return the judgement on a file whose frames are as its good footer has them, though its checksum is not right."""
    contents, identity = footer.contents(), footer.summary.header.identity
    contents = replace(contents, columns={name: contents.columns[name].copy() for name in COLUMNS})
    mark_damaged(contents, bad)
    judged = _Judged(Walk(), (), (), tuple(bad), contents.end, 0, 0)
    matches = task.named is None or contents.has_gaps or ends_as(contents, identity, task.named)
    body, head = Body.BAD if bad else Body.PADDING, Head.ROTTED if task.is_rotted else Head.GOOD
    seen = Observed(head=head, body=body, foot=Foot.GOOD, is_followed=task.named is not None, ends_as_named=matches)
    decision = decide(seen)
    return Examination(
        task=replace(task, identity=identity),
        size=file.size(),
        decision=decision,
        end=contents.end,
        reason=_reason(decision, judged, None),
        contents=contents,
        highest=ranges(contents).added[1],
        low_water=low_water_of(contents),
        bad_payloads=judged.payloads,
        losses=losses_of(task, (), judged.payloads, judged.found, contents),
        successor=_successor(task, footer),
        owner=footer.summary.header.owner,
        said=footer.contents() if matches else None,
        is_settled=True,
    )


def _forgotten(found: Walk, damaged: Sequence[BadRange]) -> Iterable[BadRange]:
    """Yield the gaps of earlier repairs in a file without a good footer: nothing else knew what was done there."""
    for start, end in sorted({*lost_in(found)} - {(bad.start, bad.end) for bad in damaged}):
        yield BadRange(start, end, "what an earlier repair knew of a loss is lost with the footer")


def low_water_of(contents: Contents) -> int:
    """Return the first sequence that clean-up still needed, as the file has it, 0 where it does not."""
    return decode_low_water(contents.value_head(LOW_WATER_KEY))


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


def _in_doubt(found: Walk, vouched: int) -> int | None:
    """Return where the frames begin that nothing vouches for, with the header where these are all."""
    offsets = [frame.offset for frame in found.frames]
    first = next((offset for offset in offsets if offset >= vouched), None)
    return 0 if offsets and first == offsets[0] else first


def _successor(task: Candidate, footer: Footer | None) -> tuple[int, int]:
    if task.successor[0] or footer is None:
        return task.successor
    return footer.summary.successor, footer.summary.successor_identity


def _judge(data: bytes, evidence: Evidence, task: Candidate) -> _Judged:
    """Sort out the bad places, and walk again up to where what is to be kept ends."""
    found, vouched, ranges = evidence.found, evidence.vouched, evidence.ranges
    good_end = _good_end(found, ranges, vouched)
    if task.vouched_only:
        good_end = min(good_end, _vouched_end(evidence))
    disowned = _disowned(found, task) if evidence.end is None else None
    if disowned is not None:
        good_end = min(good_end, _behind_kept(found, ranges, disowned))
    damaged = tuple(one for one in ranges if one.start < vouched or (one.is_frame and one.start < good_end))
    behind = [frame for frame in found.frames if frame.offset >= good_end]
    cut, cut_commits = len(behind), sum(frame.operations > 0 for frame in behind)
    payloads = tuple(payload for payload in found.bad_payloads if payload.frame < good_end)
    torn = [bad_range for bad_range in ranges if bad_range.start >= vouched and bad_range not in damaged]
    if cut:
        found = walk(data, replace(evidence.span, limit=good_end))
    return _Judged(found, torn, damaged, payloads, good_end, cut, cut_commits, disowned is not None)


def _vouched_end(evidence: Evidence) -> int:
    """Return where the last frame ends, or the last bad range, that something vouches for."""
    ends = [frame.end for frame in evidence.found.frames if frame.offset < evidence.vouched]
    ends += [bad_range.end for bad_range in evidence.ranges if bad_range.start < evidence.vouched]
    return max(ends, default=evidence.span.start)


def _disowned(found: Walk, task: Candidate) -> int | None:
    """Return where the first frame starts whose caller was told that it had failed; None for none."""
    if task.kept_commit is None:
        return None
    return next((frame.offset for frame in found.frames if frame.commit > task.kept_commit), None)


def _behind_kept(found: Walk, ranges: Sequence[BadRange], disowned: int) -> int:
    """Return where that ends which stands before a frame."""
    ends = [frame.end for frame in found.frames if frame.offset < disowned]
    ends += [bad_range.end for bad_range in ranges if bad_range.start < disowned]
    return max(ends, default=disowned)


def _good_end(found: Walk, ranges: Sequence[BadRange], vouched: int) -> int:
    """Return where what is to be kept ends: before the first thing that is bad and not vouched for.

    A whole frame is no torn one, whatever it says: it was written as it is, and its caller may have been told.
    """
    torn = [bad_range.start for bad_range in ranges if bad_range.start >= vouched and not bad_range.is_frame]
    torn += [payload.frame for payload in found.bad_payloads if payload.frame >= vouched]
    first = min(torn, default=None)
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


def _head(task: Candidate, *, is_first_only: bool) -> Head:
    if task.header is None:
        return Head.ROTTED
    if not task.is_rotted:
        return Head.GOOD
    return Head.HALF if is_first_only else Head.ROTTED


def _checksum_differs(file: DataFile, footer: Footer) -> bool:
    return file.checksum(footer.summary.start) != footer.summary.file_checksum


def _reason(decision: Decision, judged: _Judged, footer: BadFooter | None) -> str:
    if decision.action in (Action.KEEP, Action.SEAL):
        return ""
    ranges = sorted((*judged.damaged, *judged.torn), key=lambda bad_range: bad_range.start)
    parts = [f"byte {bad_range.start}: {bad_range.reason}" for bad_range in ranges[:3]]
    if judged.is_disowned:
        parts.insert(0, f"byte {judged.good_end}: the callers of these commits were told that they had failed")
    for payload in judged.payloads[:3]:
        is_message = payload.operation is Operation.ADD
        what = f"message {payload.number}" if is_message else f"the value of key {payload.name!r}"
        parts.append(f"byte {payload.frame}: {what} does not match its checksum")
    if footer is not None:
        parts.append(footer.reason)
    return "; ".join(parts) or decision.row
