"""Random scripts for the oracle: lists of tuples of small numbers, which choose what is done next.

They choose among what makes sense then, and now and then what does not. So any list is a script, and a part of
one is one too.
"""

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pytest

from oms_journal.broker.block import Function, Option, Store
from oms_journal.broker.kernel.conversations import dormancy
from oms_journal.broker.kernel.units import transitions
from oms_journal.broker.records import Status
from tests.support.broker.model import MESSAGES, UNITS
from tests.support.broker.oracle_desk import TOPICS, OracleDesk, attributes
from tests.support.broker.oracle_play import Play
from tests.support.broker.stores import Driver
from tests.support.broker.words import ANY, BOTH, NEW, NONE, OLD, Ask, Person

WHITE, GREEN = Person("WHITE", "W", 1), Person("GREEN", "", 2)
ONE, TWO, RED = Person("BLACK", "1", 3), Person("BLACK", "2", 4), Person("RED", "", 5)
PEOPLE = (WHITE, GREEN, ONE, TWO, RED)
SERVED = {ONE: ("BLACK", "BLITZ"), TWO: ("BLACK", "BLITZ"), RED: ("BLACK",)}  # nobody calls a service of its own
SERVERS = tuple(SERVED)
SYNCPOINTS = (
    *(Option.BACKOUT, Option.CANCEL, Option.COMMIT, Option.DELETE, Option.EOC, Option.EOCCANCEL),
    *(Option.LAST, Option.QUERY, Option.SETUSTATUS),
)
CONTROLS = (Option.BACKOUT, Option.COMMIT, Option.LAST, Option.QUERY, Option.SETUSTATUS)
BY_STATUS = {
    Status.RECEIVED: (Option.COMMIT, Option.COMMIT, Option.BACKOUT, Option.EOC, Option.EOCCANCEL),
    Status.ACCEPTED: (Option.CANCEL, Option.SETUSTATUS),
    Status.DELIVERED: (Option.QUERY, Option.SETUSTATUS),
    Status.POSTPONED: (Option.QUERY, Option.CANCEL),
}
T = TypeVar("T")
NUMBERS = 12  # of a step
BITS = 16  # of a number


class Chance:
    """The numbers of a step, which choose."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers
        self.at = 0

    def pick(self, *among: T) -> T:
        number = self.numbers[self.at % len(self.numbers)] >> (4 * (self.at // len(self.numbers)))
        self.at += 1
        return among[number % len(among)]

    def is_one_in(self, count: int) -> bool:
        number: int = self.pick(*range(count))
        return number == count - 1


class Script:
    """What is played, step by step."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.bodies = 0
        self.singles: set[int] = set()  # what may be one message without a conversation, which nobody names

    def begin(self) -> None:
        for who in PEOPLE:
            self.come(who)

    def come(self, who: Person) -> None:
        self.play.call(who, Function.LOGON)
        for service in SERVED.get(who, ()):
            self.play.call(who, Function.REGISTER, service=service)

    def step(self, numbers: Sequence[int]) -> None:
        chance = Chance(numbers)
        step = chance.pick(
            *[self.one_call] * 20,
            *[self.wait, self.pass_time, self.pass_time],
            *[self.come_or_go, self.start_again, self.die, self.all_at_once, self.all_at_once],
            *[self.lose_or_find, self.fail, self.forbid_or_allow, self.go],
        )
        step(chance)

    # One call.

    def one_call(self, chance: Chance) -> None:
        ask = self.a_call(chance)
        if ask is not None:
            self.play.call_all([ask])

    def a_call(self, chance: Chance) -> Ask | None:
        room = chance.pick(
            *[self.send] * 6,
            *[self.receive] * 6,
            *[self.syncpoint] * 7,
            *[self.answer] * 2,
            *[self.end, self.undo, self.publish, self.publish, self.read, self.read, self.control, self.subscribe],
        )
        return room(chance)

    @property
    def _model(self) -> Any:
        return self.play.first.model

    def _waits(self, who: Person) -> bool:
        return any(ask.who.name == who.name for _, ask, _ in self._model.waits)

    def _who(self, chance: Chance, among: Sequence[Person] = PEOPLE) -> Person:
        people = [who for who in among if not self._waits(who)] or [WHITE]
        there = [who for who in people if who.name in self._model.people]
        return chance.pick(*(there if there and not chance.is_one_in(8) else people))

    def _a_talk(self, chance: Chance, who: Person) -> int | str:
        known = [number for number in self.play.first.talks.of_number if not self._is_out(number)]
        mine = {talk.number for talk in self._model.talks_of(who.name)}
        among = known if chance.is_one_in(8) else [number for number in known if number in mine][-5:]
        return chance.pick(*among) if among else NEW

    def _is_out(self, number: int) -> bool:
        """Say whether nobody is to name the conversation."""
        return number in self.singles or self._model.is_doubtful(number)

    def _kind(self, talk: int | str) -> str:
        found = self._model.talks.get(talk)
        return found.kind if found is not None else UNITS

    def _ustatus(self, chance: Chance) -> str:
        return f"u{self.play.handles}" if chance.is_one_in(4) else ""

    def send(self, chance: Chance) -> Ask:
        who = self._who(chance)
        talk = NEW if chance.is_one_in(3) else self._a_talk(chance, who)
        if talk == NEW and who in (ONE, TWO):
            who = chance.pick(WHITE, GREEN)
        option = chance.pick(*[Option.SYNC] * 5, *[Option.COMMIT] * 10, Option.EOC)
        if (self._kind(talk) == MESSAGES) != chance.is_one_in(10):
            option = Option.NONE
            talk = chance.pick(talk, NONE) if talk == NEW else talk
        self.bodies += 1
        if talk == NONE:
            self.singles.add(self._model.numbers + 1)
        service = "BLITZ" if who is RED else chance.pick("BLACK", "BLACK", "BLITZ")
        producer = self._producer(chance) if (option, talk) == (Option.COMMIT, NEW) else ""
        return self.play.ask(
            who,
            Function.SEND,
            option,
            talk=talk,
            service=service if talk in (NEW, NONE) else "",
            body=producer.encode() + b"?" * chance.is_one_in(6) if producer else b"%d" % self.bodies,
            ustatus=self._ustatus(chance),
            store=Store.UNSAID if producer else chance.pick(Store.UNSAID, Store.UNSAID, Store.OFF, Store.BROKER),
            uwstatp=chance.pick(0, 0, 255, 1, 3),
            uwtime=chance.pick(0, 0, 0, 20, 100),
            uwstat_lifetime=chance.pick(0, 0, 0, 0, 50),
            producer=producer,
        )

    def _producer(self, chance: Chance) -> str:
        """Return an identifier, when it can be found out whether it is a repeat."""
        is_open = not self._model.is_lost and not self._model.is_forbidden
        return f"P{chance.pick(*range(5))}" if chance.is_one_in(8) and is_open else ""

    def answer(self, chance: Chance) -> Ask | None:
        """Send into a conversation that something is being received from, for BOTH among others."""
        received = [unit for unit in self._model.uows.values() if unit.status is Status.DELIVERED]
        if not received:
            return None
        unit = received[chance.pick(*range(len(received)))]
        who = next(who for who in PEOPLE if who.name[:2] == unit.receiver[:2])
        if self._waits(who) or unit.talk not in self.play.first.talks.of_number:
            return None
        self.bodies += 1
        return self.play.ask(
            who,
            Function.SEND,
            chance.pick(Option.SYNC, Option.SYNC, Option.COMMIT),
            talk=unit.talk,
            body=b"%d" % self.bodies,
            store=Store.BROKER if unit.is_persistent != chance.is_one_in(6) else Store.OFF,
            uwstatp=chance.pick(0, 255, 1),
        )

    def receive(self, chance: Chance, wait: int = 0) -> Ask:
        who = self._who(chance, PEOPLE if chance.is_one_in(4) else SERVERS)
        talk = chance.pick(NEW, ANY, ANY, OLD) if who in SERVERS and chance.pick(0, 1) else self._a_talk(chance, who)
        fit = Option.MSG if self._kind(talk) == MESSAGES else Option.SYNC
        return self.play.ask(
            who,
            Function.RECEIVE,
            chance.pick(fit, fit, fit, Option.ANY, Option.SYNC, Option.NONE),
            talk=talk,
            service=chance.pick("", "BLACK", "BLACK", "BLITZ") if talk in (NEW, ANY, OLD) else "",
            ustatus=self._ustatus(chance),
            wait=wait,
        )

    def syncpoint(self, chance: Chance) -> Ask | None:
        sensible = self._sensible()
        known = list(self.play.first.uows.of_number)[-8:]
        if sensible and not chance.is_one_in(6):
            who, option, uow = chance.pick(*sensible)
        else:
            who, option = self._who(chance), chance.pick(*SYNCPOINTS)
            uow = chance.pick(BOTH if option is Option.COMMIT else 999_999, *known)
        if self._waits(who):
            return None
        talk: int | str = ""
        if option is Option.LAST or uow == BOTH:
            talk = chance.pick("", self._a_talk(chance, who))
            talk = "" if talk == NEW else talk
        uow = "" if option is Option.LAST else uow
        return self.play.ask(who, Function.SYNCPOINT, option, uow=uow, talk=talk, ustatus=self._ustatus(chance))

    def _sensible(self) -> list[tuple[Person, Option, int | str]]:
        """Return what can be said of the units of work there are."""
        found: list[tuple[Person, Option, int | str]] = []
        by_name = {who.name[:2]: who for who in PEOPLE}
        for unit in list(self._model.uows.values())[-12:]:
            if unit.number not in self.play.first.uows.of_number:
                continue
            options = BY_STATUS.get(unit.status, (Option.DELETE, Option.QUERY))
            found += [(by_name[unit.sender[:2]], option, unit.number) for option in options]
            if unit.status is Status.DELIVERED and unit.receiver is not None:
                receiver = by_name[unit.receiver[:2]]
                options = (*[Option.COMMIT] * 4, *[Option.BACKOUT] * 2, Option.CANCEL, Option.SETUSTATUS)
                found += [(receiver, option, unit.number) for option in options]
                found.append((receiver, Option.COMMIT, BOTH))
        return found

    def end(self, chance: Chance) -> Ask | None:
        return self._about_a_talk(chance, Function.EOC, Option.CANCEL)

    def undo(self, chance: Chance) -> Ask | None:
        return self._about_a_talk(chance, Function.UNDO, Option.LAST)

    def _about_a_talk(self, chance: Chance, function: Function, option: Option) -> Ask | None:
        who = self._who(chance)
        talk = self._a_talk(chance, who)
        return None if talk == NEW else self.play.ask(who, function, chance.pick(Option.NONE, option), talk=talk)

    # Publish and subscribe.

    def _topic(self, chance: Chance) -> str:
        return chance.pick("NEWS", "NEWS", *TOPICS)

    def _a_publication(self, chance: Chance, topic: str) -> int | str:
        known = list(self.play.first.publications.of_number)[-6:]
        found = self._model.topics.publications
        fit = [number for number in known if number in found and found[number].topic == topic]
        return chance.pick(*(known if chance.is_one_in(6) else fit or known)) if known else NEW

    def _topic_of(self, publication: int | str) -> str:
        found = self._model.topics.publications.get(publication)
        return found.topic if found is not None else ""

    def subscribe(self, chance: Chance) -> Ask:
        function = chance.pick(Function.SUBSCRIBE, Function.SUBSCRIBE, Function.SUBSCRIBE, Function.UNSUBSCRIBE)
        option = chance.pick(Option.DURABLE, Option.NONE)
        return self.play.ask(self._who(chance), function, option, topic=self._topic(chance))

    def publish(self, chance: Chance) -> Ask:
        topic = self._topic(chance)
        publication = chance.pick(NEW, NEW, self._a_publication(chance, topic))
        self.bodies += 1
        return self.play.ask(
            self._who(chance, (WHITE, GREEN)),
            Function.SEND_PUBLICATION,
            chance.pick(Option.SYNC, Option.COMMIT),
            topic=self._topic_of(publication) or topic,
            publication=publication,
            body=b"%d" % self.bodies,
            ustatus=self._ustatus(chance),
        )

    def read(self, chance: Chance, wait: int = 0) -> Ask:
        mine = self._model.topics.subscriptions
        subscribed = [(who, each.topic) for each in mine for who in PEOPLE if who.name[:2] == each.owner[:2]]
        subscribed = [each for each in subscribed if not self._waits(each[0])]
        who, topic = chance.pick(*subscribed) if subscribed else (self._who(chance), self._topic(chance))
        if self._model.is_lost:  # whether it is still there to be read without the store nobody promises
            topic = "GOSSIP"
        publication = chance.pick(NEW, NEW, self._a_publication(chance, topic))
        if publication != NEW:
            named = self._topic_of(publication)
            is_away = named not in ("GOSSIP", "") and self._model.is_lost
            topic, publication = (topic, NEW) if is_away else (named or topic, publication)
        return self.play.ask(who, Function.RECEIVE_PUBLICATION, topic=topic, publication=publication, wait=wait)

    def control(self, chance: Chance) -> Ask | None:
        topic = self._topic(chance)
        option, publication = chance.pick(*CONTROLS), self._a_publication(chance, topic)
        who = self._who(chance)
        read = [(each.owner, number) for each in self._model.topics.subscriptions for number in each.read]
        if read and chance.is_one_in(2):
            place: int = chance.pick(*range(len(read)))
            name, publication = read[place]
            who = next(who for who in PEOPLE if who.name[:2] == name[:2])
            option = chance.pick(Option.COMMIT, Option.COMMIT, Option.BACKOUT)
        if self._waits(who) or (publication == NEW and option is not Option.LAST):
            return None
        return self.play.ask(
            who,
            Function.CONTROL_PUBLICATION,
            option,
            topic=chance.pick("", topic if option is Option.LAST else self._topic_of(publication)),
            publication="" if option is Option.LAST else publication,
            ustatus=self._ustatus(chance),
        )

    # What else happens.

    def wait(self, chance: Chance) -> None:
        room = chance.pick(self.receive, self.receive, self.read)
        self.play.call_all([room(chance, chance.pick(5, 60))])

    def pass_time(self, chance: Chance) -> None:
        self.play.tick(chance.pick(1, 5, 10, 30, 40, 100, 400))

    def come_or_go(self, chance: Chance) -> None:
        who = chance.pick(*PEOPLE)
        there = self._model.people.get(who.name)
        if who.token and (chance.is_one_in(4) or (there is None and who.name in self.play.places)):
            at = self.play.places.get(who.name, who.connection)
            self.play.places[who.name] = at + 10 if at < 10 else at - 10
            self.play.call(who, chance.pick(Function.LOGON, Function.LOGON, Function.REGISTER), service="BLACK")
        elif there is None:
            self.come(who)
        elif (self._waits(who) and chance.pick(0, 1)) or chance.is_one_in(3):
            self.play.gone(there.connection)
        elif chance.pick(0, 1) and not self._waits(who):
            self.play.call(who, Function.LOGOFF)
        elif there.serves:
            service = chance.pick(*there.serves)
            option = chance.pick(Option.NONE, Option.IMMED, Option.QUIESCE)
            self.play.call(who, Function.DEREGISTER, option, service=service)
        else:
            self.play.call(who, Function.REGISTER, service=chance.pick("OTHER", *SERVED.get(who, ())))

    def start_again(self, chance: Chance) -> None:
        self.play.restart(is_killed=chance.pick(True, False))
        self._come_again(chance)

    def _come_again(self, chance: Chance) -> None:
        if not chance.is_one_in(6):
            self.begin()

    def die(self, chance: Chance) -> None:
        ask = self.a_call(chance)
        if ask is None or self._model.is_lost:
            return
        self.play.call_and_die(ask, is_written=chance.pick(True, False))
        self._come_again(chance)

    def all_at_once(self, chance: Chance) -> None:
        asks = self._several(chance, chance.pick(2, 2, 3))
        if asks:
            self.play.call_all(asks)

    def _several(self, chance: Chance, count: int) -> list[Ask]:
        """Return calls of different people."""
        asks: list[Ask] = []
        for _ in range(count):
            ask = self.a_call(chance)
            if ask is not None and ask.who not in {each.who for each in asks}:
                asks.append(ask)
        return asks

    def go(self, chance: Chance) -> None:
        ask = self.a_call(chance)
        if ask is not None and ask.who.name in self._model.people:
            self.play.call_and_go(ask)

    def lose_or_find(self, chance: Chance) -> None:
        if self._model.is_lost:
            self.play.find()
        elif chance.pick(0, 1):
            self.play.lose()

    def fail(self, chance: Chance) -> None:
        asks = self._several(chance, 2)
        if asks and not self._model.is_lost and not self._model.waits:
            self.play.call_all_and_lose(asks, chance.pick(0, 0, 1))

    def forbid_or_allow(self, chance: Chance) -> None:
        is_forbidden = self._model.is_forbidden
        if is_forbidden or chance.pick(0, 1):
            self.play.forbid(is_forbidden=not is_forbidden)

    def finish(self) -> None:
        """Receive and commit all that waits, and compare what is left."""
        play = self.play
        if self._model.is_lost:
            play.find()
        play.forbid(is_forbidden=False)
        play.restart(is_killed=True)
        self.begin()
        for who in PEOPLE:
            for number in list(play.first.talks.of_number):
                talk = self._model.talks.get(number)
                is_mine = talk is not None and talk.kind == UNITS and who.name[:2] == talk.client[:2]
                if is_mine and not self._is_out(number):
                    self._drain(who, number)
            for word in (OLD, NEW) if who in SERVERS else ():
                self._drain(who, word)
        play.restart(is_killed=False)

    def _drain(self, who: Person, talk: int | str) -> None:
        for _ in range(40):
            self.play.call(who, Function.RECEIVE, Option.SYNC, talk=talk)
            mine = [unit for unit in self._model.uows.values() if unit.status is Status.DELIVERED]
            mine = [unit for unit in mine if unit.receiver[:2] == who.name[:2]]
            if not mine:
                return
            for unit in mine:
                self.play.call(who, Function.SYNCPOINT, Option.COMMIT, uow=unit.number)


def random_script(seed: int, steps: int) -> list[tuple[int, ...]]:
    """Return a script of so many steps."""
    chance = random.Random(seed)
    return [tuple(chance.getrandbits(BITS) for _ in range(NUMBERS)) for _ in range(steps)]


def shrunk(script: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Return what is left of a script that fails when steps that are not needed for it are left out."""
    count = max(1, len(script) // 2)
    while count:
        at = 0
        while at < len(script):
            without = [*script[:at], *script[at + count :]]
            if fails(without):
                script = without
            else:
                at += count
        count //= 2
    return script


@contextlib.contextmanager
def bounds(units: int, kept_bytes: int) -> Iterator[None]:
    """Let that much stay awake, and that many bytes of messages in memory."""
    patched = pytest.MonkeyPatch()
    patched.setattr(dormancy, "AWAKE_MAX", units)
    patched.setattr(transitions, "KEPT_BYTES_MAX", kept_bytes)
    try:
        yield
    finally:
        patched.undo()


def played(driver: Driver, script: Sequence[Sequence[int]]) -> Play:
    """Play a script to its end; every third one with hardly anything kept in memory."""
    is_small = bool(script) and sum(script[0]) % 3 == 0
    with bounds(1, 3) if is_small else contextlib.nullcontext():
        playing = Script(Play(OracleDesk(driver, attributes())))
        try:
            playing.begin()
            for numbers in script:
                playing.step(numbers)
            playing.finish()
        finally:
            playing.play.desk.close()
    return playing.play
