"""Identifiers of units of work, conversations and publications: 16 characters, none ever given twice.

"1", how often the store was started in 7 hexadecimal digits, and a count in 8. They ascend, over restarts too.
The all-numeric ones for conversations of messages begin with "0".
"""

from oms_journal.broker.codes import BrokerError, Code

STARTS_MAX = (1 << 28) - 1  # seven hexadecimal digits
COUNT_MAX = (1 << 32) - 1  # of identifiers in one start


class Identifiers:
    """The identifiers of one start. BrokerError when none are left."""

    def __init__(self, starts: int) -> None:
        if not 0 <= starts <= STARTS_MAX:
            raise BrokerError(Code.NO_NEW_UOWID, f"the store was started {starts} times: no identifiers are left")
        self._start = (1 << 28 | starts) << 32
        self._numeric = f"0{starts % 100_000:05}"
        self._count = 0
        self._numeric_count = 0

    @classmethod
    def without_store(cls, now: int) -> "Identifiers":
        """Return identifiers for a broker that nothing outlives."""
        return cls(now // 1_000_000 & STARTS_MAX)

    def next(self) -> str:
        """Return the next identifier."""
        return f"{self.next_number():016X}"

    def next_number(self) -> int:
        """Return the next identifier as the number that it is in hexadecimal digits."""
        self._count = count = self._count + 1
        if count > COUNT_MAX:
            raise BrokerError(Code.NO_NEW_UOWID, "all identifiers of this start are used up: start the broker anew")
        return self._start + count

    def next_numeric(self) -> str:
        """Return the next identifier that has digits only."""
        self._numeric_count += 1
        return f"{self._numeric}{self._numeric_count:010}"
