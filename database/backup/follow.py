"""A backup that follows its database: it copies each vouched-for commit within about an interval.

If the machine is lost, so is what came in the last interval, and the last group of commits. The database may be
closed, started again, taken over and cleaned up meanwhile. If that was faster than the copying, the follower copies
everything anew, and says so. It tries again what cannot be read or written for a while. It ends with an error that
will not go away by itself.

Of the file that is being written only what is new is read, and put behind the copy. What is shipped was vouched for,
frame by frame, and is read back. All else, a roll, a clean-up, a repair, another start, is for `Backup.run`:
it is asked whenever the names of the data files have changed, and whenever the frames do not go on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import xxhash

from oms_journal.database.backup.backup import Backup, BackupOptions, BackupReport
from oms_journal.journal.background import yielding
from oms_journal.journal.disk import Disk, DiskFile
from oms_journal.journal.errors import DiskError, JournalError, NothingToBackUp
from oms_journal.journal.format.footer import begins_footer
from oms_journal.journal.format.frames import FRAME_SIZE, FrameHeader, joined_checksums
from oms_journal.journal.format.headers import FRAMES_AT, Ending, FileHeader
from oms_journal.journal.format.manifest import Manifest
from oms_journal.journal.names import DataFileName
from oms_journal.journal.reading.datafile import DataFile
from oms_journal.journal.reading.walk import good_frames
from oms_journal.recovery.survey import data_files

CHUNK_BYTES = 256 << 10
LOOK_POLLS = 30  # a look at everything after so many polls that brought nothing new


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """What one poll did. Sizes in bytes."""

    manifest: Manifest | None  # of the backup as it is now
    is_new: bool = False  # it has changed
    bytes: int = 0
    lag_seconds: float = 0.0  # how old the oldest commit is that is not in the backup
    report: BackupReport | None = None  # where everything was looked at
    failure: DiskError | None = None  # it will be tried again

    def as_dict(self) -> dict[str, object]:
        known = self.manifest
        found: dict[str, object] = {"lag_seconds": round(self.lag_seconds, 6), "bytes": self.bytes}
        if known is not None:
            found |= {"sequence": known.tail.sequence, "end": known.tail.end, "commit": known.tail.commit}
        if self.report is not None:
            found["report"] = self.report.as_dict()
        if self.failure is not None:
            found["failure"] = str(self.failure)
        return found


@dataclass(slots=True)
class Follower:
    """Ships again and again. `poll` does it once."""

    backup: Backup
    options: BackupOptions = field(default_factory=BackupOptions)
    _tail: "TailReader | None" = None
    _names: list[int] = field(default_factory=list)
    _is_open: bool = False  # the database
    _is_sealed: bool = False  # the last file
    _quiet: int = 0  # polls since something came
    _stuck_at: int = -1
    _whole_at: int = 0  # when this follower knew last that the backup has all, in microseconds

    def follow(self, wait: Callable[[], bool], told: Callable[[Shipped], None]) -> None:
        """Poll until `wait`, called after each poll, says that it is over. Errors as `poll`."""
        while True:
            told(self.poll())
            if wait():
                return

    def poll(self) -> Shipped:
        """Bring the backup up to now. Errors as `Backup.run`; a DiskError is told, and tried again by the next poll."""
        try:
            with yielding():
                shipped = self._poll()
        except DiskError as failure:
            self._tail, self._names = None, []
            return Shipped(manifest=self.backup._manifest, lag_seconds=self._lag(), failure=failure)
        self._whole_at = self.options.clock() - round(shipped.lag_seconds * 1e6)
        return shipped

    def _lag(self) -> float:
        """Return how old the oldest commit is that the database has and the backup has not.

        Where the database cannot be read: how long it is since the backup was seen to have all.
        """
        source, known = self.backup._source, self.backup._manifest
        try:
            since = oldest_behind(source.disk, source.directory, known.tail if known is not None else Ending())
        except (JournalError, OSError):
            since = max(self._whole_at, known.taken_at) if known is not None else None
        return max(0.0, (self.options.clock() - since) / 1e6) if since is not None else 0.0

    def _poll(self) -> Shipped:
        source = self.backup._source
        names = [sequence for sequence, _ in data_files(source.disk, source.directory)]
        is_open = source.is_open()
        if names != self._names or is_open != self._is_open or self._quiet >= LOOK_POLLS:
            self._names, self._is_open = names, is_open
            return self._look()
        if self._is_sealed:  # nothing comes but in another file
            self._quiet += 1
            return Shipped(manifest=self.backup._manifest)
        shipped = self._ship(self._tail) if self._tail is not None else None
        return shipped if shipped is not None else self._look()

    def _look(self) -> Shipped:
        """Look at everything, and begin to ship the last file from where that ends."""
        self._tail, self._quiet, self._is_sealed = None, 0, False
        try:
            report = self.backup.run_once()
        except NothingToBackUp:
            return Shipped(manifest=self.backup._manifest, lag_seconds=self._lag())
        place, header = self.backup._place, self.backup._header
        self._is_sealed = report.manifest.files[-1].is_sealed
        if header is not None and not self.backup._is_damaged and not self._is_sealed:
            try:
                self._tail = TailReader.begun(place.disk, place.directory, report.manifest, header)
            except OSError as failure:
                raise DiskError(place.directory, failure, "read the backup in") from failure
        shipped = Shipped(manifest=report.manifest, is_new=report.is_new, bytes=report.written_bytes, report=report)
        more = self._ship(self._tail) if self._tail is not None else None
        if more is None:
            return shipped
        total = shipped.bytes + more.bytes
        return replace(more, report=report, is_new=shipped.is_new or more.is_new, bytes=total)

    def _ship(self, tail: "TailReader") -> Shipped | None:
        """Ship what has come to the last file; None where it does not go on: gone, sealed, repaired or damaged."""
        source, place = self.backup._source, self.backup._place
        known = place.manifest
        assert known is not None
        name = str(DataFileName(tail.ending.sequence))
        try:
            part = tail.read(source.disk, source.directory / name)
        except OSError as failure:
            raise DiskError(source.directory / name, failure, "read") from failure
        if part is None or part.is_over or (part.is_stuck and not part.data and self._stuck_at == tail.ending.end):
            self._tail, self._stuck_at = None, -1
            return None
        self._stuck_at = tail.ending.end if part.is_stuck and not part.data else -1
        lag = max(0.0, (self.options.clock() - part.waiting_since) / 1e6) if part.waiting_since is not None else 0.0
        if not part.data:
            self._quiet += 1
            return Shipped(manifest=known, lag_seconds=lag)
        self._quiet = 0
        place.append(known.tail.sequence, tail.ending.end, part.data)
        tail.take(part)
        changed = replace(
            known,
            tail=tail.ending,
            next_message=known.next_message + part.operations,  # no fewer than were added
            next_commit=max(known.next_commit, tail.ending.commit + 1),
            was_closed=False,
            taken_at=self.options.clock(),
            files=(
                *known.files[:-1],
                replace(known.files[-1], size=tail.ending.end, checksum=tail.content.intdigest()),
            ),
        )
        place.update(changed)
        return Shipped(manifest=changed, is_new=True, bytes=len(part.data), lag_seconds=lag)


# The end of the file that is being written.


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
        tail = cls(header, replace(known.tail, end=FRAMES_AT))
        frames = good_frames(data, 0, header, FRAMES_AT)
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
        at = frames[-1].end - start if frames else 0
        return at + FRAME_SIZE > len(data) or any(data[at : at + FRAME_SIZE])

    def _footer_follows(self, data: bytes, behind: int) -> bool:
        return begins_footer(data, behind - self.ending.end)

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
            found = _first_commit(file.file, header, tail.end if is_its else FRAMES_AT)
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
