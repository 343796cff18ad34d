"""Sessions of a broker, for threads and for tasks, that are used as nobody should: they say so, and nothing is lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.attributes import parse
from broker.codes import BrokerError, Code
from tests.api.arguments import StrangeText
from tests.callers.faces import Face

SERVICE = "GAME/CHESS/BLACK"
ATTRIBUTES = """
DEFAULTS=BROKER
  BROKER-ID=ETB001  PSTORE=WARM  STORE=BROKER  DEFERRED=YES  UWTIME=UNLIM  MAX-UOWS=UNLIM  MAX-DELIVERY-COUNT=3
  SUBSCRIBER-STORE=PSTORE  SUBSCRIPTION-EXPIRATION=UNLIM
DEFAULTS=SERVICE
  CLASS=GAME SERVER=CHESS SERVICE=BLACK
DEFAULTS=TOPIC
  TOPIC=NEWS  ALLOW-DURABLE=YES
"""


@pytest.fixture(params=["threads", "tasks"])
def face(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Face]:
    face = Face(tmp_path / "spool", parse(ATTRIBUTES), request.param)
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
    body = call(face, unit, "__anext__" if face.is_async else "__next__").body
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
