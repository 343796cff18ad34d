"""What several threads were promised by one database, and what each of them is in doubt about."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.simulation.world import PromiseBroken, Seen
from tests.support.crashes.crash_model import Content, State

THERE = "what was acknowledged is there, whole"
GONE = "what was removed does not come back"
WHOLE = "what was not acknowledged is there whole, or not at all"
NUMBERS = "numbers are not given twice, and follow the order of the commits"
ONCE = "what was sent under an identifier counts once"
HANDED = "a message is handed to one caller, and removed by one"
KEYS = "a key is there with what was committed with it"


@dataclass(slots=True)
class Attempt:
    """One commit on its way: its messages, in order, and its key."""

    contents: tuple[Content, ...]
    key: str | None = None
    identifier: str | None = None
    highest: int = 0  # of the numbers that were known when it began


@dataclass(slots=True)
class Account:
    """What was acknowledged and what is in doubt, of all callers together."""

    seen: Seen
    messages: dict[int, Content] = field(default_factory=dict)  # acknowledged, the removed ones among them
    removed: set[int] = field(default_factory=set)
    leaving: dict[int, int] = field(default_factory=dict)  # number -> how many removals of it are on their way
    doubtful: set[int] = field(default_factory=set)  # their removal was not answered
    taken: set[int] = field(default_factory=set)
    keys: dict[str, bytes] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)  # on their way, or not answered
    sent: dict[str, int] = field(default_factory=dict)  # identifier -> number
    given: set[int] = field(default_factory=set)

    @property
    def highest(self) -> int:
        return max(self.given, default=0)

    def begin(self, attempt: Attempt) -> Attempt:
        attempt.highest = self.highest
        self.attempts.append(attempt)
        return attempt

    def done(self, attempt: Attempt, numbers: Sequence[int]) -> None:
        """Enter a commit that was acknowledged with these numbers."""
        self.attempts.remove(attempt)
        if attempt.identifier is not None:
            self.seen.checked[ONCE] += 1
            known = self.sent.setdefault(attempt.identifier, numbers[0])
            if list(numbers) != [known]:
                raise PromiseBroken(f"{ONCE}\n{attempt.identifier} is {known} and {list(numbers)}")
            if known in self.given:
                return
        self.seen.checked[NUMBERS] += 1
        if not self.given.isdisjoint(numbers) or min(numbers) <= attempt.highest:
            raise PromiseBroken(f"{NUMBERS}\n{list(numbers)}, where {attempt.highest} was known before")
        self._enter(attempt, numbers)

    def _enter(self, attempt: Attempt, numbers: Sequence[int]) -> None:
        self.given.update(numbers)
        self.messages.update(zip(numbers, attempt.contents, strict=True))
        if attempt.key is not None:
            self.keys[attempt.key] = attempt.contents[0].payload

    def refused(self, attempt: Attempt) -> None:
        """Enter a commit of which nothing is there, as its caller was told."""
        self.attempts.remove(attempt)

    # Removals.

    def live(self) -> list[int]:
        return sorted(self.messages.keys() - self.removed)

    def begin_removal(self, number: int) -> None:
        self.leaving[number] = self.leaving.get(number, 0) + 1

    def end_removal(self, number: int, *, is_mine: bool | None) -> None:
        """Enter a removal that was answered, or was not: None."""
        self.leaving[number] -= 1
        self.seen.checked[HANDED] += 1
        if is_mine is None:
            self.doubtful.add(number)
        elif is_mine:
            if number in self.removed:
                raise PromiseBroken(f"{HANDED}\n{number} was removed by two callers")
            self.removed.add(number)
            self.taken.discard(number)

    def hand_out(self, number: int) -> None:
        self.seen.checked[HANDED] += 1
        if number in self.taken or number in self.removed:
            raise PromiseBroken(f"{HANDED}\n{number} was handed out, and is another caller's, or removed")
        self.taken.add(number)

    # What there is.

    def check(self, found: State, *, sure: Iterable[int] | None = None, gone: Iterable[int] = ()) -> list[Attempt]:
        """Hold what there is against all that was promised; return the attempts of which it is.

        While others go on, only what is `sure` must be there, and what was `gone` before must not.
        """
        for promise in (THERE, GONE, WHOLE, KEYS):
            self.seen.checked[promise] += 1
        may_be_gone = self.doubtful | {number for number, count in self.leaving.items() if count}
        wanted = set(self.live()) - may_be_gone if sure is None else set(sure)
        wrong = [number for number in wanted if found.messages.get(number) != self.messages[number]]
        if wrong:
            raise PromiseBroken(f"{THERE}\n{wrong} of {sorted(wanted)}: {sorted(found.messages)}")
        back = found.messages.keys() & set(self.removed if sure is None else gone)
        if back:
            raise PromiseBroken(f"{GONE}\n{sorted(back)}")
        return self._unanswered(found)

    def _unanswered(self, found: State) -> list[Attempt]:
        """Return the attempts that make up what is there beyond what was acknowledged."""
        extra = {number: content for number, content in found.messages.items() if number not in self.messages}
        happened: list[Attempt] = []
        for attempt in self.attempts:
            numbers = _numbers(extra, attempt)
            if not numbers or (attempt.identifier is not None and attempt.identifier in self.sent):
                continue
            is_whole = len(numbers) == len(attempt.contents)
            if not is_whole or (attempt.key is not None and attempt.key not in found.keys):
                raise PromiseBroken(f"{WHOLE}\n{numbers} of {attempt}")
            happened.append(attempt)
            for number in numbers:
                del extra[number]
        if extra:
            twice = [one for one in extra.values() if one.payload in {each.payload for each in self.messages.values()}]
            raise PromiseBroken(f"{ONCE if twice else WHOLE}\n{extra}\n{self.attempts}")
        allowed = self.keys | {each.key: each.contents[0].payload for each in self.attempts if each.key is not None}
        lost = [key for key, value in self.keys.items() if found.keys.get(key) != value]
        if lost or any(allowed.get(key) != value for key, value in found.keys.items()):
            raise PromiseBroken(f"{KEYS}\n{lost}, {sorted(found.keys)} of {sorted(allowed)}")
        return happened

    def settle(self, found: State) -> None:
        """Take what a start has found for what is there; PromiseBroken where that cannot be."""
        for attempt in self.check(found):
            numbers = _numbers(found.messages, attempt)
            self._enter(attempt, numbers)
            if attempt.identifier is not None:
                self.sent[attempt.identifier] = numbers[0]
        self.removed |= {number for number in self.doubtful if number not in found.messages}
        self.attempts.clear()
        self.leaving.clear()
        self.doubtful.clear()
        self.taken.clear()


def _numbers(messages: dict[int, Content], attempt: Attempt) -> list[int]:
    """Return under which numbers the attempt's messages are, each the first one that looks like it."""
    found: dict[bytes, int] = {}
    for number, content in messages.items():
        if content in attempt.contents:
            found.setdefault(content.payload, number)
    return sorted(found.values())
