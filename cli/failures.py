"""The exit code of each failure, and the line on standard error that tells it.

    code  meaning
    0     done, or intact
    1     the answer to the question is "no": nothing received, no such message, damage found
    2     wrong usage: an option, a name, a size, a line of the input
    3     another process has the lock
    4     the store cannot be used
    70    a bug in oms: the traceback is on stderr
    129   ended by SIGHUP
    130   interrupted (Ctrl-C)
    141   the reader of the output has gone
    143   ended by SIGTERM

With `--json` the line is a JSON object: `{"error": kind, "message": text, "exit": code, …facts}`.
What is only worth knowing (a recovery that repaired something) is a line before it, `{"note": text}`.
"""

import errno
import json
import sys
from enum import IntEnum
from pathlib import Path
from typing import Any

from oms_journal.cli.output import printable
from oms_journal.journal.disk import whose
from oms_journal.journal.errors import (
    DatabaseLocked,
    DirectoryGone,
    DiskError,
    DiskFull,
    DuplicateConflict,
    FormatError,
    InvalidName,
    JournalError,
    LimitExceeded,
    MessageDamaged,
    NewerFormat,
    NoSuchMessage,
    NotADatabase,
    NotThisDatabase,
    NotUndelivered,
    OutcomeUnknown,
    RecoveryRefused,
    TakenOver,
)


class ExitCode(IntEnum):
    """What a script reads."""

    DONE = 0
    NO = 1
    USAGE = 2
    LOCKED = 3
    UNUSABLE = 4
    BUG = 70
    HUNG_UP = 129
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    TERMINATED = 143


class Failure(Exception):
    """A command ends here. `facts` go into the JSON line."""

    def __init__(self, message: str, code: ExitCode, **facts: Any) -> None:
        super().__init__(message)
        self.code = code
        self.facts = facts


class Usage(Failure):
    """The command was called in a way that cannot work."""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message, ExitCode.USAGE, **facts)


_TELLS_MORE = "`oms verify` says what is wrong, `oms recover` repairs it"
# The first row that fits an error decides.
_MEANING: tuple[tuple[type[Exception], ExitCode, str], ...] = (
    (
        DatabaseLocked,
        ExitCode.LOCKED,
        "stop it or give --wait; list, show, dump, stats, explain and verify need no lock",
    ),
    (TakenOver, ExitCode.LOCKED, "what was acknowledged is there; another process goes on with it"),
    (DirectoryGone, ExitCode.UNUSABLE, "put it back, or give another with --spool"),
    (NewerFormat, ExitCode.UNUSABLE, "use the version of oms that wrote it"),
    (FormatError, ExitCode.UNUSABLE, _TELLS_MORE),
    (NotADatabase, ExitCode.USAGE, "--create begins one there, --spool DIR or SPOOL_DIRECTORY gives another directory"),
    (NotThisDatabase, ExitCode.UNUSABLE, "move the file that does not belong here away"),
    (
        RecoveryRefused,
        ExitCode.UNUSABLE,
        "`oms recover --policy salvage` keeps all that can be read",
    ),
    (DiskFull, ExitCode.UNUSABLE, "try again when there is room"),
    (DiskError, ExitCode.UNUSABLE, ""),
    (
        OutcomeUnknown,
        ExitCode.UNUSABLE,
        "the next start finds out whether the last commit is there",
    ),
    (LimitExceeded, ExitCode.USAGE, ""),
    (InvalidName, ExitCode.USAGE, ""),
    (
        DuplicateConflict,
        ExitCode.NO,
        "give another identifier, or the same message again",
    ),
    (NotUndelivered, ExitCode.NO, ""),
    (NoSuchMessage, ExitCode.NO, "`oms dump` tells what became of a message"),
    (MessageDamaged, ExitCode.NO, "`oms verify` shows the file, `oms delete` gives it up"),
    (JournalError, ExitCode.UNUSABLE, ""),
)
_DISK_ADVICE = {
    errno.EACCES: "or give another directory with --spool",
    errno.EPERM: "or give another directory with --spool",
    errno.ENOENT: "give the directory with --spool DIR or SPOOL_DIRECTORY",
    errno.ENOTDIR: "give a directory with --spool DIR or SPOOL_DIRECTORY",
    errno.EROFS: "mount the file system writable, or give another directory with --spool",
    errno.ENOSPC: "make room on the file system, then try again",
    errno.EDQUOT: "make room in the quota, then try again",
    errno.EIO: "the device does not read: look at the system's log",
}


def meaning(failure: JournalError | OSError) -> Failure:
    """Return what an error of the engine or of the system means to the outside."""
    system = failure if isinstance(failure, OSError) else getattr(failure, "failure", None)
    advice = _DISK_ADVICE.get(system.errno or 0, "") if isinstance(system, OSError) else ""
    code = ExitCode.UNUSABLE
    for kind, its_code, its_advice in _MEANING:
        if isinstance(failure, kind):
            code, advice = its_code, its_advice or advice
            break
    said = _said_of(failure) if isinstance(failure, OSError) else str(failure)
    text = f"{said}; {advice}" if advice else said
    return Failure(text, code, error=type(failure).__name__)


def _said_of(failure: OSError) -> str:
    """Return what the system said, and of what."""
    said = failure.strerror or str(failure) or "an error without a text"
    if failure.filename is None:
        return f"the system refused: {said}"
    refused = whose(failure, Path(failure.filename))
    return f"cannot use {failure.filename}: {said}{refused and f'; {refused}'}"


def tell(failure: Failure, *, as_json: bool) -> None:
    """Print the failure as one line on stderr."""
    if as_json:
        kind = {"error": type(failure).__name__, "message": str(failure), "exit": int(failure.code)}
        line = json.dumps(kind | failure.facts)
    else:
        line = f"oms: {printable(str(failure))}"
    print(line, file=sys.stderr)
