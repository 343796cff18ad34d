"""A broker and its model that do the same: every answer is compared, and after a restart what the store holds.

Calls that are given at once may be carried out in any order that gives their answers; so there may be several
states of the model, until an answer tells which of them it is.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import permutations, product
from typing import Any

from oms_journal.broker.block import Function, Option
from oms_journal.broker.records import Status
from tests.support.broker.model import WITHOUT_STORE, Model, Uow
from tests.support.broker.oracle_desk import SERVICES, TOPICS, Identifiers, OracleDesk, Said, request_of
from tests.support.broker.words import Answer, Ask, Name, Order, Person

STATES_MAX = 6
UNKNOWN = -1
UNKNOWN_IDENTIFIER = "1FFFFFFFFFFFFFFF"


@dataclass
class State:
    """The model, and which of its numbers is which identifier."""

    model: Model
    talks: Identifiers = field(default_factory=Identifiers)
    uows: Identifiers = field(default_factory=Identifiers)
    publications: Identifiers = field(default_factory=Identifiers)
    doubts: list[Model] = field(default_factory=list)  # what another process may find instead, while the store is lost
    unread: dict[int, Ask] = field(default_factory=dict)  # calls whose message cannot be read
    untold: dict[int, tuple[Uow, Uow]] = field(default_factory=dict)  # as the full store has it, and as it became then

    def in_its_words(self, ask: Ask) -> Ask:
        """Return the call with the model's numbers in the place of identifiers."""
        return replace(
            ask,
            talk=self.talks.number(ask.talk),
            uow=self.uows.number(ask.uow),
            publication=self.publications.number(ask.publication),
            held=tuple((self.publications if ask.topic else self.uows).number(each) for each in ask.held),
        )


Way = Callable[[State], None]  # in which the model may go on


class Play:
    """What is done to both, and the comparison."""

    def __init__(self, desk: OracleDesk) -> None:
        self.desk = desk
        self.states = [State(Model(SERVICES, TOPICS))]
        self.handles = 0
        self.places: dict[Name, int] = {}  # from where somebody calls by now
        self.calls = 0
        self.lines: list[str] = []
        self.is_in_doubt = False  # a commit has failed, and the store was not connected again

    @property
    def first(self) -> State:
        """The state that choices are made by."""
        return self.states[0]

    # Calls.

    def ask(self, who: Person, function: Function | Order, option: Option = Option.NONE, **fields: Any) -> Ask:
        """Return a call; numbers are those of the first state."""
        first = self.first
        who = replace(who, connection=self.places.get(who.name, who.connection))
        for name, known in (("talk", first.talks), ("uow", first.uows), ("publication", first.publications)):
            if isinstance(fields.get(name), int):
                fields[name] = known.of_number.get(fields[name], UNKNOWN_IDENTIFIER)
        of_number = (first.publications if fields.get("topic") else first.uows).of_number
        fields["held"] = tuple(of_number.get(number, UNKNOWN_IDENTIFIER) for number in fields.get("held", ()))
        return Ask(who, function, option, **fields)

    def call(self, who: Person, function: Function, option: Option = Option.NONE, **fields: Any) -> None:
        self.call_all([self.ask(who, function, option, **fields)])

    def call_all(self, asks: Sequence[Ask]) -> None:
        """Give calls at once; what is written is carried out when all of them are given."""
        handles = [self._given(ask) for ask in asks]

        self._compare([_in_order(handles, asks, order) for order in permutations(range(len(asks)))])

    def _given(self, ask: Ask) -> int:
        self.handles += 1
        self.calls += 1
        self.lines.append(f"{self.handles}: {self.first.in_its_words(ask)}")
        self._give(self.desk, ask)
        return self.handles

    def _give(self, desk: OracleDesk, ask: Ask) -> None:
        if isinstance(ask.function, Order):
            desk.order(self.handles, ask)
        else:
            desk.call(self.handles, request_of(ask), ask.who.connection)

    def call_and_die(self, ask: Ask, *, is_written: bool) -> None:
        """Let the process die before anybody is answered; what was to be written is, or is not."""
        handle = self._given(ask)
        self.lines.append(f"    killed, {'written' if is_written else 'not written'}")
        writes = bool(self.desk.commits)
        if is_written:
            self.desk.settle(is_told=False)
        for state in self.states:
            if is_written or not writes:
                state.model.only(handle, state.in_its_words(ask))
        self._start_again(is_killed=True)

    def call_all_and_lose(self, asks: Sequence[Ask], written: int) -> None:
        """Give calls at once, and let the store fail when so many commits are written, if there are more."""
        handles = [self._given(ask) for ask in asks]
        self.desk.settle(written)
        with self.desk.failing():
            self.desk.settle()
        if self.desk.store.is_connected:
            self._compare([_in_order(handles, asks, order) for order in permutations(range(len(asks)))])
            return
        self.lines.append("    the store fails")
        self.is_in_doubt = True
        self._compare([*_in_any_order_with_a_loss(handles, asks)])

    def call_and_go(self, ask: Ask) -> None:
        """Let the connection be lost before the call is answered, which nobody hears then."""
        handle, connection = self._given(ask), ask.who.connection
        self.lines.append(f"    gone {connection}")
        self.desk.gone(connection)
        call, go = _in_order([handle], [ask], [0]), lambda state: state.model.gone(connection)
        self._compare([_both(call, go), _both(go, call)], unheard=handle)

    # What else happens.

    def gone(self, connection: int) -> None:
        self.lines.append(f"gone {connection}")
        self.desk.gone(connection)
        self._compare([lambda state: state.model.gone(connection)])

    def tick(self, seconds: int) -> None:
        self.lines.append(f"tick {seconds}")
        self.desk.tick(seconds)
        for state in self.states:
            state.model.now = self.desk.now
        self._compare([lambda state: state.model.tick(seconds)])

    def lose(self) -> None:
        self.lines.append("the store is lost")
        self.desk.lose()
        self._compare([lambda state: state.model.lose()])

    def find(self) -> None:
        self.lines.append("the store is found")
        self.is_in_doubt = False
        self.desk.find()
        self._compare([lambda state: state.model.find()])

    def forbid(self, *, is_forbidden: bool) -> None:
        self.lines.append("no new units of work" if is_forbidden else "new units of work are welcome")
        self.desk.forbid(is_forbidden=is_forbidden)
        self._compare([lambda state: state.model.forbid(is_forbidden=is_forbidden)])

    def restart(self, *, is_killed: bool) -> None:
        if self.is_in_doubt:  # only who opens the store again in the same process knows what is there
            self.find()
        is_killed = is_killed or self.first.model.is_lost
        self.lines.append("killed" if is_killed else "restarted")
        self._start_again(is_killed=is_killed)

    def _start_again(self, *, is_killed: bool) -> None:
        if is_killed:
            self.desk.kill_and_start()
        else:
            self.desk.stop_and_start()
        self._compare([lambda state: state.model.restart()])
        self._compare_store()

    # Comparing.

    def _compare(self, ways: Sequence[Way], unheard: int = 0) -> None:
        """Let the model go each of the ways from each state; those stay that answer as the broker does."""
        self.desk.settle()
        got, self.desk.answers = self.desk.answers, {}
        got.pop(unheard, None)
        left: dict[str, tuple[State, dict[int, Answer]]] = {}
        reports = []
        for state in self.states:
            for way in ways:
                is_only = len(ways) * len(self.states) == 1
                after = state if is_only else pickle.loads(pickle.dumps(state))  # five times faster than copy
                after.model.now = self.desk.now
                after.model.answers = {}
                way(after)
                after.model.answers.pop(unheard, None)
                report = self._difference(after, got)
                if report:
                    reports.append(report)
                elif is_only:
                    left[""] = (after, after.model.answers)
                else:
                    left.setdefault(repr(after), (after, after.model.answers))
        assert left, "\n".join([*self.lines, "", *reports])
        self.states = self._followed([state for state, _ in left.values()])
        self.lines += [f"    {handle}: {in_words(answer)}" for handle, answer in self.first.model.answers.items()]

    def _followed(self, states: list[State]) -> list[State]:
        """Return the states that the play goes on from. Decided: what calls at once leave hardly ever differs."""
        return states[:STATES_MAX]

    def _difference(self, state: State, got: dict[int, Said]) -> str:
        """Return what the broker does otherwise, "" for nothing."""
        expected = state.model.answers
        for handle in sorted(expected | got):
            difference = wrong(state, expected.get(handle), got.get(handle))
            if difference:
                said = got.get(handle)
                told = f"{said.reply} {said.body!r}" if said is not None else "nothing"
                return f"{handle}: {difference}\n  model:  {in_words(expected.get(handle, {}))}\n  broker: {told}"
        if not state.model.is_lost:
            stored = self.desk.store.message_count()
            if stored != state.model.stored_messages():
                return f"{stored} messages in the store and not {state.model.stored_messages()}"
        return ""

    def _compare_store(self) -> None:
        """Compare which subscriptions and units of work, by status, the store has records of, just after a restart."""
        records, subscribers = self.desk.records(), self.desk.subscribers()
        there = [state for state in self.states if _stored(state, records) == _expected(state)]
        fit = [state for state in there if _subscribers(state) == subscribers]
        report = f"in the store: {_stored(self.first, records)} {subscribers}, "
        report += f"and not {_expected(self.first)} {_subscribers(self.first)}"
        assert fit, "\n".join([*self.lines, "", report])
        self.states = fit


def _in_order(handles: Sequence[int], asks: Sequence[Ask], order: Sequence[int]) -> Way:
    """Return the way that carries the calls out in this order."""

    def way(state: State) -> None:
        for at in order:
            state.model.call(handles[at], state.in_its_words(asks[at]))

    return way


def _both(one: Way, other: Way) -> Way:
    def way(state: State) -> None:
        one(state)
        other(state)

    return way


def _in_any_order_with_a_loss(handles: Sequence[int], asks: Sequence[Ask]) -> Iterator[Way]:
    """Yield the ways in which the store may be lost among calls: one behind that is refused, or does without."""
    count = len(asks)
    for order in permutations(range(count)):
        for before in range(count + 1):
            for refused in product((False, True), repeat=count - before):
                yield _with_a_loss(handles, asks, (order[:before], order[before:], refused))


def _with_a_loss(
    handles: Sequence[int], asks: Sequence[Ask], when: tuple[Sequence[int], Sequence[int], Sequence[bool]]
) -> Way:
    before, behind, refused = when

    def way(state: State) -> None:
        _in_order(handles, asks, before)(state)
        state.model.lose()
        for at, is_refused in zip(behind, refused, strict=True):
            if is_refused:
                state.model.answers[handles[at]] = {"code": WITHOUT_STORE}
            else:
                state.model.call(handles[at], state.in_its_words(asks[at]))

    return way


def _expected(state: State) -> list[tuple[int, Status | None]]:
    known = state.uows.of_number
    uows = state.model.stored_uows()
    return sorted((number if number in known else UNKNOWN, status) for number, status in uows.items())


def _subscribers(state: State) -> list[tuple[str, str, str]]:
    return sorted((each.topic, *each.owner[:2]) for each in state.model.topics.subscriptions if each.is_durable)


def _stored(state: State, records: dict[str, Status]) -> list[tuple[int, Status | None]]:
    """Return the records by the model's numbers; DELIVERED is written where the status is persistent."""
    numbers = state.uows.numbers
    return sorted(
        (numbers.get(identifier, UNKNOWN), Status.ACCEPTED if status is Status.DELIVERED else status)
        for identifier, status in records.items()
    )


def wrong(state: State, expected: Answer | None, got: Said | None) -> str:
    """Return in what an answer is not the model's, "" for nothing."""
    if expected is None or got is None:
        return "answered and should not be" if expected is None else "not answered"
    reply = got.reply
    shown = {
        "code": reply.code,
        "status": reply.uow_status,
        "body": got.body,
        "ustatus": reply.ustatus,
        "adcount": reply.adcount,
        "store": reply.store,
        "stat": reply.conv_stat,
        "begun": reply.commit_time,
        "from": reply.client_uid,
        "service": reply.service,
        "topic": reply.topic,
        "held": reply.text.startswith("held: "),
    }
    named = {
        "talk": (state.talks, reply.conv_id),
        "uow": (state.uows, reply.uowid),
        "publication": (state.publications, reply.publication_id),
    }
    for key, value in expected.items():
        if key in named:
            known, identifier = named[key]
            if not known.is_the(value, identifier):
                return f"{key} {known.numbers.get(identifier, identifier)} and not {value}"
        elif shown[key] != value and not (isinstance(value, tuple) and shown[key] in value):
            return f"{key} {shown[key]!r} and not {value!r}"
    return ""


def in_words(answer: Answer) -> str:
    """Return an answer of the model on one line."""
    return " ".join(f"{key}={value.name if isinstance(value, Enum) else repr(value)}" for key, value in answer.items())
