"""What a connection may take of the server, each bound with its name: who goes over one is told so, and ends alone."""

from dataclasses import dataclass, field

from oms_journal.broker.server.stomp.frames import FrameLimits


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
