"""The one place where calls are held against the rights of who makes them."""

import asyncio
from collections.abc import Iterator
from itertools import product
from typing import Any

from oms_journal.broker.block import ANY, BOTH, NEW, NONE, Function, Option, Request
from oms_journal.broker.codes import Code
from oms_journal.broker.rights import BROKER, OPEN, Guard, Identity, Right, check_call, service_name, topic_name
from tests.support.sweeps import for_each

NAMES: dict[str, Any] = {"server_class": "RPC", "server_name": "SRV1", "service": "CALLNAT"}


class Holder(Identity):
    """A user with the rights that the test gives, and nothing else."""

    def __init__(self, *rights: tuple[Right, str]) -> None:
        super().__init__("ALICE", "127.0.0.1")
        self.rights = set(rights)
        self.is_stale = False

    @property
    def is_current(self) -> bool:
        return not self.is_stale

    def may(self, right: Right, name: str) -> bool:
        return (right, name) in self.rights


def said(function: Function, option: Option = Option.NONE, **fields: Any) -> Request:
    return Request(function=function, option=option, **{"user_id": "ALICE", **fields})


def code(identity: Identity, request: Request) -> Code | None:
    found = check_call(identity, request)
    return None if found is None else found[0]


@for_each("held", [None, *Right])
@for_each(
    ("function", "fields", "needed", "name"),
    [
        (Function.SEND, {"conv_id": NEW, **NAMES}, Right.SEND, "RPC/SRV1/CALLNAT"),
        (Function.SEND, {"conv_id": NONE, **NAMES}, Right.SEND, "RPC/SRV1/CALLNAT"),
        (Function.SEND, {"conv_id": "new", **NAMES}, Right.SEND, "RPC/SRV1/CALLNAT"),
        (Function.SEND, {"conv_id": "", **NAMES}, Right.SEND, "RPC/SRV1/CALLNAT"),
        (Function.RECEIVE, {"conv_id": ANY, **NAMES}, Right.RECEIVE, "RPC/SRV1/CALLNAT"),
        (Function.REGISTER, NAMES, Right.RECEIVE, "RPC/SRV1/CALLNAT"),
        (Function.SEND_PUBLICATION, {"publication_id": NEW, "topic": "NEWS"}, Right.SEND, "topic/NEWS"),
        (Function.SEND_PUBLICATION, {"topic": "NEWS"}, Right.SEND, "topic/NEWS"),
        (Function.RECEIVE_PUBLICATION, {"publication_id": "new", "topic": "NEWS"}, Right.RECEIVE, "topic/NEWS"),
        (Function.SUBSCRIBE, {"topic": "NEWS"}, Right.RECEIVE, "topic/NEWS"),
        (Function.SUBSCRIBE, {"topic": "NEWS", "publication_id": "1"}, Right.RECEIVE, "topic/NEWS"),
    ],
)
def test_what_begins_something_needs_its_one_right(
    function: Function, fields: dict[str, Any], needed: Right, name: str, held: Right | None
) -> None:
    identity = Holder() if held is None else Holder((held, name))

    assert code(identity, said(function, **fields)) == (None if held is needed else Code.USER_NOT_AUTHORIZED)


def unbound() -> Iterator[Request]:
    """Calls about what the user has begun before."""
    of_units = (Option.COMMIT, Option.BACKOUT, Option.CANCEL, Option.DELETE, Option.QUERY, Option.LAST, Option.EOC)
    yield from (said(Function.SYNCPOINT, option, uowid="1") for option in of_units)
    yield from (said(Function.CONTROL_PUBLICATION, option, publication_id="1", topic="NEWS") for option in of_units)
    yield from (said(function, conv_id="1", **NAMES) for function in (Function.SEND, Function.RECEIVE, Function.EOC))
    yield from (said(function) for function in (Function.LOGON, Function.LOGOFF, Function.DEREGISTER))
    yield said(Function.RECEIVE_PUBLICATION, publication_id="1", topic="NEWS")
    yield said(Function.RECEIVE, conv_id=ANY)
    yield said(Function.UNSUBSCRIBE, topic="NEWS")


@for_each("request_", list(unbound()))
def test_what_goes_on_needs_no_right_and_only_its_user(request_: Request) -> None:
    identity = Holder()

    assert code(identity, request_) is None

    request_.user_id = "BOB"
    assert code(identity, request_) is Code.USER_ID_BAD
    request_.user_id = ""
    assert code(identity, request_) is Code.USER_ID_BAD


@for_each("function", Function)
@for_each("user_id", ["BOB", "alice", "ALICE ", " ALICE", "ALICE\0", "*"])
def test_nobody_calls_as_another_user(function: Function, user_id: str) -> None:
    everything = Identity("ALICE")

    assert code(everything, said(function, user_id=user_id)) is Code.USER_ID_BAD


def test_a_part_of_a_joint_commit_is_held_against_the_rights_like_any_call() -> None:
    own = said(Function.SYNCPOINT, Option.COMMIT, uowid="1")
    strange = said(Function.SYNCPOINT, Option.COMMIT, uowid="2", user_id="BOB")
    hidden = said(Function.SEND_PUBLICATION, Option.COMMIT, publication_id=NEW, topic="NEWS")
    whole = said(Function.SYNCPOINT, Option.COMMIT, uowid=BOTH)

    whole.parts = [own]
    assert code(Holder(), whole) is None
    whole.parts = [own, strange]
    assert code(Holder(), whole) is Code.USER_ID_BAD
    whole.parts = [own, hidden]
    assert code(Holder(), whole) is Code.USER_NOT_AUTHORIZED


def test_who_has_changed_since_it_logged_on_is_refused_everything() -> None:
    identity = Holder(*product(Right, ["RPC/SRV1/CALLNAT", "topic/NEWS"]))
    identity.is_stale = True

    assert {code(identity, said(function, **NAMES)) for function in Function} == {Code.SECURITY_TOKEN_WRONG}


def test_a_service_and_a_topic_never_have_one_name() -> None:
    parts = ["A", "B", "A/B", "/", "%", "%2F", "%74opic", "topic", "topic/A", "broker", "-", "*"]
    services = [service_name(*names) for names in product(parts, repeat=3)]
    topics = [topic_name("/".join(names)) for names in product(parts, repeat=3)]

    assert len(set(services)) == len(services)
    assert not set(services) & set(topics)
    assert BROKER not in services + topics
    assert service_name("RPC", "SRV1", "CALLNAT") == "RPC/SRV1/CALLNAT"


async def _let_in(guard: Guard) -> Identity:
    return await guard.log_on("ANYBODY", "", "127.0.0.1")


def test_without_users_everybody_is_let_in_and_may_do_everything() -> None:
    identity = asyncio.run(_let_in(OPEN))

    assert identity.user == "ANYBODY"
    assert all(identity.may(right, name) for right in Right for name in ("RPC/SRV1/CALLNAT", "topic/NEWS", BROKER))
    assert OPEN.check_call(identity, said(Function.SEND, user_id="ELSE", conv_id=NEW, **NAMES)) is None
