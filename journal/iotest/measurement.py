"""How fast a directory makes bytes durable: `measure` writes in it, and returns a `Report`.

    phase     share of the time  what
    appends   0.60               every method at every size, in rounds that alternate
    rollover  0.10               a data file: created, filled with zeros, appended to, its name made durable
    read      0.05               the file of the last rollover, from start to end
    journal   0.25               this journal, in rounds that alternate with the bare calls it makes

All is written into one scratch directory, which is removed at the end. Time and space are bounded: a
phase stops when its time is over (what it has begun it ends), and is left out, with a note, when it
needs more than `bytes_max`.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, perf_counter_ns

from oms_journal.journal.disk import RealDisk
from oms_journal.journal.errors import DiskError, DiskFull
from oms_journal.journal.iotest.methods import (
    BLOCK,
    FLUSHED,
    METHODS,
    UNSYNCED,
    Method,
    NotHere,
    Target,
    journal_method,
    open_target,
    payload,
    read_through,
    scratch,
)
from oms_journal.journal.iotest.place import Device, flushes, look_at
from oms_journal.journal.iotest.report import (
    NANOSECONDS,
    AppendResult,
    JournalResult,
    MethodRates,
    ReadResult,
    Report,
    RolloverResult,
    SyncFacts,
    advise_alignment,
    compare,
    judge_sync,
    median_ratio,
    timing,
)
from oms_journal.journal.reserve import NO_SPACE, reserve_size

KIB, MIB = 1 << 10, 1 << 20
SIZES = (128, KIB, 4 * KIB, 64 * KIB, MIB)
JOURNAL_SIZES = (256, KIB)
TARGET_BYTES_MAX = 8 * MIB  # of each method's file
BYTES_MIN = MIB
FREE_SHARE_MAX = 0.9  # of the free space may be used
ROUNDS = 5
JOURNAL_ROUNDS = 5
REPEATS_MAX = 5  # of rollover and read
SAMPLES_MAX = 20_000  # of one method and size in one round
UNSYNCED_SAMPLES_MAX = 2_000  # enough for a comparison, and next to no time
ROLLOVER_PATIENCE_SECONDS = 2.0  # however little time there is
FILL_BYTES = 4 * MIB  # zeros are synced in such steps, as the journal does
ZEROS = memoryview(bytes(MIB))
FRAME_BYTES_MAX = 256  # what the journal adds to a message, at most
WARM_UP_SHARE = 0.2  # of the journal's time, not counted: it prepares its files
OVERTIME = 1.5  # so many times its share a phase may take before it is cut short

Append = Callable[[bytes], object]
JournalOpener = Callable[[Path], AbstractContextManager[Append]]  # a journal there, whose appends are durable
Progress = Callable[[str, float, float], None]  # stage, seconds spent, seconds there are
Samples = dict[tuple[Method, int], list[list[int]]]  # nanoseconds of each append, by round


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How long, and in how much space."""

    seconds: float = 10.0
    bytes_max: int = 256 * MIB
    data_file_size: int = 25 * MIB  # what a rollover prepares, and this journal's setting
    sizes: tuple[int, ...] = SIZES

    @property
    def target_bytes(self) -> int:
        """Return the size of each method's file."""
        share = self.bytes_max // (len(METHODS) + 1)
        return min(share, TARGET_BYTES_MAX) // BLOCK * BLOCK

    @property
    def journal_bytes(self) -> int:
        """Return what this journal takes before its first message: two data files and its reserve."""
        return 2 * self.data_file_size + reserve_size(self.data_file_size) + self.target_bytes

    def bytes_needed(self, *, has_journal: bool) -> int:
        """Return the most bytes that are on disk at any moment."""
        wanted = [self.target_bytes * (len(METHODS) + 1)]
        if self.data_file_size <= self.bytes_max:
            wanted.append(self.data_file_size)
        if has_journal and self.journal_bytes <= self.bytes_max:
            wanted.append(self.bytes_max)
        return max(wanted)


def measure(
    directory: Path, bounds: Bounds, *, journal: JournalOpener | None = None, progress: Progress | None = None
) -> Report:
    """Return what the directory's device does. DiskError when it cannot be used, DiskFull when there is no room."""
    assert bounds.bytes_max >= BYTES_MIN, "checked where the bound came in"
    try:
        place = look_at(directory)
        with scratch(directory) as room:
            free_bytes = RealDisk().free_bytes(directory)
            _check_space(directory, bounds.bytes_needed(has_journal=journal is not None), free_bytes)
            run = _Run(room.path, bounds, place, progress or (lambda stage, spent, total: None), list(room.notes))
            return run.report(free_bytes, journal)
    except OSError as failure:
        kind = DiskFull if failure.errno in NO_SPACE else DiskError
        raise kind(directory, failure, "measure") from failure


def _check_space(directory: Path, needed: int, free: int) -> None:
    if needed > free * FREE_SHARE_MAX:
        text = f"it takes up to {needed / MIB:.0f} MiB and {free / MIB:.0f} MiB are free"
        raise DiskFull(directory, OSError(NO_SPACE[0], text), "measure")


@dataclass(slots=True)
class _Appends:
    """What the first phase found."""

    samples: Samples
    not_here: list[NotHere]
    syncs: int = 0  # of FLUSHED
    flushes: int | None = None  # that the device completed meanwhile

    def results(self, *, of_unsynced: bool) -> tuple[AppendResult, ...]:
        """Return the figures, in the order of the methods."""
        return tuple(
            AppendResult(method.name, size, timing(rounds))
            for (method, size), rounds in self.samples.items()
            if any(rounds) and (method == UNSYNCED) is of_unsynced
        )


@dataclass(slots=True)
class _Run:
    """One measurement in its scratch directory."""

    room: Path
    bounds: Bounds
    place: Device
    progress: Progress
    notes: list[str]
    began: float = field(default_factory=perf_counter)

    def report(self, free_bytes: int, journal: JournalOpener | None) -> Report:
        """Measure everything, phase by phase."""
        shares = {"appends": 0.60, "rollover": 0.10, "read": 0.05, "journal": 0.25}
        if journal is None:
            shares["appends"] += shares.pop("journal")
        seconds = {phase: share * self.bounds.seconds for phase, share in shares.items()}
        appends = self._appends(seconds["appends"])
        rollover = self._rollover(seconds["rollover"])
        read = self._read(seconds["read"]) if rollover is not None else None
        beside = self._journal(seconds["journal"], journal) if journal is not None else ()
        durable, unsynced = appends.results(of_unsynced=False), appends.results(of_unsynced=True)
        return Report(
            place=self.place,
            free_bytes=free_bytes,
            sync=judge_sync(self.place, _sync_facts(durable, unsynced, appends)),
            alignment=advise_alignment(self.place),
            comparison=compare(_durable_rates(durable), journal_method().name),
            appends=durable,
            unsynced=unsynced,
            not_here=tuple(appends.not_here),
            rollover=rollover,
            read=read,
            journal=tuple(beside),
            notes=tuple(self.notes),
            seconds=perf_counter() - self.began,
        )

    def _tell(self, stage: str) -> None:
        self.progress(stage, perf_counter() - self.began, self.bounds.seconds)

    def _appends(self, seconds: float) -> _Appends:
        """Measure every method at every size."""
        with ExitStack() as opened:
            targets, not_here = self._targets(opened)
            until = perf_counter() + seconds * OVERTIME  # behind what a slow disk takes to prepare: some is measured
            sizes = [size for size in self.bounds.sizes if size <= self.bounds.target_bytes]
            samples: Samples = {(target.method, size): [] for target in targets for size in sizes}
            found = _Appends(samples, not_here)
            slice_seconds = seconds / (max(len(targets) - 1, 1) * len(sizes) * ROUNDS)
            for number in range(ROUNDS):
                for size in sizes:
                    for target in targets[number:] + targets[:number]:  # nobody always follows the same neighbour
                        if perf_counter() >= until:
                            break
                        self._append_round(found, target, size, slice_seconds)
        unmeasured = sorted({size for (_, size), rounds in samples.items() if not rounds})
        left_out = [size for size in self.bounds.sizes if size not in sizes]
        if unmeasured or left_out:
            which = ", ".join(map(str, sorted({*unmeasured, *left_out})))
            self.notes.append(f"appends of {which} bytes were not all measured; give more --seconds or --bytes")
        for target in targets:
            (self.room / _file_name(target.method)).unlink()
        return found

    def _targets(self, opened: ExitStack) -> tuple[list[Target], list[NotHere]]:
        targets: list[Target] = []
        not_here: list[NotHere] = []
        for method in (*METHODS, UNSYNCED):
            self._tell("preparing")
            target = open_target(method, self.room / _file_name(method), self.bounds.target_bytes)
            if isinstance(target, Target):
                opened.callback(target.close)
                targets.append(target)
            else:
                not_here.append(target)
        return targets, not_here

    def _append_round(self, found: _Appends, target: Target, size: int, seconds: float) -> None:
        """Measure one method at one size for one round, and count the device's flushes beside the syncs."""
        self._tell("appends")
        data = payload(target.method, size)
        target.begin()
        before = flushes(self.place) if target.method == FLUSHED else None
        count_max = UNSYNCED_SAMPLES_MAX if target.method == UNSYNCED else SAMPLES_MAX
        latencies = _sampled(lambda: target.append(data), seconds, count_max)
        found.samples[target.method, size].append(latencies)
        after = flushes(self.place) if before is not None else None
        if before is not None and after is not None:
            found.syncs += len(latencies)
            found.flushes = (found.flushes or 0) + after - before

    def _rollover(self, seconds: float) -> RolloverResult | None:
        """Measure what beginning a data file costs. Leaves the last one for `_read`."""
        if self.bounds.data_file_size > self.bounds.bytes_max:
            size = f"{self.bounds.data_file_size:,} bytes"
            self.notes.append(f"rollover and reading not measured: a data file of {size} is over --bytes")
            return None
        until = perf_counter() + seconds
        hopeless = perf_counter() + max(self.bounds.seconds, ROLLOVER_PATIENCE_SECONDS)
        files: list[tuple[int, ...]] = []
        while not files or (perf_counter() < until and len(files) < REPEATS_MAX):
            self._tell("rollover")
            (self.room / _ROLLED).unlink(missing_ok=True)
            steps = _rolled_over(self.room / _ROLLED, self.bounds.data_file_size, hopeless)
            if steps is None:
                (self.room / _ROLLED).unlink()
                self.notes.append("rollover and reading not measured: the device is too slow; give more --seconds")
                return None
            files.append(steps)
        create, fill, first, directory = (median(column) / NANOSECONDS for column in zip(*files, strict=True))
        return RolloverResult(
            size=self.bounds.data_file_size,
            count=len(files),
            create=create,
            fill=fill,
            first_append=first,
            directory_sync=directory,
            total=median(map(sum, files)) / NANOSECONDS,
        )

    def _read(self, seconds: float) -> ReadResult:
        """Measure reading the file from start to end, then again from the page cache; remove it."""
        path = self.room / _ROLLED
        until = perf_counter() + seconds
        took: list[int] = []
        dropped = False
        while not took or (perf_counter() < until and len(took) < REPEATS_MAX):
            self._tell("read")
            nanoseconds, dropped = read_through(path, drop_cached=True)
            took.append(nanoseconds)
        cached, _ = read_through(path, drop_cached=False)
        size = path.stat().st_size
        path.unlink()
        return ReadResult(
            size=size,
            rate=size * NANOSECONDS / max(median(took), 1),
            rate_cached=size * NANOSECONDS / max(cached, 1),
            was_dropped=dropped,
        )

    def _journal(self, seconds: float, journal: JournalOpener) -> list[JournalResult]:
        """Measure this journal, and in turns with it the bare calls that it makes."""
        left = self.bounds.bytes_max - self.bounds.journal_bytes
        if left < MIB:
            needed = f"{self.bounds.journal_bytes + MIB:,} bytes"
            self.notes.append(f"this journal not measured: with its reserve it takes {needed}, more than --bytes")
            return []
        raw = open_target(journal_method(), self.room / "raw", self.bounds.target_bytes)
        if isinstance(raw, NotHere):
            self.notes.append(f"this journal not measured: {raw.method.name}: {raw.reason}")
            return []
        slice_seconds = seconds * (1 - WARM_UP_SHARE) / (len(JOURNAL_SIZES) * JOURNAL_ROUNDS * 2)
        count_max = left // sum(JOURNAL_ROUNDS * (size + FRAME_BYTES_MAX) for size in JOURNAL_SIZES) // 2
        results = []
        with ExitStack() as opened:
            opened.callback(raw.close)
            append = opened.enter_context(journal(self.room / "journal"))
            message = bytes(payload(UNSYNCED, JOURNAL_SIZES[0]))
            _sampled(lambda: _timed(append, message), seconds * WARM_UP_SHARE, count_max)
            for size in JOURNAL_SIZES:
                ours, theirs = self._side_by_side(append, raw, size, (slice_seconds, count_max))
                ratio = median_ratio(ours, theirs)
                results.append(JournalResult(size, timing(ours), raw.method.name, timing(theirs), ratio))
        return results

    def _side_by_side(
        self, append: Append, raw: Target, size: int, limits: tuple[float, int]
    ) -> tuple[list[list[int]], list[list[int]]]:
        view = payload(raw.method, size)
        message = bytes(view)
        ours, theirs = [], []
        for _ in range(JOURNAL_ROUNDS):
            self._tell("journal")
            theirs.append(_sampled(lambda: raw.append(view), *limits))
            ours.append(_sampled(lambda: _timed(append, message), *limits))
        return ours, theirs


_ROLLED = "rollover"


def _file_name(method: Method) -> str:
    return method.name.replace(" ", "").replace("|", "-")


def _sampled(append: Callable[[], int], seconds: float, count_max: int) -> list[int]:
    """Return the nanoseconds of appends, one at least, until the time is over."""
    until = perf_counter() + seconds
    latencies = [append()]
    while perf_counter() < until and len(latencies) < count_max:
        latencies.append(append())
    return latencies


def _timed(append: Append, message: bytes) -> int:
    began = perf_counter_ns()
    append(message)
    return perf_counter_ns() - began


def _rolled_over(path: Path, size: int, until: float) -> tuple[int, ...] | None:
    """Begin a data file as the journal does; return the nanoseconds of each step, None when time ran out."""
    disk = RealDisk()
    marks = [perf_counter_ns()]
    file = disk.create(path)
    try:
        marks.append(perf_counter_ns())
        for start in range(0, size, FILL_BYTES):
            end = min(start + FILL_BYTES, size)
            for at in range(start, end, len(ZEROS)):
                file.write(ZEROS[: min(len(ZEROS), end - at)], at)
            file.sync()
            if perf_counter() > until:
                return None
        marks.append(perf_counter_ns())
        file.write_durably([bytes(payload(UNSYNCED, 4 * KIB))], 0)
        marks.append(perf_counter_ns())
        disk.sync_directory(path.parent)
        marks.append(perf_counter_ns())
    finally:
        file.close()
    return tuple(after - before for before, after in pairwise(marks))


def _durable_rates(results: tuple[AppendResult, ...]) -> list[MethodRates]:
    durable = {method.name for method in METHODS if method.is_durable}
    return [MethodRates(each.method, each.size, each.timing.rates) for each in results if each.method in durable]


def _sync_facts(
    durable: tuple[AppendResult, ...], unsynced: tuple[AppendResult, ...], appends: _Appends
) -> SyncFacts | None:
    """Return what was seen of the method whose sync is a call of its own, at the smallest size."""
    synced = {each.size: each.timing.p50 for each in durable if each.method == FLUSHED.name}
    plain = {each.size: each.timing.p50 for each in unsynced}
    for size in sorted(synced.keys() & plain.keys()):
        return SyncFacts(
            size=size, synced=synced[size], unsynced=plain[size], syncs=appends.syncs, flushes=appends.flushes
        )
    return None
