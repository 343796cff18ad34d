"""What a database should hold, as dicts and sets; and what each call of the API should answer and change.

A function here has the name and the parameters of the API's, and is given what the arguments mean. It changes nothing:
it returns what is expected, with the change that the call makes, so that a call that was interrupted can be held
against the state before and the state after.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from oms_journal import (
    AddedMany,
    DuplicateConflict,
    LeaseEnded,
    LimitExceeded,
    Message,
    NoSuchMessage,
    NotUndelivered,
    QueueFull,
)
from oms_journal.database.commits.added import Repeated

MESSAGE_BYTES_MAX = 9000  # of the databases that are played with
MOST = {"b": 3, "narrow": 1}  # messages that a queue holds there
LONG = 1e9  # seconds, the longest delay that is taken
FAR, NEVER = datetime(8000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
Raised = tuple[type[BaseException], ...]


@dataclass(frozen=True, slots=True)
class New:
    """A message that is added."""

    queue: str
    payload: bytes
    properties: Mapping[str, str] | None = None
    producer_id: str | None = None
    waits: bool = False  # it is not due, and is not while a script runs
    group: str | None = None

    @property
    def size(self) -> int:
        pairs = (self.properties or {}).items()
        return len(self.payload) + sum(4 + len(key.encode()) + len(value.encode()) for key, value in pairs)


@dataclass(frozen=True, slots=True)
class Receipt:
    """A message as `take` has answered it."""

    message: Message
    token: int  # of its lease, 0 without one


Shown = tuple[int, str, bytes, dict[str, str]]  # number, queue, payload, properties


@dataclass(slots=True)
class Value:
    """A value that is put, with the messages of the commit whose numbers go into it."""

    data: bytes
    numbers_at: Mapping[int, int] = field(default_factory=dict)

    def filled(self, numbers: Sequence[int]) -> bytes:
        data = bytearray(self.data)
        for at, place in self.numbers_at.items():
            data[at : at + 8] = numbers[place].to_bytes(8, "little")
        return bytes(data)


@dataclass(slots=True)
class Change:
    """What a call changes, all of it or nothing."""

    added: list[New] = field(default_factory=list)
    producer_id: str | None = None  # of the whole commit
    removed: set[int] = field(default_factory=set)
    values: dict[str, Value | None] = field(default_factory=dict)  # None drops the key
    taken: set[int] = field(default_factory=set)
    released: set[int] = field(default_factory=set)
    delayed: set[int] = field(default_factory=set)  # of those that are released
    freed: set[int] = field(default_factory=set)

    @property
    def is_durable(self) -> bool:
        """Whether a reader of the files sees it."""
        return bool(self.added or self.removed or self.values or self.freed)


@dataclass(slots=True)
class Expected:
    """What a call should do."""

    answer: object = None
    change: Change = field(default_factory=Change)
    raises: Raised = ()
    says: Callable[[Any], bool] | None = None  # in place of one answer


@dataclass(slots=True)
class Model:
    """The state of a database."""

    messages: dict[int, Shown] = field(default_factory=dict)
    keys: dict[str, bytes] = field(default_factory=dict)
    identifiers: dict[tuple[str, str], tuple[range, tuple[bytes, ...]]] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    away: set[int] = field(default_factory=set)  # given back with a delay, which does not pass
    away_for_long: set[int] = field(default_factory=set)  # of these, those that the journal says so of
    groups: dict[int, str] = field(default_factory=dict)  # of the messages that have one
    held: set[int] = field(default_factory=set)
    leases: dict[int, int] = field(default_factory=dict)  # of messages that are taken on one: its token
    gone: list[int] = field(default_factory=list)
    highest: int = 0

    def copy(self) -> "Model":
        return deepcopy(self)

    def of(self, queue: str | None, *, held: bool = False) -> list[int]:
        """Return the numbers of the undelivered messages, held back or not, in order."""
        found = self.held if held else self.messages.keys() - self.held
        return sorted(number for number in found if queue is None or self.messages[number][1] == queue)

    def free(self, queue: str) -> list[int]:
        """Return the numbers of the messages that can be taken, in order."""
        firsts: dict[tuple[str, str], int] = {}
        for number in sorted(self.groups):
            firsts.setdefault((self.messages[number][1], self.groups[number]), number)
        behind = self.groups.keys() - set(firsts.values())
        return [number for number in self.of(queue) if number not in self.taken | self.away | behind]

    @property
    def queue_names(self) -> list[str]:
        return sorted({message[1] for message in self.messages.values()})

    def apply(self, change: Change, numbers: Sequence[int]) -> None:
        """Make a change whose new messages got these numbers."""
        assert len(numbers) == len(change.added), f"{len(change.added)} messages got the numbers {numbers}"
        if numbers:
            assert list(numbers) == list(range(numbers[0], numbers[0] + len(numbers))), f"not neighbouring: {numbers}"
            assert numbers[0] > self.highest, f"{numbers[0]} was given before: the highest was {self.highest}"
            self.highest = numbers[-1]
        for number, new in zip(numbers, change.added, strict=True):
            self.messages[number] = (number, new.queue, new.payload, dict(new.properties or {}))
            if new.group is not None:
                self.groups[number] = new.group
            if new.waits:
                self.away.add(number)
                self.away_for_long.add(number)
        for scope, first, payloads in identifiers(change):
            self.identifiers[scope] = (range(numbers[first], numbers[first] + len(payloads)), payloads)
        for number in change.removed:
            del self.messages[number]
            self.groups.pop(number, None)
            self.gone.append(number)
        for key, value in change.values.items():
            if value is None:
                self.keys.pop(key, None)
            else:
                self.keys[key] = value.filled(numbers)
        self.taken = (self.taken | change.taken) - change.released - change.removed
        for number in change.released | change.removed:
            self.leases.pop(number, None)
        self.held -= change.freed | change.removed
        self.away = (self.away | change.delayed) - change.removed
        self.away_for_long -= change.removed

    def restart(self, *, is_killed: bool) -> None:
        """Forget what a process knows alone: a close writes what came back."""
        self.taken.clear()
        self.leases.clear()
        if is_killed:
            self.away = set(self.away_for_long)
        self.away_for_long = set(self.away)

    # Calls.

    def add(
        self,
        queue: str,
        payload: bytes,
        properties: Mapping[str, str] | None = None,
        producer_id: str | None = None,
        wait: None = None,  # nobody makes room meanwhile
        **terms: Any,
    ) -> Expected:
        if are_refused(**terms):
            return Expected(raises=(ValueError, LimitExceeded))
        expected = self.commit(Change(added=[New(queue, payload, properties, producer_id, **placed(**terms))]))
        if isinstance(expected.answer, range):
            expected.answer = Repeated(expected.answer.start)
        return expected

    def add_many(
        self,
        queue: str,
        payloads: Sequence[bytes],
        properties: Sequence[Mapping[str, str] | None] | None = None,
        producer_id: str | None = None,
        wait: None = None,
        **terms: Any,
    ) -> Expected:
        if are_refused(**terms):
            return Expected(raises=(ValueError, LimitExceeded))
        if not payloads:
            return Expected(AddedMany(range(0)), raises=(ValueError,) if properties else ())
        if properties is not None and len(properties) != len(payloads):
            return Expected(raises=(ValueError,))
        each = properties or [None] * len(payloads)
        added = [New(queue, payload, given, **placed(**terms)) for payload, given in zip(payloads, each, strict=True)]
        expected = self.commit(Change(added=added, producer_id=producer_id))
        if isinstance(expected.answer, range):
            expected.answer = AddedMany(expected.answer, is_repeat=True)
        return expected

    def commit(self, change: Change) -> Expected:
        """Return what is expected of a commit of several operations. The numbers of a new one are anybody's guess."""
        if any(new.size > MESSAGE_BYTES_MAX for new in change.added):
            return Expected(raises=(LimitExceeded,))
        for value in change.values.values():
            for at, place in value.numbers_at.items() if value else ():
                if not 0 <= at <= len(value.data) - 8 or not 0 <= place < len(change.added):  # type: ignore[union-attr]
                    return Expected(raises=(ValueError,))
        found = identifiers(change)
        if len({scope for scope, *_ in found}) < len(found):
            return Expected(raises=(DuplicateConflict,))
        known = {scope: self.identifiers.get(scope) for scope, *_ in found}
        if any(known.values()):
            begins = {there[0].start - at if (there := known[scope]) else None for scope, at, _ in found}
            is_same = all(there is None or there[1] == given for scope, _, given in found if [there := known[scope]])
            is_whole = sum(len(given) for _, _, given in found) == len(change.added)
            if not is_same or len(begins) > 1 or not is_whole or change.removed & self.messages.keys():
                return Expected(raises=(DuplicateConflict,))
            begin = begins.pop()
            assert begin is not None
            return Expected(range(begin, begin + len(change.added)))
        if change.removed - self.messages.keys():
            return Expected(raises=(NotUndelivered,))
        if refused := self._refused(change):
            return Expected(raises=(refused,))
        return Expected(change=change)

    def _refused(self, change: Change) -> type[Exception] | None:
        """Return what a commit is refused with that adds more to a queue than there is room for."""
        for queue, most in MOST.items():
            new = sum(one.queue == queue for one in change.added)
            if new > most and not change.removed:
                return LimitExceeded
            there = [number for number, message in self.messages.items() if message[1] == queue]
            more = new - len(change.removed.intersection(there))
            if more > 0 and len(there) + more > most:
                return QueueFull
        return None

    def _removal(self, numbers: Sequence[int]) -> Expected:
        there = set(numbers) & self.messages.keys()
        return Expected(len(there), Change(removed=there))

    def deliver(self, number: int) -> Expected:
        found = self._removal([number])
        return Expected(bool(found.answer), found.change)

    delete = deliver

    def deliver_many(self, numbers: Sequence[int]) -> Expected:
        return self._removal(numbers)

    delete_many = deliver_many

    def discard_held(self, numbers: Sequence[int]) -> Expected:
        return self._removal([number for number in numbers if number in self.held])

    def unhold(self, numbers: Sequence[int] | None = None) -> Expected:
        freed = self.held if numbers is None else self.held & set(numbers)
        return Expected(len(freed), Change(freed=set(freed)))

    def put(self, key: str, value: bytes) -> Expected:
        return Expected(None, Change(values={key: Value(value)}))

    def drop(self, key: str) -> Expected:
        return Expected(key in self.keys, Change(values={key: None} if key in self.keys else {}))

    def read(self, number: int) -> Expected:
        there = self.messages.get(number)
        return Expected(there, raises=() if there else (NoSuchMessage,))

    def get(self, key: str) -> Expected:
        return Expected(self.keys.get(key))

    def keys_with(self, prefix: str = "") -> Expected:
        return Expected(sorted((key for key in self.keys if key.startswith(prefix)), key=str.encode))

    def undelivered(self, queue: str | None = None) -> Expected:
        return Expected([self.messages[number] for number in self.of(queue)])

    def undelivered_count(self, queue: str | None = None) -> Expected:
        return Expected(sum(queue in (None, message[1]) for message in self.messages.values()))

    def numbers(self, queue: str | None = None) -> Expected:
        return Expected(self.of(queue))

    def queues(self) -> Expected:
        names = [message[1] for message in self.messages.values()]
        return Expected({name: names.count(name) for name in set(names)})

    def take(self, queue: str | Sequence[str], wait: float = 0, lease: float | None = None) -> Expected:
        queues = [queue] if isinstance(queue, str) else queue
        free = [number for name in queues for number in self.free(name)][:1]
        return Expected(self.messages[free[0]] if free else None, Change(taken=set(free)))

    def take_many(self, queue: str, count: int, wait: float = 0, lease: float | None = None) -> Expected:
        free = self.free(queue)[:count]
        return Expected([self.messages[number] for number in free], Change(taken=set(free)))

    def ready_count(self, queue: str) -> Expected:
        return Expected(len(self.free(queue)))

    def oldest_age(self, queue: str) -> Expected:
        is_there = any(message[1] == queue for message in self.messages.values())
        return Expected(says=lambda age: isinstance(age, float) and age >= 0 if is_there else age is None)

    def peek(self, queue: str) -> Expected:
        free = self.free(queue)
        return Expected(self.messages[free[0]] if free else None)

    def purge(self, queue: str) -> Expected:
        return self._removal([number for number, message in self.messages.items() if message[1] == queue])

    def release(self, number: int, delay: float = 0, reason: str = "") -> Expected:
        released = {number} & self.taken
        return Expected(bool(released), Change(released=released, delayed=released if delay else set()))

    def taken_of(self, queue: str | None = None) -> Expected:
        numbers = [number for number in sorted(self.taken) if queue in (None, self.messages[number][1])]
        return Expected(says=lambda found: [one.number for one in found] == numbers)

    def extend(self, message: Receipt, seconds: float) -> Expected:
        number = message.message.number
        is_leased = number in self.taken and self.leases.get(number) == message.token
        return Expected(None, raises=() if is_leased else (LeaseEnded,))

    def requeue(self, numbers: Sequence[int]) -> Expected:
        return Expected([], raises=(NoSuchMessage, ValueError) if numbers else ())

    def held_back(self, queue: str | None = None) -> Expected:
        return Expected([self.messages[number] for number in self.of(queue, held=True)])

    def held_numbers(self, queue: str | None = None) -> Expected:
        return Expected(self.of(queue, held=True))

    def held_count(self, queue: str | None = None) -> Expected:
        return Expected(len(self.of(queue, held=True)))

    def is_held(self, number: int) -> Expected:
        return Expected(number in self.held)

    def cleanup(self, compact: bool = False, dry_run: bool = False) -> Expected:
        return Expected(says=lambda report: bool(hasattr(report, "deleted")))

    def stats(self) -> Expected:
        return Expected(says=lambda stats: bool(stats.undelivered == len(self.messages)))

    def explain(self) -> Expected:
        return Expected(says=lambda files: isinstance(files, list))


def are_refused(delay: float | None = None, at: object = None, expires: object = None, group: object = None) -> bool:
    """Say whether terms contradict one another, each of which is right."""
    return (delay is not None and at is not None) or (expires == LONG and (delay == LONG or at == FAR))


def placed(
    delay: float | None = None, at: object = None, expires: object = None, group: str | None = None
) -> dict[str, Any]:
    """Return what the terms of a message say of it, while a script runs: nothing far off comes in its time."""
    return {"waits": bool(delay) or at == FAR, "group": group}


def identifiers(change: Change) -> list[tuple[tuple[str, str], int, tuple[bytes, ...]]]:
    """Return the scope of each producer identifier, the place of its first message, and the payloads it covers."""
    if change.producer_id is not None and change.added:
        payloads = tuple(new.payload for new in change.added)
        return [((change.added[0].queue, change.producer_id), 0, payloads)]
    return [
        ((new.queue, new.producer_id), place, (new.payload,))
        for place, new in enumerate(change.added)
        if new.producer_id is not None
    ]
