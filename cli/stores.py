"""Opening a spool directory from the command line, for writing or for looking.

The engine is imported when a directory is opened: the help of a command needs none of it.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from oms_journal.cli.failures import Usage
from oms_journal.cli.output import counted, note
from oms_journal.cli.progress import ProgressBar
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import DatabaseLocked, DiskError, NotADatabase
from oms_journal.recovery.place import check_database
from oms_journal.recovery.report import RecoveryReport

if TYPE_CHECKING:
    from oms_journal.database.database import MessageDatabase
    from oms_journal.database.options import Options
    from oms_journal.database.view import DatabaseView
    from oms_journal.journal.reading.message import Message

T = TypeVar("T")
HOW = "--spool DIR or SPOOL_DIRECTORY"  # a directory is given
RETRY_SECONDS = 0.05


def engine_options(**named: Any) -> "Options":
    """Return the engine's options: what was named, else the environment, else the defaults."""
    from oms_journal.database.options import ENVIRONMENT, Options

    given = {name: value for name, value in named.items() if value is not None}
    said = {variable: os.environ[variable] for variable in ENVIRONMENT if os.environ.get(variable)}
    for name, value in given.items():
        variable = next((one for one, field in ENVIRONMENT.items() if field == name and said.get(one) == value), None)
        check_option(variable or f"--{name.replace('_', '-')}", name, value)
    for variable, text in said.items():
        if ENVIRONMENT[variable] not in given:
            name = ENVIRONMENT[variable]
            check_option(variable, name, text, partial(Options.from_environment, {variable: text}))
    return Options.from_environment(said, **given)


def check_option(label: str, name: str, value: object, made: Callable[[], object] | None = None) -> None:
    """Usage where the value of an option of the engine is refused, by the name and the value that its giver knows."""
    from oms_journal.database.options import Options

    try:
        Options.of(**{name: value}) if made is None else made()
    except ValueError as failure:
        reason = str(failure).removeprefix(f"{label}: ")
        if reason.startswith(f"{name} must"):
            reason = f"{reason.removeprefix(name).rpartition(', not ')[0]}, not {value!r}"
            raise Usage(f"{label}{reason}") from failure
        raise Usage(f"{label}: {reason}") from failure


@contextmanager
def database(
    spool: Path, *, begins: bool = False, repairs: bool = False, wait_seconds: float = 0.0, **named: Any
) -> "Iterator[MessageDatabase]":
    """Open the database with the lock, say what its recovery found, and close it at the end.

    Usage where there is none, unless the command `begins` one, and where it is a broker's, unless it only `repairs` it.
    """
    if not begins:
        require(spool)
    elif spool.exists() and not spool.is_dir():
        raise Usage(f"{spool} is not a directory; give one with {HOW}")
    options = engine_options(**named)
    with show_warnings(), _opened(spool, options, wait_seconds) as db:
        tell_recovery(db.recovery)
        if not repairs:
            _check_is_nobodys(db, spool)
        yield db


def _check_is_nobodys(db: "MessageDatabase", spool: Path) -> None:
    """Raise Usage where the messages belong to a broker: its records would not fit them any more."""
    from oms_journal.broker.records import MASTER, MASTER_KEY, RecordError
    from oms_journal.broker.store.start import LOADING_KEY

    if db.get(LOADING_KEY) is not None:
        raise Usage(f"{spool} holds a broker's store whose load is not finished: repeat it; nothing was changed")
    value = db.get(MASTER_KEY)
    if value is None:
        return
    try:
        whose = f"broker {MASTER.decode(value).broker_id}"
    except RecordError:
        whose = "a broker"
    raise Usage(
        f"{spool} is the persistent store of {whose}, which alone changes what is in it: use its functions SEND, "
        "RECEIVE and SYNCPOINT; list, show, dump, stats, explain, verify and receive --peek look into it; "
        "nothing was changed",
        broker=whose,
    )


def _opened(spool: Path, options: "Options", wait_seconds: float) -> "MessageDatabase":
    from oms_journal.database.database import MessageDatabase

    def opened() -> MessageDatabase:
        with ProgressBar() as progress:
            return MessageDatabase.open(spool, options=options, progress=progress)

    return waited_for(opened, wait_seconds, lambda failure: isinstance(failure, DatabaseLocked))


def waited_for(opening: Callable[[], T], wait_seconds: float, is_locked: Callable[[Exception], bool]) -> T:
    """Return what is opened, tried again for so long as somebody else has its lock."""
    until = time.monotonic() + wait_seconds
    while True:
        try:
            return opening()
        except Exception as failure:
            if not is_locked(failure) or time.monotonic() >= until:
                raise
            time.sleep(RETRY_SECONDS)


@contextmanager
def view(spool: Path) -> "Iterator[DatabaseView]":
    """Open the database for looking: no lock, nothing is changed, it may be running."""
    require(spool)
    from oms_journal.database.view import DatabaseView

    with show_warnings():
        with ProgressBar() as progress:
            looking = DatabaseView.open(spool, progress=progress)
        with looking:
            yield looking


def looked_up(spool: Path, number: int) -> "Message":
    """Return one undelivered message, found by the index file where there is one: no lock, nothing is changed."""
    require(spool)
    from oms_journal.database.lookup import look_up

    with show_warnings():
        return look_up(spool, number)


def require(directory: Path, *, how: str = HOW) -> None:
    """Return where the directory holds a database. Usage where it does not, with `how` the right one is given."""
    advice = f"give the right one with {how}"
    try:
        check_database(RealDisk(), directory)
    except NotADatabase as nothing:
        raise Usage(f"{nothing}; {advice}", error="NotADatabase") from None
    except DiskError as failure:
        if isinstance(failure.failure, FileNotFoundError):
            raise Usage(f"{directory} does not exist; {advice}") from None
        if isinstance(failure.failure, NotADirectoryError):
            raise Usage(f"{directory} is not a directory; {advice}") from None
        raise


def require_any(paths: Sequence[str]) -> None:
    """Usage where every path is an empty directory: one of several may be where nothing was moved to yet."""
    if all(Path(path).is_dir() and not any(Path(path).iterdir()) for path in paths):
        raise Usage(f"{paths[0]} holds no message database; give the right one with PATH")


def tell_recovery(report: RecoveryReport) -> None:
    """Say on stderr what the opening had to repair: an operator must hear of a loss."""
    for file in report.files:
        if file.verdict != "clean":
            kept = f", kept as {file.archive}" if file.archive else ""
            note(f"recovery: {file.name} was {file.verdict}: {file.reason}{kept}")
    for loss in report.lost:
        size = counted(loss.end - loss.start, "byte")
        note(f"recovery: LOST {size} of {loss.name} from byte {loss.start:,}: {loss.reason}")


class _ToStandardError(logging.Handler):
    """Prints what the engine logs the way the command prints its own notes."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


@contextmanager
def show_warnings() -> Iterator[None]:
    """Make the engine's warnings visible while a database is open."""
    log = logging.getLogger("oms")
    listener = _ToStandardError(logging.WARNING)
    log.addHandler(listener)
    try:
        yield
    finally:
        log.removeHandler(listener)
