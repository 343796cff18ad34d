"""A target: something that decodes bytes from elsewhere, what it promises about any bytes, and inputs to begin with.

`play` takes one input and returns where every promise holds. A promise that does not is any exception: what was not
documented came out, or an assertion of the target's own (what was encoded was decoded to something else, two readers
do not agree). Time and memory are bounded by whoever plays.
"""

import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a file system in memory
INPUT_BYTES_MAX = 4096  # of one input: promises are broken by what it says, not by how long it is
MEMORY_BYTES_MAX = 512 << 20  # that a play may take beyond what there was; far more than the largest one needs

Play = Callable[[bytes], None]
Seeds = Callable[[], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Target:
    """What is fuzzed, by its name; the names of files are made of it."""

    name: str
    play: Play
    seeds: Seeds


def target(found: dict[str, Target], seeds: Seeds) -> Callable[[Play], Play]:
    """Return what makes a function a target of the table: its name is the function's, with hyphens."""

    def taken(play: Play) -> Play:
        name = play.__name__.replace("_", "-")
        assert name not in found, "two targets of one name would share a corpus"
        found[name] = Target(name, play, seeds)
        return play

    return taken


@contextmanager
def bounded_memory(bytes_max: int = MEMORY_BYTES_MAX) -> Iterator[None]:
    """Let an allocation fail with MemoryError that would take the process so far beyond what it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    there = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    wanted = there + bytes_max if soft == resource.RLIM_INFINITY else min(soft, there + bytes_max)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class Taker:
    """An input, taken apart from its beginning; what is not there any more is zeros."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, size: int) -> bytes:
        part = self._data[self._at : self._at + size]
        self._at += size
        return part

    def number(self, size: int = 1) -> int:
        return int.from_bytes(self.take(size), "little")

    def rest(self) -> bytes:
        return self.take(max(len(self._data) - self._at, 0))

    def piece(self) -> bytes:
        """Return the next bytes, as many as the two before them say."""
        return self.take(self.number(2))
