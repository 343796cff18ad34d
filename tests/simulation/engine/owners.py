"""A process that stands still while another one takes its directory over, and what it does when it goes on.

The other one starts while the first stands before a change of the disk. It does its first work then, or it has only
read the files when the first one goes on, so that each of them does something between two steps of the other.
"""

from dataclasses import dataclass, replace

from oms_journal.database.options import Options
from oms_journal.journal.errors import JournalError
from oms_journal.recovery.startup import StartResult, start
from oms_journal.recovery.validation import no_progress
from tests.simulation.engine.failing import Failing
from tests.simulation.engine.start import NEVER
from tests.simulation.engine.steps import ROLLS, Add, Pause, Put, Remove
from tests.simulation.engine.work import FENCED
from tests.simulation.world import PromiseBroken
from tests.support.crashes.crash_model import SPOOL, Unattended
from tests.support.disks.faulty_disk import SimulatedDisk


@dataclass(slots=True)
class Owning(Failing):
    """The world of one script, and who thinks that the directory is its own."""

    _begun: StartResult | None = None  # the new owner has read the files, and nothing more

    def _arm_pause(self, step: Pause) -> None:
        at = self.disk.steps + step.after

        def take_over(what: str) -> None:
            if self.disk.steps < at or self.database is None or self.operation == "recovery":
                return
            if not what.startswith(step.verb):
                return
            self.disk.before_change = None
            self._take_over(step)

        self.disk.before_change = take_over

    def _take_over(self, step: Pause) -> None:
        """Let another process open the directory while this one stands still in the middle of a change."""
        during, paused = self.operation, self.account.pending
        self.former, self.database = self.database, None
        self.disk.let_go_of_locks()
        self.faults.append(("paused owner", during))
        self.account.pending = list(paused)
        if step.in_turn:
            self._begin_start()
            return
        database = self._opened()
        for work in step.meanwhile:
            self.operation = "commit"
            match work:
                case Add():
                    self.callers.add(database, work)
                case Remove():
                    self.callers.remove(database, work)
                case Put():
                    self.callers.put(database, work)
        self.operation = during

    def _begin_start(self) -> None:
        """Let the new owner read and repair the files; it goes on with the next step."""
        try:
            self._begun = start(self.disk, SPOOL, self._shared()._recovery(no_progress))
        except JournalError:
            self._begun = None  # the next step tries again

    def _shared(self) -> Options:
        return replace(self.options(), is_shared=True)

    def _open(self, disk: SimulatedDisk) -> Unattended:
        if self._begun is None or disk is not self.disk:
            return Failing._open(self, disk)
        begun, self._begun = self._begun, None
        if self.former is None or self.is_rotten:
            disk.let_go_of_locks()  # that start has ended, and is made once more
            return Failing._open(self, disk)
        database = Unattended._begun(disk, SPOOL, self._shared(), begun)
        assert isinstance(database, Unattended)
        database.patience = NEVER
        self.alignment_min = min(self.alignment_min, self.opening.alignment)
        return database

    def _let_former(self, what: int) -> None:
        """Let the process that stood still do something: none of its commits may be acknowledged."""
        former = self.former
        if former is None:
            return
        self.seen.checked[FENCED] += 1
        try:
            match what:
                case 0:
                    former.maintain()
                    return
                case 1:
                    former.vouch()
                    return
                case 2:
                    former._journal.maintain()
                    return
                case 3:
                    former.cleanup(compact=True)
                    return
                case 4:
                    self.former = None
                    former.close()
                    return
                case _:
                    number = former.add("q0", b"too late" * (500 if what == ROLLS else 1))
        except (JournalError, OSError):
            return
        raise PromiseBroken(f"{FENCED}\nmessage {number}")
