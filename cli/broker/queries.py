"""`oms info`: shows what a running broker knows, as a table for people, or as the server's JSON."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from oms_journal.cli import options, output
from oms_journal.cli.broker import operator
from oms_journal.cli.failures import ExitCode, Usage
from oms_journal.cli.output import Column, age_text, number_column, size_text

# What a person wants to see first; --columns has all others.
_SHOWN: Mapping[str, str] = {
    "SERVICE": "service servers waiting sending delivering conversations oldest_age accepted processed given_back",
    "SERVER": "user_id token client_id service conversations delivering calls_waiting quiescing idle",
    "CLIENT": "user_id token client_id topics conversations sending delivering calls_waiting idle",
    "PARTICIPANT": "user_id token client_id services topics conversations sending delivering calls_waiting idle",
    "CONVERSATION": "conv_id type service client_user server_user state waiting_for_server waiting_for_client begun",
    "PSF": "uowid conv_id status service sender_user receiver_user messages size delivery_count committed ends_in",
    "UOW-STATISTICS": "service active messages bytes most_messages most_bytes oldest newest",
    "TOPIC": "topic publications subscribers durable_subscribers largest_lag oldest_age published ended",
    "SUBSCRIBER": "topic user_id token durable lag outstanding active ends_in",
    "PUBLICATION": "publication_id topic user_id status messages size remaining committed ends_in",
    "FILES": "name active bytes live_bytes dead_bytes live_messages live_keys pinned_by pins_files",
}
_SIZES = frozenset(
    ("size", "bytes", "live_bytes", "dead_bytes", "most_bytes", "free_bytes", "kept_bytes", "freed_by_compact")
) | {"min_free_space", "max_uow_message_length"}
_AGES = frozenset(
    ("oldest_age", "idle", "ends_in", "back_in", "uptime", "lifetime", "status_lifetime", "uwtime", "pseudo_clock")
) | {"client_nonact", "server_nonact", "conv_nonact", "control_interval", "publication_lifetime"}
_TIMES = frozenset(("p50", "p90", "p99", "p999", "longest"))
BAR = 40  # characters of the longest bar

QueryWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[OBJECT] [NAME=VALUE]...",
        help="What to show, and which rows; without an object, what there is.",
        show_default=False,
    ),
]


def query(  # noqa: PLR0913 - the command line's options
    words: QueryWords = None,
    columns: Annotated[
        str, typer.Option("--columns", "-c", metavar="A,B,…", help="Show these columns; `all` shows all of them.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", "-l", min=1, metavar="N", help="Show at most so many rows.")] = 100,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Show all rows, however many.")] = False,
    broker: operator.Broker = operator.BROKER_DEFAULT,
    user: operator.User = "",
    password: operator.Password = "",
    ca_file: operator.CaFile = "",
    as_json: options.AsJson = False,
) -> None:
    """Show what a running broker knows: services, units of work, files …

    `oms info` lists what you can ask. With NAME=VALUE you pick rows, and * stands for any characters: `oms info PSF
    status=ACCEPTED service=GAME/CHESS/BLACK`. oms exits 1 when it found nothing.
    """
    server = operator.Server(broker, user, password, ca_file)
    plain, said = operator.said_of(words or ())
    if len(plain) > 1:
        raise Usage(f"one object is asked for at a time, not {' and '.join(plain)}; rows are picked with NAME=VALUE")
    if "" in plain:
        raise Usage("OBJECT is an empty text; `oms info` lists what can be asked")
    if not plain:
        _list(server.get("info", has="objects"), as_json=as_json)
        return
    found = _pages(server, plain[0], said, None if everything else limit)
    if as_json:
        output.print_json(found)
    else:
        _show(found, columns)
    if not found["rows"]:
        raise typer.Exit(ExitCode.NO)


def _pages(server: operator.Server, name: str, said: Sequence[tuple[str, str]], limit: int | None) -> dict[str, Any]:
    """Return the answer with the rows of as many pages as it takes."""
    most = 1000
    rows: list[Any] = []
    cursor = ""
    while True:
        wanted = most if limit is None else min(most, limit - len(rows))
        more = [("limit", str(wanted)), *([("cursor", cursor)] if cursor else [])]
        found = server.get("info", name, has="rows", said=[*said, *more])
        rows += found["rows"]
        cursor = found["next"] or ""
        if not cursor or (limit is not None and len(rows) >= limit):
            return found | {"rows": rows, "count": len(rows)}


def _list(there: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.print_json(there)
        return
    rows = [(each["object"], each["says"], ", ".join(each["selectors"])) for each in there["objects"]]
    output.print_table([Column("object"), Column("shows"), Column("selectors", wraps=True)], rows)


def _show(found: Mapping[str, Any], columns: str) -> None:
    rows, name = found["rows"], found["object"]
    if not rows:
        output.print_line(found["text"])
        return
    names = _columns(name, rows[0], columns)
    if name == "LATENCY" and not columns:
        _histogram(rows)
    elif len(rows) == 1 and name in ("BROKER", "STATISTICS"):
        width = max(map(len, names))
        for each in names:
            output.print_line(f"{each:{width}}  {shown(each, rows[0].get(each))}")
    else:
        _table(names, rows)
    if found["summary"]:
        output.print_line()
        output.print_line(", ".join(f"{key} {_sum(key, value)}" for key, value in found["summary"].items()))
    if found["next"]:
        of = f" of {found['total']:,}" if found["total"] is not None else ""
        output.print_line()
        output.print_line(f"the first {len(rows):,}{of}; --all shows the rest")


def _columns(name: str, row: Mapping[str, Any], said: str) -> list[str]:
    if said == "all":
        return list(row)
    if not said:
        return [each for each in _SHOWN.get(name, " ".join(row)).split() if each in row]
    names = [each.strip().replace("-", "_").lower() for each in said.split(",")]
    unknown = sorted(set(names) - set(row))
    if unknown:
        near = get_close_matches(unknown[0], row, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise Usage(
            f"{name} has no column {unknown[0] or 'without a name'}; {meant}`--columns all` shows all {len(row)}"
        )
    return names


def _table(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    is_number = {name: all(isinstance(row[name], int | float) or row[name] is None for row in rows) for name in names}
    columns = [
        number_column(_title(name)) if is_number[name] else Column(_title(name), wraps=name in ("services", "topics"))
        for name in names
    ]
    output.print_table(columns, [[shown(name, row[name], row) for name in names] for row in rows])


def _title(name: str) -> str:
    return name.replace("_", " ")


def shown(name: str, value: Any, row: Mapping[str, Any] | None = None) -> str:
    """Return a value as a person reads it."""
    if name == "service" and row is not None and "server_class" in row:
        return "/".join((row["server_class"], row["server_name"], value))
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    if isinstance(value, dict):
        if name == "pinned_by":
            return f"{value['kind']} {value['number'] or value['key']}"
        return ", ".join(f"{key} {each}" for key, each in value.items()) or "-"
    if name in _SIZES:
        return size_text(value)
    if name in _AGES:
        return age_text(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}" if isinstance(value, float) else str(value)


def _sum(name: str, value: Any) -> str:
    return milliseconds(value) if name in _TIMES else shown(name, value)


def milliseconds(seconds: float | None) -> str:
    """Return a short time as a person reads it."""
    return "-" if seconds is None else f"{seconds * 1000:.3g} ms"


def _histogram(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the buckets that hold something, and those between them, with bars."""
    held = [at for at, row in enumerate(rows) if row["count"]]
    if not held:
        output.print_line("nothing was committed yet")
        return
    most = max(row["count"] for row in rows)
    part = rows[held[0] : held[-1] + 1]
    cells = [
        (
            milliseconds(row["to"]) if row["to"] is not None else f"over {milliseconds(row['from'])}",
            f"{row['count']:,}",
            "█" * -(-BAR * row["count"] // most),
        )
        for row in part
    ]
    output.print_table([number_column("up to"), number_column("groups"), Column("")], cells)
