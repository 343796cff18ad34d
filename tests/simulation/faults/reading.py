"""Faults made on purpose in how the engine reads: checksums that nobody looks at, verdicts that are wrong, replay."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from oms_journal.index.live import Index
from oms_journal.journal.format.frames import FRAME, BadFrame, FrameHeader
from oms_journal.journal.format.headers import FileHeader
from oms_journal.journal.operations import Operation
from oms_journal.recovery.decision import Action
from oms_journal.recovery.examination import Examination
from oms_journal.recovery.numbering import NumberFloor
from tests.planted.patched import Patched
from tests.simulation.faults.fault import EqualToAll, changed, changed_in, fault, nothing

VERIFIED_BYTES = 1024


@fault("engine", budget=300)
def a_torn_frame_is_believed() -> Iterator[None]:
    """A frame is taken for good whatever its checksum says."""

    def of(decode: Callable[..., FrameHeader | BadFrame]) -> Callable[..., FrameHeader | BadFrame]:
        def decoded(data: Any, offset: int, **named: Any) -> FrameHeader | BadFrame:
            frame = decode(data, offset, **named)
            if not isinstance(frame, BadFrame) or frame.reason != "the frame's checksum does not match":
                return frame
            names = ("checksum", "length", "meta", "commit", "identity", "synced", "time", "operations", "flags")
            return FrameHeader(offset=offset, **dict(zip(names, FRAME.unpack_from(data, offset), strict=True)))

        return decoded

    with changed(Patched.WALK_DECODE_FRAME, of):
        yield


@fault("engine", budget=200)
def half_a_frame_is_replayed() -> Iterator[None]:
    """At a start no payload is compared with its checksum: a frame is good when its head is."""

    def of(take: Callable[..., None]) -> Callable[..., None]:
        def taken(found: Any, *arguments: Any) -> None:
            take(found, *arguments)
            found.bad_payloads.clear()

        return taken

    with changed(Patched.WALK_TAKE, of):
        yield


@fault("engine", budget=200)
def what_damage_brings_back_is_not_listed() -> Iterator[None]:
    """A start says what is lost, and not which removals may have been lost with it."""
    with changed(Patched.STARTUP_SUSPECTS, lambda _: lambda *_: ()):
        yield


@fault("engine", budget=300)
def a_message_is_read_without_its_checksum() -> Iterator[None]:
    """A message's bytes are handed out whatever its checksum says."""
    with changed(Patched.MESSAGE_XXH3, lambda xxh3: lambda *data: EqualToAll(xxh3(*data))):
        yield


@fault("engine", budget=300)
def only_the_beginning_of_a_message_is_verified() -> Iterator[None]:
    """Of a message that is read only the first 1,024 bytes are compared with what was written."""
    beginnings: dict[int, int] = {}  # checksum of what was written -> that of its beginning

    def noting(xxh3: Callable[..., int]) -> Callable[..., int]:
        def noted(data: Any, *seed: int) -> int:
            whole = xxh3(data, *seed)
            if not seed and len(data) > VERIFIED_BYTES:
                beginnings[whole] = xxh3(bytes(data)[:VERIFIED_BYTES])
            return whole

        return noted

    class Beginning(int):
        __hash__ = int.__hash__

        def __eq__(self, written: Any) -> bool:
            return bool(int(self) == beginnings.get(written, written))

        def __ne__(self, written: object) -> bool:
            return not self == written

    def reading(xxh3: Callable[..., int]) -> Callable[..., int]:
        def read(data: Any, *seed: int) -> int:
            is_long = not seed and len(data) > VERIFIED_BYTES
            return Beginning(xxh3(bytes(data)[:VERIFIED_BYTES])) if is_long else xxh3(data, *seed)

        return read

    writers = (Patched.SINGLE_XXH3, Patched.DRAFT_XXH3, Patched.RECORDS_XXH3)
    with changed_in(writers, noting), changed(Patched.MESSAGE_XXH3, reading):
        yield


@fault("engine", budget=300)
def a_sealed_files_checksum_is_ignored() -> Iterator[None]:
    """A file with a good footer is taken for good as a whole."""

    def of(sealed: Callable[..., Any]) -> Callable[..., Any]:
        return lambda file, task, footer, *, full: sealed(file, task, footer, full=False)

    with changed(Patched.VALIDATION_SEALED, of):
        yield


@fault("engine", budget=300)
def a_footers_checksum_is_ignored() -> Iterator[None]:
    """A footer is believed whatever its checksum says."""
    with changed(Patched.FOOTER_XXH3, lambda xxh3: lambda *data: EqualToAll(xxh3(*data))):
        yield


@fault("engine", budget=300)
def frames_vouch_for_nothing() -> Iterator[None]:
    """No frame is proof that what stands before it was durable."""
    with changed(Patched.WALK_VOUCHED, lambda _: lambda self: 0):
        yield


@fault("engine", budget=60)
def a_good_tail_is_cut() -> Iterator[None]:
    """What nothing vouches for is cut, though it is good."""

    def of(_: Callable[..., int]) -> Callable[..., int]:
        return lambda found, ranges, vouched: max((one.end for one in found.frames if one.end <= vouched), default=0)

    with changed(Patched.EXAMINATION_GOOD_END, of):
        yield


@fault("engine", budget=300)
def a_read_error_is_taken_for_damage() -> Iterator[None]:
    """What cannot be read once is written off."""

    def of(init: Callable[..., None]) -> Callable[..., None]:
        return lambda self, **named: init(self, **(named | {"unreadable_as_damaged": True}))

    with changed(Patched.RECOVERY_OPTIONS_INIT, of):
        yield


@fault("engine", budget=300)
def a_late_file_is_believed() -> Iterator[None]:
    """What a former owner wrote after it had lost the directory counts."""
    with changed(Patched.SURVEY_FILES_OF_PASSED_OWNERS, lambda _: lambda headers: set()):
        yield


@fault("engine", budget=300)
def files_below_the_low_water_mark_are_read() -> Iterator[None]:
    """A file that clean-up had let go of counts again when it reappears."""

    def of(decode: Callable[..., Any]) -> Callable[..., Any]:
        def decoded(data: bytes) -> Any:
            header = decode(data)
            return replace(header, low_water=1) if isinstance(header, FileHeader) else header

        return decoded

    with (
        changed(Patched.DATAFILE_DECODE_HEADER, of),
        changed(Patched.FOOTER_DECODE_HEADER, of),
        changed(Patched.EXAMINATION_LOW_WATER_OF, lambda _: lambda contents: 0),
        changed(Patched.VALIDATION_LOW_WATER_OF, lambda _: lambda contents: 0),
    ):
        yield


@fault("engine", budget=30)
def a_removal_is_forgotten_at_a_restart() -> Iterator[None]:
    """The last removal of a file is not replayed."""
    with changed(Patched.LIVE_REMOVED, lambda removed: lambda contents: removed(contents)[:-1]):
        yield


@fault("engine", budget=30)
def a_dropped_key_comes_back() -> Iterator[None]:
    """A DROP is not replayed."""

    def of(replay: Callable[..., None]) -> Callable[..., None]:
        def replayed(self: Index, contents: Any, sequence: int, rows: Any) -> None:
            replay(self, contents, sequence, rows[contents.columns["kind"][rows] != Operation.DROP])

        return replayed

    with changed(Patched.INDEX_REPLAY_KEYS, of):
        yield


@fault("engine", budget=100)
def a_moved_copy_is_not_replayed() -> Iterator[None]:
    """What compaction wrote again is forgotten at a restart."""
    with changed(Patched.INDEX_MOVE, lambda _: nothing):
        yield


@fault("engine", budget=100)
def a_frames_last_operation_is_not_replayed() -> Iterator[None]:
    """A commit's last message is left out when the index is built."""

    def of(add: Callable[..., None]) -> Callable[..., None]:
        def added(self: Index, contents: Any, sequence: int, rows: Any) -> None:
            if not len(rows):
                return
            commits = contents.columns["commit"][rows]
            is_inner = np.append(commits[1:] == commits[:-1], False)
            is_single = ~np.append(False, is_inner[:-1]) & ~is_inner
            add(self, contents, sequence, rows[is_inner | is_single])

        return added

    with changed(Patched.INDEX_ADD, of):
        yield


@fault("engine", budget=60)
def the_duplicate_window_is_forgotten_at_a_restart() -> Iterator[None]:
    """Producer identifiers are not replayed."""
    with (
        changed(Patched.DUPLICATE_WINDOW_REPLAY, lambda _: nothing),
        changed(Patched.DUPLICATE_WINDOW_LOAD, lambda _: nothing),
    ):
        yield


@fault("engine", budget=60)
def numbers_go_on_behind_what_is_undelivered() -> Iterator[None]:
    """The next message gets a number that a delivered one had."""

    def of(before: Callable[..., Any]) -> Callable[..., Any]:
        def reused(self: Any, index: Index, *, is_followed: bool) -> Any:
            last = max(index.table.last_number(), 0) if index.table.count else 0
            return replace(before(self, index, is_followed=is_followed), next_message=last + 1)

        return reused

    with changed(Patched.COUNTERS_BEFORE, of):
        yield


@fault("engine", budget=300)
def numbers_of_a_dropped_file_are_forgotten() -> Iterator[None]:
    """A start that drops a file notes nothing of how far its numbers went."""
    with changed(Patched.STARTUP_NUMBERS_OF_LOST, lambda _: lambda examined: NumberFloor()):
        yield


@fault("engine", budget=300)
def numbers_do_not_jump_after_damage() -> Iterator[None]:
    """After damage and after an open end, numbering goes on where what was found ends."""

    def of(init: Callable[..., None]) -> Callable[..., None]:
        def without(self: Any, *arguments: Any) -> None:
            init(self, *arguments)
            self._jump = 0

        return without

    with changed(Patched.COUNTERS_INIT, of):
        yield


@fault("engine", budget=600)
def numbers_jump_only_in_the_start_that_repairs() -> Iterator[None]:
    """Behind a file that a start has repaired the next one numbers on from where what is left ends."""

    def of(before: Callable[..., int]) -> Callable[..., int]:
        def jump(examined: Sequence[Examination]) -> int:
            actions = {one.decision.action for one in examined} - {Action.KEEP, Action.REMOVE}
            return before(examined) if actions else 0

        return jump

    with changed(Patched.NUMBERING_JUMP_OF, of):
        yield
