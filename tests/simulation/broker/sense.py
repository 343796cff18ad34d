"""Calls that bring a broker's business forward: receivers that receive and commit, servers that answer, subscribers.

The oracle's scripts choose among all calls there are; most of what they begin is never finished before the next
crash. These calls finish it.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from oms_journal.broker.block import Function, Option, Store
from oms_journal.broker.records import Status
from tests.simulation.broker.holding import HoldingPlay
from tests.simulation.broker.promises import NO_READER, Reader
from tests.support.broker.oracle_script import PEOPLE, SERVERS, Chance, Script
from tests.support.broker.words import ANY, BOTH, NEW, OPERATOR, Ask, Order, Person

CLIENTS = tuple(who for who in PEOPLE if who not in SERVERS)
SENSIBLE = ("serve", "acknowledge", "go_on", "take_up", "be_done", "order_lasting", "repeat", "release", "discard")
DISCARDS = (Order.DISCARD, Order.CONFIRM)


class Sensible(Script):
    """The oracle's calls, and some that make sense more often."""

    play: HoldingPlay

    # Several calls, one after the other.

    def exchange(self, chance: Chance) -> None:
        """Let a unit of work be sent, received, answered and committed, or some of that."""
        self._each(chance, self.order, self.serve, self.serve, self.answer, self.acknowledge)

    def circulate(self, chance: Chance) -> None:
        """Let a publication be read and acknowledged by some of its subscribers."""
        self._each(chance, self.take_up, self.take_up, self.tell, self.read, self.read, self.be_done, self.be_done)

    def hesitate(self, chance: Chance) -> None:
        """Let a unit of work of two messages be sent, received in part, backed out, and received again."""
        self._each(chance, self._begin, self._commit_begun, self.serve, self._back_out_of_part, self.serve)

    def refuse(self, chance: Chance) -> None:
        """Let a unit of work be received and backed out twice."""
        self._each(chance, self.order, self.serve, self._back_out, self.serve, self._back_out)

    def _each(self, chance: Chance, *rooms: Callable[[Chance], Ask | None]) -> None:
        for room in rooms:
            ask = room(chance)
            if ask is not None and not self.play.has_crashed:
                self.play.call_all([ask])

    # One call.

    def order(self, chance: Chance) -> Ask | None:
        """Send a unit of work of one message, which the store keeps."""
        return self._send_new(chance, Option.COMMIT)

    def order_lasting(self, chance: Chance) -> Ask | None:
        """Send a unit of work that has a lifetime."""
        return self._send_new(chance, Option.COMMIT, store=Store.BROKER, uwtime=100)

    def _send_new(self, chance: Chance, option: Option, **fields: Any) -> Ask | None:
        client = self._free(chance, CLIENTS)
        self.bodies += 1
        if client is None:
            return None
        named = {"service": "BLACK", "store": Store.UNSAID, "body": b"%d" % self.bodies} | fields
        return self.play.ask(client, Function.SEND, option, talk=NEW, **named)

    def tell(self, chance: Chance) -> Ask | None:
        """Publish to the topic that all read."""
        client = self._free(chance, CLIENTS)
        self.bodies += 1
        if client is None:
            return None
        named = {"topic": "NEWS", "publication": NEW, "body": b"%d" % self.bodies}
        return self.play.ask(client, Function.SEND_PUBLICATION, Option.COMMIT, **named)

    def a_call(self, chance: Chance) -> Ask | None:
        if any(self._model.held()) and chance.is_one_in(6):
            return self._order(chance, chance.pick(*Order))
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
        if begun and not chance.is_one_in(4):
            self.bodies += 1
            body = b"%d" % self.bodies
            unit = begun[chance.pick(*range(len(begun)))]
            who = _called(unit.sender)
            option = chance.pick(Option.SYNC, Option.COMMIT)
            return None if self._waits(who) else self.play.ask(who, Function.SEND, option, talk=unit.talk, body=body)
        return self._begin(chance)

    def repeat(self, chance: Chance) -> Ask | None:
        """Send again what was sent with a producer's identifier, or something with one."""
        if self._model.is_lost or self._model.is_forbidden:
            return None
        sent = sorted(self._model.producers)
        if sent and not chance.is_one_in(4):
            name, service, producer = sent[chance.pick(*range(len(sent)))]
            who = _called(name)
        else:
            found = self._free(chance, CLIENTS)
            if found is None:
                return None
            who, service, producer = found, "BLACK", f"P{chance.pick(*range(5))}"
        if self._waits(who) or who.name not in self._model.people:
            return None
        named = {"service": service, "producer": producer, "body": producer.encode(), "store": Store.UNSAID}
        return self.play.ask(who, Function.SEND, Option.COMMIT, talk=NEW, **named)

    def _begin(self, chance: Chance) -> Ask | None:
        return self._send_new(chance, Option.SYNC)

    def _commit_begun(self, chance: Chance) -> Ask | None:
        known = self.play.first.talks.of_number
        begun = [unit for unit in self._model.uows.values() if unit.status is Status.RECEIVED and unit.talk in known]
        self.bodies += 1
        if not begun or self._waits(_called(begun[-1].sender)):
            return None
        talk, body = begun[-1].talk, b"%d" % self.bodies
        return self.play.ask(_called(begun[-1].sender), Function.SEND, Option.COMMIT, talk=talk, body=body)

    def _back_out(self, chance: Chance) -> Ask | None:
        known = self.play.first.uows.of_number
        read = [unit for unit in self._model.uows.values() if unit.status is Status.DELIVERED and unit.number in known]
        read = [unit for unit in read if not self._waits(_called(unit.receiver))]
        if not read:
            return None
        unit = max(read, key=lambda unit: unit.turn)
        return self.play.ask(_called(unit.receiver), Function.SYNCPOINT, Option.BACKOUT, uow=unit.number)

    def _back_out_of_part(self, chance: Chance) -> Ask | None:
        known = self.play.first.uows.of_number
        read = [unit for unit in self._model.uows.values() if unit.status is Status.DELIVERED and unit.number in known]
        read = [unit for unit in read if unit.read < len(unit.bodies) and not self._waits(_called(unit.receiver))]
        if not read:
            return None
        unit = read[chance.pick(*range(len(read)))]
        return self.play.ask(_called(unit.receiver), Function.SYNCPOINT, Option.BACKOUT, uow=unit.number)

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

    # What is held.

    def release(self, chance: Chance) -> Ask | None:
        """Release some of what is held, by what it is called."""
        return self._order(chance, Order.RELEASE)

    def discard(self, chance: Chance) -> Ask | None:
        return self._order(chance, chance.pick(*DISCARDS))

    def _order(self, chance: Chance, order: Order) -> Ask | None:
        """Return an order about some units of work, or some publications for one reader, and now and then another."""
        model, first = self._model, self.play.first
        uows, publications = model.held()
        known = sorted(number for number in uows if number in first.uows.of_number)
        readers = sorted(
            {(user, token, model.topics.publications[number].topic) for number, user, token in publications}
        )
        if readers and (not known or chance.pick(0, 1)):
            user, token, topic = chance.pick(*readers)
            mine = sorted(number for number, *of in publications if of == [user, token])
            mine = [number for number in mine if model.topics.publications[number].topic == topic]
            held = () if chance.is_one_in(3) else self._some(chance, mine, first.publications.of_number)
            return self.play.ask(OPERATOR, order, held=held, topic=topic, reader=(user, token))
        some = self._some(chance, known, first.uows.of_number)
        return self.play.ask(OPERATOR, order, held=some) if some else None

    def _some(self, chance: Chance, held: Sequence[int], known: Collection[int]) -> tuple[int, ...]:
        """Return some of these in any order, and now and then another one that is known."""
        has_other = chance.is_one_in(8) and bool(known)
        among = [number for number in held if number in known]
        count = chance.pick(1, 2, 4)
        some = [chance.pick(*among) for _ in range(count) if among]
        return tuple([*some, chance.pick(*known)] if has_other else some)

    def release_queue(self, chance: Chance) -> None:
        """Release all that is held, or what is of a service or topic, and again where that was interrupted."""
        self._decide_queue(chance, Order.RELEASE)

    def discard_queue(self, chance: Chance) -> None:
        self._decide_queue(chance, chance.pick(*DISCARDS))

    def compare_queue(self, chance: Chance) -> None:
        """Decide as those say who have kept what they were handed: that is discarded, and the rest is released."""
        queue, store, lent = chance.pick("", "BLACK", "NEWS"), self.play.desk.store, self.play.promises.lent
        uowids, readers = self.play.look_at_held(queue)
        had = {uowid for uowid in uowids if (uowid, NO_READER) in lent}
        asks = [self._of_units(Order.CONFIRM, sorted(had)), self._of_units(Order.RELEASE, sorted({*uowids} - had))]
        for topic, reader in readers:
            held = self._held_for(topic, reader)
            had = {each for each in held if (each, reader) in lent}
            asks.append(self._of_topic(Order.CONFIRM, sorted(had), topic, reader))
            asks.append(self._of_topic(Order.RELEASE, sorted({*held} - had), topic, reader))
        for ask in (ask for ask in asks if ask is not None):
            self.play.call_all([ask])
            if self.play.desk.store is not store:
                return
        self.play.check_decided(queue)

    def _of_units(self, order: Order, uowids: Sequence[str]) -> Ask | None:
        return self.play.ask(OPERATOR, order, held=self._numbers(uowids)) if uowids else None

    def _of_topic(self, order: Order, identifiers: Sequence[str], topic: str, reader: Reader) -> Ask | None:
        held = tuple(self.play.first.publications.numbers[each] for each in identifiers)
        return self.play.ask(OPERATOR, order, held=held, topic=topic, reader=reader) if held else None

    def _held_for(self, topic: str, reader: Reader) -> list[str]:
        """Return the publications of a topic that are held for somebody."""
        model = self._model
        held = [number for number, *of in model.held()[1] if tuple(of) == reader]
        held = [number for number in held if model.topics.publications[number].topic == topic]
        return [self.play.first.publications.of_number[number] for number in held]

    def _decide_queue(self, chance: Chance, order: Order) -> None:
        queue, count = chance.pick("", "", "BLACK", "NEWS"), chance.pick(1, 3, 250)
        if not self._decide_all(order, queue, count) and self._decide_all(order, queue, count):
            self.play.check_decided(queue)

    def _decide_all(self, order: Order, queue: str = "", count: int = 250) -> bool:
        """Give orders about all of the queue that is held, about so many units of work at once, the oldest first.

        Return whether the broker that was given the first one was still there when it had carried out the last one.
        """
        uowids, readers = self.play.look_at_held(queue)
        asks = [
            self.play.ask(OPERATOR, order, held=self._numbers(uowids[start : start + count]))
            for start in range(0, len(uowids), count)
        ]
        asks += [self.play.ask(OPERATOR, order, topic=topic, reader=reader) for topic, reader in readers]
        store = self.play.desk.store
        for ask in asks:
            self.play.call_all([ask])
            if self.play.desk.store is not store:
                return False
        return True

    def release_all(self) -> None:
        """Release all that is held, and let subscribers read: what is left then is received as ever."""
        if self._model.is_lost:
            self.play.find()
        self._decide_all(Order.RELEASE)
        if self._model.is_lost:  # a chore had met the last fault: the first order hears of it
            self.play.find()
            self._decide_all(Order.RELEASE)
        self.play.check_nothing_held()
        for each in list(self._model.topics.subscriptions):
            who = _called(each.owner)
            if self._waits(who):
                continue
            self.play.call(who, Function.LOGON)
            for _ in each.due:
                self.play.call(who, Function.RECEIVE_PUBLICATION, topic=each.topic, publication=NEW)

    def _numbers(self, uowids: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.play.first.uows.numbers[uowid] for uowid in uowids)

    def _free(self, chance: Chance, among: Sequence[Person]) -> Person | None:
        there = [who for who in among if who.name in self._model.people and not self._waits(who)]
        return chance.pick(*there) if there else None


def _called(name: tuple[str, ...]) -> Person:
    return next(who for who in PEOPLE if who.name[:2] == name[:2])
