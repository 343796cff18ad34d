"""The door for other processes: adds over the socket beside adds in the process that has the database.

Both by turns: threads of this process, and as many processes that each have a client. This process serves them, so that
its CPU is the server's.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.callers import QUEUE, many_threads, scratch
from bench.measure import Row, Settings, alternate_rates, rate_text
from oms_journal import MessageDatabase, serve_queue

SIZE = 256
CLIENTS = (1, 16)
# A producer: it adds for as many seconds as a line says, and answers how many messages that were.
PRODUCER = f"""
import sys, time
from oms_journal import connect_queue
db, payload = connect_queue(sys.argv[1]), bytes({SIZE})
print(flush=True)
for line in sys.stdin:
    count, end = 0, time.perf_counter() + float(line)
    while time.perf_counter() < end:
        db.add({QUEUE!r}, payload)
        count += 1
    print(count, flush=True)
"""


def door(settings: Settings) -> Iterator[Row]:
    """A row for each number of clients."""
    for clients in CLIENTS:
        yield _measured(settings, clients)


def _measured(settings: Settings, clients: int) -> Row:
    payload = bytes(SIZE)
    spent: list[tuple[float, float]] = []  # CPU of the server, and calls
    with ExitStack() as stack:
        database = stack.enter_context(MessageDatabase.open(scratch(settings.directory, "db")))
        # The path of a socket is short, and that of where to measure may be long.
        short = stack.enter_context(tempfile.TemporaryDirectory(prefix="oms-"))
        path = Path(short) / "q.sock"
        stack.enter_context(serve_queue(database, path))
        producers = [stack.enter_context(_producer(path)) for _ in range(clients)]

        def over_the_socket(seconds: float) -> float:
            before, began = time.process_time(), time.perf_counter()
            count = _added(producers, seconds)
            taken = time.perf_counter() - began
            spent.append((time.process_time() - before, count))
            return count / taken

        found = alternate_rates(
            settings,
            lambda seconds: many_threads(lambda: database.add(QUEUE, payload), clients, seconds),
            over_the_socket,
        )
    cpu, calls = map(sum, zip(*spent, strict=True))
    return Row(
        name=f"door-{clients}",
        what=f"add over the socket, {clients} client{'s' * (clients > 1)} of {SIZE} B, to {clients} in the process",
        measured=found.ratios,
        raw=rate_text(found.raw, "/s in the process"),
        ours=f"{rate_text(found.ours, '/s')}, {1e6 * cpu / calls:.0f} µs of the server's CPU a call",
    )


@contextmanager
def _producer(path: Path) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", PRODUCER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def _added(producers: "Sequence[subprocess.Popen[str]]", seconds: float) -> int:
    """Let all add for so long; return how many messages that were."""
    for producer in producers:
        assert producer.stdin is not None
        producer.stdin.write(f"{seconds}\n")
        producer.stdin.flush()
    return sum(int(producer.stdout.readline()) for producer in producers if producer.stdout is not None)
