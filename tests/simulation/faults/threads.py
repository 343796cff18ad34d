"""Faults made on purpose in what threads share: locks that are not taken where callers queue up."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from oms_journal.journal.writing.group_commit import GroupCommit
from tests.planted.patched import Patched
from tests.simulation.faults.fault import changed, fault


class _Unlocked:
    """A group commit of which one method goes about it without the lock."""

    _lock = contextlib.nullcontext()

    def __init__(self, group: GroupCommit) -> None:
        object.__setattr__(self, "_group", group)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._group, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._group, name, value)


def _unlocked(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *arguments: method(_Unlocked(self), *arguments)


@fault("threads", budget=60)
def callers_queue_up_without_the_lock() -> Iterator[None]:
    """Who hands in a commit looks who leads, and queues up, without the lock."""
    with changed(Patched.GROUP_COMMIT_COMMIT, _unlocked):
        yield


@fault("threads", budget=300)
def several_commits_queue_up_without_the_lock() -> Iterator[None]:
    """Who hands in several commits at once looks who leads, and queues them up, without the lock."""
    with changed(Patched.GROUP_COMMIT_SUBMIT, _unlocked):
        yield


@fault("threads", budget=60)
def the_queue_is_taken_without_the_lock() -> Iterator[None]:
    """Who leads takes what has queued up without the lock."""
    with changed(Patched.GROUP_COMMIT_LEAD, _unlocked):
        yield


@fault("threads", budget=60)
def the_lead_is_handed_on_without_the_lock() -> Iterator[None]:
    """Who has led looks who waits, and lets it lead, without the lock."""
    with changed(Patched.GROUP_COMMIT_HAND_ON, _unlocked):
        yield
