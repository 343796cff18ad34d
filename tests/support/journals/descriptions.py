"""What we say of a directory, in the words of the reader in Java: what `verify`, `list`, `dump` and the API say."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import xxhash

from oms_journal import DatabaseView
from oms_journal.index.table import NUMBER_MAX
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import JournalError, MessageDamaged
from oms_journal.journal.format.headers import FRAMES_AT
from oms_journal.journal.reading.dump import DumpedOperation
from oms_journal.recovery.decision import TABLE
from oms_journal.recovery.dump import dump
from oms_journal.recovery.examination import NOT_REPLAYED
from oms_journal.recovery.validation import validate_directory

Document = dict[str, Any]
PARTS = ("files", "operations", "undelivered", "keys")
WITHOUT_FRAMES = {row.decision.row for row in TABLE if row.decision.action in NOT_REPLAYED}


def describe(directory: Path) -> Document:
    """Return what we say; only `refused` where we refuse the directory."""
    try:
        reports = validate_directory(directory)
    except JournalError as failure:
        return {"refused": str(failure)}
    ends = {one.sequence: 0 if one.row in WITHOUT_FRAMES else max(one.good_end, FRAMES_AT) for one in reports}
    files = [
        {"sequence": one.sequence, "verdict": one.verdict.value, "row": one.row, "good_end": ends[one.sequence]}
        for one in reports
    ]
    with DatabaseView.open(directory) as view:
        table = view._ledger.index.table  # not by the verbs: for these a message has expired by some clock
        found = [number for batch in table.batches(None, 0, NUMBER_MAX) for number in batch[0].tolist()]
        numbers = [
            (number, table.queues.name(place.queue))
            for number, place in zip(found, map(table.find, found))  # noqa: B905
            if place is not None
        ]
        keys = dict(_values(view))
    return {
        "refused": None,
        "files": files,
        "operations": operations(directory, ends),
        "undelivered": [[number, queue] for number, queue in sorted(numbers)],
        "keys": keys,
    }


def _values(view: DatabaseView) -> Iterator[tuple[str, str]]:
    """Yield each key with its value's hash. A key whose value is lost has none: the reader in Java leaves it out."""
    for key in [*view.keys()]:
        with suppress(MessageDamaged):
            yield key, hashed(view.get(key) or b"")


def difference(ours: Document, theirs: Document, parts: Sequence[str] = PARTS) -> str:
    """Return in what two descriptions differ, "" where they agree. For which reason one refuses is its own matter."""
    if ours["refused"] or theirs["refused"]:
        alone = "" if theirs["refused"] else "us" if ours["refused"] else ""
        alone = alone or ("" if ours["refused"] else "it")
        return f"refused by {alone} alone: {ours['refused'] or theirs['refused']}" if alone else ""
    return next((f"{name}: {_first_of(ours[name], theirs[name])}" for name in parts if ours[name] != theirs[name]), "")


def _first_of(ours: Any, theirs: Any) -> str:
    """Return the first thing in which two lists or objects differ, and how long they are."""
    if isinstance(ours, dict):
        ours, theirs = sorted(ours.items()), sorted(theirs.items())
    place = next((at for at, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), -1)
    at = min(len(ours), len(theirs)) if place < 0 else place
    return f"{len(ours)} and {len(theirs)}; at {at}: {ours[at : at + 1]} where it has {theirs[at : at + 1]}"


def operations(directory: Path, ends: Mapping[int, int]) -> list[Document]:
    """Return what a dump tells. It shows also what is behind a file's good end, which the pages leave out."""
    told = [one for one in dump(RealDisk(), [directory]) if isinstance(one, DumpedOperation)]
    return [_operation(one) for one in told if one.offset < ends[one.sequence]]


def _operation(one: DumpedOperation) -> Document:
    terms: Document = {"due": one.terms.due, "expiry": one.terms.expiry, "attempts": one.terms.attempts}
    terms |= {"group": None if one.terms.group is None else bytes(one.terms.group).decode()}
    return {
        "sequence": one.sequence,
        "offset": one.offset,
        "commit": one.commit,
        "kind": one.operation,
        "number": one.message,
        "name": one.queue if one.queue is not None else one.key,
        "producer": one.producer,
        "time": one.time,
        "first_time": one.first_time,
        "moved": one.moved,
        "vouched": one.vouched,
        "damaged": one.damaged,
        "payload": None if one.payload is None or one.damaged else hashed(one.payload),
        "properties": None if one.damaged else one.properties or None,
        **{name: value for name, value in terms.items() if value is not None},
    }


def hashed(data: bytes) -> str:
    return f"{xxhash.xxh3_64_intdigest(data):016x}"
