"""What callers hand in, checked and as bytes. Refused at the door, asserted inside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from database.ledger import Effect, Ledger, Run
from journal.draft import Added, Composer, Draft
from journal.errors import InvalidName, NotUndelivered
from journal.operations import ENGINE_PREFIX, VALUE_BYTES_MAX, check_size, encode_name
from journal.records import encode_properties


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message on its way in."""

    queue: bytes
    queue_id: int
    payload: bytes
    properties: bytes
    producer: bytes


class Encoder:
    """Checks names, payloads and values against the limits. Safe from any thread."""

    def __init__(self, ledger: Ledger, message_bytes_max: int) -> None:
        self._ledger = ledger
        self._message_bytes_max = message_bytes_max
        self._queues: dict[str, tuple[bytes, int]] = {}

    def queue(self, name: str) -> tuple[bytes, int]:
        """Return a queue's name as bytes and its place in the index."""
        known = self._queues.get(name)
        if known is None:
            data = encode_name(name, "queue name")
            with self._ledger.lock:
                known = self._queues[name] = (data, self._ledger.index.table.queue_id(name))
        return known

    def payload(self, payload: bytes, properties_size: int = 0) -> bytes:
        """Return the payload; LimitExceeded above MAX_MESSAGE_SIZE, TypeError when it is not bytes."""
        if type(payload) is not bytes:
            if not isinstance(payload, bytes | bytearray | memoryview):
                raise TypeError(f"a payload is bytes, not {type(payload).__name__}")
            payload = bytes(payload)  # a buffer may change while the commit is on its way
        if len(payload) + properties_size > self._message_bytes_max:
            check_size(len(payload) + properties_size, self._message_bytes_max, "message with its properties")
        return payload

    def message(
        self, queue: str, payload: bytes, properties: Mapping[str, str] | None, producer_id: str | None
    ) -> NewMessage:
        """Return a message checked against every limit."""
        name, place = self.queue(queue)
        encoded = encode_properties(properties) if properties else b""
        checked = self.payload(payload, len(encoded))
        return NewMessage(name, place, checked, encoded, self.producer(producer_id))

    def producer(self, producer_id: str | None) -> bytes:
        return b"" if producer_id is None else encode_name(producer_id, "producer identifier")

    def draft_many(self, queue: str, payloads: Sequence[bytes]) -> Draft:
        """Return the draft of messages of one queue without properties or identifier."""
        name, place = self.queue(queue)
        checked = [self.payload(payload) for payload in payloads]
        composer = Composer()
        composer.add(Added(queue=name, payloads=checked))
        draft = composer.draft()
        draft.effect = Effect(runs=(Run(place, [len(payload) for payload in checked]),))
        return draft

    def queue_of(self, number: int) -> bytes:
        """Return the queue of an undelivered message; NotUndelivered when it is gone."""
        with self._ledger.lock:
            place = self._ledger.index.table.find(number)
            if place is None:
                raise NotUndelivered(number)
            return self._ledger.index.table.queue_name(place.queue).encode()

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
