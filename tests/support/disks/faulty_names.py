"""The directories of a simulated disk: what their names stand for, and which changes a power cut keeps."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.disks.faulty_bytes import FileBytes


@dataclass(frozen=True, slots=True)
class NameChange:
    """One change of a directory that no sync has made durable yet: what each name stands for now."""

    directory: Path
    entries: tuple[tuple[str, FileBytes | None], ...]


@dataclass(slots=True)
class Names:
    """One directory: what its names stand for, now and after a power cut."""

    now: dict[str, FileBytes] = field(default_factory=dict)
    durable: dict[str, FileBytes] = field(default_factory=dict)


class Copies:
    """The files of a disk and their copies: a file that has two names has one copy."""

    def __init__(self, copy: Callable[[FileBytes], FileBytes] = FileBytes.copy) -> None:
        self._copy = copy
        self._copies: dict[int, FileBytes] = {}

    def of(self, file: FileBytes) -> FileBytes:
        found = self._copies.get(id(file))
        if found is None:
            found = self._copies[id(file)] = self._copy(file)
        return found

    def names(self, names: dict[str, FileBytes]) -> dict[str, FileBytes]:
        return {name: self.of(file) for name, file in names.items()}


def surviving(changes: Sequence[NameChange], chance: random.Random) -> list[NameChange]:
    """Return which of the unsynced changes of names a power cut keeps, in their order."""
    if chance.random() < 0.5:
        return list(changes[: chance.randint(0, len(changes))])
    return [change for change in changes if chance.random() < 0.5]


def apply(entries: Sequence[tuple[str, FileBytes | None]], names: dict[str, FileBytes]) -> None:
    for name, file in entries:
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file
