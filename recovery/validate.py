"""Read data files and say what state each is in. Changes nothing.

A file is judged by itself and by what its successor's header says of it: where it ended, with which
commit, and the chain over its frames. So a file that was cut, emptied, exchanged or removed shows.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from journal.contents import Contents
from journal.courtesy import courteous
from journal.datafile import DataFile, Footer
from journal.disk import Disk, RealDisk
from journal.errors import DiskError, FormatError
from journal.footer import MAGIC as FOOTER_MAGIC
from journal.footer import BadFooter, Summary
from journal.format import FRAME, FRAME_BYTES_MAX, FRAME_SIZE, HEADERS_SIZE, FileHeader, Previous
from journal.operations import LOW_WATER_KEY, Operation
from journal.walk import BadPayload, BadRange, Span, Walk, walk
from recovery.decide import Action, Body, Decision, Foot, Head, Seen, decide
from recovery.losses import losses_of
from recovery.report import FileReport, Loss, Verdict
from recovery.survey import Task, survey

Progress = Callable[[str, int, int], None]
HASH_THREADS = 2  # hashing and reading let go of the interpreter's lock


def no_progress(_stage: str, _done: int, _total: int) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What was found out about one data file."""

    sequence: int
    path: Path
    size: int
    header: FileHeader | None
    decision: Decision
    end: int  # behind the last frame to keep
    reason: str = ""
    contents: Contents | None = None  # of a file that was walked; others are read from their footer when wanted
    low_water: int = 0  # the first sequence that is still needed, where the file holds that mark
    bad_ranges: tuple[BadRange, ...] = ()  # vouched for, and gone
    bad_payloads: tuple[BadPayload, ...] = ()
    losses: tuple[Loss, ...] = ()
    named: Previous | None = None  # what the successor says of it
    successor: tuple[int, int] = (0, 0)
    database: bytes = bytes(16)  # of the directory, for a file whose own header is gone
    owner: int = 0  # of its frames, or of the successor, likewise
    identity: int = 0  # likewise
    cut_frames: int = 0

    @property
    def name(self) -> str:
        return self.path.name

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


def validate_directory(
    directory: Path | str, disk: Disk | None = None, *, progress: Progress = no_progress, full: bool = True
) -> tuple[FileReport, ...]:
    """Return the verdict on every data file of a directory. Takes no lock, changes nothing."""
    disk = disk or RealDisk()
    with courteous():
        examined_files = examine_directory(disk, Path(directory), progress, full=full, threads=1)
    return tuple(examined.report(action="") for examined in examined_files)


def examine_directory(  # noqa: PLR0913 - what a start, a view and `verify` each want differently
    disk: Disk,
    directory: Path,
    progress: Progress,
    *,
    full: bool,
    vouched_only: bool = False,
    threads: int = HASH_THREADS,
) -> list[Examined]:
    """Examine every data file, and every one that should be there and is not, in the order of writing.

    With `vouched_only` the contents of an unsealed file end where nothing vouches for the rest.
    """
    tasks = [replace(task, vouched_only=vouched_only) for task in survey(disk, directory)]
    total = sum(_size(disk, task.path) for task in tasks)
    done = 0
    found: list[Examined] = []
    with ThreadPoolExecutor(threads) as pool:
        for examined in pool.map(lambda task: examine(disk, task, full=full), tasks):
            found.append(examined)
            done += examined.size
            progress("validate", done, total)
    mark = max((examined.low_water for examined in found), default=0)
    return [examined for examined in found if examined.sequence >= mark]


def _low_water(contents: Contents) -> int:
    """Return the first sequence that clean-up still needed, as the file has it, 0 where it does not."""
    value = contents.value_head(LOW_WATER_KEY)
    return int.from_bytes(value, "little") if value is not None and len(value) == 8 else 0


def read_contents(disk: Disk, examined: Examined) -> Contents | None:
    """Return the operations of a file that is to be replayed; None for one that is not."""
    if examined.decision.action in (Action.REMOVE, Action.DROP, Action.ENTOMB) or examined.contents is not None:
        return examined.contents
    try:
        with DataFile(disk, examined.path) as file:
            footer = file.footer(identity=None)
    except OSError as failure:
        raise DiskError(examined.path, failure, "read") from failure
    if not isinstance(footer, Footer):
        raise FormatError(examined.path, examined.end, "the footer changed while the database was being opened")
    return footer.contents()


def _size(disk: Disk, path: Path) -> int:
    try:
        return disk.size(path)
    except FileNotFoundError:
        return 0


def examine(disk: Disk, task: Task, *, full: bool) -> Examined:
    """Examine one data file; DiskError when it cannot be read."""
    try:
        with DataFile(disk, task.path) as file:
            return _examine(file, task, full=full)
    except FileNotFoundError:
        return _without_body(task, 0, Body.MISSING, "the file is missing, its successor names it")
    except OSError as failure:
        raise DiskError(task.path, failure, "read") from failure


def _without_body(task: Task, size: int, body: Body, reason: str) -> Examined:
    """Return the judgement on a file in which no frame can be read."""
    seen = Seen(head=Head.NONE, body=body, foot=Foot.ABSENT, is_followed=task.named is not None)
    decision = decide(seen)
    end = task.named.end if task.named is not None else size
    losses: tuple[Loss, ...] = ()
    if decision.verdict is Verdict.DAMAGED:
        losses = (Loss(name=task.path.name, start=0, end=end, reason=reason),)
    return Examined(
        sequence=task.sequence,
        path=task.path,
        size=size,
        header=task.header,
        decision=decision,
        end=0,
        reason=reason if decision.row != "prepared" else "prepared and never used",
        losses=losses,
        named=task.named,
        successor=task.successor,
        database=task.database,
        owner=task.owner,
        identity=task.identity or 0,
    )


def _examine(file: DataFile, task: Task, *, full: bool) -> Examined:
    size = file.size()
    header = task.header
    if task.is_late:
        return _without_body(task, size, Body.LATE, "written by a former owner after the directory was taken over")
    if header is None and file.is_zero():
        return _without_body(task, size, Body.ZERO, "nothing but zeros where frames were promised")
    identity = task.identity
    if identity is None:
        is_lost = _looks_written(file.bytes())
        body = Body.LOST if is_lost else Body.UNKNOWN
        return _without_body(task, size, body, "neither copy of the header can be read, nor does a footer hold one")
    footer = file.footer(identity=identity)
    if header is not None and isinstance(footer, Footer) and _agrees(footer, task, header):
        return _sealed(file, task, footer, full=full)
    return _walked(file, task, footer, identity)


def _agrees(footer: Footer, task: Task, header: FileHeader) -> bool:
    summary = footer.summary
    return summary.header == header and (task.named is None or summary.end == task.named.end)


def _sealed(file: DataFile, task: Task, footer: Footer, *, full: bool) -> Examined:
    """Judge a file with a good footer: by its checksum, and only where that fails frame by frame."""
    summary, header = footer.summary, task.header
    assert header is not None
    if full and file.checksum(summary.end) != summary.file_checksum:
        return _walked(file, task, footer, header.identity)
    ends_as_named = task.named is None or summary.has_gaps or _ends_as(summary, header.identity, task.named)
    decision = decide(
        Seen(
            head=Head.ROTTED if task.is_rotted else Head.GOOD,
            body=Body.WHOLE,
            foot=Foot.GOOD,
            is_followed=task.named is not None,
            ends_as_named=ends_as_named,
        )
    )
    reason = "" if decision.verdict is Verdict.CLEAN else f"{decision.row}: see the decision table"
    return Examined(
        sequence=task.sequence,
        path=task.path,
        size=file.size(),
        header=header,
        decision=decision,
        end=summary.end,
        reason=reason,
        low_water=_low_water(footer.contents()) if LOW_WATER_KEY in footer.data else 0,
        named=task.named,
        successor=task.successor,
    )


def _ends_as(contents: Contents | Summary, identity: int, named: Previous) -> bool:
    ending = (identity, contents.end, contents.last_commit, contents.chain)
    return ending == (named.identity, named.end, named.commit, named.chain)


def _looks_written(data: bytes) -> bool:
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


def _walked(file: DataFile, task: Task, footer: Footer | BadFooter | None, identity: int) -> Examined:
    """Judge a file frame by frame."""
    data = file.bytes()
    header = task.header
    good_footer = footer if isinstance(footer, Footer) else None
    end = task.named.end if task.named is not None else good_footer.summary.end if good_footer else None
    span = Span(
        path=file.path,
        identity=identity,
        start=header.start() if header is not None else HEADERS_SIZE,
        limit=len(data) if end is None else end,
        alignment=header.alignment if header is not None else 8,
        owner=header.owner if header is not None else None,
    )
    if footer is not None and end is None:
        span = replace(span, limit=_limit_of_bad_footer(data, span))
    found = walk(data, span)
    if footer is None and _was_sealed(data, found.end if end is None else end):
        footer = BadFooter("the file was cut to its length, yet its footer has no good end")
    if end is None and data[found.end : found.end + 8] == FOOTER_MAGIC:
        found = walk(data, replace(span, limit=found.end))  # a footer that was begun is no torn frame
    vouched = found.vouched() if end is None else end
    ranges = found.bad_ranges if end is None else _ranges_up_to(end, found, len(data))
    every_bad = tuple(bad_range for bad_range in ranges if bad_range.start < vouched)
    bad = tuple(bad_range for bad_range in every_bad if bad_range.size >= FRAME_SIZE)  # a shorter one is padding
    good_end = _good_end(found, ranges, vouched)
    if task.vouched_only:
        good_end = min(good_end, max(vouched, span.start))
    cut = sum(frame.offset >= good_end for frame in found.frames)
    if cut:
        found = walk(data, replace(span, limit=good_end))
    payloads = tuple(payload for payload in found.bad_payloads if payload.frame < good_end)
    body = _body(found, bad, payloads, is_torn=cut > 0 or any(r.start >= vouched for r in ranges))
    if body is Body.WHOLE and (every_bad or (good_footer is not None and _checksum_differs(file, good_footer))):
        body = Body.PADDING
    head = Head.ROTTED if task.is_rotted or header is None else Head.GOOD
    foot = Foot.GOOD if good_footer else Foot.ABSENT if footer is None else Foot.BAD
    contents = replace(found.builder.build(found.end), has_gaps=found.has_gaps)
    matches = task.named is None or found.has_gaps or _ends_as(contents, identity, task.named)
    decision = decide(Seen(head=head, body=body, foot=foot, is_followed=task.named is not None, ends_as_named=matches))
    return Examined(
        sequence=task.sequence,
        path=task.path,
        size=len(data),
        header=header,
        decision=decision,
        end=good_end if end is None else end,
        reason=_reason(decision, ranges, payloads, footer),
        contents=contents,
        low_water=_low_water(contents),
        bad_ranges=every_bad,
        bad_payloads=payloads,
        losses=losses_of(file.path.name, bad, payloads, found, good_footer),
        named=task.named,
        successor=task.successor,
        database=task.database,
        owner=found.frames[0].owner if found.frames else task.owner,
        identity=identity,
        cut_frames=cut,
    )


def _ranges_up_to(end: int, found: Walk, size: int) -> list[BadRange]:
    """Return the bad ranges of a file whose frames are known to go up to `end`."""
    if found.end >= end:
        return found.bad_ranges
    before = [bad_range for bad_range in found.bad_ranges if bad_range.start < found.end]
    reason = "the file is cut off" if size < end else "zeros where frames were promised"
    last = [bad_range for bad_range in found.bad_ranges if bad_range.start >= found.end]
    return [*before, replace(last[0], end=end) if last else BadRange(found.end, end, reason)]


def _limit_of_bad_footer(data: bytes, span: Span) -> int:
    """Return where a footer that cannot be trusted seems to start: frames end there at the latest."""
    at = data.rfind(FOOTER_MAGIC)
    return at if at > span.start and at % 8 == 0 else len(data)


def _was_sealed(data: bytes, end: int) -> bool:
    """Say whether a footer that was finished once starts at this offset."""
    head = data[end : end + 16]
    return len(head) == 16 and head[:8] == FOOTER_MAGIC and int.from_bytes(head[8:], "little") == len(data) - end


def _good_end(found: Walk, ranges: Sequence[BadRange], vouched: int) -> int:
    """Return where what is to be kept ends: before the first thing that is bad and not vouched for."""
    torn = [bad_range.start for bad_range in ranges if bad_range.start >= vouched]
    torn += [payload.frame for payload in found.bad_payloads if payload.frame >= vouched]
    return min(torn, default=max(found.end, max((r.end for r in ranges if r.start < vouched), default=0)))


def _body(found: Walk, bad: Sequence[BadRange], payloads: Sequence[BadPayload], *, is_torn: bool) -> Body:
    if bad or payloads:
        return Body.BAD
    if not found.frames:
        return Body.EMPTY
    return Body.TORN if is_torn else Body.WHOLE


def _checksum_differs(file: DataFile, footer: Footer) -> bool:
    return file.checksum(footer.summary.end) != footer.summary.file_checksum


def _reason(
    decision: Decision,
    ranges: Sequence[BadRange],
    payloads: Sequence[BadPayload],
    footer: Footer | BadFooter | None,
) -> str:
    if decision.action in (Action.KEEP, Action.SEAL):
        return ""
    parts = [f"byte {bad_range.start}: {bad_range.reason}" for bad_range in ranges[:3]]
    for payload in payloads[:3]:
        what = (
            f"message {payload.number}" if payload.operation is Operation.ADD else f"the value of key {payload.name!r}"
        )
        parts.append(f"byte {payload.frame}: {what} does not match its checksum")
    if isinstance(footer, BadFooter):
        parts.append(footer.reason)
    return "; ".join(parts) or decision.row
