"""What a client may take of the server over HTTP, each bound with its name: who goes over one is told so."""

from dataclasses import dataclass


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
