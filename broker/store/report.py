"""The report of the persistent store: a line for every record that is created, deleted, loaded or unloaded.

Pages of 60 lines. Each begins with a form feed (but for the first), the title with version, start and number of the
page, an empty line and the headings:

    oms-journal 0.1.0  PSTORE Report  2024-02-21 17:18:38  Page 1

    Identifier        Elements  Total length  Record Type   Date        Time          Action
    100000000D000016         5          1148  Conversation  2024-02-21  17:18:57.190  Created

Times are UTC. Where the file cannot be written the broker goes on without, having said so in its log. Checkpoints,
the clock and the hold of a restored store are what the manual calls Cluster records. (EntireX 8.0, Concepts of
Persistent Messaging, "Persistent Store Report".)
"""

import contextlib
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from pathlib import Path
from typing import TextIO

from oms_journal.broker.records import RecordKind
from oms_journal.journal.disk import FILE_MODE


class Action(IntEnum):
    """What was done to a record."""

    CREATED = 1
    DELETED = 2
    LOADED = 3
    UNLOADED = 4


@dataclass(frozen=True, slots=True)
class ReportLine:
    """A line for the report of the persistent store; a deleted record shows 0 and 0."""

    identifier: str
    kind: RecordKind
    action: Action
    elements: int = 0
    length: int = 0


_log = logging.getLogger("oms.broker")
LINES_MAX = 60  # of a page
VARIABLE = "ETB_PSTORE_REPORT"
FILE_NAMES = {  # by RUN-MODE, where nothing else is said
    "STANDARD": "PSTORE.REPORT",
    "STANDBY": "PSTORE.REPORT",
    "PSTORE-LOAD": "PSTORE.REPORT.LOAD",
    "PSTORE-UNLOAD": "PSTORE.REPORT.UNLOAD",
}
TYPES = {
    RecordKind.UOW: "Conversation",
    RecordKind.PUBLICATION: "Publication",
    RecordKind.SUBSCRIPTION: "Subscription",
    RecordKind.MASTER: "Master",
    RecordKind.CHECKPOINT: "Cluster",
    RecordKind.CLOCK: "Cluster",
    RecordKind.HOLD: "Cluster",
    RecordKind.HELD: "Subscription",
}
CREATED, DELETED, LOADED, UNLOADED = "Created", "Deleted", "Loaded", "Unloaded"
_COLUMNS = "{:<16.16}  {:>8}  {:>12}  {:<12}  {:<10}  {:<12}  {}"
HEADINGS = _COLUMNS.format("Identifier", "Elements", "Total length", "Record Type", "Date", "Time", "Action")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def report_path(run_mode: str, environ: Mapping[str, str], argument: str | None = None) -> Path:
    """Return the report's file: the argument of -p, else of ETB_PSTORE_REPORT, else the name of the RUN-MODE.

    KeyError for a RUN-MODE that there is not. (EntireX 8.0, Concepts of Persistent Messaging, "Persistent Store
    Report"; which of -p and the variable counts it does not say.)
    """
    return Path(argument or environ.get(VARIABLE) or FILE_NAMES[run_mode])


class Report:
    """The report of one run of the broker, written line by line."""

    def __init__(self, path: Path, *, started: int, version: str) -> None:
        """Begin the file anew; `started` is microseconds since 1970 UTC. Raises no OSError."""
        self._path = path
        self._title = f"oms-journal {version}  PSTORE Report  {_when(started):%Y-%m-%d %H:%M:%S}  Page "
        self._page = 0
        self._line = LINES_MAX  # the first line begins a page
        self._file: TextIO | None = None
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
            self._file = os.fdopen(descriptor, "w", encoding="utf-8")
        except OSError as failure:
            self._give_up(failure)

    def write(self, reported: Iterable[ReportLine], now: int) -> None:
        """Write what was created and deleted; `now` is microseconds since 1970 UTC."""
        for one in reported:
            self.line(
                one.identifier, one.kind, one.action.name.capitalize(), now, elements=one.elements, length=one.length
            )

    def line(  # noqa: PLR0913 - a line has so many columns
        self, identifier: str, kind: RecordKind, action: str, now: int, *, elements: int = 0, length: int = 0
    ) -> None:
        """Write one line. `elements` are messages, `length` is bytes of the record; a deleted record has neither."""
        if self._file is None:
            return
        at = _when(now)
        time = f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"
        text = _COLUMNS.format(identifier, elements, length, TYPES[kind], f"{at:%Y-%m-%d}", time, action)
        try:
            self._file.write(self._begin_page() + text.rstrip() + "\n")
            self._file.flush()
        except OSError as failure:
            self._give_up(failure)

    def _begin_page(self) -> str:
        """Return what stands before the next line: nothing, or the head of a page."""
        self._line += 1
        if self._line <= LINES_MAX:
            return ""
        self._page += 1
        head = f"{self._title}{self._page}\n\n{HEADINGS}\n"
        self._line = head.count("\n") + 1
        return head if self._page == 1 else f"\f{head}"

    def _give_up(self, failure: OSError) -> None:
        _log.error("the report of the persistent store in %s ends: %s", self._path, failure.strerror or failure)
        self.close()

    def close(self) -> None:
        """End the report."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # every line was written out when it came
                file.close()


def _when(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
