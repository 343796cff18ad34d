"""The report's tables, read back from their Parquet files; what can be large is gone through in batches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

BATCH_ROWS = 1 << 16
Row = Mapping[str, Any]  # of a table, by column; on the page with `label`: how it calls the row's queue or key


@dataclass(frozen=True, slots=True)
class Tables:
    """A directory with a folder of Parquet files for each table."""

    directory: Path

    def files(self, name: str) -> list[Path]:
        """Return the table's files."""
        return sorted((self.directory / name).glob("*.parquet"))

    def count(self, name: str) -> int:
        """Return how many rows the table has."""
        return sum(pq.read_metadata(file).num_rows for file in self.files(name))

    def count_by(self, name: str, column: str, where: ds.Expression | None = None) -> dict[str, int]:
        """Return how many rows the table has for each value of a column."""
        counts: dict[str, int] = {}
        for table in self.batches(name, [column], where):
            for value in pc.value_counts(table[column]).to_pylist():
                counts[value["values"]] = counts.get(value["values"], 0) + value["counts"]
        return counts

    def sum_by(self, name: str, by: str, column: str, where: ds.Expression | None = None) -> dict[str, int]:
        """Return the sum of a column for each value of another one."""
        sums: dict[str, int] = {}
        for table in self.batches(name, [by, column], where):
            for row in table.group_by(by).aggregate([(column, "sum")]).to_pylist():
                sums[row[by]] = sums.get(row[by], 0) + (row[f"{column}_sum"] or 0)
        return sums

    def first(
        self, name: str, order: Mapping[str, str], count: int, where: ds.Expression | None = None
    ) -> list[dict[str, Any]]:
        """Return the first rows in an order, like `{"messages": "descending"}`; nulls stand last."""
        kept: pa.Table | None = None
        for table in self.batches(name, where=where):
            both = table if kept is None else pa.concat_tables([kept, table])
            kept = both.sort_by(list(order.items())).slice(0, count)
        return [] if kept is None else kept.to_pylist()

    def read(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the whole table, or some of its columns: for tables that grow with queues, files or time alone."""
        return self._dataset(name).to_table(columns=None if columns is None else list(columns))

    def batches(
        self, name: str, columns: Sequence[str] | None = None, where: ds.Expression | None = None
    ) -> Iterator[pa.Table]:
        """Yield the table, or some of its columns and rows, in parts."""
        for batch in self._dataset(name).to_batches(columns=columns, filter=where, batch_size=BATCH_ROWS):
            if batch.num_rows:
                yield pa.Table.from_batches([batch])

    def _dataset(self, name: str) -> ds.Dataset:
        return ds.dataset([str(file) for file in self.files(name)], format="parquet")
