"""How long `oms verify` takes in relation to hashing the same bytes, of a whole database and of a damaged one."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.datasets import Growing, data_bytes, data_files
from bench.measure import Row, Settings, time_text
from oms_journal.journal.disk import RealDisk
from oms_journal.journal.reading.datafile import DataFile, Footer
from oms_journal.recovery.validation import validate_directory

SIZE = 256  # bytes of a payload
BOUND = 20.0


def verify(settings: Settings) -> Iterator[Row]:
    """Every payload against its checksum: all of them right, and one wrong in each file."""
    path = Growing(settings, SIZE).grow(settings.data_bytes)
    yield _row(settings, path, "verify", "`oms verify`", 0)
    count = sum(_spoiled(file) for file in data_files(path))
    yield _row(settings, path, "verify-damaged", "`oms verify` with a bad payload in each file", count)


def _row(settings: Settings, path: Path, name: str, what: str, bad_count: int) -> Row:
    def verify() -> None:
        reports = validate_directory(path, payloads=True)
        assert sum(report.unreadable_count for report in reports) == bad_count

    return against_hash(settings, path, verify, (name, f"{what} of messages of {SIZE} B"), BOUND)


def against_hash(
    settings: Settings, path: Path, run: Callable[[], object], named: tuple[str, str], bound: float
) -> Row:
    """Return the row, by name and text, of what takes so much longer than hashing all data files of a directory."""
    raw, ours = [], []
    for _ in range(settings.rounds):
        raw.append(timed_hash(path))
        began = time.perf_counter()
        run()
        ours.append(time.perf_counter() - began)
    name, what = named
    return Row(
        name=name,
        what=f"{what} against XXH3 over their files",
        measured=[one / other for one, other in zip(ours, raw, strict=True)],
        bound=bound,
        is_most=True,
        raw=time_text(raw),
        ours=time_text(ours),
        note=f"{data_bytes(path) / 1e6:,.0f} MB in {len(data_files(path))} files",
    )


def timed_hash(path: Path) -> float:
    """Return how many seconds it takes to hash all data files of a directory."""
    began = time.perf_counter()
    for each in data_files(path):
        with DataFile(RealDisk(), each) as file:
            file.checksum(file.size())
    return time.perf_counter() - began


def _spoiled(path: Path) -> int:
    """Change the last byte of a payload in the middle of the file; return how many messages that makes unreadable."""
    with DataFile(RealDisk(), path) as file:
        footer = file.footer(identity=None)
    assert isinstance(footer, Footer), "a clean close has sealed it"
    offsets = footer.contents().columns["offset"]
    if len(offsets) < 2:
        return 0
    at = int(offsets[len(offsets) // 2]) - 1  # sizes are multiples of 8: nothing stands between two of them
    data = path.read_bytes()
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    return 1
