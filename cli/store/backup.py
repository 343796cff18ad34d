"""`oms backup`: makes a second copy of a running database, keeps it up to date, and verifies it."""

import errno
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM
from typing import Annotated

import typer

from oms_journal.broker.records import MASTER_KEY
from oms_journal.cli import options, output
from oms_journal.cli.failures import ExitCode, Failure, Usage
from oms_journal.cli.interrupts import watch_signals
from oms_journal.cli.output import age_text, counted, note, size_text
from oms_journal.cli.progress import ProgressBar
from oms_journal.cli.store.inspect import print_verdicts
from oms_journal.cli.stores import require
from oms_journal.database.backup.backup import Backup, BackupOptions, BackupReport, back_up, check_apart
from oms_journal.database.backup.follow import Follower, Shipped
from oms_journal.database.backup.verification import verify_backup
from oms_journal.journal.errors import DiskError, NotThisBackup

TOLD_SECONDS = 10.0  # between two lines of a follower
INTERVAL_SECONDS = 0.5


def backup(  # noqa: PLR0913
    directory: Annotated[Path, typer.Argument(metavar="DEST", help="The backup's own directory.", show_default=False)],
    spool: options.Spool = options.SPOOL_DEFAULT,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on copying what comes, until you stop it.")
    ] = False,
    interval: Annotated[
        float,
        typer.Option(min=0.01, metavar="SECONDS", help="With --follow: the time between two looks for new commits."),
    ] = INTERVAL_SECONDS,
    copy: Annotated[
        bool, typer.Option("--copy", help="Copy every file. Without it oms links files on the same file system.")
    ] = False,
    reread: Annotated[
        bool, typer.Option("--reread", help="Read all that DEST has already, and copy anew what has rotted.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Make no backup: read the one in DEST, and say whether it is whole.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Back a database up into DEST, while it runs.

    If you repeat it, it brings only what is new. Never open the backup: `oms restore` makes a database from it. If a
    file is damaged, oms makes the backup all the same and exits 1.
    """
    if verify:
        _verify(directory, as_json=as_json)
        return
    require(spool)
    _check_apart(spool, directory)
    if follow and reread:
        raise Usage("--reread is for a backup that comes to an end: make one before --follow")
    with _naming(directory):
        if follow:
            _follow(spool, directory, interval, links=not copy, as_json=as_json)
        else:
            _back_up(spool, directory, links=not copy, rereads=reread, as_json=as_json)


_ADVICE = {
    errno.EACCES: "or give another directory for the backup",
    errno.EPERM: "or give another directory for the backup",
    errno.EROFS: "mount that file system writable, or give another directory for the backup",
    errno.ENOSPC: "make room on the file system of the backup",
    errno.EDQUOT: "make room in the quota of the backup",
}


@contextmanager
def _naming(directory: Path) -> Iterator[None]:
    """Give advice about the backup's directory where that fails, and not the database's."""
    try:
        yield
    except DiskError as failure:
        if directory.absolute() not in (failure.path, *failure.path.parents):
            raise
        advice = _ADVICE.get(failure.failure.errno or 0, "is the directory for the backup the right one, and mounted?")
        text = f"{failure}; {advice}"
        raise Failure(text, ExitCode.UNUSABLE, error=type(failure).__name__) from failure


def _back_up(spool: Path, directory: Path, *, links: bool, rereads: bool, as_json: bool) -> None:
    with ProgressBar() as progress:
        chosen = BackupOptions(links=links, rereads=rereads, key=MASTER_KEY.encode(), progress=progress)
        report = back_up(spool, directory, chosen)
    if as_json:
        output.print_json(report.as_dict())
    else:
        _print_report(report)
    if report.damage:
        raise typer.Exit(ExitCode.NO)


def _check_apart(spool: Path, directory: Path) -> None:
    try:
        check_apart(spool.absolute(), directory.absolute())
    except NotThisBackup as inside:
        raise Usage(str(inside)) from inside


def _print_report(report: BackupReport) -> None:
    for name, reason in report.damage.items():
        output.print_line(f"DAMAGED {name}: {reason}")
    for archive in report.archived:
        output.print_line(f"{archive} keeps what the backup had: the database's file is another one now")
    if report.is_mended:
        output.print_line("The backup's list of its files was damaged: it is whole again.")
    if report.fell_behind:
        output.print_line("The database had cleaned up behind the last backup: all was brought anew.")
    if report.unvouched:
        output.print_line(f"{counted(report.unvouched, 'commit')} that nothing vouches for yet left out.")
    known = report.manifest
    parts = [f"{report.count(how):,} {how}" for how in ("kept", "linked", "extended", "copied") if report.count(how)]
    size = size_text(sum(file.size for file in known.files))
    output.print_line(
        f"Backed up to commit {known.tail.commit:,}: {counted(len(known.files), 'file')}, {size} "
        f"({', '.join(parts)}; {size_text(report.written_bytes)} written), {age_text(report.seconds)}."
    )
    if report.count("linked"):
        output.print_line("Linked files share the disk with the database: against its loss, back up to another one.")
    if report.damage:
        output.print_line("The backup has what is whole; `oms verify` and `oms recover` tell more of the damage.")


def _verify(directory: Path, *, as_json: bool) -> None:
    with ProgressBar() as progress:
        files = verify_backup(directory, progress=progress, payloads=True) if directory.is_dir() else None
    if files is None:
        raise Usage(f"{directory} is no backup")
    print_verdicts(files, as_json=as_json)


def _follow(spool: Path, directory: Path, interval: float, *, links: bool, as_json: bool) -> None:
    chosen = BackupOptions(links=links, key=MASTER_KEY.encode())
    with watch_signals(SIGTERM) as ending, Backup.open(spool, directory, chosen) as backup:
        telling = _Telling(as_json=as_json)
        Follower(backup, chosen).follow(lambda: ending.wait(interval), telling.tell)
        telling.end()


class _Telling:
    """What a follower says: each time with --json, else what is worth a line."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._bytes = 0
        self._told_at = float("-inf")
        self._last: Shipped | None = None
        self._failure = ""

    def tell(self, shipped: Shipped) -> None:
        """Say what a poll did, at once: somebody waits for it."""
        self._tell(shipped)
        sys.stdout.flush()

    def _tell(self, shipped: Shipped) -> None:
        self._last = shipped
        self._bytes += shipped.bytes
        if self._as_json:
            if shipped.is_new or shipped.failure:
                output.print_json_line(shipped.as_dict())
            return
        self._tell_failure(shipped)
        report = shipped.report
        if report is not None and (report.is_first or report.fell_behind or report.damage or report.archived):
            _print_report(report)
        elif shipped.is_new and time.monotonic() - self._told_at >= TOLD_SECONDS:
            self._print_line()

    def _tell_failure(self, shipped: Shipped) -> None:
        failure = str(shipped.failure or "")
        if failure and failure != self._failure:
            note(f"{failure}; trying again")
        elif self._failure and not failure:
            note("the backup goes on")
        self._failure = failure

    def _print_line(self) -> None:
        if self._last is None or self._last.manifest is None:
            return
        tail = self._last.manifest.tail
        output.print_line(
            f"commit {tail.commit:,} in file {tail.sequence:,}, {size_text(self._bytes)} shipped, "
            f"{self._last.lag_seconds:.1f} s behind"
        )
        self._told_at = time.monotonic()

    def end(self) -> None:
        """Say where the backup ends."""
        if not self._as_json:
            self._print_line()
