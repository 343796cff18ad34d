"""One step of chess-by-mail, call by call: what the client, white, and the server, black, do when they are started.

    SYNCPOINT OPTION=LAST answers   then
    00780305 UOW not found          there is no game: white sends the first move, black receives it and answers
    ACCEPTED                        the partner has not received the last move: there is nothing to do
    DELIVERED                       the partner is about to answer: likewise
    TIMEOUT                         the partner did not receive it within its lifetime: the game is lost
    PROCESSED                       the partner has received it and answered: that is received, and answered in turn
    BACKEDOUT                       an earlier step crashed before its commit: its status is deleted, LAST asked again

The move that was received and the one that answers it are committed together, with UOWID=BOTH. The result ends the
game: who receives it commits it alone, and ends the conversation. (EntireX, Using Persistence and Units of Work,
"Chess-by-mail"; BACKEDOUT, by its tables of the restart, is what a unit of work becomes that was sent with
OPTION=SYNC and a persistent status, and never committed. Deleting it leaves the state before that step.)
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.embedded.broker import Broker
from oms_journal.broker.records import Status
from oms_journal.broker.sessions.requests import UnitStatus
from oms_journal.broker.sessions.session_parts import ReceivedUnit
from oms_journal.broker.sessions.sessions import Session
from oms_journal.broker.store.start import StartRefused
from oms_journal.cli.demo.chess.pgn import RESULTS, Side, written
from oms_journal.cli.demo.chess.scoresheet import Sheet
from oms_journal.cli.failures import ExitCode, Failure, meaning
from oms_journal.cli.stores import show_warnings
from oms_journal.journal.errors import DatabaseLocked, JournalError

BROKER_ID = "CHESS"
SERVICE = "GAME/CHESS/BLACK"
TOKEN = "CHESS-BY-MAIL"
# The status of each unit of work is kept for ten times its lifetime of a month, of time in which a broker runs.
ATTRIBUTES = {
    "uwtime": "30D",
    "uwstatp": "10",
    "max_data_file_size": "1M",
    "max_delivery_count": "0",  # who looks at a move backs it out: it comes again at once, however often that is
}
NOTHING = "nothing"

Choose = Callable[[Sequence[str]], str | None]  # from the moves so far to the next one; None to look only


class Call(Enum):
    """The calls of a step, as the manual writes them."""

    LOGON = "LOGON"
    REGISTER = "REGISTER"
    LAST = "SYNCPOINT OPTION=LAST"
    SEND_FIRST = "SEND OPTION=COMMIT,CID=NEW"
    RECEIVE = "RECEIVE OPTION=SYNC"
    SEND = "SEND OPTION=SYNC"
    COMMIT = "SYNCPOINT OPTION=COMMIT"
    COMMIT_BOTH = "SYNCPOINT OPTION=COMMIT,UOWID=BOTH"
    BACKOUT = "SYNCPOINT OPTION=BACKOUT"
    EOC = "EOC"
    DEREGISTER = "DEREGISTER"
    LOGOFF = "LOGOFF"


@dataclass(frozen=True, slots=True)
class Said:
    """A call and what it was answered."""

    call: Call
    answer: str = Code.OK.value  # a return code, the status of a unit of work, or NOTHING
    move: str = ""


class Outcome(Enum):
    """What became of a step."""

    MOVED = "moved"
    TO_MOVE = "to move"  # the partner's move is there, and nothing was answered
    ENDED = "ended"  # the result is there
    WAITS = "waits"  # for the partner
    LOST = "lost"  # the last move has timed out, or somebody has cancelled it
    NO_GAME = "no game"
    OVER = "over"


class Step:
    """One step of one side."""

    def __init__(
        self, session: Session, side: Side, sheet: Sheet, choose: Choose, tell: Callable[[Said], None]
    ) -> None:
        self._session = session
        self._side = side
        self._sheet = sheet
        self._choose = choose
        self._tell = tell

    def run(self) -> Outcome:
        """Make the step, between LOGON and LOGOFF. BrokerError, Failure: then nothing was sent or received."""
        last = last_committed(self._session, lambda answer: self._tell(Said(Call.LAST, answer)))
        score = self._sheet.score
        if last is None:
            return self._begin()
        if score.reply is not None and last.uowid not in score.known():
            self._sheet.done(last.uowid)  # an earlier step crashed after its commit
        match last.status:
            case Status.ACCEPTED | Status.POSTPONED | Status.DELIVERED:
                return Outcome.WAITS
            case Status.PROCESSED:
                return self._go_on(last.conv_id)
            case _:
                return Outcome.LOST

    def _begin(self) -> Outcome:
        if self._side is Side.BLACK:
            unit = self._session.receive_unit(SERVICE, which="NEW")
            if unit is not None:
                return self._answer(unit)
            self._tell(Said(Call.RECEIVE, NOTHING))
            return Outcome.NO_GAME
        move = self._choose(())
        if move is None:
            return Outcome.NO_GAME
        self._sheet.reply(move)
        status = self._session.send(SERVICE, move.encode())
        self._tell(Said(Call.SEND_FIRST, status.status.name, move))
        self._sheet.done(status.uowid)
        return Outcome.MOVED

    def _go_on(self, conv_id: str) -> Outcome:
        try:
            unit = self._session.receive_unit(conv_id=conv_id)
        except BrokerError as refused:
            if refused.code is not Code.NO_CONVERSATION:
                raise
            unit = None
        if unit is not None:
            return self._answer(unit)
        self._tell(Said(Call.RECEIVE, NOTHING))
        score = self._sheet.score
        if score.heard is not None and score.heard.move in RESULTS:
            self._sheet.done(score.heard.uowid)  # an earlier step crashed after it had committed the result
        if not score.moves or score.moves[-1] not in RESULTS:
            raise Failure("the partner has taken the last move, and has neither answered it nor ended", ExitCode.NO)
        return Outcome.OVER

    def _answer(self, unit: ReceivedUnit) -> Outcome:
        """Receive a move and answer it, both or neither."""
        with unit:
            move = written(unit.first.body.decode(errors="replace"))
            if move is None:
                raise Failure(f"unit of work {unit.uowid} is no move: {unit.first.body[:40]!r}", ExitCode.UNUSABLE)
            self._tell(Said(Call.RECEIVE, unit.first.reception.name, move))
            self._sheet.heard(unit.uowid, move)
            if move in RESULTS:
                return self._end(unit)
            answer = self._choose((*self._sheet.score.moves, move))
            if answer is None:
                unit.backout()
                self._tell(Said(Call.BACKOUT, Status.ACCEPTED.name, move))
                return Outcome.TO_MOVE
            unit.answer(answer.encode())
            self._tell(Said(Call.SEND, Status.RECEIVED.name, answer))
            self._sheet.reply(answer)
            status = unit.commit()
            self._tell(Said(Call.COMMIT_BOTH, status.status.name, answer))
            self._sheet.done(status.uowid)
        return Outcome.MOVED

    def _end(self, unit: ReceivedUnit) -> Outcome:
        """Receive the result: nobody answers it."""
        status = unit.commit()
        self._tell(Said(Call.COMMIT, status.status.name))
        self._sheet.done(unit.uowid)
        self._session.end_conversation(unit.conv_id)
        self._tell(Said(Call.EOC))
        return Outcome.ENDED


def step(broker: Broker, side: Side, sheet: Sheet, choose: Choose, tell: Callable[[Said], None]) -> Outcome:
    """Make one step of a side: log on, and black registers; do what there is to do; log off. BrokerError, Failure."""
    with broker.session(side.name, token=TOKEN) as session:
        tell(Said(Call.LOGON))
        if side is Side.BLACK:
            session.register(SERVICE)
            tell(Said(Call.REGISTER))
        outcome = Step(session, side, sheet, choose, tell).run()
        if side is Side.BLACK:
            session.deregister()
            tell(Said(Call.DEREGISTER))
    tell(Said(Call.LOGOFF))
    return outcome


@contextmanager
def open_broker(spool: Path, broker_id: str, **given: Any) -> Iterator[Broker]:
    """Open a broker on the directory for the block, and close it at the end; `given` are attributes by keyword.

    Failure: LOCKED where another process has the directory, UNUSABLE where it is another broker's or nobody's, and
    where the block is refused something that it does not expect.
    """
    with show_warnings():
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
