"""A service: its servers, and the conversations that wait for one.

Conversations that nobody has received from yet wait in the order of the commit of their first unit of
work (messages: of their first message). Three orders lie side by side, since what the store numbers
keeps its place over a restart and what it does not know has no number there:

    order      its key                                                 holds conversations
    stored     number of the first message of the first unit of work   of persistent units of work
    kept       the kernel's count of commits                           of other units of work
    messages   likewise                                                of plain messages
"""

from array import array
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from enum import IntEnum
from heapq import merge
from typing import NamedTuple

from oms_journal.broker.attributes.attributes import ServiceAttributes
from oms_journal.broker.block import Request, ServiceName
from oms_journal.broker.durations import MICROSECONDS
from oms_journal.broker.kernel.state.decision import Lockable
from oms_journal.broker.kernel.state.unit import VARIATION, Name
from oms_journal.broker.kernel.state.unit_states import Variation
from oms_journal.broker.kernel.tables.order import KeyedOrder
from oms_journal.broker.queues import ServiceQueue

TERMS_MAX = 1000  # combinations of what calls say that are remembered


class Rank(IntEnum):
    """In which of the orders a conversation has its place."""

    STORED = 0
    KEPT = 1
    MESSAGES = 2


STORED, KEPT, MESSAGES = Rank.STORED, Rank.KEPT, Rank.MESSAGES


class WaitingConversations:
    """Conversations that have something for whom they wait for, in the order of their age."""

    __slots__ = ("orders",)

    def __init__(self) -> None:
        self.orders = [KeyedOrder(), KeyedOrder(), KeyedOrder()]

    def __len__(self) -> int:
        stored, kept, messages = self.orders
        return len(stored) + len(kept) + len(messages)

    def fill(self, rank: Rank, keys: "array[int]", conversations: "array[int]") -> None:
        """Begin with conversations of one rank, in ascending order of their keys."""
        assert not len(self.orders[rank]), "only an empty order is filled"
        self.orders[rank] = KeyedOrder(keys, conversations)

    def first(self, ranks: Sequence[Rank], after: Callable[[int], int]) -> int | None:
        """Return the oldest conversation of these ranks."""
        numbered = self.orders[STORED].first() if STORED in ranks else None
        counted = self.orders[KEPT].first() if KEPT in ranks else None
        if MESSAGES in ranks:
            message = self.orders[MESSAGES].first()
            if counted is None or (message is not None and message[0] < counted[0]):
                counted = message
        if counted is None:
            return None if numbered is None else numbered[1]
        if numbered is not None and numbered[0] <= after(counted[1]):
            return numbered[1]
        return counted[1]


def first(waitings: Sequence[WaitingConversations], ranks: Sequence[Rank], after: Callable[[int], int]) -> int | None:
    """Return the oldest conversation of these ranks in any of the places."""
    if len(waitings) == 1:
        return waitings[0].first(ranks, after)
    return next(merged(waitings, ranks, after), None)


def merged(
    waitings: Sequence[WaitingConversations], ranks: Sequence[Rank], after: Callable[[int], int]
) -> Iterator[int]:
    """Yield the conversations of these ranks, oldest first, wherever they wait. Do not change the orders meanwhile.

    `after` tells of a conversation without a number of its own the newest number that was durable
    before it: with it the two kinds of key can be compared.
    """
    stored, kept, messages = ([each.orders[rank] for each in waitings if rank in ranks] for rank in Rank)
    numbered_ones, counted_ones = merge(*stored), merge(*kept, *messages)
    numbered, counted = next(numbered_ones, None), next(counted_ones, None)
    while numbered is not None or counted is not None:
        if counted is None or (numbered is not None and numbered[0] <= after(counted[1])):
            assert numbered is not None
            yield numbered[1]
            numbered = next(numbered_ones, None)
        else:
            yield counted[1]
            counted = next(counted_ones, None)


class UnitTerms(NamedTuple):
    """What holds for a unit of work: what of it is persistent, and for how long."""

    variation: Variation
    lifetime: int  # microseconds, 0 for no end
    multiple: int  # of the lifetime that the status is kept for
    explicit: int  # seconds that it is kept for beside that


class Registration:
    """That a participant serves a service."""

    __slots__ = ("is_attach", "is_ordered", "is_quiescing", "name")

    def __init__(self, name: Name, *, is_attach: bool) -> None:
        self.name = name
        self.is_attach = is_attach  # it starts servers, and gets no conversations itself
        self.is_quiescing = False  # its conversations go on, it gets no new ones
        self.is_ordered = False  # since an operator wants it to shut down, which it is told

    @property
    def is_closed(self) -> bool:
        """It gets no new conversations."""
        return self.is_quiescing or self.is_attach


class End(IntEnum):
    """How units of work come to their end, as they are counted."""

    PROCESSED = 0
    CANCELLED = 1
    TIMED_OUT = 2
    UNSAID = 3  # backed out before they were committed, purged


class Service:
    """What can be sent to, and who serves it."""

    __slots__ = (
        "_terms",
        "accepted",
        "attributes",
        "awake",
        "completed",
        "conversations",
        "delivering",
        "given_back",
        "is_lasting",
        "is_served",
        "name",
        "queue",
        "reply_queue",
        "sending",
        "servers",
        "units",
        "waiting",
    )

    def __init__(self, name: ServiceName, attributes: ServiceAttributes, *, is_lasting: bool = True) -> None:
        self.name = name
        self.attributes = attributes
        self.is_lasting = is_lasting  # it stays though nothing is left of it
        self.queue = str(ServiceQueue(*name))  # where the store has the messages to its servers
        self.reply_queue = str(ServiceQueue(*name, is_reply=True))
        self.servers: dict[Name, Registration] = {}
        self.awake: dict[str, Lockable] = {}  # its conversations of units of work that do not sleep
        self.waiting = WaitingConversations()  # conversations that no server has received from yet
        self.is_served = False  # a server would take a new conversation
        self._terms: dict[tuple[object, ...], UnitTerms] = {}  # by what calls have said
        self.units = 0  # active units of work
        self.sending = 0  # of these, not committed yet
        self.delivering = 0  # of these, being received
        self.conversations = 0
        # Since the start, for who looks at it:
        self.accepted = 0  # committed by their senders
        self.given_back = 0  # by their receivers
        self.completed = [0] * len(End)

    @property
    def is_unused(self) -> bool:
        """Nobody serves it, and nothing of it waits or is under way."""
        return not (self.servers or self.units or self.conversations or self.awake or len(self.waiting))

    def add_to(self, sums: MutableMapping[str, int]) -> None:
        """Add what was counted here to the sums of what is forgotten."""
        sums["accepted"] += self.accepted
        sums["given_back"] += self.given_back
        sums["processed"] += self.completed[End.PROCESSED]
        sums["cancelled"] += self.completed[End.CANCELLED]
        sums["timed_out"] += self.completed[End.TIMED_OUT]

    def update_served(self) -> None:
        """Note whether there is a server that would take a new conversation."""
        self.is_served = any(not server.is_closed for server in self.servers.values())

    def terms(self, request: Request) -> UnitTerms:
        """Return what holds for a unit of work whose first call says this, and else what the attributes say."""
        said = (request.store, request.uwstatp, request.uwtime, request.uwstat_lifetime)
        found = self._terms.get(said)
        if found is None:
            attributes = self.attributes
            status = attributes.status_terms(request.uwstatp, request.uwstat_lifetime)
            found = UnitTerms(
                VARIATION[attributes.is_persistent(request.store), status.is_persistent],
                attributes.lifetime(request.uwtime),
                status.multiple,
                status.explicit // MICROSECONDS,
            )
            if len(self._terms) >= TERMS_MAX:
                self._terms.clear()
            self._terms[said] = found
        return found
