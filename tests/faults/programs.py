"""What runs under the shim. What a program says on its output is its account, as of `crash_writer.py`.

A program expects the engine's own errors and nothing else: whatever else comes out of it is a traceback, and
that is a verdict.
"""

import base64
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oms_journal import MessageDatabase, Options
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import CommitFailed, DiskFull, JournalError
from oms_journal.journal.lock import read_holder
from tests.faults.nursery import Job
from tests.faults.shim import arm, phase, phase_in
from tests.support.crashes.crash_writer import commit_one, say

FILE_BYTES = 7680
OPTIONS: dict[str, Any] = {"max_data_file_size": FILE_BYTES, "cleanup_interval": 0, "renew_interval": 3600}


def day(job: Job) -> None:
    """A day of the engine: open, commit, roll, read, clean up, compact, close."""
    arm(Path(job.directory), job.path("trace"), job.fault)
    phase("open")
    database = _attempt("open", lambda: MessageDatabase.open(job.directory, **OPTIONS))
    if database is not None:
        _Day(database, int(job.arguments[0])).run()


def takeover(job: Job) -> None:
    """An owner that is silent is taken over; then both commit."""
    first = MessageDatabase.open(job.directory, options=Options.of(**OPTIONS, is_shared=True))
    owner = _Day(first, 1)
    owner.commit("begin", 6)
    while not (seen := read_holder(RealDisk(), Path(job.directory))) or not seen.count:
        time.sleep(0.001)
    arm(Path(job.directory), job.path("trace"), job.fault)
    phase("takeover")
    taking_over = Options.of(**OPTIONS, is_shared=True, passing=seen)
    opened = _attempt("open", lambda: MessageDatabase.open(job.directory, options=taking_over))
    if opened is not None:
        later = _Day(opened, 2)
        later.live = owner.live
        later.commit("commit", 4)
    _Day(first, 3, thread=1).commit("former", 1)
    phase("close")
    if opened is not None:
        _attempt("close", opened.close)
    _attempt("close", first.close)


def command(job: Job) -> None:
    """A command of `oms`: its arguments are the job's. Its exit code is this process's."""
    from oms_journal.cli.main import main

    sys.argv = ["oms", *job.arguments]
    arm(Path(job.directory), job.path("trace"), job.fault)
    phase(job.arguments[0])
    main()


def server(job: Job) -> None:
    """`oms serve`, whose client says what it is about to do in a file beside (`visits`)."""
    from oms_journal.cli.main import main

    sys.argv = ["oms", *job.arguments, str(job.path("attributes"))]
    phase_in(job.path("phase"))
    arm(Path(job.directory), job.path("trace"), job.fault)
    main()


def _attempt(what: str, attempted: Callable[[], Any]) -> Any:
    """Return what it returns; say it where the engine refuses."""
    try:
        return attempted()
    except JournalError as failure:
        say(-1, "refused", step=what, kind=type(failure).__name__, text=str(failure))
        return None


class _Day:
    """One opening, and what is done with it. After a failed commit nothing more may be accepted."""

    def __init__(self, database: MessageDatabase, seed: int, *, thread: int = 0) -> None:
        self.database = database
        self.live: list[int] = []
        self.is_over = False
        self._thread = thread
        self._chance = random.Random(seed)

    def run(self) -> None:
        self.commit("commit", 12)
        self.commit("roll", 14)
        self._read("read")
        phase("deliver")
        self._remove_most()
        phase("clean-up")
        _attempt("clean-up", self.database.cleanup)
        self.commit("commit again", 6)
        phase("compaction")
        _attempt("compaction", lambda: self.database.cleanup(compact=True))
        self._read("read again")
        phase("close")
        _attempt("close", self.database.close)

    def commit(self, name: str, count: int) -> None:
        phase(name)
        for _ in range(count):
            self._guarded(lambda: commit_one(self.database, self._thread, self._chance, self.live))

    def _guarded(self, committed: Callable[[], list[int]]) -> None:
        try:
            if self.is_over:
                self.database.add("later", b"behind a failed commit")
                raise AssertionError("a commit was accepted behind a failed one")
            self.live = committed()
        except DiskFull as full:
            say(self._thread, "withdrawn", kind="DiskFull", text=str(full))
        except CommitFailed as failure:
            if not self.is_over:
                say(self._thread, "failed", kind=type(failure).__name__, text=str(failure))
            self.is_over = True

    def _remove_most(self) -> None:
        most = self.live[: len(self.live) * 3 // 4]

        def remove() -> list[int]:
            say(self._thread, "begin", adds=[], removed=most, puts={})
            self.database.deliver_many(most)
            say(self._thread, "done", numbers=[])
            return self.live[len(most) :]

        self._guarded(remove)

    def _read(self, name: str) -> None:
        phase(name)
        messages = _attempt(name, lambda: list(self.database.undelivered(f"thread-{self._thread}"))) or []
        if not self.is_over:
            say(-1, "read", found={str(one.number): base64.b64encode(one.payload).decode() for one in messages})
