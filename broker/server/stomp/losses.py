"""Subscribers that lose their connections with something in flight: after two losses in a row one gets one at a time.

What a subscriber cannot survive is then alone in flight, and a lost connection counts for what was at fault. What it
acknowledges breaks the row. A subscriber is a USER-ID and TOKEN with a destination, and of several subscriptions to a
topic the label of one, whatever its connection; this is known to the port that it comes to, as long as the server
runs. Several subscriptions of a connection to one queue are one subscriber: a program was lost with all of them, and
counts for the first of what it had.
"""

from collections import OrderedDict

SUBSCRIBERS_MAX = 10_000  # that are remembered
LOSSES_MAX = 2  # in a row; then one gets one at a time

Subscriber = tuple[str, str, str]  # USER-ID, TOKEN, destination


class Losses:
    """How often subscribers were lost in a row, of all connections of a port."""

    def __init__(self) -> None:
        self._counts: OrderedDict[Subscriber, int] = OrderedDict()

    def note(self, subscriber: Subscriber) -> None:
        """Note one more loss."""
        self._counts[subscriber] = self._counts.pop(subscriber, 0) + 1
        if len(self._counts) > SUBSCRIBERS_MAX:
            self._counts.popitem(last=False)

    def forget(self, subscriber: Subscriber) -> None:
        """Note that it has acknowledged something."""
        self._counts.pop(subscriber, None)

    def gets_one_at_a_time(self, subscriber: Subscriber) -> bool:
        return self._counts.get(subscriber, 0) >= LOSSES_MAX
