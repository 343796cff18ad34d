"""The end of the file that is being written, shipped as it comes: only what is new is read, and put behind the copy.

What is shipped was vouched for, frame by frame, and is read back. All else, a roll, a clean-up, a repair, a start by
another process, is for `Backup.run`: whoever follows asks it whenever the names of the data files have changed,
and whenever the frames do not go on here.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

import xxhash

from oms_journal.journal.disk import Disk, DiskFile
from oms_journal.journal.format.footer import begins_footer
from oms_journal.journal.format.frames import FRAME_SIZE, FrameHeader, decode_frame, joined_checksums
from oms_journal.journal.format.headers import Ending, FileHeader, align
from oms_journal.journal.format.manifest import Manifest
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.datafile import DataFile
from oms_journal.recovery.survey import data_files

CHUNK_BYTES = 256 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TailPart:
    """What has come to the file: its bytes, and how the file ends with them."""

    data: bytes
    ending: Ending
    operations: int  # that the part holds
    waiting_since: int | None  # time of the first commit that is not vouched for yet, in microseconds
    is_stuck: bool  # behind it stands what is neither a frame nor zeros
    is_over: bool  # behind it stands a footer


@dataclass(slots=True)
class TailReader:
    """Where the shipping of one file has got to. Made by `begun`."""

    header: FileHeader
    ending: Ending
    chain: "xxhash.xxh3_64" = field(default_factory=xxhash.xxh3_64)
    content: "xxhash.xxh3_64" = field(default_factory=xxhash.xxh3_64)

    @classmethod
    def begun(cls, disk: Disk, directory: Path, known: Manifest, header: FileHeader) -> "TailReader | None":
        """Return where the backup's last file ends; None where its frames are not as its manifest says. OSError."""
        file = disk.open(directory / str(DataFileName(known.tail.sequence)))
        try:
            data = file.read(known.tail.end, 0)
        finally:
            file.close()
        tail = cls(header, replace(known.tail, end=header.start()))
        frames = good_frames(data, 0, header, header.start())
        tail.chain.update(joined_checksums(frames))
        tail.content.update(data)
        tail.ending = known.tail
        is_whole = tail.chain.intdigest() == known.tail.chain and frames and frames[-1].end == known.tail.end
        return tail if is_whole else None

    def read(self, disk: Disk, path: Path) -> TailPart | None:
        """Return what the file has behind what was shipped; None when it has gone. OSError."""
        try:
            file = disk.open(path)
        except FileNotFoundError:
            return None
        start = self.ending.end
        try:
            data = file.read(CHUNK_BYTES, start)
            frames = good_frames(data, start, self.header, start)
            while len(data) and self._goes_on(data, frames) and (more := file.read(len(data), start + len(data))):
                data += more
                frames = good_frames(data, start, self.header, start)
        finally:
            file.close()
        vouched = max((frame.synced for frame in frames), default=0)
        mine = [frame for frame in frames if frame.offset < vouched]
        waiting = [frame.time for frame in frames if frame.offset >= vouched and frame.operations]
        end = mine[-1].end if mine else start
        behind = frames[-1].end if frames else start
        rest = data[behind - start : behind - start + FRAME_SIZE]
        return TailPart(
            data=data[: end - start],
            ending=self._ending_with(mine),
            operations=sum(frame.operations for frame in mine),
            waiting_since=min(waiting, default=None),
            is_stuck=any(rest),
            is_over=self._footer_follows(data, behind),
        )

    def _goes_on(self, data: bytes, frames: list[FrameHeader]) -> bool:
        """Say whether what was read ends in the middle of a frame."""
        start = self.ending.end
        at = align(frames[-1].end if frames else start, self.header.alignment) - start
        return at + FRAME_SIZE > len(data) or any(data[at : at + FRAME_SIZE])

    def _footer_follows(self, data: bytes, behind: int) -> bool:
        at = align(behind, self.header.alignment) - self.ending.end
        return begins_footer(data, at)

    def _ending_with(self, frames: list[FrameHeader]) -> Ending:
        if not frames:
            return self.ending
        chain = self.chain.copy()
        chain.update(joined_checksums(frames))
        return replace(self.ending, end=frames[-1].end, commit=frames[-1].commit, chain=chain.intdigest())

    def take(self, part: TailPart) -> None:
        """Note that a part was shipped."""
        frames = good_frames(part.data, self.ending.end, self.header, self.ending.end)
        self.chain.update(joined_checksums(frames))
        self.content.update(part.data)
        self.ending = part.ending


def oldest_behind(disk: Disk, directory: Path, tail: Ending) -> int | None:
    """Return the time of a database's oldest commit behind an ending, None where there is none. DiskError, OSError."""
    for sequence, path in data_files(disk, directory):
        if sequence < tail.sequence:
            continue
        with DataFile(disk, path) as file:
            header = file.header()
            if not isinstance(header, FileHeader):
                continue
            is_its = (sequence, header.identity) == (tail.sequence, tail.identity)
            found = _first_commit(file.file, header, tail.end if is_its else header.start())
        if found is not None:
            return found
    return None


def _first_commit(file: DiskFile, header: FileHeader, at: int) -> int | None:
    """Return the time of the first commit of a file from `at` on that does more than vouch."""
    size = CHUNK_BYTES
    while True:
        data = file.read(size, at)
        frames = good_frames(data, at, header, at)
        found = next((frame.time for frame in frames if frame.operations), None)
        if found is not None:
            return found
        if frames:
            at, size = frames[-1].end, CHUNK_BYTES
        elif len(data) == size and any(data):  # a frame may be longer than what was read
            size *= 2
        else:
            return None


def good_frames(data: bytes, base: int, header: FileHeader, start: int) -> list[FrameHeader]:
    """Return the good frames from `start` on, up to the first place that holds none; `data` begins at `base`."""
    found: list[FrameHeader] = []
    at = start
    while True:
        frame = decode_frame(data, at, identity=header.identity, base=base)
        if not isinstance(frame, FrameHeader):
            following = align(at, header.alignment)
            if following == at or any(data[at - base : following - base]):
                return found
            at = following
            continue
        found.append(frame)
        at = frame.end
