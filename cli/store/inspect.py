"""`oms stats`, `oms explain`, `oms verify`: shows figures, says what keeps each file, and checks every byte.

All three only read, need no lock, and work on a running database.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated

import typer

from oms_journal.cli import options, output
from oms_journal.cli.failures import ExitCode
from oms_journal.cli.messages.messages import fullest, print_queues
from oms_journal.cli.output import age_text, counted, printable, size_text
from oms_journal.cli.progress import ProgressBar
from oms_journal.cli.stores import require, view
from oms_journal.recovery.report import FileReport, Unreadable

if TYPE_CHECKING:  # the engine, which the help needs nothing of
    from oms_journal.database.stats import FileExplanation, Pin, Stats

QUEUES_SHOWN = 10
UNREADABLE_SHOWN = 10


def stats(spool: options.Spool = options.SPOOL_DEFAULT, as_json: options.AsJson = False) -> None:
    """Show files, bytes, queues, and what pins the oldest file.

    `live` is what of the files is still needed. `pinned by` is the oldest message or key that is still needed: it keeps
    its data file and all later ones. oms shows the ten fullest queues; `oms list` shows all. oms changes nothing, and
    works on a running database.
    """
    with view(spool) as looking:
        found = looking.stats()
        owner = looking.owner
    if as_json:
        holder_facts = None if owner is None else {"pid": owner.pid, "host": owner.host, "is_open": owner.is_open}
        output.print_json(found.as_dict() | {"holder": holder_facts})
        return
    holder = f"open in process {owner.pid} on {owner.host}" if owner is not None and owner.is_open else "not open"
    _print_stats(found, holder)


def _print_stats(found: "Stats", holder: str) -> None:
    share = f" ({found.live_bytes / found.bytes:.1%})" if found.bytes else ""
    facts = {
        "spool": f"{found.directory}  ({holder})",
        "files": f"{found.files:,}, {size_text(found.bytes)}",
        "live": f"{size_text(found.live_bytes)}{share}",
        "undelivered": f"{found.undelivered:,} in {counted(len(found.queues), 'queue')}",
        "held back": f"{found.held:,} of these; look with `oms list --held`" if found.held else "",
        "keys": f"{found.keys:,}",
        "archives": f"{found.archives:,}, {size_text(found.archive_bytes)}" if found.archives else "none",
        "free": f"{size_text(found.free_bytes)} on the file system",
        "pinned by": _pin_text(found.pinned_by) if found.pinned_by else "nothing: the oldest file can go",
    }
    for name, value in facts.items():
        if value:
            output.print_line(f"{name:11}  {value}")
    if found.queues:
        output.print_line()
        print_queues(fullest(found.queues)[:QUEUES_SHOWN])
    if len(found.queues) > QUEUES_SHOWN:
        output.print_line(f"… and {len(found.queues) - QUEUES_SHOWN:,} more queues; `oms list` shows all")


def _pin_text(pin: "Pin") -> str:
    if pin.kind == "key":
        return f"key {pin.key}, in file {pin.sequence}" if pin.key else f"a key of the engine, in file {pin.sequence}"
    return f"message {pin.number} of queue {pin.queue}, {age_text(pin.age)} old, in file {pin.sequence}"


def explain(spool: options.Spool = options.SPOOL_DEFAULT, as_json: options.AsJson = False) -> None:
    """Say why each data file is still there, and what could go.

    For each file you see what keeps it (`kept by`), how many later files it keeps (`pins`), and how much `oms cleanup
    --compact` would free of it (`can free`). oms changes nothing, and works on a running database.
    """
    with view(spool) as looking:
        files = looking.explain()
    if as_json:
        output.print_json({"files": [file.as_dict() for file in files]})
        return
    if not files:
        output.print_line("There are no data files.")
        return
    _print_explanations(files)
    for sentence in _conclusions(files):
        output.print_line(sentence)


def _print_explanations(files: "Iterable[FileExplanation]") -> None:
    columns = (
        output.number_column("file"),
        output.number_column("size"),
        output.number_column("live"),
        output.number_column("messages"),
        output.number_column("keys"),
        output.Column("kept by", shrinks=True),
        output.number_column("pins"),
        output.number_column("can free"),
    )
    output.print_table(
        columns,
        (
            (
                str(file.sequence),
                size_text(file.bytes),
                f"{file.live_bytes / file.bytes:.0%}" if file.bytes else "",
                f"{file.live_messages:,}",
                f"{file.live_keys:,}",
                _kept_by(file, older),
                f"{file.pins_files:,}" if file.pins_files else "",
                size_text(file.freed_by_compact) if file.freed_by_compact else "",
            )
            for file, older in _with_older(files)
        ),
    )


def _with_older(files: "Iterable[FileExplanation]") -> "Iterable[tuple[FileExplanation, FileExplanation | None]]":
    """Yield each file with the nearest older one that is needed: it keeps the file, whatever the file holds."""
    older = None
    for file in files:
        yield file, older
        older = file if file.needed else older


def _kept_by(file: "FileExplanation", older: "FileExplanation | None") -> str:
    if file.active:
        return "active"
    if file.pinned_by is None:
        return f"file {older.sequence}, an older one" if older is not None else "nothing: can go"
    pin = file.pinned_by
    if pin.kind == "key":
        return f"key {pin.key}" if pin.key else "a key of the engine"
    return f"{pin.queue} #{pin.number}, {age_text(pin.age)}"


def _conclusions(files: "list[FileExplanation]") -> Iterable[str]:
    """Yield what follows from the table, in words."""
    dead = list(takewhile(lambda file: not file.needed and not file.active, files))
    if dead:
        yield f"`oms cleanup` would free {size_text(sum(file.bytes for file in dead))}."
    freed = sum(file.freed_by_compact for file in files)
    compacts = any(file.freed_by_compact for file in files[len(dead) :])
    first = next((file for file in files if file.pinned_by is not None), None)
    if first is not None and first.pinned_by is not None and first.pins_files:
        later = counted(first.pins_files, "later file")
        yield f"File {first.sequence} keeps {later}: {_pin_text(first.pinned_by)}."
        if not compacts:
            yield f"No clean-up frees them before what file {first.sequence} holds is delivered, deleted or dropped."
    if compacts:
        yield f"`oms cleanup --compact` would free {size_text(freed)}."


def verify(
    quick: Annotated[
        bool, typer.Option("--quick", help="Check the files' checksums only, not those of each message.")
    ] = False,
    spool: options.Spool = options.SPOOL_DEFAULT,
    as_json: options.AsJson = False,
) -> None:
    """Say whether each data file is clean, torn or damaged.

    oms reads every byte. It says where a file is bad, and which messages and values it cannot read. It changes nothing
    and needs no lock. It works on a backup too. It exits 1 when a file is not clean, or when it cannot read a message
    or a value.
    """
    require(spool)
    from oms_journal.database.backup.verification import verify_backup
    from oms_journal.recovery.validation import validate_directory

    with ProgressBar() as progress:
        files = verify_backup(spool, progress=progress, payloads=not quick)
        is_backup = files is not None
        if files is None:
            files = validate_directory(spool, progress=progress, payloads=not quick)
    print_verdicts(files, as_json=as_json, is_backup=is_backup, payloads=not quick)


def print_verdicts(
    files: Sequence[FileReport], *, as_json: bool, is_backup: bool = True, payloads: bool = True
) -> None:
    """Print the verdicts on data files; the command ends with 1 where one is not clean, or not all can be read."""
    count = sum(file.unreadable_count for file in files)
    intact = not count and all(file.verdict == "clean" for file in files)
    if as_json:
        told = [one.as_dict() for file in files for one in file.unreadable]
        verdicts = [file.as_dict() for file in files]
        known = {"unreadable_count": count, "unreadable": told} if payloads else {}
        output.print_json({"intact": intact, "payloads": payloads, "files": verdicts, **known})
    else:
        _print_verdicts(files, is_backup=is_backup, payloads=payloads)
    if not intact:
        raise typer.Exit(ExitCode.NO)


def _print_verdicts(files: Sequence[FileReport], *, is_backup: bool, payloads: bool) -> None:
    bad = [file for file in files if file.verdict != "clean"]
    if bad:
        columns = (
            output.Column("file"),
            output.Column("verdict"),
            output.number_column("good end"),
            output.Column("reason", wraps=True),
        )
        output.print_table(columns, ((file.name, file.verdict, f"{file.good_end:,}", file.reason) for file in bad))
    unreadable = sum(file.unreadable_count for file in files)
    told = [one for file in files for one in file.unreadable]
    for one in told[:UNREADABLE_SHOWN]:
        output.print_line(_unreadable_text(one))
    if unreadable > UNREADABLE_SHOWN:
        output.print_line(f"… and {unreadable - UNREADABLE_SHOWN:,} more that cannot be read")
    total = size_text(sum(file.size for file in files))
    count = counted(len(files), "file")
    looked = "every message was read" if payloads else "only the files were hashed, since --quick was given"
    if bad:
        advice = "`oms backup` with --reread brings them anew" if is_backup else "`oms recover` repairs"
        output.print_line(f"{len(bad):,} of {count} ({total}) not clean; {advice}.")
    elif unreadable:
        what = counted(unreadable, "message or value", "messages or values")
        output.print_line(f"{what} cannot be read; {count}, {total}, clean otherwise. `oms delete` gives a message up.")
    else:
        output.print_line(f"Intact: {count}, {total}; {looked}.")


def _unreadable_text(one: Unreadable) -> str:
    known = {"message": f"message {one.number} of queue {one.name}", "key": f"the value of key {one.name}"}
    what = printable(known.get(one.kind, "a commit"))
    return f"CANNOT BE READ: {what}, in {one.file} at byte {one.offset:,}: {one.reason}"
