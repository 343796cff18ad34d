"""A decision that is on its way to the store, and what has to wait for it."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oms_journal.broker.codes import Code
from oms_journal.broker.kernel.state.effects import Call, Command, Gone
from oms_journal.broker.store.changes import Changes

Apply = Callable[[int], None]  # with the number of the first message that the commit added


Waiter = Call | Gone | Command
NOBODY: list[Waiter] = []  # never changed: most never have anybody wait


class Lockable:
    """What a decision may be about. While it is pending, calls about it wait."""

    __slots__ = ("is_pending", "queued")

    def __init__(self) -> None:
        self.is_pending = False  # on its way to the store
        self.queued: list[Waiter] = NOBODY

    def wait(self, given: Waiter, *, is_first: bool = False) -> None:
        """Let somebody wait for it."""
        if not self.queued:
            self.queued = []
        self.queued.insert(0 if is_first else len(self.queued), given)


class DecisionMaker(Lockable):
    """Who makes decisions, and cannot go away before they have arrived. Pending while its going away is on its way."""

    __slots__ = ("later", "pending")

    def __init__(self) -> None:
        super().__init__()
        self.pending = 0  # decisions on their way
        self.later: deque[Waiter] = deque()  # it wants to go away


class Busy(Exception):
    """The call has to wait: what it is about is on its way to the store."""

    def __init__(self, held: Lockable) -> None:
        super().__init__()
        self.held = held


@dataclass(slots=True)
class Decision:
    """What a call or the time has brought about, to be done once it is durable."""

    apply: Apply
    locks: Sequence[Lockable] = ()
    handle: int | None = None  # who is told when the store says no
    who: DecisionMaker | None = None
    code: Code = Code.UOW_NOT_PERSISTED  # what that one is told
    undo: Callable[[], object] | None = None  # gives back what was reserved
    changes: Changes | None = None  # where they are to be reported
    clock: int = 0  # the pseudo-clock, where it is written with this
    is_new: bool = False  # it brings a unit of work or a publication: NO_NEW_UOWS where there is no room for that
    is_ordered: bool = False  # it goes through the store though it may write nothing: only its owner says so, in order


class JointDecision:
    """Decisions that are made together: all are done, or none."""

    __slots__ = ("acknowledged", "begun", "changes", "decisions", "repeats")

    def __init__(self) -> None:
        self.changes: list[Changes] = []
        self.decisions: list[Decision] = []
        self.acknowledged: dict[Lockable, list[Lockable]] = {}  # subscription: publications, together
        self.repeats: list[Lockable] = []  # the units of work that are sent again
        self.begun: list[str] = []  # producers' identifiers of those that are not

    def take(self, changes: Changes, decision: Decision) -> None:
        self.changes.append(changes)
        self.decisions.append(decision)
