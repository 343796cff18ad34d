"""What a start may find where bytes have rotted: all that the same disk without its rot holds, but what stood there.

The files are read here frame by frame, by themselves (`crash_store.py`), without recovery and footers.
Replayed without the frames that rot has hit, and with the messages damaged whose bytes it has hit, they give exactly
what must be found; and from the same follows what must be reported.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from oms_journal.journal.format.headers import align
from oms_journal.journal.format.lockfile import Witness
from oms_journal.journal.lock import read_witness
from oms_journal.journal.names import DataFileName
from oms_journal.journal.operations import LOW_WATER_KEY
from oms_journal.recovery.report import FileReport, Loss, RecoveryReport
from tests.simulation.engine.held import Places, check_held, check_listed, last_of
from tests.simulation.world import PromiseBroken
from tests.support.crashes.crash_model import SPOOL, Account, State, Unattended, state_of
from tests.support.crashes.crash_store import FrameAt, Piece, Store, headers_of
from tests.support.disks.faulty_disk import SimulatedDisk

REBUILT = "the index is what a rebuild from the files gives"
ONLY = "rot costs what it has hit, and nothing else"
REPORTED = "what rot has destroyed is reported, exactly"
FOUND = "rot is found by a start"
WHOLE_BYTES = "bytes that have rotted are handed out to nobody"
_HEADERS = ((0, 256), (4096, 4352))
_PADDING = 4096  # a loss may go up to the next group


@dataclass(slots=True)
class Hit:
    """What rot has hit in the files that count."""

    lost: list[FrameAt] = field(default_factory=list)  # promised
    cut: list[FrameAt] = field(default_factory=list)  # not vouched for, or behind such a place
    damaged: list[Piece] = field(default_factory=list)
    damaged_in: list[FrameAt] = field(default_factory=list)
    told: list[FrameAt] = field(default_factory=list)  # promised, of which a footer says what they did
    forgotten: list[FrameAt] = field(default_factory=list)  # gaps of earlier repairs, whose footer has rotted
    kept_in: list[FrameAt] = field(default_factory=list)  # a value in it has rotted, and a footer has all of it
    is_unclear: bool = False  # so much is gone that what is left depends on more than frames


@contextlib.contextmanager
def unrotted(disk: SimulatedDisk, database: Unattended, *, is_wanted: bool) -> Iterator[None]:
    """Have the database read everything as it was written, headers of the files that it has open among them."""
    if not is_wanted:
        yield
        return
    with disk.as_written():
        database._files.close()
        yield
    database._files.close()


def rotten_files(disk: SimulatedDisk) -> dict[str, list[tuple[int, int]]]:
    """Return the data files that have rotted, and where."""
    if SPOOL not in disk.directories():
        return {}
    ranges = {name: disk.rotten(SPOOL / name) for name in disk.contents(SPOOL) if name.endswith(".data")}
    return {name: found for name, found in ranges.items() if found}


def read_store(disk: SimulatedDisk, reports: Sequence[FileReport]) -> Store:
    """Return the files that count, with those frames that a start keeps."""
    ends = {report.name: report.good_end for report in reports}
    files = {name: data for name, data in disk.contents(SPOOL).items() if ends.get(name)}
    store = Store(files, Account(), witness=read_witness(disk, SPOOL))
    store.frames = [frame for frame in store.frames if frame.offset < ends[frame.name]]
    return store


def check_rebuilt(disk: SimulatedDisk, reports: Sequence[FileReport], found: State, *, with_held: bool = True) -> Store:
    """Check that what was found is what the frames add up to, read by themselves."""
    store = read_store(disk, reports)
    rebuilt = store.state() if with_held else replace(store.state(), held=found.held)
    if rebuilt != found:
        raise PromiseBroken(f"{REBUILT}\nfound {found}\nrebuilt {rebuilt}")
    return store


def hits(store: Store, rotten: dict[str, list[tuple[int, int]]], read: Mapping[str, bytes]) -> Hit:
    """Return what the rot has hit; `read`: the files with their rot.

    Where a bad frame and all behind it reads as zeros, and nothing vouches for it, nobody can tell that it was there.
    """
    hit = Hit()
    names = store.data_files()
    for name in names:
        ranges = rotten.get(name, [])
        if not ranges:
            continue
        if all(any(low < end and start < high for low, high in ranges) for start, end in _HEADERS):
            hit.is_unclear = True
        frames = store.frames_of(name)
        bad = [frame for frame in frames if _touches(ranges, frame.offset, frame.body)]
        damaged = {
            frame.offset: pieces
            for frame in frames
            if frame not in bad and (pieces := [one for one in frame.pieces if _touches(ranges, one.start, one.end)])
        }
        vouched = _vouched(store, name, rotten, [frame for frame in frames if frame not in bad])
        doubtful = [offset for offset in _beginnings(frames, bad) if offset >= vouched]
        doubtful += [offset for offset in damaged if offset >= vouched]
        zeros = max(vouched, len(read[name].rstrip(b"\0")))
        doubtful += [frame.offset for frame in bad if frame.offset >= zeros]
        cut = min(doubtful, default=1 << 60)
        hit.cut += [frame for frame in frames if frame.offset >= cut]
        is_told = has_whole_footer(store, name, ranges)
        (hit.told if is_told else hit.lost).extend(frame for frame in bad if frame.offset < cut)
        if not is_told:
            hit.forgotten += [frame for frame in frames if frame.is_gap and frame.offset < cut and frame not in bad]
        for frame in frames:
            if frame.offset < cut and frame.offset in damaged:
                hurt = [piece for piece in damaged[frame.offset] if not (is_told and piece.is_short_value)]
                hit.damaged += hurt
                (hit.damaged_in if hurt else hit.kept_in).append(frame)
    mark = LOW_WATER_KEY.decode()
    gone = [piece for frame in hit.lost + hit.cut + hit.forgotten for piece in frame.pieces] + hit.damaged
    hit.is_unclear |= any(piece.key == mark for piece in gone)
    return hit


def has_whole_footer(store: Store, name: str, ranges: Sequence[tuple[int, int]]) -> bool:
    """Say whether a file has a footer that has not rotted."""
    data = store.files[name]
    if not data.endswith(b"2ATOOFSM"):
        return False
    return not _touches(ranges, len(data) - int.from_bytes(data[-16:-8], "little"), len(data))


def never_begun(store: Store, rotten: dict[str, list[tuple[int, int]]], report: RecoveryReport) -> list[FrameAt]:
    """Return the frames of files of zeros, since the write that began them has gone elsewhere.

    Where the one before it was closed, nobody can tell such a file from one that was only prepared.
    """
    zeros = {file.name for file in report.files if file.row == "prepared"} & rotten.keys()
    return [frame for frame in store.frames if frame.name in zeros]


def given_in(frames: Sequence[FrameAt]) -> set[int]:
    """Return the numbers that were given in these frames."""
    pieces = (piece for frame in frames for piece in frame.pieces)
    return {piece.number for piece in pieces if piece.content is not None and not piece.is_moved}


def _beginnings(frames: Sequence[FrameAt], bad: Sequence[FrameAt]) -> Iterator[int]:
    """Yield where bad places begin: bad frames that follow one another are one, whatever vouches for the later ones."""
    for before, frame in zip((None, *frames), frames, strict=False):
        if frame in bad and before not in bad:
            yield frame.offset


def _touches(ranges: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    return start < end and any(low < end and start < high for low, high in ranges)


def _vouched(store: Store, name: str, rotten: dict[str, list[tuple[int, int]]], good: Sequence[FrameAt]) -> int:
    """Return what is promised of a file: all of it where its end is known, else what its good frames say."""
    is_followed, ranges = name != store.newest(), rotten.get(name, [])
    frames = store.frames_of(name)
    end = frames[-1].end if frames else 0
    has_footer = store.files[name].endswith(b"2ATOOFSM")
    size = len(store.files[name])
    footer = align(end, headers_of(store.files[name]).alignment)
    is_footer_whole = not any(high > footer and low < footer + 16 for low, high in ranges)
    is_trailer_whole = not any(high > size - 16 for _, high in ranges)
    witness = witness_of(store, name)
    is_closed = witness is not None and witness.is_of_closed
    if is_followed or is_closed or (has_footer and (is_footer_whole or is_trailer_whole)):
        return 1 << 60
    vouched = max((frame.synced for frame in good), default=0)
    return max(vouched, frames[0].offset + 1 if frames and is_named(store, name, rotten) else 0)


def witness_of(store: Store, name: str) -> Witness | None:
    """Return what the lock file says of a file; None where that is of an owner that was passed."""
    owners = [headers_of(store.files[one]).owner for one in store.data_files()]
    witness = store.witness
    is_its = witness is not None and name == str(DataFileName(witness.last.sequence))
    return witness if witness is not None and is_its and witness.owner >= max(owners) else None


def is_named(store: Store, name: str, rotten: dict[str, list[tuple[int, int]]]) -> bool:
    """Say whether the file before it says in its footer, which is whole, or the lock file that this one was begun."""
    if witness_of(store, name) is not None:
        return True
    before = [(other, data) for other, data in store.files.items() if other < name][-1:]
    if not before or not before[0][1].endswith(b"2ATOOFSM"):
        return False
    other, data = before[0]
    footer = len(data) - int.from_bytes(data[-16:-8], "little")
    is_whole = not _touches(rotten.get(other, []), footer, len(data))
    return is_whole and f"omsmsg-{int.from_bytes(data[footer + 56 :][:8], 'little'):010}.data" == name


def check_found(
    hit: Hit, store: Store, found: Unattended, *, must_tell: bool = True, is_held: Sequence[bool] = (False,)
) -> None:
    """Check what a start has found in spite of the rot, what it holds, and what it says where it `must_tell`."""
    state, gone = state_of(found), [*hit.lost, *hit.cut, *hit.forgotten]
    bytes_gone = [piece for frame in hit.told for piece in frame.pieces if not piece.is_short_value]
    expected = store.state(lost=gone, damaged=[*hit.damaged, *bytes_gone])
    if replace(state, held=expected.held) != expected:
        lost = {number: expected.messages[number] for number in expected.messages.keys() - state.messages.keys()}
        extra = {number: state.messages[number] for number in state.messages.keys() - expected.messages.keys()}
        raise PromiseBroken(f"{ONLY}\nlost {lost}\nextra {extra}\n{hit}\n{found.recovery}")
    # What is cut was promised as far as anybody can tell from the files, or not: of a removal in it nobody knows.
    places, last = Places.of(store, gone), last_of([*hit.lost, *hit.forgotten])
    check_held(state, expected, places, last, is_held)
    if must_tell:
        _check_report(found.recovery, hit, store)
        check_listed(found.recovery, state, places, last)


def check_readable(written: State, found: State) -> None:
    """Check what can be read of what was written, while rot may hide some of it."""
    messages = {n: content for n, content in found.messages.items() if written.messages.get(n) != content}
    keys = {key: value for key, value in found.keys.items() if written.keys.get(key) != value}
    if messages or keys:
        raise PromiseBroken(f"{WHOLE_BYTES}\n{messages}\n{keys}\nof {written}")


def _check_report(report: RecoveryReport, hit: Hit, store: Store) -> None:
    ranges = [loss for loss in report.lost if loss.start != loss.end]
    every = [*hit.lost, *hit.told, *hit.forgotten]
    for frame in every:
        mine = [loss for loss in ranges if loss.name == frame.name and loss.start <= frame.offset < loss.end]
        is_exact = bool(mine) and mine[0].is_exact
        # What clean-up has moved has a number that nothing before or behind it tells, only the file's own footer.
        told = [piece for piece in frame.pieces if piece.content is not None and (is_exact or not piece.is_moved)]
        numbers = [piece.number for piece in told]
        is_known = bool(mine) and (is_exact or bool(mine[0].numbers))  # nothing behind it may tell them
        if not mine or (is_known and not all(_names(mine[0], number) for number in numbers)):
            raise PromiseBroken(f"{REPORTED}\n{frame.name} at {frame.offset} with {numbers} is not in {report.lost}")
    for loss in ranges:
        mine_frames = [one for one in every if one.name == loss.name and loss.start <= one.offset < loss.end]
        covered = sum(frame.end - frame.offset for frame in mine_frames)
        start = loss.start or min((frame.offset for frame in mine_frames), default=0)  # a whole file has headers
        if not mine_frames or loss.end - start - covered >= len(mine_frames) * _PADDING:
            raise PromiseBroken(f"{REPORTED}\n{loss} was not hit: {every}")
        held = {piece.number for frame in mine_frames for piece in frame.pieces if piece.content is not None}
        if loss.is_exact and {n for first, last in loss.numbers for n in range(first, last + 1)} != held:
            raise PromiseBroken(f"{REPORTED}\n{loss} held {sorted(held)}")
    single = {(loss.name, loss.start) for loss in report.lost if loss.start == loss.end}
    known = {(frame.name, frame.offset) for frame in store.frames if not all(one.is_whole for one in frame.pieces)}
    hurt = {(frame.name, frame.offset) for frame in hit.damaged_in}
    hurt |= {
        (frame.name, frame.offset)
        for frame in hit.told
        if any(piece.key and not piece.is_short_value for piece in frame.pieces)
    }
    if not hurt <= single <= hurt | known:  # a file that is read once more tells again what was damaged before
        raise PromiseBroken(f"{REPORTED}\nbytes of messages: {sorted(single)}, {hit.damaged_in}")


def _names(loss: Loss, number: int) -> bool:
    return any(first <= number <= last for first, last in loss.numbers)
