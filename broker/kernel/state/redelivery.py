"""When a unit of work that was given back is handed out again, and when no more.

    given back                  then
    the first time              at once
    again                       after a delay: 0.1 seconds, and twice as long each time, up to a minute
    MAX-DELIVERY-COUNT times    POSTPONED for POSTPONE-DELAY, as often as POSTPONE-ATTEMPTS says; else a dead letter

With MAX-DELIVERY-COUNT=0 always at once, without an end, as the manual has it; with UNLIM the delay grows, and nothing
ends it. A delay runs on the clock of the unit's lifetime: that of a persistent one stands still while the broker is
down, and then goes on.

What is given back without having been tried is counted by nobody, and waits for nothing: nobody has heard the answer
that it came with, its receiver had got it ahead, the broker ended while it was at it, or an operator shut it down.

A message that the store cannot read counts, though its receiver is not to blame: only so does its unit of work wait
longer and longer. Else it would come first again at once, without an end, and nothing behind it would be received.

A publication that a subscriber gives back waits likewise, and is no dead letter: others may have it as well.

(EntireX, Using Persistence and Units of Work: a receiver's backout makes it ACCEPTED, and one more delivery counts as
attempted. Delay, limit and dead letters are ours.)
"""

from oms_journal.broker.attributes.attributes import ServiceAttributes
from oms_journal.broker.block import ServiceName
from oms_journal.broker.service_text import service_of_queue

DEAD_LETTERS: ServiceName = service_of_queue("DEAD-LETTER")
DELAY = 100_000  # microseconds, before the second redelivery
DELAY_MAX = 60_000_000
_DOUBLED_MAX = 10  # times: it is the longest one by then


def delay(limit: int | None, tried: int) -> int:
    """Return for how long a unit waits that was given back so often, where this is the limit; microseconds."""
    return min(DELAY << min(tried - 2, _DOUBLED_MAX), DELAY_MAX) if tried > 1 and limit != 0 else 0


def is_at_its_end(attributes: ServiceAttributes, name: ServiceName, tried: int) -> bool:
    """Say whether a unit is not handed out any more that was given back so often. A dead letter always is."""
    limit = attributes.max_delivery_count or 0  # UNLIM, and the manual's 0, end nothing
    return 0 < limit <= tried and name != DEAD_LETTERS
