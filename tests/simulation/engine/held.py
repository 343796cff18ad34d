"""What a start lists as brought back by damage, and what it holds of that, where it was asked to.

It is all that is undelivered in the files up to the last one in which operations are lost: their removals may be among
them. What is held stays so until somebody decides, and nothing else is.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from oms_journal.journal.names import DataFileName, parse
from oms_journal.recovery.report import RecoveryReport
from tests.simulation.world import PromiseBroken
from tests.support.crashes.crash_model import State, Unattended, state_of
from tests.support.crashes.crash_store import FrameAt, Store

LISTED = "what damage may have brought back is listed, and nothing else is"
HELD = "what damage may have brought back is held where that was asked for, and nothing else is"


@dataclass(frozen=True, slots=True)
class Places:
    """In which data files messages and keys lie: where they were written last."""

    messages: dict[int, int]
    keys: dict[str, int]

    @classmethod
    def of(cls, store: Store, gone: Collection[FrameAt]) -> "Places":
        """Return the places in what is left of a store."""
        found = cls({}, {})
        for frame in store.frames:
            if frame in gone:
                continue
            sequence = sequence_of(frame.name)
            for piece in frame.pieces:
                if piece.content is not None:
                    found.messages[piece.number] = sequence
                else:
                    found.keys[piece.key] = sequence
        return found


def sequence_of(name: str) -> int:
    parsed = parse(name)
    assert isinstance(parsed, DataFileName)
    return parsed.sequence


def last_of(lost: Sequence[FrameAt]) -> int:
    """Return the sequence of the last file in which operations are lost, 0 for none."""
    return max((sequence_of(frame.name) for frame in lost), default=0)


def is_listed(report: RecoveryReport, number: int) -> bool:
    return any(one.kind == "message" and one.first <= number <= one.last for one in report.suspects)


def check_listed(report: RecoveryReport, found: State, places: Places, last: int) -> None:
    """Check that what can be read in the files up to the last damaged one is listed as suspect, and no more."""
    numbers = {number for number in found.messages if is_listed(report, number)}
    keys = {one.key for one in report.suspects if one.kind == "key"} & found.keys.keys()
    wanted_numbers = {number for number in found.messages if places.messages[number] <= last}
    wanted_keys = {key for key in found.keys if places.keys[key] <= last}
    if numbers != wanted_numbers or keys != wanted_keys:
        raise PromiseBroken(f"{LISTED}\n{sorted(numbers)} {sorted(keys)}\nnot {wanted_numbers} {wanted_keys}: {report}")


def check_held(found: State, kept: State, places: Places, last: int, is_held: Sequence[bool]) -> None:
    """Check that what is held is what the files tell, and if it `is_held` what lies up to the last damaged one.

    Where nobody can tell whether that was still asked for, `is_held` has both answers.
    """
    wanted = [kept.held | {n for n in found.messages if each and places.messages[n] <= last} for each in is_held]
    if found.held not in wanted:
        raise PromiseBroken(f"{HELD}\nheld {sorted(found.held)}\nto be held {[sorted(each) for each in wanted]}")


def listed(found: Unattended) -> list[set[int]]:
    """Return what a start lists as suspect, the only such set that there can be."""
    return [{number for number in state_of(found).messages if is_listed(found.recovery, number)}]


def perhaps_listed(found: Unattended, store: Store, rotten: Collection[str]) -> list[set[int]]:
    """Return what a start may have listed whose report nobody has: all up to some file, and to a rotten one at most."""
    places, last = Places.of(store, ()).messages, max(map(sequence_of, rotten))
    ends = {0, *(sequence for sequence in places.values() if sequence <= last)}
    return [{number for number in state_of(found).messages if places[number] <= end} for end in ends]


def check_held_as_told(
    known: State, found: State, suspects: Sequence[Collection[int]], is_held: Sequence[bool], *, was_held: bool
) -> None:
    """Check what is held where only a report tells what is lost: one of the `suspects`, and what was held before.

    Where nobody can tell whether that was still asked for, `is_held` has both answers. What was let go may be held
    again where that is lost, once something `was_held`: then it is suspect, too.
    """
    for one in suspects:
        extra = found.held.difference(known.held)
        if True in is_held and found.held.issuperset(one) and extra.issubset(one):
            return
        if False in is_held and (not extra or (was_held and extra.issubset(one))):
            return
    raise PromiseBroken(f"{HELD}\nheld {sorted(found.held)}, before {sorted(known.held)}\n{is_held} of {suspects}")
