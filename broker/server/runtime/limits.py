"""What a connection may take of the server, each bound with its name: who goes over one is told so, and ends alone.

What a client may take of the server over HTTP, each bound with its name: who goes over one is told so.

Who has to go where all together hold too much: of the user who holds most, who holds most of that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameLimits:
    """How large a frame may be; bytes and counts."""

    header_line: int = 16 << 10  # bytes of one line
    header_lines: int = 256
    head: int = 64 << 10  # bytes of the command and all headers
    body: int = 6_144_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StompLimits:
    """Bounds of STOMP connections; seconds, bytes and counts."""

    frames: FrameLimits = field(default_factory=FrameLimits)
    connections: int = 5000
    connect_seconds: float = 10.0  # from the connection to its CONNECT frame
    frame_seconds: float = 30.0  # for a frame that has begun, and more for each byte of it:
    frame_bytes_per_second: int = 10_000  # the slowest sender
    look_seconds: float = 5.0  # between two looks at frames that have begun
    unread_bytes: int = 256 << 20  # of frames that have begun, of all connections together
    calls: int = 1000  # of one connection, begun and not answered; beyond it nothing more is read
    call_bytes: int = 16 << 20  # bodies of these
    waiting_frames: int = 10_000  # read, behind one that has to be done first
    subscriptions: int = 1000  # of one connection
    replies: int = 1000  # conversations of one connection whose answers are waited for
    transactions: int = 100  # of one connection
    transaction_bytes: int = 64 << 20  # bodies of all open ones of one connection
    prefetch: int = 100  # messages in flight where SUBSCRIBE does not say
    prefetch_max: int = 10_000
    write_bytes: int = 256 << 10  # to be written; beyond it nothing more is received for the connection
    unsent_bytes: int = 1 << 20  # receipts and answers that are not read; beyond it nothing more is read or done
    heart_beat_milliseconds: int = 100  # the shortest interval, either way
    log_lines: int = 20  # about connections that end with an ERROR, between two looks
    linger_seconds: float = 5.0  # for the last frames to a connection that ends, and until its client hangs up
    stop_seconds: float = 10.0  # for what is under way when the server stops


@dataclass(frozen=True, slots=True, kw_only=True)
class WebLimits:
    """Bounds of HTTP; seconds, bytes and counts."""

    connections: int = 5000
    newcomers: int = 100  # connections beyond these, until it is known whose they are
    head_bytes: int = 32 << 10  # of a request's line and headers
    head_seconds: float = 10.0  # for them, once they have begun
    idle_seconds: float = 60.0  # of a connection before its first request, and between two
    body_bytes: int = 1 << 20  # of one request; more where the attributes allow longer messages,
    block_bytes: int = 256 << 10  # and so much beside the message
    body_seconds: float = 30.0  # for a body, and more for each byte of it:
    body_bytes_per_second: int = 10_000  # the slowest sender
    unread_bytes: int = 256 << 20  # of bodies, of all requests together
    kept_bytes: int = 16 << 20  # of messages in answers that are kept to be repeated, of all sessions together
    linger_seconds: float = 5.0  # for the rest of a body that is not wanted
    look_seconds: float = 10.0  # between two looks at who does not read: nothing read in between is too slow
    wait_seconds: float = 900.0  # that one call may wait; a longer WAIT is answered 00740074 then
    sessions: int = 10_000
    calls: int = 100  # of one session at a time
    stop_seconds: float = 10.0  # for what is under way when the server stops


T = TypeVar("T")


def largest_holder(held: Mapping[T, int], user_of: Callable[[T], str]) -> T:
    """Return which holder of the user with most bytes has most of them. There is at least one."""
    of_users: dict[str, int] = {}
    for holder, size in held.items():
        of_users[user_of(holder)] = of_users.get(user_of(holder), 0) + size
    user = max(of_users, key=of_users.__getitem__)
    return max((holder for holder in held if user_of(holder) == user), key=held.__getitem__)
