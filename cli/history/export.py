"""`oms export --parquet DIR`: writes sealed data files as Parquet, for DuckDB, Polars, pandas and Spark."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oms_journal.cli import options, output
from oms_journal.cli.failures import ExitCode, Failure, Usage
from oms_journal.cli.output import counted, size_text
from oms_journal.cli.progress import ProgressBar
from oms_journal.cli.stores import require, require_any

if TYPE_CHECKING:  # Arrow is imported when the command runs
    from oms_journal.analysis.export import Exported
    from oms_journal.analysis.reading.parts import Damage


def export(  # noqa: PLR0913
    parquet: Annotated[
        Path, typer.Option("--parquet", metavar="DIR", help="Write the Parquet files into this directory.")
    ],
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Read these spool or retention directories, data files or globs; s3a://… too.  [default: the spool]",
        ),
    ] = None,
    properties: Annotated[bool, typer.Option("--properties", help="Export the messages' properties too.")] = False,
    payload: Annotated[bool, typer.Option("--payload", help="Export payloads and values too.")] = False,
    spool: options.Spool = options.SPOOL_DEFAULT,
    as_json: options.AsJson = False,
) -> None:
    """Write the operations of sealed data files as Parquet.

    You get one Parquet file for each data file, with the columns that the Spark source has. oms leaves alone what is
    there already, so you can run it again and again. The file that is being written comes when it is sealed. You need
    neither the lock nor Java. oms exits 1 when it could not read a part of a file.
    """
    if not paths:
        require(spool)
    columns = [name for name, is_wanted in (("properties", properties), ("payload", payload)) if is_wanted]
    found = _export(paths or [str(spool)], parquet, columns)
    bad = [damage for damage in found.damages if damage.kind != "gap"]
    if as_json:
        output.print_json(_document(found, parquet))
    else:
        _print_exported(found, bad, parquet)
    if bad:
        raise typer.Exit(ExitCode.NO)


def _export(paths: list[str], directory: Path, more: list[str]) -> "Exported":
    try:
        from oms_journal.analysis.export import export as exported
        from oms_journal.analysis.reading.schema import default_columns
        from oms_journal.analysis.storage import NoJournal
    except ImportError as missing:
        library = missing.name or missing
        raise Failure(
            f"Parquet takes packages that are not installed ({library}): pip install 'oms-journal[parquet]'",
            ExitCode.UNUSABLE,
            error="NotInstalled",
        ) from missing
    require_any(paths)
    try:
        with ProgressBar() as bar:
            return exported(
                paths,
                directory,
                columns=default_columns(options=["file", *more]),
                progress=lambda name, done, total: bar("export", done, total, detail=name),
            )
    except NoJournal as nothing:
        raise Usage(f"{nothing}; give the right one with PATH", error=type(nothing).__name__) from nothing


def _print_exported(found: "Exported", bad: "list[Damage]", directory: Path) -> None:
    for damage in bad:
        output.note(str(damage))
    rows = counted(found.rows, "operation")
    files = counted(len(found.written), "Parquet file")
    output.print_line(f"{files} written, {rows} in {size_text(found.bytes)}; {len(found.there):,} were there already.")
    if found.unsealed:
        output.print_line(f"Not sealed, and left out: {', '.join(found.unsealed)}")
    output.print_line(f"The files: {directory.absolute()}")


def _document(found: "Exported", directory: Path) -> dict[str, object]:
    damages = [
        {"file": one.file, "start": one.start, "end": one.end, "kind": one.kind, "reason": one.reason}
        for one in found.damages
    ]
    names = {"written": found.written, "there": found.there, "unsealed": found.unsealed}
    return {"directory": str(directory.absolute()), **names, "rows": found.rows, "bytes": found.bytes} | {
        "damages": damages
    }
