"""What each call of a session, and of what it gives out, means to the model: in the words of the control block.

Written from EntireX, Using Persistence and Units of Work, EntireX 8.0, Concepts of Persistent Messaging, and the
promises of the sessions: what a call does that returns, and what is left of one that was cut.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from oms_journal.broker.block import Function, Option, Reception, Store
from oms_journal.broker.codes import Code
from oms_journal.broker.records import Status
from oms_journal.broker.sessions.requests import NOTHING_THERE
from tests.api.moments import Outcome
from tests.callers.belief import Belief, Broken, Mind, Way, is_ok, nothing
from tests.callers.people import Body, Handle, Place
from tests.support.broker.words import ANY, BOTH, NEW, Answer, Ask

OF_UNIT = ("talk", "uow", "status", "ustatus", "adcount", "store", "service")
OF_MESSAGE = ("talk", "uow", "publication", "topic", "status", "ustatus", "adcount", "body", "from")
OF_PUBLICATION = ("publication", "topic", "status", "ustatus", "store")
MIDDLE = (Reception.RECV_MIDDLE, Reception.RECV_LAST)
LAST = (Reception.RECV_LAST, Reception.RECV_ONLY)
NOTHING_WHERE_NAMED = NOTHING_THERE - {Code.NO_CONVERSATION}
NOT_BEGUN = (  # of what has no identifier yet
    *(Code.OPTION_CONV_ID, Code.UOW_NOT_FOUND, Code.UOWID_REQUIRED),
    *(Code.LOGON_REQUIRED, Code.NEW_LOCATION),
)
PASSES_MAX = 1000
SECONDS = {"1H": 3600, "5D": 432_000}


class Playing(Protocol):
    """A player, as plans need it."""

    belief: Belief
    handles: list[Handle]

    def new_handle(self, kind: str, thing: Any, place: Place, **named: Any) -> Handle: ...


Then = Callable[[Outcome, Sequence[Answer | None]], None]


def _is_lost(handle: Handle) -> Callable[[Mind], bool]:
    return lambda state: handle.number in state.lost


def _is_settled(_: Mind) -> Answer:
    """It says that it is settled, and asks the broker nothing."""
    return {"code": Code.WRONG_STATUS}


def _no_more(_: Outcome, __: Sequence[Answer | None]) -> None:
    """Nothing more is to be noted."""


@dataclass
class Plan:
    """What a call means: what it does when it returns, what may be left of it when it is cut, and what it shows."""

    done: Way
    cut: Sequence[Way] = ()  # besides nothing
    keys: Sequence[str] = ()
    may_be_none: frozenset[Code] = frozenset()
    then: Then = _no_more
    asks: Sequence[Ask] = ()  # about which conversations it is

    is_fit: bool = True

    def ways(self, outcome: Outcome) -> list[Way]:
        return [nothing, *self.cut] if outcome.is_cut else [self.done]


SETTLED = Plan(_is_settled, (nothing,))


def plan_of(player: Playing, place: Place, handle: Handle | None, method: str, means: dict[str, Any]) -> Plan:
    """Return what a call means that has right arguments."""
    planner = _Planner(player, place, handle, means)
    kind = "session" if handle is None else handle.kind
    plan: Plan = getattr(planner, f"{kind}_{method}")()
    if handle is not None and kind in ("sent", "publishing") and not handle.uowid and method not in ("send", "leave"):
        return Plan(lambda _: {"code": NOT_BEGUN}, (nothing,))
    plan.is_fit = plan.is_fit and planner.is_fit(plan)
    return plan


@dataclass
class _Planner:
    player: Playing
    place: Place
    handle: Handle | None
    means: dict[str, Any]
    fields: dict[str, Any] = field(default_factory=dict)

    def is_fit(self, plan: Plan) -> bool:
        """Say whether it can be played: nobody waits for ever, and nobody names what nothing is promised of."""
        for state in self.player.belief.states:
            for ask in plan.asks:
                words = state.in_its_words(ask)
                if state.known.would_wait(words) or state.known.is_unclear(words):
                    return False
                if isinstance(words.talk, int) and words.talk >= 0 and state.model.is_doubtful(words.talk):
                    return False
                if state.known.is_of_a_namesake(words):
                    return False
        return True

    @property
    def of(self) -> Handle:
        assert self.handle is not None
        return self.handle

    def ask(self, function: Function, option: Option = Option.NONE, **fields: Any) -> Ask:
        return Ask(self.place.person, function, option, **fields)

    def carried(self, ask: Ask, keys: Sequence[str] = (), then: Then = _no_more, **named: Any) -> Plan:
        """Return the plan of a call that, cut, is there or is not."""

        def done(state: Mind) -> Answer:
            return state.carry(ask)

        return Plan(done, (done,), keys, then=then, asks=(ask,), **named)

    def taken_back(self, ask: Ask, keys: Sequence[str], then: Then, **named: Any) -> Plan:
        """Return the plan of a call that, cut, is taken back: nobody knows of what it has begun."""
        plan = self.carried(ask, keys, then, **named)

        def back(state: Mind) -> Answer | None:
            answer = plan.done(state)
            assert answer is not None
            return self._back_out(state, answer)

        plan.cut = (back,)
        return plan

    def _back_out(self, state: Mind, answer: Answer) -> Answer | None:
        if not is_ok(answer):
            return answer
        if isinstance(answer.get("publication"), int):
            back = self.ask(Function.CONTROL_PUBLICATION, Option.BACKOUT, publication=answer["publication"])
        elif isinstance(answer.get("uow"), int):
            back = self.ask(Function.SYNCPOINT, Option.BACKOUT, uow=answer["uow"])
        else:
            return answer
        return state.carry_untried(back)

    # Sending.

    def _to(self) -> dict[str, Any]:
        conv_id = self.means.get("conv_id")
        if conv_id is not None:
            return {"talk": conv_id}
        return {"talk": NEW, "service": self.means["service"]}

    def _terms(self) -> dict[str, Any]:
        means = self.means
        said: dict[str, Any] = {}
        if "persistent" in means:
            said["store"] = Store.BROKER if means["persistent"] else Store.OFF
        if "lifetime" in means:
            said["uwtime"] = _seconds(means["lifetime"])
        if "status_lifetimes" in means:
            said["uwstatp"] = means["status_lifetimes"] or 255
        if "status_lifetime" in means:
            said["uwstat_lifetime"] = _seconds(means["status_lifetime"])
        if "user_status" in means:
            said["ustatus"] = means["user_status"]
        if "producer" in means:
            said["producer"] = means["producer"]
        return said

    def _body(self) -> Body:
        body = Body(self.means["body"])
        properties = self.means.get("properties")
        body.beside = (
            dict(properties or {}),
            self.means.get("msgtype", ""),
            self.means.get("msgid", b""),
            self.means.get("user_data", b""),
        )
        return body

    def _is_sayable(self) -> bool:
        """Say whether service or conversation are given, and a producer only where a repeat can be told."""
        has_either = self.means.get("conv_id") is not None or self.means.get("service") is not None
        is_plain = "producer" not in self.means or (
            self.means.get("conv_id") is None and "persistent" not in self.means
        )
        return has_either and is_plain and self.means.get("producer") != ""

    def session_send(self) -> Plan:
        if not self._is_sayable():
            return Plan(nothing, is_fit=False)
        ask = self.ask(Function.SEND, Option.COMMIT, body=self._body(), **self._to(), **self._terms())
        return self.carried(ask, OF_UNIT)

    def session_unit_of_work(self) -> Plan:
        def then(outcome: Outcome, _: Sequence[Answer | None]) -> None:
            if outcome.failure is None:
                self.player.new_handle("sent", outcome.answer, self.place, to=self._to(), terms=self._terms())

        return Plan(lambda _: {"code": Code.OK}, (nothing,), then=then, is_fit=self._is_sayable())

    def sent_send(self) -> Plan:
        handle, body = self.of, self._body()
        is_first = not handle.uowid
        to = handle.to | handle.terms if is_first else {"talk": handle.conv_id, **_producer(handle.terms)}

        def then(outcome: Outcome, answers: Sequence[Answer | None]) -> None:
            if outcome.failure is None:
                handle.is_open = True
                if is_first:
                    status = handle.thing.status
                    handle.uowid, handle.conv_id = status.uowid, status.conv_id

        ask = self.ask(Function.SEND, Option.SYNC, body=body, **to)
        if is_first and to["talk"] == NEW:
            plan = self.taken_back(ask, OF_UNIT, then)
        else:
            plan = self.carried(ask, OF_UNIT, then)
        if handle.is_settled:
            return SETTLED
        plan.is_fit = handle.is_open or is_first
        return plan

    def _settled(self, option: Option, **fields: Any) -> Plan:
        handle = self.of

        def then(outcome: Outcome, answers: Sequence[Answer | None]) -> None:
            if outcome.failure is None:
                self._end(handle)
                handle.is_settled = True
                handle.uowid = handle.thing.uowid  # of the first, where it turned out to be a repeat
            handle.is_sure = handle.is_sure and not outcome.is_cut

        return self.carried(self.ask(Function.SYNCPOINT, option, uow=handle.uowid, **fields), OF_UNIT, then)

    def _end(self, handle: Handle) -> None:
        handle.is_open = False
        for state in self.player.belief.states:
            state.kept.pop(handle.number, None)

    def sent_commit(self) -> Plan:
        return self._settled(Option.COMMIT, ustatus=self.means.get("user_status", ""))

    def sent_commit_and_end(self) -> Plan:
        return self._settled(Option.EOCCANCEL if self.means.get("cancel") else Option.EOC)

    def sent_backout(self) -> Plan:
        return self._settled(Option.BACKOUT)

    def sent_cancel(self) -> Plan:
        return self._settled(Option.CANCEL)

    def sent_delete(self) -> Plan:
        return self._deleting(self._settled(Option.DELETE))

    def sent_query(self) -> Plan:
        return self.carried(self.ask(Function.SYNCPOINT, Option.QUERY, uow=self.of.uowid), OF_UNIT)

    def _deleting(self, plan: Plan) -> Plan:
        """What is deleted is shown with its last status, or not."""
        plan.keys = ("uow",)
        return plan

    # About units of work.

    def _about(self, option: Option, **fields: Any) -> Plan:
        return self.carried(self.ask(Function.SYNCPOINT, option, uow=self.means["uowid"], **fields), OF_UNIT)

    def session_query(self) -> Plan:
        return self._about(Option.QUERY)

    def session_cancel(self) -> Plan:
        return self._about(Option.CANCEL)

    def session_delete(self) -> Plan:
        return self._deleting(self._about(Option.DELETE))

    def session_set_user_status(self) -> Plan:
        return self._about(Option.SETUSTATUS, ustatus=self.means["user_status"])

    def session_last(self) -> Plan:
        ask = self.ask(Function.SYNCPOINT, Option.LAST, talk=self.means.get("conv_id") or "")
        return self.carried(ask, OF_UNIT, may_be_none=frozenset({Code.UOW_NOT_FOUND}))

    def session_end_conversation(self) -> Plan:
        option = Option.CANCEL if self.means.get("cancel") else Option.NONE
        return self.carried(self.ask(Function.EOC, option, talk=self.means["conv_id"]))

    # Receiving.

    def session_register(self) -> Plan:
        service = self.means["service"]

        def then(outcome: Outcome, _: Sequence[Answer | None]) -> None:
            if outcome.failure is None and service not in self.place.services:
                self.place.services.append(service)

        plan = self.carried(self.ask(Function.REGISTER, service=service), then=then)
        plan.is_fit = self.place.who in ("BOB", "DAVE") and service != "TOGETHER"
        return plan

    def session_deregister(self) -> Plan:
        service, option = self.means.get("service"), self.means.get("option", Option.NONE)

        def then(outcome: Outcome, _: Sequence[Answer | None]) -> None:
            if outcome.failure is None and service in self.place.services:
                self.place.services.remove(service)

        plan = self.carried(self.ask(Function.DEREGISTER, option, service=service or ""), then=then)
        plan.is_fit = service is not None
        return plan

    def session_receive_unit(self) -> Plan:
        conv_id, which = self.means.get("conv_id"), self.means.get("which", ANY)
        service = self.means.get("service") if conv_id is None else None
        ask = self.ask(
            Function.RECEIVE, Option.SYNC, talk=conv_id if conv_id is not None else which, service=service or ""
        )
        open_ones = [each for each in self.player.handles if each.place is self.place and each.kind == "received"]
        open_ones = [each for each in open_ones if each.is_open and not each.is_lost]

        hearing = _Hearing(ask, open_ones, self._back_out)

        def then(outcome: Outcome, answers: Sequence[Answer | None]) -> None:
            if outcome.is_cut:
                self._look_for_lost(open_ones)
            if outcome.failure is None and outcome.answer is not None:
                first = outcome.answer.first
                handle = self.player.new_handle(
                    "received", outcome.answer, self.place, uowid=first.uowid, conv_id=first.conv_id, is_open=True
                )
                handle.count = first.delivery_count
                for other in open_ones:  # it was given back, else it would not come again
                    other.is_lost |= other.uowid == handle.uowid
                for state, answer in zip(self.player.belief.states, answers, strict=True):
                    assert answer is not None
                    state.kept[handle.number] = [answer]

        may = NOTHING_THERE if conv_id is None else NOTHING_WHERE_NAMED
        cut = hearing.cut(self.player.belief.states)
        return Plan(hearing.done, cut, OF_MESSAGE, may, then, (ask,))

    def _look_for_lost(self, handles: Sequence[Handle]) -> None:
        """Note what a cut call has given back of what is being received: who reads it knows of it, or hears of it."""
        belief = self.player.belief
        for handle in handles:
            if handle.thing.is_lost:
                handle.is_lost = True
                belief.keep(_is_lost(handle), f"{handle.uowid} is lost, and was not given back")
            elif any(handle.number in state.lost for state in belief.states):
                handle.is_sure = False

    def received_next(self) -> Plan:
        handle = self.of
        ask = self.ask(Function.RECEIVE, Option.SYNC, talk=handle.conv_id)

        def done(state: Mind) -> Answer:
            kept = state.kept.get(handle.number)
            if kept:
                return kept.pop(0)
            if handle.is_last:
                return {"code": Code.END_OF_UOW}
            return state.carry(ask) if handle.is_open and not handle.is_lost else _is_settled(state)

        def back(state: Mind) -> Answer | None:
            if state.kept.get(handle.number):
                return done(state)
            return self._back_out(state, done(state))

        def then(outcome: Outcome, answers: Sequence[Answer | None]) -> None:
            if outcome.is_cut:
                handle.is_sure = False
            if outcome.failure is None:
                handle.is_last = outcome.answer.reception in LAST
                _check_beside(outcome.answer, answers)

        plan = Plan(done, (back,), OF_MESSAGE, then=then, asks=(ask,))
        plan.is_fit = handle.is_sure
        return plan

    def received_answer(self) -> Plan:
        handle, body = self.of, self._body()

        def then(outcome: Outcome, _: Sequence[Answer | None]) -> None:
            if outcome.failure is None:
                handle.answer = handle.answer or Handle(0, "sent", None, self.place)
                handle.answer.is_open = True
            elif outcome.is_cut:
                handle.is_sure = False

        ask = self.ask(Function.SEND, Option.SYNC, talk=handle.conv_id, body=body)
        plan = self.carried(ask, (), then) if handle.is_open and not handle.is_lost else replace(SETTLED)
        plan.is_fit = handle.is_sure
        return plan

    def _ended(self, option: Option) -> Plan:
        handle = self.of
        ustatus = self.means.get("user_status", "")
        has_answer = handle.answer is not None and handle.answer.is_open
        ask = self.ask(Function.SYNCPOINT, option, uow=handle.uowid, ustatus=ustatus)
        both = self.ask(Function.SYNCPOINT, Option.COMMIT, uow=BOTH, talk=handle.conv_id, ustatus=ustatus)

        def done(state: Mind) -> Answer:
            if option is Option.COMMIT:
                return state.carry(both if has_answer else ask)
            if has_answer:
                drop = self._drop_answer(state)
                if drop is not None and not is_ok(drop):
                    return drop
            return state.carry(ask)

        if not handle.is_open or (handle.is_lost and not has_answer):
            return replace(SETTLED, is_fit=handle.is_sure)

        def half(state: Mind) -> Answer | None:
            return self._drop_answer(state)

        def then(outcome: Outcome, _: Sequence[Answer | None]) -> None:
            if outcome.failure is None:
                self._end(handle)
                if handle.answer is not None:
                    handle.answer.is_open = False
            handle.is_sure = handle.is_sure and not outcome.is_cut
            if has_answer and outcome.failure is not None:
                handle.is_sure = False

        cut = (done, half) if has_answer and option is not Option.COMMIT else (done,)
        plan = Plan(done, cut, OF_UNIT, then=then, asks=(both,) if has_answer else (ask,))
        plan.is_fit = handle.is_sure and not handle.is_lost
        return plan

    def _drop_answer(self, state: Mind) -> Answer | None:
        """Back out the answer that is open in the conversation."""
        talk = state.talks.number(self.of.conv_id)
        for unit in state.model.uows.values():
            is_mine = unit.talk == talk and unit.sender[:2] == self.place.person.name[:2]
            if is_mine and unit.status is Status.RECEIVED:
                return state.carry(self.ask(Function.SYNCPOINT, Option.BACKOUT, uow=unit.number))
        return None

    def received_commit(self) -> Plan:
        return self._ended(Option.COMMIT)

    def received_backout(self) -> Plan:
        return self._ended(Option.BACKOUT)

    def received_cancel(self) -> Plan:
        return self._ended(Option.CANCEL)

    def received_set_user_status(self) -> Plan:
        ask = self.ask(Function.SYNCPOINT, Option.SETUSTATUS, uow=self.of.uowid, ustatus=self.means["user_status"])
        return self.carried(ask, OF_UNIT)

    def received_query(self) -> Plan:
        return self.carried(self.ask(Function.SYNCPOINT, Option.QUERY, uow=self.of.uowid), OF_UNIT)

    # Blocks.

    def _left(self, commit: Plan, backout: Plan) -> Plan:
        """Return what leaving a block means: committed, or backed out by an exception, if it is open."""
        handle, raises = self.of, bool(self.means.get("raises"))

        def done(state: Mind) -> Answer | None:
            if not handle.is_open:
                return {"code": Code.OK}
            if not raises:
                answer = commit.done(state)
                if answer is None or is_ok(answer):
                    return {"code": Code.OK}
                backout.done(state)
                return answer
            backout.done(state)
            return {"code": Code.OK}

        def then(outcome: Outcome, _: Sequence[Answer | None]) -> None:
            if outcome.failure is None or not outcome.is_cut:
                handle.is_sure = False
                self._end(handle)
            else:
                handle.is_sure = False

        cut = (*commit.cut, *backout.cut) if handle.is_open else ()
        plan = Plan(done, cut, (), then=then, asks=commit.asks if handle.is_open else ())
        plan.is_fit = handle.is_sure
        return plan

    def sent_leave(self) -> Plan:
        return self._left(self.sent_commit(), self.sent_backout())

    def received_leave(self) -> Plan:
        return self._left(self.received_commit(), self.received_backout())

    def publishing_leave(self) -> Plan:
        return self._left(self.publishing_commit(), self.publishing_backout())

    def reading_leave(self) -> Plan:
        return self._left(self.reading_acknowledge(), self.reading_backout())

    # Plain messages.

    def session_send_message(self) -> Plan:
        ask = self.ask(Function.SEND, Option.NONE, body=self._body(), **self._to()) if self._is_sayable() else None
        if ask is None:
            return Plan(nothing, is_fit=False)
        return self.carried(ask, ("talk",))

    def session_receive_message(self) -> Plan:
        conv_id = self.means.get("conv_id")
        talk = conv_id if conv_id is not None else self.means.get("which", ANY)
        service = self.means.get("service") if conv_id is None else None
        ask = self.ask(Function.RECEIVE, Option.MSG, talk=talk, service=service or "")

        def then(outcome: Outcome, answers: Sequence[Answer | None]) -> None:
            if outcome.failure is None and outcome.answer is not None:
                _check_beside(outcome.answer, answers)

        may = NOTHING_THERE if conv_id is None else NOTHING_WHERE_NAMED
        return self.carried(ask, ("talk", "body", "status"), then, may_be_none=may)

    # Publish and subscribe.

    def session_publish(self) -> Plan:
        ask = self.ask(
            Function.SEND_PUBLICATION,
            Option.COMMIT,
            topic=self.means["topic"],
            publication=NEW,
            body=self._body(),
            ustatus=self.means.get("user_status", ""),
        )
        return self.carried(ask, OF_PUBLICATION)

    def session_publication(self) -> Plan:
        topic, ustatus = self.means["topic"], self.means.get("user_status", "")

        def then(outcome: Outcome, _: Sequence[Answer | None]) -> None:
            if outcome.failure is None:
                self.player.new_handle(
                    "publishing", outcome.answer, self.place, topic=topic, terms={"ustatus": ustatus}
                )

        return Plan(lambda _: {"code": Code.OK}, (nothing,), then=then)

    def publishing_send(self) -> Plan:
        handle = self.of
        is_first = not handle.uowid

        def then(outcome: Outcome, _: Sequence[Answer | None]) -> None:
            if outcome.failure is None:
                handle.is_open, handle.uowid = True, handle.thing.publication_id

        ask = self.ask(Function.SEND_PUBLICATION, Option.SYNC, body=self._body())
        if is_first:
            first = replace(ask, topic=handle.topic, publication=NEW, ustatus=handle.terms["ustatus"])
            return self.taken_back(first, OF_PUBLICATION, then)
        plan = self.carried(replace(ask, topic=handle.topic, publication=handle.uowid), OF_PUBLICATION, then)
        plan.is_fit = handle.is_sure
        return plan

    def _controlled(self, option: Option) -> Plan:
        handle = self.of

        def then(outcome: Outcome, _: Sequence[Answer | None]) -> None:
            if outcome.failure is None:
                self._end(handle)
            handle.is_sure = handle.is_sure and not outcome.is_cut

        ask = self.ask(Function.CONTROL_PUBLICATION, option, publication=handle.uowid)
        return self.carried(ask, OF_PUBLICATION, then)

    def publishing_commit(self) -> Plan:
        return self._controlled(Option.COMMIT)

    def publishing_backout(self) -> Plan:
        return self._controlled(Option.BACKOUT)

    def session_query_publication(self) -> Plan:
        ask = self.ask(Function.CONTROL_PUBLICATION, Option.QUERY, publication=self.means["publication_id"])
        return self.carried(ask, OF_PUBLICATION)

    def session_last_publication(self) -> Plan:
        ask = self.ask(Function.CONTROL_PUBLICATION, Option.LAST, topic=self.means.get("topic", ""))
        return self.carried(ask, OF_PUBLICATION, may_be_none=frozenset({Code.UOW_NOT_FOUND}))

    def session_subscribe(self) -> Plan:
        topic, is_durable = self.means["topic"], bool(self.means.get("durable"))

        def then(outcome: Outcome, _: Sequence[Answer | None]) -> None:
            if outcome.failure is None:
                self.place.topics[topic] = is_durable
                self.player.new_handle("subscription", outcome.answer, self.place, topic=topic)

        return self.carried(
            self.ask(Function.SUBSCRIBE, Option.DURABLE if is_durable else Option.NONE, topic=topic), then=then
        )

    def subscription_receive(self) -> Plan:
        ask = self.ask(Function.RECEIVE_PUBLICATION, topic=self.of.topic, publication=NEW)

        def then(outcome: Outcome, answers: Sequence[Answer | None]) -> None:
            if outcome.failure is None and outcome.answer is not None:
                first = outcome.answer.first
                handle = self.player.new_handle(
                    "reading", outcome.answer, self.place, uowid=first.publication_id, topic=first.topic, is_open=True
                )
                for state, answer in zip(self.player.belief.states, answers, strict=True):
                    assert answer is not None
                    state.kept[handle.number] = [answer]

        return self.taken_back(ask, OF_MESSAGE, then, may_be_none=NOTHING_THERE)

    def subscription_unsubscribe(self) -> Plan:
        def then(outcome: Outcome, _: Sequence[Answer | None]) -> None:
            if outcome.failure is None:
                self.place.topics.pop(self.of.topic, None)

        return self.carried(self.ask(Function.UNSUBSCRIBE, topic=self.of.topic), then=then)

    def reading_next(self) -> Plan:
        handle = self.of
        ask = self.ask(Function.RECEIVE_PUBLICATION, topic=handle.topic, publication=handle.uowid)

        def done(state: Mind) -> Answer:
            kept = state.kept.get(handle.number)
            if kept:
                return kept.pop(0)
            if handle.is_last:
                return {"code": Code.END_OF_UOW}
            return state.carry(ask) if handle.is_open else _is_settled(state)

        def back(state: Mind) -> Answer | None:
            if state.kept.get(handle.number):
                return done(state)
            return self._back_out(state, done(state))

        def then(outcome: Outcome, answers: Sequence[Answer | None]) -> None:
            handle.is_sure = handle.is_sure and not outcome.is_cut
            if outcome.failure is None:
                handle.is_last = outcome.answer.reception in LAST
                _check_beside(outcome.answer, answers)

        plan = Plan(done, (back,), OF_MESSAGE, then=then)
        plan.is_fit = handle.is_sure
        return plan

    def reading_acknowledge(self) -> Plan:
        return self._read_out(Option.COMMIT)

    def reading_backout(self) -> Plan:
        return self._read_out(Option.BACKOUT)

    def _read_out(self, option: Option) -> Plan:
        plan = self._controlled(option) if self.of.is_open else replace(SETTLED)
        plan.is_fit = self.of.is_sure
        return plan


@dataclass
class _Hearing:
    """A RECEIVE of what there is, again and again: what goes on with a unit of work is kept for who is receiving it."""

    ask: Ask
    open_ones: Sequence[Handle]
    back_out: Callable[[Mind, Answer], Answer | None]

    def done(self, state: Mind) -> Answer:
        answer = self._passed(state, PASSES_MAX)
        assert answer is not None
        return answer

    def cut(self, states: Sequence[Mind]) -> list[Way]:
        """Return what may be left of it: so many messages were kept, and one more given back, or not yet there."""
        count = max(self._kept_in(state) for state in states) if self.open_ones else 0
        return [way for number in range(count + 1) for way in (self._back(number), self._kept(number))]

    def _passed(self, state: Mind, count: int) -> Answer | None:
        """Keep at most so many messages; return the first answer that is none of these, None where there was none."""
        for _ in range(count):
            answer = state.carry(self.ask)
            handle = _reader(state, self.open_ones, answer)
            if handle is None:
                return answer
            state.kept.setdefault(handle.number, []).append(answer)
        return None

    def _kept_in(self, state: Mind) -> int:
        """Return how many messages it would keep."""
        copied = state.copy()
        self._passed(copied, PASSES_MAX)
        before, after = (sum(map(len, each.kept.values())) for each in (state, copied))
        return after - before

    def _back(self, count: int) -> Way:
        def given_back(state: Mind) -> Answer | None:
            answer = self._passed(state, count)
            if answer is None:
                answer = state.carry(self.ask)
                handle = _reader(state, self.open_ones, answer)
                if handle is not None:
                    state.lost.add(handle.number)
                    state.kept.pop(handle.number, None)
            return self.back_out(state, answer)

        return given_back

    def _kept(self, count: int) -> Way:
        def was_kept(state: Mind) -> Answer | None:
            answer = self._passed(state, count)
            return {"code": Code.OK} if answer is None else self.back_out(state, answer)

        return was_kept


def _reader(state: Mind, open_ones: Sequence[Handle], answer: Mapping[str, Any]) -> Handle | None:
    """Return who keeps a message that was received in passing: it goes on with a unit of work."""
    if not is_ok(dict(answer)) or answer.get("status") not in MIDDLE:
        return None
    uowid = state.uows.of_number.get(answer["uow"], "")
    return next((each for each in open_ones if each.uowid == uowid and each.count == answer["adcount"]), None)


def _check_beside(message: Any, answers: Sequence[Answer | None]) -> None:
    got = (dict(message.properties), message.msgtype, message.msgid, message.user_data)
    said = [answer.get("body") for answer in answers if answer is not None]
    expected = [body.beside for body in said if isinstance(body, Body)]
    if expected and got not in expected:
        raise Broken(f"with the message came {got}, not {expected[0]}")


def _producer(terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the later messages of a unit of work say beside its conversation."""
    return {"producer": terms["producer"]} if "producer" in terms else {}


def _seconds(value: str | float) -> int:
    return SECONDS[value] if isinstance(value, str) else int(value)
