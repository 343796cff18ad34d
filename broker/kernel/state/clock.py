"""The clocks that lifetimes run on: the pseudo-clock of what is persistent, and the one of everything else.

The pseudo-clock runs only while the broker is active and its store is connected, so that neither a
crash nor days of downtime age a unit of work. It is written with every tick while something runs on
it, and goes on after a restart from where it was written last: a crash costs it at most one tick
interval, and what runs on it lives that much longer, never shorter. What is not persistent runs on a
clock of its own, which the store does not stop.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Clocks:
    """What both clocks show, in microseconds, and whether the pseudo-clock runs."""

    persistent: int = 0
    volatile: int = 0
    is_connected: bool = True

    def ticked(self, elapsed: int) -> "Clocks":
        """Return the clocks so much later; the pseudo-clock stands still while the store is away."""
        persistent = self.persistent + (elapsed if self.is_connected else 0)
        return Clocks(persistent, self.volatile + elapsed, self.is_connected)

    def connected(self, is_connected: bool) -> "Clocks":
        return replace(self, is_connected=is_connected)
