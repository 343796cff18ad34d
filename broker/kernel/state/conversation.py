"""A conversation: an ordered exchange between a client and one server instance.

It carries units of work or messages, never both. Either side has a line: what is committed for it and
not complete, in the order of the commits. A conversation that merely waits for a server, with one
unit of work that the store has, is not kept: it is made again of the unit's record when it is touched.
"""

from collections import deque
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state.decision import NOBODY, Lockable
from oms_journal.broker.kernel.state.service import KEPT, MESSAGES, Service, WaitingConversations
from oms_journal.broker.kernel.state.unit import Name, UnitOfWork
from oms_journal.broker.records import ConversationState


class Side(IntEnum):
    """Of a conversation; as an index: what waits for that side, or what that side has begun."""

    SERVER = 0
    CLIENT = 1

    @property
    def other(self) -> "Side":
        return OTHER[self]


# Plain names: in Python 3.11 an attribute of an enumeration takes longer than the rest of its line.
SERVER, CLIENT = Side.SERVER, Side.CLIENT
OTHER = (CLIENT, SERVER)  # of a side, by its number


class Plain(NamedTuple):
    """A message that is not part of a unit of work."""

    body: bytes
    properties: Mapping[str, str] | None
    code: Code = Code.OK  # what REPLY_ERROR tells instead of 00000000


OPEN = ConversationState.OPEN

# Units of work that wait for a side, in the order of their commits; those that sleep as numbers.
UnitLine = list[UnitOfWork | int] | deque[UnitOfWork | int]
SHORT = 32  # most lines have one unit of work; a deque takes ten times the memory of a list
NOTHING: UnitLine = []  # never changed
NO_MESSAGES: tuple[deque[Plain], ...] = (deque(maxlen=0), deque(maxlen=0))


class Conversation(Lockable):
    """Who talks to whom about what. Pairs and lists are indexed by Side."""

    __slots__ = (
        "after",
        "begun",
        "client",
        "conv_id",
        "due",
        "ended",
        "ender",
        "first",
        "is_bound",
        "is_handed_out",
        "is_one_shot",
        "is_uow",
        "key",
        "lines",
        "number",
        "place",
        "plain",
        "rank",
        "reading",
        "reason",
        "sending",
        "server",
        "service",
        "state",
        "unit_count",
        "used",
        "wants_answer",
    )

    def __init__(self, conv_id: str, service: Service, client: Name, *, is_uow: bool) -> None:
        self.is_pending, self.queued = False, NOBODY  # as Lockable begins; a call less for each conversation
        self.conv_id = conv_id
        self.number = int(conv_id, 16)
        self.service = service
        self.client = client
        self.is_uow = is_uow
        self.is_one_shot = False  # CONV-ID=NONE: one message, and perhaps one answer
        self.wants_answer = True  # its client will ask for the answer
        self.server: Name | None = None  # the instance that has received from it
        self.is_bound = False  # to that instance for good: it has committed, or sent
        self.is_handed_out = False  # what is on its way to the store is that somebody receives from it
        self.lines: list[UnitLine] = [NOTHING, NOTHING]
        self.plain: tuple[deque[Plain], ...] = NO_MESSAGES if is_uow else (deque(), deque())
        self.sending: list[UnitOfWork | None] = [None, None]  # begun by that side and not committed
        self.reading: list[UnitOfWork | None] = [None, None]  # DELIVERED to that side
        self.ended: list[Code | None] = [None, None]  # what that side is told when nothing is left for it
        self.ender: Side | None = None  # who has ended it
        self.state = OPEN  # how
        self.reason = 0  # number of the code for the partner
        self.rank = KEPT if is_uow else MESSAGES
        self.key = 0  # its age: its key in an order, 0 before anything of it is visible
        self.after = 0  # newest message that was durable before that
        self.place: WaitingConversations | None = None  # where it waits for a server
        self.first = 0  # number of the first message of the first unit of work
        self.begun = 0  # when that was committed
        self.unit_count = 0  # units of work that were begun in it
        self.used = 0  # on the second count: the last call about it
        self.due = 0  # its key in the order of time-outs

    def side_of(self, name: Name) -> Side | None:
        """Return which side the participant is, None for neither.

        A client of units of work is known by USER-ID and TOKEN, whatever its connection.
        """
        if self.server == name:
            return SERVER
        if self.client == name or (self.is_uow and self.client[:2] == name[:2]):
            return CLIENT
        return None

    def append(self, side: Side, waiting: UnitOfWork | int) -> None:
        """Let a unit of work wait for the side, behind those that wait already."""
        line = self.lines[side]
        if not line:
            line = self.lines[side] = []
        elif len(line) == SHORT and isinstance(line, list):
            line = self.lines[side] = deque(line)
        line.append(waiting)

    def has_for(self, side: Side) -> bool:
        """Something can be handed out to the side."""
        if not self.is_uow:
            return bool(self.plain[side])
        unit = self.reading[side]
        if unit is not None:
            return unit.next < unit.count
        line = self.lines[side]
        if not line:
            return False
        first = line[0]  # one that sleeps is not held: `dormancy.py` wakes the first of a line that is
        return not (isinstance(first, UnitOfWork) and (first.back or first.is_withheld))

    def is_empty(self) -> bool:
        """Nothing of it waits, is being sent or received."""
        units = any(self.lines) or any(self.sending) or any(self.reading)
        return not (units or any(self.plain))
