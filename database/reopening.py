"""A database that failed, opened again in the same process: what it had not acknowledged is cut.

    again = Reopening(database)     # closes it
    database = again.attempt()      # DiskError: try later; CannotContinue: never

Whoever was told OutcomeUnknown or NotAttempted may then take the commit for not done: it is not there, and does not
come back. See `recovery/continuation.py` for when that cannot be had.
"""

import contextlib
from dataclasses import replace
from typing import Final

from oms_journal.database.database import MessageDatabase
from oms_journal.journal.errors import JournalError
from oms_journal.recovery.continuation import Continuing
from oms_journal.recovery.startup import start
from oms_journal.recovery.validation import Progress, no_progress


class Reopening:
    """What is kept of a database that is to be opened again."""

    def __init__(self, database: MessageDatabase) -> None:
        look = database.look()
        with contextlib.suppress(JournalError):  # what could not be sealed is, by the next opening
            database.close()
        self._disk: Final = look.disk
        self._directory: Final = database.directory
        self._options: Final = database.options
        self._kind: Final = type(database)
        self._continuing: Final = Continuing(look.owner, database.group.acknowledged, look.owner)

    def attempt(self, progress: Progress = no_progress) -> MessageDatabase:
        """Open the directory again, as it was opened before; may be tried again after an error but CannotContinue."""
        recovery = replace(self._options.recovery(progress), continuing=self._continuing)
        started = start(self._disk, self._directory, recovery)
        return self._kind.begun(self._disk, self._directory, self._options, started)
