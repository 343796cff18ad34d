"""Which messages and values of a directory cannot be read: every payload is held against its own checksum.

A file's checksum says that its bytes are those that were written, and its frames' that their records are. Neither says
that a payload is what its record says: that is found out here, for a verification that nobody waits to be over.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from oms_journal.index.duplicates import WindowBounds
from oms_journal.index.live import Index
from oms_journal.journal.background import yielding
from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, FormatError
from oms_journal.journal.format.contents import DAMAGED, Contents
from oms_journal.journal.operations import Operation
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.journal.reading.evidence import Expected, gather
from oms_journal.journal.reading.sweep import lost_payloads, lost_rows, sweep
from oms_journal.journal.reading.walk import BadPayload
from oms_journal.recovery.decision import Action
from oms_journal.recovery.examination import Examination, read_contents
from oms_journal.recovery.report import FileReport, Unreadable

UNREADABLE_MAX = 100  # of one file that are told one by one
_OTHER_ROWS = "the footer does not say what the frames do"
_NUMBERS = "its messages' numbers are not behind those of the commit before"


def with_payloads(disk: Disk, examined: Sequence[Examination], reports: Sequence[FileReport]) -> list[FileReport]:
    """Return the reports with what of each file cannot be read. DiskError.

    What a repair has found, and said, is told for as long as it is undelivered or a key's value.
    """
    found = []
    live: Index | None = None
    for one, report in zip(examined, reports, strict=True):
        with yielding():
            bad, contents = _bad_in(disk, one)
        if contents is not None and bad and (contents.columns["flags"] & DAMAGED).any():
            live = live or _index_of(disk, examined)
            bad = [each for each in bad if not _is_over(each, contents, live, one.sequence)]
        unreadable = tuple(_told(report.name, each) for each in bad[:UNREADABLE_MAX])
        found.append(replace(report, unreadable=unreadable, unreadable_count=len(bad)))
    return found


def _bad_in(disk: Disk, examined: Examination) -> tuple[list[BadPayload | Unreadable], Contents | None]:
    """Return what cannot be read, and the contents of a file in which a repair may have found it."""
    if examined.decision.action is not Action.KEEP:
        return list(examined.bad_payloads), None
    try:
        with DataFile(disk, examined.path) as file:
            footer = file.footer(identity=examined.task.identity)
            if not isinstance(footer, Footer):
                return [], None  # it was replaced since: a start is at work
            contents = footer.contents()
            swept = sweep(file.file, footer.summary, contents)
            lost = lost_payloads(contents, lost_rows(file.file, footer.summary, contents))
            return [*lost, *(_walked(file, footer) if swept is None else swept)], contents
    except (FileNotFoundError, FormatError):
        return [], None  # clean-up was faster, or a start
    except OSError as failure:
        raise DiskError(examined.path, failure, "read") from failure


def _walked(file: DataFile, footer: Footer) -> Iterator[BadPayload | Unreadable]:
    """Yield what a walk says of a file whose frames are not as its footer has them."""
    header = footer.summary.header
    expected = Expected(
        sequence=header.sequence,
        identity=header.identity,
        alignment=header.alignment,
        end=footer.summary.end,
        header=header,
    )
    evidence = gather(file.bytes(), expected, footer.summary)
    for bad in evidence.ranges:
        yield Unreadable(kind="commit", file=file.path.name, offset=bad.start, reason=bad.reason)
    yield from evidence.found.bad_payloads
    if not evidence.ranges and not evidence.found.bad_payloads:
        yield Unreadable(kind="commit", file=file.path.name, offset=footer.summary.start, reason=_OTHER_ROWS)


def _index_of(disk: Disk, examined: Sequence[Examination]) -> Index:
    index = Index(WindowBounds())
    for one in examined:
        contents = read_contents(disk, one)
        if contents is not None:
            index.replay(contents, one.sequence)
    return index


def _is_over(bad: BadPayload | Unreadable, contents: Contents, live: Index, sequence: int) -> bool:
    """Say whether a repair has told it, and nobody wants it any more."""
    if isinstance(bad, Unreadable):
        return False
    columns = contents.columns
    rows = np.flatnonzero((columns["offset"] == bad.frame) & (columns["flags"] & DAMAGED != 0))
    if bad.operation is Operation.ADD:
        is_told = bool((columns["number"][rows] == np.uint64(bad.number)).any())
        place = live.table.find(bad.number)
        return is_told and (place is None or (place.sequence, place.offset) != (sequence, bad.frame))
    is_told = bad.name in {bytes(contents.names[name]) for name in columns["name"][rows].tolist()}
    return is_told and live.keyed.find(bad.name) != (sequence, bad.frame)


def _told(file: str, bad: BadPayload | Unreadable) -> Unreadable:
    if isinstance(bad, Unreadable):
        return bad
    return Unreadable(
        kind="message" if bad.operation is Operation.ADD else "key",
        file=file,
        offset=bad.frame,
        number=bad.number,
        name=bad.name.decode("utf-8", "backslashreplace"),
        reason="its bytes do not match its checksum",
    )
