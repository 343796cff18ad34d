"""What the receiver of a unit of work does with it: commits it, or backs it out.

The receiver's first commit binds the conversation to its server instance, over a restart too: the
records of what waits there are written again with who that is. A backout gives the unit of work back:
to the service as long as the instance has not committed one of the conversation. Past its lifetime it
times out; after too many attempts it is put off for a while.
"""

from broker.changes import Changes
from broker.conversation import CLIENT, SERVER, Conversation
from broker.moves import (
    NOTHING,
    PROCESSED_END,
    RECEIVER_COMMIT,
    TIMED_OUT_END,
    Closing,
    close,
    closing,
    closing_as,
    hand_back,
    release_unbound,
    side_of_sender,
    status_after,
    with_user_status,
)
from broker.recording import bound, put, record_of, written
from broker.records import Status, UowRecord
from broker.sleeping import identifier
from broker.states import ACCEPTED, GONE, POSTPONED, Event, after
from broker.uow import VARIATION, UnitOfWork
from broker.world import World


def committed(world: World, talk: Conversation, unit: UnitOfWork, ustatus: str) -> Closing:
    """Return how the receiver's commit completes the unit of work."""
    done = closing(world, talk, unit, RECEIVER_COMMIT)
    if done.record is None:
        return done
    record = done.record._replace(ustatus=ustatus or unit.ustatus)
    if side_of_sender(unit) is CLIENT:
        record = bound(record, talk)
    changes = Changes(puts=[put(record)], delivered=done.changes.delivered)
    return Closing(unit, record, changes, PROCESSED_END)


def binding(world: World, talk: Conversation, unit: UnitOfWork) -> Changes:
    """Return the records of what else waits in the conversation, with the instance that has it from now on."""
    if talk.is_bound or unit.from_server:
        return NOTHING
    if len(talk.lines[SERVER]) == 1 and not talk.lines[CLIENT] and not any(talk.sending):
        return NOTHING  # nothing else waits, as with most
    records = _other_records(world, talk, unit)
    return Changes(puts=[put(record) for record in records]) if records else NOTHING


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


class Backing:
    """A unit of work that is given back by its receiver."""

    __slots__ = ("_done", "_now", "_talk", "_unit", "_ustatus", "_world", "back", "changes", "postpones", "status")

    def __init__(self, world: World, talk: Conversation, unit: UnitOfWork, ustatus: str) -> None:
        self._world = world
        self._talk = talk
        self._unit = unit
        self._ustatus = ustatus or unit.ustatus
        self._done: Closing | None = None
        self._now = world.now
        self.postpones = unit.postpones
        self.back = 0
        self.status = self._decide()

    def _decide(self) -> Status:
        world, talk, unit = self._world, self._talk, self._unit
        status = status_after(unit, Event.RECEIVER_BACKOUT)
        assert status is ACCEPTED, "a unit of work that is given back waits again"
        clock = world.clock_of(unit)
        is_counted = world.is_store_up or not unit.is_lasting  # nothing in the store times out while it is away
        if unit.ends and clock >= unit.ends and is_counted:
            outcome = after(ACCEPTED, Event.LIFETIME_OVER, VARIATION[unit.is_persistent, unit.has_status])
            done = closing_as(world, talk, unit, None if outcome is GONE else Status.TIMEOUT, TIMED_OUT_END)
            self._done = with_user_status(done, self._ustatus)
            self.changes = self._done.changes
            return Status.TIMEOUT
        attributes = talk.service.attributes
        tried = unit.adcount + 1
        limit = attributes.max_delivery_count
        if limit is not None and tried >= limit and unit.postpones < attributes.postpone_attempts:
            status = POSTPONED
            self.postpones += 1
            self.back = clock + world.late + attributes.postpone_delay
        self.changes = Changes(puts=[put(self._record(status))]) if unit.is_recorded else Changes()
        return status

    def _record(self, status: Status) -> UowRecord:
        record = record_of(self._unit, self._talk, status)._replace(
            adcount=self._unit.adcount + 1,
            postpones=self.postpones,
            back=self.back,
            changed=self._world.now,
            ustatus=self._ustatus,
        )
        if not self._unit.from_server and not self._talk.is_bound:
            record = record._replace(receiver_user="", receiver_token="")
        return record

    @property
    def uowid(self) -> str:
        return self._unit.uowid

    def apply(self) -> None:
        """Give it back."""
        unit = self._unit
        if self._done is not None:
            close(self._world, self._talk, self._done)
            release_unbound(self._world, self._talk, unit)
            return
        unit.adcount += 1
        unit.postpones, unit.back = self.postpones, self.back
        unit.ustatus = self._ustatus
        unit.changed = self._now
        hand_back(self._world, self._talk, unit, self.status)


def back_out(world: World, talk: Conversation, unit: UnitOfWork, ustatus: str) -> Backing:
    """Return what a backout by the receiver makes of the unit of work; it has changed nothing yet."""
    return Backing(world, talk, unit, ustatus)
