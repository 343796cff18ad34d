"""What callers hand in, checked and as bytes. Refused at the door, asserted inside."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oms_journal.database.arguments import Payload, every, plain_bytes, plain_properties, plain_text
from oms_journal.database.ledger import IndexChanges, Ledger, Run
from oms_journal.index.table import FORGOTTEN
from oms_journal.journal.errors import InvalidName
from oms_journal.journal.format.records import encode_properties
from oms_journal.journal.operations import ENGINE_PREFIX, VALUE_BYTES_MAX, check_size, encode_name
from oms_journal.journal.writing.draft import Draft, draft_plain
from oms_journal.journal.writing.single import PlainAdds, QueueTemplate

QUEUES_KEPT = 1000  # empty ones are not looked for below


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message on its way in."""

    template: QueueTemplate
    payload: bytes
    properties: bytes
    producer: bytes

    @property
    def queue(self) -> bytes:
        return self.template.name


class Encoder:
    """Checks names, payloads and values against the limits. Safe from any thread."""

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

    def one_add(self, queue: str, payload: Payload) -> PlainAdds:
        """Return the draft of one plain message."""
        template = (self.templates.get(queue) if type(queue) is str else None) or self.queue(queue)
        if type(payload) is not bytes or len(payload) > self.message_bytes_max:
            payload = self.payload(payload)
        return PlainAdds([template], [payload], template.bound + len(payload))

    def payload(self, payload: Payload, properties_size: int = 0) -> bytes:
        """Return the payload; LimitExceeded above MAX_MESSAGE_SIZE, TypeError when it is not bytes."""
        payload = plain_bytes(payload, "payload")
        if len(payload) + properties_size > self.message_bytes_max:
            check_size(len(payload) + properties_size, self.message_bytes_max, "message with its properties")
        return payload

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
        plain = plain_properties(properties, what)
        encoded = encode_properties(plain) if plain else b""
        return NewMessage(template, self.payload(payload, len(encoded)), encoded, producer)

    def payloads(self, payloads: Iterable[Payload]) -> list[bytes]:
        """Return all payloads that an iterable gives, in a list of its own; TypeError, ValueError, LimitExceeded."""
        found = every(payloads, "payloads", "payloads")
        if set(map(type, found)) <= {bytes}:
            return found  # type: ignore[return-value]
        return [plain_bytes(payload, f"payloads[{place}]") for place, payload in enumerate(found)]

    def producer(self, producer_id: str | None) -> bytes:
        return (
            b"" if producer_id is None else encode_name(plain_text(producer_id, "producer_id"), "producer identifier")
        )

    def draft_many(self, queue: QueueTemplate, payloads: Sequence[bytes]) -> Draft:
        """Return the draft of messages of one queue without properties or identifier, at least one."""
        sizes = list(map(len, payloads))
        if max(sizes) > self.message_bytes_max:
            check_size(max(sizes), self.message_bytes_max, "message with its properties")
        draft = draft_plain(queue.name, payloads, sizes)
        draft.effect = IndexChanges(runs=(Run(queue, sizes),))
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
