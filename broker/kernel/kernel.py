"""The kernel: an input and the time go in, effects come out. It decides and never waits.

No clock, thread, file, socket or randomness is in it. What is to be durable goes out as a Commit, and
what depends on it happens when Durable comes back; until then nobody sees anything of it. A call that
the kernel cannot carry out is answered with its code, and has changed nothing. A mistake of the
kernel itself is answered likewise, and logged.
"""

import traceback
from collections.abc import Callable, Mapping, MutableSequence, Sequence

from oms_journal.broker import rules
from oms_journal.broker.attributes.attributes import Attributes
from oms_journal.broker.block import API_VERSION_MAX, Function, Option, Reply, Request
from oms_journal.broker.codes import BrokerError, Code, refuse
from oms_journal.broker.kernel.conversations.ending import end_conversation
from oms_journal.broker.kernel.conversations.messages import reply_error, send_message, undo
from oms_journal.broker.kernel.joint_commit import commit_together
from oms_journal.broker.kernel.operator_commands import administer
from oms_journal.broker.kernel.participants.logon import (
    deregister,
    drop_participant,
    finish_quiescing,
    log_off,
    log_on,
    register,
)
from oms_journal.broker.kernel.restart.start import place_restored
from oms_journal.broker.kernel.state.conversation import Conversation
from oms_journal.broker.kernel.state.decision import Busy, Lockable, Waiter
from oms_journal.broker.kernel.state.effects import (
    Abandoned,
    AllowNew,
    Call,
    Command,
    Durable,
    Effect,
    Failed,
    ForbidNew,
    Gone,
    Input,
    Level,
    StoreBack,
    StoreLost,
    Tick,
)
from oms_journal.broker.kernel.state.participant import Participant, name_of
from oms_journal.broker.kernel.state.tickets import confirm, find_store, lose_store, reject
from oms_journal.broker.kernel.state.world import Restored, World
from oms_journal.broker.kernel.ticks import tick
from oms_journal.broker.kernel.topics.delivery import (
    control_publication,
    receive_publication,
    serve_subscriber,
    serve_subscribers,
    subscribe,
    unsubscribe,
)
from oms_journal.broker.kernel.topics.publish import send_publication
from oms_journal.broker.kernel.topics.removal import remove_done
from oms_journal.broker.kernel.units.receive import receive, serve, serve_all, serve_participant, services_of
from oms_journal.broker.kernel.units.send import send
from oms_journal.broker.kernel.units.syncpoint import syncpoint
from oms_journal.broker.store.master import Identifiers

INTERNAL_ERROR = Code.STATUS_NOT_UPDATED  # the broker itself made a mistake
VERSION_TEXT = "OMS Broker 1"

_OF_ANYBODY = (Function.VERSION, Function.KERNELVERS)
_OF_SERVERS = (Function.RECEIVE, Function.DEREGISTER)  # what a server may say depends on what it serves

CallFunction = Callable[[World, Call, Participant], None]


class Kernel:
    """Decides what every call and every event brings about."""

    def __init__(self, attributes: Attributes, restored: Restored, identifiers: Identifiers) -> None:
        self.world = World(attributes, restored, identifiers)
        place_restored(self.world, restored)

    def take(self, given: Input, now: int, late: int = 0) -> list[Effect]:
        """Return what the input brings about; `now` is microseconds since 1970 UTC, and only shown.

        `late` are the microseconds since the last tick: what begins now begins so much later than the clocks say.
        """
        world = self.world
        world.now, world.late = now, late
        world.effects = []
        if world.notes:
            self._tell_notes()
        if type(given) is Call:
            self._call(given)
        else:
            self._hear(given)
        self._follow_up()
        return world.effects

    def take_all(self, told: Sequence[Input], now: int, late: int = 0) -> list[Effect]:
        """Return what inputs that are no calls bring about, one after the other."""
        world = self.world
        world.now, world.late = now, late
        world.effects = []
        for given in told:
            self._hear(given)
            self._follow_up()
        return world.effects

    def _tell_notes(self) -> None:
        for note in self.world.notes:
            self.world.log(Level.WARNING, note)
        self.world.notes.clear()

    def _follow_up(self) -> None:
        world = self.world
        topics = world.topics
        while (
            world.touched
            or topics.ready
            or world.stayed
            or world.released
            or world.leaving
            or topics.published
            or topics.sweeping
        ):
            self._go_on()
        unused = world.unused
        if unused.services or unused.topics:
            unused.forget(world.services, topics.topics)

    def _go_on(self) -> None:
        """Let what has become possible happen: receivers first, then calls that had to wait."""
        world = self.world
        if world.touched:
            talk = world.touched.popleft()
            self._guard(lambda: _serve(world, talk))
        elif world.topics.ready:
            subscription = world.topics.ready.popleft()
            self._guard(lambda: serve_subscriber(world, subscription))
        elif world.stayed:
            participant = world.stayed.popleft()
            self._guard(lambda: _serve_again(world, participant))
        elif world.released:
            held = world.released.popleft()
            while held.queued and not held.is_pending and not (world.touched or world.topics.ready):
                self._again(held.queued.pop(0), held)
            if held.queued and not held.is_pending:
                world.released.append(held)
            elif isinstance(held, Conversation):
                self._guard(lambda: _serve(world, held))
        elif world.topics.published:
            topic = world.topics.published.popleft()
            self._guard(lambda: serve_subscribers(world, topic))
        elif world.topics.sweeping:
            topic = world.topics.sweeping.popleft()
            self._guard(lambda: remove_done(world, topic))
        else:
            who = world.leaving.popleft()
            if who.later and not who.pending:
                world.leaving.appendleft(who)  # others may wait behind the first
                self._again(who.later.popleft(), None)

    def _again(self, given: Waiter, held: Lockable | None) -> None:
        if isinstance(given, Call):
            self._call(given, held)
        else:
            self._hear(given)

    def _call(self, call: Call, came_from: Lockable | None = None) -> None:
        world = self.world
        mark = len(world.effects)
        try:
            self._carry_out(call)
        except BrokerError as refusal:
            world.refuse(call.handle, refusal.code, refusal.text)
        except Busy as busy:
            busy.held.wait(call, is_first=busy.held is came_from)
        except Exception:
            del world.effects[mark:]
            self._log_mistake(f"{call.request.function!r}")
            world.refuse(call.handle, INTERNAL_ERROR)

    def _hear(self, given: Input) -> None:
        """Take an input that is no call."""
        try:
            self._other(given)
        except (BrokerError, Busy) as no:
            if isinstance(no, Busy) and isinstance(given, Gone | Command):
                no.held.wait(given)
            elif isinstance(no, BrokerError) and isinstance(given, Command):
                self.world.refuse(given.handle, no.code, no.text)
            else:
                self._log_mistake(f"{given!r:.200}")
        except Exception:
            self._log_mistake(f"{given!r:.200}")
            if isinstance(given, Command):
                self.world.refuse(given.handle, INTERNAL_ERROR)

    def _guard(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:
            self._log_mistake("serving who waits")

    def _log_mistake(self, what: str) -> None:
        self.world.log(Level.ERROR, f"a mistake of the broker itself, {what}: {traceback.format_exc()}")

    def _carry_out(self, call: Call) -> None:
        world, request = self.world, call.request
        function = request.function
        participant = world.participants.get(name_of(request.user_id, request.token, call.caller))
        refusal = rules.check(
            request,
            is_server=function in _OF_SERVERS and _is_server(participant, request),
            is_logged_on=participant is not None and participant.has_logged_on,
        )
        if refusal is not None:
            raise refuse(refusal.code, refusal.detail)
        if request.broker_id and request.broker_id != world.attributes.broker.broker_id:
            raise BrokerError(Code.INVALID_BROKER_ID)
        if function in _OF_ANYBODY:
            world.answer(call.handle, Reply(versions=versions(world, request)))
            return
        if participant is not None and participant.is_pending:
            raise Busy(participant)
        if participant is None:
            if function == Function.LOGOFF:
                raise BrokerError(Code.USER_UNKNOWN)
            participant = world.join(request, call.caller)
        elif participant.physical != call.caller and function != Function.LOGON:
            if participant.has_logged_on:
                raise BrokerError(Code.NEW_LOCATION)
            world.move(participant, call.caller)
        participant.used = world.clocks.volatile + world.late
        room = _FUNCTIONS[function]
        if room is send and not request.option:
            room = send_message
        elif request.parts:
            room = commit_together
        room(world, call, participant)

    def _other(self, given: Input) -> None:
        world = self.world
        match given:
            case Durable():
                confirm(world, given)
            case Failed():
                reject(world, given)
            case Tick():
                tick(world, given)
            case Gone():
                _lose_connection(world, given)
            case Abandoned(handle):
                _abandon(world, handle)
            case StoreLost(text):
                lose_store(world, text or "disconnected")
            case StoreBack():
                find_store(world)
                serve_all(world)
                world.topics.published.extend(world.topics.topics.values())
            case ForbidNew() | AllowNew():
                world.is_new_forbidden = isinstance(given, ForbidNew)
                world.dues.is_untold |= not world.is_new_forbidden
            case Call():
                raise AssertionError("calls go another way")
            case command:
                administer(world, command)


def _serve(world: World, talk: Conversation) -> None:
    """Give who waits what the conversation has, and let go of servers that wanted to wait for its end.

    One of them may have given it back: it is then nobody's, and does not say whose it was.
    """
    serve(world, talk)
    if world.quiescing:
        for registration in list(talk.service.servers.values()):
            if registration.is_quiescing:
                finish_quiescing(world, registration.name, talk.service)


def _serve_again(world: World, participant: Participant) -> None:
    """Give a participant that has not gone away, or not altogether, what it was not given meanwhile."""
    serve_participant(world, participant)
    world.topics.published.extend(participant.topics.values())


def _is_server(participant: Participant | None, request: Request) -> bool:
    """Say whether the caller is registered for the service that it names."""
    if participant is None or not participant.services:
        return False
    names = (request.server_class, request.server_name, request.service)
    return names in participant.services or bool(services_of(participant, request))


def _lose_connection(world: World, given: Gone) -> None:
    for participant in list(world.connections.get(given.caller, {}).values()):
        if participant.pending:
            participant.later.append(given)
        else:
            drop_participant(world, participant, is_untried=given.is_untried)


def _abandon(world: World, handle: int) -> None:
    """Let a call wait no longer."""
    parked = world.parking.of_handle(handle)
    if parked is not None:
        world.parking.remove(parked)
        return
    for decision in world.pending.values():
        waiting: list[MutableSequence[Waiter]] = [held.queued for held in decision.locks]
        if decision.who is not None:
            waiting.append(decision.who.later)
        for queue in waiting:
            _leave_queue(queue, handle)
    for first in world.producers.waiting():
        _leave_queue(first.queued, handle)


def _leave_queue(queue: MutableSequence[Waiter], handle: int) -> None:
    for given in list(queue):
        if not isinstance(given, Gone) and given.handle == handle:
            queue.remove(given)


def versions(world: World, request: Request) -> str:
    """Return what VERSION and KERNELVERS tell."""
    if request.function is Function.VERSION:
        return f"{VERSION_TEXT}, ACI version {API_VERSION_MAX}"
    text = f"{VERSION_TEXT}, broker {world.attributes.broker.broker_id}, ACI version {API_VERSION_MAX}"
    if request.option is Option.EXTENDED:
        text += f", messages of at most {world.attributes.broker.max_uow_message_length} bytes"
    return text


_FUNCTIONS: Mapping[Function, CallFunction] = {
    Function.LOGON: log_on,
    Function.LOGOFF: log_off,
    Function.REGISTER: register,
    Function.DEREGISTER: deregister,
    Function.SEND: send,
    Function.RECEIVE: receive,
    Function.UNDO: undo,
    Function.EOC: end_conversation,
    Function.SYNCPOINT: syncpoint,
    Function.REPLY_ERROR: reply_error,
    Function.SUBSCRIBE: subscribe,
    Function.UNSUBSCRIBE: unsubscribe,
    Function.SEND_PUBLICATION: send_publication,
    Function.RECEIVE_PUBLICATION: receive_publication,
    Function.CONTROL_PUBLICATION: control_publication,
}
