"""The journal: the active data file, the ones before it, and the roll from one to the next.

The committer calls `form` and `write`, one group at a time. Whoever maintains the journal calls `maintain`
beside it: that prepares the next file, seals the rolled ones and fills the reserve, so that no
commit waits for any of it.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from oms_journal.journal.disk import Disk
from oms_journal.journal.errors import DiskError, DiskFull, JournalError
from oms_journal.journal.format.frames import FRAME_SIZE
from oms_journal.journal.format.headers import ALIGNMENT_MIN, Ending, FileHeader, align
from oms_journal.journal.format.lockfile import Witness
from oms_journal.journal.operations import MIB
from oms_journal.journal.reserve import MARGIN_BYTES, NO_SPACE, Reserve, reserve_size
from oms_journal.journal.writing.draft import Draft
from oms_journal.journal.writing.groups import Group, form
from oms_journal.journal.writing.readback import unreadable
from oms_journal.journal.writing.segment import FIRST_BYTES, Sealed, Segment
from oms_journal.journal.writing.single import WritePosition
from oms_journal.journal.writing.supply import NO_SUCCESSOR, Supply

DATA_FILE_BYTES_MIN = 7680  # what stands before the first frame, and 13 times as much as an empty footer
DATA_FILE_BYTES_MAX = 16 << 30  # the index keeps offsets divided by 8 in 32 bits
_TEND_SHARE = 4  # the next file is prepared once a quarter of this one is used
_ADD_ADVICE = (
    "free some on its file system, or deliver or delete messages, which still works: "
    "the database makes room of what that frees by itself, while it is open and when it is opened"
)
_REMOVAL_ADVICE = "what was kept back for that is used up, or never had room: free some on its file system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What one opening of a directory starts from."""

    database: bytes
    owner: int
    next_sequence: int = 1
    next_message: int = 1
    next_commit: int = 1
    low_water: int = 1
    previous: Ending = field(default_factory=Ending)
    parent: bytes = bytes(16)
    parent_sequence: int = 0

    def witness(self, last: Ending) -> Witness:
        """Return what `omsmsg.lock` is to say of the newest file; of one that goes on, only that it is there."""
        return Witness(
            database=self.database,
            parent=self.parent,
            parent_sequence=self.parent_sequence,
            owner=self.owner,
            last=last,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """How the journal writes. Chance and time come in from outside."""

    random_identity: Callable[[], int]
    clock: Callable[[], int]  # microseconds since 1970-01-01 UTC
    data_file_bytes_max: int = 25 * MIB
    alignment: int = ALIGNMENT_MIN
    reads_back: bool = False  # every group, before it is written: for tests (`readback.py`)


class Journal:
    """The data files of one opening. The file is created at the first commit."""

    def __init__(self, disk: Disk, directory: Path, opening: Opening, settings: JournalSettings) -> None:
        self.directory = directory
        self.low_water = opening.low_water
        self.database = opening.database  # its identity
        self._disk = disk
        self._opening = opening
        self._settings = settings
        self.reads_back = settings.reads_back
        self._reserve = Reserve(disk, directory, reserve_size(settings.data_file_bytes_max))
        self._active: Segment | None = None
        self._place: WritePosition | None = None
        self._ready = 0  # what the active file takes without a look at it, footer included
        self._clock = settings.clock
        self._supply = Supply(disk, directory, opening.owner, opening.next_sequence)
        self._maintaining = threading.Lock()  # one at a time maintains it
        self._unvouched = False
        self._rolls_next = False
        self._maintain_at = 0  # once the active file is written up to here, maintenance is woken
        # Whether additions are refused, as far as was seen: an opening's first commit begins a file.
        self.is_full = self.is_cramped(FIRST_BYTES, of_opening=False)
        self._refused_bytes = 0  # of the largest commit that had no room last
        self.wake: Callable[[], None] = lambda: None
        self.begun: Witness | None = None  # of a file that has its first durable group, until somebody has kept it

    def on_sealed(self, call: Callable[[Sequence[Sealed]], None]) -> None:
        """Have something called for the files that were sealed, by whoever did it."""
        self._supply.on_sealed = call

    @property
    def active_sequence(self) -> int | None:
        """The sequence of the file being written, None before the first commit."""
        return None if self._active is None else self._active.sequence

    @property
    def next_message(self) -> int:
        return self._opening.next_message if self._place is None else self._place.next_message

    @property
    def last_commit(self) -> int:
        """The number of the last commit, 0 before the first file was begun."""
        return 0 if self._place is None else self._place.next_commit - 1

    @property
    def needs_vouching(self) -> bool:
        """Whether the last group is not yet vouched for by a later frame."""
        return self._unvouched

    @property
    def needs_maintenance(self) -> bool:
        """Whether there is something to prepare or seal."""
        is_behind = self._supply.has_rolled or self._wants_space() or self._wants_next()
        return is_behind or self._reserve.is_wanting or self.is_full

    def unsealed_bytes(self) -> int:
        """Return how far the active file is written."""
        return 0 if self._place is None else self._place.offset

    # The committer's side.

    def form(self, drafts: Sequence[Draft]) -> Group:
        """Return the first drafts as one group for the active file, rolling over where they don't fit.

        What waits for the next group stands in it too, and what is refused: a full disk refuses the drafts that add
        messages, while the others go on from the reserve. Where all are refused it has none.
        DiskError when space cannot be prepared for another reason.
        """
        weight = features = 0
        for draft in drafts:
            weight += draft.weight
            features |= draft.shape.features
        place = self._place
        if (
            place is not None
            and weight <= self._ready
            and not self._rolls_next
            and not self._reserve.is_short
            and not (features and (self._active is None or features & ~self._active.features))
        ):
            return form(place, drafts, self._clock(), weight)
        refused: list[tuple[Draft, JournalError]] = []
        while drafts:
            try:
                self._check_reserve(drafts)
                count = self._make_room(drafts)
                break
            except OSError as failure:
                if failure.errno not in NO_SPACE:
                    raise DiskError(self.directory, failure, "prepare space in") from failure
                adds = [draft for draft in drafts if draft.shape.has_add]
                full = self._full(failure, is_addition=bool(adds))
                refused += [(draft, full) for draft in adds]
                self._refused_bytes = max([draft.weight for draft in adds], default=self._refused_bytes)
                drafts = [draft for draft in drafts if not draft.shape.has_add]
                needed = align(sum(draft.weight for draft in drafts) + FIRST_BYTES, FIRST_BYTES)
                if not adds and not self._reserve.release(needed):
                    refused += [(draft, full) for draft in drafts]
                    drafts = []
        self.is_full = bool(refused) or (self.is_full and not any(draft.shape.has_add for draft in drafts))
        if drafts:
            assert self._place is not None
            weight = sum([draft.weight for draft in drafts[:count]])
            group = form(self._place, drafts[:count], self._clock(), weight)
            group.rest = drafts[count:]
        else:
            group = Group()
            group.drafts = group.rest = ()
        group.refused = refused
        return group

    def _full(self, failure: OSError, *, is_addition: bool) -> DiskFull:
        """Return what is said where the disk is full, and have maintenance look whether it can make room."""
        if is_addition:
            if not self.is_full:
                self.wake()
            return DiskFull(self.directory, failure, "add messages in", _ADD_ADVICE)
        return DiskFull(self.directory, failure, "remove messages, or set or drop keys, in", _REMOVAL_ADVICE)

    def _check_reserve(self, drafts: Sequence[Draft]) -> None:
        """Raise OSError where messages would take space while the reserve is short of it.

        Nor do they take what it needs where maintenance has not come to fill it yet: a disk is filled in no time.
        """
        reserve = self._reserve
        if not (reserve.is_short or reserve.is_untried) or not any(draft.shape.has_add for draft in drafts):
            return
        if not reserve.is_short and not self.is_cramped(2 * self._settings.data_file_bytes_max):
            return
        if not reserve.fill() and reserve.is_short:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.directory))

    def _make_room(self, drafts: Sequence[Draft]) -> int:
        """Return how many of the drafts the active file takes now, at least one."""
        if self._active is None or (self._rolls_next and self._active.is_begun):
            self._roll()
            self._rolls_next = False
        count = self._fitting(drafts)
        if not count and self._active is not None and self._active.is_begun:
            self._roll()
            count = self._fitting(drafts)
        count = max(1, count)  # what is larger than a file has one of its own
        self._prepare_for(drafts[:count])
        segment, place = self._active, self._place
        assert segment is not None and place is not None
        self._ready = min(self._ready, segment.prepared - place.offset) - place.alignment
        return count

    def _prepare_for(self, drafts: Sequence[Draft]) -> None:
        """Make sure that the active file has its space on disk for the drafts."""
        segment, place = self._active, self._place
        assert segment is not None and place is not None
        end = align(place.offset + sum([draft.frame_size for draft in drafts]), place.alignment)
        if end <= segment.prepared:
            return
        if segment.failure is not None and segment.failure.errno in NO_SPACE:
            # The disk was full when this file was to grow. Another one can, when there is space again.
            self._roll() if segment.is_begun else self._replace_active(segment)
            self._prepare_for(drafts)
            return
        wanted = min(2 * segment.prepared, self._settings.data_file_bytes_max)
        segment.prepare(max(end, wanted if any(draft.shape.has_add for draft in drafts) else 0))

    def _fitting(self, drafts: Sequence[Draft]) -> int:
        assert self._active is not None and self._place is not None
        segment, weight, features = self._active, self._place.alignment, 0
        size = self._settings.data_file_bytes_max - self._place.offset - weight
        self._ready = segment.room(size, features)
        for count, draft in enumerate(drafts):
            others = draft.shape.features & ~features
            room = segment.room(size, features | others) if others else self._ready
            weight += draft.weight
            if weight > room:
                return count
            self._ready, features = room, features | others
        return len(drafts)

    def _roll(self) -> None:
        """Begin the next file: the prepared one, or a short one made now."""
        segment = self._supply.take(self._settings.data_file_bytes_max)
        header = self._header(segment.sequence)
        before, end = self._active, self.unsealed_bytes()
        self._active, self._place = segment, segment.begin(header)
        if before is not None:
            self._supply.retire(before, end, (header.sequence, header.identity))
            if self._supply.is_behind:
                self._catch_up()
        self._ready = 0
        self._maintain_at = 0

    def _catch_up(self) -> None:
        """Seal what has been rolled, where files are begun faster than maintenance seals them."""
        with contextlib.suppress(DiskError):  # maintenance reports it, when it comes to the next one
            self.seal_all()

    def _replace_active(self, unused: Segment) -> None:
        """Begin another file in the place of one that no commit has come to."""
        segment = self._supply.take(self._settings.data_file_bytes_max)
        assert unused.header is not None
        identity = self._settings.random_identity()
        header = replace(unused.header, sequence=segment.sequence, identity=identity, created=self._clock())
        self._active, self._place = segment, segment.begin(header)
        self._supply.rename_successor((header.sequence, identity))
        unused.discard()
        self._ready = 0

    def _header(self, sequence: int) -> FileHeader:
        opening = self._opening
        previous = opening.previous
        message, commit = opening.next_message, opening.next_commit
        if self._active is not None and self._place is not None:
            previous = self._active.ending(self._place)
            message, commit = self._place.next_message, self._place.next_commit
        return FileHeader(
            database=opening.database,
            parent=opening.parent,
            parent_sequence=opening.parent_sequence,
            identity=self._settings.random_identity(),
            sequence=sequence,
            owner=opening.owner,
            next_message=message,
            next_commit=commit,
            low_water=self.low_water,
            created=self._clock(),
            alignment=self._settings.alignment,
            previous=previous,
        )

    def unreadable(self, group: Group) -> tuple[int, str] | None:
        """Return the first draft of a group to be written that a reader would not take, by its place, and why."""
        if not group.drafts:
            return None
        assert self._place is not None
        return unreadable(group, self._place)

    def write(self, group: Group) -> None:
        """Make the group durable and go on behind it. OSError: nobody knows what the disk has of it."""
        segment: Segment = self._active  # type: ignore[assignment]  # there is one: the group was formed for it
        place: WritePosition = self._place  # type: ignore[assignment]
        if segment.append(group):
            assert segment.header is not None
            self.begun = self._opening.witness(Ending(sequence=segment.sequence, identity=segment.header.identity))
        place.offset = place.synced = end = group.end
        place.next_message = group.next_message
        place.next_commit = group.next_commit
        if segment.is_beyond:
            self._rolls_next = True  # the next file's header tells its numbers too
        self._ready -= group.weight + group.padding
        self._unvouched = group.weight > FRAME_SIZE  # nobody needs an empty commit vouched for
        if end >= self._maintain_at:
            self._ask_for_maintenance()

    def _ask_for_maintenance(self) -> None:
        """Wake maintenance if there is something to do for it, once; it says when it wants to be asked again."""
        if self.needs_maintenance:
            self._maintain_at = 1 << 62
            self.wake()
        else:
            self._maintain_at = self._next_maintenance()

    def roll_at_next_commit(self) -> None:
        """Let the next commit begin a new file."""
        self._rolls_next = True

    # The side of maintenance.

    def maintain(self) -> None:
        """Seal what was rolled, prepare what will be needed, fill the reserve. DiskError on a fault."""
        with self._maintaining:
            try:
                self._supply.seal(self._now_active)
                self._prepare_ahead()
                is_kept_back = self._reserve.fill() or not self._reserve.is_short
                self.is_full = not is_kept_back or (self.is_full and self._is_without_room())
            except OSError as failure:
                if failure.errno not in NO_SPACE:
                    raise DiskError(self.directory, failure, "prepare files in") from failure
                self.is_full = self.is_full or self._reserve.is_short
            self._maintain_at = self._next_maintenance()
            if self.needs_maintenance:
                self._maintain_at = 0  # the committer rolled on meanwhile, before that was written over its own

    def seal_all(self) -> None:
        """Return when every rolled file is sealed."""
        with self._maintaining:
            try:
                self._supply.seal(self._now_active)
            except OSError as failure:
                raise DiskError(self.directory, failure, "seal files in") from failure

    def _is_without_room(self) -> bool:
        """Say whether there is no room for what was refused last: neither free, nor made ready already."""
        return not self._supply.has_next and self.is_cramped(FIRST_BYTES + self._refused_bytes, of_opening=False)

    def is_cramped(self, size: int, *, of_opening: bool = True) -> bool:
        """Say whether the file system has less room than the reserve lacks, and `size` bytes more. No fault is told.

        A reserve that there never was room for holds up no additions: it counts only for what an opening keeps back.
        """
        missing = self._reserve.missing() if of_opening or self._reserve.is_short else 0
        try:
            return self._disk.free_bytes(self.directory) < missing + size
        except OSError:
            return False

    def lend(self, size: int) -> None:
        """Give back what of so many bytes a file system has no room for, as far as removals do not need it. DiskError.

        For who moves messages to make room: what is lent is kept back again before messages are added.
        """
        try:
            short = size + FIRST_BYTES - self._disk.free_bytes(self.directory)
            if 0 < short <= self._reserve.size() - MARGIN_BYTES:
                self._reserve.release(short)
        except OSError as failure:
            raise DiskError(self.directory, failure, "make room in") from failure

    def _now_active(self) -> Segment | None:
        return self._active

    def _next_maintenance(self) -> int:
        """Return how far the active file is written when maintenance is needed again."""
        segment, place = self._active, self._place
        if segment is None or place is None or self.needs_maintenance:
            return 0
        limit = self._settings.data_file_bytes_max
        if segment.prepared < limit:
            return segment.prepared // 2 + 1
        return 1 << 62 if self._supply.has_next else limit // _TEND_SHARE + 1

    def _wants_space(self) -> bool:
        segment, place = self._active, self._place
        if segment is None or place is None or segment.prepared >= self._settings.data_file_bytes_max:
            return False
        return 2 * place.offset > segment.prepared

    def _wants_next(self) -> bool:
        place = self._place
        is_used = place is not None and _TEND_SHARE * place.offset > self._settings.data_file_bytes_max
        return is_used and not self._supply.has_next

    def _prepare_ahead(self) -> None:
        if self._wants_space():
            assert self._active is not None
            wanted = min(8 * self._active.prepared, self._settings.data_file_bytes_max)
            self._active.prepare(wanted)
        if self._wants_next():
            self._supply.make_ahead(self._settings.data_file_bytes_max)

    def close(self, *, seal: bool) -> Witness | None:
        """Seal the files and remove the prepared one, or after a failure only let go of them.

        Return what witnesses how the last file ends; None where nobody knows it, or there is none.
        """
        last = self._last()
        with self._maintaining:
            if self._active is not None:
                if seal and not self._active.is_begun:
                    self._active.discard()  # no commit came to it
                    self._supply.rename_successor(NO_SUCCESSOR)
                else:
                    self._supply.retire(self._active, self.unsealed_bytes(), NO_SUCCESSOR)
                self._active = self._place = None
            try:
                if seal:
                    self._supply.seal(lambda: None)
            except OSError as failure:
                raise DiskError(self.directory, failure, "seal the last file in") from failure
            finally:
                self._supply.close(is_owner=seal)
        return self._opening.witness(last) if seal and last.sequence else None

    def _last(self) -> Ending:
        """Return how the newest file ends that has a durable group."""
        segment, place = self._active, self._place
        if segment is None or place is None:
            return self._opening.previous
        assert segment.header is not None
        return segment.ending(place) if segment.is_begun else segment.header.previous

    def abandon(self) -> None:
        """Let go of the files in the child of a fork, where a lock may be held by a thread that is not there."""
        if self._active is not None:
            self._active.close()
        self._supply.abandon()
