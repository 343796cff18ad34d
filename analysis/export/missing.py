"""Which data files are not in a lake, or only in part: told in a table beside the Parquet files, row by row.

    column      means
    database    identity of the database, 32 hexadecimal digits
    first_file  name of a data file
    last_file   name of the last data file of a run of neighbours for which the same is true
    files       how many these are
    reason      cleaned-up: clean-up had deleted it before it was exported; lost: it is still needed, and is not there;
                in-part: it was exported while it was written, and was deleted then: its end may not be there

The table is `_missing.csv` in the folder of the database. A file that turns up, in a retention directory perhaps, is
exported, and is not in the table any more.
"""

import csv
import io
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, fields

from oms_journal.analysis.export.place import MISSING, Place
from oms_journal.journal.names import DataFileName
from oms_journal.journal.names import parse as parse_name

CLEANED_UP, LOST, IN_PART = "cleaned-up", "lost", "in-part"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Data files that follow one another, and are not in the lake for the same reason."""

    database: str
    first_file: str
    last_file: str
    files: int
    reason: str

    def __str__(self) -> str:
        return self.first_file if self.files == 1 else f"{self.first_file} to {self.last_file} ({self.files:,} files)"


HEADS = tuple(field.name for field in fields(Missing))


def read_missing(place: Place, database: str) -> dict[int, str]:
    """Return why each data file of a database is not there, by its sequence, as the table says."""
    data = place.read(f"{database}/{MISSING}")
    found: dict[int, str] = {}
    for row in csv.DictReader(io.StringIO((data or b"").decode("utf-8", "replace"))):
        first, last = parse_name(row.get("first_file") or ""), parse_name(row.get("last_file") or "")
        if isinstance(first, DataFileName) and isinstance(last, DataFileName):
            found |= dict.fromkeys(range(first.sequence, last.sequence + 1), row.get("reason") or CLEANED_UP)
    return found


def write_missing(place: Place, database: str, reasons: Mapping[int, str]) -> None:
    """Put the table into its file, or remove it where no data file is missing; CannotWrite."""
    name = f"{database}/{MISSING}"
    if not reasons:
        place.remove(name)
        return
    with place.replaced(name) as path, path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, HEADS, lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) for row in rows(database, reasons))


def rows(database: str, reasons: Mapping[int, str]) -> Iterator[Missing]:
    """Yield a row for each run of neighbours."""
    run: list[int] = []
    for sequence in sorted(reasons):
        if run and (sequence != run[-1] + 1 or reasons[sequence] != reasons[run[0]]):
            yield _row(database, run, reasons)
            run = []
        run.append(sequence)
    if run:
        yield _row(database, run, reasons)


def _row(database: str, run: list[int], reasons: Mapping[int, str]) -> Missing:
    first, last = (str(DataFileName(sequence)) for sequence in (run[0], run[-1]))
    return Missing(database=database, first_file=first, last_file=last, files=len(run), reason=reasons[run[0]])


def named_by(previous: Mapping[int, int], known: Collection[int]) -> set[int]:
    """Return the data files that must have been, and are not among the known ones.

    `previous` says of each file that is there which one its header names as the one before it. All between that one
    and the next lower one that is known were there too; where the numbers jump, the header says so.
    """
    ordered = sorted(known)
    found: set[int] = set()
    below = 0
    for sequence in ordered:
        found |= set(range(below + 1, previous.get(sequence, 0) + 1))
        below = sequence
    return found
