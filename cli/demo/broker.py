"""An embedded broker for a command: opened, and what it refuses as a failure of the command."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.records import Status
from oms_journal.broker.sessions.requests import UnitStatus
from oms_journal.broker.sessions.sessions import Session
from oms_journal.broker.store.start import StartRefused
from oms_journal.cli.failures import ExitCode, Failure, meaning
from oms_journal.cli.stores import listening
from oms_journal.journal.errors import DatabaseLocked, JournalError


@contextmanager
def opened(spool: Path, broker_id: str, **given: Any) -> Iterator[Broker]:
    """Open a broker on the directory for the block, and close it at the end; `given` are attributes by keyword.

    Failure: LOCKED where another process has the directory, UNUSABLE where it is another broker's or nobody's, and
    where the block is refused something that it does not expect.
    """
    with listening():
        try:
            with Broker.open(spool, broker_id=broker_id, **given) as broker:
                yield broker
        except StartRefused as refused:
            raise _refusal(refused, spool) from refused
        except BrokerError as refused:
            raise Failure(f"{refused}; {refused.code.advice}", ExitCode.UNUSABLE, error=refused.code.value) from refused


def last_committed(session: Session, tell: Callable[[str], None] = lambda _: None) -> UnitStatus | None:
    """Return the last unit of work of the session's user that was committed; None for none.

    `tell` is called with each answer of SYNCPOINT OPTION=LAST: a status, or a return code. One that an earlier
    process began with OPTION=SYNC and did not commit, since it crashed, is BACKEDOUT where its status is persistent:
    that is deleted, so that LAST says what it said before. BrokerError.
    """
    while True:
        last = session.last()
        tell(Code.UOW_NOT_FOUND.value if last is None else last.status.name)
        if last is None or last.status is not Status.BACKEDOUT:
            return last
        session.delete(last.uowid)


def _refusal(refused: StartRefused, spool: Path) -> Failure:
    cause = refused.__cause__
    if isinstance(cause, DatabaseLocked):
        return Failure(f"{cause}: only one broker at a time has a store", ExitCode.LOCKED, error="DatabaseLocked")
    if isinstance(cause, JournalError):
        return meaning(cause)
    return Failure(f"{spool}: {refused}", ExitCode.UNUSABLE, error=refused.code.value)
