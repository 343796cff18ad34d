"""The one text that names a service: /queue/NAME, or /service/CLASS/SERVER/SERVICE.

/queue/NAME is the service of CLASS QUEUE with NAME over SERVER and SERVICE: at most 64 bytes, case kept. A NAME of at
most 32 bytes is the SERVER, and the SERVICE is `-`. A longer one is cut behind its 32nd byte at the latest, never
within a character, and never so that `-` would be left: two names never are one service.
"""

from functools import lru_cache

from oms_journal.broker.block import FIELDS, ServiceName
from oms_journal.broker.codes import Code, refuse

QUEUE_CLASS = "QUEUE"
NO_SERVICE = "-"
PART_BYTES = FIELDS["SERVER-NAME"].width
NAME_BYTES_MAX = 2 * PART_BYTES


@lru_cache(16384)
def destination_of(names: ServiceName) -> str:
    """Return the text that names the service."""
    server_class, server, service = names
    if server_class == QUEUE_CLASS and service_of_queue(text := _queue_name(server, service)) == names:
        return f"/queue/{text}"
    return f"/service/{server_class}/{server}/{service}"


def service_of_queue(name: str) -> ServiceName:
    """Return the service of a queue; 00200183 for a name that is empty, or of more than 64 bytes."""
    if not name:
        text = f"the name of a queue is empty; write 1 to {NAME_BYTES_MAX} bytes"
        raise refuse(Code.INVALID_SERVICE_NAME, text)
    data = name.encode()
    if len(data) <= PART_BYTES:
        return (QUEUE_CLASS, name, NO_SERVICE)
    cut = _cut(data, PART_BYTES)
    if data[cut:] == NO_SERVICE.encode():
        cut = _cut(data, cut - 1)
    if len(data) - cut > PART_BYTES:
        text = f"the name of a queue has at most {NAME_BYTES_MAX} bytes, this one has {len(data)}"
        if len(data) <= NAME_BYTES_MAX:
            text += f" and no character ends at byte {PART_BYTES}: make it a little shorter"
        raise refuse(Code.INVALID_SERVICE_NAME, text)
    return (QUEUE_CLASS, data[:cut].decode(), data[cut:].decode())


def _cut(data: bytes, at: int) -> int:
    """Return where the text can be cut: there, or before the character that lies across."""
    while data[at] & 0xC0 == 0x80:
        at -= 1
    return at


def _queue_name(server: str, service: str) -> str:
    return server if service == NO_SERVICE else server + service
