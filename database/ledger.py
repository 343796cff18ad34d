"""What commits are checked against, and what they change once they are durable.

The leader of a group calls `admit`, `withdraw` and `apply`; everybody else reads under `lock`. A
draft is checked against the index *and* against what was admitted before it and is not yet durable,
so that two callers who deliver the same message, or resend the same identifier, at the same moment
get one answer each.
"""

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from index.duplicates import Scope, Seen
from index.replay import Index
from journal.draft import Draft
from journal.errors import DuplicateConflict, NotUndelivered
from journal.group import AnyDraft, Group
from journal.records import Numbers
from journal.single import PlainAdds, plain_columns


class Run(NamedTuple):
    """Neighbouring messages of one queue that a commit adds."""

    queue: int
    sizes: Sequence[int]  # properties and payload, bytes


class Effect(NamedTuple):
    """What a commit of several operations changes in the index."""

    runs: Sequence[Run] = ()
    removed: Numbers | None = None
    is_strict: bool = False  # a message that is gone fails the commit; else the caller composes it anew
    puts: Sequence[bytes] = ()
    drops: Sequence[bytes] = ()
    moved: Sequence[int] = ()
    moved_keys: Sequence[tuple[bytes, int, int]] = ()  # key, and the place it was copied from
    identifiers: Sequence[tuple[Scope, int, int, int]] = ()  # scope, distance of its first number, count, digest


class StaleDraft(Exception):
    """Some of the messages that the draft is about are gone: compose it anew."""


class Ledger:
    """The index, and what is on its way into it."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.lock = threading.Lock()  # guards the index: applying a group, and reading
        self._claimed: set[int] = set()  # numbers removed by drafts that are admitted and not yet durable
        self._keys: set[bytes] = set()  # put or dropped by such drafts
        self._scopes: dict[Scope, tuple[Draft, int, int, int]] = {}  # identifiers on their way, with their draft
        self._sharing: list[tuple[Draft, Draft, int, int]] = []  # (resend, first, distance, count)

    def admit(self, draft: AnyDraft) -> bool:
        effect = draft.effect if isinstance(draft, Draft) else None
        if not isinstance(draft, Draft) or not isinstance(effect, Effect):
            return True
        try:
            return self._admit(draft, effect)
        except (NotUndelivered, DuplicateConflict, StaleDraft) as failure:
            draft.failure = failure
            return False

    def _admit(self, draft: Draft, effect: Effect) -> bool:
        if effect.identifiers and self._is_repeat(draft, effect):
            return False
        if effect.removed is not None:
            self._claim(effect.removed.tolist(), is_strict=effect.is_strict)
        if effect.moved:
            self._claim(effect.moved, is_strict=False, is_final=False)
        for key, sequence, offset in effect.moved_keys:
            if key in self._keys or self.index.keyed.find(key) != (sequence, offset):
                raise StaleDraft
        self._keys.update(effect.puts, effect.drops)
        for scope, distance, count, digest in effect.identifiers:
            self._scopes[scope] = (draft, distance, count, digest)
        return True

    def _claim(self, numbers: Sequence[int], *, is_strict: bool, is_final: bool = True) -> None:
        find = self.index.table.find
        for number in numbers:
            if number in self._claimed or find(number) is None:
                raise NotUndelivered(number) if is_strict else StaleDraft
        if is_final:
            self._claimed.update(numbers)

    def _is_repeat(self, draft: Draft, effect: Effect) -> bool:
        """Answer a resend of known identifiers.

        DuplicateConflict when a payload is another, or when the commit is more than what was sent
        before: an answer would acknowledge what was never written.
        """
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

    def _removes_more(self, effect: Effect) -> bool:
        """Say whether a resend removes what the first one has not: that would be gone, or about to go."""
        removed = () if effect.removed is None else effect.removed.tolist()
        return any(number not in self._claimed and self.index.table.find(number) for number in removed)

    def withdraw(self, draft: AnyDraft) -> None:
        """Forget a draft that was refused after it had been admitted, and refuse what shares its outcome."""
        effect = draft.effect if isinstance(draft, Draft) else None
        if isinstance(effect, Effect):
            if effect.removed is not None:
                self._claimed.difference_update(effect.removed.tolist())
            self._keys.difference_update(effect.puts, effect.drops)
            for scope, *_ in effect.identifiers:
                self._scopes.pop(scope, None)

    def apply(self, group: Group) -> None:
        with self.lock:
            if group.plain:
                sizes, queues = plain_columns(group.plain)
                self.index.table.add_singles(group.plain[0].first, group.sequence, (group.offsets, sizes, queues))
                for plain in group.plain:
                    plain.answer = plain.first
            else:
                self._apply_mixed(group)

    def apply_one(self, adds: PlainAdds, sequence: int, offset: int) -> None:
        place = adds.queues[0].place
        with self.lock:
            self.index.table.add_one(place, adds.first, sequence, offset, len(adds.payloads[0]))
            adds.answer = adds.first

    def _apply_mixed(self, group: Group) -> None:
        frame = 0
        for draft in group.drafts:
            if isinstance(draft, PlainAdds):
                sizes, queues = plain_columns((draft,))
                offsets = group.offsets[frame : frame + len(sizes)]
                self.index.table.add_singles(draft.first, group.sequence, (offsets, sizes, queues))
                draft.answer = draft.first
                frame += len(sizes)
                continue
            frame += 1
            if isinstance(draft.effect, Effect):
                self._apply(draft, draft.effect)
            if draft.answer is None:
                draft.answer = range(draft.first, draft.first + draft.messages)

    def _apply(self, draft: Draft, effect: Effect) -> None:
        index, place = self.index, (draft.sequence, draft.offset)
        first = draft.first
        for run in effect.runs:
            index.table.add_run(run.queue, first, *place, run.sizes)
            first += len(run.sizes)
        if draft.messages and len(effect.runs) == 1 and draft.rows == draft.messages and not effect.identifiers:
            return
        if effect.removed is not None:
            removed = index.table.remove_many(effect.removed)
            assert removed == len(effect.removed), "checked when it was admitted"
            self._claimed.difference_update(effect.removed.tolist())
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
            index.duplicates.remember(scope, Seen(draft.first + distance, count, digest, draft.time, draft.sequence))
        if effect.removed is not None and not effect.runs:
            draft.answer = len(effect.removed)

    def settle_shared(self) -> None:
        """Give resends that came while their first was on its way the first one's outcome."""
        for resend, first, distance, count in self._sharing:
            if first.failure is not None:
                resend.failure = first.failure
            else:
                resend.answer = range(first.first + distance, first.first + distance + count)
        self._sharing.clear()

    def live(self, numbers: Sequence[int]) -> Numbers:
        """Return those of the numbers that are undelivered, ascending and once. Call with the lock held."""
        find = self.index.table.find
        return np.array(sorted({number for number in numbers if find(number) is not None}), np.uint64)


def _check_same(scope: Scope, is_same: bool) -> None:
    if not is_same:
        queue, producer = (name.decode() for name in scope)
        raise DuplicateConflict(f"producer identifier {producer!r} was used in queue {queue!r} for another payload")
