"""`oms export --parquet DEST`: keeps a Parquet data set current that follows journals."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGTERM
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oms_journal.cli import options, output
from oms_journal.cli.failures import ExitCode, Failure, Usage
from oms_journal.cli.interrupts import Ending, watch_signals
from oms_journal.cli.output import counted, note, size_text
from oms_journal.cli.progress import ProgressBar
from oms_journal.cli.stores import require, require_any
from oms_journal.journal.errors import JournalError

if TYPE_CHECKING:  # Arrow is imported when the command runs
    from oms_journal.analysis.export.refresh import Refreshed

INTERVAL_SECONDS = 5.0
FOLLOWER_WAIT_SECONDS = 1.0  # for another export into the same lake
TOLD_SECONDS = 10.0  # between two lines of a follower
RANGES_SHOWN = 10
_WHY = {
    "cleaned-up": "Not in it, since clean-up had deleted them before",
    "lost": "Not in it, since they are lost",
    "in-part": "Perhaps without their end, since clean-up deleted them while they were exported",
}


def export(  # noqa: PLR0913
    parquet: Annotated[
        str,
        typer.Option("--parquet", metavar="DEST", help="Keep the Parquet files in this directory; s3://… too."),
    ],
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Read these spool or retention directories, data files or globs; s3a://… too.  [default: the spool]",
        ),
    ] = None,
    properties: Annotated[bool, typer.Option("--properties", help="Export the messages' properties too.")] = False,
    payload: Annotated[bool, typer.Option("--payload", help="Export payloads and values too.")] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove from DEST what clean-up has deleted. Name all directories.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on exporting what comes, until you stop it.")
    ] = False,
    interval: Annotated[
        float,
        typer.Option(min=0.01, metavar="SECONDS", help="With --follow: the time between two looks at the journals."),
    ] = INTERVAL_SECONDS,
    spool: options.Spool = options.SPOOL_DEFAULT,
    as_json: options.AsJson = False,
) -> None:
    """Keep a Parquet data set of all operations current.

    You get one Parquet file for each data file: DEST/DATABASE-ID/omsmsg-SEQ.parquet. Run it again, and oms brings what
    is new, also from the file that is being written. What clean-up deletes stays in DEST. If clean-up was faster, oms
    names the files that are missing. You can read DEST at any moment, and stop oms at any moment. You need neither the
    lock nor Java. oms exits 1 when it could not read a part of a file, or a file is lost.
    """
    if not parquet:
        raise Usage("--parquet takes a directory, and it is empty")
    if not paths:
        require(spool)
    columns = [name for name, is_wanted in (("properties", properties), ("payload", payload)) if is_wanted]
    look = _looking(paths or [str(spool)], parquet, columns, prunes=prune, follows=follow)
    if follow:
        _follow(look, interval, parquet, as_json=as_json)
        return
    with ProgressBar() as bar:
        found = look(lambda name, done, total: bar("export", done, total, detail=name))
    if as_json:
        output.print_json(_document(found, parquet))
    else:
        _print_refreshed(found, parquet)
    if _bad(found):
        raise typer.Exit(ExitCode.NO)


Look = Callable[[Any], "Refreshed"]


def _looking(paths: list[str], destination: str, more: list[str], *, prunes: bool, follows: bool) -> Look:
    """Return what brings the lake up to date, once; it takes what is told of the progress."""
    try:
        from oms_journal.analysis.export.place import LakeInJournal, LakeIsBusy
        from oms_journal.analysis.export.refresh import WAIT_SECONDS, ExportOptions, OtherColumns, refresh
        from oms_journal.analysis.reading.schema import default_columns
        from oms_journal.analysis.storage import NoJournal
    except ImportError as missing:
        library = missing.name or missing
        raise Failure(
            f"Parquet takes packages that are not installed ({library}): pip install 'oms-journal[parquet]'",
            ExitCode.UNUSABLE,
            error="NotInstalled",
        ) from missing
    require_any(paths)
    # A signal has to wait for as long as this waits, and who follows tries again.
    wait_seconds = FOLLOWER_WAIT_SECONDS if follows else WAIT_SECONDS
    columns = default_columns(options=["terms", "file", *more])
    chosen = ExportOptions(columns=columns, prunes=prunes, wait_seconds=wait_seconds)

    def look(progress: Any) -> "Refreshed":
        try:
            return refresh(paths, destination, chosen, progress)
        except NoJournal as nothing:
            raise Usage(f"{nothing}; give the right one with PATH", error=type(nothing).__name__) from nothing
        except (LakeInJournal, OtherColumns) as wrong:
            raise Usage(str(wrong), error=type(wrong).__name__) from wrong
        except LakeIsBusy as busy:
            raise Failure(str(busy), ExitCode.LOCKED, error=type(busy).__name__) from busy

    return look


def _bad(found: "Refreshed") -> list[str]:
    """Return what could not be read."""
    lost = [f"{each} is lost" for each in found.missing if each.reason == "lost"]
    return [str(damage) for damage in found.damages if damage.kind != "gap"] + lost


def _print_refreshed(found: "Refreshed", destination: str) -> None:
    for text in _bad(found):
        note(text)
    rows, files = counted(found.rows, "new operation"), counted(len(found.written), "Parquet file")
    there = f"{len(found.there):,} were there already"
    output.print_line(f"{rows}: {files} written, {size_text(found.bytes)}; {there}.")
    if found.removed:
        removed = counted(len(found.removed), "Parquet file")
        output.print_line(f"{removed} removed: clean-up has deleted what they were made from.")
    for reason, text in _WHY.items():
        ranges = [str(each) for each in found.missing if each.reason == reason]
        if ranges:
            more = f" and {len(ranges) - RANGES_SHOWN:,} more" if len(ranges) > RANGES_SHOWN else ""
            output.print_line(f"{text}: {', '.join(ranges[:RANGES_SHOWN])}{more}.")
    output.print_line(f"The files: {_shown(destination)}")


def _shown(destination: str) -> str:
    return destination if "://" in destination else str(Path(destination).absolute())


def _document(found: "Refreshed", destination: str) -> dict[str, object]:
    damages = [
        {"file": one.file, "start": one.start, "end": one.end, "kind": one.kind, "reason": one.reason}
        for one in found.damages
    ]
    missing = [
        {"database": one.database, "first": one.first_file, "last": one.last_file, "files": one.files}
        | {"reason": one.reason}
        for one in found.missing
    ]
    names = {"written": found.written, "there": found.there, "removed": found.removed}
    numbers = {"rows": found.rows, "bytes": found.bytes}
    return {"directory": _shown(destination), **names, **numbers, "missing": missing, "damages": damages}


class _Ended(Exception):
    """The end was asked for while there was more to export."""


def _follow(look: Look, interval: float, destination: str, *, as_json: bool) -> None:
    """Bring the lake up to date again and again. What fails at the beginning is an error; later it is tried again."""
    with watch_signals(SIGTERM) as ending:
        telling = _Telling(destination, as_json=as_json)
        try:
            telling.tell(look(_until(ending)))
            while not ending.wait(interval):
                try:
                    telling.tell(look(_until(ending)))
                except (JournalError, Failure) as failure:
                    telling.tell_failure(str(failure))
        except _Ended:
            pass
        telling.end()


def _until(ending: Ending) -> Callable[[str, int, int], None]:
    """Return what is called between two files, and ends the export there when a signal has come."""

    def look(name: str, done: int, total: int) -> None:
        if ending.wait(0):
            raise _Ended

    return look


class _Telling:
    """What a follower says: each change with --json, else a line now and then."""

    def __init__(self, destination: str, *, as_json: bool) -> None:
        self._destination = destination
        self._as_json = as_json
        self._told_at = float("-inf")
        self._rows = self._bytes = 0
        self._failure = ""
        self._bad: list[str] = []
        self._missing: tuple[object, ...] = ()

    def tell(self, found: "Refreshed") -> None:
        """Say what a look has brought, at once: somebody waits for it."""
        is_first = self._told_at < 0
        if self._failure:
            note("the export goes on")
            self._failure = ""
        is_other = _bad(found) != self._bad or found.missing != self._missing or bool(found.removed)
        is_new = is_first or bool(found.written) or is_other
        self._bad, self._missing = _bad(found), found.missing
        self._rows, self._bytes = self._rows + found.rows, self._bytes + found.bytes
        if self._as_json and is_new:
            output.print_json_line(_document(found, self._destination))
        elif not self._as_json and (is_first or is_other):
            _print_refreshed(found, self._destination)
            self._told_at = time.monotonic()
            self._rows = self._bytes = 0
        elif not self._as_json and is_new and time.monotonic() - self._told_at >= TOLD_SECONDS:
            self.end()
        self._told_at = max(self._told_at, 0.0)
        sys.stdout.flush()

    def tell_failure(self, failure: str) -> None:
        """Say why a look failed, once for each reason."""
        if failure != self._failure:
            note(f"{failure}; trying again")
        self._failure = failure

    def end(self) -> None:
        """Say what has come since the last line."""
        if not self._as_json and self._rows:
            output.print_line(f"{counted(self._rows, 'new operation')}, {size_text(self._bytes)} written.")
            self._told_at = time.monotonic()
            self._rows = self._bytes = 0
