"""Why the disk does not get free: what of each data file is still needed, what keeps it, what would free it.

The same figures as `oms explain` gives, from what is undelivered and from the latest versions of keys. Clean-up
deletes the leading run of files that hold nothing needed; compaction makes the run longer by writing the little again
that old files still hold:

    a file is needed      while it holds an undelivered message, or the latest version of a key
    compaction takes      the longest run of the oldest files, the active one never, in which what is
                          needed is at most a share of their bytes, or which are 8 or more and all fit
                          into one data file, half of it needed at the most
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oms_journal.analysis.fold.asked import COMPACT_SHARE, DATA_FILE_BYTES
from oms_journal.analysis.fold.figures import Numbers
from oms_journal.analysis.fold.messages import Columns
from oms_journal.analysis.fold.operations import Version
from oms_journal.analysis.reading.columns import text
from oms_journal.analysis.reading.schema import Micros
from oms_journal.journal.format.headers import FRAMES_AT

MESSAGE_OVERHEAD_BYTES = 120  # of a message that is written again, besides its payload
KEY_BYTES = 300  # of a key that is written again, about
SMALL_FILES_MIN = 8  # so many neighbouring files that fit into one are worth it
ASKED_SHARE = 0.5  # `oms cleanup --compact` goes up to it in any case
Row = dict[str, Any]


@dataclass(slots=True)
class Needed:
    """What is needed of one data file."""

    messages: int = 0
    size: int = 0  # bytes of their payloads and properties
    keys: int = 0
    pin: tuple[int, str, Micros] | None = None  # the oldest undelivered message: number, queue, added
    first_key: tuple[bytes, Micros] | None = None

    @property
    def kept_bytes(self) -> int:
        """About how many bytes compaction would write again."""
        return self.size + self.messages * MESSAGE_OVERHEAD_BYTES + self.keys * KEY_BYTES


@dataclass(slots=True)
class _Fact:
    """A data file, and what is needed of it."""

    file: Mapping[str, Any]
    needed: Needed
    is_active: bool
    pins_files: int = 0
    goes: bool = field(default=False)

    @property
    def is_needed(self) -> bool:
        return bool(self.needed.messages or self.needed.keys)


def needed(undelivered: Columns, queues: Sequence[str], versions: Mapping[bytes, Version]) -> dict[int, Needed]:
    """Return what is needed of each data file, by sequence; the undelivered messages stand by number."""
    found: dict[int, Needed] = {}
    sequences = undelivered["sequence"]
    order = np.argsort(sequences, kind="stable")
    ordered: Numbers = sequences[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    stops = np.append(starts, len(ordered))[1:]
    stored = undelivered["length"].astype(np.int64) + undelivered["properties"]
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        first = order[start]
        pin = (int(undelivered["number"][first]), queues[undelivered["queue"][first]], int(undelivered["added"][first]))
        size = int(stored[order[start:stop]].sum())
        found[int(ordered[start])] = Needed(messages=stop - start, size=size, pin=pin)
    for key, (sequence, time, is_there) in versions.items():
        if is_there:
            one = found.setdefault(sequence, Needed())
            one.keys += 1
            if one.first_key is None or key < one.first_key[0]:
                one.first_key = (key, time)
    return found


def retention(
    files: Sequence[Mapping[str, Any]],
    needed: Mapping[int, Needed],
    now: Micros,
    *,
    compact_share: float = COMPACT_SHARE,
    data_file_bytes: int = DATA_FILE_BYTES,
) -> list[Row]:
    """Return a row for each data file of one database, but for those that clean-up has moved away."""
    on_disk = sorted((file for file in files if not file["retained"]), key=lambda file: file["sequence"])
    newest = on_disk[-1]["sequence"] if on_disk else 0
    facts = [
        _Fact(
            file=file,
            needed=needed.get(file["sequence"], Needed()),
            is_active=not file["sealed"] and file["sequence"] == newest,
        )
        for file in on_disk
    ]
    _plan(facts, max(compact_share, ASKED_SHARE), data_file_bytes)
    return [_row(fact, now) for fact in facts]


def _plan(facts: Sequence[_Fact], share: float, data_file_bytes: int) -> None:
    """Note of each file how many later ones it pins, and whether compaction would let it go."""
    total = kept = frames = last = 0
    is_dead_run = is_open = True
    for place, fact in enumerate(facts, start=1):
        size = fact.file["bytes"]
        total, kept = total + size, kept + fact.needed.kept_bytes
        frames += max(size - FRAMES_AT, 0)  # what is moved forward stands behind such headers again
        is_open &= not fact.is_active
        is_dead_run &= not (fact.is_needed or fact.is_active)
        is_many = place >= SMALL_FILES_MIN and kept <= data_file_bytes // 2 and total <= data_file_bytes
        if is_dead_run or (is_open and (kept <= share * frames or is_many)):
            last = place
    dead = 0
    for place, fact in reversed(list(enumerate(facts, start=1))):
        fact.goes = place <= last
        fact.pins_files = dead if fact.is_needed else 0
        dead += not fact.is_needed and not fact.is_active


def _row(fact: _Fact, now: Micros) -> Row:
    file, found = fact.file, fact.needed
    pin, key = found.pin, found.first_key
    since = pin[2] if pin is not None else key[1] if key is not None else None
    return {
        "database": file["database"],
        "sequence": file["sequence"],
        "file": file["file"],
        "active": fact.is_active,
        "bytes": file["bytes"],
        "live_bytes": found.size,
        "dead_bytes": file["bytes"] - found.size,
        "live_messages": found.messages,
        "live_keys": found.keys,
        "needed": fact.is_needed,
        "pinned_by": "message" if pin is not None else "key" if key is not None else None,
        "pin_message": None if pin is None else pin[0],
        "pin_queue": None if pin is None else pin[1],
        "pin_key": text(key[0]) if pin is None and key is not None else None,
        "pin_age_seconds": None if since is None else max(0, now - since) / 1e6,
        "pins_files": fact.pins_files,
        "freed_by_compact": file["bytes"] - found.kept_bytes if fact.goes else 0,
    }
