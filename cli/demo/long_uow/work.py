"""What the two sides of a long-running unit of work do: its sender, and the worker who is at it for a while.

The user status of the unit of work says how far it is, "7 of 24", or that its sender wants it abandoned, "STOP
after 7 of 24". It is one field, of which the last to write it decides. So the worker looks at it again right
before he writes it, and the sender asks again when he does not find his request there.

(EntireX, Using Persistence and Units of Work, "Using User Status": a server updates the user status of a long-running
unit of work by SYNCPOINT OPTION=SETUSTATUS to indicate its progress, the client gets it by OPTION=QUERY; and the sender
may update it, to indicate that processing should be abandoned.)
"""

import re
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.records import Status
from oms_journal.broker.sessions.requests import Message, UnitStatus
from oms_journal.broker.sessions.session_parts import ReceivedUnit
from oms_journal.broker.sessions.sessions import Session
from oms_journal.cli.demo.broker import last_committed

SERVICE = "WORK/LONG/PAGES"
LOOK_SECONDS = 0.01  # between two looks of the sender
COMPLETE = (Status.PROCESSED, Status.CANCELLED, Status.TIMEOUT, Status.DISCARDED)

_TEXT = re.compile(r"(STOP after |stopped after )?(\d+) of (\d+)")


class Progress(NamedTuple):
    """What a user status says."""

    done: int
    total: int
    is_stop: bool = False  # somebody wants it stopped, or has stopped it

    def __str__(self) -> str:
        return f"{self.done} of {self.total}"

    @classmethod
    def read(cls, user_status: str) -> "Progress":
        """Return what the text says; ValueError when it was not written here."""
        found = _TEXT.fullmatch(user_status)
        if found is None:
            raise ValueError(f"the user status {user_status!r} does not say how far it is")
        return cls(int(found[2]), int(found[3]), is_stop=found[1] is not None)


def work(unit: ReceivedUnit, do_page: Callable[[int, Message], None]) -> UnitStatus:
    """Do one page after the other, and commit; or cancel the unit of work when its sender wants it stopped.

    What an earlier worker has done is not done again, but for a page that was done and not noted yet. BrokerError.
    """
    progress = Progress.read(unit.user_status)
    with unit:
        if progress.is_stop:
            return unit.cancel(user_status=f"stopped after {progress}")
        for number, message in enumerate(unit, start=1):
            if number <= progress.done:
                continue
            do_page(number, message)
            done = progress._replace(done=number)
            if Progress.read(unit.query().user_status).is_stop:
                return unit.cancel(user_status=f"stopped after {done}")
            unit.set_user_status(str(done))
        return unit.commit(user_status=str(progress._replace(done=progress.total)))


def sent(session: Session, pages: Sequence[bytes]) -> UnitStatus:
    """Return the unit of work of this user: the one that an earlier process of his has committed, else a new one."""
    last = last_committed(session)
    if last is not None:
        return last
    with session.unit_of_work(SERVICE, user_status=str(Progress(0, len(pages)))) as unit:
        for page in pages:
            unit.send(page)
    assert unit.status is not None, "what is committed has a status"
    return unit.status


def watch(session: Session, unit: UnitStatus, *, stop_at: int, hear: Callable[[UnitStatus], None]) -> UnitStatus:
    """Look at the unit of work until it is complete; return its status then.

    Once so many pages are done its sender wants it stopped; 0 for never. `hear` is called with everything new, and
    with each request to stop. BrokerError.
    """
    hear(unit)
    while unit.status not in COMPLETE:
        progress = Progress.read(unit.user_status)
        seen = unit
        if stop_at and progress.done >= stop_at and not progress.is_stop:
            unit = _asked_to_stop(session, unit, progress)
        else:
            time.sleep(LOOK_SECONDS)
            unit = session.query(unit.uowid)
        if (unit.status, unit.user_status) != (seen.status, seen.user_status):
            hear(unit)
    return unit


def _asked_to_stop(session: Session, unit: UnitStatus, progress: Progress) -> UnitStatus:
    try:
        return session.set_user_status(unit.uowid, f"STOP after {progress}")
    except BrokerError as refused:
        if refused.code is not Code.WRONG_STATUS:  # it is complete
            raise
        return session.query(unit.uowid)
