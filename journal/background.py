"""Work beside the commits lets go of the interpreter often.

A thread that computes in Python keeps the interpreter's lock for the switch interval, 5 milliseconds
by default, and so long a commit that has just been synced waits to be told. While such work goes on
the interval is shortened for the whole process, and afterwards put back.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_SECONDS = 0.00005

_lock = threading.Lock()  # guards the two below
_count = 0
_before = 0.0


@contextmanager
def yielding() -> Iterator[None]:
    """Shorten the switch interval while the block runs; blocks may overlap."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _count, _before
    with _lock:
        if not _count:
            _before = sys.getswitchinterval()
            sys.setswitchinterval(min(_before, SWITCH_SECONDS))
        _count += 1


def _leave() -> None:
    global _count
    with _lock:
        _count -= 1
        if not _count:
            sys.setswitchinterval(_before)
