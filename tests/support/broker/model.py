"""What the broker should answer: a model of its rules in dictionaries and lists, without a store and without bytes.

Written from EntireX, Using Persistence and Units of Work, and EntireX 8.0, Concepts of Persistent Messaging;
where they are silent, a comment says what was decided. It answers calls at once, one after the other. Seconds are
whole, identifiers are numbers in the order in which they are made, and an answer is a dictionary of what it tells.
"""

import contextlib
import copy
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from oms_journal.broker.block import ConvStat, Function, Option, Reception, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.records import Status
from tests.support.broker.model_topics import NEVER, PLACES, Topics, TopicTerms
from tests.support.broker.words import ANY, BOTH, NEW, NONE, OLD, Answer, Ask, Name, Order, Refused, is_same

CLIENT, SERVER = "client", "server"
UNITS, MESSAGES = "units of work", "messages"
COMPLETE = (Status.BACKEDOUT, Status.PROCESSED, Status.CANCELLED, Status.TIMEOUT, Status.DISCARDED)
NOTHING_YET = (Code.NO_UOWS, Code.NO_MESSAGE, Code.NO_CONVERSATION)  # what a WAIT waits for to change
WITHOUT_STORE = (Code.UOW_NOT_PERSISTED, Code.STATUS_NOT_PERSISTED, Code.DURABLE_WITHOUT_STORE)
TOPICS = (
    *(Function.SUBSCRIBE, Function.UNSUBSCRIBE, Function.SEND_PUBLICATION),
    *(Function.RECEIVE_PUBLICATION, Function.CONTROL_PUBLICATION),
)


@dataclass(frozen=True)
class Terms:
    """What the attributes say of a service; 0 is no end, None no limit."""

    is_persistent: bool = True
    uwtime: int = 0
    uwstatp: int = 0
    is_deferred: bool = True
    uows_max: int | None = None
    messages_max: int = 16
    delivery_max: int | None = None  # 0: neither a delay nor an end
    postpone_attempts: int = 0
    postpone_delay: int = 300


@dataclass
class Participant:
    """A program that is there."""

    connection: int
    is_logged_on: bool = False
    serves: list[str] = field(default_factory=list)
    quiesces: set[str] = field(default_factory=set)  # of those: gets no new conversations


@dataclass
class Uow:
    """A unit of work, or what is left of it: its status."""

    number: int
    talk: int
    side: str  # of its sender
    sender: Name
    is_persistent: bool
    has_status: bool
    lifetime: int
    status_lifetime: int  # 0 without an end
    created: int
    service: str
    terms: Terms
    status: Status = Status.RECEIVED
    bodies: list[bytes] = field(default_factory=list)
    ustatus: str = ""
    adcount: int = 0
    postpones: int = 0
    place: int = 0  # in the order of commits
    read: int = 0  # messages handed out of this delivery
    receiver: Name | None = None
    ends: int = 0  # when its status goes
    back: float = 0  # when one that was given back can be received again
    turn: int = 0  # of its delivery, among all
    tells_server: bool = False  # what is written of it tells whose the conversation is
    is_held: bool = False  # since the store was restored

    @property
    def is_stored(self) -> bool:
        """Whether there is, or will be, a record of it in the persistent store."""
        return self.is_persistent or self.has_status

    @property
    def is_recorded(self) -> bool:
        """Whether there is one: without persistent status from its sender's commit on."""
        return self.has_status or (self.is_persistent and self.status is not Status.RECEIVED)


@dataclass
class Talk:
    """A conversation."""

    number: int
    kind: str
    service: str
    client: Name
    server: Name | None = None
    age: int = 0  # place of its first commit in the order of commits
    begun: int = 0  # when that was
    is_age_stored: bool = False  # that first unit of work is persistent
    is_begun_known: bool = True
    is_of_store: bool = False  # decided: while the store is away who does not name it has to be waiting already
    is_assigned: bool = False  # its server has committed a unit of work of it
    messages: dict[str, list[bytes]] = field(default_factory=lambda: {CLIENT: [], SERVER: []})  # by who has sent them
    is_single: bool = False
    ended: tuple[str, Code] | None = None  # by whom, and what the partner is told
    is_asleep: bool = False  # restored, and not used since


def other(side: str) -> str:
    return SERVER if side == CLIENT else CLIENT


class Model:
    """The broker's state, and what every input answers: `answers` by handle."""

    def __init__(self, services: Mapping[str, Terms], topics: Mapping[str, TopicTerms]) -> None:
        self.services = services
        self.topics = Topics(topics)
        self.people: dict[Name, Participant] = {}
        self.talks: dict[int, Talk] = {}
        self.uows: dict[int, Uow] = {}
        self.waits: list[tuple[int, Ask, int]] = []
        self.deliveries = 0
        self.dead_letters: list[tuple[list[bytes], bool]] = []  # the messages of each, and whether it is persistent
        self.answers: dict[int, Answer] = {}
        self.clock = 0  # of what is persistent
        self.unwritten = 0  # seconds of it that the store has not heard of
        self.seconds = 0  # of everything else
        self.now = 0  # microseconds, as COMMITTIME shows them
        self.numbers = 0
        self.persistent: set[int] = set()  # units of work that were ever stored
        self.commits = 0
        self.touched: set[int] = set()  # conversations that something has begun to wait in
        self.is_lost = False
        self.is_forbidden = False
        self.stored: Model | None = None  # what the store holds while it is not there
        self.producers: dict[tuple[tuple[str, str], str, str], int] = {}  # identifiers of units of work, by whose
        self.contents: dict[tuple[tuple[str, str], str, str], list[bytes]] = {}  # and what was sent with them

    def __repr__(self) -> str:
        return repr(vars(self))

    # Calls.

    def call(self, handle: int, ask: Ask) -> None:
        """Carry out a call; who waits may be answered too."""
        try:
            answer = self._answer(handle, ask)
            if answer is not None:
                self.answers[handle] = {"code": Code.OK} | answer
        except Refused as refused:
            self.answers[handle] = {"code": refused.codes}
        self.serve()

    def only(self, handle: int, ask: Ask) -> None:
        """Carry out a call that nobody hears of: the broker dies."""
        with contextlib.suppress(Refused):
            self._answer(handle, ask)

    def _answer(self, handle: int, ask: Ask) -> Answer | None:
        if isinstance(ask.function, Order):
            return self.topics.decide(ask) if ask.topic else self._decide(ask)
        me = ask.who.name
        participant = self.people.get(me)
        self._check(ask, participant)
        if participant is None:
            if ask.function is Function.LOGOFF:
                raise Refused(Code.USER_UNKNOWN)
            participant = self.people[me] = Participant(ask.who.connection)
        elif participant.connection != ask.who.connection:
            if ask.function is not Function.LOGON and participant.is_logged_on:
                raise Refused(Code.NEW_LOCATION)
            if ask.function is Function.LOGON:
                self._check_store_for_all(self._going_on_of(me))
                self._give_up_waiting(me, Code.NEW_LOCATION)
                self._back_out_of(me)
                self.topics.move(me)
            participant.connection = ask.who.connection
        if ask.function in (Function.RECEIVE, Function.RECEIVE_PUBLICATION):
            return self._receive(me, ask, handle)
        if ask.function in TOPICS:
            answer = self.topics.call(me, ask, self.numbers + 1)
            self.numbers += ask.function is Function.SEND_PUBLICATION and ask.publication == NEW
            return answer
        rooms = {
            Function.LOGON: self._log_on,
            Function.LOGOFF: self._log_off,
            Function.REGISTER: self._register,
            Function.DEREGISTER: self._deregister,
            Function.SEND: self._send,
            Function.SYNCPOINT: self._syncpoint,
            Function.EOC: self._end,
            Function.UNDO: self._undo,
        }
        return rooms[ask.function](me, ask)

    def _check(self, ask: Ask, participant: Participant | None) -> None:
        """Refuse what may not be said by who says it."""
        serves = participant.serves if participant is not None else []
        is_server = ask.service in serves if ask.service else bool(serves)
        if ask.function is Function.RECEIVE and not is_server and ask.talk in (NEW, OLD, ANY):
            codes = {NEW: Code.RECEIVE_NEW_BY_CLIENT, ANY: Code.RECEIVE_ANY_BY_CLIENT, OLD: Code.FUNCTION_CONV_ID}
            raise Refused(codes[str(ask.talk)])
        if ask.function is Function.DEREGISTER and not is_server:
            raise Refused(Code.DEREGISTER_BY_CLIENT)
        of_units = (Option.SYNC, Option.COMMIT, Option.EOC, Option.ANY)
        needs_logon = ask.function in (Function.SYNCPOINT, *TOPICS) or (
            ask.function in (Function.SEND, Function.RECEIVE) and ask.option in of_units
        )
        if needs_logon and (participant is None or not participant.is_logged_on):
            raise Refused(Code.LOGON_REQUIRED)

    # Coming and going.

    def _log_on(self, me: Name, ask: Ask) -> Answer:
        self.people[me].is_logged_on = True
        return {}

    def _give_up_waiting(self, me: Name, code: Code, service: str = "") -> None:
        for wait in list(self.waits):
            handle, ask, _ = wait
            is_left = service in ("", ask.service) or (ask.service == "" and ask.talk in (NEW, OLD, ANY))
            if ask.who.name == me and is_left:
                self.waits.remove(wait)
                self.answers[handle] = {"code": code}

    def _log_off(self, me: Name, ask: Ask) -> Answer:
        self._check_store_for_all(self._going_on_of(me))
        self._leave(me)
        return {}

    def gone(self, connection: int) -> None:
        """The connection is lost, and everybody who called over it."""
        for me, participant in list(self.people.items()):
            if participant.connection == connection:
                self._give_up_waiting(me, Code.USER_UNKNOWN)
                self._leave(me)
        self.serve()

    def _going_on_of(self, me: Name) -> list[Uow]:
        """Return what a participant is sending or receiving."""
        sending = [unit for unit in self.uows.values() if unit.status is Status.RECEIVED and is_same(me, unit.sender)]
        return sending + [unit for unit in self.uows.values() if self._is_received_by(me, unit)]

    def _is_received_by(self, me: Name, unit: Uow) -> bool:
        return unit.status is Status.DELIVERED and is_same(me, unit.receiver)

    def _back_out_of(self, me: Name) -> None:
        self._take_back(self._going_on_of(me))

    def _take_back(self, units: Sequence[Uow]) -> None:
        """Of what is received the first of each service, in either direction, has been tried, and nothing else."""
        tried: set[tuple[str, str]] = set()
        for unit in sorted(units, key=lambda unit: unit.turn):
            if unit.status is Status.RECEIVED:
                self._complete(unit, Status.BACKEDOUT)
            else:
                self._back_out(unit, is_tried=(unit.service, unit.side) not in tried)
                tried.add((unit.service, unit.side))

    def _leave(self, me: Name) -> None:
        self._back_out_of(me)
        for service in list(self.people[me].serves):
            self._unregister(me, service, Code.PARTNER_LOGGED_OFF)
        self.topics.leave(me)
        del self.people[me]
        for talk in self.talks.values():
            if me not in (talk.client, talk.server):
                continue
            side = CLIENT if me == talk.client else SERVER
            if side == SERVER and not me[1] and talk.kind == UNITS:
                talk.server, talk.is_assigned = None, False  # decided: nobody else is that instance
            is_left = any(unit.talk == talk.number for unit in self.uows.values())  # or a status, as at a restart
            if talk.kind == MESSAGES or not is_left:
                self._break_off(talk, side, Code.PARTNER_LOGGED_OFF)

    def _break_off(self, talk: Talk, side: str, told: Code) -> None:
        """Decided: who goes away ends its conversations, and takes messages with it."""
        talk.ended = talk.ended or (side, told)
        talk.messages = {CLIENT: [], SERVER: []}

    def talks_of(self, me: Name) -> list[Talk]:
        return [talk for talk in self.talks.values() if is_same(me, talk.client) or is_same(me, talk.server)]

    def _come_back(self, me: Name, talk: Talk, side: str) -> None:
        """Decided: who has no token is the client of a restored conversation from its first call about it."""
        if side == CLIENT and talk.client not in self.people:
            talk.client = me

    def _register(self, me: Name, ask: Ask) -> Answer:
        if ask.service not in self.services:
            raise Refused(Code.SERVICE_UNDEFINED)
        serves = self.people[me].serves
        if ask.service not in serves:
            serves.append(ask.service)
        self.people[me].quiesces.discard(ask.service)
        return {}

    def _deregister(self, me: Name, ask: Ask) -> Answer:
        if ask.option is Option.QUIESCE:
            self.people[me].quiesces.add(ask.service)
            return {}
        going_on = [unit for unit in self._going_on_of(me) if unit.service == ask.service]
        going_on = [unit for unit in going_on if is_same(me, self.talks[unit.talk].server)]
        if ask.option is not Option.IMMED and going_on:
            raise Refused(Code.DEREGISTER_NOT_COMPLETE)
        self._check_store_for_all(going_on)
        self._take_back(going_on)
        self._unregister(me, ask.service, Code.PARTNER_DEREGISTERED)
        return {}

    def _finish_quiescing(self) -> None:
        """Let go of servers that wanted to wait for the end of their conversations."""
        for me, participant in self.people.items():
            for service in list(participant.quiesces):
                mine = [talk for talk in self.talks.values() if talk.service == service and talk.server == me]
                if not any(self._goes_on(talk) for talk in mine):
                    self._unregister(me, service, Code.PARTNER_DEREGISTERED)

    def _goes_on(self, talk: Talk) -> bool:
        if talk.kind == UNITS:
            return bool(self._active_in(talk))
        return talk.ended is None or any(talk.messages.values())

    def _unregister(self, me: Name, service: str, told: Code) -> None:
        """A server serves no more: its conversations of messages end, and with the last one those that wait."""
        self.people[me].serves.remove(service)
        self.people[me].quiesces.discard(service)
        is_last = not any(service in participant.serves for participant in self.people.values())
        for talk in self.talks.values():
            if talk.service != service:
                continue
            is_mine = is_same(me, talk.server)
            if talk.kind == MESSAGES and (is_mine or (talk.server is None and is_last)):
                self._break_off(talk, SERVER, told)
            elif is_mine and not talk.is_assigned:
                talk.server = None
        self._give_up_waiting(me, Code.SERVICE_NOT_REGISTERED, service)

    # Sending.

    def _send(self, me: Name, ask: Ask) -> Answer:
        if ask.producer and (me[:2], ask.service, ask.producer) in self.producers:
            if self.contents[me[:2], ask.service, ask.producer] != [ask.body]:
                raise Refused(Code.PRODUCER_REUSED)
            return {}  # what was sent first is answered again, and nothing is added
        kind = MESSAGES if ask.option is Option.NONE else UNITS
        if ask.talk in (NEW, NONE):
            talk, side = self._new_talk(me, ask, kind), CLIENT
        else:
            talk, side = self._talk(me, ask.talk)
            self._check_goes_on(talk, side)
            self._come_back(me, talk, side)
            if talk.kind != kind:
                raise Refused(Code.UOW_IN_MESSAGE_CONVERSATION if kind == UNITS else Code.MESSAGE_IN_UOW_CONVERSATION)
        if kind == UNITS:
            return self._send_unit(me, ask, talk, side)
        self._keep(talk)
        if not talk.age:
            self._date(talk)
        talk.messages[side].append(ask.body)
        return {"talk": talk.number}

    def _new_talk(self, me: Name, ask: Ask, kind: str) -> Talk:
        terms = self.services.get(ask.service)
        if terms is None:
            raise Refused(Code.SERVICE_UNDEFINED)
        serving = [each for each in self.people.values() if ask.service in each.serves]
        is_served = any(ask.service not in each.quiesces for each in serving)
        if not is_served and not (kind == UNITS and terms.is_deferred):
            raise Refused(Code.SERVICE_NOT_REGISTERED)
        return Talk(0, kind, ask.service, me, is_single=ask.talk == NONE)

    def _keep(self, talk: Talk) -> None:
        if not talk.number:
            self.numbers += 1
            talk.number = self.numbers
            self.talks[talk.number] = talk

    def _date(self, talk: Talk) -> None:
        self.commits += 1
        talk.age, talk.begun = self.commits, talk.begun or self.now

    def _talk(self, me: Name, number: int | str) -> tuple[Talk, str]:
        """Return a conversation of mine, and which side of it I am."""
        talk = self.talks.get(number) if isinstance(number, int) else None
        if talk is not None and (is_same(me, talk.client) or is_same(me, talk.server)):
            talk.is_asleep = False
            return talk, CLIENT if is_same(me, talk.client) else SERVER
        raise Refused(Code.NO_CONVERSATION)

    def _check_goes_on(self, talk: Talk, side: str) -> None:
        if talk.ended is not None and talk.ended[0] != side:
            raise Refused(talk.ended[1])
        if talk.ended is not None:
            is_over = not self._active_in(talk)  # how long that is remembered nobody promises
            raise Refused(Code.AFTER_EOC, *[Code.NO_CONVERSATION] * is_over)

    def _send_unit(self, me: Name, ask: Ask, talk: Talk, side: str) -> Answer:
        unit = next((unit for unit in self._units_of(talk, side) if unit.status is Status.RECEIVED), None)
        if unit is None:
            unit = self._new_unit(me, ask, talk, side)
        elif ask.store is not Store.UNSAID and (ask.store is Store.BROKER) != unit.is_persistent:
            raise Refused(Code.WRONG_UOW_TYPE)  # STORE is said by the call that creates the unit of work
        elif len(unit.bodies) >= unit.terms.messages_max:  # which of several reasons is told nobody promises
            also = [*WITHOUT_STORE] * self.is_lost + [Code.NO_NEW_UOWS] * self.is_forbidden
            raise Refused(Code.MAX_MESSAGES, *(also if unit.is_stored else ()))
        if self.is_forbidden and unit.is_stored:
            raise Refused(Code.NO_NEW_UOWS, *[*WITHOUT_STORE] * self.is_lost)
        self._check_store([unit])
        if ask.option is Option.EOC and talk.number:
            self._check_may_end(talk, side, besides=unit)
            self._check_store_for_all(each for each in self._active_in(talk) if each.side == side)
        self._keep(talk)
        if not unit.number:
            self.numbers += 1
            unit.number, unit.talk = self.numbers, talk.number
            self.uows[unit.number] = unit
        if talk.is_assigned:
            self._write_server(talk)
        unit.bodies.append(ask.body)
        unit.ustatus = ask.ustatus or unit.ustatus
        if ask.option in (Option.COMMIT, Option.EOC):
            self._accept(unit)
        if ask.option is Option.EOC:
            talk.ended = (side, Code.PARTNER_FINISHED)
        if ask.producer:
            self.producers[me[:2], talk.service, ask.producer] = unit.number
            self.contents[me[:2], talk.service, ask.producer] = unit.bodies
        return self._shown(unit)

    def _new_unit(self, me: Name, ask: Ask, talk: Talk, side: str) -> Uow:
        terms = self.services[talk.service]
        if terms.uows_max is not None and len(list(self._active(talk.service))) >= terms.uows_max:
            raise Refused(Code.MAX_UOWS)
        lifetime = ask.uwtime or terms.uwtime
        multiple = {0: terms.uwstatp, 255: 0}.get(ask.uwstatp, ask.uwstatp)
        explicit = 0 if ask.uwstatp == 255 else ask.uwstat_lifetime
        has_status, is_for_ever = multiple > 0 or explicit > 0, multiple > 0 and not lifetime
        kept = 0 if is_for_ever else lifetime * multiple + explicit
        is_persistent = terms.is_persistent if ask.store is Store.UNSAID else ask.store is Store.BROKER
        unit = Uow(0, 0, side, me, is_persistent, has_status, lifetime, kept, 0, talk.service, terms)
        unit.created = self._clock_of(unit)
        return unit

    def _clock_of(self, unit: Uow) -> int:
        """The pseudo-clock is that of what the persistent store holds."""
        return self.clock if unit.is_stored else self.seconds

    def _check_store(self, units: Iterable[Uow]) -> None:
        """Refuse a call that changes what the store holds while it is not there."""
        for unit in units if self.is_lost else ():
            if unit.is_stored:
                raise Refused(Code.UOW_NOT_PERSISTED if unit.is_persistent else Code.STATUS_NOT_PERSISTED)

    def _check_store_for_all(self, units: Iterable[Uow]) -> None:
        if self.is_lost and any(unit.is_recorded for unit in units):
            raise Refused(*WITHOUT_STORE)

    def _units_of(self, talk: Talk, side: str) -> list[Uow]:
        return [unit for unit in self.uows.values() if unit.talk == talk.number and unit.side == side]

    def _active(self, service: str) -> Iterator[Uow]:
        for unit in self.uows.values():
            if unit.status not in COMPLETE and unit.service == service:
                yield unit

    def _active_in(self, talk: Talk) -> list[Uow]:
        return [unit for unit in self.uows.values() if unit.talk == talk.number and unit.status not in COMPLETE]

    # What becomes of a unit of work.

    def _accept(self, unit: Uow) -> None:
        unit.status = Status.ACCEPTED
        self.commits += 1
        unit.place = self.commits
        self.touched.add(unit.talk)
        if unit.is_persistent:
            self.persistent.add(unit.number)
        talk = self.talks[unit.talk]
        if not talk.age:
            self._date(talk)
            talk.age, talk.is_age_stored = unit.place, unit.is_persistent
            talk.is_of_store = unit.is_persistent

    def _complete(self, unit: Uow, status: Status) -> None:
        """Only a persistent status outlives the unit of work."""
        if self.talks[unit.talk].is_assigned:
            self._write_server(self.talks[unit.talk])
        unit.status, unit.bodies, unit.is_held, unit.back = status, [], False, 0
        unit.ends = self._clock_of(unit) + unit.status_lifetime if unit.status_lifetime else 0
        if not unit.has_status:
            self._forget(unit)

    def _forget(self, unit: Uow) -> None:
        del self.uows[unit.number]
        talk = self.talks.get(unit.talk)
        if talk is not None and talk.is_asleep:
            self._recall_server(talk)

    def _recall_server(self, talk: Talk) -> None:
        """What is restored has the server that is written with what is left, if it has a token."""
        mine = [unit for unit in self.uows.values() if unit.talk == talk.number]
        is_told = any(unit.tells_server for unit in mine)
        if talk.server is not None and not (talk.server[1] and talk.is_assigned and is_told):
            talk.server, talk.is_assigned = None, False
            for unit in mine:
                unit.tells_server = False

    def _write_server(self, talk: Talk) -> None:
        """Decided: what is written of a unit of work that goes on tells the server; a status is not written again."""
        for unit in self._active_in(talk):
            unit.tells_server = unit.side == CLIENT or is_same(unit.sender, talk.server)

    def is_doubtful(self, number: int) -> bool:
        """Nothing says whether a conversation goes on that no server has, when nothing of it is left.

        Nor that one which was ended before a restart, and of which only statuses are left, is remembered as ended.
        """
        talk = self.talks.get(number)
        is_left = any(unit.talk == number for unit in self.uows.values())
        if talk is None:
            return is_left
        return talk.kind == UNITS and not is_left and (talk.server is None or talk.is_asleep)

    def _back_out(self, unit: Uow, *, is_tried: bool = True) -> None:
        """By the receiver: it is available again, from its first message; once it was tried twice after a while."""
        talk = self.talks[unit.talk]
        unit.adcount += is_tried or self._times_out(unit)
        unit.read, unit.receiver = 0, None
        is_answering = any(answer.status is Status.RECEIVED for answer in self._units_of(talk, SERVER))
        if unit.side == CLIENT and not talk.is_assigned and not is_answering:  # decided: who answers keeps it
            talk.server = None
        terms = unit.terms
        is_over = is_tried and bool(terms.delivery_max) and unit.adcount >= (terms.delivery_max or 0)
        if is_over and not self._times_out(unit):
            if unit.postpones < terms.postpone_attempts:
                unit.postpones += 1
                unit.status, unit.back = Status.POSTPONED, self._clock_of(unit) + terms.postpone_delay
                return
            if not (unit.is_persistent and self.is_forbidden):  # decided: no new ones are made where there is no room
                self._bury(unit)
                return
        if is_tried and unit.adcount > 1 and terms.delivery_max != 0:
            unit.back = self._clock_of(unit) + min(0.1 * 2 ** (unit.adcount - 2), 60)
        self._available(unit)  # decided: a backout that ends in a time-out counts once

    def _bury(self, unit: Uow) -> None:
        """Its messages go to the dead letters, from where nobody here receives."""
        self.dead_letters.append((list(unit.bodies), unit.is_persistent))
        self._complete(unit, Status.CANCELLED)

    def _available(self, unit: Uow) -> None:
        """Accepted again, unless its lifetime is over, which it then is at once."""
        unit.status = Status.ACCEPTED
        self.touched.add(unit.talk)
        if self._times_out(unit):
            self._complete(unit, Status.TIMEOUT)

    def _times_out(self, unit: Uow) -> bool:
        """Say whether its lifetime is over; nothing that the store holds times out while it is away."""
        return self._is_overdue(unit) and not (self.is_lost and unit.is_stored)

    def _is_overdue(self, unit: Uow) -> bool:
        return bool(unit.lifetime) and self._clock_of(unit) >= unit.created + unit.lifetime

    # Receiving.

    def _receive(self, me: Name, ask: Ask, handle: int) -> Answer | None:
        try:
            return self._received(me, ask)
        except Refused as refused:
            waits = refused.code in NOTHING_YET or (refused.code in WITHOUT_STORE and ask.talk in (NEW, OLD, ANY))
            if not ask.wait or not waits or (ask.talk not in (NEW, OLD, ANY) and refused.code is Code.NO_CONVERSATION):
                raise
        self.waits.append((handle, ask, self.seconds + ask.wait))
        return None

    def serve(self) -> None:
        """Give who waits what there is; who came first is first."""
        touched, self.touched = self.touched, set()
        for handle, ask, until in list(self.waits):
            try:
                answer: Answer = {"code": Code.OK} | self._received(ask.who.name, ask, touched)
            except Refused as refused:
                if refused.code in (*NOTHING_YET, *WITHOUT_STORE):
                    continue
                answer = {"code": refused.codes}
            self.waits.remove((handle, ask, until))
            self.answers[handle] = answer
        self._finish_quiescing()

    def _received(self, me: Name, ask: Ask, touched: Collection[int] = ()) -> Answer:
        if ask.function is Function.RECEIVE_PUBLICATION:
            return self.topics.receive(me, ask)
        if ask.talk in (NEW, OLD, ANY):
            return self._received_of_any(me, ask, touched)
        talk, side = self._talk(me, ask.talk)
        if not self._active_in(talk) and not any(talk.messages.values()):
            self._check_goes_on(talk, side)
        if ask.option is not Option.ANY and (ask.option is Option.SYNC) != (talk.kind == UNITS):
            unfit = Code.MESSAGE_IN_UOW_CONVERSATION if talk.kind == UNITS else Code.UOW_IN_MESSAGE_CONVERSATION
            raise Refused(unfit)
        self._come_back(me, talk, side)
        return self._hand_out(me, ask, talk, side)

    def _received_of_any(self, me: Name, ask: Ask, touched: Collection[int]) -> Answer:
        """Old conversations first, and then new ones; of each the one whose first commit is the oldest."""
        kinds = {Option.SYNC: (UNITS,), Option.ANY: (UNITS, MESSAGES)}.get(ask.option, (MESSAGES,))
        serves = [ask.service] if ask.service else self.people[me].serves
        fit = [talk for talk in self.talks.values() if talk.service in serves and talk.kind in kinds]
        fit.sort(key=lambda talk: talk.age)
        old = [talk for talk in fit if is_same(me, talk.server)] if ask.talk != NEW else []
        new = [talk for talk in fit if talk.server is None and talk.service not in self.people[me].quiesces]
        new = [] if ask.talk == OLD else new
        codes: list[Code] = []
        is_unsure = False  # decided: whether one that is postponed, and was restored, waits nobody looks then
        for talk in old + new:
            try:
                is_unsure |= self.is_lost and talk.is_asleep and self._is_postponed(talk)
                if self.is_lost and talk.is_of_store and talk.number not in touched:
                    self._next_unit(talk, SERVER)
                    raise Refused(Code.UOW_NOT_PERSISTED)
                return self._hand_out(me, ask, talk, SERVER)
            except Refused as refused:
                codes.append(refused.code)
        if any(code in WITHOUT_STORE for code in codes):
            raise Refused(*WITHOUT_STORE)
        if is_unsure:
            raise Refused(Code.NO_CONVERSATION, Code.NO_UOWS, *WITHOUT_STORE)
        if ask.talk != OLD or not any(talk.ended is None or self._active_in(talk) for talk in old):
            raise Refused(Code.NO_CONVERSATION)
        if Code.END_OF_UOW in codes and not ask.wait:
            raise Refused(Code.END_OF_UOW)
        is_empty = all(talk.is_asleep for talk in old)  # who is to remember those?
        raise Refused(Code.NO_MESSAGE if MESSAGES in kinds else Code.NO_UOWS, *[Code.NO_CONVERSATION] * is_empty)

    def _is_postponed(self, talk: Talk) -> bool:
        return any(unit.status is Status.POSTPONED for unit in self._units_of(talk, CLIENT))

    def _hand_out(self, me: Name, ask: Ask, talk: Talk, side: str) -> Answer:
        stat = ConvStat.OLD if side == CLIENT or talk.server is not None else ConvStat.NEW
        told: Answer = {"talk": talk.number, "stat": stat}
        if talk.kind == MESSAGES:
            return told | self._hand_out_message(me, talk, side)
        unit = self._next_unit(talk, side)
        if self.is_lost and unit.is_stored:
            raise Refused(*WITHOUT_STORE)
        if unit.status is Status.ACCEPTED:
            unit.status, unit.receiver, unit.read = Status.DELIVERED, me, 0
            self.deliveries += 1
            unit.turn, unit.back = self.deliveries, 0
            if side == SERVER:
                talk.server = me
        talk.is_asleep = False
        unit.ustatus = ask.ustatus or unit.ustatus
        body = unit.bodies[unit.read]
        unit.read += 1
        is_first, is_last = unit.read == 1, unit.read == len(unit.bodies)
        told |= {"status": PLACES[is_first, is_last], "body": body}
        told |= {"begun": shown_time(talk.begun)} if talk.is_begun_known else {}
        return self._shown(unit) | told | ({"from": unit.sender[0]} if side == SERVER else {})

    def _next_unit(self, talk: Talk, side: str) -> Uow:
        """Return the unit of work that a side of the conversation receives from."""
        units = sorted(self._units_of(talk, other(side)), key=lambda unit: unit.place)
        for unit in units:
            if unit.status is Status.DELIVERED:
                if unit.read == len(unit.bodies):
                    raise Refused(Code.END_OF_UOW)
                return unit
        for unit in units:
            if unit.is_held or unit.back > self._clock_of(unit):  # decided: it holds up those after it
                raise Refused(Code.NO_UOWS)
            if unit.status is Status.ACCEPTED:
                return unit
        self._check_goes_on(talk, side)
        raise Refused(Code.NO_UOWS)

    def _hand_out_message(self, me: Name, talk: Talk, side: str) -> Answer:
        waiting = talk.messages[other(side)]
        if not waiting:
            self._check_goes_on(talk, side)
            raise Refused(Code.NO_MESSAGE)
        if side == SERVER:
            talk.server = me
        body = waiting.pop(0)
        if talk.is_single:
            del self.talks[talk.number]
            return {"status": Reception.RECV_NONE, "body": body, "stat": ConvStat.NONE}
        return {"status": Reception.RECV_NONE, "body": body}

    # SYNCPOINT.

    def _syncpoint(self, me: Name, ask: Ask) -> Answer:
        if ask.option is Option.LAST:
            return self._last(me, ask)
        if ask.uow == BOTH:
            return self._commit_both(me, ask)
        unit = self.uows.get(ask.uow) if isinstance(ask.uow, int) else None
        if unit is None:
            raise Refused(Code.UOW_NOT_FOUND)
        self._wake(unit)
        is_sender, is_receiver = me[:2] == unit.sender[:2], is_same(me, unit.receiver)
        if not is_sender and unit.status in COMPLETE:  # nothing says how long its receiver is known
            is_query = ask.option is Option.QUERY
            return {"code": (Code.NOT_THE_CREATOR, Code.OK if is_query else Code.WRONG_STATUS)}
        if not is_sender and not (is_receiver and ask.option not in (Option.DELETE, Option.EOC, Option.EOCCANCEL)):
            raise Refused(Code.NOT_THE_CREATOR)
        if ask.option is Option.QUERY:
            return self._shown(unit) | {"service": unit.service}
        if ask.option is Option.DELETE:
            return self._delete(unit)
        if ask.option is Option.SETUSTATUS:
            return self._set_user_status(unit, ask.ustatus)
        move = self._move_of(unit, ask.option, is_sender, is_receiver)
        self._check_store([unit] if unit.is_recorded or ask.option is not Option.BACKOUT else [])
        if ask.option is Option.COMMIT:
            self._check_binding(unit)
        elif ask.option in (Option.EOC, Option.EOCCANCEL):
            self._check_store_for_all(each for each in self._active_in(self.talks[unit.talk]) if each.side == unit.side)
        unit.ustatus = ask.ustatus or unit.ustatus
        move(unit)
        return self._shown(unit)

    def _wake(self, unit: Uow) -> None:
        if unit.status not in COMPLETE:
            self.talks[unit.talk].is_asleep = False

    def _delete(self, unit: Uow) -> Answer:
        if unit.status not in COMPLETE:
            raise Refused(Code.WRONG_STATUS)
        if self.is_lost:
            raise Refused(Code.STATUS_NOT_PERSISTED)
        self._forget(unit)
        return {}

    def _set_user_status(self, unit: Uow, ustatus: str) -> Answer:
        if unit.status not in (Status.RECEIVED, Status.ACCEPTED, Status.DELIVERED):
            raise Refused(Code.WRONG_STATUS)
        self._check_store([unit] if unit.is_recorded else [])
        unit.ustatus = ustatus
        return self._shown(unit)

    def _move_of(self, unit: Uow, option: Option, is_sender: bool, is_receiver: bool) -> Any:
        """Return what the option does, as the table of SYNCPOINT's options says."""
        by_sender = {
            (Option.COMMIT, Status.RECEIVED): self._accept,
            (Option.EOC, Status.RECEIVED): lambda unit: self._accept_and_end(unit, Code.PARTNER_FINISHED),
            (Option.EOCCANCEL, Status.RECEIVED): lambda unit: self._accept_and_end(unit, Code.PARTNER_CANCELLED),
            (Option.BACKOUT, Status.RECEIVED): lambda unit: self._complete(unit, Status.BACKEDOUT),
            (Option.CANCEL, Status.ACCEPTED): lambda unit: self._complete(unit, Status.CANCELLED),
            (Option.CANCEL, Status.POSTPONED): lambda unit: self._complete(unit, Status.CANCELLED),
        }
        by_receiver = {
            (Option.COMMIT, Status.DELIVERED): lambda unit: self._take_in(unit, Status.PROCESSED),
            (Option.BACKOUT, Status.DELIVERED): self._back_out,
            (Option.CANCEL, Status.DELIVERED): lambda unit: self._take_in(unit, Status.CANCELLED),
        }
        if is_receiver and (option, unit.status) in by_receiver:
            return by_receiver[option, unit.status]
        if is_sender and (option, unit.status) in by_sender and not unit.is_held:
            if unit.status is Status.RECEIVED and option is not Option.BACKOUT:
                self._check_goes_on(self.talks[unit.talk], unit.side)  # decided: there is nobody to receive it
            if option in (Option.EOC, Option.EOCCANCEL):
                self._check_may_end(self.talks[unit.talk], unit.side, besides=unit)
            return by_sender[option, unit.status]
        raise Refused(Code.WRONG_STATUS)

    def _check_binding(self, unit: Uow) -> None:
        """The receiver's first commit is written to what else there is of the conversation."""
        if unit.status is Status.DELIVERED and unit.side == CLIENT and not self.talks[unit.talk].is_assigned:
            self._check_store_for_all(each for each in self._active_in(self.talks[unit.talk]) if each is not unit)

    def _take_in(self, unit: Uow, status: Status) -> None:
        """By the receiver: after its first commit the conversation is this instance's."""
        if unit.side == CLIENT and status is Status.PROCESSED:
            self.talks[unit.talk].is_assigned = True
            self._write_server(self.talks[unit.talk])
        self._complete(unit, status)

    def _accept_and_end(self, unit: Uow, told: Code) -> None:
        self._accept(unit)
        self.talks[unit.talk].ended = (unit.side, told)

    def _last(self, me: Name, ask: Ask) -> Answer:
        own = [unit for unit in self.uows.values() if unit.sender[:2] == me[:2] and ask.talk in ("", unit.talk)]
        if not own:
            raise Refused(Code.UOW_NOT_FOUND)
        unit = max(own, key=lambda unit: unit.number)
        self._wake(unit)
        return self._shown(unit) | {"service": unit.service}

    def _commit_both(self, me: Name, ask: Ask) -> Answer:
        mine = [unit for unit in self.uows.values() if ask.talk in ("", unit.talk)]
        received = [unit for unit in mine if self._is_received_by(me, unit)]
        sent = [unit for unit in mine if unit.status is Status.RECEIVED and is_same(me, unit.sender)]
        if len(received) != 1 or len(sent) != 1:
            raise Refused(Code.UOWS_NOT_FOUND)
        if received[0].is_persistent != sent[0].is_persistent:
            raise Refused(Code.MISMATCHED_STORE)
        self._check_goes_on(self.talks[sent[0].talk], sent[0].side)
        self._check_store([sent[0], received[0]])
        self._check_binding(received[0])
        self._take_in(received[0], Status.PROCESSED)
        self._accept(sent[0])
        sent[0].ustatus = ask.ustatus or sent[0].ustatus
        return self._shown(sent[0])

    def _shown(self, unit: Uow) -> Answer:
        return {
            "talk": unit.talk,
            "uow": unit.number,
            "status": unit.status,
            "ustatus": unit.ustatus,
            "adcount": unit.adcount,
            "store": Store.BROKER if unit.is_persistent else Store.OFF,
            "held": unit.is_held,
        }

    # What is held.

    def _decide(self, ask: Ask) -> Answer:
        """Do to held units of work what an operator says; where one of them is not held, nothing."""
        units = []
        for number in dict.fromkeys(ask.held):
            unit = self.uows.get(number) if isinstance(number, int) else None
            if unit is None:
                raise Refused(Code.UOW_NOT_FOUND)
            if not unit.is_held:
                raise Refused(Code.WRONG_STATUS)
            units.append(unit)
        self._check_store(units)
        for unit in units:
            self._wake(unit)
            if ask.function is Order.RELEASE:
                self._release(unit)
            else:
                self._complete(unit, Status.PROCESSED if ask.function is Order.CONFIRM else Status.DISCARDED)
                self.touched.add(unit.talk)
        return {}

    def _release(self, unit: Uow) -> None:
        """It waits again where it did, and what is left of its lifetime and its delay begins to pass."""
        passed = self.clock - self.topics.held_since
        unit.is_held = False
        unit.created += passed
        unit.back += passed if unit.back else 0
        self.touched.add(unit.talk)

    def _hold(self, *, goes_on: bool) -> None:
        """Hold all that waits: with what was held before, it has no less of its lifetime left than it had."""
        waiting = [unit for unit in self.uows.values() if unit.status in (Status.ACCEPTED, Status.POSTPONED)]
        waiting = [unit for unit in waiting if unit.is_persistent]
        since = min(self.topics.held_since, self.clock) if goes_on else self.clock
        for unit in waiting:
            unit.is_held = True
        is_any = self.topics.hold() or bool(waiting)
        self.topics.held_since = since if is_any else NEVER

    def held(self) -> tuple[set[int], set[tuple[int, str, str]]]:
        """Return what is held: units of work, and publications with USER-ID and TOKEN of who does not get them."""
        return {unit.number for unit in self.uows.values() if unit.is_held}, self.topics.held()

    # The end of conversations.

    def _check_may_end(self, talk: Talk, side: str, besides: Uow | None = None) -> None:
        units = [unit for unit in self._active_in(talk) if unit is not besides]
        own = [unit for unit in units if unit.side == side and unit.status is Status.RECEIVED]
        partners = [unit for unit in units if unit.side != side]
        if own or any(unit.status is Status.DELIVERED for unit in partners):
            raise Refused(Code.MUST_BACK_OUT)
        if any(unit.status in (Status.ACCEPTED, Status.POSTPONED) for unit in partners):
            raise Refused(Code.UNREAD_UOW)

    def _end(self, me: Name, ask: Ask) -> Answer:
        talk, side = self._talk(me, ask.talk)
        self._check_goes_on(talk, side)
        self._come_back(me, talk, side)
        if talk.kind == UNITS:
            self._check_may_end(talk, side)
            self._check_store_for_all(unit for unit in self._active_in(talk) if unit.side == side)
        cancels = ask.option is Option.CANCEL
        talk.ended = (side, Code.PARTNER_CANCELLED if cancels else Code.PARTNER_FINISHED)
        talk.messages[other(side)] = []
        if cancels:
            talk.messages[side] = []
        return {}

    def _undo(self, me: Name, ask: Ask) -> Answer:
        talk, side = self._talk(me, ask.talk)
        self._check_goes_on(talk, side)
        self._come_back(me, talk, side)
        if talk.kind == UNITS:
            raise Refused(Code.MESSAGE_IN_UOW_CONVERSATION)
        if ask.option is Option.LAST:
            if not talk.messages[side]:
                raise Refused(Code.LAST_MESSAGE_NOT_FOUND)
            talk.messages[side].pop()
        else:
            talk.messages[side] = []
        return {}

    # Time, the store, restarts.

    def tick(self, seconds: int, spared: Container[int] = ()) -> None:
        """Time passes; on the pseudo-clock only while the store is there. Some units of work are not looked at yet."""
        self.seconds += seconds
        if not self.is_lost:
            self.clock += seconds
            self.unwritten = 0
        self.topics.clock, self.topics.seconds = self.clock, self.seconds
        self.topics.tick()
        for unit in list(self.uows.values()):
            if (self.is_lost and unit.is_stored) or unit.is_held or unit.number in spared:
                continue
            if unit.status in COMPLETE and unit.ends and self._clock_of(unit) >= unit.ends:
                self._forget(unit)
            is_back = unit.status is Status.POSTPONED and self._clock_of(unit) >= unit.back
            if unit.status is Status.ACCEPTED and unit.back and self._clock_of(unit) >= unit.back:
                unit.back = 0
                self.touched.add(unit.talk)
            if unit.status is Status.ACCEPTED or is_back:
                unit.adcount += self._is_overdue(unit)
                self._available(unit)
        for handle, ask, until in list(self.waits):
            if self.seconds >= until:
                self.waits.remove((handle, ask, until))
                self.answers[handle] = {"code": Code.WAIT_TIMED_OUT}
        self.serve()

    def lose(self) -> None:
        """The store is not there; what goes on without it the store does not hear of."""
        self.stored = copy.deepcopy(self)
        self.is_lost = self.topics.is_lost = True

    def find(self) -> None:
        """It is there again; what the clock was when it was lost is written with the next tick."""
        if self.stored is not None:
            self.unwritten = self.clock - self.stored.clock + self.stored.unwritten
        self.stored = None
        self.is_lost = self.topics.is_lost = False
        self.topics.sweep()
        self.serve()

    def forbid(self, *, is_forbidden: bool) -> None:
        """No new persistent units of work and publications, or all again."""
        self.is_forbidden = self.topics.is_forbidden = is_forbidden

    def restart(self, *, is_restored: bool = False, goes_on: bool = False) -> None:
        """The broker is started on what its store holds: both restart tables.

        Where that was restored from a backup, all that waits is held; `goes_on` says that an earlier hold is not over.
        """
        if self.stored is not None:
            self.__dict__ = copy.deepcopy(self.stored).__dict__ | {"now": self.now, "numbers": self.numbers}
        self.clock -= self.unwritten
        self.unwritten, self.topics.clock = 0, self.clock
        self.people, self.waits, self.answers = {}, [], {}
        self.is_lost = self.is_forbidden = False
        self.topics.restart()
        self.dead_letters = [(bodies, is_persistent) for bodies, is_persistent in self.dead_letters if is_persistent]
        self.producers = {key: number for key, number in self.producers.items() if number in self.persistent}
        for unit in list(self.uows.values()):
            if unit.status is Status.DELIVERED and unit.is_persistent:
                unit.status, unit.receiver, unit.read = Status.ACCEPTED, None, 0
            if unit.status in COMPLETE or (unit.is_persistent and unit.status is not Status.RECEIVED):
                continue
            self._complete(unit, Status.BACKEDOUT if unit.is_persistent else Status.DISCARDED)
        kept = {unit.talk for unit in self.uows.values()}
        over = {number for number, talk in self.talks.items() if talk.ended is not None and not self._active_in(talk)}
        self.talks = {number: talk for number, talk in self.talks.items() if number in kept - over}
        for talk in self.talks.values():
            talk.client, talk.is_asleep, talk.is_of_store = (*talk.client[:2], 0), True, True
            if not talk.is_age_stored:  # decided: its first unit of work is lost, and what is left makes its age
                left = [unit for unit in self._active_in(talk) if unit.side == CLIENT] or self._active_in(talk)
                talk.age = min((unit.place for unit in left), default=0)
                talk.is_begun_known = False
            self._recall_server(talk)
        if is_restored:
            self._hold(goes_on=goes_on)
        self.tick(0)  # what is over by now is seen at once

    def stored_messages(self) -> int:
        """Return how many messages the store holds."""
        return (
            sum(
                len(unit.bodies)
                for unit in self.uows.values()
                if unit.is_persistent and unit.status not in (*COMPLETE, Status.RECEIVED)
            )
            + sum(len(bodies) for bodies, is_persistent in self.dead_letters if is_persistent)
            + self.topics.stored_messages()
        )

    def stored_uows(self) -> dict[int, Status]:
        """Return the units of work that the store has a record of, with their statuses where those are kept."""
        written = [unit for unit in self.uows.values() if unit.is_stored]
        found = {unit.number: unit.status for unit in written if unit.has_status or unit.status is not Status.RECEIVED}
        letters = [bodies for bodies, is_persistent in self.dead_letters if is_persistent]
        return found | {-1 - at: Status.ACCEPTED for at, _ in enumerate(letters)}  # nobody knows their identifiers


def shown_time(now: int) -> str:
    """Return a time as COMMITTIME shows it."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now)
    return f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03}"
