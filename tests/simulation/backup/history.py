"""The states of a database, one for each commit that was seen: what a backup may hold that ends with one of them."""

from dataclasses import dataclass, field, replace
from typing import TypeVar

from tests.simulation.engine.account import Account
from tests.support.crashes.crash_model import State

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(slots=True)
class History:
    """The state after each commit that was seen, as the last damage has left it, or as it would be without."""

    states: list[tuple[int, State]]
    starts_at: set[int] = field(default_factory=set)  # places where a start entered what it found
    several_at: set[int] = field(default_factory=set)  # places that several commits have led to

    def enter(self, commit: int, before: State, after: State) -> None:
        """Enter that the account's state has become another one."""
        self.states.append((commit, self._now(before, after)))

    def _now(self, before: State, after: State) -> State:
        last = self.states[-1][1]
        messages = _changed(last.messages, before.messages, after.messages)
        held = (last.held - (before.held - after.held)) | (after.held - before.held)
        return State(dict(sorted(messages.items())), _changed(last.keys, before.keys, after.keys), held)

    def allows(self, commit: int, found: State, before: State, account: Account) -> bool | None:
        """Say whether a backup may hold this that ends with this commit; None where that is inside a step.

        `before` is the account's state as it was entered last.
        """
        place = max(at for at, (number, _) in enumerate(self.states) if number <= commit)
        number, state = self.states[place]
        following = self.states[place + 1 : place + 2]
        now = self._now(before, account.state)
        if not following:  # what was on its way when a crash came may be there
            return found == state or replace(account, state=now).allows(found)
        if number == commit or (following[0][1] == state and place + 1 not in self.several_at):
            return found in (state, now)
        if place + 1 in self.starts_at:
            return found in (state, following[0][1])  # what was on its way, and a start has taken in
        return None


def _changed(last: dict[_K, _V], before: dict[_K, _V], after: dict[_K, _V]) -> dict[_K, _V]:
    """Return the last ones with what was changed between the two others."""
    gone = before.keys() - after.keys()
    new = {key: value for key, value in after.items() if key not in before or before[key] != value}
    return {key: value for key, value in last.items() if key not in gone} | new
