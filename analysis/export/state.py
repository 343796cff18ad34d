"""What the last export of a lake saw, so that the next one finds out by listings alone whether anything is new.

It is a memory, not an authority: what stands in the Parquet files themselves, and in the data files, is believed where
they differ, and without it an export reads headers to know the same.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from oms_journal.analysis.export.place import STATE, LakeFile, Place, parse
from oms_journal.analysis.reading.parts import Damage
from oms_journal.journal.format.headers import Ending

VERSION = 3  # of what stands there, and of how rows are written: files of another one are made again


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """A data file that somebody may be writing."""

    name: str
    is_promised: bool = False
    named: Ending | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A directory of data files, as it was when it was read."""

    database: str
    asked: tuple[str, ...] = ()  # names of data files; none where all were asked for
    stamps: Mapping[str, str]  # of its data files, by name
    witness: str  # what its lock file says of the newest data file
    open: tuple[OpenFile, ...] = ()

    def is_as(self, stamps: Mapping[str, str], witness: str) -> bool:
        """Say whether nothing has changed but in the files that may be being written."""
        growing = {each.name for each in self.open}
        if witness != self.witness or stamps.keys() != self.stamps.keys():
            return False
        return all(stamp == self.stamps[name] for name, stamp in stamps.items() if name not in growing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A file of the lake."""

    bytes: int  # 0 while it is not whole
    is_whole: bool  # it has all that its data file ever had; else there may come more


@dataclass(slots=True, kw_only=True)
class State:
    """What an export saw, and left behind."""

    columns: tuple[str, ...]
    files: dict[LakeFile, Known] = field(default_factory=dict)
    directories: dict[str, Directory] = field(default_factory=dict)  # by file system and path
    damages: dict[str, tuple[Damage, ...]] = field(default_factory=dict)  # by lake file; what could not be read

    def has(self, sizes: Mapping[LakeFile, int]) -> bool:
        """Say whether these are the files that the lake had."""
        if sizes.keys() != self.files.keys():
            return False
        return all(not known.is_whole or known.bytes == sizes[name] for name, known in self.files.items())


def read_state(place: Place) -> State | None:
    """Return what the last export left, None where there is nothing that can be read."""
    data = place.read(STATE)
    if data is None:
        return None
    try:
        told = json.loads(data)
        return _decoded(told) if told["version"] == VERSION else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def write_state(place: Place, state: State) -> None:
    """Put the state into its file, as a whole; CannotWrite."""
    told = {
        "version": VERSION,
        "columns": list(state.columns),
        "files": {str(name): [known.bytes, known.is_whole] for name, known in sorted(state.files.items())},
        "directories": {name: asdict(one) for name, one in sorted(state.directories.items())},
        "damages": {name: [asdict(one) for one in found] for name, found in sorted(state.damages.items())},
    }
    with place.replaced(STATE) as path:
        path.write_text(json.dumps(told), encoding="utf-8")


def _decoded(told: Mapping[str, Any]) -> State:
    files = {parse(name): Known(bytes=size, is_whole=whole) for name, (size, whole) in told["files"].items()}
    return State(
        columns=tuple(told["columns"]),
        files={name: known for name, known in files.items() if name is not None},
        directories={name: _directory(one) for name, one in told["directories"].items()},
        damages={name: tuple(Damage(**one) for one in found) for name, found in told["damages"].items()},
    )


def _directory(told: Mapping[str, Any]) -> Directory:
    growing = tuple(
        OpenFile(
            name=one["name"],
            is_promised=one["is_promised"],
            named=None if one["named"] is None else Ending(**one["named"]),
        )
        for one in told["open"]
    )
    return Directory(
        database=told["database"],
        asked=tuple(told["asked"]),
        stamps=dict(told["stamps"]),
        witness=told["witness"],
        open=growing,
    )
