"""Which data files may go, as a pure decision.

The seed's rule: the leading run of files that hold nothing needed. What stands behind the first
needed file stays, so a removal always outlives what it removes. Compaction makes the run longer: it
takes the longest run of old files in which little is needed compared with what goes, or which are
so many and so small that one file holds all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MESSAGE_OVERHEAD_BYTES = 120  # of a moved message, besides its payload
KEY_BYTES = 300  # of a moved key, about
SMALL_FILES_MIN = 8  # so many neighbouring files that fit into one are worth it


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What of one data file is needed. Sizes in bytes."""

    sequence: int
    bytes: int
    live_messages: int
    live_bytes: int
    live_keys: int
    is_active: bool

    @property
    def is_needed(self) -> bool:
        return bool(self.live_messages or self.live_keys)

    @property
    def kept_bytes(self) -> int:
        """Return about how much would be written again."""
        return self.live_bytes + self.live_messages * MESSAGE_OVERHEAD_BYTES + self.live_keys * KEY_BYTES


def leading_dead(facts: Sequence[FileFacts]) -> int:
    """Return how many of the oldest files hold nothing needed."""
    for count, fact in enumerate(facts):
        if fact.is_needed or fact.is_active:
            return count
    return len(facts)


def plan_compaction(facts: Sequence[FileFacts], *, share: float, data_file_bytes: int) -> int:
    """Return how many of the oldest files should go, their live share moved forward.

    At least those that hold nothing needed; never the active file.
    """
    best = leading_dead(facts)
    total = kept = 0
    for count, fact in enumerate(facts, start=1):
        if fact.is_active:
            break
        total += fact.bytes
        kept += fact.kept_bytes
        is_sparse = kept <= share * total
        is_many = count >= SMALL_FILES_MIN and kept <= data_file_bytes // 2 and total <= data_file_bytes
        if is_sparse or is_many:
            best = max(best, count)
    return best
