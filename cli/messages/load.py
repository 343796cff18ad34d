"""`oms load`: adds a file or standard input as messages, in durable commits, and says how far it came."""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from oms_journal.cli import interrupts, options, output
from oms_journal.cli.failures import ExitCode, Failure, Usage, meaning
from oms_journal.cli.messages.sources import BadEntry, Entry, SourceFormat, entries, guess
from oms_journal.cli.output import age_text, counted, size_text
from oms_journal.cli.progress import ProgressBar
from oms_journal.cli.stores import database, engine_options
from oms_journal.database.database import MessageDatabase
from oms_journal.journal.errors import JournalError, OutcomeUnknown

BATCH_BYTES_MAX = 8 << 20  # a commit is formed in memory
FILE_SHARE = 4  # and does not span two files: at least so many should fit into one
OPERATIONS_MAX = 1_000_000  # of one commit, by the format


@dataclass(slots=True)
class Tally:
    """What was acknowledged so far."""

    skipped: int = 0
    messages: int = 0
    commits: int = 0
    payload_bytes: int = 0
    first: int | None = None
    last: int | None = None
    queues: Counter[str] = field(default_factory=Counter)
    since: float = field(default_factory=time.monotonic)

    def count(self, batch: list[tuple[str, Entry]], numbers: range) -> None:
        """Take in one acknowledged commit."""
        self.messages += len(batch)
        self.commits += 1
        self.payload_bytes += sum(len(entry.payload) for _, entry in batch)
        self.first = numbers[0] if self.first is None else self.first
        self.last = numbers[-1]
        self.queues.update(queue for queue, _ in batch)

    def as_dict(self) -> dict[str, Any]:
        return {
            "acknowledged": self.messages,
            "skipped": self.skipped,
            "commits": self.commits,
            "bytes": self.payload_bytes,
            "first": self.first,
            "last": self.last,
            "queues": dict(self.queues),
            "seconds": round(time.monotonic() - self.since, 6),
        }


InputFile = Annotated[
    str, typer.Argument(metavar="FILE", help="Read this file; - is standard input.", show_default=False)
]
IntoQueue = Annotated[
    str | None, typer.Option("--queue", "-q", metavar="Q", help="Add to this queue. An envelope may name another one.")
]
Format = Annotated[
    SourceFormat | None,
    typer.Option("--format", help="Cut FILE into messages in this way.  [default: by its suffix, else lines]"),
]
Batch = Annotated[
    int,
    typer.Option(
        "--batch",
        min=1,
        max=OPERATIONS_MAX,
        metavar="N",
        help="Write so many messages in one commit; fewer if they are large.",
    ),
]
Skip = Annotated[int, typer.Option("--skip", min=0, metavar="N", help="Leave out the first N messages of FILE.")]
ProducerPrefix = Annotated[
    str | None,
    typer.Option(
        "--producer-prefix",
        metavar="TEXT",
        help="Give each commit an identifier: the same load again adds nothing twice.",
    ),
]


def load(  # noqa: PLR0913
    file: InputFile,
    queue: IntoQueue = None,
    kind: Format = None,
    batch: Batch = 1000,
    skip: Skip = 0,
    producer_prefix: ProducerPrefix = None,
    spool: options.Spool = options.SPOOL_DEFAULT,
    max_data_file_size: options.MaxDataFileSize = None,
    max_message_size: options.MaxMessageSize = None,
    create: options.Create = False,
    wait: options.Wait = 0.0,
    as_json: options.AsJson = False,
) -> None:
    """Add each line, object or row of FILE as a message, durably.

    \b
    lines     each line, without its end
    ndjson    each line, checked to be JSON (.ndjson, .jsonl)
    csv       each row under a header row, as a JSON object (.csv)
    envelope  each line a JSON object with `payload` (base64) or `text`, and
              if wanted `queue`, `properties`, `producer_id`; what
              `oms receive --json` prints can be loaded again

    N messages are one commit, durable as a whole. If it stops midway, it
    says how many were acknowledged. With --skip you go on from there.
    """
    kind = kind or guess(file)
    if queue is None and kind is not SourceFormat.ENVELOPE:
        raise Usage("--queue Q is missing: the queue to load into")
    named: dict[str, Any] = {"max_data_file_size": max_data_file_size, "max_message_size": max_message_size}
    chosen = engine_options(**named)
    sizing = Sizing(batch, min(BATCH_BYTES_MAX, chosen.max_data_file_size // FILE_SHARE))
    tally = Tally(skipped=skip)
    with _opened(file) as stream, database(spool, begins=True, wait_seconds=wait, create=create, **named) as db:
        source = islice(entries(stream, kind, bytes_max=chosen.max_message_size), skip, None)
        loader = _Loader(db, tally, producer_prefix)
        with _accounted(tally), interrupts.raise_on_signals(), ProgressBar() as progress:
            total = _size(stream)
            for group in _batches(source, queue, sizing):
                loader.commit(group)
                done = _place(stream, total, tally)
                progress("load", done, total, detail=f"{tally.messages:,} messages")
    _print_done(tally, as_json=as_json)


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    if not file:
        raise Usage("FILE must be a path, or - for standard input, not an empty text")
    try:
        stream = Path(file).open("rb")  # noqa: SIM115 - a failure to open is told apart from one in the block
    except OSError as failure:
        raise Usage(f"cannot read {file}: {failure.strerror}") from failure
    with stream:
        yield stream


def _size(stream: BinaryIO) -> int:
    """Return the size in bytes of what is to be loaded, 0 when nobody knows."""
    if not stream.seekable():
        return 0
    here = stream.tell()
    size = stream.seek(0, 2)
    stream.seek(here)
    return size


def _place(stream: BinaryIO, total: int, tally: Tally) -> int:
    return stream.tell() if total else tally.payload_bytes


@dataclass(frozen=True, slots=True)
class Sizing:
    """How much goes into one commit."""

    messages: int
    payload_bytes: int


def _batches(source: Iterator[Entry], queue: str | None, sizing: Sizing) -> Iterator[list[tuple[str, Entry]]]:
    """Yield what goes into one commit; a bad line ends it, after the good ones before it."""
    batch: list[tuple[str, Entry]] = []
    size = 0
    try:
        for entry in source:
            name = entry.queue or queue
            if name is None:
                raise BadEntry(entry.line, "it names no queue, and --queue is not given")
            batch.append((name, entry))
            size += len(entry.payload)
            if len(batch) >= sizing.messages or size >= sizing.payload_bytes:
                yield batch
                batch, size = [], 0
    except BadEntry:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


class _Loader:
    """Commits batches and counts what was acknowledged."""

    def __init__(self, db: MessageDatabase, tally: Tally, producer_prefix: str | None) -> None:
        self._db = db
        self._tally = tally
        self._prefix = producer_prefix

    def commit(self, batch: list[tuple[str, Entry]]) -> None:
        """Add the batch in one commit; a signal waits until its outcome is known."""
        first = self._tally.skipped + self._tally.messages + 1
        producer = None if self._prefix is None else f"{self._prefix}-{first}"
        with interrupts.delay_signals():
            self._tally.count(batch, self._add(batch, producer))

    def _add(self, batch: list[tuple[str, Entry]], producer: str | None) -> range:
        queue = batch[0][0]
        if all(name == queue and entry.is_plain for name, entry in batch):
            return self._db.add_many(queue, [entry.payload for _, entry in batch], producer_id=producer).numbers
        with self._db.commit(producer_id=producer) as commit:
            for name, entry in batch:
                commit.add(name, entry.payload, properties=entry.properties, producer_id=entry.producer_id)
        return commit.numbers


@contextmanager
def _accounted(tally: Tally) -> Iterator[None]:
    """Make whatever stops the load say how far it came."""
    try:
        yield
    except KeyboardInterrupt as failure:
        raise _stopped("interrupted", ExitCode.INTERRUPTED, tally) from failure
    except interrupts.Stopped as failure:
        raise _stopped(f"stopped by {failure.number.name}", ExitCode(128 + failure.number), tally) from failure
    except BadEntry as failure:
        raise _stopped(str(failure), ExitCode.USAGE, tally, line=failure.line) from failure
    except (JournalError, OSError) as failure:
        meant = meaning(failure)
        more = " (perhaps one commit more)" if isinstance(failure, OutcomeUnknown) else ""
        raise _stopped(str(meant), meant.code, tally, more, **meant.facts) from failure


def _stopped(what: str, code: ExitCode, tally: Tally, more: str = "", **facts: Any) -> Failure:
    done = tally.skipped + tally.messages
    text = f"{what}; {counted(tally.messages, 'message')} acknowledged{more}, --skip {done} goes on from there"
    return Failure(text, code, acknowledged=tally.messages, skip=done, **facts)


def _print_done(tally: Tally, *, as_json: bool) -> None:
    if as_json:
        output.print_json(tally.as_dict())
        return
    seconds = time.monotonic() - tally.since
    queues = ", ".join(sorted(tally.queues)) if len(tally.queues) <= 3 else f"{len(tally.queues):,} queues"
    where = f" to {queues}" if tally.messages else ""
    output.print_line(
        f"{counted(tally.messages, 'message')} ({size_text(tally.payload_bytes)}) added{where} in "
        f"{counted(tally.commits, 'commit')}, {age_text(seconds)}: "
        f"{tally.messages / max(seconds, 1e-9):,.0f} messages/s"
    )
    if tally.messages:
        output.print_line(f"numbers {tally.first} to {tally.last}")
