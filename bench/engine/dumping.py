"""How long `oms dump` takes in relation to hashing the same bytes: of sealed files, and of files without footers."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from bench.datasets import Growing, data_bytes, data_files
from bench.engine.verifying import SIZE, timed_hash
from bench.measure import Row, Settings, time_text
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
    raw, ours = [], []
    for _ in range(settings.rounds):
        raw.append(timed_hash(path))
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
            began = time.perf_counter()
            dump_command([path], as_json=True)
            ours.append(time.perf_counter() - began)
    return Row(
        name=name,
        what=f"{what} of messages of {SIZE} B against XXH3 over their files",
        measured=[one / other for one, other in zip(ours, raw, strict=True)],
        bound=bound,
        is_most=True,
        raw=time_text(raw),
        ours=time_text(ours),
        note=f"{data_bytes(path) / 1e6:,.0f} MB in {len(data_files(path))} files",
    )


def _unseal(path: Path) -> None:
    """Take the file's footer off, as if the process had been killed before it wrote it."""
    with DataFile(RealDisk(), path) as file:
        footer = file.footer(identity=None)
    assert isinstance(footer, Footer), "a clean close has sealed it"
    os.truncate(path, footer.summary.end)
