"""How often a wrong password may be said: by an address for one user, and by an address for all of them together.

Behind the first few each wrong password doubles the time that nothing more is looked at, up to some minutes; then even
the right one is refused unseen. What counts is the address and the user together, so who guesses from one address locks
nobody out anywhere else; and a user who has logged on from an address before is not locked out by others there who
guess for other users. The time comes in as an argument. An IPv6 address counts as its network of 64 bits.
"""

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

K = TypeVar("K")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginBounds:
    """Counts and seconds."""

    user_failures: int = 5  # of one user from one address, before it has to wait
    address_failures: int = 20  # of all users from one address
    wait_seconds: float = 1.0  # after the first failure too many; twice as long after each other
    wait_seconds_max: float = 300.0
    forget_seconds: float = 900.0  # without a failure
    remembered: int = 100_000  # of each, the latest


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last: float = 0.0


class LoginLimit:
    """The failures of late."""

    def __init__(self, bounds: LoginBounds | None = None) -> None:
        self.bounds = bounds or LoginBounds()
        self._of_user: OrderedDict[tuple[str, str], _Failures] = OrderedDict()
        self._of_address: OrderedDict[str, _Failures] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()  # who has logged on from where

    def seconds_to_wait(self, user: str, address: str, now: float) -> float:
        """Return how long nothing is looked at that says it is this user from there; 0.0: it is looked at."""
        bounds, network = self.bounds, _network(address)
        found = self._left(self._of_user.get((user, network)), bounds.user_failures, now)
        if (user, network) in self._known:
            return found
        return max(found, self._left(self._of_address.get(network), bounds.address_failures, now))

    def failed(self, user: str, address: str, now: float) -> None:
        """Note a wrong password, or a user that there is not."""
        network = _network(address)
        self._count(self._of_user, (user, network), now)
        self._count(self._of_address, network, now)

    def succeeded(self, user: str, address: str) -> None:
        """Note a right password."""
        key = (user, _network(address))
        self._of_user.pop(key, None)
        self._known[key] = None
        self._known.move_to_end(key)
        if len(self._known) > self.bounds.remembered:
            self._known.popitem(last=False)

    def _left(self, failures: _Failures | None, free: int, now: float) -> float:
        if failures is None or failures.count < free or now - failures.last > self.bounds.forget_seconds:
            return 0.0
        doubled = min(failures.count - free, 32)
        wait = min(self.bounds.wait_seconds * 2.0**doubled, self.bounds.wait_seconds_max)
        return max(0.0, failures.last + wait - now)

    def _count(self, counts: OrderedDict[K, _Failures], key: K, now: float) -> None:
        found = counts.get(key)
        if found is None or now - found.last > self.bounds.forget_seconds:
            found = counts[key] = _Failures()
        found.count += 1
        found.last = now
        counts.move_to_end(key)
        if len(counts) > self.bounds.remembered:
            counts.popitem(last=False)


@lru_cache(4096)
def _network(address: str) -> str:
    """Return what an address is counted as."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
