"""What a database should hold, as dicts and sets; and what each call of the API should answer and change.

A function here has the name and the parameters of the API's, and is given what the arguments mean. It changes nothing:
it returns what is expected, with the change that the call makes, so that a call that was interrupted can be held
against the state before and the state after.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from oms_journal import DuplicateConflict, LimitExceeded, NoSuchMessage, NotUndelivered

MESSAGE_BYTES_MAX = 9000  # of the databases that are played with
Raised = tuple[type[BaseException], ...]


@dataclass(frozen=True, slots=True)
class New:
    """A message that is added."""

    queue: str
    payload: bytes
    properties: Mapping[str, str] | None = None
    producer_id: str | None = None

    @property
    def size(self) -> int:
        pairs = (self.properties or {}).items()
        return len(self.payload) + sum(4 + len(key.encode()) + len(value.encode()) for key, value in pairs)


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
    held: set[int] = field(default_factory=set)
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
        return [number for number in self.of(queue) if number not in self.taken]

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
        for scope, first, payloads in identifiers(change):
            self.identifiers[scope] = (range(numbers[first], numbers[first] + len(payloads)), payloads)
        for number in change.removed:
            del self.messages[number]
            self.gone.append(number)
        for key, value in change.values.items():
            if value is None:
                self.keys.pop(key, None)
            else:
                self.keys[key] = value.filled(numbers)
        self.taken = (self.taken | change.taken) - change.released - change.removed
        self.held -= change.freed | change.removed

    # Calls.

    def add(
        self,
        queue: str,
        payload: bytes,
        properties: Mapping[str, str] | None = None,
        producer_id: str | None = None,
    ) -> Expected:
        expected = self.commit(Change(added=[New(queue, payload, properties, producer_id)]))
        if isinstance(expected.answer, range):
            expected.answer = expected.answer.start
        return expected

    def add_many(
        self,
        queue: str,
        payloads: Sequence[bytes],
        properties: Sequence[Mapping[str, str] | None] | None = None,
        producer_id: str | None = None,
    ) -> Expected:
        if not payloads:
            return Expected(range(0), raises=(ValueError,) if properties else ())
        if properties is not None and len(properties) != len(payloads):
            return Expected(raises=(ValueError,))
        each = properties or [None] * len(payloads)
        added = [New(queue, payload, given) for payload, given in zip(payloads, each, strict=True)]
        return self.commit(Change(added=added, producer_id=producer_id))

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
        return Expected(change=change)

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

    def take(self, queue: str) -> Expected:
        free = self.free(queue)[:1]
        return Expected(self.messages[free[0]] if free else None, Change(taken=set(free)))

    def release(self, number: int) -> Expected:
        is_taken = number in self.taken
        return Expected(is_taken, Change(released={number} if is_taken else set()))

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
