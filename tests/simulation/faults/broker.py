"""Faults made on purpose in the broker: what it tells too early, forgets at a restart, or hands out wrongly."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.durations import MICROSECONDS
from oms_journal.broker.kernel.kernel import Kernel
from oms_journal.broker.kernel.restart.unit_columns import UnitColumns
from oms_journal.broker.kernel.state.effects import Answer, Commit, Durable, Effect, Failed
from oms_journal.broker.kernel.state.service import End
from oms_journal.broker.records import CLOCK, SUBSCRIPTION
from oms_journal.broker.store.changes import Changes
from oms_journal.database.compaction import leading_dead
from oms_journal.recovery.startup import RecoveryOptions
from tests.planted.patched import Patched
from tests.simulation.faults.fault import changed, changed_in, fault, nothing

HOUR = 3600 * MICROSECONDS
_READING = (
    Patched.JOURNAL_STORE_READ,
    Patched.JOURNAL_STORE_RECORD,
    Patched.JOURNAL_STORE_RECORDS,
    Patched.JOURNAL_STORE_MESSAGES,
    Patched.JOURNAL_STORE_MESSAGE_COUNT,
    Patched.JOURNAL_STORE_HIGHEST,
    Patched.STORE_DRIVER_DISCONNECT,
    Patched.JOURNAL_STORE_CLOSE,
)


@fault("broker", budget=100)
def the_broker_answers_before_its_store() -> Iterator[None]:
    """A group of commits is answered at once, and written with the next one."""
    waiting: dict[int, list[Changes]] = {}
    commit_many = Patched.JOURNAL_STORE_COMMIT_MANY.found()

    def at_once(self: JournalStore, batch: Sequence[Changes]) -> Any:
        flush(self)
        if not self.is_connected or any(changes.producer for changes in batch):
            return commit_many(self, batch)
        waiting[id(self)] = list(batch)
        first, answers = self._database._state().next_message, []
        for changes in batch:
            answers.append(first if changes.adds else 0)
            first += len(changes.adds)
        return answers

    def flush(self: JournalStore) -> None:
        if batch := waiting.pop(id(self), []):
            commit_many(self, batch)

    def flushing(method: Callable[..., Any]) -> Callable[..., Any]:
        def flushed(self: JournalStore, *arguments: Any, **named: Any) -> Any:
            flush(self)
            return method(self, *arguments, **named)

        return flushed

    with changed_in(_READING, flushing), changed(Patched.JOURNAL_STORE_COMMIT_MANY, lambda _: at_once):
        yield


@fault("broker", budget=100)
def a_unit_of_work_is_seen_before_it_is_durable() -> Iterator[None]:
    """What is committed is visible at once; only its own caller hears of it when it is durable."""

    def early(self: Kernel, effects: list[Effect], now: int, late: int, handle: int | None) -> list[Effect]:
        shown: list[Effect] = []
        for effect in effects:
            if not isinstance(effect, Commit):
                shown.append(effect)
                continue
            shown.append(effect)
            first = self.world.highest + 1 if effect.changes.adds else 0
            more = early(self, take(self, Durable(effect.ticket, first), now, late), now, late, None)
            mine = [one for one in more if isinstance(one, Answer) and one.handle == handle]
            vars(self).setdefault("told_later", {})[effect.ticket] = mine
            shown += [one for one in more if one not in mine]
        return shown

    def taken(self: Kernel, given: Any, now: int, late: int = 0) -> list[Effect]:
        later = vars(self).get("told_later", {})
        if isinstance(given, Durable | Failed) and given.ticket in later:
            return list(later.pop(given.ticket))
        return early(self, take(self, given, now, late), now, late, getattr(given, "handle", None))

    def all_taken(self: Kernel, told: Any, now: int, late: int = 0) -> list[Effect]:
        return [effect for given in told for effect in taken(self, given, now, late)]

    take = Patched.KERNEL_TAKE.found()
    with changed(Patched.KERNEL_TAKE, lambda _: taken), changed(Patched.KERNEL_TAKE_ALL, lambda _: all_taken):
        yield


@fault("broker", budget=60)
def a_receivers_commit_is_not_written() -> Iterator[None]:
    """A receiver's COMMIT is known until the next restart only."""

    def of(closing: Callable[..., Any]) -> Callable[..., Any]:
        def closed(*arguments: Any) -> Any:
            found = closing(*arguments)
            return found._replace(changes=Changes()) if found.end == End.PROCESSED else found

        return closed

    with changed(Patched.TRANSITIONS_COMPLETION_AS, of):
        yield


@fault("broker", budget=100)
def both_is_committed_by_halves() -> Iterator[None]:
    """What is sent and what is acknowledged in one commit is written in two."""

    def of(commit_many: Callable[..., Any]) -> Callable[..., Any]:
        def halved(self: JournalStore, batch: Sequence[Changes]) -> Any:
            answers = commit_many(self, [replace(one, delivered=()) if one.adds else one for one in batch])
            rest = [Changes(delivered=one.delivered) for one in batch if one.adds and one.delivered]
            if rest:
                commit_many(self, rest)
            return answers

        return halved

    with changed(Patched.JOURNAL_STORE_COMMIT_MANY, of):
        yield


def _clock(of: Callable[[int], int]) -> Callable[..., Any]:
    def made(decoded: Callable[..., Any]) -> Callable[..., Any]:
        def read(layout: Any, key: str, value: bytes) -> Any:
            record = decoded(layout, key, value)
            return record._replace(clock=of(record.clock)) if layout is CLOCK else record

        return read

    return made


@fault("broker", budget=100)
def lifetimes_go_on_while_the_broker_is_down() -> Iterator[None]:
    """After a restart the pseudo-clock is an hour further."""
    with changed(Patched.RESTART_DECODED, _clock(lambda clock: clock + HOUR)):
        yield


@fault("broker", budget=300)
def the_pseudo_clock_begins_anew() -> Iterator[None]:
    """After a restart no time has passed of any lifetime."""
    with changed(Patched.RESTART_DECODED, _clock(lambda _: 0)):
        yield


@fault("broker", budget=100)
def conversations_are_restored_in_another_order() -> Iterator[None]:
    """After a restart the conversation that came last is the first."""

    def of(in_order: Callable[..., Any]) -> Callable[..., Any]:
        def turned(self: UnitColumns, rows: Any) -> Any:
            orders, conversations = in_order(self, rows)
            return orders, array(conversations.typecode, reversed(conversations))

        return turned

    with changed(Patched.UNIT_COLUMNS_IN_ORDER, of):
        yield


@fault("broker", budget=60)
def a_conversation_is_not_bound_to_its_receiver() -> Iterator[None]:
    """Two servers get messages of one conversation."""
    with changed(Patched.RECEIVE_ASSIGN, lambda _: nothing):
        yield


@fault("broker", budget=60)
def a_unit_of_work_goes_on_after_a_backout() -> Iterator[None]:
    """What was backed out is handed out again from where its receiver had come to."""

    def of(method: Callable[..., None]) -> Callable[..., None]:
        def kept(world: Any, talk: Any, unit: Any, *more: Any) -> None:
            place = unit.next
            method(world, talk, unit, *more)
            unit.next = place if place < unit.count else 0

        return kept

    with (
        changed(Patched.RECEIVER_HAND_BACK, of),
        changed(Patched.RECEIVE_DELIVER, of),
    ):
        yield


@fault("broker", budget=60)
def a_producers_repeat_is_added_after_a_restart() -> Iterator[None]:
    """The store is not told the producers' identifiers."""

    def of(draft: Callable[..., Any]) -> Callable[..., Any]:
        return lambda database, changes: draft(database, replace(changes, producer=None))

    with changed(Patched.JOURNAL_DRAFT_OF, of):
        yield


def _subscription(**fields: Callable[[Any], object]) -> Callable[..., Any]:
    def made(every: Callable[..., Any]) -> Callable[..., Any]:
        def read(store: Any, layout: Any, prefix: str, lost: list[str]) -> Any:
            records = every(store, layout, prefix, lost)
            if layout is not SUBSCRIPTION:
                return records
            return [record._replace(**{name: of(store) for name, of in fields.items()}) for record in records]

        return read

    return made


@fault("broker", budget=200)
def a_subscription_begins_anew_at_a_restart() -> Iterator[None]:
    """A durable subscriber gets again what it has acknowledged."""
    begun = _subscription(position=lambda _: 0, acknowledged=lambda _: ())
    with changed(Patched.RESTART_EVERY, begun):
        yield


@fault("broker", budget=200)
def a_subscription_skips_at_a_restart() -> Iterator[None]:
    """A durable subscriber misses what was published before a restart."""
    skipped = _subscription(position=lambda store: store.highest())
    with changed(Patched.RESTART_EVERY, skipped):
        yield


@fault("broker", budget=100)
def a_publication_goes_with_its_first_acknowledgement() -> Iterator[None]:
    """The first of several durable subscribers to acknowledge a publication removes it."""

    def of(init: Callable[..., None]) -> Callable[..., None]:
        def all_last(self: Any, world: Any, subscription: Any, publications: list[Any]) -> None:
            init(self, world, subscription, publications)
            self._last = [one for one in publications if not one.inflight]

        return all_last

    with changed(Patched.ACKNOWLEDGEMENT_INIT, of):
        yield


@fault("broker", budget=300, near=["database/test_reopening"])
def what_was_told_as_failed_comes_back() -> Iterator[None]:
    """Connecting a store again keeps commits whose callers were told that they had failed."""
    with changed(Patched.EXAMINATION_DISOWNED, lambda _: lambda found, task: None):
        yield


@fault("broker", budget=30)
def who_is_gone_is_remembered() -> Iterator[None]:
    """Who has logged off, and has nothing left, stays in memory."""
    with changed(Patched.WORLD_FORGET_IDLE, lambda _: nothing):
        yield


@fault("broker", budget=60)
def compaction_moves_nothing() -> Iterator[None]:
    """Compaction lets go of files that nobody needs anything of, and moves nothing out of others."""
    with changed(Patched.CLEANUP_DOOMED, lambda doomed: lambda self, facts, *, compact: facts[: leading_dead(facts)]):
        yield


@fault("broker", budget=100)
def the_mark_of_free_space_is_not_looked_at() -> Iterator[None]:
    """New units of work are taken for as long as there is any room at all."""
    with changed(Patched.RUNTIME_ROOM, lambda _: nothing):
        yield


@fault("broker", budget=300)
def a_start_that_should_refuse_damage_goes_on() -> Iterator[None]:
    """Damage is salvaged whatever the policy."""
    with changed(Patched.RECOVERY_OPTIONS_INIT, _salvaging):
        yield


def _salvaging(init: Callable[..., None]) -> Callable[..., None]:
    def made(self: RecoveryOptions, **given: Any) -> None:
        init(self, **{**given, "policy": "salvage"})

    return made


@fault("broker", budget=300)
def what_the_engine_holds_back_the_broker_does_not() -> Iterator[None]:
    """What damage may have brought back is let go by the engine, and not held by the broker."""

    def of(_: Callable[[JournalStore], None]) -> Callable[[JournalStore], object]:
        return lambda self: self._database.unhold()

    with changed(Patched.JOURNAL_STORE_TAKE_HOLD, of):
        yield
