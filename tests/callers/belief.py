"""What may be the broker's state: some states of the model, until an answer tells which of them it is.

A call that was cut is there whole or not at all, so it leaves several; each later answer has to fit one of them.
"""

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from oms_journal.broker.attributes.attributes import Attributes, parse_attributes
from oms_journal.broker.block import Reply
from oms_journal.broker.codes import Code
from tests.callers.repeats import Repeating
from tests.support.broker.model import Terms
from tests.support.broker.model_topics import TopicTerms
from tests.support.broker.oracle_desk import Said
from tests.support.broker.oracle_play import State, in_words, wrong
from tests.support.broker.words import Answer, Ask

STATES_MAX = 64

ATTRIBUTES = """
DEFAULTS=BROKER
  BROKER-ID=ETB001  PSTORE=WARM  STORE=BROKER  DEFERRED=YES  UWTIME=UNLIM  MAX-UOWS=UNLIM
  MAX-DELIVERY-COUNT=UNLIM  CLIENT-NONACT=UNLIM  SERVER-NONACT=UNLIM  CONV-NONACT=UNLIM
  PUBLISHER-NONACT=UNLIM  SUBSCRIBER-NONACT=UNLIM  SUBSCRIBER-STORE=PSTORE  SUBSCRIPTION-EXPIRATION=UNLIM
  PUBLICATION-LIFETIME=UNLIM  MAX-MESSAGES-IN-PUBLICATION=3
DEFAULTS=SERVICE
  CLASS=GAME SERVER=CHESS SERVICE=BLACK
  CLASS=GAME SERVER=CHESS SERVICE=BLITZ  STORE=OFF DEFERRED=NO MAX-MESSAGES-IN-UOW=3 MAX-UOWS=4
    MAX-DELIVERY-COUNT=2 POSTPONE-ATTEMPTS=1 POSTPONE-DELAY=30S
  CLASS=GAME SERVER=CHESS SERVICE=TOGETHER  MAX-DELIVERY-COUNT=0
DEFAULTS=TOPIC
  TOPIC=NEWS  ALLOW-DURABLE=YES
  TOPIC=GOSSIP  PUBLICATION-LIFETIME=100S
DEFAULTS=JOURNAL
  MAX-DATA-FILE-SIZE=1M
"""
SERVICES = {
    "BLACK": Terms(),
    "BLITZ": Terms(
        is_persistent=False,
        is_deferred=False,
        uows_max=4,
        messages_max=3,
        delivery_max=2,
        postpone_attempts=1,
        postpone_delay=30,
    ),
}
TOPICS = {"NEWS": TopicTerms(messages_max=3), "GOSSIP": TopicTerms(is_durable=False, lifetime=100, messages_max=3)}


def attributes() -> Attributes:
    return parse_attributes(ATTRIBUTES)


class Broken(AssertionError):
    """A promise does not hold."""


@dataclass
class Mind(State):
    """A state of the model, with what sessions have heard in passing and keep to be handed out."""

    kept: dict[int, list[Answer]] = field(default_factory=dict)  # by handle
    lost: set[int] = field(default_factory=set)  # handles whose message was heard in passing, and given back

    def copy(self) -> "Mind":
        copied: Mind = pickle.loads(pickle.dumps(self))
        return copied

    def carry(self, ask: Ask) -> Answer:
        """Carry out a call, and return its answer."""
        self.model.answers = {}
        self.model.call(1, self.in_its_words(ask))
        return self.model.answers.pop(1)

    def carry_untried(self, ask: Ask) -> Answer:
        """Carry out a BACKOUT of what nobody has heard of: no attempt counts."""
        subscriptions = self.model.topics.subscriptions
        before = [(dict(each.tried), dict(each.back)) for each in subscriptions]
        self.known.is_untried = True
        answer = self.carry(ask)
        self.known.is_untried = False
        for each, (tried, back) in zip(subscriptions, before, strict=True):
            each.tried, each.back = tried, back
        return answer

    @property
    def known(self) -> Repeating:
        assert isinstance(self.model, Repeating)
        return self.model


Way = Callable[[Mind], Answer | None]  # in which a state may go on, and what is answered


def nothing(_: Mind) -> None:
    """Nothing happens, and nothing is told."""


def is_ok(answer: Answer | None) -> bool:
    code = Code.OK if answer is None else answer["code"]
    return Code.OK in code if isinstance(code, tuple) else code is Code.OK


class Belief:
    """The states that fit all answers so far."""

    def __init__(self) -> None:
        self.states = [Mind(Repeating(SERVICES, TOPICS))]
        self.lines: list[str] = []

    @property
    def first(self) -> Mind:
        return self.states[0]

    def keep(self, fits: Callable[[Mind], bool], why: str) -> None:
        """Stay in the states that fit what somebody shows. Broken."""
        self.states = [state for state in self.states if fits(state)]
        if not self.states:
            raise Broken(why)

    def note(self, line: str) -> None:
        self.lines.append(line)

    def go_on(self, ways: Sequence[Way], got: Said | None, keys: Iterable[str]) -> list[Answer | None]:
        """Go each of the ways from each state, and stay where that is answered; None is no answer. Broken.

        `keys` are what the answer shows. Return what the model answers in the states that are left.
        """
        left: dict[bytes, tuple[Mind, Answer | None]] = {}
        reports = []
        for state in self.states:
            data = pickle.dumps(state)
            for way in ways:
                after: Mind = pickle.loads(data)
                expected = way(after)
                report = _difference(after, expected, got, keys)
                if report:
                    reports.append(report)
                else:
                    left.setdefault(repr(after).encode(), (after, expected))
        if not left:
            raise Broken("\n".join(dict.fromkeys(reports)))
        if len(left) > STATES_MAX:
            raise RuntimeError(f"{len(left)} states, too many to go on")
        self.states = [state for state, _ in left.values()]
        return [answer for _, answer in left.values()]


def _difference(state: Mind, expected: Answer | None, got: Said | None, keys: Iterable[str]) -> str:
    if got is None:
        return ""
    if expected is None:
        return f"answered {_told(got)}, and was not carried out"
    shown = {key: value for key, value in expected.items() if key == "code" or (key in keys and is_ok(expected))}
    found = wrong(state, shown, got)
    return f"{found}\n  model:  {in_words(expected)}\n  broker: {_told(got)}" if found else ""


def _told(got: Said) -> str:
    reply: Reply = got.reply
    said = {name: value for name, value in vars(reply).items() if value not in ("", None, b"", 0)}
    return f"{said} {got.body!r}" if got.body is not None else f"{said}"
