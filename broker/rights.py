"""Who may do what over the network: users, their rights, and the one place where every call is held against them.

right       lets a user
send        SEND to a service, publish in a topic
receive     REGISTER for a service and RECEIVE from it, SUBSCRIBE to a topic
look        see what there is of a service or topic, and with the name `broker` of the broker itself
administer  purge, cancel, shut down and the other commands; and look

Rights are given on names, where `*` stands for any characters: `CLASS/SERVER/SERVICE`, `topic/NAME`, `broker`. What
goes on in a conversation, a unit of work or a publication needs no right: it was needed to begin it, and the broker
knows whose it is. That USER-ID is the user who logged on is what this rests on, and it is checked with every call.
Without a users file everybody is let in, under the name that is said, and may do everything.
"""

from collections.abc import Callable, Mapping
from enum import Enum

from oms_journal.broker.answers import Answered
from oms_journal.broker.block import Function, Reply, Request
from oms_journal.broker.codes import Code, detailed
from oms_journal.broker.rules import WORDS

ANONYMOUS = "ANONYMOUS"  # who does not say who it is, where nobody asks
BROKER = "broker"  # the name of the broker itself
_ABOUT_OTHERS = (Code.NOT_THE_CREATOR, Code.UOW_NOT_FOUND)
_NOT_FOUND = detailed(
    Code.UOW_NOT_FOUND, "there is none of yours of this identifier, or it is complete and left no persistent status"
)


class Right(Enum):
    """What a user may do."""

    SEND = "send"
    RECEIVE = "receive"
    LOOK = "look"
    ADMINISTER = "administer"


class LogonRefused(Exception):
    """The user is not let in: the code, and why in words that tell an attacker nothing."""

    def __init__(self, code: Code, detail: str = "") -> None:
        self.code = code
        self.text = detailed(code, detail)
        super().__init__(f"{code.value} {self.text}")


class Identity:
    """A user who has logged on, and what it may do. This one may do everything."""

    def __init__(self, user: str, peer: str = "") -> None:
        self.user = user
        self.peer = peer  # the address that it logged on from

    @property
    def is_current(self) -> bool:
        """Whether nothing has changed about the user since it logged on."""
        return True

    def may(self, right: Right, name: str) -> bool:
        """Return whether it has the right on `service_name(…)`, `topic_name(…)` or BROKER."""
        return True


class Unidentified(Identity):
    """Who has not logged on where that is needed."""

    def __init__(self, peer: str = "") -> None:
        super().__init__("", peer)

    def may(self, right: Right, name: str) -> bool:
        return False


Denial = tuple[Code, str]


class Guard:
    """Who lets users in and holds their calls against their rights. This one, without users, lets everybody in."""

    is_open = True  # no password is asked for, and nothing is refused

    def __init__(self) -> None:
        self.on_change: list[Callable[[], None]] = []  # told when users have changed or are there no longer

    async def log_on(self, user: str, password: str, peer: str) -> Identity:
        """Return the user; `peer` is the address that it comes from. LogonRefused."""
        return Identity(user, peer)

    def check_call(self, identity: Identity, request: Request) -> Denial | None:
        """Return the code and the text that a call is refused with, None when it may go to the broker."""
        return None if self.is_open else check_call(identity, request)

    def told(self, identity: Identity, request: Request, answered: Answered) -> Answered:
        """Return what the user is told: of what is somebody else's no more than of what there is not.

        Identifiers are numbers that ascend. Who may look at the broker is told whose fault it is.
        """
        code = answered.reply.code
        if code not in _ABOUT_OTHERS or self.is_open or identity.may(Right.LOOK, BROKER):
            return answered
        if code is Code.UOW_NOT_FOUND and not _names_something(request):
            return answered
        return Answered(Reply(code=Code.UOW_NOT_FOUND, text=_NOT_FOUND))


OPEN = Guard()


def _names_something(request: Request) -> bool:
    """Say whether the call is about a unit of work or a publication that may be somebody else's."""
    said = {request.uowid.upper(), request.publication_id.upper()} - WORDS - {""}
    return bool(said or request.parts)


def service_name(server_class: str, server_name: str, service: str) -> str:
    """Return the name of a service that rights are given on: no other service or topic has it."""
    if "/" in server_class + server_name + service or "%" in server_class + server_name + service:
        server_class, server_name, service = (escaped(part) for part in (server_class, server_name, service))
    if server_class == "topic":
        server_class = "%74opic"
    return f"{server_class}/{server_name}/{service}"


def topic_name(topic: str) -> str:
    """Return the name of a topic that rights are given on."""
    return f"topic/{topic}"


def escaped(part: str) -> str:
    """Return CLASS, SERVER or SERVICE as it stands in a name: `/` only divides them."""
    return part.replace("%", "%25").replace("/", "%2F")


# The calls that need a right, and which; every other one is about what the user has begun.
_OF_SERVICE: Mapping[Function, Right] = {
    Function.SEND: Right.SEND,
    Function.RECEIVE: Right.RECEIVE,
    Function.REGISTER: Right.RECEIVE,
}
_OF_TOPIC: Mapping[Function, Right] = {
    Function.SEND_PUBLICATION: Right.SEND,
    Function.RECEIVE_PUBLICATION: Right.RECEIVE,
    Function.SUBSCRIBE: Right.RECEIVE,
}
_OF_NOBODY = frozenset({Function.VERSION, Function.KERNELVERS})


def check_call(identity: Identity, request: Request) -> Denial | None:
    """Return the code and the text that the call is refused with, None when the user may make it."""
    if not identity.is_current:
        text = "what the user may do has changed; log on again"
        return Code.SECURITY_TOKEN_WRONG, detailed(Code.SECURITY_TOKEN_WRONG, text)
    function = request.function
    if request.user_id != identity.user and (request.user_id or function not in _OF_NOBODY):
        text = f"USER-ID is not the user who logged on, {identity.user}"
        return Code.USER_ID_BAD, detailed(Code.USER_ID_BAD, text)
    for part in request.parts:
        found = check_call(identity, part)
        if found is not None:
            return found
    right = _OF_SERVICE.get(function)
    if right is not None:
        return _refusal_of_service(identity, right, request)
    right = _OF_TOPIC.get(function)
    if right is None or (function is not Function.SUBSCRIBE and _is_identifier(request.publication_id)):
        return None
    return _refusal_of(identity, right, topic_name(request.topic))


def _is_identifier(text: str) -> bool:
    """Return whether it is of something that goes on, in the place of a word that begins or finds something."""
    return bool(text) and text.upper() not in WORDS


def _refusal_of_service(identity: Identity, right: Right, request: Request) -> Denial | None:
    names = (request.server_class, request.server_name, request.service)
    if _is_identifier(request.conv_id):
        return None  # it is in the conversation, or the broker says no
    if request.function is Function.RECEIVE and "" in names:
        return None  # from what it has registered for
    return _refusal_of(identity, right, service_name(*names))


def _refusal_of(identity: Identity, right: Right, name: str) -> Denial | None:
    if identity.may(right, name):
        return None
    text = f"{identity.user} may not {right.value} {name}"
    return Code.USER_NOT_AUTHORIZED, detailed(Code.USER_NOT_AUTHORIZED, text)
