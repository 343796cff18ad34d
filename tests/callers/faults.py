"""Faults made on purpose at the entrance of the broker, to see that the campaign finds them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from oms_journal.broker.block import Reply
from oms_journal.broker.codes import Code
from oms_journal.broker.kernel import operator_commands
from oms_journal.broker.kernel.participants.logon import depart
from oms_journal.broker.kernel.state.effects import ForbidNew
from oms_journal.broker.kernel.state.replies import reply_of
from oms_journal.broker.records import UowRecord
from oms_journal.broker.sessions.requests import RequestFactory
from oms_journal.broker.sessions.sessions import Session
from oms_journal.database.arguments import plain_bytes, plain_properties
from tests.planted.patched import Patched
from tests.simulation.faults.fault import changed, nothing
from tests.support.attack import Fault, entering

FAULTS: dict[str, Fault] = {}


def fault(
    face: str = "threads", *, budget: int = 10, swept: Sequence[str] = (), near: Sequence[str] = ()
) -> Callable[[Callable[[], Iterator[None]]], None]:
    """Enter a block into the table; `swept` are sweeps of `tests/callers/sweep.py`."""
    return entering(FAULTS, face, budget, swept, near)


@fault(swept=["session.send", "sent.send", "session.send_message"], near=["broker/embedded/test_sessions_misused"])
def a_body_is_not_copied() -> Iterator[None]:
    """The body of a message is kept as the caller's buffer, until it is written."""

    def kept(value: Any, what: str) -> Any:
        return value if what == "body" and isinstance(value, bytearray) else plain_bytes(value, what)

    with changed(Patched.ANSWERS_PLAIN_BYTES, lambda _: kept):
        yield


@fault(swept=["session.unit_of_work"], near=["broker/embedded/test_sessions_misused"])
def a_service_is_kept_by_reference() -> Iterator[None]:
    """The caller's list of three names is looked at again when the unit of work is begun: at its first message."""

    def made(before: Any) -> Any:
        @wraps(before)
        def unit_of_work(self: Session, service: Any = None, **said: Any) -> Any:
            unit = before(self, service, **said)
            if type(service) is list and said.get("conv_id") is None:
                unit._to = _Kept(self._speaker, service)
            return unit

        return unit_of_work

    with changed(Patched.SESSION_UNIT_OF_WORK, made):
        yield


class _Kept(Mapping[str, Any]):
    """The fields of a service, made of its names whenever somebody looks."""

    def __init__(self, speaker: RequestFactory, parts: list[str]) -> None:
        self._speaker = speaker
        self._parts = parts

    def __getitem__(self, name: str) -> Any:
        return self._speaker.to("/".join(self._parts), None)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._speaker.to("/".join(self._parts), None))

    def __len__(self) -> int:
        return len(list(iter(self)))


@fault(swept=["session.register"], near=["broker/embedded/test_sessions_misused"])
def a_service_that_is_served_is_kept_by_reference() -> Iterator[None]:
    """A session that begins anew looks again at the list of names of which it was told what to serve."""

    def made(before: Any) -> Any:
        @wraps(before)
        def register(self: Any, service: Any) -> None:
            before(self, service)
            if type(service) is list:
                self._services = {key: None for key in self._services if key != tuple(service)}
                self._kept = [*getattr(self, "_kept", []), service]

        return register

    def recover(before: Any) -> Any:
        @wraps(before)
        def recovered(self: Any, *given: Any) -> Any:
            self._services |= {tuple(each): None for each in getattr(self, "_kept", [])}
            return before(self, *given)

        return recovered

    with changed(Patched.SESSION_REGISTER, made), changed(Patched.SESSION_RECOVER, recover):
        yield


@fault("tasks", budget=20)
def a_cancelled_receive_keeps_its_unit() -> Iterator[None]:
    """What a cancelled task was about to get is given back by nobody."""
    with changed(Patched.LOOP_HAND_BACK, lambda _: nothing):
        yield


@fault(budget=20, swept=["interrupted receive_unit"])
def an_interrupted_receive_keeps_its_unit() -> Iterator[None]:
    """What a thread was about to get when it was interrupted is given back by nobody."""
    with changed(Patched.THREADS_HAND_BACK, lambda _: nothing):
        yield


@fault(swept=["interrupted receive_unit"], near=["broker/embedded/test_sessions_misused"])
def an_exception_behind_an_answer_keeps_its_unit() -> Iterator[None]:
    """What a session has heard of, and was about to return when it was interrupted, is given back by nobody."""

    def kept(before: Any) -> Any:
        @wraps(before)
        def taken(self: Session, request: Any, made: Any) -> Any:
            return made(self.ask(request))

        return taken

    with changed(Patched.SESSION_TAKEN, kept):
        yield


@fault()
def a_settled_unit_goes_on() -> Iterator[None]:
    """What was received and is settled asks for its next message all the same."""
    with changed(Patched.RECEIVING_CHECK_IS_OPEN, lambda _: nothing):
        yield


@fault()
def a_lost_connection_leaves_its_units_open() -> Iterator[None]:
    """What somebody was sending or receiving stays open when the connection is lost."""

    def made(_: Any) -> Any:
        return lambda world, participant, **_named: depart(world, participant, Code.PARTNER_LOGGED_OFF)

    with changed(Patched.KERNEL_DROP_PARTICIPANT, made):
        yield


@fault()
def a_repeat_adds() -> Iterator[None]:
    """A unit of work that is sent again with its producer's identifier is added again."""
    with changed(Patched.SEND_IS_ANSWERED, lambda _: lambda *_given: False):
        yield


@fault(budget=20)
def a_repeat_is_not_compared() -> Iterator[None]:
    """What is sent again with a known identifier is taken for a repeat, whatever it holds."""
    with (
        changed(Patched.REPEATING_CHECK_IS_SAME, lambda _: nothing),
        changed(Patched.SYNCPOINT_CHECK_IS_SAME, lambda _: nothing),
    ):
        yield


@fault()
def an_exception_commits() -> Iterator[None]:
    """A block that an exception leaves is committed."""

    def left(self: Any, *_: object) -> None:
        if self.is_open:
            self.commit()

    with changed(Patched.SETTLED_EXIT, lambda _: left):
        yield


@fault(budget=20)
def a_message_heard_in_passing_is_dropped() -> Iterator[None]:
    """A message that goes on with a unit of work, and was received in passing, is handed to nobody."""
    with changed(Patched.READING_TAKES, lambda before: lambda self, found: before(self, found) and _drop(self, found)):
        yield


def _drop(reading: Any, found: Any) -> bool:
    reading._units[found.uowid]._heard_of.pop()
    return True


@fault(near=["broker/embedded/test_sessions_misused"])
def a_text_of_another_class_is_believed() -> Iterator[None]:
    """A text that says something else when it is asked for its bytes is used as it is."""

    def made(before: Any) -> Any:
        return lambda value, what: value if isinstance(value, str) else before(value, what)

    with changed(Patched.ANSWERS_PLAIN_TEXT, made):
        yield


@fault(swept=["session.publish", "publishing.send"], near=["broker/embedded/test_sessions_misused"])
def properties_are_not_copied() -> Iterator[None]:
    """The properties of a message are kept as the caller's dictionary, until it is written or received."""

    def kept(value: Any) -> Any:
        return value if type(value) is dict else plain_properties(value)

    with changed(Patched.ANSWERS_PLAIN_PROPERTIES, lambda _: kept):
        yield


@fault()
def what_is_given_back_comes_at_once() -> Iterator[None]:
    """A unit of work that is given back again and again waits for nothing."""
    with changed(Patched.RECEIVER_DELAY, lambda _: lambda *_given: 0):
        yield


@fault()
def what_nobody_can_process_comes_again_for_ever() -> Iterator[None]:
    """MAX-DELIVERY-COUNT is no end: there is no dead letter."""
    with changed(Patched.RECEIVER_IS_AT_ITS_END, lambda _: lambda *_given: False):
        yield


@fault(budget=20)
def the_pseudo_clock_stands_still() -> Iterator[None]:
    """Time passes for what is not persistent alone."""

    def made(before: Any) -> Any:
        return lambda self, elapsed: replace(before(self, elapsed), persistent=self.persistent)

    with changed(Patched.CLOCKS_TICKED, made):
        yield


@fault()
def what_an_operator_asks_for_waits_on() -> Iterator[None]:
    """SET-UOW-STATUS to ACCEPTED is answered, and the unit of work waits as before."""
    with changed(Patched.OPERATOR_COMMANDS_ACCEPT_AGAIN, lambda _: nothing):
        yield


@fault(budget=20)
def a_purge_does_nothing() -> Iterator[None]:
    """PURGE is answered with the unit of work, which stays."""

    def made(_: Any) -> Any:
        def purge(world: Any, given: Any) -> None:
            found = operator_commands._found(world, given.uowid)
            if isinstance(found, UowRecord):
                world.answer(given.handle, Reply(uowid=found.uowid, uow_status=found.status))
            else:
                talk = operator_commands._talk(world, found)
                world.answer(given.handle, reply_of(talk, found, found.status))

        return purge

    with changed(Patched.OPERATOR_COMMANDS_PURGE, made):
        yield


@fault(budget=20, near=["broker/kernel/participants/test_shutdown"])
def nobody_is_subscribed_by_an_operator() -> Iterator[None]:
    """SUBSCRIBE on behalf of a user is answered, and nothing is done."""

    def made(before: Any) -> Any:
        def subscribe_for(world: Any, given: Any) -> None:
            if world.topics.topic(given.topic).attributes.allow_durable:
                world.answer(given.handle, Reply(topic=given.topic))
            else:
                before(world, given)

        return subscribe_for

    with changed(Patched.OPERATOR_COMMANDS_SUBSCRIBE_FOR, made):
        yield


@fault(budget=20, near=["broker/embedded/test_store"])
def what_was_forbidden_is_taken() -> Iterator[None]:
    """New units of work and publications are taken though the operator has forbidden them."""

    def made(before: Any) -> Any:
        return lambda self, given: None if isinstance(given, ForbidNew) else before(self, given)

    with changed(Patched.THREADS_GIVE, made):
        yield


@fault(budget=20)
def last_tells_of_another() -> Iterator[None]:
    """LAST answers nothing, as if the user had begun no unit of work."""
    with changed(Patched.SESSIONS_LAST_STATUS, lambda _: lambda answered: None):
        yield
