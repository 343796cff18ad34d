"""The value of a unit of work's record in its parts: the head, the parties that many have in common, its own texts."""

from oms_journal.broker.records import UOW, Flag, RecordError, Status, UowRecord

HEAD = UOW.size  # bytes
NO_TEXTS = b"\0\0"  # neither a user status nor a producer
_EXTENT = UOW.offset("extent")  # of the head: the bytes of the parties
_BLANK = UOW.encode(UowRecord("", "", Status.ACCEPTED, Flag(0)))[:HEAD]


def value_of(head: bytes, parties: bytes, texts: bytes = NO_TEXTS) -> bytes:
    """Return a record's value put together again; its own texts are the user status and the producer."""
    return head + parties + texts


def check_texts(texts: bytes) -> None:
    """Raise RecordError unless these are a record's own texts."""
    if texts == NO_TEXTS:
        return
    try:
        middle = 1 + texts[0]
        texts[1:middle].decode()
        texts[middle + 1 :].decode()
        is_whole = len(texts) == middle + 1 + texts[middle]
    except (IndexError, UnicodeDecodeError):
        is_whole = False
    if not is_whole:
        raise RecordError("a UOW record with an unreadable user status or producer")


def record_with(parties: bytes) -> UowRecord:
    """Return a record that says nothing but who its parties are."""
    extent = len(parties).to_bytes(2, "little")
    return UOW.decode(value_of(_BLANK[:_EXTENT] + extent + _BLANK[_EXTENT + 2 :], parties))


def split(value: bytes) -> tuple[bytes, bytes, bytes]:
    """Return a record's value as its head, the parties, and the texts of its own."""
    end = HEAD + int.from_bytes(value[_EXTENT : _EXTENT + 2], "little")
    return value[:HEAD], value[HEAD:end], value[end:]
