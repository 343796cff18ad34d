"""What all drivers do alike: a commit as one of many, a store that is away, and the words of what they refuse."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from oms_journal.broker.codes import Code
from oms_journal.broker.store.changes import Changes
from oms_journal.broker.store.start import CommitRefused, StartRefused, StoreError, StoreUnavailable


class StoreDriver(ABC):
    """A store that can be lost, or disconnected: then it is away."""

    _away = ""  # why nothing can be done

    @property
    def is_connected(self) -> bool:
        return not self._away

    @abstractmethod
    def commit_many(self, batch: Sequence[Changes]) -> list[int | StoreError]: ...

    def commit(self, changes: Changes) -> int:
        (answer,) = self.commit_many((changes,))
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def check_connected(self) -> None:
        """StoreUnavailable where the store is away."""
        if self._away:
            raise StoreUnavailable(self._away)

    def disconnect(self) -> None:
        self._away = self._away or "the persistent store is disconnected"


def no_store(place: Path) -> StartRefused:
    why = f"{place} holds no persistent store; PSTORE=WARM begins one where there is none, PSTORE=COLD always"
    return StartRefused(Code.RESTART_FAILED, why)


def nothing_to_unload(place: Path) -> StartRefused:
    return StartRefused(Code.RESTART_FAILED, f"{place} holds no persistent store, so there is nothing to unload")


def not_opened(failure: Exception) -> StartRefused:
    return StartRefused(Code.RESTART_FAILED, f"the persistent store cannot be opened: {failure}")


def not_opened_again(failure: Exception) -> StoreUnavailable:
    return StoreUnavailable(f"the persistent store cannot be opened again: {failure}")


def not_empty(place: Path) -> CommitRefused:
    return CommitRefused(f"{place} holds messages already: only an empty store is loaded")
