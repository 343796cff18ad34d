"""Plays a script on a real broker, and holds every answer against what the model says it may be."""

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from oms_journal.broker.block import Function, Option, Reply, Store
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.embedded import runtime
from oms_journal.broker.sessions.requests import Message, PublicationStatus, UnitStatus
from tests.api.arguments import Argument, Given, Oops
from tests.api.moments import Outcome
from tests.api.words import NEVER
from tests.callers.belief import Belief, Broken, Mind, Way, attributes, is_ok, nothing
from tests.callers.clock import Clock
from tests.callers.faces import Face
from tests.callers.given import RIGHT, WORDS, WRONG, Known
from tests.callers.operators import SHOWN, command, way_of
from tests.callers.people import Body, Handle, Place
from tests.callers.plans import OF_UNIT, Plan, plan_of
from tests.callers.steps import (
    COMINGS,
    PEOPLE,
    SECONDS,
    SERVERS,
    AnyMoment,
    Call,
    Come,
    InPassing,
    Operated,
    Passed,
    Resent,
    Restart,
    Step,
    Together,
    Tried,
)
from tests.callers.together import at_once
from tests.fuzz.target import MEMORY
from tests.simulation.faults.fault import exchanged
from tests.support.attack import IsOver, OutOfTime
from tests.support.broker.oracle_desk import Said
from tests.support.broker.words import NEW, OLD, Answer, Ask, Person

TOKENS = {"ALICE": "PC1", "BOB": "S1", "CAROL": "", "DAVE": ""}
SERVED = {"BOB": ("BLACK", "BLITZ"), "DAVE": ("BLACK",)}
DRAIN_MAX = 300
NO_ARGUMENT = Argument("", "", 0)
PLAIN = (
    ("service", "service", "as text"),
    ("body", "body", "plain-bytes"),
    ("topic", "topic", "a topic"),
    ("durable", "flag", "yes or no"),
)


def play(script: Sequence[Step], face: str, is_over: IsOver = lambda: False) -> None:
    """Play the script; Broken, or any exception that nobody promised, where a promise does not hold. OutOfTime."""
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="oms-callers-") as home:
        clock = Clock()
        with exchanged(runtime, "time", lambda _: clock):
            player = Player(Path(home) / "spool", face, clock)
            try:
                player.begin()
                for step in script:
                    if is_over():
                        raise OutOfTime
                    player.step(step)
                player.finish()
            except Exception as failure:
                failure.add_note("\n".join(player.belief.lines[-200:]))
                raise
            finally:
                player.face.end()


class Player:
    """A broker on its way through a script, with what its state may be."""

    def __init__(self, directory: Path, kind: str, clock: Clock) -> None:
        self.clock = clock
        self.face = Face(directory, attributes(), kind)
        self.belief = Belief()
        self.places: dict[str, Place] = {}
        self.old: list[Place] = []  # sessions that were replaced, and whose programs do not know
        self.handles: list[Handle] = []
        self.connections = 0
        self.numbers = 0
        self.talks: list[str] = []
        self.uows: list[str] = []
        self.publications: list[str] = []
        self.bodies = 0

    def begin(self) -> None:
        for who in PEOPLE:
            self.come(who)

    def come(self, who: str) -> None:
        """Begin a session in the place of another, log on, and serve."""
        self.places[who] = place = self._new_place(who)
        self._log_on(place, None)
        for service in SERVED.get(who, ()):
            self._said(place, "register", {"service": f"GAME/CHESS/{service}"}, self._registering(place, service), None)

    def _new_place(self, who: str) -> Place:
        return Place(who, self.face.session(who, TOKENS[who]), self._person(who))

    def _person(self, who: str) -> Person:
        self.connections += 1
        return Person(who, TOKENS[who], self.connections)

    def step(self, step: Step) -> None:
        self.belief.note(f"{step}")
        match step:
            case Call():
                self.call(step)
            case Come():
                self.come_or_go(step)
            case Restart():
                self.restart(kills=step.kills)
            case Resent():
                self.resent(step)
            case InPassing():
                self.in_passing(step)
            case Together():
                self.operated(Operated("allow_new_uow_messages"))
                at_once(self.face, step)
            case Operated():
                self.operated(step)
            case Passed():
                self.passed(step.seconds)
            case Tried():
                self.tried(step)

    # Coming and going.

    def _log_on(self, place: Place, moment: AnyMoment) -> None:
        ask = Ask(place.person, Function.LOGON)

        def done(state: Mind) -> Answer:
            return state.carry(ask)

        self._said(place, "log_on", {}, done, moment)
        # Decided: who has no TOKEN is another participant than the former connection, and does not wait until what that
        # one had is given back. A client for tasks says with its next call only that it has gone.
        self.face.settle()

    def come_or_go(self, step: Come) -> None:
        place = self.places[step.who]
        if step.how == "log_on":
            self._log_on(place, step.moment)
        elif step.how == "log_off":
            self._log_off(place, step.moment)
        elif step.how == "lost":
            self.face.lose(place.session)
            self.belief.go_on([_gone(place.person)], None, ())
            self.come(step.who)
        elif step.how == "elsewhere":
            self.old.append(place)
            self.come(step.who)
        else:
            self._recover(place, step.moment)

    def _log_off(self, place: Place, moment: AnyMoment) -> None:
        """A session that cannot be logged off is gone all the same."""
        person = place.person

        def done(state: Mind) -> Answer:
            answer = state.carry(Ask(person, Function.LOGOFF))
            if not is_ok(answer):
                state.model.gone(person.connection)
            return {"code": Code.OK}

        outcome = self.face.call(place.session.log_off, (), {}, moment)
        ways: list[Way] = [done, nothing] if outcome.is_cut else [done]
        self._heard("log_off", outcome, ways, ())
        place.services, place.topics = [], {}
        if outcome.is_cut:
            self.come(place.who)
            return
        self.places[place.who] = self._new_place(place.who)
        self._log_on(self.places[place.who], None)

    def _recover(self, place: Place, moment: AnyMoment) -> None:
        before, person = place.person, self._person(place.who)

        def done(state: Mind) -> Answer:
            state.model.gone(before.connection)
            answer = state.carry(Ask(person, Function.LOGON))
            for service in place.services:
                answer = state.carry(Ask(person, Function.REGISTER, service=service))
            return state.carry(Ask(person, Function.SYNCPOINT, Option.LAST)) if is_ok(answer) else answer

        place.topics = {topic: True for topic, is_durable in place.topics.items() if is_durable}
        outcome = self.face.call(place.session.recover, (), {}, moment)
        for handle in self._handles_of(place):
            handle.is_sure = handle.is_sure and handle.kind == "received" and not outcome.is_cut
        if outcome.is_cut:
            self.belief.go_on([nothing, _gone(before), done, *self._parts_of_recovery(before, person, place)], None, ())
            place.person = person
            self.come(place.who)
            return
        place.person = person
        for handle in self._handles_of(place):
            self._lose(handle)
        self.face.settle()
        self._heard("recover", outcome, [done], OF_UNIT, may_be_none=(Code.UOW_NOT_FOUND,))

    def _lose(self, handle: Handle) -> None:
        """Note that what is being received was given back by a recovery: the session says so at each call about it."""
        if handle.kind == "received" and handle.is_open:
            handle.is_lost = True
            for state in self.belief.states:
                state.kept.pop(handle.number, None)

    def _parts_of_recovery(self, before: Person, person: Person, place: Place) -> list[Way]:
        def part(count: int) -> Way:
            def done(state: Mind) -> Answer:
                state.model.gone(before.connection)
                answer = state.carry(Ask(person, Function.LOGON))
                for service in place.services[:count]:
                    answer = state.carry(Ask(person, Function.REGISTER, service=service))
                return answer

            return done

        return [part(count) for count in range(len(place.services))]

    def restart(self, *, kills: bool) -> None:
        self.face.restart(kills=kills)
        for state in self.belief.states:
            state.kept.clear()
            state.model.restart()
        self.handles.clear()
        self.old.clear()
        if self.face.is_remote:
            for who in PEOPLE:  # a client outlives its server; here its programs begin anew
                self.face.call(self.places[who].session.log_off, (), {})
        for who in PEOPLE:
            self.come(who)

    # Calls.

    def call(self, step: Call) -> None:
        if step.of == "session":
            place = self._place_of(step)
            handle = None
        else:
            if not self._handles_for(step):
                self._begin_for(step)
            among = self._handles_for(step)
            if not among:
                self.belief.note("    there is none")
                return
            handle = among[-1 - step.pick % min(len(among), 4)]
            place = handle.place
        hand = Known(None, talks=self._fit_talks(), uows=self.uows, publications=self.publications)  # type: ignore[arg-type]
        made = {name: (RIGHT[one.kind] | WRONG[one.kind])[one.way](hand, one.n) for name, one in step.arguments}
        means = {name: one.means for name, one in made.items()}
        if step.method == "leave":
            means["raises"] = not step.pick % 3
        self._meddled(hand)
        function = self._function(place, handle, step)
        values = {name: one.value for name, one in made.items()}
        if dict(step.arguments).get("service", NO_ARGUMENT).way == "too long" and made.get("conv_id") is not None:
            self.belief.note("    not now: the service is not needed there")
            self._meddled(None)
            return
        plan = None if any(one.wrong for one in made.values()) else self._plan(place, handle, step.method, means)
        if plan is not None and not plan.is_fit:
            self.belief.note("    not now")
            self._meddled(None)
            return
        with self.clock.waiting() if "wait" in values else nullcontext():
            outcome = self.face.call(function, self._leaving(step), values, step.moment)
        hand.meddle()
        self._meddled(None)
        if plan is None:
            self._refused(step, made, outcome)
            return
        if handle is not None and step.method == "send" and outcome.failure is None:
            outcome.answer = handle.thing.status
        answers = self._heard(step.method, outcome, plan.ways(outcome), plan.keys, may_be_none=plan.may_be_none)
        plan.then(outcome, answers)
        if outcome.is_cut:
            self._look(place)
        if step.again and step.of == "session" and step.method in ("send", "publish"):
            self.call(replace(step, again=False, moment=None))

    def _handles_for(self, step: Call) -> list[Handle]:
        found = [each for each in self.handles if each.kind == step.of and each.place.who == step.who]
        return found or [each for each in self.handles if each.kind == step.of]

    def _begin_for(self, step: Call) -> None:
        """Do what comes before a call of something that nobody has."""
        named = {name: (name, Argument(kind, way, step.pick)) for name, kind, way in PLAIN}
        if step.of == "received":
            self.call(Call("ALICE", "session", "send", (named["service"], named["body"])))
            self.call(Call("BOB", "session", "receive_unit"))
        elif step.of == "sent":
            self.call(Call("ALICE", "session", "unit_of_work", (named["service"],)))
        elif step.of == "publishing":
            self.call(Call("ALICE", "session", "publication", (named["topic"],)))
        else:
            self.call(Call("CAROL", "session", "subscribe", (named["topic"], named["durable"])))
        if step.of == "reading":
            self.call(Call("ALICE", "session", "publish", (named["topic"], named["body"])))
            self.call(Call("CAROL", "subscription", "receive"))

    def resent(self, step: Resent) -> None:
        """Send a unit of work, as far as it goes; and again as a whole."""
        for is_again in (False, True):
            number = 30 + step.producer
            service = ("service", Argument("service", "as text", 0))
            producer = ("producer", Argument("producer", "text", step.producer))
            calls = [Call(step.who, "session", "unit_of_work", (service, producer))]
            for place in range(step.size):
                is_other = is_again and step.is_other and place == step.size - 1
                body = ("body", Argument("body", "plain-bytes", number + place + 5 * is_other))
                calls.append(Call(step.who, "sent", "send", (body,)))
            calls.append(Call(step.who, "sent", "commit"))
            for call in calls if is_again else calls[: step.stop]:
                self.call(call)
            if not is_again and step.then == "killed":
                self.restart(kills=True)
            elif not is_again and step.then != "on":
                self.come_or_go(Come(step.who, step.then))

    def in_passing(self, step: InPassing) -> None:
        """Receive a unit of work of several messages, and in passing what comes after its first."""
        service, which = Argument("service", "as text", 0), Argument("which", "a word", step.which)
        receive = Call(step.who, "session", "receive_unit", (("which", which),))
        self.call(Call("ALICE", "session", "unit_of_work", (("service", service),)))
        for place in range(step.size):
            self.call(Call("ALICE", "sent", "send", (("body", Argument("body", "plain-bytes", 40 + place)),)))
        self.call(Call("ALICE", "sent", "commit"))
        self.call(Call(step.who, "session", "receive_unit"))
        before = len(self._received_by(step.who))
        for place in range(step.times):
            self.call(replace(receive, moment=step.moment if place == step.times - 1 else None))
        pick = len(self._received_by(step.who)) - before  # the one that was received first
        for _ in range(step.size):
            self.call(Call(step.who, "received", "next", pick=pick))
        if step.then in COMINGS:
            self.come_or_go(Come(step.who, step.then))
        else:
            self.call(Call(step.who, "received", step.then, pick=pick))
        for who in SERVERS:
            self.call(Call(who, "session", "receive_unit"))

    def tried(self, step: Tried) -> None:
        """Receive a unit of work and give it back, until it is put off, or a dead letter."""
        service = ("service", Argument("service", "as text", step.service))
        self.call(Call("ALICE", "session", "send", (service, ("body", Argument("body", "plain-bytes", 50)))))
        for _ in range(step.times):
            self.call(Call(step.who, "session", "receive_unit"))
            self.call(Call(step.who, "received", "backout"))
            self.passed(step.between)
        if step.is_asked_for:
            named = (("uowid", Argument("uowid", "a unit", 0)), ("status", Argument("status", "that it may have", 0)))
            self.operated(Operated("set_uow_status", named))
        self.call(Call(step.who, "session", "receive_unit"))

    def passed(self, seconds: int) -> None:
        """Let time pass: lifetimes end, and what was put off can be received."""
        self.clock.passes(seconds)
        self.face.tick()
        self.belief.go_on([_ticked(seconds)], None, ())

    def operated(self, step: Operated) -> None:
        hand = Known(None, talks=self.talks, uows=self.uows, publications=self.publications)  # type: ignore[arg-type]
        made = {name: (RIGHT[one.kind] | WRONG[one.kind])[one.way](hand, one.n) for name, one in step.arguments}
        means = {name: one.means for name, one in made.items()}
        who = PEOPLE[step.whose]
        means["reader"] = (who, TOKENS[who])
        uowid = means.get("uowid")
        is_right = not any(one.wrong for one in made.values())
        if (
            is_right
            and uowid is not None
            and any(state.known.is_sent_again(_number(state, uowid)) for state in self.belief.states)
        ):
            self.belief.note("    not now: it may be sent again, and what is said of that nobody promises")
            return
        verb, values = step.verb, [one.value for one in made.values()]
        if verb.endswith("_for"):
            verb, values = "_administer", [command(verb, means["topic"], means["reader"])]
        outcome = self.face.operate(verb, values, step.moment)
        if not is_right:
            self._refused(Call("", "session", step.verb, step.arguments), made, outcome)
            return
        done = way_of(step.verb, means)
        ways: list[Way] = [nothing, done] if outcome.is_cut else [done]
        if outcome.answer is None and outcome.failure is None:
            outcome.answer = Reply()
        self._heard(step.verb, outcome, ways, SHOWN)
        self.face.settle()
        if step.verb == "purge" and uowid is not None:
            for handle in self.handles:
                handle.is_sure = handle.is_sure and handle.uowid != uowid
                handle.is_open = handle.is_open and (handle.uowid != uowid or handle.kind == "received")

    def _received_by(self, who: str) -> list[Handle]:
        return [each for each in self.handles if each.kind == "received" and each.place.who == who]

    def _place_of(self, step: Call) -> Place:
        old = [place for place in self.old if place.who == step.who]
        return old[-1] if old and step.pick == 9 else self.places[step.who]

    def _function(self, place: Place, handle: Handle | None, step: Call) -> Callable[..., Any]:
        thing = place.session if handle is None else handle.thing
        special = {
            "next": "__anext__" if self.face.is_async else "__next__",
            "leave": "__aexit__" if self.face.is_async else "__exit__",
        }
        return getattr(thing, special.get(step.method, step.method))  # type: ignore[no-any-return]

    def _leaving(self, step: Call) -> tuple[object, ...]:
        if step.method != "leave":
            return ()
        return (None, None, None) if step.pick % 3 else (ValueError, ValueError("the block"), None)

    def _meddled(self, hand: Known | None) -> None:
        """Have what was handed in change while the broker is at work."""
        caller = threading.get_ident()

        def meddle() -> None:
            if hand is not None and threading.get_ident() == caller:
                hand.meddle()

        self.face.meddle = self.face.disk.meddle = meddle

    def _fit_talks(self) -> list[str]:
        """Return the conversations that somebody may name: what becomes of others nobody promises."""
        model, numbers = self.belief.first.model, self.belief.first.talks.numbers
        return [each for each in self.talks if each in numbers and not model.is_doubtful(numbers[each])]

    def _refused(self, step: Call, made: Mapping[str, Given], outcome: Outcome) -> None:
        """Check that a call with a wrong argument was refused in words; then it has changed nothing."""
        if step.method in ("unit_of_work", "publication") and outcome.failure is None:
            outcome = self.face.call(outcome.answer.send, (b"",), {})  # what it was given is said with its first call
        failure = outcome.failure
        if outcome.is_cut:
            return
        if failure is None:
            raise Broken(f"{step.of}.{step.method} took {made}: {outcome.answer!r}")
        if isinstance(failure, Oops) and any(Oops in one.wrong for one in made.values()):
            return
        if not isinstance(failure, TypeError | ValueError | BrokerError):
            raise Broken(f"{step.of}.{step.method} raised {failure!r}") from failure
        names = {name for name, one in made.items() if one.wrong}
        kinds = [WORDS[one.kind] for name, one in step.arguments if name in names]
        _check_words(failure, names | {word for words in kinds for word in words})

    def _said(
        self, place: Place, method: str, named: dict[str, Any], done: Way, moment: AnyMoment
    ) -> list[Answer | None] | None:
        """Make a call of a session that has one outcome; None where it was cut."""
        outcome = self.face.call(getattr(place.session, method), (), named, moment)
        ways = [nothing, done] if outcome.is_cut else [done]
        answers = self._heard(method, outcome, ways, ())
        return None if outcome.is_cut else answers

    def _heard(
        self,
        method: str,
        outcome: Outcome,
        ways: Sequence[Way],
        keys: Sequence[str],
        may_be_none: Sequence[Code] | frozenset[Code] = (),
    ) -> list[Answer | None]:
        """Hold an outcome against the ways."""
        failure = outcome.failure
        if outcome.is_cut:
            self.belief.note(f"    cut {outcome.where}: {failure!r}")
            return self.belief.go_on(ways, None, ())
        if isinstance(failure, StopIteration | StopAsyncIteration):
            got = Said(Reply(code=Code.END_OF_UOW), None)
        elif isinstance(failure, BrokerError):
            _check_words(failure, ())
            got = Said(Reply(code=failure.code), None)
        elif failure is not None:
            raise Broken(f"{method} raised {failure!r}") from failure
        elif outcome.answer is None and may_be_none:
            self.belief.note("    None")
            return self._none(ways, frozenset(may_be_none))
        else:
            got = said(outcome.answer)
        self.belief.note(f"    {got.reply.code.name} {outcome.answer if failure is None else failure!s}"[:300])
        answers = self.belief.go_on(ways, got, keys)
        self._note_identifiers(got.reply)
        return answers

    def _none(self, ways: Sequence[Way], codes: frozenset[Code]) -> list[Answer | None]:
        """None is told where one of these codes is meant."""

        def told(way: Way) -> Way:
            def done(state: Mind) -> Answer | None:
                answer = way(state)
                code = Code.OK if answer is None else answer["code"]
                is_none = any(each in codes for each in (code if isinstance(code, tuple) else (code,)))
                return {"code": Code.WAIT_TIMED_OUT} if is_none else answer

            return done

        return self.belief.go_on([told(way) for way in ways], Said(Reply(code=Code.WAIT_TIMED_OUT), None), ())

    def _note_identifiers(self, reply: Reply) -> None:
        for identifier, known in (
            (reply.conv_id, self.talks),
            (reply.uowid, self.uows),
            (reply.publication_id, self.publications),
        ):
            if identifier and identifier not in known:
                known.append(identifier)

    def _look(self, place: Place) -> None:
        """Look at what a cut call has left: each look must fit what was seen before."""
        if self._is_down(place):
            return
        self._query(place)

    def _query(self, place: Place) -> None:
        for uowid in self.uows[-3:]:
            if not self._plan(place, None, "query", {"uowid": uowid}).is_fit:
                continue
            ask = Ask(place.person, Function.SYNCPOINT, Option.QUERY, uow=uowid)
            outcome = self.face.call(place.session.query, (uowid,), {})
            self.belief.note(f"  query {uowid}")
            self._heard("query", outcome, [_carried(ask)], OF_UNIT)

    def _is_down(self, place: Place) -> bool:
        """Begin the broker anew where an interrupt of a decision has ended it: what is durable is there."""
        if self.face.is_remote:
            return False
        outcome = self.face.call(place.session.last, (), {})
        is_down = isinstance(outcome.failure, BrokerError) and outcome.failure.code is Code.NOT_ACTIVE
        if is_down:
            self.belief.note(f"  the broker has ended: {outcome.failure}")
            self.restart(kills=False)
            return True
        ask = Ask(place.person, Function.SYNCPOINT, Option.LAST)
        self._heard("last", outcome, [_carried(ask)], OF_UNIT, may_be_none=(Code.UOW_NOT_FOUND,))
        return False

    # What the calls mean.

    def _plan(self, place: Place, handle: Handle | None, method: str, means: dict[str, Any]) -> Plan:
        return plan_of(self, place, handle, method, means)

    def _registering(self, place: Place, service: str) -> Way:
        ask = Ask(place.person, Function.REGISTER, service=service)
        if service not in place.services:
            place.services.append(service)
        return _carried(ask)

    def _handles_of(self, place: Place) -> list[Handle]:
        return [each for each in self.handles if each.place is place]

    def new_handle(self, kind: str, thing: Any, place: Place, **named: Any) -> Handle:
        self.numbers += 1
        self.handles.append(Handle(self.numbers, kind, thing, place, **named))
        return self.handles[-1]

    # The end.

    def finish(self) -> None:
        """Restart; receive and commit all that waits: it is what the model says, and nothing is left."""
        self.belief.note("the end")
        self.restart(kills=True)
        self.passed(SECONDS[3])  # what was put off is received as well
        for who in (*SERVERS, *PEOPLE):
            place = self.places[who]
            talks = [OLD, NEW] if who in SERVERS else [each for each in self._fit_talks()]
            for talk in talks:
                self._drain(place, talk)
        self.restart(kills=False)

    def _drain(self, place: Place, talk: str) -> None:
        named: dict[str, Any] = {"which": talk} if talk in (OLD, NEW) else {"conv_id": talk}
        for _ in range(DRAIN_MAX):
            count = len(self.handles)
            plan = plan_of(self, place, None, "receive_unit", dict(named))
            if not plan.is_fit:
                return
            outcome = self.face.call(place.session.receive_unit, (), named)
            answers = self._heard("receive_unit", outcome, plan.ways(outcome), plan.keys, may_be_none=plan.may_be_none)
            plan.then(outcome, answers)
            if len(self.handles) == count:
                return
            self._read_out(place, self.handles[-1])
        raise Broken(f"{place.who} receives without end from {talk}")

    def _read_out(self, place: Place, handle: Handle) -> None:
        for method in ("next",) * 40:
            step = Call(place.who, "received", method)
            self.call(step)
            if handle.is_last:
                break
        self.call(Call(place.who, "received", "commit"))


def said(answer: Any) -> Said:
    """Return what a call has returned, in the words of the control block."""
    if isinstance(answer, UnitStatus):
        return Said(
            Reply(
                uowid=answer.uowid,
                conv_id=answer.conv_id,
                uow_status=answer.status,
                ustatus=answer.user_status,
                service=answer.service[2],
                adcount=answer.delivery_count,
                store=Store.BROKER if answer.is_persistent else Store.OFF,
            ),
            None,
        )
    if isinstance(answer, PublicationStatus):
        return Said(
            Reply(
                publication_id=answer.publication_id,
                topic=answer.topic,
                uow_status=answer.status,
                ustatus=answer.user_status,
                store=Store.BROKER if answer.is_persistent else Store.OFF,
            ),
            None,
        )
    if isinstance(answer, Reply):
        return Said(answer, None)
    first = answer if isinstance(answer, Message) else getattr(answer, "first", None)
    if isinstance(first, Message):
        reply = Reply(
            conv_id=first.conv_id,
            uowid=first.uowid,
            publication_id=first.publication_id,
            topic=first.topic,
            uow_status=first.reception,
            ustatus=first.user_status,
            adcount=first.delivery_count,
            client_uid=first.sender,
        )
        body = Body(first.body)
        body.beside = (dict(first.properties), first.msgtype, first.msgid, first.user_data)
        return Said(reply, body)
    return Said(Reply(conv_id=answer) if isinstance(answer, str) else Reply(), None)


def _carried(ask: Ask) -> Way:
    return lambda state: state.carry(ask)


def _ticked(seconds: int) -> Way:
    def done(state: Mind) -> None:
        state.model.tick(seconds)

    return done


def _number(state: Mind, uowid: str) -> int:
    number = state.uows.number(uowid)
    return number if isinstance(number, int) else -1


def _gone(person: Person) -> Way:
    def done(state: Mind) -> None:
        state.model.gone(person.connection)

    return done


def _check_words(failure: BaseException, names: Any) -> None:
    text = str(failure)
    found = NEVER.search(text.replace(failure.code.text, "") if isinstance(failure, BrokerError) else text)
    if found is not None:
        raise Broken(f"{type(failure).__name__} says {found[0]!r}: {text}") from failure
    if isinstance(failure, BrokerError):
        if "mistake of the broker" in text or "internal" in text.lower():
            raise Broken(f"a mistake of the broker itself: {text}") from failure
        return
    if names and not any(name.lower() in text.lower() for name in names):
        raise Broken(f"{type(failure).__name__} names none of {sorted(names)}: {text}") from failure
