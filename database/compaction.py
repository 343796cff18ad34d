"""Which data files may go, as a pure decision.

The seed's rule: the leading run of files that hold nothing needed. What stands behind the first
needed file stays, so a removal always outlives what it removes. Compaction makes the run longer: it
takes the longest run of old files in which little is needed compared with what goes, or which are
so many and so small that one file holds all of it. Unpinning is the compaction that costs nearly
nothing, and is done in passing: of files that stay because of a small key or message alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oms_journal.journal.format.headers import FRAMES_AT

MESSAGE_OVERHEAD_BYTES = 120  # of a moved message, besides its payload
KEY_BYTES = 300  # of a moved key, about
SMALL_FILES_MIN = 8  # so many neighbouring files that fit into one are worth it
PIN_SHARE = 1 / 16  # of the bytes that go: what is moved in passing takes no larger part of them
PINS_BYTES_MAX = 1 << 20  # that are moved in passing, all together


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
    def frame_bytes(self) -> int:
        """Return how many bytes it has behind its headers: what is moved forward stands behind such headers again."""
        return max(0, self.bytes - FRAMES_AT)

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
    total = frames = kept = 0
    for count, fact in enumerate(facts, start=1):
        if fact.is_active:
            break
        total += fact.bytes
        frames += fact.frame_bytes
        kept += fact.kept_bytes
        is_sparse = kept <= share * frames
        is_many = count >= SMALL_FILES_MIN and kept <= data_file_bytes // 2 and total <= data_file_bytes
        if is_sparse or is_many:
            best = max(best, count)
    return best


def plan_unpinning(facts: Sequence[FileFacts], *, share: float = PIN_SHARE, data_file_bytes: int = 0) -> int:
    """Return how many of the oldest files should go where only what is small, and keeps them alone, is moved forward.

    Each moved byte has to let go of 1/`share` bytes, and all of them together are at most PINS_BYTES_MAX. At least
    those that hold nothing needed; never the active file. The best run is taken and not the longest one: a file in
    which more is needed is not paid for by dead ones before it.

    So many and so small files that one of `data_file_bytes` holds them all go whatever they free: starts leave them,
    each with a message that waits. What that moves is paid once for SMALL_FILES_MIN starts.
    """
    best = many = leading_dead(facts)
    gain = gain_max = 0.0
    kept = total = 0
    for count, fact in enumerate(facts, start=1):
        kept += fact.kept_bytes
        if fact.is_active or not share or kept > PINS_BYTES_MAX:
            break
        gain += fact.frame_bytes - fact.kept_bytes / share
        if gain >= gain_max:
            best, gain_max = max(best, count), gain
        total += fact.bytes
        if count >= SMALL_FILES_MIN and total <= data_file_bytes and kept <= data_file_bytes // 2:
            many = count
    return max(best, many)
