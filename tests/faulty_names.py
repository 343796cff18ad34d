"""The directories of a simulated disk: what their names stand for, and which changes a power cut keeps."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faulty_bytes import FileBytes


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


def copied(names: dict[str, FileBytes], copies: dict[int, FileBytes]) -> dict[str, FileBytes]:
    return {name: copy_of(file, copies) for name, file in names.items()}


def copy_of(file: FileBytes, copies: dict[int, FileBytes]) -> FileBytes:
    if file.number not in copies:
        copies[file.number] = file.copy()
    return copies[file.number]
