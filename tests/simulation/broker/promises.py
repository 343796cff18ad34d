"""What clients were promised, kept from their calls and answers alone: knows neither the kernel nor its model.

A unit of work is certain once its sender was told that it is committed, and over once its receiver was told so. What
was asked for and not answered, or refused since the store was lost, may be either. What is certain and not over must
be in the store, whole; what lies there must belong to something.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from oms_journal.broker.block import Function, Option, Reception, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.records import PUBLICATION, PUBLICATIONS, UOW, UOWS, PublicationRecord, Status, UowRecord
from oms_journal.broker.store.start import MessageUnreadable
from oms_journal.broker.store.start import PersistentStore as StorePort
from tests.simulation.world import PromiseBroken, Seen
from tests.support.broker.model import COMPLETE, WITHOUT_STORE
from tests.support.broker.oracle_desk import SERVICES, TOPICS, Said
from tests.support.broker.words import BOTH, NEW, Ask, Name, Order

THERE = "an acknowledged unit of work is there, whole"
NEWS_THERE = "an acknowledged publication is there for its durable subscribers, whole"
NOTHING_OVER = "no message is in the store that belongs to nothing"
NOT_BEFORE = "no message is handed out before its commit"
NOT_AFTER = "no message is handed out after its receiver's commit"
IN_ORDER = "the messages of a unit of work are handed out in their order, as they were sent"
NOT_HELD = "what is held is handed out to nobody before its release"
TWICE = "what a lost broker has handed out comes again only once that was released"
NOT_DISCARDED = "what was discarded is handed out to nobody"
IN_TURN = "the units of work of a conversation are handed out in the order of their commits"
NEW_NUMBERS = "an identifier is never given twice"
NO_REPEAT = "a repeat of a producer's identifier adds nothing"

Reader = tuple[str, str]  # USER-ID, TOKEN
NO_READER = ("", "")
AnyRecord = UowRecord | PublicationRecord
_COMMITS = (Option.COMMIT, Option.EOC, Option.EOCCANCEL)


@dataclass(slots=True)
class Unit:
    """A unit of work, as its people were told."""

    conv_id: str
    sender: Name
    is_stored: bool  # it is persistent
    lives_on: bool  # and has no lifetime
    bodies: list[bytes] = field(default_factory=list)
    is_certain: bool = False  # its commit was acknowledged
    may_be_committed: bool = False
    is_over: bool = False  # acknowledged by its receiver, or taken back
    may_be_over: bool = False
    place: int = 0  # in the order of commits
    handed_out: int = 0  # messages, of this delivery
    times: int = 0  # it was delivered
    is_vague: bool = False  # whether it has another message nobody was told
    is_held: bool = False  # since the store was restored, until its release was asked for
    is_discarded: bool = False


@dataclass(slots=True)
class News:
    """A publication, and the durable subscribers that were there when it was committed."""

    topic: str
    bodies: list[bytes] = field(default_factory=list)
    is_certain: bool = False
    readers: set[tuple[str, str]] = field(default_factory=set)  # that have not acknowledged it
    held_for: set[tuple[str, str]] = field(default_factory=set)  # until its release was asked for
    may_be_held_for: set[tuple[str, str]] = field(default_factory=set)  # until its release was answered
    discarded_for: set[tuple[str, str]] = field(default_factory=set)
    is_vague: bool = False


class Promises:
    """What was promised so far."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.units: dict[str, Unit] = {}
        self.news: dict[str, News] = {}
        self.subscribed: dict[str, set[tuple[str, str]]] = {}  # durably, by topic
        self.producers: dict[tuple[Name, str, str], str] = {}
        self.perhaps_sent: set[tuple[Name, str, str]] = set()  # with a producer's identifier, and not answered
        self.reading: dict[Name, set[str]] = {}  # units of work that somebody is receiving
        self.places = 0
        self.handed: set[tuple[str, Reader]] = set()  # units of work, and publications with their readers
        self.lent: set[tuple[str, Reader]] = set()  # likewise, by brokers whose store is lost, and not released since
        self.spent: set[str] = set()  # identifiers of units of work, conversations and publications that those gave

    def hold(self, is_so: bool, promise: str, found: object) -> None:
        """Hold a promise against what was found."""
        self.seen.checked[promise] += 1
        if not is_so:
            raise PromiseBroken(f"{promise}\n{found}")

    # What clients hear.

    def hear(self, ask: Ask, said: Said) -> None:
        """Take in an answer."""
        code = said.reply.code
        if code in WITHOUT_STORE:
            self.unheard(ask)
        elif code is Code.OK:
            rooms = {
                Function.SEND: self._sent,
                Function.RECEIVE: self._received,
                Function.SYNCPOINT: self._synced,
                Function.SUBSCRIBE: self._subscribed,
                Function.UNSUBSCRIBE: self._unsubscribed,
                Function.SEND_PUBLICATION: self._published,
                Function.RECEIVE_PUBLICATION: self._read,
                Function.CONTROL_PUBLICATION: self._controlled,
            }
            if isinstance(ask.function, Order):
                self._decided(ask)
            elif ask.function in rooms:
                rooms[ask.function](ask, said)

    def _sent(self, ask: Ask, said: Said) -> None:
        uowid = said.reply.uowid
        if ask.option is Option.NONE or not uowid:
            return
        key = (ask.who.name, ask.service, ask.producer)
        if ask.producer and key in self.producers:
            self.hold(self.producers[key] == uowid, NO_REPEAT, f"{ask} is answered {uowid}")
            return
        unit = self.units.get(uowid)
        if unit is None:
            unit = self.units[uowid] = self._unit(ask, said, is_repeat=key in self.perhaps_sent)
        else:
            is_same = unit.sender[:2] == ask.who.name[:2] and not unit.is_certain and not unit.is_over
            self.hold(is_same, NEW_NUMBERS, f"{ask} is answered {uowid}, which was committed or another's")
        if ask.producer:
            self.producers[key] = uowid
        unit.bodies.append(ask.body)
        if ask.option in _COMMITS:
            self._commit(unit)

    def _unit(self, ask: Ask, said: Said, *, is_repeat: bool) -> Unit:
        """Return a unit of work that nobody was told of; of one that was sent before a receiver may have been."""
        conv_id, is_stored = said.reply.conv_id, said.reply.store is Store.BROKER
        of_talk = [unit for unit in self.units.values() if unit.conv_id == conv_id]
        is_new = self.spent.isdisjoint((said.reply.uowid, *([conv_id] if ask.talk == NEW else []))) and not (
            of_talk and ask.talk == NEW
        )
        self.hold(is_new or is_repeat, NEW_NUMBERS, f"{ask} is answered {said.reply.uowid} of {conv_id}")
        terms = SERVICES.get(ask.service or said.reply.service)
        has_lifetime = bool(ask.uwtime) or terms is None or bool(terms.uwtime)
        lives_on = is_stored and not has_lifetime
        return Unit(conv_id, ask.who.name, is_stored, lives_on, may_be_over=is_repeat, is_vague=is_repeat)

    def _commit(self, unit: Unit) -> None:
        self.places += 1
        unit.is_certain, unit.place = True, self.places

    def _received(self, ask: Ask, said: Said) -> None:
        unit = self.units.get(said.reply.uowid)
        if unit is None or said.body is None:
            return
        told = f"{ask} is answered {said.reply.uowid} {said.body!r}"
        self.hold(unit.is_certain or unit.may_be_committed, NOT_BEFORE, told)
        self.hold((said.reply.uowid, NO_READER) not in self.lent, TWICE, told)
        self.hold(not unit.is_held, NOT_HELD, told)
        self.hold(not unit.is_discarded, NOT_DISCARDED, told)
        self.hold(not unit.is_over, NOT_AFTER, told)
        if said.reply.uow_status in (Reception.RECV_FIRST, Reception.RECV_ONLY):
            unit.handed_out = 0
            self._check_turn(unit, told)
            unit.times += 1
        at, unit.handed_out = unit.handed_out, unit.handed_out + 1
        is_next = at < len(unit.bodies) and unit.bodies[at] == said.body
        self.hold(is_next or unit.is_vague, IN_ORDER, f"{told}, after {at} of it")
        self.reading.setdefault(ask.who.name, set()).add(said.reply.uowid)
        self.handed.add((said.reply.uowid, NO_READER))

    def _check_turn(self, unit: Unit, told: str) -> None:
        before = [
            other
            for other in self.units.values()
            if (other.conv_id, other.sender[:2]) == (unit.conv_id, unit.sender[:2])
            and other.is_certain
            and unit.is_certain
            and other.place < unit.place
            and other.lives_on
            and not (other.is_over or other.may_be_over or other.times > 1)  # it may be a dead letter
        ]
        self.hold(not before, IN_TURN, f"{told}, and not {before}")

    def _synced(self, ask: Ask, said: Said) -> None:
        if ask.uow == BOTH:
            for uowid in self.reading.pop(ask.who.name, set()):
                self.units[uowid].may_be_over = True
        unit = self.units.get(said.reply.uowid)
        if unit is None or ask.option in (Option.QUERY, Option.LAST, Option.SETUSTATUS):
            return
        status = said.reply.uow_status
        if ask.option is Option.BACKOUT and status is not Status.BACKEDOUT:
            unit.handed_out = 0
        elif ask.option in _COMMITS and not unit.is_certain and status not in COMPLETE:
            self._commit(unit)
        else:
            unit.is_over = True
        for mine in self.reading.values():
            mine.discard(said.reply.uowid)

    # Publish and subscribe: topics without a lifetime.

    def _subscribed(self, ask: Ask, _: Said) -> None:
        if ask.option is Option.DURABLE:
            self.subscribed.setdefault(ask.topic, set()).add(ask.who.name[:2])

    def _unsubscribed(self, ask: Ask, _: Said) -> None:
        self._let_go(ask)

    def _let_go(self, ask: Ask) -> None:
        self.subscribed.get(ask.topic, set()).discard(ask.who.name[:2])
        for news in self.news.values():
            if news.topic == ask.topic:
                news.readers.discard(ask.who.name[:2])
                news.held_for.discard(ask.who.name[:2])
                news.may_be_held_for.discard(ask.who.name[:2])

    def _published(self, ask: Ask, said: Said) -> None:
        identifier = said.reply.publication_id
        is_new = identifier in self.news or identifier not in self.spent
        self.hold(is_new, NEW_NUMBERS, f"{ask} is answered {identifier}")
        news = self.news.setdefault(identifier, News(ask.topic))
        news.bodies.append(ask.body)
        if ask.option is Option.COMMIT:
            self._publish(news)

    def _publish(self, news: News) -> None:
        news.is_certain = True
        news.readers |= self.subscribed.get(news.topic, set())

    def _read(self, ask: Ask, said: Said) -> None:
        news = self.news.get(said.reply.publication_id)
        if news is not None and said.body is not None:
            told = f"{ask} is answered {said.reply.publication_id} {said.body!r}"
            self.hold((said.reply.publication_id, ask.who.name[:2]) not in self.lent, TWICE, told)
            self.hold(ask.who.name[:2] not in news.held_for, NOT_HELD, told)
            self.hold(ask.who.name[:2] not in news.discarded_for, NOT_DISCARDED, told)
            self.handed.add((said.reply.publication_id, ask.who.name[:2]))

    def _controlled(self, ask: Ask, said: Said) -> None:
        news = self.news.get(said.reply.publication_id or str(ask.publication))
        if news is None or ask.option not in (Option.COMMIT, Option.BACKOUT):
            return
        if not news.is_certain and ask.option is Option.COMMIT:
            self._publish(news)
        elif ask.option is Option.COMMIT:
            news.readers.discard(ask.who.name[:2])

    # What is held, since the store was restored.

    def hold_back(self) -> None:
        """All that may wait is held, whoever had it."""
        self.lent |= self.handed
        for unit in self.units.values():
            unit.is_held = not unit.is_over
        for news in self.news.values():
            news.held_for, news.may_be_held_for = set(news.readers), set(news.readers)

    def follow(self, lost: "Promises") -> None:
        """Go on after another broker whose store is lost: what it gave and handed out, its clients have."""
        self.spent = lost.spent | {*lost.units, *(unit.conv_id for unit in lost.units.values()), *lost.news}
        self.spent -= {*self.units, *(unit.conv_id for unit in self.units.values()), *self.news}
        self.handed = lost.handed | lost.lent

    def copied(self) -> "Promises":
        """Return what was promised so far, to be gone back to."""
        return copy.deepcopy(self, {id(self.seen): self.seen})

    def _decided(self, ask: Ask, *, is_certain: bool = True) -> None:
        """What is discarded is handed out as little as what is held: whoever has asked for it, it was not released."""
        if ask.function is Order.RELEASE:
            self.lent -= {(str(uowid), NO_READER) for uowid in ask.held}
        for unit in (self.units[uowid] for uowid in map(str, ask.held) if uowid in self.units):
            if ask.function is Order.RELEASE:
                unit.is_held = False
            else:
                unit.is_over |= is_certain
                unit.is_discarded |= is_certain
                unit.may_be_over = True
        for identifier, news in self.news.items():
            if ask.topic != news.topic or (ask.held and identifier not in ask.held):
                continue
            is_meant = bool(ask.held) or ask.reader in news.held_for
            if ask.function is Order.RELEASE:
                news.held_for.discard(ask.reader)
                self.lent.discard((identifier, ask.reader))
            elif is_meant or ask.reader in news.may_be_held_for:
                news.readers.discard(ask.reader)
                if is_meant and is_certain:
                    news.discarded_for.add(ask.reader)
            if is_certain:
                news.may_be_held_for.discard(ask.reader)

    # What nobody hears.

    def unheard(self, ask: Ask) -> None:
        """Take in a call that was not answered, or of which nobody knows whether the store has it."""
        if isinstance(ask.function, Order):
            self._decided(ask, is_certain=False)
        if ask.function is Function.SEND and ask.producer:
            self.perhaps_sent.add((ask.who.name, ask.service, ask.producer))
        mine = [unit for unit in self.units.values() if not unit.is_certain and unit.sender[:2] == ask.who.name[:2]]
        if ask.function in (Function.SEND, Function.SYNCPOINT):
            for unit in mine:
                unit.may_be_committed = unit.is_vague = True
        if ask.function is Function.SYNCPOINT:
            for uowid in {str(ask.uow), *self.reading.get(ask.who.name, ())}:
                if uowid in self.units:
                    self.units[uowid].may_be_over = True
        elif ask.function in (Function.UNSUBSCRIBE, Function.SUBSCRIBE):
            self._let_go(ask)
        elif ask.function is Function.SEND_PUBLICATION and str(ask.publication) in self.news:
            self.news[str(ask.publication)].is_vague = True
        elif ask.function is Function.CONTROL_PUBLICATION and str(ask.publication) in self.news:
            self.news[str(ask.publication)].readers.discard(ask.who.name[:2])

    def restart(self) -> None:
        """The broker was started again: what was not committed is no more, and what was being received comes again."""
        self.reading = {}
        self.producers = {key: uowid for key, uowid in self.producers.items() if self.units[uowid].is_stored}
        for unit in self.units.values():
            unit.is_over |= not (unit.is_certain or unit.may_be_committed)
            unit.handed_out = 0

    # What the store holds.

    def check(self, store: StorePort) -> None:
        """Hold what was promised against a store that nothing has damaged."""
        units, news = units_in(store), news_in(store)
        letters = dead_letters_in(store, units)
        for uowid, unit in self.certain_units():
            found = bodies_in(store, units.get(uowid)) or bodies_in(store, letters.get(uowid))
            self.hold(found == unit.bodies, THERE, f"{uowid} is {units.get(uowid)} with {found} and not {unit.bodies}")
        for identifier, one in self.certain_news():
            found = bodies_in(store, news.get(identifier))
            self.hold(found == one.bodies, NEWS_THERE, f"{identifier} is {news.get(identifier)} with {found}")
        for uowid in letters:
            twice = numbers_of(units.get(uowid))
            self.hold(not twice, THERE, f"{uowid} is a dead letter, and still has the messages {twice}")
        owned: set[int] = set()
        for unit_record in units.values():
            owned.update(numbers_of(unit_record))
        for news_record in news.values():
            owned.update(numbers_of(news_record))
        there = {message.number for message in store.messages()}
        self.hold(there == owned, NOTHING_OVER, f"messages {sorted(there ^ owned)}")

    def certain_units(self) -> Iterator[tuple[str, Unit]]:
        """Yield what must be in the store."""
        for uowid, unit in self.units.items():
            if unit.is_certain and unit.lives_on and not (unit.is_over or unit.may_be_over or unit.is_vague):
                yield uowid, unit

    def certain_news(self) -> Iterator[tuple[str, News]]:
        """Yield the publications that must be there for somebody."""
        for identifier, one in self.news.items():
            terms = TOPICS[one.topic]
            if one.is_certain and one.readers and terms.is_durable and not (terms.lifetime or one.is_vague):
                yield identifier, one


def units_in(store: StorePort) -> dict[str, UowRecord]:
    """Return the records of units of work that can be read."""
    return {key: UOW.decode(value) for key, value in _readable(store, UOWS)}


def dead_letters_in(store: StorePort, units: Mapping[str, UowRecord]) -> dict[str, UowRecord]:
    """Return the records of the dead letters by the UOWIDs of what they were."""
    found: dict[str, UowRecord] = {}
    for record in units.values():
        if "DEAD-LETTER" in (record.sender_server, record.receiver_server) and numbers_of(record):
            found[(store.read(record.first).properties or {})["dead-letter-uow"]] = record
    return found


def news_in(store: StorePort) -> dict[str, PublicationRecord]:
    """Return the records of publications that can be read."""
    return {key: PUBLICATION.decode(value) for key, value in _readable(store, PUBLICATIONS)}


def _readable(store: StorePort, prefix: str) -> Iterator[tuple[str, bytes]]:
    """Yield the identifiers and records that can be read."""
    for batch in store.values(prefix):
        for key, value in zip(batch.keys, batch.values, strict=True):
            yield key.decode().removeprefix(prefix), value


def numbers_of(record: AnyRecord | None) -> range:
    """Return the numbers of the messages of a record: what is complete has none, nor what was never committed."""
    is_there = record is not None and record.first and record.status not in COMPLETE
    return range(record.first, record.first + record.messages) if record is not None and is_there else range(0)


def bodies_in(store: StorePort, record: AnyRecord | None) -> list[bytes | None]:
    """Return the messages of a record; None for one that cannot be read."""
    found: list[bytes | None] = []
    for number in numbers_of(record):
        try:
            found.append(store.read(number).payload)
        except MessageUnreadable:
            found.append(None)
    return found
