"""Sessions of a broker, for threads and for tasks, that are used as nobody should: they say so, and nothing is lost."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from oms_journal.broker.attributes.attributes import parse_attributes
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.embedded.async_broker import AsyncBroker
from oms_journal.broker.kernel.state.redelivery import DEAD_LETTERS
from oms_journal.broker.records import Status
from oms_journal.broker.store.start import StartRefused
from tests.api.arguments import StrangeText
from tests.api.moments import Interrupt
from tests.callers.faces import Face

NEXT = {False: "__next__", True: "__anext__"}  # of an iterator, by whether it is for asyncio
SERVICE = "GAME/CHESS/BLACK"
ATTRIBUTES = """
DEFAULTS=BROKER
  BROKER-ID=ETB001  PSTORE=WARM  STORE=BROKER  DEFERRED=YES  UWTIME=UNLIM  MAX-UOWS=UNLIM  MAX-DELIVERY-COUNT=3
  SUBSCRIBER-STORE=PSTORE  SUBSCRIPTION-EXPIRATION=UNLIM
DEFAULTS=SERVICE
  CLASS=GAME SERVER=CHESS SERVICE=BLACK
  CLASS=QUEUE SERVER=DEAD-LETTER SERVICE=-
DEFAULTS=TOPIC
  TOPIC=NEWS  ALLOW-DURABLE=YES
"""


@pytest.fixture(params=["threads", "tasks"])
def face(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Face]:
    face = Face(tmp_path / "spool", parse_attributes(ATTRIBUTES), request.param)
    yield face
    face.end()


def call(face: Face, thing: Any, method: str, *given: Any, **named: Any) -> Any:
    """Return what a method returns on either face; raise what it raises."""
    outcome = face.call(getattr(thing, method), given, named)
    if outcome.failure is not None:
        raise outcome.failure
    return outcome.answer


def logged_on(face: Face, user: str) -> Any:
    session = face.session(user, "T")
    call(face, session, "log_on")
    return session


def following(face: Face, unit: Any) -> bytes:
    """Return the next message of what is being received; StopIteration, StopAsyncIteration."""
    body = call(face, unit, NEXT[face.is_async]).body
    assert isinstance(body, bytes)
    return body


@pytest.mark.parametrize("method", ["receive_unit", "receive_message"])
def test_a_conversation_that_is_named_is_the_only_one_that_is_received_from(face: Face, method: str) -> None:
    alice, bob = logged_on(face, "ALICE"), logged_on(face, "BOB")
    call(face, bob, "register", SERVICE)
    call(face, alice, "send", SERVICE, b"of another conversation")

    with pytest.raises(BrokerError) as refused:
        call(face, bob, method, conv_id="")
    with pytest.raises(TypeError, match="conv_id must be text"):
        call(face, bob, method, conv_id=0)
    with pytest.raises(BrokerError) as unknown:
        call(face, bob, method, conv_id=StrangeText("1FFFFFFFFFFFFFFF"))

    assert refused.value.code is Code.FUNCTION_CONV_ID
    assert unknown.value.code is Code.NO_CONVERSATION


def test_a_plain_message_for_a_conversation_that_is_named_begins_no_other(face: Face) -> None:
    alice, bob = logged_on(face, "ALICE"), logged_on(face, "BOB")
    call(face, bob, "register", SERVICE)

    with pytest.raises(BrokerError) as refused:
        call(face, alice, "send_message", SERVICE, b"body", conv_id="")
    with pytest.raises(TypeError, match="conv_id must be text"):
        call(face, alice, "send_message", SERVICE, b"body", conv_id=b"")

    assert refused.value.code is Code.FUNCTION_CONV_ID
    assert call(face, bob, "receive_message") is None


def test_a_session_serves_again_what_it_served_though_the_list_of_names_is_another_one_by_then(face: Face) -> None:
    bob, parts = logged_on(face, "BOB"), SERVICE.split("/")
    call(face, bob, "register", parts)
    parts[:] = ["NOT", "TO", "BE"]

    call(face, bob, "recover")

    call(face, logged_on(face, "ALICE"), "send", SERVICE, b"body")
    assert call(face, bob, "receive_unit", SERVICE).first.body == b"body"


@pytest.mark.parametrize("method", ["register", "deregister"])
def test_a_list_of_names_that_changes_during_the_call_is_the_one_that_was_given(face: Face, method: str) -> None:
    bob, parts = logged_on(face, "BOB"), SERVICE.split("/")
    call(face, bob, "register", SERVICE)
    face.meddle = lambda: parts.__setitem__(slice(None), ["NOT", "TO", "BE"])

    call(face, bob, method, parts)

    face.meddle = lambda: None
    call(face, bob, "recover")  # it serves what it served
    call(face, logged_on(face, "ALICE"), "send", SERVICE, b"body")
    if method == "register":
        assert call(face, bob, "receive_unit", SERVICE).first.body == b"body"
    else:
        with pytest.raises(BrokerError) as refused:
            call(face, bob, "receive_unit", SERVICE)
        assert refused.value.code is Code.RECEIVE_ANY_BY_CLIENT


# What is settled.


def sent(face: Face, session: Any, *bodies: bytes) -> Any:
    """Send a unit of work, and return what it was sent with."""
    unit = session.unit_of_work(SERVICE)
    for body in bodies:
        call(face, unit, "send", body)
    call(face, unit, "commit")
    return unit


def refused(face: Face, thing: Any, method: str, *given: Any) -> str:
    """Check that a method is refused with 00780307, and return what it says."""
    with pytest.raises(BrokerError) as failure:
        call(face, thing, method, *given)
    assert failure.value.code is Code.WRONG_STATUS
    return str(failure.value)


@pytest.mark.parametrize("end", ["backout", "commit", "cancel"])
def test_what_was_received_and_is_settled_takes_no_message_of_what_comes_again(face: Face, end: str) -> None:
    alice, bob = logged_on(face, "ALICE"), logged_on(face, "BOB")
    call(face, bob, "register", SERVICE)
    uowid = sent(face, alice, b"first", b"last").uowid
    unit = call(face, bob, "receive_unit")
    assert following(face, unit) == b"first"
    call(face, unit, end)

    said = {refused(face, unit, NEXT[face.is_async])}
    said |= {refused(face, unit, method) for method in ("commit", "backout", "cancel")}
    said |= {refused(face, unit, "answer", b"too late")}

    text = f"{uowid} is settled: it was committed, given back or cancelled with this object; receive another one"
    assert said == {f"00780307 Unit of work is not in the correct status: {text}"}
    again = call(face, bob, "receive_unit")
    if end == "backout":
        assert [following(face, again), following(face, again)] == [b"first", b"last"]
        call(face, again, "commit")
    assert call(face, bob, "receive_unit") is None


def test_a_loop_may_commit_what_it_reads_at_its_last_message(face: Face) -> None:
    alice, bob = logged_on(face, "ALICE"), logged_on(face, "BOB")
    call(face, bob, "register", SERVICE)
    sent(face, alice, b"only")
    unit = call(face, bob, "receive_unit")
    following(face, unit)
    call(face, unit, "commit")

    with pytest.raises((StopIteration, StopAsyncIteration)):
        following(face, unit)


def test_what_was_received_before_it_came_again_is_not_settled_by_its_first_object(face: Face) -> None:
    alice, bob = logged_on(face, "ALICE"), logged_on(face, "BOB")
    call(face, bob, "register", SERVICE)
    uowid = sent(face, alice, b"first", b"last").uowid
    old = call(face, bob, "receive_unit")
    call(face, old, "answer", b"half an answer")
    call(face, bob, "recover")
    new = call(face, bob, "receive_unit")

    for method in (NEXT[face.is_async], "commit", "cancel", "backout"):
        assert refused(face, old, method).endswith(
            f"{uowid} was given back meanwhile; use what it was received with again"
        )

    assert [following(face, new), following(face, new)] == [b"first", b"last"]
    call(face, new, "commit")


@pytest.mark.parametrize("end", ["commit", "backout", "commit_and_end"])
def test_what_was_sent_and_is_settled_takes_no_more_messages(face: Face, end: str) -> None:
    alice, bob = logged_on(face, "ALICE"), logged_on(face, "BOB")
    call(face, bob, "register", SERVICE)
    unit = alice.unit_of_work(SERVICE)
    call(face, unit, "send", b"body")
    call(face, unit, end)

    said = refused(face, unit, "send", b"too late")

    assert said.endswith(f"{unit.uowid} is settled; begin another unit of work with unit_of_work")
    last = call(face, alice, "last")
    assert last is None or last.uowid == unit.uowid


def test_a_publication_that_is_settled_takes_no_message_and_gives_none(face: Face) -> None:
    alice, bob = logged_on(face, "ALICE"), logged_on(face, "BOB")
    subscription = call(face, bob, "subscribe", "NEWS")
    publication = alice.publication("NEWS")
    for body in (b"first", b"last"):
        call(face, publication, "send", body)
    call(face, publication, "commit")
    read = call(face, subscription, "receive")
    call(face, read, "backout")

    with pytest.raises(BrokerError):
        call(face, publication, "send", b"too late")
    for method in (NEXT[face.is_async], "acknowledge", "backout"):
        assert "is settled" in refused(face, read, method)

    again = call(face, subscription, "receive")
    assert [following(face, again), following(face, again)] == [b"first", b"last"]


# What an exception keeps from its caller.

Steps = Callable[[Face, Any, Any], tuple[Callable[..., Any], tuple[Any, ...]]]


def _receiving(face: Face, alice: Any, bob: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    sent(face, alice, b"first", b"last")
    return bob.receive_unit, ()


def _going_on(face: Face, alice: Any, bob: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    sent(face, alice, b"first", b"last")
    unit = call(face, bob, "receive_unit")
    following(face, unit)
    return unit.__next__, ()


def _receiving_what_is_published(face: Face, alice: Any, bob: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    subscription = call(face, bob, "subscribe", "NEWS")
    call(face, alice, "publish", "NEWS", b"first")
    return subscription.receive, ()


def _sending(face: Face, alice: Any, bob: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return alice.unit_of_work(SERVICE).send, (b"body",)


def _publishing(face: Face, alice: Any, bob: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    call(face, bob, "subscribe", "NEWS")
    return alice.publication("NEWS").send, (b"body",)


EVERY = 7  # of the places of a call is interrupted
MADE = pytest.mark.parametrize(
    "made", [_receiving, _going_on, _receiving_what_is_published, _sending, _publishing], ids=lambda made: made.__name__
)


@pytest.mark.whole
@MADE
def test_what_an_interrupt_keeps_from_its_caller_is_given_back_and_counts_no_attempt(
    made: Steps, tmp_path: Path
) -> None:
    _is_swept(made, tmp_path, every=EVERY)


@pytest.mark.slow
@MADE
def test_what_an_interrupt_keeps_from_its_caller_is_given_back_at_every_place(made: Steps, tmp_path: Path) -> None:
    _is_swept(made, tmp_path, every=1)


def _is_swept(made: Steps, home: Path, *, every: int) -> None:
    reached = 0
    for place in count(1, every):
        face = Face(home / str(place), parse_attributes(ATTRIBUTES), "threads")
        try:
            if not _is_interrupted(face, made, place):
                break
            reached += 1
        finally:
            face.end()
    assert reached > 5, "it has places"


def _is_interrupted(face: Face, made: Steps, place: int) -> bool:
    """Interrupt the call at that place, False where it has no such; see that nothing is with nobody."""
    alice, bob = logged_on(face, "ALICE"), logged_on(face, "BOB")
    call(face, bob, "register", SERVICE)
    function, given = made(face, alice, bob)
    outcome = face.call(function, given, {}, Interrupt(place))
    if not outcome.where:
        return False
    again = call(face, bob, "receive_unit") if made in (_receiving, _going_on) else None
    if again is not None:
        assert (again.first.body, again.delivery_count) == (b"first", 0), outcome.where
    elif made is _going_on:
        assert following(face, function.__self__) == b"last", outcome.where  # type: ignore[attr-defined]
    else:
        _nothing_is_with_nobody(face, alice, bob, made, outcome.where)
    return True


def _nothing_is_with_nobody(face: Face, alice: Any, bob: Any, made: Steps, where: str) -> None:
    if made is _receiving:
        pytest.fail(f"{where}: nobody has it")
    elif made is _receiving_what_is_published:
        subscription = call(face, bob, "subscribe", "NEWS")
        assert call(face, subscription, "receive") is not None, f"{where}: nobody has it"
    elif made is _sending:
        last = call(face, alice, "last")
        assert last is None or last.status is not Status.RECEIVED, f"{where}: it is open"
    else:
        last = call(face, alice, "last_publication", "NEWS")
        assert last is None or last.status is not Status.RECEIVED, f"{where}: it is open"


# The broker itself.


def test_an_asyncio_broker_is_entered_once(tmp_path: Path) -> None:
    async def script() -> None:
        broker = AsyncBroker.open(tmp_path / "spool", attributes=parse_attributes(ATTRIBUTES))
        async with broker:
            with pytest.raises(BrokerError, match="was entered already") as again:
                await broker.__aenter__()
            async with broker.session("ALICE", "T") as alice:
                await alice.send(SERVICE, b"goes on")
        with pytest.raises(BrokerError, match="was entered already"):
            await broker.__aenter__()
        async with AsyncBroker.open(tmp_path / "spool", attributes=parse_attributes(ATTRIBUTES)) as other:
            assert other.is_store_connected
        assert again.value.code is Code.NOT_ACTIVE

    asyncio.run(script())


def test_an_asyncio_broker_that_could_not_begin_can_be_entered_again(tmp_path: Path) -> None:
    async def script() -> None:
        second = AsyncBroker.open(tmp_path / "spool", attributes=parse_attributes(ATTRIBUTES))
        async with AsyncBroker.open(tmp_path / "spool", attributes=parse_attributes(ATTRIBUTES)):
            with pytest.raises(StartRefused):
                await second.__aenter__()
        async with second:
            assert second.is_store_connected

    asyncio.run(script())


OPERATING: dict[str, tuple[Any, ...]] = {
    "purge": ("1000000100000002",),
    "set_uow_status": ("1000000100000002", Status.ACCEPTED),
    "disconnect_pstore": (),
    "connect_pstore": (),
    "forbid_new_uow_messages": (),
    "allow_new_uow_messages": (),
}


@pytest.mark.parametrize("method", OPERATING)
def test_an_operator_hears_that_the_broker_was_closed(face: Face, method: str) -> None:
    face.now(face.broker.close()) if face.is_async else face.broker.close()

    with pytest.raises(BrokerError, match="the broker was closed") as refusal:
        call(face, face.broker, method, *OPERATING[method])

    assert refusal.value.code is Code.NOT_ACTIVE


@pytest.mark.parametrize(
    ("method", "given"), [("send", {"body": iter([b"a"])}), ("send", {"body": b"a", "properties": iter([("a", "b")])})]
)
def test_an_iterator_is_no_message_and_no_properties(face: Face, method: str, given: dict[str, Any]) -> None:
    alice = logged_on(face, "ALICE")

    with pytest.raises(TypeError, match=r"body must be bytes|properties must map text to text"):
        call(face, alice, method, service=SERVICE, **given)

    assert call(face, alice, "last") is None


def test_a_unit_that_is_always_given_back_ends_with_the_dead_letters(face: Face) -> None:
    alice, bob, operator = (logged_on(face, user) for user in ("ALICE", "BOB", "OPERATOR"))
    call(face, bob, "register", SERVICE)
    call(face, operator, "register", DEAD_LETTERS)
    call(face, alice, "send", SERVICE, b"poison")

    counts = []
    for wait in (None, None, 10):  # the first redelivery is at once, the second after a tenth of a second
        unit = call(face, bob, "receive_unit", wait=wait)
        counts.append(unit.delivery_count)
        call(face, unit, "backout")

    assert counts == [0, 1, 2]
    assert call(face, bob, "receive_unit") is None
    dead = call(face, operator, "receive_unit")
    assert following(face, dead) == b"poison"


def test_what_was_handed_in_may_be_changed_before_it_is_committed(face: Face) -> None:
    alice, bob = logged_on(face, "ALICE"), logged_on(face, "BOB")
    call(face, bob, "register", SERVICE)
    service, body, properties = SERVICE.split("/"), bytearray(b"as it was"), {"key": "as it was"}
    unit = call(face, alice, "unit_of_work", service)
    service[2] = "WHITE"
    call(face, unit, "send", body, properties=properties)
    body[:2], properties["key"] = b"so", "changed"
    call(face, unit, "commit")

    received = call(face, bob, "receive_unit", SERVICE).first
    assert (received.body, received.properties) == (b"as it was", {"key": "as it was"})


def test_a_name_in_a_text_of_another_class_is_what_it_was_made_of(face: Face) -> None:
    alice = logged_on(face, "ALICE")
    sent = call(face, alice, "send", SERVICE, b"body")

    assert call(face, alice, "query", StrangeText(sent.uowid)).uowid == sent.uowid
