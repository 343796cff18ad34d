"""The numbers of messages and commits that a start goes on with: none that may have been given comes again."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from xxhash import xxh3_128_digest

from oms_journal.index.live import Index
from oms_journal.journal.format.headers import CHECKSUM, NUMBERS_MAX, Ending, FileHeader
from oms_journal.recovery.decision import Action
from oms_journal.recovery.examination import Examination
from oms_journal.recovery.repair import Before

NUMBER_JUMP = NUMBERS_MAX  # what is left of a file says nothing of how many it gave: so it may be all
NUMBER_JUMP_BLIND = 1 << 46  # where nothing is left that says how far the numbers were: further than a restore goes


class NumberFloor(NamedTuple):
    """What messages, commits and files must keep clear of though no file tells it any more."""

    next_message: int = 0  # no number below may be given
    next_commit: int = 0
    jump: int = 0  # how many more to leave out
    first_sequence: int = 1  # no file below was ever begun, where there is none that was

    def joined(self, other: "NumberFloor") -> "NumberFloor":
        return NumberFloor(*map(max, self, other))


def numbers_of_lost(examined: Sequence[Examination]) -> NumberFloor:
    """Return the numbers that what a start drops tells, or it reports; and the first sequence where none is left."""
    dropped = [one for one in examined if one.decision.action is Action.DROP]
    headers = [one.header for one in dropped if one.header is not None]
    reported = [last for one in examined for loss in one.losses for _, last in loss.numbers]
    is_kept = any(one.decision.action not in (Action.DROP, Action.REMOVE) for one in examined)
    is_first = not is_kept and not any(header.previous.sequence for header in headers)
    return NumberFloor(
        max([0, *(header.next_message for header in headers), *(last + 1 for last in reported)]),
        max((header.next_commit for header in headers), default=0),
        _jump_of(examined) if dropped else 0,
        max((one.sequence for one in examined), default=0) + 1 if is_first else 1,
    )


class Counters:
    """The numbers that must never come again, file by file, and how far the next ones keep clear of lost ones."""

    def __init__(
        self, examined: Sequence[Examination], clear_of: NumberFloor, new_identity: Callable[[], bytes]
    ) -> None:
        known = [one.header for one in examined if one.header is not None]
        low_water = max([0, *(header.low_water for header in known), *(one.low_water for one in examined)])
        newest = next((one.header or one.task.near for one in reversed(examined) if one.header or one.task.near), None)
        database = newest.database if newest is not None else _stand_in_database(examined) or new_identity()
        self._before = Before(database=database, low_water=low_water)
        self._clear_of = clear_of
        self._jump = max(_jump_of(examined), clear_of.jump)

    def take(self, header: FileHeader, ending: Ending, highest_commit: int) -> None:
        """Note a file that is kept."""
        before = self._before
        self._before = replace(
            before,
            previous=ending,
            owner=max(before.owner, header.owner),
            next_message=max(before.next_message, header.next_message),
            next_commit=max(before.next_commit, header.next_commit, highest_commit + 1, ending.commit + 1),
        )

    def before(self, index: Index, *, is_followed: bool) -> Before:
        """Return what is known when it is a file's turn; nothing behind a file that is followed may be overtaken."""
        message, commit = max(self._before.next_message, index.highest + 1), self._before.next_commit
        if is_followed:
            return replace(self._before, next_message=message)
        message, commit = max(message, self._clear_of.next_message), max(commit, self._clear_of.next_commit)
        return replace(self._before, next_message=message + self._jump, next_commit=commit + self._jump)

    def kept(self, following: Before) -> NumberFloor:
        """Return what the next start must keep clear of where this one goes on as it does and commits nothing."""
        before, clear = self._before, self._clear_of
        is_told = before.next_message >= clear.next_message and before.next_commit >= clear.next_commit
        kept = (
            NumberFloor() if is_told and not clear.jump else NumberFloor(following.next_message, following.next_commit)
        )
        return kept if before.previous.sequence else kept._replace(first_sequence=clear.first_sequence)


def _stand_in_database(examined: Sequence[Examination]) -> bytes:
    """Return an identity for a database of which no header is left: the same each time. b"" where no file has one."""
    identities = [one.task.identity for one in examined if one.task.identity is not None]
    return xxh3_128_digest(CHECKSUM.pack(identities[0])) if identities else b""


def _jump_of(examined: Sequence[Examination]) -> int:
    """Return how many numbers to leave out for what these files may have lost: where any has, or the newest one had.

    That newest one may have given as many as a file can, behind what its header says. A file behind it that has no
    header any more did the same, behind as many as the start had left out that began it; and so did those whose
    sequences are missing, which other starts have dropped. All this depends on nothing that a repair changes.
    """
    there = [one for one in examined if one.decision.action is not Action.REMOVE]
    is_repaired = any(one.decision.action is not Action.KEEP for one in there)
    if not is_repaired and not (there and there[-1].is_recovered):
        return 0
    # A header that a repair has made up tells no more than the file did before.
    headers = [(one.sequence, one.header) for one in there if not one.task.is_late]
    told = [sequence for sequence, header in headers if header is not None and header.created]
    if not told and any(one.losses for one in there):
        return NUMBER_JUMP_BLIND
    unknown = there[-1].sequence - max(told, default=0)
    return min(NUMBER_JUMP * (1 + 2 * unknown), NUMBER_JUMP_BLIND)
