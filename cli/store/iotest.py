"""`oms io-test DIR`: measures how fast the directory's device makes bytes durable, and whether it seems to sync.

The report of `oms io-test` for people.
"""

import errno
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from oms_journal.cli import options, output
from oms_journal.cli.failures import ExitCode, Failure, Usage
from oms_journal.cli.interrupts import raise_on_signals
from oms_journal.cli.output import Column, number_column, print_line, print_table, size_text
from oms_journal.cli.stores import check_option
from oms_journal.database.database import MessageDatabase
from oms_journal.database.options import Options, parse_size
from oms_journal.journal.errors import DiskError
from oms_journal.journal.iotest.measurement import BYTES_MIN, Bounds, Progress, measure
from oms_journal.journal.iotest.report import AppendResult, JournalResult, Report, Timing

BAR_WIDTH = 50
SHOWN_SIZE = 1024  # of the appends whose latencies are drawn
FULL, PARTS = "█", " ▏▎▍▌▋▊▉"


def print_report(report: Report) -> None:
    """Print the report; what an operator must hear comes last, where it is seen."""
    print_line(_place_text(report))
    for note in report.notes:
        print_line(f"note: {note}")
    _print_appends(report)
    _print_steps(report)
    _print_journal(report.journal)
    _print_histograms(report)
    _print_verdict(report)


def _place_text(report: Report) -> str:
    place = report.place
    parts = [place.directory]
    if place.mount is not None:
        parts.append(f"{place.mount.file_system} on {place.mount.source} ({','.join(place.mount.options)})")
    if place.device is not None:
        parts.append(f"device {place.device}")
    if place.write_cache is not None:
        parts.append(f"{place.write_cache} cache")
    return ", ".join([*parts, f"{size_text(report.free_bytes)} free"])


def _print_appends(report: Report) -> None:
    print_line()
    print_line("Appends, one after the other; latencies in µs")
    print_table([Column("method"), *map(number_column, _FIGURES)], _append_rows([*report.appends, *report.unsynced]))
    if report.not_here:
        missing = (f"{each.method.name} ({each.reason})" for each in report.not_here)
        print_line(f"Not available: {', '.join(missing)}")
    print_line("O_DIRECT: with O_DSYNC, in whole blocks of 4 KiB. The rates are medians of rounds.")


_LATENCIES = ("p50", "p99", "p99.9", "max")
_FIGURES = ("per s", "MB/s", *_LATENCIES)


def _append_rows(results: list[AppendResult]) -> Iterator[tuple[str, ...]]:
    size = None
    for result in sorted(results, key=lambda each: each.size):
        if result.size != size:
            size = result.size
            yield (_short_size(size), *("" for _ in _FIGURES))
        timing = result.timing
        rates = (f"{timing.rate:,.0f}", _three_digits(timing.rate * result.size / 1e6))
        yield (f" {result.method}", *rates, *_latency_cells(timing))


def _latency_cells(timing: Timing) -> tuple[str, ...]:
    seconds = (timing.p50, timing.p99, timing.p999, timing.max)
    return tuple("-" if each is None else _three_digits(each * 1e6) for each in seconds)


def _three_digits(number: float) -> str:
    return f"{number:.3g}" if number < 100 else f"{number:,.0f}"


def _print_steps(report: Report) -> None:
    if report.rollover is not None or report.read is not None:
        print_line()
    if report.rollover is not None:
        r = report.rollover
        steps = (
            f"create {duration_text(r.create)}, fill with zeros {duration_text(r.fill)}, "
            f"first append {duration_text(r.first_append)}, sync the directory {duration_text(r.directory_sync)}"
        )
        print_line(f"Rollover to a file of {size_text(r.size)}: {duration_text(r.total)} ({steps})")
    if report.read is not None:
        asked = "after asking the system to forget the file" if report.read.was_dropped else "maybe from the page cache"
        print_line(
            f"Sequential read: {report.read.rate / 1e6:,.0f} MB/s, {asked}; "
            f"{report.read.rate_cached / 1e6:,.0f} MB/s again, from the page cache"
        )
        print_line("A read may come from a page cache all the same: the device's, or that of a host of this machine.")


def _print_journal(results: Iterable[JournalResult]) -> None:
    rows = []
    for result in results:
        rows.append((_short_size(result.size), *("" for _ in (1, 2, *_LATENCIES))))
        for name, timing, share in (
            ("this journal", result.timing, f"{result.ratio:.2f}"),
            (result.raw_method, result.raw, "1"),
        ):
            rows.append((f" {name}", f"{timing.rate:,.0f}", share, *_latency_cells(timing)))
    if rows:
        print_line()
        print_line("This journal, one durable commit a message, in turns with the bare calls; latencies in µs")
        print_table([Column("what"), *map(number_column, ("per s", "share", *_LATENCIES))], rows)


def _print_histograms(report: Report) -> None:
    if report.comparison is not None:
        for each in report.appends:
            if each.method == report.comparison.method and each.size == SHOWN_SIZE:
                _print_histogram(f"Latencies of {each.method}, {_short_size(each.size)}", each.timing)
    for result in report.journal:
        if result.size == SHOWN_SIZE:
            _print_histogram(f"Latencies of this journal, {_short_size(result.size)}", result.timing)


def _print_histogram(title: str, timing: Timing) -> None:
    print_line()
    print_line(title)
    for line in histogram_lines(timing):
        print_line(line)


def histogram_lines(timing: Timing) -> list[str]:
    """Return one line for each bucket; a bucket that has one of a million still shows."""
    most = max(bucket.count for bucket in timing.histogram)
    return [
        f"{duration_text(low):>8} to {duration_text(high):>7}  {count:>9,}  {_bar(count / most)}".rstrip()
        for low, high, count in ((each.low, each.high, each.count) for each in timing.histogram)
    ]


def _bar(share: float) -> str:
    eighths = round(share * BAR_WIDTH * 8)
    if share > 0:
        eighths = max(eighths, 1)
    return FULL * (eighths // 8) + PARTS[eighths % 8]


def _print_verdict(report: Report) -> None:
    print_line()
    sync = report.sync
    if not sync.seems_to_sync:
        for evidence in sync.evidence:
            print_line(f"WARNING: this seems not to sync: {evidence}")
        print_line("WARNING: a power cut loses messages that were acknowledged; do not keep a spool directory here")
        return
    if report.comparison is not None:
        print_line(f"The journal uses {report.comparison.text}.")
    facts = sync.facts
    seen = f": it saw {facts.flushes:,} flushes for {facts.syncs:,} syncs" if facts and facts.flushes else ""
    print_line(f"Syncs seem to reach the device{seen}.")
    print_line(report.alignment.text)
    for hint in sync.hints:
        print_line(f"note: {hint}")


def duration_text(seconds: float) -> str:
    """Return a short duration with three digits."""
    for unit, scale in (("µs", 1e-6), ("ms", 1e-3)):
        value = seconds / scale
        if value < 999.5:
            return f"{value:.3g} {unit}"
    return f"{seconds:.3g} s"


def _short_size(size: int) -> str:
    return size_text(size).replace(".0", "")


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
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Measure in this directory.", show_default=False)],
    seconds: Annotated[
        float, typer.Option("--seconds", min=SECONDS_MIN, max=SECONDS_MAX, help="Measure for about so long in all.")
    ] = 10.0,
    bytes_max: Annotated[
        str, typer.Option("--bytes", metavar="SIZE", help="Take at most so much space (B, K, M, G).")
    ] = "256M",
    max_data_file_size: options.MaxDataFileSize = None,
    no_journal: Annotated[
        bool, typer.Option("--no-journal", help="Measure the device only, not this journal on it.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Measure how fast this directory's device makes bytes durable.

    It says whether the journal's own method is as fast as any there. It names the device's physical block, and what the
    option group_alignment is for there. It exits 1 when the device or file system seems not to sync at all.
    """
    bounds = _bounds(seconds, bytes_max, max_data_file_size)
    journal = None if no_journal else _journal(bounds.data_file_size)
    try:
        with raise_on_signals(), _progress() as progress:
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
