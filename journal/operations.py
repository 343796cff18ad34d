"""What an operation means, before anyone asks how it looks in a file.

    operation  on       meaning
    ADD        message  put into a queue; undelivered from now on
    DELIVER    message  a consumer has acknowledged it
    DELETE     message  removed undelivered: expired, cancelled, purged
    PUT        key      this value from now on; the latest PUT of a key wins
    DROP       key      the key is gone

There are five and no more. A message written again by compaction is an ADD under its own number,
marked as moved, with the time of its first ADD.
"""

from enum import IntEnum

from oms_journal.journal.errors import InvalidName, LimitExceeded

MIB = 1 << 20
NAME_BYTES_MAX = 255  # queue, key, producer identifier: one byte of length
PROPERTIES_BYTES_MAX = 64 << 10
VALUE_BYTES_MAX = 64 << 10
MESSAGE_BYTES_MAX = 1 << 30  # the highest MAX_MESSAGE_SIZE; the seed's server has the same bound
ENGINE_PREFIX = "\0"  # keys that begin with it belong to the engine
LOW_WATER_KEY = b"\0low-water"  # 8 bytes: the first sequence that is still needed


class Operation(IntEnum):
    """The kinds of operation; none is 0, so that zeros are never one."""

    ADD = 1
    DELIVER = 2
    DELETE = 3
    PUT = 4
    DROP = 5


def encode_name(name: str, what: str) -> bytes:
    """Return the name as UTF-8; InvalidName when it is empty, too long or not valid Unicode, TypeError for no text."""
    if not isinstance(name, str):
        raise TypeError(f"the {what} must be text (str), not {type(name).__name__}")
    try:
        data = name.encode()
    except UnicodeEncodeError as failure:
        raise InvalidName(f"the {what} {name!r} is not valid Unicode: {failure.reason}") from None
    if not data:
        raise InvalidName(f"the {what} is empty; it must have 1 to {NAME_BYTES_MAX} bytes of UTF-8")
    if len(data) > NAME_BYTES_MAX:
        raise InvalidName(f"the {what} must have 1 to {NAME_BYTES_MAX} bytes of UTF-8, it has {len(data)}")
    return data


def check_size(size: int, limit: int, what: str) -> None:
    """Raise LimitExceeded when the size in bytes is over the limit."""
    if size > limit:
        raise LimitExceeded(f"the {what} has {size} bytes, at most {limit} are allowed")
