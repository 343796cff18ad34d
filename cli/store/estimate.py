"""`oms estimate`: the disk and memory that a planned load of units of work takes on the message database.

Nothing is looked up in a table of constants: a sample of the load is written into a real store in a temporary
directory. What its data files take, and what a restart keeps of it in memory, is scaled up. The sample is the load
halved until it is small, so that tables which grow by doubling are as full in it as in the load itself; where messages
are large, or many in each unit of work, it has smaller and fewer ones, and what they take is counted with. (In the
place of EntireX 9.6, Managing the Broker Persistent Store, "Estimating the Number of Records to be Stored".)
"""

import gc
import itertools
import logging
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from oms_journal.broker.codes import BrokerError
from oms_journal.broker.drivers.journal import JournalStore
from oms_journal.broker.kernel.restart.restore import restore
from oms_journal.broker.queues import ServiceQueue
from oms_journal.broker.records import UOW, UOWS, Flag, Status, UowRecord, identifier
from oms_journal.broker.store.changes import Changes, NewMessage, Put
from oms_journal.broker.store.start import Pstore, StoreError, StoreFull, StoreStart, start_store
from oms_journal.cli import interrupts, options, output
from oms_journal.cli.failures import ExitCode, Failure, Usage
from oms_journal.cli.output import age_text, counted, size_text
from oms_journal.cli.stores import engine_options
from oms_journal.database.options import Options, parse_size
from oms_journal.journal.errors import JournalError
from oms_journal.journal.format.headers import FRAMES_AT
from oms_journal.journal.reserve import NO_SPACE, reserve_size

SAMPLE_MAX = 1 << 11  # units of work and statuses
SAMPLE_MESSAGES = 1 << 17
SAMPLE_BYTES = 1 << 22  # of their payloads
SAMPLE_FILE = 1 << 20  # a data file, if those of the load are not smaller
FLOW_SAMPLE = 1 << 8  # units of work that come and go
MESSAGES_MAX = 1 << 10  # of a unit of work of the sample
MESSAGE_ROOM = 1 << 8  # bytes that a message takes beside its payload, at most
UOW_FILE_SHARE = 4  # a unit of work of the sample takes at most such a part of a data file
BEGUN = 1_700_000_000_000_000  # microseconds since 1970 UTC
APART_MICROSECONDS = 10_000  # one unit of work and the next
SENDERS = 10
COMMITS_AT_ONCE = 100
FIRST_AT = UOW.offset("first")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is planned. Sizes in bytes."""

    uows: int  # waiting at a time
    messages: int = 1  # of each
    size: int = 1000  # of each message
    statuses: int = 0  # persistent statuses of complete units of work, at a time
    rate: float = 0.0  # units of work that come and go, a second
    data_file_bytes: int = 25 << 20
    cleanup_seconds: float = 1800.0
    compact_share: float = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What it takes, in bytes."""

    uow_bytes: float  # in data files, for one that waits
    status_bytes: float  # likewise for one status
    passing_bytes: float  # likewise for one that comes and goes, until clean-up
    live_bytes: int  # of all that is needed
    dead_bytes: int  # at most, of what is done with and still among it: clean-up moves what pins it when it is more
    flow_bytes: int  # of what comes and goes between two clean-ups
    ready_bytes: int  # prepared for what comes next
    reserve_bytes: int  # kept back for a full disk
    files: int  # at most
    uow_memory: float
    memory: int

    @property
    def disk(self) -> int:
        """The most that the directory takes."""
        return self.live_bytes + self.dead_bytes + self.flow_bytes + self.ready_bytes + self.reserve_bytes


def estimate_load(load: Load) -> Estimate:
    """Return what the load takes: within a tenth, where messages are as long as is said. Failure."""
    shape = _Shape.of(load)
    uows, statuses = min(load.uows, max(1, load.uows >> shape.doublings)), load.statuses >> shape.doublings
    passing = min(round(load.rate * load.cleanup_seconds), FLOW_SAMPLE, max(1, shape.uows_max))
    with _sample(shape) as sample:
        empty = sample.memory()
        uow_bytes = shape.whole(sample.add(uows, Status.ACCEPTED))
        of_uows = sample.memory() - empty
        status_bytes = sample.add(statuses, Status.PROCESSED)
        of_statuses = sample.memory() - empty - of_uows if statuses else 0
        passing_bytes = shape.whole(sample.pass_through(passing, has_statuses=load.statuses > 0))
    of_all_uows = max(0, of_uows) * shape.messages_share * load.uows / max(1, uows)
    memory = round(of_all_uows) + (max(0, of_statuses) << shape.doublings)
    live = round(load.uows * uow_bytes + load.statuses * status_bytes)
    flow = round(load.rate * load.cleanup_seconds * passing_bytes)
    dead = round(live / load.compact_share) - live if load.compact_share and load.rate else 0
    return Estimate(
        uow_bytes=uow_bytes,
        status_bytes=status_bytes,
        passing_bytes=passing_bytes,
        live_bytes=live,
        dead_bytes=dead,
        flow_bytes=flow,
        ready_bytes=2 * load.data_file_bytes,
        reserve_bytes=reserve_size(load.data_file_bytes),
        files=-(-(live + dead + flow) // load.data_file_bytes) + 2,
        uow_memory=memory / max(1, load.uows + load.statuses),
        memory=memory,
    )


# The sample.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """How much smaller the sample is than the load."""

    load: Load
    file_bytes: int
    messages: int  # of each unit of work
    size: int  # of each message
    doublings: int  # so often the units of work and statuses are halved

    @classmethod
    def of(cls, load: Load) -> "_Shape":
        file_bytes = min(load.data_file_bytes, SAMPLE_FILE)
        messages = min(load.messages, MESSAGES_MAX, max(1, file_bytes // UOW_FILE_SHARE // MESSAGE_ROOM))
        size = min(load.size, file_bytes // UOW_FILE_SHARE // messages)
        found = 0
        while (load.uows + load.statuses) >> found > SAMPLE_MAX or load.uows >> found > SAMPLE_MESSAGES // messages:
            found += 1
        size = min(size, SAMPLE_BYTES // messages // max(1, load.uows >> found))
        return cls(load=load, file_bytes=file_bytes, messages=messages, size=size, doublings=found)

    @property
    def uows_max(self) -> int:
        """How many units of work are not too much for a sample."""
        return min(SAMPLE_MESSAGES // self.messages, SAMPLE_BYTES // max(1, self.messages * self.size))

    @property
    def messages_share(self) -> float:
        """How many times the messages of the sample's units of work a real one has."""
        return self.load.messages / self.messages

    def whole(self, uow_bytes: float) -> float:
        """Return what a real unit of work takes where one of the sample takes so much."""
        return uow_bytes and (uow_bytes + (self.load.size - self.size) * self.messages) * self.messages_share


@contextmanager
def _sample(shape: _Shape) -> Iterator["_Sample"]:
    """Yield an empty store in a temporary directory, which is removed. Failure where it cannot be written."""
    log, unheard = logging.getLogger("oms"), logging.NullHandler()
    log.addHandler(unheard)  # what there is to say of the sample is said below
    try:
        with interrupts.raise_on_signals(), tempfile.TemporaryDirectory(prefix="oms-estimate-") as place:
            yield _Sample(Path(place), shape)
    except (BrokerError, StoreError, JournalError, OSError) as failure:
        why = "there is no room" if isinstance(failure, StoreFull) or _is_full(failure) else str(failure)
        text = f"a small sample of the load cannot be written into a temporary directory: {why}"
        raise Failure(f"{text}; TMPDIR=DIR gives another place for it", ExitCode.UNUSABLE) from failure
    finally:
        log.removeHandler(unheard)


def _is_full(failure: BaseException | None) -> bool:
    """Say whether the system, at the bottom of the failure, had no room."""
    while failure is not None:
        system = getattr(failure, "failure", failure)
        if isinstance(system, OSError) and system.errno in NO_SPACE:
            return True
        failure = failure.__cause__
    return False


class _Sample:
    """A store to which units of work are added as a broker does it."""

    def __init__(self, directory: Path, shape: _Shape) -> None:
        self._directory = directory
        self._shape = shape
        moments = itertools.count(BEGUN, COMMITS_AT_ONCE * APART_MICROSECONDS)  # as far apart as those of the load
        self._options = Options(
            max_data_file_size=shape.file_bytes,
            cleanup_interval=0,
            compact_share=0,
            clock=moments.__next__,
        )
        self._count = 0
        name = "N" * 8
        self._service = ServiceQueue(name, name, name)
        with self._opened() as store:
            start_store(store, StoreStart(broker_id="ESTIMATE", pstore=Pstore.COLD, now=BEGUN))
        self.memory()  # what the first start of all imports and keeps is no store's

    def _opened(self) -> "closing[JournalStore]":
        return closing(JournalStore.open(self._directory, self._options))

    def memory(self) -> int:
        """Return how many bytes a restart keeps."""
        with interrupts.delay_signals():  # what a collection of garbage calls would swallow a Ctrl-C
            return self._memory()

    def _memory(self) -> int:
        was_tracing = tracemalloc.is_tracing()
        if not was_tracing:
            tracemalloc.start()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        with self._opened() as store:
            kept = restore(store, now=BEGUN)
            gc.collect()
            taken = tracemalloc.get_traced_memory()[0] - before
            del kept
        if not was_tracing:
            tracemalloc.stop()
        return taken

    def add(self, count: int, status: Status) -> float:
        """Add so many that wait, or whose status is kept; return what one takes in data files."""
        uows = self._uows(count, status)
        with self._growing(count) as (store, grown):
            _commit(store, map(self._added if status is Status.ACCEPTED else _put, uows))
        return grown()

    def pass_through(self, count: int, *, has_statuses: bool) -> float:
        """Let so many come and go; return what one takes in data files.

        Of one with persistent status each SEND and each new status is a commit.
        """
        uows = self._uows(count, Status.ACCEPTED)

        def status(status: Status) -> Iterator[Changes]:
            return (_put(uow._replace(status=status)) for uow in uows)

        with self._growing(count) as (store, grown):
            for _ in range(self._shape.messages - 1 if has_statuses else 0):
                _commit(store, status(Status.RECEIVED))
            firsts = _commit(store, map(self._added, uows))
            delivered = [[range(first, first + self._shape.messages)] for first in firsts]
            drops = [[UOWS + uow.uowid] for uow in uows]
            if has_statuses:
                _commit(store, status(Status.DELIVERED))
                ends = zip(status(Status.PROCESSED), delivered, strict=True)
                _commit(store, (replace(changes, delivered=numbers) for changes, numbers in ends))
                _commit(store, (Changes(drops=keys) for keys in drops))
            else:
                of_both = zip(delivered, drops, strict=True)
                _commit(store, (Changes(delivered=numbers, drops=keys) for numbers, keys in of_both))
        return grown()

    @contextmanager
    def _growing(self, count: int) -> Iterator[tuple[JournalStore, Callable[[], float]]]:
        """Yield the store, and what returns afterwards by how much its data files have grown for each of so many."""

        def size() -> int:
            # Without what stands before the first frame: in a large file that is nothing.
            return sum(max(0, path.stat().st_size - FRAMES_AT) for path in self._directory.glob("*.data"))

        before = size()
        with self._opened() as store:
            yield store, lambda: (size() - before) / count if count else 0.0

    def _uows(self, count: int, status: Status) -> list[UowRecord]:
        shape, (server_class, server_name, service, _) = self._shape, self._service
        is_waiting = status is Status.ACCEPTED
        places = range(self._count, self._count + count)
        self._count += count
        return [
            UowRecord(
                uowid=identifier((1 << 60) + (1 << 32) + 2 * place + 2),
                conv_id=identifier((1 << 60) + (1 << 32) + 2 * place + 1),
                status=status,
                flags=Flag.PERSISTENT | Flag.FIRST | (Flag(0) if is_waiting else Flag.STATUS_PERSISTENT),
                uwstatp=0 if is_waiting else 1,
                messages=shape.messages,
                lifetime=86_400,
                size=shape.messages * shape.size,
                created=BEGUN + APART_MICROSECONDS * place,
                committed=BEGUN + APART_MICROSECONDS * place + 50,
                begun=BEGUN + APART_MICROSECONDS * place + 50,
                changed=BEGUN + APART_MICROSECONDS * place + 50,
                first=1 + place * shape.messages,
                ends=86_400_000_000 + APART_MICROSECONDS * place,
                sender_user="U" * 8,
                sender_token=f"T{place % SENDERS:07}",
                receiver_class=server_class,
                receiver_server=server_name,
                receiver_service=service,
            )
            for place in places
        ]

    def _added(self, uow: UowRecord) -> Changes:
        messages = [NewMessage(str(self._service), bytes(self._shape.size))] * self._shape.messages
        return Changes(adds=messages, puts=[Put(UOWS + uow.uowid, UOW.encode(uow), {FIRST_AT: 0})])


def _put(uow: UowRecord) -> Changes:
    return Changes(puts=[Put(UOWS + uow.uowid, UOW.encode(uow))])


def _commit(store: JournalStore, commits: Iterator[Changes]) -> list[int]:
    """Make each a commit; return the numbers of their first messages. StoreError."""
    numbers = []
    while batch := list(itertools.islice(commits, COMMITS_AT_ONCE)):
        for answer in store.commit_many(batch):
            if isinstance(answer, StoreError):
                raise answer
            numbers.append(answer)
    return numbers


# The command.

Uows = Annotated[int, typer.Option("--uows", min=0, metavar="N", help="How many units of work wait at the same time.")]
Messages = Annotated[
    int, typer.Option("--messages", min=1, max=1_000_000, metavar="N", help="How many messages each unit of work has.")
]
Size = Annotated[str, typer.Option("--size", metavar="SIZE", help="The average size of a message (B, K, M, G).")]
Statuses = Annotated[
    int,
    typer.Option(
        "--statuses",
        min=0,
        metavar="N",
        help="How many complete units of work the store still knows the status of.",
    ),
]
Rate = Annotated[
    float, typer.Option("--rate", min=0, metavar="N", help="How many units of work come and go in a second.")
]


def estimate(  # noqa: PLR0913
    uows: Uows,
    messages: Messages = 1,
    size: Size = "1000",
    statuses: Statuses = 0,
    rate: Rate = 0.0,
    max_data_file_size: options.MaxDataFileSize = None,
    as_json: options.AsJson = False,
) -> None:
    """Say how much disk and memory a load of units of work takes.

    A unit of work is a group of messages that a broker hands out as a whole. oms writes a sample of the load into a
    temporary directory, measures it, and scales the figures up. It needs no database, and changes none.

    \b
    For 100,000 units of work of 40 messages of 59 bytes, and 500,000 statuses:
      oms estimate --uows 100000 --messages 40 --size 59 --statuses 500000
    """
    try:
        message_bytes = parse_size(size)
    except ValueError as failure:
        raise Usage(f"--size: {failure}") from failure
    chosen = engine_options(max_data_file_size=max_data_file_size)
    load = Load(
        uows=uows,
        messages=messages,
        size=message_bytes,
        statuses=statuses,
        rate=rate,
        data_file_bytes=chosen.max_data_file_size,
        cleanup_seconds=chosen.cleanup_interval,
        compact_share=chosen.compact_share,
    )
    found = estimate_load(load)
    if as_json:
        output.print_json({"load": asdict(load), "estimate": asdict(found) | {"disk": found.disk}})
    else:
        _print(load, found)


def _print(load: Load, found: Estimate) -> None:
    columns = (
        output.Column("calculation factors"),
        output.number_column("each"),
        output.number_column("required space"),
    )
    output.print_table(columns, _rows(load, found))
    output.print_line(f"Disk: {size_text(found.disk)} at most, in up to {counted(found.files, 'data file')}.")
    output.print_line(f"Memory: {size_text(found.memory)} beside the program's own.")


def _rows(load: Load, found: Estimate) -> Iterator[Sequence[str]]:
    of_messages = f"{counted(load.messages, 'message')} of {load.size:,} bytes"
    for count, what, each in (
        (load.uows, f"units of work waiting, {of_messages} each", found.uow_bytes),
        (load.statuses, "persistent statuses", found.status_bytes),
    ):
        yield f"{count:,} {what}", f"{each:,.0f} B", size_text(count * each)
    if load.rate:
        yield "what is done with, until clean-up moves what pins it", "", size_text(found.dead_bytes)
        every = age_text(load.cleanup_seconds)
        what = f"{load.rate:g} units of work a second, between clean-ups every {every}"
        yield what, f"{found.passing_bytes:,.0f} B", size_text(found.flow_bytes)
    yield (
        "the file being written and the next one, prepared",
        size_text(load.data_file_bytes),
        size_text(found.ready_bytes),
    )
    yield "reserve, for consuming on a full disk", "", size_text(found.reserve_bytes)
    yield "memory, after a restart", f"{found.uow_memory:,.0f} B", size_text(found.memory)
