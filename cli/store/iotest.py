"""`oms io-test DIR`: how fast this directory's device makes bytes durable, and whether it does at all."""

import errno
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from oms_journal.cli import options, output
from oms_journal.cli.failures import ExitCode, Failure, Usage
from oms_journal.cli.interrupts import stopping
from oms_journal.cli.store.iotest_text import print_report
from oms_journal.cli.stores import check_option
from oms_journal.journal.errors import DiskError
from oms_journal.journal.iotest.measurement import BYTES_MIN, Bounds, Progress, measure

SECONDS_MIN, SECONDS_MAX = 0.1, 3600.0
QUEUE = "io-test"
_ADVICE = {
    errno.ENOENT: "make the directory first, or give another",
    errno.ENOTDIR: "give a directory",
    errno.EACCES: "or give another directory",
    errno.EPERM: "or give another directory",
    errno.EROFS: "mount the file system writable, or give another directory",
    errno.ENOSPC: "make room, or give less with --bytes",
    errno.EDQUOT: "make room in the quota, or give less with --bytes",
    errno.EIO: "the device does not read or write: look at the system's log",
}


def io_test(  # noqa: PLR0913
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory to measure in.", show_default=False)],
    seconds: Annotated[
        float, typer.Option("--seconds", min=SECONDS_MIN, max=SECONDS_MAX, help="How long, about, in total.")
    ] = 10.0,
    bytes_max: Annotated[
        str, typer.Option("--bytes", metavar="SIZE", help="How much space at most (B, K, M, G).")
    ] = "256M",
    max_data_file_size: options.MaxDataFileSize = None,
    no_journal: Annotated[
        bool, typer.Option("--no-journal", help="Measure the device only, not this journal on it.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Measure how fast this directory's device makes bytes durable.

    Says whether the journal's own method is as fast as any there.
    Exits 1 when the device or file system seems not to sync at all.
    """
    bounds = _bounds(seconds, bytes_max, max_data_file_size)
    journal = None if no_journal else _journal(bounds.data_file_size)
    try:
        with stopping(), _progress() as progress:
            report = measure(directory, bounds, journal=journal, progress=progress)
    except DiskError as failure:
        raise _told(failure) from failure
    if as_json:
        output.print_json(report.as_dict())
    else:
        print_report(report)
    if not report.sync.seems_to_sync:
        raise typer.Exit(ExitCode.NO)


def _bounds(seconds: float, bytes_text: str, data_file_text: str | None) -> Bounds:
    from oms_journal.database.options import Options, parse_size

    try:
        bytes_max = parse_size(bytes_text)
    except ValueError as failure:
        raise Usage(f"--bytes: {failure}") from failure
    check_option("--max-data-file-size", "max_data_file_size", data_file_text)
    data_file_size = Options.of(max_data_file_size=data_file_text).max_data_file_size
    if bytes_max < BYTES_MIN:
        raise Usage(f"--bytes must be at least {BYTES_MIN}, not {bytes_text!r}")
    return Bounds(seconds=seconds, bytes_max=bytes_max, data_file_size=data_file_size)


def _journal(data_file_size: int) -> Callable[[Path], AbstractContextManager[Callable[[bytes], object]]]:
    """Return what opens a database in a scratch directory. Nothing of the environment's settings goes in."""

    @contextmanager
    def opened(directory: Path) -> Iterator[Callable[[bytes], object]]:
        from oms_journal.database import MessageDatabase, Options

        settings = Options.of(max_data_file_size=data_file_size, cleanup_interval=0)
        with MessageDatabase.open(directory, options=settings) as db:
            yield lambda message: db.add(QUEUE, message)

    return opened


def _told(failure: DiskError) -> Failure:
    number = failure.failure.errno or 0
    text = f"{failure}; {_ADVICE[number]}" if number in _ADVICE else str(failure)
    if number in (errno.ENOENT, errno.ENOTDIR):
        return Usage(f"DIR: {text}", error=type(failure).__name__)
    return Failure(text, ExitCode.UNUSABLE, error=type(failure).__name__)


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Show on a terminal how much of the time is over. No thread redraws it: that would be measured too."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task("preparing")

        def show(stage: str, spent: float, total: float) -> None:
            bar.update(task, description=stage, completed=min(spent, total), total=total)
            bar.refresh()

        yield show
