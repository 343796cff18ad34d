"""What a database has promised its callers, kept beside it; and what was asked for and not answered."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.simulation.world import PromiseBroken, Seen
from tests.support.crashes.crash_model import Change, Content, State

Scope = tuple[str, str]  # queue, producer identifier

THERE = "what was acknowledged is there, whole"
GONE = "what was removed does not come back"
WHOLE = "what was not acknowledged is there whole, or not at all"
NUMBERS = "numbers are not given twice"
KEPT_BACK = "what is held back stays so until somebody decides, and is decided once"
OF_A_STATE = (THERE, GONE, WHOLE, KEPT_BACK)  # what is held against all that a database has


@dataclass(frozen=True, slots=True)
class Doing:
    """One commit on its way; its identifier, where it has one."""

    change: Change
    scope: Scope | None = None
    time: int = 0  # microseconds


@dataclass(frozen=True, slots=True)
class Identified:
    """What a producer identifier stands for."""

    first: int
    adds: tuple[Content, ...]
    time: int
    is_block: bool = False


@dataclass(slots=True)
class Account:
    """What was acknowledged, and what is on its way; `seen` counts how often that was held against a database."""

    seen: Seen = field(default_factory=Seen)
    state: State = field(default_factory=State)
    pending: list[Doing] = field(default_factory=list)
    highest: int = 0  # of all numbers that anybody has seen
    identified: dict[Scope, Identified] = field(default_factory=dict)
    is_disk_full: bool = False  # there may be no room for what adds
    commits: int = 0  # that were acknowledged, or taken in by a start
    taken_in: list[Doing] = field(default_factory=list)  # what was on its way, and the last start has found
    given: set[int] = field(default_factory=set)  # all numbers
    spent: set[int] = field(default_factory=set)  # numbers given by other databases, from backups of which this one is

    def done(self, doing: Doing, numbers: Sequence[int]) -> None:
        """Enter a commit that was acknowledged."""
        self.seen.checked[NUMBERS] += bool(numbers)
        if numbers and numbers[0] <= self.highest:
            raise PromiseBroken(f"{NUMBERS}\n{list(numbers)} were given after {self.highest}")
        self.commits += 1
        if not self.spent.isdisjoint(numbers):
            raise PromiseBroken(f"{NUMBERS}\n{list(numbers)} were given by a database that is lost")
        self.given.update(numbers)
        self.state = doing.change.applied(self.state, numbers)
        self.highest = max([self.highest, *numbers])
        if doing.scope is not None and numbers:
            self.identified[doing.scope] = Identified(numbers[0], tuple(doing.change.adds), doing.time)

    def settle(self, found: State) -> None:
        """Take what a start has found for what is there; PromiseBroken where that cannot be."""
        doing = self._held_against(found)
        new = iter(sorted(found.messages.keys() - self.state.messages.keys()))
        for one in doing:
            self.done(one, [next(new) for _ in one.change.adds])
        self.pending, self.taken_in = [], doing

    def check_next(self, number: int) -> None:
        """Hold the number that a start goes on with against those that were given; PromiseBroken where it was, too."""
        self.seen.checked[NUMBERS] += 1
        if number <= self.highest:
            raise PromiseBroken(f"{NUMBERS}\nthe next is {number}, and {self.highest} was given")

    def found_damaged(self, found: State) -> None:
        """Take what a start has found in spite of damage for what is promised from now on."""
        self.state = found
        self.highest = max([self.highest, *found.messages])
        self.identified.clear()  # some of them may be lost with their commits

    def forget(self, numbers: set[int]) -> None:
        """Let numbers be given again: nothing is left that tells that they ever were."""
        self.given -= numbers
        self.highest = max(self.given | self.state.messages.keys(), default=0) if numbers else self.highest

    def allows(self, found: State) -> bool:
        return self._outcome(found) is not None

    def check(self, found: State) -> None:
        """Hold what was promised against what there is; PromiseBroken where that cannot be."""
        self._held_against(found)

    def _held_against(self, found: State) -> list[Doing]:
        """Return what of what was on its way has happened."""
        for promise in OF_A_STATE:
            self.seen.checked[promise] += 1
        doing = self._outcome(found)
        if doing is None:
            raise PromiseBroken(self._complaint(found))
        return doing

    def _outcome(self, found: State) -> list[Doing] | None:
        """Return which of what was on its way has happened: the first few, in order, and as many as can be."""
        new = sorted(found.messages.keys() - self.state.messages.keys())
        for doing in self._candidates():
            if sum(len(one.change.adds) for one in doing) != len(new) or (new and new[0] <= self.highest):
                continue
            state, numbers = self.state, iter(new)
            for one in doing:
                state = one.change.applied(state, [next(numbers) for _ in one.change.adds])
            if state == found:
                return doing
        return None

    def _candidates(self) -> Iterator[list[Doing]]:
        """Yield what may have happened; on a full disk what adds is refused from some point on, the rest goes on."""
        for count in range(len(self.pending), -1, -1):
            yield self.pending[:count]
        if self.is_disk_full:
            for count in range(len(self.pending)):
                rest = [one for one in self.pending[count:] if not one.change.adds]
                for more in range(len(rest), 0, -1):
                    yield self.pending[:count] + rest[:more]

    def _complaint(self, found: State) -> str:
        """Return which promise was broken, and how."""
        lost = {number: self.state.messages[number] for number in self.state.messages.keys() - found.messages.keys()}
        for one in self.pending:
            lost = {number: content for number, content in lost.items() if number not in one.change.removed}
        extra = {number: found.messages[number] for number in found.messages.keys() - self.state.messages.keys()}
        returned = [number for number in extra if number <= self.highest]
        is_held = not extra and found.keys == self.state.keys and found.held != self.state.held
        promise = THERE if lost else GONE if returned else WHOLE if extra or self.pending else THERE
        promise = KEPT_BACK if is_held and not lost else promise
        keys = {
            key: (self.state.keys.get(key), found.keys.get(key))
            for key in self.state.keys.keys() | found.keys.keys()
            if self.state.keys.get(key) != found.keys.get(key)
        }
        held = (sorted(self.state.held), sorted(found.held))
        what = f"keys (promised, found) {keys}\nheld (likewise) {held}\non its way {self.pending}"
        return f"{promise}\nlost {lost}\nextra {extra}\n{what}"
