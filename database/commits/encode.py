"""What callers hand in, checked and as bytes. Refused at the door, asserted inside."""

from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oms_journal.database.arguments import Payload, every, plain_bytes, plain_properties, plain_text, shown
from oms_journal.database.commits.ledger import Ledger
from oms_journal.index.readiness import NewTerms
from oms_journal.index.table import FORGOTTEN
from oms_journal.journal.errors import InvalidName
from oms_journal.journal.format.records import Added, encode_properties
from oms_journal.journal.operations import ENGINE_PREFIX, VALUE_BYTES_MAX, check_size, encode_name
from oms_journal.journal.writing.draft import CommitBuilder, Draft, QueueTemplate

QUEUES_KEPT = 1000  # empty ones are not looked for below


class NewMessage(NamedTuple):
    """A message on its way in."""

    template: QueueTemplate
    payload: bytes
    properties: bytes
    producer: bytes
    terms: NewTerms | None = None

    @property
    def queue(self) -> bytes:
        return self.template.name


def queue_bytes(queue: object) -> bytes:
    """Return the name of a queue as bytes; TypeError, InvalidName."""
    return encode_name(plain_text(queue, "queue"), "queue name")


def producer_bytes(producer_id: object) -> bytes:
    """Return a producer identifier as bytes, b"" for None; TypeError, InvalidName."""
    return b"" if producer_id is None else encode_name(plain_text(producer_id, "producer_id"), "producer identifier")


def properties_bytes(properties: object, what: str) -> bytes:
    """Return properties as bytes; `what` they are called in an error. TypeError, InvalidName, LimitExceeded."""
    plain = plain_properties(properties, what)
    return encode_properties(plain) if plain else b""


def plain_payloads(payloads: object) -> list[bytes]:
    """Return all payloads that an iterable gives, in a list of its own; TypeError, ValueError, LimitExceeded."""
    found = every(payloads, "payloads", "payloads")
    if [*map(type, found)].count(bytes) == len(found):
        return found  # type: ignore[return-value]
    return [plain_bytes(payload, f"payloads[{place}]") for place, payload in enumerate(found)]


def properties_of_each(properties: object, count: int) -> list[object]:
    """Return the properties of each of so many messages, in a list of its own; TypeError, ValueError."""
    if properties is None:
        return [None] * count
    if isinstance(properties, Mapping):
        raise TypeError(f"properties of several messages are an iterable of one mapping each, not {shown(properties)}")
    found = every(properties, "properties", "mappings, one a message")
    if len(found) != count:
        raise ValueError(f"payloads has {count} items and properties has {len(found)}; give one for each message")
    return found


class Encoder:
    """Checks names, payloads and values against the limits. Safe from any thread."""

    producer = staticmethod(producer_bytes)  # a client of the door calls these without an encoder
    properties = staticmethod(properties_bytes)
    payloads = staticmethod(plain_payloads)

    def __init__(self, ledger: Ledger, message_bytes_max: int) -> None:
        self._ledger = ledger
        self.message_bytes_max = message_bytes_max
        self.templates: dict[str, QueueTemplate] = {}
        self._enough = QUEUES_KEPT  # when there are so many queues, those that are empty are forgotten

    def queue(self, name: str) -> QueueTemplate:
        """Return what the frames of a queue have in common; InvalidName, TypeError."""
        name = plain_text(name, "queue")
        known = self.templates.get(name)
        if known is None:
            data = encode_name(name, "queue name")
            with self._ledger.lock:
                known = self.templates.get(name) or self._new(name, data)
        return known

    def _new(self, name: str, data: bytes) -> QueueTemplate:
        queues = self._ledger.index.table.queues
        if len(queues) >= self._enough:
            empty = queues.empty()
            for each in empty:  # an interrupt behind this leaves a queue that is asked for its place again
                if (template := self.templates.pop(each, None)) is not None:
                    template.place = FORGOTTEN  # a commit may be on its way with it
            queues.forget(empty)
            self._enough = QUEUES_KEPT + 2 * len(queues)
        template = self.templates[name] = QueueTemplate(data, queues.place(name))
        return template

    def payload(self, payload: Payload, properties: bytes = b"") -> bytes:
        """Return the payload; LimitExceeded above MAX_MESSAGE_SIZE, TypeError when it is not bytes."""
        data = plain_bytes(payload, "payload")
        self.check_size(data, properties)
        return data

    def check_size(self, payload: bytes, properties: bytes) -> None:
        """LimitExceeded above MAX_MESSAGE_SIZE."""
        check_size(len(payload) + len(properties), self.message_bytes_max, "message with its properties")

    def message(
        self, queue: str, payload: Payload, properties: Mapping[str, str] | None, producer_id: str | None
    ) -> NewMessage:
        """Return a message checked against every limit."""
        template, producer = self.queue(queue), self.producer(producer_id)
        return self.encoded(template, plain_bytes(payload, "payload"), properties, "properties", producer)

    def encoded(
        self, template: QueueTemplate, payload: bytes, properties: object, what: str, producer: bytes = b""
    ) -> NewMessage:
        """Return a message of a plain payload; `what` the properties are called in an error."""
        encoded = self.properties(properties, what)
        return NewMessage(template, self.payload(payload, encoded), encoded, producer)

    def draft_many(self, queue: QueueTemplate, payloads: Sequence[bytes]) -> Draft:
        """Return the draft of messages of one queue without properties or identifier, at least one."""
        lengths = list(map(len, payloads))
        if (largest := max(lengths)) > self.message_bytes_max:
            check_size(largest, self.message_bytes_max, "message with its properties")
        sizes = array("I", lengths)  # as they stand in the record, and in the index
        builder = CommitBuilder()
        builder.add(Added(queue.name, payloads, sizes=sizes))
        draft = builder.draft()
        draft.runs = ((queue, sizes),)
        return draft

    def queues_of(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the queue of every message that is undelivered."""
        with self._ledger.lock:
            queues = self._ledger.live(numbers)
        return {number: queue for queue, found in queues.items() for number in found.tolist()}

    def key(self, key: str) -> bytes:
        """Return a caller's key; InvalidName for the engine's own, TypeError."""
        key = plain_text(key, "key")
        data = encode_name(key, "key")
        if key.startswith(ENGINE_PREFIX):
            raise InvalidName("keys that begin with a NUL character belong to the engine")
        return data

    def value(self, value: Payload) -> bytes:
        """Return the value of a key; LimitExceeded above 64 KiB, TypeError when it is not bytes."""
        value = plain_bytes(value, "value")
        check_size(len(value), VALUE_BYTES_MAX, "value")
        return value
