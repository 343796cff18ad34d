"""Two programs on one simulated disk, one of which goes on only between two calls of the other.

The writer is a thread that stops before each of its changes. The reader's calls are the moments at which it may
go on, and a read is as many calls as it has sectors: a system copies what is being written in parts, too.
"""

import threading
from collections.abc import Callable
from typing import Any

from tests.support.disks.faulty_calls import CHANGES
from tests.support.disks.faulty_disk import SimulatedDisk

SECTOR = 512
OPENING = frozenset(["open", "create", "open_lock"])


class CallsOf:
    """A disk, or one of its files, with something called before each of its verbs."""

    def __init__(self, inner: Any, before: Callable[[str], None]) -> None:
        self._inner = inner
        self._before = before

    def __getattr__(self, verb: str) -> Any:
        inner = getattr(self._inner, verb)

        def call(*values: Any, **named: Any) -> Any:
            self._before(verb)
            found = inner(*values, **named)
            return type(self)(found, self._before) if verb in OPENING else found

        return call


class ReadInParts(CallsOf):
    """Likewise, and what is read of a file is read sector by sector."""

    def read(self, size: int, offset: int | None = None) -> bytes:
        if offset is None:  # of a lock file
            self._before("read")
            return self._inner.read(size)  # type: ignore[no-any-return]
        data = b""
        while len(data) < size:
            self._before("read")
            at = offset + len(data)
            part = self._inner.read(min(SECTOR - at % SECTOR, size - len(data)), at)
            data += part
            if not part:
                break
        return data

    def read_now(self, size: int, offset: int) -> bytes:
        return self.read(size, offset)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        data = self.read(len(buffer), offset)
        buffer[: len(data)] = data
        return len(data)


class Stepwise:
    """A program that makes so many changes of a disk at a time as it is told to. `finish` it."""

    def __init__(self, disk: SimulatedDisk, program: Callable[[Any], None]) -> None:
        self.coming = ""  # the verb before which it stands
        self.failure: BaseException | None = None
        self.is_over = False
        self._may_go = threading.Semaphore(0)
        self._has_stopped = threading.Semaphore(0)
        self._left = 0
        self._thread = threading.Thread(target=self._run, args=(program, CallsOf(disk, self._before)), daemon=True)
        self._thread.start()

    def go(self, changes: int) -> None:
        """Return when it has made so many more changes, or has ended."""
        if not self.is_over and changes > 0:
            self._left = changes
            self._may_go.release()
            self._has_stopped.acquire()

    def go_to(self, verb: str) -> None:
        """Let it go on until such a change is the next one, or it has ended."""
        self.go(1)
        while self.coming != verb and not self.is_over:
            self.go(1)

    def finish(self) -> None:
        """Let it end, and raise what it failed with."""
        self.go(1 << 60)
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self, program: Callable[[Any], None], disk: CallsOf) -> None:
        self._may_go.acquire()
        try:
            program(disk)
        except BaseException as failure:
            self.failure = failure
        self.is_over = True
        self._has_stopped.release()

    def _before(self, verb: str) -> None:
        if verb not in CHANGES:
            return
        self.coming = verb
        if not self._left:
            self._has_stopped.release()
            self._may_go.acquire()
        self._left -= 1
