"""Whether a device is so fast that an event loop commits by itself, learned from how long the commits take.

Handing a group to a thread costs more than the sync of a fast device; a slow one would stall the loop. An opening
begins with the thread.
"""

SLOW_SECONDS = 0.005  # one group on the loop above this, and the thread takes over again
FAST_SECONDS = 0.002  # what counts as fast
FAST_COUNT = 8  # so many groups more were fast than were slow, and the loop does it itself


class Pace:
    """How fast the groups of one opening become durable. Told by one at a time."""

    __slots__ = ("_lead", "is_fast")

    def __init__(self) -> None:
        self.is_fast = False  # the loop does it itself
        self._lead = 0  # of the fast groups over the slow ones

    def note(self, seconds: float) -> None:
        """Take in how long a group took.

        On a busy machine also a fast device is waited for too long now and then, by a thread that was not given the
        processor: so a slow group counts against a fast one, and no more.
        """
        if seconds < FAST_SECONDS:
            if self._lead < FAST_COUNT:
                self._lead += 1
                self.is_fast = self._lead == FAST_COUNT
        elif seconds > SLOW_SECONDS:
            self.is_fast = False
            self._lead = max(self._lead - 1, 0)
