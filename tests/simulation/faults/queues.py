"""Faults made on purpose in the verbs of queues: leases, terms, groups, attempts, dead letters, waits and limits."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from oms_journal.database.commits.limits import Limits
from oms_journal.database.consumers.consumers import Consumers, TakenMessage, Waiter
from oms_journal.database.consumers.hand_file import NOTHING_LEFT, HandFile
from oms_journal.database.consumers.handing import Handing
from oms_journal.index.live import Index
from oms_journal.index.readiness import NEVER_DUE, Readiness, TermRows
from oms_journal.journal.writing.draft import CommitBuilder
from tests.planted.patched import Patched
from tests.simulation.faults.fault import changed, fault, nothing


@fault("queues", budget=60, near=["database/consumers/test_leases"])
def a_lease_ends_while_its_commit_is_on_its_way() -> Iterator[None]:
    """A lease is looked at when its message is delivered, and ends in its time all the same."""

    def settles(self: Consumers, messages: Sequence[TakenMessage], now: int) -> None:
        for message in messages:
            self._lease(message, now)

    with changed(Patched.CONSUMERS_SETTLE, lambda _: settles):
        yield


@fault("queues", budget=30, near=["database/consumers/test_readiness"])
def a_due_time_is_forgotten_over_a_restart() -> Iterator[None]:
    """What was added with a delay is handed out at once by the next opening."""

    def of(load: Callable[..., None]) -> Callable[..., None]:
        def loads(self: Readiness, rows: TermRows, now: int) -> None:
            load(self, rows._replace(due=np.full_like(rows.due, NEVER_DUE)), now)

        return loads

    with changed(Patched.READINESS_LOAD, of):
        yield


@fault("queues", budget=30, near=["database/consumers/test_readiness"])
def a_delay_goes_by_the_wall_clock() -> Iterator[None]:
    """A delay, and an expiry in seconds, go by the clock that somebody sets."""
    with changed(Patched.CLOCKED_ADD, lambda add: lambda self, number, wall, steady: add(self, number, wall, None)):
        yield


@fault("queues", budget=60, near=["database/consumers/test_readiness"])
def a_start_believes_a_clock_that_was_set_back() -> Iterator[None]:
    """The time of the newest commit does not count: what was due or had expired by then waits, or comes, again."""

    def of(settle: Callable[..., None]) -> Callable[..., None]:
        def settles(self: Index, now: int) -> None:
            newest, self.newest_time = self.newest_time, 0
            settle(self, now)
            self.newest_time = newest

        return settles

    with changed(Patched.INDEX_SETTLE_TERMS, of):
        yield


@fault("queues", budget=60, near=["database/consumers/test_hand_file"])
def what_was_in_hand_at_a_death_is_not_counted() -> Iterator[None]:
    """A start does not look at what was in hand when the process before it died."""
    with changed(Patched.DATABASE_IN_HAND, lambda _: lambda *_: NOTHING_LEFT):
        yield


@fault("queues", budget=60, near=["database/consumers/test_hand_file"])
def two_suspects_are_in_hand_at_once() -> Iterator[None]:
    """What may have killed a process is handed out beside another one that may have."""

    def hand_out(self: Consumers, number: int, queue: str, hand: HandFile) -> bool:
        hand.put(number)
        return True

    with changed(Patched.CONSUMERS_HAND_OUT, lambda _: hand_out):
        yield


@fault("queues", budget=30, near=["database/consumers/test_attempts"])
def attempts_are_lost_at_a_restart() -> Iterator[None]:
    """What the journal says of messages that came back is not read."""
    with changed(Patched.RETURNED_LOAD, lambda _: nothing):
        yield


@fault("queues", budget=60, near=["database/consumers/test_attempts"])
def a_dead_letter_is_added_and_not_deleted_in_one_commit() -> Iterator[None]:
    """The commit that moves a dead letter does not end the message that it was."""

    class Adding(CommitBuilder):
        def remove(self, *_: object) -> None:
            """Leave the message where it is."""

    with changed(Patched.RETURNS_COMMIT_BUILDER, lambda _: Adding):
        yield


@fault("queues", budget=60, near=["database/consumers/test_readiness"])
def a_message_expires_in_hand() -> Iterator[None]:
    """The time of a message is over, though somebody has it, and the next one of its group comes."""
    with changed(Patched.IN_HAND_CONTAINS, lambda _: lambda self, number: False):
        yield


@fault("queues", budget=30, near=["database/consumers/test_readiness"])
def two_of_a_group_are_handed_out_at_once() -> Iterator[None]:
    """No message waits for the one before it in its group."""
    with changed(Patched.GROUPS_ADD, lambda add: lambda self, number, group: add(self, number, group) or True):
        yield


@fault("queues", budget=120, near=["database/consumers/test_readiness"])
def a_group_stops_behind_a_message_that_expired() -> Iterator[None]:
    """The next message of a group has its turn when the one before was delivered, not when it has expired."""

    def of(expire: Callable[..., None]) -> Callable[..., None]:
        def expires(self: Any, *arguments: Any) -> None:
            self._follow = nothing
            expire(self, *arguments)
            del self._follow

        return expires

    with changed(Patched.READINESS_EXPIRE, of):
        yield


@fault("queues", budget=30, near=["database/consumers/test_attempts"])
def the_delay_of_a_release_is_not_kept() -> Iterator[None]:
    """What is released with a delay is handed out at once."""
    with changed(
        Patched.CONSUMERS_GIVE_BACK, lambda give: lambda self, number, entry, until=None: give(self, number, entry)
    ):
        yield


@fault("queues", budget=60, near=["database/consumers/test_attempts"])
def the_delay_of_a_release_is_forgotten_over_a_restart() -> Iterator[None]:
    """What was released with a delay is handed out at once by the next opening."""
    with changed(Patched.RETURNS_ENTRY, lambda entry: lambda self, _, reason: entry(self, 0, reason)):
        yield


# Waits and limits.


@fault("queues", budget=30, near=["database/consumers/test_waiting"])
def a_commit_wakes_nobody() -> Iterator[None]:
    """Who waits finds what a commit has brought when it looks by itself."""
    with changed(Patched.LEDGER_SERVE, lambda _: nothing):
        yield


@fault("queues", budget=60, near=["database/consumers/test_waiting"])
def who_came_last_is_served_first() -> Iterator[None]:
    """A caller that waits stands before those who wait already."""

    def of(wait: Callable[..., None]) -> Callable[..., None]:
        def waits(self: Consumers, waiter: Waiter) -> None:
            wait(self, waiter)
            for queue in waiter.queues:
                self.waiting[queue].move_to_end(waiter, last=False)

        return waits

    with changed(Patched.CONSUMERS_WAIT, of):
        yield


@fault("queues", budget=60, near=["database/consumers/test_waiting"])
def who_gives_up_keeps_what_it_was_handed() -> Iterator[None]:
    """A call that an interrupt leaves in the moment in which it was served passes the message on to nobody."""

    def give_up(self: Handing, waiter: Waiter) -> None:
        with self.ledger.lock:
            self._consumers.leave(waiter)

    with changed(Patched.HANDING_GIVE_UP, lambda _: give_up):
        yield


@fault("queues", budget=60, near=["database/consumers/test_readiness"])
def what_has_expired_takes_room() -> Iterator[None]:
    """A message counts against the limit of its queue until it is deleted, though it has expired."""

    class Unset:
        """What is set is not kept."""

        def __get__(self, *_: object) -> Callable[[int], tuple[int, int]]:
            return lambda _: (0, 0)

        def __set__(self, *_: object) -> None:
            """Keep nothing."""

    def of(begin: Callable[..., None]) -> Callable[..., None]:
        def begins(self: Limits, *given: Any) -> None:
            begin(self, *given)
            self.__class__ = type("Forgetful", (Limits,), {"expired": Unset()})

        return begins

    with changed(Patched.LIMITS_INIT, of):
        yield
