"""A unit of work while it is active, and whose it is.

What is complete and has persistent status lives on as a record alone. Which event takes which status
to which is in `unit_states.py`.
"""

from oms_journal.broker.kernel.state.unit_states import RECEIVED, VARIATIONS, Event, Outcome, Variation, after
from oms_journal.broker.records import Status
from oms_journal.broker.store.changes import NewMessage

# What an event makes of a status, as `after` says: by status and event, then by what is persistent.
_EVENTS = len(Event) + 1
OUTCOMES: list[tuple[Outcome, ...]] = [()] * (_EVENTS * (max(Status) + 1))
for _status in Status:
    for _event in Event:
        OUTCOMES[_status * _EVENTS + _event._value_] = tuple(after(_status, _event, each) for each in VARIATIONS)

Name = tuple[str, str, int]  # of a live participant: USER-ID and TOKEN, or USER-ID, blank and its connection
VARIATION = {(variation.uow, variation.status): variation for variation in VARIATIONS}


class Owner:
    """Whose units of work they are: USER-ID and TOKEN, blank where there is none."""

    __slots__ = ("awake", "live", "members", "reading", "sending", "token", "user")

    def __init__(self, user: str, token: str) -> None:
        self.user = user
        self.token = token
        self.members = 0  # participants who are it
        self.live = 0  # units of work it has committed and nobody has completed
        self.awake: dict[str, UnitOfWork] = {}  # by UOWID: its active ones that do not sleep
        self.sending: dict[str, UnitOfWork] = {}  # by UOWID: not committed yet
        self.reading: dict[str, UnitOfWork] = {}  # DELIVERED to it

    @property
    def name(self) -> tuple[str, str]:
        return (self.user, self.token)

    def is_idle(self) -> bool:
        """Nobody is it, and no unit of work of it lives."""
        return not (self.members or self.live or self.awake or self.reading)


class UnitOfWork:
    """Messages that become visible together, from the first SEND until they are processed."""

    __slots__ = (
        "adcount",
        "back",
        "changed",
        "committed",
        "conv_id",
        "count",
        "created",
        "due",
        "ends",
        "first",
        "from_server",
        "has_status",
        "is_first",
        "is_lasting",
        "is_persistent",
        "is_released",
        "is_stored",
        "is_withheld",
        "lifetime",
        "messages",
        "next",
        "owner",
        "postpones",
        "producer",
        "reader",
        "receiver",
        "size",
        "status",
        "status_lifetime",
        "uowid",
        "ustatus",
        "uwstatp",
        "variation",
    )

    def __init__(self, uowid: str, conv_id: str, owner: Owner, variation: Variation) -> None:
        self.uowid = uowid
        self.conv_id = conv_id
        self.owner = owner
        self.is_persistent, self.has_status = variation
        self.variation = 3 - 2 * self.is_persistent - self.has_status  # its place among VARIATIONS
        self.is_lasting = self.is_persistent or self.has_status  # the pseudo-clock is its clock: a restart knows it
        self.status = RECEIVED
        self.from_server = False
        self.is_first = False  # of its conversation
        self.is_stored = False  # its messages are in the store
        self.messages: list[NewMessage] | None = []  # None: only the store has them
        self.is_withheld = False  # since the store was restored; nobody receives it before it is released
        self.is_released = False  # from that
        self.count = 0
        self.size = 0  # bytes of all messages
        self.first = 0  # number of the first message in the store
        self.next = 0  # the message that the receiver gets next
        self.receiver: Owner | None = None  # while DELIVERED
        self.reader: Name | None = None  # who of the receiver's connections has it
        self.uwstatp = 0
        self.lifetime = 0  # seconds, 0 for no end
        self.status_lifetime = 0  # seconds, likewise
        self.ends = 0  # on its clock: when the lifetime is over, 0 for never
        self.back = 0  # on its clock: when one that was given back can be received again; 0 if it can be
        self.due = 0  # its key in the order of such ends, 0 for none
        self.created = 0
        self.committed = 0
        self.changed = 0
        self.adcount = 0  # deliveries attempted in vain
        self.postpones = 0
        self.producer = ""
        self.ustatus = ""

    @property
    def is_recorded(self) -> bool:
        """The store has a record of it."""
        return self.has_status or self.is_stored

    @property
    def is_read(self) -> bool:
        """The receiver has got its last message."""
        return self.next >= self.count

    def after(self, event: Event) -> Outcome:
        """Return what the event makes of it: a status, no trace, or the code that refuses."""
        return OUTCOMES[self.status * _EVENTS + event._value_][self.variation]

    def numbers(self) -> range:
        """Return the numbers of its messages in the store."""
        return range(self.first, self.first + self.count) if self.is_stored else range(0)
