"""The columns of a footer: numbers that lie on a line take no bytes, others as many as the largest needs.

    width       a row's value is
    0           base + step × row, modulo 2^64
    1, 2, 4, 8  base + the little-endian number of so many bytes, modulo 2^64

Each is decoded when it is first asked for, since a start needs only some of them.
"""

import numpy as np
import numpy.typing as npt

from oms_journal.journal.format.rows import COLUMNS

Entry = tuple[int, int, int, int, int]  # of the directory: id, width, base, step, size
U64 = (1 << 64) - 1


def encode_column(values: npt.NDArray[np.int64]) -> tuple[int, int, int, bytes]:
    """Return width, base, step and bytes of a column."""
    if not len(values):
        return 0, 0, 0, b""
    first = int(values[0])
    numbers = values.astype(values.dtype.str.replace("i", "u")).astype(np.uint64)
    step = (int(numbers[1]) - int(numbers[0])) & U64 if len(values) > 1 else 0
    if len(values) <= 2 or bool((np.diff(numbers) == np.uint64(step)).all()):
        return 0, first & U64, step, b""
    lowest = int(values.min())
    above = numbers - np.uint64(lowest & U64)
    highest = int(above.max())
    width = next(width for width in (1, 2, 4, 8) if highest < 1 << 8 * width)
    return width, lowest & U64, 0, above.astype(f"<u{width}").tobytes()


class Columns(dict[str, npt.NDArray[np.int64]]):
    """The columns of a footer, each decoded when it is first asked for: a start needs only some of them."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows
        self.encoded: dict[str, tuple[Entry, memoryview]] = {}

    def line(self, name: str) -> tuple[int, int] | None:
        """Return (base, step) of a column whose values lie on a line; None for any other."""
        (_, width, base, step, _), _ = self.encoded[name]
        return None if width else (base, step)

    def bounds(self, name: str) -> tuple[int, int]:
        """Return a lowest and a highest value; what goes round beyond 64 bits is as high as can be."""
        (_, width, base, step, _), data = self.encoded[name]
        if not width:
            last = base + (step if step < 1 << 63 else step - (1 << 64)) * (self.rows - 1)
            return (min(base, last), max(base, last)) if last >= 0 else (0, U64)
        return base, base + int(np.frombuffer(data, f"<u{width}").max())

    def narrow(self, name: str, unit: int = 1) -> npt.NDArray[np.uint32]:
        """Return a column of values below 2^32 × unit, divided by the unit, with as few passes as it takes."""
        (_, width, base, step, _), data = self.encoded[name]
        if width == 0 and step == 0:
            return np.full(self.rows, base // unit, np.uint32)
        first, by = base // unit, step // unit
        is_low = first + self.rows * by < 1 << 32  # a column that descends has a step just below 2^64
        if width == 0 and step % unit == base % unit == 0 and is_low:
            return np.arange(first, first + self.rows * by, by, dtype=np.uint32)
        if width in (1, 2, 4) and base % unit == 0 and unit == 1:
            values: npt.NDArray[np.uint32] = np.frombuffer(data, f"<u{width}").astype(np.uint32)
            return values + np.uint32(base)
        return (self[name] // unit).astype(np.uint32)

    def __missing__(self, name: str) -> npt.NDArray[np.int64]:
        entry, data = self.encoded[name]
        column = self[name] = _decoded(entry, data, name, self.rows)
        return column


def _decoded(entry: Entry, data: memoryview, name: str, rows: int) -> npt.NDArray[np.int64]:
    _, width, base, step, _ = entry
    kind = COLUMNS[name]
    if width == 0:
        values = np.arange(rows, dtype=np.uint64) * np.uint64(step) if step else np.zeros(rows, np.uint64)
    else:
        values = np.frombuffer(data, f"<u{width}", rows).astype(np.uint64)
    if base:
        values += np.uint64(base)
    found: npt.NDArray[np.int64] = values.view(np.int64) if kind == "i8" else values.astype(f"<{kind}", copy=False)
    return found
