"""What a measurement found, as values. Seconds and bytes throughout; rates are per second.

Latencies come in as whole nanoseconds, as the clock gave them; figures are in seconds. Each measurement
is made in rounds that alternate with the others, so that a noisy moment hits all of them: the rate is
the median of the rounds' rates, the percentiles are those of all rounds together.

What follows from the figures: how the journal's method compares, and whether the device syncs at all. Pure.

    evidence that nothing is synced                                      since
    the file system lives in memory, or its device does                  a power cut empties it
    mounted so that it asks no device to flush, the cache not protected  it was told so
    a sync takes next to nothing more than a write without one           no device answers so fast
    syncs returned, and the device, which can count, saw no flush        its cache still has the data

One of them is enough. Syncing is never proven: the hints name who else could be cheating.

And what the option `group_alignment` is for: at its default, a group may begin in a block that holds acknowledged ones.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import geometric_mean, median
from typing import Any

from oms_journal.journal.format.headers import ALIGNMENT_MAX, ALIGNMENT_MIN
from oms_journal.journal.iotest.methods import NotHere
from oms_journal.journal.iotest.place import Device

SYNC_SECONDS_MIN = 8e-6  # the fastest devices we know of need more, and the kernel's way to them too
FLUSHED_COUNT_MIN = 20  # with fewer syncs a missing flush could be a matter of counting
SPINNING_SECONDS_MIN = 1e-3  # a disk must turn; an answer faster than this comes from its cache
NOISE = 0.10  # differences below this are not real
ROUNDS_MIN = 3  # fewer prove nothing
ROUNDS_PER_EXCEPTION = 4  # in so many rounds one may contradict
SCORED_BYTES_MAX = 64 << 10  # the sizes commits have; larger ones measure the device's bandwidth

MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs", "devtmpfs", "rootfs", "hugetlbfs")
MEMORY_DEVICES = ("ram", "zram")
UNFLUSHED_OPTIONS = ("nobarrier", "barrier=0", "volatile")
REMOTE_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "glusterfs", "lustre", "afs")


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncFacts:
    """What was seen of syncs: medians in seconds at one size, and the device's own count."""

    size: int
    synced: float
    unsynced: float
    syncs: int = 0
    flushes: int | None = None


@dataclass(frozen=True, slots=True)
class SyncVerdict:
    """Whether the device seems to sync; `evidence` says why not, `hints` who else could spoil it."""

    seems_to_sync: bool
    evidence: tuple[str, ...]
    hints: tuple[str, ...]
    facts: SyncFacts | None  # what the verdict rests on beside the place

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def judge_sync(place: Device, facts: SyncFacts | None) -> SyncVerdict:
    """Return the verdict on the place by what the system says of it and what was measured."""
    evidence = [*_evidence_of_place(place), *(_evidence_of_figures(place, facts) if facts else ())]
    return SyncVerdict(not evidence, tuple(evidence), tuple(_hints(place, facts)), facts)


def _evidence_of_place(place: Device) -> Iterable[str]:
    if place.mount is not None and place.mount.file_system in MEMORY_FILE_SYSTEMS:
        yield f"{place.mount.file_system} at {place.mount.mount_point} keeps files in memory: a power cut empties it"
    if place.device is not None and place.device.rstrip("0123456789") in MEMORY_DEVICES:
        yield f"the device {place.device} is memory: a power cut empties it"
    options = place.mount.options if place.mount is not None else ()
    for option in UNFLUSHED_OPTIONS:
        if option in options and place.write_cache != "write through":
            yield f"mounted with {option}: the file system does not ask its device to flush"


def _evidence_of_figures(place: Device, facts: SyncFacts) -> Iterable[str]:
    added = facts.synced - facts.unsynced
    if added < SYNC_SECONDS_MIN:
        yield (
            f"an append of {facts.size} bytes took {facts.synced * 1e6:.1f} µs with a sync and "
            f"{facts.unsynced * 1e6:.1f} µs without (medians): no device answers in less than "
            f"{SYNC_SECONDS_MIN * 1e6:.0f} µs"
        )
    if place.write_cache == "write back" and facts.flushes == 0 and facts.syncs >= FLUSHED_COUNT_MIN:
        yield (
            f"{facts.syncs} syncs returned, and the device {place.device}, which has a write-back cache, "
            "was not asked to flush it once"
        )


def _hints(place: Device, facts: SyncFacts | None) -> Iterable[str]:
    kind = place.mount.file_system if place.mount is not None else ""
    if kind in REMOTE_FILE_SYSTEMS or kind.startswith("fuse"):
        yield f"{kind}: whether what is behind it keeps its promise cannot be seen from here"
    if place.is_virtual_machine:
        yield "a virtual machine: whether its host keeps what was flushed cannot be seen from inside"
    elif place.is_rotational and facts is not None and facts.synced < SPINNING_SECONDS_MIN:
        yield "a disk that turns does not sync so fast: a cache answers; make sure that it survives a power cut"
    if place.write_cache == "write through":
        yield f"{place.device} says that its write cache needs no flush; that is true only of a protected one"


@dataclass(frozen=True, slots=True)
class AlignmentAdvice:
    """What the option `group_alignment` has to do with the device's physical block."""

    physical_block_size: int | None
    default: int
    needed: int | None  # with it no block is shared; None: the block is unknown, or too large for the option
    text: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def advise_alignment(place: Device) -> AlignmentAdvice:
    """Return what the option's default needs of the place, and which value does not need it."""
    block = place.physical_block_size
    size = f"{block} bytes" if block else "unknown"
    needed = block if block and block <= ALIGNMENT_MAX else None
    if needed:
        instead = f"With group_alignment={needed} that does not happen, and files are larger."
    elif block:
        instead = f"The option goes up to {ALIGNMENT_MAX}, so no value prevents that here."
    else:
        instead = f"With the block's size (up to {ALIGNMENT_MAX}) that does not happen, and files are larger."
    text = (
        f"The device's physical block: {size}. With the option group_alignment at {ALIGNMENT_MIN}, its default, oms "
        f"writes into blocks that hold acknowledged messages, which a power cut must leave old or new. {instead}"
    )
    return AlignmentAdvice(block, ALIGNMENT_MIN, needed, text)


@dataclass(frozen=True, slots=True)
class MethodRates:
    """Appends a second of one method at one size, round by round."""

    method: str
    size: int
    rates: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The journal's own method beside the fastest here. No option chooses another, so none is recommended.

    A score is the mean over the sizes of a method's rate as a share of the best rate there.
    """

    method: str  # the journal's own
    score: float | None  # None: it does not work here
    fastest: str
    fastest_score: float
    is_clear: bool  # the fastest leads by more than noise, in nearly every round
    text: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare(rates: Sequence[MethodRates], journal_method: str) -> Comparison | None:
    """Return how the journal's own method does; None when no size was measured by all."""
    by_round = _scores(rates)
    if not by_round:
        return None
    scores = {method: median(of_rounds) for method, of_rounds in by_round.items()}
    best = max(scores, key=lambda method: scores[method])
    own = by_round.get(journal_method)
    is_clear = own is None or _is_clearly_faster(by_round[best], own)
    return Comparison(
        method=journal_method,
        score=scores.get(journal_method),
        fastest=best,
        fastest_score=scores[best],
        is_clear=is_clear,
        text=_text(journal_method, best, scores)
        if is_clear
        else f"{journal_method}, and nothing is clearly faster here",
    )


def _scores(rates: Sequence[MethodRates]) -> dict[str, list[float]]:
    """Return per method and round the geometric mean of its shares of the best rate, over the sizes all have."""
    by_method: dict[str, dict[int, tuple[float, ...]]] = {}
    for each in rates:
        by_method.setdefault(each.method, {})[each.size] = each.rates
    common = set.intersection(*(set(sizes) for sizes in by_method.values())) if by_method else set()
    scored = {size for size in common if size <= SCORED_BYTES_MAX} or common
    if not scored:
        return {}
    scores: dict[str, list[float]] = {method: [] for method in by_method}
    for number in range(min(len(sizes[size]) for sizes in by_method.values() for size in scored)):
        best = {size: max(sizes[size][number] for sizes in by_method.values()) for size in scored}
        for method, sizes in by_method.items():
            scores[method].append(geometric_mean([sizes[size][number] / best[size] for size in scored]))
    return scores


def _is_clearly_faster(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Say whether more than noise is between the two in nearly every round."""
    clear = sum(mine * (1 - NOISE) > other for mine, other in zip(ours, theirs, strict=True))
    return clear >= max(len(ours) - len(ours) // ROUNDS_PER_EXCEPTION, ROUNDS_MIN)


def _text(journal_method: str, best: str, scores: dict[str, float]) -> str:
    own = scores.get(journal_method)
    if own is None:
        return f"{journal_method}, which does not work here: no database can be kept in this directory"
    share = f"{own / scores[best]:.0%}"
    return f"{journal_method}, at {share} of the rate of {best}, the fastest here; no option chooses another"


NANOSECONDS = 1_000_000_000
P999_COUNT_MIN = 1000  # with fewer the 99.9th percentile is the slowest one under another name


@dataclass(frozen=True, slots=True)
class Bucket:
    """How many latencies were from `low` to below `high`, in seconds."""

    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Timing:
    """How long single calls took, in seconds, and how many of them went through a second."""

    count: int
    rate: float
    rates: tuple[float, ...]  # of the rounds, in their order; `rate` is their median
    p50: float
    p99: float
    p999: float | None  # None: too few were measured to tell
    max: float
    histogram: tuple[Bucket, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def timing(rounds: Sequence[Sequence[int]]) -> Timing:
    """Return the figures of latencies in nanoseconds. Some round must have one."""
    measured = [latencies for latencies in rounds if latencies]
    assert measured, "nothing was measured"
    ordered = sorted(took for latencies in measured for took in latencies)
    rates = tuple(len(latencies) * NANOSECONDS / max(sum(latencies), 1) for latencies in measured)
    has_tail = len(ordered) >= P999_COUNT_MIN
    return Timing(
        count=len(ordered),
        rate=statistics.median(rates),
        rates=rates,
        p50=percentile(ordered, 500) / NANOSECONDS,
        p99=percentile(ordered, 990) / NANOSECONDS,
        p999=percentile(ordered, 999) / NANOSECONDS if has_tail else None,
        max=ordered[-1] / NANOSECONDS,
        histogram=histogram(ordered),
    )


def percentile(ordered: Sequence[int], permille: int) -> int:
    """Return the smallest of the values that at least `permille` of 1000 of them do not exceed."""
    rank = -(-len(ordered) * permille // 1000)  # rounded up, in whole numbers: no 0.999 that is a little more
    return ordered[max(rank, 1) - 1]


def histogram(latencies: Sequence[int]) -> tuple[Bucket, ...]:
    """Return the counts by powers of two microseconds, from the first that occurs to the last, gaps as 0."""
    counts = Counter(_power(took) for took in latencies)
    return tuple(
        Bucket(low=_microseconds(power), high=_microseconds(power + 1), count=counts[power])
        for power in range(min(counts), max(counts) + 1)
    )


def _power(nanoseconds: int) -> int:
    """Return -1 below one microsecond, else the power of two microseconds at or below."""
    return (nanoseconds // 1000).bit_length() - 1


def _microseconds(power: int) -> float:
    return 0.0 if power < 0 else (1 << power) / 1_000_000


def median_ratio(ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> float:
    """Return how our rate compares with theirs: the median of the ratios of rounds made side by side."""
    ratios = [
        (len(mine) * max(sum(other), 1)) / (len(other) * max(sum(mine), 1))
        for mine, other in zip(ours, theirs, strict=True)
        if mine and other
    ]
    return statistics.median(ratios)


@dataclass(frozen=True, slots=True)
class AppendResult:
    """Appends of one size by one method, one after the other."""

    method: str
    size: int
    timing: Timing

    def as_dict(self) -> dict[str, Any]:
        rate = {"bytes_per_second": self.timing.rate * self.size}
        return {"method": self.method, "size": self.size} | rate | self.timing.as_dict()


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloverResult:
    """The steps of beginning a data file, in seconds: medians of `count` files."""

    size: int
    count: int
    create: float
    fill: float  # with zeros, synced
    first_append: float
    directory_sync: float
    total: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Reading one file from start to end, in bytes a second: medians."""

    size: int
    rate: float
    rate_cached: float  # the same again, from the page cache
    was_dropped: bool  # the system was asked to forget the file before

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class JournalResult:
    """This journal, one durable commit a message, beside the bare calls it makes."""

    size: int
    timing: Timing
    raw_method: str
    raw: Timing
    ratio: float  # the journal's rate by the raw one

    def as_dict(self) -> dict[str, Any]:
        measured = {"size": self.size, "ratio": self.ratio} | self.timing.as_dict()
        return measured | {"raw_method": self.raw_method, "raw": self.raw.as_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that was found out about a directory."""

    place: Device
    free_bytes: int
    sync: SyncVerdict
    alignment: AlignmentAdvice
    comparison: Comparison | None
    appends: tuple[AppendResult, ...]
    unsynced: tuple[AppendResult, ...]
    not_here: tuple[NotHere, ...]
    rollover: RolloverResult | None
    read: ReadResult | None
    journal: tuple[JournalResult, ...]
    notes: tuple[str, ...]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON can hold it."""
        return {
            "place": self.place.as_dict() | {"free_bytes": self.free_bytes},
            "sync": self.sync.as_dict(),
            "group_alignment": self.alignment.as_dict(),
            "comparison": self.comparison.as_dict() if self.comparison else None,
            "appends": [result.as_dict() for result in self.appends],
            "unsynced": [result.as_dict() for result in self.unsynced],
            "unavailable": {each.method.name: each.reason for each in self.not_here},
            "rollover": self.rollover.as_dict() if self.rollover else None,
            "read": self.read.as_dict() if self.read else None,
            "journal": [result.as_dict() for result in self.journal],
            "notes": list(self.notes),
            "seconds": self.seconds,
        }
