"""What publish and subscribe should answer: the part of the model that topics are.

Written from EntireX 8.0, Concepts of Persistent Messaging: a subscriber gets what is committed after it has
subscribed, a durable one after a restart too; what all have acknowledged is removed at once, and what is too old.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from oms_journal.broker.block import Function, Option, Reception, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.records import Status
from tests.support.broker.words import NEW, Answer, Ask, Name, Order, Refused, is_same

PLACES = {
    (True, True): Reception.RECV_ONLY,
    (True, False): Reception.RECV_FIRST,
    (False, False): Reception.RECV_MIDDLE,
    (False, True): Reception.RECV_LAST,
}
NEVER = -1
GONE = (Status.PROCESSED, Status.BACKEDOUT, Status.TIMEOUT)


@dataclass(frozen=True)
class TopicTerms:
    """What the attributes say of a topic: one that can be subscribed to durably is stored."""

    is_durable: bool = True
    lifetime: int = 0
    messages_max: int = 10_000


@dataclass
class Publication:
    """A publication, or what its publisher can still be told of it."""

    number: int
    topic: str
    sender: Name
    created: int
    status: Status = Status.RECEIVED
    bodies: list[bytes] = field(default_factory=list)
    ustatus: str = ""
    place: int = 0  # in the order of commits
    is_written: bool = False  # it is in the store: one that nobody wants never gets there


class Read(NamedTuple):
    """A publication that was handed out."""

    given: int  # of its messages
    reader: Name  # who got the last of them


@dataclass
class Subscription:
    """Who gets what is published.

    Decided: a durable one is that of USER-ID and TOKEN, also where that is blank, so several connections share it; each
    has what was handed out to it.
    """

    topic: str
    owner: Name
    is_durable: bool
    due: list[int] = field(default_factory=list)  # publications it has not acknowledged, oldest first
    read: dict[int, Read] = field(default_factory=dict)
    tried: dict[int, int] = field(default_factory=dict)  # how often each was given back
    back: dict[int, float] = field(default_factory=dict)  # when it can be received again
    held: set[int] = field(default_factory=set)  # of those: since the store was restored


class Topics:
    """All topics; the broker's state that they share comes as arguments."""

    def __init__(self, terms: Mapping[str, TopicTerms]) -> None:
        self.terms = terms
        self.publications: dict[int, Publication] = {}
        self.subscriptions: list[Subscription] = []
        self.commits = 0
        self.clock = 0
        self.seconds = 0
        self.held_since = NEVER  # on the clock: there lifetimes stand still of what is held
        self.is_lost = False
        self.is_forbidden = False

    def __repr__(self) -> str:
        return repr(vars(self))

    def call(self, me: Name, ask: Ask, number: int) -> Answer:
        """Carry out a call; a new publication gets the number."""
        assert isinstance(ask.function, Function), "an order is no call"
        rooms = {
            Function.SUBSCRIBE: self._subscribe,
            Function.UNSUBSCRIBE: self._unsubscribe,
            Function.RECEIVE_PUBLICATION: self.receive,
            Function.CONTROL_PUBLICATION: self._control,
        }
        if ask.function is Function.SEND_PUBLICATION:
            return self._send(me, ask, number)
        return rooms[ask.function](me, ask)

    def _terms(self, topic: str) -> TopicTerms:
        if topic not in self.terms:
            raise Refused(Code.SERVICE_UNDEFINED)
        return self.terms[topic]

    def _needs_store(self, *, is_needed: bool) -> None:
        if is_needed and self.is_lost:
            raise Refused(Code.DURABLE_WITHOUT_STORE)

    def _of(self, me: Name, topic: str) -> Subscription | None:
        """Return what this connection has subscribed; else its user durably, from wherever."""
        mine = [each for each in self.subscriptions if each.topic == topic and is_same(me, each.owner)]
        return min(mine, key=lambda each: each.is_durable, default=None)

    # Subscribers.

    def _subscribe(self, me: Name, ask: Ask) -> Answer:
        terms, is_durable = self._terms(ask.topic), ask.option is Option.DURABLE
        if is_durable and not terms.is_durable:
            raise Refused(Code.SUBSCRIBE_NOT_ALLOWED)
        known, lasting = self._of(me, ask.topic), (*me[:2], 0)
        durable = next((each for each in self.subscriptions if _is_durable_of(each, me, ask.topic)), None)
        self._needs_store(is_needed=is_durable and durable is None)
        if known is None:
            self.subscriptions.append(Subscription(ask.topic, lasting if is_durable else me, is_durable))
        elif is_durable and durable is None:
            known.is_durable, known.owner = True, lasting
        elif is_durable and not known.is_durable:
            self._remove(known)  # decided: the durable one that its user has from elsewhere takes its place
        return {}

    def _unsubscribe(self, me: Name, ask: Ask) -> Answer:
        self._terms(ask.topic)
        known = self._of(me, ask.topic)
        if known is None:
            raise Refused(Code.UOW_NOT_FOUND)
        self._needs_store(is_needed=known.is_durable)
        self._remove(known)
        return {}

    def _remove(self, subscription: Subscription) -> None:
        self.subscriptions.remove(subscription)
        self._let_go(subscription, subscription.held)
        self.sweep()

    def sweep(self) -> None:
        """Remove what all who were to have it have acknowledged; one that is stored waits for the store."""
        wanted = {number for each in self.subscriptions for number in each.due}
        for publication in list(self.publications.values()):
            is_wanted = publication.number in wanted or (self.is_lost and publication.is_written)
            if publication.status is Status.ACCEPTED and not is_wanted:
                self._finish(publication, Status.PROCESSED)

    def _finish(self, publication: Publication, status: Status) -> None:
        """Decided: of those that are gone a publisher is told of the last one of a topic."""
        publication.status, publication.bodies = status, []
        for each in list(self.publications.values()):
            is_alike = (each.sender[:2], each.topic) == (publication.sender[:2], publication.topic)
            if is_alike and each.status in GONE and each.number != publication.number:
                del self.publications[min(each.number, publication.number)]
                return

    def receive(self, me: Name, ask: Ask) -> Answer:
        """Hand out the next message of a publication, or the first one of the next publication."""
        self._terms(ask.topic)
        mine = self._of(me, ask.topic)
        if mine is None:
            raise Refused(Code.UOW_NOT_FOUND)
        if ask.publication == NEW:
            waiting = [number for number in mine.due if number not in mine.read and number not in mine.held]
            waiting = [number for number in waiting if mine.back.get(number, 0) <= self.seconds]
            if not waiting:
                raise Refused(Code.NO_UOWS)
            number = waiting[0]
        elif ask.publication in mine.read and isinstance(ask.publication, int):
            number = ask.publication
        else:
            raise Refused(Code.UOW_NOT_FOUND)
        publication = self.publications[number]
        at = mine.read[number].given if number in mine.read else 0
        if at == len(publication.bodies):
            raise Refused(Code.END_OF_UOW)
        self._needs_store(is_needed=self.terms[ask.topic].is_durable)
        mine.read[number] = Read(at + 1, me)
        return {
            "publication": number,
            "topic": ask.topic,
            "status": PLACES[at == 0, at + 1 == len(publication.bodies)],
            "body": publication.bodies[at],
            "ustatus": publication.ustatus,
        }

    # Publishers.

    def _send(self, me: Name, ask: Ask, number: int) -> Answer:
        terms = self._terms(ask.topic)
        if ask.publication == NEW:
            publication = Publication(number, ask.topic, me, self._clock_of(ask.topic))
        else:
            publication = self._find(me, ask)
            if publication.sender[:2] != me[:2]:
                raise Refused(Code.NOT_THE_CREATOR)
            if publication.status is not Status.RECEIVED:
                raise Refused(Code.WRONG_STATUS, *[Code.UOW_NOT_FOUND] * (publication.status in GONE))
        if len(publication.bodies) >= terms.messages_max:
            raise Refused(Code.MAX_MESSAGES)
        if self.is_forbidden and terms.is_durable:
            raise Refused(Code.NO_NEW_UOWS, *[Code.DURABLE_WITHOUT_STORE] * self.is_lost)
        self._needs_store(is_needed=terms.is_durable)
        publication.bodies.append(ask.body)
        publication.ustatus = ask.ustatus or publication.ustatus
        self.publications[publication.number] = publication
        if ask.option is Option.COMMIT:
            return self._commit(publication)
        return self._shown(publication)

    def _clock_of(self, topic: str) -> int:
        return self.clock if self.terms[topic].is_durable else self.seconds

    def _find(self, me: Name, ask: Ask) -> Publication:
        """Return a publication; of one that is done only its publisher is told."""
        found = self.publications.get(ask.publication) if isinstance(ask.publication, int) else None
        if found is None or ask.topic not in ("", found.topic):
            raise Refused(Code.UOW_NOT_FOUND)
        if found.status in GONE and found.sender[:2] != me[:2]:
            raise Refused(Code.UOW_NOT_FOUND)
        return found

    def _commit(self, publication: Publication) -> Answer:
        publication.status = Status.ACCEPTED
        self.commits += 1
        publication.place = self.commits
        for each in self.subscriptions:
            if each.topic == publication.topic:
                each.due.append(publication.number)
                publication.is_written = self.terms[publication.topic].is_durable
        shown = self._shown(publication)
        self.sweep()
        return shown

    def _control(self, me: Name, ask: Ask) -> Answer:
        if ask.topic:
            self._terms(ask.topic)
        if ask.option is Option.LAST:
            return self._last(me, ask)
        publication = self._find(me, ask)
        is_sender = publication.sender[:2] == me[:2]
        mine = self._of(me, publication.topic)
        is_read = mine is not None and publication.number in mine.read
        if (is_read or not is_sender) and ask.option in (Option.COMMIT, Option.BACKOUT):
            return self._acknowledge(me, publication, ask.option)
        if not is_sender:
            raise Refused(Code.NOT_THE_CREATOR)
        if ask.option is Option.QUERY:
            return self._shown(publication)
        if ask.option is Option.SETUSTATUS:
            if publication.status not in (Status.RECEIVED, Status.ACCEPTED):
                raise Refused(Code.WRONG_STATUS)
            self._needs_store(is_needed=self._is_stored(publication))
            publication.ustatus = ask.ustatus
            return self._shown(publication)
        if publication.status is not Status.RECEIVED:
            raise Refused(Code.WRONG_STATUS)
        if ask.option is Option.BACKOUT:
            self._finish(publication, Status.BACKEDOUT)
            return self._shown(publication)
        self._needs_store(is_needed=self.terms[publication.topic].is_durable)  # also where nobody is to have it
        publication.ustatus = ask.ustatus or publication.ustatus
        return self._commit(publication)

    def _is_stored(self, publication: Publication) -> bool:
        return publication.status is Status.ACCEPTED and self.terms[publication.topic].is_durable

    def _last(self, me: Name, ask: Ask) -> Answer:
        own = [each for each in self.publications.values() if each.sender[:2] == me[:2]]
        own = [each for each in own if ask.topic in ("", each.topic)]
        if ask.topic and not self.terms[ask.topic].is_durable:
            raise Refused(Code.WRONG_UOW_TYPE)
        own = [each for each in own if self.terms[each.topic].is_durable]
        if not own:
            raise Refused(Code.UOW_NOT_FOUND)
        return self._shown(max(own, key=lambda each: each.number))

    def _acknowledge(self, me: Name, publication: Publication, option: Option) -> Answer:
        mine = self._of(me, publication.topic)
        if mine is None:
            raise Refused(Code.NOT_THE_CREATOR)
        if publication.number not in mine.read:
            raise Refused(Code.WRONG_STATUS)
        if option is Option.BACKOUT:
            self._give_back(mine, [publication.number])
            return {}
        self._needs_store(is_needed=mine.is_durable or self._is_stored(publication))
        del mine.read[publication.number]
        mine.due.remove(publication.number)
        mine.tried.pop(publication.number, None)
        self.sweep()
        return {}

    def _give_back(self, mine: Subscription, numbers: Iterable[int]) -> None:
        """The first of them was tried, and comes again after a while once that was twice; the others were not."""
        for place, number in enumerate(numbers):
            del mine.read[number]
            if not place:
                mine.tried[number] = mine.tried.get(number, 0) + 1
                if mine.tried[number] > 1:
                    mine.back[number] = self.seconds + min(0.1 * 2 ** (mine.tried[number] - 2), 60)

    def _shown(self, publication: Publication) -> Answer:
        return {
            "publication": publication.number,
            "topic": publication.topic,
            "status": publication.status,
            "ustatus": publication.ustatus,
            "store": Store.BROKER if self.terms[publication.topic].is_durable else Store.OFF,
        }

    # What is held.

    def hold(self) -> bool:
        """Hold for each subscription what it has not acknowledged; say whether there is anything."""
        for each in self.subscriptions:
            each.held = set(each.due)
        return any(each.held for each in self.subscriptions)

    def held(self) -> set[tuple[int, str, str]]:
        """Return the publications that are held, with USER-ID and TOKEN of who does not get them."""
        return {(number, *each.owner[:2]) for each in self.subscriptions for number in each.held}

    def decide(self, ask: Ask) -> Answer:
        """Do to publications that are held for a subscription what an operator says; none named are all of them."""
        found = [each for each in self.subscriptions if (each.topic, each.owner[:2]) == (ask.topic, ask.reader)]
        mine = next((each for each in found if each.is_durable), None)
        if mine is None or not mine.held.issuperset(ask.held):
            raise Refused(Code.UOW_NOT_FOUND)
        if not mine.held:  # whether it is known that there was something nobody promises
            return {"code": (Code.OK, Code.UOW_NOT_FOUND, *[Code.DURABLE_WITHOUT_STORE] * self.is_lost)}
        self._needs_store(is_needed=True)
        numbers = {number for number in ask.held if isinstance(number, int)} or set(mine.held)
        self._let_go(mine, numbers)
        if ask.function is not Order.RELEASE:
            mine.due = [number for number in mine.due if number not in numbers]
            self.sweep()
        return {}

    def _let_go(self, subscription: Subscription, numbers: set[int]) -> None:
        """Hold publications for it no longer; what is held for nobody goes on with what is left of its lifetime."""
        subscription.held = subscription.held - numbers
        for number in numbers:
            if not self._is_held(number):
                self.publications[number].created += self.clock - self.held_since

    def _is_held(self, number: int) -> bool:
        return any(number in each.held for each in self.subscriptions)

    # Coming and going, time, restarts.

    def leave(self, me: Name) -> None:
        """What is not durable goes with its participant; what was read and not acknowledged comes again."""
        self._back_out(me)
        for each in list(self.subscriptions):
            if is_same(me, each.owner):
                self._give_back(each, _read_by(each, me))
                if not each.is_durable:
                    self._remove(each)

    def move(self, me: Name) -> None:
        """Decided: what a durable subscriber has read elsewhere comes again; what was begun there is backed out."""
        self._back_out(me)
        for each in self.subscriptions:
            if is_same(me, each.owner) and each.is_durable:
                self._give_back(each, _read_by(each, me))

    def _back_out(self, me: Name) -> None:
        for publication in list(self.publications.values()):
            if publication.status is Status.RECEIVED and publication.sender == me:
                self._finish(publication, Status.BACKEDOUT)

    def tick(self) -> None:
        """What has lived long enough is there for nobody."""
        for publication in list(self.publications.values()):
            lifetime = self.terms[publication.topic].lifetime
            is_still = self.is_lost and self.terms[publication.topic].is_durable
            is_still |= self._is_held(publication.number)
            if publication.status is not Status.ACCEPTED or not lifetime or is_still:
                continue
            if self._clock_of(publication.topic) >= publication.created + lifetime:
                self._finish(publication, Status.TIMEOUT)
                for each in self.subscriptions:
                    each.due = [number for number in each.due if number != publication.number]
                    each.read.pop(publication.number, None)

    def restart(self) -> None:
        """Stored publications go on, and durable subscriptions."""
        self.is_lost = self.is_forbidden = False
        self.publications = {each.number: each for each in self.publications.values() if self._is_stored(each)}
        self.subscriptions = [each for each in self.subscriptions if each.is_durable]
        for each in self.subscriptions:
            each.read = {}
            each.tried, each.back = {}, {}  # decided: a publication's attempts are not written
        self.sweep()

    def stored_messages(self) -> int:
        return sum(len(each.bodies) for each in self.publications.values() if self._is_stored(each))


def _is_durable_of(subscription: Subscription, me: Name, topic: str) -> bool:
    return subscription.is_durable and subscription.topic == topic and subscription.owner[:2] == me[:2]


def _read_by(subscription: Subscription, me: Name) -> list[int]:
    return [number for number, read in subscription.read.items() if read.reader == me]


__all__ = ["Publication", "Subscription", "TopicTerms", "Topics"]
