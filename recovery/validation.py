"""Read data files and say what state each is in. Changes nothing.

A file is judged by itself and by what its neighbours say of it: its successor's header where it
ended, with which commit, and the chain over its frames; the footer before it that it was begun. Of the
newest one the lock file says both, the first only after a close. So a file that was cut, emptied, exchanged
or removed shows.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from oms_journal.journal.background import yielding
from oms_journal.journal.disk import Disk, RealDisk
from oms_journal.journal.errors import DiskError, JournalError
from oms_journal.journal.format.contents import NO_FRAMES
from oms_journal.journal.format.footer import ranges
from oms_journal.journal.format.headers import HEADER_COPIES, HEADER_SIZE, FileHeader, align
from oms_journal.journal.format.records import MOVED
from oms_journal.journal.lock import read_holder
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.evidence import ends_as, first_identity, was_written_on
from oms_journal.journal.reading.sweep import sweep
from oms_journal.recovery.bad_blocks import unreadable_in
from oms_journal.recovery.decision import PREPARED, Body, Foot, Head, Observed, decide
from oms_journal.recovery.examination import (
    NOT_REPLAYED,
    Examination,
    between,
    examine_frames,
    examine_swept,
    low_water_of,
    read_contents,
)
from oms_journal.recovery.payloads import with_payloads
from oms_journal.recovery.report import FileReport, Loss, Verdict
from oms_journal.recovery.restoring import refuse_unfinished
from oms_journal.recovery.survey import Candidate, check_lineage, survey

Progress = Callable[[str, int, int], None]
HASH_THREADS = 2  # hashing and reading let go of the interpreter's lock
ALONE_BYTES = 4 << 20  # so few are read before threads have begun; footers are little more than Python
_sweeping = threading.Lock()  # that holds the interpreter's: two threads at it would only pass it to and fro
LOOKS_MAX = 20  # clean-up of a running database may be faster than who reads it without the lock
FASTER = "data files go faster than they can be read"  # where that was not enough


def no_progress(_stage: str, _done: int, _total: int) -> None:
    """Report nothing."""


def validate_directory(
    directory: Path | str,
    disk: Disk | None = None,
    *,
    progress: Progress = no_progress,
    full: bool = True,
    payloads: bool = False,
) -> tuple[FileReport, ...]:
    """Return the verdict on every data file of a directory. Takes no lock, changes nothing.

    While somebody has the database open, what is only half written at its end is in flight, not torn. With `payloads`
    the reports also say which messages and values cannot be read, be the file clean: written so, or known to be so.
    """
    disk = disk or RealDisk()
    path = Path(directory)
    refuse_unfinished(disk, path)
    examined = examine_directory(disk, path, progress, full=full)
    reports = [one.report(action="") for one in examined]
    if payloads:
        reports = with_payloads(disk, examined, reports)
    # Behind the file that is being written there may be the one that is prepared to be the next.
    place = next((at for at in range(len(reports) - 1, -1, -1) if reports[at].row != PREPARED), -1)
    if place >= 0 and reports[place].verdict is Verdict.TORN and (who := _writer(disk, path, examined[place])):
        reports[place] = replace(reports[place], verdict=Verdict.CLEAN, reason=f"being written by {who}")
    return tuple(reports)


def _writer(disk: Disk, directory: Path, newest: Examination) -> str:
    """Return who is writing the newest file, "" when nobody is."""
    try:
        holder = read_holder(disk, directory)
    except JournalError:
        return ""
    if holder is None or not holder.is_open or newest.owner not in (0, holder.number):
        return ""
    return f"process {holder.pid} on {holder.host}"


def examine_directory(
    disk: Disk, directory: Path, progress: Progress, *, full: bool, mark: Callable[[Candidate], Candidate] | None = None
) -> list[Examination]:
    """Examine every data file, and every one that should be there and is not, in the order of writing.

    What is to be examined is marked first, where somebody knows more of it than its neighbours do. DiskError, also
    when files go faster than they can be read: what has gone since it was listed is not lost.
    """
    for _ in range(LOOKS_MAX):
        try:
            tasks = [mark(task) if mark is not None else task for task in survey(disk, directory)]
        except DiskError as failure:
            if not has_gone_since(failure, directory):
                raise
            continue
        total = sum(_size(disk, task.path) for task in tasks)
        done = 0
        found: list[Examination] = []
        with yielding():  # an unsealed file is walked in Python, and somebody may be committing in this process
            for examined in _examine_all(disk, tasks, full=full, alone=not full or total < ALONE_BYTES):
                found.append(examined)
                done += examined.size
                progress("validate", done, total)
        found = _in_order(disk, as_followed(disk, tasks, found, full=full), full=full)
        found = _behind_others(disk, found, full=full)
        low_water = max((examined.low_water for examined in found), default=0)
        listed = [(task.sequence, task.header) for task in tasks if task.is_listed]
        check_lineage(disk, directory, listed, low_water)  # again: the mark may stand in a frame, and in no header yet
        found = [examined for examined in found if examined.sequence >= low_water]
        if not any(_has_gone(examined) for examined in found):
            return found
    raise DiskError(directory, OSError(FASTER), "read")


def _examine_all(disk: Disk, tasks: Sequence[Candidate], *, full: bool, alone: bool) -> Iterator[Examination]:
    """Yield the judgement on every file, in order."""
    if alone:
        yield from (examine(disk, task, full=full) for task in tasks)
        return
    with ThreadPoolExecutor(HASH_THREADS) as pool:
        yield from pool.map(lambda task: examine(disk, task, full=full), tasks)


def as_followed(
    disk: Disk, tasks: Sequence[Candidate], found: Sequence[Examination], *, full: bool
) -> list[Examination]:
    """Return what was found, with files examined anew whose successors were begun after the headers had been read.

    Such a file was judged as the newest one: up to what vouched for itself, or for what was there by then. Its
    successor, which was read later, says where it ends.
    """
    result = list(found)
    for place in range(1, len(found)):
        before, header = found[place - 1], found[place].header
        if tasks[place].header is not None or header is None or header.previous.sequence != before.sequence:
            continue
        task = replace(before.task, named=header.previous, successor=(header.sequence, header.identity))
        result[place - 1] = examine(disk, task, full=full)
    return result


def _in_order(disk: Disk, found: Sequence[Examination], *, full: bool) -> list[Examination]:
    """Return what was found, with files examined anew that add messages with numbers of files before them.

    A header says that it is behind all of those before it. Only where it does not are the numbers looked at.
    """
    result: list[Examination] = []
    floor = 0
    for one in found:
        is_told = one.header is not None and one.header.created and one.header.next_message >= floor
        if not is_told and one.highest and 0 < _lowest_new(disk, one) < floor:
            one = examine(disk, replace(one.task, floor=floor), full=full)
        if one.decision.action not in NOT_REPLAYED:
            floor = max(floor, one.highest + 1)
        result.append(one)
    return result


def _lowest_new(disk: Disk, examined: Examination) -> int:
    """Return the lowest number of a message that a file adds, moved ones left out; 0 for none. DiskError."""
    contents = read_contents(disk, examined)
    if contents is None:
        return 0
    columns = contents.columns
    numbers = columns["number"][(columns["kind"] == Operation.ADD) & (columns["flags"] & MOVED == 0)]
    return int(numbers.min()) if len(numbers) else 0


def _behind_others(disk: Disk, found: Sequence[Examination], *, full: bool) -> list[Examination]:
    """Return what was found, with files without a header examined anew: theirs are no numbers of those before them."""
    result: list[Examination] = []
    for one in found:
        if one.header is None and any(not loss.is_exact for loss in one.losses):
            first = 1 + max((_highest(disk, before) for before in result), default=0)
            if first > one.task.numbers[0] > 0:
                one = examine(disk, replace(one.task, numbers=(first, one.task.numbers[1])), full=full)
        result.append(one)
    return result


def _highest(disk: Disk, examined: Examination) -> int:
    """Return the highest number of a message that a file has added, 0 for none. DiskError."""
    contents = read_contents(disk, examined)
    return ranges(contents).added[1] if contents is not None else 0


def has_gone_since(failure: DiskError, directory: Path) -> bool:
    """Say whether a data file was listed and was not there any more when it was to be read."""
    return isinstance(failure.failure, FileNotFoundError) and failure.path != directory


def _has_gone(examined: Examination) -> bool:
    """Say whether a file was listed and is not there any more: clean-up has been at work meanwhile."""
    return examined.decision.row == "missing" and examined.task.is_listed


def _size(disk: Disk, path: Path) -> int:
    try:
        return disk.size(path)
    except FileNotFoundError:
        return 0
    except OSError as failure:
        raise DiskError(path, failure, "read") from failure


def examine(disk: Disk, task: Candidate, *, full: bool) -> Examination:
    """Examine one data file; DiskError when it cannot be read.

    Whoever reads without the lock may read one part before a change and the next one behind it. That looks like damage,
    but bytes are written once: it does not look the same a second time, and damage does.
    """
    found = _examine_once(disk, task, full=full)
    for _ in range(LOOKS_MAX):
        if found.decision.verdict is not Verdict.DAMAGED or found.decision.row == "missing" or found.is_settled:
            break
        before, found = found, _examine_once(disk, task, full=full)
        if _damage_of(found) == _damage_of(before):
            break
    return found


def _damage_of(examined: Examination) -> tuple[object, ...]:
    return examined.decision, examined.bad_ranges, examined.bad_payloads


def _examine_once(disk: Disk, task: Candidate, *, full: bool) -> Examination:
    try:
        with DataFile(disk, task.path) as file:
            return _examine(file, task, full=full)
    except FileNotFoundError:
        return _without_frames(task, 0, Body.MISSING, "the file is missing, and another one names it")
    except OSError as failure:
        raise DiskError(task.path, failure, "read") from failure


def _examine(file: DataFile, task: Candidate, *, full: bool) -> Examination:
    size = file.size()
    if task.header is None and file.is_zero():
        return _without_frames(task, size, Body.ZERO, "nothing but zeros where frames were promised")
    if task.header is None and isinstance(header := file.header(), FileHeader):
        # Prepared when the headers were read, and begun since: somebody is writing in the directory.
        task = replace(task, header=header, identity=header.identity, is_rotted=False)
    if task.is_late:
        return _without_frames(task, size, Body.LATE, "written by a former owner after the directory was taken over")
    if task.identity is None:
        data = file.bytes()
        task = replace(task, identity=first_identity(data, task.sequence))
    if task.identity is None:
        copies = [data[at : at + HEADER_SIZE] for at in HEADER_COPIES]
        is_begun = all(any(copy) or not copy for copy in copies)  # zeros in the place of one say: never
        is_hidden = is_begun and bool(unreadable_in(file.file))
        is_written = is_hidden or was_written_on(data, task.sequence)
        body = Body.LOST if is_written else Body.UNKNOWN
        reason = "neither copy of the header can be read, nor the first frame, and no neighbour tells whose the file is"
        return _without_frames(task, size, body, reason, extent=align(len(data.rstrip(b"\0")), 8))
    footer = file.footer(identity=task.identity)
    footer = footer.checked(with_ranges=full) if isinstance(footer, Footer) else footer
    if isinstance(footer, Footer) and _agrees(footer, task) and not task.floor:
        return _sealed(file, task, footer, full=full)
    return examine_frames(file, task, footer, task.identity)


def _without_frames(task: Candidate, size: int, body: Body, reason: str, *, extent: int = 0) -> Examination:
    """Return the judgement on a file in which no frame can be read."""
    is_followed = task.named is not None or task.is_promised
    decision = decide(Observed(head=Head.NONE, body=body, foot=Foot.ABSENT, is_followed=is_followed))
    extent = task.named.end if task.named is not None else extent
    losses: tuple[Loss, ...] = ()
    was_empty = task.named is not None and task.named.chain == NO_FRAMES
    if decision.verdict is Verdict.DAMAGED and not was_empty:
        numbers = between(*task.numbers)
        losses = (Loss(name=task.path.name, start=0, end=max(extent, 1), reason=reason, numbers=numbers),)
    return Examination(
        task=task,
        size=size,
        decision=decision,
        end=0,
        reason=reason if decision.row != PREPARED else "prepared and never used",
        losses=losses,
        successor=task.successor,
        owner=task.owner,
        extent=extent,
    )


def _agrees(footer: Footer, task: Candidate) -> bool:
    summary = footer.summary
    return summary.header == task.header and (task.named is None or summary.end == task.named.end)


def _sealed(file: DataFile, task: Candidate, footer: Footer, *, full: bool) -> Examination:
    """Judge a file with a good footer: by its checksum, and only where that fails frame by frame."""
    summary, header = footer.summary, task.header
    assert header is not None
    matches = task.named is None or summary.has_gaps or ends_as(summary, header.identity, task.named)
    is_kept = matches and not task.is_rotted  # what is written anew is read as a whole first
    if (full or not is_kept) and file.checksum(summary.start) != summary.file_checksum:
        # Where a block cannot be read, its other bytes are given up too, whoever asks for fewer of them.
        with _sweeping:
            bad = sweep(file.file, summary, footer.contents()) if not unreadable_in(file.file) else None
        if bad is None:
            return examine_frames(file, task, footer, header.identity)
        return examine_swept(file, task, footer, bad)
    seen = Observed(
        head=Head.ROTTED if task.is_rotted else Head.GOOD,
        body=Body.WHOLE,
        foot=Foot.GOOD,
        is_followed=task.named is not None,
        ends_as_named=matches,
    )
    decision = decide(seen)
    return Examination(
        task=task,
        size=file.size(),
        decision=decision,
        end=summary.end,
        reason="" if decision.verdict is Verdict.CLEAN else _reason(task, decision.row),
        highest=summary.ranges.added[1],
        low_water=low_water_of(footer.contents()),
        successor=task.successor if task.successor[0] else (summary.successor, summary.successor_identity),
        owner=header.owner,
        is_recovered=summary.is_recovered,
    )


def _reason(task: Candidate, row: str) -> str:
    if row == "damaged header":
        return "one copy of the header does not match its checksum, or is another file's"
    named = task.named
    assert named is not None
    return f"its successor says that it ends at byte {named.end} with commit {named.commit}, and with other frames"
