"""The report's directory: an earlier report, the new one, or not there; never half of one.

It is written under another name beside its place and moved there when it is whole. What a killed run
leaves has a name that says so, and the next run for the same place removes it.
"""

import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from oms_journal.journal.errors import JournalError

MADE_BY = "oms analyze"
SUMMARY = "summary.json"
PAGE = "report.html"


class NotAReport(JournalError):
    """The place for a report holds something else, which is not to be overwritten."""


class CannotWrite(JournalError):
    """The operating system refuses to let a report, or whatever else was asked for, be there."""

    def __init__(self, directory: Path, failure: OSError, what: str = "a report") -> None:
        super().__init__(f"cannot write {what} to {directory}: {failure.strerror or failure}; give another directory")


def holds_report(directory: Path) -> bool:
    """Say whether an earlier report is there; False where nothing is. NotAReport, CannotWrite."""
    try:
        entries = [entry.name for entry in directory.iterdir()]
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        raise NotAReport(f"{directory} is not a directory; give a new or an empty one") from None
    except OSError as failure:
        raise CannotWrite(directory, failure) from failure
    if not entries:
        return False
    summary = _summary(directory / SUMMARY)
    tables = summary.get("tables")
    strangers = set(entries) - {SUMMARY, PAGE, *(tables if isinstance(tables, dict) else ())}
    if summary.get("made_by") != MADE_BY or strangers:
        raise NotAReport(f"{directory} is not empty and not an earlier report alone; give a new or an empty directory")
    return True


def _summary(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def check_place(directory: Path) -> bool:
    """Say whether an earlier report is there, as `holds_report`, and look whether a new one can be; changes nothing."""
    is_replaced = holds_report(directory)
    place = directory.absolute().parent
    while not place.exists() and place != place.parent:
        place = place.parent
    if not os.access(place, os.W_OK | os.X_OK):
        raise CannotWrite(directory, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    return is_replaced


@contextmanager
def written(directory: Path) -> Iterator[Path]:
    """Yield an empty directory that becomes the report when the block ends well, and is removed when it does not.

    Takes the place of an earlier report. NotAReport, CannotWrite.
    """
    holds_report(directory)
    directory = directory.absolute()
    unfinished = _unfinished(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        remove_what_killed_runs_left(directory)
        unfinished.mkdir()
    except OSError as failure:
        raise CannotWrite(directory, failure) from failure
    try:
        yield unfinished
        _move(unfinished, directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def remove_unfinished(directory: Path) -> None:
    """Remove what a report that was given up has left; once Spark has stopped, whose tasks write to the last."""
    shutil.rmtree(_unfinished(directory.absolute()), ignore_errors=True)


def _unfinished(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}.unfinished-{os.getpid()}")


def _move(unfinished: Path, directory: Path) -> None:
    try:
        if holds_report(directory):
            earlier = unfinished.with_name(f"{unfinished.name}-earlier")
            directory.rename(earlier)
            unfinished.rename(directory)
            shutil.rmtree(earlier, ignore_errors=True)
        else:
            with suppress(FileNotFoundError):
                directory.rmdir()
            unfinished.rename(directory)
    except OSError as failure:
        raise CannotWrite(directory, failure) from failure


def remove_what_killed_runs_left(directory: Path) -> None:
    """Remove the halves of reports for this place whose processes are gone; OSError where the place cannot be read."""
    mark = re.compile(re.escape(f".{directory.name}.unfinished-") + r"(\d+)(-earlier)?")
    for entry in directory.parent.iterdir():
        if (named := mark.fullmatch(entry.name)) and not is_running(int(named[1])):
            shutil.rmtree(entry, ignore_errors=True)


def is_running(process: int) -> bool:
    if sys.platform == "win32":  # where signal 0 is no question
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
