"""One data file while it is being written: prepared, appended to, sealed.

    state      file on disk                                  who touches it
    new        its first zeros, under an unfinished name     whoever prepares
    prepared   zeros under its final name, durable           whoever prepares, then the committer
    active     headers, frames, zeros                        the committer
    rolled     the same, a successor is durable              the one who maintains the journal
    sealed     headers, frames, footer; cut to its length    nobody

A prepared file has all its blocks, so that a commit changes no metadata: writing over zeros and
syncing the data is what a disk does fastest. Its header is written together with its first group. It gets its name
when its first zeros are durable: what its blocks held before, the header of a file of that name among it, is never
there to be read.
"""

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import xxhash

from oms_journal.journal.disk import Disk, DiskFile
from oms_journal.journal.format.contents import ContentsBuilder, Ranges
from oms_journal.journal.format.footer import (
    NAME_COUNTS,
    ROW_BYTES_MAX,
    encode_footer,
    footer_size_max,
    ranges,
    row_bytes_max,
)
from oms_journal.journal.format.headers import FRAMES_AT, NUMBERS_MAX, Ending, FileHeader, align, encode_headers
from oms_journal.journal.format.records import BadRecord
from oms_journal.journal.writing.groups import Group
from oms_journal.journal.writing.single import WritePosition

ZEROS = memoryview(bytes(1 << 20))
FIRST_BYTES = 64 << 10  # how far an opening's first file is prepared before its first commit
PAGE_BYTES = 4096  # zeros end with a whole page, so that none are ever written into a sector with frames
NAME_WEIGHT_MIN = ROW_BYTES_MAX + 2  # of a draft, for each name that is new: its row, its length and one byte
HIDING = bytes(8)  # behind a footer that is not durable yet, so that the file does not end with it
SYNC_BYTES = 4 << 20  # zeros are synced in steps, so that no commit waits behind 25 megabytes of them


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed data file, as a reader without the lock wants to know it."""

    sequence: int
    identity: int
    end: int  # behind the last frame
    ranges: Ranges


class Segment:
    """The active data file. Everything but `prepare` and `seal` is the committer's alone."""

    def __init__(self, disk: Disk, path: Path, sequence: int = 0) -> None:
        self.path = path
        self.sequence = sequence  # 0 as long as it has no name of its own
        self.prepared = 0  # bytes of zeros, or more, that the file durably has
        self.failure: OSError | None = None  # of preparing; the file is as long as it will ever be
        self.header: FileHeader | None = None
        self._numbers_end = 0  # messages loaded with numbers of their own may go further than by giving them one can go
        self.is_beyond = False  # and they have
        self.is_begun = False  # its header is on disk
        self._disk = disk
        self.file: DiskFile = disk.create(path)
        self._preparing = threading.Lock()  # guards `prepared`: the committer extends when maintenance is late
        self._builder = ContentsBuilder()
        self._hasher = xxhash.xxh3_64()
        self._names: set[bytes] = set()
        self._last_names: Sequence[bytes] = ()  # of the last draft: most are about the same queue
        self._rows = 0
        self._blob_bytes = 0
        self.features = 0  # of the drafts in it

    def prepare(self, size: int) -> None:
        """Fill the file with zeros up to `size`, durably. OSError leaves it as long as it was before.

        After a failure the file is never extended again: its sync is not to be tried twice. The system
        tells every open file of a failed sync, each once. So this is done through one of its own: the
        committer's must hear of it too, since its frames may be what was lost.
        """
        size = align(size, PAGE_BYTES)
        while self.prepared < size:
            with self._preparing:
                if self.failure is not None:
                    raise self.failure
                end = max(self.prepared, min(self.prepared + SYNC_BYTES, size))
                try:
                    self._fill_with_zeros(self.prepared, end)
                except OSError as failure:
                    self.failure = failure
                    raise
                self.prepared = end

    def _fill_with_zeros(self, start: int, end: int) -> None:
        file = self._disk.open(self.path, writable=True)
        try:
            for at in range(start, end, len(ZEROS)):
                file.write(ZEROS[: min(len(ZEROS), end - at)], at)
            file.sync()
        finally:
            file.close()

    def give_name(self, path: Path, sequence: int) -> None:
        """Let the file have its own name, which is not durable yet. FileExistsError where another has it; OSError.

        It is opened under that name: under its first one the system shows it as a file that was deleted.
        """
        self._disk.link(self.path, path)
        try:
            named = self._disk.open(path, writable=True)
        except BaseException:
            with contextlib.suppress(OSError):
                self._disk.unlink(path)
            raise
        self.file.close()
        self.file = named
        unfinished, self.path, self.sequence = self.path, path, sequence
        self._disk.unlink(unfinished)

    def begin(self, header: FileHeader) -> WritePosition:
        """Make this the active file; the header goes out with the first group."""
        self.header = header
        self._numbers_end = header.next_message + NUMBERS_MAX
        return WritePosition(
            identity=header.identity,
            sequence=header.sequence,
            alignment=header.alignment,
            offset=FRAMES_AT,
            synced=0,
            next_message=header.next_message,
            next_commit=header.next_commit,
        )

    def front(self) -> bytes:
        """Return what stands before the first group."""
        assert self.header is not None
        return encode_headers(self.header)

    def room(self, size: int, features: int) -> int:
        """Return the most that drafts can weigh together, so that they and the footer take no more than `size` bytes.

        The drafts have no features but these, or the file has them. What one row is the first to have makes all rows
        longer, those before it too; so does the first name that its column has no number left for.
        """
        found = []
        for count in (count for count in NAME_COUNTS if count >= len(self._names)):
            row_bytes = row_bytes_max(name_count=count, features=self.features | features)
            room = size - footer_size_max(rows=self._rows, row_bytes=row_bytes, blob_bytes=self._blob_bytes)
            if row_bytes > ROW_BYTES_MAX:
                room = room * ROW_BYTES_MAX // row_bytes  # a draft weighs at least so much for each row
            found.append(min(room, (count - len(self._names)) * NAME_WEIGHT_MIN))
        return max(found)

    def append(self, group: Group) -> bool:
        """Write the group durably at its place, and remember it for the footer.

        True where it is the first one, which carries the header.
        """
        hasher, builder, buffers = self._hasher, self._builder, group.buffers
        begins = not self.is_begun
        if not begins:
            self.file.write_durably(buffers, group.offsets[0])
        else:
            front = self.front()
            self.file.write_durably([b"".join((front, *buffers))], 0)
            hasher.update(front)
            self.is_begun = True
        for buffer in buffers:
            hasher.update(buffer)
        builder.add_many(group.offsets, group.heads)
        for draft in group.drafts:
            shape = draft.shape
            if shape.is_rare:
                self.features |= shape.features
                self.is_beyond |= shape.numbers_end > self._numbers_end
                if shape.value_heads:
                    builder.add_value_heads(shape.value_heads)
                builder.add_payload_hashes(shape.payload_hashes)
            self._rows += shape.rows
            self._blob_bytes += shape.footer_bytes
            if shape.names is not self._last_names:
                self._take_names(shape.names)
        return begins

    def _take_names(self, names: Sequence[bytes]) -> None:
        for name in names:
            if name not in self._names:
                self._names.add(name)
                self._blob_bytes += len(name) + 1
        self._last_names = names

    def ending(self, place: WritePosition) -> Ending:
        """Return what the successor's header says of this file."""
        assert self.header is not None
        return self.header.ending(end=place.offset, commit=place.next_commit - 1, chain=self._builder.chain())

    def seal(self, end: int, successor: tuple[int, int]) -> Sealed | None:
        """Append the footer, cut the file to its true length, close it. The frames end at `end`.

        None where a reader would not understand one of the frames: then there is no footer that would hide it, and the
        next start, which walks the file, says what is lost.

        OSError. Where the footer could not be synced the file shows none: the page cache has what the disk may not
        have. A reader sees the footer when it is durable and the file ends with it. From then on a backup may have a
        link to the file, and whatever fails it is not changed any more.
        """
        assert self.header is not None
        try:
            contents = self._builder.build_checked(end, self.header)
        except BadRecord:
            self.close()
            return None
        footer = encode_footer(contents, self.header, self._hasher.intdigest(), successor)
        sealed_end = end + len(footer)
        hiding = b"" if sealed_end < self.file.size() else HIDING
        try:
            self.file.write(footer + hiding, end)
            self.file.sync()
        except OSError:
            with contextlib.suppress(OSError):
                self.file.truncate(end)
            raise
        self.file.truncate(sealed_end)
        self.file.sync()
        self.close()
        return Sealed(self.sequence, self.header.identity, end, ranges(contents))

    def close(self) -> None:
        self.file.close()

    def discard(self) -> None:
        """Remove a prepared file that was never begun; where the system refuses, the next start does it."""
        self.close()
        with contextlib.suppress(OSError):
            self._disk.unlink(self.path)


@dataclass(frozen=True, slots=True)
class Rolled:
    """A segment that has a successor and waits for its footer."""

    segment: Segment
    end: int
    successor: tuple[int, int]
