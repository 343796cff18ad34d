"""Several calls decided as one: what has been sent, published, received and read is committed together, or not at all.

SYNCPOINT COMMIT with UOWID=BOTH commits one unit of work that was received and one that was sent. With `parts` in the
call it commits these instead, as many as there are. A part is a call of its own:

    SYNCPOINT COMMIT, EOC, EOCCANCEL   by the sender of a unit of work
    SYNCPOINT COMMIT, BACKOUT, CANCEL  by its receiver
    SYNCPOINT COMMIT, UOWID=BOTH       of one conversation, where an answer is sent in it
    CONTROL_PUBLICATION COMMIT         by the publisher, or by a subscriber

Units of work that were sent with one producer's identifier are a repeat together.

Each is checked as if it were alone, and decides what is to be done and written; nothing is done before all have. One
commit of the store makes it durable. The first that is refused refuses all, and nothing has changed.
"""

from collections.abc import Callable

from oms_journal.broker import rules
from oms_journal.broker.block import BOTH, Function, Option, Reply, Request
from oms_journal.broker.codes import Code, refuse
from oms_journal.broker.kernel.state.decision import Decision, JointDecision, Lockable
from oms_journal.broker.kernel.state.effects import Answer, Call, Effect
from oms_journal.broker.kernel.state.participant import Participant
from oms_journal.broker.kernel.state.producers import First
from oms_journal.broker.kernel.state.tickets import decide
from oms_journal.broker.kernel.state.topics import Publication, TopicSubscription
from oms_journal.broker.kernel.state.world import World
from oms_journal.broker.kernel.topics.delivery import Acknowledgement, control_publication
from oms_journal.broker.kernel.units.repeating import check_are_all
from oms_journal.broker.kernel.units.syncpoint import syncpoint
from oms_journal.broker.store.changes import merge

PARTS_MAX = 10_000
NO_HANDLE = -1  # whom the answers to the parts belong to
_ALLOWED = {
    Function.SYNCPOINT: (Option.COMMIT, Option.BACKOUT, Option.CANCEL, Option.EOC, Option.EOCCANCEL),
    Function.CONTROL_PUBLICATION: (Option.COMMIT,),
}


def commit_together(world: World, call: Call, participant: Participant) -> None:
    """Decide all parts of the call, as one commit. The first part that is refused refuses all."""
    parts = call.request.parts
    if call.request.function is not Function.SYNCPOINT or call.request.uowid.upper() != BOTH:
        raise refuse(Code.FUNCTION_OPTION, "parts go with SYNCPOINT COMMIT of BOTH")
    if len(parts) > PARTS_MAX:
        raise refuse(Code.OUT_OF_RANGE, f"at most {PARTS_MAX:,} parts")
    joint = world.joint = JointDecision()
    try:
        for part in parts:
            _take(world, Call(part, call.caller, NO_HANDLE), participant, call.request)
        _acknowledge(world, joint, Call(call.request, call.caller, NO_HANDLE), participant)
        _check(joint)
    except BaseException:
        _undo(joint)
        raise
    finally:
        world.joint = None
    _decide(world, joint, call, participant)


def _take(world: World, call: Call, participant: Participant, whole: Request) -> None:
    """Let a part be decided; it is noted in the world's joint."""
    part = call.request
    refusal = rules.check(part, is_server=False, is_logged_on=participant.has_logged_on)
    if refusal is not None:
        raise refuse(refusal.code, refusal.detail)
    is_own = (part.user_id, part.token) == (whole.user_id, whole.token)
    if not is_own or part.parts or part.option not in _ALLOWED.get(part.function, ()):
        raise refuse(Code.FUNCTION_OPTION, "not to be committed with others")
    if part.function is Function.SYNCPOINT:
        syncpoint(world, call, participant)
    else:
        control_publication(world, call, participant)


def _acknowledge(world: World, joint: JointDecision, call: Call, participant: Participant) -> None:
    """Let each subscription's publications move its position together."""
    for subscription, publications in joint.acknowledged.items():
        assert isinstance(subscription, TopicSubscription), "subscriptions acknowledge"
        read = [each for each in dict.fromkeys(publications) if isinstance(each, Publication)]
        Acknowledgement(world, subscription, read).decide(call, participant, _nothing_more)


def _nothing_more() -> None:
    """Where a call by itself would be answered."""


def _check(joint: JointDecision) -> None:
    """Refuse what has to be decided with an eye on another part, or what a repeat would leave undone."""
    seen: set[int] = set()
    for decision in joint.decisions:
        held = {id(each) for each in decision.locks}
        if held & seen:
            text = "two parts are about one conversation; an answer in it is committed with UOWID=BOTH"
            raise refuse(Code.FUNCTION_OPTION, text)
        seen |= held
    check_are_all([each for each in joint.repeats if isinstance(each, First)], joint.begun)
    producers = {changes.producer for changes in joint.changes if not changes.is_empty()}
    if len(producers) > 1:
        text = "units of work with a producer's identifier are committed with others of the same, and with nothing else"
        raise refuse(Code.FUNCTION_OPTION, text)
    if producers != {None}:
        _order(joint)


def _order(joint: JointDecision) -> None:
    """Let units of work of one identifier be committed by queue: a repeat may name them in another order."""
    places = sorted(range(len(joint.changes)), key=lambda at: [each.queue for each in joint.changes[at].adds[:1]])
    joint.changes = [joint.changes[at] for at in places]
    joint.decisions = [joint.decisions[at] for at in places]


def _undo(joint: JointDecision) -> None:
    for decision in reversed(joint.decisions):
        if decision.undo is not None:
            decision.undo()


def _is_to_nobody(effect: Effect) -> bool:
    return isinstance(effect, Answer) and effect.handle == NO_HANDLE


def _decide(world: World, joint: JointDecision, call: Call, participant: Participant) -> None:
    firsts: list[int] = []  # places of the first message of each among the adds of all
    place = 0
    for changes in joint.changes:
        firsts.append(place)
        place += len(changes.adds)
    counts = [len(changes.adds) for changes in joint.changes]

    def apply(first: int) -> None:
        mark = len(world.effects)
        with world.producers.together():
            for decision, at, count in zip(joint.decisions, firsts, counts, strict=True):
                decision.apply(first + at if count else 0)
        world.effects[mark:] = [each for each in world.effects[mark:] if not _is_to_nobody(each)]
        world.answer(call.handle, Reply())

    held: dict[int, Lockable] = {id(each): each for decision in joint.decisions for each in decision.locks}
    code = joint.decisions[0].code if joint.decisions else Code.UOW_NOT_PERSISTED
    undo: Callable[[], object] = lambda: _undo(joint)  # noqa: E731 - a name for its type
    decision = Decision(apply, list(held.values()), call.handle, participant, code, undo)
    decision.is_new = any(each.is_new for each in joint.decisions)
    decision.is_ordered = any(each.is_ordered for each in joint.decisions)
    decide(world, merge(joint.changes), decision)
