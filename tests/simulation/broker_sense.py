"""Calls that bring a broker's business forward: receivers that receive and commit, servers that answer, subscribers.

The oracle's scripts choose among all calls there are; most of what they begin is never finished before the next
crash. These calls finish it.
"""

from collections.abc import Callable, Sequence

from broker.block import Function, Option, Store
from broker.records import Status
from tests.broker_words import ANY, BOTH, NEW, Ask, Person
from tests.oracle_script import PEOPLE, SERVERS, Chance, Script

CLIENTS = tuple(who for who in PEOPLE if who not in SERVERS)
SENSIBLE = ("serve", "acknowledge", "go_on", "take_up", "be_done")


class Sensible(Script):
    """The oracle's calls, and some that make sense more often."""

    # Several calls, one after the other.

    def exchange(self, chance: Chance) -> None:
        """Let a unit of work be sent, received, answered and committed, or some of that."""
        self._each(chance, self.order, self.serve, self.serve, self.answer, self.acknowledge)

    def circulate(self, chance: Chance) -> None:
        """Let a publication be read and acknowledged by some of its subscribers."""
        self._each(chance, self.take_up, self.take_up, self.tell, self.read, self.read, self.be_done, self.be_done)

    def _each(self, chance: Chance, *rooms: Callable[[Chance], Ask | None]) -> None:
        for room in rooms:
            ask = room(chance)
            if ask is not None and not self.play.has_crashed:  # type: ignore[attr-defined]
                self.play.call_all([ask])

    # One call.

    def order(self, chance: Chance) -> Ask | None:
        """Send a unit of work of one message, which the store keeps."""
        client = self._free(chance, CLIENTS)
        self.bodies += 1
        if client is None:
            return None
        named = {"service": "BLACK", "store": Store.UNSAID, "body": b"%d" % self.bodies}
        return self.play.ask(client, Function.SEND, Option.COMMIT, talk=NEW, **named)

    def tell(self, chance: Chance) -> Ask | None:
        """Publish to the topic that all read."""
        client = self._free(chance, CLIENTS)
        self.bodies += 1
        if client is None:
            return None
        named = {"topic": "NEWS", "publication": NEW, "body": b"%d" % self.bodies}
        return self.play.ask(client, Function.SEND_PUBLICATION, Option.COMMIT, **named)

    def a_call(self, chance: Chance) -> Ask | None:
        if chance.is_one_in(2):
            return super().a_call(chance)
        return chance.pick(self.serve, self.serve, self.acknowledge, self.acknowledge, self.go_on, self.be_done)(chance)

    def serve(self, chance: Chance) -> Ask | None:
        """Receive the next of whatever there is for a server."""
        who = self._free(chance, SERVERS)
        return None if who is None else self.play.ask(who, Function.RECEIVE, Option.SYNC, talk=ANY)

    def acknowledge(self, chance: Chance) -> Ask | None:
        """Commit what was received, with an answer if there is one, or back it out."""
        known = self.play.first.uows.of_number
        received = [unit for unit in self._model.uows.values() if unit.status is Status.DELIVERED]
        received = [unit for unit in received if unit.receiver is not None and unit.number in known]
        if not received:
            return None
        unit = received[chance.pick(*range(len(received)))]
        who = _called(unit.receiver)
        answers = [one for one in self._model.uows.values() if one.talk == unit.talk and one.status is Status.RECEIVED]
        uow = BOTH if answers and not chance.is_one_in(5) else unit.number
        option = (
            chance.pick(Option.COMMIT, Option.COMMIT, Option.COMMIT, Option.BACKOUT) if uow != BOTH else Option.COMMIT
        )
        talk = unit.talk if uow == BOTH and unit.talk in self.play.first.talks.of_number else ""
        return None if self._waits(who) else self.play.ask(who, Function.SYNCPOINT, option, uow=uow, talk=talk)

    def go_on(self, chance: Chance) -> Ask | None:
        """Send one more message of a unit of work, or begin one of several."""
        begun = [unit for unit in self._model.uows.values() if unit.status is Status.RECEIVED]
        begun = [unit for unit in begun if unit.talk in self.play.first.talks.of_number]
        self.bodies += 1
        body = b"%d" % self.bodies
        if begun and not chance.is_one_in(4):
            unit = begun[chance.pick(*range(len(begun)))]
            who = _called(unit.sender)
            option = chance.pick(Option.SYNC, Option.COMMIT)
            return None if self._waits(who) else self.play.ask(who, Function.SEND, option, talk=unit.talk, body=body)
        client = self._free(chance, CLIENTS)
        if client is None:
            return None
        named = {"service": "BLACK", "store": Store.UNSAID, "body": body}
        return self.play.ask(client, Function.SEND, Option.SYNC, talk=NEW, **named)

    def take_up(self, chance: Chance) -> Ask | None:
        """Subscribe durably to the topic that all read."""
        who = self._free(chance, PEOPLE)
        return None if who is None else self.play.ask(who, Function.SUBSCRIBE, Option.DURABLE, topic="NEWS")

    def be_done(self, chance: Chance) -> Ask | None:
        """Acknowledge a publication that was read, or back it out."""
        known = self.play.first.publications.of_number
        read = [(each, number) for each in self._model.topics.subscriptions for number in each.read if number in known]
        if not read:
            return None
        subscription, number = read[chance.pick(*range(len(read)))]
        who = _called(subscription.owner)
        option = chance.pick(Option.COMMIT, Option.COMMIT, Option.COMMIT, Option.BACKOUT)
        control = Function.CONTROL_PUBLICATION
        return None if self._waits(who) else self.play.ask(who, control, option, publication=number)

    def _free(self, chance: Chance, among: Sequence[Person]) -> Person | None:
        there = [who for who in among if who.name in self._model.people and not self._waits(who)]
        return chance.pick(*there) if there else None


def _called(name: tuple[str, ...]) -> Person:
    return next(who for who in PEOPLE if who.name[:2] == name[:2])
