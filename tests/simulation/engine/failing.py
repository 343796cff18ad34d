"""What a run of the world "engine" does after an error that a caller got: the next process, or the same one again."""

import contextlib
from dataclasses import dataclass, replace

from oms_journal.database.database import Reopening
from oms_journal.database.options import Options
from oms_journal.journal.errors import (
    CannotContinue,
    CommitFailed,
    DatabaseClosed,
    DiskError,
    DiskFull,
    JournalError,
    NotAttempted,
    NotThisDatabase,
    RecoveryRefused,
)
from oms_journal.recovery.continuation import Continuation
from oms_journal.recovery.startup import start
from oms_journal.recovery.validation import no_progress
from tests.simulation.engine.misplaced import Misplacing
from tests.simulation.engine.policy import check_nothing_repaired
from tests.simulation.engine.start import NEVER, OPENINGS_MAX
from tests.simulation.engine.work import FENCED
from tests.support.crashes.crash_model import SPOOL, Unattended
from tests.support.disks.faulty_disk import SimulatedDisk


@dataclass(slots=True)
class Failing(Misplacing):
    """The world of one script, and what its callers and processes do about errors."""

    def _failed(self, failure: JournalError | OSError) -> None:
        """Go on after an error that a caller got; an error without a fault is one of the program's."""
        if self._acting is not None and self._acting is self.former:
            self.seen.checked[FENCED] += 1
            return  # it stood still in the middle, and has noticed
        self._note_faults()
        is_excused = self.is_faulty or self.disk.space is not None
        if not is_excused or isinstance(failure, DatabaseClosed):  # nobody uses what he has closed
            raise failure
        if isinstance(failure, DiskFull | NotAttempted):
            self.account.pending = []
        if isinstance(failure, CommitFailed):
            self._let_go()
        elif self.database is None or isinstance(failure, OSError):
            self._end_process()
        elif self.database._is_closed:
            self.database = None  # it could not seal its last file, and has let go of the directory all the same
        elif isinstance(failure, DiskError):
            self.account.pending = []

    def _let_go(self) -> None:
        """Close what has failed; every other time the same process opens it again, and nothing in doubt comes back."""
        database, self.database = self.database, None
        assert database is not None
        if self.starts % 2:
            with contextlib.suppress(JournalError):
                database.close()
            self._end_process()
            return
        again = Reopening(database)
        self.operation = "recovery"
        rotten = self._rotten()
        if rotten:
            self.armed = self.disk.kill_at = None  # another process would not know what this one has told as failed
        refuses = database.options.policy == "refuse"
        before, continuing = self.disk.restart() if rotten or refuses else self.disk, replace(again._continuing)
        for _ in range(OPENINGS_MAX):
            try:
                reopened = again.attempt()
                break
            except DiskError:
                self.disk.faults.clear()
                self.disk.space = None
            except RecoveryRefused as refused:  # the tail of which this process has told that it had failed
                mine = [name for name in self.disk.contents(SPOOL) if name.endswith(".data")][-2:]
                self._check_refusal(before, refused, told_as_failed=mine)
                self._end_process()
                return
            except (CannotContinue, NotThisDatabase):
                if not rotten:
                    raise
                self._end_process()  # what would say how far it had come has rotted
                return
        assert isinstance(reopened, Unattended)
        if refuses:
            check_nothing_repaired(before, reopened.recovery)
        self.database = reopened
        self.database.patience = NEVER
        self.account.pending = []  # their callers were told that they had failed: none of it comes back
        self._check_opened(before, rotten, lambda healed: _continued(healed, database.options, continuing))

    def _end_process(self) -> None:
        self.database = self.former = None
        self.seen.changes += self.disk.steps
        self.disk = self.disk.restart()
        self.armed = None


def _continued(disk: SimulatedDisk, options: Options, continuing: Continuation) -> Unattended:
    """Open a copy of the disk as the process does that goes on."""
    started = start(disk, SPOOL, replace(options._recovery(no_progress), continuing=continuing))
    again = Unattended._begun(disk, SPOOL, options, started)
    assert isinstance(again, Unattended)
    return again
