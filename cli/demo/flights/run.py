"""The main job on real input, step by step.

    write        a writer process commits what happened to the flights
    kill         SIGKILL, at a random moment while commits are under way
    recover      open the directory
    compare      what is undelivered, with the table and the acknowledgements; then the next round
    finish       the last writer goes on to the end, and sends again what was never acknowledged
    clean up     what pins which file, and what compaction frees; the files are put aside, as history
    read back    every operation in the files, with the table
    open again   what is left: the cancelled flights
    report       the whole history on Spark, which has started beside the first steps and works beside the last ones

The first difference that is found ends it; nothing has been deleted then.
"""

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from oms_journal.cli.demo.flights.outcome import DemoOutcome, DemoSettings, Round
from oms_journal.cli.demo.flights.proof import Reading, UnderWay, compare
from oms_journal.cli.demo.flights.report import Analyst, Reported
from oms_journal.cli.demo.flights.table import Flights, load_flights
from oms_journal.cli.demo.flights.writer import options
from oms_journal.cli.demo.flights.writers import Attempt, WriterReports
from oms_journal.cli.demo.screen import Screen
from oms_journal.cli.output import Column, counted, number_column, size_text
from oms_journal.cli.progress import ProgressBar
from oms_journal.database.database import MessageDatabase
from oms_journal.database.stats import FileExplanation
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.reading.dump import data_paths
from oms_journal.recovery.report import RecoveryReport

HESITATION_SECONDS = 0.005  # the kill comes up to so long after its moment
PAUSE_SECONDS = 0.001  # between two looks into the pipe: the writer needs both cores
FILES_SHOWN = 12


class Demo:
    """One run. `after_kill` is called with the spool before each recovery; what it does there is to be found."""

    def __init__(
        self, settings: DemoSettings, screen: Screen, after_kill: Callable[[Path], None] = lambda _: None
    ) -> None:
        self.seen = DemoOutcome(settings=settings)
        self._settings = settings
        self._screen = screen
        self._after_kill = after_kill
        self._random = random.Random(settings.seed)
        self._flights: Flights
        self._heard: WriterReports
        self._reading: Reading
        self._files: list[Path] = []  # of the killed writers

    def run(self) -> DemoOutcome:
        """Run all steps, up to the first at which something is not as it should be."""
        began = time.perf_counter()
        with ExitStack() as processes:
            report = self._settings.report
            analyst = None if report is None else processes.enter_context(Analyst(report))
            first = processes.enter_context(Attempt())
            self._screen.heading("The flights that left New York City in 2013, as messages")
            with self._screen.bar("reading the table"):
                self._flights = load_flights(self._settings.flights)
            self._heard = WriterReports(self._flights)
            self._introduce()
            self._write(processes, first)
            if not self.seen.findings.count:
                self._clean_up()
                if analyst is not None:
                    analyst.ask([self._settings.spool, *self._put_aside()])
                self._read_back()
            if not self.seen.findings.count:
                self._open_again()
            if analyst is not None and not self.seen.findings.count:
                self._report(analyst)
        self.seen.seconds = time.perf_counter() - began
        return self.seen

    def _introduce(self) -> None:
        flights, seen = self._flights, self.seen
        seen.flights, seen.operations, seen.commits = len(flights), flights.operations, flights.commits
        self._screen.say(
            f"{len(flights):,} real flights of {len(flights.carriers)} airlines. A flight is a message on its "
            f"airline's queue: added when it departs, delivered when it arrives, in the order in which that happened. "
            f"{flights.cancelled:,} were cancelled: nobody ever takes them. {flights.unrecorded:,} have no arrival on "
            f"record: they are deleted. That makes {flights.operations:,} operations in {flights.commits:,} commits."
        )

    # Writing.

    def _write(self, processes: ExitStack, attempt: Attempt) -> None:
        """Write everything, with all the kills on the way."""
        for number in range(self._settings.rounds):
            following = processes.enter_context(Attempt())  # starts beside the one at work
            self._screen.heading(f"Write, and be killed ({number + 1} of {self._settings.rounds})")
            if not number:
                self._screen.explain(
                    "Another process writes, with one task for every airline. A commit is up to 64 operations that "
                    "are durable together or not at all. When a commit is durable, it is acknowledged: reported "
                    "through a pipe to this process, which remembers."
                )
            self._write_until_killed(attempt, number)
            if self.seen.findings.count:
                return
            attempt = following
        self._screen.heading("Write to the end")
        self._write_to_the_end(attempt)

    def _write_until_killed(self, attempt: Attempt, number: int) -> None:
        heard, settings = self._heard, self._settings
        share = (number + self._random.uniform(0.25, 0.75)) / settings.rounds
        moment, hesitation = int(share * self._flights.operations), self._random.uniform(0, HESITATION_SECONDS)
        with self._screen.bar("writing", self._flights.operations) as show:
            self._hear(attempt, moment, show)
            time.sleep(hesitation)
            attempt.kill()
        for reports in attempt.reports():
            heard.take(reports)
        self._screen.say(
            f"Process {attempt.pid} was killed with SIGKILL, {1000 * hesitation:.1f} ms after acknowledgement "
            f"{moment:,}; seed {settings.seed} chose the moment. {heard.operations:,} operations were acknowledged by "
            f"then, and {counted(len(heard.under_way()), 'more commit')} had begun."
        )
        self._after_kill(settings.spool)
        recovery, outcome = self._recover(is_first=not number)
        self.seen.rounds.append(
            Round(
                pid=attempt.pid,
                moment=moment,
                hesitation=hesitation,
                operations=heard.operations,
                under_way=len(heard.under_way()),
                recovery=recovery,
                outcome=outcome,
            )
        )

    def _write_to_the_end(self, attempt: Attempt) -> None:
        """Let a writer finish; read back meanwhile what the killed ones have written, which nothing changes."""
        self._reading = Reading(self._flights, self._heard, self.seen.findings)
        self._files = data_paths(RealDisk(), [self._settings.spool])
        self._screen.explain(
            "A new writer goes on. It sends again what had begun at the kill, under the same producer identifiers: "
            "a commit that had got through is answered, and adds nothing."
        )
        with ThreadPoolExecutor(max_workers=1) as aside, ExitStack() as ending:
            stop = threading.Event()
            ending.callback(stop.set)
            earlier = aside.submit(self._reading.read, self._files, stop.is_set, lambda _: None)
            with self._screen.bar("writing", self._flights.operations) as show:
                self._hear(attempt, self._flights.operations, show)
                attempt.finish()
            with self._screen.bar("reading"):
                earlier.result()
        for row in self._heard.contradictions:
            self.seen.findings.add(f"{self._flights.name(row)}: sent again, it was added again")
        self._screen.say(
            f"All {self.seen.acknowledged:,} operations are acknowledged, {self.seen.rate:,.0f} a second of writing."
        )

    def _hear(self, attempt: Attempt, until: int, show: Callable[[int], None]) -> None:
        """Take in what the writer reports until so many operations are acknowledged."""
        heard = self._heard
        attempt.begin(heard.beginning(self._settings.spool, self._settings.retained))
        began = None
        reports = attempt.reports()
        while heard.operations < until:  # an earlier writer may have come so far before it was killed
            show(heard.operations)
            found = next(reports, None)
            if found is None:
                raise attempt.failure()
            if began is None:
                began = time.perf_counter()  # its opening does not count
            heard.take(found)
            time.sleep(PAUSE_SECONDS)
        if began is not None:
            self.seen.write_seconds += time.perf_counter() - began
        self.seen.acknowledged = heard.operations

    def _recover(self, *, is_first: bool) -> tuple[RecoveryReport, UnderWay]:
        """Open the database and compare it with the table."""
        self._screen.heading("Recover, and compare")
        if is_first:
            self._screen.explain(
                "A killed writer leaves a file that ends anywhere. To open the directory is to recover it: all files "
                "are read and checked, and what is only half there at the end is cut off."
            )
        with ProgressBar() as progress:
            db = MessageDatabase.open(self._settings.spool, options=options(self._settings.retained), progress=progress)
        with db:
            self._tell_recovery(db.recovery)
            outcome = compare(db, self._flights, self._heard, self.seen.findings)
        for loss in db.recovery.lost:
            self.seen.findings.add(f"recovery lost {counted(loss.end - loss.start, 'byte')} of {loss.name}")
        if not self.seen.findings.count:
            self._screen.say(
                f"{counted(db.recovery.undelivered, 'message')} undelivered: the very ones that the table has in the "
                f"air or cancelled after what was acknowledged. Of the commits that had begun "
                f"{len(outcome.whole)} are there as a whole, {len(outcome.absent)} not at all, none by half."
            )
        return db.recovery, outcome

    def _tell_recovery(self, report: RecoveryReport) -> None:
        size = size_text(sum(file.size for file in report.files))
        self._screen.say(f"Recovered: {counted(len(report.files), 'file')}, {size}, in {report.seconds:.2f} s.")
        for file in report.files:
            if file.action not in ("", "kept"):
                archive = f", a copy kept as {file.archive}" if file.archive else ""
                self._screen.say(f"{file.name}: {file.reason or 'ends with a whole commit'}; {file.action}{archive}.")

    # Afterwards.

    def _read_back(self) -> None:
        """Compare every operation in the files with the table."""
        seen = self.seen
        self._screen.heading("Read everything back")
        self._screen.explain(
            "What is delivered is gone from the queues, but its operations are in the files, also in those that are "
            "put aside. So nothing has to be believed:"
        )
        earlier = {path.name for path in self._files}
        everything = data_paths(RealDisk(), [*self._put_aside(), self._settings.spool])
        later = [path for path in everything if path.name not in earlier]
        with self._screen.bar("reading", self._flights.operations) as show:
            self._reading.read(later, lambda: False, show)
            self._reading.end()
        seen.read_back = self._reading.done
        if not seen.findings.count:
            self._screen.say(
                f"{seen.read_back.operations:,} operations in {seen.read_back.commits:,} commits were read back. They "
                f"are the commits of the table: each once, each whole, in order, every message with its row of the "
                f"table and the number that was acknowledged."
            )

    def _clean_up(self) -> None:
        """Show what pins what, and what clean-up frees without and with compaction."""
        seen = self.seen
        self._screen.heading("Clean up")
        with MessageDatabase.open(self._settings.spool, options=options(self._settings.retained)) as db:
            seen.files = db.explain()
            self._screen.say(
                "A file can go when neither it nor an older one holds anything that is needed. Almost all of it is "
                "delivered, yet each file is kept by some cancelled flights:"
            )
            self._show_pins(db)
            seen.cleanup = db.cleanup()
            seen.compaction = db.cleanup(compact=True)
        files = len(seen.cleanup.moved) + len(seen.compaction.moved)
        self._screen.say(
            f"Plain clean-up frees {size_text(seen.cleanup.freed_bytes)}. Compaction moves "
            f"{counted(seen.compaction.moved_messages, 'message')} forward, so that "
            f"{counted(len(seen.compaction.moved), 'file')} can go: it frees "
            f"{size_text(seen.compaction.freed_bytes)} in {seen.compaction.seconds:.1f} s. With a retention directory, "
            f"as here, what goes is not deleted: {counted(files, 'file is', 'files are')} put aside there, as history."
        )

    def _show_pins(self, db: MessageDatabase) -> None:
        columns = (
            number_column("file"),
            number_column("size"),
            number_column("needed"),
            number_column("messages"),
            Column("first of them", shrinks=True),
        )
        files = self.seen.files
        self._screen.table(columns, [(*_figures(file), _pin(db, file)) for file in files[:FILES_SHOWN]])
        if len(files) > FILES_SHOWN:
            self._screen.say(f"… and {counted(len(files) - FILES_SHOWN, 'more file')}.")

    def _open_again(self) -> None:
        """Compare what is left with the cancelled flights."""
        seen = self.seen
        with MessageDatabase.open(self._settings.spool, options=options(self._settings.retained)) as db:
            compare(db, self._flights, self._heard, seen.findings)
            seen.undelivered = db.undelivered_count()
        if not db.recovery.intact:
            seen.findings.add("the directory was closed, and is not intact when it is opened again")
        if not seen.findings.count:
            self._screen.say(
                f"Opened once more, in {db.recovery.seconds:.2f} s: intact, and the "
                f"{counted(seen.undelivered, 'cancelled flight')} are all that is left."
            )

    def _put_aside(self) -> list[Path]:
        """Return the directories that hold what clean-up has put aside: one, or none where nothing was."""
        retained = self._settings.retained
        return sorted(retained.iterdir()) if retained.exists() else []

    # The report.

    def _report(self, analyst: Analyst) -> None:
        """Wait for the report, and say what it says."""
        seen = self.seen
        self._screen.heading("Ask Spark")
        self._screen.explain(
            "Spark has started beside all this. It reads the whole history, and makes the report that `oms analyze` "
            "makes of any journal."
        )
        seen.report = analyst.answer()
        self._tell_report(seen.report)
        if seen.report.summary:
            self._compare(seen.report, "traffic", "count", seen.operations)
            self._compare(seen.report, "stuck", "undelivered", self._flights.cancelled)

    def _compare(self, report: Reported, anchor: str, name: str, expected: int) -> None:
        """Compare a figure of Spark's with the table's."""
        found = report.figure(anchor, name)
        if found != expected:
            self.seen.findings.add(f"Spark's {name} of {anchor!r} is {found}, and {expected} by the table")

    def _tell_report(self, report: Reported) -> None:
        if report.missing:
            self._screen.say(f"There is no report: {report.missing}")
        elif report.failed:
            self._screen.say(f"The report could not be made: {report.failed}")
        else:
            for answer in report.answers:
                self._screen.say(f"{answer['question']} {first_sentence(answer['answer'])}")
            self._screen.say("")
            self._screen.facts({"The page:": str(report.page)})


def first_sentence(text: str) -> str:
    """Return the text up to the first full stop that ends a sentence."""
    return text.partition(". ")[0].removesuffix(".") + "."


def _figures(file: FileExplanation) -> tuple[str, str, str, str]:
    share = f"{file.live_bytes / file.bytes:.1%}" if file.bytes else ""
    return str(file.sequence), size_text(file.bytes), share, f"{file.live_messages:,}"


def _pin(db: MessageDatabase, file: FileExplanation) -> str:
    """Return what keeps a file, as a person calls it."""
    if file.pinned_by is None or file.pinned_by.number is None:
        return ""
    message = db.read(file.pinned_by.number)
    flight = message.properties
    return f"{flight['flight']} {flight['origin']}-{flight['dest']}, message {message.number}"
