"""What the receiver of a unit of work does with it: commits it, or backs it out.

The receiver's first commit binds the conversation to its server instance, over a restart too: the
records of what waits there are written again with who that is. A backout gives the unit of work back:
to the service as long as the instance has not committed one of the conversation. Past its lifetime it
times out; after too many attempts it is put off for a while, and then it is a dead letter.
"""

from oms_journal.broker.kernel.state.conversation import CLIENT, SERVER, Conversation
from oms_journal.broker.kernel.state.effects import Expect
from oms_journal.broker.kernel.state.redelivery import delay, is_at_its_end
from oms_journal.broker.kernel.state.unit import VARIATION, UnitOfWork
from oms_journal.broker.kernel.state.unit_records import bound, put_of_unit, record_of, written
from oms_journal.broker.kernel.state.unit_states import ACCEPTED, GONE, POSTPONED, Event, after
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.units.dead_letters import Move
from oms_journal.broker.kernel.units.transitions import (
    CANCELLED_END,
    NOTHING,
    PROCESSED_END,
    RECEIVER_COMMIT,
    TIMED_OUT_END,
    Completion,
    complete,
    completion_as,
    completion_by,
    hand_back,
    release_unbound,
    side_of_sender,
    status_after,
    with_user_status,
)
from oms_journal.broker.records import Status, UowRecord, identifier
from oms_journal.broker.store.changes import Changes, merge


def committed(world: World, talk: Conversation, unit: UnitOfWork, ustatus: str) -> Completion:
    """Return how the receiver's commit completes the unit of work."""
    done = completion_by(world, talk, unit, RECEIVER_COMMIT)
    if done.record is None:
        return done
    record = done.record._replace(ustatus=ustatus or unit.ustatus)
    if side_of_sender(unit) is CLIENT:
        record = bound(record, talk)
    changes = Changes(puts=[put_of_unit(record)], delivered=done.changes.delivered)
    return Completion(unit, record, changes, PROCESSED_END)


def binding(world: World, talk: Conversation, unit: UnitOfWork) -> Changes:
    """Return the records of what else waits in the conversation, with the instance that has it from now on."""
    if talk.is_bound or unit.from_server:
        return NOTHING
    if len(talk.lines[SERVER]) == 1 and not talk.lines[CLIENT] and not any(talk.sending):
        return NOTHING  # nothing else waits, as with most
    records = _other_records(world, talk, unit)
    return Changes(puts=[put_of_unit(record) for record in records]) if records else NOTHING


def _other_records(world: World, talk: Conversation, unit: UnitOfWork) -> list[UowRecord]:
    records = []
    begun = (each for each in talk.sending if each is not None)
    for waiting in (*talk.lines[SERVER], *talk.lines[CLIENT], *begun):
        if not isinstance(waiting, UnitOfWork):
            record = world.units.find(identifier(waiting))
            assert record is not None, "what waits is awake or asleep"
            records.append(bound(record, talk))
        elif waiting is not unit and waiting.is_recorded:
            records.append(bound(record_of(waiting, talk, written(waiting)), talk))
    return records


def bind(world: World, talk: Conversation, unit: UnitOfWork) -> None:
    """Let the conversation be the instance's that has committed a unit of work of it."""
    if talk.is_bound or unit.from_server:
        return
    asleep = [number for line in talk.lines for number in line if not isinstance(number, UnitOfWork)]
    for number in asleep:
        record = world.units.take(identifier(number))
        assert record is not None, "what waits is awake or asleep"
        world.units.add(bound(record, talk))
    talk.is_bound = True


class Backout:
    """A unit of work that is given back by its receiver; not counted where it was not its turn to be tried.

    `redelivery.py` says what comes of it. A dead letter is moved in the same commit. Where the store does not take the
    move, `give_way` lets it go without the properties that say where it is from, and then waits like any other: it is
    tried again with the next backout.
    """

    __slots__ = (
        *("_done", "_is_counted", "_move", "_now", "_talk", "_unit", "_ustatus", "_world"),
        *("adcount", "back", "changes", "postpones", "status", "wait"),
    )

    def __init__(
        self, world: World, talk: Conversation, unit: UnitOfWork, ustatus: str, *, is_counted: bool = True
    ) -> None:
        self._world = world
        self._talk = talk
        self._unit = unit
        self._ustatus = ustatus or unit.ustatus
        self._done: Completion | None = None
        self._move: Move | None = None
        self._now = world.now
        self._is_counted = is_counted
        self.adcount = unit.adcount + is_counted
        self.postpones = unit.postpones
        self.back = 0
        self.wait = 0  # until it can be received again, microseconds
        self.status = self._decide()

    def _decide(self) -> Status:
        world, talk, unit = self._world, self._talk, self._unit
        status = status_after(unit, Event.RECEIVER_BACKOUT)
        assert status is ACCEPTED, "a unit of work that is given back waits again"
        is_timed = world.is_store_up or not unit.is_lasting  # nothing in the store times out while it is away
        if unit.ends and world.clock_of(unit) >= unit.ends and is_timed:
            outcome = after(ACCEPTED, Event.LIFETIME_OVER, VARIATION[unit.is_persistent, unit.has_status])
            done = completion_as(world, talk, unit, None if outcome is GONE else Status.TIMEOUT, TIMED_OUT_END)
            self._done = with_user_status(done, self._ustatus)
            self.changes, self.adcount = self._done.changes, unit.adcount + 1
            return Status.TIMEOUT
        attributes = talk.service.attributes
        if self._is_counted and is_at_its_end(attributes, talk.service.name, self.adcount):
            if self.postpones < attributes.postpone_attempts:
                self.postpones += 1
                return self._stay(POSTPONED, attributes.postpone_delay)
            if self._can_move():
                return self._bury(is_marked=True)
        return self._wait()

    def _can_move(self) -> bool:
        world, unit = self._world, self._unit
        if unit.is_persistent and world.is_new_forbidden:
            return False
        return world.is_store_up or not unit.is_recorded

    def _wait(self) -> Status:
        tried = self.adcount if self._is_counted else 0
        return self._stay(ACCEPTED, delay(self._talk.service.attributes.max_delivery_count, tried))

    def _stay(self, status: Status, wait: int) -> Status:
        """Let it be received again, after a while."""
        world, unit = self._world, self._unit
        self.wait = wait
        self.back = world.clock_of(unit) + world.late + wait if wait else 0
        self.changes = Changes(puts=[put_of_unit(self._record(status))]) if unit.is_recorded else Changes()
        return status

    def _bury(self, *, is_marked: bool) -> Status:
        """Let it become a dead letter."""
        world, talk, unit = self._world, self._talk, self._unit
        self._move = Move(world, talk.service.name, unit, self.adcount, is_marked=is_marked)
        self._done = done = completion_as(world, talk, unit, status_after(unit, Event.DEAD_LETTER), CANCELLED_END)
        parts = [self._move.changes(), done.changes]
        if done.record is not None:
            record = done.record._replace(adcount=self.adcount, ustatus=self._ustatus)
            self._done = done._replace(record=record)
            parts.append(Changes(puts=[put_of_unit(record)]))
        self.changes = merge(parts)
        return Status.CANCELLED

    def _record(self, status: Status) -> UowRecord:
        record = record_of(self._unit, self._talk, status)._replace(
            adcount=self.adcount,
            postpones=self.postpones,
            back=self.back,
            changed=self._now,
            ustatus=self._ustatus,
        )
        if not self._unit.from_server and not self._talk.is_bound:
            record = record._replace(receiver_user="", receiver_token="")
        return record

    @property
    def uowid(self) -> str:
        return self._unit.uowid

    @property
    def moved_bytes(self) -> int:
        """How much the store has to take for it to be a dead letter."""
        return self._unit.size if self._move is not None else 0

    def give_way(self) -> bool:
        """Ask less of the store; False where it is not asked for anything that could be left out."""
        if self._move is None:
            return False
        is_marked = self._move.is_marked
        self.undo()
        if is_marked:
            self.status = self._bury(is_marked=False)
        else:
            self.status = self._wait()
        return True

    def stay(self) -> None:
        """Move nothing: it waits like any other."""
        if self._move is not None:
            self.undo()
            self.status = self._wait()

    def undo(self) -> None:
        """Let nothing of it happen."""
        if self._move is not None:
            self._move.undo()
            self._move = self._done = None

    def apply(self, first: int = 0) -> None:
        """Give it back; `first` is the number of the first message that its changes have added."""
        unit = self._unit
        if self._done is not None:
            complete(self._world, self._talk, self._done)
            release_unbound(self._world, self._talk, unit)
            if self._move is not None:
                self._move.apply(first)
            return
        unit.adcount = self.adcount
        unit.postpones, unit.back = self.postpones, self.back
        unit.ustatus = self._ustatus
        unit.changed = self._now
        hand_back(self._world, self._talk, unit, self.status)
        if self.wait:
            self._world.effects.append(Expect(self.wait))
