"""What callers hand in, checked and as bytes. Refused at the door, asserted inside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from database.ledger import Effect, Ledger, Run
from index.queues import FORGOTTEN
from journal.draft import Draft, draft_plain
from journal.errors import InvalidName
from journal.operations import ENGINE_PREFIX, VALUE_BYTES_MAX, check_size, encode_name
from journal.records import encode_properties
from journal.single import PlainAdds, QueueTemplate

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
        """Return what the frames of a queue have in common; InvalidName."""
        known = self.templates.get(name)
        if known is None:
            data = encode_name(name, "queue name")
            with self._ledger.lock:
                known = self.templates.get(name) or self._new(name, data)
        return known

    def _new(self, name: str, data: bytes) -> QueueTemplate:
        queues = self._ledger.index.table.queues
        if len(queues) >= self._enough:
            for empty in queues.forget_empty():
                if (template := self.templates.pop(empty, None)) is not None:
                    template.place = FORGOTTEN  # a commit may be on its way with it
            self._enough = QUEUES_KEPT + 2 * len(queues)
        template = self.templates[name] = QueueTemplate(data, queues.place(name))
        return template

    def one_add(self, queue: str, payload: bytes) -> PlainAdds:
        """Return the draft of one plain message."""
        template = self.templates.get(queue) or self.queue(queue)
        if type(payload) is not bytes or len(payload) > self.message_bytes_max:
            payload = self.payload(payload)
        return PlainAdds([template], [payload], template.bound + len(payload))

    def payload(self, payload: bytes, properties_size: int = 0) -> bytes:
        """Return the payload; LimitExceeded above MAX_MESSAGE_SIZE, TypeError when it is not bytes."""
        if type(payload) is not bytes:
            if not isinstance(payload, bytes | bytearray | memoryview):
                raise TypeError(f"a payload is bytes, not {type(payload).__name__}")
            payload = bytes(payload)  # a buffer may change while the commit is on its way
        if len(payload) + properties_size > self.message_bytes_max:
            check_size(len(payload) + properties_size, self.message_bytes_max, "message with its properties")
        return payload

    def message(
        self, queue: str, payload: bytes, properties: Mapping[str, str] | None, producer_id: str | None
    ) -> NewMessage:
        """Return a message checked against every limit."""
        template = self.queue(queue)
        encoded = encode_properties(properties) if properties else b""
        checked = self.payload(payload, len(encoded))
        return NewMessage(template, checked, encoded, self.producer(producer_id))

    def producer(self, producer_id: str | None) -> bytes:
        return b"" if producer_id is None else encode_name(producer_id, "producer identifier")

    def draft_many(self, queue: str, payloads: Sequence[bytes]) -> Draft:
        """Return the draft of messages of one queue without properties or identifier."""
        template = self.queue(queue)
        sizes = list(map(len, payloads))
        if set(map(type, payloads)) != {bytes} or max(sizes) > self.message_bytes_max:
            payloads = [self.payload(payload) for payload in payloads]
            sizes = list(map(len, payloads))
        draft = draft_plain(template.name, payloads, sizes)
        draft.effect = Effect(runs=(Run(template, sizes),))
        return draft

    def queues_of(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the queue of every message that is undelivered."""
        with self._ledger.lock:
            queues = self._ledger.live(numbers)
        return {number: queue for queue, found in queues.items() for number in found.tolist()}

    def key(self, key: str) -> bytes:
        """Return a caller's key; InvalidName for the engine's own."""
        data = encode_name(key, "key")
        if key.startswith(ENGINE_PREFIX):
            raise InvalidName("keys that begin with a NUL character belong to the engine")
        return data

    def value(self, value: bytes) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"a value is bytes, not {type(value).__name__}")
        check_size(len(value), VALUE_BYTES_MAX, "value")
        return bytes(value)
