"""What the kernel is given, and what it wants done: inputs and effects as values.

    given      says
    Call       somebody called
    Durable    what the ticket asked for would survive a power cut; Failed: it was not done
    Tick       so much time has passed
    Gone       a caller's connection is lost; Abandoned: it no longer waits for one reply
    StoreLost, StoreBack, ForbidNew, AllowNew   what an operator or the store itself says
    Purge, SetStatus   what an operator wants done to a unit of work; answered like a call
    ReleaseHeld, DiscardHeld, ReleasePublications, DiscardPublications   likewise to what is held since a restore
    ShutServer, ShutParticipant, ShutConversation, SubscribeFor, UnsubscribeFor   what else an operator wants; likewise

    effect     asks for
    Answer     a reply to be handed out
    Commit     changes to be made durable, and Durable or Failed to be said of the ticket
    Expect     a Tick, when so much time has passed
    Log        a line in the broker's log
    ReportLine a line in the report of the persistent store

Commits become durable in the order in which their messages are numbered, and Durable is said of them
in that order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from oms_journal.broker.answers import Physical
from oms_journal.broker.block import Reply, Request
from oms_journal.broker.codes import BrokerError, Code
from oms_journal.broker.records import Status
from oms_journal.broker.store.changes import Changes
from oms_journal.broker.store.report import ReportLine


@dataclass(slots=True)
class Call:
    """Somebody called; `handle` is whom the reply belongs to. A value; not frozen, for speed."""

    request: Request
    caller: Physical
    handle: int


@dataclass(slots=True)
class Durable:
    """The ticket's changes are durable. A value; not frozen, for speed."""

    ticket: int
    first: int  # number of the first message that the commit added, 0 for none


@dataclass(frozen=True, slots=True)
class Failed:
    """The ticket's changes were not made. With a store that is not lost, there is no room for more."""

    ticket: int
    is_store_lost: bool
    text: str
    is_refused: bool = False  # there is room, and the store is well: these changes cannot be carried out
    is_reused: bool = False  # that is so because the producer's identifier was used for other messages

    @property
    def is_full(self) -> bool:
        """Whether the store is well, and has no room for it."""
        return not (self.is_store_lost or self.is_refused)


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""

    elapsed: int  # microseconds since the last one


@dataclass(frozen=True, slots=True)
class Gone:
    """The connection was lost: the caller will not come back under this number."""

    caller: Physical
    is_untried: bool = False  # the broker has ended it: for what it was receiving no attempt counts


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The caller no longer waits for this reply."""

    handle: int


@dataclass(frozen=True, slots=True)
class StoreLost:
    """The store cannot be written, or was disconnected."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class StoreBack:
    """The store can be written again, and holds what was told durable and nothing else."""


@dataclass(frozen=True, slots=True)
class ForbidNew:
    """No new persistent units of work or publications from now on."""


@dataclass(frozen=True, slots=True)
class AllowNew:
    """New units of work and publications are welcome again."""


@dataclass(frozen=True, slots=True)
class Purge:
    """An operator wants no trace of a unit of work, whatever its status."""

    handle: int
    uowid: str


@dataclass(frozen=True, slots=True)
class SetStatus:
    """An operator moves a unit of work that waits: to ACCEPTED or to CANCELLED."""

    handle: int
    uowid: str
    status: Status


@dataclass(frozen=True, slots=True)
class ShutServer:
    """An operator lets a participant serve a service no longer: at once, or when its conversations are done."""

    handle: int
    client_id: int
    service: tuple[str, str, str]
    is_immediate: bool


@dataclass(frozen=True, slots=True)
class ShutParticipant:
    """An operator lets a participant go."""

    handle: int
    client_id: int
    is_immediate: bool


@dataclass(frozen=True, slots=True)
class ShutConversation:
    """An operator ends a conversation: at once, or when what waits is received."""

    handle: int
    conv_id: str
    is_immediate: bool


@dataclass(frozen=True, slots=True)
class SubscribeFor:
    """An operator subscribes a user to a topic, durably."""

    handle: int
    topic: str
    user: str
    token: str


@dataclass(frozen=True, slots=True)
class UnsubscribeFor:
    """An operator ends a user's durable subscription."""

    handle: int
    topic: str
    user: str
    token: str


@dataclass(frozen=True, slots=True)
class ReleaseHeld:
    """An operator lets units of work be received that are held since the store was restored."""

    handle: int
    uowids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DiscardHeld:
    """An operator lets them never be received: DISCARDED, or PROCESSED where they have been."""

    handle: int
    uowids: tuple[str, ...]
    status: Status


@dataclass(frozen=True, slots=True)
class ReleasePublications:
    """An operator lets a subscription have publications that are held for it; None: all of them."""

    handle: int
    subscription_id: str
    publication_ids: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class DiscardPublications:
    """An operator lets a subscription be done with them."""

    handle: int
    subscription_id: str
    publication_ids: tuple[str, ...] | None


Releasing = ReleaseHeld | DiscardHeld | ReleasePublications | DiscardPublications
Shutting = ShutServer | ShutParticipant | ShutConversation
Command = Purge | SetStatus | Releasing | Shutting | SubscribeFor | UnsubscribeFor
Input = Call | Durable | Failed | Tick | Gone | Abandoned | StoreLost | StoreBack | ForbidNew | AllowNew | Command


@dataclass(frozen=True, slots=True)
class Stored:
    """A message that only the store holds: read when the reply is handed out."""

    number: int


Body = bytes | Stored


@dataclass(slots=True)
class Answer:
    """A reply. A stored body's properties are in the store, with `named` as the fields of the block among them."""

    handle: int
    reply: Reply
    bodies: Sequence[Body] = ()
    properties: Mapping[str, str] | None = None  # of a body that is not stored


@dataclass(slots=True)
class Commit:
    """Changes to be made durable together."""

    ticket: int
    changes: Changes


@dataclass(frozen=True, slots=True)
class Expect:
    """Something is due in so much time: a Tick is wanted then."""

    microseconds: int


class Level(IntEnum):
    """How urgent a line of the log is; the numbers are those of `logging`."""

    NOTE = 20
    WARNING = 30
    ERROR = 40


@dataclass(frozen=True, slots=True)
class Log:
    """A line for the broker's log."""

    level: Level
    text: str


Effect = Answer | Commit | Expect | Log | ReportLine

# Fields of the control block that travel with a stored message, as properties that no caller can set.
_MSGTYPE, _MSGID, _USER_DATA = "broker-msgtype", "broker-msgid", "broker-user-data"
RESERVED_PROPERTIES = frozenset((_MSGTYPE, _MSGID, _USER_DATA))


def stored_properties(request: Request) -> Mapping[str, str] | None:
    """Return the properties that a message is stored with: the caller's, and the block's fields."""
    if not (request.msgtype or request.msgid or request.user_data):
        return request.properties
    properties = dict(request.properties or {})
    if request.msgtype:
        properties[_MSGTYPE] = request.msgtype
    if request.msgid:
        properties[_MSGID] = request.msgid.hex()
    if request.user_data:
        properties[_USER_DATA] = request.user_data.hex()
    return properties


def split_properties(reply: Reply, properties: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Put the block's fields among a stored message's properties into the reply; return the caller's own."""
    if not properties or RESERVED_PROPERTIES.isdisjoint(properties):
        return properties or None
    reply.msgtype = properties.get(_MSGTYPE, "")
    reply.msgid = bytes.fromhex(properties.get(_MSGID, ""))
    reply.user_data = bytes.fromhex(properties.get(_USER_DATA, ""))
    return {name: value for name, value in properties.items() if name not in RESERVED_PROPERTIES} or None


def refused(code: Code, text: str = "") -> Reply:
    """Return the reply that says no."""
    return Reply(code=code, text=text or code.text)


def check_properties(request: Request) -> None:
    """Refuse properties that the block's own fields travel as."""
    if request.properties is not None and not RESERVED_PROPERTIES.isdisjoint(request.properties):
        raise BrokerError(Code.INVALID_CHARACTER, "a property of this name is the broker's own")
