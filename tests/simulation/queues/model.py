"""What queues promise, as a simple model: every message is an item, and every rule is a line or two.

The model knows no disk. It is told what happened, and says what may be handed out next, what is listed, and what a
start may find. Times are microseconds. Two clocks go: one that nobody sets, and the wall clock.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

QUEUE_OF_DEAD = "dead"
DIED = "the process that had it died"
ENDED = "its lease ended"


@dataclass(slots=True)
class Clocks:
    """What both clocks show. They go only when a step says so."""

    steady: int = 5_000_000
    wall: int = 1_700_000_000_000_000

    def advance(self, seconds: float) -> None:
        self.steady += round(seconds * 1_000_000)
        self.wall += round(seconds * 1_000_000)

    def has_come(self, wall: int, steady: int | None) -> bool:
        """Say whether a time has come, by the steady clock where it goes by that."""
        return wall <= self.wall if steady is None else steady <= self.steady


@dataclass(frozen=True, slots=True)
class Told:
    """What the journal says of a message that came back."""

    attempts: int = 0
    due: int = 0  # by the wall clock
    reason: str = ""
    is_suspect: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """As they stand in the journal, by the wall clock; and by the steady one in the process that added it."""

    due: int | None = None
    expiry: int | None = None
    steady_due: int | None = None
    steady_expiry: int | None = None
    group: int = 0


@dataclass(frozen=True, slots=True)
class Hand:
    """In whose hands a message is."""

    receipt: object  # what `take` has returned
    until: int | None  # by the steady clock


@dataclass(slots=True)
class Item:
    """One message. Its payload begins with its name, and goes with it wherever it goes."""

    name: int
    payload: bytes
    queue: str
    terms: Terms = Terms()
    number: int = 0  # 0: nobody was told
    told: Told = Told()  # what is known of how it came back
    written: Told = Told()  # and what of it is durable
    carried: int = 0  # attempts that stand with the message itself
    hand: Hand | None = None
    away_until: int | None = None  # by the steady clock
    is_due: bool = True
    is_late: bool = False  # in hand when its time was over
    is_expired: bool = False
    is_dead: bool = False  # on its way to the dead letters
    may_be_deleted: bool = False  # it has expired, and a commit that deletes it was on its way

    @property
    def attempts(self) -> int:
        return max(self.told.attempts, self.carried)

    @property
    def is_told(self) -> bool:
        return self.told == self.written


@dataclass(slots=True)
class Change:
    """One commit on its way: what it adds, what it removes, and what it moves to another queue."""

    added: list[Item] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)  # names
    moved: dict[int, str] = field(default_factory=dict)  # names, and where they are then
    tells: bool = True  # what came back, as every commit does
    is_partly_told: bool = False  # some of that at least


@dataclass(slots=True)
class Wait:
    """A caller that waits for a message of any of its queues."""

    queues: Sequence[str]
    until: int  # by the steady clock
    lease: float | None
    count: int = 1
    handed: Item | None = None


@dataclass(slots=True)
class Wish:
    """A caller that waits for room in a queue."""

    queue: str
    items: list[Item]
    until: int  # by the steady clock
    is_granted: bool = False

    @property
    def size(self) -> int:
        return sum(len(item.payload) for item in self.items)


@dataclass(frozen=True, slots=True)
class Limit:
    """How much a queue may hold; 0: as much as there is."""

    messages: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Model:
    """The queues of one database, as its users may see them."""

    clocks: Clocks
    items: dict[int, Item] = field(default_factory=dict)  # by name
    attempts_max: int = 0
    highest: int = 0  # of all numbers that anybody was told
    names: "count[int]" = field(default_factory=lambda: count(1))
    limits: dict[str, Limit] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)  # who has waited longest first
    wishes: list[Wish] = field(default_factory=list)  # likewise; those that were granted stay until they are added

    # What stands there.

    def listed(self, queue: str) -> list[Item]:
        """Return what is undelivered in a queue, by number."""
        found = [item for item in self.items.values() if item.queue == queue and not item.is_expired]
        return sorted(found, key=lambda item: item.number)

    def in_hand(self, queue: str | None = None) -> list[Item]:
        held = (item for item in self.items.values() if item.hand is not None and queue in (None, item.queue))
        return sorted(held, key=lambda item: item.number)

    def _is_first(self, item: Item) -> bool:
        """Say whether it is its turn in its group."""
        group = item.terms.group
        return not group or not any(
            other.terms.group == group and other.number < item.number for other in self.listed(item.queue)
        )

    def free(self, queue: str) -> list[Item]:
        """Return what may be handed out, were it not for suspects, by number."""
        return [
            item
            for item in self.listed(queue)
            if item.hand is None and item.away_until is None and item.is_due and not item.is_dead
            if self._is_first(item)
        ]

    def why_not(self, queue: str, number: int | None) -> str | None:
        """Return why `take` may not answer so; None where it may.

        Of suspects one at a time is in hand, and their order among themselves is nobody's promise.
        """
        free = self.free(queue)
        counts = self.attempts_max > 0
        innocent = [item.number for item in free if not (counts and item.told.is_suspect)]
        suspects = [item.number for item in free if item.number not in innocent]
        is_one_in_hand = any(item.told.is_suspect for item in self.in_hand()) if counts else False
        first = min(innocent, default=None)
        if number is None:
            is_right = first is None and (is_one_in_hand or not suspects)
        elif number in suspects:
            is_right = not is_one_in_hand and (first is None or number < first)
        else:
            is_right = number == first
        if is_right:
            return None
        return f"{number} of {queue}: free are {innocent}, suspects {suspects}, one of these in hand: {is_one_in_hand}"

    # Who waits, and for how much room.

    def in_line(self, queue: str) -> list[Wish]:
        return [wish for wish in self.wishes if wish.queue == queue and not wish.is_granted]

    def is_first_waiting(self, wait: Wait, queue: str) -> bool:
        """Say whether nobody has waited longer for this queue."""
        return next(one for one in self.waits if queue in one.queues and one.handed is None) is wait

    def is_over_limit(self, queue: str, count: int, size: int) -> bool:
        """Say whether so much is more than the queue could ever hold."""
        limit = self.limits.get(queue, Limit())
        return (0 < limit.messages < count) or (0 < limit.bytes < size)

    def has_room(
        self, queue: str, items: Sequence[Item], removed: Sequence[Item] = (), *, in_turn: bool = False
    ) -> bool:
        """Say whether a commit that adds and removes so much is not refused; `in_turn`: it is the first in line."""
        limit = self.limits.get(queue, Limit())
        there = self.listed(queue)
        granted = [wish for wish in self.wishes if wish.queue == queue and wish.is_granted]
        gone = [item for item in removed if item in there]
        counts = (limit.messages, len(there), sum(len(wish.items) for wish in granted), len(items), len(gone))
        sizes = (limit.bytes, _size(there), sum(wish.size for wish in granted), _size(items), _size(gone))
        is_behind = bool(self.in_line(queue)) and not in_turn
        for most, has, spoken, new, less in (counts, sizes):
            more = max(0, new - less)
            if most and more and (is_behind or has + spoken + more > most):
                return False
        return True

    # What happens.

    def add(self, queue: str, payload: bytes, terms: Terms) -> Item:
        """Return a new item, which stands nowhere yet."""
        name = next(self.names)
        item = Item(name, b"%08d" % name + payload, queue, terms)
        self._begin_terms(item)
        return item

    def _begin_terms(self, item: Item) -> None:
        item.is_due = item.terms.due is None

    def apply(self, change: Change, numbers: Iterable[int]) -> None:
        """Take in a commit that was acknowledged, or was found."""
        for name in change.removed:
            self.items.pop(name)
        given = iter(numbers)
        for item in change.added:
            item.number = next(given)
            self.items[item.name] = item
        for name, queue in change.moved.items():
            old = self.items[name]
            carried = old.attempts if queue == QUEUE_OF_DEAD else 0
            self.items[name] = Item(name, old.payload, queue, number=next(given), carried=carried)
        if change.tells:
            self.tell()
        self.highest = max([self.highest, *(item.number for item in self.items.values())])

    def tell(self) -> None:
        """Take in that the journal says what came back."""
        for item in self.items.values():
            item.written = item.told

    def catch_up(self) -> None:
        """Let what is over expire, and what is due be due. What is in hand, or dead, is late."""
        for item in self.items.values():
            terms, clocks = item.terms, self.clocks
            if terms.expiry is not None and clocks.has_come(terms.expiry, terms.steady_expiry):
                is_late = item.hand is not None or item.is_dead
                item.is_late |= is_late and not item.is_expired
                item.is_expired |= not is_late
            if terms.due is not None and not item.is_due:
                item.is_due = clocks.has_come(terms.due, terms.steady_due)

    def advance(self) -> None:
        """End the leases that are over, and let those come back that were away."""
        for item in list(self.items.values()):
            if item.hand is not None and item.hand.until is not None and item.hand.until <= self.clocks.steady:
                self.come_back(item, ENDED)
            elif item.away_until is not None and item.away_until <= self.clocks.steady:
                item.away_until = None
                item.is_expired |= item.is_late

    def come_back(self, item: Item, reason: str, delay: int = 0) -> None:
        """Take back what was in hand: an attempt was in vain."""
        item.hand = None
        attempts = item.attempts + 1
        item.told = Told(attempts, self.clocks.wall + delay if delay else 0, reason, item.told.is_suspect)
        if self.attempts_max and attempts >= self.attempts_max and item.queue != QUEUE_OF_DEAD:
            item.is_dead = True
        elif delay and not item.is_late:
            item.away_until = self.clocks.steady + delay
        else:
            item.is_expired |= item.is_late

    # What a start makes of it.

    def begin(self, told: dict[int, Told], newest: int) -> None:
        """Go on in another process, which knows so much of what came back, and what time it was."""
        self.waits, self.wishes = [], []
        now = max(self.clocks.wall, newest)
        for item in self.items.values():
            item.hand = item.away_until = None
            item.is_late = item.is_dead = False
            item.told = item.written = told.get(item.name, Told())
            item.terms = replace(item.terms, steady_due=None, steady_expiry=None)
            item.is_due = item.terms.due is None or item.terms.due <= now
            if self.attempts_max and item.told.attempts >= self.attempts_max and item.queue != QUEUE_OF_DEAD:
                item.is_dead = True
            elif item.told.due > now:
                item.away_until = self.clocks.steady + item.told.due - now
            is_over = item.terms.expiry is not None and item.terms.expiry <= now
            item.is_late, item.is_expired = is_over and item.is_dead, is_over and not item.is_dead


def _size(items: Sequence[Item]) -> int:
    return sum(len(item.payload) for item in items)


def after_death(told: dict[int, Told], in_hand: list[int]) -> dict[int, Told]:
    """Return what is known of messages that came back, once a process has died with some in hand.

    A suspect among them is guilty, and so is one that was alone. The others become suspects.
    """
    found = dict(told)
    suspects = [name for name in in_hand if told.get(name, Told()).is_suspect]
    guilty = suspects or (in_hand if len(in_hand) == 1 else [])
    for name in in_hand:
        before = told.get(name, Told())
        is_guilty = name in guilty
        reason = DIED if is_guilty else before.reason
        found[name] = Told(before.attempts + is_guilty, 0, reason, is_suspect=True)
    return found
