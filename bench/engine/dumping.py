"""How long `oms dump` takes in relation to hashing the same bytes: of sealed files, and of files without footers."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from bench.datasets import Growing, data_files
from bench.engine.verifying import SIZE, against_hash
from bench.measure import Row, Settings
from oms_journal.cli.history.dump import dump as dump_command
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.reading.datafile import DataFile, Footer

BOUND = 100.0
BOUND_WALKED = 400.0


def dump(settings: Settings) -> Iterator[Row]:
    """Every operation as a line of JSON."""
    path = Growing(settings, SIZE).grow(settings.data_bytes)
    yield _row(settings, path, "dump", "`oms dump --json`", BOUND)
    for file in data_files(path):
        _unseal(file)
    yield _row(settings, path, "dump-walked", "`oms dump --json` without footers", BOUND_WALKED)


def _row(settings: Settings, path: Path, name: str, what: str, bound: float) -> Row:
    def dump() -> None:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
            dump_command([path], as_json=True)

    return against_hash(settings, path, dump, (name, f"{what} of messages of {SIZE} B"), bound)


def _unseal(path: Path) -> None:
    """Take the file's footer off, as if the process had been killed before it wrote it."""
    with DataFile(RealDisk(), path) as file:
        footer = file.footer(identity=None)
    assert isinstance(footer, Footer), "a clean close has sealed it"
    os.truncate(path, footer.summary.end)
