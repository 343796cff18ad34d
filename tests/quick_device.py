"""A device for the tests of every day that has made durable at once what is written to it.

A database that is opened and closed waits a dozen times for the device, and the tests open thousands. No test can see
whether bytes would survive a power cut of this machine: the simulated disk shows what is lost, and it knows what was
synced by the calls of `journal/disk.py`. So in the process of the tests a sync checks its descriptor, and does nothing
else. Processes that tests start do sync, and so does everything where the whole is asked for.
"""

import os
from collections.abc import Sequence
from typing import Any

import pytest

_DSYNC: int = getattr(os, "RWF_DSYNC", 0)
_CALLS = {name: getattr(os, name) for name in ("fsync", "fdatasync", "pwritev") if hasattr(os, name)}  # as they are


def use() -> None:
    """Let no call of this process wait for a device."""
    for name in _CALLS:
        setattr(os, name, _write if name == "pwritev" else _sync)


def unused(patch: pytest.MonkeyPatch) -> None:
    """Let the calls be those of the system until a patch is undone."""
    for name, call in _CALLS.items():
        patch.setattr(os, name, call)


def _sync(file: Any) -> None:
    os.fstat(file if isinstance(file, int) else file.fileno())


def _write(descriptor: int, buffers: Sequence[Any], offset: int, flags: int = 0) -> int:
    count: int = _CALLS["pwritev"](descriptor, buffers, offset, flags & ~_DSYNC)
    return count
