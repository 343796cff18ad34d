"""What commits are checked against, and what they change once they are durable.

The leader of a group calls `admit`, `withdraw` and `apply`; everybody else reads under `lock`. A
draft is checked against the index *and* against what was admitted before it and is not yet durable,
so that two callers who deliver the same message, or resend the same identifier, at the same moment
get one answer each.
"""

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from oms_journal.index.duplicates import KnownIdentifier, Scope
from oms_journal.index.live import Index
from oms_journal.index.table import FORGOTTEN, distinct
from oms_journal.journal.errors import DuplicateConflict, NotUndelivered
from oms_journal.journal.format.records import Numbers
from oms_journal.journal.writing.draft import Draft
from oms_journal.journal.writing.groups import AnyDraft, Group
from oms_journal.journal.writing.single import PlainAdds, QueueTemplate, plain_columns
from oms_journal.journal.writing.unit import SentDraft

FEW = 64  # so many numbers are looked up one by one


class Run(NamedTuple):
    """Neighbouring messages of one queue that a commit adds."""

    queue: QueueTemplate
    sizes: Sequence[int]  # properties and payload, bytes


class LoadedRun(NamedTuple):
    """Messages of one queue that a commit brings with numbers of their own."""

    queue: QueueTemplate
    numbers: Numbers
    sizes: Sequence[int]


class IndexChanges(NamedTuple):
    """What a commit of several operations changes in the index."""

    runs: Sequence[Run] = ()
    removed: Numbers | None = None
    is_strict: bool = False  # a message that is gone fails the commit; else the caller composes it anew
    puts: Sequence[bytes] = ()
    drops: Sequence[bytes] = ()
    moved: Sequence[int] = ()
    moved_keys: Sequence[tuple[bytes, int, int]] = ()  # key, and the place it was copied from
    identifiers: Sequence[tuple[Scope, int, int, int]] = ()  # scope, distance of its first number, count, digest
    loaded: Sequence[LoadedRun] = ()


class StaleDraft(Exception):
    """Some of the messages that the draft is about are gone: compose it anew."""


class Claims:
    """The messages that are removed by commits on their way."""

    def __init__(self) -> None:
        self._few: set[int] = set()
        self._many: list[Numbers] = []  # of large commits, as they are

    def add(self, numbers: Numbers) -> None:
        if len(numbers) <= FEW:
            self._few.update(numbers.tolist())
        else:
            self._many.append(numbers)

    def remove(self, numbers: Numbers) -> None:
        if len(numbers) <= FEW:
            self._few.difference_update(numbers.tolist())
        else:
            self._many = [many for many in self._many if many is not numbers]

    def among(self, numbers: Numbers) -> Numbers:
        """Return those of ascending numbers that are claimed."""
        if not self._many:
            if not self._few:
                return numbers[:0]
            if len(numbers) <= FEW:
                return np.array([number for number in numbers.tolist() if number in self._few], np.uint64)
        every = np.concatenate([np.fromiter(self._few, np.uint64, len(self._few)), *self._many])
        return numbers[np.isin(numbers, every)]


class Ledger:
    """The index, and what is on its way into it."""

    def __init__(
        self, index: Index, taken: dict[int, str] | None = None, ahead: Callable[[], int | None] = lambda: None
    ) -> None:
        self.index = index
        self._ahead = ahead  # of a clock that nobody sets
        self.lock = threading.Lock()  # guards the index and what is taken: applying a group, and reading
        self.is_cut = False  # an interrupt came while a group was applied: the index has only a part of it
        self._taken: dict[int, str] = {} if taken is None else taken
        self._claims = Claims()  # of drafts that are admitted and not yet durable
        self._keys: set[bytes] = set()  # put or dropped by such drafts
        self._scopes: dict[Scope, tuple[Draft, int, int, int]] = {}  # identifiers on their way, with their draft
        self._sharing: list[tuple[Draft, Draft, int, int]] = []  # (resend, first, distance, count)

    def admit(self, draft: AnyDraft) -> bool:
        if type(draft) is SentDraft:
            self._keys.add(draft.names[1])
            return True
        effect = draft.effect if isinstance(draft, Draft) else None
        if not isinstance(draft, Draft) or not isinstance(effect, IndexChanges):
            return True
        try:
            return self._admit(draft, effect)
        except (NotUndelivered, DuplicateConflict, StaleDraft) as failure:
            draft.failure = failure
            return False

    def _admit(self, draft: Draft, effect: IndexChanges) -> bool:
        if effect.identifiers and self._is_repeat(draft, effect):
            return False
        if effect.removed is not None:
            self._check_live(effect.removed, is_strict=effect.is_strict)
        if effect.moved:
            self._check_live(np.array(sorted(effect.moved), np.uint64), is_strict=False)
        for key, sequence, offset in effect.moved_keys:
            if key in self._keys or self.index.keyed.find(key) != (sequence, offset):
                raise StaleDraft
        if effect.removed is not None:
            self._claims.add(effect.removed)
        self._keys.update(effect.puts, effect.drops)
        for scope, distance, count, digest in effect.identifiers:
            self._scopes[scope] = (draft, distance, count, digest)
        return True

    def follow_clock(self) -> None:
        """Have the duplicate window's times set with the clock, where that was set."""
        if (ahead := self._ahead()) is not None:
            with self.lock:
                self.index.duplicates.follow(ahead)

    def _check_live(self, numbers: Numbers, *, is_strict: bool) -> None:
        """Check that messages are undelivered, and that no commit on its way removes one."""
        table = self.index.table
        if len(numbers) <= FEW:
            gone = np.array([number for number in numbers.tolist() if table.queue_of(number) is None], np.uint64)
        else:
            gone = np.setdiff1d(numbers, table.find_many(numbers)[0], assume_unique=True)
        for missing in (gone, self._claims.among(numbers)):
            if len(missing):
                raise NotUndelivered(int(missing[0])) if is_strict else StaleDraft

    def _is_repeat(self, draft: Draft, effect: IndexChanges) -> bool:
        """Answer a resend of known identifiers.

        DuplicateConflict when a payload is another, or when the commit is more than what was sent
        before: an answer would acknowledge what was never written.
        """
        self.follow_clock()
        firsts: set[tuple[Draft | None, int]] = set()  # commit on its way, and where this one's numbers begin in it
        for scope, distance, _, digest in effect.identifiers:
            known = self.index.duplicates.find(scope, draft.time)
            if known is not None:
                _check_same(scope, known.digest == digest)
                firsts.add((None, known.first - distance))
            elif scope in self._scopes:
                first, distance_there, _, on_its_way = self._scopes[scope]
                _check_same(scope, on_its_way == digest)
                firsts.add((first, distance_there - distance))
            else:
                firsts.add((draft, 0))
        if firsts == {(draft, 0)}:
            return False
        is_whole = sum(count for _, _, count, _ in effect.identifiers) == draft.messages
        if len(firsts) > 1 or not is_whole or self._removes_more(effect):
            raise DuplicateConflict("some of the commit was sent before, the rest was not; nothing was written")
        (on_its_way_now, begin), *_ = firsts
        if on_its_way_now is None:
            draft.answer = range(begin, begin + draft.messages)
        else:
            self._sharing.append((draft, on_its_way_now, begin, draft.messages))
        return True

    def _removes_more(self, effect: IndexChanges) -> bool:
        """Say whether a resend removes what the first one has not: that would be gone, or about to go."""
        if effect.removed is None:
            return False
        live, _ = self.index.table.find_many(effect.removed)
        return len(self._claims.among(live)) < len(live)

    def withdraw(self, draft: AnyDraft) -> None:
        """Forget a draft that was refused after it had been admitted, and refuse what shares its outcome."""
        effect = draft.effect if isinstance(draft, Draft) else None
        if isinstance(effect, IndexChanges):
            if effect.removed is not None:
                self._claims.remove(effect.removed)
            self._keys.difference_update(effect.puts, effect.drops)
            for scope, *_ in effect.identifiers:
                self._scopes.pop(scope, None)

    def apply(self, group: Group) -> None:
        with self.lock:
            try:
                if group.plain:
                    self._apply_plain(group.plain, group.sequence, group.offsets)
                elif group.sent:
                    self._apply_sent(group)
                else:
                    self._apply_mixed(group)
            except BaseException:
                self.is_cut = True
                raise

    def apply_one(self, adds: PlainAdds, sequence: int, offset: int) -> None:
        with self.lock:
            try:
                place = self._place(adds.queues[0])
                self.index.table.add_one(place, adds.first, sequence, offset, len(adds.payloads[0]))
                adds.answer = adds.first
            except BaseException:
                self.is_cut = True
                raise

    def _apply_plain(self, drafts: Sequence[PlainAdds], sequence: int, offsets: Sequence[int]) -> None:
        sizes, places = plain_columns(drafts)
        if FORGOTTEN in places:
            places = [self._place(queue) for draft in drafts for queue in draft.queues]
        self.index.table.add_singles(drafts[0].first, sequence, (offsets, sizes, places))
        for plain in drafts:
            plain.answer = plain.first

    def _place(self, queue: QueueTemplate) -> int:
        """Return the queue's place: it may have been empty, and forgotten, since the commit was drafted."""
        place = queue.place
        return place if place != FORGOTTEN else self.index.table.queues.place(queue.name.decode())

    def _apply_sent(self, group: Group) -> None:
        """Make messages and values visible that came one each in a commit."""
        drafts = group.sent
        sizes = [len(draft.payload[0]) for draft in drafts]
        queues = [self._place(draft.queue) for draft in drafts]
        self.index.table.add_singles(drafts[0].first, group.sequence, (group.offsets, sizes, queues))
        latest = dict(zip([draft.names[1] for draft in drafts], group.offsets, strict=True))
        self.index.keyed.put_many(latest, group.sequence)
        self._keys.difference_update(latest)
        for draft in drafts:
            draft.answer = range(draft.first, draft.first + 1)

    def _apply_mixed(self, group: Group) -> None:
        frame = 0
        for draft in group.drafts:
            if isinstance(draft, PlainAdds):
                count = len(draft.payloads)
                self._apply_plain((draft,), group.sequence, group.offsets[frame : frame + count])
                frame += count
                continue
            frame += 1
            if isinstance(draft.effect, IndexChanges):
                self._apply(draft, draft.effect)
            if draft.answer is None:
                draft.answer = range(draft.first, draft.first + draft.messages)

    def _apply(self, draft: Draft, effect: IndexChanges) -> None:
        index, place = self.index, (draft.sequence, draft.offset)
        first = draft.first
        for queue, sizes in effect.runs:
            if len(sizes) == 1:
                index.table.add_one(self._place(queue), first, draft.sequence, draft.offset, sizes[0])
            else:
                index.table.add_run(self._place(queue), first, *place, sizes)
            first += len(sizes)
        if draft.messages and len(effect.runs) == 1 and draft.rows == draft.messages and not effect.identifiers:
            return
        if effect.removed is not None:
            self._remove(effect.removed)
        for loaded in effect.loaded:
            index.load(self._place(loaded.queue), loaded.numbers, loaded.sizes, place)
        for number in effect.moved:
            index.table.move(number, *place)
        for key in effect.puts:
            index.keyed.put(key, *place)
        for key in effect.drops:
            index.keyed.drop(key)
        self._keys.difference_update(effect.puts, effect.drops)
        for key, *_ in effect.moved_keys:
            index.keyed.put(key, *place)
        for scope, distance, count, digest in effect.identifiers:
            self._scopes.pop(scope, None)
            index.duplicates.remember(
                scope, KnownIdentifier(draft.first + distance, count, digest, draft.time, draft.sequence)
            )
        if effect.removed is not None and not effect.runs:
            draft.answer = len(effect.removed)

    def _remove(self, numbers: Numbers) -> None:
        removed = self.index.table.remove_many(numbers)
        assert removed == len(numbers), "checked when it was admitted"
        self._claims.remove(numbers)
        if self._taken:
            for number in numbers.tolist():
                self._taken.pop(number, None)

    def settle_shared(self) -> None:
        """Give resends that came while their first was on its way the first one's outcome."""
        for resend, first, distance, count in self._sharing:
            if first.failure is not None:
                resend.failure = first.failure
            else:
                resend.answer = range(first.first + distance, first.first + distance + count)
        self._sharing.clear()

    def live(self, numbers: Sequence[int]) -> dict[bytes, Numbers]:
        """Return those of the numbers that are undelivered, ascending and once, by queue. Call with the lock held."""
        table = self.index.table
        if len(numbers) == 1:
            place = table.find(numbers[0])
            if place is None:
                return {}
            return {table.queues.name(place.queue).encode(): np.array(numbers, np.uint64)}
        possible = [number for number in numbers if 0 < number <= table.last_number()]
        live, queues = table.find_many(distinct(np.array(possible, np.uint64)))
        order = np.argsort(queues, kind="stable")
        bounds = np.flatnonzero(np.diff(queues[order])) + 1
        parts = np.split(live[order], bounds) if len(live) else []
        firsts = queues[order][np.concatenate(([0], bounds))].tolist() if len(live) else []
        return {table.queues.name(queue).encode(): part for queue, part in zip(firsts, parts, strict=True)}


def _check_same(scope: Scope, is_same: bool) -> None:
    if not is_same:
        queue, producer = (name.decode() for name in scope)
        raise DuplicateConflict(f"producer identifier {producer!r} was used in queue {queue!r} for another payload")
