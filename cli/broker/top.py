"""`oms top`: shows a running broker on a terminal, and refreshes the figures.

On a terminal that can, the view takes the whole window and is drawn in place; on a dumb one, or in a pipe, one view
follows the other. What is counted is shown as a rate between two looks.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from oms_journal.cli import options, output
from oms_journal.cli.broker import operator
from oms_journal.cli.broker.queries import milliseconds
from oms_journal.cli.failures import Failure
from oms_journal.cli.output import age_text, printable, size_text

LOOK_SECONDS = 0.1  # between two looks whether somebody wants to end it
SERVICES_MAX = 1000  # asked for
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # the other screen, without a cursor
HOME, TO_THE_END, LINE_END = "\x1b[H", "\x1b[J", "\x1b[K"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one look has found."""

    moment: float  # seconds of a clock that only goes forward
    broker: Mapping[str, Any]
    statistics: Mapping[str, Any]
    latency: Mapping[str, Any]
    services: Sequence[Mapping[str, Any]]
    topics: Sequence[Mapping[str, Any]]


def top(  # noqa: PLR0913 - the command line's options
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.2, metavar="SECONDS", help="Look again after so many seconds.")
    ] = 2,
    count: Annotated[
        int, typer.Option("--count", "-n", min=0, metavar="N", help="End after so many looks; 0: go on until stopped.")
    ] = 0,
    broker: operator.Broker = operator.BROKER_DEFAULT,
    user: operator.User = "",
    password: operator.Password = "",
    ca_file: operator.CaFile = "",
    as_json: options.AsJson = False,
) -> None:
    """Watch a running broker: services, topics, commit times; Ctrl-C ends it.

    Rates are between two looks. Without a terminal, or on a dumb one, oms prints the views one after another. With
    --json each view is one line.
    """
    server = operator.Server(broker, user, password, ca_file)
    is_drawn = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not as_json
    before: Sample | None = None
    with _screen(is_drawn=is_drawn):
        for shown in _times(count, interval):
            try:
                seen: Sample | None = look(server, time.monotonic())
                failure = ""
            except Failure as refused:
                if not shown and not before:
                    raise
                seen, failure = None, str(refused)
            if as_json:
                output.print_json_line({"failure": failure} if seen is None else _document(seen))
            else:
                _print(view(seen, before) if seen is not None else [failure], is_drawn=is_drawn)
            sys.stdout.flush()
            before = seen or before


def _times(count: int, interval: float) -> Iterator[int]:
    """Yield numbers, so many or for ever, with the interval in between."""
    at = 0
    while True:
        yield at
        at += 1
        if at == count:
            return
        until = time.monotonic() + interval
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_SECONDS))


@contextmanager
def _screen(*, is_drawn: bool) -> Iterator[None]:
    if not is_drawn:
        yield
        return
    sys.stdout.write(ENTER)
    try:
        yield
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()


def _print(lines: Sequence[str], *, is_drawn: bool) -> None:
    if not is_drawn:
        for line in [*lines, ""]:
            output.print_line(line)
        return
    width, height = shutil.get_terminal_size()
    texts = [printable(line)[: width - 1] + LINE_END for line in lines[: height - 1]]
    sys.stdout.write(HOME + "\r\n".join(texts) + TO_THE_END)


def look(server: operator.Server, moment: float) -> Sample:
    """Ask the server for everything that is shown. Failure."""
    limit = [("limit", str(SERVICES_MAX))]
    (broker,) = server.get("info", "BROKER", has="rows")["rows"]
    if broker.get("refusal"):
        return Sample(moment=moment, broker=broker, statistics={}, latency={}, services=(), topics=())
    (statistics,) = server.get("info", "STATISTICS", has="rows")["rows"]
    return Sample(
        moment=moment,
        broker=broker,
        statistics=statistics,
        latency=server.get("info", "LATENCY", has="summary")["summary"],
        services=server.get("info", "SERVICE", has="rows", said=limit)["rows"],
        topics=server.get("info", "TOPIC", has="rows", said=limit)["rows"],
    )


def _document(seen: Sample) -> Mapping[str, Any]:
    names = ("broker", "statistics", "latency", "services", "topics")
    return {name: getattr(seen, name) for name in names}


# The view; pure.


def view(seen: Sample, before: Sample | None) -> list[str]:
    """Return the lines of one view."""
    broker = seen.broker
    head = f"{broker['broker_id']}  {broker['run_mode']}  up {age_text(broker['uptime'])}  {broker['partner']}".rstrip()
    if broker.get("refusal"):
        return [head, f"nobody can call now: {broker['refusal']}"]
    store = broker["store_type"] or "no store"
    if broker["store_type"]:
        free = "" if broker["free_bytes"] is None else f", {size_text(broker['free_bytes'])} free"
        store += f" {'connected' if broker['store_connected'] else 'NOT AVAILABLE'}{free}"
    if not broker["new_uow_messages"]:
        store += ", NO NEW UNITS OF WORK"
    rate = _Rates(seen, before)
    latency = seen.latency
    times = "  ".join(f"{name} {milliseconds(latency.get(name))}" for name in ("p50", "p99", "longest"))
    return [
        head,
        f"store {store}",
        f"units of work {broker['active_uows']:,} active, {broker['statuses']:,} statuses; "
        f"{broker['conversations']:,} conversations, {broker['participants']:,} participants, "
        f"{broker['calls_waiting']:,} calls waiting",
        f"per second: {rate.of('calls')} calls, {rate.of('accepted')} accepted, {rate.of('processed')} processed, "
        f"{rate.of('commits')} commits in {rate.of('groups')} groups",
        f"commit times: {times}",
        "",
        *_services(seen, before),
        *_topics(seen),
    ]


class _Rates:
    """How much a counter has grown in a second."""

    def __init__(self, seen: Sample, before: Sample | None) -> None:
        self._now = seen.statistics
        self._before = before.statistics if before is not None else {}
        self.seconds = seen.moment - before.moment if before is not None else 0.0

    def of(self, name: str) -> str:
        return rate_text(self._now, self._before, name, self.seconds)


def rate_text(now: Mapping[str, Any], before: Mapping[str, Any], name: str, seconds: float) -> str:
    """Return by how much a column has grown in a second; "-" where that is not known, as after a restart."""
    if name not in before or seconds <= 0 or now[name] < before[name]:
        return "-"
    found = (now[name] - before[name]) / seconds
    return f"{found:,.0f}" if found >= 10 or found == 0 else f"{found:.1f}"


def _services(seen: Sample, before: Sample | None) -> list[str]:
    """Return the services, those first where most waits."""
    earlier = {_name(row): row for row in before.services} if before is not None else {}
    seconds = seen.moment - before.moment if before is not None else 0.0
    rows = []
    for row in sorted(seen.services, key=lambda each: (-each["waiting"], -each["accepted"], _name(each))):
        last = earlier.get(_name(row), {})
        rows.append(
            [
                _name(row),
                f"{row['servers']:,}",
                f"{row['waiting']:,}",
                f"{row['delivering']:,}",
                "-" if row["oldest_age"] is None else age_text(row["oldest_age"]),
                rate_text(row, last, "accepted", seconds),
                rate_text(row, last, "processed", seconds),
                f"{row['given_back']:,}",
            ]
        )
    return _table(["service", "servers", "waiting", "delivering", "oldest", "in/s", "out/s", "given back"], rows)


def _topics(seen: Sample) -> list[str]:
    rows = [
        [row["topic"], f"{row['subscribers']:,}", f"{row['publications']:,}", f"{row['largest_lag']:,}"]
        for row in sorted(seen.topics, key=lambda each: (-each["largest_lag"], each["topic"]))
    ]
    return ["", *_table(["topic", "subscribers", "publications", "furthest behind"], rows)] if rows else []


def _name(row: Mapping[str, Any]) -> str:
    return "/".join((row["server_class"], row["server_name"], row["service"]))


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in (titles, *rows)
    ]
