"""Checks what callers hand in, and copies it into plain values that nobody else can change.

Of a subclass only what it holds is taken: a text that compares or hashes as it likes reaches no index, and a list
that reports another length than it has reaches no file. What can be iterated over is consumed here, once and whole,
before anything is written; what the iteration raises goes to the caller as it is.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from operator import index, itemgetter

from oms_journal.database.commits.added import PLAIN_NUMBERS
from oms_journal.journal.errors import InvalidName, LimitExceeded
from oms_journal.journal.format.frames import OPERATIONS_MAX
from oms_journal.journal.operations import encode_name
from oms_journal.journal.reading.message import Message

Payload = bytes | bytearray | memoryview
Number = int | Message
NUMBERS_MAX = 100_000_000  # named in one call; those that are undelivered go into one commit
MESSAGES = "message numbers or Messages"
_SHOWN_MAX = 40  # characters of a value in an error


def shown(value: object) -> str:
    """Return the type of a value, and the value itself where it is short and its text can be trusted."""
    kind = type(value)
    if value is None:
        return "None"
    if kind not in (int, float, bool, str, bytes):
        return kind.__name__
    text = repr(value)
    return f"{kind.__name__} {text}" if len(text) <= _SHOWN_MAX else kind.__name__


def plain_text(value: object, what: str) -> str:
    """Return a text as a plain str; TypeError."""
    if type(value) is str:
        return value
    if not isinstance(value, str):
        raise TypeError(f"{what} must be text (str), not {shown(value)}")
    return str.__str__(value)


def encodable_text(value: object, what: str) -> str:
    """Return a text that UTF-8 has bytes for; TypeError, InvalidName."""
    text = plain_text(value, what)
    try:
        text.encode()
    except UnicodeEncodeError as failure:
        raise InvalidName(f"{what} {text!r} is not valid Unicode: {failure.reason}") from None
    return text


def asked_queue(queue: object) -> str | None:
    """Return the name of a queue that is asked for, None for every queue; TypeError, InvalidName."""
    if queue is None:
        return None
    return named_queue(queue)


def named_queue(queue: object) -> str:
    """Return the name of the one queue that is asked for; TypeError, InvalidName."""
    name = plain_text(queue, "queue")
    encode_name(name, "queue name")
    return name


def plain_bytes(value: object, what: str) -> bytes:
    """Return bytes, or a copy of a buffer that may change while the commit is on its way; TypeError, ValueError."""
    if type(value) is bytes:
        return value
    if not isinstance(value, bytes | bytearray | memoryview):
        hint = "; encode text first, as in text.encode()" if isinstance(value, str) else ""
        raise TypeError(f"{what} must be bytes, bytearray or memoryview, not {shown(value)}{hint}")
    try:
        return bytes(memoryview(value))
    except ValueError:
        raise ValueError(f"{what} is a memoryview that was released already; hand in one that can be read") from None


def flag(value: object, what: str) -> bool:
    """Return True or False; TypeError for anything else: "no" would mean yes."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be True or False, not {shown(value)}")
    return value


def positive_count(value: object, what: str) -> int:
    """Return a number of things, at least 1; TypeError, ValueError."""
    if isinstance(value, bool | float | str | bytes) or not hasattr(type(value), "__index__"):
        raise TypeError(f"{what} must be an int, not {shown(value)}")
    count = int.__add__(index(value), 0)  # type: ignore[arg-type]  # a subclass of int as a plain one
    if count < 1:
        raise ValueError(f"{what} must be at least 1, not {count}")
    return count


def message_number(value: object, what: str = "number") -> int:
    """Return the number of a message from the number or the Message; TypeError."""
    if type(value) is Message:
        value = value[0]
    if type(value) is int:
        return value
    if type(value) in PLAIN_NUMBERS:
        return int(value)  # type: ignore[call-overload,no-any-return]
    if isinstance(value, Message):
        return message_number(value[0], f"{what}: the number of the Message")
    if not isinstance(value, bool | float | str | bytes) and hasattr(type(value), "__index__"):
        return int.__add__(index(value), 0)  # type: ignore[arg-type]  # a subclass of int as a plain one
    raise TypeError(f"{what} must be a message number (int) or a Message, not {shown(value)}")


def message_numbers(values: object, what: str = "numbers") -> list[int]:
    """Return the numbers of messages from numbers and Messages; TypeError, LimitExceeded."""
    found = every(values, what, MESSAGES, NUMBERS_MAX)
    numbers = list(map(itemgetter(0), found)) if set(map(type, found)) == {Message} else found  # type: ignore[arg-type]
    kinds = set(map(type, numbers))
    if kinds <= {int}:
        return numbers  # type: ignore[return-value]
    if kinds <= PLAIN_NUMBERS:
        return list(map(int, numbers))  # type: ignore[arg-type]
    return [message_number(value, f"{what}[{place}]") for place, value in enumerate(found)]


def every(values: object, what: str, items: str, limit: int = OPERATIONS_MAX) -> list[object]:
    """Return all that an iterable gives, in a list of its own; TypeError for a single text or buffer, LimitExceeded."""
    if type(values) is list or type(values) is tuple:
        found = list(values)
    elif isinstance(values, Message):
        raise TypeError(f"{what} must be an iterable of {items}, not a single Message: write [message]")
    elif isinstance(values, str | bytes | bytearray | memoryview | Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"{what} must be an iterable of {items}, not {shown(values)}")
    else:
        found = [value for value in islice(values, limit + 1)]  # list() would ask for a length
    if len(found) > limit:
        raise LimitExceeded(f"{what} has more than {limit:,} items; hand in at most so many at once")
    return found


def plain_properties(properties: object, what: str = "properties") -> dict[str, str] | None:
    """Return properties as a plain dict of plain texts, None for None; TypeError."""
    if properties is None:
        return None
    if not isinstance(properties, Mapping):
        raise TypeError(f"{what} must map text to text, as in {{'key': 'value'}}, not {shown(properties)}")
    found = dict(properties) if type(properties) is dict else {key: properties[key] for key in properties}
    if {*map(type, found), *map(type, found.values())} <= {str}:
        return found
    return {
        plain_text(key, f"a key of {what}"): plain_text(value, f"a value of {what}") for key, value in found.items()
    }
