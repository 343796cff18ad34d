"""What commits are checked against, and what they change once they are durable.

The leader of a group calls `admit`, `withdraw` and `apply`; everybody else reads under `lock`. A
draft is checked against the index *and* against what was admitted before it and is not yet durable,
so that two callers who deliver the same message, or resend the same identifier, at the same moment
get one answer each.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, repeat
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from oms_journal.database.commits.limits import Wanted
from oms_journal.database.consumers.consumers import Consumers
from oms_journal.index.duplicates import MICROSECONDS, KnownIdentifier, Scope
from oms_journal.index.live import Index
from oms_journal.index.readiness import NewTerms
from oms_journal.index.returned import KEY_PREFIX, key_of, number_of
from oms_journal.index.table import FORGOTTEN, distinct
from oms_journal.journal.errors import DuplicateConflict, NotUndelivered
from oms_journal.journal.format.records import WITHOUT_TERMS, Numbers, TermColumns
from oms_journal.journal.writing.draft import CommitBuilder, Draft, QueueTemplate
from oms_journal.journal.writing.groups import Group
from oms_journal.journal.writing.single import PlainAdds

FEW = 64  # so many numbers are looked up one by one
SAID_MAX = 10_000  # messages that came back, of which one commit tells


class LoadedRun(NamedTuple):
    """Messages of one queue that a commit brings with numbers of their own."""

    queue: QueueTemplate
    numbers: Numbers
    sizes: Sequence[int]
    terms: TermColumns = WITHOUT_TERMS


class TermsOfRun(NamedTuple):
    """The terms that neighbouring messages of one queue have in common."""

    distance: int  # of the first one's number, from that of the commit's first
    messages: int
    queue: QueueTemplate
    terms: NewTerms


class IndexChanges(NamedTuple):
    """What a commit changes in the index besides what it adds and removes of messages."""

    puts: Sequence[bytes] = ()
    drops: Sequence[bytes] = ()
    moved: Sequence[int] = ()
    moved_keys: Sequence[tuple[bytes, int, int]] = ()  # key, and the place it was copied from
    identifiers: Sequence[tuple[Scope, int, int, int]] = ()  # scope, distance of its first number, count, digest
    loaded: Sequence[LoadedRun] = ()
    rooms: Sequence[Wanted] = ()  # in queues that have a limit, for what it adds
    terms: Sequence[TermsOfRun] = ()
    time: int = 0  # when it was drafted: as of when the duplicate window is asked


REMOVAL = IndexChanges()  # of a draft that only removes messages, besides those that it adds
UNSAID = object()  # the effect of a draft that is composed when it is admitted, of what the journal does not say yet


class StaleDraft(Exception):
    """Some of the messages that the draft is about are gone: compose it anew."""


Removed = Sequence[int] | Numbers  # few as a sequence, many as an array


def removal_set(numbers: Iterable[int]) -> Removed:
    """Return numbers ascending and once."""
    ordered = sorted(set(numbers))
    return ordered if len(ordered) <= FEW else np.array(ordered, np.uint64)


class Claims:
    """The messages that are removed by commits on their way."""

    def __init__(self) -> None:
        self.few: set[int] = set()
        self.many: list[Numbers] = []  # of large commits, as they are

    def add(self, numbers: Removed) -> None:
        if isinstance(numbers, ndarray):
            self.many.append(numbers)
        else:
            self.few.update(numbers)

    def remove(self, numbers: Removed) -> None:
        if isinstance(numbers, ndarray):
            self.many = [many for many in self.many if many is not numbers]
        else:
            self.few.difference_update(numbers)

    def among(self, numbers: Removed) -> Removed:
        """Return those of ascending numbers that are claimed."""
        if not self.many and not isinstance(numbers, ndarray):
            return [number for number in numbers if number in self.few]
        every = np.concatenate([np.fromiter(self.few, np.uint64, len(self.few)), *self.many])
        asked = np.asarray(numbers, np.uint64)
        return asked[np.isin(asked, every)]


class Ledger:
    """The index, and what is on its way into it."""

    def __init__(
        self, index: Index, consumers: Consumers | None = None, ahead: Callable[[], int | None] = lambda: None
    ) -> None:
        self.index = index
        self.consumers = consumers or Consumers(index)
        self._ahead = ahead  # of a clock that nobody sets
        self.lock = threading.Lock()  # guards the index and what is taken: applying a group, and reading
        self.is_cut = False  # an interrupt came while a group was applied: the index has only a part of it
        self.taken = self.consumers.taken
        self._waiting = self.consumers.waiting
        self._claims = Claims()  # of drafts that are admitted and not yet durable
        self._followed = 0  # when a resend was last looked for and the clock followed, by that clock
        self._keys: set[bytes] = set()  # put or dropped by such drafts
        self._scopes: dict[Scope, tuple[Draft, int, int, int]] = {}  # identifiers on their way, with their draft
        self.sharing: list[tuple[Draft, Draft, int]] = []  # (resend, first, distance of its first number)
        self._came_back = index.returned.entries
        self.unsaid = index.returned.changed  # by the journal: it rides with the next commit

    def admit(self, draft: Draft) -> bool:
        removed = draft.removed
        try:
            if draft.effect is not REMOVAL or removed is None:
                return self._admit(draft, draft.effect)
            self._check_live(removed, is_strict=draft.shape.is_strict)
            if self._came_back:
                self._check_dropped(removed, ())
            self._claims.add(removed)
        except (NotUndelivered, DuplicateConflict, StaleDraft) as failure:
            draft.failure = failure
            return False
        return True

    def _admit(self, draft: Draft, effect: object) -> bool:
        removed = draft.removed
        if isinstance(effect, IndexChanges):
            if effect.identifiers and self._is_repeat(draft, effect):
                return False
            if removed is not None:
                self._check_live(removed, is_strict=draft.shape.is_strict)
                if self._came_back:
                    self._check_dropped(removed, effect.drops)
            if effect.moved:
                self._check_live(removal_set(effect.moved), is_strict=False)
            for key, sequence, offset in effect.moved_keys:
                if key in self._keys or self.index.keyed.find(key) != (sequence, offset):
                    raise StaleDraft
            if effect.puts or effect.drops:
                self._keys.update(effect.puts, effect.drops)
            for scope, distance, count, digest in effect.identifiers:
                self._scopes[scope] = (draft, distance, count, digest)
        elif effect is UNSAID:
            return self._compose_unsaid(draft)
        if removed is not None:
            self._claims.add(removed)
        return True

    def rider(self) -> Draft:
        """Return a draft of what the journal does not say yet. It is composed when it is admitted."""
        draft = CommitBuilder().draft()
        draft.effect = UNSAID
        return draft

    def _compose_unsaid(self, draft: Draft) -> bool:
        """Have the draft say what came back, but for what a commit on its way ends. False where that is nothing."""
        composed = self.say(lambda numbers: self._claims.among(removal_set(numbers)))
        if composed is None:
            draft.answer = 0
            return False
        assert isinstance(composed.effect, IndexChanges)
        for name in ("shape", "records", "payload", "frame_size", "weight", "effect"):
            setattr(draft, name, getattr(composed, name))
        self._keys.update(composed.effect.puts)
        return True

    def say(
        self,
        without: Callable[[Iterable[int]], Removed] = lambda _: (),
        count: int = SAID_MAX,
        beside: Mapping[bytes, bytes] = MappingProxyType({}),
    ) -> Draft | None:
        """Return the draft that tells of messages that came back, and counts as telling them; None for nothing.

        `beside` are values that it puts too.
        """
        returned = self.index.returned
        with self.lock:
            left_out = {int(number) for number in without(self.unsaid)}
            told = [*islice((number for number in self.unsaid if number not in left_out), count)]
            values = {key_of(number): returned.value(number) for number in told} | dict(beside)
            for number in told:
                del self.unsaid[number]
        if not told:
            return None
        builder = CommitBuilder()
        for key, value in values.items():
            builder.put(key, value)
        draft = builder.draft()
        draft.effect = IndexChanges(puts=[*values])
        return draft

    def end_waits(self) -> None:
        """Wake all who wait for what a commit may bring: there will be no more. From any thread."""

    def follow_clock(self) -> None:
        """Have the duplicate window's times set with the clock, where that was set."""
        if (ahead := self._ahead()) is not None:
            with self.lock:
                self.index.duplicates.follow(ahead)

    def _check_dropped(self, numbers: Removed, drops: Sequence[bytes]) -> None:
        """Check that a commit drops what the journal says of the messages that it ends, which may be more by now."""
        given = numbers.tolist() if isinstance(numbers, ndarray) else numbers
        if not {key_of(number) for number in given if number in self._came_back}.issubset(drops):
            raise StaleDraft

    def _check_live(self, numbers: Removed, *, is_strict: bool) -> None:
        """Check that messages are undelivered, and that no commit on its way removes one."""
        table, claims = self.index.table, self._claims
        is_few = not (isinstance(numbers, ndarray) or claims.many)
        if is_few and claims.few.isdisjoint(numbers) and table.are_live(numbers):
            return
        gone = claims.among(numbers)
        if not len(gone):
            asked = np.asarray(numbers, np.uint64)
            gone = np.setdiff1d(asked, table.find_many(asked)[0], assume_unique=True)
        if len(gone):
            raise NotUndelivered(int(gone[0])) if is_strict else StaleDraft

    def _is_repeat(self, draft: Draft, effect: IndexChanges) -> bool:
        """Answer a resend of known identifiers.

        DuplicateConflict when a payload is another, or when the commit is more than what was sent
        before: an answer would acknowledge what was never written.
        """
        if abs(effect.time - self._followed) >= MICROSECONDS:  # less than a clock that was set is off
            self._followed = effect.time
            self.follow_clock()
        scopes, seen = self._scopes, self.index.duplicates
        for scope, _, _, _ in effect.identifiers:
            if scope in scopes or scope in seen:
                break
        else:
            return False
        firsts: set[tuple[Draft | None, int]] = set()  # commit on its way, and where this one's numbers begin in it
        for scope, distance, count, digest in effect.identifiers:
            known = self.index.duplicates.find(scope, effect.time)
            if known is not None:
                _check_same(scope, known.is_same(count, digest))
                firsts.add((None, known.first - distance))
            elif scope in self._scopes:
                first, distance_there, _, on_its_way = self._scopes[scope]
                _check_same(scope, on_its_way == digest)
                firsts.add((first, distance_there - distance))
            else:
                firsts.add((draft, 0))
        if firsts == {(draft, 0)}:
            return False
        is_whole = sum(count for _, _, count, _ in effect.identifiers) == draft.shape.messages
        if len(firsts) > 1 or not is_whole or self._removes_more(draft.removed):
            raise DuplicateConflict("some of the commit was sent before, the rest was not; nothing was written")
        (on_its_way_now, begin), *_ = firsts
        if on_its_way_now is None:
            draft.first, draft.answer = begin, range(begin, begin + draft.shape.messages)  # of a repeat, a range
        else:
            self.sharing.append((draft, on_its_way_now, begin))
        return True

    def _removes_more(self, removed: Removed | None) -> bool:
        """Say whether a resend removes what the first one has not: that would be gone, or about to go."""
        if removed is None:
            return False
        live, _ = self.index.table.find_many(np.asarray(removed, np.uint64))
        return len(self._claims.among(live)) < len(live)

    def withdraw(self, draft: Draft) -> None:
        """Forget a draft that was refused after it had been admitted, and refuse what shares its outcome."""
        if draft.removed is not None:
            self._claims.remove(draft.removed)
        if isinstance(draft.effect, IndexChanges):
            self._keys.difference_update(draft.effect.puts, draft.effect.drops)
            for scope, *_ in draft.effect.identifiers:
                self._scopes.pop(scope, None)
            numbers = [number_of(key) for key in draft.effect.puts if key.startswith(KEY_PREFIX)]
            with self.lock:
                self.unsaid.update(dict.fromkeys(number for number in numbers if number in self._came_back))

    def apply(self, group: Group) -> None:
        table, sequence = self.index.table, group.sequence
        with self.lock:
            try:
                for draft in group.drafts:
                    draft.answer = number = draft.first
                    for queue, sizes in draft.runs:
                        place = queue.place
                        if place == FORGOTTEN:
                            place = self._place(queue)
                        if len(sizes) == 1:
                            table.add_one(place, number, sequence, draft.offset, sizes[0])
                            number += 1
                        else:
                            table.add_run(place, number, sequence, draft.offset, sizes)
                            number += len(sizes)
                    if draft.effect is not None:
                        if draft.removed is not None:
                            self._remove(draft.removed)
                            if not draft.runs:
                                draft.answer = len(draft.removed)
                        if draft.effect is not REMOVAL:
                            self._apply_effect(draft, (sequence, draft.offset), group.time)
            except BaseException:
                self.is_cut = True
                raise
            if self._waiting:
                self._serve(group)

    def _serve(self, group: Group) -> None:
        """Hand what a group has brought to those who wait for it."""
        added: dict[QueueTemplate, None] = {}
        for draft in group.drafts:
            queues = draft.queues if type(draft) is PlainAdds else [queue for queue, _ in draft.runs]
            added.update(dict.fromkeys(queues))
        self.consumers.serve([queue.name.decode() for queue in added])
        if self.index.terms is not None:
            self.consumers.watch()

    def _apply_plain(self, draft: PlainAdds, sequence: int) -> None:
        places = [queue.place for queue in draft.queues]
        if FORGOTTEN in places:
            places = [self._place(queue) for queue in draft.queues]
        self.index.table.add_singles(draft.first, sequence, (draft.offsets, list(map(len, draft.payloads)), places))

    def _place(self, queue: QueueTemplate) -> int:
        """Return the queue's place: it may have been empty, and forgotten, since the commit was drafted."""
        place = queue.place
        return place if place != FORGOTTEN else self.index.table.queues.place(queue.name.decode())

    def _apply_effect(self, draft: Draft, place: tuple[int, int], time: int) -> None:
        effect, index = draft.effect, self.index
        if not isinstance(effect, IndexChanges):
            if isinstance(draft, PlainAdds):
                self._apply_plain(draft, place[0])
            return
        if effect.loaded or effect.moved or effect.moved_keys:
            for loaded in effect.loaded:
                index.load(self._place(loaded.queue), loaded.numbers, loaded.sizes, place, loaded.terms)
            for number in effect.moved:
                index.table.move(number, *place)
            for key, *_ in effect.moved_keys:
                index.keyed.put(key, *place)
        for distance, messages, queue, terms in effect.terms:
            index.add_terms(draft.first + distance, messages, self._place(queue), terms)
        if effect.puts or effect.drops:
            for key in effect.puts:
                index.keyed.put(key, *place)
            for key in effect.drops:
                index.keyed.drop(key)
            self._keys.difference_update(effect.puts, effect.drops)
        for scope, distance, count, digest in effect.identifiers:
            self._scopes.pop(scope, None)
            index.duplicates.remember(scope, KnownIdentifier(draft.first + distance, count, digest, time, place[0]))

    def _remove(self, numbers: Removed) -> None:
        removed = self.index.messages.remove_many(numbers)
        assert removed == len(numbers), "checked when it was admitted"
        self._claims.remove(numbers)
        taken = self.taken
        if taken:
            gone = numbers.tolist() if isinstance(numbers, ndarray) else numbers
            deque(map(taken.pop, gone, repeat(None)), 0)
            if leases := self.consumers.leases:
                deque(map(leases.pop, gone, repeat(None)), 0)
        if self.index.returned.entries or self.consumers.hand is not None:
            gone = numbers.tolist() if isinstance(numbers, ndarray) else numbers
            self.index.returned.forget(gone)
            self.consumers.leave_hand(gone, are_gone=True)

    def settle_shared(self) -> None:
        """Give resends that came while their first was on its way the first one's outcome."""
        for resend, first, distance in self.sharing:
            if first.failure is not None:
                resend.failure = first.failure
            else:
                resend.first = begin = first.first + distance
                resend.answer = range(begin, begin + resend.shape.messages)
        self.sharing.clear()

    def live(self, numbers: Sequence[int]) -> dict[bytes, Numbers]:
        """Return those of the numbers that are undelivered, ascending and once, by queue. Call with the lock held."""
        table = self.index.table
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
