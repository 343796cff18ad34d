"""The model of the broker, taught what is sent again: a unit of work with its producer's identifier, as a whole.

A repeat's SENDs are answered and add nothing. Its COMMIT compares number and content of messages with the first: the
same get the first UOWID, others a code of their own, and nothing is added. While the first is open with somebody who is
gone, it is backed out first; with another who is there, the repeat waits for its outcome; with the same, it is refused.
"""

from dataclasses import dataclass, field

from oms_journal.broker.block import Function, Option
from oms_journal.broker.codes import Code
from oms_journal.broker.records import Status
from tests.support.broker.model import Model, Uow
from tests.support.broker.words import BOTH, Answer, Ask, Name, Refused, is_same

Key = tuple[tuple[str, str], str, str]  # USER-ID and TOKEN, service, identifier
ENDS = (Option.COMMIT, Option.EOC, Option.EOCCANCEL, Option.BACKOUT)


@dataclass
class Repeat:
    """A unit of work that is being sent again, as far as it has come."""

    key: Key
    first: int
    talks: set[int]  # conversations by which it goes on
    bodies: list[bytes] = field(default_factory=list)


class Repeating(Model):
    """The broker's state, with what is being sent again."""

    def __init__(self, *terms: object) -> None:
        super().__init__(*terms)  # type: ignore[arg-type]
        self.repeats: dict[Name, list[Repeat]] = {}
        self.forgotten: set[int] = set()  # first units of work that left no trace over a restart
        self.opened: dict[int, Key] = {}  # units of work that are not committed, and their identifiers
        self.last_talk: dict[int, int] = {}  # of a unit of work
        self.is_untried = False  # what is given back is what nobody has heard of

    def _back_out(self, unit: Uow, *, is_tried: bool = True) -> None:
        super()._back_out(unit, is_tried=is_tried and not self.is_untried)

    def would_wait(self, ask: Ask) -> bool:
        """Say whether a SEND waits for what another participant has open."""
        me = ask.who.name
        first = self._open_first(me, ask)
        return first is not None and first.sender != me and self._repeat(me, ask.talk) is None

    def is_of_a_namesake(self, ask: Ask) -> bool:
        """Say whether a conversation is that of somebody else of my USER-ID without a token, who is there.

        The broker takes both for one: a client of units of work is known by USER-ID and TOKEN. What two such do in one
        conversation is not in the model, nor what one is told of a unit of work that the other is receiving.
        """
        unit = self.uows.get(ask.uow) if isinstance(ask.uow, int) else None
        receiver = None if unit is None else unit.receiver
        if receiver is not None and receiver[:2] == ask.who.name[:2] and not is_same(ask.who.name, receiver):
            return True
        me, talk = ask.who.name, self.talks.get(ask.talk) if isinstance(ask.talk, int) else None
        client = None if talk is None else talk.client
        return client is not None and client[:2] == me[:2] and not is_same(me, client)

    def is_unclear(self, ask: Ask) -> bool:
        """Say whether a SEND repeats what an earlier start has seen, and no trace is kept of: whose UOWID is told?"""
        number = self.producers.get(self._key(ask.who.name, ask))
        return bool(ask.producer) and ask.option is Option.SYNC and number in self.forgotten

    def is_sent_again(self, uow: int) -> bool:
        """Say whether a unit of work has a producer's identifier, by which it can be sent again."""
        return uow in self.producers.values()

    def _open_first(self, me: Name, ask: Ask) -> Uow | None:
        if ask.function is not Function.SEND or not ask.producer:
            return None
        unit = self.uows.get(self.producers.get(self._key(me, ask), -1))
        return unit if unit is not None and unit.status is Status.RECEIVED else None

    def _key(self, me: Name, ask: Ask) -> Key:
        talk = self.talks.get(ask.talk) if isinstance(ask.talk, int) else None
        return (me[:2], ask.service if talk is None else talk.service, ask.producer)

    def _repeat(self, me: Name, talk: int | str = "", uow: int | str = "") -> Repeat | None:
        mine = self.repeats.get(me, [])
        return next((each for each in mine if talk in each.talks or uow == each.first), None)

    def _send(self, me: Name, ask: Ask) -> Answer:
        is_of_unit = ask.option in (Option.SYNC, Option.COMMIT)  # a plain message is no part of what is sent again
        repeat = self._repeat(me, ask.talk) or self._begun_repeat(me, ask) if is_of_unit else None
        if repeat is None:
            return self._sent_first(me, ask)
        if ask.option is Option.SYNC:
            if repeat not in self.repeats.get(me, []):
                others = [each for each in self.repeats.get(me, []) if each.first != repeat.first]
                if len(others) == len(self.repeats.get(me, [])):
                    self._check_nothing_is_open(me, repeat)
                self.repeats[me] = [*others, repeat]  # decided: who begins it anew has left the one before
            repeat.bodies.append(ask.body)
            return self._of_first(repeat.first)
        is_again = not repeat.bodies and ask.body == self.contents[repeat.key][-1] and ask.talk in repeat.talks
        if not is_again and [*repeat.bodies, ask.body] != self.contents[repeat.key]:
            raise Refused(Code.PRODUCER_REUSED)
        self._forget_repeat(me, repeat)
        return self._of_first(repeat.first)

    def _begun_repeat(self, me: Name, ask: Ask) -> Repeat | None:
        """Return the repeat that a SEND begins, None where it begins none."""
        key = self._key(me, ask)
        number = self.producers.get(key)
        if not ask.producer or number is None:
            return None
        first = self._open_first(me, ask)
        if first is not None:
            if ask.talk == first.talk:
                return None  # another message of the same
            raise Refused(Code.WRONG_STATUS)
        talk = self.last_talk.get(number)
        return Repeat(key, number, {each for each in (talk, ask.talk) if isinstance(each, int)})

    def _check_nothing_is_open(self, me: Name, repeat: Repeat) -> None:
        """Decided: while a unit of work of mine is open in the conversation of the first."""
        talk = self.last_talk.get(repeat.first)
        mine = [unit for unit in self.uows.values() if unit.talk == talk and unit.sender == me]
        if any(unit.status is Status.RECEIVED for unit in mine):
            raise Refused(Code.WRONG_STATUS)

    def _sent_first(self, me: Name, ask: Ask) -> Answer:
        """Send what is no repeat; another message of what is open with the same identifier is none."""
        key = self._key(me, ask)
        known = self.producers.pop(key, None)
        try:
            answer = super()._send(me, ask)
        except Refused:
            if known is not None:
                self.producers[key] = known
            raise
        number = answer.get("uow")
        if isinstance(number, int):
            self.last_talk[number] = answer["talk"]
            if ask.producer and number in self.uows and self.uows[number].status is Status.RECEIVED:
                self.opened[number] = key
        return answer

    def _of_first(self, number: int) -> Answer:
        """Return what a repeat is told: the first UOWID; with the status that it has, where one is kept."""
        unit = self.uows.get(number)
        if unit is None and number in self.forgotten:
            return {}
        return {"uow": number} | ({"status": unit.status} if unit is not None else {})

    def _forget_repeat(self, me: Name, repeat: Repeat) -> None:
        self.repeats[me] = [each for each in self.repeats.get(me, []) if each is not repeat]

    def _syncpoint(self, me: Name, ask: Ask) -> Answer:
        repeat = self._repeat(me, uow=ask.uow) if ask.uow != BOTH and ask.option in ENDS else None
        if repeat is not None:
            if ask.option is not Option.BACKOUT and repeat.bodies != self.contents[repeat.key]:
                raise Refused(Code.PRODUCER_REUSED)
            self._forget_repeat(me, repeat)
            return self._of_first(repeat.first)
        return super()._syncpoint(me, ask)

    def _accept(self, unit: Uow) -> None:
        self.opened.pop(unit.number, None)
        super()._accept(unit)

    def _complete(self, unit: Uow, status: Status) -> None:
        key = self.opened.pop(unit.number, None)
        if key is not None and self.producers.get(key) == unit.number:
            del self.producers[key]  # it was never committed: what comes with the identifier is no repeat
        super()._complete(unit, status)

    def _back_out_of(self, me: Name) -> None:
        self.repeats.pop(me, None)
        super()._back_out_of(me)

    def restart(self, *, is_restored: bool = False, goes_on: bool = False) -> None:
        super().restart(is_restored=is_restored, goes_on=goes_on)
        self.repeats, self.opened = {}, {}
        self.forgotten = {number for number in self.producers.values() if number not in self.uows}
