"""`oms estimate`: the disk and memory that a planned load of units of work takes on the message database.

Nothing is looked up in a table of constants: a sample of the load is made with the engine's and the broker's own code,
in memory, as it would be in data files and after a restart, and what it takes is scaled up. The sample is the load
halved until it is small, so that tables which grow by doubling are as full in it as in the load itself. (In the place
of EntireX 9.6, Managing the Broker Persistent Store, "Estimating the Number of Records to be Stored".)
"""

import gc
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from oms_journal.cli import options, output
from oms_journal.cli.failures import Usage
from oms_journal.cli.output import age_text, counted, size_text
from oms_journal.cli.stores import engine_options

SAMPLE_MAX = 1 << 12  # units of work and statuses
FLOW_SAMPLE = 1 << 10  # units of work that come and go
SAMPLE_MESSAGES = 1 << 20
SAMPLE_BYTES = 1 << 29  # of their payloads, which are all hashed
SAMPLE_MIN = 4  # units of work, however large they are


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


def estimated(load: Load) -> Estimate:
    """Return what the load takes: within a tenth, where messages are as long as is said."""
    from oms_journal.cli.store.estimate_sample import Sample
    from oms_journal.journal.reserve import reserve_size

    doublings = _doublings(load)
    uows = Sample(load, load.uows >> doublings, 0)
    statuses = Sample(load, 0, load.statuses >> doublings)
    uow_bytes, status_bytes = uows.bytes_each(), statuses.bytes_each()
    passing = min(round(load.rate * load.cleanup_seconds), FLOW_SAMPLE, max(SAMPLE_MIN, _many(load)))
    passing_bytes = Sample(load, 0, 0, passing).bytes_each()
    live = round(load.uows * uow_bytes + load.statuses * status_bytes)
    flow = round(load.rate * load.cleanup_seconds * passing_bytes)
    dead = round(live / load.compact_share) - live if load.compact_share and load.rate else 0
    memory = _memory(load, doublings)
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


def _many(load: Load) -> int:
    """Return how many units of work are not too much for a sample."""
    return min(SAMPLE_MESSAGES // load.messages, SAMPLE_BYTES // max(1, load.messages * load.size))


def _doublings(load: Load) -> int:
    """Return how often the load is halved to be a sample."""
    found, most = 0, max(SAMPLE_MIN, _many(load))
    while (load.uows + load.statuses) >> found > SAMPLE_MAX or load.uows >> found > most:
        found += 1
    return found


def _memory(load: Load, doublings: int) -> int:
    """Return what the index and the broker's rows take after a restart."""
    fixed = _weighed(load, 0, 0)
    return fixed + (max(0, _weighed(load, load.uows >> doublings, load.statuses >> doublings) - fixed) << doublings)


def _weighed(load: Load, uows: int, statuses: int) -> int:
    from oms_journal.cli.store.estimate_sample import Sample

    sample = Sample(load, uows, statuses)
    footers, values = sample.footers(), sample.values()
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    kept = sample.restored(footers, values)
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] - before
    if not was_tracing:
        tracemalloc.stop()
    del kept
    return taken


# The command.

Uows = Annotated[int, typer.Option("--uows", min=0, metavar="N", help="Units of work waiting at a time.")]
Messages = Annotated[int, typer.Option("--messages", min=1, max=1_000_000, metavar="N", help="Messages in each.")]
Size = Annotated[str, typer.Option("--size", metavar="SIZE", help="Of a message, on average (B, K, M, G).")]
Statuses = Annotated[
    int, typer.Option("--statuses", min=0, metavar="N", help="Persistent statuses of complete ones at a time.")
]
Rate = Annotated[float, typer.Option("--rate", min=0, metavar="N", help="Units of work that come and go, a second.")]


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

    \b
    The example of the manual of another store, 100,000 units of work of 40
    messages of 59 bytes and 500,000 statuses, is
      oms estimate --uows 100000 --messages 40 --size 59 --statuses 500000
    """
    from oms_journal.database.options import parse_size

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
    found = estimated(load)
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
