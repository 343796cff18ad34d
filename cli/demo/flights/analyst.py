"""The analyst of `oms demo`, in a process of its own: it starts Spark beside the other steps, then makes the report.

It starts at once, and as long as nobody asks it tries everything out on a small journal of its own, since what
takes long is the first time. Then it waits for what the parent says on standard input:

    {"paths": […], "out": "…"}                      what to read, and where the report goes

On standard output it says, in lines of JSON:

    {"missing": "…"}                                what is not installed; then it ends
    {"ready": true}                                 it is waiting
    {"asks": "lifecycle", "share": 0.25}            how far the report is
    {"summary": {…}}                                the report is there

SIGTERM ends it in good order: Java has ended then, and nothing is left.
"""

import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, Any

from oms_journal.cli.demo.children import heard, report, work
from oms_journal.database.database import MessageDatabase
from oms_journal.journal.errors import JournalError

if TYPE_CHECKING:  # Spark is imported when it is known to be there
    from pyspark.sql import SparkSession

REHEARSED = b'{"carrier":"UA","flight":%d}'


class Asked(Exception):
    """The parent has said what it wants: there is no time left to try anything out."""


def main() -> None:
    """Do what standard input says."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then says SIGTERM
    work(_work)


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _work() -> None:
    try:
        from oms_journal.analysis.outdir import remove_unfinished
        from oms_journal.analysis.report.watching import interruptible
        from oms_journal.analysis.spark.java import NoJava
        from oms_journal.analysis.spark.session import quiet_session, settings_for
    except ImportError as missing:
        report({"missing": f"{missing.name or missing} is not installed: pip install 'oms-journal[analysis]'"})
        return
    signal.signal(signal.SIGTERM, _interrupt)  # not before: a module that is imported may swallow what that raises
    try:
        asked = quiet_session(name="oms demo", settings=settings_for(0), folds_only=True)
        with ExitStack() as afterwards, asked as spark:
            with suppress(JournalError, Asked):  # what is wrong with Spark is told by the report
                interruptible(spark, lambda check: _rehearse(spark, check))
            report({"ready": True})
            while (wanted := heard()) is not None:
                paths, out = wanted["paths"], Path(wanted["out"])
                afterwards.callback(remove_unfinished, out)
                summary = interruptible(spark, lambda check: _report(spark, paths, out, check))  # noqa: B023
                report({"summary": summary})
    except NoJava as missing:
        report({"missing": str(missing)})


def _rehearse(spark: "SparkSession", check: Callable[[], None]) -> None:
    """Make a report of a few messages, so that Spark has loaded, compiled and started what the real one takes."""

    def go_on() -> None:
        check()
        if select([sys.stdin], [], [], 0)[0]:
            raise Asked

    go_on()
    with tempfile.TemporaryDirectory(prefix="oms-demo-") as folder:
        spool = Path(folder) / "spool"
        with MessageDatabase.open(spool, cleanup_interval=0) as db:
            for number in db.add_many("UA", [REHEARSED % flight for flight in range(8)])[:6]:
                db.deliver(number)
        _report(spark, [str(spool)], Path(folder) / "report", go_on, is_told=False)


def _report(
    spark: "SparkSession", paths: Sequence[str], out: Path, check: Callable[[], None], *, is_told: bool = True
) -> Any:
    from oms_journal.analysis.report.journals import Request
    from oms_journal.analysis.report.report import write_report

    def told(asks: str, share: float) -> None:
        if is_told:
            report({"asks": asks, "share": share})

    request = Request(paths=tuple(paths), now=datetime.now(UTC))
    return write_report(spark, request, out, told, check)


if __name__ == "__main__":
    main()
